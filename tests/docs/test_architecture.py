"""Names on the pages on architecture and extensions are those of the code."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(p.name for p in (ROOT / "skdpfl").iterdir() if (p / "__init__.py").exists())
PAGE = (ROOT / "docs/architecture.md").read_text()


def test_every_package_is_on_the_page_and_in_the_picture():
    for name in [n for n in PACKAGES if not n.startswith("_")]:
        assert f"`{name}`" in PAGE, name
        assert f">{name}<" in (ROOT / "docs/_static/architecture.svg").read_text()


def test_files_that_the_page_names_exist():
    for word in PAGE.replace("`", " ").split():
        if word.endswith((".py", "/")):
            assert (ROOT / word).exists() or (ROOT / "skdpfl" / word).exists(), word


def names_in_code(node, found):
    """Collect the attributes and methods that the source of a class, or of a module, defines."""
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            found.add(child.name)
            found.update(a.arg for a in getattr(getattr(child, "args", None), "args", []))
            found.update(a.arg for a in getattr(getattr(child, "args", None), "kwonlyargs", []))
        elif isinstance(child, ast.AnnAssign | ast.Assign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            found.update(t.id for t in targets if isinstance(t, ast.Name))
            found.update(t.attr for t in targets if isinstance(t, ast.Attribute))
    return found


def test_the_names_of_the_page_on_extensions_are_those_of_the_code():
    page = (ROOT / "docs/extending.md").read_text()
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    prose = re.sub(r"\{\w+\}`[^`]*`", "", prose)
    said = {name for quoted in re.findall(r"`([^`\n]+)`", prose) for name in [quoted.split("=")[0]]}
    said = {name.strip() for name in said if re.fullmatch(r"[A-Za-z_]\w*\s*", name)}
    known = set()
    for path in (ROOT / "skdpfl").rglob("*.py"):
        names_in_code(ast.parse(path.read_text()), known)
    assert len(said) > 20
    assert not said - known
    shown = re.findall(r"\{literalinclude\} (\S+)\n:pyobject: (\S+)", page)
    assert len(shown) > 8
    for file, name in shown:
        source = (ROOT / "docs" / file).read_text()
        assert re.search(rf"^\s*(class|def) {name.split('.')[-1]}\b", source, re.MULTILINE), name
