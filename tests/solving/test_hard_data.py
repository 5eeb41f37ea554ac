"""Entries of any size and precision, constants, zeros, or nearly nothing: what is solved, and what is said."""

from __future__ import annotations

from typing import Any

import fuzz
import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import DataOutOfRange, InvalidProblem, NonFiniteData

RNG = np.random.default_rng(7)
A = RNG.standard_normal((60, 5))
B = A @ RNG.standard_normal((5, 3)) + 0.3 * RNG.standard_normal((60, 3))


pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

KINDS: dict[str, Any] = fuzz.KINDS | {"float32": lambda entries: entries.astype(np.float32)}


def values(entries: Any) -> Any:
    return np.linalg.svd(np.asarray(entries, dtype=float), compute_uv=False)[:2]


def test_the_message_names_matrix_column_and_power() -> None:
    entries = A * 1e-80
    entries[4, 3] = 5e-75
    match = (
        r"entries of Y.*about 6.*e-76 in column 3. Multiply Y by 1e75, and its ridge, if it has one, by 1e150"
    )
    with pytest.raises(DataOutOfRange, match=match):
        ls.solve(ls.CCA(B, entries, 2))


@pytest.mark.parametrize("size", [1e-37, 1e-15, 1e30])
@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "slices", "iterator", "products-only", "blocks"])
def test_float32_data_of_any_size_are_multiplied_in_float64(kind: str, size: float) -> None:
    single = (A * size).astype(np.float32)
    for solver in ("gram",) if kind == "iterator" else ("gram", "block-krylov"):
        found = ls.solve(ls.SVD(KINDS[kind](single), 2), solver, rng=0)
        assert np.allclose(found.S, values(single), rtol=1e-6)


@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "blocks", "iterator"])
@pytest.mark.parametrize("at", [0, 59])
def test_a_row_counts_with_its_weight_wherever_it_stands(kind: str, at: int) -> None:
    rows, w = A.copy(), np.ones(60)
    rows[at], w[at] = rows[at] * 1e80, 1e-160
    found = ls.solve(ls.SVD(KINDS[kind](rows), 2, sample_weight=w), "gram")
    assert np.allclose(found.S, values(np.sqrt(w)[:, None] * rows), rtol=1e-10)


@pytest.mark.parametrize("size", [1e-30, 1e-140, 1e-200])
@pytest.mark.parametrize("solver", ls.solvers("least-squares"))
def test_a_small_column_is_solved_for_or_said(solver: str, size: float) -> None:
    scale = np.array([1.0, 1.0, size, 1.0, 1.0])
    exact = np.linalg.lstsq(A, B, rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A * scale, B), solver, rng=0)
    right = np.allclose(found.x * scale[:, None], exact, atol=1e-4 * abs(exact).max())
    assert right or found.status is not ls.Status.CONVERGED


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "array_api_strict", "torch"])
def test_a_column_whose_squares_are_no_numbers_is_named_and_not_called_zero(
    kind: str, weighted: bool
) -> None:
    wrap = KINDS[kind] if kind in KINDS else pytest.importorskip(kind, reason=f"no {kind}").asarray
    beside = B if kind == "scipy-csr" else wrap(B)
    weights = RNG.uniform(0.5, 1.0, 60) if weighted else None
    for unit in (1e-170, 1e-200, 0.0):
        entries = np.where(np.abs(A) < 0.8, 0.0, A) * np.where(np.arange(5) == 2, unit, 1.0)
        found = ls.solve(ls.LeastSquares(wrap(entries), beside, sample_weight=weights), "direct")
        assert (found.status is ls.Status.ILL_CONDITIONED) == (unit > 0)
        assert ("squares" in found.message) == (unit > 0)  # zeros are no numbers that underflow
        assert "column 2" in found.message or not unit


LABELS = np.eye(3)[RNG.integers(0, 3, 600)]
TALL = RNG.standard_normal((600, 20)) * np.logspace(3, 0, 20)
TALL[:, -3:] += LABELS


@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "slices", "products-only"])
@pytest.mark.parametrize(
    "problem, solver", [("x", "cg"), *(("eigenvalues", n) for n in ls.solvers("discriminant"))]
)
def test_narrow_targets_cost_no_precision(problem: str, solver: str, kind: str) -> None:
    if kind in {"slices", "products-only"} and problem != "x":
        pytest.skip("targets of a discriminant have entries")
    stated = ls.LeastSquares if problem == "x" else ls.Discriminant
    wide, *narrow = (
        ls.solve(stated(TALL, KINDS[kind](LABELS.astype(dtype))), solver, rng=0)
        for dtype in (float, bool, np.int8, np.float32)
    )
    for found in narrow:
        assert getattr(found, problem).dtype == np.float64
        np.testing.assert_allclose(getattr(found, problem), getattr(wide, problem), rtol=1e-6, atol=1e-10)
        assert (found.status, "float32" in found.message) == (wide.status, False)


