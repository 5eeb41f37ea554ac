"""The public surface is the recorded one: a change of the interface is made on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from project.public_surface import FOR_ALL, FOR_AUTHORS, RECORD, lines


def test_the_surface_is_the_recorded_one() -> None:
    """`python tests/project/public_surface.py --record` after a change, with a line in the changelog."""
    found, recorded = lines(), RECORD.read_text(encoding="utf-8").splitlines()
    assert sorted(set(recorded) - set(found)) == []
    assert sorted(set(found) - set(recorded)) == []


def test_the_page_of_stability_names_the_same_modules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "about" / "stability.md").read_text(encoding="utf-8")
    for row, names in (("everybody", FOR_ALL), ("authors of plugins", FOR_AUTHORS)):
        listed = ", ".join([f"`linspec.{names[0]}`", *(f"`.{name}`" for name in names[1:])])
        assert f"| {listed}" in page, row
