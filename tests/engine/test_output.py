"""Which model a run returns, silos whose messages do not come, and runs that go on."""

import math
from dataclasses import replace

import numpy as np
import pytest

from skdpfl.algorithms import FedExp, MinibatchSGD
from skdpfl.engine import rounds, run
from skdpfl.models import LinearModel
from skdpfl.privacy.mechanisms import ServerMessages
from skdpfl.privacy.randomness.streams import streams_for
from tests.engine.reference import Setting
from tests.engine.settings import federation_of, problem, run_rounds, work_of
from tests.engine.test_delivery import Delivering

SIZES = np.array([5, 9, 2, 6])
BY_SIZE = SIZES / SIZES.sum()


def setting(n_rounds=5, cohorts=None, weights=BY_SIZE, **kw):
    return Setting(n_rounds, [1] * n_rounds, 0.4, np.inf, None, weights, cohorts=cohorts, **kw)


@pytest.mark.parametrize(
    ("n_rounds", "average", "last"),
    [(5, 2, 2), (5, 5, 5), (5, 1, 1), (5, 0.4, 2), (5, 0.5, 3), (20, 0.55, 11), (5, 0.01, 1)],
)
def test_the_last_rounds_are_averaged(n_rounds, average, last):
    """0.55 of 20 rounds is 11.000000000000002 in floating point, and 11 rounds."""
    p, s = problem(), setting(n_rounds)
    models = run_rounds("minibatch", p, s)
    fit = work_of("minibatch", p, s), federation_of(p), streams_for(0)
    states = list(rounds(*fit, average=average))
    got = np.array([state.params for state in states])
    early = n_rounds - last
    np.testing.assert_array_equal(got[:early], models[:early])  # nothing is averaged yet
    means = np.cumsum(models[early:], axis=0) / np.arange(1, last + 1)[:, None]
    np.testing.assert_allclose(got[early:], means, rtol=1e-12)
    assert [state.weight for state in states] == [0.0] * early + list(range(1, last + 1))


class Losing(Delivering):
    """A federation in which some silos' messages are lost on the way."""

    def __init__(self, inner, lost):
        super().__init__(inner, None)
        self.lost, self.now, self.heard = lost, 0, []

    def absent(self):
        return np.array(self.lost[self.now], dtype=int)

    def round(self, round, shared, cohort, clip_norm):
        self.now = round
        for silos, messages in self.inner.round(round, shared, cohort, clip_norm):
            here = ~np.isin(silos, self.lost[round])
            yield silos[here], messages[here]

    def on_release(self, round, released):
        self.heard.append((released.fraction, released.sampled))


def test_a_round_without_some_messages_is_a_round_of_the_others():
    """The mean divides by the number of those that came, and so do what the weights add up to."""
    p, everyone = problem(), [[0, 1, 2, 3], [0, 2, 3], [1, 3], [0, 1, 2, 3], [2]]
    lost = [[1], [], [3], [0, 2], []]
    came = [sorted({*a} - {*b}) for a, b in zip(everyone, lost, strict=True)]
    losing = Losing(federation_of(p), lost)
    got = run_rounds("minibatch", p, setting(cohorts=everyone), federation=losing)
    expected = run_rounds("minibatch", p, setting(cohorts=came))
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    for (weight, sampled), who in zip(losing.heard, came, strict=True):
        assert weight == pytest.approx(BY_SIZE[who].sum(), rel=1e-12)
        assert sampled == len(who) / 4


def test_a_round_stops_where_it_is_told_to_and_is_kept_before():
    p, s = problem(), setting()
    kept, seen = [], []

    def look(r, params):
        seen.append((r, len(kept)))
        return r == 2

    last = run(
        work_of("minibatch", p, s), federation_of(p), streams_for(0),
        average=False, on_round=look, keep=kept.append,
    )  # fmt: skip
    assert seen == [(0, 1), (1, 2), (2, 3)]
    assert last.n_rounds == 3 and [now.n_rounds for now in kept] == [1, 2, 3]
    np.testing.assert_array_equal(last.params, kept[2].params)


