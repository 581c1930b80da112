"""What the hospitals agreed on: public facts, and the estimators that are fitted."""

from skdpfl import DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.federation import Schema

#: published; each hospital compares its own
SIZES = {"east": 300, "north": 250, "south": 200, "west": 150}
FEATURES = ["age", "pressure", "cholesterol", "heart_rate"]
#: from public knowledge
BOUNDS = (-6, 6)
FACTS = Schema(SIZES, n_features=len(FEATURES), feature_names=FEATURES)
OPTIONS = {
    "ISRLDPClassifier": (ISRLDPClassifier, {}),
    "DPScaffoldClassifier": (DPScaffoldClassifier, {"local_steps": 5}),
    # masked sums, in which each hospital adds a share of the noise
    "ISRLDPClassifier-secagg": (ISRLDPClassifier, {"trust": "secagg"}),
}


def model(config):
    """Return the estimator that a run asks for."""
    kind, options = OPTIONS[config["estimator"]]
    return kind(
        epsilon=3,
        delta=1e-4,
        n_rounds=config["rounds"],
        feature_bounds=BOUNDS,
        classes=[0, 1],
        random_state=0,  # a simulation: in earnest None
        **options,
    )
