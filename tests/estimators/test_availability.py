"""Who answers in which round, given from outside."""

import numpy as np
import pandas as pd
import pytest

from skdpfl.privacy import epsilon_of
from tests.estimators.fits import CLASSIFIERS, data, make

#: rounds x silos; in round 2 nobody answers, silo 3 never does
ANSWERS = np.array(
    [[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]], dtype=bool
)
ROUNDS = {silo: np.flatnonzero(ANSWERS[:, silo]).tolist() for silo in range(4)}
FRAME = pd.DataFrame(ANSWERS.astype(int))[[3, 1, 0, 2]]


def fit(name, cohort, X, y, silos, **kw):
    options = {"epsilon": None, "noise_multiplier": 2.0, "scaling": None, "random_state": 0}
    options |= {"n_rounds": 5, "clip_norm": 1.0, "sampling_rate": 0.5, "delta": 1e-5}
    return make(name, cohort=cohort, **options | kw).fit(X, y, silos=silos)


@pytest.mark.parametrize("name", [*CLASSIFIERS, "ISRLDPRegressor"])
def test_all_ways_to_say_it_are_the_same_fit(name):
    X, y, silos = data(name)
    models = [fit(name, cohort, X, y, silos) for cohort in (ANSWERS, ANSWERS.tolist(), FRAME)]
    for model in models:
        assert [len(cohort) for cohort in model.plan_.schedule] == [2, 2, 0, 3, 1]
        assert np.array_equal(model.coef_, models[0].coef_)
        assert model.privacy_spent_ == models[0].privacy_spent_


@pytest.mark.parametrize(("trust", "steps"), [("silo", 3), ("silo", 1), ("server", 1)])
def test_each_silo_pays_for_its_rounds_and_nothing_is_amplified(trust, steps):
    X, y, silos = data("DPFedAvgClassifier")
    more = {"trust": trust, "local_steps": steps}
    spent = fit("DPFedAvgClassifier", ANSWERS, X, y, silos, **more).privacy_spent_.per_silo
    for silo, rounds in ROUNDS.items():
        n_steps = steps * len(rounds)
        priced = dict(noise_multiplier=2.0, sampling_rate=0.5, n_steps=n_steps, delta=1e-5)
        if trust == "server":  # one noise for all, made for the record that weighs most
            assert (spent[silo] > 0) == bool(rounds)
        elif rounds:
            assert spent[silo] == pytest.approx(epsilon_of(**priced), rel=1e-3)
        else:
            assert spent[silo] == 0
    assert spent.to_numpy().argmax() == 0


@pytest.mark.parametrize("solver", ["minibatch", "accelerated"])
def test_a_silo_that_never_answers_is_never_read(solver):
    X, y, silos = data("ISRLDPClassifier")
    twins = [X, np.where(silos[:, None] == 3, -7.0, X), np.where(silos[:, None] == 2, -7.0, X)]
    fits = [fit("ISRLDPClassifier", ANSWERS, T, y, silos, solver=solver).coef_ for T in twins]
    assert np.array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


def test_disjoint_batches_are_dealt_for_the_busiest_silo():
    X, y, silos = data("ISRLDPClassifier")
    more = {"sampling": "disjoint", "sampling_rate": "auto"}
    model = fit("ISRLDPClassifier", ANSWERS, X, y, silos, **more)
    assert model.plan_.sampling.n_parts == 4
    assert model.privacy_spent_.n_releases == 4


WRONG = {
    "both": ({"cohort": ANSWERS, "silo_fraction": 0.5}, r"silo_fraction must be 1.0; got 0.5"),
    "whole silos": ({"cohort": ANSWERS, "unit": "silo"}, 'unit="silo" draws cohorts itself'),
    "shape": ({"cohort": ANSWERS[:, :3]}, r"\(n_rounds, n_silos\) = \(5, 4\); got shape \(5, 3\)"),
    "rounds": ({"cohort": ANSWERS[:4]}, r"\(5, 4\); got shape \(4, 4\)"),
    "a column": ({"cohort": FRAME[[0, 1]].assign(x=1, z=1)}, r"no column for silo\(s\) \[2, 3\]"),
    "shares": ({"cohort": np.full((5, 4), 0.5)}, "a table of True and False"),
    "ragged": ({"cohort": [[0, 1], [1]]}, "a table of True and False"),
    "number": ({"cohort": 3}, "cohort must be .* a table .*got 3"),
    "nobody": ({"cohort": np.zeros((5, 4))}, "no silo answers in any round"),
}


@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=WRONG)
def test_what_says_nothing_is_refused_in_words(wrong, words):
    X, y, silos = data("DPFedAvgClassifier")
    model = make("DPFedAvgClassifier", **{"n_rounds": 5, "scaling": None} | wrong)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y, silos=silos)
    assert not hasattr(model, "plan_")
