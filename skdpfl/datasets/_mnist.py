"""MNIST: ten handwritten digits."""

from typing import Any

import numpy as np

from skdpfl.datasets._images import SILOS_DESCR, Dealing, fetch_idx, idx_files

MNIST = idx_files(
    "mnist",
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    {
        "train-images-idx3-ubyte": (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
        ),
        "train-labels-idx1-ubyte": (
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
        ),
        "t10k-images-idx3-ubyte": (
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
        ),
        "t10k-labels-idx1-ubyte": (
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
        ),
    },
)
DIGITS = np.array(list("0123456789"))


def fetch_mnist(
    *,
    subset: str = "all",
    n_silos: int = 10,
    split: str = "iid",
    alpha: float = 0.5,
    similarity: float = 0.0,
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
    split : {"iid", "sorted", "dirichlet", "similarity"}, default="iid"
        How images are dealt to silos, see :func:`split_into_silos`.
    alpha : float, default=0.5
        For ``split="dirichlet"``.
    similarity : float, default=0.0
        For ``split="similarity"``.
    random_state : int, RandomState, Generator or None, default=0
        For the split.
    silo_column : str or None, default=None
        With ``as_frame=True``: put the silo ids into `data` as a column of this name.
    as_frame : bool, default=False
        Give pandas objects.
    return_X_y : bool, default=False
        Give ``(data, target)`` instead of a Bunch.
    data_home : str, path or None, default=None
        The cache; default ``$SKDPFL_CACHE``, else ``~/scikit_learn_data/skdpfl``.
    download_if_missing : bool, default=True
        If False, raise an OSError rather than download.
    cache : bool, default=True
        Keep what was downloaded.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` (uint8, 0 to 255), `target`, `silos`, `feature_names`, `target_names`,
        `feature_bounds`, `frame`, `DESCR`.

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
    return fetch_idx(
        MNIST,
        subset,
        {"data_home": data_home, "download_if_missing": download_if_missing, "cache": cache},
        Dealing(n_silos, split, alpha, similarity, random_state),
        {
            "as_frame": as_frame,
            "return_X_y": return_X_y,
            "silo_column": silo_column,
            "target_names": DIGITS,
            "DESCR": descr + SILOS_DESCR,
        },
    )
