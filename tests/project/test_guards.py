"""What guards the repository: size only falls, first sentences are plain, the public surface is as recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from project.first_sentences import RULES, findings
from project.size import DENSEST, ceiling, size_of, total


def test_the_size_is_at_most_the_ceiling_which_follows_it():
    now, limits = total(), ceiling()
    assert now.statements <= limits["statements"], "take a mechanism out before another comes in"
    assert now.nodes <= min(limits["nodes"], DENSEST * now.statements)
    lower = "lower the ceiling: python tests/project/size.py --record"
    assert now.statements >= 0.99 * limits["statements"], lower


def test_statements_are_counted_and_not_lines_comments_and_docstrings(tmp_path: Path):
    source = '"""Title."""\n\n\ndef f(x):\n    """Doc."""\n    # a comment\n    return (\n        x\n    )\n'
    assert size_of(source) == size_of("def f(x): return x")
    folder = tmp_path / "linspec" / "solving"
    folder.mkdir(parents=True)
    for name, count in (("a.py", 2), ("b.py", 4)):
        (folder / name).write_text(source, "utf-8")
        assert total(tmp_path).statements == count


BROKEN = {
    "What a pass returns.": "begin with",
    "So that no pass is wasted.": "begin with",
    "The same for sparse rows.": "begin with",
    "Count that tells when to stop.": "report",
    "Rows with their means taken out.": "centred",
    "Read so many rows.": "the number",
    "Triangle, if it can be had.": "available",
    "Columns, of which there are k.": "two sentences",
}
GOOD = (
    "Return the column means of the rows read so far.",
    "Offset of the first row; what follows may be of any length.",
    "Bothersome names are no matter. So many later sentences are free.",
    "Rows of A.\n\nThe same for B, told elsewhere.",
)


@pytest.mark.parametrize(
    "place",
    [
        '"""{0}"""',
        'def f():\n    """{0}"""',
        'class A:\n    """A."""\n    async def f(self):\n        """{0}"""',
        'K = 1\n"""{0}"""',
        'class A:\n    """A."""\n    k: int = 1\n    """{0}"""',
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found_once_with_its_line_and_advice(place):
    broken = set()
    for sentence, advice in BROKEN.items():
        source = place.format(sentence)
        (found,) = findings(source)
        assert found.sentence == sentence
        assert sentence in source.splitlines()[found.line - 1]
        assert advice in found.advice
        broken.add(found.advice)
    assert broken == set(RULES)
    others = ('f("What a text.")\nx = "Of a value."\n# That of a comment.\n', *map(place.format, GOOD))
    assert not any(map(findings, others))


def test_the_public_surface_is_the_recorded_one():
    """`python tests/project/public_surface.py --record` after a change, with a line in the changelog."""
    pytest.importorskip("click")
    pytest.importorskip("sklearn")
    from project.public_surface import FOR_ALL, FOR_AUTHORS, RECORD, lines

    found, recorded = lines(), RECORD.read_text(encoding="utf-8").splitlines()
    assert sorted(set(recorded) - set(found)) == []
    assert sorted(set(found) - set(recorded)) == []
    page = (Path(__file__).parents[2] / "docs" / "about" / "stability.md").read_text(encoding="utf-8")
    for row, names in (("everybody", FOR_ALL), ("authors of plugins", FOR_AUTHORS)):
        assert f"| `linspec.{names[0]}`, " + ", ".join(f"`.{name}`" for name in names[1:]) in page, row
