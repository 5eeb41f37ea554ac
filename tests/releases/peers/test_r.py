"""The rows of the pages "Coming from R" and "Coming from MATLAB", run in R and in Octave where these are installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.datasets import load_linnerud, load_wine

import linspec as ls

X, Y = load_linnerud(return_X_y=True)
A, g = load_wine(return_X_y=True)
n, b = len(A), g + np.random.default_rng(0).standard_normal(len(A))
TWO = np.column_stack([b, A[:, 0] * A[:, 1]])
FAR = A[:, :2] + [0, 1.7e9]  # a column of times
PAIRS, PCA = ls.solve(ls.CCA(X, Y)), ls.solve(ls.SVD(A, center=True))
SVD, PLS = ls.solve(ls.SVD(A, left=True)), ls.solve(ls.PLSRegression(A, b, 3))
R = """
needed <- c("MASS", "glmnet", "irlba", "pls", "sandwich", "vegan")
suppressMessages(invisible(lapply(needed, library, character.only = TRUE)))
take <- function(name, p) drop(matrix(readBin(name, "double", 1e6), ncol = p))
X <- take("X", 3); Y <- take("Y", 3); A <- take("A", 13); g <- take("g", 1); b <- take("b", 1)
two <- take("TWO", 2); far <- take("FAR", 2)
pairs <- cancor(X, Y); pca <- prcomp(A); scaled <- prcomp(A, scale. = TRUE); s <- svd(A); i <- irlba(A, 4)
fit <- lm(b ~ A); groups <- lda(A, g); pls <- plsr(b ~ A, 3, method = "oscorespls")
turned <- function(L) { for (i in 1:50) L <- varimax(L)$loadings; L }  # it stops early
L <- scaled$rotation[, 1:3] %*% diag(scaled$sdev[1:3])
net <- function(...) as.matrix(coef(glmnet(A, b, alpha = 0, lambda = 0.2, ...)))
out <- list(cor = pairs$cor, xcoef = pairs$xcoef, ycoef = pairs$ycoef, ccora = CCorA(Y, X)$CanCorr,
  sdev = pca$sdev, rotation = pca$rotation, x = pca$x, princomp = princomp(A)$sdev,
  scaled = scaled$sdev, scaled_rotation = scaled$rotation, d = s$d, u = s$u, v = s$v, irlba = i$d, irlba_v = i$v,
  summary = coef(summary(fit)), confint = confint(fit), weighted = coef(summary(lm(b ~ A, weights = 1 + g))),
  HC0 = vcovHC(fit, "HC0"), HC1 = vcovHC(fit, "HC1"), HC2 = vcovHC(fit, "HC2"), HC3 = vcovHC(fit),
  clustered = vcovCL(fit, g), ridge = coef(lm.ridge(b ~ A, lambda = 2)),
  glmnet = net(thresh = 1e-20, maxit = 1e7), glmnet_default = net(),
  scaling = groups$scaling, posterior = predict(groups)$posterior,
  posterior_mle = predict(lda(A, g, method = "mle"))$posterior, scores = unclass(scores(pls)), oscores = coef(pls, 3),
  kernel = coef(plsr(two ~ A, 3, method = "kernelpls"), 3), simpls = coef(plsr(b ~ A, 3, method = "simpls"), 3),
  simpls_two = coef(plsr(two ~ A, 3, method = "simpls"), 3), rda = rda(Y ~ X)$CCA$eig,
  varimax = turned(L), promax = promax(turned(L))$loadings,
  far = coef(lm(b ~ far)), twice = coef(lm(b ~ cbind(A[, 1:2], A[, 1]))))
for (name in names(out)) {
  v <- as.matrix(drop(out[[name]]))
  writeBin(as.double(c(dim(v), v)), paste0(name, ".out"))
}
cat(paste("R", getRversion()), sapply(needed, function(name) paste(name, packageVersion(name))), sep = ", ")
"""
OCTAVE = """
warning("off", "all"); pkg load statistics
take = @(name, p) reshape(fread(fopen(name), Inf, "double"), [], p);
X = take("X", 3); Y = take("Y", 3); A = take("A", 13); b = take("b", 1); one = ones(178, 1);
[out.A, out.B, out.r, out.U, out.V, stats] = canoncorr(X, Y); out.wilks = stats.Wilks'; out.pF = stats.pF';
[out.coeff, out.score, out.latent] = pca(A); [out.u, s, out.v] = svds(sparse(A), 3); out.s = diag(s);
out.divided = [one, A] \\ b; out.twice = [A, A(:, 1)] \\ b; out.far = [one, take("FAR", 2)] \\ b;
[out.pcg, flag] = pcg(A' * A + 2 * eye(13), A' * b, 1e-14, 200); [xl, yl, xs, ys, out.simpls, y] = plsregress(A, b, 3);
for [v, name] = out
  file = fopen([name ".out"], "w"); fwrite(file, [size(v)(:); v(:)], "double"); fclose(file);
end
p = pkg("list", "statistics"); printf("Octave %s, statistics %s", version(), p{1}.version)
"""


def answers(folder, script, *command):
    """What the script computes from our tables, and the versions that it prints."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    for name, table in {"X": X, "Y": Y, "A": A, "g": g, "b": b, "TWO": TWO, "FAR": FAR}.items():
        np.asarray(table, float).T.tofile(folder / name)
    (folder / "script").write_text(script)
    done = subprocess.run([*command, "script"], cwd=folder, capture_output=True, text=True, check=False)
    if re.search("there is no package|could not be loaded|is not installed", done.stderr):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    read = {path.stem: np.fromfile(path) for path in folder.glob("*.out")}
    numbers = {name: v[2:].reshape(v[:2].astype(int), order="F").squeeze() for name, v in read.items()}
    return numbers, done.stdout


