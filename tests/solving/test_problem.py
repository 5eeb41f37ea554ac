"""Problems and moments as Python objects: what they show, and that they survive pickle."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.operators import CombinedColumns

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6))
Y = X[:, :3] @ RNG.standard_normal((3, 4)) + RNG.standard_normal((40, 4))
SPARSE = scipy.sparse.random(40, 6, 0.4, random_state=0, format="csr")

PROBLEMS = {
    "cca": lambda A: ls.CCA(A, Y, 2, ridge=(1.0, 2.0)),
    "svd": lambda A: ls.SVD(A, 2, center=True),
    "least-squares": lambda A: ls.LeastSquares(A, Y, [0.5, 5.0]),
    "discriminant": lambda A: ls.Discriminant(A, Y, 2),
}
VALUES = {"cca": "correlations", "svd": "S", "least-squares": "x", "discriminant": "eigenvalues"}


def slices():
    """A module's function: pickle takes it by its name."""
    yield X[:15]
    yield X[15:]


def again(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.fixture
def path(tmp_path) -> Path:
    np.save(tmp_path / "X.npy", X)
    return tmp_path / "X.npy"


def answer(problem):
    return np.asarray(getattr(ls.solve(problem, rng=0), VALUES[problem.name]))


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "kind", ["array", "float32", "integers", "sparse", "csc", "path", "centred", "slices"]
)
def test_a_problem_survives_pickle(kind, name, path):
    data = {
        "array": X,
        "float32": X.astype(np.float32),
        "integers": (10 * X).astype(np.int16),
        "sparse": SPARSE,
        "csc": SPARSE.tocsc(),
        "path": path,
        "centred": CombinedColumns(ls.as_operator(X), X.mean(axis=0)),
        "slices": slices,
    }[kind]
    problem = PROBLEMS[name](data)
    copy = again(problem)
    assert repr(copy) == repr(problem)
    np.testing.assert_array_equal(answer(copy), answer(problem))


def test_a_file_is_pickled_with_its_entries(tmp_path):
    entries = RNG.standard_normal((3000, 8))
    rows, columns = tmp_path / "rows.npy", tmp_path / "columns.npy"
    np.save(rows, entries)
    np.save(columns, np.asfortranarray(entries))
    mapped = np.load(rows, mmap_mode="r")
    for data, expected in (
        (rows, entries),
        (columns, entries),
        (mapped[100:900, 1:7], entries[100:900, 1:7]),
        (mapped[::-3, ::2], entries[::-3, ::2]),
        (mapped[5:20].T, entries[5:20].T),
    ):
        np.testing.assert_array_equal(again(ls.SVD(data, 2)).A.dense(), expected)


# ---- parameters that there are not ---------------------------------------------------------------


ELSEWHERE = [
    (lambda: ls.SVD(X, n_components=2), "n_components", "Its parameters: A, k, center"),
    (lambda: ls.LeastSquares(X, Y, alpha=1.0), "alpha", "Its parameters: A, B, ridge"),
    (lambda: ls.SVD(X, 2, centre=True), "centre", "'center'"),
    (lambda: ls.SVD(X, K=2), "'K'", "'k'"),
    (lambda: ls.CCA(X, y=Y, k=2), "'y'", "'Y'"),
    (lambda: ls.SVD(X, 2, rng=0), "rng", "is an argument of linspec.solve. Pass it there."),
    (lambda: ls.CCA(X, Y, 2, max_iterations=9), "max_iterations", "is an argument of linspec.solve"),
]


@pytest.mark.parametrize("make, given, meant", ELSEWHERE, ids=[given for _, given, _ in ELSEWHERE])
def test_an_unknown_parameter_is_answered_by_those_that_there_are(make, given, meant):
    with pytest.raises(TypeError) as caught:
        make()
    message = str(caught.value)
    assert given in message.split(".", maxsplit=1)[0]
    assert meant in message


def test_a_problem_of_someone_else_suggests_its_own_parameters():
    @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    class Sparse(ls.SVD):
        penalty: float = 1.0

    assert Sparse(X, 2, penalty=2.0).penalty == 2.0
    with pytest.raises(TypeError, match=r"Sparse has no parameter 'penalt'\. Did you mean 'penalty'"):
        Sparse(X, 2, penalt=2.0)


# ---- without k -----------------------------------------------------------------------------------


def wide_slices():
    yield X.T[:2]
    yield X.T[2:]


@pytest.mark.parametrize(
    "data, entries", [(X, X), (X.T.copy(), X.T), (SPARSE, SPARSE.toarray()), (wide_slices, X.T)]
)
def test_an_svd_without_k_has_every_singular_value(data, entries):
    found = ls.solve(ls.SVD(data))
    np.testing.assert_allclose(found.S, np.linalg.svd(entries, compute_uv=False), rtol=1e-10)
    assert found.status is ls.Status.CONVERGED


def test_a_cca_without_k_has_every_pair():
    bases = [np.linalg.qr(A - A.mean(axis=0))[0] for A in (X, Y)]
    exact = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    for solver in ("direct", "gram", "auto"):
        found = ls.solve(ls.CCA(X, Y), solver)
        np.testing.assert_allclose(found.correlations, exact, atol=1e-10)
        assert found.x_weights.shape == (6, 4)


def test_without_k_a_lower_rank_is_no_shortage():
    low = X[:, :3] @ RNG.standard_normal((3, 6))
    found = ls.solve(ls.SVD(low), "direct")
    assert len(found.S) == 3
    assert found.status is ls.Status.CONVERGED
    assert ls.solve(ls.SVD(low, 6), "direct").status is ls.Status.RANK_DEFICIENT
    centred = ls.solve(ls.SVD(X.T, center=True), "direct")
    assert len(centred.S) == 5  # of 6 rows, about their mean
    both = ls.solve(ls.CCA(low, Y), "gram")
    assert len(both.correlations) == 3
    assert "asked for" not in both.message
