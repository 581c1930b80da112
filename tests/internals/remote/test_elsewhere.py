"""More of tests/remote/test_elsewhere.py: what only private names show."""

from dataclasses import dataclass

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpfl import ISRLDPClassifier, _codec
from skdpfl._pipelines import check_fits_elsewhere
from skdpfl.losses import LogLoss
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPPCA, DPStandardScaler
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Refused, SilosMissing, SiloStore, Terms, declare
from tests.remote.silos_here import NAMES, Here, estimator, fit_elsewhere, fit_here, problem
from tests.remote.test_elsewhere import PLAIN, learnt, same


@dataclass(frozen=True)
class OwnLoss(LogLoss):
    """A loss that nobody declared."""


def test_a_class_that_is_not_declared_is_refused_before_anyone_pays(tmp_path, monkeypatch):
    """By the server before a letter leaves; by silos that lack it, before a question is asked."""
    here = Here(tmp_path, problem())
    ledger = PrivacyLedger(9.0, 1e-3)
    given = {"loss": OwnLoss(), "n_rounds": 2, "classes": [0, 1], "random_state": 0}
    model = ISRLDPClassifier(3.0, scaling="private", **given)
    with ledger:
        with pytest.raises(Refused, match=r"OwnLoss cannot be sent.*declare"):
            fit_elsewhere(model, here)
        assert not here.letters
        _refuse_what_silos_lack(model, here, monkeypatch)
    assert not ledger.entries
    assert [len(here.entries(silo)) for silo in NAMES] == [0] * 4


def _refuse_what_silos_lack(model, here, monkeypatch):
    monkeypatch.setattr(_codec, "_BY_NAME", _codec._BY_NAME.copy())
    monkeypatch.setattr(_codec, "_FIELDS", _codec._FIELDS.copy())
    declare(OwnLoss)
    answer = Here.gate

    def without(self, name):
        monkeypatch.delitem(_codec._BY_NAME, "OwnLoss", raising=False)
        return answer(self, name)

    monkeypatch.setattr(Here, "gate", without)
    with pytest.raises(SilosMissing, match="'OwnLoss' is not declared here"):
        fit_elsewhere(model, here)
    assert len(here.letters) == 4


NOT_ELSEWHERE = {
    "search": (DPRandomizedSearchCV(estimator(), {"alpha": [0.1]}), "score_federation"),
    "budget": (SharedBudget(make_pipeline(DPPCA(2), estimator()), epsilon=1.0), "last step by"),
    "pipeline": (make_pipeline(DPStandardScaler(), estimator()), "DPStandardScaler would have"),
    "scikit-learn": (LogisticRegression(), "LogisticRegression cannot be fitted"),
}


@pytest.mark.parametrize("name", NOT_ELSEWHERE)
def test_what_needs_records_in_one_place_says_the_way_out(name):
    model, words = NOT_ELSEWHERE[name]
    with pytest.raises(Refused, match=words):
        check_fits_elsewhere(model)
    with pytest.raises(AttributeError, match="fit_federation"):
        model.fit_federation(None, None)
    check_fits_elsewhere(estimator())


def test_a_fit_waits_for_people_who_say_yes(tmp_path, monkeypatch):
    """As long as its patience lasts; attempts are for silence."""
    monkeypatch.setattr("skdpfl.remote._federation._PAUSE", 0.0)

    def approve(name, count, answer):
        store = SiloStore(tmp_path / f"{name}.ledger.fits")
        for digest in store.questions() if count > 10 else ():
            store.say(digest, True, "ann")
        return answer

    here = Here(tmp_path, problem(), spoil=approve, terms=Terms(approval=True))
    model = fit_elsewhere(estimator(**PLAIN), here, n_attempts=1, patience=600.0)
    assert same(learnt(model), learnt(fit_here(estimator(**PLAIN), problem())))
    with pytest.raises(
        SilosMissing, match="east: A person at this silo has to approve the fit first"
    ):
        here.spoil = lambda name, count, answer: answer
        fit_elsewhere(estimator(**PLAIN), here, n_attempts=1)
