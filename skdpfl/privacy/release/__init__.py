"""Release of noised sums: clip norm, noise, rounding and grid in one object, with one proof.

``noised_sum`` has the object, the noise of steps, the choice of the arithmetic for sums of
gradients and the proof, ``grid`` the exact addition, ``sharing`` noise that several silos add
together.
"""

from skdpfl.privacy.release.grid import (
    NORMALS,
    GridRows,
    PrecisionError,
    grid_for,
    snapped_release,
)
from skdpfl.privacy.release.noised_sum import (
    DOUBLE,
    SINGLE,
    FreshNoise,
    GradientSums,
    NoisedSum,
    Precision,
    StepNoise,
    choose_precision,
    noise_for,
    noised_sum,
    reduced_clip,
    relative_error,
    underflow,
)
from skdpfl.privacy.release.sharing import (
    MOST_NORMALS,
    SharedNoise,
    check_honest,
    shared_noise,
)
