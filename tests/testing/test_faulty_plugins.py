"""The kit and plugins that are broken on purpose: the check of the broken promise fails, in words that help."""

from __future__ import annotations

import os
import random
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import linspec as ls
from linspec import Status, registry
from linspec.arrays import to_host
from linspec.cli import main
from linspec.cost import sweeps_estimate
from linspec.iteration import Iterate
from linspec.operators import RowFiles
from linspec.registry.queries import get_part
from linspec.testing import kit
from tests import faulty_plugins as f
from tests import resources
from tests.faulty_plugins import (
    adapter,
    answering,
    certifying,
    matrix,
    normalizer,
    operator,
    problem,
    returning,
    solver,
)


@pytest.fixture
def fresh_registry(monkeypatch):
    """A registry of its own, so that faulty plugins are registered for nobody else."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)


DIRECT, CG, GD, LSQR = (f"least-squares/{name}" for name in ("direct", "cg", "gd", "lsqr"))
DIRECT_SVD, KRYLOV = "svd/direct", "svd/block-krylov"
CLASSES = {name: get_part("solver", name) for name in (DIRECT, CG, GD, LSQR)}


def source(problem: Any) -> Any:
    """The array that the user has passed, if it is one of NumPy."""
    found = getattr(problem.A, "array", None)
    return found if type(found) is np.ndarray else None


def on_numpy(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Change the coefficients where they are an array of NumPy in float64."""

    def changed(arrays, problem):
        x = arrays["x"]
        return arrays | {"x": change(x) if type(x) is np.ndarray and x.dtype == np.float64 else x}

    return changed


def elsewhere(error: Exception) -> Callable[..., Any]:
    """Raise where the coefficients are no array of NumPy."""
    return lambda a, p: a if type(a["x"]) is np.ndarray else raises(error)()


def raises(error: Exception) -> Callable[..., Any]:
    def work(*_: Any) -> Any:
        raise error

    return work


def needs_c_order(problem, *_):
    if source(problem) is not None and not source(problem).flags.c_contiguous:
        raise BufferError("ndarray is not C-contiguous")


def changes_its_input(problem, *_):
    if source(problem) is not None and source(problem).flags.writeable:
        source(problem)[0, :] = 0.0


def forgets_the_ridge(self, problem, *given):
    return CLASSES[DIRECT].iterate(self, f.altered(f.copy.copy(problem), ridge=0.0), *given)


def begins_anew(name: str) -> Callable[..., Any]:
    return lambda self, problem, moments, context, start: CLASSES[name].iterate(
        self, problem, moments, context, None
    )


def keeps_its_answer(self, problem, moments, context, start):
    kept, key = vars(self).setdefault("kept", {}), problem.A.shape
    if key not in kept:
        kept[key] = next(CLASSES[DIRECT].iterate(self, problem, moments, context, start)).arrays()
    yield Iterate(0.0, lambda: kept[key], final=True)


def reads_the_statement(self, problem, moments, context, start):
    """The rows before weights, confounds and scale are taken into account."""
    A, B = (M - M.mean(axis=0) for M in (problem.A.dense(), problem.B.dense()))
    x = np.linalg.solve(A.T @ A + problem.ridge * np.eye(A.shape[1]), A.T @ B)
    yield Iterate(0.0, lambda: {"x": x}, final=True)


def other_error(self, *given):
    try:
        yield from CLASSES[CG].iterate(self, *given)
    except ls.errors.NonFiniteData:
        raise ValueError("bad data") from None


def multiplies_uncounted(problem, *_):
    for _ in range(30):
        problem.A.matmat(problem.A.home.blocks.zeros((problem.A.shape[1], 1)))


def is_unlimited(problem, moments, context):
    context.passes.most = np.inf


def swallows(problem, moments, context):
    with suppress(BaseException):
        moments.gram_product(np.ones((problem.A.shape[1], 1)))


def hangs(*_: Any) -> None:
    while True:
        pass


def makes_rows_dense(problem, moments, context):
    for block in moments.operators[0].blocks():
        for first in range(0, block.rows, 500):
            block.cut(first, min(first + 500, block.rows)).dense()


def makes_a_square(problem, *_):
    return np.ones((problem.A.shape[0], problem.A.shape[0]), np.float32)


def keeps_its_data(problem, *_):
    f.KEPT.append(np.array(to_host(problem.A.dense())))


def one_way(self, *given):
    return CLASSES[DIRECT].iterate(self, *given) if self.way == "svd" else nowhere  # noqa: F821


def takes_the_first_ridge(arrays, problem):
    return {"x": np.hstack([arrays["x"][:, : problem.B.shape[1]]] * len(tuple(problem.ridges)))}


