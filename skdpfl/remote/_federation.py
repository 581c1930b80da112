"""The server's side: silos elsewhere, reached by letters."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from skdpfl.federation import BoundedSum, Federation, Named, Question, Schema, SumPlan, Work
from skdpfl.privacy.mechanisms.records import smallest_cohort
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.remote._declared import pack
from skdpfl.remote._exchange import Courier, SilosMissing, exchange, in_words, odd_ones
from skdpfl.remote._journal import FitJournal
from skdpfl.remote._letters import Agreement, Answer, Ask, Facts, Offer, Part, Task, is_finite
from skdpfl.remote._masks import FEWEST, FINENESS, total_of
from skdpfl.remote._row import Row, SumRow, WholePlan, check_noised, rows_of, whole_plans_of
from skdpfl.remote._terms import Refused
from skdpfl.remote._wire import WireError


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
    masked : bool, default=False
        Show the server the sum of a round's messages only, not each of them: against a server that
        follows the protocol. The noise, and what it costs, are as without. All silos of a round
        have to answer, three or more. Questions beside the rounds are not masked.
    n_attempts : int, default=3
        How often a letter is sent to a silo that does not answer. A silo that did answer sends the
        same answer again.
    patience : float, default=0.0
        Seconds to wait for silos where a person has to say yes to a fit.
    journal : path-like, optional
        A file, for one fit: a server that is killed and started again with the same parameters
        goes on with this fit, which nobody pays for twice. Delete it when the model is kept.

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
        masked: bool = False,
        n_attempts: int = 3,
        patience: float = 0.0,
        journal: str | os.PathLike[str] | None = None,
    ) -> None:
        if on_missing not in ("fail", "skip"):
            raise ValueError(f"on_missing must be 'fail' or 'skip'; got {on_missing!r}.")
        if n_attempts < 1:
            raise ValueError(f"n_attempts must be 1 or more; got {n_attempts!r}.")
        if masked and on_missing == "skip":
            raise ValueError('Masks cancel if all silos answer: give on_missing="fail".')
        self.patience = float(patience)
        self._journal = None if journal is None else FitJournal(journal)
        self._written: FitJournal | None = None  # once its fit has begun
        self.names = [_text(name) for name in facts.silo_sizes]
        self.on_missing, self.n_attempts, self.masked = on_missing, n_attempts, masked
        self._courier, self.facts, self.estimator = courier, facts, estimator
        self.classes = None if classes is None else tuple(np.unique(np.asarray(classes)).tolist())
        self._fit, self._started = "", set[str]()
        self._task: Task | None = None
        self._keys: tuple[str, ...] = ()
        self._signatures: tuple[str, ...] = ()
        self._weights, self._clip_norm = np.zeros(0), 1.0
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

    def agree(self, work: Work, sums: Sequence[SumPlan], seed: int | None) -> None:
        if self._written is not None:
            raise Refused("A journal is for one fit: give each fit a federation of its own.")
        task = Task.of(work)
        _check_declared(task, "The fit has a part")
        if self.masked and (n := smallest_cohort(work.plan)) < FEWEST:
            raise Refused(
                f"A masked sum is among {FEWEST} silos or more; this fit has rounds of {n}. Give "
                "masked=False, or a larger silo_fraction."
            )
        made = whole_plans_of if self.masked else rows_of
        self._offer(made(work.plan, sums), seed, self.estimator, task)

    def agree_on_sums(
        self, sums: Sequence[SumPlan], first: BoundedSum | None, delta: float, seed: int | None
    ) -> None:
        finite = all(np.isfinite(mu).all() for plan in sums for mu in plan.mus)
        check_noised(finite, sums[0].budgets.trust)
        _check_declared(first, "What is asked for is something")
        given, rows = sums[0].budgets, []
        kind = given.unit, given.trust, given.neighbours
        for i, name in enumerate(self.names):
            size = int(given.silo_sizes[i]) if given.unit == "record" else None
            mine = tuple(plan.of_silo(i) for plan in sums)
            rows.append(SumRow(name, size, delta, *kind, mine, first))
        self._offer(rows, seed, f"{sums[0].purpose} of {self.estimator}", None)

    def _offer(
        self,
        rows: Sequence[Row | SumRow | WholePlan],
        seed: int | None,
        called: str,
        task: Task | None,
    ) -> None:
        """Offer a silo its row each; raise unless all agree."""
        self._written = None if task is None else self._journal
        self._fit = secrets.token_hex(8) if self._written is None else self._written.fit
        self._task, self._started = None, set()
        self.round_seconds = []
        facts, letters = self.facts, {}
        names = None if facts.feature_names is None else tuple(map(str, facts.feature_names))
        for i, row in enumerate(rows):
            shape = int(facts.n_features), names, self.classes, facts.dtype, row.size
            letters[row.name] = Offer(self._fit, called, Facts(*shape), row, i, seed, task)
        agreed, reasons = self._exchange(letters, Agreement)
        if reasons:
            raise SilosMissing(f"Some silos do not take part. {in_words(reasons)}")
        self.epsilons = {name: letter.epsilon for name, letter in agreed.items()}
        each = [agreed[name] for name in self.names]
        self._keys = tuple(letter.key or "" for letter in each)
        self._signatures = tuple(letter.signature for letter in each)
        if self.masked and task is not None and not all(self._keys):
            raise SilosMissing("Some silos agreed to masked sums, but sent no key.")

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        ask = Ask(self._fit, question.purpose, question.number, question.asked, np.inf)
        answers, reasons = self._exchange(dict.fromkeys(self.names, ask), Answer)
        reasons |= odd_ones(answers)
        if reasons:
            raise SilosMissing(f"A question needs the answers of all silos. {in_words(reasons)}")
        yield from self._in_order(answers)

    def start(self, work: Work) -> None:
        if self.may_miss and work.memory_size:
            raise Refused(
                f"{type(work.algorithm).__name__} keeps something in each silo, which a missing "
                'answer would set apart from what the server knows: give on_missing="fail".'
            )
        self._task, self._weights = Task.of(work), work.plan.weights
        self._clip_norm = float(work.plan.clip_norm)
        self._width = work.model.size + work.plan.mechanism.n_extra

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        names, begin = [self.names[i] for i in cohort.tolist()], time.monotonic()
        _check_finite(shared)
        letters = self._letters(round, shared, cohort, float(clip_norm))
        answers, reasons = self._exchange(letters, Answer)
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
        if self.masked:
            total = total_of([answers[name].values for name in names])
            yield from self._as_messages(cohort, total * self._step(clip_norm))
        else:
            yield from self._in_order(answers)

    def _letters(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> dict[str, Offer | Ask]:
        """Return a round's letters: with the task, and all keys, where a silo has no round yet."""
        words = self._fit, "round", round, shared, clip_norm
        later, first = Ask(*words), Ask(*words, self._task)  # type: ignore[arg-type]
        if self.masked:
            part = Part(cohort, self._step(clip_norm))
            known = replace(part, keys=self._keys, signatures=self._signatures)
            later, first = replace(later, part=part), replace(first, part=known)
        names = [self.names[i] for i in cohort.tolist()]
        return {name: later if name in self._started else first for name in names}

    def _step(self, clip_norm: float) -> float:
        """Return the step of the grid that masked messages are on, a power of two."""
        largest = clip_norm if math.isfinite(clip_norm) else self._clip_norm
        return 2.0 ** math.floor(math.log2(largest * FINENESS))

    def _as_messages(
        self, cohort: np.ndarray, total: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield messages of this weighted sum: all of it as one silo's, the others' are zero."""
        heaviest = int(self._weights[cohort].argmax())
        messages = np.zeros((len(cohort), len(total)))
        messages[heaviest] = total / self._weights[cohort][heaviest]
        yield cohort, messages

    def _in_order(self, answers: dict[str, Any]) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield answers silo by silo; all have the width of most of them."""
        for i, name in enumerate(self.names):
            if name in answers:
                found = answers[name]
                named = None if found.names is None else [Named(found.values, found.names)]
                yield np.array([i]), found.values[None] if named is None else named

    def own_streams(self) -> Streams | None:
        return None if self._journal is None else self._journal.streams()

    def _exchange(
        self, letters: Mapping[str, Offer | Ask], kind: type
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Exchange letters of the fit, which the journal keeps."""
        if self._written is None:
            return self.exchange(letters, kind)
        final = self.may_miss and kind is Answer
        return self._written.exchange(letters, lambda: self.exchange(letters, kind), final=final)

    def exchange(
        self, letters: Mapping[str, Offer | Ask], kind: type
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return answers of a kind, and why there are none of others.

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
        return exchange(self._courier, letters, kind, self.n_attempts, self.patience)


def _check_finite(shared: Any) -> None:
    """Raise before a round is asked for, and used up, that could bring nothing."""
    if not is_finite(shared):
        raise Refused(
            "The model is not finite: the steps diverged, and no silo is asked for another round. "
            "Give a smaller learning_rate."
        )


def _check_declared(sent: Any, what: str) -> None:
    """Raise unless this can be sent: the model, the loss and the algorithm of a fit, or a sum."""
    try:
        pack(sent)
    except WireError as error:
        raise Refused(f"{what} that silos elsewhere do not know. {error}") from error


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(
            f"A silo elsewhere is known by its name, a text; silo_sizes has {name!r}. Write "
            'silo_sizes={"north": 120, "south": 80}.'
        )
    return name
