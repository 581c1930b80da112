"""Synthetic silos: made-up tables, and tables cut into silos.

Linear models and feature means differ from silo to silo.

Shapes: d features, k classes, n_i records in silo i. Classification:
    m_i = sqrt(beta)  N(0, I_d) + N(0, I_d)                              (d,)
    W_i = sqrt(alpha) N(0, I)   + N(0, I)                                (d, k), b_i alike (k,)
    x   ~ N(m_i, diag(j^-1.2, j = 1..d)),  y = argmax(x W_i + b_i)
and each label is replaced with probability `label_noise` by a uniform one. At last, if asked for,
columns are standardised over all records and rows divided by their norm.

Regression, two designs:
  "general"   w ~ N(0, I), w_i = w + sqrt(alpha) N(0, I), m_i = sqrt(beta) N(0, I)
              x ~ N(m_i, I), y = x . w_i + noise N(0, 1)
  "fedexp"    u_i ~ N(0, alpha^2), v_i ~ N(0, beta^2) scalars; w_i ~ N(u_i, I), m_i ~ N(v_i, I)
              x ~ N(m_i, I), y = x . w_i; then each row x and each silo's vector y to norm one

Records of one table assigned to silos (n records, N silos, n_c records of class c):
    sizes        n // N each, one more for the first n mod N silos
    dirichlet    p_c ~ Dirichlet(alpha, ..., alpha); silo i gets the share p_ci of class c
    similarity   round(s n) records dealt at random, the others sorted by y
    one_class    silo i: up to (1 - s) r records of class i mod k, then s r times a record of a
                 uniform class among those with records left
    pairs        silo i k' + j: its part of the class at place 2 i and of the one at place 2 j + 1,
                 each class cut in equal parts, k' = k / 2
for k classes, up to r records a silo and a share s of all classes. A record is in one silo at most;
-1: in none.
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import normalize
from sklearn.utils.multiclass import type_of_target

from skdpfl import _arguments
from skdpfl._arguments import (
    as_generator,
    check_choice,
    check_count,
    check_flags,
    check_not_negative,
    check_number,
)
from skdpfl.datasets._loading import MOST_COUNT, DataSet, Shape, check_sizes, shared_docs

#: silos drawn at once: bounds the memory for their weight matrices
BLOCK = 256


@shared_docs
def make_federated_classification(
    n_silos: int = 10,
    n_records: Any = 100,
    *,
    n_features: int = 40,
    n_classes: int = 10,
    alpha: float = 1.0,
    beta: float = 1.0,
    label_noise: float = 0.05,
    iid: bool = False,
    standardize: bool = False,
    unit_norm: bool = False,
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    random_state: Any = None,
) -> Any:
    """Generate a classification problem in silos.

    The synthetic (alpha, beta) set-up of the DP-SCAFFOLD experiments [1]_, after FedProx [2]_:
    every silo has its own linear model and its own feature means. Records of a silo stand
    together, silo 0 first.

    Parameters
    ----------
    n_silos : int, default=10
        Number of silos (the paper: 100).
    n_records : int or sequence of int, default=100
        DataSet of every silo, or of each (the paper: 5000).
    n_features : int, default=40
        Number of features; feature j (from 1) has variance ``j ** -1.2`` inside a silo.
    n_classes : int, default=10
        Number of classes; small samples may lack some.
    alpha : float, default=1.0
        Additional variance between the silos' models: each weight has variance ``1 + alpha``. Even
        at 0 models differ; for silos alike use `iid`.
    beta : float, default=1.0
        Additional variance between the silos' feature means (``1 + beta`` each).
    label_noise : float, default=0.05
        Probability that a label is replaced by a uniform one.
    iid : bool, default=False
        One model and one feature mean for all silos.
    standardize : bool, default=False
        Columns of mean 0 and variance 1 over all records, as in the paper.
    unit_norm : bool, default=False
        Rows of Euclidean norm 1, as in the paper.
    [shape]
    random_state : int, RandomState, Generator or None, default=None
        An int gives the same data every time.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` of shape (n, n_features), `target` (n,), `silos` (n,), `feature_names`,
        `target_names`, `frame` (with ``as_frame=True``) and `DESCR`.

    See Also
    --------
    make_federated_regression : The same for numbers.
    split_into_silos : Silos for a table that has none.

    References
    ----------
    .. [1] Noble, Bellet, Dieuleveut, "Differentially Private Federated Learning on Heterogeneous
       Data", AISTATS 2022.
    .. [2] Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

    Examples
    --------
    >>> from skdpfl.datasets import make_federated_classification
    >>> d = make_federated_classification(3, [20, 30, 50], n_features=4, random_state=0)
    >>> d.data.shape, d.target.shape
    ((100, 4), (100,))
    >>> [int((d.silos == i).sum()) for i in range(3)]
    [20, 30, 50]
    """
    shape = Shape(as_frame, return_X_y, silo_column)
    n_silos = check_count("n_silos", n_silos, high=MOST_COUNT)
    sizes = check_sizes(n_records, n_silos)
    d = check_count("n_features", n_features, high=MOST_COUNT)
    k = check_count("n_classes", n_classes, low=2, high=MOST_COUNT)
    spread = np.sqrt([check_not_negative("alpha", alpha), check_not_negative("beta", beta)])
    check_number("label_noise", label_noise, low=0, high=1)
    check_flags(iid=iid, standardize=standardize, unit_norm=unit_norm)
    rng = as_generator(random_state)
    common = _models(rng, 1, d, k, *spread) if iid else None
    X, y = np.empty((sizes.sum(), d)), np.empty(sizes.sum(), dtype=np.int64)
    stops = np.concatenate(([0], np.cumsum(sizes)))
    for start in range(0, n_silos, BLOCK):
        block = sizes[start : start + BLOCK]
        rows = slice(stops[start], stops[start + len(block)])
        models = common or _models(rng, len(block), d, k, *spread)
        X[rows], y[rows] = _labelled(rng, block, *models)
    noisy = rng.random(len(y)) < label_noise
    y[noisy] = rng.integers(k, size=noisy.sum())
    if standardize:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    if unit_norm:
        X = normalize(X)
    return shape.bunch(
        DataSet(X, y, np.repeat(np.arange(n_silos), sizes), [f"x{j}" for j in range(d)]),
        target_names=np.arange(k),
        DESCR=f"Synthetic classification in {n_silos} silos, alpha={alpha}, beta={beta}, iid={iid}",
    )


def _models(
    rng: np.random.Generator, n: int, d: int, k: int, spread_model: float, spread_mean: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (n, d), weights (n, d, k) and intercepts (n, 1, k) of n silos."""

    def two_normals(shape: tuple[int, ...], spread: float) -> np.ndarray:
        return spread * rng.standard_normal(shape) + rng.standard_normal(shape)

    return (
        two_normals((n, d), spread_mean),
        two_normals((n, d, k), spread_model),
        two_normals((n, 1, k), spread_model),
    )


def _labelled(
    rng: np.random.Generator,
    sizes: np.ndarray,
    means: np.ndarray,
    weights: np.ndarray,
    intercepts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a block of silos, given one model for all or one for each."""
    d, n_models = means.shape[1], len(means)
    silo = np.repeat(np.arange(len(sizes)), sizes) if n_models > 1 else 0
    X = rng.standard_normal((sizes.sum(), d)) * np.arange(1, d + 1) ** -0.6 + means[silo]
    if n_models == 1:
        return X, (X @ weights[0] + intercepts[0]).argmax(axis=1)
    if (sizes == sizes[0]).all():
        scores = X.reshape(len(sizes), sizes[0], d) @ weights + intercepts
        return X, scores.argmax(axis=2).ravel()
    parts = np.split(X, np.cumsum(sizes)[:-1])
    labels = [
        (x @ w + b).argmax(axis=1) for x, w, b in zip(parts, weights, intercepts, strict=True)
    ]
    return X, np.concatenate(labels)


@shared_docs
def make_federated_regression(
    n_silos: int = 10,
    n_records: Any = 100,
    *,
    n_features: int = 10,
    design: str = "general",
    alpha: float = 0.1,
    beta: float = 0.1,
    noise: float = 0.0,
    iid: bool = False,
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    random_state: Any = None,
) -> Any:
    """Generate a regression problem in silos.

    Records of a silo stand together, silo 0 first.

    Parameters
    ----------
    n_silos : int, default=10
        Number of silos.
    n_records : int or sequence of int, default=100
        DataSet of every silo, or of each.
    n_features : int, default=10
        Number of features.
    design : {"general", "fedexp"}, default="general"
        - ``"general"``: a linear model common to all silos, from which each silo's own deviates.
          ``alpha = beta = 0`` makes silos alike.
        - ``"fedexp"``: the linear regression experiment of FedExP [1]_: silos share no model;
          every row of `data` has norm one, and so has each silo's vector of targets. The paper
          takes 20 silos of 30 records with 1000 features: more features than records, so that one
          model fits all of them exactly.
    alpha : float, default=0.1
        How far models differ: for ``"general"`` the variance of a silo's deviation in each weight,
        for ``"fedexp"`` the standard deviation of the silos' mean weights.
    beta : float, default=0.1
        The same for the feature means.
    noise : float, default=0.0
        Standard deviation of the noise on the target, before any scaling.
    iid : bool, default=False
        One model and one feature mean for all silos.
    [shape]
    random_state : int, RandomState, Generator or None, default=None
        An int gives the same data every time.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` of shape (n, n_features), `target` (n,), `silos` (n,), `feature_names`, `frame`
        (with ``as_frame=True``), `DESCR`, and for ``design="general"`` also `coef` (n_features,),
        the common model, and `silo_coef` (n_silos, n_features).

    See Also
    --------
    make_federated_classification : The same for labels.
    split_into_silos : Silos for a table that has none.

    References
    ----------
    .. [1] Jhunjhunwala, Wang, Joshi, "FedExP: Speeding up Federated Averaging via Extrapolation",
       ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.datasets import make_federated_regression
    >>> d = make_federated_regression(4, 25, n_features=3, alpha=0, random_state=0)
    >>> d.data.shape
    (100, 3)
    >>> bool(np.allclose(d.data @ d.coef, d.target))
    True
    >>> hard = make_federated_regression(20, 30, n_features=1000, design="fedexp", random_state=0)
    >>> bool(np.allclose(np.linalg.norm(hard.data, axis=1), 1))
    True
    """
    shape = Shape(as_frame, return_X_y, silo_column)
    n_silos = check_count("n_silos", n_silos, high=MOST_COUNT)
    sizes = check_sizes(n_records, n_silos)
    d = check_count("n_features", n_features, high=MOST_COUNT)
    spread = (check_not_negative("alpha", alpha), check_not_negative("beta", beta))
    check_not_negative("noise", noise)
    check_flags(iid=iid)
    general = check_choice("design", design, ("general", "fedexp")) == "general"
    rng = as_generator(random_state)
    draw = _general if general else _fedexp
    common, weights, means = draw(rng, 1 if iid else n_silos, d, *spread)
    silos = np.repeat(np.arange(n_silos), sizes)
    model = np.zeros_like(silos) if iid else silos
    X = rng.standard_normal((len(silos), d)) + means[model]
    clean = np.einsum("nd,nd->n", X, weights[model])
    y = clean + noise * rng.standard_normal(len(silos))
    if not general:
        X, y = _unit_norms(X, y, silos)
    models = {"coef": common, "silo_coef": np.broadcast_to(weights, (n_silos, d)).copy()}
    return shape.bunch(
        DataSet(X, y, silos, [f"x{j}" for j in range(d)]),
        DESCR=f"Synthetic regression in {n_silos} silos, design={design!r}, "
        f"alpha={alpha}, beta={beta}, iid={iid}",
        **(models if general else {}),
    )


def _general(
    rng: np.random.Generator, n: int, d: int, alpha: float, beta: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The common model (d,), the models (n, d) and the feature means (n, d)."""
    common = rng.standard_normal(d)
    weights = common + np.sqrt(alpha) * rng.standard_normal((n, d))
    return common, weights, np.sqrt(beta) * rng.standard_normal((n, d))


