"""``audit_epsilon``: attack fits, and say how much privacy they have at most."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from skdpfl.estimators import FederatedEstimator
from skdpfl.federation import LocalFederation
from skdpfl.inspection.audits.black_box import fitted_numbers, neighbours_of
from skdpfl.inspection.audits.result import PrivacyAudit, judged, judged_one_run
from skdpfl.inspection.audits.scores import Trials, likelihood_ratio, shuffled_ratio
from skdpfl.inspection.audits.stages import Base, base_of_data, base_of_sizes
from skdpfl.inspection.audits.watch import BackEnd, Watch
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.spending.spent import PrivacySpent

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
        One of this library, its algorithm, mechanism and loss the user's own or not. Or anything
        with ``fit(X, y, silos=...)`` and ``privacy_spent_`` (a search, a private scaler), for
        ``view="model"``; X and y are then needed.
    silo_sizes : mapping or sequence, default=None
        Each silo's number of records. All records but the canaries then have gradients of zero.
    n_features : int, default=None
        The number of features, with ``silo_sizes``. A few features more show more of the noise.
    X, y, silos : array-like, default=None
        Data in place of ``silo_sizes``; the first record of attacked silos becomes the canary.
    view : {"silo", "server", "model"}, default=None
        What the adversary sees: the messages of silos; the releases of a trusted server or shuffler
        (or the sums of silos' messages, an outsider); or the final model only. By default what the
        estimator's ``trust`` protects against: "silo" or "server".
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
    (the likelihood ratio, or the projection on the canary). Trials are independent: fits
    are, and silos of one fit draw their noise themselves and attacked canaries' gradients do not
    depend on the model. The audit with one run needs independent coins only. A low bound proves
    nothing: another attack may do better. The fits are not charged to a ledger that is open
    elsewhere; results of an audit with X and y tell of the data and are not private.

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
    if n_fits < 1:
        raise ValueError(f"n_fits must be 1 or more, got {n_fits!r}.")
    federated = isinstance(estimator, FederatedEstimator)
    view = _view(estimator, view, federated)
    if n_fits == 1 and view == "model":
        raise ValueError("view='model' needs many fits; with n_fits=1 there is 'silo' or 'server'.")
    how = _How(view, int(n_fits), float(confidence), random_state, back_end)
    if not federated:
        return _of_black_box(estimator, X, y, silos, how)
    estimator = clone(estimator)
    if is_classifier(estimator) and estimator.classes is None:
        estimator.set_params(classes=[0, 1] if y is None else np.unique(y).tolist())
    if X is not None:
        classes = np.unique(np.asarray(estimator.classes)) if is_classifier(estimator) else None
        base = base_of_data(X, y, silos, classes)
    else:
        base = base_of_sizes(silo_sizes, n_features)
    return _Attack(estimator, base, how).run()


@dataclass(frozen=True)
class _How:
    view: str
    n_fits: int
    confidence: float
    random_state: Any
    back_end: BackEnd

    @property
    def coins(self) -> np.random.Generator:
        """The audit's own random numbers."""
        seed = self.random_state
        return np.random.default_rng(seed if seed is None else [int(seed), 1])

    def seed(self, fit: int) -> int | None:
        """Return the ``random_state`` of one of the fits."""
        return None if self.random_state is None else int(self.random_state) * 10**6 + fit


def _view(estimator: Any, view: str | None, federated: bool) -> str:
    """Return the view, or say which ones there are."""
    if view is not None and view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}; got {view!r}.")
    if not federated:
        if view not in (None, "model"):
            raise ValueError(
                f"{type(estimator).__name__} shows what it fitted and nothing else: view='model'."
            )
        return "model"
    inside = estimator.trust == "silo"
    if view == "silo" and not inside:
        raise ValueError(
            f"With trust={estimator.trust!r} nothing is promised against who sees the messages of "
            "silos; view='server' is what the server releases."
        )
    return view or ("silo" if inside else "server")


