"""``audit_epsilon``: lower bounds on epsilon by attacks on fits.

``Attack`` fits an estimator of this library repeatedly, with canaries, and collects the
observations. Searches and others are attacked by their fitted attributes: two data sets
differ in a record, or a silo, and the attack guesses which of them was used.

A search's split into training and scoring records is public, so the canary can be placed in either.
A scoring canary flips its label, which flips its score under every candidate: the mean score over n
units changes by as much as one record can change it. With s(+), s(-) the exact mean scores of the
best model on the two data sets and R its published score, the likelihood ratio of R grows with ::

    (R - (s(+) + s(-)) / 2) (s(+) - s(-))

With ``trust="silo"`` the other candidates' scores are published, too. Their models are unknown
here; the fitted score uses the same terms with the best model instead. A training canary shows in
the best model's coefficients.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from skdpfl._arguments import check_choice, check_count, labels_of
from skdpfl._compat import as_frame
from skdpfl._pipelines import private_step
from skdpfl._survival_times import refuse_survival
from skdpfl.estimators import FederatedEstimator
from skdpfl.federation import LocalFederation
from skdpfl.inspection.audits import canaries, judging
from skdpfl.inspection.audits.canaries import like, table_of
from skdpfl.inspection.audits.judging import AuditSetting, PrivacyAudit, Trials, judged
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.model_selection.scoring import NoisyScore, Split, protection_of, split
from skdpfl.privacy.events import trust_name
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.silos import read_persons, read_silos, split_column, split_silo_column
from skdpfl.table import Owners, check_persons

#: numbers of an attribute that are looked at
MOST_NUMBERS = 40
#: how long a canary with a target is, in units of the largest feature, or 1
CANARY_LENGTH = 1e3


def of_fitted(
    estimator: Any, X: Any, y: Any, silos: Any, persons: Any, how: AuditSetting
) -> PrivacyAudit:
    """Audit by the fitted attributes alone; the first record (or person) is the canary."""
    rng, owners, rows = how.coins, {}, np.array([0])
    params = estimator.get_params(deep=False)
    for what, ids in (("silo", silos), ("person", persons)):
        X, ids = split_column(as_frame(X), ids, params.get(f"{what}_column"), what)
        if params.get(f"{what}_column") is not None:
            estimator = clone(estimator).set_params(**{f"{what}_column": None})
        if ids is not None:
            owners[f"{what}s"] = ids
    if (read := read_persons(owners.get("persons"), len(X), X)) is not None:
        rows = np.flatnonzero(read.codes == read.codes[0])
    neighbours, direction = neighbours_of(table_of(X, y), y, rows)
    neighbours = {coin: (like(X, table), target) for coin, (table, target) in neighbours.items()}
    seen, moved, coins = [], [], []
    for fit in range(how.n_fits):
        coins.append(bool(rng.random() < 0.5))
        now = fitted_to(estimator, how.seed(fit), neighbours[coins[-1]], owners)
        seen.append(fitted_numbers(now))
        moved += along_coefficients(now, direction)
    return judged_numbers(seen, moved, coins, replaces(now), how, rng)


def fitted_to(
    estimator: Any, seed: int | None, data: tuple[Any, Any], owners: Mapping[str, Any]
) -> Any:
    """Return a fitted copy; ``owners`` has silos and persons, if any."""
    now = clone(estimator).set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noisy or diverged models
        return now.fit(*data, **owners)


def replaces(fitted: Any) -> PrivacySpent:
    """Return the reported cost; raise if replacing a record does not make neighbouring data."""
    spent: PrivacySpent = fitted.privacy_spent_
    if spent.neighbours != "replace":
        raise ValueError(
            f"{type(fitted).__name__} reports epsilon for neighbours='add_remove', but these "
            "audits replace a record: audit it with neighbours='replace'."
        )
    return spent


def judged_numbers(
    seen: list[np.ndarray],
    law: list[float],
    coins: list[bool],
    reported: PrivacySpent,
    how: AuditSetting,
    rng: np.random.Generator,
) -> PrivacyAudit:
    """Judge fits by their fitted numbers, and by a score fixed beforehand, if there is one."""
    none = np.zeros((len(coins), 0))
    trials = Trials(none, none, none, np.stack(seen), np.array(coins))
    fixed = np.array(law) if law else None
    return judged(trials, fixed, reported, how, rng)


def fitted_numbers(fitted: Any) -> np.ndarray:
    """Return the numbers of fitted attributes in the order of their names, (k,)."""
    numbers = []
    for name, value in sorted(vars(fitted).items()):
        if name.endswith("_") and not name.startswith("_"):
            if isinstance(value, int | float | np.floating | np.integer):
                numbers.append(np.array([float(value)]))
            elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
                numbers.append(value.astype(float).ravel()[:MOST_NUMBERS])
            elif name in ("best_estimator_", "scaling_"):
                numbers.append(fitted_numbers(value))
    return np.nan_to_num(np.concatenate([np.zeros(0), *numbers]))


def along_coefficients(fitted: Any, direction: np.ndarray) -> list[float]:
    """Return the projection of the coefficients on a canary's features; empty without coefficients.

    Descent moves the coefficients of the last class, or of the only output, towards the features if
    the target is the largest, and away from them if it is the smallest.
    """
    inner = vars(fitted).get("best_estimator_", fitted)
    rows = np.atleast_2d(np.asarray(vars(inner).get("coef_", ()), float))
    if not rows.size:
        return []
    return [float((rows[-1] - (rows[0] if len(rows) > 1 else 0.0)) @ direction)]


def neighbours_of(
    X: np.ndarray, y: Any, rows: np.ndarray, far: float = CANARY_LENGTH
) -> tuple[dict[bool, tuple[np.ndarray, Any]], np.ndarray]:
    """Return two data sets that differ in these rows, and the rows' features.

    Without targets, the rows are at opposite ends of the range of the others. With targets, only
    the targets are at opposite ends, and the features are equal, with a large norm for ``far > 0``,
    so that gradients are opposite and long.
    """
    others = np.delete(X, rows, axis=0)
    low, high = others.min(axis=0), others.max(axis=0)
    tables: dict[bool, tuple[np.ndarray, Any]] = {}
    if y is None:
        for coin in (False, True):
            table = X.copy()
            table[rows] = high if coin else low
            tables[coin] = table, None
        return tables, high - low
    ends = np.sort(np.delete(np.asarray(y), rows))[[0, -1]]
    table, features = X.copy(), high
    if far:  # where the others' records, and so their gradients, are the smallest
        axis = np.linalg.eigh(others.T @ others)[1][:, 0]
        features = axis * far * max(1.0, float(np.abs(others).max()))
    table[rows] = features
    for coin in (False, True):
        target = np.array(y)
        target[rows] = ends[int(coin)]
        tables[coin] = table, target
    return tables, features


def of_search(
    search: Any, X: Any, y: Any, silos: Any, persons: Any, how: AuditSetting
) -> PrivacyAudit:
    """Audit a search by what it publishes (``view="server"``), or by its best model."""
    rng, table = how.coins, table_of(X, y)
    inner = private_step(search.estimator)[1]
    if persons is not None or inner.unit == "person":
        raise ValueError('Searches with unit="person" are not audited; audit their estimator.')
    groups, scores = read_silos(silos, len(table), X), how.view == "server"
    seen, law, coins = [], [], []
    for fit in range(how.n_fits):
        coins.append(bool(rng.random() < 0.5))
        # the split follows from the seed, so that there must be one
        seed = how.seed(fit) if how.random_state is not None else int(rng.integers(2**31))
        parts = split(
            Owners(groups, None, groups.sizes), inner.unit, search.holdout, streams_for(seed)
        )
        rows = _canary(parts, groups.codes, inner.unit, scores)
        data, features = neighbours_of(table, y, rows, 0.0 if scores else CANARY_LENGTH)
        now = fitted_to(search, seed, data[coins[-1]], {} if silos is None else {"silos": silos})
        if scores:
            noisy = _of_scores(now, inner, parts, data)
            law.append(float(noisy[0]))
            seen.append(noisy)
        else:
            law += along_coefficients(now, features)
            seen.append(fitted_numbers(now))
    return judged_numbers(seen, law, coins, replaces(now), how, rng)


def _canary(parts: Split, codes: np.ndarray, unit: str, scores: bool) -> np.ndarray:
    """Return the rows of the first scoring, or training, record or silo."""
    rows = parts.test if scores else parts.train
    return rows[codes[rows] == codes[rows[0]]] if unit == "silo" else rows[:1]


def _of_scores(
    search: Any, inner: Any, parts: Split, data: dict[bool, tuple[np.ndarray, Any]]
) -> np.ndarray:
    """Return the log likelihood ratio up to a factor, and other features."""
    minus, plus = (_score(search, inner, parts, *data[coin]) for coin in (False, True))
    published = np.array([search.best_score_])
    if "candidates_" in vars(search):
        published = search.candidates_["noisy_score"].to_numpy()
    middle, turn = (plus + minus) / 2, plus - minus
    ratio, all_of_them = search.best_score_ - middle, float((published - middle).sum())
    return np.array([ratio * turn, all_of_them * turn, np.sign(turn), search.best_score_])


def _score(search: Any, inner: Any, parts: Split, X: np.ndarray, y: Any) -> float:
    """Return the best model's exact score over the scoring units."""
    scores = NoisyScore(inner, protection_of(inner), parts, search.scoring)
    return float(scores.of([search.best_estimator_], X, y, 0.0, streams_for(0))[0])


