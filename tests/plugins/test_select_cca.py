"""The rule by which "auto" chooses among CCA solvers, on either side of its boundaries.

`gram` while forming and factorising three Gram matrices takes less time than some dozens of products with thin blocks
and fits into half of the memory; `two-stage` beyond where Y is narrow, and `lobpcg` elsewhere, with the moments in the
form that is cheapest: held as sparse or as dense matrices, or swept. `direct` never takes less time than `gram`; it
is for those who call it by name. The problems of the rule have shapes, or the places of entries, and nothing is
multiplied.
"""

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


def estimates(sizes):
    return {name: ls.get_solver(name, "cca").estimate(sizes) for name in EXACT}


def dense_sizes(n, p, k):
    return cost.Sizes(n=n, p=p, q=p, nnz=2 * n * p, pairs=None, k=k, readable=True)


@pytest.mark.parametrize(("n", "k"), [(10**6, 20), (20_000, 20), (20_000, 1), (10**5, 60)])
def test_columns_decide_for_tall_dense_data(memory, n, k):
    """There is one number of columns from which products are quicker; auto changes exactly there."""
    few, many = 100, n
    while many - few > 1:
        p = (few + many) // 2
        found = estimates(dense_sizes(n, p, k))
        few, many = (p, many) if found["gram"].seconds <= found["lobpcg"].seconds else (few, p)
    assert 500 < many < 6000
    assert chosen(n, few, k=k) == "gram"
    assert chosen(n, many, k=k) == "lobpcg"
    steps = np.unique(np.geomspace(max(k, 50), n, 60).astype(int))
    names = [chosen(n, int(p), k=k) for p in steps]
    assert names == ["gram" if p <= few else "lobpcg" for p in steps]


def test_small_problems_are_solved_exactly(memory):
    for n, p, q in ((1, 1, 1), (5, 3, 2), (50, 30, 20), (10_000, 100, 50), (500_000, 400, 400)):
        assert chosen(n, p, q) == "gram", (n, p, q)


def test_fewer_rows_than_columns(memory):
    """Few rows make Gram matrices cheap to form and no cheaper to factorise."""
    assert chosen(40, 60, 50) == "gram"
    assert chosen(500, 1000) == "gram"
    assert chosen(500, 20_000) == "lobpcg"


def test_a_narrow_view_beside_a_wide_one(memory):
    """Least squares of all its columns take less than the Gram matrix of the other, until they are too many."""
    assert chosen(20_000, 1000, 10, k=5) == "gram"
    assert chosen(20_000, 20_000, 10, k=5) == "two-stage"
    names = [chosen(20_000, 20_000, int(q), k=5) for q in np.geomspace(5, 5000, 40)]
    first = names.index("lobpcg")
    assert names == ["two-stage"] * first + ["lobpcg"] * (len(names) - first)
    assert 10 < first < 39


def test_memory_decides(memory):
    needed = {name: e.bytes for name, e in estimates(dense_sizes(20_000, 1000, 20)).items()}
    assert needed["lobpcg"] < needed["gram"] < needed["direct"]
    memory(int(2 * needed["gram"]))
    assert chosen(20_000, 1000) == "gram"
    memory(int(2 * needed["gram"]) - 8)
    assert chosen(20_000, 1000) == "lobpcg"


def test_what_cannot_be_held_is_swept(memory):
    """With room for no Gram matrix, the data are swept, and the reason says so."""
    memory(2 * 10**8)
    selection = ls.select(problem(20_000, 3000))
    assert selection.name == "lobpcg"
    assert "(sweeps)" in selection.reason
    memory(2**44)
    assert "(dense Gram matrices)" in ls.select(problem(20_000, 3000)).reason


def test_less_memory_never_leaves_a_gap(memory):
    """From all Gram matrices to none: what is held, and the blocks beside it, are within the half."""
    for available in np.geomspace(2e9, 1.5e8, 40):
        memory(int(available))
        assert chosen(20_000, 3000) == "lobpcg", available


def test_nothing_fits(memory):
    memory(1000)
    with pytest.raises(NoSuitableSolver, match="als"):
        chosen(20_000, 3000)


def test_what_is_known_by_products_alone(memory):
    """Gram matrices are then formed from products with the identity, of few columns only."""
    assert chosen(10_000, 50, readable=False) == "gram"
    selection = ls.select(problem(10_000, 6000, readable=False))
    assert selection.name == "lobpcg"
    assert "(sweeps)" in selection.reason
    assert "direct" not in selection.reason


class Ones(Shape):
    """Nothing but ones, known by products, which it counts in columns."""

    columns = 0

    def _matmat(self, V):
        Ones.columns += V.shape[1]
        return np.ones((self.shape[0], 1)) @ V.sum(axis=0, keepdims=True)

    def _rmatmat(self, U):
        Ones.columns += U.shape[1]
        return np.ones((self.shape[1], 1)) @ U.sum(axis=0, keepdims=True)


