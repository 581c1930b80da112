"""Activations of a network's hidden layers, whose derivatives follow from their values.

::

    relu               max(z, 0)
    tanh               tanh(z)
    tempered sigmoid   s / (1 + exp(-T z)) - o        (s, T, o) = (2, 2, 1) is tanh

Bounded activations keep gradients short under clipping: Papernot, Thakurta, Song, Chien and
Erlingsson (AAAI 2021).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skdpfl._arguments import check_number, check_positive


class Activation(ABC):
    """Base class: an elementwise function whose derivative is a function of its value.

    A new one is a frozen dataclass with :meth:`value` and :meth:`slope`. Networks with a
    user-defined activation process one record at a time, which is slow, unless its class sets
    ``stackable = True``, which declares that it acts elementwise.
    """

    stackable: ClassVar[bool]

    @property
    def gain(self) -> float:
        """Mean square of the function over that of its argument, for small arguments."""
        return 1.0

    @abstractmethod
    def value(self, z: NDArray) -> NDArray:
        """Return the function of ``z``, which may be overwritten.

        Parameters
        ----------
        z : ndarray
            Any shape, float32 or float64.

        Returns
        -------
        ndarray
            The same shape and dtype.
        """

    @abstractmethod
    def slope(self, value: NDArray) -> NDArray:
        """Return the derivative at the point where the function has this value.

        Parameters
        ----------
        value : ndarray
            A result of :meth:`value`.

        Returns
        -------
        ndarray
            The same shape and dtype; may be boolean.
        """


@dataclass(frozen=True)
class Relu(Activation):
    """max(z, 0)."""

    @property
    def gain(self) -> float:
        return 0.5

    def value(self, z: NDArray) -> NDArray:
        return np.maximum(z, 0, out=z)

    def slope(self, value: NDArray) -> NDArray:
        return value > 0


@dataclass(frozen=True)
class Tanh(Activation):
    """tanh(z)."""

    def value(self, z: NDArray) -> NDArray:
        return np.tanh(z, out=z)

    def slope(self, value: NDArray) -> NDArray:
        return 1 - value * value


@dataclass(frozen=True)
class TemperedSigmoid(Activation):
    """scale / (1 + exp(-inverse_temperature * z)) - offset.

    Parameters
    ----------
    scale : float, default=2.0
        Height s of the step.
    inverse_temperature : float, default=2.0
        T, the steepness.
    offset : float, default=1.0
        The constant o, which is subtracted.

    See Also
    --------
    MLP : The network that uses it.

    References
    ----------
    Papernot, Thakurta, Song, Chien and Erlingsson (2021). "Tempered sigmoid activations for deep
    learning with differential privacy." AAAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.models import TemperedSigmoid
    >>> z = np.array([-1.0, 0.0, 2.0])
    >>> bool(np.allclose(TemperedSigmoid().value(z.copy()), np.tanh(z)))
    True
    """

    scale: float = 2.0
    inverse_temperature: float = 2.0
    offset: float = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check_positive("inverse_temperature", self.inverse_temperature)
        check_number("offset", self.offset)

    @property
    def gain(self) -> float:
        """The square of the slope at 0."""
        return (self.scale * self.inverse_temperature / 4) ** 2

    def value(self, z: NDArray) -> NDArray:
        z *= z.dtype.type(self.inverse_temperature)
        expit(z, out=z)
        z *= z.dtype.type(self.scale)
        z -= z.dtype.type(self.offset)
        return z

    def slope(self, value: NDArray) -> NDArray:
        kind = value.dtype.type
        above = value + kind(self.offset)
        return above * (kind(self.scale) - above) * kind(self.inverse_temperature / self.scale)


ACTIVATIONS: dict[str, Activation] = {"relu": Relu(), "tanh": Tanh()}
