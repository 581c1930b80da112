"""
Choosing epsilon: what a guess about a record can gain
======================================================

What does epsilon 1 mean for the person in the data? Say somebody knows everything but whether a
record was this or that, both equally likely, and sees all that left the silo. The guarantee bounds
how often the best possible guess is right. Here is that bound beside the accuracy the model
reaches, on public data.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import split_into_silos
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import PrivacyUtilityDisplay
from skdpfl.model_selection import SiloStratifiedKFold

X, y = load_breast_cancer(return_X_y=True)
silos = split_into_silos(y, 5, random_state=0)
bounds = (0, [100, 100, 1000, 10_000, 1, 10, 10, 1, 1, 1] * 3)  # what a data sheet says
epsilons = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]

# %%
# Two equally likely records: a guess is right with probability at most (1 + TV) / 2, where TV, the
# total variation distance, is delta at epsilon 0. The fit's whole privacy curve knows it; the bound
# (e^eps + delta) / (1 + e^eps), which is all that epsilon and delta say, is looser. No data are
# needed for this: a plan says what a fit will cost.
exact, loose = [], []
for epsilon in epsilons:
    plan = ISRLDPClassifier(epsilon=epsilon, delta=1e-5, scaling=None).plan_for(
        silo_sizes=np.bincount(silos), n_features=30
    )
    exact.append((1 + plan.spent().delta_at(0.0)) / 2)
    loose.append(1 - (1 - 1e-5) / (1 + np.exp(epsilon)))
    most = np.ceil(1000 * exact[-1]) / 10  # not rounded down
    print(f"epsilon {epsilon:4g}: a guess is right in at most {most:.1f} % of all cases")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # these data are public
    PrivacyUtilityDisplay.from_estimator(
        ISRLDPClassifier(feature_bounds=bounds, delta=1e-5),
        X,
        y,
        silos=silos,
        epsilons=epsilons,
        cv=SiloStratifiedKFold(5, shuffle=True, random_state=0),
        ax=left,
    )
left.set(title="what the model learns", ylim=(0.45, 1.02))
right.plot(epsilons, exact, marker="o", color="#D55E00", label="by this fit's privacy curve")
right.plot(epsilons, loose, color="0.35", linestyle="--", label="by ε and δ alone")
right.axhline(0.5, color="0.6", linestyle=":", label="a coin")
right.set(
    title="what can be learnt about one record",
    xscale="log",
    xlabel="privacy budget ε (smaller is more private)",
    ylim=(0.45, 1.02),
    ylabel="best guess is right at most",
)
right.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
right.minorticks_off()
right.grid(axis="y", alpha=0.3)
right.spines[["top", "right"]].set_visible(False)
right.legend(frameon=False, loc="upper left")
plt.show()

# %%
# At epsilon 2 the model is right nine times out of ten, and somebody who knows all other records
# and has read every message is right about one record six times out of ten, where a coin is right
# five times. At 8 it is four times out of five, at worst. Real attackers know far less: the right
# panel bounds all of them.
