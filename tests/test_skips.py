"""A skipped test is not a passed one: the closing summary counts them by reason."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

from backends import Backend

from tests.conftest import backends_that_are_missing, skips_by_reason

TESTS = Path(__file__).parent


def test_skips_are_counted_by_their_reasons():
    reports = [
        SimpleNamespace(longrepr=("test_a.py", 3, "Skipped: no cupy")),
        SimpleNamespace(longrepr=("test_b.py", 9, "Skipped: no cupy")),
        SimpleNamespace(longrepr=("test_c.py", 1, "Skipped: the solver needs entries")),
        SimpleNamespace(longrepr=("test_d.py", 1, "Skipped")),
    ]
    assert skips_by_reason(reports) == {"no cupy": 2, "the solver needs entries": 1, "no reason": 1}


def test_the_closing_line_names_the_backends_that_nothing_ran_on(monkeypatch):
    absent = Backend(name="absent", wrap=abs, missing=lambda: "no absent")
    present = Backend(name="present", wrap=abs)
    monkeypatch.setattr("backends.BACKENDS", (present, absent))
    assert backends_that_are_missing() == "backends without a test: absent (no absent)"
    monkeypatch.setattr("backends.BACKENDS", (present,))
    assert backends_that_are_missing() == "backends without a test: none"


def test_every_skip_has_a_reason():
    for path in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        made = [call.func for call in calls]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.skip":
                assert any(node is function for function in made), (
                    f"{path}:{node.lineno}: a mark without reason="
                )
        for call in calls:
            name = ast.unparse(call.func)
            if name in {"pytest.mark.skip", "pytest.mark.skipif", "pytest.skip", "unittest.skip"}:
                given = call.args[0] if name == "pytest.skip" and call.args else None
                reasons = [key.value for key in call.keywords if key.arg == "reason"] + [given] * (
                    given is not None
                )
                assert reasons, f"{path}:{call.lineno}: {name} needs a reason"
                assert not any(isinstance(text, ast.Constant) and not text.value for text in reasons), path
