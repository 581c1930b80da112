"""Plans and costs from the words of their guarantee."""

from functools import partial

from skdpfl.privacy import Guarantee, PrivacyPlan, PrivacySpent


def guaranteed(kind, *args, **fields):
    """Return an object whose guarantee has the words among the fields."""
    names = {"unit", "trust", "neighbours", "colluding"} & fields.keys()
    return kind(*args, guarantee=Guarantee(**{name: fields.pop(name) for name in names}), **fields)


plan_of = partial(guaranteed, PrivacyPlan)
cost_of = partial(guaranteed, PrivacySpent.from_compositions)
