"""Compare the joint model with what a silo can fit by itself.

``local_comparison`` runs at a silo, on its own records, and is for that silo: cross-validation
among its records scores

    joint                   the joint model as it is
    joint, own trees        with the silo's own part on top (:class:`skdpfl.SiloAdapted`)
    joint, own intercept
    joint, own ridge
    alone, linear           its own models without noise, which never leave it
    alone, boosted trees    of scikit-learn's defaults, or shallow ones, whichever score better

The joint model has seen the silo's records in its fit, under noise; own parts and own models are
fitted on the other folds. Scores are functions of the records without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from skdpfl._adapted import HEADS, SiloAdapted
from skdpfl._arguments import check_count, codes_of
from skdpfl._compat import as_frame
from skdpfl._pipelines import private_step, silos_argument
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection._display import COLOURS, Display
from skdpfl.silos import read_silos, split_silo_column, without_column

JOINT, LINEAR, TREES = "joint", "alone, linear", "alone, boosted trees"
#: trees of few records: scikit-learn's defaults overfit a silo of some hundred
SHALLOW, _SHALLOW = "alone, shallow trees", {"max_leaf_nodes": 6, "learning_rate": 0.03}


def local_comparison(
    model: Any, X: Any, y: Any, *, cv: int = 5, random_state: int | None = 0
) -> pd.DataFrame:
    """Compare a joint model with what this silo can fit by itself, on its own records.

    A silo runs this for itself. The numbers are computed from its records without noise, so they
    must not leave it.

    Parameters
    ----------
    model : estimator
        The fitted joint model, or a pipeline that ends in one.
    X : array-like or DataFrame of shape (n_samples, n_features)
        The silo's own records.
    y : array-like of shape (n_samples,)
        Their targets.
    cv : int, default=5
        The number of folds.
    random_state : int or None, default=0
        How records are dealt to the folds.

    Returns
    -------
    DataFrame
        One row per model, with columns "score" (area under the ROC curve for two labels, accuracy
        for more, R squared for numbers) and "deviation" over the folds. Its ``attrs`` has "score"
        (the name), "n_records", and "advice", a sentence.

    See Also
    --------
    LocalComparisonDisplay : Draws the result; in a simulation, of all silos.
    skdpfl.SiloAdapted : Own parts on top of a joint model.

    Examples
    --------
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.datasets import make_federated_regression
    >>> from skdpfl.inspection import local_comparison
    >>> data = make_federated_regression(4, 60, n_features=5, random_state=0)
    >>> joint = ISRLDPRegressor(3.0, feature_bounds=(-6, 6), target_bounds=(-9, 9), random_state=0)
    >>> joint = joint.fit(data.data, data.target, silos=data.silos)
    >>> own = data.silos == 0
    >>> frame = local_comparison(joint, data.data[own], data.target[own])
    >>> frame.index.tolist()[:2]
    ['joint', 'joint, own trees']
    """
    check_is_fitted(model)
    SiloAdapted(model)._check()
    y = np.asarray(y)
    folds = _folds(model, y, check_count("cv", cv, low=2), random_state)
    name, measure = _score(model, y)
    scores: dict[str, list[float]] = {}
    for train, test in folds.split(np.zeros(len(y)), y):
        for kind, predict in _candidates(model, X, y, train):
            value = measure(y[test], predict(test))
            scores.setdefault(kind, []).append(float(value))
    scores[TREES] = max(scores[TREES], scores.pop(SHALLOW), key=np.mean)
    table = np.array(list(scores.values()))
    frame = pd.DataFrame(
        {"score": table.mean(axis=1), "deviation": table.std(axis=1, ddof=1)}, index=list(scores)
    )
    frame.attrs = {"score": name, "n_records": len(y), "advice": _advice(scores)}
    return frame


def _folds(model: Any, y: np.ndarray, cv: int, random_state: int | None) -> Any:
    """Return the splitter; raise if the silo has too few records."""
    if not is_classifier(model):
        least, kind = len(y), KFold
    else:
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) < 2:
            raise ValueError("The silo has only one label, so there is nothing to compare.")
        least, kind = int(counts.min()), StratifiedKFold
    if least < cv:
        what = "records" if kind is KFold else "records of a label"
        raise ValueError(f"The silo has {least} {what}; cv={cv} needs at least {cv}.")
    return kind(cv, shuffle=True, random_state=random_state)


def _score(model: Any, y: np.ndarray) -> tuple[str, Callable[[np.ndarray, np.ndarray], float]]:
    """Return the score's name and function of (y, predictions)."""
    if not is_classifier(model):
        return "R squared", r2_score
    if len(np.unique(y)) == 2:
        positive = np.unique(y)[1]
        return "area under the ROC curve", lambda y, raw: roc_auc_score(y == positive, raw)
    return "accuracy", accuracy_score


