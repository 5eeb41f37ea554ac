"""The rule by which "auto" chooses among least-squares solvers, on either side of its boundaries.

`direct` while forming and factorising the Gram matrix of the shorter side takes less time than sweeps and fits into
half of the memory; of the methods that sweep, `sketch-precondition` where the data are tall and its factorisation is
cheap beside them, `cg` for sparse data, `nystrom-pcg` elsewhere. The problems here have shapes and no entries.
"""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec import cost
from linspec.errors import NoSuitableSolver
from linspec.process import machine


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


def chosen(n, p, m=1, *, ridge=1.0, **facts):
    return ls.select(ls.LeastSquares(Shape(n, p, **facts), Shape(n, m), ridge=ridge)).name


@pytest.fixture
def memory(monkeypatch):
    """Set the memory that is available."""

    def set_to(count):
        monkeypatch.setattr(machine, "available_memory", lambda: count)

    set_to(2**44)
    return set_to


def seconds(n, p, m):
    """Return the seconds that each solver states for a dense problem."""
    sizes = cost.Sizes(n=n, p=p, q=m, nnz=n * p + n * m, pairs=None, k=m, readable=True)
    estimates = {
        name: ls.get_solver(name, "least-squares").estimate(sizes) for name in ls.solvers("least-squares")
    }
    return {name: estimate.seconds for name, estimate in estimates.items() if estimate is not None}


@pytest.mark.parametrize(("n", "m"), [(10**6, 1), (10**6, 100), (10**5, 5)])
def test_columns_decide_for_tall_data(memory, n, m):
    """There is one number of columns from which sweeping is quicker; auto changes exactly there."""
    few, many = 10, n
    while many - few > 1:
        p = (few + many) // 2
        found = seconds(n, p, m)
        few, many = (p, many) if found.pop("direct") <= min(found.values()) else (few, p)
    assert chosen(n, few, m) == "direct"
    assert chosen(n, many, m) in {"nystrom-pcg", "sketch-precondition"}
    assert 100 < many < n


def test_a_sketch_in_between(memory):
    assert [chosen(10**6, p) for p in (1000, 2000, 5000)] == ["direct", "sketch-precondition", "nystrom-pcg"]


def test_small_problems_are_factorised(memory):
    for n, p in ((1, 1), (50, 3), (3, 50), (10_000, 100), (500_000, 500), (300, 20_000)):
        assert chosen(n, p) == "direct", (n, p)


def test_memory_decides(memory):
    sizes = cost.Sizes(n=30_000, p=1000, q=1, nnz=30_000 * 1001, pairs=None, k=1, readable=True)
    needed = ls.get_solver("direct", "least-squares").estimate(sizes).bytes
    memory(2 * needed)
    assert chosen(30_000, 1000) == "direct"
    memory(2 * needed - 8)
    assert chosen(30_000, 1000) == "nystrom-pcg"


def test_nothing_fits(memory):
    memory(1000)
    with pytest.raises(NoSuitableSolver, match="lsqr"):
        chosen(30_000, 3000)


def test_what_is_known_by_products_alone_is_swept(memory):
    assert chosen(50, 3, readable=False) == "nystrom-pcg"


def test_sparse_data_are_swept_sooner(memory):
    assert chosen(100_000, 20_000, 20, nnz=5_000_000) == "cg"
    assert chosen(100_000, 2000, 20, nnz=5_000_000) == "direct"


def test_a_path_is_weighed_as_a_whole(memory):
    """Factorisations are paid for each ridge, sweeps once."""
    n, p = 20_000, 10_000
    assert chosen(n, p, 60) == "direct"
    many = ls.select(ls.LeastSquares(Shape(n, p), Shape(n, 1), ridge=np.geomspace(1, 1e3, 60)))
    assert many.name == "nystrom-pcg"


def test_the_reason_has_the_figures(memory):
    reason = ls.select(ls.LeastSquares(Shape(1000, 50), Shape(1000, 1))).reason
    for name in ("direct", "cg", "nystrom-pcg"):
        assert name in reason
    assert "Gram matrix of order 50" in reason


def test_on_real_numbers():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((500, 20)), rng.standard_normal(500)
    found = ls.solve(ls.LeastSquares(A, b, ridge=0.1))
    assert found.solver == "direct"
    np.testing.assert_allclose(found.x, np.linalg.solve(A.T @ A + 0.1 * np.eye(20), A.T @ b), rtol=1e-10)
