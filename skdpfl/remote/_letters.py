"""The letters and answers between server and silos.

::

    server                                     silo
    Hello                                      Introduction      its name and public facts
    Offer: schema, the silo's row of the plan  Agreement: what it costs        or Refusal, Waiting
    Ask: a question of the plan                Answer: noised numbers          or Refusal
    Ask: a round, with the broadcast           Answer: the noised message      or Refusal
    End: so many rounds, and no more           Agreement: what it costs then   or Refusal
    End: the model is there                    End: the secrets of its masks are deleted

Each letter names its fit, each answer its letter. If messages are masked, all silos receive the
same plan, the Agreement has a key for the fit, and the first letter of a masked sum has the keys of
all.

A silo's frame: it becomes numbers by the public encoding of a fit, in each answer anew.
----------------------------------------------------------------------------------------
**Formal guarantee.** Each row that answers use is a function of that row of the frame and of public
numbers: before levels and ranges are known, values in the form of their column's declared kind
(:mod:`skdpfl.scaling` has the price of these sums); then the numbers of :mod:`skdpfl.encoding`, by
levels and ranges that the server sends. Those are public by then: they were declared, or follow
from what all silos released. Refusals depend on declarations only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from skdpfl import __version__, _codec
from skdpfl.algorithms import Algorithm, sends_one_gradient
from skdpfl.encoding import EncodedColumn, Encoding, in_order, is_label
from skdpfl.federation import Work
from skdpfl.losses import Loss, PiecewiseExponential
from skdpfl.models import Model
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote._declared import declare, pack, unpack
from skdpfl.remote._row import Predictor, Row, Scored, validate_question
from skdpfl.remote._terms import LIMITS, Refused, check_few, in_words
from skdpfl.scaling import CurveScaling


def looked_for(asked: Encoding, *, of_words: bool) -> Encoding:
    """Return the columns whose levels, or else ranges, are looked for."""
    return asked.unknown(*(("category",) if of_words else ("number", "date")))


def check_columns(columns: tuple[EncodedColumn, ...], names: tuple[str, ...] | None) -> None:
    """Raise unless columns are well formed and become columns of numbers with these names."""
    encoding = Encoding(columns)
    fine = all(map(_is_well_formed, columns)) and len(set(encoding)) == len(columns) > 0
    # check the widths before making as many names
    if not fine or sum(c.width for c in columns) > len(names or ()):
        raise Refused("The kinds, ranges or levels of the fit's columns are inconsistent.")
    if tuple(encoding.names()) != names:
        raise Refused("The names of the fit's features are not those of its columns.")


def _is_well_formed(column: EncodedColumn) -> bool:
    """Whether a column's kind, levels and range are consistent."""
    levels, ends = column.levels or (), column.range or (0.0, 0.0)
    fine = isinstance(column.name, str | int) and len(str(column.name)) <= LIMITS.name
    fine &= bool(np.isfinite(ends).all()) and ends[0] <= ends[1] and abs(column.start) < 2**31
    fine &= 0 <= len(levels) <= column.width <= LIMITS.levels and all(map(is_label, levels))
    fine &= tuple(sorted(set(levels), key=in_order)) == levels
    return fine and (column.kind == "category" or not column.width)


def check_learnt(offered: Encoding, learnt: Encoding) -> None:
    """Raise unless an encoding is the offered one, with levels and ranges where it had none."""
    missing = {column.name for column in offered.columns if not column.is_known}
    new = [column for column in learnt.columns if column.name in missing]
    ranges, levels = {c.name: c.range for c in new}, {c.name: c.levels for c in new}
    known = offered.complete(ranges, levels)
    same = pack(known.columns) == pack(learnt.columns)  # 1 and True are equal, but other levels
    if not same or not all(map(_is_well_formed, learnt.columns)):
        raise Refused("The columns differ from those of the agreed fit.")


Label = bool | int | float | str
#: features, classes and silos that a person is shown, and digits of a digest
_SHOWN, _SHORT = 50, 16
_RANGE = ", range is found"


