"""A fit that ended early is counted as its rounds that ran, where journal and memory agree."""

import shutil
from dataclasses import replace

import pytest

from skdpfl.exceptions import LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Gate, Hello, RemoteFederation, SilosMissing, new_silo_key, pack, unpack
from tests.remote.silos_here import NAMES, Here, estimator, problem, schema
from tests.remote.test_journal import Killed, fit, killed_at

TWENTY = {"epsilon": 2.0, "n_rounds": 20, "calibrate": False, "scaling": None}


def settle(here, path):
    return RemoteFederation(here, schema(here.problem), classes=[0, 1], journal=path).settle()


def ended(folder, n, options=TWENTY, **silos):
    """Return silos of a fit whose server was killed in its n-th exchange; offers are the first."""
    here = Here(folder, problem(), **{"allow_simulation": False} | silos)
    killed_at(here, n)
    with pytest.raises(Killed):
        fit(here, folder / "journal", **options)
    return here


@pytest.mark.slow
@pytest.mark.parametrize(("n_rounds", "epsilon"), [(1, 0.367), (6, 1.01)])
def test_a_fit_that_ended_early_costs_its_rounds(tmp_path, n_rounds, epsilon):
    """Also the last one, which the silos answered and the server did not write down."""
    sizes = list(schema(problem()).silo_sizes.values())
    here = ended(tmp_path, 1 + n_rounds)
    for silo in NAMES:
        assert here.entries(silo)[0].spent.epsilon == pytest.approx(2.0, abs=0.01)
    costs = settle(here, tmp_path / "journal")
    assert set(costs) == set(NAMES) and max(costs.values()) == spent(n_rounds, sizes).epsilon
    for silo in NAMES:
        (entry,) = here.entries(silo)
        assert entry.spent.epsilon == costs[silo] == pytest.approx(epsilon, abs=0.03)
        assert entry.spent.n_releases == n_rounds
    assert settle(here, tmp_path / "journal") == costs  # once more: nothing changes
    with pytest.raises(SilosMissing, match="This fit ended at this silo"):
        fit(here, tmp_path / "journal", **TWENTY)
    lines = (tmp_path / "north.ledger").read_text().splitlines()
    assert len(lines) == 4 and '"kind":"settled"' in lines[-1]


def test_a_silo_that_was_killed_while_it_settled_goes_on(tmp_path, monkeypatch):
    """The memory says first that no round follows; the ledger may keep the whole price."""
    here = ended(tmp_path, 2)

    def killed(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PrivacyLedger, "settle", killed)
        with pytest.raises(Killed):
            settle(here, tmp_path / "journal")
    with pytest.raises(SilosMissing, match="This fit ended at this silo"):
        fit(here, tmp_path / "journal", **TWENTY)
    costs = settle(here, tmp_path / "journal")
    assert costs["west"] < 0.4 < min(costs[silo] for silo in NAMES[:3])  # these ran once more


@pytest.mark.slow
def test_a_silo_that_forgot_rounds_settles_nothing(tmp_path):
    """Whatever copies were put back: journal and memory have to agree."""
    here = Here(tmp_path, problem(), allow_simulation=False)
    killed_at(here, 3)
    with pytest.raises(Killed):
        fit(here, tmp_path / "journal", **TWENTY)
    old = tmp_path / "old"
    shutil.copytree(tmp_path, old)
    killed_at(here, 4)
    with pytest.raises(Killed):
        fit(here, tmp_path / "journal", **TWENTY)
    for name in ("north.ledger", "north.ledger.count"):
        shutil.copy(old / name, tmp_path / name)
    shutil.rmtree(tmp_path / "north.ledger.fits")
    shutil.copytree(old / "north.ledger.fits", tmp_path / "north.ledger.fits")
    with pytest.raises(SilosMissing, match="north: The server's journal has rounds that this silo"):
        settle(here, tmp_path / "journal")
    assert here.entries("north")[0].spent.epsilon > 1.9 > here.entries("south")[0].spent.epsilon


