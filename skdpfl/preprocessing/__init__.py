"""Scaling that is paid for: private scalers, and the maps that estimators train on."""

from skdpfl.preprocessing._scaler_base import PrivateScaler as PrivateScaler
from skdpfl.preprocessing._scalers import DPMinMaxScaler, DPStandardScaler

__all__ = ["DPMinMaxScaler", "DPStandardScaler"]
