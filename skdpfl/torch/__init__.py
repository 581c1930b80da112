"""Any ``torch.nn.Module`` as the ``model`` of an estimator (extra ``torch``).

The only package that imports PyTorch.
"""

from skdpfl.torch._fitted import FittedModule
from skdpfl.torch._network import TorchModel, TorchNetwork

__all__ = ["FittedModule", "TorchModel", "TorchNetwork"]
