"""Where the budget went: silo by silo, or round by round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpfl.inspection._axes import COLOURS, GREY, axes_of, tidy

#: a curve over rounds is priced at about this many of them
POINTS = 12


class PrivacySpentDisplay:
    """The cost of a fit, silo by silo or over its rounds.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    positions : array-like
        Silo ids (``kind="silos"``) or numbers of rounds (``kind="rounds"``).
    epsilons : array-like
        The cost at each.
    delta : float
        The delta the costs are at.
    kind : {"silos", "rounds"}, default="silos"
        Bars for silos, a curve for rounds.

    Attributes
    ----------
    artists_ : matplotlib artists
        What :meth:`plot` drew.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    """

    def __init__(self, *, positions: Any, epsilons: Any, delta: float, kind: str = "silos") -> None:
        self.positions, self.epsilons = positions, epsilons
        self.delta, self.kind = delta, kind

    def plot(self, ax: Any = None, *, color: str | None = None) -> PrivacySpentDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        color : str, default=None
            The bars' or the line's colour.

        Returns
        -------
        self : PrivacySpentDisplay
        """
        self.figure_, self.ax_ = axes_of(ax)
        color = color or COLOURS[0]
        epsilons = np.asarray(self.epsilons, dtype=float)
        if self.kind == "rounds":
            self.artists_ = self.ax_.plot(self.positions, epsilons, color=color, marker=".")
            self.ax_.set(xlabel="rounds", ylim=(0, None))
        else:
            places = np.arange(len(epsilons))
            self.artists_ = self.ax_.bar(places, epsilons, color=color, width=0.7)
            self.ax_.set_xlabel("silo")
            if len(places) <= 30:
                names = [str(p) for p in self.positions]
                turned = 45 if max(map(len, names)) > 6 else 0
                self.ax_.set_xticks(places, names, rotation=turned)
            self.ax_.axhline(epsilons.max(), color=GREY, linestyle="--", linewidth=1)
        self.ax_.set_ylabel(f"privacy spent, ε at δ = {self.delta:g}")
        tidy(self.ax_)
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, kind: str = "silos", ax: Any = None
    ) -> PrivacySpentDisplay:
        """Draw what a fitted estimator cost; no data are read.

        Parameters
        ----------
        estimator : fitted estimator
            One of this library's.
        kind : {"silos", "rounds"}, default="silos"
            Each silo's epsilon, or the epsilon after each number of rounds. A fit with
            ``unit="silo"`` has no costs of single silos.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacySpentDisplay
        """
        check_is_fitted(estimator, "privacy_spent_")
        spent, plan = estimator.privacy_spent_, estimator.plan_
        if kind not in ("silos", "rounds"):
            raise ValueError(f"kind must be 'silos' or 'rounds'; got {kind!r}.")
        if not np.isfinite(spent.epsilon):
            raise ValueError("This fit is not private (epsilon=inf): there is no cost to draw.")
        if kind == "rounds":
            rounds = np.unique(np.linspace(1, plan.n_rounds, POINTS).astype(int))
            epsilons = [_after(plan, r) for r in rounds.tolist()]
            return cls(positions=rounds, epsilons=epsilons, delta=spent.delta, kind="rounds").plot(
                ax
            )
        if spent.per_silo is None:
            raise ValueError("unit='silo' has one cost for all silos; use kind='rounds'.")
        per_silo = spent.per_silo
        return cls(positions=per_silo.index, epsilons=per_silo.to_numpy(), delta=spent.delta).plot(
            ax
        )


def _after(plan: Any, n_rounds: int) -> float:
    """Return the cost of the first rounds of a plan, the noise as it is."""
    schedule = None if plan.schedule is None else plan.schedule[:n_rounds]
    return replace(plan, steps=plan.steps[:n_rounds], schedule=schedule).spent().epsilon
