"""The kit and plugins that are broken on purpose, each found by the check of its promise; reports and references."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from click.testing import CliRunner

import linspec as ls
from linspec import Status, registry
from linspec.arrays import to_host
from linspec.cli import main
from linspec.iteration import Iterate
from linspec.operators import RowFiles
from linspec.registry.queries import get_spec
from linspec.testing import check_operator, conformance, kit, planted, run_checks
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


def source(problem: Any) -> Any:
    """The array that the user has passed, or an empty one if it is none of NumPy."""
    found = getattr(problem.A, "array", None)
    return found if type(found) is np.ndarray else np.empty((0, 0))


def a_little_random(arrays, problem):
    x = arrays["x"]
    noise = 3e-15 * np.random.default_rng().random(x.shape)
    return arrays | {"x": x * (1 + noise) if type(x) is np.ndarray else x}


def changes_its_input(problem, *_):
    if source(problem).flags.writeable:
        source(problem)[:1] = 0.0


def begins_anew(self, proper, problem, moments, context, start):
    return proper(problem, moments, context, None)


def keeps_its_answer(self, proper, problem, *given):
    kept = vars(self).setdefault("kept", {})
    return kept.setdefault(problem.A.shape, list(proper(problem, *given)))


def reads_the_statement(self, proper, problem, *given):
    """The rows before weights, confounds and scale are taken into account."""
    A, B = (M - M.mean(axis=0) for M in (problem.A.dense(), problem.B.dense()))
    x = np.linalg.solve(A.T @ A + problem.ridge * np.eye(A.shape[1]), A.T @ B)
    yield Iterate(0.0, lambda: {"x": x}, final=True)


def other_error(self, proper, *given):
    try:
        yield from proper(*given)
    except ls.errors.NonFiniteData:
        raise ValueError("bad data") from None


def multiplies_uncounted(problem, *_):
    for _ in range(30):
        problem.A.matmat(problem.A.device.blocks.zeros((problem.A.shape[1], 1)))


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


def takes_the_first_ridge(arrays, problem):
    return {"x": np.hstack([arrays["x"][:, : problem.B.shape[1]]] * len(tuple(problem.ridges)))}


def takes_the_last_ones(arrays, problem):
    _, S, Vh = np.linalg.svd(problem.A.dense() - problem.A.dense().mean(axis=0), full_matrices=False)
    return {"Vh": Vh[-problem.k :], "S": S[-problem.k :]}


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
        "'step'.* is not declared as an option": solver(DIRECT, step=0.1, __annotations__={"step": float}),
        "name must be 'faulty', as in the record; got 'truth'": problem(name="truth"),
        "must name classes that can be imported; got nowhere:X": problem(held_out_scores={"a": "nowhere:X"}),
    },
    "accuracy": {
        "must reach its tolerance here; .*the answer that of another problem": solver(
            DIRECT, around=lambda self, proper, p, *given: proper(f.altered(copy.copy(p), ridge=0.0), *given)
        ),
        r"shape \(3,\); got \(2,\)": solver(DIRECT_SVD, change=lambda a, p: {n: a[n][1:] for n in a}),
        "S must be the exact one.*Sort": returning(S=lambda S: S[::-1].copy(), Vh=lambda V: V[::-1]),
        "largest entry of each component of Vh must be positive": returning(Vh=lambda V: -V),
        "nearer to the exact ones than chance": solver(DIRECT_SVD, "approximate", change=takes_the_last_ones),
        "needs a residual of at most tol": answering(
            *("faulty/block-krylov", "ONE_STEP"),
            __post_init__=lambda self: f.altered(self, converged=True, status=Status.CONVERGED),
        ),
        "it compares nothing": problem(testing="NOTHING_SEEN"),
        r"must end within 1 s; it was ended.*py:": solver(CG, before=hangs),
    },
    "residual": {
        "last residual of the history": solver(CG, factor=1e-3),
        "claims residual 0; its arrays have": certifying(lambda found: found._replace(residual=0.0)),
        "times 1e-50: the answer claims": certifying(with_a_number),
    },
    "data:array-api-strict": {
        "array_api_strict, float64, like .*; got numpy": returning(Vh=lambda V: np.array(to_host(V))),
    },
    "data:float32": {"ZeroDivision": solver(DIRECT, before=lambda p, *_: 1 / (p.A.dtype != np.float32))},
    "data:numpy": {"data must stay as they are; they are chang": solver(DIRECT, before=changes_its_input)},
    "data:layout": {"ZeroDiv": solver(DIRECT, before=lambda p, *_: 1 / source(p).flags.c_contiguous)},
    "data:iterator": {"raised": solver(CG, before=multiplies_uncounted)},
    "weights": {"effect of repeated rows": solver(DIRECT, around=reads_the_statement)},
    "confounds": {"effect of residuals of a regression": solver(DIRECT, around=reads_the_statement)},
    "scale": {"effect of divided columns": solver(DIRECT, around=reads_the_statement)},
    "together": {"effect of all three": solver(DIRECT, around=reads_the_statement)},
    "bad-data": {
        "must raise NonFiniteData; got ValueError": solver(CG, around=other_error),
        "NaN in V must raise NonFiniteData": normalizer(lambda proper, V, *M: proper(np.nan_to_num(V), *M)),
    },
    "answers": {
        "must be read back as it was; S differ": answering(
            saved_parts=lambda self: {**ls.SVDSolution.saved_parts(self), "S": 2 * self.S}
        ),
        "nor depend on other rows; they do": answering(transform=f.transforms_by_the_rows),
    },
    "seed": {
        "two runs with rng=7 differ": solver(DIRECT, change=a_little_random),
        "needs the trait 'randomized'; add it": solver(KRYLOV, without="randomized"),
        "keep nothing of one problem for the next": solver(DIRECT, around=keeps_its_answer),
    },
    "passes": {
        "passes must count every pass": solver(CG, before=multiplies_uncounted),
        "must keep to max_passes": solver(LSQR, before=is_unlimited),
        "Catch Exception instead": solver(CG, before=swallows),
    },
    "resume": {
        "must begin at its start": solver(LSQR, around=begins_anew),
        "the first residual must be about the last one": solver(GD, around=begins_anew),
    },
    "choices": {
        "ZeroDiv": solver(CG, around=lambda self, proper, *p: proper(*p) if self.form == "auto" else 1 / 0),
        "ridge 0.5 of a path: the solver must reach": solver(DIRECT, change=takes_the_first_ridge),
    },
    "sparse": {"of 40000 were made dense": solver(CG, before=makes_rows_dense)},
    "memory": {
        "not with their square": solver(DIRECT, before=lambda p, *_: np.ones([p.A.shape[0]] * 2, "f4")),
        "may be kept": solver(DIRECT, before=lambda p, *_: f.KEPT.append(p.A.dense().copy())),
    },
    "estimate": {
        "within 1000 times of the clock": solver(
            DIRECT, estimate=classmethod(lambda cls, sizes: ls.cost.Estimate(1e-12, 0.0, ""))
        )
    },
    "process": {
        r"print nothing.* it prints 'solved\\n'": solver(DIRECT, before=lambda *_: print("solved")),
        "generator of NumPy": normalizer(lambda proper, *M: then(np.random.seed(0), proper(*M))),  # noqa: NPY002
        "error state": matrix(draw=lambda proper, *given: then(np.seterr(over="raise"), proper(*given))),
        "it warns of UserWarning: be careful": operator(
            _rmatmat=lambda self, U: then(warnings.warn("be careful"), f.Adapted._rmatmat(self, U))
        ),
    },
    "orthonormal": {
        "Q must be VT": normalizer(lambda proper, *M: (proper(*M)[0], -proper(*M)[1])),
        "of rank 6": normalizer(lambda proper, *given: [each[:, 1:] for each in proper(*given)]),
        "must be orthonormal": normalizer(lambda proper, *given: [each * 1.01 for each in proper(*given)]),
    },
    "moments": {"E ΩΩᵀ/l must be I": matrix(draw=lambda proper, *given: 0.9 * proper(*given))},
    "draws": {
        "Draw from rng alone": matrix(draw=lambda proper, n, k, rng: np.random.randn(n, k)),  # noqa: NPY002
        "sketch by them": matrix(operator=lambda proper, *given: f.Doubled(proper(*given).dense())),
    },
    "laws": {
        r"rows \[10  0 19 10\] .* come as rows \[0, 10, 10, 19\]": operator(
            f.Gathering, gathered=lambda self, i: self.array[i if isinstance(i, slice) else np.sort(i)]
        ),
        "got float64": operator(sample="narrow", _matmat=lambda self, V: self.array.astype(float) @ V),
        "one writes into it": operator(_matmat=lambda self, V: self.array @ V.__imul__(2.0) / 2),
        r"rmatmat\(U\) must be AᵀU": operator(_rmatmat=lambda self, U: (self.array.T @ U)[::-1].copy()),
        "matmat must be linear": operator(_matmat=lambda self, V: self.array @ V + 1e-3 * V[:1] ** 2),
        "column_names must be None or a tuple of 6 texts": operator(column_names=("one",)),
        "shape.*; it raised ValueError": adapter(lambda data: f.altered(f.Adapted(data), shape=(6, 20))),
    },
    "adapts": {
        "files of other formats": adapter(
            f.Adapted, matches=lambda data: isinstance(data, f.Parcel | RowFiles)
        )
    },
    "reads": {"Read the rows that are asked": adapter(f.FromFile, "stored")},
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
    report = run_checks(name)
    assert report.ok, report
    checks = resources.checks_of(name)
    assert {checks.run(check)[0] for check in checks.table} <= {"passed", "skipped"}


def test_the_command_ends_where_an_import_does_not(fresh_registry, tmp_path, monkeypatch):
    (tmp_path / "endless.py").write_text("while True:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ls.register(replace(get_spec("solver", "direct", "svd"), name="endless", target="endless:Solver"))
    result = CliRunner().invoke(main, ["check", "svd/endless", "--backend", "numpy", "--time-limit", "1"])
    assert result.exit_code != 0
    assert "declaration: the part must be imported within 1 s" in result.output


# ---- reports and references --------------------------------------------------------------------------


def test_planted_matrices_share_four_variables():
    X, Y = (A - A.mean(axis=0) for A in planted(2000, 9, 7))
    cosines = np.sort(np.cos(scipy.linalg.subspace_angles(X, Y)))[::-1]
    assert (cosines[:4] > 0.6).all()
    assert (cosines[4:] < 0.2).all()


def test_expected_failures_must_fail_and_name_checks(fresh_registry):
    name = solver(DIRECT, change=lambda a, p: a | {"x": 1.001 * a["x"]})()
    report = run_checks(name, backends=["numpy"], expected_failures={"accuracy": "a thousandth too large"})
    assert report.expected == [("accuracy", "a thousandth too large")]
    assert "accuracy" not in dict(report.failed)
    with pytest.raises(ls.errors.InvalidOption, match="must name checks; got accurracy"):
        conformance(name, expected_failures={"accurracy": "misspelt"})
    report = run_checks(matrix()(), expected_failures={"draws": "nothing"})
    assert dict(report.failed) == {"draws": "it passes, and was expected to fail: nothing"}
    assert not report.ok


def test_operators_are_compared_with_their_entries():
    assert check_operator(np.eye(3)) == []
    assert check_operator(np.eye(3), entries=2 * np.eye(3)) == [
        "matmat must be linear, with the products of the entries; it is not"
    ]
