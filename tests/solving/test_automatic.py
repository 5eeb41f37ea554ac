"""What "auto" chooses: another solver where one falls short, one that fits, and what is recorded."""

from __future__ import annotations

import json

from choices import FILE, MEMORY, choices

from linspec.process import machine


def test_choices_are_those_that_are_recorded(monkeypatch):
    """A table that reviewers read: it does not say that a choice is right, only that it has changed."""
    monkeypatch.setattr(machine, "available_memory", lambda: MEMORY)
    recorded, found = json.loads(FILE.read_text(encoding="utf-8")), choices()
    changed = {
        label: (recorded.get(label), found.get(label))
        for label in {*recorded, *found}
        if recorded.get(label) != found.get(label)
    }
    assert not changed, (
        f"what auto chooses has changed (before, now): {changed}. If that is meant, run python tests/choices.py: "
        "changes need a changelog line."
    )
