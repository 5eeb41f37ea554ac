"""Registry: what is found, under which name, and what happens when a plugin misbehaves.

The plugins here are distributions on disk, with metadata and modules, read by ``importlib.metadata`` as
installed ones are. Their solvers derive from a stand-in for ``linspec.solving.solver.Solver``, so that nothing here
needs NumPy.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import types
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from linspec import registry as registry_module
from linspec.errors import (
    AmbiguousName,
    BrokenPlugin,
    InvalidDeclaration,
    InvalidProblem,
    LinspecError,
    OutOfMemory,
    PluginWarning,
    UnknownName,
)
from linspec.registry import PluginInfo, Registry
from linspec.registry.options import option, part, validate
from linspec.registry.spec import Needs, NormalizerSpec, OperatorSpec, ProblemSpec, SolverSpec, TestMatrixSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HEADER = "from linspec.registry.spec import *\nfrom linspec.registry.hookspecs import hookimpl\n"


@dataclass(frozen=True, kw_only=True)
class Base(ABC):
    """Stands for Solver, Normalizer and TestMatrix: all the registry asks is to be derived from them."""

    def __post_init__(self) -> None:
        validate(self)

    @abstractmethod
    def run(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Good(Base):
    tol: float = option(1e-8, "stop here", above=0)
    normalizer: str = part("qr", "orthonormalises", kind="normalizer")

    def run(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class NoOptions(Base):
    def run(self) -> None: ...


class Undecorated(Good):
    extra: float = option(1.0, "never becomes an option")


@dataclass(frozen=True, kw_only=True)
class Abstract(Base):
    pass


@dataclass(frozen=True)
class Positional(Base):
    tol: float = option(1e-8, "by position")

    def run(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Undeclared(Base):
    tol: float = 1e-8

    def run(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Clashing(Base):
    rng: float = option(1.0, "an argument of solve")

    def run(self) -> None: ...


class Stranger:
    pass


class Problem:
    name: ClassVar[str] = "cca"


@pytest.fixture(autouse=True)
def classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in where the registry looks for base classes, and the rest where targets point."""
    for module, name in (
        ("solver", "Solver"),
        ("normalizer", "Normalizer"),
        ("random_test_matrix", "TestMatrix"),
    ):
        stand_in = types.ModuleType(f"linspec.solving.{module}")
        setattr(stand_in, name, Base)
        monkeypatch.setitem(sys.modules, f"linspec.solving.{module}", stand_in)
    methods = types.ModuleType("methods")
    for cls in (Good, NoOptions, Undecorated, Abstract, Positional, Undeclared, Clashing, Stranger):
        setattr(methods, cls.__name__, cls)
    methods.value = 3
    monkeypatch.setitem(sys.modules, "methods", methods)
    monkeypatch.delenv("LINSPEC_DISABLE_PLUGINS", raising=False)


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path, ask: Callable[[Registry], Any]) -> None:
        self.folder, self.ask = folder, ask
        self.count = itertools.count()
        self.modules: set[str] = set()

    def install(self, distribution: str, *tables: str, version: str = "1.0", **entries: str) -> None:
        """Add a distribution whose entry points, named main0, main1, ... or as given, hold these tables."""
        entries |= {f"main{i}": table for i, table in enumerate(tables)}
        lines = []
        for entry, source in entries.items():
            module = f"table_{self.folder.name}_{next(self.count)}"
            (self.folder / f"{module}.py").write_text(HEADER + source)
            self.modules.add(module)
            lines.append(f"{entry} = {module}")
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text("[linspec]\n" + "\n".join(lines) + "\n")

    def registry(self, disabled: str | None = None) -> Any:
        """The functions of linspec.registry, which ask about these distributions alone."""
        found = [
            entry
            for dist in metadata.distributions(path=[str(self.folder)])
            for entry in dist.entry_points.select(group="linspec")
        ]
        return self.ask(Registry(found, disabled))


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[[Registry], Any]:
    """Makes the functions of linspec.registry ask a registry."""

    def asking(own: Registry) -> Any:
        monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
        return registry_module

    return asking


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Registry], Any]) -> Iterator[Site]:
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Site(tmp_path, ask)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)


def solver(name: str, problem: str = "cca", target: str = "methods:Good", **more: Any) -> str:
    more = {"summary": "A method.", "reference": "Hotelling 1936", **more}
    rest = ", ".join(f"{key}={value!r}" for key, value in more.items())
    return f"SolverSpec(name={name!r}, problem={problem!r}, target={target!r}, {rest})"


def table(*records: str, hook: str = "linspec_solvers") -> str:
    return f"@hookimpl\ndef {hook}():\n    return [{', '.join(records)}]\n"


def part_table(hook: str, spec: str, *names: str) -> str:
    facts = "target='methods:NoOptions', summary='A part.', reference='Golub 1965'"
    return table(*(f"{spec}(name={name!r}, {facts})" for name in names), hook=hook)


