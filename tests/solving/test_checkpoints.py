"""Checkpoints: a run that was cut, killed or stopped goes on with the bits of a run in one piece."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from click.testing import CliRunner

import linspec as ls
from linspec import cost, registry
from linspec.arrays import HOST
from linspec.cli import main
from linspec.errors import AccuracyWarning, InvalidFile, InvalidOption, InvalidProblem, MissingCapability
from linspec.solving import archive, checkpoints
from linspec.sweeps.blocks import BlockOperator

RNG = np.random.default_rng(0)
A = RNG.standard_normal((1500, 30)) @ np.diag(np.geomspace(10, 0.1, 30))
Y = A[:, :5] @ RNG.standard_normal((5, 20)) + RNG.standard_normal((1500, 20))
S = scipy.sparse.random_array((800, 120), density=0.03, rng=RNG, format="csr")
T = scipy.sparse.random_array((800, 90), density=0.03, rng=RNG, format="csr")
W = scipy.sparse.random_array((60, 1500), density=0.03, rng=RNG, format="csr")
WEIGHTS = np.arange(1500) % 3


def slices(matrix: Any) -> Any:
    """A matrix as slices that can be read again."""
    return lambda: (matrix[i : i + 200] for i in range(0, matrix.shape[0], 200))


def blocks(matrix: Any) -> BlockOperator:
    """A matrix as blocks in this process."""
    return BlockOperator([matrix[i : i + 200] for i in range(0, matrix.shape[0], 200)])


CASES: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
    "krylov": (lambda: ls.SVD(A, k=4, center=True), "block-krylov", {"form": "implicit", "block": 3}),
    "krylov-restarted": (
        lambda: ls.SVD(A, k=4),
        "block-krylov",
        {"form": "implicit", "block": 3, "basis": 12},
    ),
    "krylov-float32": (lambda: ls.SVD(A.astype("f4"), k=4, center=True), "block-krylov", {"block": 3}),
    "krylov-sparse": (lambda: ls.SVD(S, k=4, center=True), "block-krylov", {"form": "implicit"}),
    "krylov-rows": (lambda: ls.SVD(W, k=4, left=True), "block-krylov", {"form": "implicit"}),
    "krylov-weighted": (
        lambda: ls.SVD(1e-40 * A, k=4, center=True, sample_weight=WEIGHTS, scale=True),
        "block-krylov",
        {"form": "implicit", "block": 3},
    ),
    "lobpcg": (lambda: ls.CCA(A, Y, k=3), "lobpcg", {"form": "implicit", "oversample": 2}),
    "lobpcg-held": (lambda: ls.CCA(A, Y, k=3, ridge=0.1), "lobpcg", {"oversample": 2, "form": "dense"}),
    "lobpcg-confounds": (
        lambda: ls.CCA(A.astype("f4"), Y, k=3, confounds=A[:, :2]),
        "lobpcg",
        {"form": "implicit", "oversample": 2, "tol": 1e-4},
    ),
    "lobpcg-sparse": (lambda: ls.CCA(S, T, k=3, ridge=0.1), "lobpcg", {"form": "sparse", "oversample": 2}),
    "cg": (lambda: ls.LeastSquares(A, Y[:, 0]), "cg", {"form": "implicit"}),
    "cg-path": (lambda: ls.LeastSquares(A, Y, ridge=[0.1, 1.0], center=True), "cg", {"form": "implicit"}),
    "cg-held": (lambda: ls.LeastSquares(A, Y[:, 0]), "cg", {"form": "dense"}),
    "krylov-slices": (
        lambda: ls.SVD(slices(A), k=4, center=True),
        "block-krylov",
        {"form": "implicit", "block": 3},
    ),
    "krylov-blocks": (
        lambda: ls.SVD(blocks(A), k=4, center=True),
        "block-krylov",
        {"form": "implicit", "block": 3},
    ),
    "krylov-blocks-held": (lambda: ls.SVD(blocks(A), k=4, center=True), "block-krylov", {}),
    "lobpcg-slices": (
        lambda: ls.CCA(slices(A.astype("f4")), slices(Y), k=3),
        "lobpcg",
        {"form": "implicit", "oversample": 2, "tol": 1e-4},
    ),
    "lobpcg-slices-held": (lambda: ls.CCA(slices(A), slices(Y), k=3, ridge=0.1), "lobpcg", {"oversample": 2}),
    "lobpcg-slices-sparse": (
        lambda: ls.CCA(slices(S), slices(T), k=3, ridge=0.1),
        "lobpcg",
        {"form": "implicit", "oversample": 2, "tol": 0.03},
    ),
    "lobpcg-blocks": (
        lambda: ls.CCA(blocks(A), blocks(Y), k=3),
        "lobpcg",
        {"form": "implicit", "oversample": 2},
    ),
    "lobpcg-blocks-sparse": (
        lambda: ls.CCA(blocks(S), blocks(T), k=3, ridge=0.1),
        "lobpcg",
        {"form": "implicit", "oversample": 2, "tol": 0.03},
    ),
    "krylov-blocks-sparse": (
        lambda: ls.SVD(blocks(S), k=4, center=True),
        "block-krylov",
        {"form": "implicit"},
    ),
    "krylov-slices-sparse": (lambda: ls.SVD(slices(S), k=4), "block-krylov", {"form": "implicit"}),
    "cg-blocks-sparse": (
        lambda: ls.LeastSquares(blocks(S), Y[:800, :2], ridge=0.1),
        "cg",
        {"form": "implicit", "tol": 1e-4},
    ),
    "lobpcg-blocks-weighted": (
        lambda: ls.CCA(blocks(A), blocks(Y), k=3, sample_weight=WEIGHTS, scale=True),
        "lobpcg",
        {"form": "implicit", "oversample": 2},
    ),
    "cg-slices": (
        lambda: ls.LeastSquares(slices(A), Y[:, :3], ridge=0.1, center=True),
        "cg",
        {"form": "implicit"},
    ),
    "cg-blocks": (lambda: ls.LeastSquares(blocks(A), Y[:, 0], center=True), "cg", {"form": "implicit"}),
    "cg-rows": (lambda: ls.LeastSquares(W, Y[:60, :2], ridge=0.01), "cg", {"form": "implicit"}),
    "lsqr": (lambda: ls.LeastSquares(A, Y[:, 0]), "lsqr", {}),
    "lsqr-path": (lambda: ls.LeastSquares(A, Y, ridge=[0.1, 1.0], center=True), "lsqr", {"tol": 1e-11}),
    "lsqr-sparse": (lambda: ls.LeastSquares(S, Y[:800, :2], ridge=0.1), "lsqr", {}),
    "sketch": (lambda: ls.LeastSquares(A, Y, ridge=[0.1, 1.0], center=True), "sketch-precondition", {}),
    "svrg": (lambda: ls.LeastSquares(A, Y, ridge=[10.0, 100.0], center=True), "svrg", {"tol": 1e-4}),
    "gd-path": (
        lambda: ls.LeastSquares(A, Y[:, :2], ridge=[1.0, 9.0]),
        "gd",
        {"form": "implicit", "tol": 1e-3},
    ),
    "ling-path": (
        lambda: ls.LeastSquares(A, Y[:, :2], ridge=[1.0, 9.0]),
        "ling",
        {"form": "implicit", "rank": 3},
    ),
    "ling-printed": (
        lambda: ls.LeastSquares(A, Y[:, :2], ridge=1.0),
        "ling",
        {"form": "implicit", "rank": 3, "variant": "ridge"},
    ),
    "nystrom-path": (
        lambda: ls.LeastSquares(A, Y[:, :2], ridge=[1.0, 9.0]),
        "nystrom-pcg",
        {"form": "implicit", "rank": 3},
    ),
}

MULTISET = (
    lambda: ls.get_problem("multiset-cca")([A, Y, A[:, :5] ** 2], k=2, ridge=0.1),
    "lobpcg",
    {"oversample": 2, "tol": 1e-8},
)

pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


def bits(solution: Any, passes: bool = True) -> dict[str, Any]:
    """All that must be the same; perhaps but for the passes."""
    names = ("S", "Vh", "U", "correlations", "x_weights", "y_weights", "x")
    arrays = {name: getattr(solution, name) for name in names if getattr(solution, name, None) is not None}
    left_out = {"seconds"} if passes else {"seconds", "passes"}
    table = solution.history[[name for name in solution.history.dtype.names if name not in left_out]]
    numbers = {
        name: getattr(solution, name) for name in ("passes", "columns", "flops", "iterations", "residual")
    }
    numbers = {name: value for name, value in numbers.items() if name not in left_out}
    return {**{name: array.tobytes() for name, array in arrays.items()}, "history": table.tolist(), **numbers}


HELD = (
    "krylov-float32",
    "lobpcg-held",
    "lobpcg-sparse",
    "cg-held",
    "krylov-blocks-held",
    "lobpcg-slices-held",
)
"""Cases in which Gram matrices are held: no sweep is to come, and one more reads the data, to know them again."""


def goes_on_as(found: Any, whole: Any, case: str) -> bool:
    """Whether a run that went on has the bits of a run in one piece, and its passes but for that one."""
    if case in HELD and found.passes == whole.passes + 1:
        return bits(found, passes=False) == bits(whole, passes=False)
    if case == "cg-rows" and found.passes == whole.passes:
        # B is read before A is, and once more to know it again, which shows until A has been read as often.
        return bits(found, passes=False) == bits(whole, passes=False)
    return bits(found) == bits(whole)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow(keep=8)
def test_a_run_goes_on_with_the_same_bits(case: str, tmp_path: Path) -> None:
    state, solver, options = CASES[case]
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    assert whole.iterations > 0
    for stop in sorted({0, 1, whole.iterations // 2, whole.iterations - 1}):
        ls.solve(
            state(),
            solver,
            rng=0,
            checkpoint=ls.Checkpoint(path),
            callback=lambda progress, stop=stop: progress.iteration >= stop,
            **options,
        )
        found = ls.solve(state(), solver, start=path, **options)
        assert goes_on_as(found, whole, case), stop


def test_a_run_over_the_rows_goes_on_with_what_it_multiplied(tmp_path: Path) -> None:
    test_a_run_goes_on_with_the_same_bits("cg-rows", tmp_path)


@pytest.mark.parametrize("case", ["krylov", "krylov-sparse", "krylov-rows", "lobpcg", "lobpcg-sparse"])
@pytest.mark.slow(keep=2)
def test_sweeps_in_float32_go_on_with_the_same_bits(case: str, tmp_path: Path) -> None:
    """Before the change to float64 and after it; to make the copy again is one more reading."""
    state, solver, options = CASES[case]
    tol = 1e-10 if solver == "block-krylov" else 1e-12  # below what products in float32 reach
    options = {**options, "form": "implicit", "sweeps": "float32", "tol": tol}
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    arrays = [name for name in ("S", "Vh", "U", "x_weights", "y_weights") if hasattr(whole, name)]
    more = []
    for stop in sorted({0, 1, whole.iterations // 2, whole.iterations - 1}):
        cut = {"checkpoint": path, "callback": lambda progress, stop=stop: progress.iteration >= stop}
        ls.solve(state(), solver, rng=0, **cut, **options)
        found = ls.solve(state(), solver, start=path, **options)
        assert all(bits(found).get(name) == bits(whole).get(name) for name in arrays), stop
        assert found.iterations == whole.iterations
        assert np.array_equal(found.history["residual"], whole.history["residual"], equal_nan=True)
        more.append(found.passes - whole.passes)
    assert more[0] == 1
    assert more[-1] == 0
    assert set(more) == {0, 1}


@pytest.mark.parametrize("case", ["cg-path", "ling-path", "nystrom-path", "multiset"])
@pytest.mark.slow(keep=2)
def test_refinement_goes_on_with_the_same_bits(case: str, tmp_path: Path) -> None:
    """In every stage between products in float64; a copy that is still needed is made again."""
    state, solver, options = {**CASES, "multiset": MULTISET}[case]
    options = {"form": "implicit", "sweeps": "float32", "tol": 1e-12, **options}
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    assert whole.converged
    for stop in range(0, whole.iterations, max(whole.iterations // 8, 1)):
        cut = {"checkpoint": path, "callback": lambda progress, stop=stop: progress.iteration >= stop}
        ls.solve(state(), solver, rng=0, **cut, **options)
        found = ls.solve(state(), solver, start=path, **options)
        assert bits(found, passes=False) == bits(whole, passes=False), stop
        assert found.passes - whole.passes in (0, 1)


@pytest.mark.parametrize("case", ["krylov-float32", "krylov-blocks-held", "lobpcg-slices-held", "cg-held"])
def test_another_memory_changes_no_choice(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether Gram matrices are held, and how wide blocks are, is in the file."""
    state, solver, options = CASES[case]
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    ls.solve(state(), solver, rng=0, checkpoint=path, callback=lambda p: p.iteration >= 1, **options)
    monkeypatch.setattr(cost, "ALWAYS_AVAILABLE", 0)
    monkeypatch.setattr(type(HOST), "free_memory", lambda _: 100)  # in which nothing would be held
    anew = ls.solve(state(), solver, rng=0, **options)
    assert case == "cg-held" or anew.passes > whole.passes
    assert goes_on_as(ls.solve(state(), solver, start=path, **options), whole, case)


