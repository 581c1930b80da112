"""Image data sets in idx files, dealt to silos as asked."""

from dataclasses import dataclass

import numpy as np

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Records, check_frame_options, to_bunch
from skdpfl.datasets._files import DataFile, read_files
from skdpfl.datasets._idx import parse_idx
from skdpfl.datasets._split import HOW, split_into_silos

SUBSETS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}


def idx_files(
    folder: str, mirrors: tuple[str, ...], sha256: dict[str, str]
) -> dict[str, tuple[DataFile, DataFile]]:
    """The image and label files of each part; `sha256` by file name, of the unpacked content."""

    def one(name):
        urls = tuple(f"{mirror}/{name}.gz" for mirror in mirrors)
        return DataFile(f"{folder}/{name}.gz", sha256[name], urls)

    return {
        part: (one(f"{part}-images-idx3-ubyte"), one(f"{part}-labels-idx1-ubyte"))
        for part in ("train", "t10k")
    }


SILOS_DESCR = """
Silos: made by split_into_silos; every way but "iid" looks at the labels, so that the silo ids,
which are public, then tell something about them.

feature_bounds: 0 and 255, the range of a byte.
"""


@dataclass(frozen=True)
class Dealing:
    """How to deal the images to silos: the arguments of split_into_silos."""

    n_silos: int
    split: str
    alpha: float
    similarity: float
    random_state: object

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        """Silo ids of the records with these labels."""
        check_choice("split", self.split, HOW)
        return split_into_silos(
            labels,
            self.n_silos,
            self.split,
            alpha=self.alpha,
            similarity=self.similarity,
            random_state=self.random_state,
        )


def image_bunch(images: np.ndarray, labels: np.ndarray, dealing: Dealing, **options):
    """The Bunch of images as flat rows of bytes."""
    X = images.reshape(len(images), -1)
    names = [f"pixel{j}" for j in range(1, X.shape[1] + 1)]
    target = labels.astype(np.int64)
    bounds = dict.fromkeys(names, (0.0, 255.0))
    return to_bunch(Records(X, target, dealing(target), names, "class", bounds), **options)


def fetch_idx(parts, subset, where, dealing, options):
    """Read the parts of a data set in idx files."""
    check_frame_options(options["as_frame"], options["silo_column"])
    check_choice("subset", subset, tuple(SUBSETS))
    files = [file for part in SUBSETS[subset] for file in parts[part]]
    arrays = [
        parse_idx(content, file.name)
        for file, content in zip(files, read_files(files, **where), strict=True)
    ]
    images, labels = np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])
    return image_bunch(images, labels, dealing, **options)
