"""Figure 3: the bounds on the excess loss over the rounds, at the paper's constants. No data.

As printed, sigma0^2 stands for the whole noise variance; with the 36,895 parameters of the paper's
model counted, as theorem 3 has it, the bound says nothing (second panel). Third: theorem 3 itself,
of which the corollaries are upper bounds, by less than a hundredth.
"""

from __future__ import annotations

from functools import partial

from _common.cells import Cell, Figure, known

from skdpfl.papers import chang2022_convergence, chang2022_variances

NOISE = {"sigma0_squared": 8, "start": 200, "local_steps": 200}
SETTING = {
    "n_silos": 40, "silos_per_round": 8, "batch": 500, "distance": 1, "drift": 1,
    "gradient_variance": 0, "global_step": 2,
}  # fmt: skip
BETAS = {0: 1.0, 1: 0.998, 2: 0.99998}
NAMES = {0: "constant", 1: "decay each round", 2: "decay each step"}
THEOREM = "as printed, theorem 3"
PARAMETERS = {"as printed": 1, "with all coordinates": 784 * 47 + 47, THEOREM: 1}


def bound(scheme: int, n_rounds: int, panel: str) -> float:
    """Return the bound."""
    noise = chang2022_variances(scheme=scheme, beta=BETAS[scheme], n_rounds=n_rounds, **NOISE)
    form = "theorem" if panel == THEOREM else "corollaries"
    counted = {"n_parameters": PARAMETERS[panel], "form": form}
    return chang2022_convergence(noise, **counted, **SETTING).gap


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each scheme and number of rounds; they take no time."""
    return [
        known(NAMES[scheme], 11.5147, partial(bound, scheme, n_rounds, setting),
              setting=setting, x=float(n_rounds))
        for setting in PARAMETERS
        for scheme in BETAS
        for n_rounds in range(100, 701, 100 if quick else 25)
    ]  # fmt: skip


FIGURE = Figure(
    "Drift control: bounds on the excess loss", "bound", cells, higher_is_better=False,
    xlabel="rounds", logx=False,
)  # fmt: skip
