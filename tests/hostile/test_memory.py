"""Memory that runs out within a run, and files that are cut while they are read."""

from __future__ import annotations

import gc
import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile.outcomes import Raw, apart, holds, refused
from hostile.tapped import SOLVERS, At, Tapped, arrays, moments, options, problem

import linspec as ls

MORE = int(os.environ.get("LINSPEC_HOSTILE", "1"))


pytestmark = [
    pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning"),
]


class OutOfMemoryError(RuntimeError):
    """As torch's is called, which is no MemoryError."""


def pythons() -> None:
    raise MemoryError


def numpys() -> None:
    np.empty((2**40, 2**10))


def torchs() -> None:
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def attempt(kind: str, solver: str, tap: At) -> str:
    try:
        s = ls.solve(problem(kind, tap), solver, rng=0, **options(kind, solver))
    except (MemoryError, OutOfMemoryError) as error:
        if not isinstance(error, ls.errors.LinspecError):
            raise Raw(f"{solver}: {type(error).__name__}: {error}") from error
        holds(solver in str(error) and "memory" in str(error), f"{solver}: {error}")
        holds(str(error).isprintable(), f"{solver}: {error!r}")
        return "refused"
    for array in arrays(s):
        holds(np.isfinite(array).all(), f"{solver} returns what is not finite")
    return str(s.status.name)


@pytest.mark.parametrize(("kind", "solver"), SOLVERS)
@pytest.mark.slow(keep=12)
def test_memory_that_runs_out_in_a_product(kind: str, solver: str):
    """A status with what was reached, or one clear error."""
    counted = At(0, pythons)
    attempt(kind, solver, counted)
    endings = set()
    for i, call in enumerate(moments(counted.calls)):
        tap = At(call, (pythons, numpys, torchs)[i % 3])
        found = attempt(kind, solver, tap)
        endings.add(found)
        holds(
            found in ("refused", "OUT_OF_MEMORY", "CONVERGED", "APPROXIMATE") or tap.calls < call,
            f"{solver}: memory that runs out in product {call} of {counted.calls} ends as {found}",
        )


def test_what_was_reached_is_returned_with_its_residual():
    given, B = np.random.default_rng(0).standard_normal((300, 40)), np.ones((300, 1))
    with pytest.warns(ls.errors.ConvergenceWarning, match="memory"):
        s = ls.solve(ls.LeastSquares(Tapped(given, At(20, numpys)), B), "lsqr", tol=1e-14)
    assert s.status is ls.Status.OUT_OF_MEMORY
    gap = np.linalg.norm(given.T @ (B - given @ s.x)) / np.linalg.norm(given.T @ B)
    assert s.residual == pytest.approx(gap, rel=1e-6)
    assert 1e-12 < gap < 0.9


def test_the_error_says_how_much_was_asked_for():
    with refused("gram", "memory", "allocate", "PiB"):
        ls.solve(ls.SVD(Tapped(np.eye(5), At(1, numpys)), 2), "gram")


def test_memory_that_a_callback_or_a_slice_has_not():
    A = np.random.default_rng(0).standard_normal((90, 60))
    with pytest.warns(ls.errors.ConvergenceWarning, match="memory"):
        s = ls.solve(ls.SVD(A, 2), "block-krylov", form="implicit", callback=lambda _: numpys())
    assert s.status is ls.Status.OUT_OF_MEMORY

    def slices() -> Any:
        yield np.eye(5)
        numpys()

    with refused("memory"):
        ls.solve(ls.SVD(slices(), 2), "gram")


LIMITED = """
import resource, sys, warnings
import numpy as np
import linspec as ls
warnings.simplefilter("ignore")
extra, kind, solver = {extra}, {kind!r}, {solver!r}
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((1500, 1000)), rng.standard_normal((1500, 800))
stated = {{"svd": lambda: ls.SVD(X, 5), "cca": lambda: ls.CCA(X, Y, 5, ridge=1.0),
          "least-squares": lambda: ls.LeastSquares(X, Y, ridge=1.0)}}[kind]()
ls.solve(ls.SVD(X[:50, :40], 2), "gram")  # what is imported is there
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + extra * 2**20,) * 2)
try:
    s = ls.solve(stated, solver, rng=0, max_passes=60)
    assert s.status is not None
    print(s.status.name)
except ls.errors.LinspecError as error:
    assert "memory" in str(error), error
    print(type(error).__name__)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs what Linux tells of a process")
@pytest.mark.parametrize("extra", [2, 30] if MORE == 1 else range(2, 160, 8))
@pytest.mark.parametrize(("kind", "solver"), [("svd", "gram"), ("cca", "als"), ("least-squares", "direct")])
@pytest.mark.slow(keep=1)
def test_a_limit_of_memory(kind: str, solver: str, extra: int):
    """A real one: little is left for Gram matrices, factors and buffers."""
    done = apart(LIMITED.format(extra=extra, kind=kind, solver=solver), env={"OPENBLAS_NUM_THREADS": "1"})
    assert done.stdout


# ---- files that change ------------------------------------------------------------------------

CHANGED = """
import os, sys
import numpy as np
import linspec as ls
folder, solver, kind = sys.argv[1:]
A = np.random.default_rng(0).standard_normal((6000, 100))
exact = np.linalg.svd(A, compute_uv=False)[:3]


def change(path, how):
    size = os.path.getsize(path)
    if how == "renamed":
        np.save(path + ".other.npy", np.zeros((3, 3)))
        os.replace(path + ".other.npy", path)
    else:
        os.truncate(path, {"cut": 2_000_001, "emptied": 0, "header": 60, "last page": size - 9}[how])


for how in ("renamed", "last page", "cut", "header", "emptied"):
    path = os.path.join(folder, how.replace(" ", "") + ".npy")
    np.save(path, A)
    given = path if kind == "path" else np.load(path, mmap_mode="r")
    seen = []
    try:
        s = ls.solve(ls.SVD(given, 3), solver, rng=0, tol=1e-6, form="implicit",
                     callback=lambda _: seen or seen.append(change(path, how)))
        assert how == "renamed", (how, s.status)
        np.testing.assert_allclose(s.S, exact, rtol=1e-6)
    except ls.errors.LinspecError as error:
        assert how != "renamed", error
        assert "shorter" in str(error) and path in str(error), error
    os.remove(path)
print("all")
"""


@pytest.mark.parametrize(("solver", "kind"), [("lanczos", "path"), ("block-krylov", "map")])
@pytest.mark.slow(keep=1)
def test_a_file_that_changes_under_a_run(solver: str, kind: str, tmp_path: Path):
    """One that was cut is named; one that was replaced by another of its name is read to its end."""
    program = CHANGED.replace("sys.argv[1:]", repr([str(tmp_path), solver, kind]))
    assert apart(program).stdout.split() == ["all"]


def test_many_solves_hold_no_more_than_one(tmp_path: Path):
    """The memory of an ended run is freed at once, without a collection of cycles."""
    gc.collect()
    gc.disable()
    try:
        alive = []
        for ended in (At(20, numpys), At(1, numpys), At(10**9, numpys)):
            A = Tapped(np.random.default_rng(0).standard_normal((300, 40)), ended)
            alive.append(weakref.ref(A))
            with suppress(MemoryError):
                ls.solve(ls.LeastSquares(A, np.ones((300, 1))), "lsqr", tol=1e-13)
            del A
        left = sum(reference() is not None for reference in alive)
        holds(left == 0, f"the data of {left} of 3 runs are still in memory")
    finally:
        gc.enable()
