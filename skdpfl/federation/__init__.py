"""Where the silos live: a back end holds data and silo memory, and executes rounds."""

from skdpfl.federation._base import Federation, Work
from skdpfl.federation._data import SiloData
from skdpfl.federation._local import LocalFederation

__all__ = ["Federation", "LocalFederation", "SiloData", "Work"]
