"""More of tests/remote/test_score.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.federation import R2, Accuracy, BalancedAccuracy, Closeness, RocAuc, SumPlan
from skdpfl.models import LinearModel
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from skdpfl.remote import Refused, SilosMissing, score_federation
from skdpfl.remote._letters import Facts
from skdpfl.remote._row import Predictor, Row, Scored, validate_question
from skdpfl.scaling import Curve, CurveScaling, Expansion, IdentityScaling
from skdpfl.scaling._curves import edges_of
from tests.made_sums import budgets_of
from tests.remote.silos_here import Here, estimator, fit_here, problem
from tests.remote.test_score import of


def linear(coef):
    coef = np.array(coef)
    arrays = {"coef_": coef, "intercept_": np.zeros(len(coef))}
    return Predictor(LinearModel(coef.shape[1], len(coef)), arrays, None, False)


def asked(mu=1.0, n=50, neighbours="replace", measure=None):
    plan = SumPlan(budgets_of([n], mu, neighbours=neighbours), "score", (np.array([mu]),))
    return plan, Scored(measure or Accuracy(), linear([[1.0]]))


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_row_prices_what_it_is_asked_for(neighbours):
    plan, what = asked(1.4, neighbours=neighbours)
    row = Row("a", ("a",), None, None, (plan,), 1e-5, what)
    assert row.spent(None).epsilon == pytest.approx(gaussian_epsilon(1.4, 1e-5), rel=1e-6)
    change = 2 if neighbours == "replace" else 1
    assert row.spent(None).costs[0].composition == ((Gaussian(change / 1.4), 1),)
    assert row.spent(None).n_releases == 1
    assert plan.noised(0, what).std >= change / 2 / 1.4


def test_other_models_and_numbers_are_refused(tmp_path):
    here = Here(tmp_path, problem())
    with pytest.raises(Refused, match="linear models and networks only"):
        score_federation(object(), of(here), epsilon=1.0)
    model = fit_here(estimator(feature_bounds=(-4, 4)), problem())
    model.coef_ = model.coef_[:, :2]
    for name in ("squared_error", "r2"):
        with pytest.raises(ValueError, match="one of accuracy, balanced_accuracy, neg_log_loss"):
            score_federation(model, of(here), epsilon=1.0, measure=name)
    with pytest.raises(SilosMissing, match="other features or classes"):
        score_federation(model, of(here), epsilon=1.0)
    facts = Facts(1, None, (0, 1), "float64", 50)
    with pytest.raises(Refused, match="outside the range"):
        validate_question(*sum_at(1e13), facts, None)
    for wrong in (
        Closeness("log_loss", np.nan, 1.0),
        Closeness("log_loss", 0.0, 1.0),
        Closeness("absolute_error", 1.0, 1.0),
        R2(0.0, 1.0),
        BalancedAccuracy(3),
        RocAuc(edges=np.arange(15.0)[::-1]),
        RocAuc(edges=np.arange(3.0)),
    ):
        with pytest.raises(Refused, match="not defined for such records"):
            validate_question(*sum_at(measure=wrong), facts, None)
    for wrong in ({"mu": 0.0}, {"mu": np.nan}, {"n": 0}):
        plan, what = asked(**wrong)
        with pytest.raises(Refused, match="are inconsistent"):
            Row("a", ("a",), None, None, (plan,), 1e-5, what)


def test_a_model_whose_curves_have_fewer_cells_is_refused():
    x = np.linspace(-1.0, 1.0, 40)
    said = []
    for edges in (edges_of(-1.0, 1.0), np.linspace(-1, 1, 33)):
        shares = np.full(edges.size - 1, 1 / (edges.size - 1))
        cuts = Curve(0, edges, shares, x[:2], x[:2], x[:1], np.arange(2))
        expansion = Expansion(-np.ones(1), np.ones(1), (cuts,), 2, *curves_of_one())
        scaling = CurveScaling(expansion, IdentityScaling(), (np.eye(4),), 1.0, ("a",) * 4)
        arrays = {"coef_": np.ones((1, 4)), "intercept_": np.zeros(1)}
        predictor = Predictor(LinearModel(4, 1), arrays, scaling, False)
        try:
            predictor.check(1, 1)
            said.append("")
        except Refused as error:
            said.append(str(error))
    assert said == ["", "The model to be scored is for other features or classes."]


def curves_of_one():
    """Return no pairs of one feature, its center and its scale."""
    return np.zeros((0, 2), int), np.zeros(1), np.ones(1)


def sum_at(mu=1.0, **options):
    plan, what = asked(mu, **options)
    return plan, 0, what
