"""One silo: its records and its state between rounds.

In one process many silos share arrays (:class:`skdpfl.federation.LocalFederation`), and a
:class:`Silo` is a view of them. A remote silo is alone, perhaps in a process that ends after each
message, and is then saved and restored in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._data import BLOCK, SiloData
from skdpfl.federation._local import LocalFederation
from skdpfl.federation._sums import Named, Question
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams

#: prefix of the noise's state in a saved silo
_NOISE = "noise "


class Answered(NamedTuple):
    """What a silo has answered: the next question of each purpose, and the next round.

    It can be read of a saved state, so a silo may refuse before any record is read.
    """

    next_question: Mapping[str, int] = {}
    next_round: int = 0
    n_answered: int = 0

    @classmethod
    def of(cls, saved: Mapping[str, np.ndarray] | None) -> Answered:
        """Return what was answered by a state that :meth:`Silo.save` returned; None: nothing."""
        if saved is None:
            return cls()
        asked = zip(saved["purposes"].tolist(), saved["next_questions"].tolist(), strict=True)
        rounds = (int(saved.get(name, 0)) for name in ("next_round", "n_answered"))
        return cls(dict(asked), *rounds)

    def check_new(self, question: Question) -> None:
        """Raise if a request, or a later one, was answered already."""
        if question.number < self.next_question.get(question.purpose, 0):
            raise ValueError(
                f"Silos answer each request once and in order; got number {question.number} again, "
                "whose noise would be that of the first answer."
            )

    def check_due(self, plan: PrivacyPlan, silo: int, round: int) -> None:
        """Raise if a message in this round is not part of the priced plan."""
        if not 0 <= round < plan.n_rounds:
            raise ValueError(f"The plan has {plan.n_rounds} rounds; got round {round}.")
        if plan.schedule is not None and silo not in plan.schedule[round]:
            raise ValueError(f"Silo number {silo} is not scheduled in round {round}.")
        if self.next_round > round:
            raise ValueError(
                f"Silos answer each round once and in order; got another request for round {round}."
            )
        paid = int(plan.levels[1][silo].sum()) if plan.unit == "silo" else plan.n_rounds
        if self.n_answered >= paid:
            raise ValueError(f"Silo number {silo} has answered the {paid} rounds that it pays for.")


class Silo:
    """One silo of a fit: alone (:meth:`alone`), or one of those in a federation.

    Parameters
    ----------
    federation : LocalFederation
        Holds its records and its state.
    index : int
        Its index among the plan's silos.

    Notes
    -----
    **Formal guarantee.** Alone, a silo sends the message that ``LocalFederation`` gives for it, bit
    for bit (same records in the same order, same streams). It answers each request and each round
    once, in order, only rounds that it is scheduled in, and no more rounds than it pays for. This
    holds across :meth:`save` and :meth:`restore` if the state that was saved *last* is restored:
    save before each message leaves. Streams are functions of (seed or secret, purpose, silo,
    round): after a restart a simulation continues with the same numbers, and a silo without a seed
    continues with fresh ones, which are independent of all earlier ones.
    """

    def __init__(self, federation: LocalFederation, index: int) -> None:
        self._federation, self.index = federation, index
        self._cohort = np.array([index])
        #: of each purpose, the number of the first question that it may still answer
        self._next_question: dict[str, int] = {}

    @classmethod
    def alone(
        cls,
        index: int,
        X: np.ndarray,
        y: np.ndarray,
        n_silos: int,
        streams: Streams,
        weights: np.ndarray | None = None,
        *,
        exposure: np.ndarray | None = None,
        of_row: np.ndarray | None = None,
    ) -> Silo:
        """Return a silo in a process of its own.

        Parameters
        ----------
        index : int
            Its index among the plan's silos.
        X : ndarray of shape (n, n_features)
            Its features; the same rows in the same order whenever the silo is constructed again.
        y : ndarray of shape (n,)
            Its targets; classes as codes.
        n_silos : int
            The number of silos.
        streams : Streams
            Its random streams, for one fit.
        weights : ndarray of shape (n,), default=None
            Weights of its records; their losses are multiplied by these before gradients are
            clipped.
        exposure : ndarray of shape (n,), default=None
            Exposures of its records, above 0.
        of_row : ndarray of shape (n,), default=None
            The person of each record, numbered from 0 in the order of ids, if persons are
            protected.

        Returns
        -------
        Silo
            A silo that can answer requests for sums, and rounds after :meth:`start`.
        """
        if not len(y):
            raise ValueError("A silo needs at least one record.")
        if weights is not None and np.shape(weights) != np.shape(y):
            raise ValueError(
                f"weights must be one number for each of the {len(y)} records; got shape "
                f"{np.shape(weights)}."
            )
        records = SiloData.of_one(X, y, index, n_silos, weights, of_row)
        records = replace(records, exposure=exposure)
        return cls(LocalFederation(records, streams), index)

    def answer(self, question: Question) -> np.ndarray | Named:
        """Answer a request for a sum; each number of a purpose once, in order.

        Parameters
        ----------
        question : Question
            The question.

        Returns
        -------
        ndarray of shape (width,), or Named
            The answer.
        """
        self._answered.check_new(question)
        self._next_question[question.purpose] = question.number + 1
        answered = self._federation.ask(question)
        ((_, answers),) = ((who, what) for who, what in answered if self.index in who)
        return answers[0] if isinstance(answers[0], Named) else np.asarray(answers[0])

    def start(self, work: Work) -> None:
        """Start a fit.

        Parameters
        ----------
        work : Work
            The work of the fit.
        """
        if self._federation.started:
            raise ValueError(
                "A silo and its streams are for one fit; make a new one for another fit."
            )
        self._federation.start(work)

    def round(
        self, round: int, shared: Any, clip_norm: float = np.inf, *, among: int = 1
    ) -> np.ndarray:
        """Run a round and return the message as it leaves the silo.

        Parameters
        ----------
        round : int
            The round's number.
        shared : object
            The server's broadcast.
        clip_norm : float, default=inf
            The norm that whole messages are clipped to (unit "silo").
        among : int, default=1
            The number of silos in the round, which determines the share of the noise if they share
            it.

        Returns
        -------
        ndarray of shape (size + n_extra,)
            The message, with the additional numbers that the mechanism sends.
        """
        self._answered.check_due(self._federation.work.plan, self.index, round)
        answers = self._federation.round(round, shared, self._cohort, clip_norm, among=among)
        ((_, messages),) = answers
        return np.asarray(messages[0])

    def save(self) -> dict[str, np.ndarray]:
        """Return the silo's state as plain arrays (numbers, and text for seed and digest).

        The state has the memory between rounds, the dealt batches, the rounds that were answered,
        the state of correlated noise, and the seed of a simulation. It does not contain the
        records, but must be kept as secret as they are.
        """
        before = {
            "index": np.array(self.index),
            "seed": self._seed,
            "purposes": np.array(list(self._next_question), dtype=np.str_),
            "next_questions": np.array(list(self._next_question.values()), dtype=np.int64),
        }
        if not self._federation.started:
            return before
        kept, i = self._federation.kept, self.index
        deal = kept.deals.get(i)
        noises = self._federation.noises
        noise = {} if noises is None else noises.state(i)
        return (
            before
            | {f"{_NOISE}{name}": value for name, value in noise.items()}
            | {
                "next_round": np.array(kept.next_round[i]),
                "n_answered": np.array(kept.n_answered[i]),
                "memory": kept.memory.read(self._cohort)[0],
                "deal": np.zeros((0, 0), np.int64) if deal is None else deal,
                "records": np.array("" if deal is None else self._digest()),
            }
        )

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Restore a saved state.

        Parameters
        ----------
        saved : dict
            The state that :meth:`save` returned.
        """
        i = self.index
        if int(saved["index"]) != i or str(saved["seed"]) != str(self._seed):
            raise ValueError("The state was saved by another silo, or with another random_state.")
        self._next_question = dict(Answered.of(saved).next_question)
        if "next_round" not in saved:
            return
        if not self._federation.started:
            raise ValueError("The state was saved between rounds: call start(work) before restore.")
        kept, memory, deal = self._federation.kept, saved["memory"], saved["deal"]
        if memory.shape != (kept.memory.size,):
            raise ValueError("The state was saved in a fit with another model or algorithm.")
        if len(deal):
            if str(saved["records"]) != self._digest():
                raise ValueError(
                    "The silo's records, or their order, have changed since its batches were "
                    "drawn, so that a record could enter two batches. Load the same records in the "
                    "same order."
                )
            kept.deals[i] = deal
        noise = {k.removeprefix(_NOISE): saved[k] for k in saved if k.startswith(_NOISE)}
        if noise and self._federation.noises is not None:
            self._federation.noises.restore(i, noise)
        kept.memory.write(self._cohort, memory[None])
        kept.restore(i, int(saved["next_round"]), int(saved["n_answered"]))

    @property
    def _seed(self) -> np.ndarray:
        seed = self._federation.streams.seed
        return np.array("" if seed is None else str(seed))

    @property
    def _answered(self) -> Answered:
        if not self._federation.started:
            return Answered(self._next_question)
        kept, i = self._federation.kept, self.index
        return Answered(self._next_question, int(kept.next_round[i]), int(kept.n_answered[i]))

    def _digest(self) -> str:
        """Return a digest of the records in their order."""
        data, digest = self._federation.data, hashlib.blake2b(digest_size=16)
        n = int(data.sizes[self.index])
        for start in range(0, n, BLOCK):
            rows = data.rows_of(self.index, slice(start, min(start + BLOCK, n)))
            for values in data.at(rows):
                digest.update(np.ascontiguousarray(values).tobytes())
        if data.people is not None:
            digest.update(data.people.edges.tobytes() + data.people.places.tobytes())
        return digest.hexdigest()
