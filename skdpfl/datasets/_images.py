"""MNIST and Fashion-MNIST in silos, and shared code of image data sets."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from skdpfl._arguments import check_choice
from skdpfl.datasets._loading import DataFile, DataSet, Shape, Source, asked, shared_docs
from skdpfl.datasets._split import HOW, split_into_silos

_UNSIGNED_BYTE = 8
_SILOS_DESCR = """
Silos: made by split_into_silos; every method except "iid" uses the labels, so that the silo ids,
which are public, reveal something about them.

feature_bounds: 0 and 255, the range of a byte; 0 and 1 for rows of norm 1.
"""


#: arguments that are handed on to split_into_silos
_DEALING = ("alpha", "similarity", "records_per_silo", "random_state")


def image_bunch(
    given: dict[str, Any],
    load: Callable[[Source], tuple[np.ndarray, np.ndarray]],
    target_names: np.ndarray,
    DESCR: str,
) -> Any:
    """Return the Bunch of loaded (images, labels) as flat rows; of those in no silo as test set.

    ``given`` are the arguments of the function that was called.
    """
    shape, source = asked(given)
    images, labels = load(source)
    unit_norm, n_silos = given["unit_norm"], given["n_silos"]
    X, target = images.reshape(len(images), -1), labels.astype(np.int64)
    extra: dict[str, Any] = {"target_names": target_names, "DESCR": DESCR + _SILOS_DESCR}
    if unit_norm:
        X = normalize(X.astype(np.float32))
    names = [f"pixel{j}" for j in range(1, X.shape[1] + 1)]
    bounds = dict.fromkeys(names, (0.0, 1.0 if unit_norm else 255.0))
    how = check_choice("split", given["split"], HOW)
    silos = split_into_silos(target, n_silos, how, **{name: given[name] for name in _DEALING})
    table = DataSet(X, target, silos, names, "class", bounds)
    if given["records_per_silo"] is None:
        return shape.bunch(table, **extra)
    rest, inside = silos < 0, silos >= 0
    extra["data_test"], extra["target_test"] = Shape(shape.as_frame, True, None).bunch(
        table.rows(rest)
    )
    extra["silo_sizes"] = np.bincount(silos[inside], minlength=n_silos)
    return shape.bunch(table.rows(inside), **extra)


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


#: the parts of each data set that a subset has
_SUBSETS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}
#: images and labels of a part
Part = tuple[DataFile, DataFile]


def _parts(folder: str, mirrors: tuple[str, ...], sha256: tuple[str, ...]) -> dict[str, Part]:
    """Return the files of each part; ``sha256`` of train images, labels, test images, labels."""
    sums = iter(sha256)

    def one(name: str) -> DataFile:
        urls = tuple(f"{mirror}/{name}.gz" for mirror in mirrors)
        return DataFile(f"{folder}/{name}.gz", next(sums), urls)

    return {
        part: (one(f"{part}-images-idx3-ubyte"), one(f"{part}-labels-idx1-ubyte"))
        for part in ("train", "t10k")
    }


MNIST = _parts(
    "mnist",
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
FASHION_MNIST = _parts(
    "fashion_mnist",
    (
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    ),
    (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
DIGITS = np.array(list("0123456789"))
CLOTHES = np.array(
    [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ]
)


@shared_docs
def fetch_mnist(
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
    """Load MNIST (ten handwritten digits) in silos.

    ================   =========================
    DataSet            60,000 train, 10,000 test
    Features           784 bytes
    Classes            10
    Silos              as asked
    ================   =========================

    The files are looked for in ``$SKDPFL_DATA/mnist``, then in the cache, then downloaded; the
    SHA-256 of their contents are checked.

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
        `data` (uint8, 0 to 255), `target`, `silos`, `feature_names`, `target_names`,
        `feature_bounds`, `frame`, `DESCR`; with `records_per_silo` also `data_test`, `target_test`
        and `silo_sizes`.

    See Also
    --------
    fetch_fashion_mnist : Pictures of clothes.
    fetch_emnist : Handwritten letters and digits.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_mnist
    >>> d = fetch_mnist(subset="test", n_silos=25, split="similarity")  # doctest: +SKIP
    >>> d.data.shape, d.data.dtype, len(set(d.silos))  # doctest: +SKIP
    ((10000, 784), dtype('uint8'), 25)
    """
    return image_bunch(
        locals(),
        partial(_read, MNIST, subset),
        DIGITS,
        "MNIST: 28 x 28 grey images of handwritten digits (LeCun, Cortes, Burges). OpenML 554.\n",
    )


@shared_docs
def fetch_fashion_mnist(
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
    """Load Fashion-MNIST (ten kinds of clothes) in silos.

    ================   =========================
    DataSet            60,000 train, 10,000 test
    Features           784 bytes
    Classes            10
    Silos              as asked
    ================   =========================

    The files are looked for in ``$SKDPFL_DATA/fashion_mnist``, then in the cache, then downloaded;
    the SHA-256 of their contents are checked.

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
        `data` (uint8, 0 to 255), `target`, `silos`, `feature_names`, `target_names`,
        `feature_bounds`, `frame`, `DESCR`; with `records_per_silo` also `data_test`, `target_test`
        and `silo_sizes`.

    See Also
    --------
    fetch_mnist : Handwritten digits.
    fetch_emnist : Handwritten letters and digits.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_fashion_mnist
    >>> d = fetch_fashion_mnist(subset="test", split="sorted")  # doctest: +SKIP
    >>> [str(d.target_names[k]) for k in sorted(set(d.target[d.silos == 9]))]  # doctest: +SKIP
    ['Ankle boot']
    """
    return image_bunch(
        locals(),
        partial(_read, FASHION_MNIST, subset),
        CLOTHES,
        "Fashion-MNIST: 28 x 28 grey images of articles from Zalando's shop (Xiao, Rasul, "
        "Vollgraf, 2017). MIT licence. OpenML 40996.\n",
    )


def _read(parts: dict[str, Part], subset: str, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return the images and the labels of a subset."""
    check_choice("subset", subset, tuple(_SUBSETS))
    return read_idx([file for part in _SUBSETS[subset] for file in parts[part]], source)
