"""
Choosing epsilon: what a guess about a record can gain
======================================================

What does epsilon 1 mean for the person in the data? An attacker who knows everything but whether
the record was this or that can be right with a probability bounded by the guarantee. This picture
puts that bound beside the accuracy the model reaches, on public data.
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
bounds = (0, 10.0 ** np.ceil(np.log10(X.max(axis=0))))
epsilons = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # these data are public
    PrivacyUtilityDisplay.from_estimator(
        ISRLDPClassifier(feature_bounds=bounds, delta=1e-5),
        X,
        y,
        silos=silos,
        epsilons=epsilons,
        cv=SiloStratifiedKFold(3, shuffle=True, random_state=0),
        ax=left,
    )

# %%
# Two equally likely records: the guess is right with probability at most (1 + TV) / 2, where TV,
# the total variation, is delta at epsilon 0. The fit's whole privacy curve knows it; the bound
# e^eps / (1 + e^eps) from epsilon alone is looser.
exact, loose = [], []
for epsilon in epsilons:
    plan = ISRLDPClassifier(epsilon=epsilon, delta=1e-5, scaling=None).plan_for(
        silo_sizes=np.bincount(silos), n_features=30
    )
    exact.append((1 + plan.spent().delta_at(0.0)) / 2)
    loose.append(1 / (1 + np.exp(-epsilon)))
right.plot(epsilons, exact, marker="o", color="#D55E00", label="this fit's privacy curve")
right.plot(epsilons, loose, color="0.35", linestyle="--", label="from ε alone")
right.axhline(0.5, color="0.6", linestyle=":")
right.set(
    xscale="log",
    xlabel="privacy budget ε",
    ylim=(0.45, 1.02),
    ylabel="best guess between two records",
)
right.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
right.minorticks_off()
right.legend(frameon=False)
plt.show()