SMALL = RNG.integers(-100, 100, (300, 3)).astype(np.int8)


def test_data_that_are_narrow_themselves_keep_their_precision() -> None:
    assert ls.solve(ls.LeastSquares(SMALL, np.ones(300)), "direct").x.dtype == np.float32
    found = ls.solve(ls.CCA(TALL.astype(np.float32), LABELS, 2), "gram")
    assert (found.x_weights.dtype, found.y_weights.dtype) == (np.float32, np.float64)
    assert "float32 data" not in ls.solve(ls.SVD(SMALL, 2), "block-krylov").message


@pytest.mark.parametrize("dtype", ["float64", np.float32])
@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "slices", "products-only", "npy-file"])
def test_as_operator_takes_a_dtype(kind: str, dtype: Any) -> None:
    data = KINDS[kind](SMALL)
    operator = ls.as_operator(data, dtype=dtype)
    assert operator.dtype == np.dtype(dtype)
    if operator.access == "rows":
        assert operator.rows(slice(0, 5)).dtype == operator.rows(np.array([4, 2])).dtype == operator.dtype
    found = ls.solve(ls.SVD(operator, 2), "gram")
    assert found.Vh.dtype == operator.dtype
    assert np.allclose(found.S, values(SMALL), rtol=1e-12 if operator.dtype == np.float64 else 1e-5)
    assert ls.as_operator(operator, dtype=np.float64).dtype == np.float64
    with pytest.raises(InvalidProblem, match="float32 or float64"):
        ls.as_operator(data, dtype=int)


SHAPES = [(1, 1, 1), (1, 3, 2), (2, 1, 1), (5, 3, 2), (3, 5, 4)]


def pairs() -> list[tuple[Any, Any]]:
    found = []
    for n, p, q in SHAPES:
        X, Y = RNG.standard_normal((n, p)), RNG.standard_normal((n, q))
        found += [(X, Y), (np.ones((n, p)), np.ones((n, q))), (np.zeros((n, p)), Y), (X, np.zeros((n, q)))]
    return found


STATED: dict[str, Any] = {
    "least-squares": lambda X, Y, center: ls.LeastSquares(X, Y),
    "svd": lambda X, Y, center: ls.SVD(X, min(X.shape), center=center),
    "cca": lambda X, Y, center: ls.CCA(X, Y, 1, center=center),
    "discriminant": lambda X, Y, center: ls.Discriminant(X, Y, 1, center=center),
}


@pytest.mark.parametrize(
    ("family", "solver"), [(family, name) for family in STATED for name in ("auto", *ls.solvers(family))]
)
@pytest.mark.slow(keep=5)
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")
def test_little_or_nothing_to_find(family: str, solver: str) -> None:
    for X, Y in pairs():
        for center in (True, False):
            for data in (X, scipy.sparse.csr_array(X)):
                found = ls.solve(STATED[family](data, Y, center), solver, rng=0)
                assert np.isfinite(found.residual)
                C = (X - X.mean(axis=0) if center else X).T @ (Y - Y.mean(axis=0) if center else Y)
                if family == "cca" and np.abs(C).max() < 1e-12:
                    assert found.correlations.sum() < 1e-6
                if family == "least-squares":
                    exact = np.linalg.lstsq(X, Y, rcond=None)[0]
                    assert found.status is not ls.Status.CONVERGED or np.allclose(found.x, exact, atol=1e-5)


def test_an_answer_without_vectors_has_not_converged() -> None:
    """There is nothing in a matrix of zeros: the residual of nothing is no evidence of anything."""
    for problem in (ls.SVD(np.zeros((20, 5)), k=2), ls.CCA(np.zeros((20, 5)), np.eye(20, 4), k=2)):
        found = ls.solve(problem)
        assert (found.status, found.converged) == (ls.Status.RANK_DEFICIENT, False)


N = 50
STILL = 100 + 3 * RNG.standard_normal((N, 6))
STILL[:, 2], STILL[:, 4] = 7.3, 0
BESIDE = STILL[:, :1] + RNG.standard_normal((N, 4))
BESIDE[:, 3] = 0.1

