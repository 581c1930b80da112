"""Synthetic silos for regression: two designs.

Shapes: d features, n_i records in silo i.
  "general"   w ~ N(0, I), w_i = w + sqrt(alpha) N(0, I), m_i = sqrt(beta) N(0, I)
              x ~ N(m_i, I), y = x . w_i + noise N(0, 1)
  "fedexp"    u_i ~ N(0, alpha^2), v_i ~ N(0, beta^2) scalars; w_i ~ N(u_i, I), m_i ~ N(v_i, I)
              x ~ N(m_i, I), y = x . w_i; then each row x and each silo's vector y to norm one
"""

from typing import Any

import numpy as np

from skdpfl._arguments import as_generator, check_choice, check_count, check_not_negative
from skdpfl.datasets._bunch import Shape, Table, check_sizes, shared_docs


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
        Records of every silo, or of each.
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
    n_silos = check_count("n_silos", n_silos)
    sizes = check_sizes(n_records, n_silos)
    d = check_count("n_features", n_features)
    spread = (check_not_negative("alpha", alpha), check_not_negative("beta", beta))
    check_not_negative("noise", noise)
    general = check_choice("design", design, ("general", "fedexp")) == "general"
    rng = as_generator(random_state)
    draw = _general if general else _fedexp
    common, weights, means = draw(rng, 1 if iid else n_silos, d, *spread)
    silos = np.repeat(np.arange(n_silos), sizes)
    X, y = _records(rng, silos, weights, means, noise)
    if not general:
        X, y = _unit_norms(X, y, silos)
    models = {"coef": common, "silo_coef": np.broadcast_to(weights, (n_silos, d)).copy()}
    return shape.bunch(
        Table(X, y, silos, [f"x{j}" for j in range(d)]),
        DESCR=f"Synthetic regression in {n_silos} silos, design={design!r}, "
        f"alpha={alpha}, beta={beta}, iid={iid}",
        **(models if general else {}),
    )


def _general(rng, n: int, d: int, alpha: float, beta: float):
    """The common model (d,), the models (n, d) and the feature means (n, d)."""
    common = rng.standard_normal(d)
    weights = common + np.sqrt(alpha) * rng.standard_normal((n, d))
    return common, weights, np.sqrt(beta) * rng.standard_normal((n, d))


def _fedexp(rng, n: int, d: int, alpha: float, beta: float):
    """No common model; models and feature means around scalars of each silo."""
    weights = alpha * rng.standard_normal((n, 1)) + rng.standard_normal((n, d))
    return None, weights, beta * rng.standard_normal((n, 1)) + rng.standard_normal((n, d))


def _records(rng, silos: np.ndarray, weights, means, noise: float):
    """Features and targets; one model for all if there is only one."""
    model = silos if len(weights) > 1 else np.zeros_like(silos)
    X = rng.standard_normal((len(silos), weights.shape[1])) + means[model]
    clean = np.einsum("nd,nd->n", X, weights[model])
    return X, clean + noise * rng.standard_normal(len(silos))


def _unit_norms(X: np.ndarray, y: np.ndarray, silos: np.ndarray):
    """Rows of X, and y within each silo, scaled to norm one."""
    norms = np.sqrt(np.bincount(silos, weights=y**2))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y / norms[silos]
