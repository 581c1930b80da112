"""Fits of the studies of "auto", and how good they are on the records for the test."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

import skdpfl
from benchmarks.problems import Problem


def fitted(data: Problem, epsilon: float, seed: int, family: str = "ISRLDP", **options: Any) -> Any:
    """Return the estimator of a family, fitted within the problem's bounds."""
    kind = "Regressor" if data.is_regression else "Classifier"
    known = {"delta": 1e-5, "random_state": seed} | data.bounds | options
    return getattr(skdpfl, family + kind)(epsilon, **known).fit(data.X, data.y, silos=data.silos)


def score(data: Problem, model: Any) -> float:
    """Return the area under the ROC curve of two labels, the accuracy of more, or R2."""
    if not data.is_regression and len(np.unique(data.y_test)) == 2:
        return roc_auc_score(data.y_test, model.decision_function(data.X_test))
    return model.score(data.X_test, data.y_test)


def constant_loss(data: Problem) -> float:
    """Return the log loss of the training records' exact shares."""
    shares = np.bincount(data.y) / len(data.y)
    return log_loss(data.y_test, np.tile(shares, (len(data.y_test), 1)), labels=range(len(shares)))


def loss_over_constant(data: Problem, model: Any) -> float:
    """Return a model's log loss less that of a constant, the training records' exact shares."""
    loss = log_loss(data.y_test, model.predict_proba(data.X_test), labels=model.classes_)
    return loss - constant_loss(data)
