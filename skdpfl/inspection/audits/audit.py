"""``audit_epsilon``: attack fits, and say how much privacy they have at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from skdpfl._arguments import check_count
from skdpfl.estimators import FederatedEstimator
from skdpfl.federation import LocalFederation
from skdpfl.inspection.audits.attack import Attack
from skdpfl.inspection.audits.black_box import of_fitted
from skdpfl.inspection.audits.result import PrivacyAudit
from skdpfl.inspection.audits.searches import of_search
from skdpfl.inspection.audits.setting import Setting
from skdpfl.inspection.audits.stages import base_of_data, base_of_sizes
from skdpfl.inspection.audits.watch import BackEnd
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.silos import split_silo_column

VIEWS = "silo", "server", "model"


def audit_epsilon(
    estimator: Any,
    *,
    silo_sizes: Any = None,
    n_features: int | None = None,
    X: Any = None,
    y: Any = None,
    silos: Any = None,
    view: str | None = None,
    n_fits: int = 200,
    confidence: float = 0.999,
    random_state: Any = None,
    back_end: BackEnd = LocalFederation,
) -> PrivacyAudit:
    """Bound the epsilon of an estimator's fits from below, by attacking them.

    Each fit runs as usual, with records ("canaries") in some silos whose gradients are the worst
    there can be; a coin decides which of two neighbouring data sets it is. From what an adversary
    sees the coins are guessed, and the success bounds epsilon. A bound above the reported epsilon
    shows a bug.

    Parameters
    ----------
    estimator : estimator
        One of this library, its algorithm, mechanism and loss the user's own or not; or its search.
        Or anything with ``fit(X, y, silos=...)`` and ``privacy_spent_`` (a private scaler), for
        ``view="model"``. Of searches and others X, and y where there is one, are needed.
    silo_sizes : mapping or sequence, default=None
        Each silo's number of records. All records but the canaries then have gradients of zero.
    n_features : int, default=None
        The number of features, with ``silo_sizes``. A few features more show more of the noise.
    X, y, silos : array-like, default=None
        Data in place of ``silo_sizes``; the first record of attacked silos becomes the canary.
    view : {"silo", "server", "model"}, default=None
        What the adversary sees: the messages of silos; the releases of a trusted server or shuffler
        (or the sums of silos' messages, an outsider); or the final model only. By default what the
        estimator's ``trust`` protects against: "silo" or "server". Of a search: "server" is what
        it publishes, attacked by a record that scores; "model" the best model, by one that trains.
    n_fits : int, default=200
        The number of fits. With ``view="silo"`` and trust="silo" each pair of silos is a trial, so
        that a few fits of many silos do. With 1, the audit with one training run: many canaries in
        one fit, for large data.
    confidence : float, default=0.999
        The probability that the bounds are right.
    random_state : int, default=None
        Seeds the coins, and the fits as simulations; None: as in deployment.
    back_end : callable, default=LocalFederation
        What makes a :class:`skdpfl.federation.Federation` of records and streams.

    Returns
    -------
    PrivacyAudit
        ``lower_bound`` on epsilon at ``delta``, ``reported``, ``confidence``, ``contradicted``
        (whether some part of the reported curve of epsilons and deltas is), ``gaussian_bound`` (a
        larger bound, if the releases are as distinct as those of one Gaussian), ``n_trials``,
        ``n_fits``, ``rates``, ``wins``, ``plot()``.

    See Also
    --------
    skdpfl.privacy.PrivacySpent : What is reported.

    Notes
    -----
    **Formal guarantee.** Of the audit, not of the fits: ``lower_bound`` exceeds the true epsilon
    with probability at most ``1 - confidence``. Threshold and score are chosen on half of the
    trials and judged on the other half by Clopper-Pearson intervals. How often the score of one
    data set exceeds that of the other is judged by all trials where the score was fixed beforehand
    (the likelihood ratio, or the projection on the canary). The probability is shared out among
    the bounds. Trials are independent: fits are, and silos of one fit draw their noise themselves
    and attacked canaries' gradients do not depend on the model. The audit with one run needs
    independent coins only. A search's split is public, so the canary may be put where it says. A
    low bound proves nothing: another attack may do better. The fits are not charged to a ledger
    that is open elsewhere; results of an audit with X and y tell of the data and are not private.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.privacy import audit_epsilon
    >>> clf = ISRLDPClassifier(epsilon=4.0, n_rounds=1, scaling=None)
    >>> audit = audit_epsilon(clf, silo_sizes=[20] * 400, n_features=4, n_fits=5, random_state=0)
    >>> audit.contradicted, audit.lower_bound < audit.gaussian_bound < audit.reported
    (False, True)
    """
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence must be between 0.5 and 1, got {confidence!r}.")
    n_fits = check_count("n_fits", n_fits)
    if random_state is not None:
        random_state = check_count("random_state", random_state, low=0)
    view = _view(estimator, view)
    federated = isinstance(estimator, FederatedEstimator)
    if n_fits == 1 and (view == "model" or not federated):
        raise ValueError(f"view={view!r} of a {type(estimator).__name__} needs many fits.")
    how = Setting(view, n_fits, float(confidence), random_state, back_end)
    if not federated:
        if "random_state" not in estimator.get_params(deep=False):
            raise ValueError(
                f"A {type(estimator).__name__} has no noise of its own; audit the estimator, "
                "search or private transformer inside it."
            )
        if X is None:
            raise ValueError(
                f"An audit of {type(estimator).__name__} needs X, and y where it does."
            )
        searched = isinstance(estimator, DPRandomizedSearchCV)
        return (of_search if searched else of_fitted)(estimator, X, y, silos, how)
    X, silos = split_silo_column(X, silos, None if X is None else estimator.silo_column)
    if X is not None and y is None:
        raise ValueError(f"An audit of {type(estimator).__name__} with X needs y.")
    estimator = clone(estimator).set_params(silo_column=None)
    if is_classifier(estimator) and estimator.classes is None:
        estimator.set_params(classes=[0, 1] if y is None else np.unique(y).tolist())
    if X is not None:
        classes = np.unique(np.asarray(estimator.classes)) if is_classifier(estimator) else None
        base = base_of_data(X, y, silos, classes)
    else:
        base = base_of_sizes(silo_sizes, n_features)
        if isinstance(estimator.feature_bounds, Mapping):
            base = replace(base, names=list(estimator.feature_bounds)[: base.X.shape[1]])
    return Attack(estimator, base, how).run()


def _view(estimator: Any, view: str | None) -> str:
    """Return the view, or say which ones there are."""
    if view is not None and view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}; got {view!r}.")
    kind = type(estimator).__name__
    if isinstance(estimator, DPRandomizedSearchCV):
        if view == "silo":
            raise ValueError(
                f"A {kind} is attacked by what it releases: view='server' (scores), or 'model'."
            )
        return view or "server"
    if not isinstance(estimator, FederatedEstimator):
        if view not in (None, "model"):
            raise ValueError(f"{kind} shows what it fitted and nothing else: view='model'.")
        return "model"
    inside = estimator.trust == "silo"
    if view == "silo" and not inside:
        raise ValueError(
            f"With trust={estimator.trust!r} nothing is promised against who sees the messages of "
            "silos; view='server' is what the server releases."
        )
    return view or ("silo" if inside else "server")