def takes_the_last_ones(arrays, problem):
    _, S, Vh = np.linalg.svd(problem.A.dense() - problem.A.dense().mean(axis=0), full_matrices=False)
    return {"Vh": Vh[-problem.k :], "S": S[-problem.k :]}


def says_no_time(cls, sizes):
    return replace(sweeps_estimate(sizes, 1), seconds=1e-12)


def then(first: Any, value: Any) -> Any:
    """Return a value after the first was computed."""
    return value


def with_a_number(found):
    """A residual relative to σ₁² and a number."""
    size = float(np.max(found.fields["S"], initial=0.0)) ** 2
    return found._replace(residual=found.residual * size / (size + 1e-20))


FAULTS: dict[str, dict[str, Callable[[], str]]] = {
    "declaration": {
        "must have a docstring; it has none": solver(DIRECT, __doc__=None),
        r"'step'.* is not declared as an option; write step = option\(": solver(
            DIRECT, step=0.1, __annotations__={"step": float}
        ),
        "name must be 'faulty', as in the record; got 'truth'": problem(name="truth"),
        "must name classes that can be imported; got nowhere:X": problem(held_out_scores={"a": "nowhere:X"}),
    },
    "accuracy": {
        "must reach its tolerance here; .*the answer that of another problem": solver(
            DIRECT, iterate=forgets_the_ridge
        ),
        r"x of shape \(8, 2\).* got \(2, 8\)": solver(DIRECT, change=lambda a, p: a | {"x": a["x"].T}),
        r"S must have shape \(3,\); got \(2,\)": solver(
            DIRECT_SVD, change=lambda a, p: {"Vh": a["Vh"][1:], "S": a["S"][1:]}
        ),
        "S must be the exact one.*Sort": returning(S=lambda S: S[::-1].copy(), Vh=lambda V: V[::-1]),
        "largest entry of each component of Vh must be positive": returning(Vh=lambda V: -V),
        "nearer to the exact ones than chance": solver(DIRECT_SVD, "approximate", change=takes_the_last_ones),
        "needs a residual of at most tol": answering(
            *("faulty/block-krylov", "ONE_STEP"),
            __post_init__=lambda self: f.altered(self, converged=True, status=Status.CONVERGED),
        ),
        "it compares nothing": problem(testing="NOTHING_SEEN"),
        "times 1e-50: .*(must reach its tolerance|compare with sizes of the data)": solver(
            DIRECT, change=lambda a, p: a | {"x": a["x"] * (np.abs(source(p)).max() > 1e-20)}
        ),
        "IndexError: 9 .*py:": solver(DIRECT, before=raises(IndexError("9"))),
        "raised MissingCapability: no": solver(DIRECT, before=raises(ls.errors.MissingCapability("no"))),
        r"must end within 1 s; it was ended.*py:": solver(CG, before=hangs),
    },
    "residual": {
        "last residual of the history": solver(CG, factor=1e-3),
        "claims residual 0; its arrays have": certifying(lambda found: found._replace(residual=0.0)),
        "times 1e-50: the answer claims": certifying(with_a_number),
    },
    "data:array-api-strict": {
        "raised IndexError: 9 .*py:": solver(DIRECT, change=elsewhere(IndexError("9"))),
        "raised MissingCapability": solver(DIRECT, change=elsewhere(ls.errors.MissingCapability("no"))),
        "of array_api_strict, float64, like the data; got numpy": returning(
            Vh=lambda V: np.array(to_host(V))
        ),
    },
    "data:float32": {"ZeroDivision": solver(DIRECT, before=lambda p, *_: 1 / (p.A.dtype != np.float32))},
    "data:numpy": {"data must stay as they are; they are chang": solver(DIRECT, before=changes_its_input)},
    "data:layout": {"BufferError": solver(DIRECT, before=needs_c_order)},
    "data:iterator": {"raised": solver(CG, before=multiplies_uncounted)},
    "weights": {"effect of repeated rows": solver(DIRECT, iterate=reads_the_statement)},
    "confounds": {"effect of residuals of a regression": solver(DIRECT, iterate=reads_the_statement)},
    "scale": {"effect of divided columns": solver(DIRECT, iterate=reads_the_statement)},
    "together": {"effect of all three": solver(DIRECT, iterate=reads_the_statement)},
    "bad-data": {
        "must raise NonFiniteData; got ValueError": solver(CG, iterate=other_error),
        r"Call super\(\)|raised ValueError": problem(__post_init__=f.takes_any_weights),
        "NaN in V must raise NonFiniteData": normalizer(lambda proper, V, *M: proper(np.nan_to_num(V), *M)),
    },
    "answers": {
        "must be read back as it was; S differ": answering(
            saved_parts=lambda self: {**ls.SVDSolution.saved_parts(self), "S": 2 * self.S}
        ),
        "nor depend on other rows; they do": answering(transform=f.transforms_by_the_rows),
    },
    "seed": {
        "two runs with rng=7 differ": solver(
            DIRECT, change=on_numpy(lambda x: x * (1 + 3e-15 * np.random.default_rng().random(x.shape)))
        ),
        "needs the trait 'randomized'; add it": solver(KRYLOV, without="randomized"),
        "keep nothing of one problem for the next": solver(DIRECT, iterate=keeps_its_answer),
    },
    "passes": {
        "passes must count every pass": solver(CG, before=multiplies_uncounted),
        "must keep to max_passes": solver(LSQR, before=is_unlimited),
        "Catch Exception instead": solver(CG, before=swallows),
    },
    "resume": {
        "must begin at its start": solver(LSQR, iterate=begins_anew(LSQR)),
        "from a checkpoint, the first residual must be about the last one": solver(
            GD, iterate=begins_anew(GD)
        ),
    },
    "choices": {
        "NameError: name 'nowhere' is not defined": solver(
            DIRECT,
            way=ls.option("svd", "how", choices=("svd", "qr")),
            __annotations__={"way": str},
            iterate=one_way,
        ),
        "ridge 0.5 of a path: the solver must reach": solver(DIRECT, change=takes_the_first_ridge),
    },
    "sparse": {"of 40000 were made dense": solver(CG, before=makes_rows_dense)},
    "memory": {
        "with the rows, not with their square": solver(DIRECT, before=makes_a_square),
        "nothing of a problem may be kept": solver(DIRECT, before=keeps_its_data),
    },
    "estimate": {"within 1000 times of the clock": solver(DIRECT, estimate=classmethod(says_no_time))},
    "process": {
        r"print nothing.* it prints 'solved\\n'": solver(DIRECT, before=lambda *_: print("solved")),
        "the global generator of Python is changed": answering(
            transform=lambda self, A, **m: then(random.random(), ls.SVDSolution.transform(self, A, **m))
        ),
        "the global generator of NumPy is changed": normalizer(
            lambda proper, *given: then(np.random.seed(0), proper(*given))  # noqa: NPY002
        ),
        "error state of NumPy": matrix(
            draw=lambda proper, *given: then(np.seterr(over="raise"), proper(*given))
        ),
        "it warns of UserWarning: be careful": operator(
            _rmatmat=lambda self, U: then(warnings.warn("be careful"), f.Adapted._rmatmat(self, U))
        ),
    },
    "orthonormal": {
        "Q must be VT; .* Return the T of this Q": normalizer(
            lambda proper, *M: (proper(*M)[0], -proper(*M)[1])
        ),
        "of rank 6": normalizer(lambda proper, *given: [each[:, 1:] for each in proper(*given)]),
        "must be orthonormal": normalizer(lambda proper, *given: [each * 1.01 for each in proper(*given)]),
        "V must stay as it is|read-only": normalizer(
            lambda proper, V, *M: then(V.__setitem__(0, 0 * V[0]), proper(V, *M))
        ),
    },
    "moments": {"E ΩΩᵀ/l must be I": matrix(draw=lambda proper, *given: 0.9 * proper(*given))},
    "draws": {
        "Draw from rng alone": matrix(
            draw=lambda proper, n, k, rng: np.random.standard_normal((n, k))  # noqa: NPY002
        ),
        "and sketch by them; they differ": matrix(
            operator=lambda proper, *given: f.Doubled(proper(*given).dense())
        ),
    },
    "laws": {
        r"rows \[10  0 19 10\] .* come as rows \[0, 10, 10, 19\]": operator(
            f.Gathering, gathered=lambda self, i: self.array[i if isinstance(i, slice) else np.sort(i)]
        ),
        "declared dtype float32; got float64": operator(
            sample="narrow", _matmat=lambda self, V: self.array.astype(float) @ V
        ),
        "one writes into it. Work on a copy": operator(
            _matmat=lambda self, V: self.array @ V.__imul__(2.0) / 2
        ),
        r"rmatmat\(U\) must be AᵀU": operator(_rmatmat=lambda self, U: (self.array.T @ U)[::-1].copy()),
        "matmat must be linear": operator(
            _matmat=lambda self, V: self.array @ V + 1e-3 * (self.array @ V) ** 2
        ),
        "column_names must be None or a tuple of 6 texts": operator(column_names=("one",)),
        r"block of 20 rows, since shape is \(6, 20\); it raised ValueError": adapter(
            lambda data: f.altered(f.Adapted(data), shape=(6, 20))
        ),
    },
    "adapts": {
        "files of other formats": adapter(
            f.Adapted, matches=lambda data: isinstance(data, f.Parcel | RowFiles)
        )
    },
    "reads": {
        "16 pieces of the rows take .* Read the rows that are asked": adapter(f.FromFile, "stored"),
        "sparse data must stay sparse": adapter(
            lambda data: f.Adapted(f.Parcel(data.held.toarray())), "Sparse"
        ),
    },
}
"""What a check says of a plugin with this difference, by the check."""
RESOURCES = {check for table in resources.CHECKS.values() for check in table}


