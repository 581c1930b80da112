from skdpfl import (
    algorithms as algorithms,
    datasets as datasets,
    exceptions as exceptions,
    inference as inference,
    inspection as inspection,
    losses as losses,
    model_selection as model_selection,
    models as models,
    papers as papers,
    preprocessing as preprocessing,
    privacy as privacy,
    remote as remote,
)
from skdpfl._adapted import SiloAdapted as SiloAdapted
from skdpfl.estimators import (
    Checkpoint as Checkpoint,
    DPFedAvgClassifier as DPFedAvgClassifier,
    DPFedAvgRegressor as DPFedAvgRegressor,
    DPFedAvgSurvival as DPFedAvgSurvival,
    DPFederatedClassifier as DPFederatedClassifier,
    DPFederatedRegressor as DPFederatedRegressor,
    DPFederatedSurvival as DPFederatedSurvival,
    DPFedEXPClassifier as DPFedEXPClassifier,
    DPFedEXPRegressor as DPFedEXPRegressor,
    DPScaffoldClassifier as DPScaffoldClassifier,
    DPScaffoldRegressor as DPScaffoldRegressor,
    ISRLDPClassifier as ISRLDPClassifier,
    ISRLDPRegressor as ISRLDPRegressor,
    ISRLDPSurvival as ISRLDPSurvival,
)
from skdpfl._saved import (
    from_dict as from_dict,
    to_dict as to_dict,
)
from skdpfl.inspection import (
    privacy_spent as privacy_spent,
    report as report,
)
from skdpfl.model_selection import (
    DPCalibratedClassifier as DPCalibratedClassifier,
    DPThresholdClassifier as DPThresholdClassifier,
)

__version__: str
