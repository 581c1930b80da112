"""The four hospitals in Flower's simulation engine: one process of Ray's for several silos.

    python examples/flower/simulation.py            (pip install "flwr[simulation]")

Flower gives a simulated SuperNode the number of its part, not a name. Everything else is as with
SuperNodes of their own: gates, ledgers, letters. The model is that of one process, bit for bit.
"""

import tempfile
from pathlib import Path

import numpy as np
from flwr.simulation import run_simulation

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import fetch_heart_disease
from skdpfl.federation import Schema
from skdpfl.flower import client_app, server_app

FOLDER = Path(tempfile.mkdtemp())
ROUNDS = 2


def named(config):
    """Return the name of the hospital that a part stands for."""
    return sorted(sizes())[int(config["partition-id"])]


def sizes():
    """Return how many records each hospital has, which is public."""
    names, counts = np.unique(fetch_heart_disease().silos, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def load(config):
    """Return a hospital's records."""
    from skdpfl.remote import SiloRecords

    heart, name = fetch_heart_disease(), named(config)
    mine = heart.silos == name
    X, y = np.asarray(heart.data)[mine], np.asarray(heart.target)[mine]
    return SiloRecords(name, X, y, classes=[0, 1])


def ledger(config):
    """Return a hospital's budget."""
    from skdpfl.privacy import PrivacyLedger

    return PrivacyLedger(5.0, 1e-4, path=FOLDER / f"{named(config)}.ledger")


def model():
    """Return what is fitted."""
    bounds = fetch_heart_disease().feature_bounds
    given = {"feature_bounds": bounds, "classes": [0, 1], "random_state": 0}
    return ISRLDPClassifier(3, delta=1e-4, n_rounds=ROUNDS, **given)


def keep(fitted, federation, config):
    """Write the model down."""
    np.savez(FOLDER / "model.npz", coef=fitted.coef_, intercept=fitted.intercept_)


def main():
    """Simulate a fit, and compare it with one in this process."""
    facts = Schema(sizes(), n_features=13)
    client = client_app(load, ledger=ledger, allow_simulation=True)
    server = server_app(model(), facts, finished=keep, timeout=120.0)
    run_simulation(
        server,
        client,
        num_supernodes=len(facts.silo_sizes),
        backend_config={"client_resources": {"num_cpus": 1}},
    )
    heart = fetch_heart_disease()
    here = model().fit(heart.data, heart.target, silos=heart.silos)
    with np.load(FOLDER / "model.npz") as there:
        same = np.array_equal(here.coef_, there["coef"])
        same = same and np.array_equal(here.intercept_, there["intercept"])
    print("bit-identical" if same else "different")
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
