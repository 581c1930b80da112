"""Table 4: accuracy over noise scale sigma_g and local steps K, synthetic (0, 0)."""

from scaffold.grid import figure_of

FIGURE = figure_of(
    "Table 4: synthetic (0, 0) with the paper's noise and rounds",
    spread=0.0,
    printed={
        10: (31.29, 44.37, 44.17, 41.71, 25.92),
        20: (28.31, 41.97, 43.27, 41.13, 28.20),
        40: (21.07, 33.01, 35.96, 32.82, 23.49),
        80: (17.09, 21.84, 25.92, 24.02, 17.95),
        160: (15.24, 15.37, 20.09, 18.09, 15.38),
    },
    deviations={
        10: (0.50, 0.15, 0.56, 0.36, 0.90),
        20: (1.15, 0.77, 0.90, 0.55, 2.23),
        40: (0.41, 1.20, 0.84, 1.11, 1.70),
        80: (1.31, 0.96, 0.59, 1.27, 1.14),
        160: (1.63, 0.28, 1.51, 1.86, 0.87),
    },
)
