"""
Seven clinics, each with one kind of patient
============================================

Obesity levels from eating habits, one clinic per level: the hardest split there is, since no clinic
can learn anything alone: it has never seen a second label. Federated learning still works, private
or not. (Without the file of these patients, silos of one handwritten digit each stand in; the first
printed line says which it is.)

The clinics are formed by the label, so a clinic's id gives the label away. That is fine for a
benchmark of heterogeneity and for nothing else.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix

from skdpfl import DPFedAvgClassifier, DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.datasets import fetch_obesity
from skdpfl.model_selection import SiloStratifiedKFold

try:
    data = fetch_obesity(download_if_missing=False)
    X, y, silos, bounds = data.data, data.target, data.silos, data.feature_bounds
    levels = list(data.target_names)
except OSError:  # the story runs without the file, on handwritten digits
    X, y = load_digits(n_class=7, return_X_y=True)
    silos, bounds, levels = y, (0, 16), [f"digit {label}" for label in range(7)]
    print("A silo for each of seven digits; fetch_obesity() fetches the story's own records.")
folds = list(SiloStratifiedKFold(3, shuffle=True, random_state=0).split(X, groups=silos))

# %%
# With ten local steps, averaging drifts: each clinic walks towards its own label before the server
# averages. SCAFFOLD's control variates correct that, and cost nothing more. One step a round has no
# drift at all, but needs ten times as many rounds. All three spend the same.
few = {"n_rounds": 10, "local_steps": 10, "global_learning_rate": 1.0}
methods = {
    "ISRL-DP, 100 rounds × 1 step": (ISRLDPClassifier(), "#0072B2", "o"),
    "DP-SCAFFOLD, 10 × 10": (DPScaffoldClassifier(**few), "#009E73", "^"),
    "DP-FedAvg, 10 × 10": (DPFedAvgClassifier(**few), "#E69F00", "s"),
}
epsilons = (1.0, 3.0, 9.0)


def predictions(method, epsilon):
    """Return a prediction for every record, made by a model that has not seen it."""
    predicted = np.empty_like(y)
    for seed, (train, test) in enumerate(folds):
        method.set_params(epsilon=epsilon, delta=1e-5, feature_bounds=bounds, random_state=seed)
        predicted[test] = method.fit(X[train], y[train], silos=silos[train]).predict(X[test])
    return predicted


# %%
# The same linear model without privacy is where all of this ends. What do the errors look like?
# The map on the right says what is predicted for patients of each level.
fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.6), width_ratios=(5, 5), layout="constrained"
)
for name, (method, color, marker) in methods.items():
    accuracy = [np.mean(predictions(method, epsilon) == y) for epsilon in epsilons]
    print(f"{name:28s}", np.round(accuracy, 3))
    left.plot(epsilons, accuracy, color=color, marker=marker, label=name)
exact = np.mean(predictions(ISRLDPClassifier(), np.inf) == y)
print(f"{'not private':28s}", exact.round(3))
left.axhline(exact, color="0.35", linestyle="--", label="not private")
left.axhline(1 / 7, color="0.35", linestyle=":", label="guessing; each clinic alone")
left.set(xscale="log", xlabel="privacy budget ε, per record", ylabel="test accuracy", ylim=(0, 1))
left.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
left.minorticks_off()
left.grid(axis="y", alpha=0.3)
left.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.13), fontsize="small")

guessed = predictions(ISRLDPClassifier(), 3.0)
shares = confusion_matrix(y, guessed, normalize="true")
right.imshow(shares, cmap="Blues", vmin=0, vmax=1)
for (row, column), share in np.ndenumerate(shares):
    if share >= 0.05:
        color = "white" if share > 0.5 else "black"
        right.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=color)
names = [str(level).replace("_", " ") for level in levels]
right.set_yticks(range(7), names)
right.set_xticks(range(7), names, rotation=45, ha="right")
right.set(xlabel="predicted", ylabel="clinic", title="ISRL-DP at ε = 3, % of a clinic")
plt.show()

# %%
# Levels of obesity have an order, and on those records most errors are between neighbours, which is
# what noise should do to a model that has understood something. Digits, which stand in where the
# file is missing, have none.
