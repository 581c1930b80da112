"""Costs of silos: a composition with its price, and the costs of all silos of a fit."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from skdpfl.privacy.events import Composition, Exact, Gaussian, Neighbours
from skdpfl.privacy.pricing.price import price_delta, price_epsilon


@dataclass(frozen=True, slots=True)
class Cost:
    """One composition with its price: epsilon at delta."""

    composition: Composition
    delta: float
    epsilon: float

    @classmethod
    def of(cls, composition: Composition, delta: float, neighbours: Neighbours) -> Cost:
        """Price a composition at ``delta``."""
        return cls(composition, delta, price_epsilon(composition, delta, neighbours))


@dataclass(frozen=True, kw_only=True)
class SiloCosts:
    """The distinct costs of a fit, and which silo has which.

    A record belongs to one silo, so the cost of a fit is that of its most expensive silo.
    """

    neighbours: Neighbours
    costs: tuple[Cost, ...]
    silo_ids: tuple[Any, ...] | None = None
    silo_costs: tuple[int, ...] | None = None
    assignment: str | None = None

    @property
    def epsilon(self) -> float:
        """The largest epsilon of a silo."""
        return max(cost.epsilon for cost in self.costs)

    @property
    def delta(self) -> float:
        """The largest delta of a silo."""
        return max(cost.delta for cost in self.costs)

    @property
    def accountant(self) -> str:
        """How the price was computed: "gdp" (closed form), "pld" or "none"."""
        events = [event for cost in self.costs for event, _ in cost.composition]
        if any(isinstance(event, Exact) for event in events):
            return "none"
        return "gdp" if all(isinstance(event, Gaussian) for event in events) else "pld"

    @property
    def per_silo(self) -> pd.Series | None:
        """Each silo's epsilon (a Series by silo id); None where the unit is a silo."""
        if self.silo_ids is None or self.silo_costs is None:
            return None
        epsilons = [self.costs[g].epsilon for g in self.silo_costs]
        index = pd.Index(list(self.silo_ids), name="silo", tupleize_cols=False)
        return pd.Series(epsilons, index=index, name="epsilon", dtype=float)

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon of the same releases at another delta.

        Parameters
        ----------
        delta : float
            Between 0 and 1.

        Returns
        -------
        float
            The largest over the silos.
        """
        return max(price_epsilon(c.composition, float(delta), self.neighbours) for c in self.costs)

    def delta_at(self, epsilon: float) -> float:
        """Return the delta of the same releases at another epsilon.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
            The largest over the silos.
        """
        return max(price_delta(c.composition, float(epsilon), self.neighbours) for c in self.costs)


def fields_of(paid: SiloCosts) -> dict[str, Any]:
    """Return the fields that :class:`SiloCosts` has, by name."""
    return {field.name: getattr(paid, field.name) for field in fields(SiloCosts)}