@dataclass(frozen=True)
class Facts:
    """Public facts of a silo's records, which every silo has to match.

    ``n_units`` is the number of records, or of persons if these are protected; None if it is
    secret. ``classes`` is None for regression. Survival models read events up to the ``horizon``;
    with ``exposure`` records have exposures. For frames, ``columns`` says what is public; levels or
    ranges that are None are found before rounds.
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    classes: tuple[Label, ...] | None
    dtype: Literal["float64", "float32", "object"]
    n_units: int | None
    horizon: float | None = None
    exposure: bool = False
    columns: tuple[EncodedColumn, ...] | None = None

    def check(self) -> None:
        """Raise unless classes are distinct, sorted labels of one type, or there is a horizon.

        There is a name for each feature, or for none: silos match columns by names, and sums and
        models by their number.
        """
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise Refused("The number of the fit's features is not that of their names.")
        if self.columns is not None:
            check_columns(self.columns, self.feature_names)
            if self.dtype != "float64":
                raise Refused('Frames become numbers in double precision: give dtype="float64".')
        if self.horizon is not None and not 0 < self.horizon < np.inf:
            raise Refused("The horizon of survival times must be a positive number.")
        if self.classes is None:
            return
        longest = max((len(label) for label in self.classes if isinstance(label, str)), default=0)
        check_few(len(self.classes), LIMITS.classes, "classes")
        check_few(longest, LIMITS.name, "characters in a name")
        one_type = len({type(label) for label in self.classes}) == 1
        if not one_type or tuple(np.unique(np.asarray(self.classes)).tolist()) != self.classes:
            raise Refused(
                "The fit's classes must be sorted labels of one type, without duplicates."
            )


@dataclass(frozen=True)
class Hello:
    """The server asks a silo for its name, and to sign a challenge if there is one."""

    challenge: str = ""


@dataclass(frozen=True)
class Introduction:
    """A silo's name, which is its identity on any machine, and the identifier of its memory.

    Two silos with the same name have different identifiers; a restarted silo keeps its own.
    """

    name: str
    mark: str
    signature: str = ""


def introduction_in(data: bytes | None) -> Introduction | None:
    """Return the Introduction in an answer to Hello; None if it is something else."""
    try:
        letter = unpack(data or b"")
    except _codec.WireError:
        return None
    return letter if isinstance(letter, Introduction) else None


@dataclass(frozen=True, eq=False)
class Task:
    """A fit's work without the plan, of which each silo has its own."""

    model: Model
    loss: Loss
    algorithm: Algorithm
    alpha: float
    features: Any
    target: Any
    class_weights: tuple[float, ...] | None

    @cached_property
    def digest(self) -> str:
        """A digest of all parts; masks of a sum cancel only among silos with the same one."""
        return hashlib.sha256(pack(self)).hexdigest()

    def check_offered(self, offered: Task) -> None:
        """Raise unless the offered task differs in steps and maps only, which follow from sums."""
        kinds = [[type(x) for x in (t.model, t.loss, t.algorithm)] for t in (self, offered)]
        fixed = [pack((t.alpha, t.class_weights)) for t in (self, offered)]
        if kinds[0] != kinds[1] or fixed[0] != fixed[1]:
            raise Refused("The fit's model, loss, algorithm or weights differ from those offered.")

    @classmethod
    def of(cls, work: Work) -> Task:
        """Return the parts of a fit's work that are sent."""
        return cls(*(getattr(work, each.name) for each in fields(cls)))

    def check(self, plan: PrivacyPlan, facts: Facts) -> None:
        """Raise unless the task matches the records and the plan of an offer."""
        if plan.shares_noise and plan.unit != "silo" and not sends_one_gradient(self.algorithm):
            raise Refused("With shared noise, algorithms send one fresh gradient per round.")
        if plan.shares_noise and plan.size != self.model.size:
            raise Refused("The fit's model does not have the size that the plan was priced for.")
        own = type(self.model).person_gradient_sums is not Model.person_gradient_sums
        if plan.unit == "person" and not own:
            raise Refused('unit="person" is for linear and additive models.')
        declared = tuple(self.algorithm.n_gradients(r) for r in range(len(plan.steps)))
        n_classes = None if facts.classes is None else len(facts.classes)
        weighted = n_classes if self.class_weights is None else len(self.class_weights)
        fits = self.loss.is_classifier == (facts.classes is not None)
        fits &= isinstance(self.loss, PiecewiseExponential) == (facts.horizon is not None)
        fits &= not facts.exposure or (self.loss.link == "log" and self.loss.n_outputs() == 1)
        weights = np.asarray(self.class_weights or (1.0,))
        if (
            not fits
            or not ((weights >= 0) & (weights < np.inf)).all()
            or weighted != n_classes
            or self.model.n_outputs != self.loss.n_outputs(n_classes)
        ):
            raise Refused("The fit's loss or model is not for these classes.")
        d = facts.n_features
        width = d
        if isinstance(self.features, CurveScaling):  # the model's columns, after an expansion
            with in_words():
                self.features.curves.check(d)
            width = self.features.curves.width
        if declared != plan.steps or self.model.n_features != width:
            raise Refused("The fit's steps or features differ from those of the agreed plan.")
        if 8 * self.model.size > _codec.LIMITS.message_bytes:
            raise Refused("The fit's model is too large to be sent between machines.")
        if not (_maps(self.features, (2, d), (2, width)) and _maps(self.target, (2,), (2,))):
            raise Refused("The fit's maps are not for these features and targets.")

    def work(self, plan: PrivacyPlan, dtype: np.dtype) -> Work:
        """Return the work under a plan."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return Work(plan=plan, dtype=dtype, **parts)


def _maps(values: Any, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a map, if any, maps rows of one width to rows of another."""
    if values is None:
        return before == after
    if not hasattr(values, "transform"):
        return False
    with np.errstate(all="ignore"):
        shapes = [values.transform(np.zeros((n, *before[1:]))).shape for n in (1, 2)]
    return shapes == [(n, *after[1:]) for n in (1, 2)]


