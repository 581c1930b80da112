"""Tests of behaviour use what the pages name, so that moving code inside leaves them untouched.

All others are in ``tests/internals``.
"""

import ast
import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
LISTED = re.findall(r"^   ([a-z_A-Z0-9.]+)$", (ROOT / "docs/api.rst").read_text(), re.MULTILINE)
#: modules that docs/api.rst lists names of, or that a page's snippet imports from
MODULES = {
    "skdpfl",
    *(f"skdpfl.{name}".rpartition(".")[0] for name in LISTED),
    *(m for page in PAGES for m in re.findall(r"from (skdpfl[\w.]*) import", page.read_text())),
    "skdpfl.flower",  # examples/flower
    "skdpfl.nvflare",  # examples/nvflare
    # users of the papers' protocols import these
    "skdpfl.algorithms.average_noise",
    "skdpfl.algorithms.theory",
    "skdpfl.privacy.mechanisms.binomial",
    "skdpfl.privacy.mechanisms.privunit",
}
#: the path of something private, as patches name it
PRIVATE = r"skdpfl[\w.]*\._\w[\w.]*"
#: files that are about code inside, not about what it does
INSIDE = ("conftest.py", "test_layers.py", "test_public_names.py")
BEHAVIOUR = [
    path
    for path in sorted((ROOT / "tests").rglob("*.py"))
    if "internals" not in path.parts and path.name not in INSIDE
]


def is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def private(node):
    """Yield what a part of a test file uses that no page names."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skdpfl":
        for name in (alias.name for alias in node.names):
            whole = f"{node.module}.{name}"
            if whole not in MODULES and (
                node.module not in MODULES or name.startswith("_") or is_module(whole)
            ):
                yield whole
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.internals"):
        yield node.module
    elif isinstance(node, ast.Constant) and re.fullmatch(PRIVATE, str(node.value)):
        yield node.value


def used(text):
    return [name for node in ast.walk(ast.parse(text)) for name in private(node)]


def test_tests_of_behaviour_use_what_pages_name():
    for path in BEHAVIOUR:
        assert not used(path.read_text()), f"move what needs it to tests/internals: {path}"


def test_modules_that_pages_name_exist():
    assert len(MODULES) > 20
    for name in sorted(
        MODULES - {"skdpfl.flower", "skdpfl.nvflare", "skdpfl.torch"}
    ):  # they need extras
        import_module(name)
