"""What server and silos say to each other; each letter names its fit, each answer its question.

::

    server                                     silo
    Hello                                      Introduction      its name and public facts
    Offer: schema, the silo's row of the plan  Agreement: what it costs        or Refusal, Waiting
    Ask: a question of the plan                Answer: noised numbers          or Refusal
    Ask: a round, with the broadcast           Answer: the noised message      or Refusal
    End: so many rounds, and no more           Ended: what the fit costs then  or Refusal

Where messages are masked, all silos are told the same plan, the Agreement has a key for the fit,
and the first letter that is answered in a common sum has the keys of all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from skdpfl import __version__
from skdpfl.algorithms import Algorithm, sends_one_gradient
from skdpfl.federation import (
    R2,
    Accuracy,
    BalancedAccuracy,
    Closeness,
    Confusion,
    RocAuc,
    Work,
)
from skdpfl.losses import Loss
from skdpfl.models import Model
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.remote._declared import declare, pack
from skdpfl.remote._measures import Predictor, Scored
from skdpfl.remote._row import Row, SharedSums, SumRow, Together, WholePlan
from skdpfl.remote._terms import Refused
from skdpfl.remote._wire import LIMITS
from skdpfl.scaling import CurveScaling

Label = bool | int | float | str


@dataclass(frozen=True)
class Facts:
    """What is public of a silo's records, and what everybody's are expected to be.

    ``n_records`` is None where it is a secret, ``classes`` for regression.
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    classes: tuple[Label, ...] | None
    dtype: Literal["float64", "float32", "object"]
    n_records: int | None

    def check(self) -> None:
        """Raise unless classes are labels of one kind, each named once and in order."""
        if self.classes is None:
            return
        longest = max((len(label) for label in self.classes if isinstance(label, str)), default=0)
        if len(self.classes) > LIMITS.classes or longest > LIMITS.name:
            raise Refused(
                f"A fit has at most {LIMITS.classes:,} classes, of at most {LIMITS.name} letters."
            )
        if len({type(label) for label in self.classes}) != 1:
            raise Refused("The fit's classes are labels of different kinds.")
        if tuple(np.unique(np.asarray(self.classes)).tolist()) != self.classes:
            raise Refused("The fit's classes are not in order, or some are named twice.")


@dataclass(frozen=True)
class Hello:
    """Who are you?"""


@dataclass(frozen=True)
class Introduction:
    """A silo's name, which is its identity wherever it runs, and the mark of its memory.

    Two silos of one name have two marks; one that was restarted has the same.
    """

    name: str
    mark: str


@dataclass(frozen=True, eq=False)
class Task:
    """A fit's work but for its plan: the silo has its own."""

    model: Model
    loss: Loss
    algorithm: Algorithm
    alpha: float
    features: Any
    target: Any
    class_weights: tuple[float, ...] | None

    @classmethod
    def of(cls, work: Work) -> Task:
        """Return what is sent of a fit's work."""
        maps = work.features, work.target, work.class_weights
        return cls(work.model, work.loss, work.algorithm, float(work.alpha), *maps)

    def check(self, row: Row | WholePlan, facts: Facts) -> None:
        """Raise unless the task is one for the records and the plan of an offer."""
        if isinstance(row, WholePlan) and row.shares_noise:
            self._check_shared(row)
        steps = row.steps
        declared = tuple(self.algorithm.n_gradients(r) for r in range(len(steps)))
        n_classes = None if facts.classes is None else len(facts.classes)
        weighted = n_classes if self.class_weights is None else len(self.class_weights)
        fits = self.loss.is_classifier == (facts.classes is not None)
        if (
            not fits
            or weighted != n_classes
            or self.model.n_outputs != self.loss.n_outputs(n_classes)
        ):
            raise Refused("The fit's loss or model is not for these classes.")
        d = facts.n_features
        width = self._width(d)
        if declared != steps or self.model.n_features != width:
            raise Refused("The fit's steps or features are not those of the plan agreed to.")
        if 8 * self.model.size > LIMITS.message_bytes:
            raise Refused("The fit's model is larger than what is sent between machines.")
        if not (_maps(self.features, (2, d), (2, width)) and _maps(self.target, (2,), (2,))):
            raise Refused("The fit's maps are not for these features and targets.")

    def _width(self, n_features: int) -> int:
        """Return how many columns the model has: those of the features' expansion, if any."""
        if not isinstance(self.features, CurveScaling):
            return n_features
        try:
            self.features.curves.check(n_features)
        except ValueError as error:
            raise Refused(str(error)) from error
        return self.features.curves.width

    def _check_shared(self, row: WholePlan) -> None:
        """Raise unless shares of the noise are enough for what the silos send."""
        if row.unit == "record" and not sends_one_gradient(self.algorithm):
            raise Refused(
                "Where silos share noise they send one fresh gradient a round; the fit's algorithm "
                "sends something else."
            )
        if row.width != self.model.size:
            raise Refused("The fit's model is not of the size that the plan was priced for.")

    def work(self, plan: PrivacyPlan, dtype: np.dtype) -> Work:
        """Return the work under a plan."""
        terms = self.model, self.loss, self.algorithm, plan, dtype
        return Work(*terms, self.alpha, self.features, self.target, self.class_weights)


def _maps(values: Any, given: tuple[int, ...], found: tuple[int, ...]) -> bool:
    """Whether a map, if there is one, makes arrays of a shape of arrays of another, row by row."""
    if values is None:
        return given == found
    if not hasattr(values, "transform"):
        return False
    with np.errstate(all="ignore"):
        shapes = [values.transform(np.zeros((n, *given[1:]))).shape for n in (1, 2)]
    return shapes == [(n, *found[1:]) for n in (1, 2)]


