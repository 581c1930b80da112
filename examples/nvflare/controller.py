"""What the server's job runs: three estimators, and what to do with the model.

The server's environment has this module, and its ``local/resources.json`` allows it; a job brings
no code, only the arguments.
"""

import json
from pathlib import Path

import numpy as np
from study import FACTS, model

from skdpfl.nvflare import FitController
from skdpfl.remote import RemoteFederation


class Study(FitController):
    """Fit one of the estimators of ``study.py``, and write the model down."""

    def __init__(self, estimator, rounds, out, report):
        super().__init__(timeout=20.0)
        self.config = {"estimator": estimator, "rounds": rounds}
        self.path = Path(out) / report

    def fit(self, courier):
        fitted = model(self.config)
        federation = RemoteFederation(
            courier,
            FACTS,
            classes=[0, 1],
            estimator=type(fitted).__name__,
            journal=f"{self.path}.journal",
        )
        try:
            fitted.fit_federation(federation, FACTS)
        except Exception as error:
            self.write({"error": f"{type(error).__name__}: {error}"})
            raise
        np.savez(f"{self.path}.npz", coef=fitted.coef_, intercept=fitted.intercept_)
        self.write({"seconds per round": federation.round_seconds})

    def write(self, report):
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(report))
        part.rename(f"{self.path}.json")
