"""More of tests/estimators/test_tools.py: what only private names show."""

import inspect

import pytest

import skdpfl
from skdpfl.estimators._docs import GROUPS
from skdpfl.estimators._docs import INSTEAD as ANSWERED
from tests.estimators.fits import ALL

GROUPED = {name for group in GROUPS.values() for name in group}


def test_every_known_name_is_taken_and_no_other_answer_hides_one():
    for name in ALL:
        cls = getattr(skdpfl, name)
        known = inspect.signature(cls).parameters
        assert cls().set_params(**cls().get_params(deep=False)) is not None
        for other in {*GROUPED, *ANSWERED} - {*known}:
            with pytest.raises(TypeError, match=rf"has no {other}|argument '{other}'") as caught:
                cls(**{other: None})
            assert other not in GROUPED or "did you mean" not in str(caught.value)
