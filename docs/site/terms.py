"""The first use of each term of the glossary on a page leads to its definition.

Problem: links to a glossary that are set by hand are missing on the page that was written last.
Method: when Sphinx has read a page of Start or Guide, the first words of the text that are a form of a term become a
reference to it. Code, titles, formulas and what is a link already stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

FORMS = {
    "certificate": r"[Cc]ertificates?",
    "component": r"[Cc]omponents?",
    "confounds": r"[Cc]onfounds?",
    "device": r"(?<=library and )device",
    "held Gram matrix": r"held Gram matri(?:x|ces)",
    "Gram matrix": r"Gram matri(?:x|ces)",
    "loadings": r"[Ll]oadings",
    "moments": r"[Mm]oments",
    "operator": r"[Oo]perators?",
    "pass": r"(?<=[Oo]ne )pass|(?<=\ba )pass|(?<=each )pass|(?<=every )pass|(?<=two )passes|(?<=the )passes",
    "residual": r"[Rr]esidual",
    "ridge": r"[Rr]idges?",
    "slices": r"[Ss]lices",
    "status": r"[Ss]tatus",
    "trait": r"[Tt]raits?",
    "variates": r"[Vv]ariates?",
    "view": r"[Vv]iews?",
    "weights": r"[Cc]anonical weights|(?<![Ss]ample )(?<!and )[Ww]eights (?=and|of)",
}
"""The forms in which each term stands in the text."""

FOLDERS = ("start/", "guide/", "problems/")
APART = (nodes.title, nodes.literal, nodes.reference, nodes.math, addnodes.pending_xref, nodes.literal_block)


def texts(page: nodes.document) -> Iterator[nodes.Text]:
    """The running text of a page."""
    for text in page.findall(nodes.Text):
        node = text.parent
        while node is not None and not isinstance(node, APART):
            node = node.parent
        if node is None:
            yield text


def link_first_uses(page: nodes.document, name: str) -> set[str]:
    """Make references of the first uses of terms, and return the terms."""
    found = set()
    for term, forms in FORMS.items():
        pattern = re.compile(rf"\b(?:{forms})\b")
        for text in texts(page):
            if match := pattern.search(text):
                found.add(term)
                before, after = str(text[: match.start()]), str(text[match.end() :])
                link = addnodes.pending_xref("", refdomain="std", reftype="term", reftarget=term, refdoc=name,
                                             refexplicit=True, refwarn=True, classes=["term"])  # fmt: skip
                link += nodes.inline("", match[0], classes=["xref", "std", "std-term"])
                pieces = [nodes.Text(before), link, nodes.Text(after)]
                text.parent.replace(text, [piece for piece in pieces if piece.astext()])
                break
    return found


def on_reading(app: Sphinx, page: nodes.document) -> None:
    """Link the terms of the pages for users."""
    if app.env.docname.startswith(FOLDERS):
        link_first_uses(page, app.env.docname)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("doctree-read", on_reading)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
