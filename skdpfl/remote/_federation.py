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
from skdpfl.privacy.plan import PrivacyPlan
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
        have to answer, three or more. Questions beside the rounds are not masked. Fits with
        ``trust="secagg"``, whose silos share noise, are masked in any case, and all of their sums.
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
        self._fit, self._started, self._keyed = "", set[str](), set[str]()
        self._task: Task | None = None
        self._keys: tuple[str, ...] = ()
        self._signatures: tuple[str, ...] = ()
        self._weights, self._clip_norm = np.zeros(0), 1.0
        self._absent, self._width = np.zeros(0, int), 0
        #: where silos share noise: the plan, how many rounds failed, and who did not answer in them
        self._shared: PrivacyPlan | None = None
        self._failed, self._gone = 0, np.zeros(0, int)
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
        self._shared = work.plan if work.plan.shares_noise else None
        masked = self.masked or self._shared is not None
        if self._shared is not None and self.may_miss:
            raise Refused(
                'trust="secagg" gives a sum only if all of its silos answer: on_missing="fail", '
                "and SecureAggregation(spare_rounds=...) for rounds that may fail."
            )
        if masked and (n := smallest_cohort(work.plan)) < FEWEST:
            instead = "masked=False" if self._shared is None else 'trust="silo"'
            raise Refused(
                f"A masked sum is among {FEWEST} silos or more; this fit has rounds of {n}. Give "
                f"{instead}, or a larger silo_fraction."
            )
        made = whole_plans_of if masked else rows_of
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
        self._task, self._started, self._keyed = None, set(), set()
        self._failed, self._gone = 0, np.zeros(0, int)
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
        if isinstance(rows[0], WholePlan) and not all(self._keys):
            raise SilosMissing("Some silos agreed to masked sums, but sent no key.")

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        ask = Ask(self._fit, question.purpose, question.number, question.asked, np.inf)
        letters, everyone = dict.fromkeys(self.names, ask), np.arange(self.n_silos)
        if self._shared is not None:
            letters = self._parted(letters, Part(everyone, None, 1.0))
        answers, reasons = self._exchange(letters, Answer)
        reasons |= odd_ones(answers)
        if reasons:
            raise SilosMissing(f"A question needs the answers of all silos. {in_words(reasons)}")
        if self._shared is None:
            yield from self._in_order(answers)
        else:
            self._keyed |= answers.keys()
            yield everyone, _as_one(total_of([answers[n].values for n in self.names]), everyone)

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
        _check_finite(shared)
        begin, clip_norm = time.monotonic(), float(clip_norm)
        if self._shared is None:
            answers, reasons = self._asked(round, round, shared, cohort, clip_norm)
        else:
            answers, reasons = self._attempts(round, shared, cohort, clip_norm)
        self.round_seconds.append(time.monotonic() - begin)
        if reasons and not (self.may_miss and answers):
            spare = ""
            if self._shared is not None:
                n = self._shared.spare_rounds
                spare = f" None of {n} spare rounds is left: SecureAggregation(spare_rounds=...)."
            raise SilosMissing(
                f"Round {round} lacks answers; whoever answered has paid.{spare} "
                f"{in_words(reasons)}"
            )
        self._absent = np.array([i for i in cohort.tolist() if self.names[i] not in answers], int)
        present = np.setdiff1d(cohort, self._absent)
        if self._shared is None and not self.masked:
            yield from self._in_order(answers)
            return
        total = total_of([answers[self.names[i]].values for i in present.tolist()])
        if self._shared is None:
            messages = _as_one(total * self._step(clip_norm), self._weights[cohort])
            yield cohort, messages / np.maximum(self._weights[cohort], 1e-300)[:, None]
        else:
            yield present, _as_one(total, present)

    def _attempts(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the answers of all that are left of a cohort, after spare rounds if need be.

        An attempt that failed is dead: its masks meet no other letters, and the next one has noise
        and batches of its own. Who did not answer in one is asked no more.
        """
        plan = self._shared
        assert plan is not None
        reasons: dict[str, str] = {}
        while True:
            left = np.setdiff1d(cohort, self._gone)
            if len(left) < max(FEWEST, plan.colluding + 1):
                raise SilosMissing(self._too_few(round, len(left), plan, reasons))
            attempt = round + self._failed
            answers, missing = self._asked(attempt, round, shared, left, clip_norm)
            reasons |= missing
            if not missing or self._failed == plan.spare_rounds:
                return answers, missing
            self._failed += 1
            gone = [i for i in left.tolist() if self.names[i] in missing]
            self._gone = np.union1d(self._gone, gone).astype(int)

    def _too_few(self, round: int, left: int, plan: PrivacyPlan, reasons: dict[str, str]) -> str:
        return (
            f"Round {round} has {left} silos left: a masked sum is among {FEWEST} or more, and "
            f"more than colluding={plan.colluding}. Who answered has paid for the whole fit, at "
            f"most epsilon={max(self.epsilons.values()):.4g}. {in_words(reasons)}"
        )

    def _asked(
        self, attempt: int, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Ask a cohort once; return messages of the right length, and why there are no others."""
        letters = self._letters(attempt, round, shared, cohort, clip_norm)
        goes_on = self._shared is not None and self._failed < self._shared.spare_rounds
        answers, reasons = self._exchange(letters, Answer, final=self.may_miss or goes_on)
        self._started |= answers.keys()
        self._keyed |= answers.keys()
        for name in [n for n, answer in answers.items() if answer.values.size != self._width]:
            del answers[name]
            reasons[name] = "a message of another length than the model's"
        return answers, reasons

    def _letters(
        self, attempt: int, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> dict[str, Ask]:
        """Return a round's letters: with the task where a silo has no round yet."""
        later = Ask(self._fit, "round", attempt, shared, clip_norm)
        first = replace(later, task=self._task)
        names = [self.names[i] for i in cohort.tolist()]
        letters = {name: later if name in self._started else first for name in names}
        if self.masked or self._shared is not None:
            letters = self._parted(letters, Part(cohort, round, self._step(clip_norm)))
        return letters

    def _parted(self, letters: Mapping[str, Ask], part: Part) -> dict[str, Ask]:
        """Return letters with what is said of a masked sum: all keys where a silo has none yet.

        Letters that are alike stay one object, which is written once.
        """
        keyed = replace(part, keys=self._keys, signatures=self._signatures)
        made: dict[tuple[int, bool], Ask] = {}
        found = {}
        for name, ask in letters.items():
            kind = id(ask), name in self._keyed
            made.setdefault(kind, replace(ask, part=part if kind[1] else keyed))
            found[name] = made[kind]
        return found

    def _step(self, clip_norm: float) -> float:
        """Return the step of the grid that masked messages are on, a power of two."""
        largest = clip_norm if math.isfinite(clip_norm) else self._clip_norm
        return 2.0 ** math.floor(math.log2(largest * FINENESS))

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
        self, letters: Mapping[str, Offer | Ask], kind: type, final: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Exchange letters of the fit, which the journal keeps; ``final``: also if some miss."""
        if self._written is None:
            return self.exchange(letters, kind)
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


def _as_one(total: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return messages whose sum is this: all of it as the heaviest silo's, the others' are zero."""
    messages = np.zeros((len(weights), len(total)), total.dtype)
    messages[int(weights.argmax())] = total
    return messages


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
