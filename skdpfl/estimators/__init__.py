"""The estimators: one module per family, with a constructor and a docstring for each class."""

from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._checkpoint import Checkpoint
from skdpfl.estimators._isrl import ISRLDPClassifier, ISRLDPRegressor, ISRLDPSurvival
from skdpfl.estimators._local_steps import (
    DPFedAvgClassifier,
    DPFedAvgRegressor,
    DPFedAvgSurvival,
    DPFederatedClassifier,
    DPFederatedRegressor,
    DPFederatedSurvival,
    DPFedEXPClassifier,
    DPFedEXPRegressor,
    DPScaffoldClassifier,
    DPScaffoldRegressor,
)