class _Attack:
    """The fits of one estimator on one base of records."""

    def __init__(self, estimator: Any, base: Base, how: _How) -> None:
        self.estimator, self.base, self.how = estimator, base, how
        self.rng, self.one_run = how.coins, how.n_fits == 1
        self.zero_out, self.targets, self.spent = False, [0], None
        self.n_canaries = 1
        self.shuffled: list[np.ndarray] = []
        self.moved: list[float] = []

    def run(self) -> PrivacyAudit:
        """Run all fits and judge them."""
        self._prepare()
        rows: list[tuple[Any, ...]] = []
        for fit in range(self.how.n_fits):
            rows += self._fit(fit)
        reported = self._reported()
        if self.one_run:
            scores, coins = (np.concatenate(part) for part in zip(*rows, strict=True))
            return judged_one_run(
                scores, coins, self.zero_out, reported, self.how.confidence, self.how.view
            )
        trials = Trials(*(np.stack(part) for part in zip(*rows, strict=True)))
        law = None if self.how.view == "silo" else trials.along.sum(axis=1)
        if self.how.view == "model":
            law = np.array(self.moved) if self.moved else None
        else:
            known = likelihood_ratio(self.watch.work, self.targets[0], trials.along)
            law = law if known is None else known
            if self.shuffled[0].size:
                law = shuffled_ratio(self.watch.work, np.stack(self.shuffled))
        return judged(
            trials, law, reported, self.how.confidence, self.how.view, self.how.n_fits, self.rng
        )

    def _reported(self) -> PrivacySpent:
        """Return what is claimed against this view."""
        spent = self.fitted.privacy_spent_
        outside = self.how.view in ("server", "model") and spent.trust == "silo"
        return spent.outsider if outside and spent.outsider is not None else spent

    def _prepare(self) -> None:
        """Find out whom to attack, from the plan."""
        sizes = dict(zip(self.base.ids, self.base.sizes.tolist(), strict=True))
        n_classes = 2 if not is_classifier(self.estimator) else len(set(self.estimator.classes))
        plan = self.estimator.plan_for(
            silo_sizes=sizes, n_features=self.base.X.shape[1], n_classes=n_classes
        )
        self.unit, self.zero_out = plan.unit, plan.neighbours == "add_remove"
        if plan.unit == "silo":
            same = np.flatnonzero(plan.weights >= plan.weights.max() * (1 - 1e-9))
        else:
            costs = plan.spent().per_silo.to_numpy()
            same = np.flatnonzero(costs >= costs.max() * (1 - 1e-9))
        self.targets = same.tolist()
        if self.one_run and plan.unit == "record":
            room = int(self.base.sizes[same].min())
            self.n_canaries = min(self.base.X.shape[1], room)

    def _fit(self, fit: int) -> list[tuple[Any, ...]]:
        """Run a fit; return its trials."""
        pairs = self._pairs()
        coins = {i: (self.rng.random(self.n_canaries) < 0.5).tolist() for i, _ in pairs}
        aggregate = self.how.view != "silo"
        stage = self.base.stage(
            self.unit,
            coins,
            zero_out=self.zero_out,
            aggregate=aggregate,
            turns=self.how.view != "model",
        )
        seed = self.how.seed(fit)
        self.watch = Watch(stage, streams_for(seed), self.how.back_end)
        self.estimator.set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noisy or diverged models
            self.fitted = self.estimator.fit_federation(self.watch, self.base.schema)
        self.shuffled.append(self.watch.seen.messages)
        if self.one_run:
            return [self._many_scores(i, np.array(c)) for i, c in coins.items()]
        return [self._trial(*pair, coins[pair[0]][0]) for pair in pairs]

    def _pairs(self) -> list[tuple[int, int | None]]:
        """Return attacked silos, each with a witness where others' messages are seen, too."""
        if self.how.view != "silo":
            return [(self.targets[0], None)]
        order = self.rng.permutation(self.targets).tolist()
        if len(order) < 2 or self.one_run:
            return [(i, None) for i in order]
        half = len(order) // 2
        return list(zip(order[:half], order[half : 2 * half], strict=True))

    def _trial(self, silo: int, witness: int | None, coin: bool) -> tuple[Any, ...]:
        seen, at = self.watch.seen, 0 if self.how.view != "silo" else silo
        along, across, other = seen.along[:, at], seen.across[:, at], seen.along[:, at] * 0
        if witness is not None:
            other = seen.along[:, witness]
        beside = [seen.extra[:, at].sum(axis=0)]
        if self.how.view == "model":
            along, across, other = along[:0], across[:0], other[:0]
            beside = [fitted_numbers(self.fitted)]
            coefficients = np.asarray(vars(self.fitted).get("coef_", ()), float)
            if coefficients.size:  # descent moves them against the canary's gradient
                first = np.atleast_2d(coefficients)[0]
                self.moved.append(-float(first @ self.watch.rows[0]))
        if self.how.view == "silo":
            beside += [answers[silo][:20] for answers in seen.answers]
        return along, across, other, np.concatenate(beside), coin

    def _many_scores(self, silo: int, coins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of a silo's canaries in one run, and their coins."""
        along = self.watch.seen.along[:, 0 if self.how.view != "silo" else silo]
        return along.sum(axis=0).reshape(-1), coins


def _of_black_box(estimator: Any, X: Any, y: Any, silos: Any, how: _How) -> PrivacyAudit:
    """Audit by the fitted attributes alone, with records at the ends of what there is."""
    if X is None:
        raise ValueError(f"An audit of {type(estimator).__name__} needs X, and y where it does.")
    rng, rows = how.coins, []
    neighbours = neighbours_of(np.asarray(X, float), y)
    arguments = {} if silos is None else {"silos": silos}
    for fit in range(how.n_fits):
        coin = bool(rng.random() < 0.5)
        now = clone(estimator).set_params(random_state=how.seed(fit))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            now.fit(*neighbours[coin], **arguments)
        none = np.zeros(0)
        rows.append((none, none, none, fitted_numbers(now), coin))
    trials = Trials(*(np.stack(part) for part in zip(*rows, strict=True)))
    return judged(trials, None, now.privacy_spent_, how.confidence, how.view, how.n_fits, rng)
