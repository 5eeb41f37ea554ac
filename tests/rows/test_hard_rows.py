"""Rows that cost digits or do not fit: far means, unlucky first rows, extreme units, and memory and bits of passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from in_blocks import Sent, rows_of

import linspec as ls
from linspec.blocks import sparse_loops
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators import DenseOperator
from linspec.process import machine
from linspec.rows import Moments, Passes, Preprocessing
from linspec.workers import BlockOperator, InProcess

rng = np.random.default_rng(1)
n, p = 6000, 5
noise = rng.standard_normal((n, p))
outliers, unlucky, still = noise.copy(), noise.copy(), noise + 1e6
outliers[:300] += 1e7
unlucky[:300] = 5e6
still[:256] = 1e5
late = rng.random(n)
late[:2000] = 0


def slices(M: Any) -> Callable[[], Any]:
    return lambda: (M[i : i + 700] for i in range(0, n, 700))


def once(M: Any) -> Any:
    return slices(M)()


def single(M: Any) -> Any:
    return M.astype(np.float32)


far, ordered = noise + 1e8 * rng.random(p), np.sort(noise + 1e6, axis=0)
mixed = (noise + 1) * np.array([1e-60, 1e60, 1.0, 1e30, 1e-30])
thousand = single(noise + 1000).astype(np.float64)

CASES: dict[str, tuple[Any, Callable[[Any], Any], Any, float, float]] = {
    # the matrix, its kind, weights, and the errors that a Gram matrix and a product may have
    "means of 1e8 deviations": (far, np.asarray, None, 1e-12, 1e-12),
    "the same in a sparse matrix": (far, scipy.sparse.csr_array, None, 1e-6, 1e-6),
    "the same by products": (far, scipy.sparse.linalg.aslinearoperator, None, 1e-6, 1e-6),
    "sorted rows": (ordered, np.asarray, None, 1e-12, 1e-12),
    "sorted rows in slices": (ordered, slices, None, 1e-12, 1e-12),
    "sorted rows that are read once": (ordered, once, None, 1e-12, 1e-12),
    "outliers first": (outliers + 1e8, np.asarray, None, 1e-11, 1e-11),
    "first rows all equal": (unlucky, np.asarray, None, 1e-11, 1e-11),
    "first rows of weight 0": (still, np.asarray, late, 1e-12, 1e-12),
    "units of 1e59": (noise * 1e59 + 1e59, np.asarray, None, 1e-12, 1e-12),
    "units of 1e-60": (noise * 1e-60 + 1e-60, np.asarray, None, 1e-12, 1e-12),
    "units of columns": (mixed, np.asarray, None, 1e-12, 1e-12),
    "bytes": (np.rint(noise * 20), lambda M: M.astype(np.int8), None, 1e-15, 1e-5),
    "float32": (thousand, single, None, 1e-12, 1e-5),
    "float32 in slices": (thousand, lambda M: slices(single(M)), None, 1e-12, 1e-5),
    "float32 in a sparse matrix": (thousand, lambda M: scipy.sparse.csr_array(single(M)), None, 1e-6, 1e-5),
}


def centred(M: Any, w: Any) -> Any:
    M = M.astype(np.longdouble)
    for _ in range(2):
        M = M - np.average(M, axis=0, weights=w)
    return M


@pytest.mark.parametrize("case", CASES)
def test_no_digits_are_lost_to_means(case: str) -> None:
    M, wrap, w, held, thin = CASES[case]
    Z = centred(M, w)
    G = (Z.T @ (Z if w is None else Z * w[:, None])).astype(float)
    units = np.sqrt(np.diag(G))
    V = rng.standard_normal((p, 2)) / units[:, None]
    pre = Preprocessing.of(center=True, weights=w)
    found = Moments([rows_of(wrap(M))], pre).gram()[0][0]
    product = Moments([rows_of(wrap(M))], pre).products(V)[0][0]
    R = Moments([rows_of(wrap(M))], pre).triangle()
    image = Moments([rows_of(wrap(M))], pre).operator().matmat(V)
    exact = (Z if w is None else Z * np.sqrt(w)[:, None]) @ V
    assert np.abs(image - exact).max() < thin * np.abs(exact).max()
    assert np.abs((found - G) / units / units[:, None]).max() < held
    assert np.abs((product - G @ V) / units[:, None]).max() < thin * np.abs(G @ V / units[:, None]).max()
    assert np.abs((R.T @ R - G) / units / units[:, None]).max() < 1e-11


def test_a_pass_is_made_again_only_after_unlucky_first_rows() -> None:
    passes = {}
    for name, M, w in ("noise", noise, None), ("ordered", ordered, None), ("still", still, late):
        moments = Moments([rows_of(M)], Preprocessing.of(center=True, weights=w))
        moments.gram()
        passes[name] = moments.passes.count
    assert passes == {"noise": 1, "ordered": 1, "still": 2}


@pytest.mark.parametrize(
    "wrap",
    [np.asarray, np.asfortranarray, scipy.sparse.csr_array, lambda x: lambda: iter(np.split(x, 10_000))],
    ids=["array", "columns", "sparse", "slices of fifty"],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_float32_sums_over_many_rows_are_better_than_float32(
    wrap: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a million equal numbers: the rounding errors of a running float32 sum do not average out."""
    monkeypatch.setattr(machine, "cpu_count", lambda: threads)
    many, tenth = 500_000, np.float32(0.1)
    exact = many * float(tenth)
    naive = abs(float(np.cumsum(np.full(many, tenth), dtype=np.float32)[-1]) / exact - 1)
    rows = rows_of(wrap(np.full((many, 3), tenth)))
    total = Moments([rows]).operator().rmatmat(np.ones((many, 1)))
    # The bound of recursive summation over a stretch, in the unit roundoff of float32.
    assert np.abs(total / exact - 1).max() < min(naive / 4, sparse_loops.SHORTEST_STRETCH * 2.0**-24)
    held = Moments([rows]).gram()[0][0]
    assert np.abs(held / (exact * float(tenth)) - 1).max() < 1e-11


