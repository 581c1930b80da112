"""
Medical charges from five insurers, none of which trusts the server
===================================================================

Five insurers want one model of medical charges. Each protects every record against everybody else,
the server included (ISRL-DP). How much of the fit survives at which budget?

The silos are formed by sorted charges, a benchmark's way of making insurers as unlike as can be.
Do not do that with real records: a silo's id is public, and here it tells how high the charge is.
"""

# %%
# The columns' bounds are what a data sheet would say. They cost nothing.
import matplotlib.pyplot as plt
import numpy as np

from skdpfl import ISRLDPRegressor
from skdpfl.datasets import fetch_insurance, make_federated_regression
from skdpfl.model_selection import SiloStratifiedKFold

try:
    data = fetch_insurance(download_if_missing=False)
    X, y, silos = data.data, data.target, data.silos
    bounds, target_bounds = data.feature_bounds, (0, 70_000)
    name = "insurance"
except OSError:  # the story runs without the file, on synthetic silos
    data = make_federated_regression(5, 250, n_features=6, random_state=0)
    X, y, silos = data.data, data.target, data.silos
    limit = np.ceil(np.abs(X).max())
    bounds, target_bounds = (-limit, limit), (-np.ceil(np.abs(y).max()), np.ceil(np.abs(y).max()))
    name = "synthetic"

# %%
# Five folds that keep every insurer, three budgets, and the same model without privacy.
epsilons = np.array([0.5, 1.0, 3.0, 9.0, np.inf])
scores = np.zeros((len(epsilons), 5))
cv = SiloStratifiedKFold(5, shuffle=True, random_state=0)
for fold, (train, test) in enumerate(cv.split(X, groups=silos)):
    for row, epsilon in enumerate(epsilons):
        model = ISRLDPRegressor(
            epsilon=epsilon,
            delta=1e-5,
            feature_bounds=bounds,
            target_bounds=target_bounds,
            random_state=fold,
        )
        model.fit(X[train], y[train], silos=silos[train])
        scores[row, fold] = model.score(X[test], y[test])
for epsilon, row in zip(epsilons, scores, strict=True):
    print(f"epsilon {epsilon:4g}: R² {row.mean():.3f} ± {row.std():.3f}")

# %%
# What privacy costs here is the distance to the dashed line.
from skdpfl.inspection import PrivacyUtilityDisplay  # noqa: E402

display = PrivacyUtilityDisplay(
    epsilons=epsilons[:-1],
    scores=scores[:-1],
    baseline=scores[-1],
    score_name="R²",
    estimator_name="ISRLDPRegressor",
).plot()
display.ax_.set_title(f"{name}: five insurers, every record protected from the server")
plt.show()

# %%
# The cost of one fit, insurer by insurer, and what someone pays who sees the models only: the
# other insurers' noise helps against an outsider (one local step, fresh gradients), not against
# the server.
spent = model.set_params(epsilon=1.0).fit(X, y, silos=silos).privacy_spent_
print(spent)
print(spent.per_silo.round(3).to_dict())
print("against an outsider:", spent.outsider)
