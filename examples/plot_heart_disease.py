"""
Four hospitals, and a budget for each
=====================================

Four hospitals recorded the same things about their patients. They differ in size and in how ill the
patients were: natural silos. Is it worth the while of each of them to take part? And what if each
has a budget of its own? With the files at hand these are the four of the heart disease data:
Cleveland, Budapest, Zürich and Long Beach. Without them they are made up; the first printed line
says so.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import fetch_heart_disease, make_federated_classification
from skdpfl.inspection import PrivacySpentDisplay
from skdpfl.model_selection import SiloStratifiedKFold, silo_scores

try:
    data = fetch_heart_disease(download_if_missing=False)
    X, y, silos, bounds = data.data, data.target, data.silos, data.feature_bounds
    print("The four hospitals of the heart disease data.")
except OSError:  # the story runs without the files, on four synthetic hospitals
    sizes = [303, 261, 46, 130]
    data = make_federated_classification(4, sizes, n_features=10, n_classes=2, random_state=0)
    X, y = data.data, data.target
    silos, limit = data.silos, np.ceil(np.abs(X).max())
    bounds = (-limit, limit)
    print("Four synthetic hospitals; skdpfl.datasets.fetch_heart_disease() fetches the real ones.")
hospitals = np.unique(silos)

# %%
# One model for all four, at epsilon 1, against models of each hospital's own records (just as
# private) and against the more frequent label there, as a constant prediction.
scores = {"one model for all four": [], "own records only": [], "constant prediction": []}
folds = SiloStratifiedKFold(5, shuffle=True, random_state=0)
for fold, (train, test) in enumerate(folds.split(X, groups=silos)):
    params = {"epsilon": 1.0, "delta": 1e-4, "feature_bounds": bounds, "random_state": fold}
    model = ISRLDPClassifier(**params).fit(X[train], y[train], silos=silos[train])
    scores["one model for all four"].append(silo_scores(model, X[test], y[test], silos=silos[test]))
    own, same = {}, {}
    for silo in hospitals:
        mine, theirs = train[silos[train] == silo], test[silos[test] == silo]
        alone = ISRLDPClassifier(classes=np.unique(y), **params).fit(X[mine], y[mine])
        own[silo] = alone.score(X[theirs], y[theirs])
        same[silo] = np.mean(y[theirs] == pd.Series(y[mine]).mode()[0])
    scores["own records only"].append(pd.Series(own))
    scores["constant prediction"].append(pd.Series(same))
table = pd.DataFrame({name: pd.concat(rows, axis=1).mean(axis=1) for name, rows in scores.items()})
print(table.round(2).to_string())

# %%
# Hospitals with budgets of their own: a mapping instead of a number. Each adds as much noise as its
# own budget asks for, and is charged for no more.
wishes = dict(zip(hospitals.tolist(), (3.0, 1.0, 3.0, 2.0), strict=True))
model = ISRLDPClassifier(epsilon=wishes, delta=1e-4, feature_bounds=bounds, random_state=0)
model.fit(X, y, silos=silos)

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), width_ratios=(3, 2), layout="constrained")
places = np.arange(len(hospitals))
looks = (("#0072B2", "o"), ("#E69F00", "s"), ("0.4", "_"))
for (name, column), (color, marker), aside in zip(
    table.items(), looks, (-0.1, 0.1, 0), strict=True
):
    left.scatter(places + aside, column, s=110, color=color, marker=marker, label=name)
counts = pd.Series(silos).value_counts()
left.set_xticks(places, [f"{s}\n{counts[s]} patients" for s in hospitals])
left.set(ylabel="accuracy on the hospital's own patients", ylim=(0.45, 1.02), xlim=(-0.5, 3.5))
left.grid(axis="y", alpha=0.3)
left.spines[["top", "right"]].set_visible(False)
fig.legend(frameon=False, loc="outside lower left", ncols=3)  # no point lies under it
left.set_title("ε = 1: does it pay to take part?")
PrivacySpentDisplay.from_estimator(model, ax=right)
right.set(title="each hospital its own ε", xlabel="")
plt.show()

# %%
# What each hospital gained by taking part, from the table above. Where nearly all patients have the
# same label (Zürich, "switzerland", in the real data), always saying it is hard to beat: look at
# each silo's score, not at the average only. What each pays is its own choice; a hospital that asks
# for more privacy makes the common model noisier, and nobody's guarantee weaker.
gain = table["one model for all four"] - table["own records only"]
print("accuracy gained by taking part:", gain.round(2).to_dict())