DEALS = {
    "a secret deal": ({"unit": "silo"}, None, True),
    "a deal that is repeated": ({"unit": "silo"}, 0, False),
    "a public deal": ({}, None, False),
    "independent cohorts": ({"unit": "silo", "cohort": "uniform"}, None, False),
    "everyone": ({"unit": "silo", "silo_fraction": 1.0}, None, False),
}


@pytest.mark.parametrize("name", DEALS)
def test_only_a_secret_deal_of_silos_ends_with_its_run(name):
    """Dealt anew, a silo could take part in more rounds than it has paid for."""
    how, seed, refused = DEALS[name]
    options = {"silo_fraction": 0.5, "cohort": "balanced", "mechanism": None}
    if how.get("unit") == "silo":
        options |= {"noise_multiplier": 1.0, "clip_norm": 0.5}
    else:
        options.pop("mechanism")
    p, s = problem(), setting(4)
    work, streams = work_of("minibatch", p, s, **options | how), streams_for(seed)
    federation = federation_of(p)
    fit = rounds(work, federation, streams)
    first = next(fit)
    go_on = rounds(work, federation, streams, after=first)
    if refused:
        with pytest.raises(ValueError, match="ends with the run"):
            next(go_on)
    else:
        assert [now.n_rounds for now in go_on] == [2, 3, 4]
    assert math.isclose(sum(work.plan.weights), 1)


class FromOnes(LinearModel):
    """A linear model that starts at ones."""

    def init(self, stream, dtype):
        return np.ones(self.size, dtype)


def test_an_algorithm_s_own_weights_count_the_start_and_may_be_small():
    p, s, weights = problem(), setting(4), (0.3, 0.2, 0.0, 0.1, 0.25)
    work = work_of("minibatch", p, s)
    model = FromOnes(work.model.n_features, work.model.n_outputs, True)
    work = replace(work, model=model, algorithm=MinibatchSGD(0.4, output_weights=weights))
    models = [np.ones(model.size)]
    last = run(
        work, federation_of(p), streams_for(0),
        average=False, on_round=lambda r, params: models.append(params.copy()),
    )  # fmt: skip
    np.testing.assert_array_equal(last.params, models[-1])
    states = list(rounds(work, federation_of(p), streams_for(0)))
    for n, state in enumerate(states, start=2):
        mean = np.average(models[:n], axis=0, weights=weights[:n])
        np.testing.assert_allclose(state.params, mean, rtol=1e-12)
    assert states[-1].weight == pytest.approx(sum(weights))


def test_what_is_sent_beside_messages_reaches_the_algorithm():
    """Two silos that moved by a and b: their mean, and the mean of |a|^2 and |b|^2."""
    p = problem(sizes=(5, 9))
    s = setting(2, weights=np.array([0.5, 0.5]))
    silos = {"unit": "silo", "trust": "server", "noise_multiplier": 1e-6, "clip_norm": 4.0}
    work = work_of("fedavg", p, s, mechanism=ServerMessages(squared_norms=True), **silos)
    algorithm = FedExp(0.4)
    heard, losing = [], Losing(federation_of(p), [[], []])
    losing.on_release = lambda r, released: heard.append(released)
    models = [np.zeros(work.model.size)]
    run(
        replace(work, algorithm=algorithm), losing, streams_for(0),
        average=False, on_round=lambda r, params: models.append(params.copy()),
    )  # fmt: skip
    moved = []
    for X, y in p.silos:
        rows = np.column_stack([X, np.ones(len(y))])
        moved.append(0.4 * ((y - 0.5) @ rows) / len(y))  # a step from zero
    np.testing.assert_allclose(heard[0].mean, np.mean(moved, axis=0), atol=1e-3)
    norms = np.mean([a @ a for a in moved])
    assert heard[0].squared_norm == pytest.approx(norms, abs=1e-3)
    step = max(1.0, norms / (heard[0].mean @ heard[0].mean))
    np.testing.assert_allclose(models[1], step * np.mean(moved, axis=0), rtol=2e-2)
