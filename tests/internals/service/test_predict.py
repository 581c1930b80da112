"""``skdpfl silo predict``: a hospital's own part is fitted and used where its records are."""

import json

import numpy as np
import pandas as pd
import pytest

from skdpfl import ISRLDPClassifier, SiloAdapted
from skdpfl.__main__ import main
from tests.remote.silos_here import problem
from tests.service.hospital import FEATURES, Hospital, frame


@pytest.fixture
def hospital(tmp_path):
    return Hospital(tmp_path / "hospital")


def joint(named=True):
    X, y, silos = problem()
    X = pd.DataFrame(X, columns=FEATURES) if named else X
    return ISRLDPClassifier(3.0, feature_bounds=(-9, 9), random_state=0).fit(X, y, silos=silos)


def predict(hospital, model, *words, rows=None):
    hospital.write("model.json", json.dumps(model.to_dict()) if model else "{}")
    hospital.write("rows.csv", (frame() if rows is None else rows).to_csv(index=False))
    names = (str(hospital.folder / name) for name in ("model.json", "rows.csv", "to.csv"))
    assert main(["silo", "predict", str(hospital.file), *names, *words]) == 0
    return pd.read_csv(hospital.folder / "to.csv")


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("head", ["intercept", "ridge", "none"])
def test_predictions_are_those_of_the_silo_with_its_own_part(hospital, capsys, named, head):
    model, own = joint(named), frame()
    found = predict(hospital, model, "--head", head)
    X = own[FEATURES] if named else own[FEATURES].to_numpy()
    here = SiloAdapted(model, None if head == "none" else head).fit_heads(X, own.ill)
    silos = np.zeros(len(X), int)
    assert (found["prediction"] == here.predict(X, silos=silos)).all()
    shares = found[["probability of 0", "probability of 1"]]
    np.testing.assert_allclose(shares, here.predict_proba(X, silos=silos), rtol=1e-6)
    alone = (hospital.folder / "to.csv").stat().st_mode & 0o077
    assert alone == 0  # for nobody else
    assert "must not leave this silo" in capsys.readouterr().out
