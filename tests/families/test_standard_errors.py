"""Standard errors of least squares: formulas in long double, rows that are repeated, and statsmodels."""

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import AccuracyWarning, InvalidOption, InvalidProblem, MissingCapability

KINDS = ("classical", "HC0", "HC1", "HC2", "HC3", "clustered")


def orthonormal(A):
    """Q and R of A by Gram-Schmidt, twice, in the precision of A."""
    Q, R = np.zeros_like(A), np.zeros((A.shape[1],) * 2, A.dtype)
    for j in range(A.shape[1]):
        v = A[:, j].copy()
        for _ in range(2):
            c = Q[:, :j].T @ v
            v -= Q[:, :j] @ c
            R[:j, j] += c
        R[j, j] = np.sqrt(v @ v)
        Q[:, j] = v / R[j, j]
    return Q, R


def by_hand(A, y, kind, groups=None, Z=None, w=None, center=True):
    """Coefficients and standard errors of the regression on [1, Z, A] by their formulas, in long double."""
    A, y = (np.asarray(M, np.longdouble) for M in (A, y))
    w = np.ones(len(y), np.longdouble) if w is None else np.asarray(w, np.longdouble)
    Z = np.zeros((len(y), 0)) if Z is None else np.asarray(Z, np.longdouble)
    mean = w @ A / w.sum() * center
    D = np.hstack([np.ones((len(y), int(center))), Z - w @ Z / w.sum() * center, A - mean])
    root = np.sqrt(w)
    Q, R = orthonormal(D * root[:, None])
    (n, k), inverse = D.shape, np.zeros_like(R)
    for j in reversed(range(k)):
        inverse[j] = (np.eye(k)[j] - R[j, j + 1 :] @ inverse[j + 1 :]) / R[j, j]
    u = Q.T @ (root * y)
    e, h = root * y - Q @ u, (Q**2).sum(axis=1)
    names = np.unique(groups) if groups is not None else np.zeros(0)
    sums = np.array([Q[groups == name].T @ e[groups == name] for name in names]).reshape(-1, k)
    G = len(names)
    meat = {
        "classical": np.eye(k) * (e @ e) / (n - k),
        "HC0": Q.T @ (Q * (e**2)[:, None]),
        "HC1": Q.T @ (Q * (e**2)[:, None]) * n / (n - k),
        "HC2": Q.T @ (Q * (e**2 / (1 - h))[:, None]),
        "HC3": Q.T @ (Q * (e**2 / (1 - h) ** 2)[:, None]),
        "clustered": sums.T @ sums * G / max(G - 1, 1) * (n - 1) / (n - k),
    }[kind]
    kept = [*range(int(center)), *range(int(center) + Z.shape[1], k)]
    L = inverse[kept]
    if center:
        L[0] -= mean @ L[1:]  # the intercept of columns as they came
    return L @ u, np.sqrt(np.einsum("ij,jk,ik->i", L, meat, L))


@pytest.fixture
def hard():
    """Columns in units of 1e-3 to 1e3, some with means of 1e6, unequal variances, clusters and confounds."""
    rng = np.random.default_rng(7)
    n, p = 150, 6
    sizes = np.geomspace(1e-3, 1e3, p)
    A = (rng.standard_normal((n, p)) + np.array([0, 1e6, 0, 0, 3, 1e6])) * sizes
    groups, Z = rng.integers(0, 12, n), rng.standard_normal((n, 2)) + np.array([5.0, 1e3])
    y = A @ (1 / sizes) + Z[:, 0] + np.abs(A[:, 0]) * 1e3 * rng.standard_normal(n)
    y += rng.standard_normal(12)[groups]
    return A, y, groups, Z