def full(A, b, **options):
    """The intercept, then the coefficients."""
    solution = ls.solve(ls.LeastSquares(A, b, center=True, **options))
    return np.append(solution.intercept, solution.x)


def test_r(tmp_path, same, seen):
    r, versions = answers(tmp_path, R, "Rscript")
    fit, counted = (ls.LeastSquares(A, b, center=True, sample_weight=weights) for weights in (None, 1 + g))
    lm, weighted = ls.standard_errors(fit), ls.standard_errors(counted, weights="precision")
    tables = [np.stack([s.coefficients, s.errors, s.t, s.p_values]).squeeze().T for s in (lm, weighted)]
    scaled = ls.solve(ls.SVD(A, center=True, scale=True))
    lda = ls.solve(ls.Discriminant(A, ls.targets.lda(g)))
    within = sum(np.cov(A[g == c].T) * (np.sum(g == c) - 1) for c in range(3)) / (n - 3)
    scaling = lda.weights / np.sqrt(np.diag(lda.weights.T @ within @ lda.weights))
    rda = ls.solve(ls.ReducedRankRegression(X, Y, 3)).singular_values ** 2 / (len(X) - 1)
    ours = {"cor": PAIRS.correlations, "xcoef": PAIRS.x_weights, "ycoef": PAIRS.y_weights}
    ours |= {"ccora": PAIRS.correlations, "rda": rda, "princomp": PCA.S / np.sqrt(n), "x": PCA.transform(A)}
    ours |= {"sdev": np.sqrt(PCA.explained_variance), "rotation": PCA.Vh.T, "scaled": scaled.S / np.sqrt(n)}
    ours |= {"d": SVD.S, "u": SVD.U, "v": SVD.Vh.T, "irlba": SVD.S[:4], "irlba_v": SVD.Vh[:4].T}
    ours |= {"summary": tables[0], "weighted": tables[1], "confint": lm.intervals.squeeze().T}
    ours |= {kind: ls.standard_errors(fit, kind).covariance for kind in ("HC0", "HC1", "HC2", "HC3")}
    ours |= {"clustered": ls.standard_errors(fit, "clustered", groups=g).covariance, "scaling": scaling}
    ours |= {"ridge": full(A, b, ridge=2, scale=True), "posterior_mle": lda.probabilities(A)}
    ours |= {"glmnet": full(A, b, ridge=n * 0.2 / b.std(), scale=True), "scaled_rotation": scaled.Vh.T}
    ours |= {"oscores": PLS.coefficients(3), "simpls": PLS.coefficients(3), "scores": PLS.transform(A)}
    ours |= {"kernel": ls.solve(ls.PLSRegression(A, TWO, 3)).coefficients(3)}
    three = ls.solve(ls.SVD(A, 3, center=True, scale=True))
    ours |= {m: ls.rotate(three, m).loadings * np.sqrt((n - 1) / n) for m in ("varimax", "promax")}
    for name, numbers in ours.items():
        same(f"R: {name}", "linspec", (numbers, r[name]), within=1e-9)
    assert np.isnan([r["far"][2], r["twice"][3]]).all()
    numbers = (full(FAR, b)[1:], full(A[:, :2], b)[1:]), (full(A[:, :1], b), r["far"][:2])
    same("R: lm leaves a column of times out", "linspec", *numbers, within=1e-6)
    others = {"simpls_two": "kernel", "glmnet_default": "glmnet", "posterior": "posterior_mle"}
    for name, exact in others.items():
        apart = np.abs(r[name] - r[exact]).max() / np.abs(r[exact]).max()
        seen(f"R: {name}", "linspec", f"{apart:.0e} from {exact}")
    seen("R", "linspec", versions)


def test_octave(tmp_path, same, seen):
    r, versions = answers(tmp_path, OCTAVE, "octave", "--no-gui", "--quiet")
    root, svd = np.sqrt(len(X) - 1), ls.solve(ls.SVD(A, 3, left=True))
    wilks = ls.significance(ls.CCA(X, Y)).wilks
    ours = {"A": PAIRS.x_weights * root, "B": PAIRS.y_weights * root, "r": PAIRS.correlations}
    ours |= {"U": PAIRS.transform(X) * root, "wilks": wilks.values, "pF": wilks.p_values}
    ours |= {"coeff": PCA.Vh.T, "score": PCA.transform(A), "latent": PCA.explained_variance}
    ours |= {"u": svd.U, "s": svd.S, "v": svd.Vh.T, "simpls": PLS.coefficients(3)}
    ours |= {"divided": full(A, b), "twice": ls.solve(ls.LeastSquares(np.column_stack([A, A[:, 0]]), b)).x}
    ours |= {"pcg": ls.solve(ls.LeastSquares(A, b, 2.0), "cg", tol=1e-12).x}
    for name, numbers in ours.items():
        same(f"Octave: {name}", "linspec", (numbers, r[name]), within=1e-9)
    assert abs(r["far"][2]) < 1e-6 < 0.1 < abs(full(FAR, b)[2])
    seen("Octave: a column of times", "linspec", f"{r['far'][2]:.0e} for {full(FAR, b)[2]:.2f}; {versions}")
