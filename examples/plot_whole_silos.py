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
from skdpfl.inspection import ConvergenceDisplay

# 5,000 silos of 20 records; each silo's model differs a little from the common one
rng = np.random.default_rng(0)
n_silos, n, d = 5000, 20, 20
weights = (2 * rng.normal(size=d) + rng.normal(size=(n_silos, d))) / np.sqrt(d)
records = rng.normal(size=(n_silos, n, d))
logits = np.einsum("snd,sd->sn", records, weights)
X = records.reshape(-1, d)
y = (logits + rng.logistic(size=logits.shape) > 0).ravel().astype(int)
silos = np.repeat(np.arange(n_silos), n)
held_out = silos < 500
X_train, y_train, train_silos = X[~held_out], y[~held_out], silos[~held_out]

# %%
# At equal epsilon the adaptive extrapolation of FedEXP takes longer server steps while silos agree,
# and falls back to plain averaging when noise takes over.
common = {
    "epsilon": 3.0,
    "delta": 1e-5,
    "trust": "server",
    "silo_fraction": 0.1,
    "n_rounds": 30,
    "local_steps": 5,
    "learning_rate": 0.03,
    "clip_norm": 0.1,
    "scaling": None,
    "random_state": 0,
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
