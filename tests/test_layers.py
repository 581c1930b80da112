"""Imports point down only: each layer may import the ones under it and itself."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "skdpfl"

#: lowest first; a module may import from its own layer or a lower one
LAYERS = [
    {"exceptions", "_arguments", "_compat", "_compiled", "_lazy", "_links"},
    {"privacy", "losses"},
    {"models"},
    {"algorithms"},
    {"federation"},
    {"engine"},
    {"silos"},
    {"preprocessing"},
    {"estimators"},
    {"model_selection", "inspection", "datasets"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
#: the same inside skdpfl/privacy: what is counted lies under what is run
INSIDE_PRIVACY = [
    {"events", "randomness", "schedules", "published"},
    {"sampling", "cohorts", "pricing"},
    {"calibration", "spending"},
    {"accounting"},
    {"shuffling"},
    {"public_numbers"},
    {"mechanisms"},
    {"planned"},
    {"plan"},
]
RANK_INSIDE = {name: rank for rank, names in enumerate(INSIDE_PRIVACY) for name in names}
#: numerical layers know numpy and scipy, not the scikit-learn surface
NO_SKLEARN = {"privacy", "losses", "models", "algorithms", "federation", "engine"}


def modules():
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def without_types(tree):
    """Return the tree without what only type checkers read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    return tree


def imports(path, types=True):
    """Yield every absolute module name imported anywhere in the file, lazily or not."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree if types else without_types(tree)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    here = part_of(path)
    assert here in RANK, f"{here}: give the new part a layer in this test"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "skdpfl" or len(parts) < 2 or parts[1] not in RANK:
            continue
        assert RANK[parts[1]] <= RANK[here], f"{path} imports {name}, which lies above it"


INSIDE = [p for p in modules() if part_of(p) == "privacy" and p != ROOT / "privacy/__init__.py"]


@pytest.mark.parametrize("path", INSIDE, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_inside_privacy_point_down(path):
    here = path.relative_to(ROOT).parts[1].removesuffix(".py")
    assert here in RANK_INSIDE, f"{here}: give the new part a rank in this test"
    for name in imports(path, types=False):
        parts = name.split(".")
        if parts[:2] != ["skdpfl", "privacy"] or len(parts) < 3 or parts[2] not in RANK_INSIDE:
            continue
        assert RANK_INSIDE[parts[2]] <= RANK_INSIDE[here], f"{path} imports {name}, higher up"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_numerical_layers_do_not_know_scikit_learn(path):
    if part_of(path) in NO_SKLEARN:
        assert not [n for n in imports(path) if n.split(".")[0] == "sklearn"]