@pytest.mark.parametrize(("check", "says"), [(check, says) for check in FAULTS for says in FAULTS[check]])
def test_the_check_of_the_broken_promise_fails(fresh_registry, check, says):
    name = FAULTS[check][says]()
    make = resources.checks_of if check in RESOURCES else kit.Checks
    outcome, text = make(name, time_limit=1.0 if "must end" in says else 60.0).run(check)
    assert outcome == "failed"
    assert re.search(says, text, re.DOTALL), text
    f.KEPT.clear()


def test_each_check_has_a_faulty_plugin():
    tables = [*kit.CHECKS.values(), *resources.CHECKS.values()]
    assert {name for table in tables for name in table} | {"declaration"} <= {*FAULTS}


@pytest.mark.parametrize("register", [adapter(f.Adapted), adapter(f.Gathering), problem()])
def test_what_the_faulty_ones_are_made_of_passes(fresh_registry, register):
    """The solvers and parts that ship have tests of their own."""
    name = register()
    report = kit.run_checks(name)
    assert report.ok, report
    checks = resources.checks_of(name)
    assert {checks.run(check)[0] for check in checks.table} <= {"passed", "skipped"}


# ---- packages -------------------------------------------------------------------------------------

RECORD = """
import linspec


@linspec.hookimpl
def linspec_solvers():
    return [
        linspec.SolverSpec(
            name="packaged",
            {field}="svd",
            target="{target}",
            summary="A solver in a broken package.",
            reference="Chan 1982, ACM Trans. Math. Softw. 8(1), doi:10.1145/355984.355990",
            needs=linspec.Needs(entries=True),
            traits=("direct", "one-pass", "automatic"),
        )
    ]
"""
SOLVER = "import numpy\nfrom linspec_svd.gram import DirectSVD as Solver\n\n"
CHANGES = "print('hello')\nnumpy.seterr(all='ignore')\nnumpy.random.seed(0)\n"
NO_FIELD = RECORD.replace("{field}", "problme")
PACKAGES = {  # table, module of the solver, what `linspec check` says
    "misspells a field": (NO_FIELD, "", "unexpected keyword argument 'problme'"),
    "raises where its table is imported": (
        "raise RuntimeError('no licence')\n",
        "",
        "RuntimeError: no licence",
    ),
    "does not end where it is imported": (RECORD, "while True:\n    pass\n", "declaration: "),
}
IMPORTS = {  # table, module of the solver, what the check of imports says
    "sleeps where its table is imported": ("import time\ntime.sleep(2)\n" + RECORD, SOLVER, "takes 2"),
    "loads an array library": ("import numpy\n" + RECORD, SOLVER, "loads numpy"),
    "changes settings and prints": (
        RECORD,
        SOLVER + CHANGES,
        "an import must leave the process as it was; .*hello.*the error state of NumPy",
    ),
}


