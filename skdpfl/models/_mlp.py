"""The multilayer perceptron, as it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl._arguments import check_count
from skdpfl.models._activations import ACTIVATIONS, Activation
from skdpfl.models._architecture import Architecture
from skdpfl.models._network import Network
from skdpfl.models._start import Start


@dataclass(eq=False, repr=False)
class MLP(Architecture):
    """A fully connected network, for the ``model`` of any estimator.

    Records' gradients are clipped by the norms of the layers' inputs and slopes; none is ever
    formed. Fitted estimators have ``coefs_`` and ``intercepts_``, lists with one array for each
    layer, as scikit-learn's ``MLPClassifier``.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(100,)
        Units of the hidden layers.
    activation : {"relu", "tanh"} or TemperedSigmoid, default="relu"
        Of the hidden layers.
    start : public weights, default=None
        ``public(model)``: weights that are declared public, in the units of ``X`` and ``y``. None
        draws them from ``random_state``, in a stream of their own.

    See Also
    --------
    TemperedSigmoid : A bounded activation.
    public : Declares weights to start from.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdpfl import DPFedAvgClassifier
    >>> from skdpfl.models import MLP
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = DPFedAvgClassifier(
    ...     20.0, model=MLP((30,)), feature_bounds=(0, 16), local_steps=1, random_state=0
    ... )
    >>> clf.fit(X, y, silos=[i % 3 for i in range(len(y))]).score(X, y) > 0.8
    True
    >>> [w.shape for w in clf.coefs_]
    [(64, 30), (30, 10)]
    """

    hidden_layer_sizes: Any = (100,)
    activation: Any = "relu"
    start: Start | None = None

    def build(self, n_features: int, n_outputs: int) -> Network:
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str) or np.ndim(sizes) > 1:
            raise ValueError(f"hidden_layer_sizes must be a sequence of integers; got {sizes!r}.")
        hidden = tuple(check_count("hidden_layer_sizes", h) for h in np.atleast_1d(sizes).tolist())
        if self.start is not None and not isinstance(self.start, Start):
            raise ValueError(
                "start must be None or public(model): weights may be used if you declare that they "
                f"are public; got {self.start!r}."
            )
        return Network(n_features, n_outputs, hidden, self._activation(), self.start)

    def _activation(self) -> Activation:
        given = self.activation
        if isinstance(given, Activation):
            return given
        if isinstance(given, str) and given in ACTIVATIONS:
            return ACTIVATIONS[given]
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ValueError(
            f"activation must be one of {names} or TemperedSigmoid(...); got {given!r}."
        )
