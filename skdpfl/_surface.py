"""Shared docstrings, HTML representations, and errors for methods that are missing on purpose.

An estimator's HTML representation shows its cost.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

from skdpfl._arguments import at_most

T = TypeVar("T", bound=Callable[..., Any])


#: parameters that many functions have
_PARAMETERS = {
    "delta": """
    delta : "auto" or float, default="auto"
        "auto" is the largest power of ten that is at most 1 / (10 n_samples).""",
    "trust": """
    trust : {"silo", "secagg", "server"}, default="silo"
        "silo": each silo adds noise before it sends anything. "server": a trusted server adds noise
        once, to the sum over the silos, which needs less noise. "secagg", or a
        :class:`skdpfl.privacy.SecureAggregation`: each silo adds a share of that noise, and masks
        hide all but the sum.""",
    "neighbours": """
    neighbours : {"auto", "replace", "add_remove"}, default="auto"
        The neighbouring relation; "auto" is "replace": one record is replaced by another.""",
    "relation": """
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation of the guarantee.""",
    "random_state": """
    random_state : int, RandomState, Generator or None, default=None
        None draws secret noise. An integer is a simulation: whoever knows it knows the noise.""",
}


def forwarded(path: str) -> Any:
    """Return a property that is another attribute, such as "model.size"."""
    return property(attrgetter(path))


def filled_docs(own: Mapping[str, str] = MappingProxyType({})) -> Callable[[T], T]:
    """Return a decorator that fills named parts into a docstring.

    A part begins with a line break and replaces the line that is its name in brackets. Indentation
    is removed, as Python 3.13 does for every docstring.
    """

    def fill(documented: T) -> T:
        text = inspect.cleandoc(documented.__doc__ or "")  # none under python -OO
        for name, part in (*own.items(), *_PARAMETERS.items()):
            text = text.replace(f"\n[{name}]", textwrap.dedent(part))
        documented.__doc__ = text
        return documented

    return fill


class Described:
    """Base class of objects that are parameters of estimators and have parameters themselves.

    As in estimators, a constructor stores each argument under its own name.
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
        """Return the constructor's call, without arguments at their defaults."""
        signature = inspect.signature(type(self)).parameters
        parameters = ((name, getattr(self, name), p.default) for name, p in signature.items())
        shown = (f"{n}={value!r}" for n, value, usual in parameters if repr(value) != repr(usual))
        return f"{type(self).__name__}({', '.join(shown)})"


def refuse_own_parts(model: Any, error: type[ValueError] = ValueError) -> None:
    """Raise for a model that has, or holds, silos' own parts: they may not leave their silo."""
    for part in _held(model, set()):
        if not getattr(part, "stays_at_silos", False):
            continue
        raise error(
            f"{type(part).__name__} has silos' own parts, which were fitted on their records "
            "without noise. Its predictions and scores are not private and may not leave the silo. "
            "Search, score or display the joint model, and adapt it afterwards."
        )


def _held(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield a model and all models in its attributes, lists and mappings."""
    if id(value) in seen:
        return
    seen.add(id(value))
    inside = value
    if not isinstance(value, dict | list | tuple | set):
        if not (hasattr(value, "fit") or hasattr(value, "predict_proba")):
            return
        yield value
        inside = getattr(value, "__dict__", {})
    for part in inside.values() if isinstance(inside, dict) else inside:
        yield from _held(part, seen)


class DocLinks:
    """Mixin for the HTML representation of estimators; it comes before BaseEstimator."""

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return the table of fitted attributes, whose values are cut at 30 characters."""
        table = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        if "privacy_spent_" in table:
            row = table["privacy_spent_"]
            spent = row["value"]
            price = f"ε = {at_most(spent.epsilon)}, δ = {at_most(spent.delta, 2)}"
            table["privacy_spent_"] = {**row, "value": _Word(price)}
            # an epsilon is stated with its unit, and its trust
            words = {
                f"privacy_spent_.{n}": getattr(spent, n) for n in ("unit", "trust", "neighbours")
            }
            if spent.simulation:
                words["privacy_spent_.simulation"] = "simulation (seeded)"
            if (silos := getattr(self, "silo_ids_", None)) is not None:
                words["len(silo_ids_)"] = len(silos)
            for name, value in words.items():
                table[name] = {"type_name": type(value).__name__, "value": _Word(value)}
        return table


class _Word:
    """Text shown in full: scikit-learn cuts strings at nine characters."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return str(self._value)


class Missing:
    """Descriptor for a missing method; its error says why it is missing, and what to do instead."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __get__(self, owner: Any, kind: type) -> Any:
        raise AttributeError(f"{kind.__name__}: {self._words}")


def not_elsewhere(instead: str) -> Missing:
    """Return a descriptor for ``fit_federation`` of classes that cannot be fitted remotely."""
    return Missing(
        "there is no fit_federation: remote silos only answer and pay for fits of skdpfl's own "
        f"estimators. {instead}"
    )
