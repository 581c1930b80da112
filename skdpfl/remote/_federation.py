"""The server's side: silos elsewhere, reached by letters."""

import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from skdpfl import federation
from skdpfl.privacy.mechanisms.records import smallest_cohort
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.remote import _row
from skdpfl.remote._declared import pack
from skdpfl.remote._exchange import Courier, SilosMissing, exchange, in_words, odd_ones
from skdpfl.remote._journal import FitJournal
from skdpfl.remote._letters import (
    Agreement,
    Answer,
    Ask,
    End,
    Ended,
    Facts,
    Offer,
    Part,
    Task,
    is_finite,
)
from skdpfl.remote._masks import FEWEST, FINENESS, total_of
from skdpfl.remote._terms import Refused
from skdpfl.remote._wire import WireError

#: answers, and why there are none of others
Came = tuple[dict[str, Any], dict[str, str]]


class Spare(NamedTuple):
    """A round or a question of the plan, and how often one of its purpose may fail."""

    purpose: str
    number: int
    n: int
    colluding: int


class RemoteFederation(federation.Federation):
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
        facts: federation.Schema,
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
        #: where silos share noise: the plan, how many rounds, and sums of each purpose, failed, and
        #: who did not answer in them
        self._shared: PrivacyPlan | None = None
        self._failed, self._gone = dict[str, int](), np.zeros(0, int)
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

    def agree(
        self, work: federation.Work, sums: Sequence[federation.SumPlan], seed: int | None
    ) -> None:
        if self._written is not None:
            raise Refused("A journal is for one fit: give each fit a federation of its own.")
        task = Task.of(work)
        _check_declared(task, "The fit has a part")
        shared = work.plan if work.plan.shares_noise else None
        self._check_masked(shared is not None, smallest_cohort(work.plan), self.masked)
        made = _row.whole_plans_of if self.masked or shared is not None else _row.rows_of
        self._offer(made(work.plan, sums), seed, self.estimator, task)
        self._shared = shared

    def agree_on_sums(
        self,
        sums: Sequence[federation.SumPlan],
        first: federation.BoundedSum | None,
        delta: float,
        seed: int | None,
    ) -> None:
        _check_declared(first, "What is asked for is something")
        self._check_masked(any(p.budgets.shares_noise for p in sums), self.n_silos)
        rows = _row.sum_rows_of(self.names, sums, first, delta)
        self._offer(rows, seed, f"{sums[0].purpose} of {self.estimator}", None)

    def _check_masked(self, shared: bool, n_silos: int, masked: bool = False) -> None:
        """Raise where the sums of so many silos, at least, are masked and cannot be."""
        if shared and self.may_miss:
            raise Refused(
                'trust="secagg" gives a sum only if all of its silos answer: on_missing="fail", '
                "and SecureAggregation(spare_rounds=...) for rounds that may fail."
            )
        if (shared or masked) and n_silos < FEWEST:
            instead = 'trust="silo"' if shared else "masked=False"
            raise Refused(
                f"A masked sum is among {FEWEST} silos or more; one here is of {n_silos}. Give "
                f"{instead}, or a larger silo_fraction."
            )

    def _offer(
        self,
        rows: Sequence[_row.Row | _row.SumRow | _row.WholePlan],
        seed: int | None,
        called: str,
        task: Task | None,
    ) -> None:
        """Offer a silo its row each; raise unless all agree."""
        self._written = None if task is None else self._journal
        self._fit = secrets.token_hex(8) if self._written is None else self._written.fit
        self._task, self._started, self._keyed = None, set(), set()
        self._shared, self._failed, self._gone = None, {}, np.zeros(0, int)
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
        if isinstance(rows[0], _row.Together) and not all(self._keys):
            raise SilosMissing("Some silos agreed to masked sums, but sent no key.")

    def ask(self, question: federation.Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        ask = Ask(self._fit, question.purpose, question.number, question.asked, np.inf)
        if isinstance(question, federation.SumQuestion) and question.shared is not None:
            yield self._summed(ask, question.plan.budgets)
            return
        answers, reasons = self._exchange(dict.fromkeys(self.names, ask), Answer)
        reasons |= odd_ones(answers)
        if reasons:
            raise SilosMissing(f"A question needs the answers of all silos. {in_words(reasons)}")
        yield from self._in_order(answers)

    def _summed(self, ask: Ask, budgets: federation.SiloBudgets) -> tuple[np.ndarray, np.ndarray]:
        """Return who is left of all silos, and the masked sum of their answers to a question."""

        def asked(number: int, left: np.ndarray, final: bool) -> Came:
            letter = replace(ask, number=number)
            letters = dict.fromkeys([self.names[i] for i in left.tolist()], letter)
            letters = self._parted(letters, Part(left, ask.number, 1.0))
            answers, reasons = self._exchange(letters, Answer, final=final)
            self._keyed |= answers.keys()
            return answers, reasons | odd_ones(answers)

        what, everyone = f"The question about the {ask.purpose}", np.arange(self.n_silos)
        spare = Spare(ask.purpose, ask.number, budgets.spare, budgets.colluding)
        answers, reasons = self._attempts(what, spare, everyone, asked)
        if reasons:
            more = self._none_left(spare.n)
            raise SilosMissing(f"{what} needs the answers of all silos.{more} {in_words(reasons)}")
        self._absent = np.array([i for i in everyone if self.names[i] not in answers], int)
        left = np.setdiff1d(everyone, self._absent)
        return left, _as_one(total_of([answers[self.names[i]].values for i in left]), left)

    def start(self, work: federation.Work) -> None:
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
            answers, reasons = self._asked(round, round, shared, cohort, clip_norm, self.may_miss)
        else:
            plan = self._shared
            spare = Spare("round", round, plan.spare_rounds, plan.colluding)

            def asked(number: int, left: np.ndarray, final: bool) -> Came:
                return self._asked(number, round, shared, left, clip_norm, final)

            answers, reasons = self._attempts(f"Round {round}", spare, cohort, asked)
        self.round_seconds.append(time.monotonic() - begin)
        if reasons and not (self.may_miss and answers):
            more = "" if self._shared is None else self._none_left(self._shared.spare_rounds)
            raise SilosMissing(
                f"Round {round} lacks answers; whoever answered has paid.{more} {in_words(reasons)}"
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
        self,
        what: str,
        spare: Spare,
        cohort: np.ndarray,
        asked: Callable[[int, np.ndarray, bool], Came],
    ) -> Came:
        """Return the answers of all that are left of a cohort, after spare attempts if need be.

        An attempt that failed is dead: its masks meet no other letters, and the next one has noise
        and batches of its own. Who did not answer in one is asked no more.
        """
        reasons: dict[str, str] = {}
        while True:
            left, failed = np.setdiff1d(cohort, self._gone), self._failed.get(spare.purpose, 0)
            if len(left) < max(FEWEST, spare.colluding + 1):
                raise SilosMissing(
                    f"{what} has {len(left)} silos left: a masked sum is among {FEWEST} or more, "
                    f"and more than colluding={spare.colluding}. {self._paid} {in_words(reasons)}"
                )
            answers, missing = asked(spare.number + failed, left, failed < spare.n)
            reasons |= missing
            if not missing or failed == spare.n:
                return answers, missing
            self._failed[spare.purpose] = failed + 1
            gone = [i for i in left.tolist() if self.names[i] in missing]
            self._gone = np.union1d(self._gone, gone).astype(int)

    @property
    def _paid(self) -> str:
        most = max(self.epsilons.values())
        return f"Who answered has paid for the whole fit, at most epsilon={most:.4g}."

    def _none_left(self, n: int) -> str:
        words = f"None of {n} spare attempts is left: SecureAggregation(spare_rounds=...)."
        return f" {self._paid} {words}"

    def _asked(
        self,
        attempt: int,
        round: int,
        shared: Any,
        cohort: np.ndarray,
        clip_norm: float,
        final: bool,
    ) -> Came:
        """Ask a cohort once; return messages of the right length, and why there are no others."""
        letters = self._letters(attempt, round, shared, cohort, clip_norm)
        answers, reasons = self._exchange(letters, Answer, final=final)
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
                named = (
                    None if found.names is None else [federation.Named(found.values, found.names)]
                )
                yield np.array([i]), found.values[None] if named is None else named

    def own_streams(self) -> Streams | None:
        return None if self._journal is None else self._journal.streams()

    def settle(self) -> dict[str, float]:
        """End the journal's fit early: it then costs each silo what its rounds that ran cost.

        Each silo goes by its own memory of the rounds, unless the journal knows of more. Nobody
        answers for this fit afterwards. Fits of ``trust="secagg"`` count as a whole.

        Returns
        -------
        dict
            Each silo's epsilon for the rounds that ran.

        Raises
        ------
        SilosMissing
            If some silos refuse, or do not answer; they may be asked again.
        """
        if self._journal is None:
            raise ValueError("What ran is in a journal: RemoteFederation(..., journal=...).")
        known, fit = self._journal.rounds(), self._journal.fit
        letters = {name: End(fit, known[name]) for name in self.names if name in known}
        ended, reasons = self.exchange(letters, Ended)
        if reasons:
            raise SilosMissing(f"Some silos did not settle the fit. {in_words(reasons)}")
        return {name: letter.epsilon for name, letter in ended.items()}

    def _exchange(
        self, letters: Mapping[str, Offer | Ask], kind: type, final: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Exchange letters of the fit, which the journal keeps; ``final``: also if some miss."""
        if self._written is None:
            return self.exchange(letters, kind)
        return self._written.exchange(letters, lambda: self.exchange(letters, kind), final=final)

    def exchange(
        self, letters: Mapping[str, Offer | Ask | End], kind: type
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
