"""The estimators: a constructor and a docstring for each class, by families."""

from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._checkpoint import Checkpoint
from skdpfl.estimators._families import (
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
    ISRLDPClassifier,
    ISRLDPRegressor,
    ISRLDPSurvival,
)
