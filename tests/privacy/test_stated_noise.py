"""The noise that mechanisms state, beside what they release. Five standard errors or more."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from skdpfl.privacy import mechanisms
from skdpfl.privacy.mechanisms import Aggregate, LearntClip, NoPrivacy, PrivUnitMessages, Senders
from skdpfl.privacy.randomness.streams import streams_for
from tests.guaranteed import plan_of

MANY = 10_000
KEYS = streams_for(0)


def server_plan(**kw):
    options = {
        "silo_sizes": np.array([20, 30, 50]), "steps": (1, 1), "clip_norm": 0.7,
        "noise_multiplier": 3.0, "delta": 1e-5, "trust": "server",
        "weights": np.array([0.5, 0.25, 0.25]),
    }  # fmt: skip
    return plan_of(**(options | kw))


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_a_trusted_servers_noise_on_gradients(fraction):
    """The record with the largest share, .5 / 20, has the multiplier; later rounds have less."""
    schedule = None if fraction == 1 else (np.array([0]), np.array([1, 2]))
    plan = server_plan(silo_fraction=fraction, schedule=schedule, noise_schedule=("round", 0.25, 1))
    stated = plan.mechanism.noise_on_mean(plan)
    assert stated == pytest.approx(3.0 * 0.7 * 0.5 / 20 / fraction)
    total = np.full(MANY, 0.25)
    for round, factor in enumerate((1.0, 0.5)):
        released = plan.mechanism.release(plan, Aggregate(total, fraction), round, KEYS)
        std = factor * stated
        assert released.std() == pytest.approx(std, rel=5 / math.sqrt(2 * MANY))
        assert released.mean() == pytest.approx(0.25 / fraction, abs=5 * std / math.sqrt(MANY))


def test_silos_noise_on_gradients():
    plan = server_plan(trust="silo", noise_multiplier=np.array([3.0, 1.0, 2.0]))
    noised = plan.mechanism.gradient_terms(plan, 5, np.dtype(float)).noised
    each = plan.weights * noised.std / plan.silo_sizes
    assert plan.mechanism.noise_on_mean(plan) == pytest.approx(np.linalg.norm(each))


def privunit_plan(n_silos, *, clipping=None, **kw):
    return plan_of(
        silo_sizes=None, silo_ids=pd.RangeIndex(n_silos), steps=(1,), clip_norm=0.75,
        noise_multiplier=1 / 6, delta=1e-5, unit="silo", trust="silo",
        **{"mechanism": PrivUnitMessages(clipping=clipping)} | kw,
    )  # fmt: skip


@pytest.mark.parametrize("clipping", [None, LearntClip(highest=10.0)])
def test_silos_noise_on_whole_messages(clipping):
    weights = np.array([0.5, 0.3, 0.2])
    plan = privunit_plan(3, weights=weights, mechanism=mechanisms.SiloMessages(clipping=clipping))
    sent = plan.mechanism.send(plan, np.zeros((3, MANY)), Senders(np.arange(3), 0, KEYS, 0.75))
    released = weights @ sent[:, :MANY]
    stated = plan.mechanism.noise_on_mean(plan)
    assert released.std() == pytest.approx(stated, rel=5 / math.sqrt(2 * MANY))


def test_privunits_noise_is_that_of_its_worst_message():
    plan, size = privunit_plan(4000), 5
    errors = []
    for i, norm in enumerate(np.linspace(0, 0.75, 7)):
        message = np.full((4000, size), norm / math.sqrt(size))
        sent = plan.mechanism.send(plan, message, Senders(np.arange(4000), i, KEYS, 0.75))
        errors.append(np.square(sent - message).sum(axis=1).mean())
    alone = privunit_plan(1)
    assert alone.mechanism.noise_norm(alone, size) == pytest.approx(
        math.sqrt(max(errors)), rel=0.05
    )
    two = privunit_plan(2, weights=np.array([0.8, 0.2]), silo_fraction=0.5)
    ratio = two.mechanism.noise_norm(two, size) / alone.mechanism.noise_norm(alone, size)
    assert ratio == pytest.approx(math.sqrt((0.8**2 + 0.2**2) / 0.5))


def test_privunits_noise_on_the_share_of_unclipped_messages():
    clipping = LearntClip(highest=10.0)
    plan = privunit_plan(MANY, clipping=clipping)
    sent = plan.mechanism.send(plan, np.zeros((MANY, 100)), Senders(np.arange(MANY), 0, KEYS, 0.75))
    alone = privunit_plan(1, clipping=clipping)
    stated = alone.mechanism.noise_on_share(alone)
    assert sent[:, -1].std() == pytest.approx(stated, rel=0.15)
    assert sent[:, -1].mean() == pytest.approx(1.0, abs=5 * stated / math.sqrt(MANY))
    two = privunit_plan(2, clipping=clipping, weights=np.array([0.8, 0.2]), silo_fraction=0.5)
    ratio = two.mechanism.noise_on_share(two) / stated
    assert ratio == pytest.approx(math.sqrt((0.8**2 + 0.2**2) / 0.5))


def test_without_noise_the_price_is_infinite_and_the_noise_is_none():
    plan = dataclasses.replace(server_plan(), mechanism=NoPrivacy())
    assert plan.mechanism.noise_on_mean(plan) == 0.0
    assert plan.groups().compositions[0] == plan.mechanism.composition(plan, 1.0, 20, [(1.0, 1)])
    assert plan.spent().epsilon == math.inf
