"""Modules with silos elsewhere: their factory's name is sent, and each side calls its own."""

from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from skdpfl.remote import Refused, WireError, declare, pack, unpack  # noqa: E402
from skdpfl.torch import TorchModel, TorchNetwork  # noqa: E402
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem  # noqa: E402

MADE = []


def tanh(d, k):
    MADE.append(d)
    return nn.Sequential(nn.Linear(d, 4), nn.Tanh(), nn.Linear(4, k))


@dataclass(frozen=True)
class Hidden:
    """A factory with a parameter."""

    width: int

    def __call__(self, d, k):
        return nn.Sequential(nn.Linear(d, self.width), nn.ReLU(), nn.Linear(self.width, k))


def nobody_knows(d, k):
    return nn.Linear(d, k)


declare(TorchNetwork, tanh, Hidden)


def model_of(factory):
    return estimator(model=TorchModel(factory), feature_bounds=(-5, 5), classes=[0, 1])


@pytest.mark.parametrize("factory", [tanh, Hidden(3)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_module_is_trained_elsewhere_as_in_one_process(tmp_path, factory):
    """Bit for bit, and each silo pays once."""
    data = problem()
    here = Here(tmp_path, data)
    there, local = fit_elsewhere(model_of(factory), here), fit_here(model_of(factory), data)
    for a, b in zip(there.module_.parameters(), local.module_.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * len(NAMES)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_factory_that_is_not_declared_is_refused_before_anyone_pays(tmp_path):
    here = Here(tmp_path, problem())
    with pytest.raises(Refused, match=r"nobody_knows cannot be sent.*declare"):
        fit_elsewhere(model_of(nobody_knows), here)
    assert not any(here.entries(silo) for silo in NAMES)


def test_reading_a_letter_makes_no_module():
    """So that a silo compares its features with the fit's before it holds what a fit asks for."""
    sent = pack(TorchNetwork(tanh, 10**9, 1))
    MADE.clear()
    read = unpack(sent)
    assert (read.n_features, read.n_outputs, read.device, MADE) == (10**9, 1, "cpu", [])
    small = unpack(pack(TorchModel(tanh).build(3, 2)))
    assert small.size == 26 and np.isfinite(small.penalty_mask()).all()
    assert not hasattr(small, "weights")
    with pytest.raises(WireError):
        unpack(sent.replace(b'"cpu"', b'"tin"'))
