"""What the study of "auto" runs: the cases that the project set itself, and many shapes."""

from __future__ import annotations

from typing import Any

#: case, problem, estimator, epsilon, with bounds, untuned floor, tuned goal
TABLE = [
    ("insurance", "insurance, 5 silos by charges", "ISRLDP", 1.0, True, 0.60, 0.66),
    ("insurance", "insurance, 5 silos by charges", "ISRLDP", 3.0, True, 0.71, 0.73),
    ("insurance, no bounds", "insurance, 5 silos by charges", "ISRLDP", 3.0, False, 0.68, None),
    ("obesity", "obesity, 7 silos by class", "ISRLDP", 1.0, True, 0.41, 0.50),
    ("obesity", "obesity, 7 silos by class", "ISRLDP", 3.0, True, 0.50, 0.59),
    ("obesity", "obesity, 7 silos by class", "ISRLDP", 9.0, True, 0.55, 0.69),
    ("breast cancer", "breast cancer, 5 silos", "ISRLDP", 1.0, True, 0.895, 0.95),
    ("digits", "digits, 6 silos", "DPScaffold", 3.0, True, 0.80, 0.86),
]
#: records, columns, silos, classes (0: regression), epsilon, parameters
SHAPES: list[tuple[int, int, int, int, float, dict[str, Any]]] = [
    (100, 2, 1, 2, 1.0, {}),
    (100, 4, 4, 2, 3.0, {}),
    (1_000, 10, 5, 2, 1.0, {}),
    (1_000, 10, 5, 0, 3.0, {}),
    (10_000, 10, 5, 2, 1.0, {"feature_bounds": None}),
    (10_000, 10, 10, 5, 1.0, {}),
    (5_000, 500, 5, 2, 3.0, {}),
    (5_000, 1_000, 2, 5, 8.0, {}),
    (20_000, 300, 5, 2, 3.0, {"feature_bounds": None}),
    (50_000, 10, 5_000, 2, 3.0, {}),
    (100_000, 20, 1_000, 2, 1.0, {}),
    (100_000, 20, 1_000, 2, 1.0, {"trust": "server"}),
    (20_000, 10, 100, 2, 1.0, {"silo_fraction": 0.1}),
    (20_000, 10, 5, 2, 1.0, {"sampling": "disjoint"}),
    (1_000_000, 20, 10, 2, 1.0, {}),
    (1_000_000, 10, 10_000, 2, 1.0, {}),
]