@dataclass(frozen=True, eq=False)
class Offer:
    """A fit that a silo is asked to take part in; ``index`` is its number, for simulations.

    ``task`` is the fit's as it is before scales are found, None for sums: a silo that does not
    have its classes refuses here, before anyone has paid. A whole plan: rounds are sums of masked
    messages (:mod:`skdpfl.remote._masks`).
    """

    fit: str
    estimator: str
    facts: Facts
    row: Row | SumRow | WholePlan
    index: int
    seed: int | None
    task: Task | None = None
    release: str = __version__

    @property
    def masked(self) -> bool:
        """Whether the silo's messages are masked."""
        return isinstance(self.row, Together)

    @cached_property
    def agreed(self) -> bytes:
        """A digest of what all silos of a masked fit have to have been told alike."""
        assert isinstance(self.row, Together)
        return hashlib.sha256(pack((self.fit, self.release, self.row.common))).digest()

    def check_size(self) -> None:
        """Raise for what would take long to price, whoever it is for; the first of all checks."""
        if self.release != __version__:
            raise Refused(
                f"The server has skdpfl {self.release[:20]}, this silo {__version__}: the same "
                "release is needed."
            )
        names = self.fit, self.estimator, self.row.name
        if max(map(len, names)) > LIMITS.name:
            raise Refused(f"What a fit, or a silo, is called has at most {LIMITS.name} letters.")
        if sum(len(plan.mus) for plan in self.row.sums) > LIMITS.releases:
            raise Refused(f"Beside its rounds a fit has at most {LIMITS.releases} releases.")
        steps = () if isinstance(self.row, SumRow) else self.row.steps
        if len(steps) > LIMITS.rounds or sum(steps) > LIMITS.steps:
            raise Refused(
                f"A fit of silos elsewhere has at most {LIMITS.rounds:,} rounds, of "
                f"{LIMITS.steps:,} steps together."
            )

    def check_silo(self, name: str, allow_simulation: bool) -> None:
        """Raise unless the offer is for this silo, and its noise is the silo's own."""
        if self.row.name != name:
            raise Refused(f"This silo is {name!r}, the offer is for {self.row.name!r}.")
        if self.row.size != self.facts.n_records:
            raise Refused("The plan and the declared facts name different numbers of records.")
        if self.seed is not None and not allow_simulation:
            raise Refused(
                "Whoever knows the seed knows the noise: give random_state=None, so that this silo "
                "draws its own, or start it with allow_simulation=True if the records are no "
                "secret."
            )

    def check_parts(self) -> None:
        """Raise unless row, facts and task are about the same records and the same model."""
        row = self.row
        if isinstance(row, SumRow):
            row.check(self.facts)
            return
        if self.facts.dtype == "object":
            raise Refused("A model is fitted to numbers: prepare the tables of words first.")
        if self.task is None:
            raise Refused("The offer of a fit says which model, loss and algorithm it is for.")
        self.task.check(row, self.facts)


@dataclass(frozen=True)
class Agreement:
    """The silo takes part; what it will have spent, by its own computation.

    Where messages are masked: its public key for the fit, and its signature of that and the plan;
    empty where its operator has no roster.
    """

    fit: str
    epsilon: float
    key: str | None = None
    signature: str = ""


@dataclass(frozen=True)
class Waiting:
    """A person at the silo has to say yes first; the same offer may come again."""

    fit: str
    reason: str


@dataclass(frozen=True, eq=False)
class Part:
    """A masked sum: the numbers of the silos whose messages are in it, and the grid's step.

    A round, or a sum beside the rounds, that failed is asked for again under another number:
    ``round`` is the plan's. Where silos share noise, ``step`` is not used: it follows from the
    plan. ``keys``,
    everybody's for this fit in the order of the silos, come with a silo's first letter, with their
    signatures.
    """

    among: np.ndarray
    round: int
    step: float
    keys: tuple[str, ...] | None = None
    signatures: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Ask:
    """A question of the plan, or a round: ``content`` is what was broadcast.

    ``task`` comes with the first round; the silo keeps it.
    """

    fit: str
    purpose: str
    number: int
    content: Any
    clip_norm: float
    task: Task | None = None
    part: Part | None = None


def is_finite(content: Any) -> bool:
    """Whether all arrays of a broadcast are finite: others bring nothing, and use up a round."""
    arrays = content if isinstance(content, tuple) else (content,)
    floats = [each for each in arrays if isinstance(each, np.ndarray) and each.dtype.kind == "f"]
    return all(np.isfinite(each).all() for each in floats)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a silo releases; ``names`` are those of the values, where they are released, too."""

    fit: str
    purpose: str
    number: int
    values: np.ndarray
    names: tuple[tuple[Label, ...], ...] | None = None


@dataclass(frozen=True)
class End:
    """The fit ends here: the silo answered in so many rounds, as far as the server knows."""

    fit: str
    rounds: int


@dataclass(frozen=True)
class Ended:
    """The fit was settled: what the rounds that ran cost, by the silo's own computation."""

    fit: str
    epsilon: float
    rounds: int


@dataclass(frozen=True)
class Refusal:
    """Why a silo does not do what it was asked for; nothing of its records."""

    fit: str
    reason: str


declare(Accuracy, BalancedAccuracy, Closeness, Confusion, R2, RocAuc)
declare(
    Predictor,
    Scored,
    SumRow,
    SharedSums,
    Row,
    WholePlan,
    Facts,
    Hello,
    Introduction,
    Offer,
    Agreement,
    Task,
    Part,
    Ask,
    Answer,
    End,
    Ended,
    Refusal,
    Waiting,
)
