"""More of tests/remote/test_elsewhere.py: what only private names show."""

from dataclasses import dataclass

import numpy as np
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


def test_the_mean_without_a_silo_is_that_of_the_others(tmp_path):
    """One round at a point: the released mean is the sum over the cohort over its share."""
    from skdpfl.engine import Cohort, Round, _round
    from skdpfl.federation import Federation
    from skdpfl.privacy.randomness.streams import streams_for
    from tests.engine.settings import problem as small
    from tests.engine.settings import work_of
    from tests.federation.test_local import setting

    p, s = small(), setting(z=[1e-9] * 4, weights=np.array([0.1, 0.2, 0.3, 0.4]))

    class Given(Federation):
        n_silos, may_miss = 4, True

        def start(self, work):
            pass

        def absent(self):
            return np.array([1])

        def round(self, round, shared, cohort, clip_norm):
            yield np.array([0, 2, 3]), np.ones((3, p.size)) * np.array([[1.0], [2.0], [3.0]])

    work = work_of("fedavg", p, s)
    now = Round(0, Cohort.of(work.plan, np.arange(4)), np.inf)
    state = work.algorithm.init(np.zeros(p.size))
    released = _round(work, Given(), streams_for(0), now, state)
    np.testing.assert_allclose(released.mean, (0.1 + 0.3 * 2 + 0.4 * 3) / 0.75)
    assert released.sampled == 0.75 and released.fraction == pytest.approx(0.8)


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
    monkeypatch.setattr("skdpfl.remote._exchange._PAUSE", 0.0)

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
