"""Private scores of any fitted model on held-out records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skdpfl import federation
from skdpfl._arguments import at_most
from skdpfl._surface import filled_docs
from skdpfl._warnings import warn
from skdpfl.model_selection import held_out
from skdpfl.privacy.events import SecureAggregation, Unit
from skdpfl.privacy.spending.ledger import charge_all, open_ledgers
from skdpfl.privacy.spending.spent import PrivacySpent

#: a mean within so many deviations of its noise, and this share of its range, from the worst
_WORST_DEVIATIONS, _WORST_SHARE = 3.0, 0.05


@dataclass(frozen=True, eq=False, repr=False)
class PrivateScore:
    """An estimated score, with its noise and its cost; :func:`private_score` returns it.

    ``float(score)`` is its value.

    Parameters
    ----------
    scoring : str
        The name of the score.
    value : float
        The estimate over all records. Noise can move it outside its range. NaN where the noise
        leaves it undefined, such as the area under the ROC curve with one label.
    noise : float
        The standard deviation of the noise in it; infinite for NaN. The error of a finite sample
        comes on top.
    per_silo : Series
        Each silo's own estimate; empty unless ``trust="silo"``.
    per_silo_noise : Series
        The noise in each.
    privacy_spent : PrivacySpent
        The cost, in addition to that of the model; of all scores together if several were asked
        for at once.
    clip : float, default=None
        The value at which a record's loss is clipped, for scores that are means of losses.

    See Also
    --------
    private_score : Computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skdpfl.inspection import private_score
    >>> X, y = np.zeros((1000, 1)), np.arange(1000) % 2
    >>> score = private_score(
    ...     DummyClassifier().fit(X, y), X, y, scoring="accuracy", epsilon=1.0, random_state=0)
    >>> abs(float(score) - 0.5) < 5 * score.noise
    True
    """

    scoring: str
    value: float
    noise: float
    per_silo: pd.Series
    per_silo_noise: pd.Series
    privacy_spent: PrivacySpent
    clip: float | None = None

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        cost = f"ε={at_most(self.privacy_spent.epsilon)}"
        return f"PrivateScore({self.scoring}={self.value:.3g}, noise ± {self.noise:.2g}, {cost})"


@filled_docs()
def private_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    scoring: str | Sequence[str],
    epsilon: float,
    delta: float | str = "auto",
    silos: Any = None,
    trust: str | SecureAggregation = "silo",
    neighbours: str = "replace",
    unit: Unit = "record",
    persons: Any = None,
    target_bounds: tuple[float, float] | None = None,
    random_state: Any = None,
) -> PrivateScore | dict[str, PrivateScore]:
    """Score a fitted model on held-out records, with noise that protects each of them.

    Parameters
    ----------
    model : estimator
        Any fitted classifier, regressor or survival model: of this library, of scikit-learn, a
        pipeline or search, or of another library. It must not have been fitted to these records
        without privacy. Models that are not known to treat each row by itself predict one row at a
        time, each with a copy of the model.
    X : array-like or DataFrame of shape (n_samples, n_features)
        Records that were not used in the fit, of all silos.
    y : array-like of shape (n_samples,)
        Their targets. For "concordance" a structured array, or a frame, of an event (bool) and a
        time (number).
    scoring : str or list of str
        For classifiers "accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score",
        "calibration_error" (of ten bins; lower is better) or, with two labels, "roc_auc" and
        "average_precision"; for regressors "r2", "neg_mean_absolute_error" and "d2_poisson"; for
        survival "concordance". A list gives a dict: its scores share the budget equally. Functions
        are refused, since nothing bounds what one record changes.
    epsilon : float
        The privacy cost, in addition to the model's.
    [delta]
    silos : array-like of shape (n_samples,), default=None
        Each record's silo, unless X has the model's ``silo_column``. None: one silo.
    [trust]
    [relation]
    unit : {"record", "person", "silo"}, default="record"
        What is protected. A person's (or a silo's) term is the mean over their rows.
    persons : array-like of shape (n_samples,), default=None
        Each record's person, for ``unit="person"``, unless X has the model's ``person_column``.
    target_bounds : tuple of (float, float), default=None
        Public bounds of the targets, for regressors; (0, horizon) for survival. None: those of the
        model, if it has some.
    [random_state]

    Returns
    -------
    PrivateScore or dict of PrivateScore
        The score; for a list, one for each name.

    See Also
    --------
    DPRocCurveDisplay, DPConfusionMatrixDisplay, DPCalibrationDisplay : Pictures.
    skdpfl.remote.score_federation : The same for remote silos.

    Notes
    -----
    **Formal guarantee.** A score is a function of noised sums with one bounded term per record
    (:mod:`skdpfl.federation`), whose squared Gaussian-DP parameters add up to the budget's. A term
    is a function of its record and the fixed model. A prediction that fails counts as the worst,
    and raises no error or warning, which could be about a single record. Open ledgers are charged
    before the records are read.

    A record's log loss is clipped at log(100), its absolute error at half the range of
    ``target_bounds`` (``PrivateScore.clip``). "r2" and "d2_poisson" clip a record's deviance at
    that of the middle of the bounds from an end. Scores of ranks count predictions in bins: 16 for
    areas; 8, and 12 intervals of time, for "concordance", which compares records of different
    intervals only.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpfl.datasets import make_federated_classification
    >>> from skdpfl.inspection import private_score
    >>> data = make_federated_classification(3, 400, n_classes=2, n_features=5, random_state=0)
    >>> model = LogisticRegression().fit(data.data[::2], data.target[::2])
    >>> score = private_score(
    ...     model, data.data[1::2], data.target[1::2], silos=data.silos[1::2],
    ...     scoring="accuracy", epsilon=1.0, random_state=0)
    >>> score.privacy_spent
    PrivacySpent(ε=1.00, δ=0.0001, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> float(score) > 0.5
    True
    """
    names = _names(scoring)
    measures = [_measure(model, y, name, target_bounds) for name in names]
    asked = {"epsilon": epsilon, "delta": delta, "trust": trust, "neighbours": neighbours}
    held = held_out.HeldOut.read(
        model, X, y, silos=silos, unit=unit, persons=persons, random_state=random_state, **asked
    )
    plans = held.plans(measures)
    spent = held.spent(plans)
    charge_all(open_ledgers(), "private_score", spent)
    found = held.release(model, measures, plans)
    scores = {
        name: _score(name, each, held, spent) for name, each in zip(names, found, strict=True)
    }
    return scores[scoring] if isinstance(scoring, str) else scores


def _names(scoring: Any) -> list[Any]:
    """Return the names of scores; raise for none, or one twice."""
    names = list(scoring) if isinstance(scoring, (list, tuple)) else [scoring]
    if not names or len(set(map(repr, names))) < len(names):
        raise ValueError(f"scoring must be a name or a list of different names; got {scoring!r}.")
    return names


def _measure(model: Any, y: Any, name: Any, target_bounds: Any) -> federation.Measure:
    """Return the measure of a model; raise if the model, or its targets, have no such score."""
    known = held_out.predicts_labels(model)
    survival = not known and (name == "concordance" or held_out.is_survival(y))
    if survival and name == "concordance":
        held_out.survival_targets(y)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    bounds = getattr(last, "target_bounds", None) if target_bounds is None else target_bounds
    n_classes = len(getattr(model, "classes_", ())) if known else None
    measure = federation.measure_of(name, n_classes=n_classes, targets=bounds, survival=survival)
    needed = {
        "log_probabilities": ("predict_proba",),
        "scores": ("decision_function", "predict_proba") if known else ("predict",),
    }.get(measure.reads, ("predict",))
    if not any(hasattr(model, method) for method in needed):
        raise ValueError(
            f"{name} needs a model with {' or '.join(needed)}, which {type(model).__name__} lacks."
        )
    return measure


def _score(
    name: str, found: federation.Found, held: held_out.HeldOut, spent: PrivacySpent
) -> PrivateScore:
    """Return the score of released means; warn if it is as if the model failed everywhere."""
    measure, own = found.measure, not held.as_one
    close = min(_WORST_DEVIATIONS * found.noise, _WORST_SHARE)
    if measure.shape == () and float(found.mean) + 0.5 <= close:
        warn(
            f"{name} is as low as if every prediction had failed. Errors of predictions are not "
            "passed on, since they may be about a single record: try model.predict on made-up "
            "records with the same columns and types."
        )
    ids = held.silos.ids if own else held.silos.ids[:0]
    each = list(zip(found.means, found.noises.tolist(), strict=True)) if own else []
    return PrivateScore(
        name,
        found.score,
        found.error,
        pd.Series([measure.score(*one) for one in each], ids, dtype=float, name=name),
        pd.Series([measure.error(*one) for one in each], ids, dtype=float, name="noise"),
        spent,
        measure.clip,
    )