def info_of(registry: Any, identity: str) -> PluginInfo:
    (info,) = [info for info in registry.plugins() if info.identity == identity]
    return info


def a_spec(**changes: Any) -> SolverSpec:
    facts = {
        "name": "gram",
        "problem": "cca",
        "target": "methods:Good",
        "summary": "S.",
        "reference": "R 1999",
    }
    return SolverSpec(**{**facts, **changes})


# ------------------------------------------------------------------------------------------- finding, listing


def test_names_are_listed_by_problem_and_by_kind(site: Site) -> None:
    site.install(
        "linspec",
        table(solver("lobpcg"), solver("gram"), solver("gram", "least-squares"))
        + part_table("linspec_normalizers", "NormalizerSpec", "qr", "cholesky-qr")
        + part_table("linspec_test_matrices", "TestMatrixSpec", "gaussian"),
    )
    registry = site.registry()
    assert registry.solvers() == ("cca/gram", "cca/lobpcg", "least-squares/gram")
    for problem in ("cca", Problem, Problem()):
        assert registry.solvers(problem) == ("gram", "lobpcg")
    assert registry.normalizers() == ("cholesky-qr", "qr")
    assert registry.test_matrices() == ("gaussian",)
    assert all(type(name) is str for name in registry.solvers())


def test_listing_imports_tables_and_no_implementation(site: Site) -> None:
    (site.folder / "heavy_implementation.py").write_text("raise RuntimeError('imported')")
    site.install("acme", table(solver("gram", target="heavy_implementation:Gram")))
    registry = site.registry()
    assert not site.modules & set(sys.modules)  # not even the table, before the first question
    assert registry.solvers("cca") == ("gram",)
    assert registry.get_spec("solver", "gram", "cca").target == "heavy_implementation:Gram"
    with pytest.raises(BrokenPlugin, match="imported"):
        registry.get_solver("gram", "cca")


@pytest.mark.parametrize("name", ["gram", "cca/gram", "acme:gram", "cca/acme:gram", "ACME:gram"])
def test_every_form_of_a_name(site: Site, name: str) -> None:
    site.install("Acme", table(solver("gram"), solver("other")))
    registry = site.registry()
    assert registry.get_solver(name, "cca") is Good
    assert registry.get_solver(name, Problem) is Good
    assert registry.get_solver(name) is Good  # one problem only has it
    assert registry.get_spec("solver", name).name == "gram"


def test_a_problem_that_nobody_solves(site: Site) -> None:
    site.install("linspec", table(solver("gram")))
    registry = site.registry()

    class Unheard:
        name = "unheard"

    assert registry.solvers(Unheard) == ()
    with pytest.raises(UnknownName, match=r"Did you mean 'cca'\? Problems with solvers: cca"):
        registry.solvers("ccaa")
    with pytest.raises(UnknownName, match="'ccaa'"):
        registry.get_solver("gram", "ccaa")
    with pytest.raises(InvalidProblem, match="got 3"):
        registry.solvers(3)


def test_two_distributions_may_name_their_entry_points_alike(site: Site) -> None:
    """pluggy's own loader drops one of the two without a word."""
    site.install("acme", main=table(solver("first")))
    site.install("bolt", main=table(solver("second")))
    assert site.registry().solvers("cca") == ("first", "second")


def test_plugins_reports_what_each_provides(site: Site) -> None:
    site.install("bolt", main=table(solver("gram")), version="2.3")
    site.install("acme", extra=part_table("linspec_normalizers", "NormalizerSpec", "qr"))
    first, second = site.registry().plugins()
    assert first == PluginInfo(
        name="extra",
        distribution="acme",
        version="1.0",
        status="loaded",
        error=None,
        provides=("normalizer/qr",),
    )
    assert (second.identity, second.version, second.provides) == ("bolt:main", "2.3", ("cca/gram",))


def test_parts_are_imported_like_solvers(site: Site) -> None:
    site.install(
        "linspec",
        part_table("linspec_normalizers", "NormalizerSpec", "qr")
        + part_table("linspec_test_matrices", "TestMatrixSpec", "gaussian"),
    )
    registry = site.registry()
    assert registry.get_part("normalizer", "qr") is NoOptions
    assert registry.get_part("normalizer", "linspec:qr", "cca") is NoOptions  # it serves every problem
    assert registry.get_part("test-matrix", "gaussian") is NoOptions
    with pytest.raises(UnknownName, match="no test matrix is named 'qr'"):
        registry.get_part("test-matrix", "qr")
    with pytest.raises(UnknownName, match="the kinds are solver, normalizer, test-matrix"):
        registry.get_part("normaliser", "qr")


