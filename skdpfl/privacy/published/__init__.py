"""The published numbers of the papers behind this library, for comparison only.

Each function computes the numbers of a paper by the paper's own formula, so that its tables can be
checked and compared with sound accounting. **No estimator uses them, and** ``privacy_spent_``
**does not report them**: some formulas credit amplification that does not exist for single records,
some count noise of other silos on which a single record cannot rely, and nearly all are loose by an
order of magnitude. Each docstring gives its reason in a paragraph "Why this is not what the library
reports".

Sound numbers come from :func:`skdpfl.privacy.epsilon_of`.
"""

from skdpfl.privacy.published._chang import chang2022, chang2022_rounds, chang2022_variances
from skdpfl.privacy.published._chang_convergence import ConvergenceBound, chang2022_convergence
from skdpfl.privacy.published._lowy import lowy2023_batch, lowy2023_sigma
from skdpfl.privacy.published._noble import (
    noble2022,
    noble2022_composed,
    noble2022_rounds,
    noble2022_server,
    noble2022_sigma,
)
from skdpfl.privacy.published._of_2025 import (
    bhaskar2025_degradation,
    bhaskar2025_epsilon,
    bhaskar2025_utility,
    takakura2025,
)
