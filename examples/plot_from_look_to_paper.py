"""
One question from the first look to the paper
=============================================

Which signs tell a cardiologist that a vessel is narrowed? Four hospitals have the records, nobody
may see them, and an ethics board wants to know what was done. All steps of a study on one page: a
budget, a private table 1, a fit, odds ratios with intervals, a report, the methods section. At the
end the same fit with the records where they are. With the files at hand these are the hospitals of
the heart disease data; without them they are made up, and the first printed line says so.
"""

# %%
import math
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import skdpfl
from skdpfl import ISRLDPClassifier
from skdpfl.datasets import fetch_heart_disease
from skdpfl.federation import Schema
from skdpfl.inspection import CoefficientDisplay, QuantilesDisplay, describe
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import Courier, Gate, RemoteFederation, SiloRecords

try:
    data = fetch_heart_disease(download_if_missing=False, as_frame=True)
    frame, ill, hospital = data.data, data.target.to_numpy(), data.silos.to_numpy()
    print("The four hospitals of the heart disease data.")
except OSError:  # the story runs without the files
    rng, sizes = np.random.default_rng(0), [303, 261, 46, 130]
    hospital = np.repeat(["cleveland", "hungarian", "switzerland", "va"], sizes)
    n, ill = sum(sizes), rng.random(sum(sizes)) < 0.5
    frame = pd.DataFrame(
        {
            "age": rng.normal(53, 9, n).round(),
            "chol": np.where(hospital == "switzerland", 0, rng.normal(230, 50, n)),
            "thalach": rng.normal(150 - 20 * ill, 22),
            "oldpeak": rng.exponential(0.5 + ill),
            "sex": pd.Categorical(rng.choice(["0", "1"], n, p=[0.3, 0.7])),
            "exang": pd.Categorical(np.where(rng.random(n) < 0.2 + 0.5 * ill, "1", "0")),
        }
    )
    print("Four synthetic hospitals; skdpfl.datasets.fetch_heart_disease() fetches the real ones.")

# What is physiologically possible. It was written down before anybody saw a record.
bounds = {"age": (0, 100), "chol": (0, 600), "thalach": (50, 220), "oldpeak": (-5, 10)}
budget, delta = 4.0, 1e-4

# %%
# **Table 1.** One ledger holds everything that is learnt from these records to a budget of epsilon
# 4. The first part goes to a look at three columns: few columns, so that 740 patients in four
# hospitals show through the noise. Each number comes with the error of its noise.
folder = tempfile.TemporaryDirectory()  # a study keeps its ledger somewhere safe
path = Path(folder.name) / "study.ledger"
with PrivacyLedger(budget, delta=delta, path=path) as ledger:
    table = describe(
        frame[["age", "chol", "thalach"]],
        epsilon=1.5,
        delta=delta,
        feature_bounds=bounds,
        silos=hospital,
        by_silo=True,
        random_state=0,
    )
    left = math.floor(100 * ledger.remaining) / 100
shown = ["mean", "mean_error", "50%", "50%_error"]
print(table.xs("chol", level="column")[shown].astype(float).round(0).to_string())

# %%
# Cholesterol in Zürich ("switzerland") is nothing like that of the others: zero stands for "not
# measured" there. The look has paid for itself: the column is left out of the model, instead of
# being a second name for the hospital. A choice that follows from an output is fine, since a
# ledger counts for choices of that kind.
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, column in zip(axes, ["age", "chol", "thalach"], strict=True):
    QuantilesDisplay.from_description(table, column, ax=ax)
    ax.tick_params(axis="x", rotation=40)

# %%
# **Fit.** Numbers as they are, words as columns of 0 and 1 whose categories are in the code book
# (a categorical's own), which is free. The model gets what is left in the ledger, and asks for
# intervals: three tenths of that fit the model, the rest pays for the sums behind the intervals.
words = [name for name in ("sex", "exang") if name in frame]
X = pd.get_dummies(frame[["age", "thalach", "oldpeak", *words]], drop_first=True, dtype=float)
public = {name: bounds.get(name, (0, 1)) for name in X}
settings = {
    "epsilon": left,
    "delta": delta,
    "feature_bounds": public,
    "classes": [0, 1],
    "inference": "intervals",
    "random_state": 1,
}
model = ISRLDPClassifier(**settings)
with PrivacyLedger(path=path) as ledger:
    model.fit(X, ill.astype(int), silos=hospital)
print(f"{left:.2f} was left for the model; in the ledger:")
print(ledger.table()[["name", "epsilon", "spent"]].round(2).to_string(index=False))

# %%
# **The paper's table.** Odds ratios in units that readers think in: intervals of 95 % that contain
# the sampling error of 740 patients and the noise. Rows are NaN where noise hides them.
units = {"age": 10, "thalach": 25, "oldpeak": 1}
ratios = {}
for name in X:
    row = model.contrast({name: units.get(name, 1)})
    ratios[f"{name}, per {units[name]}" if name in units else name] = np.exp(
        row[["coefficient", "lower", "upper"]].astype(float)
    )
print(pd.DataFrame(ratios).T.round(2).to_string())
CoefficientDisplay.from_estimator(model, ratios=True)

# %%
# **Report.** A page for the ethics board, which opens without a network, and the sentences for
# the methods section; with the ledger they tell of the look as well. This fit was simulated from
# a seed, so that the page comes out the same each time: the report says so. A study leaves
# ``random_state`` out.
report = skdpfl.report(model, ledger=ledger)
print(textwrap.fill(report.methods, 90))

# %%
# The page itself:
report

# %%
# **The same with the records where they are.** Each hospital runs a gate of its own, with its
# records and its own ledger. Letters go to and fro; here a courier of this process carries them,
# in earnest Flower or a script of yours (:doc:`/hospitals`). The gates compute the price
# themselves, charge their ledgers, and add the noise before anything leaves.


class Doors(Courier):
    """The gates of the four hospitals."""

    def __init__(self, where):
        self.gates = {}
        for name in np.unique(hospital).tolist():
            mine = hospital == name
            records = SiloRecords(name, X[mine], ill[mine].astype(int), classes=[0, 1])
            its_own = PrivacyLedger(budget, delta, path=Path(where) / f"{name}.ledger")
            self.gates[name] = Gate(records, its_own, allow_simulation=True)

    def deliver(self, letters):
        """Return each gate's answer to its letter."""
        return {name: self.gates[name].answer(letter) for name, letter in letters.items()}


sizes = pd.Series(hospital).value_counts().sort_index().to_dict()
facts = Schema(sizes, n_features=X.shape[1], feature_names=list(X))
elsewhere = ISRLDPClassifier(**settings)
doors = Doors(folder.name)
elsewhere.fit_federation(RemoteFederation(doors, facts, classes=[0, 1]), facts)
ledgers = {name: PrivacyLedger(path=Path(folder.name) / f"{name}.ledger") for name in doors.gates}
spent = {name: its_own.spent.epsilon for name, its_own in ledgers.items()}
print("the same model, to the last bit:", np.array_equal(elsewhere.coef_, model.coef_))
print("each hospital's own ledger:", {name: round(e, 2) for name, e in spent.items()})
plt.show()
