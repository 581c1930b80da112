"""Silos that are alone: a process could end after each message."""

import io
import pickle

import numpy as np

from skdpfl.federation import Federation, Silo
from skdpfl.privacy.randomness.streams import streams_for


class Apart(Federation):
    """The silos of a local federation, each made anew from saved bytes for every message.

    Messages come one by one in shuffled order.
    """

    def __init__(self, local):
        self.data, self.seed, self.n_silos_ = local.data, local.streams.seed, local.n_silos
        self.order = np.random.default_rng(0)

    @property
    def n_silos(self):
        return self.n_silos_

    def start(self, work):
        self.work, self.saved = pickle.dumps(work), {}

    def silo(self, i):
        """Return a silo as a new process would make it."""
        data = self.data
        rows = data.rows_of(i, slice(None))
        silo = Silo.alone(
            i,
            data.X[rows],
            data.y[rows],
            pickle.loads(self.work),
            streams_for(self.seed),
            transform=data.transform,
            y_dtype=data.y_dtype,
        )
        if i in self.saved:
            silo.restore(np.load(io.BytesIO(self.saved[i]), allow_pickle=False))
        return silo

    def round(self, round, shared, cohort, clip_norm):
        for i in self.order.permutation(cohort).tolist():
            silo = self.silo(i)
            message = silo.round(round, shared, clip_norm)
            state = io.BytesIO()
            np.savez(state, **silo.save())
            self.saved[i] = state.getvalue()
            yield np.array([i]), message[None]
