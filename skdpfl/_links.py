"""Links from an estimator's HTML picture to its page of this documentation.

Where the pages are is for whoever serves them to say: ``$SKDPFL_DOCS`` (any URL, ``file:///...``
too), else the package's "Documentation" URL. Where neither is set there is no link, not a dead one.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os


class DocLinks:
    """Mixin that overrides scikit-learn's links; comes before BaseEstimator."""

    _doc_link_module = "skdpfl"

    @property
    def _doc_link_template(self) -> str:
        home = os.environ.get("SKDPFL_DOCS") or declared_home()
        return f"{home.rstrip('/')}/generated/{{public_name}}.html" if home else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return what the template needs: the name under which users import the class."""
        package, part, *_ = type(self).__module__.split(".")
        place = package if part == "estimators" else f"{package}.{part}"
        return {"public_name": f"{place}.{type(self).__name__}"}


@functools.cache
def declared_home() -> str:
    """Return the documentation's URL in the package's metadata, or nothing."""
    try:
        urls = importlib.metadata.metadata("skdpfl").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    named = dict(url.split(", ", 1) for url in urls)
    return named.get("Documentation", "")
