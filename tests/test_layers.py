"""Imports point down only, in no circle, and into no other package's private modules.

Every import counts, also one inside a function or for type checkers only.
"""

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from skdpfl._lazy import stub_names

ROOT = Path(__file__).parents[1] / "skdpfl"

#: lowest first; a module may import from its own layer or a lower one
LAYERS = [
    {
        "exceptions",
        "_apart",
        "_arguments",
        "_codec",
        "_compat",
        "_compiled",
        "_durable",
        "_lazy",
        "_surface",
        "_survival_times",
        "_warnings",
    },
    {"_declarations", "encoding", "silos"},
    {"privacy", "losses"},
    {"models"},
    {"torch"},
    {"algorithms"},
    {"federation"},
    {"engine", "independence", "table"},
    {"scaling"},
    {"inference"},
    {"remote"},
    {"preprocessing"},
    {"choosing"},
    {"estimators"},
    {"_functions"},
    {"_pipelines"},
    {"_adapted", "datasets", "model_selection"},
    {"_saved", "inspection"},
    {"flower", "nvflare"},
    {"service"},
    {"__main__"},
    {"papers"},  # which nothing imports
]
#: the same inside skdpfl/privacy: what is counted lies under what is run
INSIDE_PRIVACY = [
    {"events", "randomness"},
    {"sampling", "pricing", "release"},
    {"public_numbers"},
    {"calibration", "spending"},
    {"shuffling"},
    {"mechanisms"},
    {"plan"},
]
#: numerical layers know numpy and scipy, not the scikit-learn surface
NO_SKLEARN = {
    "privacy",
    "losses",
    "models",
    "algorithms",
    "federation",
    "engine",
    "scaling",
    "inference",
    "remote",
}


def module_name(path):
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(p): p for p in sorted(ROOT.rglob("*.py"))}


@cache
def parsed(path):
    return ast.parse(path.read_text())


@cache
def imports(path):
    """Return (module, name) of every import in a file; the name is empty for a whole module."""
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            found += [(node.module, alias.name) for alias in node.names]
    return found


def written(path):
    """Return the modules that a file names: a submodule where the imported name is one."""
    found = {(m, f"{m}.{name}") for m, name in imports(path)}
    return {longer if longer in MODULES else module for module, longer in found}


names_of = cache(stub_names)


def loaded_lazily(module, name):
    """Return the module that a name is in, of a package which loads its names on first use."""
    stub = MODULES[module].with_suffix(".pyi") if module in MODULES else None
    return names_of(stub).get(name) if stub and stub.exists() else None


def edges(path):
    """Return the modules of this package that a file imports, directly or through a package."""
    return (written(path) | {loaded_lazily(*pair) for pair in imports(path)}) & MODULES.keys()


@cache
def graph():
    """Return the modules that each module imports."""
    return {name: edges(path) for name, path in MODULES.items()}


def ranks(layers):
    return {name: rank for rank, names in enumerate(layers) for name in names}


@pytest.mark.parametrize(
    ("package", "layers"), [("skdpfl", LAYERS), ("skdpfl.privacy", INSIDE_PRIVACY)]
)
def test_imports_point_down(package, layers):
    """Of every module the imports of its package's parts; the package itself has no rank."""
    rank, depth = ranks(layers), package.count(".") + 1
    inside = {name: name.split(".")[depth] for name in MODULES if name.startswith(f"{package}.")}
    assert set(inside.values()) <= rank.keys(), "give the new part a layer in this test"
    upwards = [
        f"{name} imports {imported}, which lies above it"
        for name, here in inside.items()
        for imported in graph()[name]
        if imported in inside and rank[inside[imported]] > rank[here]
    ]
    assert not upwards


@pytest.mark.parametrize(("package", "engine"), [("flower", "flwr"), ("nvflare", "nvflare")])
def test_one_package_alone_imports_an_engine(package, engine):
    for name, path in MODULES.items():
        named = {module.split(".")[0] for module, _ in imports(path)}
        assert engine not in named or name.startswith(f"skdpfl.{package}."), name


def test_no_circle_of_files():
    TopologicalSorter(graph()).prepare()  # raises CycleError, which names the files


def shared_names(trees):
    """Return the names that two classes have, at the top of modules; underscores do not count."""
    classes = [
        node.name.lstrip("_")
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]
    return {name for name, times in Counter(classes).items() if times > 1}


def test_no_two_classes_share_a_name():
    """A reader who meets a name knows which class it is."""
    shared = shared_names(parsed(path) for path in MODULES.values())
    assert not shared, "rename one of them"


def test_no_module_assigns_a_constant_twice():
    """The second would be read where the first was meant."""
    for name, path in MODULES.items():
        targets = [t for node in parsed(path).body for t in getattr(node, "targets", ())]
        names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        assert len(names) == len(set(names)), name


def private_owner(module):
    """Return the package whose private module this is, or nothing."""
    parts = module.split(".")
    first = next((i for i, part in enumerate(parts) if part.startswith("_")), None)
    return None if first is None else ".".join(parts[:first])


def test_private_modules_are_imported_in_their_package_only():
    foreign = []
    for name, path in MODULES.items():
        for imported in written(path) & MODULES.keys():
            owner = private_owner(imported)
            if owner is not None and name != owner and not name.startswith(f"{owner}."):
                foreign.append(f"{name} imports {imported}, private to {owner}")
    assert not foreign


def test_numerical_layers_do_not_know_scikit_learn():
    numerical = [n for n in MODULES if n.count(".") and n.split(".")[1] in NO_SKLEARN]
    assert len(numerical) > 50
    for name in numerical:
        assert not [i for i in written(MODULES[name]) if i.split(".")[0] == "sklearn"], name


def test_nothing_is_imported_for_type_checkers_only():
    assert not [name for name, path in MODULES.items() if "TYPE_CHECKING" in path.read_text()]


def test_packages_that_load_lazily_have_every_name_of_their_stub():
    lazy = {path for path in ROOT.rglob("__init__.py") if "lazy(__name__" in path.read_text()}
    assert {path.with_suffix(".pyi") for path in lazy} == set(ROOT.rglob("__init__.pyi"))
    for path in lazy:
        package = import_module(".".join(path.relative_to(ROOT.parent).parent.parts))
        assert {*package.__all__} - {"__version__"} == stub_names(path.with_suffix(".pyi")).keys()
        if package.__name__ not in ("skdpfl.flower", "skdpfl.nvflare"):  # they may be missing
            assert all(hasattr(package, name) for name in package.__all__)
