"""MNIST and Fashion-MNIST: ten handwritten digits, ten kinds of clothes."""

from typing import Any

import numpy as np

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Shape, shared_docs
from skdpfl.datasets._files import DataFile, Source
from skdpfl.datasets._images import SILOS_DESCR, Dealing, image_bunch, read_idx

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
    Records            60,000 train, 10,000 test
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
    descr = (
        "MNIST: 28 x 28 grey images of handwritten digits (LeCun, Cortes, Burges). OpenML 554.\n"
    )
    shape = Shape(as_frame, return_X_y, silo_column)
    source = Source(data_home, download_if_missing, cache)
    images, labels = read_idx(_files(MNIST, subset), source)
    dealing = Dealing(n_silos, split, alpha, similarity, records_per_silo, random_state)
    return image_bunch(
        images, labels, dealing, shape, unit_norm, target_names=DIGITS, DESCR=descr + SILOS_DESCR
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
    Records            60,000 train, 10,000 test
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
    descr = (
        "Fashion-MNIST: 28 x 28 grey images of articles from Zalando's shop (Xiao, Rasul, "
        "Vollgraf, 2017). MIT licence. OpenML 40996.\n"
    )
    shape = Shape(as_frame, return_X_y, silo_column)
    images, labels = read_idx(
        _files(FASHION_MNIST, subset), Source(data_home, download_if_missing, cache)
    )
    dealing = Dealing(n_silos, split, alpha, similarity, records_per_silo, random_state)
    return image_bunch(
        images, labels, dealing, shape, unit_norm, target_names=CLOTHES, DESCR=descr + SILOS_DESCR
    )


def _files(parts: dict[str, Part], subset: str) -> list[DataFile]:
    """Return the files of a subset."""
    check_choice("subset", subset, tuple(_SUBSETS))
    return [file for part in _SUBSETS[subset] for file in parts[part]]
