from skdpfl.papers._bhaskar2025 import (
    Excess as Excess,
    bhaskar2025_degradation as bhaskar2025_degradation,
    bhaskar2025_epsilon as bhaskar2025_epsilon,
    bhaskar2025_utility as bhaskar2025_utility,
    local_steps_excess as local_steps_excess,
)
from skdpfl.papers._chang2022 import (
    ConvergenceBound as ConvergenceBound,
    chang2022 as chang2022,
    chang2022_convergence as chang2022_convergence,
    chang2022_rounds as chang2022_rounds,
    chang2022_variances as chang2022_variances,
)
from skdpfl.papers._lowy2023 import (
    acsa_bound as acsa_bound,
    gradient_variance as gradient_variance,
    lowy2023_accelerated_rounds as lowy2023_accelerated_rounds,
    lowy2023_batch as lowy2023_batch,
    lowy2023_bound as lowy2023_bound,
    lowy2023_lower_bound as lowy2023_lower_bound,
    lowy2023_multistage_rounds as lowy2023_multistage_rounds,
    lowy2023_rate as lowy2023_rate,
    lowy2023_regularisation as lowy2023_regularisation,
    lowy2023_rounds as lowy2023_rounds,
    lowy2023_sigma as lowy2023_sigma,
    lowy2023_stability as lowy2023_stability,
    lowy2023_step as lowy2023_step,
    stich2019_bound as stich2019_bound,
)
from skdpfl.papers._noble2022 import (
    StepSizes as StepSizes,
    noble2022 as noble2022,
    noble2022_composed as noble2022_composed,
    noble2022_fedavg_bound as noble2022_fedavg_bound,
    noble2022_fedavg_steps as noble2022_fedavg_steps,
    noble2022_local_step as noble2022_local_step,
    noble2022_rounds as noble2022_rounds,
    noble2022_scaffold_bound as noble2022_scaffold_bound,
    noble2022_scaffold_steps as noble2022_scaffold_steps,
    noble2022_server as noble2022_server,
    noble2022_sigma as noble2022_sigma,
    noble2022_weights as noble2022_weights,
)
from skdpfl.papers._takakura2025 import (
    takakura2025 as takakura2025,
)