#: numbers of an answer before the rounds that are looked at
ANSWERS = 20


class Attack:
    """The fits of one estimator on one base of records."""

    def __init__(self, estimator: Any, base: canaries.AuditData, how: judging.AuditSetting) -> None:
        self.estimator, self.base, self.how = estimator, base, how
        self.rng, self.one_run = how.coins, how.n_fits == 1
        self.n_canaries = 1
        self.shuffled: list[np.ndarray] = []
        self.moved: list[float] = []
        self._prepare()

    def run(self) -> judging.PrivacyAudit:
        """Run all fits and judge them."""
        if self.one_run:
            return self._run_once()
        trials = judging.Trials.of([self._fit(fit) for fit in range(self.how.n_fits)])
        return judging.judged(trials, self._law(trials), self._reported(), self.how, self.rng)

    def _law(self, trials: judging.Trials) -> np.ndarray | None:
        """Return the score that is fixed beforehand, if there is one.

        If the likelihood ratio is unknown, it is the sum of the projections on the canary.
        """
        if self.how.view == "model":
            return np.array(self.moved) if self.moved else None
        if self.shuffled[0].size:
            others = 0.0 if self.base.of_user else 1.0
            messages = np.stack(self.shuffled)
            return judging.shuffled_ratio(self.watch.work, self.targets[0], messages, others)
        known = judging.likelihood_ratio(self.watch.work, self.targets[0], trials.along)
        return trials.along.sum(axis=1) if known is None else known

    def _reported(self) -> PrivacySpent:
        """Return the reported guarantee against this view."""
        spent = self.fitted.privacy_spent_
        view, trust = self.how.view, spent.trust
        outside = view == "model" if trust == "secagg" else trust == "silo" and view != "silo"
        return spent.outsider if outside and spent.outsider is not None else spent

    def _prepare(self) -> None:
        """Choose the silos to attack, from the plan."""
        sizes = dict(zip(self.base.ids, self.base.sizes.tolist(), strict=True))
        n_classes = (
            2 if not is_classifier(self.estimator) else len(labels_of(self.estimator.classes))
        )
        plan = self.estimator.plan_for(
            silo_sizes=sizes, n_features=self.base.X.shape[1], n_classes=n_classes
        )
        self.unit, self.zero_out = plan.unit, plan.neighbours == "add_remove"
        self.loud_others = canaries.shuffles_records(plan)
        if plan.unit == "silo" or plan.silos_per_person > 1:  # one cost
            same = np.flatnonzero(plan.weights >= plan.weights.max() * (1 - 1e-9))
        else:
            costs = plan.spent().per_silo.to_numpy()
            same = np.flatnonzero(costs >= costs.max() * (1 - 1e-9))
        self.targets = same.tolist()
        if self.one_run and plan.unit != "silo":
            room = int(self.base.sizes[same].min())
            self.n_canaries = min(self.base.X.shape[1], room)

    def _run_once(self) -> judging.PrivacyAudit:
        """Run one fit with many canaries, and judge it."""
        coins = self._play(0, self._pairs()[0])
        every = [np.array(flips) for flips in coins.values()]
        scores = [
            self.watch.seen.along[:, silo if self.how.view == "silo" else 0].sum(axis=0).reshape(-1)
            for silo in coins
        ]
        return judging.judged_one_run(
            np.concatenate(scores), np.concatenate(every), self.zero_out, self._reported(), self.how
        )

    def _fit(self, fit: int) -> judging.Trials:
        """Run a fit; return its trials."""
        who, witnesses = self._pairs()
        coins = self._play(fit, who)
        self.shuffled.append(self.watch.seen.messages)
        seen, view = self.watch.seen, self.how.view
        coin = np.array([coins[silo][0] for silo in who])
        if view == "model":
            none, numbers = np.zeros((1, 0)), fitted_numbers(self.fitted)
            coefficients = np.asarray(vars(self.fitted).get("coef_", ()), float)
            if coefficients.size:  # descent moves them against the canary's gradient
                first = np.atleast_2d(coefficients)[0]
                self.moved.append(-float(first @ self.watch.rows[0]))
            return judging.Trials(none, none, none, numbers[None], coin)
        at = np.array(who) if view == "silo" else np.zeros(1, int)
        along, across = seen.along[:, at].T, seen.across[:, at].T
        witness = seen.along[:, witnesses].T if witnesses else np.zeros_like(along)
        beside = [seen.extra[:, at].sum(axis=0)]
        if view == "silo":
            beside += [answers[at][:, :ANSWERS] for answers in seen.answers]
        return judging.Trials(along, across, witness, np.concatenate(beside, axis=1), coin)

    def _play(self, fit: int, who: list[int]) -> dict[int, list[bool]]:
        """Run a fit with canaries in these silos; return their coins."""
        coins = {i: (self.rng.random(self.n_canaries) < 0.5).tolist() for i in who}
        played = self.base.fit_with(
            self.unit,
            coins,
            zero_out=self.zero_out,
            aggregate=self.how.view != "silo",
            turns=self.how.view != "model",
            loud_others=self.loud_others,
        )
        seed = self.how.seed(fit)
        self.watch = canaries.Watch(played, streams_for(seed), self.how.back_end)
        self.estimator.set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noisy or diverged models
            self.fitted = self.estimator.fit_federation(self.watch, self.base.schema)
        return coins

    def _pairs(self) -> tuple[list[int], list[int]]:
        """Return attacked silos, and as many witnesses if others' messages are visible too."""
        if self.how.view != "silo":
            return [self.targets[0]], []
        order = self.rng.permutation(self.targets).tolist()
        if len(order) < 2 or self.one_run:
            return order, []
        half = len(order) // 2
        return order[:half], order[half : 2 * half]


