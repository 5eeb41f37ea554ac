"""linspec and its plugins do not grow, and do not become denser."""

from __future__ import annotations

from pathlib import Path

from project.size import DENSEST, ceiling, size_of, total


def test_docstrings_comments_and_lines_are_no_statements():
    source = '"""Title."""\n\n\ndef f(x):\n    """Doc."""\n    # a comment\n    return (\n        x\n    )\n'
    assert size_of(source) == size_of("def f(x): return x")
    assert size_of(source).statements == 2


def test_the_size_is_at_most_the_ceiling_which_follows_it():
    now, limits = total(), ceiling()
    assert now.statements <= limits["statements"], "take a mechanism out before another comes in"
    assert now.nodes <= limits["nodes"]
    assert now.nodes <= DENSEST * now.statements
    lower = "lower the ceiling: python tests/project/size.py --record"
    assert now.statements >= 0.99 * limits["statements"], lower


def test_a_statement_more_counts(tmp_path: Path):
    folder = tmp_path / "linspec" / "solving"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("x = 1\n", "utf-8")
    before = total(tmp_path)
    (folder / "b.py").write_text("x = 1\ny = 2\n", "utf-8")
    assert total(tmp_path).statements == before.statements + 2
