"""What a silo's operator agreed to, and the error whose words may be sent to the other side.

It imports next to nothing: a silo's process may start often.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from skdpfl._arguments import at_most


class Refused(ValueError):
    """A silo, or a server, declines what it was asked for; the text says why and what to do."""


class Spent(Protocol):
    """What a fit costs."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def neighbours(self) -> str: ...


@dataclass(frozen=True)
class Terms:
    """What a silo's operator agreed to: every fit has to keep within it.

    Parameters
    ----------
    epsilon : float, default=inf
        The most that one fit may cost this silo.
    delta : float, default=1e-4
        The largest delta that it is priced at.
    unit : {"record", "silo"}, default="record"
        What has to be protected.
    neighbours : {"replace", "add_remove"}, default="replace"
        Under which relation.
    approval : bool, default=False
        Whether a person at the silo has to say yes to each fit (``skdpfl silo approve``).
    silos : mapping, optional
        The roster: the name of each silo among which it takes part in masked sums, itself with
        them, and that silo's public key, 64 hexadecimal digits, which operators tell each other
        without the server. By default any silos that the server names, with keys that come from
        the server; then no fit in which silos share noise.
    colluding : int, default=1
        How many of the others may work with the server, at least, before a share of the noise is
        too little (:class:`skdpfl.privacy.SecureAggregation`).
    """

    epsilon: float = math.inf
    delta: float = 1e-4
    unit: Literal["record", "silo"] = "record"
    neighbours: Literal["replace", "add_remove"] = "replace"
    approval: bool = False
    silos: Mapping[str, str] | None = None
    colluding: int = 1

    def check(self, spent: Spent) -> None:
        """Raise unless a fit of this cost keeps within the terms."""
        if (spent.unit, spent.neighbours) != (self.unit, self.neighbours):
            raise Refused(
                f"This silo agreed to unit={self.unit!r}, neighbours={self.neighbours!r}; the fit "
                f"is for unit={spent.unit!r}, neighbours={spent.neighbours!r}."
            )
        self.check_price(spent)

    def check_others(self, names: Iterable[str], shared_with: int | None) -> None:
        """Raise unless it agreed to masked sums among these silos.

        ``shared_with`` is how many of them may know each other's noise, where silos share it.
        """
        if self.silos is not None and not set(names) <= set(self.silos):
            raise Refused("The masked sum is among silos that are not on this silo's roster.")
        if shared_with is None:
            return
        if self.silos is None:
            raise Refused(
                'trust="secagg": this silo shares noise with silos on its roster only, and has '
                "none. Its operator exchanges keys with the others first."
            )
        if shared_with < self.colluding:
            raise Refused(
                f"This silo agreed to shares of noise that suffice if {self.colluding} of the "
                f"others work with the server; the fit has colluding={shared_with}."
            )

    def check_price(self, spent: Spent) -> None:
        """Raise if a fit of this cost is too dear."""
        if spent.delta > self.delta or spent.epsilon > self.epsilon:
            raise Refused(
                f"This silo agreed to epsilon={self.epsilon:g} at delta={self.delta:g} a fit; by "
                f"its own computation this one costs {at_most(spent.epsilon, 4)} at "
                f"{at_most(spent.delta)}."
            )
