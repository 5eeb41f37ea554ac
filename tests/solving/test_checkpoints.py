"""Checkpoints: a run that was cut, killed or stopped goes on, and ends at the answer of a run in one piece."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from click.testing import CliRunner

import linspec as ls
from linspec import registry
from linspec.cli import main
from linspec.errors import BudgetTooSmall, InvalidFile, InvalidOption, InvalidProblem, MissingCapability
from linspec.iteration import Iterate
from linspec.solving import Solver, checkpoints
from linspec.workers import BlockOperator

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
    "krylov-sparse": (lambda: ls.SVD(S, k=4, center=True), "block-krylov", {"form": "implicit"}),
    "krylov-rows": (lambda: ls.SVD(W, k=4, left=True), "block-krylov", {"form": "implicit"}),
    "krylov-weighted": (
        lambda: ls.SVD(1e-40 * A, k=4, center=True, sample_weight=WEIGHTS, scale=True),
        "block-krylov",
        {"form": "implicit", "block": 3},
    ),
    "krylov-blocks": (lambda: ls.SVD(blocks(A), k=4, center=True), "block-krylov", {"form": "implicit"}),
    "lobpcg": (lambda: ls.CCA(A, Y, k=3), "lobpcg", {"form": "implicit", "oversample": 2}),
    "lobpcg-confounds": (
        lambda: ls.CCA(A.astype("f4"), Y, k=3, confounds=A[:, :2]),
        "lobpcg",
        {"form": "implicit", "oversample": 2, "tol": 1e-4},
    ),
    "lobpcg-sparse": (lambda: ls.CCA(S, T, k=3, ridge=0.1), "lobpcg", {"form": "sparse", "oversample": 2}),
    "lobpcg-slices-held": (lambda: ls.CCA(slices(A), slices(Y), k=3, ridge=0.1), "lobpcg", {"oversample": 2}),
    "als": (lambda: ls.CCA(A, Y, k=3, ridge=0.1), "als", {"form": "implicit"}),
    "cg": (lambda: ls.LeastSquares(A, Y[:, 0]), "cg", {"form": "implicit"}),
    "cg-path": (lambda: ls.LeastSquares(A, Y, ridge=[0.1, 1.0], center=True), "cg", {"form": "implicit"}),
    "cg-rows": (lambda: ls.LeastSquares(W, Y[:60, :2], ridge=0.01), "cg", {"form": "implicit"}),
    "lsqr": (lambda: ls.LeastSquares(A, Y[:, 0]), "lsqr", {}),
    "sketch": (lambda: ls.LeastSquares(A, Y, ridge=[0.1, 1.0], center=True), "sketch-precondition", {}),
    "svrg": (lambda: ls.LeastSquares(A, Y, ridge=[10.0, 100.0], center=True), "svrg", {"tol": 1e-4}),
    "gd": (lambda: ls.LeastSquares(A, Y[:, :2], ridge=9.0), "gd", {"form": "implicit", "tol": 1e-3}),
    "ling": (
        lambda: ls.LeastSquares(A, Y[:, :2], ridge=[1.0, 9.0]),
        "ling",
        {"form": "implicit", "rank": 3},
    ),
    "nystrom": (
        lambda: ls.LeastSquares(A, Y[:, :2], ridge=[1.0, 9.0]),
        "nystrom-pcg",
        {"form": "implicit", "rank": 3},
    ),
    "multiset": (lambda: ls.MultisetCCA([A, Y, A[:, :9] + 3 * Y[:, :9]], 2, ridge=0.5), "lobpcg", {}),
    "discriminant": (
        lambda: ls.Discriminant(A, ls.targets.lda(np.arange(1500) % 3), k=2, ridge=1.0),
        "two-stage",
        {},
    ),
}


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
    middle = whole.iterations // 2
    part = ls.solve(
        state(), solver, rng=0, checkpoint=path, callback=lambda p: p.iteration >= middle, **options
    )
    found = ls.solve(state(), solver, start=path, **options)
    assert found.status is whole.status
    assert found.residual <= max(10 * whole.residual, found.tol)
    assert part.passes > 0
    assert found.passes <= whole.passes + 3
    loose = 10 * max(whole.tol, 1e-9) ** 0.5 if solver == "svrg" else 10 * max(whole.tol, 1e-9)
    one, other = judged(found, state()), judged(whole, state())
    np.testing.assert_allclose(one, other, atol=loose * np.abs(other).max())


@pytest.mark.parametrize("case", ["krylov", "lobpcg", "als", "cg", "lsqr", "multiset", "discriminant"])
def test_the_answer_of_other_rows_is_right_or_says_that_it_is_not(case: str, tmp_path: Path) -> None:
    """A file of other rows is a start: the residual is that of the rows of the day."""
    state, solver, options = CASES[case]
    path = tmp_path / "run.ckpt"
    ls.solve(state(), solver, rng=0, checkpoint=ls.Checkpoint(path, seconds=0), **options)
    flipped = state().with_matrices(
        {
            name: ls.as_operator(np.flip(M.dense(), 0) if name == "A" or name == "X" else M)
            for name, M in state().matrices.items()
        }
    )
    exact = ls.solve(flipped, "gram" if solver in ("lobpcg", "als") else "direct")
    found = ls.solve(flipped, solver, start=path, **options)
    near = np.abs(values(found) - values(exact)).max() <= 1e-3 * np.abs(values(exact)).max()
    assert near or not found.converged


def test_budgets_count_both_runs(tmp_path: Path) -> None:
    state, solver, options = CASES["krylov"]
    whole, path = ls.solve(state(), solver, rng=0, **options), tmp_path / "run.ckpt"
    few = whole.passes - 2
    part = ls.solve(state(), solver, rng=0, checkpoint=path, max_passes=few, **options)
    assert part.status is ls.Status.BUDGET
    with contextlib.suppress(BudgetTooSmall):  # what had been learnt of the data is learnt anew
        assert ls.solve(state(), solver, start=path, max_passes=few, **options).passes <= few
    found = ls.solve(state(), solver, start=path, max_passes=few + 2, **options)
    assert found.passes <= few + 2


def test_others_begin_at_the_last_iterate(tmp_path: Path) -> None:
    path, problem = tmp_path / "run.ckpt", ls.LeastSquares(A, Y[:, 0])
    part = ls.solve(problem, "nystrom-pcg", rng=0, checkpoint=ls.Checkpoint(path, seconds=0), max_passes=20)
    found = ls.solve(problem, "nystrom-pcg", start=path)
    assert found.converged
    assert found.history["residual"][0] < 2 * part.residual
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


@dataclass(frozen=True, kw_only=True)
class Anew(Solver):
    """Gradient descent that goes on from an answer, and not from the midst of its iteration."""

    tol: float | None = ls.tol_option(1e-8)
    max_iterations: int = ls.limit_option(500)

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        AtA, AtB = moments.gram()[0]
        x, step = 0 * AtB if start is None else start["x"], 1 / np.linalg.norm(AtA)
        while True:
            g = AtB - AtA @ x
            yield Iterate(float(np.linalg.norm(g) / np.linalg.norm(AtB)), partial(dict, x=x))
            x = x + step * g


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
    with pytest.raises(InvalidProblem, match="problem must be the same; the file has 'svd', got 'cca'"):
        ls.solve(ls.CCA(A, Y, k=2), "lobpcg", start=kept)
    with pytest.raises(InvalidProblem, match="numbers must be the same"):
        ls.solve(ls.SVD(A, k=3, center=True), "block-krylov", start=kept)
    path = kept.with_name("ridges.ckpt")
    options = {"form": "implicit", "checkpoint": ls.Checkpoint(path, seconds=0)}
    ls.solve(ls.LeastSquares(A, Y, ridge=[0.1, 1.0]), "cg", callback=lambda p: p.iteration >= 2, **options)
    with pytest.raises(InvalidProblem, match="numbers must be the same"):
        ls.solve(ls.LeastSquares(A, Y, ridge=[0.1, 2.0]), "cg", start=path, **options)
    with pytest.raises(InvalidProblem, match="matrices must be the same"):
        ls.solve(ls.SVD(A[:900], k=4, center=True), "block-krylov", start=kept)
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
        with pytest.raises((InvalidFile, InvalidProblem), match=r"run\.ckpt cannot be read"):
            ls.solve(ls.SVD(A, k=4, center=True), "block-krylov", start=kept, form="implicit", block=3)
    with pytest.raises(InvalidProblem, match=r"none\.ckpt cannot be read: there is no such file"):
        ls.solve(ls.SVD(A, k=4), "block-krylov", start=tmp_path / "none.ckpt")
    kept.write_bytes(whole)
    with pytest.raises(InvalidFile):
        ls.load_solution(kept)


def test_a_file_of_a_newer_version_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "VERSION", 0)
    with pytest.raises(InvalidFile, match="checkpoint of version 1, and this linspec reads version 0"):
        ls.solve(ls.SVD(A, k=4, center=True), "block-krylov", start=kept, form="implicit", block=3)


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
    assert len({str(one.message) for one in told if one.category is UserWarning}) == 1
    assert kept.read_bytes() == before
    assert list(kept.parent.iterdir()) == [kept]


def test_an_answer_that_a_full_disk_refuses_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, path = ls.solve(ls.SVD(A, k=2)), tmp_path / "answer.npz"
    answer.save(path)
    before = path.read_bytes()

    def full(stream: Any, **arrays: Any) -> None:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        ls.solve(ls.SVD(A, k=3)).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


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
    "gd": (lambda rows: ls.LeastSquares(rows, PART, ridge=1e4), "gd", "x"),
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
    settings |= {"form": "implicit"} if solver != "lsqr" else {}
    settings |= {"tol": 1e-9} if solver in {"gd", "lsqr", "two-stage"} else {}
    settings |= {"oversample": 0} if case == "multiset" else {}  # else its first block spans all
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
                np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())
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
        """The status and the values."""
        labels = ("status", *"1234")
        return [line.rsplit(", ", 1)[0] for line in output.splitlines() if line.strip().startswith(labels)]

    assert told(found.output) == told(whole.output), found.output
    assert told(cut.output) != told(whole.output)


# ---- files that were changed --------------------------------------------------------------------


def taken_apart(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a file."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("linspec").tobytes()), arrays


def put_together(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """A file of them."""
    np.savez(path.open("wb"), linspec=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


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
            put_together(path, json.loads(json.dumps(header)), {**arrays, name: 2 * array + 1})
            with pytest.raises(InvalidFile, match=r"run\.ckpt cannot be .*has been changed"):
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
        put_together(path, changed, arrays)
        with pytest.raises(InvalidFile, match=r"run\.ckpt cannot be "):
            ls.solve(state(), solver, start=path, **options)


def test_the_folder_of_a_checkpoint_is_that_of_the_file_that_a_link_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "run.ckpt")
    with pytest.raises(InvalidOption, match="No such file or directory"):
        ls.Checkpoint(tmp_path / "link")
