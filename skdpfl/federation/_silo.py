"""One silo: its records, and what it keeps from one round to the next.

In this process many silos share arrays (:class:`skdpfl.federation.LocalFederation`), of which a
:class:`Silo` is a view. Elsewhere it is alone, perhaps in a process that ends after each message:
then it is saved and restored in between.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._data import BLOCK, SiloData, Transform
from skdpfl.federation._local import LocalFederation
from skdpfl.privacy.randomness.streams import Streams

#: begins the names of the noise's state in a saved one
_NOISE = "noise "


class Silo:
    """One silo of a fit: alone (:meth:`alone`), or one of those that a federation holds.

    Parameters
    ----------
    federation : LocalFederation
        Where its records and its state are.
    index : int
        Its number among the plan's silos.

    Notes
    -----
    **Formal guarantee.** Alone, a silo sends the message that ``LocalFederation`` gives for it, bit
    for bit (same records in the same order, same streams). It answers each round once, in order,
    only rounds that it is scheduled in, and no more of them than it pays for. This holds across
    :meth:`save` and :meth:`restore`, if the state that was saved *last* is restored: whoever keeps
    silos on disk saves before a message leaves. Streams are functions of (seed or secret, purpose,
    silo, round), so that after a restart a simulation goes on with the same numbers, and a silo
    without a seed goes on with fresh ones, which are independent of all that was drawn before.
    """

    def __init__(self, federation: LocalFederation, index: int) -> None:
        self._federation, self.index = federation, index
        self._cohort = np.array([index])

    @classmethod
    def alone(
        cls,
        index: int,
        X: np.ndarray,
        y: np.ndarray,
        work: Work,
        streams: Streams,
        *,
        transform: Transform | None = None,
        y_dtype: np.dtype | None = None,
    ) -> Silo:
        """Return a silo in a process of its own, ready for the work's first round.

        Parameters
        ----------
        index : int
            Its number among the plan's silos.
        X : ndarray of shape (n, n_features)
            Its features; the same rows in the same order whenever it is made anew.
        y : ndarray of shape (n,)
            Its targets, coded as the loss wants them.
        work : Work
            What to do.
        streams : Streams
            Its random streams.
        transform : callable, optional
            Applied to every batch of features.
        y_dtype : dtype, optional
            What targets are given out as; by default as they are.

        Returns
        -------
        Silo
            Without any memory.
        """
        if not len(y):
            raise ValueError("A silo has at least one record.")
        data = SiloData.of_one(X, y, index, work.plan.n_silos, transform, y_dtype)
        federation = LocalFederation(data, streams)
        federation.start(work)
        return cls(federation, index)

    def round(self, round: int, shared: Any, clip_norm: float = np.inf) -> np.ndarray:
        """Run a round and return the message as it leaves the silo.

        Parameters
        ----------
        round : int
            The round's number.
        shared : object
            What the server broadcast.
        clip_norm : float, default=inf
            The norm that whole messages are clipped to (unit "silo").

        Returns
        -------
        ndarray of shape (size + n_extra,)
            The message, with what the mechanism sends beside it.
        """
        self._check_due(round)
        ((_, messages),) = self._federation.round(round, shared, self._cohort, clip_norm)
        return np.asarray(messages[0])

    def save(self) -> dict[str, np.ndarray]:
        """Return the silo's state as plain arrays (numbers, and text for seed and digest).

        What it remembers between rounds, its dealt batches, which rounds it answered, the state of
        noise that is correlated over steps, and the seed of a simulation. The records are not part
        of it. It is as secret as they are.
        """
        kept, i = self._federation.kept, self.index
        deal = kept.deals.get(i)
        noises = self._federation.noises
        noise = {} if noises is None else noises.state(i)
        return {f"{_NOISE}{name}": value for name, value in noise.items()} | {
            "index": np.array(i),
            "next_round": kept.next_round[i].copy(),
            "n_answered": kept.n_answered[i].copy(),
            "memory": kept.memory.read(self._cohort)[0],
            "deal": np.zeros((0, 0), np.int64) if deal is None else deal,
            "records": np.array("" if deal is None else self._digest()),
            "seed": self._seed,
        }

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from a saved state.

        Parameters
        ----------
        saved : dict
            What :meth:`save` gave.
        """
        i, kept = self.index, self._federation.kept
        if int(saved["index"]) != i or str(saved["seed"]) != str(self._seed):
            raise ValueError("The state was saved by another silo, or with another random_state.")
        memory, deal = saved["memory"], saved["deal"]
        if memory.shape != (kept.memory.size,):
            raise ValueError("The state was saved in a fit of another model or algorithm.")
        if len(deal):
            if str(saved["records"]) != self._digest():
                raise ValueError(
                    "The silo's records, or their order, are not those that its batches were "
                    "dealt from: a record could enter two batches."
                )
            kept.deals[i] = deal
        noise = {k.removeprefix(_NOISE): saved[k] for k in saved if k.startswith(_NOISE)}
        if noise and self._federation.noises is not None:
            self._federation.noises.restore(i, noise)
        kept.memory.write(self._cohort, memory[None])
        kept.next_round[i], kept.n_answered[i] = saved["next_round"], saved["n_answered"]

    @property
    def _seed(self) -> np.ndarray:
        seed = self._federation.streams.seed
        return np.array("" if seed is None else str(seed))

    def _check_due(self, round: int) -> None:
        """Raise where a message would be a release that nobody priced."""
        plan = self._federation.work.plan
        if not 0 <= round < plan.n_rounds:
            raise ValueError(f"The plan has {plan.n_rounds} rounds, no round {round}.")
        if plan.schedule is not None and self.index not in plan.schedule[round]:
            raise ValueError(f"Silo number {self.index} is not scheduled in round {round}.")
        paid = int(plan.levels[1][self.index].sum()) if plan.unit == "silo" else plan.n_rounds
        if self._federation.kept.n_answered[self.index] >= paid:
            raise ValueError(f"Silo number {self.index} pays for {paid} rounds and answered them.")

    def _digest(self) -> str:
        """Return a digest of the records in their order."""
        data, digest = self._federation.data, hashlib.blake2b(digest_size=16)
        n = int(data.sizes[self.index])
        for start in range(0, n, BLOCK):
            rows = data.rows_of(self.index, slice(start, min(start + BLOCK, n)))
            for values in data.at(rows):
                digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()
