"""Fits of silos elsewhere: the same model, each release paid once, faults in words."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skdpfl import remote
from skdpfl.losses import Quantile
from skdpfl.models import MLP, Additive, TemperedSigmoid, public
from tests.remote.silos_here import (
    NAMES,
    Here,
    estimator,
    exposures,
    fit_elsewhere,
    fit_here,
    problem,
    schema,
)

KNOWN = {"feature_bounds": (-4, 4)}
NUMBERS = KNOWN | {"target_bounds": (-9, 9)}
INTERVALS = KNOWN | {"epsilon": 16.0, "inference": "intervals"}
TIMES = INTERVALS | {"target_bounds": (0, 4), "breaks": 3, "n_rounds": 40}  # 3: refused as far
SILO = {"unit": "silo", "epsilon": 8.0}
START = public(([np.full((4, 3), 0.1), np.ones((3, 1))], [np.ones(3), np.zeros(1)]))
DEEP = MLP((4, 3), TemperedSigmoid(1.5))
FITS = {
    "as it is": ("ISRLDPClassifier", {}),
    "bounds": ("ISRLDPClassifier", KNOWN),
    "clipped features": ("ISRLDPClassifier", {"feature_bounds": (-1, 1), "clip_features": True}),
    "private scales": ("ISRLDPRegressor", {"scaling": "private", "epsilon": 8.0}),
    "target in bins": ("ISRLDPRegressor", NUMBERS | {"epsilon": 1.0}),
    "a quantile": ("ISRLDPRegressor", NUMBERS | {"loss": Quantile(0.8)}),
    "disjoint, some silos": ("ISRLDPRegressor", {"sampling": "disjoint", "silo_fraction": 0.5}),
    "scaffold": ("DPScaffoldClassifier", {"local_steps": 3, "sampling_rate": 0.5}),
    "budgets": ("ISRLDPClassifier", {"epsilon": {n: 1.0 + i for i, n in enumerate(NAMES)}}),
    "whole silos": ("DPScaffoldClassifier", SILO),
    "learnt clip": ("DPFedAvgClassifier", {"unit": "silo", "clip_norm": "auto"}),
    "privunit": ("DPFedEXPRegressor", {"mechanism": "privunit", "epsilon": 8.0}),
    "network": ("DPFedAvgClassifier", {"model": MLP((5,)), "local_steps": 2}),
    "network, scales": ("ISRLDPRegressor", {"model": DEEP, "scaling": "private", "epsilon": 8.0}),
    "network of whole silos": (
        "DPScaffoldClassifier", SILO | {"model": MLP((4,), "tanh"), "local_steps": 2}
    ),
    "network, public start": ("ISRLDPClassifier", KNOWN | {"model": MLP((3,), start=START)}),
    "curves": ("ISRLDPClassifier", KNOWN | {"model": Additive(4, True)}),
    "curves of whole silos": ("DPScaffoldClassifier", SILO | KNOWN | {"model": Additive(3)}),
    "intervals": ("ISRLDPClassifier", INTERVALS),
    "intervals of numbers": ("ISRLDPRegressor", INTERVALS | NUMBERS | {"covariance": "robust"}),
    "survival": ("ISRLDPSurvival", TIMES),
    "rates": ("ISRLDPRegressor", INTERVALS | {"loss": "poisson", "target_bounds": (0, 50)}),
    "multistage": ("ISRLDPClassifier", {"solver": "multistage", "n_rounds": 6, "alpha": 0.1}),
    "phases": ("ISRLDPClassifier", {"solver": "localized", "n_rounds": 6}),
}  # fmt: skip
FAST = ["bounds", "clipped features", "curves", "a quantile", "intervals", "survival", "rates",
        "private scales", "target in bins", "scaffold", "learnt clip", "network"]  # fmt: skip


def learnt(model):
    """Return a fitted model's arrays, those of a network in lists."""
    names = [n for n in ("coef_", "intercept_", "coefs_", "intercepts_") if hasattr(model, n)]
    assert len(names) == 2
    names += [n for n in ("coef_estimate_", "coef_covariance_") if hasattr(model, n)]
    found = [getattr(model, name) for name in names]
    return [part for each in found for part in (each if isinstance(each, list) else [each])]


