"""Names of methods, and the plugins that register them: each is found, and a broken one harms nobody else."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import linspec as ls
from linspec.errors import (
    AmbiguousName,
    BrokenPlugin,
    InvalidDeclaration,
    LinspecError,
    PluginWarning,
    UnknownName,
)
from linspec.registry import Registry
from linspec.solving import Solver

HEADER = (
    "from linspec import hookimpl, NormalizerSpec, OperatorSpec, ProblemSpec, SolverSpec, TestMatrixSpec\n"
)


@dataclass(frozen=True, kw_only=True)
class Good(Solver):
    step: float = ls.option(0.5, "step length", above=0)

    def iterate(self, problem, moments, context, start): ...


@dataclass(frozen=True, kw_only=True)
class Abstract(Solver):
    pass


class Bare(Solver):
    def iterate(self, problem, moments, context, start): ...


@dataclass(frozen=True, kw_only=True)
class Clash(Good):
    rng: int = ls.option(0, "taken")


@dataclass(frozen=True, kw_only=True)
class Undeclared(Good):
    size: int = 3


class Stranger: ...


def solver(name: str, problem: str = "cca", target: str = f"{__name__}:Good") -> str:
    return f"SolverSpec(name={name!r}, problem={problem!r}, target={target!r}, summary='S.', reference='R')"


def table(*records: str, hook: str = "linspec_solvers") -> str:
    return f"@hookimpl\ndef {hook}():\n    return [{', '.join(records)}]\n"


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        monkeypatch.syspath_prepend(str(folder))

    def install(self, distribution: str, source: str) -> None:
        """Write a distribution whose entry point "main" is a table."""
        info = self.folder / f"{distribution}-1.0.dist-info"
        info.mkdir()
        module = f"table_{distribution}_{self.folder.name}"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[linspec]\nmain = {module}\n")
        (self.folder / f"{module}.py").write_text(HEADER + source)

    def read(self, disabled: str = "") -> list[str]:
        """Make linspec know these distributions and its own; return the warnings."""
        here = [*metadata.distributions(path=[str(self.folder)]), metadata.distribution("linspec")]
        found = [entry for dist in here for entry in dist.entry_points.select(group="linspec")]
        made = Registry(found, disabled)
        self.monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: made)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                ls.solvers()
        assert all(issubclass(warning.category, PluginWarning) for warning in caught)
        return [str(warning.message) for warning in caught]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def info(identity: str) -> ls.PluginInfo:
    return next(each for each in ls.plugins() if each.identity == identity)


def test_every_form_of_a_name_and_the_first_of_several_keeps_the_bare_one(site: Site) -> None:
    site.install("acme", table(solver("gram"), solver("mine")))
    site.install("bolt", table(solver("mine")))
    clashes = site.read()
    assert len(clashes) == 2
    assert "cca/gram, registered by acme:main, is listed as 'acme:gram'" in clashes[0]
    assert "cca/mine, registered by bolt:main, is listed as 'bolt:mine'" in clashes[1]
    assert {"gram", "acme:gram", "mine", "bolt:mine"} <= {*ls.solvers("cca")}
    assert {"cca/gram", "cca/acme:gram", "cca/mine", "cca/bolt:mine"} <= {*ls.solvers()}
    for name in ("acme:gram", "cca/acme:gram", "ACME:gram", "mine", "acme:mine", "bolt:mine"):
        assert ls.get_solver(name, "cca").__name__ == "Good"
    for name in ("gram", "cca/gram", "linspec:gram"):
        assert ls.get_solver(name, ls.CCA).__name__ == "GramCCA"
    for name in ls.solvers("cca"):
        assert isinstance(ls.get_solver(name, "cca"), type)
    assert (info("acme:main").status, info("acme:main").provides) == ("loaded", ("cca/gram", "cca/mine"))
    described = ls.describe("cca/acme:gram")
    assert (described.provider, described.version, described.needs) == ("acme:main", "1.0", ls.Needs())
    assert "step = 0.5\n      step length [a number > 0]" in str(described)


def test_every_kind_of_record_is_registered(site: Site) -> None:
    facts = "summary='S.', reference='R'"
    parts = f"NormalizerSpec(name='polar', target='linspec_normalizers.qr:QR', {facts})"
    source = table(parts, hook="linspec_normalizers")
    source += table(f"TestMatrixSpec(name='signs', target='a:B', {facts})", hook="linspec_test_matrices")
    source += table(
        "OperatorSpec(name='ore', matches=len, adapt=len, summary='S.')", hook="linspec_operators"
    )
    source += table("ProblemSpec(name='pps', target='a:PPS', summary='S.')", hook="linspec_problems")
    site.install("acme", source + table(solver("first", "pps")))
    assert site.read() == []
    assert "polar" in ls.normalizers()
    assert "signs" in ls.test_matrices()
    assert "pps" in ls.problems()
    assert ls.solvers("pps") == ("first",)
    assert ls.describe("operator/ore").kind == "operator"
    assert "PPS" in dir(ls)


RETURNS = "@hookimpl\ndef linspec_solvers():\n    "
BROKEN_TABLES = {
    "raises": ("raise ValueError('no such card')", "ValueError: no such card"),
    "raises in a hook": (f"{RETURNS}raise KeyError('lost')", "lost"),
    "returns no record": (table("'gram'"), "must return a list of SolverSpec; got ['gram']"),
    "forgets to return": (f"{RETURNS}[{solver('x')}]", "list of SolverSpec; got None"),
    "misspells a hook": (table(solver("x"), hook="linspec_sovlers"), "the hooks linspec_solvers, "),
    "wants arguments": ("@hookimpl\ndef linspec_solvers(registry):\n    return []", "registry"),
    "forgets the marker": (f"def linspec_solvers():\n    return [{solver('x')}]", "@linspec.hookimpl"),
}


@pytest.mark.parametrize(("source", "words"), BROKEN_TABLES.values(), ids=BROKEN_TABLES)
def test_a_broken_table_is_a_warning_that_names_the_cause(site: Site, source: str, words: str) -> None:
    site.install("acme", source)
    site.install("bolt", table(solver("fine")))
    (warning,) = site.read()
    assert warning.startswith("The plugin acme:main cannot be used: ")
    assert words in warning
    assert ls.get_solver("fine", "cca").__name__ == "Good"
    assert (info("acme:main").status, info("bolt:main").status) == ("broken", "loaded")
    with pytest.raises(UnknownName, match="Plugin acme:main is broken") as caught:
        ls.get_solver("x", "cca")
    assert words in str(caught.value).partition("Available:")[0]


BROKEN_TARGETS = {
    f"{__name__}:Nowhere": "has no attribute 'Nowhere'",
    "exits_at_once:Good": "SystemExit: leaving",
    "nowhere_at_all:Good": "ModuleNotFoundError: No module named 'nowhere_at_all'",
    f"{__name__}:Stranger": "it is not a class derived from linspec.Solver",
    f"{__name__}:Abstract": "with all of its methods",
    f"{__name__}:Bare": "it is not decorated with @dataclass(frozen=True, kw_only=True)",
    f"{__name__}:Clash": "its option rng has the name of an argument of linspec.solve",
    f"{__name__}:Undeclared": "field 'size' of Undeclared is not declared as an option",
}


def test_a_class_that_cannot_be_used_is_refused_where_it_is_asked_for(site: Site) -> None:
    (site.folder / "exits_at_once.py").write_text("raise SystemExit('leaving')")
    bad = [solver(f"bad{i}", target=target) for i, target in enumerate(BROKEN_TARGETS)]
    site.install("acme", table(*bad, solver("good")))
    site.read()
    for i, words in enumerate(BROKEN_TARGETS.values()):
        refused = f"cca/bad{i}, registered by acme:main, cannot be used"
        with pytest.raises(BrokenPlugin, match=refused) as caught:
            ls.get_solver(f"bad{i}", "cca")
        assert words in str(caught.value)
        assert "Update acme, or tell its authors." in str(caught.value)
    assert ls.get_solver("good", "cca").__name__ == "Good"


@pytest.mark.parametrize("disabled", ["acme", "acme:main", "*", ", ACME"])
def test_a_disabled_plugin_is_not_imported_and_is_named(site: Site, disabled: str) -> None:
    site.install("acme", "raise SystemExit")
    assert site.read(disabled) == []
    assert info("acme:main").status == "disabled"
    assert "gram" in ls.solvers("cca")
    with pytest.raises(UnknownName, match="Plugin acme:main is disabled"):
        ls.get_solver("mine", "cca")


UNKNOWN = [
    (lambda: ls.get_solver("grm", "cca"), r"is named 'grm'. Did you mean 'gram'\?.*Available: als"),
    (lambda: ls.get_solver("svd/lanzcos"), "Did you mean 'svd/lanczos'"),
    (lambda: ls.get_solver(3), "the name of a solver must be a string; got 3"),
    (lambda: ls.get_problem("svdd"), "no problem is named 'svdd'. Did you mean 'svd'"),
    (lambda: ls.solvers("ccb"), "no problem is named 'ccb'. Did you mean 'cca'"),
    (lambda: ls.describe("gaussan"), "Did you mean 'gaussian'"),
]


def test_an_unknown_or_ambiguous_name_is_answered_with_those_that_may_be_meant() -> None:
    for ask, words in UNKNOWN:
        with pytest.raises(UnknownName, match=words):
            ask()
    for ask in (ls.get_solver, ls.describe):
        with pytest.raises(
            AmbiguousName, match=r"'gram' may be 'cca/gram' or .*'svd/gram'.*; ask for one of"
        ):
            ask("gram")


ROWS = np.random.default_rng(0).standard_normal((30, 4))
PAIR, CLASSES = ls.CCA(ROWS, ROWS[:, :3] ** 2, 2), ls.Discriminant(ROWS, ls.targets.lda([0, 1, 2] * 10))
ANSWERED = [
    (PAIR, "canonical_correlations", "correlations"),
    (PAIR, "x_weights_", "x_weights"),
    (PAIR, "x_scores", "transform"),
    (ls.SVD(ROWS, 2, center=True), "components_", "Vh"),
    (ls.SVD(ROWS, 2, center=True), "explained_variance_ratio_", "explained_variance_ratio"),
    (ls.PLS(ROWS, ROWS[:, :2] ** 2, 2), "s", "singular_values"),
    (ls.PLSRegression(ROWS, ROWS[:, :2] ** 2, 2), "coef_", "coefficients"),
    (ls.LeastSquares(ROWS, ROWS[:, 0] ** 2), "coef_", "x"),
    (CLASSES, "predict_proba", "probabilities"),
]


@pytest.mark.parametrize(("problem", "foreign", "here"), ANSWERED)
def test_an_attribute_of_another_library_is_answered_with_that_of_linspec(problem, foreign, here) -> None:
    solution = ls.solve(problem)
    assert hasattr(solution, here)
    assert getattr(solution, foreign, None) is None
    with pytest.raises(
        AttributeError, match=rf"'{type(solution).__name__}' .* '{foreign}'\. Use \.{here}\.$"
    ):
        getattr(solution, foreign)
    with pytest.raises(AttributeError, match=rf"Use linspec\.solve\(problem\)\.{here}\.$"):
        getattr(problem, here)
    for copied in (copy.deepcopy(solution), pickle.loads(pickle.dumps(solution))):
        np.testing.assert_array_equal(copied.history, solution.history)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing_like_it'$"):
        solution.nothing_like_it  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'fit'\. Use linspec\.solve\(problem\)\.$"):
        problem.fit  # noqa: B018


def test_an_attribute_that_fails_says_why() -> None:
    class Failing(ls.SVD):
        @property
        def stretch(self) -> int:
            return None.length  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'length'"):
        Failing(ROWS, 1).stretch  # noqa: B018


STATED = [
    (lambda: ls.CCA(ROWS, ROWS, ROWS, k=2), r"CCA takes X and Y; got another matrix.*MultisetCCA\(\["),
    (lambda: ls.CCA(ROWS, ROWS, n_components=2), "Did you mean 'k'"),
    (lambda: ls.LeastSquares(ROWS, ROWS, alpha=2.0), "Did you mean 'ridge'"),
    (lambda: ls.KernelCCA(ROWS, ROWS, 2, kernel="rbf"), "Did you mean 'kernel_x'"),
    (lambda: ls.CCA(ROWS, ROWS, missing="drop"), "It is an argument of linspec.solve"),
    (lambda: ls.SVD(ROWS[None], 1), r"got 3 with shape \(1, 30, 4\).*x.reshape\(len\(x\), -1\)"),
    (
        lambda: ls.LeastSquares(ROWS, lambda: iter(ROWS[:, :1].T)),
        r"number for each row is one column, `x\[:, None",
    ),
    (lambda: ls.solve(ls.SVD(ROWS, 1), random_state=0), "random_state is called rng here"),
    (lambda: ls.bootstrap(ls.SVD(ROWS, 1), n_draws=9), "n_draws is called draws here"),
    (lambda: ls.PLSRegression(ROWS, ROWS, k=9), "between 1 and 4 for 30 rows, 4 columns of X; got 9"),
]


@pytest.mark.parametrize(("state", "words"), STATED)
def test_a_problem_that_is_stated_as_elsewhere_says_how_it_is_here(state, words) -> None:
    with pytest.raises(LinspecError, match=words):
        state()


def test_registering_in_a_session(site: Site) -> None:
    site.read()
    facts = {"problem": "cca", "target": f"{__name__}:Good", "summary": "S.", "reference": "R"}
    ls.register(ls.SolverSpec(name="mine", **facts))
    assert ls.get_solver("mine", "cca") is ls.get_solver("local:mine", "cca")
    ls.register(ls.SolverSpec(name="mine", **{**facts, "target": f"{__name__}:Stranger"}))
    with pytest.raises(BrokenPlugin, match=r"registered by local:register.*derived from linspec\.Solver"):
        ls.get_solver("mine", "cca")
    with pytest.warns(
        PluginWarning, match="cca/gram, registered by local:register, is listed as 'local:gram'"
    ):
        ls.register(ls.SolverSpec(name="gram", **facts))
    assert info("local:register").provides == ("cca/gram", "cca/mine")
    with pytest.raises(InvalidDeclaration, match="register takes a SolverSpec or"):
        ls.register("gram")  # type: ignore[arg-type]
