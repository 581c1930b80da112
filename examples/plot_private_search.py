"""
A search that pays for itself, and when not to search
=====================================================

A search over n candidates divides its budget: each fit has about epsilon / sqrt(n), and the choice
is made by noisy scores. "auto" looks at public numbers only and keeps the whole budget for one fit.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import loguniform
from sklearn.datasets import load_digits

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import split_into_silos
from skdpfl.model_selection import DPRandomizedSearchCV, SiloStratifiedKFold

X, y = load_digits(return_X_y=True)
silos = split_into_silos(y, 6, random_state=0)
space = {"learning_rate": loguniform(0.03, 3), "clip_norm": loguniform(0.1, 3)}
epsilon, folds = 3.0, SiloStratifiedKFold(3, shuffle=True, random_state=0)

rows = {"auto": [], "search, best of 4": [], "mean candidate": []}
for fold, (train, test) in enumerate(folds.split(X, groups=silos)):
    common = {"feature_bounds": (0, 16), "random_state": fold}
    auto = ISRLDPClassifier(epsilon=epsilon, delta=1e-5, **common)
    rows["auto"].append(auto.fit(X[train], y[train], silos=silos[train]).score(X[test], y[test]))
    search = DPRandomizedSearchCV(
        ISRLDPClassifier(**common), space, n_iter=4, epsilon=epsilon, delta=1e-5, random_state=fold
    ).fit(X[train], y[train], silos=silos[train])
    rows["search, best of 4"].append(search.score(X[test], y[test]))
    scores = []
    for params in search.candidates_.drop(columns="noisy_score").to_dict("records"):
        one = ISRLDPClassifier(epsilon=epsilon, delta=1e-5, **common).set_params(**params)
        scores.append(one.fit(X[train], y[train], silos=silos[train]).score(X[test], y[test]))
    rows["mean candidate"].append(np.mean(scores))
print(search.privacy_spent_, "each run had epsilon", round(search.fit_epsilon_, 2))

# %%
# The mean candidate is what picking blindly from the same space would give, at the whole budget.
fig, ax = plt.subplots(layout="constrained")
for place, (name, values) in enumerate(rows.items()):
    ax.bar(
        place, np.mean(values), 0.6, yerr=np.std(values), color=["#0072B2", "#E69F00", "0.6"][place]
    )
    print(f"{name:18s} {np.mean(values):.3f} ± {np.std(values):.3f}")
ax.set_xticks(range(len(rows)), rows)
ax.set(ylabel=f"test accuracy at ε = {epsilon:g} in all", ylim=(0, 1))
plt.show()
