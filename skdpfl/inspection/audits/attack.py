"""The attack on an estimator of this library: fits with canaries, and what is seen of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skdpfl.inspection.audits.black_box import fitted_numbers
from skdpfl.inspection.audits.result import PrivacyAudit, judged, judged_one_run
from skdpfl.inspection.audits.scores import Trials, likelihood_ratio, shuffled_ratio
from skdpfl.inspection.audits.setting import Setting
from skdpfl.inspection.audits.stages import Base
from skdpfl.inspection.audits.watch import Watch, shuffles_records
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.spending.spent import PrivacySpent

#: numbers of an answer before the rounds that are looked at
ANSWERS = 20


class Attack:
    """The fits of one estimator on one base of records."""

    def __init__(self, estimator: Any, base: Base, how: Setting) -> None:
        self.estimator, self.base, self.how = estimator, base, how
        self.rng, self.one_run = how.coins, how.n_fits == 1
        self.n_canaries = 1
        self.shuffled: list[np.ndarray] = []
        self.moved: list[float] = []
        self._prepare()

    def run(self) -> PrivacyAudit:
        """Run all fits and judge them."""
        if self.one_run:
            return self._run_once()
        trials = Trials.of([self._fit(fit) for fit in range(self.how.n_fits)])
        how = self.how
        return judged(
            trials, self._law(trials), self._reported(), how.confidence, how.view, how.n_fits,
            self.rng,
        )  # fmt: skip

    def _law(self, trials: Trials) -> np.ndarray | None:
        """Return the score that is fixed beforehand, if there is one.

        Where the likelihood ratio is not known, it is the sum of the projections on the canary.
        """
        if self.how.view == "model":
            return np.array(self.moved) if self.moved else None
        if self.shuffled[0].size:
            others = 0.0 if self.base.given else 1.0
            messages = np.stack(self.shuffled)
            return shuffled_ratio(self.watch.work, self.targets[0], messages, others)
        known = likelihood_ratio(self.watch.work, self.targets[0], trials.along)
        return trials.along.sum(axis=1) if known is None else known

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
        self.loud_others = shuffles_records(plan)
        if plan.unit == "silo":
            same = np.flatnonzero(plan.weights >= plan.weights.max() * (1 - 1e-9))
        else:
            costs = plan.spent().per_silo.to_numpy()
            same = np.flatnonzero(costs >= costs.max() * (1 - 1e-9))
        self.targets = same.tolist()
        if self.one_run and plan.unit == "record":
            room = int(self.base.sizes[same].min())
            self.n_canaries = min(self.base.X.shape[1], room)

    def _run_once(self) -> PrivacyAudit:
        """Run one fit with many canaries, and judge it."""
        coins = self._play(0, self._pairs()[0])
        every = [np.array(flips) for flips in coins.values()]
        scores = [
            self.watch.seen.along[:, silo if self.how.view == "silo" else 0].sum(axis=0).reshape(-1)
            for silo in coins
        ]
        return judged_one_run(
            np.concatenate(scores), np.concatenate(every), self.zero_out, self._reported(),
            self.how.confidence, self.how.view,
        )  # fmt: skip

    def _fit(self, fit: int) -> Trials:
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
            return Trials(none, none, none, numbers[None], coin)
        at = np.array(who) if view == "silo" else np.zeros(1, int)
        along, across = seen.along[:, at].T, seen.across[:, at].T
        witness = seen.along[:, witnesses].T if witnesses else np.zeros_like(along)
        beside = [seen.extra[:, at].sum(axis=0)]
        if view == "silo":
            beside += [answers[at][:, :ANSWERS] for answers in seen.answers]
        return Trials(along, across, witness, np.concatenate(beside, axis=1), coin)

    def _play(self, fit: int, who: list[int]) -> dict[int, list[bool]]:
        """Run a fit with canaries in these silos; return their coins."""
        coins = {i: (self.rng.random(self.n_canaries) < 0.5).tolist() for i in who}
        stage = self.base.stage(
            self.unit,
            coins,
            zero_out=self.zero_out,
            aggregate=self.how.view != "silo",
            turns=self.how.view != "model",
            loud_others=self.loud_others,
        )
        seed = self.how.seed(fit)
        self.watch = Watch(stage, streams_for(seed), self.how.back_end)
        self.estimator.set_params(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noisy or diverged models
            self.fitted = self.estimator.fit_federation(self.watch, self.base.schema)
        return coins

    def _pairs(self) -> tuple[list[int], list[int]]:
        """Return attacked silos, and as many witnesses where others' messages are seen, too."""
        if self.how.view != "silo":
            return [self.targets[0]], []
        order = self.rng.permutation(self.targets).tolist()
        if len(order) < 2 or self.one_run:
            return order, []
        half = len(order) // 2
        return order[:half], order[half : 2 * half]