@pytest.mark.parametrize("case", ["krylov", "lobpcg", "cg", "krylov-slices"])
def test_budgets_count_both_runs(case: str, tmp_path: Path) -> None:
    state, solver, options = CASES[case]
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    few = whole.passes - 2
    first = ls.solve(state(), solver, rng=0, checkpoint=path, max_passes=few, **options)
    assert first.status is ls.Status.BUDGET
    assert first.passes <= few
    again = ls.solve(state(), solver, start=path, max_passes=few, **options)
    assert again.status is ls.Status.BUDGET
    assert again.passes <= few
    assert bits(ls.solve(state(), solver, start=path, max_passes=whole.passes, **options)) == bits(whole)


@pytest.mark.parametrize("lstsq", ["cg", "lsqr", "ling", "gd"])
def test_a_step_that_the_budget_cuts_short_is_made_again(lstsq: str, tmp_path: Path) -> None:
    """Cut at every pass: the part of a half step is in the answer, and not in the file.

    "ling" reads its data again to prepare itself, as its record says; the others make no sweep more.
    """
    options = {"form": "implicit", "lstsq": lstsq, "max_iterations": 3}
    X, V = A[:300, :8], Y[:300, :6]
    whole, path = ls.solve(ls.CCA(X, V, k=1, ridge=1.0), "als", rng=0, **options), tmp_path / "run.ckpt"
    for few in range(6, int(min(whole.passes, 30))):
        part = ls.solve(
            ls.CCA(X, V, k=1, ridge=1.0), "als", rng=0, checkpoint=path, max_passes=few, **options
        )
        assert part.passes <= few
        found = ls.solve(ls.CCA(X, V, k=1, ridge=1.0), "als", start=path, **options)
        assert np.array_equal(found.x_weights, whole.x_weights), few
        assert found.iterations == whole.iterations
        assert found.passes == whole.passes + 2 * (lstsq == "ling"), few


