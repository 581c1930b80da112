"""Headings between an estimator's parameters on its page, in the groups that document them.

Docstrings themselves have none: what reads them takes every entry for a parameter.
"""

import inspect
import re

from skdpfl.estimators._docs import GROUPS

ENTRY = re.compile(r"^( +)\*\*(\w+)\*\* : ")


def with_headings(lines):
    """Return a docstring's lines, as numpydoc has made them, with a rubric before each group."""
    group_of = {name: heading for heading, names in GROUPS.items() for name in names}
    out, before, inside = [], None, False
    for line in lines:
        if line.startswith(":"):
            inside = line == ":Parameters:"
        entry = ENTRY.match(line) if inside else None
        heading = group_of.get(entry[2]) if entry else None
        if heading not in (None, before):
            out += [f"{entry[1]}.. rubric:: {heading}", ""]
            before = heading
        out.append(line)
    return out


def process(app, what, name, obj, options, lines):
    """Put headings into the docstrings of estimators."""
    if inspect.isclass(obj) and obj.__module__.startswith("skdpfl.estimators."):
        lines[:] = with_headings(lines)


def setup(app):
    """Run after numpydoc."""
    app.connect("autodoc-process-docstring", process, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