def differences(errors, wanted):
    coefficients, deviations = wanted
    gaps = np.abs(errors.coefficients - coefficients) / deviations
    return float(gaps.max()), float(np.abs(errors.errors / deviations - 1).max())


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_those_of_the_formulas(hard, kind):
    A, y, groups, Z = hard
    w = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    fractions = w / 3
    i = np.repeat(np.arange(len(y)), w.astype(int))
    by = groups if kind == "clustered" else None
    counted = None if by is None else groups[i]
    kept = w > 0
    robust = kind != "classical"
    for scale in (False, True):
        for confounds in (None, Z):
            problem = ls.LeastSquares(A, y, center=True, confounds=confounds, scale=scale)
            wanted = by_hand(A, y, kind, groups, confounds)
            assert max(differences(ls.standard_errors(problem, kind, groups=by), wanted)) < 1e-9
            problem = ls.LeastSquares(A, y, center=True, confounds=confounds, sample_weight=w, scale=scale)
            found = ls.standard_errors(problem, kind, groups=by)
            repeated = None if confounds is None else Z[i]
            assert max(differences(found, by_hand(A[i], y[i], kind, counted, repeated))) < 1e-9
            assert found.rows == w.sum()
            problem = ls.LeastSquares(
                A, y, center=True, confounds=confounds, sample_weight=fractions, scale=scale
            )
            found = ls.standard_errors(problem, kind, groups=by, weights="survey" if robust else "precision")
            some = None if confounds is None else Z[kept]
            wanted = by_hand(A[kept], y[kept], kind, groups[kept], some, fractions[kept])
            assert max(differences(found, wanted)) < 1e-9
            assert found.rows == kept.sum()
    near = A - A.mean(axis=0)  # without an intercept
    plain = ls.standard_errors(ls.LeastSquares(near, y), kind, groups=by)
    assert max(differences(plain, by_hand(near, y, kind, groups, center=False))) < 1e-9


def test_rows_may_be_sparse_in_files_in_slices_and_in_blocks(hard, tmp_path):
    A, y, groups, Z = hard
    A = A - np.round(A.mean(axis=0))
    A[np.random.default_rng(3).random(A.shape) < 0.5] = 0
    np.save(tmp_path / "A.npy", A)
    mapped = np.load(tmp_path / "A.npy", mmap_mode="r")
    slices = lambda: iter(np.array_split(A, 7))  # noqa: E731
    kinds = [scipy.sparse.csr_array(A), mapped, tmp_path / "A.npy", slices]
    da = pytest.importorskip("dask.array")
    kinds.append(da.from_array(A, chunks=(40, -1)))
    for kind in KINDS:
        by = groups if kind == "clustered" else None
        wanted = by_hand(A, y, kind, groups, Z)
        for data in kinds:
            problem = ls.LeastSquares(data, y, center=True, confounds=Z)
            assert max(differences(ls.standard_errors(problem, kind, groups=by), wanted)) < 1e-9


def test_rows_read_once_and_held_moments_have_classical_errors(hard):
    A, y, *_ = hard
    wanted = by_hand(A, y, "classical")
    once = lambda: ls.LeastSquares(iter(np.array_split(A, 5)), y, center=True)  # noqa: E731
    assert max(differences(ls.standard_errors(once()), wanted)) < 1e-9
    held = ls.HeldMoments(ls.LeastSquares, center=True)
    for part in np.array_split(np.arange(len(y)), 4):
        held.add(A[part], y[part])
    found = ls.standard_errors(held.problem())
    assert max(differences(found, wanted)) < 1e-8
    assert found.rows == len(y)
    for problem in (once(), held.problem()):
        with pytest.raises((MissingCapability, InvalidProblem), match=r"read once|HeldMoments"):
            ls.standard_errors(problem, "HC3")


def test_several_right_hand_sides_and_tables(hard):
    pd = pytest.importorskip("pandas")
    A, y, groups, _ = hard
    names = [f"x{i}" for i in range(A.shape[1])]
    B = pd.DataFrame({"first": y, "second": A[:, 0] - y, "third": np.cos(y)})
    problem = ls.LeastSquares(pd.DataFrame(A, columns=names), B, center=True)
    for kind in KINDS:
        by = groups if kind == "clustered" else None
        found = ls.standard_errors(problem, kind, groups=by)
        for j, name in enumerate(B):
            _, errors = by_hand(A, B[name], kind, groups)
            table = found.table(name)
            assert list(table.index) == ["intercept", *names]
            np.testing.assert_allclose(table["standard error"], np.asarray(errors, float), rtol=1e-9)
            covariance = found.covariance[j]
            np.testing.assert_allclose(np.sqrt(np.diag(covariance)), table["standard error"], rtol=1e-9)
            np.testing.assert_allclose(
                table["upper"] - table["coefficient"], table["coefficient"] - table["lower"], rtol=1e-6
            )
    solution = ls.solve(problem)
    assert found.targets == ("first", "second", "third")
    np.testing.assert_allclose(found.coefficients[1:], solution.x, rtol=1e-7)
    total = 1 - ((B - solution.predict(A)) ** 2).sum() / ((B - B.mean()) ** 2).sum()
    np.testing.assert_allclose(found.r_squared, total, rtol=1e-8)
    for target in ("fourth", 1.0, True, np.arange(2)):
        with pytest.raises(InvalidOption, match="first"):
            found.table(target)