def test_a_run_is_cut_and_goes_on_many_times(tmp_path: Path) -> None:
    state, solver, options = CASES["krylov-sparse"]
    options = {**options, "block": 6}  # by itself it is as wide as the budget of the first run asks for
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    found, start = None, None
    for passes in range(3, int(whole.passes) + 1, 3):
        found = ls.solve(state(), solver, rng=0, checkpoint=path, start=start, max_passes=passes, **options)
        start = path
    found = ls.solve(state(), solver, start=path, **options)
    assert bits(found) == bits(whole)


def test_others_begin_at_the_last_iterate(tmp_path: Path) -> None:
    path, problem = tmp_path / "run.ckpt", ls.LeastSquares(A, Y[:, 0])
    part = ls.solve(problem, "nystrom-pcg", rng=0, checkpoint=ls.Checkpoint(path, seconds=0), max_passes=20)
    found = ls.solve(problem, "nystrom-pcg", start=path)
    assert found.converged
    assert found.history["residual"][len(part.history) - 1] < 2 * part.residual
    assert found.passes > part.passes
    np.testing.assert_allclose(found.x, np.linalg.lstsq(A, Y[:, 0])[0], rtol=1e-4, atol=1e-7)


def test_rows_elsewhere_begin_at_the_last_iterate(tmp_path: Path) -> None:
    """Long vectors of LSQR stay beside blocks of rows, and no checkpoint has them."""
    path, problem = tmp_path / "run.ckpt", ls.LeastSquares(blocks(A), Y[:, 0])
    part = ls.solve(problem, "lsqr", checkpoint=ls.Checkpoint(path, seconds=0), max_passes=20)
    found = ls.solve(problem, "lsqr", start=path)
    assert found.converged
    assert found.history["residual"][len(part.history) - 1] < 2 * part.residual
    np.testing.assert_allclose(found.x, np.linalg.lstsq(A, Y[:, 0])[0], rtol=1e-4, atol=1e-7)


