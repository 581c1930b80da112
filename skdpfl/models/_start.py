"""Maps of the data that layers undo, and public initial weights in the data's units."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning


class Map(Protocol):
    """A transformation of the data before the fit, which a linear layer can undo."""

    def unscale(self, coef: NDArray, intercept: NDArray) -> tuple[NDArray, NDArray]:
        """Return a layer's coefficients (k, d) and intercepts (k,) in the original units."""

    def rescale(self, coef: NDArray, intercept: NDArray) -> tuple[NDArray, NDArray]:
        """Return coefficients and intercepts for mapped data, from those in the original units."""


class Maps(Protocol):
    """The maps of features and target."""

    @property
    def features(self) -> Map:
        """The map that the first layer undoes."""

    @property
    def target(self) -> Map:
        """The map that the last layer undoes."""


@dataclass(frozen=True, eq=False)
class Start:
    """Public weights: each layer's (h_l, h_{l+1}) and (h_{l+1},), in the units of X and y."""

    layers: tuple[tuple[NDArray, NDArray], ...]

    def __repr__(self) -> str:
        units = [len(w) for w, _ in self.layers] + [len(b) for _, b in self.layers[-1:]]
        return f"public({'-'.join(map(str, units))})"

    def check(self, units: tuple[int, ...]) -> None:
        """Raise unless the layers match a network with these numbers of units."""
        wanted = [(a, b) for a, b in pairwise(units)]
        given = [w.shape for w, _ in self.layers]
        if given != wanted or any(b.shape != w.shape[1:] for w, b in self.layers):
            raise ValueError(
                f"start has weights of shapes {given}; this network needs {wanted}, and one "
                "intercept per unit. Use the hidden_layer_sizes, features and classes of the "
                "network from which the weights come."
            )

    def scaled(self, maps: Maps) -> Start:
        """Return the weights for mapped features and targets."""
        layers = [(w.T, b) for w, b in self.layers]
        layers[0] = maps.features.rescale(*layers[0])
        layers[-1] = maps.target.rescale(*layers[-1])
        return Start(tuple((w.T, b) for w, b in layers))


def public(model: Any) -> Start:
    """Declare initial weights to be public: anyone may see them, at no privacy cost.

    Parameters
    ----------
    model : fitted estimator or (coefs, intercepts)
        An estimator with ``coefs_`` and ``intercepts_``, such as scikit-learn's ``MLPClassifier``
        fitted on public data; or these two lists of arrays.

    Returns
    -------
    object
        The argument of ``MLP(start=...)``. The weights are copied.

    Warns
    -----
    PrivacyLeakWarning
        If the model was trained privately: its ``privacy_spent_`` is not included in the cost of a
        fit that starts from it.

    See Also
    --------
    MLP : The network that starts from them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.models import MLP, public
    >>> weights = [np.ones((4, 3)), np.zeros((3, 1))]
    >>> MLP((3,), start=public((weights, [np.zeros(3), np.zeros(1)])))
    MLP(hidden_layer_sizes=(3,), start=public(4-3-1))
    """
    if isinstance(model, Start):
        return model
    if isinstance(model, (tuple, list)) and len(model) == 2:
        coefs, intercepts = model
    else:
        fitted = getattr(model, "__dict__", {})
        if "coefs_" not in fitted or "intercepts_" not in fitted:
            raise ValueError(
                "public needs a fitted network (with coefs_ and intercepts_) or the two lists "
                f"(coefs, intercepts); got {model!r}."
            )
        coefs, intercepts = fitted["coefs_"], fitted["intercepts_"]
        if "privacy_spent_" in fitted:
            _warn_of_cost(fitted["privacy_spent_"])
    if len(coefs) != len(intercepts) or not len(coefs):
        raise ValueError(
            f"coefs and intercepts must have one array for each layer; got {len(coefs)} and "
            f"{len(intercepts)}."
        )
    each = zip(coefs, intercepts, strict=True)
    layers = tuple((np.array(w, np.float64), np.array(b, np.float64)) for w, b in each)
    if not all(np.isfinite(part).all() for layer in layers for part in layer):
        raise ValueError("Weights to start from must be finite.")
    return Start(layers)


def _warn_of_cost(spent: Any) -> None:
    warn(
        f"The weights were trained privately ({spent!r}). The cost of a fit that starts from them "
        "does not include that: for records used in both, the cost is the sum "
        "first.privacy_spent_ + second.privacy_spent_.",
        PrivacyLeakWarning,
    )
