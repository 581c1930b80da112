"""A search over hyper-parameters under one budget; ``randomized`` is the search itself."""

from skdpfl.model_selection._search.randomized import DPRandomizedSearchCV

__all__ = ["DPRandomizedSearchCV"]
