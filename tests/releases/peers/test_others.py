"""The rows of the page "Coming from other libraries", against the numbers of these libraries."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import lsmr, lsqr, svds

import linspec as ls

rng = np.random.default_rng(0)
n = 200
shared = rng.standard_normal((n, 2))
X = shared @ rng.standard_normal((2, 5)) + rng.standard_normal((n, 5))
Y = shared @ rng.standard_normal((2, 4)) + rng.standard_normal((n, 4))
UNITS = X * np.geomspace(1, 1e4, 5) + 1
b = X @ rng.standard_normal(5) + np.abs(X[:, 0]) * rng.standard_normal(n)
MANY = X @ rng.standard_normal((5, 30)) + rng.standard_normal((n, 30)) * np.geomspace(1, 100, 30)
FIELD = rng.standard_normal((n, 3)) @ rng.standard_normal((3, 30)) + rng.standard_normal((n, 30))
OTHER = FIELD[:, :3] @ rng.standard_normal((3, 12)) + 3 * rng.standard_normal((n, 12))
WEIGHTS, ALPHAS = 1 + np.arange(n) % 3, np.logspace(-1, 3, 5)
KINDS = {
    "nonrobust": "classical",
    "HC0": "HC0",
    "HC1": "HC1",
    "HC2": "HC2",
    "HC3": "HC3",
    "cluster": "clustered",
}


def largest(ours, exact) -> float:
    return float(np.abs(np.asarray(ours) - np.asarray(exact)).max())


def test_statsmodels_cancorr_whose_tests_of_single_pairs_count_other_rows(same, seen):
    from statsmodels.multivariate.cancorr import CanCorr

    theirs, ours = CanCorr(Y, X), ls.solve(ls.CCA(X, Y))
    tests, wilks = theirs.corr_test(), ls.significance(ls.CCA(X, Y)).wilks
    pairs = [(ours.correlations, theirs.cancorr), (ours.x_weights, theirs.x_cancoef)]
    pairs += [(wilks.statistics[0], tests.stats_mv.loc["Wilks' lambda", "F Value"])]
    same("CanCorr, corr_test().stats_mv", "statsmodels", *pairs)
    assert (tests.stats.loc[3, "Den DF"], wilks.df_error[3]) == (195, 194)  # n - p - q + 3
    swapped = CanCorr(X, Y).corr_test().stats.loc[0, "F Value"]
    gap = swapped - tests.stats.loc[0, "F Value"]
    noise = [rng.standard_normal((8, columns)) for columns in (4, 5)]
    p_value = CanCorr(*noise).corr_test().stats.loc[1, "Pr > F"]
    with pytest.raises(ls.errors.InvalidProblem, match="rows"):
        ls.significance(ls.CCA(*noise))
    assert abs(gap) > 0.1 and p_value < 1e-3
    seen(
        "CanCorr, corr_test().stats", "statsmodels", f"F {gap:+.2f} when swapped; of 8 rows p = {p_value:.0e}"
    )


def test_statsmodels_manova_at_large_means(same):
    from statsmodels.multivariate.manova import MANOVA

    g = np.arange(n) % 3
    design, moved = np.column_stack([np.ones(n), g == 1, g == 2]).astype(float), Y + 0.2 * g[:, None]

    def both(shift):
        theirs = MANOVA(moved + shift, design).mv_test([("g", np.eye(3)[1:])]).results["g"]["stat"]
        ours = ls.significance(ls.CCA(design[:, 1:], moved + shift)).wilks
        return [ours.values[0], ours.p_values[0]], list(theirs.loc["Wilks' lambda", ["Value", "Pr > F"]])

    ours, theirs = (largest(far, near) for far, near in zip(both(1e8), both(0.0), strict=True))
    assert ours < 1e-7 and theirs > 0.01
    same("MANOVA", "statsmodels", both(0.0), besides=f"; means of 1e8: {theirs:.0e}, linspec {ours:.0e}")


@pytest.mark.parametrize("cov_type", KINDS)
def test_statsmodels_standard_errors(cov_type, same):
    import statsmodels.api as sm

    groups = np.arange(n) % 20 if cov_type == "cluster" else None
    options = {"cov_kwds": {"groups": groups}} if cov_type == "cluster" else {}
    theirs = sm.OLS(b, sm.add_constant(X)).fit(cov_type=cov_type, use_t=True, **options)
    ours = ls.standard_errors(ls.LeastSquares(X, b, center=True), KINDS[cov_type], groups=groups)
    pairs = [(ours.coefficients, theirs.params), (ours.covariance, theirs.cov_params())]
    pairs += [(ours.p_values, theirs.pvalues), (ours.intervals.squeeze().T, theirs.conf_int())]
    same(f"OLS.fit({cov_type=}, use_t=True)", "statsmodels", *pairs)


def test_statsmodels_weights_and_a_column_of_times(same, seen):
    import statsmodels.api as sm

    E, far = sm.add_constant(X), X + 1.7e9 * (np.arange(5) == 0)
    problem = ls.LeastSquares(X, b, center=True, sample_weight=WEIGHTS)
    for model, meaning in (
        (sm.WLS(b, E, WEIGHTS), "precision"),
        (sm.GLM(b, E, freq_weights=WEIGHTS), "counts"),
    ):
        theirs, ours = model.fit(), ls.standard_errors(problem, weights=meaning)
        pairs = [(ours.coefficients, theirs.params), (ours.covariance, theirs.cov_params())]
        same(f"{type(model).__name__}, weights", "statsmodels", *pairs)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pinv, qr = (sm.OLS(b, sm.add_constant(far)).fit(method).params[1:] for method in ("pinv", "qr"))
    ours, exact = ls.solve(ls.LeastSquares(far, b, center=True)).x, sm.OLS(b, E).fit().params[1:]
    assert abs(pinv[0]) < 1e-6 < 0.01 < abs(exact[0])
    words = "a warning" if any("rank-deficient" in str(warning.message) for warning in said) else "no warning"
    outcome = f"; by default {pinv[0]:.0e} for {exact[0]:.2f}, {words}"
    same('OLS.fit(method="qr"), a column 1.7e9 + x', "statsmodels", (ours, qr), within=1e-7, besides=outcome)


@pytest.mark.parametrize("standardize", [False, True])
def test_statsmodels_pca(standardize, same):
    from statsmodels.multivariate.pca import PCA

    theirs, ours = (
        PCA(UNITS, standardize=standardize),
        ls.solve(ls.SVD(UNITS, center=True, scale=standardize)),
    )
    pairs = [(ours.S**2, theirs.eigenvals), (ours.transform(UNITS) / ours.S, theirs.factors)]
    same(f"PCA({standardize=})", "statsmodels", (ours.Vh.T, theirs.eigenvecs), *pairs, within=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_himalaya_ridges(shift, same):
    from himalaya.ridge import RidgeCV
    from himalaya.scoring import r2_score

    ours = ls.solve(ls.RidgeManyTargets(X + shift, MANY + shift, ALPHAS))
    by_loss, by_r2 = (
        RidgeCV(alphas=ALPHAS, fit_intercept=True, cv=5, solver_params=options).fit(X + shift, MANY + shift)
        for options in ({}, {"score_func": r2_score})
    )
    agree = np.isclose(by_loss.best_alphas_, ours.ridges).sum()
    pairs = [
        (ours.ridges, by_r2.best_alphas_),
        (ours.scores + 1e-10 * np.log(ours.ridges), by_r2.cv_scores_),
    ]  # larger ridges are preferred
    pairs += [(ours.coefficients(list(range(30))), by_r2.coef_), (ours.intercept, by_r2.intercept_)]
    words = f"; by its default loss {agree} of 30 ridges are the same"
    same(f"RidgeCV, means {shift:.0e}", "himalaya", *pairs, within=1e-8 if shift else 1e-12, besides=words)


def test_himalaya_kernels_and_bands(same, seen):
    from himalaya.kernel_ridge import KernelRidge, KernelRidgeCV
    from himalaya.ridge import GroupRidgeCV
    from himalaya.scoring import r2_score

    every, options = list(range(30)), {"score_func": r2_score}
    theirs = KernelRidgeCV(alphas=ALPHAS, cv=5, kernel="linear", solver_params=options, warn=False).fit(
        X, MANY
    )
    ours = ls.solve(ls.RidgeManyTargets(X, MANY, ALPHAS, center=False))
    pairs = [(ours.ridges, theirs.best_alphas_), (ours.coefficients(every), theirs.get_primal_coef())]
    same("KernelRidgeCV", "himalaya", *pairs)
    theirs = KernelRidge(alpha=2.0, kernel="rbf", kernel_params={"gamma": 0.1}).fit(X, MANY)
    ours = ls.solve(ls.KernelRidge(X, MANY, 2.0, ls.kernels.rbf(0.2**-0.5)))
    same("KernelRidge", "himalaya", (ours.predict(X), theirs.predict(X)))
    bands, search = np.array([0, 0, 1, 1, 1]), {"n_iter": 20, "alphas": ALPHAS, "progress_bar": False}
    theirs = GroupRidgeCV(bands, solver_params=search, random_state=0, cv=5).fit(X, MANY)
    for target in every:  # exp(deltas_) is the weight of a band, divided by the ridge
        weights = np.exp(theirs.deltas_[:, target])
        ours = ls.solve(
            ls.RidgeManyTargets(X, MANY[:, target], 1.0, bands=bands, band_weights=[weights], center=False)
        )
        pairs.append((ours.coefficients([0]), theirs.coef_[:, target]))
    same("GroupRidgeCV, with the weights that it chose", "himalaya", *pairs)
    score = r2_score(np.full((7, 1), 0.1), np.full((7, 1), 0.2))[0]
    assert score < -1e30
    seen("r2_score of a constant", "himalaya", f"{score:.0e}")


@pytest.mark.parametrize("algorithm", [1, 2])
def test_ikpls(algorithm, same):
    try:
        from ikpls.numpy import PLS
    except ImportError:  # before 6
        from ikpls.numpy_ikpls import PLS
    theirs, scaled = PLS(algorithm, scale_X=False, scale_Y=False), PLS(algorithm, ddof=0)
    theirs.fit(X, MANY[:, :3], 4)
    ours = ls.solve(ls.PLSRegression(X, MANY[:, :3], 4))
    pairs = [(ours.coefficients(k), theirs.B[k - 1]) for k in (1, 2, 3, 4)] + [(ours.x_rotations, theirs.R)]
    scaled.fit(UNITS, MANY[:, :3], 3)
    ours = ls.solve(ls.PLSRegression(UNITS, MANY[:, :3], 3, scale=True))
    pairs += [(ours.predict(UNITS), scaled.predict(UNITS, 3))]

    def errors(held, predicted):
        return ((held - predicted) ** 2).mean((-2, -1))

    fold = np.arange(n) % 5
    held_out = theirs.cross_validate(X, b[:, None], 4, fold, errors, n_jobs=1, verbose=0)
    validation = ls.cross_validate(ls.PLSRegression(X, b, 4), ks=[1, 2, 3, 4], splitter=fold)
    pairs += [(validation.scores, [held_out[label] for label in range(5)])]
    same(f"PLS({algorithm=}), every number of components, cross_validate", "ikpls", *pairs)


def test_xeofs_eof(same, seen):
    import xarray
    import xeofs

    coordinates = {"time": np.arange(n), "lat": np.linspace(-60, 60, 5), "lon": np.linspace(0, 90, 6)}
    field = xarray.DataArray(FIELD.reshape(n, 5, 6), coordinates)
    area = field * np.sqrt(np.cos(np.radians(field.lat)))
    for options, used in (({}, field), ({"use_coslat": True}, area), ({"standardize": True}, field)):
        theirs = xeofs.single.EOF(4, solver="full", **options).fit(field, dim="time")
        rows = used.stack(point=("lat", "lon"))
        ours = ls.solve(ls.SVD(rows, 4, center=True, scale="standardize" in options))
        pairs = [(ours.Vh, theirs.components().values.reshape(4, 30)), (ours.S, theirs.singular_values())]
        pairs += [(ours.S**2 / (n - 1), theirs.explained_variance())]
        pairs += [(ours.transform(rows) / ours.S, theirs.scores(normalized=True).transpose("time", "mode"))]
        same(f'EOF(solver="full"), {options}', "xeofs", *pairs)
    ours = ls.solve(ls.SVD(FIELD, 4, center=True))
    random = xeofs.single.EOF(4, random_state=0).fit(field, dim="time").components().values.reshape(4, 30)
    assert largest(ours.Vh, random) > 1e-3
    seen("EOF, its default solver", "xeofs", f"components {largest(ours.Vh, random):.0e} apart")


def test_xeofs_pairs_of_fields(same, seen):
    import xarray
    from xeofs.cross import CCA, MCA

    def fields(*tables):
        times = np.arange(n)
        return [
            xarray.DataArray(table, {"time": times, "point": np.arange(table.shape[1])}) for table in tables
        ]

    ours = ls.solve(ls.PLS(FIELD, OTHER, 3))
    whole, reduced = (
        [
            part.transpose("point", "mode").values
            for part in model.fit(*fields(FIELD, OTHER), "time").components()
        ]
        for model in (MCA(3, use_pca=False, standardize=False), MCA(3, standardize=False, random_state=0))
    )
    off = largest(ours.x_weights, reduced[0])
    assert off > 0.01
    pairs = [(ours.x_weights, whole[0]), (ours.y_weights, whole[1])]
    same("MCA(use_pca=False)", "xeofs", *pairs, besides=f"; by default weights {off:.0e} apart")
    weak, noise = rng.standard_normal((n, 1)), rng.standard_normal((n, 8))
    views = (
        np.hstack([30 * noise[:, :4], 0.3 * weak]),
        np.hstack([30 * noise[:, 4:7], 0.3 * weak + 0.03 * noise[:, 7:]]),
    )
    ours = ls.solve(ls.CCA(*views, 2)).correlations
    whole, reduced = (
        CCA(2, **options).fit(*fields(*views), "time").cross_correlation_coefficients().values
        for options in (
            {"use_pca": False, "standardize": False},
            {"standardize": False, "pca_init_rank_reduction": 1.0},
        )
    )
    assert whole[0] > 1 and reduced[0] < 0.5 < 0.99 < ours[0]
    words = f"; {whole[0]:.4f} for {ours[0]:.4f}, by default {reduced[0]:.2f}"
    same("CCA(use_pca=False) is n / (n - 1) times", "xeofs", (ours * n / (n - 1), whole), besides=words)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_mne_delays(fit_intercept, same):
    from mne.decoding import TimeDelayingRidge

    series = np.cumsum(rng.standard_normal(500)) + 5
    target = np.convolve(series, [0, 1, 0.5, 0.2])[:500] + rng.standard_normal(500)
    model = TimeDelayingRidge(0, 4, 1.0, alpha=2.0, fit_intercept=fit_intercept)
    theirs = model.fit(series[:, None], target[:, None]).coef_.ravel()

    def delayed(values):
        return np.column_stack([np.concatenate([np.zeros(lag), values[: 500 - lag]]) for lag in range(5)])

    ours = ls.solve(ls.LeastSquares(delayed(series), target, 2.0, center=fit_intercept)).x
    before = ls.solve(ls.LeastSquares(delayed(series - series.mean()), target - target.mean(), 2.0)).x
    assert (largest(ours, theirs) > 0.01) == fit_intercept
    words = f"; delayed, then centred: {largest(ours, theirs):.0e}"
    same(
        f"TimeDelayingRidge({fit_intercept=})",
        "mne",
        (before if fit_intercept else ours, theirs),
        within=1e-10,
        besides=words,
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_scanpy_pca(layout, dtype, same):
    import anndata
    import scanpy

    cells = scipy.sparse.random(300, 80, 0.1, random_state=0, format="csr", dtype=dtype) * np.float32(5)
    cells = cells if layout == "csr" else cells.toarray()
    theirs, written = anndata.AnnData(cells.copy()), anndata.AnnData(cells.copy())
    scanpy.pp.pca(theirs, n_comps=10)
    ours, exact = (ls.solve(ls.SVD(table, 10, center=True)) for table in (cells, cells.astype("float64")))
    ours.write_to(written)
    assert np.vdot(written.varm["PCs"], theirs.varm["PCs"]) > 9.99  # all signs are the same
    pairs = [(written.varm["PCs"], theirs.varm["PCs"]), (written.obsm["X_pca"], theirs.obsm["X_pca"])]
    pairs += [(written.uns["pca"][key], theirs.uns["pca"][key]) for key in ("variance", "variance_ratio")]
    words = f"; from float64 {largest(theirs.varm['PCs'].T, exact.Vh):.0e}, linspec {largest(ours.Vh, exact.Vh):.0e}"
    same(
        f"pp.pca, {layout} {dtype}",
        "scanpy anndata",
        *pairs,
        within={"float64": 1e-7, "float32": 1e-4}[dtype],
        besides=words,
    )


def test_scanpy_scale_and_regress_out(same, seen):
    import anndata
    import scanpy

    cells, depth = FIELD * np.linspace(1, 5, 30), FIELD[:, 0] + rng.standard_normal(n)
    theirs, uncentred = anndata.AnnData(cells.copy(), {"depth": depth}), anndata.AnnData(FIELD.copy())
    scanpy.pp.regress_out(theirs, ["depth"])
    scanpy.pp.scale(theirs)
    scanpy.pp.pca(theirs, n_comps=3)
    ours = ls.solve(ls.SVD(cells, 3, center=True, scale=True, confounds=depth))
    pairs = [(ours.Vh.T, theirs.varm["PCs"]), (ours.S**2 / n, theirs.uns["pca"]["variance"])]
    same("pp.regress_out, pp.scale, pp.pca", "scanpy anndata", *pairs)
    scanpy.pp.pca(uncentred, n_comps=10, zero_center=False)
    off = largest(ls.solve(ls.SVD(FIELD, 10)).Vh, uncentred.varm["PCs"].T)
    assert off > 0.01
    seen("pp.pca(zero_center=False)", "scanpy anndata", f"weights {off:.0e} apart")


def test_dask(same, seen):
    import dask.array as da

    A, target = da.from_array(UNITS, chunks=(50, 5)), da.from_array(b, chunks=50)
    ours, (u, s, v) = ls.solve(ls.SVD(A, left=True)), da.linalg.svd(A)
    pairs = [(ours.S, s), (ours.U, u), (ours.Vh.T, v.T)]
    pairs += [(ls.solve(ls.LeastSquares(A, target)).x, da.linalg.lstsq(A, target)[0])]
    same("linalg.svd, linalg.lstsq", "dask", *pairs, within=1e-9)
    flat = da.from_array(np.random.default_rng(1).standard_normal((400, 60)), chunks=(100, 60))
    off = largest(da.linalg.svd_compressed(flat, 5, seed=0)[1] / ls.solve(ls.SVD(flat, 5)).S, 1.0)
    assert off > 0.01
    seen("linalg.svd_compressed of noise", "dask", f"singular values {off:.0e} too small")
    twice = da.concatenate([A, A[:, :1]], axis=1).rechunk((50, 6))
    x, _, _, s = (np.asarray(part) for part in da.linalg.lstsq(twice, target))
    ours = ls.solve(ls.LeastSquares(twice, target))
    assert ours.status is ls.Status.RANK_DEFICIENT and np.isnan(s[-1]) and np.abs(x).max() > 1e8
    words = f"; linalg.lstsq {np.abs(x).max():.0e} and a singular value NaN"
    same(
        "a column twice, numpy.linalg.lstsq",
        "dask",
        (ours.x, np.linalg.lstsq(twice.compute(), b)[0]),
        within=1e-9,
        besides=words,
    )


def test_dask_ml(same):
    import dask.array as da
    from dask_ml.decomposition import PCA, TruncatedSVD

    A = da.from_array(UNITS, chunks=(50, 5))
    theirs, ours = PCA(3, svd_solver="full").fit(A), ls.solve(ls.SVD(A, 3, center=True))
    assert np.vdot(ours.Vh, theirs.components_) > 2.9
    pairs = [(ours.Vh.T, theirs.components_.T), (ours.explained_variance, theirs.explained_variance_)]
    pairs += [(ours.explained_variance_ratio, theirs.explained_variance_ratio_)]
    same(
        "PCA, TruncatedSVD",
        "dask-ml",
        *pairs,
        (ls.solve(ls.SVD(A, 3)).S, TruncatedSVD(3).fit(A).singular_values_),
    )


def test_pylops_damps_by_the_square_or_not_and_about_zero_or_not(same, seen):
    import pylops
    from pylops.optimization import basic

    A, target, start = X * np.geomspace(1, 0.1, 5), b, np.ones(5)
    operator, normal = pylops.MatrixMult(A), pylops.MatrixMult(A.T @ A)
    ours, plain = (ls.solve(ls.LeastSquares(A, target, ridge)).x for ridge in (9.0, 3.0))
    moved = start + ls.solve(ls.LeastSquares(A, target - A @ start, 9.0)).x
    exact = {"damp": 3.0, "atol": 1e-14, "btol": 1e-14}
    pairs = [(ours, basic.cgls(operator, target, start.copy(), niter=99, damp=3.0, tol=1e-15)[0])]
    pairs += [(ours, basic.lsqr(operator, target, np.zeros(5), **exact)[0])]
    pairs += [(moved, basic.lsqr(operator, target, start.copy(), **exact)[0])]
    apart = largest(moved, ours)
    same("cgls, lsqr: damp²", "pylops", *pairs, within=1e-7, besides=f"; lsqr shrinks x - x0: {apart:.0e}")
    try:
        theirs = basic.cg(normal, A.T @ target, np.zeros(5), niter=99, tol=1e-15, damp=3.0)[0]
        same("cg: damp", "pylops", (plain, theirs), within=1e-7)
    except TypeError:
        seen("cg", "pylops", "has no damp")
    blur = pylops.signalprocessing.Convolve1D(60, np.array([0.2, 1, 0.3]), offset=1)
    same("operators as data", "pylops", (ls.solve(ls.SVD(blur, 3)).S, np.linalg.svd(blur.todense())[1][:3]))
    with pytest.raises(ls.errors.UnsupportedData, match="real"):
        ls.LeastSquares(pylops.signalprocessing.FFT(64), np.zeros(64))


def test_scipy(same, seen):
    start, moved = np.ones(5), b - X @ np.ones(5)
    plain, moved = (ls.solve(ls.LeastSquares(X, target, 9.0)).x for target in (b, moved))
    for solver in (lsqr, lsmr):
        zero, one = (solver(X, b, damp=3.0, atol=1e-14, btol=1e-14, x0=x0)[0] for x0 in (None, start))
        words = f"; with x0 shrinks x - x0: {largest(one, zero):.0e}"
        same(f"{solver.__name__}: damp²", "scipy", (plain, zero), (start + moved, one), besides=words)
    smallest, exact = (
        svds(FIELD, 3, which="SM", solver="propack", rng=0)[1].min(),
        np.linalg.svd(FIELD)[1][-1],
    )
    assert smallest < 1e-9 < 1 < exact
    seen('svds(solver="propack", which="SM")', "scipy", f"{smallest:.0e} for {exact:.1f}")
    B = scipy.sparse.random(500, 200, 0.05, random_state=1, format="csr")
    exact = np.linalg.svd(B.toarray())[1][:5]
    for unit in (1.0, 1e-6):
        arpack, lobpcg = (
            np.sort(svds(B * unit, 5, solver=name, rng=0)[1])[::-1] for name in ("arpack", "lobpcg")
        )
        off = largest(lobpcg / unit, exact) / exact[0]
        assert (off > 0.1) == (unit < 1)
        pairs = [(ls.solve(ls.SVD(B * unit, 5)).S, exact * unit), (arpack, exact * unit)]
        same(
            f"svds, data times {unit:.0e}",
            "scipy",
            *pairs,
            within=1e-10,
            besides=f'; solver="lobpcg" {off:.0e}',
        )
