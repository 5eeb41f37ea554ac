"""The rows of the page "Coming from other libraries", against the numbers of these libraries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.linalg import toeplitz
from scipy.sparse.linalg import lsmr, lsqr, svds

import linspec as ls

rng = np.random.default_rng(0)
n = 200
NOISE = rng.standard_normal((500, 40))
X = NOISE[:n, :2] @ rng.standard_normal((2, 5)) + NOISE[:n, 2:7]
Y = NOISE[:n, :2] @ rng.standard_normal((2, 4)) + NOISE[:n, 7:11]
UNITS = X * np.geomspace(1, 1e4, 5) + 1
b = X @ rng.standard_normal(5) + np.abs(X[:, 0]) * NOISE[:n, 11]
MANY = X @ rng.standard_normal((5, 30)) + NOISE[:n, 10:] * np.geomspace(1, 100, 30)
FIELD = NOISE[:n, :3] @ rng.standard_normal((3, 30)) + NOISE[:n, 10:]
OTHER = FIELD[:, :3] @ rng.standard_normal((3, 12)) + 3 * NOISE[n : 2 * n, :12]
ALPHAS, EVERY, LABELS = np.logspace(-1, 3, 5), list(range(30)), np.arange(n)
KINDS = {"nonrobust": "classical", "cluster": "clustered"}


def largest(ours, exact) -> float:
    return float(np.abs(np.asarray(ours) - np.asarray(exact)).max())


def test_canonical_correlations_of_statsmodels(same):
    from statsmodels.multivariate.cancorr import CanCorr
    from statsmodels.multivariate.manova import MANOVA

    theirs, ours = CanCorr(Y, X), ls.solve(ls.CCA(X, Y))
    tests, wilks = theirs.corr_test(), ls.significance(ls.CCA(X, Y)).wilks
    together = (wilks.statistics[0], tests.stats_mv.loc["Wilks' lambda", "F Value"])
    pairs = [(ours.correlations, theirs.cancorr), (ours.x_weights, theirs.x_cancoef), together]
    assert (tests.stats.loc[3, "Den DF"], wilks.df_error[3]) == (195, 194)  # n - p - q + 3
    gap = CanCorr(X, Y).corr_test().stats.loc[0, "F Value"] - tests.stats.loc[0, "F Value"]
    noise = CanCorr(NOISE[:8, :4], NOISE[:8, 4:9]).corr_test().stats.loc[1, "Pr > F"]
    with pytest.raises(ls.errors.InvalidProblem, match="rows"):
        ls.significance(ls.CCA(NOISE[:8, :4], NOISE[:8, 4:9]))
    assert noise < 1e-3 < 0.05 < abs(gap)
    words = f"; .stats: F {gap:+.2f} when X and Y swap; p = {noise:.0e} of 8 rows of noise"
    same("CanCorr, corr_test().stats_mv", "statsmodels", *pairs, besides=words)
    design = np.column_stack([np.ones(n), LABELS % 3 == 1, LABELS % 3 == 2]).astype(float)
    test = MANOVA(Y, design).mv_test([("g", np.eye(3)[1:])]).results["g"]["stat"].loc["Wilks' lambda"]
    wilks = ls.significance(ls.CCA(design[:, 1:], Y)).wilks
    same("MANOVA", "statsmodels", (wilks.values[0], test["Value"]), (wilks.p_values[0], test["Pr > F"]))


def test_regressions_of_statsmodels(same):
    import statsmodels.api as sm
    from statsmodels.multivariate.pca import PCA

    E, problem = sm.add_constant(X), ls.LeastSquares(X, b, center=True)
    for cov_type in ("nonrobust", "cluster", "HC0", "HC1", "HC2", "HC3"):
        cluster = {"groups": LABELS % 20} if cov_type == "cluster" else {}
        theirs = sm.OLS(b, E).fit(cov_type=cov_type, use_t=True, cov_kwds=cluster)
        ours = ls.standard_errors(problem, KINDS.get(cov_type, cov_type), **cluster)
        pairs = [(ours.coefficients, theirs.params), (ours.covariance, theirs.cov_params())]
        pairs += [(ours.p_values, theirs.pvalues), (ours.intervals.squeeze().T, theirs.conf_int())]
        same(f"OLS.fit({cov_type=}, use_t=True)", "statsmodels", *pairs)
    weights = 1 + LABELS % 3
    weighted = ls.LeastSquares(X, b, center=True, sample_weight=weights)
    models = {"precision": sm.WLS(b, E, weights), "counts": sm.GLM(b, E, freq_weights=weights)}
    for meaning, model in models.items():
        ours, theirs = ls.standard_errors(weighted, weights=meaning), model.fit()
        pairs = [(ours.coefficients, theirs.params), (ours.covariance, theirs.cov_params())]
        same(f"{type(model).__name__}, weights", "statsmodels", *pairs)
    for standardize in (False, True):
        theirs = PCA(UNITS, standardize=standardize)
        ours = ls.solve(ls.SVD(UNITS, center=True, scale=standardize))
        pairs = [(ours.S**2, theirs.eigenvals), (ours.transform(UNITS) / ours.S, theirs.factors)]
        same(f"PCA({standardize=})", "statsmodels", (ours.Vh.T, theirs.eigenvecs), *pairs, within=1e-8)


def test_himalaya(same):
    from himalaya.kernel_ridge import KernelRidge, KernelRidgeCV
    from himalaya.ridge import GroupRidgeCV, RidgeCV
    from himalaya.scoring import r2_score

    search, bands = {"score_func": r2_score}, np.array([0, 0, 1, 1, 1])
    for A, targets in ((X, MANY), (X + 1e6, MANY + 1e6)):
        ours = ls.solve(ls.RidgeManyTargets(A, targets, ALPHAS))
        theirs = RidgeCV(alphas=ALPHAS, fit_intercept=True, cv=5, solver_params=search).fit(A, targets)
        scores = ours.scores + 1e-10 * np.log(ours.ridges)  # how it prefers larger ridges
        pairs = [(ours.coefficients(EVERY), theirs.coef_), (scores, theirs.cv_scores_)]
        same(f"RidgeCV, means {A.mean():.0e}", "himalaya", *pairs)
    theirs = KernelRidgeCV(alphas=ALPHAS, cv=5, solver_params=search, warn=False).fit(X, MANY)
    ours = ls.solve(ls.RidgeManyTargets(X, MANY, ALPHAS, center=False))
    pairs = [(ours.ridges, theirs.best_alphas_), (ours.coefficients(EVERY), theirs.get_primal_coef())]
    same("KernelRidgeCV", "himalaya", *pairs)
    theirs = KernelRidge(alpha=2.0, kernel="rbf", kernel_params={"gamma": 0.1}).fit(X, MANY)
    ours = ls.solve(ls.KernelRidge(X, MANY, 2.0, ls.kernels.rbf(0.2**-0.5)))
    same("KernelRidge", "himalaya", (ours.predict(X), theirs.predict(X)))
    search = {"n_iter": 20, "alphas": ALPHAS, "progress_bar": False}
    theirs = GroupRidgeCV(bands, solver_params=search, random_state=0, cv=5).fit(X, MANY)
    for target in EVERY:  # exp(deltas_) is the weight of a band, divided by the ridge
        options = {"bands": bands, "band_weights": [np.exp(theirs.deltas_[:, target])], "center": False}
        ours = ls.solve(ls.RidgeManyTargets(X, MANY[:, target], 1.0, **options))
        pairs += [(ours.coefficients([0]), theirs.coef_[:, target])]
    same("GroupRidgeCV, with the weights that it chose", "himalaya", *pairs)


@pytest.mark.parametrize("algorithm", [1, 2])
def test_ikpls(algorithm, same):
    try:
        from ikpls.numpy import PLS
    except ImportError:  # before 6
        from ikpls.numpy_ikpls import PLS
    theirs, options = PLS(algorithm, scale_X=False, scale_Y=False), {"n_jobs": 1, "verbose": 0}
    held_out = theirs.cross_validate(X, b[:, None], 4, LABELS % 5, np.subtract, **options)
    losses = [np.mean(held_out[label] ** 2, axis=(-2, -1)) for label in range(5)]
    validation = ls.cross_validate(ls.PLSRegression(X, b, 4), ks=[1, 2, 3, 4], splitter=LABELS % 5)
    theirs.fit(X, Y, 4)
    ours = ls.solve(ls.PLSRegression(X, Y, 4))
    pairs = [(validation.scores, losses), (ours.x_rotations, theirs.R)]
    pairs += [(ours.coefficients(k), theirs.B[k - 1]) for k in (1, 2, 3, 4)]
    ours, scaled = ls.solve(ls.PLSRegression(UNITS, Y, 3, scale=True)), PLS(algorithm, ddof=0)
    scaled.fit(UNITS, Y, 3)
    pairs += [(ours.predict(UNITS), scaled.predict(UNITS, 3))]
    same(f"PLS({algorithm=}), every k, cross_validate", "ikpls", *pairs)


def test_xeofs(same):
    import xarray
    from xeofs.cross import CCA, MCA
    from xeofs.single import EOF

    sphere = {"time": LABELS, "lat": np.linspace(-60, 60, 5), "lon": np.arange(6)}
    field = xarray.DataArray(FIELD.reshape(n, 5, 6), sphere)
    area = field * np.sqrt(np.cos(np.radians(field.lat)))
    for options, used in (({}, field), ({"use_coslat": True}, area), ({"standardize": True}, field)):
        theirs = EOF(4, solver="full", **options).fit(field, "time")
        rows = used.stack(point=("lat", "lon"))
        ours = ls.solve(ls.SVD(rows, 4, center=True, scale="standardize" in options))
        pairs = [(ours.Vh.T, theirs.components().values.reshape(4, 30).T)]
        pairs += [(ours.S, theirs.singular_values()), (ours.S**2 / (n - 1), theirs.explained_variance())]
        pairs += [(ours.transform(rows), theirs.scores(normalized=False).transpose("time", "mode"))]
        same(f'EOF(solver="full"), {options}', "xeofs", *pairs)
    weak, strong = NOISE[:n, 0:1], NOISE[n : 2 * n] * 100
    views = np.hstack([weak, strong[:, :4]]), np.hstack([weak + NOISE[:n, 1:2] / 10, strong[:, 4:7]])
    *fields, x, y = (
        xarray.DataArray(table, {"time": LABELS, "point": np.arange(table.shape[1])})
        for table in (FIELD, OTHER, *views)
    )
    whole, reduced = (MCA(3, use_pca=use).fit(*fields, "time").components() for use in (False, True))
    ours = ls.solve(ls.PLS(FIELD, OTHER, 3))
    gap = largest(ours.x_weights, reduced[0].transpose("point", "mode"))
    pairs = [(ours.x_weights, whole[0].transpose("point", "mode"))]
    pairs += [(ours.y_weights, whole[1].transpose("point", "mode"))]
    same("MCA(use_pca=False)", "xeofs", *pairs, besides=f"; by default {gap:.0e} apart")
    assert gap > 1e-3
    ours = ls.solve(ls.CCA(*views, 2)).correlations
    models = CCA(2, use_pca=False), CCA(2, pca_init_rank_reduction=1.0)
    whole, reduced = (model.fit(x, y, "time").cross_correlation_coefficients().values for model in models)
    assert reduced[0] < 0.5 < 0.99 < ours[0] < 1 < whole[0]
    words = f"; {whole[0]:.4f} for {ours[0]:.4f}, by default {reduced[0]:.2f}"
    same("CCA(use_pca=False) is n / (n - 1) times", "xeofs", (ours * n / (n - 1), whole), besides=words)


def test_mne(same):
    from mne.decoding import ReceptiveField, TimeDelayingRidge

    series = np.cumsum(NOISE[:, 0]) + 5
    target = series + NOISE[:, 1]
    models = [TimeDelayingRidge(0, 4, 1.0, alpha=2.0, fit_intercept=fit) for fit in (False, True)]
    models += [ReceptiveField(0, 4, 1.0, estimator=2.0)]
    plain, *fitted = (model.fit(series[:, None], target[:, None]).coef_ for model in models)
    raw, centred = (toeplitz(values, np.zeros(5)) for values in (series, series - series.mean()))
    before = ls.solve(ls.LeastSquares(centred, target - target.mean(), 2.0)).x
    off = largest(ls.solve(ls.LeastSquares(raw, target, 2.0, center=True)).x, before)
    assert off > 0.01
    pairs = [(ls.solve(ls.LeastSquares(raw, target, 2.0)).x, plain), *((before, each) for each in fitted)]
    same("TimeDelayingRidge, ReceptiveField", "mne", *pairs, besides=f"; centred later {off:.0e} apart")
    trials, lags = NOISE[:200, :6].reshape(50, 4, 6), range(-2, 5)  # times x trials x channels
    X, Y = (part.swapaxes(0, 1).reshape(200, -1) for part in (trials[:, :, :4], trials[:, :, 4:]))
    model = ReceptiveField(-2, 4, 1.0, estimator=2.0, fit_intercept=False)
    windows = ls.lagged(X, lags, np.repeat(np.arange(4), 50))
    ours = ls.solve(ls.LeastSquares(windows, Y, 2.0)).x.reshape(len(lags), 4, 2).transpose(2, 1, 0)
    same("lagged rows of trials", "mne", (ours, model.fit(trials[:, :, :4], trials[:, :, 4:]).coef_))


def test_scanpy(same):
    import anndata
    import scanpy

    counts = scipy.sparse.random(300, 80, 0.1, random_state=0, format="csr") * 5
    for dtype, within in (("float64", 1e-7), ("float32", 1e-4)):
        for cells in (counts.astype(dtype), counts.toarray().astype(dtype)):
            theirs, written = anndata.AnnData(cells.copy()), anndata.AnnData(cells.copy())
            scanpy.pp.pca(theirs, n_comps=10)
            ours, exact = (ls.solve(ls.SVD(table, 10, center=True)) for table in (cells, cells.astype(float)))
            ours.write_to(written)
            assert np.vdot(written.varm["PCs"], theirs.varm["PCs"]) > 9.99  # all signs are the same
            pairs = [(written.varm["PCs"], theirs.varm["PCs"]), (written.obsm["X_pca"], theirs.obsm["X_pca"])]
            pairs += [(written.uns["pca"]["variance_ratio"], theirs.uns["pca"]["variance_ratio"])]
            off = [largest(Vh, exact.Vh) for Vh in (theirs.varm["PCs"].T, ours.Vh)]
            words = f"; weights {off[0]:.0e} from those in float64, linspec {off[1]:.0e}"
            same(f"pp.pca, {dtype}", "scanpy anndata", *pairs, within=within, besides=words)
    depth, uncentred = FIELD[:, 0] + NOISE[n : 2 * n, 0], anndata.AnnData(FIELD.copy())
    theirs = anndata.AnnData(FIELD.copy(), {"depth": depth})
    scanpy.pp.regress_out(theirs, ["depth"])
    scanpy.pp.scale(theirs)
    scanpy.pp.pca(theirs, n_comps=3)
    ours = ls.solve(ls.SVD(FIELD, 3, center=True, scale=True, confounds=depth))
    pairs = [(ours.Vh.T, theirs.varm["PCs"]), (ours.S**2 / n, theirs.uns["pca"]["variance"])]
    scanpy.pp.pca(uncentred, n_comps=10, zero_center=False)
    off = largest(ls.solve(ls.SVD(FIELD, 10)).Vh, uncentred.varm["PCs"].T)
    assert off > 0.01
    words = f"; pp.pca(zero_center=False) {off:.0e} apart"
    same("pp.regress_out, pp.scale, pp.pca", "scanpy anndata", *pairs, besides=words)


def test_dask(same):
    import dask.array as da
    from dask_ml.decomposition import PCA, TruncatedSVD

    A, target = da.from_array(UNITS, chunks=(50, 5)), da.from_array(b, chunks=50)
    ours, (u, s, v) = ls.solve(ls.SVD(A, left=True)), da.linalg.svd(A)
    pairs = [(ours.S, s), (ours.U, u), (ours.Vh.T, v.T)]
    pairs += [(ls.solve(ls.LeastSquares(A, target)).x, da.linalg.lstsq(A, target)[0])]
    same("linalg.svd, linalg.lstsq", "dask", *pairs, within=1e-9)
    flat = da.from_array(NOISE, chunks=(100, 40))
    off = largest(da.linalg.svd_compressed(flat, 5, seed=0)[1] / ls.solve(ls.SVD(flat, 5)).S, 1.0)
    twice = da.from_array(X[:, [0, 1, 2, 3, 4, 0]], chunks=(50, 6))
    x, _, _, s = (np.asarray(part) for part in da.linalg.lstsq(twice, target))
    ours, exact = ls.solve(ls.LeastSquares(twice, target)), np.linalg.lstsq(twice.compute(), b)[0]
    assert ours.status is ls.Status.RANK_DEFICIENT
    assert min(np.abs(x).max() / 1e8, off / 0.01) > 1
    words = f"; linalg.lstsq {np.abs(x).max():.0e}, {s[-1]:.0e}; svd_compressed of noise {off:.0e} too small"
    same("a column twice, numpy.linalg.lstsq", "dask", (ours.x, exact), besides=words)
    theirs, ours = PCA(3, svd_solver="full").fit(A), ls.solve(ls.SVD(A, 3, center=True))
    pairs = [(ours.Vh.T, theirs.components_.T), (ours.explained_variance, theirs.explained_variance_)]
    pairs += [(ls.solve(ls.SVD(A, 3)).S, TruncatedSVD(3).fit(A).singular_values_)]
    same("PCA, TruncatedSVD", "dask-ml", *pairs)


def test_damping_of_pylops_and_scipy(same, seen):
    import pylops
    from pylops.optimization import basic

    operator, start = pylops.MatrixMult(X), np.ones(5)
    ours, plain = (ls.solve(ls.LeastSquares(X, b, ridge)).x for ridge in (9.0, 3.0))
    moved, exact = start + ls.solve(ls.LeastSquares(X, b - X @ start, 9.0)).x, {"atol": 1e-14, "btol": 1e-14}
    for solver in (basic.lsqr, lsqr, lsmr):
        zero, one = (solver(operator, b, damp=3.0, x0=x0, **exact)[0] for x0 in (0 * start, start.copy()))
        tried = f"{solver.__name__}: damp², shrinks x - x0"
        same(tried, solver.__module__.split(".")[0], (ours, zero), (moved, one))
    theirs = basic.cgls(operator, b, start.copy(), niter=99, damp=3.0, tol=1e-15)[0]
    same("cgls: damp², shrinks x", "pylops", (ours, theirs), within=1e-8)
    try:
        theirs = basic.cg(pylops.MatrixMult(X.T @ X), X.T @ b, 0 * start, 99, tol=1e-15, damp=3.0)[0]
        same("cg: damp", "pylops", (plain, theirs), within=1e-8)
    except TypeError:
        seen("cg", "pylops", "has no damp")
    blur = pylops.signalprocessing.Convolve1D(60, np.array([0.2, 1, 0.3]), offset=1)
    same("operators as data", "pylops", (ls.solve(ls.SVD(blur, 3)).S, np.linalg.svd(blur.todense())[1][:3]))
    with pytest.raises(ls.errors.UnsupportedData, match="real"):
        ls.LeastSquares(pylops.signalprocessing.FFT(64), np.zeros(64))


def test_svds_of_scipy(same):
    sparse = scipy.sparse.random(500, 200, 0.05, random_state=1, format="csr")
    ours, exact = ls.solve(ls.SVD(sparse * 1e-6, 5)).S, np.linalg.svd(sparse.toarray())[1][:5] * 1e-6
    lobpcg, arpack = (svds(sparse * 1e-6, 5, solver=name, rng=0)[1][::-1] for name in ("lobpcg", "arpack"))
    off = largest(lobpcg, exact) / exact[0]
    smallest = svds(FIELD, 3, which="SM", solver="propack", rng=0)[1].min()
    assert smallest < 1e-9 < 0.1 < off
    words = f"; lobpcg {off:.0e}; propack {smallest:.0e} for {np.linalg.svd(FIELD)[1][-1]:.1f}"
    same("svds of data times 1e-6", "scipy", (ours, exact), (arpack, exact), besides=words)
