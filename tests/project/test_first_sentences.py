"""The rules for first sentences: each finds a sentence that breaks it, and leaves a plain one alone."""

from __future__ import annotations

import pytest
from project.first_sentences import RULES, findings

BROKEN = {
    "What a pass returns.": "begin with",
    "Of every column: its mean.": "begin with",
    "So that no pass is wasted.": "begin with",
    "That of the other view.": "begin with",
    "Both together.": "begin with",
    "The same for sparse rows.": "begin with",
    "Mean that is told to the caller.": "report",
    "Count that tells when to stop.": "report",
    "Rows with their means taken out.": "centred",
    "Read so many rows.": "the number",
    "Room that is to be had.": "available",
    "Triangle, if it can be had.": "available",
    "Columns, of which there are k.": "two sentences",
}
GOOD = (
    "Return the column means of the rows read so far.",
    "Offset of the first row; what follows may be of any length.",
    "Bothersome names are no matter. So many later sentences are free.",
    "Rows of A.\n\nThe same for B, told elsewhere.",
)
PLACES = (
    '"""{0}"""',
    'def f():\n    """{0}"""',
    'class A:\n    """A."""\n    async def f(self):\n        """{0}"""',
    'K = 1\n"""{0}"""',
    'class A:\n    """A."""\n    k: int = 1\n    """{0}"""',
)


@pytest.mark.parametrize("place", PLACES)
def test_a_sentence_that_breaks_a_rule_is_found_once_with_its_line_and_advice(place: str) -> None:
    for sentence, advice in BROKEN.items():
        source = place.format(sentence)
        (found,) = findings(source)
        assert found.sentence == sentence
        assert sentence in source.splitlines()[found.line - 1]
        assert advice in found.advice
    assert [findings(place.format(text)) for text in GOOD] == [[]] * len(GOOD)


def test_each_rule_is_broken_by_a_sentence_and_other_texts_are_not_read() -> None:
    assert {advice for sentence in BROKEN for _, _, advice in findings(f'"""{sentence}"""')} == set(RULES)
    assert findings('f("What a text.")\nx = "Of a value."\n# That of a comment.\n') == []
