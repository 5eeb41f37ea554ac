"""The site: what checks its links finds broken ones; what is registered gets a page, also by somebody else."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import linspec as ls
from linspec import registry
from linspec.iteration import Iterate
from linspec.solving import Solver

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, kw_only=True)
class Zero(Solver):
    """Zeros."""

    factor: float = ls.option(0.5, "does |nothing|_ at all", above=0)

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        yield Iterate(0.0, lambda: {"x": problem.device.blocks.zeros(tuple(moments.widths))}, final=True)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    yield importlib.import_module("pages_of_records")
    sys.modules.pop("pages_of_records", None)


def test_a_solver_of_somebody_else_has_a_page(pages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    own = registry.Registry()  # so that other tests do not see the solver
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    ls.register(
        ls.SolverSpec(
            name="zero",
            problem="least-squares",
            target=f"{__name__}:Zero",
            summary="Zeros, by |magic|.",
            reference="Nobody 2020, doi:10.1000/182",
        )
    )
    taken = pages.takes("least-squares", "zero")
    assert taken["NumPy"] == taken["sparse"] == taken["slices"] == pages.TAKES
    page = pages._solver_page("least-squares", "zero", taken)
    example = ('solution = ls.solve(problem, "zero")', "LeastSquaresSolution by zero")  # what it printed
    text = ("Zeros, by \\|magic\\|.", "`doi:10.1000/182 <https://doi.org/10.1000/182>`__")  # no markup
    for shown in (*text, *example, "``factor``", "a number > 0", "``0.5``", ":Source:"):
        assert shown in page, shown


def test_every_problem_states_an_example(pages: ModuleType) -> None:
    for problem in registry.Registry(disabled="*").names("problem"):
        assert "cases(" not in pages.example_of(problem).statement, problem


def test_the_places_that_the_search_knows_exist() -> None:
    places = re.findall(
        r'^  "([\w/#-]+)":', (DOCS / "_static" / "search.js").read_text("utf-8"), re.MULTILINE
    )
    assert len(places) > 30
    for place in places:
        page, _, anchor = place.partition("#")
        text = (DOCS / f"{page}.md").read_text("utf-8")
        titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not anchor or anchor in anchors, place


def test_terms_are_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    terms = importlib.import_module("terms")
    text = (DOCS / "reference" / "glossary.md").read_text("utf-8")
    defined = dict(re.findall(r"^(\w[\w ]*)\n  (.+?)\n(?=\n|```)", text, re.MULTILINE | re.DOTALL))
    assert set(defined) == set(terms.FORMS)
    assert list(defined) == sorted(defined, key=str.lower)
    for term, definition in defined.items():
        assert len(re.findall(r"[.](?=\s|$)", definition)) == 2, term
    pages = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    assert set(re.findall(r"\{term\}`([^`<]+)`", pages)) <= set(defined)