def test_products_with_the_identity_are_counted_as_they_are(memory):
    """The estimate is that of the products which `gram` asks for, or up to twice as much."""
    n, p, q = 2000, 300, 200
    X, Y = Ones(n, p, readable=False), Ones(n, q, readable=False)
    Ones.columns = 0
    ls.Moments(X, Y, form="dense").dense()
    sizes = cost.Sizes(n=n, p=p, q=q, nnz=n * (p + q), pairs=None, k=1, readable=False)
    readable = cost.Sizes(n=n, p=p, q=q, nnz=n * (p + q), pairs=None, k=1, readable=True)
    gram = ls.get_solver("gram", "cca")
    forming = (
        gram.estimate(sizes).seconds - gram.estimate(readable).seconds + n * (p + q) ** 2 / cost.DENSE_RATE
    )
    # Each column of a product takes two operations an entry of its view: 250 columns on average.
    asked = Ones.columns * 2.0 * n * (p + q) / 2 / cost.DENSE_RATE
    assert asked < forming < 2 * asked


# ---- sparse data ------------------------------------------------------------------------------------


def sparse_problem(X, Y, k=20, ridge=1.0):
    return ls.CCA(X, Y, k, ridge=ridge, center=False)


def test_density_decides_for_sparse_data(memory):
    """As wide, few entries and many: the cheaper the sweep, the sooner it is taken."""
    rng = np.random.default_rng(0)
    few, many = (scipy.sparse.csr_array((rng.random((1500, 3200)) < d) * 1.0) for d in (0.001, 0.3))
    assert ls.select(sparse_problem(few, few, k=60)).name == "lobpcg"
    assert ls.select(sparse_problem(many, many, k=60)).name == "gram"


def test_small_sparse_gram_matrices_are_held(memory):
    """With two words in each row, the Gram matrices have fewer entries than the data."""
    n, p = 400_000, 4000
    X, Y = words(n, p, 2, power=2.0, seed=1), words(n, p, 2, power=2.0, seed=2)
    selection = ls.select(sparse_problem(X, Y))
    assert selection.name == "lobpcg"
    assert "(sparse Gram matrices)" in selection.reason


def test_large_sparse_gram_matrices_are_not(memory):
    X, Y = words(20_000, 5000, 20, seed=1), words(20_000, 5000, 20, seed=2)
    selection = ls.select(sparse_problem(X, Y))
    assert selection.name == "lobpcg"
    assert "(sweeps)" in selection.reason


def test_few_words_are_solved_exactly(memory):
    X, Y = words(2000, 100, 8, seed=1), words(2000, 80, 8, seed=2)
    assert ls.select(sparse_problem(X, Y)).name == "gram"


# ---- who is never chosen ----------------------------------------------------------------------------


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


def test_the_reason_has_the_figures(memory):
    reason = ls.select(problem(1000, 50)).reason
    for name in EXACT:
        assert f"{name}: " in reason
    assert "flops to factor" in reason


# ---- on numbers -------------------------------------------------------------------------------------


def planted(n, p, q, rng):
    shared = rng.standard_normal((n, 3))
    return tuple(shared @ rng.standard_normal((3, m)) + 2 * rng.standard_normal((n, m)) for m in (p, q))


def test_on_real_numbers():
    X, Y = planted(400, 20, 15, np.random.default_rng(0))
    found = ls.solve(ls.CCA(X, Y, 3))
    assert found.solver == "gram"
    Qx, Qy = (np.linalg.qr(A - A.mean(axis=0))[0] for A in (X, Y))
    np.testing.assert_allclose(found.correlations, np.linalg.svd(Qx.T @ Qy, compute_uv=False)[:3], atol=1e-12)


def test_both_sides_of_the_boundary_agree(monkeypatch):
    """Time and memory decide; the answer is the same."""
    X, Y = planted(1500, 400, 300, np.random.default_rng(1))
    candidate = ls.CCA(X, Y, 3, ridge=5.0)
    exact = ls.solve(candidate)
    sizes = cost.Sizes(n=1500, p=400, q=300, nnz=1500 * 700, pairs=None, k=3, readable=True)
    monkeypatch.setattr("linspec.solving.select.ALWAYS_AVAILABLE", 0)
    memory = int(estimates(sizes)["gram"].bytes * 2) - 8
    monkeypatch.setattr(machine, "available_memory", lambda: memory)
    swept = ls.solve(candidate, rng=0)
    assert (exact.solver, swept.solver) == ("gram", "lobpcg")
    assert swept.converged
    np.testing.assert_allclose(swept.correlations, exact.correlations, rtol=1e-5)


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