def same(one, other):
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def some_slow(names, fast):
    """Return all names, those that are not in ``fast`` marked as slow."""
    return [n if n in fast else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", some_slow(FITS, FAST))
def test_the_model_is_that_of_one_process(tmp_path, name):
    kind, options = FITS[name]
    target = next(k for k in ("Regressor", "Survival", "Classifier") if k in kind)
    target = "Rates" if name == "rates" else target
    data = problem(target, n=4000 if target in ("Survival", "Rates") or name == "phases" else 160)
    own = {"exposure": exposures(4000)} if target == "Rates" else {}
    model, here = estimator(kind, **options), Here(tmp_path, data, **own)
    if model.unit == "silo":
        from skdpfl.remote import Terms

        here.options["terms"] = Terms(unit="silo", delta=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        facts = schema(data, exposure=bool(own))
        there = fit_elsewhere(clone(model), here, facts)
        model = fit_here(model, data, **own)
    assert same(learnt(model), learnt(there)) and all(map(np.isfinite, map(np.sum, learnt(model))))
    spent = model.privacy_spent_
    assert there.privacy_spent_.epsilon == spent.epsilon
    for silo in NAMES:
        (entry,) = here.entries(silo)  # once, whatever the number of answers
        charged = entry.spent
        expected = spent.epsilon if spent.per_silo is None else spent.per_silo[silo]
        assert charged.epsilon == pytest.approx(expected, rel=1e-9)


def test_exposures_are_declared_by_both_sides(tmp_path):
    data = problem("Rates")
    model = estimator("ISRLDPRegressor", loss="poisson", feature_bounds=(-4, 4))
    here = Here(tmp_path, data, exposure=exposures(160))
    with pytest.raises(remote.SilosMissing, match="declared different exposures"):
        fit_elsewhere(model, here)
    with pytest.raises(remote.SilosMissing, match="declared different exposures"):
        fit_elsewhere(model, Here(tmp_path, data), schema(data, exposure=True))
    with pytest.raises(ValueError, match="needs a loss with a log link"):
        fit_elsewhere(model.set_params(loss="huber"), here, schema(data, exposure=True))
    assert not any(map(here.entries, NAMES))
    fitted = fit_here(model.set_params(loss="poisson"), data)
    with pytest.raises(remote.SilosMissing, match="Scores read no exposures"):
        remote.score_federation(
            fitted, remote.RemoteFederation(here, schema(data)), epsilon=1.0, bound=5.0
        )
    with pytest.raises(ValueError, match="above 0 for each of the 2"):
        remote.SiloRecords("north", [[1.0], [2.0]], [1.0, 2.0], exposure=[1.0, 0.0])


@pytest.mark.parametrize("kinds", [("Survival", "Regressor"), ("Regressor", "Survival")])
def test_times_and_numbers_are_not_taken_for_each_other(tmp_path, kinds):
    here = Here(tmp_path, problem(kinds[0]))
    model = estimator(f"ISRLDP{kinds[1]}", feature_bounds=(-4, 4), target_bounds=(0, 4))
    with pytest.raises(remote.SilosMissing, match="declared different events and times"):
        fit_elsewhere(model, here)
    assert not any(map(here.entries, NAMES))


def test_records_have_weights_of_their_own(tmp_path):
    """As in one process; they are no reason for another price."""
    data = problem()
    weights = np.random.default_rng(0).uniform(0, 2, len(data[1]))
    here, plain = Here(tmp_path, data, weights=weights), estimator(**PLAIN)
    there = fit_elsewhere(plain, here)
    assert same(learnt(there), learnt(fit_here(estimator(**PLAIN), data, sample_weight=weights)))
    assert not same(learnt(there), learnt(fit_here(estimator(**PLAIN), data)))
    assert there.privacy_spent_.epsilon == fit_here(estimator(**PLAIN), data).privacy_spent_.epsilon


@pytest.mark.parametrize("wrong", [[1.0], [np.nan] * 2, [-1.0, 1.0]])
def test_weights_that_are_none(wrong):
    with pytest.raises(ValueError, match="sample_weight"):
        remote.SiloRecords("a", [[1.0], [2.0]], [0, 1], sample_weight=wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(powers of ten)")  # of scales, at times
def test_without_a_seed_every_fit_has_noise_of_its_own(tmp_path):
    here = Here(tmp_path, problem(), allow_simulation=False)
    one, other = (fit_elsewhere(estimator(random_state=None), here) for _ in range(2))
    assert not np.array_equal(one.coef_, other.coef_)
    assert [len(here.entries(silo)) for silo in NAMES] == [2] * 4


def test_a_silo_that_never_saw_a_round_pays_nothing(tmp_path):
    """One silo refuses: nobody is asked anything, nobody has spent."""
    here = Here(tmp_path, problem(), budget=(2.0, 1e-3))
    with pytest.raises(remote.SilosMissing, match=r"do not take part.*costs more than this silo's"):
        fit_elsewhere(estimator(), here)
    assert [len(here.entries(silo)) for silo in NAMES] == [0] * 4


# ---- faults -------------------------------------------------------------------------------------


def spoilt_once(change, at=22, silo="north"):
    """Spoil one silo's first answer after letter ``at``, among the rounds."""
    done = []

    def spoil(name, count, answer):
        if name == silo and count > at and not done:
            done.append(name)
            return change(answer)
        return answer

    return spoil


def with_values(answer, values):
    letter = remote.unpack(answer)
    return remote.pack(type(letter)(letter.fit, letter.purpose, letter.number, values))


FAULTS = {
    "silent": lambda answer: None,
    "garbage": lambda answer: b"garbage",
    "cut": lambda answer: answer[:-3],
    "nan": lambda answer: with_values(answer, np.full(5, np.nan)),
    "before the next round": lambda a: remote.pack(
        type(remote.unpack(a))(remote.unpack(a).fit, "round", 99, np.zeros(5))
    ),
    "another fit": lambda a: remote.pack(type(remote.unpack(a))("other", "round", 0, np.zeros(5))),
    "not a vector": lambda answer: with_values(answer, np.zeros((5, 1))),
    "something else": lambda answer: remote.pack(3),
}
PLAIN = {"calibrate": False, "scaling": None, "n_rounds": 4}


@pytest.mark.parametrize("fault", some_slow(FAULTS, ("silent", "cut", "before the next round")))
def test_an_answer_that_was_lost_is_sent_again(tmp_path, fault):
    """The silo sends the bytes that it has sent before: same model, one charge."""
    data = problem()
    here = Here(tmp_path, data, spoil=spoilt_once(FAULTS[fault], at=8))
    there = fit_elsewhere(estimator(**PLAIN), here)
    assert np.array_equal(there.coef_, fit_here(estimator(**PLAIN), data).coef_)
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4
    assert len(here.letters) == 4 * (1 + 4) + 1


def never(silo, at=8):
    return lambda name, count, answer: None if name == silo and count > at else answer


@pytest.mark.parametrize("fault", ["silent", "nan", "wrong length"])
def test_a_silo_that_fails_for_good_is_named(tmp_path, fault):
    faults = FAULTS | {"wrong length": lambda answer: with_values(answer, np.zeros(1))}

    def spoil(name, count, answer):
        return faults[fault](answer) if name == "north" and count > 8 else answer

    here = Here(tmp_path, problem(), spoil=spoil)
    model = estimator(**PLAIN)
    with pytest.raises(
        remote.SilosMissing, match=r"Round 1 lacks answers; silos that answered have paid. n"
    ):
        fit_elsewhere(model, here)
    assert not hasattr(model, "coef_")
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4


@pytest.mark.slow
def test_rounds_go_on_without_a_missing_silo(tmp_path):
    """The mean is then over the others; the outsider's view counts on nobody's noise."""
    data = problem()
    here = Here(tmp_path, data, spoil=never("north", at=8))
    model = fit_elsewhere(estimator(**PLAIN), here, on_missing="skip", n_attempts=1)
    assert model.privacy_spent_.outsider is None
    whole = fit_here(estimator(**PLAIN), data)
    assert whole.privacy_spent_.outsider is not None
    assert not np.array_equal(model.coef_, whole.coef_)
    assert [len(here.entries(silo)) for silo in NAMES] == [1] * 4
    again = Here(tmp_path / "again", data, spoil=lambda *a: a[2])
    everyone = fit_elsewhere(estimator(**PLAIN), again, on_missing="skip")
    assert np.array_equal(everyone.coef_, whole.coef_)


REFUSED = {
    "server": ({"trust": "server"}, "each silo then adds its own noise"),
    "shuffler": ({"trust": "shuffler"}, "exact numbers to the server"),
    "exact": ({"epsilon": np.inf, "learning_rate": 0.1}, "Give a finite epsilon"),
}


@pytest.mark.parametrize("name", some_slow(REFUSED, ("server", "exact")))
def test_what_silos_elsewhere_do_not_do_is_said(tmp_path, name):
    options, words = REFUSED[name]
    here = Here(tmp_path, problem())
    with pytest.raises(remote.Refused, match=words), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit_elsewhere(estimator(**options), here)
    assert not here.letters


def test_a_memory_in_silos_does_not_go_with_missing_answers(tmp_path):
    here = Here(tmp_path, problem())
    with pytest.raises(remote.Refused, match='give on_missing="fail"'):
        fit_elsewhere(estimator("DPScaffoldClassifier", local_steps=2), here, on_missing="skip")


def test_arguments():
    data = problem()
    with pytest.raises(ValueError, match="on_missing must be"):
        remote.RemoteFederation(None, schema(data), on_missing="wait")
    with pytest.raises(ValueError, match="must be strings"):
        remote.RemoteFederation(None, schema(data, silo_sizes={0: 3}))


def test_intervals_are_refused_before_a_cost_where_records_have_weights(tmp_path):
    data = problem(n=2000)
    here = Here(tmp_path, data, weights=np.full(2000, 0.5))
    how = {"epsilon": 16.0, "feature_bounds": (-4, 4), "inference": "intervals"}
    with pytest.raises(remote.SilosMissing, match="records have weights"):
        fit_elsewhere(estimator(**how), here)
    assert not any(map(here.entries, NAMES))
