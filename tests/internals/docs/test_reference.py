"""More of tests/docs/test_reference.py: what only private names show."""

import inspect
import re

import pytest

import skdpfl
from skdpfl.estimators._docs import GROUPS
from tests.docs.test_build_extensions import EXT
from tests.docs.test_commands import ROOT
from tests.estimators.fits import ESTIMATORS

#: what a user needs first, in this order, where an estimator has it; and what comes last
FIRST = [
    "epsilon",
    "delta",
    "feature_bounds",
    "target_bounds",
    "silo_column",
    "classes",
    "loss",
    "alpha",
    "fit_intercept",
    "model",
]


LAST = ["n_jobs", "random_state", "verbose"]


def test_constructors_are_in_the_order_a_user_needs():
    for name in ESTIMATORS:
        signature = inspect.signature(getattr(skdpfl, name)).parameters
        names = list(signature)
        first = [known for known in FIRST if known in signature]
        assert names[: len(first)] == first
        assert names[-3:] == LAST
        assert [p.kind for p in signature.values()][1:] == [inspect.Parameter.KEYWORD_ONLY] * (
            len(names) - 1
        )
        every = [known for group in GROUPS.values() for known in group if known in signature]
        assert names == every
        documented = re.findall(r"^(\w+) : ", getattr(skdpfl, name).__doc__, re.MULTILINE)
        assert documented[: len(names)] == names


# ---- parameters of estimators stand under their groups' headings in the pages --------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_stand_under_headings(monkeypatch, name):
    pytest.importorskip("sphinx")
    from numpydoc.docscrape_sphinx import SphinxDocString

    monkeypatch.syspath_prepend(str(EXT))
    import parameter_groups

    cls = getattr(skdpfl, name)
    lines = str(SphinxDocString(inspect.getdoc(cls))).split("\n")
    page = parameter_groups.with_headings(lines)
    kept = [line for line in page if line and not line.startswith("    .. rubric:: ")]
    assert kept == [line for line in lines if line]  # nothing is lost or moved
    headings = [line.split(":: ")[1] for line in page if line.startswith("    .. rubric:: ")]
    assert headings == list(GROUPS)
    under, found = None, {}
    for line in page[: page.index(":Attributes:")]:
        if line.startswith("    .. rubric:: "):
            under = line.split(":: ")[1]
        elif entry := re.match(r"    \*\*(\w+)\*\* : ", line):
            found[entry[1]] = under
    assert list(found) == list(inspect.signature(cls).parameters)
    assert all(parameter in GROUPS[heading] for parameter, heading in found.items())


# ---- the page of "auto" shows every constant of its rules, and what it is ------------------------


@pytest.fixture
def constants(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(EXT))
    import docstrings

    return docstrings.constants


def test_constants_are_shown_with_their_comments(constants):
    source = """
#: first
#: and more
_X = 1  # fmt: skip
Y: float = (
    2.0
)

class A:
    z: int = 3
    #: of a class
    other = "a", 4
NAME = "no number"
"""
    found = [
        ("_X, Y", "first and more", "_X = 1; Y: float = ( 2.0 )"),
        ("A.z", "", "z: int = 3"),
        ("A.other", "of a class", 'other = "a", 4'),
    ]
    assert constants(source) == found


def test_every_constant_of_auto_is_on_its_page(constants):
    """A new one needs a comment: what it is, and what was lost without it."""
    page = (ROOT / "docs" / "auto.md").read_text()
    shown = page.split(".. constants::")[1].split("```")[0].split()
    files = [*ROOT.glob("skdpfl/choosing/_*.py"), *ROOT.glob("skdpfl/scaling/_*.py")]
    there = set()
    for file in (*files, ROOT / "skdpfl" / "models" / "_rules.py"):
        for name, words, _ in constants(file.read_text()):
            assert words or "." in name, (file, name)
            there |= {".".join(file.with_suffix("").parts[-3:])} if words else set()
    there.remove("skdpfl.scaling._centre_sums")  # of transformers and looks
    assert there == set(shown)
