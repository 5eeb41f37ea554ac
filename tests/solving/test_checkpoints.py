"""Checkpoints: a run that was cut, killed or stopped goes on, and ends at the answer of a run in one piece."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from files_of_answers import changed_header, put_together, taken_apart

import linspec as ls
from linspec.errors import BudgetTooSmall, InvalidFile, InvalidProblem, MissingCapability
from linspec.solving import checkpoints
from linspec.workers import BlockOperator

RNG = np.random.default_rng(0)
A = RNG.standard_normal((1500, 30)) @ np.diag(np.geomspace(10, 0.1, 30))
Y = A[:, :5] @ RNG.standard_normal((5, 20)) + RNG.standard_normal((1500, 20))
S, T = (scipy.sparse.random_array((800, p), density=0.03, rng=RNG, format="csr") for p in (120, 90))
W = scipy.sparse.random_array((60, 1500), density=0.03, rng=RNG, format="csr")
SVD, KRYLOV = ls.SVD(A, k=4, center=True), {"form": "implicit", "block": 3}
BLOCKS, CLASSES = BlockOperator(np.split(A, 5)), ls.targets.lda(np.arange(1500) % 3)
ROUGH = {"form": "implicit", "oversample": 2, "tol": 1e-4}
WEIGHTED = {"sample_weight": np.arange(1500) % 3, "scale": True}

Case = tuple[Callable[[], Any], str, dict[str, Any]]
CASES: dict[str, Case] = {
    "krylov": (lambda: SVD, "block-krylov", KRYLOV),
    "krylov-rows": (lambda: ls.SVD(W, k=4, left=True), "block-krylov", {"form": "implicit"}),
    "krylov-weighted": (lambda: ls.SVD(1e-40 * A, k=4, center=True, **WEIGHTED), "block-krylov", KRYLOV),
    "krylov-blocks": (lambda: ls.SVD(BLOCKS, k=4, center=True), "block-krylov", {"form": "implicit"}),
    "lobpcg-confounds": (lambda: ls.CCA(A.astype("f4"), Y, k=3, confounds=A[:, :2]), "lobpcg", ROUGH),
    "lobpcg-sparse": (lambda: ls.CCA(S, T, k=3, ridge=0.1), "lobpcg", {"form": "sparse", "oversample": 2}),
    "als": (lambda: ls.CCA(A, Y, k=3, ridge=0.1), "als", {"form": "implicit"}),
    "cg": (lambda: ls.LeastSquares(A, Y[:, 0]), "cg", {"form": "implicit"}),
    "cg-path": (lambda: ls.LeastSquares(A, Y, ridge=[0.1, 1.0], center=True), "cg", {"form": "implicit"}),
    "cg-rows": (lambda: ls.LeastSquares(W, Y[:60, :2], ridge=0.01), "cg", {"form": "implicit"}),
    "multiset": (lambda: ls.MultisetCCA([A, Y, A[:, :9] + 3 * Y[:, :9]], 2, ridge=0.5), "lobpcg", {}),
    "discriminant": (lambda: ls.Discriminant(A, CLASSES, k=2, ridge=1.0), "two-stage", {}),
}
"""What the planted cases of the kit lack: sparse rows, wide matrices, blocks, weights, units, confounds and paths."""

pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


def values(solution: Any) -> Any:
    """Singular values, correlations, eigenvalues or coefficients."""
    return np.asarray(getattr(solution, solution.layout.value or "x"))


def judged(solution: Any, problem: Any) -> Any:
    """What the residual bounds: values, or the fitted values of least squares."""
    found = values(solution)
    return found if solution.layout.value else problem.A.matmat(found.reshape(problem.A.shape[1], -1))


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_on_to_the_answer_of_a_run_in_one_piece(case: str, tmp_path: Path) -> None:
    """Half of the iterations before and half after: at most three passes more, which learn the data anew."""
    state, solver, options = CASES[case]
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    stop = {"callback": lambda p: p.iteration >= whole.iterations // 2}
    part = ls.solve(state(), solver, rng=0, checkpoint=path, **stop, **options)
    found = ls.solve(state(), solver, start=path, **options)
    assert found.status is whole.status
    assert found.residual <= max(10 * whole.residual, found.tol)
    assert part.passes > 0
    assert found.passes <= whole.passes + 3
    one, other = judged(found, state()), judged(whole, state())
    np.testing.assert_allclose(one, other, atol=10 * max(whole.tol, 1e-9) * np.abs(other).max())


@pytest.mark.parametrize("case", ["krylov", "als", "cg", "discriminant"])
def test_the_answer_of_other_rows_is_right_or_says_that_it_is_not(case: str, tmp_path: Path) -> None:
    """A file of other rows is a start: the residual is that of the rows of the day."""
    state, solver, options = CASES[case]
    path = tmp_path / "run.ckpt"
    ls.solve(state(), solver, rng=0, checkpoint=ls.Checkpoint(path, seconds=0), **options)
    first, *others = state().matrices.items()
    turned = {first[0]: ls.as_operator(np.flip(first[1].dense(), 0)), **dict(others)}
    flipped = state().with_matrices(turned)
    exact = ls.solve(flipped, "gram" if solver == "als" else "direct")
    found = ls.solve(flipped, solver, start=path, **options)
    near = np.abs(values(found) - values(exact)).max() <= 1e-3 * np.abs(values(exact)).max()
    assert near or not found.converged


def test_a_budget_counts_the_run_that_goes_on_alone_and_holds(tmp_path: Path) -> None:
    whole, path = ls.solve(SVD, "block-krylov", rng=0, **KRYLOV), tmp_path / "run.ckpt"
    few = whole.passes - 2
    part = ls.solve(SVD, "block-krylov", rng=0, checkpoint=path, max_passes=few, **KRYLOV)
    assert part.status is ls.Status.BUDGET
    for limit in (few, few + 2):
        with suppress(BudgetTooSmall):  # what had been learnt of the data is learnt anew
            assert ls.solve(SVD, "block-krylov", start=path, max_passes=limit, **KRYLOV).passes <= limit


def test_a_saved_answer_is_a_start_and_auto_goes_on_with_the_solver_of_then(tmp_path: Path) -> None:
    state, _, options = CASES["cg"]
    path, kept = tmp_path / "run.ckpt", str(tmp_path / "answer.npz")
    answer = ls.solve(state(), "cg", **options)
    answer.save(kept)
    assert ls.solve(state(), "cg", start=kept, **options).iterations < answer.iterations
    ls.solve(state(), "cg", rng=0, checkpoint=path, callback=lambda progress: progress.iteration == 5)
    found = ls.solve(state(), start=path)
    assert (found.solver, found.converged) == ("cg", True)


# ---- refusals -----------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The checkpoint of a run that was cut."""
    ls.solve(SVD, "block-krylov", rng=0, checkpoint=tmp_path / "run.ckpt", max_passes=5, **KRYLOV)
    return tmp_path / "run.ckpt"


