"""k as a share: the least number by singular values of NumPy, scikit-learn's PCA, ties, rounding, and refusals."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse
from planted import factored
from scipy.sparse.linalg import aslinearoperator
from sklearn import decomposition
from sklearn.datasets import load_digits

import linspec as ls
from linspec import Status, estimators
from linspec.cli import main
from linspec.errors import InvalidProblem, MissingCapability
from linspec.linalg import block_krylov

SOLVERS = {"gram": {}, "direct": {}, "block-krylov": {"form": "implicit", "rng": 1}}
DIGITS = load_digits().data
COUNTS = scipy.sparse.random_array((900, 260), density=0.03, rng=0, format="csr")


def least(A, share):
    """The least number of singular values whose squares are a share of all, by a full SVD."""
    squares = np.linalg.svd(np.asarray(A, dtype=float), compute_uv=False) ** 2
    return int(np.argmax(np.cumsum(squares) >= share * squares.sum())) + 1


def solve(A, share, solver, **words):
    return ls.solve(ls.SVD(A, share, **words), solver, **SOLVERS[solver])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("share", [0.3, 0.8, 0.95, 0.999])
def test_the_least_number_is_found_in_all_kinds_of_data(tmp_path, solver, share):
    path = tmp_path / "digits.npy"
    np.save(path, DIGITS)
    slices = lambda: (DIGITS[i : i + 250] for i in range(0, len(DIGITS), 250))  # noqa: E731
    same = [
        DIGITS,
        DIGITS.astype(np.float32),
        np.load(path, mmap_mode="r"),
        ls.open_rows(os.fspath(path)),
        slices,
    ]
    k = decomposition.PCA(share, svd_solver="full").fit(DIGITS).n_components_
    assert [len(solve(A, share, solver, center=True).S) for A in same] == [k] * len(same)
    wide, dense = DIGITS[:40], COUNTS.toarray()
    found = [
        (solve(COUNTS, share, solver), dense),
        (solve(COUNTS, share, solver, center=True), dense - dense.mean(axis=0)),
        (solve(wide, share, solver, left=True), wide),
    ]
    for answer, A in found:
        assert answer.converged
        assert len(answer.S) == least(A, share)
        assert answer.explained_variance_ratio.sum() >= share > answer.explained_variance_ratio[:-1].sum()


@pytest.mark.parametrize("solver", SOLVERS)
def test_ties_and_what_only_rounding_decides(solver):
    tied, _, _ = factored(150, 120, np.repeat([5.0, 3.0, 1.0], [20, 40, 60]))
    total, many = 20 * 25.0 + 40 * 9.0 + 60, {19.5 * 25: 20, 500 + 4.5 * 9: 25, 860 + 58.5: 119}
    for squares, k in many.items():
        assert len(solve(tied, squares / total, solver).S) == k
    for short, k in {1e-11: 20, -1e-11: 21}.items():  # at the end of the first values
        assert len(solve(tied, 500 / total * (1 - short), solver).S) == k
    low = DIGITS[:, :40] @ np.eye(40, 300)
    for share in (1 - 1e-12, 1 - 1e-16):  # all that there is, and an end
        answer = solve(low, share, solver)
        assert answer.converged
        assert len(answer.S) == np.linalg.matrix_rank(low)
    nothing = solve(np.zeros((30, 8)), 0.9, solver)
    assert (nothing.status, len(nothing.S)) == (Status.RANK_DEFICIENT, 0)


def test_a_growing_space_widens_its_blocks_and_stays_orthonormal():
    squares = 1 / np.arange(1.0, 401)
    A, _, _ = factored(500, 400, np.sqrt(squares))
    enough = lambda theta: int(np.searchsorted(np.cumsum(theta), 0.8 * squares.sum())) + 1  # noqa: E731
    k, rng, widths = enough(squares), np.random.default_rng(0), []

    def product(W):
        widths.append(W.shape[1])
        return A.T @ (A @ W)

    for pairs in block_krylov(product, rng.standard_normal((400, 2)), enough, rng):
        if len(pairs.values) == k and pairs.residuals.max() < 1e-6:
            break
    assert widths[0] < widths[-1] < sum(widths) < 400
    np.testing.assert_allclose(pairs.values, squares[:k], atol=1e-6)
    np.testing.assert_allclose(pairs.vectors().T @ pairs.vectors(), np.eye(k), atol=1e-12)
    assert np.linalg.norm(A.T @ (A @ pairs.vectors()) - pairs.vectors() * squares[:k], axis=0).max() < 2e-6


def test_an_answer_that_holds_less_has_not_converged():
    A = np.random.default_rng(0).standard_normal((500, 300))
    answer = ls.solve(ls.SVD(A, 0.9), "block-krylov", form="implicit", rng=0, max_passes=4)
    assert not answer.converged
    assert np.linalg.norm(A @ np.asarray(answer.Vh).T) ** 2 < 0.9 * np.linalg.norm(A) ** 2
    assert "less than the share k=0.9" in answer.message


def test_the_estimator_is_that_of_scikit_learn(tmp_path):
    ours, theirs = estimators.PCA(0.9).fit(DIGITS), decomposition.PCA(0.9, svd_solver="full").fit(DIGITS)
    assert isinstance(ours.n_components_, int)
    assert ours.n_components_ == theirs.n_components_
    np.testing.assert_allclose(ours.transform(DIGITS), theirs.transform(DIGITS), atol=1e-9)
    ours.solution_.save(tmp_path / "digits.npz")
    np.testing.assert_array_equal(ls.load_solution(tmp_path / "digits.npz").S, ours.solution_.S)
    once = ls.solve(ls.SVD(iter([DIGITS[:900], DIGITS[900:]]), 0.9, center=True))
    held = ls.HeldMoments(ls.SVD, center=True)
    held.add(DIGITS)
    assert len(once.S) == len(ls.solve(held.problem(k=0.9)).S) == theirs.n_components_


def test_what_takes_no_share_says_so(tmp_path):
    problem, text = ls.SVD(DIGITS, 0.9), "got a share as k"
    for solver in ("lanczos", "spca", "lazy-spca"):
        with pytest.raises(MissingCapability, match=r"no share of the squares.*block-krylov, direct, gram"):
            ls.solve(problem, solver)
    with pytest.raises(MissingCapability, match="only give products"):
        ls.SVD(aslinearoperator(DIGITS), 0.9)
    for study in (ls.bootstrap, ls.permutation_test):
        with pytest.raises(InvalidProblem, match=text):
            study(problem)
    with pytest.raises(InvalidProblem, match="Pass ks="):
        ls.cross_validate(problem)
    for k in (0.0, 1.0, 1.5, np.nan):
        with pytest.raises(InvalidProblem, match="integer, or a share above 0 and below 1"):
            ls.SVD(DIGITS, k)
    with pytest.raises(InvalidProblem, match=r"k must be an integer; got 0\.5"):
        ls.CCA(DIGITS, DIGITS, 0.5)
    path = tmp_path / "run"
    options = {"form": "implicit", "rng": 0, "checkpoint": path, "callback": lambda step: step.iteration > 0}
    ls.solve(ls.SVD(DIGITS, 0.99), "block-krylov", **options)
    with pytest.raises(InvalidProblem, match=r"0\.99"):
        ls.solve(problem, start=path)
    assert len(ls.solve(ls.SVD(DIGITS, 0.99), start=path, rng=0).S) == least(DIGITS, 0.99)


def test_the_command_takes_a_share(tmp_path):
    from click.testing import CliRunner

    np.save(tmp_path / "digits.npy", DIGITS)
    out = os.fspath(tmp_path / "answer.npz")
    said = CliRunner().invoke(
        main, ["solve", "svd", f"{tmp_path}/digits.npy", "-k", "0.9", "--center", "--out", out]
    )
    assert said.exit_code == 0, said.output
    assert len(ls.load_solution(out).S) == least(DIGITS - DIGITS.mean(axis=0), 0.9)
