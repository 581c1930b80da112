"""Scores over epsilon (the privacy-utility trade-off) and rounds; costs of silos and fits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_consistent_length

from skdpfl._arguments import check_number
from skdpfl._pipelines import private_step, silos_argument
from skdpfl._warnings import LeftOut, new_silos_expected, warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import _display
from skdpfl.inspection._cost import privacy_spent
from skdpfl.inspection._display import COLOURS, GREY, Display
from skdpfl.silos import read_silos, split_silo_column


@dataclass(eq=False, repr=False, kw_only=True)
class PrivacyUtilityDisplay(_display.Display):
    """Scores over epsilon with a band, and the score without privacy.

    Make one with :meth:`from_estimator`, or of scores that you have.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        The budgets, increasing.
    scores : array-like of shape (n_epsilons, n_repeats)
        The scores at each of them.
    baseline : array-like of shape (n_repeats,), default=None
        The scores without privacy.
    constant : array-like of shape (n_repeats,), default=None
        The scores of a constant prediction: the most frequent label, the labels' shares, or the
        mean.
    score_name : str, default="score"
        Name of the score.
    estimator_name : str, default=None
        Label of the line.
    step : str, default=None
        The step of a pipeline to which the budgets belong; other steps may have additional costs.

    Attributes
    ----------
    line_, band_, baseline_, constant_ : matplotlib artists
        The artists of the plot; None for a missing baseline or constant, and for the band without
        repeats.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    Examples
    --------
    >>> from skdpfl.inspection import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     epsilons=[1, 3, 9], scores=[[0.6, 0.7], [0.8, 0.8], [0.9, 0.8]], baseline=[0.9]
    ... ).plot()
    >>> display.ax_.get_xscale()
    'log'

    See Also
    --------
    ConvergenceDisplay : Scores on held-out records over rounds.
    PrivacySpentDisplay : The cost of each silo, round or fit.
    """

    epsilons: Any
    scores: Any
    baseline: Any = None
    constant: Any = None
    score_name: str = "score"
    estimator_name: str | None = None
    step: str | None = None

    def _draw(self, color: str | None) -> None:
        epsilons = np.asarray(self.epsilons, dtype=float)
        line = {"color": color, "label": self.estimator_name, "marker": "o"}
        self.line_, self.band_ = _display.draw_scores(self.ax_, epsilons, self.scores, **line)
        self.baseline_ = None
        if self.baseline is not None:
            name = f"{self.estimator_name}, not private" if self.estimator_name else "not private"
            self.baseline_ = self.ax_.axhline(
                float(np.mean(self.baseline)),
                color=self.line_.get_color(),
                linestyle="--",
                label=name,
            )
        self.constant_ = None
        if self.constant is not None:
            height = float(np.mean(self.constant))
            self.constant_ = self.ax_.axhline(
                height, color="0.5", ls=":", label="constant prediction"
            )
        alone = f" of {self.step}, other steps apart" if self.step else ""
        _display.logarithmic(
            self.ax_, epsilons, f"privacy budget ε{alone} (smaller is more private)"
        )
        repeats = "" if self.band_ is None else " (mean ± standard deviation)"
        self.ax_.set_ylabel(f"{self.score_name}{repeats}")
        if self.estimator_name or self.baseline_ or self.constant_:
            # below the axes: there is no point under it, and a title above stays free
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 3}
            self.ax_.legend(frameon=False, **place)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        silos: Any = None,
        epsilons: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
        cv: Any = 5,
        scoring: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> PrivacyUtilityDisplay:
        """Cross-validate an estimator at several budgets and draw the scores.

        Parameters
        ----------
        estimator : estimator
            An estimator of this library (its ``epsilon`` is set to each budget, then to inf), or a
            pipeline that ends in one.
        X, y : array-like
            The data.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the estimator has a ``silo_column``.
        epsilons : sequence of float, default=(0.5, 1, 2, 4, 8)
            The budgets.
        cv : int or splitter, default=5
            The splitter; an integer with silos is SiloStratifiedKFold. Splitters of
            :mod:`skdpfl.model_selection` get the silos.
        scoring : str or callable, default=None
            The score; by default that of the estimator's ``score``.
        name : str, default=None
            Label of the line; by default the estimator's name.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacyUtilityDisplay

        Warns
        -----
        PrivacyLeakWarning
            The scores are exact, and one fit per fold is without privacy: use public data, or keep
            the figure secret.
        """
        prefix, inner = private_step(estimator)
        warn(
            "PrivacyUtilityDisplay shows exact scores of the records, which no budget covers. Use "
            "public data, or keep the figure as secret as the records.",
            PrivacyLeakWarning,
        )
        _, ids = split_silo_column(X, silos, inner.silo_column)
        check_consistent_length(X, y, silos)
        n = _num_samples(y)
        codes = None if ids is None else read_silos(ids, n).codes
        folds = list(_display.folds_of(cv, X, np.asarray(y), codes, is_classifier(inner)))
        words = isinstance(epsilons, str | bytes) or not np.iterable(epsilons)
        if words or not list(epsilons):
            raise ValueError(f"epsilons must be a sequence of numbers > 0; got {epsilons!r}.")
        budgets = sorted(check_number("epsilons", e, low=0, open_low=True) for e in epsilons)

        def score_at(epsilon: float, train: np.ndarray, test: np.ndarray) -> float:
            budget = {f"{prefix}epsilon": epsilon, f"{prefix}noise_multiplier": None}
            model = clone(estimator).set_params(**budget)
            params = silos_argument(model, None if silos is None else _safe_indexing(silos, train))
            model.fit(_safe_indexing(X, train), _safe_indexing(y, train), **params)
            score = check_scoring(model, scoring=scoring)
            with new_silos_expected() if isinstance(test, LeftOut) else nullcontext():
                return float(score(model, _safe_indexing(X, test), _safe_indexing(y, test)))

        table = [[score_at(e, *fold) for fold in folds] for e in [*budgets, np.inf]]
        constant = None
        if scoring is None or isinstance(scoring, str):  # a function may ask a model for anything
            constant = [
                _display.constant_score(y, fold, scoring, is_classifier(inner)) for fold in folds
            ]
        return cls(
            epsilons=budgets,
            scores=table[:-1],
            baseline=table[-1],
            constant=constant,
            score_name=_display.name_of_score(scoring, estimator),
            estimator_name=name or type(inner).__name__,
            step=prefix.removesuffix("__") or None,
        ).plot(ax)


#: new records that are all among the training records are rarer than this
_BY_CHANCE = 1e-6


@dataclass(eq=False, repr=False, kw_only=True)
class ConvergenceDisplay(_display.Display):
    """Scores of the rounds' models on held-out records.

    Make one with :meth:`from_estimator`, or of scores that you have. The held-out records should be
    public, or the figure kept secret. If training records are scored, there is a warning, and the
    label says so, since no budget covers their scores.

    Parameters
    ----------
    rounds : array-like of shape (n_rounds,)
        The rounds' numbers, from 1.
    scores : array-like of shape (n_rounds,) or (n_rounds, n_repeats)
        The scores after each round. Repeats are drawn as their mean with a band.
    score_name : str, default="score"
        Name of the score.
    estimator_name : str, default=None
        Label of the line.
    records : str, default="held-out records"
        The records that were scored, for the label.

    Attributes
    ----------
    line_, band_ : matplotlib artists
        The artists of the plot; ``band_`` is None without repeats.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.
    estimator_ : estimator
        The fitted clone; only from :meth:`from_estimator`.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 200, n_classes=2, n_features=5, random_state=0)
    >>> from skdpfl.inspection import ConvergenceDisplay
    >>> clf = ISRLDPClassifier(epsilon=2.0, delta=1e-4, n_rounds=10, feature_bounds=(-9, 9))
    >>> new = make_federated_classification(3, 50, n_classes=2, n_features=5, random_state=0)
    >>> display = ConvergenceDisplay.from_estimator(
    ...     clf, data.data, data.target, silos=data.silos, X_test=new.data, y_test=new.target
    ... )
    >>> len(display.scores)
    10

    See Also
    --------
    PrivacyUtilityDisplay : Scores over epsilon.
    PrivacySpentDisplay : The cost of each silo, round or fit.
    """

    rounds: Any
    scores: Any
    score_name: str = "score"
    estimator_name: str | None = None
    records: str = "held-out records"
    estimator_: Any = field(init=False)

    def _draw(self, color: str | None) -> None:
        rounds, line = np.asarray(self.rounds), {"color": color, "label": self.estimator_name}
        self.line_, self.band_ = _display.draw_scores(self.ax_, rounds, self.scores, **line)
        repeats = "" if self.band_ is None else "\n(mean ± standard deviation)"
        self.ax_.set_ylabel(f"{self.score_name} on {self.records}{repeats}")
        self.ax_.set_xlabel("round")
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        if self.estimator_name:
            self.ax_.legend(frameon=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        X_test: Any,
        y_test: Any,
        silos: Any = None,
        scoring: Any = None,
        ax: Any = None,
    ) -> ConvergenceDisplay:
        """Fit a clone and draw its score on held-out records after each round.

        Parameters
        ----------
        estimator : estimator
            An estimator of this library, or a pipeline that ends in one; it is cloned, and the fit
            of the clone costs its budget.
        X, y : array-like
            The training records.
        X_test, y_test : array-like
            The held-out records.
        silos : array-like of shape (n_samples,), default=None
            Each training record's silo.
        scoring : str or callable, default=None
            The score; by default that of the estimator's ``score``.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ConvergenceDisplay

        Warns
        -----
        PrivacyLeakWarning
            X_test holds records of X.
        """
        model, scores = clone(estimator), []
        _, inner = private_step(model)
        trained_on = _same_records(X, X_test)
        if trained_on:
            warn(
                "X_test contains training records: the privacy cost does not cover their scores.",
                PrivacyLeakWarning,
            )

        def watch(current: Any) -> None:
            records = model[:-1].transform(X_test) if isinstance(model, Pipeline) else X_test
            scores.append(float(check_scoring(current, scoring=scoring)(current, records, y_test)))

        inner._watch = watch
        try:
            model.fit(X, y, **silos_argument(model, silos))
        finally:
            del inner._watch
        display = cls(
            rounds=np.arange(1, len(scores) + 1),
            scores=scores,
            score_name=_display.name_of_score(scoring, estimator),
            estimator_name=type(inner).__name__,
            records="training records" if trained_on else "held-out records",
        )
        display.estimator_ = model
        return display.plot(ax)


def _same_records(X: Any, X_test: Any) -> bool:
    """Whether the scored records are the training records, or some of them."""
    if X is X_test:
        return True
    train, test = np.asarray(X), np.asarray(X_test)
    if train.ndim != 2 or test.ndim != 2:
        return False  # fit raises a better error
    overlap = train.dtype.kind in "biuf" and np.shares_memory(train, test)
    if overlap or (train.shape == test.shape and bool((train == test).all())):
        return True
    return train.shape[1] == test.shape[1] and _drawn_from(train, test)


def _drawn_from(train: np.ndarray, test: np.ndarray) -> bool:
    """Whether all rows of ``test`` are in ``train``, and new ones would hardly be.

    A new row is in ``train`` about as often as one of its rows has another like it.
    """
    known, asked = (pd.util.hash_pandas_object(pd.DataFrame(t), index=False) for t in (train, test))
    repeated = float(known.duplicated(keep=False).mean())
    return bool(asked.isin(known).all()) and repeated ** len(asked) < _BY_CHANCE


#: the number of points of a curve over fits, about
POINTS = 12


@dataclass(eq=False, repr=False, kw_only=True)
class PrivacySpentDisplay(Display):
    """The cost of a fit by silo, or of several fits.

    Make one with :meth:`from_estimator` or :meth:`from_ledger`.

    Parameters
    ----------
    positions : array-like
        Silo ids (``kind="silos"``), or numbers of fits.
    epsilons : array-like
        The cost at each.
    delta : float
        The delta of the costs.
    kind : {"silos", "fits"}, default="silos"
        Bars for silos, a curve for fits.
    budget : float, default=None
        A budget's epsilon, drawn as a line.

    Attributes
    ----------
    artists_ : matplotlib artists
        The artists of the plot.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 200, n_classes=2, n_features=5, random_state=0)
    >>> from skdpfl.inspection import PrivacySpentDisplay
    >>> clf = ISRLDPClassifier(epsilon={0: 1.0, 1: 2.0, 2: 4.0}, delta=1e-4, feature_bounds=(-9, 9))
    >>> clf.fit(data.data, data.target, silos=data.silos)
    ISRLDPClassifier(...)
    >>> display = PrivacySpentDisplay.from_estimator(clf)
    >>> len(display.ax_.patches)
    3

    See Also
    --------
    PrivacyUtilityDisplay : Scores over epsilon.
    ConvergenceDisplay : Scores on held-out records over rounds.
    """

    positions: Any
    epsilons: Any
    delta: float
    kind: str = "silos"
    budget: float | None = None

    def _draw(self, color: str | None) -> None:
        color = color or COLOURS[0]
        epsilons = np.asarray(self.epsilons, dtype=float)
        if self.kind == "silos":
            self._bars(epsilons, color)
            self._line(epsilons.max(), "the whole fit")
        else:
            self.artists_ = self.ax_.plot(self.positions, epsilons, color=color, marker=".")
            self.ax_.set_xlabel(self.kind)
            self.ax_.xaxis.get_major_locator().set_params(integer=True)
        if self.budget is not None:
            self._line(self.budget, "budget")
        self.ax_.set_ylim(0, 1.15 * max(self.budget or 0, *epsilons))
        self.ax_.set_ylabel(f"privacy spent, ε at δ = {self.delta:g}")

    def _line(self, height: float, label: str) -> None:
        self.ax_.axhline(height, color=GREY, linestyle="--", linewidth=1, label=label)
        self.ax_.legend(frameon=False, loc="upper right")

    def _bars(self, epsilons: np.ndarray, color: str) -> None:
        """Draw one bar for each silo."""
        places = np.arange(len(epsilons))
        self.artists_ = self.ax_.bar(places, epsilons, color=color, width=0.7)
        self.ax_.set_xlabel("silo")
        if len(places) <= 30:
            names = [str(p) for p in self.positions]
            long = max(map(len, names)) > 6
            turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if long else {}
            self.ax_.set_xticks(places, names, **turned)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> PrivacySpentDisplay:
        """Draw the cost of a fitted estimator; no data are read.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator of this library, or a pipeline or another estimator that contains some
            (:func:`skdpfl.privacy_spent`).
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacySpentDisplay
        """
        spent = privacy_spent(estimator)
        _check_finite(spent.epsilon)
        if (shown := spent.per_silo) is None:
            raise ValueError("This cost has no values per silo: there is one cost for all silos.")
        return cls(positions=shown.index, epsilons=shown.to_numpy(), delta=spent.delta).plot(ax)

    @classmethod
    def from_ledger(cls, ledger: Any, *, ax: Any = None) -> PrivacySpentDisplay:
        """Draw the part of a ledger's budget that its fits have used.

        The curve is the filter's epsilon at the ledger's delta: a fit is refused exactly if it
        would cross the budget. Without a budget it is the composed cost (``ledger.spent``).

        Parameters
        ----------
        ledger : PrivacyLedger
            The ledger, open or closed.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacySpentDisplay
        """
        table = ledger.table()
        if not len(table):
            raise ValueError("No fit has been recorded: there is no cost to draw.")
        _check_finite(table["spent"])
        shown = np.unique(np.linspace(1, len(table), POINTS).astype(int))
        return cls(
            positions=shown.tolist(),
            epsilons=table["spent"].iloc[shown - 1].tolist(),
            delta=ledger.delta,
            kind="fits",
            budget=ledger.epsilon,
        ).plot(ax)


def _check_finite(epsilons: Any) -> None:
    if not np.isfinite(epsilons).all():
        raise ValueError("This is not private (epsilon=inf): there is no cost to draw.")
