"""
Thousands of phones, each protected as a whole
==============================================

What drains a battery? Each of 4,500 phones has ten days of records, and four of 60 apps. A phone is
one person's, so the phone is what has to be protected, not a day: ``unit="silo"``. The server is
trusted with sums, and sees nothing else.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from skdpfl import DPFedAvgRegressor, DPFedEXPRegressor
from skdpfl.inspection import ConvergenceDisplay

rng = np.random.default_rng(0)
n_phones, n_days, n_apps, installed = 5000, 10, 60, 4
drain = rng.uniform(0.0, 1.0, n_apps)
has_app = rng.permuted(np.tile(np.arange(n_apps) < installed, (n_phones, 1)), axis=1)
# hours of use above or below the usual
hours = rng.uniform(-1.0, 1.0, (n_phones, n_days, n_apps)) * has_app[:, None]
X = hours.reshape(-1, n_apps)
y = X @ drain + 0.05 * rng.normal(size=len(X))
phones = np.repeat(np.arange(n_phones), n_days)
known = phones >= 500  # the first 500 phones are for testing

# %%
# A phone can speak about its own four apps only. So the phones' moves hardly overlap and their mean
# is short: federated averaging creeps. A longer step of the server, always the same, is of little
# use: beyond 2 it overshoots what all phones have in common, the intercept. FedEXP sees from the
# lengths of the moves how far their mean falls short, goes 16 times as far in the first round, and
# takes short steps when they agree. All pay the same: epsilon 1 for a whole phone.
common = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "trust": "server",
    "n_rounds": 30,
    "local_steps": 10,
    "learning_rate": 0.5,
    "clip_norm": 1.0,
    "scaling": None,
    "random_state": 0,
}
models = {
    "DP-FedAvg": DPFedAvgRegressor(unit="silo", **common),
    "server's step 1.9": DPFedAvgRegressor(unit="silo", global_learning_rate=1.9, **common),
    "server's step 3": DPFedAvgRegressor(unit="silo", global_learning_rate=3.0, **common),
    "DP-FedEXP": DPFedEXPRegressor(**common),
}

# %%
# Two long steps do most of FedEXP's work. What is left to learn is then so small that the noise
# makes up much of the mean, and the steps stay short: nobody has to say when to stop.
fig, (scores, steps) = plt.subplots(1, 2, figsize=(8.0, 3.6), layout="constrained")
for name, model in models.items():
    shown = ConvergenceDisplay.from_estimator(
        model,
        X[known],
        y[known],
        silos=phones[known],
        X_test=X[~known],
        y_test=y[~known],
        ax=scores,
    )
    shown.line_.set_label(name)
    fitted = shown.estimator_
    print(f"{name}: R² {shown.scores[2]:.2f} after 3 rounds, {shown.scores[-1]:.2f} after 30")
print(fitted.privacy_spent_)
scores.set(ylim=(0, 1.02), title="4,500 phones, each protected at ε = 1")
scores.legend(frameon=False)
steps.plot(np.arange(1, 31), fitted.global_step_sizes_, color=shown.line_.get_color())
steps.set(xlabel="round", ylim=(0, None), title="FedEXP's steps")
plt.show()
