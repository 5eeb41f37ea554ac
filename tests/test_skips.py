"""What the suite leaves out: each slow case runs in one of the slices, and each skipped test says why."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from backends import Backend

from tests.conftest import backends_that_are_missing, pytest_collection_modifyitems


class Item:
    """The attributes of a test that are read while tests are collected."""

    def __init__(self, nodeid, *marks):
        self.nodeid, self.marks, self.added = nodeid, marks, []
        self.add_marker = self.added.append

    def iter_markers(self, name):
        return [mark for mark in self.marks if mark.name == name]

    def get_closest_marker(self, name):
        return next(iter(self.iter_markers(name)), None)


def cases():
    kept, slow = pytest.mark.slow(keep=3).mark, pytest.mark.slow.mark
    return [
        *[Item(f"a.py::test_kept[{i}]", kept) for i in range(10)],
        *[Item(f"a.py::test_few[{i}]", kept) for i in range(2)],
        *[Item(f"a.py::test_slow[{i}]", slow) for i in range(7)],
        *[Item(f"a.py::test_both[{i}]", kept, *[slow] * (i % 2)) for i in range(8)],
        Item("a.py::test_plain"),
    ]


def run(expression):
    """The names of the tests that run."""
    hook, items = SimpleNamespace(pytest_deselected=lambda items: None), cases()
    pytest_collection_modifyitems(SimpleNamespace(getoption=lambda name: expression, hook=hook), items)
    return [item.nodeid for item in items if not item.added]


@pytest.mark.parametrize("parts", [1, 3, 10])
def test_the_suite_and_the_slices_are_all_of_it_and_nothing_twice(parts, monkeypatch):
    everything = sorted(item.nodeid for item in cases())
    monkeypatch.delenv("LINSPEC_SLOW", raising=False)
    found = run("")
    assert sum("kept" in name for name in found) == 3
    assert not any("slow" in name for name in found)
    for part in range(parts):
        monkeypatch.setenv("LINSPEC_SLOW", f"{part}/{parts}")
        found += run("slow")
    assert sorted(found) == everything
    monkeypatch.setenv("LINSPEC_SLOW", "1")
    assert sorted(run("")) == everything


def test_backends_without_a_test_are_named(monkeypatch):
    absent = Backend(name="absent", wrap=abs, missing=lambda: "no absent")
    for backends, named in ((absent, Backend(name="present", wrap=abs)), "absent (no absent)"), ((), "none"):
        monkeypatch.setattr("backends.BACKENDS", backends)
        assert backends_that_are_missing() == f"backends without a test: {named}"
