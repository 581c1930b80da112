"""What an estimator's ``model`` may be: a description of a model, with scikit-learn's parameters.

A description knows no data and is never fitted: it is cloned, searched over (``model__activation``)
and pickled. A fit asks it for a :class:`Model` for its numbers of features and outputs.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any

from skdpfl.models._base import Model


class Architecture(ABC):
    """Base class of what ``model=`` takes beside "linear".

    A subclass has a constructor that keeps each argument under its own name, as estimators have,
    and :meth:`build`, which checks them.
    """

    @abstractmethod
    def build(self, n_features: int, n_outputs: int) -> Model:
        """Return the model for records of so many features and raw predictions.

        Parameters
        ----------
        n_features : int
            Number of features of a record.
        n_outputs : int
            Number of raw predictions of a record.

        Returns
        -------
        Model
            Frozen; it can be pickled.
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