def elsewhere(M: Any, engine: Any = None) -> Any:
    engine = engine or Sent()
    return BlockOperator(engine.hold([M[:2000], M[2000:2001], M[2001:]]), engine).in_blocks()


def test_rows_that_do_not_fit_are_refused() -> None:
    for one in (noise, slices(noise), elsewhere(noise)):
        for other in (noise[:-1], slices(noise[:-1])):
            with pytest.raises(InvalidProblem, match="equally many rows"):
                Moments([rows_of(one), rows_of(other)]).gram()
        for count in (n - 1, n + 1):
            with pytest.raises(InvalidProblem, match="sample_weight must have a number for each row; got"):
                Moments([rows_of(one)], Preprocessing(w=np.ones(count))).gram()
    with pytest.raises(UnsupportedData, match="in one place; got InProcess, Sent"):
        Moments([elsewhere(noise), elsewhere(noise, InProcess())]).gram()


@pytest.mark.parametrize("place", [rows_of, elsewhere])
def test_a_pass_ends_in_its_midst(place: Any) -> None:
    class Late(Passes):
        def look(self) -> None:
            raise KeyError

    with pytest.raises(KeyError):
        Moments([place(noise)], passes=Late()).gram()


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [
        rng.standard_normal((60_000, 30)),
        scipy.sparse.random_array((100_000, 200), density=0.05, rng=rng, format="csr"),
        lambda: (np.random.default_rng(i).standard_normal((50_000, 30)) for i in range(3)),
    ]
    answers = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(machine, "cpu_count", lambda threads=threads: threads)
        monkeypatch.setattr("linspec.rows.executor.usual_blas_threads", lambda threads=threads: threads)
        moments = [Moments([rows_of(A)], Preprocessing(center=True)) for A in data]
        answers.append([each.products(np.ones((each.widths[0], 3)))[0][0] for each in moments])
        answers[-1] += [each.operator().matmat(np.eye(each.widths[0], 3)) for each in moments]
    for other in answers[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(answers[0], other, strict=True))
    for image, A in zip(
        answers[0][3:], (data[0], data[1].toarray()), strict=False
    ):  # in the order of the rows
        np.testing.assert_allclose(image, (A - A.mean(axis=0))[:, :3], rtol=1e-10, atol=1e-12)


def test_a_row_that_is_subtracted_with_the_means_costs_no_digits() -> None:
    far = np.full(p, 1e10)
    A = DenseOperator(noise.copy(), far)
    wanted = np.linalg.svd(noise - noise.mean(axis=0), compute_uv=False)
    found = ls.solve(ls.SVD(A, k=p, center=True))
    assert pytest.approx(wanted, rel=1e-13) == found.S
    assert found.mean == pytest.approx(noise.mean(axis=0) - far, rel=1e-15)
    chosen = ls.SVD(A, k=p, center=True).on_rows(np.arange(0, n, 3))
    wanted = np.linalg.svd(noise[::3] - noise[::3].mean(axis=0), compute_uv=False)
    assert pytest.approx(wanted, rel=1e-13) == ls.solve(chosen).S


@pytest.mark.parametrize("solver", ls.solvers("svd"))
def test_components_of_sparse_rows_that_are_far_from_zero(solver: str) -> None:
    dense = np.hstack([rng.standard_normal((200, 5)) + 1e13, rng.poisson(0.1, (200, 4)).astype(float)])
    sparse, wide = scipy.sparse.csr_array(dense), dense.astype(np.longdouble)
    centred = (wide - wide.mean(axis=0)).astype(np.float64)
    found = ls.solve(ls.SVD(sparse, 3, center=True), solver, rng=0)
    exact = np.linalg.svd(centred, compute_uv=False)
    share = (exact[:3] ** 2).sum() / (exact**2).sum()
    assert found.converged
    assert np.allclose(found.S, exact[:3], rtol=1e-6)
    assert np.allclose(found.explained_variance_ratio.sum(), share, rtol=1e-6)
    assert np.allclose(found.mean, dense.mean(axis=0), rtol=1e-14, atol=1e-12)