@dataclass(frozen=True, eq=False)
class Offer:
    """A fit that a silo is asked to take part in; ``index`` is the silo's number, for simulations.

    ``task`` is the fit's task before scales are found, None for sums: a silo that lacks its classes
    refuses here, before any silo has paid. With a whole plan, rounds are sums of masked messages
    (:mod:`skdpfl.remote._masks`). ``requester`` and ``purpose`` are for the person who approves;
    the ``signature`` is the requester's, of all other fields (:mod:`skdpfl.remote._masks`).
    """

    fit: str
    estimator: str
    requester: str
    purpose: str
    facts: Facts
    row: Row
    index: int
    seed: int | None
    task: Task | None = None
    release: str = __version__
    signature: str = ""

    @cached_property
    def agreed(self) -> bytes:
        """A digest of what all silos of the fit are offered alike.

        It covers every field but the silo's number and size, the signature, and in fits without
        masks its row: what silos sign, bind their masks to, and show to the person who approves.
        """
        common = self.row.common if self.row.masked else ()
        facts = replace(self.facts, n_units=None)
        alike = {each.name: getattr(self, each.name) for each in fields(self)}
        alike |= {"index": 0, "facts": facts, "row": common, "signature": ""}
        return hashlib.sha256(b"skdpfl offer 2" + pack(alike)).digest()

    @property
    def digest(self) -> str:
        """The start of the digest that all silos sign, for people to compare."""
        return self.agreed.hex()[:_SHORT]

    def longest_ask(self, size: int) -> int:
        """Return the most bytes that a question of a fit with an offer of this size can need.

        A broadcast has few vectors of the model's size, a task what the offer has, with its maps.
        """
        model = 0 if self.task is None else self.task.model.size
        return _codec.LIMITS.header_bytes + 4 * (size + 8 * model)

    def shown(self, spent: PrivacySpent) -> dict[str, Any]:
        """Return what the person who approves has to know, in plain values.

        ``offer`` is the start of the digest that all silos sign: operators may compare it.
        """
        task, facts, row, plan = self.task, self.facts, self.row, self.row.plan
        names = facts.feature_names or [f"x{i}" for i in range(min(facts.n_features, _SHOWN))]
        shares = plan.weights / plan.weights.sum() if row.masked and plan is not None else None
        shown: dict[str, Any] = {
            "offer": self.digest,
            **{k: getattr(self, k) for k in ("fit", "estimator", "requester", "purpose")},
            **{k: getattr(spent, k) for k in ("epsilon", "delta", "unit", "neighbours")},
            "masked": row.masked or None,
            "colluding": spent.colluding if row.shares_noise else None,
            "rounds": None if plan is None else plan.n_rounds,
            "n_features": facts.n_features,
            "features": list(names[:_SHOWN]),
            "horizon": facts.horizon,
            "exposure": facts.exposure or None,
            "columns": _in_words(facts.columns),
            "classes": facts.classes and list(facts.classes[:_SHOWN]),
            "silos": list(row.silos[:_SHOWN]) if row.masked else None,
            "shares": None if shares is None else shares[:_SHOWN].round(4).tolist(),
        }
        if task is not None:
            parts = {"model": task.model, "loss": task.loss, "algorithm": task.algorithm}
            shown |= {name: _in_short(repr(part)) for name, part in parts.items()}
            shown["class_weights"] = task.class_weights and list(task.class_weights[:_SHOWN])
        if row.promise.unit == "person":
            how = {} if plan is None else {"contribution": plan.contribution}
            shown["persons"] = {"silos_per_person": row.promise.silos_per_person} | how
        return {name: value for name, value in shown.items() if value is not None}

    def check_size(self) -> None:
        """Raise for offers that would take long to price; this is the first check."""
        if self.release != __version__:
            raise Refused(f"The server has skdpfl {self.release[:20]}, this silo {__version__}.")
        row, names = self.row, (self.fit, self.estimator, self.requester, self.row.name)
        check_few(max(map(len, names)), LIMITS.name, "characters in a name")
        check_few(len(self.purpose), LIMITS.purpose, "characters in its purpose")
        releases = sum(len(plan.mus) for plan in row.sums)
        check_few(releases, LIMITS.releases, "releases besides its rounds")
        steps = () if row.plan is None else row.plan.steps
        check_few(len(steps), LIMITS.rounds, "rounds")
        priced = max(1, sum(steps)) * row.promise.silos_per_person
        check_few(priced, LIMITS.steps, "steps, in all silos of a person")

    def check_silo(self, name: str, allow_simulation: bool) -> None:
        """Raise unless the offer is for this silo, and the silo draws its own noise."""
        if self.row.name != name:
            raise Refused(f"The offer is for silo {self.row.name!r}; this silo is {name!r}.")
        if self.row.size != self.facts.n_units:
            raise Refused("The plan and the declared facts differ in the size of this silo.")
        if self.seed is not None and not allow_simulation:
            words = "Whoever knows the seed knows the noise"
            raise Refused(f"{words}: give random_state=None (or the silo allow_simulation=True).")

    def check_parts(self) -> None:
        """Raise unless row, facts and task match each other."""
        row = self.row
        if row.plan is None:
            if row.first is not None:  # raise unless it can be computed from these records
                validate_question(row.sums[0], row.sums[0].first, row.first, self.facts, None)
            return
        if self.facts.dtype == "object":
            raise Refused("Models need numbers; by the fit's facts tables have text. Encode them.")
        if self.task is None:
            raise Refused("An offer of a fit must contain its model, loss and algorithm.")
        self.task.check(row.plan, self.facts)