CLASSES = ls.targets.lda(np.arange(N) % 3)
PROBLEMS: dict[str, Any] = {
    "svd": lambda A, B, **named: ls.SVD(A, k=6, center=True, **named),
    "cca": lambda A, B, **named: ls.CCA(A, B, k=2, **named),
    "least-squares": lambda A, B, **named: ls.LeastSquares(A, B, center=True, **named),
    "discriminant": lambda A, B, **named: ls.Discriminant(A, CLASSES, k=2, **named),
    "pls": lambda A, B, **named: ls.PLS(A, B, k=4, **named),
}
OF_KINDS = [("cca", kind) for kind in ("float32", "scipy-csr", "slices", "blocks")]


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("problem, kind", [*((problem, "numpy") for problem in PROBLEMS), *OF_KINDS])
def test_planted_constant_columns_are_named(problem: str, kind: str, scale: bool) -> None:
    found = ls.solve(PROBLEMS[problem](KINDS[kind](STILL), KINDS[kind](BESIDE), scale=scale))
    first = next(iter(ls.get_problem(problem).stated.matrices))
    assert found.status is ls.Status.RANK_DEFICIENT
    assert f"2 of the 6 columns of {first} are constant: 2, 4." in found.message
    if problem in ("cca", "pls"):
        assert "1 of the 4 columns of Y is constant: 3." in found.message
        assert np.abs(found.x_weights[[2, 4]]).max() < 1e-8


def test_columns_of_frames_are_named_and_only_the_first_are_listed() -> None:
    pandas = pytest.importorskip("pandas")
    names = [f"item {i}" for i in range(9)]
    frame = pandas.DataFrame(np.hstack([STILL[:, :1], np.full((N, 8), 3.0)]), columns=names)
    found = ls.solve(ls.SVD(frame, k=2, center=True))
    listed = ", ".join(f"'item {i}'" for i in range(1, 6))
    assert f"8 of the 9 columns of A are constant: {listed}, …." in found.message
    assert "is constant: 'item 2'" in ls.solve(ls.SVD(frame[names[:1] + names[2:3]], 2, center=True)).message


def test_without_means_it_is_columns_of_zeros_and_no_others_are_named() -> None:
    assert "1 of the 6 columns of A is zero: 4." in ls.solve(ls.SVD(STILL, 6)).message
    twice = np.hstack([STILL[:, :2], STILL[:, :1]])  # deficient for another reason
    found = ls.solve(ls.SVD(twice, 3, center=True))
    assert found.status is ls.Status.RANK_DEFICIENT
    assert "constant" not in found.message
    assert "constant" not in ls.solve(ls.SVD(STILL, k=3, center=True)).message  # nothing is missing


def test_a_column_that_varies_by_little_beside_its_mean_is_not_constant() -> None:
    little = STILL.copy()
    little[:, 2] = 1e6 + 1e-6 * RNG.standard_normal(N)
    assert "columns of A is constant: 4." in ls.solve(ls.SVD(little, k=6, center=True, scale=True)).message


# ---- columns without any number -----------------------------------------------------------------

LAND = np.random.default_rng(3).standard_normal((900, 6))
LAND[5, 0] = LAND[:, 2] = LAND[:, 4] = np.nan
SEVERAL = "column 2 and 1 more hold no number in any row: leave them out"
OF_LAND: dict[str, tuple[Any, str]] = {
    "an array": (lambda: LAND, SEVERAL),
    "float32": (lambda: LAND.astype(np.float32), SEVERAL),
    "sparse": (lambda: scipy.sparse.csr_array(LAND), SEVERAL),
    "slices": (lambda: lambda: iter(np.array_split(LAND, 9)), SEVERAL),
    "slices that are read once": (lambda: iter(np.array_split(LAND, 9)), "got nan at row 0, column 2"),
    "one gap less": (lambda: np.where(np.arange(900)[:, None] == 899, 1.0, LAND), "row 0, column 2. Drop"),
    "infinity": (
        lambda: np.where(np.arange(6) == 2, np.inf, LAND),
        "; column 4 holds no number in any row: leave it",
    ),
}


@pytest.mark.parametrize("kind", OF_LAND)
def test_columns_without_any_number_are_named(kind: str) -> None:
    data, words = OF_LAND[kind]
    with pytest.raises(NonFiniteData, match=words):
        ls.solve(ls.SVD(data(), k=1))


def test_columns_without_any_number_have_their_names() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(LAND[:, :4], columns=["a", "b", "sst_7", "d"])
    words = r"column 2 \('sst_7'\) holds no number in any row: leave it out"
    with pytest.raises(NonFiniteData, match=f"Y must be finite; {words}"):
        ls.solve(ls.CCA(np.nan_to_num(LAND), frame, k=1))
