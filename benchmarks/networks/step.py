"""One step of a network beside Opacus: ``python benchmarks/networks/step.py``.

The sum of 400 records' clipped gradients, without noise, on one thread: of the CNN of
:mod:`study` and of 784-100-10 with ReLU, here both as a `TorchModel` and as an `MLP`. Opacus 1.6 in
each of its modes: per-record gradients by hooks, by functorch, and ghost clipping; its step is that
of its optimizer, without noise. Contenders take turns. Needs PyTorch; without Opacus (``pip install
opacus==1.6.0``) only ours is timed. ``--write`` puts the table into step.md beside this file,
``--quick`` takes 40 records, three times.

``--device cuda`` times that device beside one thread of the CPU instead, without Opacus: sums of
drawn rows of a table of 60,000 images, and fits (one silo, epsilon 3, 30 rounds of 600 records).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from study import convolutions

from benchmarks.speed_parts.timing import Contender, table, take_turns, timed
from benchmarks.tables import header
from skdpfl import DPFedAvgClassifier
from skdpfl.losses import LogLoss
from skdpfl.models import MLP, Records
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.torch import TorchModel

N_RECORDS, REPEATS, CLIP_NORM = 400, 15, 1.0
#: images in the table of a device, and records that a step draws
N_IMAGES, DRAWN = 60_000, (400, 1300)
#: Opacus' modes of clipping, by the name that its ``grad_sample_mode`` has
MODES = {"hooks": "hooks", "functorch": "functorch", "ghost clipping": "ghost"}


def layers() -> Any:
    """Return a network of one hidden layer."""
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))


def ours(model: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """Return a call of the clipped sum, as a fit makes it."""
    network = model.build(784, 10)
    params = network.init(streams_for(0).stream("init"), np.float32)
    norms = network.squared_row_norms(X)
    return partial(
        network.clipped_gradient_sum, params, X, y, LogLoss(), clip_norm=CLIP_NORM,
        squared_norms=norms,
    )  # fmt: skip


def opacus(mode: str, make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """Return a step of Opacus without noise."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    torch.manual_seed(0)
    records, labels, loss = torch.from_numpy(X), torch.from_numpy(y).long(), nn.CrossEntropyLoss()
    module, setting = make(), {"noise_multiplier": 0.0, "max_grad_norm": CLIP_NORM}
    sgd = torch.optim.SGD(module.parameters(), lr=0.1)
    if mode == "ghost":
        wrapped = GradSampleModuleFastGradientClipping(
            module, max_grad_norm=CLIP_NORM, use_ghost_clipping=True
        )
        optimizer = DPOptimizerFastGradientClipping(sgd, expected_batch_size=len(y), **setting)
        loss = DPLossFastGradientClipping(wrapped, optimizer, loss, "mean")
    else:
        wrapped = GradSampleModule(module, force_functorch=mode == "functorch")
        optimizer = DPOptimizer(sgd, expected_batch_size=len(y), **setting)

    def step() -> None:
        loss(wrapped(records), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def contenders(n: int) -> Iterator[Contender]:
    """Yield ours first, for each network."""
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 784), dtype=np.float32), rng.integers(0, 10, n).astype(np.float32)
    cnn, mlp = f"CNN, 26,010 parameters, {n} records", f"784-100-10, {n} records"
    yield Contender(cnn, "skdpfl, TorchModel", timed(ours(TorchModel(convolutions), X, y)))
    yield Contender(mlp, "skdpfl, MLP", timed(ours(MLP((100,)), X, y)))
    yield Contender(mlp, "skdpfl, TorchModel", timed(ours(TorchModel(layers), X, y)))
    if importlib.util.find_spec("opacus"):
        for workload, make in ((cnn, convolutions), (mlp, layers)):
            for name, mode in MODES.items():
                step = timed(opacus(mode, make, X, y))
                yield Contender(workload, f"Opacus 1.6, {name}", step)


def drawn(model: Any, X: np.ndarray, y: np.ndarray, n: int) -> Callable[[], object]:
    """Return a call of the clipped sum of drawn rows, as a fit makes it."""
    network, rng = model.build(784, 10), np.random.default_rng(1)
    params = network.init(streams_for(0).stream("init"), np.float32)
    norms = network.squared_row_norms(X)

    def step() -> object:
        rows = np.sort(rng.choice(len(X), n, replace=False))
        return network.clipped_gradient_sums(
            params, Records(X, rows, np.array([0, n])), y[rows], LogLoss(), clip_norm=CLIP_NORM,
            squared_norms=norms[rows], chunk=256,
        )  # fmt: skip

    step()  # tests blocks, and sends the table
    return step


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """Return a call of a fit with a trusted server."""
    clf = DPFedAvgClassifier(
        3.0, delta=1e-5, trust="server", local_steps=1, n_rounds=30, model=model,
        sampling_rate=600 / len(X), feature_bounds=(0, 1), random_state=0,
    )  # fmt: skip
    return partial(clf.fit, X, y, silos=np.zeros(len(X), int))


def on_devices(device: str, n: int) -> Iterator[Contender]:
    """Yield the CPU first, for each network, number of records and fit."""
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 784), dtype=np.float32), rng.integers(0, 10, n)
    for name, make in (("CNN", convolutions), ("784-100-10", layers)):
        for count in DRAWN:
            for place in ("cpu", device):
                step = timed(drawn(TorchModel(make, place), X, y, min(n, count)))
                yield Contender(f"{name}, a step of {count} of {n} records", place, step)
        for place in ("cpu", device):
            fit = timed(fitted(TorchModel(make, place), X, y))
            yield Contender(f"{name}, a fit to {n} records", place, fit, repeats=3)


def main() -> None:
    """Time them, print the table, write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--device")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="opacus|torch")
    torch.set_num_threads(1)
    if options.device:
        everybody = list(on_devices(options.device, 2000 if options.quick else N_IMAGES))
    else:
        everybody = list(contenders(40 if options.quick else N_RECORDS))
    take_turns(everybody, 3 if options.quick else REPEATS)
    everybody.sort(key=lambda contender: contender.workload)
    there = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    text = f"{header('torch')}{there}.\n\n{table(everybody)}\n"
    print(text)
    if options.write:
        Path(__file__).with_name("step.md").write_text(text)


if __name__ == "__main__":
    main()
