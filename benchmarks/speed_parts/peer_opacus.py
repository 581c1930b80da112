"""A round of DP-SCAFFOLD with Opacus' ghost clipping; run in an environment of its own.

Reads lines and answers each with the seconds (wall, processor) that one round took:
``python peer_opacus.py DATA.npz THREADS SILOS_A_ROUND STEPS BATCH``. Opacus clips and noises the
gradients of one model; the federation around it (cohorts, corrections, control variates) is written
out here.
"""

import sys
import time
import warnings

import numpy as np
import torch
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

warnings.filterwarnings("ignore")
PATH, THREADS, COHORT, STEPS, BATCH = sys.argv[1], *map(int, sys.argv[2:6])
RATE, Z = 0.5, 5.0
torch.set_num_threads(THREADS)
torch.manual_seed(0)
loaded = np.load(PATH)
X, y, n_silos = torch.from_numpy(loaded["X"]), torch.from_numpy(loaded["y"]), int(loaded["n_silos"])
X, y = X.reshape(n_silos, -1, 784), y.reshape(n_silos, -1).long()
server = [torch.zeros(47, 784), torch.zeros(47)]
control = [torch.zeros_like(p) for p in server]
controls = [[torch.zeros_like(p) for p in server] for _ in range(n_silos)]


def local(silo):
    model = torch.nn.Linear(784, 47)
    with torch.no_grad():
        for p, value in zip(model.parameters(), server, strict=True):
            p.copy_(value)
    wrapped = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=1.0, use_ghost_clipping=True
    )
    private = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=Z,
        max_grad_norm=1.0,
        expected_batch_size=BATCH,
    )
    loss = DPLossFastGradientClipping(wrapped, private, torch.nn.CrossEntropyLoss(), "mean")
    corrections = [c - own for c, own in zip(control, controls[silo], strict=True)]
    for _ in range(STEPS):
        drawn = torch.randperm(X.shape[1])[:BATCH]
        loss(wrapped(X[silo][drawn]), y[silo][drawn]).backward()
        if private.pre_step():
            for p, correction in zip(model.parameters(), corrections, strict=True):
                p.grad += correction
            private.original_optimizer.step()
            private.zero_grad()
    return [p.detach() for p in model.parameters()]


def one_round():
    cohort = np.random.default_rng().choice(n_silos, COHORT, replace=False).tolist()
    old = [p.clone() for p in server]
    for silo in cohort:
        for j, new in enumerate(local(silo)):
            moved = new - old[j]
            own = controls[silo][j] - control[j] - moved / (STEPS * RATE)
            server[j] += moved / COHORT
            control_sum[j] += own - controls[silo][j]
            controls[silo][j] = own
    for j in range(2):
        control[j] += control_sum[j] / n_silos
        control_sum[j].zero_()


control_sum = [torch.zeros_like(p) for p in server]
one_round()
print("ready", flush=True)
for _ in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    one_round()
    print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)
