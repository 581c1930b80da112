"""Images in silos: MNIST and Fashion-MNIST; EMNIST and CIFAR-10, each from one large archive."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from skdpfl._arguments import check_choice
from skdpfl.datasets._loading import DataFile, DataSet, Shape, Source, shared_docs, split_arguments
from skdpfl.datasets._synthetic import HOW, split_into_silos

_UNSIGNED_BYTE = 8
_SILOS_DESCR = """
Silos: made by split_into_silos; every method except "iid" uses the labels, so that the silo ids,
which are public, reveal something about them.

feature_bounds: 0 and 255, the range of a byte; 0 and 1 for rows of norm 1.
"""


#: arguments that are handed on to split_into_silos
_DEALING = ("alpha", "similarity", "records_per_silo", "random_state")
#: returns images and labels of a subset
Load = Callable[[str, Source], tuple[np.ndarray, np.ndarray]]


def _fetches(
    load: Load, target_names: np.ndarray, descr: str, subset: str = "all", n_silos: int = 10
) -> Callable[[Callable[[], None]], Callable[..., Any]]:
    """Return a decorator that makes a fetch function of a name and a docstring."""
    first, few = subset, n_silos

    def decorate(documented: Callable[[], None]) -> Callable[..., Any]:
        def fetch(
            *,
            subset: str = first,
            n_silos: int = few,
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
        ) -> Any:
            return _bunch(locals(), load, target_names, descr.format(subset=subset))

        for name in ("__doc__", "__module__", "__name__", "__qualname__"):
            setattr(fetch, name, getattr(documented, name))
        return shared_docs(fetch)

    return decorate


def _bunch(arguments: dict[str, Any], load: Load, target_names: np.ndarray, descr: str) -> Any:
    """Return the Bunch of flat images and labels; of those in no silo as test set.

    ``given`` are the arguments of the function that was called.
    """
    shape, source = split_arguments(arguments)
    images, labels = load(arguments["subset"], source)
    unit_norm, n_silos = arguments["unit_norm"], arguments["n_silos"]
    X, target = images.reshape(len(images), -1), labels.astype(np.int64)
    extra: dict[str, Any] = {"target_names": target_names, "DESCR": descr + _SILOS_DESCR}
    if unit_norm:
        X = normalize(X.astype(np.float32))
    names = [f"pixel{j}" for j in range(1, X.shape[1] + 1)]
    bounds = dict.fromkeys(names, (0.0, 1.0 if unit_norm else 255.0))
    how = check_choice("split", arguments["split"], HOW)
    silos = split_into_silos(target, n_silos, how, **{name: arguments[name] for name in _DEALING})
    table = DataSet(X, target, silos, names, "class", bounds)
    if arguments["records_per_silo"] is None:
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
MNIST_DESCR = (
    "MNIST: 28 x 28 grey images of handwritten digits (LeCun, Cortes, Burges). OpenML 554.\n"
)
FASHION_DESCR = (
    "Fashion-MNIST: 28 x 28 grey images of articles from Zalando's shop (Xiao, Rasul, "
    "Vollgraf, 2017). MIT licence. OpenML 40996.\n"
)
DIGITS = np.array(list("0123456789"))
CLOTHES = np.array(
    [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ]
)


@_fetches(lambda *asked: _read(MNIST, *asked), DIGITS, MNIST_DESCR)
def fetch_mnist() -> None:
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


@_fetches(lambda *asked: _read(FASHION_MNIST, *asked), CLOTHES, FASHION_DESCR)
def fetch_fashion_mnist() -> None:
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


def _read(parts: dict[str, Part], subset: str, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return the images and the labels of a subset."""
    check_choice("subset", subset, tuple(_SUBSETS))
    return read_idx([file for part in _SUBSETS[subset] for file in parts[part]], source)


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
            f"{files[0].name} has {len(images)} images, {len(labels)} labels, not {size}: delete it"
        )
    return images.transpose(0, 2, 1), labels


@_fetches(_emnist, CHARACTERS, EMNIST_DESCR, subset="bymerge_test", n_silos=40)
def fetch_emnist() -> None:
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
CIFAR_DESCR = "CIFAR-10: 32 x 32 colour images (Krizhevsky, 2009).\n"
THINGS = np.array(
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
)


def _cifar10(subset: str, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a subset."""
    files = CIFAR_SUBSETS[check_choice("subset", subset, tuple(CIFAR_SUBSETS))]
    parts = [_parsed(*each) for each in zip(source.read(files), files, strict=True)]
    images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    return images, labels


@_fetches(_cifar10, THINGS, CIFAR_DESCR)
def fetch_cifar10() -> None:
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