def test_a_saved_answer_is_a_start(tmp_path: Path) -> None:
    answer = ls.solve(ls.LeastSquares(A, Y[:, 0]), "cg", form="implicit")
    answer.save(tmp_path / "answer.npz")
    again = ls.solve(ls.LeastSquares(A, Y[:, 0]), "cg", form="implicit", start=str(tmp_path / "answer.npz"))
    assert again.iterations < answer.iterations


def test_auto_goes_on_with_the_solver_of_then(tmp_path: Path) -> None:
    state, _, _ = CASES["cg"]
    path = tmp_path / "run.ckpt"
    ls.solve(state(), "cg", rng=0, checkpoint=path, callback=lambda progress: progress.iteration == 5)
    found = ls.solve(state(), start=path)
    assert (found.solver, found.converged) == ("cg", True)


# ---- refusals -----------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The checkpoint of a run that was cut."""
    path = tmp_path / "run.ckpt"
    problem = ls.SVD(A, k=4, center=True)
    ls.solve(problem, "block-krylov", rng=0, checkpoint=path, max_passes=5, form="implicit", block=3)
    return path


@pytest.mark.parametrize(
    "problem, options, what",
    [
        (ls.SVD(A, k=5, center=True), {}, r"parameters of the problem must be the same \(k\)"),
        (ls.SVD(A, k=4), {}, r"\(center\)"),
        (ls.SVD(A[:-1], k=4, center=True), {}, r"matrix A must be the same \(shape, rows\)"),
        (ls.SVD(A + 1e-9, k=4, center=True), {}, r"matrix A must be the same \(rows\)"),
        (ls.SVD(A.astype("f4"), k=4, center=True), {}, r"\(dtype, rows\)"),
        (ls.SVD(A, k=4, center=True), {"tol": 1e-3}, r"options of the solver must be the same \(tol\)"),
        (ls.SVD(A, k=4, center=True), {"block": 5}, r"\(block\)"),
    ],
)
def test_another_run_is_refused(kept: Path, problem: Any, options: dict[str, Any], what: str) -> None:
    settings = {"form": "implicit", "block": 3, **options}
    with pytest.raises(InvalidProblem, match=f"checkpoint of another run: .*{what}"):
        ls.solve(problem, "block-krylov", start=kept, **settings)


def with_another_entry(matrix: Any, row: int) -> Any:
    """A copy with one entry a tenth larger."""
    changed = matrix.copy()
    if scipy.sparse.issparse(changed):
        changed.data[changed.indptr[row]] *= 1.1
    else:
        changed[row, 0] *= 1.1
    return changed


def with_another_sign(matrix: Any, row: int) -> Any:
    """A copy with one entry of the other sign."""
    changed = matrix.copy()
    if scipy.sparse.issparse(changed):
        changed.data[changed.indptr[row]] *= -1
    else:
        changed[row, 0] *= -1
    return changed


def with_rows_exchanged(matrix: Any, row: int) -> Any:
    """A copy with a row and the next one that is not empty exchanged: sums of columns are the same."""
    order = np.arange(matrix.shape[0])
    other = next(i for i in range(row + 1, matrix.shape[0]) if abs(matrix[[i]]).sum() > 0)
    order[[row, other]] = other, row
    return matrix[order]


def with_rows_permuted(matrix: Any, row: int) -> Any:
    """Return a copy with its rows in another order, except for those in the checksum of the file."""
    n = matrix.shape[0]
    free = np.setdiff1d(
        np.arange(n), [*np.linspace(0, n - 1, checkpoints.PLACES).astype(int), *range(8), *range(n - 8, n)]
    )
    order = np.arange(n)
    order[free] = np.random.default_rng(5).permutation(free)
    return matrix[order]


CHANGES = [with_another_entry, with_another_sign, with_rows_exchanged, with_rows_permuted]


