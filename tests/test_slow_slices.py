"""Every case of a slow test runs in the suite or in one of the slices."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import pytest_collection_modifyitems


@dataclass(eq=False)
class Item:
    """The attributes of a test that are read while tests are collected."""

    nodeid: str
    marks: list[Any]
    added: list[Any] = field(default_factory=list)

    def iter_markers(self, name: str) -> list[Any]:
        return [mark for mark in self.marks if mark.name == name]

    def get_closest_marker(self, name: str) -> Any:
        return next(iter(self.iter_markers(name)), None)

    def add_marker(self, marker: Any) -> None:
        self.added.append(marker)


def cases() -> list[Any]:
    kept, slow = pytest.mark.slow(keep=3).mark, pytest.mark.slow.mark
    return [
        *[Item(f"a.py::test_kept[{i}]", [kept]) for i in range(10)],
        *[Item(f"a.py::test_few[{i}]", [kept]) for i in range(2)],
        *[Item(f"a.py::test_slow[{i}]", [slow]) for i in range(7)],
        *[Item(f"a.py::test_both[{i}]", [kept, slow] if i % 2 else [kept]) for i in range(8)],
        Item("a.py::test_plain", []),
    ]


def run(expression: str) -> list[str]:
    """The names of the tests that run."""
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(getoption=lambda name: expression, hook=hook)
    items = cases()
    pytest_collection_modifyitems(config, items)
    return [item.nodeid for item in items if not item.added]


@pytest.mark.parametrize("parts", [1, 3, 10])
def test_the_suite_and_the_slices_are_all_of_it_and_nothing_twice(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LINSPEC_SLOW", raising=False)
    found = run("")
    assert sum("kept" in name for name in found) == 3
    assert not any("slow" in name for name in found)
    for part in range(parts):
        monkeypatch.setenv("LINSPEC_SLOW", f"{part}/{parts}")
        found += run("slow")
    assert sorted(found) == sorted(item.nodeid for item in cases())


def test_all_slow_tests_run_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINSPEC_SLOW", "1")
    assert sorted(run("")) == sorted(item.nodeid for item in cases())
