"""Mathematics as MathML: browsers draw it themselves, so pages need no script and no network.

Problem: MathJax is a script of megabytes, which readers fetch with every page that has a formula.
Method: docutils turns LaTeX into MathML; Sphinx asks this renderer instead of MathJax.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line; its text is not visited."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
