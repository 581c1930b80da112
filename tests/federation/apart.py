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
        self.order, self.work, self.saved = np.random.default_rng(0), None, {}

    @property
    def n_silos(self):
        return self.n_silos_

    def start(self, work):
        self.work = pickle.dumps(work)

    def silo(self, i):
        """Return a silo as a new process would make it."""
        data = self.data
        rows = data.rows_of(i, slice(None))
        X, y = np.array(data.X[rows]), np.array(data.y[rows])
        silo = Silo.alone(i, X, y, self.n_silos, streams_for(self.seed))
        if self.work is not None:
            silo.start(pickle.loads(self.work))
        if i in self.saved:
            silo.restore(np.load(io.BytesIO(self.saved[i]), allow_pickle=False))
        return silo

    def save(self, i, silo):
        state = io.BytesIO()
        np.savez(state, **silo.save())
        self.saved[i] = state.getvalue()

    def ask(self, question):
        for i in self.order.permutation(self.n_silos).tolist():
            silo = self.silo(i)
            answer = silo.answer(pickle.loads(pickle.dumps(question)))
            self.save(i, silo)
            yield np.array([i]), answer[None]

    def round(self, round, shared, cohort, clip_norm):
        for i in self.order.permutation(cohort).tolist():
            silo = self.silo(i)
            message = silo.round(round, shared, clip_norm)
            self.save(i, silo)
            yield np.array([i]), message[None]
