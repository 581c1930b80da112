"""The API reference is complete: every public name documents what a caller has to know.

The rules are numpydoc's; what the pages list is read from ``docs/api.rst``.
"""

import ast
import importlib
import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

import skdpfl
from tests.estimators.fits import ESTIMATORS, data, make

PAGE = Path(__file__).parents[2] / "docs" / "api.rst"
LISTED = re.findall(r"^   ([a-z_A-Z0-9.]+)$", PAGE.read_text(), re.MULTILINE)
#: those that are importable here
NAMES = [n for n in LISTED if find_spec("torch") or not n.startswith("torch.")]
#: for those who extend
BLOCKS = ("algorithms.", "losses.", "models.", "federation.", "engine.", "exceptions.", "remote.")
USED = [name for name in NAMES if not name.startswith(BLOCKS)]
#: what needs no extra
HERE = [name for name in USED if not name.startswith("torch.")]
MODULES = (
    "skdpfl",
    "skdpfl.privacy",
    "skdpfl.model_selection",
    "skdpfl.preprocessing",
    "skdpfl.inspection",
    "skdpfl.datasets",
)


def find(name):
    owner, _, last = f"skdpfl.{name}".rpartition(".")
    return getattr(importlib.import_module(owner), last)


def documented_names(doc):
    """Return the names before a colon, or alone on a line, in the sections of a docstring."""
    lines = re.findall(r"^(\*{0,2}\w+(?:, \w+)*)(?: :.*)?$", doc, re.MULTILINE)
    return {name.strip("* ") for line in lines for name in line.split(",")}


def parameters(obj):
    found = inspect.signature(obj).parameters.values()
    return [p for p in found if p.name not in ("self", "args", "kwargs")]


def own_methods(cls):
    """Yield the public methods that were written here, not by scikit-learn."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        ours = (method.__module__ or "").startswith("skdpfl")
        if ours and not name.startswith("_") and not name.endswith("_request"):
            yield name, method


def test_every_public_name_has_a_page():
    here = {
        "__version__",
        "inspection.privacy_spent",
        "inspection.report",
        "inspection.Heterogeneity",
        "DPCalibratedClassifier",  # in model_selection
        "DPThresholdClassifier",
    }
    for module in map(importlib.import_module, MODULES):
        prefix = module.__name__.removeprefix("skdpfl").lstrip(".")
        for name in module.__all__:
            if inspect.ismodule(getattr(module, name)):
                continue
            full = f"{prefix}.{name}" if prefix else name
            assert full in {*LISTED, *here}, f"{full} is missing in docs/api.rst"


def test_parameters_are_documented():
    for name in NAMES:
        obj = find(name)
        assert inspect.getdoc(obj)
        if issubclass(obj, Exception) if inspect.isclass(obj) else False:
            continue
        known = documented_names(inspect.getdoc(obj))
        if name not in ("privacy.PrivacySpent", "algorithms.Released", "algorithms.Ball"):
            missing = [p.name for p in parameters(obj) if p.name not in known]
            assert not missing, f"{name}: {missing} not documented"


def test_what_a_user_calls_has_examples_and_links():
    for name in USED:
        doc = inspect.getdoc(find(name))
        for section in ("Examples", "See Also"):
            assert re.search(rf"^{section}\n-+$", doc, re.MULTILINE), f"{name}: no {section}"


def test_documented_defaults_are_those_of_the_signature():
    for name in NAMES:
        obj = find(name)
        for each in (obj, *(m for _, m in own_methods(obj) if inspect.isclass(obj))):
            listed = re.findall(
                r"^(.+) : .*default=(.+)$", inspect.getdoc(each) or "", re.MULTILINE
            )
            for names, said in listed:
                for parameter in names.split(", "):
                    default = inspect.signature(each).parameters[parameter].default
                    if repr(default) == "<factory>":
                        continue
                    try:
                        assert ast.literal_eval(said) == default, parameter
                    except ValueError:  # a name
                        assert said in (repr(default), getattr(default, "__name__", ""))


def test_functions_say_what_they_return_and_are_typed():
    for name in [n for n in HERE if inspect.isfunction(find(n))]:
        function = find(name)
        assert re.search(r"^(Returns|Yields)\n-+$", inspect.getdoc(function), re.MULTILINE)
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not p.empty for p in signature.parameters.values())


def test_methods_are_documented_and_typed():
    for name in [n for n in HERE if inspect.isclass(find(n))]:
        for method_name, method in own_methods(find(name)):
            doc, where = inspect.getdoc(method) or "", f"{name}.{method_name}"
            assert doc, f"{where} has no docstring"
            if name == "privacy.PrivacyPlan" and method_name not in ("spent", "calibrated"):
                continue  # the engine's side of the plan
            missing = [p.name for p in parameters(method) if p.name not in documented_names(doc)]
            assert not missing, f"{where}: {missing} not documented"
            untyped = [p.name for p in parameters(method) if p.annotation is p.empty]
            assert not untyped, f"{where}: {untyped} without types"


def test_estimators_say_what_is_promised_and_what_is_fitted():
    for name in ESTIMATORS:
        doc = inspect.getdoc(getattr(skdpfl, name))
        assert "**Formal guarantee.**" in doc
        order = [
            doc.index(f"\n{s}\n---") for s in ("Parameters", "Attributes", "See Also", "Notes")
        ]
        assert order == sorted(order)
        for fitted in ("coef_", "privacy_spent_", "plan_", "n_rounds_", "silo_ids_"):
            assert re.search(rf"^{fitted} :", doc, re.MULTILINE)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # four silos are few where they are hidden
def test_fitted_attributes_are_those_documented(name):
    X, y, silos = data(name, n=40)
    fitted = make(name, n_rounds=2).fit(pd.DataFrame(X).add_prefix("x"), y, silos=silos)
    here = {attribute for attribute in vars(fitted) if re.fullmatch(r"[a-z]\w+_", attribute)}
    listed = inspect.getdoc(type(fitted)).split("Attributes\n---")[1].split("See Also\n---")[0]
    said = set(re.findall(r"^(\w+_) :", listed, re.MULTILINE))
    of_options = {"coefs_", "intercepts_", "coef_estimate_", "coef_covariance_"}
    assert here == said - of_options  # of networks and intervals


def test_documented_choices_are_those_accepted():
    for name in ESTIMATORS:
        cls = getattr(skdpfl, name)
        for parameter, accepted in (("loss", cls._losses), ("trust", cls._trusts)):
            listed = re.search(
                rf"^{parameter} : {{(.*?)}}.*, default=(.*)$", cls.__doc__, re.MULTILINE
            )
            assert tuple(re.findall(r'"(\w+)"', listed[1])) == accepted
            assert listed[2] == f'"{inspect.signature(cls).parameters[parameter].default}"'


def test_pages_show_docstrings_of_modules_that_exist():
    named = re.findall(
        r"^\.\. docstring:: (\S+)$", PAGE.with_name("proofs.rst").read_text(), re.MULTILINE
    )
    assert len(named) > 20
    for name in named:
        assert len(importlib.import_module(name).__doc__ or "") > 200, name
