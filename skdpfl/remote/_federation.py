"""The server's side: silos elsewhere, reached by letters."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from skdpfl.federation import Federation, Question, Schema, Work
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import (
    Agreement,
    Answer,
    Ask,
    Facts,
    Offer,
    Refusal,
    Task,
)
from skdpfl.remote._refused import Refused
from skdpfl.remote._row import rows_of
from skdpfl.remote._wire import WireError
from skdpfl.scaling import ScalingPlan, TemperaturePlan


class SilosMissing(RuntimeError):
    """Silos did not answer, or not what they were asked; the text names them and their reasons."""


class Courier(ABC):
    """Takes letters to silos and brings their answers: a network, or a test."""

    @abstractmethod
    def deliver(self, letters: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver letters, and return the answers that came in time.

        Parameters
        ----------
        letters : mapping
            A letter for each silo, by its name.

        Returns
        -------
        mapping
            The names of silos that answered, and their answers.
        """


class RemoteFederation(Federation):
    """Silos elsewhere, as ``fit_federation`` asks them.

    Parameters
    ----------
    courier : Courier
        Who takes letters to them.
    facts : Schema
        What is public of their records; it names them.
    classes : sequence, optional
        The labels; None for regression.
    estimator : str, default="fit"
        What the fit is called in the silos' ledgers.
    on_missing : {"fail", "skip"}, default="fail"
        What to do in a round without some silos' answers. "skip" goes on with the others: for
        algorithms whose silos keep nothing between rounds, whose mean over the others is that over
        all in expectation, if silos are missing by chance. Whoever answered has paid.
    n_attempts : int, default=3
        How often a letter is sent to a silo that does not answer. A silo that did answer sends the
        same answer again.

    See Also
    --------
    skdpfl.remote.Gate : What a silo checks before it answers.
    """

    def __init__(
        self,
        courier: Courier,
        facts: Schema,
        *,
        classes: Sequence[Any] | None = None,
        estimator: str = "fit",
        on_missing: Literal["fail", "skip"] = "fail",
        n_attempts: int = 3,
    ) -> None:
        if on_missing not in ("fail", "skip"):
            raise ValueError(f"on_missing must be 'fail' or 'skip'; got {on_missing!r}.")
        if n_attempts < 1:
            raise ValueError(f"n_attempts must be 1 or more; got {n_attempts!r}.")
        self.names = [_text(name) for name in facts.silo_sizes]
        self.on_missing, self.n_attempts = on_missing, n_attempts
        self._courier, self.facts, self.estimator = courier, facts, estimator
        self.classes = None if classes is None else tuple(np.unique(np.asarray(classes)).tolist())
        self._fit, self._started = "", set[str]()
        self._task: Task | None = None
        self._absent, self._width = np.zeros(0, int), 0
        #: each silo's price of the last fit, by its own computation, and seconds of its rounds
        self.epsilons: dict[str, float] = {}
        self.round_seconds: list[float] = []

    @property
    def n_silos(self) -> int:
        return len(self.names)

    @property
    def may_miss(self) -> bool:
        return self.on_missing == "skip"

    def absent(self) -> np.ndarray:
        return self._absent

    def agree(self, work: Work, before: object, after: object, seed: int | None) -> None:
        assert before is None or isinstance(before, ScalingPlan)
        assert after is None or isinstance(after, TemperaturePlan)
        self._fit, self._task, self._started = secrets.token_hex(8), None, set()
        self.round_seconds = []
        facts, letters = self.facts, {}
        names = None if facts.feature_names is None else tuple(map(str, facts.feature_names))
        rows, task = rows_of(work.plan, before, after), Task.of(work)
        _check_declared(task)
        for i, row in enumerate(rows):
            shape = int(facts.n_features), names, self.classes, facts.dtype, row.size
            offer = Offer(self._fit, self.estimator, Facts(*shape), row, i, seed, task)
            letters[row.name] = offer
        agreed, reasons = self.exchange(letters, Agreement)
        if reasons:
            raise SilosMissing(f"Some silos do not take part. {in_words(reasons)}")
        self.epsilons = {name: letter.epsilon for name, letter in agreed.items()}

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        purpose: Any = question.purpose
        ask = Ask(self._fit, purpose, question.number, question.asked, np.inf)
        answers, reasons = self.exchange(dict.fromkeys(self.names, ask), Answer)
        reasons |= _odd_ones(answers)
        if reasons:
            raise SilosMissing(f"A question needs the answers of all silos. {in_words(reasons)}")
        yield from self._in_order(answers)

    def start(self, work: Work) -> None:
        if self.may_miss and work.memory_size:
            raise Refused(
                f"{type(work.algorithm).__name__} keeps something in each silo, which a missing "
                'answer would set apart from what the server knows: give on_missing="fail".'
            )
        self._task = Task.of(work)
        self._width = work.model.size + work.plan.mechanism.n_extra

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        content = Ask(self._fit, "round", round, shared, float(clip_norm))
        first = Ask(self._fit, "round", round, shared, float(clip_norm), self._task)
        names, begin = [self.names[i] for i in cohort.tolist()], time.monotonic()
        letters = {name: content if name in self._started else first for name in names}
        answers, reasons = self.exchange(letters, Answer)
        self.round_seconds.append(time.monotonic() - begin)
        self._started |= answers.keys()
        for name in [n for n, answer in answers.items() if answer.values.size != self._width]:
            del answers[name]
            reasons[name] = "a message of another length than the model's"
        if reasons and not (self.may_miss and answers):
            raise SilosMissing(
                f"Round {round} lacks answers; whoever answered has paid. {in_words(reasons)}"
            )
        missing = [i for i in cohort.tolist() if self.names[i] not in answers]
        self._absent = np.array(missing, dtype=int)
        yield from self._in_order(answers)

    def _in_order(self, answers: dict[str, Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield answers silo by silo; all have the width of most of them."""
        for i, name in enumerate(self.names):
            if name in answers:
                yield np.array([i]), answers[name].values[None]

    def exchange(
        self, letters: Mapping[str, Offer | Ask], kind: type
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return answers, and why there are none of others; who is silent is asked again.

        Parameters
        ----------
        letters : mapping
            A letter for each silo, by its name.
        kind : type
            Of what answers should be.

        Returns
        -------
        answers : dict
            The answers of that kind, to these letters.
        reasons : dict
            Why there is none of other silos.
        """
        answers: dict[str, Any] = {}
        reasons = dict.fromkeys(letters, "no answer in time")
        written = {id(letter): pack(letter) for letter in letters.values()}
        waiting = set(letters)
        for _ in range(self.n_attempts):
            sent = {n: written[id(letter)] for n, letter in letters.items() if n in waiting}
            came = self._courier.deliver(sent)
            for name in sorted(waiting & came.keys()):
                answer = _opened(came[name], kind, letters[name])
                if isinstance(answer, kind):
                    answers[name] = answer
                    del reasons[name]
                else:
                    reasons[name] = str(answer)
                if isinstance(answer, kind | Refused):  # it will not say anything else
                    waiting.discard(name)
            if not waiting:
                break
        return answers, reasons


def _check_declared(task: Task) -> None:
    """Raise unless the model, the loss and the algorithm of a fit can be sent."""
    try:
        pack(task)
    except WireError as error:
        raise Refused(f"The fit has a part that silos elsewhere do not know. {error}") from error


def _opened(data: bytes, kind: type, asked: Offer | Ask) -> Any:
    """Return an answer, or the reason why this is none: a Refused where it is final."""
    try:
        letter: Any = unpack(data)
    except WireError as error:
        return f"an answer that cannot be read ({error})"
    if isinstance(letter, Refusal):
        return Refused(letter.reason)
    if not isinstance(letter, kind) or getattr(letter, "fit", "") != asked.fit:
        return "an answer to something else"
    both = isinstance(letter, Answer) and isinstance(asked, Ask)
    return _checked(letter, asked) if both else letter  # type: ignore[arg-type]


def _checked(answer: Answer, ask: Ask) -> Any:
    """Return an answer, or why it is none to this question."""
    if (answer.purpose, answer.number) != (ask.purpose, ask.number):
        return f"an answer to {answer.purpose} {answer.number}, not {ask.purpose} {ask.number}"
    values = answer.values
    if values.ndim != 1 or values.dtype.kind != "f" or not np.isfinite(values).all():
        return "an answer that is no vector of finite numbers"
    return answer


def _odd_ones(answers: dict[str, Any]) -> dict[str, str]:
    """Return the silos whose answers are of another length than most."""
    widths = [answer.values.size for answer in answers.values()]
    usual = max(set(widths), key=widths.count, default=0)
    odd = [name for name, answer in answers.items() if answer.values.size != usual]
    return dict.fromkeys(odd, "an answer of another length than the others'")


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(
            f"A silo elsewhere is known by its name, a text; silo_sizes has {name!r}. Write "
            'silo_sizes={"north": 120, "south": 80}.'
        )
    return name


def in_words(reasons: dict[str, str]) -> str:
    return " ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items()))
