"""The server's side: remote silos, reached by letters.

Exchange letters for answers, and keep them in a journal, so that a fit survives its server.
--------------------------------------------------------------------------------------------
Silent silos are asked again, and the reasons of invalid answers are kept. The journal::

    record = length (8 bytes) | message          the first: the fit's name and the server's seed
                                                 then: letters' digest, all answers, of an exchange

A server that is started again writes the same letters: the fit has the same name, and its own draws
(cohorts, a network's initial weights) follow from the seed. The seed is not sent to silos, which
draw their own noise. Earlier answers are read from the journal. A letter whose answer is not in the
journal yet is sent again, and silos send the same bytes. So no silo pays or draws twice. Answers
are noised; still, only the owner can read the file.
"""

import hashlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from skdpfl import federation
from skdpfl._arguments import check_choice, check_count, labels_of
from skdpfl._codec import WireError
from skdpfl._durable import replace_file
from skdpfl.encoding import EncodedColumn, Encoding
from skdpfl.privacy.mechanisms.records import smallest_cohort
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.randomness.words import MovedWords, SimulationWords
from skdpfl.remote import _letters, _row
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import Answer, Ask, End, Offer, Refusal, Waiting
from skdpfl.remote._masks import FEWEST_SILOS, FINENESS, requested, total_of
from skdpfl.remote._socket import Courier
from skdpfl.remote._terms import LIMITS, Refused, check_few

#: poll interval for a person's approval, and for a silo's disk, in seconds
_PAUSE, _BUSY = 5.0, 60.0
#: bytes of the length of a journal's record
_LENGTH = 8
#: letters by silo; answers, and the reasons of silos without one
Letters = Mapping[str, Offer | Ask | End]
Came = tuple[dict[str, Any], dict[str, str]]


class SilosMissing(RuntimeError):
    """Silos did not answer, or gave an invalid answer; the text names them and the reasons."""

    def __init__(self, text: str, reasons: Mapping[str, str] | None = None) -> None:
        each = (f"{name}: {reason}" for name, reason in sorted((reasons or {}).items()))
        super().__init__(" ".join([text, *each]))


def exchange(
    courier: Courier, letters: Letters, kind: type, n_attempts: int, patience: float = 0.0
) -> Came:
    """Return answers, and the reasons of silos without one; silent silos are asked again.

    If a person has to approve first, this waits up to ``patience`` seconds.
    """
    answers, reasons = dict[str, Any](), dict.fromkeys(letters, "no answer in time")
    written = {id(letter): pack(letter) for letter in letters.values()}
    waiting, attempts, begin = set(letters), 0, time.monotonic()
    while waiting and attempts < n_attempts:
        sent = {n: written[id(letter)] for n, letter in letters.items() if n in waiting}
        came, patient = courier.deliver(sent), 0.0
        for name in sorted(waiting & came.keys()):
            answer = _open_letter(came[name], kind, letters[name])
            if isinstance(answer, kind):
                answers[name] = answer
                del reasons[name]
            else:
                reasons[name] = answer.reason if isinstance(answer, Waiting) else str(answer)
            if isinstance(answer, Waiting):
                patient = max(patient, _BUSY if answer.busy else patience)
            if isinstance(answer, kind | Refused):  # it will not say anything else
                waiting.discard(name)
        if time.monotonic() - begin < patient:
            time.sleep(min(_PAUSE, patient))
        else:
            attempts += 1
    return answers, reasons


def _open_letter(data: bytes, kind: type, asked: Offer | Ask | End) -> Any:
    """Return an answer, or the reason why it is invalid: a Refused if that is final."""
    try:
        letter: Any = unpack(data)
    except WireError as error:
        return f"an answer that cannot be read ({error})"
    if isinstance(letter, Refusal):
        return Refused(letter.reason.rstrip())
    if not isinstance(letter, kind | Waiting) or getattr(letter, "fit", "") != asked.fit:
        return "an answer to something else"
    both = isinstance(letter, Answer) and isinstance(asked, Ask)
    return _check_answer(letter, asked) if both else letter  # type: ignore[arg-type]