def test_adapters_come_from_every_plugin(site: Site) -> None:
    record = "OperatorSpec(name='dask', summary='dask arrays', matches=callable, adapt=repr)"
    site.install("acme", table(record, hook="linspec_operators"))
    site.install("bolt", table(record, hook="linspec_operators"))
    adapters = site.registry().operator_adapters()
    assert [adapter.name for adapter in adapters] == ["dask", "dask"]
    assert adapters[0].matches is callable


def test_adapters_are_found_by_name_and_described(site: Site) -> None:
    record = "OperatorSpec(name='dask', summary='dask arrays', matches=callable, adapt=repr)"
    site.install("acme", table(record, hook="linspec_operators"))
    registry = site.registry()
    spec = registry.get_spec(None, "operator/dask")
    assert spec is registry.get_spec("operator", "dask") is registry.operator_adapters()[0]
    assert registry.provider_of(spec).startswith("acme:")
    description = registry.describe("operator/dask")
    assert (description.kind, description.name, description.options) == ("operator", "dask", ())
    assert "dask arrays" in str(description)
    with pytest.raises(UnknownName, match=r"kinds are solver, normalizer, test-matrix, problem$"):
        registry.get_part("operator", "dask")


def test_a_record_that_nobody_registers_has_no_provider(site: Site) -> None:
    spec = NormalizerSpec(name="x", target="a:B", summary="S.", reference="Golub 1965")
    assert site.registry().provider_of(spec) == ""


def test_the_record_of_a_class(site: Site) -> None:
    site.install("acme", table(solver("gram"), solver("gram", "svd"), solver("x", target="not_imported:X")))
    registry = site.registry()
    assert registry.spec_of(Good, "svd").qualified == "svd/gram"
    assert registry.spec_of(Good).name == "gram"
    assert registry.spec_of(Good, "least-squares") is None
    assert registry.spec_of(Stranger, "cca") is None
    assert "not_imported" not in sys.modules


# ---------------------------------------------------------------------------------------------- one name, two


def test_a_bare_name_of_linspec_stays_its_own_with_one_warning(site: Site) -> None:
    site.install("linspec", table(solver("gram")))
    site.install("acme", table(solver("gram", target="methods:NoOptions")))  # sorts before linspec
    registry = site.registry()
    with pytest.warns(PluginWarning, match="cca/gram.*'acme:gram'") as caught:
        assert registry.solvers("cca") == ("acme:gram", "gram")
    assert len(caught) == 1
    assert registry.get_solver("gram", "cca") is Good  # and no second warning, which would be an error here
    assert registry.solvers() == ("cca/acme:gram", "cca/gram")
    assert registry.get_solver("acme:gram", "cca") is NoOptions
    assert registry.get_solver("cca/acme:gram") is NoOptions
    assert registry.get_solver("linspec:gram", "cca") is Good


def test_the_warning_as_an_error_leaves_the_registry_whole(site: Site) -> None:
    site.install("linspec", table(solver("gram")))
    site.install("acme", table(solver("gram")))
    registry = site.registry()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PluginWarning):
            registry.solvers()
        assert registry.solvers("cca") == ("acme:gram", "gram")


def test_between_others_a_name_must_be_qualified_when_it_is_requested(site: Site) -> None:
    site.install("acme", table(solver("gram"), solver("mine")))
    site.install("bolt", table(solver("gram", target="methods:NoOptions")))
    registry = site.registry()
    assert registry.solvers("cca") == ("acme:gram", "bolt:gram", "mine")  # listing harms nobody
    assert registry.get_solver("mine", "cca") is Good
    assert [name for name, _ in site.registry().describe("gram").namesakes] == [
        "cca/acme:gram",
        "cca/bolt:gram",
    ]
    with pytest.raises(AmbiguousName, match="'acme:gram' or 'bolt:gram'") as caught:
        registry.get_solver("gram", "cca")
    assert isinstance(caught.value, LookupError)
    assert registry.get_solver("bolt:gram", "cca") is NoOptions


def test_every_listed_name_can_be_requested(site: Site) -> None:
    site.install("linspec", table(solver("gram"), solver("als")))
    site.install("acme", table(solver("gram"), solver("new"), solver("gram", "svd")))
    site.install("bolt", table(solver("new"), solver("gram", "svd")))
    registry = site.registry()
    with pytest.warns(PluginWarning):
        names = registry.solvers()
    assert len(names) == 7
    for name in names:
        assert registry.get_solver(name) is Good
        problem, _, short = name.partition("/")
        assert short in registry.solvers(problem)
        assert registry.get_solver(short, problem) is Good


def test_a_bare_name_of_two_problems_is_ambiguous_without_the_problem(site: Site) -> None:
    site.install("linspec", table(solver("gram"), solver("gram", "least-squares")))
    registry = site.registry()
    with pytest.raises(AmbiguousName, match="'cca/gram' or 'least-squares/gram'"):
        registry.get_solver("gram")
    with pytest.raises(UnknownName, match="There is cca/gram"):
        registry.get_solver("cca/gram", "least-squares")