def _fedexp(
    rng: np.random.Generator, n: int, d: int, alpha: float, beta: float
) -> tuple[None, np.ndarray, np.ndarray]:
    """No common model; models and feature means around scalars of each silo."""
    weights = alpha * rng.standard_normal((n, 1)) + rng.standard_normal((n, d))
    return None, weights, beta * rng.standard_normal((n, 1)) + rng.standard_normal((n, d))


def _unit_norms(X: np.ndarray, y: np.ndarray, silos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of X, and y within each silo, scaled to norm one."""
    norms = np.sqrt(np.bincount(silos, weights=y**2))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y / norms[silos]


HOW = ("iid", "sorted", "dirichlet", "similarity", "one_class", "pairs")


def split_into_silos(
    y: Any,
    n_silos: int,
    how: str = "iid",
    *,
    alpha: float = 0.5,
    similarity: float = 0.0,
    records_per_silo: int | None = None,
    random_state: Any = None,
) -> np.ndarray:
    """Assign every record of a table to a silo.

    Simulates a federation from pooled data. No silo is empty. All methods except ``"iid"`` use `y`,
    so their silo ids, which are public, reveal information about the labels. Use them in
    simulations only.

    Parameters
    ----------
    y : array-like of shape (n_records,)
        The target. Only its length matters for ``how="iid"``.
    n_silos : int
        Number of silos, between 1 and the number of records.
    how : {"iid", "sorted", "dirichlet", "similarity", "one_class", "pairs"}, default="iid"
        - ``"iid"``: shuffled and split in equal parts, so that silos are alike.
        - ``"sorted"``: sorted by `y` and split in equal parts, so that silos differ most. Ties
          stay in their order; nothing is random.
        - ``"dirichlet"``: each class is divided by proportions drawn from a symmetric Dirichlet
          distribution [1]_; sizes differ too. For classes only.
        - ``"similarity"``: a share `similarity` of the records is assigned at random, the others
          are sorted by `y` [2]_.
        - ``"one_class"``: silo i holds class i modulo their number, except for a share
          `similarity` of uniform classes [3]_. Needs `records_per_silo`; a silo is smaller if its
          class has fewer.
        - ``"pairs"``: a silo for each pair of a class at an even and one at an odd place, 25 of ten
          digits [4]_.
    alpha : float, default=0.5
        Concentration for ``"dirichlet"``: near 0 each class is in one silo; large values make silos
        alike.
    similarity : float, default=0.0
        For ``"similarity"``: 0 is ``"sorted"``, 1 is ``"iid"``. For ``"one_class"``: the share of
        records of all classes.
    records_per_silo : int, default=None
        The largest number of records of a silo; the others get the silo -1. By default all records
        are assigned.
    random_state : int, RandomState, Generator or None, default=None
        An int gives the same silos every time.

    Returns
    -------
    silos : ndarray of shape (n_records,), dtype int64
        Silo ids from 0 to ``n_silos - 1``; -1 for records that `records_per_silo` leaves out.

    See Also
    --------
    make_federated_classification : Synthetic data in silos.

    References
    ----------
    .. [1] Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated
       Visual Classification", 2019.
    .. [2] Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
       ICML 2020.
    .. [3] Noble, Bellet, Dieuleveut, "Differentially Private Federated Learning on Heterogeneous
       Data", AISTATS 2022.
    .. [4] Lowy, Razaviyayn, "Private Federated Learning Without a Trusted Server", ICLR 2023.

    Examples
    --------
    >>> from skdpfl.datasets import split_into_silos
    >>> y = [0, 1, 0, 1, 0, 1]
    >>> split_into_silos(y, 2, how="sorted")
    array([0, 1, 0, 1, 0, 1])
    >>> split_into_silos(y, 3, how="iid", random_state=0)
    array([2, 2, 0, 0, 1, 1])
    """
    target = _target(y)
    n_silos = _arguments.check_count("n_silos", n_silos)
    if n_silos > len(target):
        raise ValueError(
            f"n_silos={n_silos} is more than the {len(target)} records, but no silo may be empty"
        )
    how = _arguments.check_choice("how", how, HOW)
    rng, most = _arguments.as_generator(random_state), records_per_silo
    if most is not None:
        _arguments.check_count("records_per_silo", most)
    share = _arguments.check_number("similarity", similarity, low=0, high=1)
    if how == "one_class":
        if most is None:
            raise ValueError("how='one_class' needs records_per_silo, got None")
        return _one_class(target, n_silos, most, share, rng)
    if how == "pairs":
        return _pairs(target, n_silos, most, rng)
    if most is not None:
        return _some(target, n_silos, how, most, alpha=alpha, similarity=similarity, rng=rng)
    if how == "dirichlet":
        return _dirichlet(target, n_silos, alpha, rng)
    return _similarity(target, n_silos, {"iid": 1.0, "sorted": 0.0}.get(how, share), rng)


def _some(
    y: np.ndarray, n_silos: int, how: str, most: int, *, rng: np.random.Generator, **options: Any
) -> np.ndarray:
    """Deal ``n_silos * most`` records, drawn at random."""
    if n_silos * most > len(y):
        raise ValueError(
            f"n_silos={n_silos} of records_per_silo={most} are more than the {len(y)} records"
        )
    silos, rows = np.full(len(y), -1), np.sort(rng.permutation(len(y))[: n_silos * most])
    silos[rows] = split_into_silos(y[rows], n_silos, how, random_state=rng, **options)
    return silos


def _target(y: Any) -> np.ndarray:
    """The target as a one-dimensional array without missing values."""
    target = np.asarray(y)
    if target.ndim != 1:
        raise ValueError(f"y must have one dimension, got shape {target.shape}")
    if pd.isna(target).any():
        raise ValueError("y must have no missing values")
    return target


def _sizes(n: int, n_silos: int) -> np.ndarray:
    """Equal parts of n, the first ones larger by one; grows with n in every place."""
    return n // n_silos + (np.arange(n_silos) < n % n_silos)


def _similarity(y: np.ndarray, n_silos: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Deal a share at random, the others in the order of y; sizes differ by at most one."""
    n, ids = len(y), np.arange(n_silos)
    mixed, rest = np.split(rng.permutation(n), [round(share * n)])
    silos = np.empty(n, dtype=np.int64)
    from_mixed = _sizes(len(mixed), n_silos)
    silos[mixed] = np.repeat(ids, from_mixed)
    rest.sort()
    in_order = rest[np.argsort(y[rest], kind="stable")]
    silos[in_order] = np.repeat(ids, _sizes(n, n_silos) - from_mixed)
    return silos


def _dirichlet(y: np.ndarray, n_silos: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """Divide each class by its own Dirichlet proportions."""
    if _arguments.check_not_negative("alpha", alpha) == 0:
        raise ValueError("alpha must be > 0, got 0; use how='sorted' for silos of one class")
    if type_of_target(y) not in ("binary", "multiclass"):
        raise ValueError("how='dirichlet' needs classes, but y looks continuous: bin it first")
    classes, codes = np.unique(y, return_inverse=True)
    proportions = rng.dirichlet(np.full(n_silos, float(alpha)), size=len(classes))
    silos = np.empty(len(y), dtype=np.int64)
    for code, p in enumerate(proportions):
        members = rng.permutation(np.flatnonzero(codes == code))
        # the last cut stays open: the sum of the proportions may round to less than one
        cuts = np.cumsum(p)[:-1] * len(members)
        silos[members] = np.searchsorted(cuts, np.arange(len(members)) + 0.5)
    return _without_empty(silos, n_silos, rng)


def _without_empty(silos: np.ndarray, n_silos: int, rng: np.random.Generator) -> np.ndarray:
    """Move one record into each empty silo, never the last one of its own."""
    empty = np.flatnonzero(np.bincount(silos, minlength=n_silos) == 0)
    order = rng.permutation(len(silos))
    _, firsts = np.unique(silos[order], return_index=True)
    spare = np.delete(order, firsts)
    silos[spare[: len(empty)]] = empty
    return silos


def _one_class(
    y: np.ndarray, n_silos: int, n_records: int, share: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the silos; one is smaller if its class has too few records."""
    silos = np.full(len(y), -1)
    pools = [rng.permutation(np.flatnonzero(y == c)).tolist() for c in np.unique(y)]
    own = round((1 - share) * n_records)
    for silo in range(n_silos):
        pool = pools[silo % len(pools)]
        silos[pool[:own]] = silo
        del pool[:own]
    for _ in range(n_records - own):
        for silo in range(n_silos):
            left = [pool for pool in pools if pool]
            if left:
                silos[left[rng.integers(len(left))].pop()] = silo
    empty = np.setdiff1d(np.arange(n_silos), silos)
    if len(empty):
        raise ValueError(f"how='one_class': no records are left for silo {empty[0]} of {n_silos}")
    return silos


def _pairs(
    y: np.ndarray, n_silos: int, n_records: int | None, rng: np.random.Generator
) -> np.ndarray:
    """Return the silos; ``n_records`` of each, half of one class and half of the other."""
    classes = np.unique(y)
    half = len(classes) // 2
    if n_silos != half**2 or len(classes) % 2:
        raise ValueError(
            "how='pairs' needs (k / 2)^2 silos for an even number k of classes; got "
            f"n_silos={n_silos} for {len(classes)} classes"
        )
    silos = np.full(len(y), -1)
    for at, c in enumerate(classes):
        parts = np.array_split(rng.permutation(np.flatnonzero(y == c)), half)
        for other, part in enumerate(parts):
            first, second = (at // 2, other) if at % 2 == 0 else (other, at // 2)
            taken = part if n_records is None else part[: (n_records + 1 - at % 2) // 2]
            silos[taken] = half * first + second
    return silos