def start(path: Path, problem: Any = SVD, solver: str = "block-krylov") -> Any:
    return ls.solve(problem, solver, start=path)


def begin(checkpoint: Any, problem: Any = SVD, solver: str = "block-krylov") -> Any:
    return ls.solve(problem, solver, checkpoint=checkpoint)


REFUSED: list[tuple[Callable[[Path], Any], type[Exception], str]] = [
    (lambda path: start(path, ls.CCA(A, Y, k=2), "lobpcg"), InvalidProblem, "the file has 'svd', got 'cca'"),
    (
        lambda path: start(path, ls.SVD(A[:900], k=4, center=True)),
        InvalidProblem,
        "matrices must be the same",
    ),
    (
        lambda path: start(path.with_name("none.ckpt")),
        InvalidProblem,
        r"none\.ckpt .*: there is no such file",
    ),
    (lambda path: begin(path, SVD, "gram"), MissingCapability, r"gram cannot go on from .*block-krylov"),
    (lambda path: begin(path, ls.SVD(ls.Moments(A), k=4)), MissingCapability, "moments in place of the data"),
    (ls.load_solution, InvalidFile, r"run\.ckpt"),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_another_problem_or_solver_is_refused(call: Any, error: Any, words: str, kept: Path) -> None:
    with pytest.raises(error, match=words):
        call(kept)


def test_a_file_that_was_cut_or_changed_or_is_newer_is_refused(kept: Path, monkeypatch: Any) -> None:
    """More of broken files is in test_saved_answers.py: both are read alike."""
    whole = kept.read_bytes()
    header, arrays = taken_apart(whole)
    changed = [
        whole[:0],
        whole[:-1],
        *(changed_header(whole, f"fields/{name}", {}) for name in header["fields"]),
    ]
    changed += [
        put_together(header, {**arrays, name: arrays[name] + 1}) for name in arrays if arrays[name].size
    ]
    for content in changed:
        kept.write_bytes(content)
        with pytest.raises((InvalidFile, InvalidProblem), match=r"run\.ckpt cannot be"):
            start(kept)
    kept.write_bytes(whole)
    monkeypatch.setattr(checkpoints, "VERSION", 0)
    with pytest.raises(InvalidFile, match="checkpoint of version 1, and this linspec reads version 0"):
        start(kept)


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
    often = ls.Checkpoint(kept, seconds=0)
    with pytest.warns(UserWarning, match=r"cannot be written: No space left.*The run goes on") as told:
        found = ls.solve(SVD, "block-krylov", rng=0, checkpoint=often, **KRYLOV)
    assert found.converged
    assert len(tries) > 2
    assert len({str(one.message) for one in told if one.category is UserWarning}) == 1
    assert kept.read_bytes() == before
    assert list(kept.parent.iterdir()) == [kept]


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


IMPLICIT = {"form": "implicit"}
WITHIN: dict[str, tuple[Callable[[Any], Any], str, str, dict[str, Any]]] = {
    "block-krylov": (lambda rows: ls.SVD(rows, k=3, center=True), "block-krylov", "S", IMPLICIT),
    "gd": (lambda rows: ls.LeastSquares(rows, PART, ridge=1e4), "gd", "x", IMPLICIT | {"tol": 1e-9}),
    "als": (lambda rows: ls.CCA(rows, PART, 2, ridge=0.5), "als", "correlations", IMPLICIT),
    "lobpcg": (lambda rows: ls.CCA(rows, PART, 2, ridge=0.5), "lobpcg", "correlations", IMPLICIT),
}
"""Problems on rows that are read, a solver, a field of its answer, and options."""


@pytest.mark.parametrize("how", ["ctrl-c", "time", "error"])
@pytest.mark.parametrize("case", WITHIN)
def test_a_run_that_ends_within_a_pass_goes_on(case, how, tmp_path, ctrl_c, clock) -> None:
    """It ends in its last pass but two, and in its second one, before there is anything to keep."""
    state, solver, field, options = WITHIN[case]
    rows = Acts(0, fails)
    whole = ls.solve(state(rows), solver, rng=0, **options)
    interrupts, takes_time = lambda: signal.raise_signal(signal.SIGINT), lambda: clock.tick(10)
    act = {"ctrl-c": interrupts, "time": takes_time, "error": fails}[how]
    limit = 5.0 if how == "time" else None
    for at in (rows.reads - 1, 2):
        path = tmp_path / f"{at}.ckpt"
        settings = {"checkpoint": ls.Checkpoint(path, seconds=3600), "max_seconds": limit, "rng": 0}
        try:
            cut = ls.solve(state(Acts(at, act)), solver, **settings, **options)
            assert cut.status in {ls.Status.INTERRUPTED, ls.Status.BUDGET}
            said = cut.message
        except (KeyboardInterrupt, OSError, ls.errors.LinspecError) as error:
            said = " ".join([str(error), *getattr(error, "__notes__", [])])
        assert path.exists() == (f"Pass start='{path}' to go on." in said)
        if path.exists():
            found = ls.solve(state(Acts(0, fails)), solver, start=path, rng=0, **options)
            assert found.status is whole.status
            for one, other in zip(getattr(found, field), getattr(whole, field), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())
        else:
            assert at == 2
            assert "No checkpoint was written: there was nothing to go on from yet." in said
