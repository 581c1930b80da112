"""Images from one large archive: EMNIST (47 characters) and CIFAR-10 (colour)."""

import io
from functools import partial
from typing import Any

import numpy as np

from skdpfl._arguments import check_choice
from skdpfl.datasets._images import image_bunch, read_idx
from skdpfl.datasets._loading import DataFile, Source, shared_docs

EMNIST_ARCHIVE = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
EMNIST_ARCHIVE_SHA256 = "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e"


def _in_archive(subset: str, kind: str) -> DataFile:
    """A file of a subset, as it lies in NIST's archive."""
    name = f"emnist-{subset.replace('_', '-')}-{kind}-ubyte.gz"
    return DataFile(
        f"emnist/{name}", None, (EMNIST_ARCHIVE,), f"gzip/{name}", EMNIST_ARCHIVE_SHA256
    )


_SIZES = {"bymerge_test": 116_323, "balanced_train": 112_800, "balanced_test": 18_800}
#: images and labels of each subset, and how many there are
EMNIST_SUBSETS = {
    name: (tuple(_in_archive(name, kind) for kind in ("images-idx3", "labels-idx1")), size)
    for name, size in _SIZES.items()
}
#: the by-merge test images in one file, upright; taken where it is at hand
MERGED = DataFile(
    "emnist/emnist_merge47.npz",
    "b49605e2c7addf403182e99e89eb582041e74ebd1e87b1beaa64239b5f2e1179",
    (),
)
CHARACTERS = np.array(list("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"))
EMNIST_DESCR = """EMNIST (subset {subset})

28 x 28 grey images of handwritten digits and letters from NIST Special Database 19, letters whose
two cases look alike merged: 47 classes (Cohen, Afshar, Tapson, van Schaik, 2017). Images are
upright here (NIST's files have them transposed).
"""


@shared_docs
def fetch_emnist(
    *,
    subset: str = "bymerge_test",
    n_silos: int = 40,
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
    """Load EMNIST (47 classes of handwritten characters) in silos.

    ================   ========================================================
    DataSet            116,323 (by-merge test), 112,800 or 18,800 (balanced)
    Features           784 bytes
    Classes            47
    Silos              as asked
    ================   ========================================================

    Files are searched in ``$SKDPFL_DATA/emnist``, then in the cache; else NIST's archive, 560 MB,
    is downloaded, its SHA-256 checked, and the two files needed are kept.

    Parameters
    ----------
    subset : {"bymerge_test", "balanced_train", "balanced_test"}, default="bymerge_test"
        The test images of the by-class collection with the classes merged (unbalanced), or the
        balanced collection (the DP-SCAFFOLD experiments take ``"balanced_train"``).
        ``"bymerge_test"`` is also read from ``emnist/emnist_merge47.npz``: the same images, perhaps
        in another order.
    n_silos : int, default=40
        Number of silos.
    [dealing]
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` (uint8, 0 to 255), `target` (0 to 46), `silos`, `feature_names`, `target_names` (the
        characters), `feature_bounds`, `frame`, `DESCR`; with `records_per_silo` also `data_test`,
        `target_test` and `silo_sizes`.

    See Also
    --------
    fetch_mnist : Handwritten digits.
    fetch_fashion_mnist : Pictures of clothes.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_emnist
    >>> d = fetch_emnist(split="sorted")  # doctest: +SKIP
    >>> d.data.shape, len(d.target_names)  # doctest: +SKIP
    ((116323, 784), 47)
    >>> d = fetch_emnist(n_silos=40, records_per_silo=2500)  # doctest: +SKIP
    >>> d.data.shape, d.data_test.shape  # doctest: +SKIP
    ((100000, 784), (16323, 784))

    Only 15 of the 47 classes have 2500 images here, so silos of one class differ in size:

    >>> d = fetch_emnist(n_silos=40, records_per_silo=2500, split="one_class")  # doctest: +SKIP
    >>> int((d.silo_sizes == 2500).sum()), int(d.silo_sizes.min())  # doctest: +SKIP
    (14, 413)
    """
    descr = EMNIST_DESCR.format(subset=subset)
    return image_bunch(locals(), partial(_emnist, subset), CHARACTERS, descr)


def _emnist(subset: str, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Images, turned upright, and labels: in one file, or out of NIST's."""
    check_choice("subset", subset, tuple(EMNIST_SUBSETS))
    if subset == "bymerge_test" and source.find(MERGED):
        content = io.BytesIO(source.read([MERGED])[0])
        with np.load(content, allow_pickle=False) as arrays:
            return arrays["X"], arrays["y"]
    files, size = EMNIST_SUBSETS[subset]
    images, labels = read_idx(files, source)
    if not len(images) == len(labels) == size:
        raise OSError(
            f"{files[0].name} has {len(images)} images and {len(labels)} labels, expected {size}: "
            "delete both files, so that they are downloaded again"
        )
    return images.transpose(0, 2, 1), labels


#: the "binary version": a label and three planes (red, green, blue) of 32 x 32 bytes a record
CIFAR_ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR_ARCHIVE_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
_RECORDS, _PIXELS = 10_000, 3 * 32 * 32


def _file(name: str) -> DataFile:
    member = f"cifar-10-batches-bin/{name}.bin"
    return DataFile(f"cifar10/{name}.bin", None, (CIFAR_ARCHIVE,), member, CIFAR_ARCHIVE_SHA256)


_TRAIN = tuple(_file(f"data_batch_{i}") for i in range(1, 6))
_TEST = (_file("test_batch"),)
CIFAR_SUBSETS = {"train": _TRAIN, "test": _TEST, "all": _TRAIN + _TEST}
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
    DataSet            50,000 train, 10,000 test
    Features           3072 bytes
    Classes            10
    Silos              as asked
    ================   =========================

    The files of the binary version (``data_batch_1.bin`` to ``data_batch_5.bin``,
    ``test_batch.bin``; no pickles) are looked for in ``$SKDPFL_DATA/cifar10``, then in the cache;
    else the archive, 170 MB, is downloaded, its SHA-256 checked, and the files needed are kept.
    Lengths and labels are always checked.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        The images to load; train comes first.
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
    descr = "CIFAR-10: 32 x 32 colour images (Krizhevsky, 2009).\n"
    return image_bunch(locals(), partial(_cifar10, subset), THINGS, descr)


def _cifar10(subset: str, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a subset."""
    files = CIFAR_SUBSETS[check_choice("subset", subset, tuple(CIFAR_SUBSETS))]
    parts = [_parsed(*each) for each in zip(source.read(files), files, strict=True)]
    images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    return images, labels


def _parsed(content: bytes, file: DataFile) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 3072) and labels (n,) of a file."""
    wanted = _RECORDS * (1 + _PIXELS)
    if len(content) != wanted:
        raise OSError(
            f"{file.name} has {len(content)} bytes, expected {wanted}: it is damaged, or not of "
            f"the binary version, which is at {CIFAR_ARCHIVE}"
        )
    rows = np.frombuffer(content, np.uint8).reshape(_RECORDS, 1 + _PIXELS)
    labels = rows[:, 0]
    if labels.max() >= len(THINGS):
        raise OSError(f"{file.name} is damaged: it has the label {labels.max()}, the largest is 9")
    return rows[:, 1:], labels
