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
    deviations={
        10: (0.71, 0.99, 1.52, 0.80, 3.28),
        20: (1.31, 0.46, 1.74, 0.77, 2.67),
        40: (2.27, 0.65, 0.85, 0.41, 0.95),
        80: (2.62, 0.81, 0.37, 0.51, 0.14),
        160: (1.70, 0.30, 1.65, 0.75, 0.06),
    },
)
