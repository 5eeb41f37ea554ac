"""The rows of the pages "Coming from R" and "Coming from MATLAB", run in R and in Octave where these are installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_linnerud, load_wine

import linspec as ls

Answers = dict[str, np.ndarray]
Pairs = Iterator[tuple[np.ndarray, np.ndarray]]

X, Y = load_linnerud(return_X_y=True)
A, g = load_wine(return_X_y=True)
n, b = len(A), g + np.random.default_rng(0).standard_normal(len(A))
TABLES = {"X": X, "Y": Y, "A": A, "g": g, "b": b}

R = """
suppressMessages({library(MASS); library(pls); library(vegan); library(sandwich); library(irlba); library(glmnet)})
take <- function(name, p) { v <- readBin(name, "double", 1e6); if (p == 1) v else matrix(v, ncol = p) }
X <- take("X", 3); Y <- take("Y", 3); A <- take("A", 13); g <- take("g", 1); b <- take("b", 1)
n <- nrow(A); out <- list()
for (name in c("MASS", "pls", "vegan", "sandwich", "irlba", "glmnet"))
  out[[name]] <- as.double(unlist(packageVersion(name)))
out$R <- as.double(c(R.version$major, strsplit(R.version$minor, ".", fixed = TRUE)[[1]]))
pairs <- cancor(X, Y); out$cor <- pairs$cor; out$xcoef <- pairs$xcoef; out$ycoef <- pairs$ycoef
out$ccora <- CCorA(Y, X)$CanCorr
p <- prcomp(A); out$prcomp <- p$sdev; out$rotation <- p$rotation; out$scores <- p$x
p <- prcomp(A, scale. = TRUE); out$scaled <- p$sdev; out$scaled_rotation <- p$rotation
p <- princomp(A); out$princomp <- p$sdev; out$loadings <- unclass(p$loadings)
p <- svd(A); out$d <- p$d; out$u <- p$u; out$v <- p$v
set.seed(1); p <- irlba(A, 4); out$irlba <- p$d; out$irlba_v <- p$v
p <- prcomp_irlba(A, 3); out$prcomp_irlba <- p$sdev
fit <- lm(b ~ A); out$lm <- coef(fit); out$summary <- coef(summary(fit)); out$confint <- confint(fit)
out$r2 <- summary(fit)$r.squared
for (kind in c("HC0", "HC1", "HC2", "HC3")) out[[kind]] <- vcovHC(fit, kind)
out$vcovCL <- vcovCL(fit, cluster = g, type = "HC1"); out$vcovCL0 <- vcovCL(fit, cluster = g)
out$weighted <- coef(summary(lm(b ~ A, weights = 1 + g)))
out$ridge <- coef(lm.ridge(b ~ A, lambda = 2))
out$gcv <- lm.ridge(b ~ A, lambda = c(0.5, 2, 8, 32))$GCV
fit <- glmnet(A, b, alpha = 0, lambda = 0.2, thresh = 1e-20, maxit = 1e7); out$glmnet <- as.double(coef(fit))
out$glmnet_default <- as.double(coef(glmnet(A, b, alpha = 0, lambda = 0.2)))
fit <- lda(A, g); out$lda <- fit$scaling; out$class <- as.double(as.character(predict(fit)$class))
out$posterior <- predict(fit)$posterior
out$plsr <- drop(coef(plsr(cbind(b, g) ~ A, ncomp = 4, method = "oscorespls"), ncomp = 4))
for (k in 1:4) out[[paste0("kernelpls", k)]] <- coef(plsr(b ~ A, ncomp = 4, method = "kernelpls"), ncomp = k)[, , 1]
fit <- plsr(b ~ A, ncomp = 3, method = "oscorespls"); out$pls_scores <- unclass(scores(fit)); out$pls_weights <- unclass(loading.weights(fit))
fit <- rda(Y ~ X); out$rda <- fit$CCA$eig; out$total <- fit$tot.chi
far <- cbind(A[, 1], 1.7e9 + A[, 2]); out$far <- coef(lm(b ~ far)); out$far_r2 <- summary(lm(b ~ far))$r.squared
out$far_cor <- cancor(far, A[, 3:4])$cor
out$dependent <- coef(lm(b ~ cbind(A[, 1:2], A[, 1] + A[, 2])))
out$far_glm <- as.double(coef(glmnet(far, b, alpha = 0, lambda = 0.2, thresh = 1e-20, maxit = 1e7)))
for (name in names(out)) { v <- as.matrix(out[[name]]); writeBin(c(dim(v), as.double(v)), paste0(name, ".out")) }
"""


def answers(folder: Path, command: list[str], script: str) -> Answers:
    for name, table in TABLES.items():
        np.asarray(table, float).T.tofile(folder / name)
    (folder / "script").write_text(script)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = {path.stem: np.fromfile(path) for path in folder.glob("*.out")}
    return {name: v[2:].reshape(v[:2].astype(int), order="F").squeeze() for name, v in read.items()}