@pytest.mark.parametrize("tables", [1, 2])
def test_one_distribution_cannot_use_a_name_twice(site: Site, tables: int) -> None:
    """Qualified names could not distinguish the two."""
    if tables == 1:
        site.install("acme", table(solver("gram"), solver("gram", target="methods:NoOptions")))
        bad, names = "acme:main0", ()
    else:
        site.install("acme", table(solver("gram")), table(solver("gram")))
        bad, names = "acme:main1", ("cca/gram",)
    registry = site.registry()
    assert info_of(registry, bad).status == "broken"
    assert "cca/gram" in str(info_of(registry, bad).error)
    assert registry.solvers() == names


# --------------------------------------------------------------------------------------------- broken plugins

BROKEN_TABLES = {
    "raises": ("raise ValueError('no such card')", "no such card"),
    "exits": ("import sys; sys.exit('leaving')", "leaving"),
    "does not parse": ("def", "SyntaxError"),
    "misses a module": ("import not_installed_anywhere", "not_installed_anywhere"),
    "raises in a hook": ("@hookimpl\ndef linspec_solvers():\n    raise KeyError('lost')", "lost"),
    "yields, then raises": (
        f"@hookimpl\ndef linspec_solvers():\n    yield {solver('half')}\n    raise KeyError('lost')",
        "lost",
    ),
    "returns no record": (table("'gram'"), "'gram'"),
    "returns another record": (
        table("NormalizerSpec(name='q', target='a:B', summary='s', reference='r')"),
        "SolverSpec",
    ),
    "returns one record, bare": (
        f"@hookimpl\ndef linspec_solvers():\n    return {solver('gram')}",
        "list of SolverSpec",
    ),
    "has a malformed record": (table(solver("Bad Name")), "Bad Name"),
    "misspells a hook": (table(solver("gram"), hook="linspec_sovlers"), "linspec_sovlers"),
    "wants arguments": ("@hookimpl\ndef linspec_solvers(registry):\n    return []", "registry"),
    "forgets to return": (
        f"@hookimpl\ndef linspec_solvers():\n    [{solver('gram')}]",
        "linspec_solvers must return a list of SolverSpec; got None",
    ),
    "panics on import": (
        "class PanicException(BaseException): pass\nraise PanicException('index out of bounds')",
        "PanicException: index out of bounds",
    ),
    "panics in a hook": (
        (
            "class PanicException(BaseException): pass\n@hookimpl\ndef linspec_solvers():\n"
            "    raise PanicException('index out of bounds')"
        ),
        "PanicException: index out of bounds",
    ),
    "raises what cannot be printed": (
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute",
        "Mute",
    ),
    "has a record of a derived class": (
        "class Mine(SolverSpec): pass\n" + table(solver("gram").replace("SolverSpec", "Mine", 1)),
        "linspec_solvers must return records of type SolverSpec; got Mine(",
    ),
    "forgets the marker": (f"def linspec_solvers():\n    return [{solver('gram')}]", "hookimpl"),
}


@pytest.mark.parametrize("fault", BROKEN_TABLES)
def test_a_broken_table_is_recorded_and_harms_nobody_else(site: Site, fault: str) -> None:
    source, words = BROKEN_TABLES[fault]
    site.install("acme", main=source)
    site.install("bolt", main=table(solver("fine")))
    registry = site.registry()
    assert registry.solvers("cca") == ("fine",)
    assert registry.get_solver("fine", "cca") is Good
    info = info_of(registry, "acme:main")
    assert (info.status, info.provides) == ("broken", ())
    assert words in str(info.error)
    assert info_of(registry, "bolt:main").status == "loaded"
    with pytest.raises(UnknownName, match="acme:main is broken") as caught:
        registry.get_solver("gram", "cca")
    assert words in str(caught.value)


def test_a_misspelt_hook_is_answered_with_the_hooks_there_are(site: Site) -> None:
    site.install("acme", main=table(solver("gram"), hook="linspec_sovlers"))
    assert "linspec_test_matrices" in str(info_of(site.registry(), "acme:main").error)


def test_a_table_that_asks_for_names_is_broken_not_endless(site: Site) -> None:
    site.install("acme", main="import builtins\nbuiltins.the_registry.solvers()\n")
    registry = site.registry()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.the_registry", registry, raising=False)
        assert registry.solvers() == ()
    assert "must only return records" in str(info_of(registry, "acme:main").error)


BROKEN_TARGETS = {
    "no module": ("nowhere_at_all:Gram", "nowhere_at_all"),
    "no attribute": ("methods:Missing", "Missing"),
    "no class": ("methods:value", "not a class derived from"),
    "another class": ("methods:Stranger", "not a class derived from"),
    "abstract": ("methods:Abstract", "lacks the method run"),
    "not decorated": ("methods:Undecorated", "@dataclass"),
    "not keyword-only": ("methods:Positional", "kw_only=True"),
    "a field that is no option": ("methods:Undeclared", "'tol'"),
    "an option named as an argument of solve": ("methods:Clashing", "option rng"),
}


