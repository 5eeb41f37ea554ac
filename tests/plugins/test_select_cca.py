"""Which CCA solvers "auto" may choose, and the answers of what it chooses for views that are hard."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import cost
from linspec.errors import NoSuitableSolver
from linspec.process import machine
from linspec.registry import get_spec

EXACT = {"direct", "gram", "lobpcg"}


class Shape(ls.LinearOperator):
    """A matrix known by its shape alone; whoever multiplies it fails."""

    def __init__(self, n, p, *, readable=True, nnz=None):
        self.shape, self.dtype = (n, p), np.dtype(np.float64)
        self.readable, self.access = readable, "rows" if readable else "products"
        self._nnz = n * p if nnz is None else nnz

    @property
    def nnz(self):
        return self._nnz

    def _matmat(self, V):
        raise AssertionError

    _rmatmat = _matmat


def problem(n, p, q=None, k=20, *, ridge=1.0, **facts):
    return ls.CCA(
        Shape(n, p, **facts), Shape(n, q or p, **facts), min(k, p, q or p), ridge=ridge, center=False
    )


def chosen(n, p, q=None, k=20, **facts):
    return ls.select(problem(n, p, q, k, **facts)).name


def words(n, p, per_row, power=1.1, seed=0):
    """Draw `per_row` words for each row, with frequencies that follow a power law."""
    frequency = (np.arange(p) + 20.0) ** -power
    columns = np.random.default_rng(seed).choice(p, size=n * per_row, p=frequency / frequency.sum())
    rows = np.repeat(np.arange(n), per_row)
    A = scipy.sparse.csr_array((np.ones(n * per_row), (rows, columns)), shape=(n, p))
    A.sum_duplicates()
    return A


@pytest.fixture
def memory(monkeypatch):
    """Set the memory that is available."""

    def set_to(count):
        monkeypatch.setattr(machine, "available_memory", lambda: count)

    set_to(2**44)
    return set_to


def test_nothing_fits(memory):
    memory(1000)
    with pytest.raises(NoSuitableSolver, match="als"):
        chosen(20_000, 3000)


def sparse_problem(X, Y, k=20, ridge=1.0):
    return ls.CCA(X, Y, k, ridge=ridge, center=False)


def test_approximate_solvers_are_never_chosen(memory, monkeypatch):
    """Not even if they claim to take no time."""
    rough = [
        name
        for name in ls.solvers("cca")
        if {"approximate", "demonstration"} & set(get_spec("solver", name, "cca").traits)
    ]
    assert len(rough) >= 5
    for name in rough:
        free = classmethod(lambda cls, sizes: cost.Estimate(0.0, 0.0, "free"))
        monkeypatch.setattr(ls.get_solver(name, "cca"), "estimate", free)
    sparse = words(3000, 900, 10)
    for candidate in (
        problem(5, 3),
        problem(10**6, 500),
        problem(10**6, 50_000),
        problem(500, 50_000),
        problem(10_000, 6000, readable=False),
        sparse_problem(sparse, sparse),
    ):
        selection = ls.select(candidate)
        assert selection.name in EXACT
        assert "free" not in selection.reason


def planted(n, p, q, rng):
    shared = rng.standard_normal((n, 3))
    return tuple(shared @ rng.standard_normal((3, m)) + 2 * rng.standard_normal((n, m)) for m in (p, q))


def with_condition(condition):
    """Make views: the first has a condition number that no scaling of its columns improves."""
    rng = np.random.default_rng(2)
    X, Y = planted(400, 20, 15, rng)
    first, last = (np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2))
    return X @ first * np.geomspace(1, 1 / condition, 20) @ last, Y


@pytest.mark.parametrize("condition", [1e5, 1e9])
def test_ill_conditioned_views_without_a_ridge_are_answered_to_the_rounding_of_their_rows(condition):
    """Squares lose 10 or all digits; the rows lose 5 or 9."""
    X, Y = with_condition(condition)
    found = ls.solve(ls.CCA(X, Y, 3))
    assert found.converged
    Qx, Qy = (np.linalg.qr(A - A.mean(axis=0))[0] for A in (X, Y))
    exact = np.linalg.svd(Qx.T @ Qy, compute_uv=False)[:3]
    np.testing.assert_allclose(found.correlations, exact, atol=100 * np.finfo(float).eps * condition)


def test_squares_that_lose_correlations_say_so_and_auto_goes_on_to_rows():
    X, Y = with_condition(1e9)
    squared = ls.solve(ls.CCA(X, Y, 3), "gram")
    assert squared.status == ls.Status.ILL_CONDITIONED
    assert 'Choose "direct"' in squared.message
    found = ls.solve(ls.CCA(X, Y, 3))
    assert (found.solver, found.converged) == ("direct", True)
    assert "gram was tried first" in found.message


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_views_without_full_rank_get_an_answer_that_says_so(kind):
    rng = np.random.default_rng(3)
    X, Y = planted(300, 20, 15, rng)
    X, Y = np.hstack([X, X[:, :4]]), np.hstack([Y, np.zeros((300, 2))])
    if kind == "sparse":
        X, Y = (scipy.sparse.csr_array(A) for A in (X, Y))
    found = ls.solve(ls.CCA(X, Y, 3, center=False))
    assert found.solver == "gram"
    assert tuple(found.ranks) == (20, 15)
    exact = ls.solve(ls.CCA(X, Y, 3, center=False), "direct")
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-10)
