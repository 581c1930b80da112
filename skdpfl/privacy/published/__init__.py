"""The published numbers of the papers behind this library, for comparison only.

Everything here recomputes what a paper printed, by the paper's own formula, so that its tables
can be checked and set beside sound accounting. **None of it is used by an estimator and none of
it is what** ``privacy_spent_`` **says**: some formulas credit amplification that does not exist
for single records, some add up noise that a single record cannot rely on, and nearly all are
loose by an order of magnitude. Every docstring names its own reason in a paragraph "Why this is
not what the library reports".

Sound numbers come from :func:`skdpfl.privacy.epsilon_of`.
"""

from skdpfl.privacy.published._chang import chang2022, chang2022_conditions
from skdpfl.privacy.published._chang_convergence import ConvergenceBound, chang2022_convergence
from skdpfl.privacy.published._chang_schedule import (
    chang2022_bracket,
    chang2022_rounds,
    chang2022_variances,
)
from skdpfl.privacy.published._lowy import lowy2023_batch, lowy2023_one_pass_sigma, lowy2023_sigma
from skdpfl.privacy.published._noble import noble2022, noble2022_rounds

__all__ = [
    "ConvergenceBound",
    "chang2022",
    "chang2022_bracket",
    "chang2022_conditions",
    "chang2022_convergence",
    "chang2022_rounds",
    "chang2022_variances",
    "lowy2023_batch",
    "lowy2023_one_pass_sigma",
    "lowy2023_sigma",
    "noble2022",
    "noble2022_rounds",
]