def test_what_has_no_standard_errors_is_refused(hard):
    A, y, groups, Z = hard
    errors = ls.standard_errors
    cases = [
        ("ridge", lambda: errors(ls.LeastSquares(A, y, ridge=1.0))),
        ("ridge", lambda: errors(ls.LeastSquares(A, y, ridge=[0.0, 1.0]))),
        ("more rows", lambda: errors(ls.LeastSquares(A[:6], y[:6], center=True))),
        ("more rows", lambda: errors(ls.LeastSquares(A[:8], y[:8], center=True, confounds=Z[:8]))),
        ("column 1 ", lambda: errors(ls.LeastSquares(A[:, [0, 2, 3, 2]], y, center=True))),
        ("column 1", lambda: errors(ls.LeastSquares(np.c_[A[:, 0], np.ones(len(y))], y, center=True))),
        ("column 1", lambda: errors(ls.LeastSquares(np.c_[A[:, 0], Z[:, 0]], y, confounds=Z))),
        ("survey", lambda: errors(ls.LeastSquares(A, y, sample_weight=np.full(len(y), 0.5)))),
        ("HC1", lambda: errors(ls.LeastSquares(A, y), weights="survey")),
        ("groups", lambda: errors(ls.LeastSquares(A, y), "clustered")),
        ("groups", lambda: errors(ls.LeastSquares(A, y), "HC1", groups=groups)),
        (
            "a label for each row",
            lambda: errors(ls.LeastSquares(A, y), "clustered", groups=groups[:9]),
        ),
        ("at least two labels", lambda: errors(ls.LeastSquares(A, y), "clustered", groups=np.zeros(len(y)))),
        ("bootstrap", lambda: errors(ls.SVD(A, k=2))),
        ("leverage 1", lambda: errors(ls.LeastSquares(np.c_[A[:, 0], np.eye(len(y))[0]], y), "HC3")),
    ]
    for words, call in cases:
        with pytest.raises(InvalidProblem, match=words):
            call()
    for words in ({"kind": "HC9"}, {"level": 2.0}, {"weights": "some"}):
        with pytest.raises(InvalidOption):
            errors(ls.LeastSquares(A, y), **words)
    twice = ls.LeastSquares(A[:3], y[:3], sample_weight=np.full(3, 100.0))  # equal rows add no rank
    with pytest.raises(InvalidProblem, match="depend"):
        errors(twice)


def test_a_target_among_the_columns_is_said():
    A, y = np.hsplit(np.random.default_rng(3).standard_normal((60, 4)), [3])
    with pytest.warns(AccuracyWarning, match="fitted up to rounding"):
        ls.standard_errors(ls.LeastSquares(A, np.hstack([y, A @ np.ones((3, 1))]), center=True))
    nearly = A.sum(axis=1) + 1e-9 * y[:, 0]
    assert ls.standard_errors(ls.LeastSquares(A, nearly, center=True)).r_squared > 1 - 1e-12


def test_statsmodels_has_the_same(hard):
    sm = pytest.importorskip("statsmodels.api")
    A, y, groups, _ = hard
    A, y = (A - A.mean(axis=0)) / A.std(axis=0) + 2, y - y.mean()
    w = np.random.default_rng(2).random(len(y)) + 0.1
    for kind in KINDS:
        by = {} if kind != "clustered" else {"groups": groups}
        cov = {"classical": "nonrobust", "clustered": "cluster"}.get(kind, kind)
        for weights in (None, w):
            meaning = "counts" if weights is None else "precision" if kind == "classical" else "survey"
            problem = ls.LeastSquares(A, y, center=True, sample_weight=weights)
            found = ls.standard_errors(problem, kind, weights=meaning, **by)
            model = sm.WLS(y, sm.add_constant(A), weights=1.0 if weights is None else weights)
            fit = model.fit(cov_type=cov, cov_kwds=by or None, use_t=True)
            for ours, theirs in (
                (found.coefficients, fit.params),
                (found.errors, fit.bse),
                (found.t, fit.tvalues),
                (found.p_values + 1e-3, fit.pvalues + 1e-3),
                (found.intervals.T, fit.conf_int()),
                (found.covariance, fit.cov_params()),
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-8)
            assert found.r_squared == pytest.approx(fit.rsquared, rel=1e-10)


def test_a_constant_target_is_no_exact_fit() -> None:
    rng = np.random.default_rng(0)
    found = ls.standard_errors(ls.LeastSquares(rng.standard_normal((40, 2)), np.full(40, 3.0), center=True))
    np.testing.assert_allclose(found.coefficients, [3.0, 0.0, 0.0], atol=1e-12)
