"""More of tests/model_selection/test_shared_budget.py: what only private names show."""

from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.spending.spent import chosen_by_outputs
from tests.guaranteed import cost_of


def test_what_is_chosen_by_outputs_keeps_only_its_budget():
    spent = cost_of(
        unit="record", trust="silo", neighbours="replace", delta=1e-5,
        compositions=[((Gaussian(8.0), 1),), ()],
    )  # fmt: skip
    chosen = chosen_by_outputs(spent)
    assert chosen.costs[0].composition == ((Approximate(spent.costs[0].epsilon, 1e-5), 1),)
    assert (chosen.epsilon, chosen.delta) == (spent.epsilon, spent.delta)
    assert chosen.costs[1].composition == ()
    # the sum is at least what any two fits of these budgets cost together
    assert (chosen + chosen).epsilon > (spent + spent).epsilon
    # and prices as such anywhere
    assert chosen.delta_at(spent.epsilon * 0.9) > spent.delta_at(spent.epsilon * 0.9)
