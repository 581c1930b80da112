"""What a search promises, and which estimators it can keep that promise for."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.base import is_classifier

from skdpfl.choosing import relation
from skdpfl.privacy.pricing.price import Neighbours
from skdpfl.privacy.spending.spent import Trust, Unit


class Promise(NamedTuple):
    """What is protected, against whom, under which relation."""

    unit: Unit
    trust: Trust
    neighbours: Neighbours


def promise_of(inner: Any) -> Promise:
    """Return the promise of a search over this estimator; refuse where there is none to make."""
    unit: Any = getattr(inner, "unit", "record")
    if inner.trust == "shuffler":
        raise ValueError(
            'DPRandomizedSearchCV searches estimators with trust="silo" or "server"; got '
            'trust="shuffler". Behind a shuffler every run is seen, and scores would have to be '
            'shuffled records\' messages as well. Search with trust="silo", or take one candidate '
            'and spend everything on it ("auto" learns nothing from the data).'
        )
    if not is_classifier(inner) and inner.target_bounds is None:
        raise ValueError(
            "A regressor's scores are bounded by its target_bounds=(low, high); give them."
        )
    return Promise(unit, inner.trust, relation(inner.neighbours, unit, inner.trust))