def _check_answer(answer: Answer, ask: Ask) -> Any:
    """Return an answer, or the reason why it does not answer this question."""
    if (answer.purpose, answer.number) != (ask.purpose, ask.number):
        return f"an answer to {answer.purpose} {answer.number}, not {ask.purpose} {ask.number}"
    values = answer.values
    kind = "f" if ask.part is None else "i"  # masked: whole numbers
    if values.ndim != 1 or values.dtype.kind != kind or not np.isfinite(values).all():
        return "an answer that is not a vector of finite numbers"
    if answer.names is not None and sum(map(len, answer.names)) != values.size:
        return "an answer whose names do not match its numbers"
    return answer


def odd_ones(answers: dict[str, Any]) -> dict[str, str]:
    """Return the silos whose answers differ in length from most."""
    if all(answer.names is not None for answer in answers.values()):
        return {}  # each silo names its own levels
    widths = [answer.values.size for answer in answers.values()]
    usual = max(set(widths), key=widths.count, default=0)
    odd = [name for name, answer in answers.items() if answer.values.size != usual]
    return dict.fromkeys(odd, "an answer whose length differs from the others'")


# ---- the journal --------------------------------------------------------------------------------


class FitJournal:
    """The exchanges of one fit, in a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.exists():
            first = pack({"fit": secrets.token_hex(8), "seed": secrets.randbits(62)})
            replace_file(self.path, _record(first))
        (first, *self._kept), end = _records(self.path)
        self.fit, self._seed, self._next = str(first["fit"]), int(first["seed"]), 0
        os.truncate(self.path, end)  # a record that was being written when the process was killed

    def streams(self) -> Streams:
        """Return the server's own streams, from a seed that no silo knows; none is noise."""
        words = MovedWords(SimulationWords(self._seed), 0)
        words.seed = None
        return Streams(words)

    def rounds(self) -> dict[str, int]:
        """Return the number of rounds in which each silo answered, by the journal."""
        counts: dict[str, int] = {}
        for name, letter in (pair for record in self._kept for pair in record["answers"].items()):
            is_round = isinstance(letter, Answer) and letter.purpose == "round"
            counts[name] = max(counts.get(name, 0), letter.number + 1 if is_round else 0)
        return counts

    def exchange(self, letters: Letters, ask: Callable[[], Came], *, final: bool) -> Came:
        """Return the answers to letters: those in the journal, or new ones from ``ask``.

        If some are missing, answers are stored only if ``final``; otherwise the letters are sent
        again.
        """
        digest = _digest_of(letters)
        if self._next < len(self._kept):
            record = self._kept[self._next]
            if record["letters"] != digest:
                raise ValueError(
                    f"The journal {str(self.path)!r} belongs to a fit with other parameters, silos "
                    "or release of skdpfl. Repeat that fit unchanged, or give another path."
                )
            self._next += 1
            return dict(record["answers"]), dict(record["reasons"])
        answers, reasons = ask()
        if final or not reasons:
            self._append({"letters": digest, "answers": answers, "reasons": reasons})
        return answers, reasons

    def _append(self, record: dict[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(_record(pack(record)))
            file.flush()
            os.fsync(file.fileno())
        self._kept.append(record)
        self._next += 1


def _record(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "little") + data


def _records(path: Path) -> tuple[list[Any], int]:
    """Return all whole records of a file, and where they end."""
    records, at, data = list[Any](), 0, path.read_bytes()
    try:
        while (start := at + _LENGTH) <= len(data):
            end = start + int.from_bytes(data[at:start], "little")
            if end > len(data):
                break
            records.append(unpack(data[start:end]))
            at = end
        if records[0].keys() == {"fit", "seed"}:
            return records, at
    except (WireError, IndexError, AttributeError):  # reported below
        records = []
    raise ValueError(f"{str(path)!r} is not a journal of a fit, or is damaged.")


def _digest_of(letters: Letters) -> str:
    """Return a digest of the letters and their receivers."""
    each = {id(letter): hashlib.sha256(pack(letter)).hexdigest() for letter in letters.values()}
    return hashlib.sha256(pack({n: each[id(letters[n])] for n in sorted(letters)})).hexdigest()


class RemoteFederation(federation.Federation):
    """Remote silos, as the argument of ``fit_federation``.

    Parameters
    ----------
    courier : Courier
        The object that takes letters to them.
    facts : Schema
        Public facts of their records, including the silos' names.
    classes : sequence, optional
        The labels; None for regression.
    estimator : str, default="fit"
        The name of the fit in the silos' ledgers.
    requester, purpose : str, default=""
        Who asks for the fits, and for what, as shown to the person who approves at a silo.
    key : str, optional
        The requester's private key (:func:`skdpfl.remote.new_silo_key` makes one), which signs the
        offers, for silos whose operators listed the public one (``Terms(requesters=)``).
    on_missing : {"fail", "skip"}, default="fail"
        What to do if some silos do not answer in a round. "skip" continues with the others. It is
        for algorithms whose silos keep no state between rounds, and assumes that silos are missing
        at random, so that the mean over the others is unbiased. Silos that answered have paid.
    masked : bool, default=False
        Whether the server sees only the sum of a round's messages, provided that it follows the
        protocol. Noise and cost stay the same. All silos of a round, at least three, have to
        answer. Sums before and after the rounds are not masked. With ``trust="secagg"``, where
        silos share the noise, all sums are masked in any case.
    n_attempts : int, default=3
        How often a letter is sent to a silo that does not answer. A silo that receives a letter
        twice sends the same answer again.
    patience : float, default=0.0
        Seconds to wait for silos where a person has to approve a fit.
    journal : path-like, optional
        A file, for one fit: a server that is killed and started again with the same parameters
        continues this fit, and no silo pays twice. Delete it when the model is stored.

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
        requester: str = "",
        purpose: str = "",
        key: str | None = None,
        on_missing: Literal["fail", "skip"] = "fail",
        masked: bool = False,
        n_attempts: int = 3,
        patience: float = 0.0,
        journal: str | os.PathLike[str] | None = None,
    ) -> None:
        check_choice("on_missing", on_missing, ("fail", "skip"))
        n_attempts = check_count("n_attempts", n_attempts)
        if masked and on_missing == "skip":
            raise ValueError('Masked sums need the answers of all silos: give on_missing="fail".')
        self.patience = float(patience)
        self._journal = None if journal is None else FitJournal(journal)
        self._written: FitJournal | None = None  # once its fit has begun
        self.names = [str(name) for name in facts.silo_sizes]
        if odd := [name for name in facts.silo_sizes if not isinstance(name, str)]:
            raise ValueError(f"Names of remote silos must be strings; silo_sizes has {odd[0]!r}.")
        self.on_missing, self.n_attempts, self.masked = on_missing, n_attempts, masked
        self._courier, self.facts, self.estimator = courier, facts, estimator
        self._study, self._key = (str(requester), str(purpose)), key
        self.classes = None if classes is None else tuple(labels_of(classes).tolist())
        self._begin("")

    def _begin(self, fit: str) -> None:
        """Forget earlier fits."""
        self._fit, self._started, self._keyed = fit, set[str](), set[str]()
        self._task: _letters.Task | None = None
        self._keys, self._signatures = tuple[str, ...](), tuple[str, ...]()
        self._weights, self._clip_norm = np.zeros(0), 1.0
        self._absent, self._width = np.zeros(0, int), 0
        #: where silos share noise: the plan, how many rounds, and sums of each purpose, failed, and
        #: the silos that did not answer in them
        self._shared: PrivacyPlan | None = None
        self._failed, self._gone = dict[str, int](), np.zeros(0, int)
        #: each silo's price of the last fit, by its own computation, and seconds of its rounds
        self.epsilons, self.round_seconds = dict[str, float](), list[float]()

    reads_frames = True

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
        task = _letters.Task.of(work)
        check_declared(task, "The fit has a part")
        shared = work.plan if work.plan.shares_noise else None
        self._check_masked(shared is not None, smallest_cohort(work.plan), self.masked)
        rows = _row.rows_of(work.plan, sums, self.masked or shared is not None)
        self._offer(rows, seed, self.estimator, task)
        self._shared = shared

    def agree_on_sums(
        self, sums: Sequence[federation.SumPlan], first: Any, delta: float, seed: int | None
    ) -> None:
        check_declared(first, "The sum is something")
        self._check_masked(any(p.budgets.shares_noise for p in sums), self.n_silos)
        rows = _row.sum_rows_of(self.names, sums, first, delta)
        self._offer(rows, seed, f"{sums[0].purpose} of {self.estimator}", None)

    def _check_masked(self, shared: bool, n_silos: int, masked: bool = False) -> None:
        """Raise if sums over this number of silos have to be masked, and cannot be."""
        if shared and self.may_miss:
            raise Refused(
                'trust="secagg" needs all silos of a sum: give on_missing="fail", and spare_rounds.'
            )
        if (shared or masked) and n_silos < FEWEST_SILOS:
            instead = 'trust="silo"' if shared else "masked=False"
            words = f"A masked sum needs at least {FEWEST_SILOS} silos; got one of {n_silos}"
            raise Refused(f"{words}. Give {instead}, or a larger silo_fraction.")

    def _offer(
        self, rows: Sequence[_row.Row], seed: int | None, called: str, task: _letters.Task | None
    ) -> None:
        """Offer each silo its row of the plan; raise unless all agree."""
        self._written = None if task is None else self._journal
        self._begin(secrets.token_hex(8) if self._written is None else self._written.fit)
        facts, letters, several = self.facts, {}, rows[0].promise.silos_per_person
        if several > self.n_silos:
            raise Refused(f"silos_per_person={several} is more than the {self.n_silos} silos.")
        names = None if facts.feature_names is None else tuple(map(str, facts.feature_names))
        columns = None if facts.columns is None else self._columns(names)
        if columns is not None:
            names = tuple(Encoding(columns).names())
        n_features = len(names or ()) or int(facts.n_features)
        times = getattr(rows[0].first, "horizon", None) if task is None else self.horizon
        of_records = facts.dtype, None, times, task is not None and self.has_exposure, columns
        common = _letters.Facts(n_features, names, self.classes, *of_records)
        for i, row in enumerate(rows):
            own = replace(common, n_units=row.size)
            offer = _letters.Offer(self._fit, called, *self._study, own, row, i, seed, task)
            letters[row.name] = offer if self._key is None else requested(self._key, offer)
        longest = max(map(len, map(pack, letters.values())))
        check_few(longest, LIMITS.offer_bytes, "bytes in an offer")
        agreed, reasons = self._exchange(letters, _letters.Agreement)
        if reasons:
            raise SilosMissing("Some silos do not take part.", reasons)
        self.epsilons = {name: letter.epsilon for name, letter in agreed.items()}
        each = [agreed[name] for name in self.names]
        self._keys = tuple(letter.key or "" for letter in each)
        self._signatures = tuple(letter.signature for letter in each)
        if rows[0].masked and not all(self._keys):
            raise SilosMissing("Some silos agreed to masked sums, but sent no key.")

    def _columns(self, names: tuple[str, ...] | None) -> tuple[EncodedColumn, ...]:
        """Return the columns of silos' frames; raise unless the model is one of such frames."""
        if self.encoding is None or tuple(map(str, self.encoding)) != names:
            raise Refused(
                "Schema(columns=...) is for models that are fitted to frames; give n_features."
            )
        return self.encoding.columns

    def ask(self, question: federation.Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        ask = _letters.Ask(self._fit, question.purpose, question.number, question.asked, np.inf)
        ask = self._on_frames(ask)
        if isinstance(question, federation.SumQuestion) and question.shared is not None:
            budgets, everyone = question.plan.budgets, np.arange(self.n_silos)
            spare = budgets.spare, budgets.colluding
            yield self._total(f"The sum for the {ask.purpose}", everyone, ask, *spare)
            return
        answers, reasons = self._exchange(dict.fromkeys(self.names, ask), _letters.Answer)
        reasons |= odd_ones(answers)
        if reasons:
            raise SilosMissing("This sum needs the answers of all silos.", reasons)
        yield from self._in_order(answers)

    def _on_frames(self, ask: _letters.Ask) -> _letters.Ask:
        """Return a letter that says how frames are encoded, if silos have frames."""
        known = None if self.facts.columns is None else self.encoding
        return ask if known is None else replace(ask, columns=known.columns)

    def start(self, work: federation.Work) -> None:
        if self.may_miss and work.memory_size:
            words = f"{type(work.algorithm).__name__} keeps a state in each silo"
            raise Refused(f'{words}, which needs all answers: give on_missing="fail".')
        self._task, self._weights = _letters.Task.of(work), work.plan.weights
        self._clip_norm = float(work.plan.clip_norm)
        self._width = work.model.size + work.plan.mechanism.n_extra

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if not _letters.is_finite(shared):
            words = "The model is not finite, so the fit stops before the next round"
            raise Refused(f"{words}: give a smaller learning_rate.")
        begin = time.monotonic()
        ask = self._on_frames(_letters.Ask(self._fit, "round", round, shared, float(clip_norm)))
        if (plan := self._shared) is not None:
            spare = plan.spare_rounds, plan.colluding
            left, messages = self._total(f"Round {round}", cohort, ask, *spare)
            self.round_seconds.append(time.monotonic() - begin)
            yield left, messages
            return
        part = _letters.Part(cohort, round, self._step(ask.clip_norm)) if self.masked else None
        answers, reasons = self._ask_silos(ask, cohort, part, self.may_miss)
        self.round_seconds.append(time.monotonic() - begin)
        if reasons and not (self.may_miss and answers):
            words = f"Round {round} lacks answers; silos that answered have paid."
            raise SilosMissing(words, reasons)
        self._absent = np.array([i for i in cohort.tolist() if self.names[i] not in answers], int)
        if part is None:
            yield from self._in_order(answers)
            return
        total = total_of([answers[self.names[i]].values for i in cohort.tolist()])
        messages = _as_one(total * part.step, self._weights[cohort])
        yield cohort, messages / np.maximum(self._weights[cohort], 1e-300)[:, None]

    def _total(
        self, what: str, cohort: np.ndarray, ask: _letters.Ask, spare: int, colluding: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the remaining silos of a cohort and their masked sum, after spare attempts if any.

        Masks of a failed attempt are not used again, and the next one has new noise and batches. A
        silo that did not answer in one attempt is not asked again.
        """
        reasons: dict[str, str] = {}
        paid = "Silos that answered have paid for the whole fit, at most epsilon="
        paid += f"{max(self.epsilons.values()):.4g}."
        while True:
            left, failed = np.setdiff1d(cohort, self._gone), self._failed.get(ask.purpose, 0)
            if len(left) < max(FEWEST_SILOS, colluding + 1):
                raise SilosMissing(
                    f"{what} has {len(left)} silos left: a masked sum needs at least "
                    f"{FEWEST_SILOS} silos, and more than colluding={colluding}. {paid}",
                    reasons,
                )
            step = self._step(ask.clip_norm) if ask.purpose == "round" else 1.0
            letter = replace(ask, number=ask.number + failed)
            part = _letters.Part(left, ask.number, step)
            answers, missing = self._ask_silos(letter, left, part, failed < spare)
            if not missing:
                self._absent = np.intersect1d(cohort, self._gone)
                total = total_of([answers[self.names[i]].values for i in left.tolist()])
                return left, _as_one(total, left)
            reasons |= missing
            if failed == spare:
                raise SilosMissing(
                    f"{what} needs the answers of all silos. {paid} None of {spare} spare "
                    f"attempts is left: SecureAggregation(spare_rounds=...).",
                    missing,
                )
            self._failed[ask.purpose] = failed + 1
            gone = [i for i in left.tolist() if self.names[i] in missing]
            self._gone = np.union1d(self._gone, gone).astype(int)

    def _ask_silos(self, ask: _letters.Ask, cohort: np.ndarray, part: Any, final: bool) -> Came:
        """Ask a cohort once; return valid messages, and the reasons why others are missing."""
        answers, reasons = self._exchange(
            self._letters(ask, cohort, part), _letters.Answer, final=final
        )
        self._keyed |= answers.keys() if part is not None else set()
        if ask.purpose != "round":
            return answers, reasons | odd_ones(answers)
        self._started |= answers.keys()
        for name in [n for n, answer in answers.items() if answer.values.size != self._width]:
            del answers[name]
            reasons[name] = "a message whose length differs from the model's"
        return answers, reasons

    def _letters(self, ask: _letters.Ask, cohort: np.ndarray, part: Any) -> dict[str, Any]:
        """Return a cohort's letters: a silo's first one has the task, and that of masks all keys.

        Equal letters are one object, which is serialised once.
        """
        made: dict[tuple[bool, bool], _letters.Ask] = {}
        letters = {}
        for name in (self.names[i] for i in cohort.tolist()):
            kind = started, keyed = name in self._started, name in self._keyed
            if kind not in made:
                task = None if started or ask.purpose != "round" else self._task
                keys = part and replace(part, keys=self._keys, signatures=self._signatures)
                made[kind] = replace(ask, task=task, part=part if keyed else keys)
            letters[name] = made[kind]
        return letters

    def _step(self, clip_norm: float) -> float:
        """Return the step of the grid of masked messages, a power of two."""
        largest = clip_norm if math.isfinite(clip_norm) else self._clip_norm
        return 2.0 ** math.floor(math.log2(largest * FINENESS))

    def _in_order(self, answers: dict[str, Any]) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield answers silo by silo; all have the same width."""
        for i, name in enumerate(self.names):
            if name in answers:
                values, names = answers[name].values, answers[name].names
                named = federation.Named(values, names)
                yield np.array([i]), values[None] if names is None else [named]

    def own_streams(self) -> Streams | None:
        return None if self._journal is None else self._journal.streams()

    def end(self) -> None:
        """Tell the silos of masked sums that the fit is complete: they delete its secrets.

        A silo that does not hear of it deletes them after some weeks.
        """
        if not any(self._keys):
            return
        end = _letters.End(self._fit)
        left = [name for i, name in enumerate(self.names) if i not in self._gone]
        self._exchange(dict.fromkeys(left, end), _letters.End, final=True, n_attempts=1)

    def settle(self) -> dict[str, float]:
        """End the journal's fit early: each silo then pays for the rounds that ran only.

        Each silo counts the rounds by its own memory, unless the journal has more. No silo answers
        in this fit afterwards. Fits with ``trust="secagg"`` are charged as a whole.

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
            raise ValueError("settle needs the fit's journal: RemoteFederation(..., journal=...).")
        known, fit = self._journal.rounds(), self._journal.fit
        letters = {name: _letters.End(fit, known[name]) for name in self.names if name in known}
        ended, reasons = exchange(self._courier, letters, _letters.Agreement, self.n_attempts)
        if reasons:
            raise SilosMissing("Some silos did not settle the fit.", reasons)
        return {name: letter.epsilon for name, letter in ended.items()}

    def _exchange(self, letters: Any, kind: type, final: bool = False, n_attempts: int = 0) -> Came:
        """Exchange letters and journal the answers; if ``final`` even when some are missing."""
        many = n_attempts or self.n_attempts
        ask = partial(exchange, self._courier, letters, kind, many, self.patience)
        if self._written is None:
            return ask()
        return self._written.exchange(letters, ask, final=final)


def _as_one(total: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return messages with a given sum: all of it for the heaviest silo, zero for others."""
    messages = np.zeros((len(weights), len(total)), total.dtype)
    messages[int(weights.argmax())] = total
    return messages


def check_declared(sent: Any, what: str) -> None:
    """Raise unless the parts of a fit (model, loss, algorithm), or a sum, can be sent."""
    try:
        pack(sent)
    except WireError as error:
        raise Refused(f"{what} that remote silos do not know. {error}") from error
