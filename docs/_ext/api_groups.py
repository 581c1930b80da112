"""The sidebar of the API reference: public names in groups, read off ``api.rst``."""

import re
from pathlib import Path

TITLE = re.compile(r"^(\S.*)\n-+$", re.MULTILINE)
NAME = re.compile(r"^   ([a-z_A-Z0-9.]+)$", re.MULTILINE)


def groups_of(text):
    """Return [(title, [name, ...]), ...]: the sections that list names."""
    pieces = TITLE.split(text)[1:]
    found = [
        (title, NAME.findall(body)) for title, body in zip(pieces[::2], pieces[1::2], strict=True)
    ]
    return [(title, names) for title, names in found if names]


def add(app, pagename, templatename, context, doctree):
    """Give the template its groups, on the pages that show it."""
    if pagename != "api" and not pagename.startswith("generated/"):
        return
    here = pagename.removeprefix("generated/skdpfl.")
    groups = groups_of((Path(app.srcdir) / "api.rst").read_text(encoding="utf-8"))
    context["api_groups"] = [
        {
            "title": title,
            "open": here in names,
            "names": [
                {
                    "name": name.rpartition(".")[2],
                    "page": f"generated/skdpfl.{name}",
                    "here": name == here,
                }
                for name in names
            ],
        }
        for title, names in groups
    ]


def setup(app):
    """Connect the handler."""
    app.connect("html-page-context", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
