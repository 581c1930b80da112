"""Mutation testing: ``python benchmarks/mutants.py --sample 40 [--seed 0] [--only privacy]``.

Changes one operator, constant, factor, condition or call at a time in ``skdpfl/privacy``,
``federation``, ``models`` and ``engine.py``, and runs the fast tests of the folder that belongs to
it, in a copy of the tree. A mutant is killed if they fail. Survivors that change
nothing are listed with reasons in ``benchmarks/mutants_equivalent.txt`` and left out; of the
others, 95 % have to die. ``--file PATH`` takes all mutants of one file.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: what is changed, and the fast tests that have to notice
FOLDERS = {
    "skdpfl/privacy": ["tests/privacy"],
    "skdpfl/federation": ["tests/federation"],
    "skdpfl/engine.py": ["tests/engine"],
    "skdpfl/models": ["tests/test_models.py", "tests/models"],
}
EQUIVALENT = ROOT / "benchmarks" / "mutants_equivalent.txt"
#: numbers as published, compared with the papers' tables by tests of their own
LEFT_OUT = ("published/",)

COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.MatMult: ast.Add, ast.Pow: ast.Mult,
}  # fmt: skip


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
        twin.test = ast.UnaryOp(ast.Not(), twin.test)
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
            yield put, child, other


def names_of(path: Path) -> list[str]:
    """Return the names of all mutants of a file."""
    names = []
    for _, child, other in sites(ast.parse(path.read_text())):
        before, after = (ast.unparse(n).splitlines()[0][:80] for n in (child, other))
        where = f"{path.relative_to(ROOT)}:{getattr(child, 'lineno', 0)}"
        names.append(f"{where}: {before} -> {after}")
    return names


def source_of(path: Path, number: int) -> str:
    """Return the source of one mutant of a file."""
    tree = ast.parse(path.read_text())
    put, _, other = next(islice(sites(tree), number, None))
    put(other)
    return ast.unparse(ast.fix_missing_locations(tree))


def tests_for(path: Path) -> list[str]:
    """Return the test files of a source file's folder, those of a like name first."""
    folder = next(f for f in FOLDERS if str(path.relative_to(ROOT)).startswith(f))
    files: list[Path] = []
    for place in FOLDERS[folder]:
        where = ROOT / place
        files += sorted(where.rglob("test_*.py")) if where.is_dir() else [where]
    files = [f for f in files if f.exists()]
    stem = path.stem.strip("_")
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)

    def rank(file: Path) -> tuple[bool, bool]:
        return stem not in file.stem, module not in file.read_text()

    return [str(f.relative_to(ROOT)) for f in sorted(files, key=rank)]


def verdict(copied: Path, path: Path, source: str, limit: float) -> tuple[str, float]:
    """Run the tests on a mutant; return killed, timeout or survived, and the seconds."""
    target, start = copied / path.relative_to(ROOT), time.monotonic()
    target.write_text(source)
    env = os.environ | {"PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider",
               "-m", "not slow", *tests_for(path)]  # fmt: skip
    try:
        run = subprocess.run(command, cwd=copied, env=env, timeout=limit, capture_output=True,
                             check=False)  # fmt: skip
        found = "survived" if run.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        found = "timeout"
    finally:
        shutil.copy(path, target)
    return found, time.monotonic() - start


def known_equivalents() -> set[str]:
    """Return the names of mutants that change nothing."""
    if not EQUIVALENT.exists():
        return set()
    lines = EQUIVALENT.read_text().splitlines()
    return {line.split(" | ")[0] for line in lines if " | " in line and not line.startswith("#")}


def without_line(name: str) -> str:
    """Return a mutant's name without the number of its line."""
    where, rest = name.split(": ", 1)
    return f"{where.rsplit(':', 1)[0]}: {rest}"


def main() -> int:
    """Print each mutant's verdict, and the share that died."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of the path")
    parser.add_argument("--file")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a mutant")
    args = parser.parse_args()
    paths = [ROOT / args.file] if args.file else []
    for folder in () if args.file else FOLDERS:
        place = ROOT / folder
        paths += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    named = {without_line(name) for name in known_equivalents()}
    every = [
        (path, number, name)
        for path in paths
        if args.only in str(path) and not any(part in str(path) for part in LEFT_OUT)
        for number, name in enumerate(names_of(path))
        if without_line(name) not in named
    ]
    chosen = every if args.file else random.Random(args.seed).sample(every, args.sample)
    counts = dict.fromkeys(("killed", "timeout", "survived"), 0)
    print(f"{len(every)} mutants, {len(chosen)} of them run", flush=True)
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place)
        for name in ("skdpfl", "tests", "benchmarks", "examples", "docs"):
            shutil.copytree(ROOT / name, copied / name)
        for name in ("pyproject.toml", "setup.py", "README.md"):
            shutil.copy(ROOT / name, copied / name)
        for path, number, name in chosen:
            found, seconds = verdict(copied, path, source_of(path, number), args.limit)
            counts[found] += 1
            print(f"{found:8} {seconds:4.0f} s  {name}", flush=True)
    judged = counts["killed"] + counts["survived"]
    print(f"{counts['killed']} of {judged} died; {counts['timeout']} ran out of time")
    return int(counts["killed"] < 0.95 * judged)


if __name__ == "__main__":
    sys.exit(main())
