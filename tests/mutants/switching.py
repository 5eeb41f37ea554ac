"""A plugin of pytest: linspec is imported with all mutants in it, and one of them is switched on.

Method: where a mutant stands, `a + b` becomes `a - b if __mutant__(17) else a + b`. A run that tries forks for each
mutant, switches it on in the child, and runs the tests that came by, the shortest first, until one fails.
Source: Untch, Offutt & Harrold 1993, Mutation analysis using mutant schemata, ISSTA, doi:10.1145/154183.154265.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import json
import os
import signal
import time
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from mutants.sites import ROOT, Site, sites

HERE = Path(__file__).parent

Places = dict[int, list[tuple[int, ast.AST]]]
"""By the identities of nodes, the numbers of mutants and what stands there instead."""


class Switch:
    """Which mutant is on, and which tests came by which ones."""

    def __init__(self) -> None:
        self.on, self.test = -1, ""
        self.seen: dict[int, set[str]] = {}

    def __call__(self, number: int) -> bool:
        self.seen.setdefault(number, set()).add(self.test)
        return number == self.on


SWITCH = Switch()
SECONDS: dict[str, float] = {}
"""How long each test took."""


def listed() -> list[dict[str, Any]]:
    """The mutants: those drawn, then those made by hand."""
    drawn = json.loads((HERE / "drawn.json").read_text("utf-8"))
    numerical = json.loads((HERE / "numerical.json").read_text("utf-8"))
    return [*drawn, *numerical]


# ---- putting them in --------------------------------------------------------------------------


def switched(source: str, file: str, mutants: dict[int, dict[str, Any]]) -> ast.Module:
    """The tree of a file with its mutants."""
    tree = ast.parse(source)
    drawn = {Site(**m): n for n, m in mutants.items() if "nth" in m}
    places: Places = {}
    for site, node, other in sites(file, tree):
        if site in drawn:
            places.setdefault(id(node), []).append((drawn[site], other))
    for number, mutant in mutants.items():
        if "nth" not in mutant and source.count(mutant["old"]) == 1:
            _beside(tree, source, number, mutant, places)
    return ast.fix_missing_locations(_Switches(places).visit(tree))


def _beside(tree: ast.Module, source: str, number: int, mutant: dict[str, Any], places: Places) -> None:
    """Note the innermost statement that a mutant made by hand changes, if a function has it."""
    line = source[: source.index(mutant["old"])].count("\n") + 1
    here: Any = tree
    there: Any = ast.parse(source.replace(mutant["old"], mutant["new"]))
    inside, found = False, None
    while True:
        steps = [
            (field, i, child)
            for field in ("body", "orelse", "finalbody", "handlers", "cases")
            for i, child in enumerate(getattr(here, field, []))
            if child.lineno <= line <= child.end_lineno
        ]
        if not steps:
            break
        field, i, child = steps[0]
        here, there = child, getattr(there, field)[i]
        if inside and isinstance(here, ast.stmt):
            found = here, there
        inside = inside or isinstance(here, ast.FunctionDef)
    if found is not None:
        places.setdefault(id(found[0]), []).append((number, found[1]))


class _Switches(ast.NodeTransformer):
    """Puts a switch where a mutant stands."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def visit(self, node: ast.AST) -> Any:
        found: Any = super().generic_visit(node)
        for number, other in self.places.get(id(node), ()):
            on = ast.Call(ast.Name("__mutant__", ast.Load()), [ast.Constant(number)], [])
            new = copy.deepcopy(other)
            if (
                isinstance(node, ast.If | ast.While)
                and isinstance(other, type(node))
                and _same_body(node, other)
            ):
                found.test = ast.IfExp(on, new.test, found.test)  # type: ignore[attr-defined]
            elif isinstance(node, ast.stmt):
                found = ast.copy_location(ast.If(on, [new], [found]), node)
            else:
                found = ast.copy_location(ast.IfExp(on, new, found), node)
        return found


def _same_body(one: Any, other: Any) -> bool:
    return [ast.dump(s) for s in one.body] == [ast.dump(s) for s in other.body]


def _of_files() -> dict[str, dict[int, dict[str, Any]]]:
    """The mutants of each file, by their numbers."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for number, mutant in enumerate(listed()):
        found.setdefault(mutant["file"], {})[number] = mutant
    return found


FILES = _of_files()
_PLAIN = SourceFileLoader.get_code


def _get_code(self: Any, name: str) -> Any:
    """The code of a module, with its mutants, which no cache may keep."""
    path = Path(self.path).resolve()
    mutants = FILES.get(str(path.relative_to(ROOT))) if path.is_relative_to(ROOT) else None
    if mutants is None:
        return _PLAIN(self, name)
    return compile(switched(path.read_text("utf-8"), str(path.relative_to(ROOT)), mutants), self.path, "exec")


builtins.__mutant__ = SWITCH  # type: ignore[attr-defined]
SourceFileLoader.get_code = _get_code  # type: ignore[method-assign]


# ---- recording and trying ---------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the test, and its seconds."""
    SWITCH.test, began = item.nodeid, time.perf_counter()
    yield
    SECONDS[item.nodeid] = time.perf_counter() - began


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what this process recorded."""
    folder = os.environ.get("LINSPEC_MUTANTS_RECORD")
    if not folder or not SECONDS:
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER", "one")
    numbers = {test: i for i, test in enumerate(SECONDS)}
    seen = {n: sorted(numbers[test] for test in tests if test in numbers) for n, tests in SWITCH.seen.items()}
    record = {"tests": list(SECONDS), "seconds": [round(s, 4) for s in SECONDS.values()], "seen": seen}
    Path(folder, f"{worker}.json").write_text(json.dumps(record), "utf-8")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Try mutants in place of running the tests, where asked."""
    order = os.environ.get("LINSPEC_MUTANTS_TRY")
    if not order:
        return None
    plan = json.loads(Path(order).read_text("utf-8"))
    items = {item.nodeid: item for item in session.items}
    with Path(plan["results"]).open("a", encoding="utf-8") as results:
        for mutant in plan["mutants"]:
            chosen = [(items[test], seconds) for test, seconds in mutant["tests"] if test in items]
            result = _tried(mutant["number"], chosen)
            results.write(json.dumps({"number": mutant["number"], "tests": len(chosen), **result}) + "\n")
            results.flush()
    return True


def _tried(number: int, chosen: list[tuple[pytest.Item, float]]) -> dict[str, Any]:
    """How a mutant ends: which test noticed it, or that none did."""
    reader, writer = os.pipe()
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(number, chosen, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        said = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    how = {0: "survived", 1: "failed", -signal.SIGALRM: "time"}.get(ended, "crash")
    by = said[-1] if said and ended else ""
    return {"ended": how, "by": by, "seconds": round(time.perf_counter() - began, 1)}


def _child(number: int, chosen: list[tuple[pytest.Item, float]], writer: int) -> None:
    """Run tests with a mutant switched on, and leave with 1 at the first that fails."""
    with contextlib.suppress(BaseException):
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        SWITCH.on = number
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for item, seconds in chosen:
            if not item.config.pluginmanager.has_plugin("leave"):
                item.config.pluginmanager.register(_Leave(), "leave")
            os.write(writer, f"{item.nodeid}\n".encode())
            signal.alarm(int(60 + 20 * seconds))
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        os._exit(0)
    os._exit(1)


class _Leave:
    """Ends the child at a test that fails."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os._exit(1)