VIEWS = "silo", "server", "model"


def audit_epsilon(
    estimator: Any,
    *,
    silo_sizes: Any = None,
    n_features: int | None = None,
    X: Any = None,
    y: Any = None,
    silos: Any = None,
    persons: Any = None,
    view: str | None = None,
    n_fits: int = 200,
    confidence: float = 0.999,
    random_state: Any = None,
    back_end: canaries.BackEnd = LocalFederation,
) -> judging.PrivacyAudit:
    """Bound the epsilon of an estimator's fits from below, by attacking them.

    Each fit runs as usual, with worst-case records ("canaries") in some silos; a coin decides which
    of two neighbouring data sets is used. The coins are guessed from what an adversary sees, and
    the success gives a lower bound on epsilon. A bound above the reported epsilon proves a bug.

    Parameters
    ----------
    estimator : estimator
        An estimator of this library, with built-in or user-defined algorithm, mechanism and loss;
        or a search of this library. Or, for ``view="model"``, anything with ``fit(X, y,
        silos=...)`` and ``privacy_spent_``, such as a private scaler. Searches and others need X,
        and y if they use it.
    silo_sizes : mapping or sequence, default=None
        Each silo's number of records (or persons). All records except the canaries then have a
        gradient of zero.
    n_features : int, default=None
        The number of features, with ``silo_sizes``. A few more features show more of the noise.
    X, y, silos : array-like, default=None
        Data in place of ``silo_sizes``; the first record of attacked silos becomes the canary.
    persons : array-like of shape (n_samples,), default=None
        With ``unit="person"``: the id of each record's person. The canary is then a person with one
        record or five, in one silo.
    view : {"silo", "server", "model"}, default=None
        What the adversary sees. "silo": the messages of silos. "server": the releases of a trusted
        server or shuffler (for an outsider, the sums of silos' messages; with ``trust="secagg"``
        the sums minus the colluding silos' messages). "model": only the final model. By default the
        view that the estimator's ``trust`` protects against: "silo", else "server". For a search,
        "server" is its published results, attacked by a scoring record; "model" is the best model,
        attacked by a training record.
    n_fits : int, default=200
        The number of fits. With ``view="silo"`` and trust="silo" each pair of silos is a trial, so
        a few fits with many silos suffice. 1 is the audit with one training run: many canaries in
        one fit, for large data.
    confidence : float, default=0.999
        The probability that the bounds are correct.
    random_state : int, default=None
        Seed of the coins and of the simulated fits; None: secret randomness, as in deployment.
    back_end : callable, default=LocalFederation
        A function that makes a :class:`skdpfl.federation.Federation` from records and streams.

    Returns
    -------
    PrivacyAudit
        The result: ``lower_bound`` on epsilon at ``delta``, ``reported``, ``confidence``,
        ``contradicted`` (whether the trials contradict some part of the reported curve),
        ``gaussian_bound`` (a larger bound, valid if the releases are like one Gaussian release),
        ``n_trials``, ``n_fits``, ``rates``, ``wins``, ``plot()``.

    See Also
    --------
    skdpfl.privacy.PrivacySpent : The reported cost.

    Notes
    -----
    **Formal guarantee.** Of the audit, not of the fits: ``lower_bound`` exceeds the true epsilon
    with probability at most ``1 - confidence``. Threshold and score are chosen on half of the
    trials and judged on the other half by Clopper-Pearson intervals. How often the score of one
    data set exceeds that of the other is judged by all trials if the score was fixed beforehand
    (the likelihood ratio, or the projection on the canary). The error probability is divided among
    the bounds. Trials are independent: fits are independent, silos of one fit draw their own noise,
    and canaries' gradients do not depend on the model. The audit with one run needs only
    independent coins. A search's split is public, so the canary can be placed accordingly. A low
    bound proves nothing, since another attack may do better. The fits are not charged to open
    ledgers; results of an audit with X and y depend on the data and are not private.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.privacy import audit_epsilon
    >>> clf = ISRLDPClassifier(epsilon=4.0, n_rounds=1, scaling=None)
    >>> audit = audit_epsilon(clf, silo_sizes=[20] * 400, n_features=4, n_fits=5, random_state=0)
    >>> audit.contradicted, audit.lower_bound < audit.gaussian_bound < audit.reported
    (False, True)

    Persons with two records each:

    >>> import numpy as np
    >>> rows, person = np.ones((80, 2)), np.arange(80) // 2
    >>> clf = ISRLDPClassifier(4.0, unit="person", delta=1e-5, n_rounds=1, scaling=None)
    >>> data = {"X": rows, "y": person % 2, "silos": person % 8, "persons": person}
    >>> audit_epsilon(clf, **data, n_fits=5, random_state=0).contradicted
    False
    """
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence must be between 0.5 and 1, got {confidence!r}.")
    n_fits = check_count("n_fits", n_fits)
    if random_state is not None:
        random_state = check_count("random_state", random_state, low=0)
    refuse_survival(estimator, "audit_epsilon")
    view = _view(estimator, view)
    federated = isinstance(estimator, FederatedEstimator)
    if n_fits == 1 and (view == "model" or not federated):
        raise ValueError(f"view={view!r} of a {type(estimator).__name__} needs n_fits above 1.")
    how = judging.AuditSetting(view, n_fits, float(confidence), random_state, back_end)
    if not federated:
        if "random_state" not in estimator.get_params(deep=False):
            raise ValueError(
                f"{type(estimator).__name__} adds no noise itself; audit what is inside it."
            )
        if X is None:
            raise ValueError(
                f"An audit of {type(estimator).__name__} needs X, and y if its fit does."
            )
        searched = isinstance(estimator, DPRandomizedSearchCV)
        return (of_search if searched else of_fitted)(estimator, X, y, silos, persons, how)
    X, silos = split_silo_column(X, silos, None if X is None else estimator.silo_column)
    if X is not None:
        check_persons(estimator.unit, persons, estimator.person_column)
        X, persons = split_column(X, persons, estimator.person_column, "person")
    if X is not None and y is None:
        raise ValueError(f"An audit of {type(estimator).__name__} with X needs y.")
    estimator = clone(estimator).set_params(silo_column=None)
    if estimator.person_column is not None:
        estimator.set_params(person_column=None)
    if is_classifier(estimator) and estimator.classes is None:
        estimator.set_params(classes=[0, 1] if y is None else np.unique(y).tolist())
    if X is not None:
        classes = estimator._labels() if is_classifier(estimator) else None
        base = canaries.read_users_data(X, y, silos, classes, persons)
    else:
        base = canaries.data_of_sizes(silo_sizes, n_features)
        if isinstance(estimator.feature_bounds, Mapping):
            base = replace(base, names=list(estimator.feature_bounds)[: base.X.shape[1]])
    return Attack(estimator, base, how).run()


def _view(estimator: Any, view: str | None) -> str:
    """Return the view; raise an error that lists the valid ones otherwise."""
    if view is not None:
        check_choice("view", view, VIEWS)
    kind = type(estimator).__name__
    if isinstance(estimator, DPRandomizedSearchCV):
        if view == "silo":
            raise ValueError(f"For a {kind}, view must be 'server' (its scores) or 'model'.")
        return view or "server"
    if not isinstance(estimator, FederatedEstimator):
        if view not in (None, "model"):
            raise ValueError(f"For {kind}, view must be 'model' (its fitted attributes).")
        return "model"
    trust = trust_name(estimator.trust)
    inside = trust == "silo"
    if view == "silo" and not inside:
        raise ValueError(
            f"With trust={trust!r} nothing is guaranteed of silos' messages: use view='server'."
        )
    return view or ("silo" if inside else "server")
