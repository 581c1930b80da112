"""The mutants of a source file, in a fixed order.

One operator, constant, factor, condition or call is changed at a time. A mutant has a name, the
lines that a test has to run to meet it, and the code to put in place of the old one: that of a
function, or of the whole module where the change is outside of functions.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterator
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
    """A change of one file: its path from the root, its number, its name and its lines."""

    file: str
    number: int
    name: str
    lines: tuple[int, ...]

    @property
    def key(self) -> str:
        """The name without the number of the line."""
        return without_line(self.name)


def without_line(name: str) -> str:
    """Return a mutant's name without the number of its line."""
    where, rest = name.split(": ", 1)
    return f"{where.rsplit(':', 1)[0]}: {rest}"


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


def changed(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield (parent, field, index, child) of all nodes in which a change matters."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for i, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.Assert):
                continue
            yield node, name, i if isinstance(value, list) else None, child
            yield from changed(child)


def sites(tree: ast.AST) -> Iterator[tuple[Callable[[ast.AST], None], ast.AST, ast.AST]]:
    """Yield (how to replace it, node, another node) of all mutants, in a fixed order."""
    for parent, field, index, child in list(changed(tree)):

        def put(what: ast.AST, at=(parent, field, index)) -> None:
            if at[2] is None:
                setattr(at[0], at[1], what)
            else:
                getattr(at[0], at[1])[at[2]] = what

        for other in mutants_of(child):
            yield put, child, ast.copy_location(other, child)


def mutants_of_file(path: Path) -> list[Mutant]:
    """Return all mutants of a file."""
    file, found = str(path.relative_to(ROOT)), []
    for number, (_, child, other) in enumerate(sites(ast.parse(path.read_text()))):
        before, after = (ast.unparse(n).splitlines()[0][:80] for n in (child, other))
        met = child.test if isinstance(child, ast.If) else child
        lines = tuple(range(met.lineno, (met.end_lineno or met.lineno) + 1))  # type: ignore[attr-defined]
        name = f"{file}:{lines[0]}: {before} -> {after}"
        found.append(Mutant(file, number, name, lines))
    return found


@cache
def _old(file: str) -> CodeType:
    path = ROOT / file
    return compile(path.read_text(), str(path), "exec", dont_inherit=True)


def module_code(mutant: Mutant) -> CodeType:
    """Return the code of the changed module."""
    path = ROOT / mutant.file
    tree = ast.parse(path.read_text())
    put, _, other = next(islice(sites(tree), mutant.number, None))
    put(other)
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
