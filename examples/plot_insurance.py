"""
Five insurers: what trust is worth
==================================

Five insurers want one model of medical charges (without the file of the real ones, five synthetic
silos stand in; the picture's title says which). By default each of them protects every record
against everybody else, the server included. If all of them trust the server with exact sums, the
same epsilon takes much less noise. How much of the fit survives, at which budget, in which world?

The silos are formed by sorted charges, a benchmark's way of making insurers as unlike as can be.
Do not do that with real records: a silo's id is public, and here it tells how high the charge is.
"""

# %%
# The columns' bounds are what a data sheet would say. They cost nothing.
import matplotlib.pyplot as plt
import numpy as np

from skdpfl import ISRLDPRegressor
from skdpfl.datasets import fetch_insurance, make_federated_regression
from skdpfl.inspection import PrivacyUtilityDisplay
from skdpfl.model_selection import SiloStratifiedKFold

try:
    data = fetch_insurance(download_if_missing=False)
    X, y, silos = data.data, data.target, data.silos
    bounds, target_bounds = data.feature_bounds, data.target_bounds
    name = "insurance: 1,338 records of five insurers"
except OSError:  # the story runs without the file, on synthetic silos
    data = make_federated_regression(5, 250, n_features=6, random_state=0)
    X, y, silos = data.data, data.target, data.silos
    bounds, target_bounds = (-6, 6), (-6, 6)  # what we declare of made-up records
    name = "synthetic: five silos of 250 records"
    print("Synthetic silos; skdpfl.datasets.fetch_insurance() fetches the real records.")

# %%
# Five folds that keep every insurer, five budgets, and the same model without privacy.
epsilons = (0.25, 0.5, 1.0, 3.0, 9.0)
folds = list(SiloStratifiedKFold(5, shuffle=True, random_state=0).split(X, groups=silos))


def scores(trust, epsilon):
    """Return R² on each test fold."""
    result = []
    for seed, (train, test) in enumerate(folds):
        model = ISRLDPRegressor(
            epsilon=epsilon,
            delta=1e-5,
            trust=trust,
            feature_bounds=bounds,
            target_bounds=target_bounds,
            random_state=seed,
        )
        model.fit(X[train], y[train], silos=silos[train])
        result.append(model.score(X[test], y[test]))
    return result


fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
worlds = {"server": "insurers trust the server", "silo": "nobody trusts anybody"}
exact = scores("silo", np.inf)
for (trust, label), color in zip(worlds.items(), ("#D55E00", "#0072B2"), strict=True):
    table = [scores(trust, epsilon) for epsilon in epsilons]
    print(
        f"{label:26s}", dict(zip(epsilons, np.mean(table, axis=1).round(2).tolist(), strict=True))
    )
    PrivacyUtilityDisplay(
        epsilons=epsilons,
        scores=table,
        score_name="R²",
        estimator_name=label,
    ).plot(ax, color=color)
print(f"{'not private':26s}", np.mean(exact).round(2))
ax.axhline(np.mean(exact), color="0.35", linestyle="--", label="not private")
ax.set(title=name, ylim=(0, 0.85))
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Where the two lines meet, a trusted server is worth nothing any more. Now what one
# fit at epsilon 1 cost, and what of it somebody can learn who sees the models only: the other
# insurers' noise helps against such an outsider (one local step, fresh gradients), not against the
# server.
model = ISRLDPRegressor(
    epsilon=1.0,
    delta=1e-5,
    feature_bounds=bounds,
    target_bounds=target_bounds,
    random_state=0,
)
spent = model.fit(X, y, silos=silos).privacy_spent_
print(spent)
print(spent.per_silo.round(3).to_dict())
print("against an outsider:", spent.outsider)
