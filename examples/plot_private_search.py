"""
A search that pays for itself, and when not to search
=====================================================

A private search divides its budget: four fits at a total of ε = 3 have about half of it each, train
on 80 % of the records, and are told apart by noisy scores of the rest. "auto" looks at public
numbers only and keeps everything for one fit. So do not search for what "auto" knows; search for
what it cannot know, with enough records to pay for it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import split_into_silos
from skdpfl.model_selection import DPRandomizedSearchCV, SiloStratifiedKFold

BUDGET = {"epsilon": 3.0, "delta": 1e-5}


def compare(base, space, X, y, silos):
    """Return test accuracies over three folds: of the defaults, a search, and its candidates."""
    rows = {"no search": [], "search": [], "mean candidate": []}
    folds = SiloStratifiedKFold(3, shuffle=True, random_state=0)
    for fold, (train, test) in enumerate(folds.split(X, groups=silos)):
        search = DPRandomizedSearchCV(base, space, n_iter=4, random_state=fold, **BUDGET)
        search.fit(X[train], y[train], silos=silos[train])
        rows["search"].append(search.score(X[test], y[test]))
        tried = search.candidates_.drop(columns="noisy_score").to_dict("records")
        scores = []
        for k, params in enumerate(({}, *tried)):  # {}: the defaults; each with the whole budget
            model = clone(base).set_params(**params)
            model[-1].set_params(**BUDGET, random_state=3 * k + fold)  # no noise is used twice
            model.fit(X[train], y[train], isrldpclassifier__silos=silos[train])
            scores.append(model.score(X[test], y[test]))
        rows["no search"].append(scores[0])
        rows["mean candidate"].append(np.mean(scores[1:]))
    print(search.privacy_spent_, "of which each run had epsilon", round(search.fit_epsilon_, 2))
    return rows


# %%
# What "auto" knows
# -----------------
# Steps and clipping of a linear model on 1,797 digits in six silos. No candidate of the space is
# much better than what "auto" takes, and the search loses a lot: half the budget in each fit, and
# scores of 240 records with noise in each silo.
X, y = load_digits(return_X_y=True)
silos = split_into_silos(y, 6, random_state=0)
base = make_pipeline("passthrough", ISRLDPClassifier(feature_bounds=(0, 16)))
space = {
    "isrldpclassifier__learning_rate": loguniform(0.03, 3),
    "isrldpclassifier__clip_norm": loguniform(0.1, 3),
}
results = {"digits: step and clipping": compare(base, space, X, y, silos)}

# %%
# What it cannot know
# -------------------
# Whether products of features matter: here the label is the sign of one. A linear model can do no
# better than guess, and 20,000 records in four silos bear the price of finding out.
X = np.random.default_rng(0).uniform(-1, 1, (20_000, 4))
y = X[:, 0] * X[:, 1] > 0
silos = split_into_silos(y, 4, random_state=0)
base = make_pipeline(
    PolynomialFeatures(1, include_bias=False), ISRLDPClassifier(feature_bounds=(-1, 1))
)
space = {"polynomialfeatures__degree": [1, 2, 3, 4]}
results["products: degree of features"] = compare(base, space, X, y, silos)

# %%
# "Mean candidate" is what picking blindly from the same space would give at the whole budget; that
# costs nothing more than one fit, and nor does "no search".
fig, axes = plt.subplots(1, 2, sharey=True, figsize=(7.5, 3.6), layout="constrained")
for ax, (title, rows) in zip(axes, results.items(), strict=True):
    for place, (name, values) in enumerate(rows.items()):
        print(f"{title:30s} {name:15s} {np.mean(values):.3f} ± {np.std(values):.3f}")
        ax.bar(place, np.mean(values), 0.6, color=("#0072B2", "#E69F00", "0.55")[place])
        ax.scatter([place] * len(values), values, s=14, color="black", zorder=2)
        ax.annotate(f"{np.mean(values):.2f}", (place, 0.03), ha="center", color="white")
    ax.set_xticks(range(len(rows)), rows)
    ax.set_title(title, fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set(ylabel=f"test accuracy, ε = {BUDGET['epsilon']:g} in all (dots: folds)", ylim=(0, 1))
plt.show()
