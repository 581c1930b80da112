"""A directive that shows a module's name, a target of links, and its docstring, word for word.

::

    .. docstring:: skdpfl.privacy.sampling
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


def setup(app):
    """Register the directive."""
    app.add_directive("docstring", Docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
