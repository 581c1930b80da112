"""
Thousands of small silos, each protected as a whole
===================================================

Phones or branches: every silo holds a few records, and what is protected is the silo, not a record.
The server is trusted with sums; a small random part of the silos takes part in each round, and that
nobody knows which makes the guarantee stronger.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from skdpfl import DPFedAvgClassifier, DPFedEXPClassifier
from skdpfl.datasets import make_federated_classification
from skdpfl.inspection import ConvergenceDisplay

data = make_federated_classification(
    5000, 20, n_features=20, n_classes=2, alpha=0.1, beta=0.1, random_state=0
)
X, y, silos = data.data, data.target, data.silos
held_out = np.isin(silos, np.arange(500))
X_train, y_train, train_silos = X[~held_out], y[~held_out], silos[~held_out]

# %%
# At equal epsilon the adaptive extrapolation of FedEXP takes longer server steps while silos agree,
# and falls back to plain averaging when noise takes over.
common = {
    "epsilon": 3.0,
    "delta": 1e-5,
    "trust": "server",
    "silo_fraction": 0.1,
    "n_rounds": 40,
    "local_steps": 5,
    "learning_rate": 0.1,
    "clip_norm": 0.5,
    "scaling": None,
    "random_state": 0,
    "average": False,
}
fig, ax = plt.subplots(layout="constrained")
for estimator in (DPFedAvgClassifier(unit="silo", **common), DPFedEXPClassifier(**common)):
    shown = ConvergenceDisplay.from_estimator(
        estimator,
        X_train,
        y_train,
        silos=train_silos,
        X_test=X[held_out],
        y_test=y[held_out],
        ax=ax,
    )
    print(type(estimator).__name__, shown.estimator_.privacy_spent_, round(shown.scores[-1], 3))
ax.set_title("4,500 silos of 20 records, each silo protected at ε = 3")
plt.show()
