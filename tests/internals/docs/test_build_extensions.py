"""Parameters of estimators stand under their groups' headings in the pages."""

import inspect
import re

import pytest

import skdpfl
from skdpfl.estimators._docs import GROUPS
from tests.docs.test_build_extensions import EXT
from tests.estimators.fits import ESTIMATORS


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
