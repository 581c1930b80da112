"""CIFAR-10: ten kinds of animals and vehicles, in colour."""

from typing import Any

import numpy as np

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Shape, shared_docs
from skdpfl.datasets._files import DataFile, Source
from skdpfl.datasets._images import SILOS_DESCR, Dealing, image_bunch

#: the "binary version": a label and three planes (red, green, blue) of 32 x 32 bytes a record
_ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
_ARCHIVE_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
_RECORDS, _PIXELS = 10_000, 3 * 32 * 32


def _file(name: str) -> DataFile:
    member = f"cifar-10-batches-bin/{name}.bin"
    return DataFile(f"cifar10/{name}.bin", None, (_ARCHIVE,), member, _ARCHIVE_SHA256)


_TRAIN = tuple(_file(f"data_batch_{i}") for i in range(1, 6))
_TEST = (_file("test_batch"),)
SUBSETS = {"train": _TRAIN, "test": _TEST, "all": _TRAIN + _TEST}
THINGS = np.array(
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
)


@shared_docs
def fetch_cifar10(
    *,
    subset: str = "all",
    n_silos: int = 10,
    split: str = "iid",
    alpha: float = 0.5,
    similarity: float = 0.0,
    records_per_silo: int | None = None,
    unit_norm: bool = False,
    random_state: Any = 0,
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
    cache: bool = True,
) -> Any:
    """Load CIFAR-10 (ten kinds of animals and vehicles) in silos.

    ================   =========================
    Records            50,000 train, 10,000 test
    Features           3072 bytes
    Classes            10
    Silos              as asked
    ================   =========================

    The files of the binary version (``data_batch_1.bin`` to ``data_batch_5.bin``,
    ``test_batch.bin``; no pickles) are looked for in ``$SKDPFL_DATA/cifar10``, then in the cache;
    else the archive, 170 MB, is downloaded, its SHA-256 checked, and the files in question kept.
    Lengths and labels are checked in any case.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        Which images; train comes first.
    n_silos : int, default=10
        Number of silos.
    [dealing]
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` (uint8, 0 to 255: the red, the green and the blue plane, each row by row),
        `target`, `silos`, `feature_names`, `target_names`, `feature_bounds`, `frame`, `DESCR`;
        with `records_per_silo` also `data_test`, `target_test` and `silo_sizes`.

    See Also
    --------
    fetch_mnist : Handwritten digits, in grey.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_cifar10
    >>> d = fetch_cifar10(subset="test", n_silos=25)  # doctest: +SKIP
    >>> d.data.reshape(-1, 3, 32, 32).shape  # doctest: +SKIP
    (10000, 3, 32, 32)
    """
    check_choice("subset", subset, tuple(SUBSETS))
    shape = Shape(as_frame, return_X_y, silo_column)
    files = SUBSETS[subset]
    contents = Source(data_home, download_if_missing, cache).read(files)
    parts = [_parsed(content, file.name) for content, file in zip(contents, files, strict=True)]
    images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    return image_bunch(
        images,
        labels,
        Dealing(n_silos, split, alpha, similarity, records_per_silo, random_state),
        shape,
        unit_norm,
        target_names=THINGS,
        DESCR="CIFAR-10: 32 x 32 colour images (Krizhevsky, 2009).\n" + SILOS_DESCR,
    )


def _parsed(content: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 3072) and labels (n,) of a file."""
    wanted = _RECORDS * (1 + _PIXELS)
    if len(content) != wanted:
        raise OSError(
            f"{name} has {len(content)} bytes, expected {wanted}: it is damaged, or not of the "
            f"binary version, which is at {_ARCHIVE}"
        )
    rows = np.frombuffer(content, np.uint8).reshape(_RECORDS, 1 + _PIXELS)
    labels = rows[:, 0]
    if labels.max() >= len(THINGS):
        raise OSError(f"{name} is damaged: it has the label {labels.max()}, the largest is 9")
    return rows[:, 1:], labels
