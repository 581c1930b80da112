"""What the papers behind this library state, one file for each: for comparison only.

Accounting, theorems, rates, schedules and lower bounds by the papers' own formulas, so that their
tables can be checked and compared with sound accounting. **No estimator uses them, and**
``privacy_spent_`` **does not report them**: some formulas credit amplification that does not exist
for single records, some count noise of other silos on which a single record cannot rely, and nearly
all are loose by an order of magnitude. Each docstring of a price gives its reason in a paragraph
"Why this is not what the library reports".

Sound numbers come from :func:`skdpfl.privacy.epsilon_of`.
"""

from skdpfl.papers._bhaskar2025 import (
    Excess,
    bhaskar2025_degradation,
    bhaskar2025_epsilon,
    bhaskar2025_utility,
    local_steps_excess,
)
from skdpfl.papers._chang2022 import (
    ConvergenceBound,
    chang2022,
    chang2022_convergence,
    chang2022_rounds,
    chang2022_variances,
)
from skdpfl.papers._lowy2023 import (
    acsa_bound,
    gradient_variance,
    lowy2023_accelerated_rounds,
    lowy2023_batch,
    lowy2023_bound,
    lowy2023_lower_bound,
    lowy2023_multistage_rounds,
    lowy2023_rate,
    lowy2023_regularisation,
    lowy2023_rounds,
    lowy2023_sigma,
    lowy2023_stability,
    lowy2023_step,
    stich2019_bound,
)
from skdpfl.papers._noble2022 import (
    StepSizes,
    noble2022,
    noble2022_composed,
    noble2022_fedavg_bound,
    noble2022_fedavg_steps,
    noble2022_local_step,
    noble2022_rounds,
    noble2022_scaffold_bound,
    noble2022_scaffold_steps,
    noble2022_server,
    noble2022_sigma,
    noble2022_weights,
)
from skdpfl.papers._takakura2025 import takakura2025
