"""
A messy table: words, dates, gaps, ids, a rare level, a skewed target
=====================================================================

A table as it comes: visits of patients in three clinics, with words in it, dates as text, missing
values, an id that must not be learnt from, a level that three people have, and costs with a long
tail. What can be declared is declared, which is free; the rest is learnt within one epsilon. The
table is made up here, so its true pattern is known.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline

from skdpfl import ISRLDPRegressor
from skdpfl.model_selection import SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer, RowTransformer, limit_rows

rng = np.random.default_rng(0)
people, n = 6000, 12_000
who = np.sort(rng.integers(0, people, n))
visits = pd.DataFrame(
    {
        "patient_id": [f"P{i:05d}" for i in who],
        "clinic": rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2]),
        "admitted": (
            pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
        ).strftime("%d.%m.%Y"),
        "age": rng.uniform(20, 90, people).round()[who],
        "bmi": rng.normal(27, 4, n).clip(15, 50).round(1),
        "ward": rng.choice(["heart", "lung", "surgery", "other"], n, p=[0.2, 0.15, 0.25, 0.4]),
        "insured": rng.choice(["public", "private"], n, p=[0.85, 0.15]),
    }
)
visits.loc[rng.choice(n, 3, replace=False), "ward"] = "Fabry disease"
winter = pd.to_datetime(visits["admitted"], format="%d.%m.%Y").dt.month.isin([12, 1, 2])
log_cost = 6.5 + 0.02 * (visits["age"] - 55) + 0.9 * (visits["ward"] == "surgery") + 0.4 * winter
cost = np.exp(log_cost + 0.03 * (visits["bmi"] - 27) + rng.normal(0, 0.5, n))
visits.loc[rng.random(n) < 0.12, "bmi"] = np.nan
visits.loc[rng.random(n) < 0.08, "ward"] = None
print(visits.head(4).to_string(index=False))
print(f"costs: median {cost.median():.0f}, largest {cost.max():.0f}")

# %%
# **Rows and people.** The id is for limiting what one patient contributes, not for learning from.
# At most two visits of each are kept; ``group(2)`` below is what holds for a patient.
kept = limit_rows(visits["patient_id"], 2)
X, y = visits[kept].drop(columns="patient_id"), cost[kept].to_numpy()
patients = visits.loc[kept, "patient_id"]

# %%
# **Free steps.** Each looks at one row at a time, or is declared. A date becomes its season, by a
# function that ``RowTransformer`` runs row by row; a skewed target is learnt as its logarithm (the
# bounds of a cost are public: 50 to 50,000).


def season(dates):
    """Return 1 for an admission in winter."""
    months = pd.to_datetime(dates["admitted"], format="%d.%m.%Y").dt.month
    return months.isin([12, 1, 2]).to_numpy(float)[:, None]


passing = {"silo_column": "clinic", "keep_silo_column": False}
levels = {"ward": "auto", "insured": ["public", "private"]}  # the second is in the code book
bounds = {"age": (18, 100), "bmi": (10, 60)}
columns = ColumnTransformer(
    [
        ("winter", RowTransformer(season, feature_names_out=["winter"]), ["admitted"]),
        ("gaps", DPSimpleImputer(feature_bounds=bounds, **passing), ["age", "bmi", "clinic"]),
        (
            "words",
            DPOneHotEncoder(categories=levels, max_categories=5, **passing),
            ["ward", "insured", "clinic"],
        ),
        ("silo", "passthrough", ["clinic"]),
    ],
    verbose_feature_names_out=False,
).set_output(transform="pandas")

# %%
# **One epsilon** for imputer, encoder and model. The columns that come out are known beforehand,
# but for the wards' names: winter, age, bmi, five wards (one may stay unused), two insurances.
model = ISRLDPRegressor(
    feature_bounds={"winter": (0, 1), **bounds},  # words become True and False
    target_bounds=(np.log(50.0), np.log(50_000.0)),
    silo_column="clinic",
)
shared = SharedBudget(make_pipeline(columns, model), epsilon=2.0, delta=1e-6, random_state=0)

split = GroupShuffleSplit(1, test_size=0.25, random_state=0)  # a patient is in one part only
train, test = next(split.split(X, groups=patients))
shared.fit(X.iloc[train], np.log(y[train].clip(50, 50_000)))
print(shared.privacy_spent_)
print("parts:", {name: round(e, 2) for name, e in shared.epsilons_.items()})
print(f"a patient with two visits: epsilon {shared.privacy_spent_.group(2).epsilon:.1f}")

# %%
# The rare level is not among the wards: its name would tell of three people.
encoder = shared.estimator_[0].named_transformers_["words"]
print("wards found:", [str(ward) for ward in encoder.categories_[0]])
print(f"a ward needs about {encoder.threshold_:.0f} visits in a clinic to be found")

last = shared.estimator_[-1]
coefficients = last.summary()["coefficient"].drop("intercept")
shown = ["ward_surgery", "winter", "insured_private"]
predicted = shared.predict(X.iloc[test])
print(f"R2 of log costs on new patients: {shared.score(X.iloc[test], np.log(y[test])):.2f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
per = pd.Series({"age": 10, "bmi": 5})
effects = pd.concat([coefficients[per.index] * per, coefficients[shown]])
against = coefficients[["ward_other"]].mean()  # wards are compared with "other"
effects["ward_surgery"] -= against
truth = [0.2, 0.15, 0.9, 0.4, 0.0]
labels = ["age, 10 years", "bmi, 5 units", "surgery, not other", "winter", "private insurance"]
left.barh(labels, np.expm1(effects), color="#0072B2", label="found, ε = 2")
left.plot(np.expm1(truth), labels, "D", color="#D55E00", label="true")
left.set(xlabel="costs are higher by this share", title="what the model says")
left.invert_yaxis()
left.legend(frameon=False)
right.scatter(np.exp(predicted), y[test], s=4, alpha=0.3, color="#0072B2", linewidths=0)
right.plot([50, 20_000], [50, 20_000], color="0.4", linestyle="--")
right.set(xscale="log", yscale="log", xlabel="predicted cost", ylabel="cost")
right.set_title("patients that it has not seen")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
