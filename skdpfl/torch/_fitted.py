"""A module's parameters: one flat vector, and the fitted module, which is pickled as arrays."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from skdpfl.models import Map, Maps

Params = dict[str, torch.Tensor]
Shape = tuple[int, ...]


class Layout:
    """Names and shapes of the trained parameters, in the order of ``named_parameters``.

    Parameters
    ----------
    module : Module
        The module; only parameters that require a gradient are used.
    """

    def __init__(self, module: nn.Module) -> None:
        named = module.named_parameters()
        trained = {name: p for name, p in named if p.requires_grad and p.numel()}
        self.shapes: dict[str, Shape] = {name: tuple(p.shape) for name, p in trained.items()}
        if not self.shapes:
            raise ValueError("The module has no parameters that require a gradient.")

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(map(math.prod, self.shapes.values()))

    def split(self, flat: torch.Tensor) -> Params:
        """Return the parameters by name."""
        at, parts = 0, {}
        for name, shape in self.shapes.items():
            parts[name] = flat[at : at + math.prod(shape)].reshape(shape)
            at += math.prod(shape)
        return parts

    def joined(self, parts: Mapping[str, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
        """Return the flat vector, of the kind of ``like``; zeros for names that are missing."""
        flat = [
            parts[name].detach().reshape(-1) if name in parts else like.new_zeros(math.prod(shape))
            for name, shape in self.shapes.items()
        ]
        return torch.cat(flat).to(like)

    def mask(self, chosen: Callable[[str, Shape], bool]) -> NDArray:
        """Return 1 for parameters chosen by name and shape, 0 for others, flat."""
        parts = [np.full(math.prod(s), chosen(name, s), float) for name, s in self.shapes.items()]
        return np.concatenate(parts)


#: the maps of features and target, as buffers of a fitted module
MAPS = "factor", "shift", "scale", "center"
#: rows of features that a map is asked for at once
_ROWS = 256
#: weights are drawn by torch's global generator, one module at a time
_DRAWING = threading.Lock()


class FittedModule(nn.Module):
    """A trained module between the maps of features and target.

    ::

        raw = scale * module(X * factor + shift) + center

    It is a ``torch.nn.Module`` in evaluation mode, and takes tensors (n, n_features). Its pickle
    holds arrays and the factory of the module, no code.

    Parameters
    ----------
    factory : callable
        Returns the module; it must be importable to be pickled.
    module : Module
        The trained module.
    maps : mapping of str to ndarray
        ``factor`` and ``shift`` (n_features,), ``scale`` and ``center``.
    """

    def __init__(
        self, factory: Callable[[], nn.Module], module: nn.Module, maps: dict[str, NDArray]
    ) -> None:
        super().__init__()
        self._factory = factory
        self.module = module.eval()
        like = next(module.parameters())
        for name, value in maps.items():
            self.register_buffer(name, torch.as_tensor(value).to(like))
        self.eval()

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return raw predictions (n, n_outputs), in units of the target.

        Parameters
        ----------
        X : Tensor of shape (n, n_features)
            Records as the estimator takes them.

        Returns
        -------
        Tensor
        """
        out: torch.Tensor = self.module(X * self.factor + self.shift) * self.scale + self.center
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> FittedModule:
        """Return a copy that shares no parameter or buffer, without a call of the factory."""
        maps = {name: getattr(self, name).cpu().numpy() for name in MAPS}
        module = copy.deepcopy(self.module, memo)
        return FittedModule(self._factory, module, maps).to(self.factor)

    def __reduce__(self) -> Any:
        """Pickle the factory and arrays."""
        arrays = {name: value.cpu().numpy() for name, value in self.state_dict().items()}
        return restored, (self._factory, arrays)

    def __repr__(self) -> str:
        """Return the class of the module."""
        return f"FittedModule({type(self.module).__name__})"


def initialised_module(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a module whose initial weights are drawn by torch's global generator from a seed."""
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return factory()


def restored(factory: Callable[[], nn.Module], arrays: dict[str, NDArray]) -> FittedModule:
    """Return a fitted module from its arrays."""
    maps = {name: arrays[name] for name in MAPS}
    # draws that are no weight or buffer are as in the fit; the factory may keep its module
    module = copy.deepcopy(initialised_module(factory, 0))
    inner = {n.removeprefix("module."): v for n, v in arrays.items() if n.startswith("module.")}
    state = {name: torch.from_numpy(np.array(value)) for name, value in inner.items()}
    floats = [value for value in state.values() if value.is_floating_point()]
    module.to(floats[0].dtype).load_state_dict(state)
    return FittedModule(factory, module, maps)


def maps_of(maps: Maps, n_features: int) -> dict[str, NDArray]:
    """Return the maps as factors and shifts, feature by feature."""
    factor, shift = np.empty(n_features), np.empty(n_features)
    for start in range(0, n_features, _ROWS):
        some = slice(start, start + _ROWS)
        rows = np.eye(n_features)[some]
        coef, shift[some] = maps.features.unscale(rows, np.zeros(len(rows)))
        factor[some] = (coef * rows).sum(1)
    scale, center = _of_target(maps.target)
    return {"factor": factor, "shift": shift, "scale": scale, "center": center}


def _of_target(target: Map) -> tuple[NDArray, NDArray]:
    """Return the factor and offset for predictions of the mapped target."""
    center = np.asarray(target.unscale(np.zeros((1, 1)), np.zeros(1))[1], np.float64)
    one = np.asarray(target.unscale(np.ones((1, 1)), np.zeros(1))[0], np.float64)
    return one[0], center