@dataclass(frozen=True)
class Agreement:
    """The silo takes part, or has settled a fit that ended; with the cost as it computes it.

    For masked messages also its public key for the fit, and its signature of the key and the plan,
    which is empty if its operator has no roster.
    """

    fit: str
    epsilon: float
    key: str | None = None
    signature: str = ""


@dataclass(frozen=True)
class Waiting:
    """A person at the silo has to approve first, or it has no room now; the letter may come again.

    ``busy``: no person has to do with it.
    """

    fit: str
    reason: str
    busy: bool = False


@dataclass(frozen=True, eq=False)
class Part:
    """A masked sum: the numbers of its silos, and the step of the grid.

    If a round or setup sum fails, it is repeated under a new number; ``round`` is its number in the
    plan. With shared noise ``step`` is not used, since it follows from the plan. A silo's first
    letter has the ``keys`` of all silos for this fit, in their order, and their signatures.
    """

    among: np.ndarray
    round: int
    step: float
    keys: tuple[str, ...] | None = None
    signatures: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Ask:
    """A request for a sum or a round of the plan: ``content`` is the broadcast.

    ``task`` is in the first round's letter; the silo stores it. With frames, ``columns`` says how
    they are encoded; None: only columns with unknown levels or ranges are read.
    """

    fit: str
    purpose: str
    number: int
    content: Any
    clip_norm: float
    task: Task | None = None
    part: Part | None = None
    columns: tuple[EncodedColumn, ...] | None = None


def _in_short(text: str) -> str:
    """Return a text of at most 200 characters as it is; longer ones with a digest of the rest."""
    rest = text[200:].encode()
    cut = f"... (and {len(rest):,} bytes, SHA-256 {hashlib.sha256(rest).hexdigest()[:_SHORT]})"
    return text[:200] + cut if rest else text


def _in_words(columns: tuple[EncodedColumn, ...] | None) -> dict[str, str] | None:
    """Return a frame's columns, with their kinds and what the fit will find, in plain words."""
    if columns is None:
        return None
    looked = {"category": ", levels are found"}
    return {
        str(each.name): each.kind + ("" if each.is_known else looked.get(each.kind, _RANGE))
        for each in columns[:_SHOWN]
    }


def is_finite(content: Any) -> bool:
    """Whether all arrays of a broadcast are finite; otherwise a round would be wasted."""
    arrays = content if isinstance(content, tuple) else (content,)
    floats = [each for each in arrays if isinstance(each, np.ndarray) and each.dtype.kind == "f"]
    return all(np.isfinite(each).all() for each in floats)


@dataclass(frozen=True, eq=False)
class Answer:
    """A silo's release; ``names`` are the values' names, if those are released too."""

    fit: str
    purpose: str
    number: int
    values: np.ndarray
    names: tuple[tuple[Label, ...], ...] | None = None


@dataclass(frozen=True)
class End:
    """The fit ends early, after so many answered rounds; or is complete: ``rounds`` is None.

    Of a complete fit, a silo deletes the secrets of its masks, and says so by the same letter.
    """

    fit: str
    rounds: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a silo refuses a letter; this reveals nothing of its records."""

    fit: str
    reason: str


declare(
    EncodedColumn, Predictor, Scored, Row, PrivacyPlan, Facts, Hello, Introduction, Offer, Agreement
)
declare(Task, Part, Ask, Answer, End, Refusal, Waiting)
