"""The mutants of a source file, in a fixed order.

One operator, constant, factor, condition or call is changed at a time. What says something alone is
left as it is: docstrings, annotations, errors, assertions (``strict`` of ``zip`` is one) and the
texts of warnings. A mutant has a name, the lines that a test has to run to meet it, and the code to
put in place of the old one: that of a function, or of the whole module where the change is outside
of functions. It is known again by its file, function, statement and change, whatever its line.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]

COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.MatMult: ast.Add, ast.Pow: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change of one file: its path from the root, its number, what is changed and its lines."""

    file: str
    number: int
    key: str
    lines: tuple[int, ...]

    @property
    def name(self) -> str:
        """The key with the number of its line."""
        return f"{self.file}:{self.lines[0]}{self.key.removeprefix(self.file)}"


#: the function that a node is in, and its statement
Where = tuple[str, str]


@dataclass(frozen=True)
class Site:
    """A node and its place: field and index of its parent, function and statement."""

    parent: ast.AST
    field: str
    index: int | None
    child: ast.AST
    where: Where

    def put(self, what: ast.AST) -> None:
        """Put another node there."""
        if self.index is None:
            setattr(self.parent, self.field, what)
        else:
            getattr(self.parent, self.field)[self.index] = what


def mutants_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node is replaced by."""
    twin = copy.deepcopy(node)
    if isinstance(twin, ast.Compare) and type(twin.ops[0]) in COMPARED:
        twin.ops[0] = COMPARED[type(twin.ops[0])]()
        yield twin
    elif isinstance(twin, ast.BinOp) and type(twin.op) in COMPUTED:
        if isinstance(twin.op, ast.Mult | ast.Div):
            yield copy.deepcopy(twin.left)  # a factor is dropped
        twin.op = COMPUTED[type(twin.op)]()
        yield twin
    elif isinstance(twin, ast.BoolOp):
        twin.op = ast.Or() if isinstance(twin.op, ast.And) else ast.And()
        yield twin
    elif isinstance(twin, ast.UnaryOp) and isinstance(twin.op, ast.Not | ast.USub):
        yield twin.operand
    elif isinstance(twin, ast.Constant) and type(twin.value) in (int, float, bool):
        value = twin.value
        changed = not value if isinstance(value, bool) else value + 1 if value == 0 else 2 * value
        yield ast.Constant(changed)
    elif isinstance(twin, ast.If | ast.IfExp):
        twin.test = ast.copy_location(ast.UnaryOp(ast.Not(), twin.test), twin.test)
        yield twin
    elif isinstance(twin, ast.Expr) and isinstance(twin.value, ast.Call):
        yield ast.Pass()
    elif isinstance(twin, ast.AugAssign):
        twin.op = COMPUTED.get(type(twin.op), ast.Add)()
        yield twin


def _only_says(node: ast.AST) -> bool:
    """Whether a change of this node changes no more than what is said, or how it is checked."""
    if isinstance(node, ast.keyword):
        return node.arg in ("strict", "stacklevel")
    return isinstance(node, ast.Raise | ast.Assert)


def changed(node: ast.AST, where: Where = ("", "")) -> Iterator[Site]:
    """Yield all nodes in which a change matters, with their places."""
    warns = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for i, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or _only_says(child) or (warns and name == "args"):
                continue
            here = where
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                here = f"{where[0]}.{child.name}".lstrip("."), _first_line(child)
            elif isinstance(child, ast.stmt):
                here = where[0], _first_line(child)
            yield Site(node, name, i if isinstance(value, list) else None, child, here)
            yield from changed(child, here)


def _first_line(node: ast.AST) -> str:
    return next(x for x in ast.unparse(node).splitlines() if x[:1] != "@")[:80]


def sites(tree: ast.AST) -> Iterator[tuple[Site, ast.AST]]:
    """Yield (place, another node) of all mutants, in a fixed order."""
    for site in list(changed(tree)):
        for other in mutants_of(site.child):
            yield site, ast.copy_location(other, site.child)


def mutants_of_file(path: Path) -> list[Mutant]:
    """Return all mutants of a file."""
    file, found = str(path.relative_to(ROOT)), []
    times: Counter[str] = Counter()
    for number, (site, other) in enumerate(sites(ast.parse(path.read_text()))):
        child, (function, statement) = site.child, site.where
        before, after = _first_line(child), _first_line(other)
        met = child.test if isinstance(child, ast.If) else child
        lines = tuple(range(met.lineno, (met.end_lineno or met.lineno) + 1))  # type: ignore[attr-defined]
        key = f"{file} {function or 'module'}: {before} -> {after}"
        key += "" if statement == before else f" (in: {statement})"
        times[key] += 1
        key += f" #{times[key]}" if times[key] > 1 else ""
        found.append(Mutant(file, number, key, lines))
    return found


@cache
def _old(file: str) -> CodeType:
    path = ROOT / file
    return compile(path.read_text(), str(path), "exec", dont_inherit=True)


def module_code(mutant: Mutant) -> CodeType:
    """Return the code of the changed module."""
    path = ROOT / mutant.file
    tree = ast.parse(path.read_text())
    site, other = next(islice(sites(tree), mutant.number, None))
    site.put(other)
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def function_codes(mutant: Mutant) -> list[tuple[CodeType, CodeType]] | None:
    """Return (old, new) codes of functions; None where the change is outside of them."""
    return _differing(_old(mutant.file), module_code(mutant))


def _differing(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    if old == new:
        return []
    if old.co_flags & inspect.CO_OPTIMIZED:  # a function's
        return [(old, new)] if old.co_freevars == new.co_freevars else None
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    flat = [
        (code.co_code, code.co_names, [c for c in code.co_consts if not isinstance(c, CodeType)])
        for code in (old, new)
    ]
    if repr(flat[0]) != repr(flat[1]) or len(inner[0]) != len(inner[1]):
        return None
    found = []
    for a, b in zip(*inner, strict=True):
        pairs = _differing(a, b)
        if pairs is None:
            return None
        found += pairs
    return found