def first_filled(matrix: Any) -> int:
    """Return a row that is not empty, and not in the checksum of any checkpoint."""
    n = matrix.shape[0]
    taken = {*np.linspace(0, n - 1, checkpoints.PLACES).astype(int).tolist(), *range(8)}
    return next(i for i in range(n // 2, n) if i not in taken and i % 3 and abs(matrix[[i]]).sum() > 0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow(keep=8)
def test_other_rows_are_never_answered_for(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any matrix of the problem, whatever the run had read when it was cut."""
    state, solver, options = CASES[case]
    module, path = sys.modules[__name__], tmp_path / "run.ckpt"
    used = [name for name in "AYSTW" if name in state.__code__.co_names]
    for stop, changes in ((1, CHANGES), (0, CHANGES[:1])):
        cut = {"checkpoint": path, "callback": lambda progress, stop=stop: progress.iteration >= stop}
        ls.solve(state(), solver, rng=0, **cut, **options)
        for name, change in itertools.product(used, changes):
            given = getattr(module, name)
            monkeypatch.setattr(module, name, change(given, first_filled(given[:60])))
            try:
                found = ls.solve(state(), solver, start=path, **options)
            except InvalidProblem as error:
                refusal, found = str(error), None
            anew = None if found is None else ls.solve(state(), solver, rng=0, **options)
            monkeypatch.setattr(module, name, given)
            if anew is None:
                assert re.search("is the checkpoint of another run: .* must be the same", refusal)
            else:  # it had read nothing
                assert stop == 0
                assert goes_on_as(found, anew, case)


@pytest.mark.parametrize(
    "solver, options", [("lobpcg", {"oversample": 2}), ("lobpcg", {"oversample": 2, "form": "dense"})]
)
@pytest.mark.parametrize("change", CHANGES)
def test_other_operators_are_never_answered_for(
    change: Callable[[Any, int], Any], solver: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Operators known by products have no rows to check: one adjoint product is compared, before and after."""
    path, operator = tmp_path / "run.ckpt", scipy.sparse.linalg.aslinearoperator
    settings = {"form": "implicit", **options}
    whole = ls.solve(ls.CCA(operator(A), operator(Y), k=3), solver, rng=0, **settings)
    cut = {"checkpoint": path, "callback": lambda progress: progress.iteration >= 2}
    ls.solve(ls.CCA(operator(A), operator(Y), k=3), solver, rng=0, **cut, **settings)
    found = ls.solve(ls.CCA(operator(A), operator(Y), k=3), solver, start=path, **settings)
    assert found.correlations.tobytes() == whole.correlations.tobytes()
    assert 0 < found.passes - whole.passes <= 2
    for X, other in ((change(A, 700), Y), (A, change(Y, 700))):
        with pytest.raises(
            InvalidProblem, match=r"checkpoint of another run: the rows of .* must be the same"
        ):
            ls.solve(ls.CCA(operator(X), operator(other), k=3), solver, start=path, **settings)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5"])
def test_other_files_are_never_answered_for(
    suffix: str, change: Callable[[Any, int], Any], tmp_path: Path
) -> None:
    """The file has changed between the two runs; unchanged, no pass is added."""
    path, options = tmp_path / "run.ckpt", {"form": "implicit", "block": 3}

    def problem(matrix: Any) -> Any:
        file = tmp_path / f"rows.{suffix}"
        if suffix == "npy":
            np.save(file, matrix)
            return ls.SVD(np.load(file, mmap_mode="r"), k=4, center=True)
        if suffix == "zarr":
            shutil.rmtree(file, ignore_errors=True)
            pytest.importorskip("zarr").save_array(str(file), matrix)
        else:
            h5py = pytest.importorskip("h5py")
            with h5py.File(file, "w") as made:
                made["rows"] = matrix
        return ls.SVD(str(file), k=4, center=True)

    whole = ls.solve(problem(A), "block-krylov", rng=0, **options)
    cut = {"checkpoint": path, "callback": lambda progress: progress.iteration >= 2}
    ls.solve(problem(A), "block-krylov", rng=0, **cut, **options)
    assert bits(ls.solve(problem(A), "block-krylov", start=path, **options)) == bits(whole)
    with pytest.raises(InvalidProblem, match="checkpoint of another run"):
        ls.solve(problem(change(A, 700)), "block-krylov", start=path, **options)


def test_other_weights_are_never_answered_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, solver, options = CASES["krylov-weighted"]
    path, weights = tmp_path / "run.ckpt", WEIGHTS.copy()
    ls.solve(state(), solver, rng=0, checkpoint=path, callback=lambda p: p.iteration >= 2, **options)
    weights[[700, 701]] = weights[[701, 700]]
    monkeypatch.setattr(sys.modules[__name__], "WEIGHTS", weights)
    with pytest.raises(InvalidProblem, match="sample_weight"):
        ls.solve(state(), solver, start=path, **options)


@dataclass(frozen=True, kw_only=True)
class Anew(ls.Solver):
    """Gradient descent that goes on from an answer, and not from the midst of its iteration."""

    tol: float | None = ls.tol_option(1e-8)
    max_iterations: int = ls.limit_option(500)

    def solve(self, problem: Any, run: Any) -> Any:
        moments = run.moments("dense")
        home = moments.home
        AtB, AtA = moments.cross(home.eye(1)), moments.gram(home.eye(problem.A.shape[1]))
        x = 0 * AtB if run.start is None else run.start["x"]
        g, step = AtB - AtA @ x, 1 / home.norm(AtA)
        while run.proceed(residual=home.norm(g) / home.norm(AtB), current=lambda x=x: {"x": x}):
            x = x + step * g
            g = AtB - AtA @ x
        return run.finish(x=x)


def test_others_begin_anew_on_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that begins at its last iterate answers for the data of its day."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    ls.register(
        ls.SolverSpec(
            name="anew",
            problem="least-squares",
            target=f"{__name__}:Anew",
            summary="Gradient descent that begins anew.",
            reference="Cauchy 1847, C. R. Acad. Sci. Paris 25",
            traits=("iterative", "warm-start"),
        )
    )
    path, other = tmp_path / "run.ckpt", Y[:, :1].copy()
    other[700] *= 30
    part = ls.solve(
        ls.LeastSquares(A[:, :8], Y[:, :1]), Anew(), checkpoint=path, callback=lambda p: p.iteration >= 9
    )
    found = ls.solve(ls.LeastSquares(A[:, :8], other), Anew(), start=path)
    assert found.iterations >= part.iterations > 0
    np.testing.assert_allclose(found.x, np.linalg.lstsq(A[:, :8], other)[0], rtol=1e-4)


def test_another_problem_or_solver_is_refused(kept: Path) -> None:
    with pytest.raises(InvalidProblem, match="the problem must be the same; the file has 'svd', got 'cca'"):
        ls.solve(ls.CCA(A, Y, k=2), "lobpcg", start=kept)
    with pytest.raises(MissingCapability, match=r"gram cannot go on from a checkpoint.*block-krylov"):
        ls.solve(ls.SVD(A, k=4), "gram", checkpoint="run.ckpt")
    with pytest.raises(MissingCapability, match="moments in place of the data"):
        ls.solve(ls.SVD(ls.Moments(A), k=4), "block-krylov", checkpoint="run.ckpt")
    with pytest.raises(InvalidOption, match=r"linspec\.Checkpoint or a path; got 3"):
        ls.solve(ls.SVD(A, k=4), "block-krylov", checkpoint=3)
    with pytest.raises(InvalidOption, match="folder that exists"):
        ls.Checkpoint("nowhere/run.ckpt")


def test_a_file_that_was_cut_is_refused(kept: Path, tmp_path: Path) -> None:
    whole = kept.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        kept.write_bytes(whole[:size])
        with pytest.raises(InvalidFile, match=r"run\.ckpt cannot be read"):
            ls.solve(ls.SVD(A, k=4, center=True), "block-krylov", start=kept, form="implicit", block=3)
    with pytest.raises(InvalidProblem, match=r"none\.ckpt', and there is no such file"):
        ls.solve(ls.SVD(A, k=4), "block-krylov", start=tmp_path / "none.ckpt")
    kept.write_bytes(whole)
    with pytest.raises(InvalidFile):
        ls.load_solution(kept)


def test_a_file_of_a_newer_version_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "VERSION", 0)
    with pytest.raises(InvalidFile, match="checkpoint of version 1, and this linspec reads version 0"):
        ls.solve(ls.SVD(A, k=4, center=True), "block-krylov", start=kept, form="implicit", block=3)


def test_other_threads_are_told(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "usual_blas_threads", lambda: 7)
    with pytest.warns(AccuracyWarning, match="there are 7"):
        found = ls.solve(ls.SVD(A, k=4, center=True), "block-krylov", start=kept, form="implicit", block=3)
    assert found.converged


# ---- disks and signals --------------------------------------------------------------------------


def test_a_full_disk_costs_a_warning_and_leaves_the_last_file(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, tries = kept.read_bytes(), []

    def full(stream: Any, *_: Any) -> None:
        tries.append(1)
        stream.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints.archive, "write", full)
    problem = ls.SVD(A, k=4, center=True)
    with pytest.warns(UserWarning, match=r"cannot be written: No space left.*The run goes on") as told:
        found = ls.solve(
            problem,
            "block-krylov",
            rng=0,
            checkpoint=ls.Checkpoint(kept, seconds=0),
            form="implicit",
            block=3,
        )
    assert found.converged
    assert len(tries) > 2
    assert len([one for one in told if one.category is UserWarning]) == 1
    assert kept.read_bytes() == before
    assert list(kept.parent.iterdir()) == [kept]


def test_an_answer_that_a_full_disk_refuses_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, path = ls.solve(ls.SVD(A, k=2)), tmp_path / "answer.npz"
    answer.save(path)
    before = path.read_bytes()
    write = checkpoints.archive.npy.write_array

    def full(stream: Any, array: Any, **more: Any) -> None:
        if array.ndim == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(stream, array, **more)

    monkeypatch.setattr(checkpoints.archive.npy, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        ls.solve(ls.SVD(A, k=3)).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_seconds_are_kept_between_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [0.0], []
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpoints.archive, "write", lambda *_: written.append(clock[0]))

    def tick(_: Any) -> None:
        clock[0] += 1.0

    state, solver, options = CASES["krylov-sparse"]
    ls.solve(
        state(), solver, rng=0, checkpoint=ls.Checkpoint(tmp_path / "c", seconds=4), callback=tick, **options
    )
    assert len(written) > 2
    assert set(np.diff(written)) == {4.0}


CHILD = """
    import signal, sys, time
    import numpy as np
    import linspec as ls
    path, start, out = sys.argv[1:4]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell of the tests may have it ignored
    A = np.load(sys.argv[4], mmap_mode="r")
    settings = {"form": "implicit", "block": 2, "rng": 0, "max_iterations": 60, "tol": 1e-12}
    found = ls.solve(ls.SVD(A, k=4, center=True), "block-krylov", checkpoint=ls.Checkpoint(path, seconds=0),
                     start=start or None, callback=lambda _: print("on", flush=True), **settings)
    if found.status.name != "INTERRUPTED":
        found.save(out)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no signal that kills")
@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    """Some kills, a Ctrl-C among them."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "rows.npy", rng.standard_normal((4000, 150)))
    script, out = tmp_path / "child.py", tmp_path / "out.npz"
    script.write_text(textwrap.dedent(CHILD))
    path = tmp_path / "run.ckpt"

    def child(start: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-W",
            "ignore",
            str(script),
            str(path),
            start,
            str(out),
            str(tmp_path / "rows.npy"),
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    problem, start = ls.SVD(np.load(tmp_path / "rows.npy", mmap_mode="r"), k=4, center=True), ""
    settings: dict[str, Any] = {"form": "implicit", "block": 2, "rng": 0, "max_iterations": 60, "tol": 1e-12}
    whole = bits(ls.solve(problem, "block-krylov", **settings))
    for kill in (signal.SIGKILL, signal.SIGINT):
        process = child(start)
        for _ in range(int(rng.integers(2, 12))):
            process.stdout.readline()
        time.sleep(rng.uniform(0, 0.02))
        process.send_signal(kill)
        process.wait()
        start = str(path) if path.exists() else ""
    assert start, "no checkpoint was written"
    assert child(start).wait() == 0
    assert bits(ls.load_solution(out)) == whole


# ---- runs that end within a pass ----------------------------------------------------------------

FULL, PART = A[:600, :20], Y[:600, :6]


class Acts:
    """Slices of a matrix, in the middle of whose `at`-th reading something happens."""

    def __init__(self, at: float, act: Callable[[], Any]) -> None:
        self.at, self.act, self.reads = at, act, 0

    def __call__(self) -> Any:
        self.reads += 1
        acts = self.reads == self.at
        for i in range(0, 600, 100):
            if acts and i == 300:
                self.act()
            yield FULL[i : i + 100]


def fails() -> None:
    raise OSError(errno.EIO, "the disk is gone")


WITHIN: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "block-krylov": (lambda rows: ls.SVD(rows, k=3, center=True), "block-krylov", "S"),
    "cg": (lambda rows: ls.LeastSquares(rows, PART, ridge=0.1), "cg", "x"),
    "gd": (lambda rows: ls.LeastSquares(rows, PART, ridge=0.1), "gd", "x"),
    "lsqr": (lambda rows: ls.LeastSquares(rows, PART, ridge=0.1), "lsqr", "x"),
    "als": (lambda rows: ls.CCA(rows, PART, 2, ridge=0.5), "als", "correlations"),
    "lobpcg": (lambda rows: ls.CCA(rows, PART, 2, ridge=0.5), "lobpcg", "correlations"),
    "two-stage": (lambda rows: ls.CCA(rows, PART, 2, ridge=0.5), "two-stage", "correlations"),
    "nipals": (lambda rows: ls.PLSRegression(rows, PART, 2), "nipals", "x_weights"),
    "multiset": (lambda rows: ls.MultisetCCA([rows, PART, FULL[:, :4]], 2, ridge=0.5), "lobpcg", "weights"),
}
"""Problems on rows that are read, a solver, and a field of its answer."""


@pytest.mark.parametrize("how", ["ctrl-c", "time", "error"])
@pytest.mark.parametrize("case", WITHIN)
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_a_run_that_ends_within_a_pass_goes_on(case, how, tmp_path, ctrl_c, clock) -> None:
    """It ends in its last pass but two, and in its second one, before there is anything to keep."""
    state, solver, field = WITHIN[case]
    settings: dict[str, Any] = {"rng": 0}
    settings |= {"form": "implicit"} if solver not in {"lsqr", "two-stage"} else {}
    settings |= {"max_iterations": 12} if solver == "gd" else {}
    rows = Acts(0, fails)
    whole = ls.solve(state(rows), solver, **settings)
    act = {
        "ctrl-c": lambda: signal.raise_signal(signal.SIGINT),
        "time": lambda: clock.tick(10),
        "error": fails,
    }
    for at in (rows.reads - 1, 2):
        path = tmp_path / f"{at}.ckpt"
        checkpoint = ls.Checkpoint(path, seconds=3600)
        problem, limit = state(Acts(at, act[how])), 5.0 if how == "time" else None
        try:
            cut = ls.solve(problem, solver, checkpoint=checkpoint, max_seconds=limit, **settings)
            assert cut.status in {ls.Status.INTERRUPTED, ls.Status.BUDGET}
            said = cut.message
        except (KeyboardInterrupt, OSError, ls.errors.LinspecError) as error:
            said = " ".join([str(error), *getattr(error, "__notes__", [])])
        assert path.exists() == (f"Pass start='{path}' to go on." in said)
        if path.exists():
            found = ls.solve(state(Acts(0, fails)), solver, start=path, **settings)
            assert found.status is whole.status
            for one, other in zip(getattr(found, field), getattr(whole, field), strict=True):
                np.testing.assert_array_equal(one, other)
        else:
            assert at == 2
            assert "No checkpoint was written: there was nothing to go on from yet." in said


# ---- command line -------------------------------------------------------------------------------


def test_the_command_goes_on(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", A)
    name = str(tmp_path / "run.ckpt")
    command = [
        "solve",
        "svd",
        str(tmp_path / "a.npy"),
        "-k",
        "4",
        "--center",
        "-o",
        "form=implicit",
        "-o",
        "block=3",
    ]
    whole = CliRunner().invoke(main, [*command, "--solver", "block-krylov"])
    cut = CliRunner().invoke(
        main, [*command, "--solver", "block-krylov", "--checkpoint", name, "--max-passes", "5"]
    )
    assert cut.exit_code == 0, cut.output
    found = CliRunner().invoke(main, [*command, "--start", name])

    def told(output: str) -> list[str]:
        """The passes, the residual and the values, without the seconds."""
        labels = ("cost", "residual", *"1234")
        return [line.rsplit(", ", 1)[0] for line in output.splitlines() if line.strip().startswith(labels)]

    assert told(found.output) == told(whole.output), found.output
    assert told(cut.output) != told(whole.output)


def test_rows_cut_into_other_blocks_are_another_run(tmp_path):
    """The order of sums follows from where blocks end, so the bits would be others."""
    path = tmp_path / "run.ckpt"
    rows = np.random.default_rng(5).standard_normal((300, 40))
    given = {"rng": 0, "form": "implicit", "block": 3, "tol": 1e-12}
    stopped = ls.solve(
        ls.SVD(BlockOperator([rows[:100], rows[100:]]), 4),
        "block-krylov",
        checkpoint=path,
        max_passes=5,
        **given,
    )
    assert not stopped.converged
    with pytest.raises(InvalidProblem, match="blocks"):
        ls.solve(ls.SVD(BlockOperator([rows[:120], rows[120:]]), 4), "block-krylov", start=path, **given)


# ---- files that were changed --------------------------------------------------------------------


def taken_apart(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a file."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("linspec").tobytes()), arrays


def put_together(path: Path, header: dict[str, Any], arrays: dict[str, Any], *, sealed: bool) -> None:
    """A file of them, perhaps as if a run had written it."""
    for node in nodes_of(header["fields"]):
        if isinstance(node, dict) and node.get("array") in arrays:
            array = arrays[node["array"]]
            node.update(dtype=array.dtype.str, shape=list(array.shape))
    if sealed:
        header["digest"] = archive.digest(header["fields"], arrays)
    with path.open("wb") as stream:
        archive.write(stream, header, arrays)


def nodes_of(node: Any) -> list[Any]:
    """A node of a header, and all below it."""
    below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node, *(one for inner in below for one in nodes_of(inner))]


@pytest.mark.parametrize("case", ["krylov", "lobpcg", "cg", "cg-path"])
@pytest.mark.slow(keep=2)
def test_a_file_that_was_changed_is_refused(case: str, tmp_path: Path) -> None:
    """Whatever was changed in it: means, values, counts, random numbers, sums of rows."""
    state, solver, options = CASES[case]
    path = tmp_path / "run.ckpt"
    ls.solve(state(), solver, rng=0, checkpoint=path, callback=lambda p: p.iteration >= 1, **options)
    header, arrays = taken_apart(path)
    for name, array in arrays.items():
        if array.size:
            put_together(path, json.loads(json.dumps(header)), {**arrays, name: 2 * array + 1}, sealed=False)
            with pytest.raises(InvalidFile, match=r"run\.ckpt cannot be .*(has been changed|must be|lacks)"):
                ls.solve(state(), solver, start=path, **options)
    count = len(nodes_of(header["fields"]))
    for number in np.random.default_rng(0).choice(count, 30, replace=False):
        changed = json.loads(json.dumps(header))
        node = nodes_of(changed["fields"])[number]
        if isinstance(node, dict):
            node["more"] = 1
        elif isinstance(node, list):
            node.append(7)
        else:
            continue
        put_together(path, changed, arrays, sealed=False)
        if changed != header:  # else it was the shape of an array, which follows from the array
            with pytest.raises(InvalidFile, match=r"run\.ckpt cannot be "):
                ls.solve(state(), solver, start=path, **options)


@pytest.mark.parametrize("case", ["krylov", "lobpcg", "cg", "cg-rows"])
@pytest.mark.parametrize("how", ["cut", "flat", "not finite", "texts"])
def test_a_state_that_is_none_is_refused_before_it_is_used(case: str, how: str, tmp_path: Path) -> None:
    """By what its solver declares, also where a file says that it is whole."""
    state, solver, options = CASES[case]
    path = tmp_path / "run.ckpt"
    ls.solve(state(), solver, rng=0, checkpoint=path, callback=lambda p: p.iteration >= 1, **options)
    header, arrays = taken_apart(path)
    ways: dict[str, Callable[[Any], Any]] = {
        "cut": lambda array: array[: len(array) // 2],
        "flat": np.ravel,
        "not finite": lambda array: array * np.nan,
        "texts": lambda array: array.astype(str),
    }
    name = {
        "krylov": "state.fields.basis.fields.rows.array",
        "lobpcg": "state.fields.space.fields.views.tuple.0.fields.panels.tuple.1.list.0.array",
        "cg": "state.fields.point.fields.X.list.0.array",
    }
    chosen = name.get(case, "state.fields.point.fields.Q.array")
    found = {**arrays, chosen: ways[how](arrays[chosen])}
    put_together(path, header, found, sealed=True)
    with pytest.raises(InvalidFile, match=r"run\.ckpt cannot be "):
        ls.solve(state(), solver, start=path, **options)


@pytest.mark.parametrize("case", ["krylov", "lobpcg", "cg"])
def test_moments_of_a_file_are_finite(case: str, tmp_path: Path) -> None:
    state, solver, options = CASES[case]
    path = tmp_path / "run.ckpt"
    options = {**options, "form": "dense"}
    ls.solve(state(), solver, rng=0, checkpoint=path, callback=lambda p: p.iteration >= 1, **options)
    header, arrays = taken_apart(path)
    held = [name for name in arrays if name.startswith("moments.") and arrays[name].dtype.kind == "f"]
    assert any("gram" in name for name in held)
    for name in held:
        put_together(path, header, {**arrays, name: arrays[name] * np.nan}, sealed=True)
        with pytest.raises(InvalidFile, match=r"run\.ckpt cannot be .*finite"):
            ls.solve(state(), solver, start=path, **options)


def test_the_folder_of_a_checkpoint_is_that_of_the_file_that_a_link_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "run.ckpt")
    with pytest.raises(InvalidOption, match="no such folder"):
        ls.Checkpoint(tmp_path / "link")
