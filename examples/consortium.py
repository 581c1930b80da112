"""The server of ``examples/consortium.sh``, and the records of its hospitals.

    python examples/consortium.py records FOLDER
    python examples/consortium.py fit FOLDER HOST:PORT

Hospitals dial it, and are known by the keys on the roster. Gates share the noise of masked sums:
the server sees the sums only.
"""

import json
import sys
from pathlib import Path

import pandas as pd

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import make_federated_classification
from skdpfl.federation import Schema
from skdpfl.remote import LineCourier, RemoteFederation

NAMES, FEATURES, N = ("east", "north", "south"), ["a", "b", "c", "d"], 500


def write_records(out: Path) -> None:
    data = make_federated_classification(3, N, n_classes=2, n_features=4, random_state=0)
    for i, name in enumerate(NAMES):
        mine = data.silos == i
        table = pd.DataFrame(data.data[mine], columns=FEATURES).assign(ill=data.target[mine])
        (out / f"{name}.csv").touch(mode=0o600)
        table.to_csv(out / f"{name}.csv", index=False)


def fit(out: Path, address: str) -> None:
    roster = json.loads((out / "consortium" / "study.roster").read_text())
    courier = LineCourier(address, roster["silos"], folder=out / "server", timeout=300.0)
    facts = Schema(dict.fromkeys(NAMES, N), n_features=4, feature_names=FEATURES)
    federation = RemoteFederation(
        courier,
        facts,
        classes=[0, 1],
        estimator="first model",
        requester="the consortium",
        purpose="a trial with made records",
    )
    model = ISRLDPClassifier(
        1.0, delta=1e-5, n_rounds=20, trust="secagg", feature_bounds=(-9, 9), classes=[0, 1]
    )
    model.fit_federation(federation, facts)
    print(f"A joint model of {', '.join(NAMES)}: {model.coef_.round(2).tolist()}")
    courier.close()


if __name__ == "__main__":
    {"records": write_records, "fit": fit}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
