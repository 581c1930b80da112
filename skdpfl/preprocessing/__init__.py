"""Scaling that is paid for: private scalers, and the maps that estimators train on."""

from skdpfl.preprocessing._bounds import Bounds as Bounds
from skdpfl.preprocessing._bounds import affine_from_bounds as affine_from_bounds
from skdpfl.preprocessing._bounds import feature_bounds_of as feature_bounds_of
from skdpfl.preprocessing._bounds import target_bounds_of as target_bounds_of
from skdpfl.preprocessing._plan import ScalingPlan as ScalingPlan
from skdpfl.preprocessing._planning import plan_scaling as plan_scaling
from skdpfl.preprocessing._private_scales import run_scaling as run_scaling
from skdpfl.preprocessing._scaler_base import PrivateScaler as PrivateScaler
from skdpfl.preprocessing._scalers import DPMinMaxScaler, DPStandardScaler
from skdpfl.preprocessing._scaling import IdentityScaling as IdentityScaling
from skdpfl.preprocessing._scaling import Scales as Scales
from skdpfl.preprocessing._unreadable import advising as advising

__all__ = ["DPMinMaxScaler", "DPStandardScaler"]
