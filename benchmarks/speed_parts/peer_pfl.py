"""Rounds of pfl (Apple's simulator), run in an environment of its own.

``python peer_pfl.py DATA.npz THREADS W1|W3 UNITS`` trains once and prints the seconds (wall,
processor) of each unit of work: a round for W1, ROUNDS rounds for W3.

W1: pfl has no clipping per record and no noise in local steps, so this does much less: SCAFFOLD
over 8 silos, 10 epochs in batches of 400 (50 steps), the silo's update clipped, noise once a round.
W3: federated averaging with clipped updates and Gaussian noise at the server, as ours.
"""

import sys
import time
import warnings

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.data.user_state import InMemoryUserStateStorage
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism

warnings.filterwarnings("ignore")
PATH, THREADS, WHAT, UNITS = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
torch.set_num_threads(THREADS)
torch.manual_seed(0)
np.random.seed(0)  # noqa: NPY002 (pfl draws users from it)
loaded = np.load(PATH)
n_silos, cohort = int(loaded["n_silos"]), int(loaded["cohort"])
n_rounds = int(loaded["n_rounds"]) if WHAT == "W3" else 1
X = torch.from_numpy(loaded["X"])
X = X.reshape(n_silos, -1, X.shape[-1])
y = torch.from_numpy(loaded["y"]).reshape(n_silos, -1)
y = y.long() if WHAT == "W1" else y


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(X.shape[-1], 47 if WHAT == "W1" else 1, bias=WHAT == "W1")
        torch.nn.init.zeros_(self.layer.weight)

    def forward(self, x):
        return self.layer(torch.as_tensor(x))

    def loss(self, x, y, eval=False):
        if WHAT == "W1":
            return torch.nn.functional.cross_entropy(self(x), y)
        return torch.nn.functional.binary_cross_entropy_with_logits(self(x)[:, 0], y)

    @torch.no_grad()
    def metrics(self, x, y, eval=False):
        return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}


class Clock(TrainingProcessCallback):
    def __init__(self):
        self.times = []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.times.append((time.perf_counter(), time.process_time()))
        return False, Metrics()


def dataset(silo):
    return Dataset(raw_data=[X[silo], y[silo]], user_id=str(silo))


silos = FederatedDataset(dataset, get_user_sampler("random", list(range(n_silos))))
network = Linear()
model = PyTorchModel(
    model=network,
    local_optimizer_create=torch.optim.SGD,
    central_optimizer=torch.optim.SGD(network.parameters(), 1.0),
)
noise = GaussianMechanism(10.0 if WHAT == "W1" else 0.5, 1.0)
backend = SimulatedBackend(
    training_data=silos,
    val_data=silos,
    postprocessors=[WeightByUser(), CentrallyAppliedPrivacyMechanism(noise)],
)
options = {
    "central_num_iterations": UNITS * n_rounds + 1,
    "evaluation_frequency": 10**9,
    "train_cohort_size": cohort,
    "val_cohort_size": 0,
}
if WHAT == "W1":
    algorithm = SCAFFOLD()
    params = SCAFFOLDParams(
        **options,
        population=n_silos,
        use_gradient_as_control_variate=False,
        user_state_storage=InMemoryUserStateStorage(),
    )
    local = NNTrainHyperParams(
        local_num_epochs=10, local_learning_rate=0.5, local_batch_size=X.shape[1] // 5
    )
else:
    algorithm, params = FederatedAveraging(), NNAlgorithmParams(**options)
    local = NNTrainHyperParams(local_num_epochs=5, local_learning_rate=0.5, local_batch_size=None)
clock = Clock()
algorithm.run(
    params,
    backend,
    model,
    local,
    NNEvalHyperParams(local_batch_size=None),
    callbacks=[clock],
    send_metrics_to_platform=False,
)
for wall, cpu in np.diff(np.array(clock.times)[::n_rounds], axis=0):
    print(wall, cpu)
