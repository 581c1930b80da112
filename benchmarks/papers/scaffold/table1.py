"""Table 1: accuracy over noise scale sigma_g and local steps K, synthetic (5, 5)."""

from scaffold.grid import figure_of

FIGURE = figure_of(
    "Table 1: synthetic (5, 5) with the paper's noise and rounds",
    spread=5.0,
    printed={
        10: (27.41, 45.53, 43.52, 42.51, 21.80),
        20: (27.34, 44.39, 43.47, 42.33, 20.14),
        40: (21.05, 34.50, 36.85, 33.24, 14.85),
        80: (17.61, 24.41, 27.33, 19.42, 14.08),
        160: (13.97, 15.99, 19.27, 14.86, 14.17),
    },
)
