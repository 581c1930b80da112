"""An estimator's HTML picture: links to its page of this documentation, and what it cost.

Where the pages are is for whoever serves them to say: ``$SKDPFL_DOCS`` (any URL, ``file:///...``
too), else the package's "Documentation" URL. Where neither is set there is no link, not a dead one.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
from typing import Any

from skdpfl._digits import at_most


class DocLinks:
    """Mixin that overrides parts of scikit-learn's picture; comes before BaseEstimator."""

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

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return the table of fitted attributes; values are cut at 30 characters there."""
        table = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        if "privacy_spent_" in table:
            row = table["privacy_spent_"]
            table["privacy_spent_"] = {**row, "value": _Price(row["value"])}
            for name, value in _said_with(self, row["value"]).items():
                table[name] = {"type_name": type(value).__name__, "value": _Word(value)}
        return table


def _said_with(model: Any, spent: Any) -> dict[str, Any]:
    """Return the other half of a cost's statement, by the names of the attributes."""
    words = {f"privacy_spent_.{name}": getattr(spent, name) for name in _STATED}
    silos = getattr(model, "silo_ids_", None)
    return words if silos is None else words | {"len(silo_ids_)": len(silos)}


_STATED = ("unit", "trust", "neighbours")


class _Word:
    """Shows a word or a number whole: scikit-learn cuts strings at nine characters."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return str(self._value)


class _Price:
    """Shows what matters most of a cost in few characters."""

    def __init__(self, spent: Any) -> None:
        self._spent = spent

    def __repr__(self) -> str:
        return f"ε = {at_most(self._spent.epsilon)}, δ = {at_most(self._spent.delta, 2)}"


@functools.cache
def declared_home() -> str:
    """Return the documentation's URL in the package's metadata, or nothing."""
    try:
        urls = importlib.metadata.metadata("skdpfl").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    named = dict(url.split(", ", 1) for url in urls)
    return named.get("Documentation", "")
