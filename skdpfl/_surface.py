"""What a class shows beside its methods: shared docstrings, its HTML picture, reasons for gaps.

The HTML picture of an estimator links to its page of this documentation and says what it cost.
Where the pages are is for whoever serves them to say: ``$SKDPFL_DOCS`` (any URL, ``file:///...``
too), else the package's "Documentation" URL. Where neither is set there is no link, not a dead one.
"""

import functools
import importlib.metadata
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from skdpfl._arguments import at_most

T = TypeVar("T", bound=Callable[..., Any])


def filled_docs(parts: Mapping[str, str]) -> Callable[[T], T]:
    """Return a decorator that writes parts of a docstring in place of lines with their names.

    A part begins with a line break; it replaces a line that is its name in brackets. All
    indentation goes, as Python 3.13 takes away that of every docstring.
    """

    def fill(documented: T) -> T:
        text = inspect.cleandoc(documented.__doc__ or "")  # none under python -OO
        for name, part in parts.items():
            text = text.replace(f"\n[{name}]", textwrap.dedent(part))
        documented.__doc__ = text
        return documented

    return fill


class Described:
    """Base class of what estimators take beside numbers and words: it has parameters itself.

    A constructor keeps each argument under its own name, as estimators have it.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Ignored: no parameter has parameters of its own.

        Returns
        -------
        dict
            The values as they were given.
        """
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in sorted(names)}

    def set_params(self, **params: Any) -> Any:
        """Set parameters.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        self : object
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {sorted(known)}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the constructor's call, without what is as by default."""
        signature = inspect.signature(type(self)).parameters
        given = ((name, getattr(self, name), p.default) for name, p in signature.items())
        shown = (f"{n}={value!r}" for n, value, usual in given if repr(value) != repr(usual))
        return f"{type(self).__name__}({', '.join(shown)})"


def refuse_own_parts(model: Any, error: type[ValueError] = ValueError) -> None:
    """Raise for a model with silos' own parts, of which nothing may leave its silo."""
    if getattr(model, "stays_at_silos", False):
        raise error(
            f"{type(model).__name__} has silos' own parts, fitted on their records without noise: "
            "one record moves every prediction and score of it, so nothing of it may leave its "
            "silo. Search, score or display the joint model, and adapt it afterwards."
        )


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
    if spent.simulation:
        words["privacy_spent_.simulation"] = "simulation (seeded)"
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


class Missing:
    """Descriptor in place of a method; its error says why there is none, and what to do instead."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __get__(self, owner: Any, kind: type) -> Any:
        raise AttributeError(f"{kind.__name__}: {self._words}")


def not_elsewhere(instead: str) -> Missing:
    """Return what stands for ``fit_federation`` where records have to be in one place."""
    return Missing(
        "there is no fit_federation: silos elsewhere answer the questions of the estimators' own "
        f"fits only, and pay for nothing else. {instead}"
    )