def package(table, code, tmp_path, monkeypatch):
    """Write a package with a table and a module of a solver, and make it one of those that are installed."""
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    name = f"broken_{abs(hash((table, code)))}"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[linspec]\nbroken = {name}\n", encoding="utf-8")
    table = table.replace("{field}", "problem").replace("{target}", f"{name}_solver:Solver")
    (tmp_path / f"{name}.py").write_text(table, encoding="utf-8")
    (tmp_path / f"{name}_solver.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for folder in (tmp_path, Path(__file__).parents[2]):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    own = registry.Registry()  # reads what is installed, and so the package
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)


@pytest.mark.parametrize(("table", "code", "says"), PACKAGES.values(), ids=PACKAGES)
def test_the_command_names_the_fault_of_a_package(tmp_path, monkeypatch, table, code, says):
    package(table, code, tmp_path, monkeypatch)
    limit = "1" if "while" in code else "60"
    result = CliRunner().invoke(main, ["check", "svd/packaged", "--backend", "numpy", "--time-limit", limit])
    assert result.exit_code != 0
    assert re.search(says, result.output, re.DOTALL), result.output


@pytest.mark.parametrize(("table", "code", "says"), IMPORTS.values(), ids=IMPORTS)
def test_what_an_import_does_is_noticed(tmp_path, monkeypatch, table, code, says):
    package(table, code, tmp_path, monkeypatch)
    resources.imported.cache_clear()
    with np.errstate():
        outcome, text = resources.checks_of("svd/packaged").run("imports")
    assert outcome == "failed"
    assert re.search(says, text, re.DOTALL), text
