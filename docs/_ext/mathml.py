"""Formulas as MathML, written into the pages when they are built.

Browsers show MathML by themselves, so a page needs no script and no network. The translation is
docutils' own.
"""

from docutils import nodes
from docutils.utils.math import latex2mathml


def visit_inline(translator, node):
    """Write a formula in a line of text."""
    translator.body.append(f'<span class="math">{mathml(node, as_block=False)}</span>')
    raise nodes.SkipNode


def visit_block(translator, node):
    """Write a formula in a line of its own."""
    translator.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def mathml(node, as_block):
    """Translate one formula; what docutils cannot translate is an error of the build."""
    # no line breaks: white space between the tags would show in some browsers
    lines = latex2mathml.tex2mathml(node.astext(), as_block=as_block).splitlines()
    return "".join(line.strip() for line in lines)


def setup(app):
    """Register the renderer; `html_math_renderer = "mathml"` chooses it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