def _candidates(model: Any, X: Any, y: np.ndarray, train: np.ndarray) -> Any:
    """Yield each model's name and its predictions for some rows."""
    two = is_classifier(model) and len(np.unique(y)) == 2

    def scorable(fitted: Any, rows: Any, **passed: Any) -> np.ndarray:
        if not two:
            return np.asarray(fitted.predict(rows, **passed))
        if not hasattr(fitted, "decision_function"):
            return np.asarray(fitted.predict_proba(rows, **passed)[:, 1])
        raw = np.asarray(fitted.decision_function(rows, **passed))
        if raw.ndim == 1:
            return raw
        low, high = codes_of(np.unique(y), model.classes_)  # two of more labels are here
        return np.asarray(raw[:, high] - raw[:, low])

    yield JOINT, lambda test: scorable(model, _safe_indexing(X, test))
    silo_column = private_step(model)[1].silo_column
    own = without_column(as_frame(X), silo_column)
    for head in HEADS:
        adapted = SiloAdapted(model, head).fit_heads(_safe_indexing(own, train), y[train])

        def adapted_to(test: np.ndarray, adapted: SiloAdapted = adapted) -> np.ndarray:
            silos = np.zeros(len(test), int)
            return scorable(adapted, _safe_indexing(own, test), silos=silos)

        yield f"{JOINT}, own {head}", adapted_to
    columns = _columns(model, own)
    for name, alone in _alone(is_classifier(model)).items():
        fitted = clone(alone).fit(columns[train], y[train])
        yield name, lambda test, fitted=fitted: scorable(fitted, columns[test])


def _columns(model: Any, X: Any) -> np.ndarray:
    """Return the numeric columns (n, d) for the silo's own models."""
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        X = without_column(as_frame(model[:-1].transform(X)), private_step(model)[1].silo_column)
    return pd.DataFrame(X).select_dtypes(["number", "bool"]).to_numpy(dtype=float)


def _alone(of_labels: bool) -> dict[str, Any]:
    """Return the silo's own models."""
    if of_labels:
        linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return {LINEAR: linear, **_trees(HistGradientBoostingClassifier)}
    linear = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15)))
    return {LINEAR: linear, **_trees(HistGradientBoostingRegressor)}


def _trees(kind: Any) -> dict[str, Any]:
    """Return boosted trees by scikit-learn's defaults, and shallow ones."""
    return {TREES: kind(random_state=0), SHALLOW: kind(random_state=0, **_SHALLOW)}


def _advice(scores: dict[str, list[float]]) -> str:
    """Return a sentence that compares the best models alone and joined, by paired folds."""

    def best(names: list[str]) -> str:
        return max(names, key=lambda name: float(np.mean(scores[name])))

    joined = best([name for name in scores if name.startswith(JOINT)])
    alone = best([name for name in scores if not name.startswith(JOINT)])
    gain = np.array(scores[joined]) - np.array(scores[alone])
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    if abs(gain.mean()) <= error:
        verdict = "these records do not show which is better."
    elif gain.mean() > 0:
        verdict = "joining pays for this silo."
    else:
        verdict = "joining does not pay for this silo at this budget."
    return (
        f"Alone {np.mean(scores[alone]):.3f} ({alone.removeprefix('alone, ')}), joined "
        f"{np.mean(scores[joined]):.3f} ({joined}): {verdict}"
    )


