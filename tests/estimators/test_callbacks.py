"""Callbacks over rounds (scikit-learn 1.9 on), early stopping."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from skdpfl import ISRLDPClassifier
from skdpfl.exceptions import PrivacyLeakWarning

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn < 1.9")

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)


def model(**params):
    params = {"n_rounds": 6, "scaling": None, "learning_rate": 0.5} | params
    return ISRLDPClassifier(random_state=0, **params)


class Recorder:
    """Keeps each round's model; stops after some."""

    def __init__(self, stop_after=None):
        self.models, self.stop_after, self.events = [], stop_after, []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is None:
            return False
        self.models.append(fitted_estimator)
        return len(self.models) == self.stop_after


@pytest.mark.parametrize("average", [True, False])
def test_each_round_shows_the_model_as_if_the_fit_stopped_there(average):
    seen = Recorder()
    whole = model(average=average).set_callbacks(seen).fit(X, y)
    assert len(seen.models) == whole.n_iter_ == 6
    assert np.array_equal(seen.models[-1].coef_, whole.coef_)
    assert seen.models[2].predict(X).shape == y.shape
    assert not np.array_equal(seen.models[0].coef_, whole.coef_)


def test_early_stopping_is_charged_for_the_whole_plan():
    stopped = model().set_callbacks(Recorder(stop_after=2)).fit(X, y)
    whole = model().fit(X, y)
    assert (stopped.n_iter_, whole.n_iter_) == (2, 6)
    assert stopped.privacy_spent_ == whole.privacy_spent_
    assert stopped.n_rounds_ == 6


def test_callbacks_are_torn_down_after_an_error():
    seen = Recorder()

    class Broken(Recorder):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            raise RuntimeError("broken")

    clf = model().set_callbacks(seen, Broken())
    with pytest.raises(RuntimeError, match="broken"):
        clf.fit(X, y)
    assert seen.events == ["setup", "teardown"]
    assert not hasattr(clf, "coef_")
    assert not [name for name in vars(clf) if name.startswith("_callback")]


def test_a_callback_that_reads_the_records_is_a_leak():
    monitor = callback.ScoringMonitor(scoring="accuracy")
    with pytest.warns(PrivacyLeakWarning, match="reads the training records") as caught:
        model().set_callbacks(monitor).fit(X, y)
    assert len(caught) == 1
    scores = monitor.get_logs().data_as_pandas["accuracy"]
    assert len(scores) == 6
    assert scores.iloc[-1] > 0.8
