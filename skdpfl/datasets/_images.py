"""Image data sets in idx files, dealt to silos as asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Shape, Table
from skdpfl.datasets._files import DataFile, Source
from skdpfl.datasets._split import HOW, split_into_silos

_UNSIGNED_BYTE = 8
SILOS_DESCR = """
Silos: made by split_into_silos; every way but "iid" looks at the labels, so that the silo ids,
which are public, then tell something about them.

feature_bounds: 0 and 255, the range of a byte; 0 and 1 for rows of norm 1.
"""


@dataclass(frozen=True)
class Dealing:
    """How to deal the images to silos: the arguments of split_into_silos."""

    n_silos: int
    split: str
    alpha: float
    similarity: float
    records_per_silo: int | None
    random_state: object

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        """Return the silo ids of the records with these labels."""
        check_choice("split", self.split, HOW)
        return split_into_silos(
            labels,
            self.n_silos,
            self.split,
            alpha=self.alpha,
            similarity=self.similarity,
            records_per_silo=self.records_per_silo,
            random_state=self.random_state,
        )


def image_bunch(
    images: np.ndarray,
    labels: np.ndarray,
    dealing: Dealing,
    shape: Shape,
    unit_norm: bool,
    **extra: Any,
) -> Any:
    """Return the Bunch of images as flat rows; of those in no silo as test set."""
    X, target = images.reshape(len(images), -1), labels.astype(np.int64)
    if unit_norm:
        X = normalize(X.astype(np.float32))
    names = [f"pixel{j}" for j in range(1, X.shape[1] + 1)]
    bounds = dict.fromkeys(names, (0.0, 1.0 if unit_norm else 255.0))
    silos = dealing(target)
    table = Table(X, target, silos, names, "class", bounds)
    if dealing.records_per_silo is None:
        return shape.bunch(table, **extra)
    rest, inside = silos < 0, silos >= 0
    data, test = Shape(shape.as_frame, True, None).bunch(table.rows(rest))
    sizes = np.bincount(silos[inside], minlength=dealing.n_silos)
    more = {"data_test": data, "target_test": test, "silo_sizes": sizes}
    return shape.bunch(table.rows(inside), **more, **extra)


def read_idx(files: Sequence[DataFile], source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return the images and the labels in idx files, which alternate in ``files``."""
    contents = zip(source.read(files), files, strict=True)
    arrays = [parse_idx(content, file.name) for content, file in contents]
    return np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """Return the array of unsigned bytes in an unpacked idx file.

    The format: two zero bytes, a type, the number of axes, big-endian lengths, data.
    """
    kind = content[:3]
    if len(content) < 4 or kind != bytes([0, 0, _UNSIGNED_BYTE]):
        raise OSError(f"{name} is not an idx file of unsigned bytes: it starts with {kind!r}")
    n_axes = content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise OSError(f"{name} is damaged: {len(content)} bytes")
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(np.int64)
    if len(content) - start != np.prod(shape):
        raise OSError(f"{name} is damaged: {len(content) - start} values for shape {shape}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
