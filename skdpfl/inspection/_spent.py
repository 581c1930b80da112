"""Display of the privacy cost by silo, round or fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice
from skdpfl.inspection._cost import privacy_spent
from skdpfl.inspection._display import COLOURS, GREY, Display

#: the number of points of a curve over rounds or fits, about
POINTS = 12


@dataclass(eq=False, repr=False, kw_only=True)
class PrivacySpentDisplay(Display):
    """The cost of a fit by silo or over its rounds, or of several fits.

    Make one with :meth:`from_estimator` or :meth:`from_ledger`.

    Parameters
    ----------
    positions : array-like
        Silo ids (``kind="silos"``), or numbers of rounds or fits.
    epsilons : array-like
        The cost at each.
    delta : float
        The delta of the costs.
    kind : {"silos", "rounds", "fits"}, default="silos"
        Bars for silos, a curve for rounds and fits.
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
    def from_estimator(
        cls, estimator: Any, *, kind: str = "silos", ax: Any = None
    ) -> PrivacySpentDisplay:
        """Draw the cost of a fitted estimator; no data are read.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator of this library, or a pipeline or another estimator that contains some
            (:func:`skdpfl.privacy_spent`).
        kind : {"silos", "rounds"}, default="silos"
            Each silo's epsilon, or the epsilon after each number of rounds. With ``unit="silo"``
            there are no costs of single silos.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacySpentDisplay
        """
        check_choice("kind", kind, ("silos", "rounds"))
        spent = privacy_spent(estimator)
        _check_finite(spent.epsilon)
        if kind == "rounds":
            plan = getattr(estimator, "plan_", None)
            if plan is None:
                raise ValueError(
                    f"{type(estimator).__name__} has no rounds; give the estimator inside it, or "
                    "kind='silos'."
                )
            rounds = np.unique(np.linspace(1, plan.n_rounds, POINTS).astype(int))
            shown = pd.Series([_after(plan, r) for r in rounds.tolist()], rounds)
        elif (shown := spent.per_silo) is None:
            raise ValueError(
                "This cost has no values per silo: unit='silo' and searches have one cost for all "
                "silos. Use kind='rounds' for a fit."
            )
        epsilons = shown.to_numpy()
        return cls(positions=shown.index, epsilons=epsilons, delta=spent.delta, kind=kind).plot(ax)

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


def _after(plan: Any, n_rounds: int) -> float:
    """Return the cost of the first rounds of a plan, with unchanged noise."""
    schedule = None if plan.schedule is None else plan.schedule[:n_rounds]
    return replace(plan, steps=plan.steps[:n_rounds], schedule=schedule).spent().epsilon
