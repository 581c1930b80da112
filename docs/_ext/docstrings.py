"""Directives that show a module's name and docstring, or the constants of modules, word for word.

::

    .. docstring:: skdpfl.privacy.sampling
    .. constants:: skdpfl.models._rules skdpfl.scaling._choice
"""

import ast
import importlib.util
import re
import textwrap
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROLE = re.compile(r":\w+:`~?([^`]+)`")
HEADING = re.compile(r"^(.+)\n-{4,}\n?")
ITEM = re.compile(r"^\s{0,3}(- |\d\. |\.\. \[)", re.MULTILINE)
MARKED = re.compile(r"``(.+?)``|\*\*(.+?)\*\*|\*(\S(?:.*?\S)?)\*(?!\w)", re.DOTALL)


def blocks(text):
    """Yield ("heading" | "code" | "text", its lines) for a docstring."""
    for block in re.split(r"\n\s*\n", text):
        heading = HEADING.match(block)
        if heading:
            yield "heading", heading[1]
            block = block[heading.end() :]
        if not block.strip() or block.strip() == "::":
            continue
        if all(line.startswith("    ") for line in block.splitlines()):
            yield "code", textwrap.dedent(block)
        else:
            yield from (("text", item) for item in items(block))


def items(block):
    """Cut a paragraph where list items or references begin."""
    starts = sorted({0, *(m.start() for m in ITEM.finditer(block))})
    for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
        if block[start:end].strip():
            yield re.sub(r"\s*::$", ":", " ".join(block[start:end].split()))


def paragraph(text):
    """Return a paragraph with its code, strong and emphasised words."""
    node, at = nodes.paragraph(), 0
    text = re.sub(r"\[(\d)\]_", r"[\1]", text.removeprefix(".. "))
    for mark in MARKED.finditer(text):
        node += nodes.Text(text[at : mark.start()])
        kinds = (nodes.literal, nodes.strong, nodes.emphasis)
        kind, words = next((k, w) for k, w in zip(kinds, mark.groups(), strict=True) if w)
        node += kind(words, words)
        at = mark.end()
    node += nodes.Text(text[at:])
    return node


class Docstring(SphinxDirective):
    """The docstring of a module."""

    required_arguments = 1

    def run(self):
        """Return its blocks."""
        file = importlib.util.find_spec(self.arguments[0]).origin
        self.env.note_dependency(file)
        text = ROLE.sub(r"``\1``", ast.get_docstring(ast.parse(Path(file).read_text())))
        make = {
            "heading": lambda words: nodes.rubric(words, words),
            "code": lambda words: nodes.literal_block(words, words, language="none"),
            "text": paragraph,
        }
        name = self.parse_text_to_nodes(
            f".. py:module:: {self.arguments[0]}\n\n``{self.arguments[0]}``"
        )
        return [*name, *(make[kind](words) for kind, words in blocks(text))]


def constants(source):
    """Yield names, comment (``#:``) and code of constants; those on the next line share it."""
    lines, found = source.splitlines(), []
    for name, first, last in sorted(assignments(ast.parse(source).body), key=lambda each: each[1]):
        above = first - 1
        while above and lines[above - 1].lstrip().startswith("#:"):
            above -= 1
        words = " ".join(line.strip()[2:].strip() for line in lines[above : first - 1])
        code = " ".join(" ".join(lines[first - 1 : last]).split()).split(" # ")[0]
        if not words and found and found[-1][-1] == first - 1:
            before, words, earlier, _ = found.pop()
            name, code = f"{before}, {name}", f"{earlier}; {code}"
        found.append((name, words, code, last))
    return [(name, words, code) for name, words, code, _ in found]


def assignments(body, inside=""):
    """Yield the names and lines of constants of a module, and of commented ones of its classes."""
    for part in body:
        if isinstance(part, ast.ClassDef):
            yield from assignments(part.body, f"{part.name}.")
        elif isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
            numbers = (each for each in ast.walk(part.value) if isinstance(each, ast.Constant))
            if any(type(each.value) in (int, float) for each in numbers):
                yield inside + ", ".join(names), part.lineno, part.end_lineno


class Constants(SphinxDirective):
    """The numbers of modules, each with its comment."""

    required_arguments, optional_arguments, final_argument_whitespace = 1, 0, True

    def run(self):
        """Return a list for each module."""
        return [node for module in self.arguments[0].split() for node in self.of(module)]

    def of(self, module):
        """Return a module's name and list."""
        file = importlib.util.find_spec(module).origin
        self.env.note_dependency(file)
        found = nodes.bullet_list()
        for _, words, code in constants(Path(file).read_text()):
            if words:
                item = paragraph(f": {words}")
                item.insert(0, nodes.literal(code, code))
                found += nodes.list_item("", item)
        return [nodes.rubric(module, module), found]


def setup(app):
    """Register the directives."""
    app.add_directive("docstring", Docstring)
    app.add_directive("constants", Constants)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
