"""Pages load nothing from a network: a build that breaks this warns, and so fails."""

import re
from pathlib import Path

from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
REMOTE = r"(?:https?:)?//[^\"'\s>)]+"
LOADED = re.compile(
    rf"<(?:script|img|iframe|source|embed)\b[^>]*\bsrc=[\"']?({REMOTE})"
    rf"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?({REMOTE})"
    rf"|@import\s+(?:url\()?[\"']?({REMOTE})|url\([\"']?({REMOTE})",
    re.IGNORECASE,
)


def remote_loads(text):
    """Return the addresses that a page or a style sheet would load from elsewhere."""
    return sorted({next(filter(None, found.groups())) for found in LOADED.finditer(text)})


def check(app, exception):
    """Warn for each page or style sheet that loads something from elsewhere."""
    if exception is not None or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in (".html", ".css"):
            for address in remote_loads(path.read_text(encoding="utf-8")):
                LOGGER.warning("%s loads %s", path.relative_to(app.outdir), address)


def setup(app):
    """Look at everything once it is written."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
