"""
Seven clinics, each with one kind of patient
============================================

Obesity levels from eating habits, one clinic per level: the hardest split there is, since no clinic
can learn anything alone. Federated learning still works, private or not.

The clinics are formed by the label, so a clinic's id gives the label away. That is fine for a
benchmark of heterogeneity and for nothing else.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from skdpfl import DPFedAvgClassifier, DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.datasets import fetch_obesity, make_federated_classification
from skdpfl.model_selection import SiloStratifiedKFold

try:
    data = fetch_obesity(download_if_missing=False)
    X, y, silos, bounds = data.data, data.target, data.silos, data.feature_bounds
except OSError:  # the story runs without the file, on synthetic data
    data = make_federated_classification(1, 2000, n_features=20, n_classes=7, random_state=0)
    X, y = data.data, data.target
    silos, limit = y, np.ceil(np.abs(X).max())
    bounds = (-limit, limit)

# %%
# With five local steps, averaging drifts: each clinic walks towards its own label before the server
# averages. SCAFFOLD's control variates correct that, and cost nothing more. On the obesity data
# noise hides the difference at ε = 1; the more budget there is, the more of it shows. One step a
# round has no drift at all, but needs more rounds of communication for as many steps. The same
# linear model without privacy is where all of this ends.
methods = {
    "ISRL-DP, one step": ISRLDPClassifier(),
    "DP-SCAFFOLD, five steps": DPScaffoldClassifier(local_steps=5),
    "DP-FedAvg, five steps": DPFedAvgClassifier(local_steps=5),
}
epsilons = (1.0, 3.0, 9.0)
folds = list(SiloStratifiedKFold(3, shuffle=True, random_state=0).split(X, groups=silos))
fig, ax = plt.subplots(layout="constrained")
looks = (("#0072B2", "o"), ("#009E73", "^"), ("#D55E00", "s"))
for (name, method), (color, marker) in zip(methods.items(), looks, strict=True):
    accuracy = np.zeros((len(epsilons), len(folds)))
    for row, epsilon in enumerate(epsilons):
        for column, (train, test) in enumerate(folds):
            method.set_params(
                epsilon=epsilon, delta=1e-5, feature_bounds=bounds, random_state=column
            )
            method.fit(X[train], y[train], silos=silos[train])
            accuracy[row, column] = method.score(X[test], y[test])
    print(f"{name:24s}", accuracy.mean(axis=1).round(3))
    ax.errorbar(
        epsilons,
        accuracy.mean(axis=1),
        accuracy.std(axis=1),
        marker=marker,
        color=color,
        label=name,
    )
exact = ISRLDPClassifier(epsilon=np.inf, feature_bounds=bounds)
ceiling = [exact.fit(X[a], y[a], silos=silos[a]).score(X[b], y[b]) for a, b in folds]
print(f"{'not private':24s}", np.mean(ceiling).round(3))
ax.axhline(np.mean(ceiling), color="0.35", linestyle="--", label="not private")
ax.axhline(1 / 7, color="0.35", linestyle=":", label="guessing")
ax.set(
    xscale="log",
    xlabel="privacy budget ε, per record (smaller is more private)",
    ylabel="test accuracy",
    ylim=(0, 1),
)
ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
ax.minorticks_off()
ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.16))
plt.show()
