"""EMNIST: handwritten digits and letters in 47 classes."""

import io
from typing import Any

import numpy as np

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Shape, shared_docs
from skdpfl.datasets._files import DataFile, Source
from skdpfl.datasets._images import SILOS_DESCR, Dealing, image_bunch, read_idx

_ARCHIVE = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
_ARCHIVE_SHA256 = "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e"


def _pair(subset: str) -> tuple[DataFile, DataFile]:
    """Image and label file of a subset, as they lie in NIST's archive."""

    def one(kind):
        name = f"emnist-{subset.replace('_', '-')}-{kind}-ubyte.gz"
        return DataFile(f"emnist/{name}", None, (_ARCHIVE,), f"gzip/{name}", _ARCHIVE_SHA256)

    return one("images-idx3"), one("labels-idx1")


SUBSETS = {
    name: (_pair(name), size)
    for name, size in {
        "bymerge_test": 116_323,
        "balanced_train": 112_800,
        "balanced_test": 18_800,
    }.items()
}
#: the by-merge test images in one file, upright; taken where it is at hand
MERGED = DataFile(
    "emnist/emnist_merge47.npz",
    "b49605e2c7addf403182e99e89eb582041e74ebd1e87b1beaa64239b5f2e1179",
    (),
)
CHARACTERS = np.array(list("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"))
DESCR = """EMNIST (subset {subset})

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
    Records            116,323 (by-merge test), 112,800 or 18,800 (balanced)
    Features           784 bytes
    Classes            47
    Silos              as asked
    ================   ========================================================

    Files are looked for in ``$SKDPFL_DATA/emnist``, then in the cache; else NIST's archive, 560 MB,
    is downloaded, its SHA-256 checked, and the two files in question kept.

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
    shape = Shape(as_frame, return_X_y, silo_column)
    check_choice("subset", subset, tuple(SUBSETS))
    source = Source(data_home, download_if_missing, cache)
    if subset == "bymerge_test" and source.find(MERGED):
        images, labels = _from_npz(source.read([MERGED])[0])
    else:
        images, labels = _from_idx(subset, source)
    return image_bunch(
        images,
        labels,
        Dealing(n_silos, split, alpha, similarity, records_per_silo, random_state),
        shape,
        unit_norm,
        target_names=CHARACTERS,
        DESCR=DESCR.format(subset=subset) + SILOS_DESCR,
    )


def _from_npz(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels, without unpickling anything."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["X"], arrays["y"]


def _from_idx(subset: str, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Images, turned upright, and labels out of NIST's files."""
    files, size = SUBSETS[subset]
    images, labels = read_idx(files, source)
    if not len(images) == len(labels) == size:
        raise OSError(
            f"{files[0].name} has {len(images)} images and {len(labels)} labels, "
            f"expected {size}: delete both to have them downloaded again"
        )
    return images.transpose(0, 2, 1), labels
