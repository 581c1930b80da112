"""What a shuffler gains, and what its bits cost: ``python benchmarks/shuffler.py``.

Noise on a round's mean gradient of one pass over the records, in units of what a trusted server
would add, from plans alone: no data, no randomness, the same numbers on every machine. Bits are
those of the sums' protocol, one silo, one round. A second table prices the noise that the
"practice" formula of Lowy and Razaviyayn gives local SGD (one record a step, rounds times steps in
place of rounds), drawn without replacement, on insurance silos of 107 records. A minute on one
core.
"""

from __future__ import annotations

import warnings

from skdpfl import ISRLDPClassifier
from skdpfl.papers import lowy2023_sigma
from skdpfl.privacy import epsilon_of

#: silos, records in each, parameters (one of them the intercept), rounds
SETTINGS = ((25, 1238, 50, 25), (1000, 20, 11, 5))
EPSILONS = (0.5, 1.0, 9.0)


def plan_of(setting: tuple[int, int, int, int], epsilon: float, trust: str, solver: str):
    """Return the plan of one pass."""
    n_silos, n_records, size, n_rounds = setting
    clf = ISRLDPClassifier(
        epsilon, trust=trust, solver=solver, sampling="disjoint", n_rounds=n_rounds, scaling=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "gains nothing here" is what is shown
        return clf.plan_for(silo_sizes=[n_records] * n_silos, n_features=size - 1)


def noise(plan) -> float:
    """Return the noise on a round's mean in clip norms."""
    return plan.mechanism.noise_on_mean(plan) / plan.clip_norm


def shufflers() -> None:
    """Print the first table."""
    print("| setting | epsilon | each silo's own | single messages | sums | kB a silo and round |")
    print("|---|---|---|---|---|---|")
    for setting in SETTINGS:
        for epsilon in EPSILONS:
            unit = noise(plan_of(setting, epsilon, "server", "minibatch"))
            sums = plan_of(setting, epsilon, "shuffler", "accelerated")
            row = [
                noise(plan_of(setting, epsilon, "silo", "minibatch")) / unit,
                noise(plan_of(setting, epsilon, "shuffler", "minibatch")) / unit,
                noise(sums) / unit,
                sums.mechanism.message_bits(sums) / 8e3,
            ]
            cells = " | ".join(f"{value:.3g}" for value in row)
            print(f"| {setting} | {epsilon:g} | {cells} |", flush=True)


def practice(n_records: int = 107, n_rounds: int = 35, local_steps: int = 19) -> None:
    """Print the second table."""
    print("\n| epsilon meant | epsilon of local SGD's noise |\n|---|---|")
    delta, n_steps = 1 / n_records**2, n_rounds * local_steps
    asked = {"n_records": n_records, "n_rounds": n_steps, "batch": 1, "lipschitz": 1.0}
    ran = {"sampling_rate": 1 / n_records, "n_steps": n_steps, "sampling": "without_replacement"}
    for epsilon in (1.0, 3.0, 9.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the formula asks for larger batches
            sigma = lowy2023_sigma(epsilon=epsilon, delta=delta, form="practice", **asked)
        spent = epsilon_of(noise_multiplier=sigma, delta=delta, **ran)
        print(f"| {epsilon:g} | {spent:.3g} |")


if __name__ == "__main__":
    shufflers()
    practice()