@pytest.mark.parametrize("fault", BROKEN_TARGETS)
def test_a_broken_target_is_refused_recorded_and_harms_nobody_else(site: Site, fault: str) -> None:
    target, words = BROKEN_TARGETS[fault]
    site.install("acme", main=table(solver("bad", target=target), solver("good")))
    registry = site.registry()
    assert info_of(registry, "acme:main").status == "loaded"  # nobody has looked yet
    for _ in range(2):
        with pytest.raises(BrokenPlugin) as caught:
            registry.get_solver("bad", "cca")
        assert isinstance(caught.value, ImportError)
        for needed in (words, "cca/bad", "acme:main", target):
            assert needed in str(caught.value)
    with pytest.raises(BrokenPlugin):
        registry.describe("bad")
    info = info_of(registry, "acme:main")
    assert info.status == "broken"
    assert words in str(info.error)
    assert info.provides == ("cca/bad", "cca/good")
    assert registry.get_solver("good", "cca") is Good


@pytest.mark.parametrize("where", ["on import", "in a hook"])
def test_an_interrupt_while_tables_are_read_is_the_users(site: Site, where: str) -> None:
    site.install(
        "acme",
        main="raise KeyboardInterrupt"
        if where == "on import"
        else "@hookimpl\ndef linspec_solvers():\n    raise KeyboardInterrupt",
    )
    registry = site.registry()
    for _ in range(2):  # nothing half-read is left
        with pytest.raises(KeyboardInterrupt):
            registry.solvers()


@pytest.mark.parametrize("raised", ["Panic('no such device')", "SystemExit('no such device')"])
def test_a_target_that_panics_on_import_is_refused_and_recorded(site: Site, raised: str) -> None:
    (site.folder / "panicking_implementation.py").write_text(
        f"class Panic(BaseException): pass\nraise {raised}"
    )
    site.install("acme", main=table(solver("bad", target="panicking_implementation:X"), solver("good")))
    registry = site.registry()
    with pytest.raises(BrokenPlugin, match="no such device"):
        registry.get_solver("bad", "cca")
    assert "no such device" in str(info_of(registry, "acme:main").error)
    assert registry.get_solver("good", "cca") is Good


