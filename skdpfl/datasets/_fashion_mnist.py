"""Fashion-MNIST: ten kinds of clothes."""

from typing import Any

import numpy as np

from skdpfl.datasets._images import SILOS_DESCR, Dealing, fetch_idx, idx_files

FASHION_MNIST = idx_files(
    "fashion_mnist",
    (
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    ),
    {
        "train-images-idx3-ubyte": (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train-labels-idx1-ubyte": (
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "t10k-images-idx3-ubyte": (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "t10k-labels-idx1-ubyte": (
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
)
CLOTHES = np.array(
    [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ]
)


def fetch_fashion_mnist(
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
    return fetch_idx(
        FASHION_MNIST,
        subset,
        {"data_home": data_home, "download_if_missing": download_if_missing, "cache": cache},
        Dealing(n_silos, split, alpha, similarity, random_state),
        {
            "as_frame": as_frame,
            "return_X_y": return_X_y,
            "silo_column": silo_column,
            "target_names": CLOTHES,
            "DESCR": descr + SILOS_DESCR,
        },
    )
