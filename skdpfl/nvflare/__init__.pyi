from skdpfl.nvflare._server import FitController as FitController
from skdpfl.nvflare._server import SiteCourier as SiteCourier
from skdpfl.nvflare._site import GateExecutor as GateExecutor