@dataclass(eq=False, repr=False)
class LocalComparisonDisplay(Display):
    """Scores of a silo's own models and of the joint model: bars, or dots for several silos.

    Parameters
    ----------
    comparisons : mapping
        The result of :func:`local_comparison` for each silo.
    estimator_name : str, default=None
        Shown as the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    See Also
    --------
    local_comparison : The numbers of one silo, for itself.

    Examples
    --------
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.datasets import make_federated_regression
    >>> from skdpfl.inspection import LocalComparisonDisplay, local_comparison
    >>> data = make_federated_regression(4, 60, n_features=5, random_state=0)
    >>> joint = ISRLDPRegressor(3.0, feature_bounds=(-6, 6), target_bounds=(-9, 9), random_state=0)
    >>> joint = joint.fit(data.data, data.target, silos=data.silos)
    >>> own = data.silos == 0
    >>> frame = local_comparison(joint, data.data[own], data.target[own])
    >>> display = LocalComparisonDisplay({"ours": frame}).plot()
    """

    comparisons: Mapping[Any, pd.DataFrame]
    _: KW_ONLY
    estimator_name: str | None = None

    def __post_init__(self) -> None:
        if not self.comparisons:
            raise ValueError("There is no silo to compare.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        silos: Any = None,
        cv: int = 5,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> LocalComparisonDisplay:
        """Fit the joint model, compare in every silo, and draw the result, in a simulation.

        Parameters
        ----------
        estimator : estimator
            An estimator of this library, or a pipeline that ends in one.
        X, y : array-like
            The data of all silos.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the estimator has a ``silo_column``.
        cv : int, default=5
            The number of folds in each silo. Silos that are too small are left out, with a warning.
        random_state : int or None, default=0
            How records are dealt to the folds.
        ax : matplotlib Axes, default=None
            The axes to plot on.

        Returns
        -------
        LocalComparisonDisplay
            The display, drawn.
        """
        _, step = private_step(estimator)
        SiloAdapted(estimator)._check()  # before a cost, and no silo is too small for it
        model = clone(estimator).fit(X, y, **silos_argument(estimator, silos))
        y, silos = np.asarray(y), split_silo_column(X, silos, step.silo_column)[1]
        read, comparisons, small = read_silos(silos, len(y), as_frame(X)), {}, []
        for number, silo in enumerate(read.ids.tolist()):
            own = np.flatnonzero(read.codes == number)
            try:
                comparisons[silo] = local_comparison(
                    model, _safe_indexing(X, own), y[own], cv=cv, random_state=random_state
                )
            except ValueError:
                small.append(silo)
        warn(
            "Silos' scores are computed from their records without noise, which no budget covers: "
            "use them in simulations only.",
            PrivacyLeakWarning,
        )
        if small:
            shown = ", ".join(map(str, small[:5])) + (", ..." if len(small) > 5 else "")
            warn(f"Left out are silos that are too small for cv={cv} or have one label: {shown}.")
        return cls(comparisons, estimator_name=type(step).__name__).plot(ax)

    def _draw(self, color: str | None) -> None:
        frames = self.comparisons
        first = next(iter(frames.values()))
        if len(frames) == 1:
            places = np.arange(len(first))[::-1]
            colours = [COLOURS[0] if kind.startswith(JOINT) else COLOURS[1] for kind in first.index]
            self.ax_.barh(
                places, first["score"], xerr=first["deviation"], capsize=3,
                color=color or colours,
            )  # fmt: skip
            self.ax_.margins(y=0.1)
            self.ax_.set_yticks(places, first.index)
            self.ax_.set_xlabel(first.attrs["score"])
            self.ax_.set_title(first.attrs["advice"], fontsize="medium", wrap=True)
            return
        order = sorted(frames, key=lambda silo: frames[silo].attrs["n_records"])
        for at, kind in enumerate(first.index):
            scores = [frames[silo].loc[kind, "score"] for silo in order]
            filled = kind.startswith(JOINT)
            self.ax_.plot(
                scores, marker="o" if filled else "s", linestyle="", label=kind,
                color=COLOURS[at % len(COLOURS)], fillstyle="full" if filled else "none",
            )  # fmt: skip
        few = len(order) <= 20
        names = [f"{silo}\n{frames[silo].attrs['n_records']}" for silo in order]
        self.ax_.set_xticks(range(len(order)) if few else [], names if few else [])
        self.ax_.set_xlabel("silos and their records" if few else "silos, by their records")
        self.ax_.set_ylabel(first.attrs["score"])
        self.ax_.set_title(self.estimator_name or "")
        self.ax_.legend(fontsize="small")