@pytest.mark.parametrize("trust", ["silo", "secagg"])
def test_a_fit_that_nobody_began_costs_nothing(tmp_path, trust):
    """Nor does the secret of its masks stay."""
    keys, options = None, TWENTY | {"trust": trust}
    if trust == "secagg":
        pytest.importorskip("cryptography")
        keys = {name: new_silo_key() for name in NAMES}
    here = Here(tmp_path, problem(), allow_simulation=False, keys=keys)
    deliver, count = here.deliver, []

    def once(letters):
        count.append(1)
        if len(count) == 2:
            raise Killed
        return deliver(letters)

    here.deliver = once
    with pytest.raises(Killed):
        fit(here, tmp_path / "journal", **options)
    assert len([*tmp_path.glob("*/*.secrets")]) == (0 if keys is None else 4)
    assert settle(here, tmp_path / "journal") == dict.fromkeys(NAMES, 0.0)
    assert not [*tmp_path.glob("*/*.secrets")]
    with pytest.raises(SilosMissing, match="This fit ended at this silo"):
        fit(here, tmp_path / "journal", **options)


@pytest.mark.slow
def test_a_settled_fit_is_not_gone_on_with_by_an_old_copy(tmp_path):
    """Neither by one of the folder, nor by one of folder and count: the ledger knows."""
    here = ended(tmp_path, 2)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy)
    settle(here, tmp_path / "journal")
    shutil.rmtree(tmp_path / "north.ledger.fits")
    shutil.copytree(copy / "north.ledger.fits", tmp_path / "north.ledger.fits")
    with pytest.raises(SilosMissing, match="north: This silo's ledger cannot be used"):
        fit(here, tmp_path / "journal", **TWENTY)
    shutil.copy(copy / "north.ledger.count", tmp_path / "north.ledger.count")
    with pytest.raises(SilosMissing, match="north: This fit was settled"):
        fit(here, copy / "journal", **TWENTY)


# ---- the ledger ---------------------------------------------------------------------------------


def spent(n_rounds, sizes=(50,), **options):
    """Return the cost of the first rounds of one fit."""
    plan = estimator(**TWENTY | options).plan_for(silo_sizes=list(sizes), n_features=4)
    return replace(plan, steps=plan.steps[:n_rounds]).spent()


def test_a_ledger_settles_what_it_has(tmp_path):
    path = tmp_path / "ledger"
    with PrivacyLedger(5.0, 1e-3, path=path) as ledger:
        ledger.charge("first", spent(20))
        ledger.charge("second", spent(20))
        for name, cost, words in (
            ("third", spent(1), "one fit named 'third'; it has 0"),
            ("second", spent(20, epsilon=3.0), "not cost more than the whole"),
            ("second", spent(20, neighbours="add_remove"), "the unit and the relation"),
        ):
            with pytest.raises(ValueError, match=words):
                ledger.settle(name, cost)
        left = ledger.remaining
        ledger.settle("second", spent(1))
    again = PrivacyLedger(path=path, must_exist=True)
    assert [e.spent.n_releases for e in again.entries] == [20, 1] and again.remaining > left + 0.5
    assert len(again.table()) == 2
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"settled","name":"second"', b'"settled","name":"zecond"'))
    with pytest.raises(LedgerError, match="No fit is admitted"):
        assert PrivacyLedger(path=path, must_exist=True)


def test_what_the_first_fit_fixed_stays(tmp_path):
    """A first fit beyond the filter's budget, by its own distribution, is the only one."""
    whole = spent(20, epsilon=3.0, sampling="poisson", sampling_rate=0.1)
    with PrivacyLedger(whole.epsilon_at(1e-3) + 1e-6, 1e-3, path=tmp_path / "ledger") as ledger:
        ledger.charge("only", whole)
        with pytest.raises(ValueError, match="must be charged in full"):
            ledger.settle("only", replace(whole))


def test_a_letter_that_ends_a_fit_is_one_of_this_silo(tmp_path):
    here = Here(tmp_path, problem())
    gate = here.gate("north")
    assert isinstance(gate, Gate) and unpack(gate.answer(pack(Hello()))).name == "north"
    path = tmp_path / "journal"
    with pytest.raises(ValueError, match="needs the fit's journal"):
        RemoteFederation(here, schema(here.problem)).settle()
    assert settle(here, path) == {}