LIMITS = {
    "memory": ("MemoryError", OutOfMemory),
    "memory of a device": (
        "type('OutOfMemoryError', (RuntimeError,), {})('CUDA out of memory')",
        OutOfMemory,
    ),
    "memory that the system refuses": ("OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))", OutOfMemory),
    "address space": ("ImportError('/x.so: failed to map segment from shared object')", OutOfMemory),
    "open files": ("OSError(errno.EMFILE, os.strerror(errno.EMFILE), '/x.py')", LinspecError),
    "open files, as the loader says": (
        "ImportError('x.so: cannot open shared object file: ' + os.strerror(errno.EMFILE))",
        LinspecError,
    ),
    "threads": ('RuntimeError("can\'t start new thread")', LinspecError),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("where", ["a table", "a target"])
def test_a_limit_of_the_process_is_no_fault_of_a_plugin(
    site: Site, where: str, chained: bool, limit: str
) -> None:
    """It is raised, nothing is recorded, and what was half imported is imported once there is room."""
    raised, kind = LIMITS[limit]
    short = site.folder / "short"
    short.touch()
    raises = f"raise {raised}" if not chained else f"raise ImportError('no core') from {raised}"
    lack = f"import errno, os\nif os.path.exists({str(short)!r}):\n    {raises}\n"
    solvers = table(solver("late", target="late_implementation:Late"), solver("good"))
    site.install("acme", main=lack + solvers if where == "a table" else solvers)
    (site.folder / "late_part.py").write_text("PART = 1\n" + (lack if where == "a target" else ""))
    (site.folder / "late_implementation.py").write_text(
        "from late_part import PART\nfrom methods import Good as Late\n"
    )
    registry = site.registry()
    try:
        for _ in range(2):
            with pytest.raises(kind, match="cannot be imported, because the ") as caught:
                registry.get_solver("late", "cca")
            assert ("acme:main" if where == "a table" else "cca/late") in str(caught.value)
            assert "authors" not in str(caught.value)
        assert "late_implementation" not in sys.modules
        short.unlink()
        assert registry.get_solver("late", "cca") is registry.get_solver("good", "cca")
        assert info_of(registry, "acme:main").status == "loaded"
    finally:
        for name in ("late_part", "late_implementation"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("deep", [False, True])
def test_whose_fault_too_deep_a_recursion_is(site: Site, deep: bool) -> None:
    """The caller's, who has used up the stack; a plugin's that recurses without end from a shallow one."""
    module = f"recursing_{deep}".lower()  # what is imported well stays imported
    (site.folder / f"{module}.py").write_text(
        "from methods import Good as Deep\ndef down(n): return n and down(n - 1)\ndown(120)\n"
        if deep
        else "def down(): return down()\ndown()\n"
    )
    site.install("acme", main=table(solver("bad", target=f"{module}:Deep")))
    registry = site.registry()
    registry.solvers("cca")

    def called_at(depth: int) -> Any:
        return registry.get_solver("bad", "cca") if depth <= 0 else called_at(depth - 1)

    if deep:
        here, frame = 0, sys._getframe()
        while frame is not None:
            here, frame = here + 1, frame.f_back
        with pytest.raises(RecursionError):
            called_at(sys.getrecursionlimit() - here - 100)
        assert registry.get_solver("bad", "cca") is registry.get_solver("bad", "cca")
        assert info_of(registry, "acme:main").status == "loaded"
    else:
        with pytest.raises(BrokenPlugin, match="RecursionError"):
            registry.get_solver("bad", "cca")


def test_a_misspelt_problem_is_named_and_harms_nobody_else(site: Site) -> None:
    site.install("linspec", table(solver("gram"), solver("gram", "least-squares")))
    site.install("acme", main=table(solver("good"), solver("bad", "ccaa"), solver("own", "sparse-pls")))
    registry = site.registry()
    assert registry.solvers("cca") == ("good", "gram")
    assert "ccaa/bad" not in registry.solvers()
    assert registry.solvers("sparse-pls") == ("own",)  # nothing like any other: a problem of the plugin's own
    info = info_of(registry, "acme:main")
    assert info.status == "broken"
    assert info.error == "ccaa/bad: no problem is named 'ccaa'. Did you mean 'cca'?"
    assert info.provides == ("cca/good", "ccaa/bad", "sparse-pls/own")
    for problem in ("cca", "ccaa"):
        with pytest.raises(UnknownName, match="no problem is named 'ccaa'"):
            registry.get_solver("bad", problem)


def test_registering_with_a_misspelt_problem(site: Site) -> None:
    site.install("linspec", table(solver("gram")))
    registry = site.registry()
    with pytest.raises(InvalidDeclaration, match="Did you mean 'cca'"):
        registry.register(a_spec(problem="ccaa"))
    assert registry.solvers() == ("cca/gram",)
    registry.register(a_spec(name="mended"))
    assert registry.solvers() == ("cca/gram", "cca/mended")


def test_a_problem_that_is_declared_later_takes_its_solvers_in(site: Site) -> None:
    """A name that looked misspelt is correct then."""
    site.install("linspec", table(solver("gram")))
    site.install("acme", main=table(solver("own", "ccaa")))
    registry = site.registry()
    assert registry.solvers() == ("cca/gram",)
    registry.register(ProblemSpec(name="ccaa", target="methods:Stranger", summary="Of its own."))
    assert registry.solvers("ccaa") == ("own",)
    assert info_of(registry, "acme:main").status == "loaded"


def test_the_cause_of_a_failed_import_is_kept(site: Site) -> None:
    site.install("acme", table(solver("bad", target="nowhere_at_all:Gram")))
    with pytest.raises(BrokenPlugin) as caught:
        site.registry().get_solver("bad", "cca")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_distribution_with_unreadable_metadata_harms_nobody_else(site: Site) -> None:
    """Where one entry_points.txt does not parse, importlib.metadata answers for none."""
    site.install("aaa-broken", table(solver("lost")))
    (site.folder / "aaa_broken-1.0.dist-info" / "entry_points.txt").write_text("[linspec]\nnonsense\n")
    site.install("zzz-fine", table(solver("fine", "a-problem-of-this-test")))
    assert site.ask(Registry()).solvers("a-problem-of-this-test") == ("fine",)


def test_a_distribution_without_a_name(site: Site) -> None:
    site.install("acme", main=table(solver("gram")))
    (site.folder / "acme-1.0.dist-info" / "METADATA").unlink()
    registry = site.registry()
    assert registry.get_solver("gram", "cca") is Good
    assert info_of(registry, "unknown:main").version == ""


# -------------------------------------------------------------------------------------------------- disabling


@pytest.mark.parametrize(
    ("disabled", "left"),
    [
        ("", ("fast", "gram", "slow", "third")),
        ("acme-solvers", ("gram", "third")),
        ("Acme_Solvers", ("gram", "third")),
        ("acme-solvers:main1", ("fast", "gram", "third")),
        (" bolt , acme-solvers:main0", ("gram", "slow")),
        ("*", ("gram",)),
        ("linspec", ("fast", "slow", "third")),
        ("nobody", ("fast", "gram", "slow", "third")),
    ],
)
def test_disabling(site: Site, disabled: str, left: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    site.install("linspec", table(solver("gram")))
    site.install("acme-solvers", table(solver("fast")), table(solver("slow")))
    site.install("bolt", table(solver("third")))
    assert site.registry(disabled).solvers("cca") == left
    monkeypatch.setenv("LINSPEC_DISABLE_PLUGINS", disabled)
    assert site.registry().solvers("cca") == left


def test_a_disabled_plugin_is_not_imported_and_is_reported(site: Site) -> None:
    site.install("acme", main="raise SystemExit")
    registry = site.registry("acme")
    assert not site.modules & set(sys.modules)
    assert info_of(registry, "acme:main").status == "disabled"
    assert info_of(registry, "acme:main").error is None
    with pytest.raises(UnknownName, match="acme:main is disabled"):
        registry.get_solver("gram")


# ---------------------------------------------------------------------------------------------- unknown names


def test_an_unknown_name_is_answered_with_close_ones_and_with_all(site: Site) -> None:
    site.install("linspec", table(solver("lobpcg"), solver("als"), solver("ling", "least-squares")))
    registry = site.registry()
    with pytest.raises(
        UnknownName, match=r"no cca solver is named 'lobcpg'. Did you mean 'lobpcg'\?"
    ) as caught:
        registry.get_solver("lobcpg", "cca")
    assert isinstance(caught.value, LookupError)
    assert "Available: als, lobpcg." in str(caught.value)
    with pytest.raises(UnknownName, match="There is least-squares/ling"):
        registry.get_solver("ling", "cca")
    with pytest.raises(UnknownName, match="Did you mean 'lobpcg'"):
        registry.get_solver("LOBPCG", "cca")
    with pytest.raises(UnknownName, match="Did you mean 'cca/lobpcg'"):
        registry.describe("lobpgc")
    with pytest.raises(UnknownName, match="a string"):
        registry.get_solver(Good, "cca")


def test_without_any_plugin_the_error_says_how_to_get_them(ask: Any) -> None:
    with pytest.raises(UnknownName, match="install"):
        ask(Registry(())).get_solver("gram", "cca")


def calls_of(work: Any) -> int:
    """How many functions a piece of work calls, those written in C included."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("form", ["{}", "cca/{}", "acme:{}", "cca/acme:{}"])
def test_the_work_of_all_look_ups_is_linear_in_the_number_of_names(site: Site, form: str) -> None:
    """Calls are counted, not seconds: twice the names may cost twice the calls."""

    def work(count: int) -> int:
        folder = site.folder / f"of_{count}"
        folder.mkdir()
        sys.path.insert(0, str(folder))
        here = Site(folder, site.ask)
        names = [f"m{i}" for i in range(count)]
        here.install("acme", table(*map(solver, names)))
        site.modules |= here.modules
        registry = here.registry()

        def ask() -> None:
            registry.solvers()
            for name in names:
                assert registry.get_spec("solver", form.format(name)).name == name
            assert len(registry.solvers("cca")) == count

        ask()  # imports, and caches of the interpreter
        sys.path.remove(str(folder))
        registry = here.registry()
        return calls_of(ask)

    few, many = work(100), work(400)
    assert many < 5 * few


# ------------------------------------------------------------------------------------------------ registering


def test_registering_in_a_session(site: Site) -> None:
    site.install("linspec", table(solver("gram")))
    other = Registry(())
    registry = site.registry()
    registry.register(a_spec(name="mine"))
    assert registry.solvers("cca") == ("gram", "mine")
    assert registry.get_solver("local:mine", "cca") is Good
    assert info_of(registry, "local:register").provides == ("cca/mine",)
    assert other.names("solver") == ()  # registries share nothing


def test_registering_again_replaces(ask: Any) -> None:
    registry = ask(Registry(()))
    registry.register(a_spec(target="methods:Missing"))
    with pytest.raises(BrokenPlugin, match="Correct it"):
        registry.get_solver("gram")
    assert info_of(registry, "local:register").status == "broken"
    registry.register(a_spec(target="methods:NoOptions"))
    assert registry.get_solver("gram") is NoOptions
    assert info_of(registry, "local:register").status == "loaded"


def test_registering_a_name_of_linspec_warns_once(site: Site) -> None:
    site.install("linspec", table(solver("gram")))
    registry = site.registry()
    replacement = a_spec(target="methods:NoOptions")
    with pytest.warns(PluginWarning, match="local:gram") as caught:
        registry.register(replacement)
    assert len(caught) == 1
    registry.register(replacement)  # a second warning would be an error here
    registry.solvers()
    assert registry.get_solver("gram", "cca") is Good
    assert registry.get_solver("local:gram", "cca") is NoOptions


def test_parts_and_adapters_register_too(ask: Any) -> None:
    registry = ask(Registry(()))
    facts = {"name": "x", "target": "methods:NoOptions", "summary": "S.", "reference": "R 1999"}
    registry.register(NormalizerSpec(**facts))
    registry.register(TestMatrixSpec(**facts))
    registry.register(OperatorSpec(name="x", summary="S.", matches=callable, adapt=repr))
    assert (registry.normalizers(), registry.test_matrices()) == (("x",), ("x",))
    assert len(registry.operator_adapters()) == 1
    assert info_of(registry, "local:register").provides == ("normalizer/x", "operator/x", "test-matrix/x")


def test_only_records_can_be_registered(ask: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="SolverSpec"):
        ask(Registry(())).register(Good)


# ------------------------------------------------------------------------------------------------- describing


def test_a_description_holds_the_record_and_the_options(site: Site) -> None:
    site.install(
        "acme",
        main="needs = Needs(dense=True)\n"
        + table(
            "SolverSpec(name='gram', problem='cca', target='methods:Good', summary='Exact.', "
            "reference='Bjorck & Golub 1973', needs=needs, traits=('direct',))"
        ),
        version="2.0",
    )
    described = site.registry().describe("gram")
    assert (described.kind, described.name, described.problem) == ("solver", "gram", "cca")
    assert (described.provider, described.version) == ("acme:main", "2.0")
    assert described.needs == Needs(dense=True)
    assert [declared.name for declared in described.options] == ["tol", "normalizer"]
    text = str(described)
    for words in ("Exact.", "Bjorck & Golub 1973", "acme:main 2.0", "adjoint, dense", "direct"):
        assert words in text
    for words in ("tol = 1e-08", "stop here", "a number > 0", "the name of a normalizer"):
        assert words in text


def test_describing_by_any_name(site: Site) -> None:
    site.install(
        "linspec",
        table(solver("gram"), solver("gram", "svd"), solver("als"), solver("qr"))
        + part_table("linspec_normalizers", "NormalizerSpec", "qr", "householder")
        + part_table("linspec_test_matrices", "TestMatrixSpec", "gaussian"),
    )
    registry = site.registry()
    assert registry.describe("als").problem == "cca"
    assert registry.describe("svd/gram").problem == "svd"
    assert registry.describe("householder").kind == "normalizer"
    assert registry.describe("gaussian").kind == "test-matrix"
    assert "no options" in str(registry.describe("gaussian"))
    several = registry.describe("gram")
    assert [name for name, _ in several.namesakes] == ["cca/gram", "svd/gram"]
    assert several.kind == "solver"
    assert "A solver of 2 problems has this name: cca, svd." in str(several)
    assert [name for name, _ in registry.describe("qr").namesakes] == ["cca/qr", "normalizer/qr"]
    assert "2 records have this name" in str(registry.describe("qr"))
    assert registry.describe("svd/gram").namesakes == ()
    with pytest.raises(UnknownName, match="must be a string"):
        registry.describe(3)
    assert registry.describe("normalizer/qr").kind == "normalizer"
    assert registry.describe("cca/qr").kind == "solver"


# ----------------------------------------------------------------------------------------- threads, processes


def test_threads_that_come_first_together_see_one_complete_listing(site: Site) -> None:
    site.install("acme", "import time, threading\ntime.sleep(0.05)\n" + table(solver("gram")))
    registry = site.registry()
    barrier = threading.Barrier(8)
    seen = []

    def ask() -> None:
        barrier.wait()
        seen.append(registry.solvers())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [("cca/gram",)] * 8


def test_a_slow_implementation_holds_up_no_other_thread(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = types.ModuleType("gate_of_this_test")
    gate.reached, gate.go_on = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, gate.__name__, gate)
    (site.folder / "slow_implementation.py").write_text(
        "from gate_of_this_test import go_on, reached\nreached.set()\ngo_on.wait()\n"
    )
    site.install("acme", table(solver("slow", target="slow_implementation:X"), solver("gram")))
    registry = site.registry()
    registry.solvers()

    def import_slowly() -> None:
        with pytest.raises(BrokenPlugin):
            registry.get_solver("slow", "cca")

    thread = threading.Thread(target=import_slowly)
    thread.start()
    gate.reached.wait()
    try:
        assert registry.get_solver("gram", "cca") is Good
    finally:
        gate.go_on.set()
        thread.join()
    del sys.modules["slow_implementation"]


def test_a_plugin_installed_on_the_path_is_found_and_can_be_disabled(site: Site) -> None:
    site.install("acme", table(solver("gram", "a-problem-of-this-test")))
    code = "import linspec; print('a-problem-of-this-test/gram' in linspec.solvers())"

    def ask(disabled: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(site.folder), *sys.path]),
            "LINSPEC_DISABLE_PLUGINS": disabled,
        }
        run = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    assert ask("") == "True"
    assert ask("*") == "False"
