"""What predicts at once in private pictures."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl import ISRLDPClassifier
from skdpfl.inspection import DPConfusionMatrixDisplay
from skdpfl.model_selection import scoring

X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
Y = (X[:, 0] > 0).astype(int)


def test_known_estimators_predict_at_once(monkeypatch):
    calls, real = [], scoring._predictions
    monkeypatch.setattr(scoring, "_predictions", lambda *args: calls.append(args) or real(*args))
    ours = ISRLDPClassifier(epsilon=np.inf, feature_bounds=(-1, 1)).fit(X, Y)
    pipe = make_pipeline(FunctionTransformer(np.tanh), LogisticRegression()).fit(X, Y)
    for number, model in enumerate((ours, pipe), start=1):
        DPConfusionMatrixDisplay.from_estimator(model, X, Y, epsilon=1.0)
        assert len(calls) == number
