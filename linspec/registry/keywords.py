"""Names that users of other libraries write, and misspelt names: which name of linspec is meant.

Problem: other libraries use other names for the parameters of problems and the options of solvers.
Method: an unknown keyword is compared with the names that there are, with those of ``linspec.solve``, and with the
names that other libraries use for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from linspec.errors import UnknownOption

RUN_ARGUMENTS = frozenset(
    {
        "problem",
        "solver",
        "rng",
        "max_passes",
        "max_seconds",
        "callback",
        "progress",
        "start",
        "checkpoint",
        "complete",
    }
)
"""Arguments of ``linspec.solve`` itself. An option with such a name could never be passed through it."""

OF_SOLVE = (*sorted(RUN_ARGUMENTS - {"problem"}), "tol", "max_iterations")
"""Arguments of ``linspec.solve`` that are not parameters of a problem."""

NEAR = 0.66
"""Least similarity of two names, as difflib measures it, for a suggestion."""

_FOREIGN: dict[tuple[str, ...], str] = {
    ("k", "ks", "columns"): "n_components components latent_dimensions latent_dims rank n_factors nu",
    ("ks", "k"): "ranks n_components_list",
    ("ridge", "ridges", "level"): "alpha",
    (
        "ridge",
        "ridges",
    ): "l2 reg regularization regularisation lambda lam lamb lambda_ c cs penalty shrinkage damp",
    ("ridges", "ridge"): "alphas lambdas lams penalties regs",
    ("center",): "fit_intercept intercept centre centered centred demean with_mean mean_center",
    ("sample_weight",): "weights sample_weights row_weights w case_weights",
    ("confounds",): "covariates nuisance z partial conditional",
    ("scale",): "standardize standardise normalize normalise with_std",
    ("A", "X", "data"): "a x data matrix design features",
    ("H", "Y", "B", "y"): "b y target targets labels rhs",
    ("left",): "compute_uv return_u u full_matrices",
    ("rng",): "random_state seed random_seed rng generator",
    ("tol",): "tol tolerance eps epsilon rtol atol ftol gtol xtol",
    ("max_iterations", "draws", "permutations", "max_passes"): "n_iter niter n_iterations iterations",
    ("max_iterations", "max_passes"): "max_iter maxiter max_iterations iter_lim",
    ("max_passes",): "max_passes epochs n_epochs max_epochs max_sweeps maxfev",
    ("max_seconds",): "max_seconds timeout time_limit max_time maxtime",
    ("solver", "solvers"): "solver svd_solver method algorithm estimator eigen_solver backend",
    ("solvers", "solver"): "solvers methods algorithms estimators",
    ("start",): "start x0 v0 init warm_start coef_init initial initial_guess",
    ("callback",): "callback callbacks",
    ("progress",): "progress verbose verbosity disp show_progress progress_bar",
    (
        "draws",
        "permutations",
    ): "samples n_samples n_resamples resamples n_boot n_bootstrap n_bootstraps bootstraps "
    "replicates n_replicates reps n_reps repetitions n_repeats repeats nboot",
    ("permutations", "draws"): "n_permutations n_perm nperm perms n_perms permutation",
    ("splitter",): "cv n_splits splits folds n_folds k_folds kfold nfolds fold",
    ("score",): "scoring scorer metric criterion",
    ("groups",): "group cluster clusters blocks strata",
    ("level",): "confidence confidence_level conf_level ci coverage",
    ("statistic",): "test_statistic stat test criterion",
    ("solution",): "fitted result model answer",
    (
        "test",
        "held_out",
    ): "x_test test_data test_size validation validation_data validation_split eval_set holdout",
    ("columns",): "feature_names feature_names_out colnames column_names names n_columns width",
    ("rows",): "labels index row_names rownames sample_names n_rows",
    ("test_matrix",): "sketch projection random_matrix density kind",
}
"""For each tuple of parameters of linspec, the names that other libraries use, in lower case. An error suggests the
first parameter of the tuple that the called function has."""

COUNTERPARTS = {
    "GridSearchCV cross_val_score": "linspec.cross_validate(problem)",
    "KCCA": "linspec.KernelCCA(X, Y, k)",
    "LDA LinearDiscriminantAnalysis": "linspec.Discriminant(A, linspec.targets.lda(labels)), or "
    "linspec.estimators.Discriminant",
    "LinearRegression Ridge": "linspec.LeastSquares(A, B, ridge=...), or linspec.estimators.Ridge",
    "OPLS": "linspec.Discriminant(A, linspec.targets.opls(Y))",
    "PCA pca prcomp": "linspec.SVD(A, k, center=True), or linspec.estimators.PCA",
    "RidgeCV": "linspec.cross_validate(linspec.LeastSquares(A, B), ridges), or linspec.estimators.RidgeCV",
    "TruncatedSVD svds": "linspec.SVD(A, k)",
    "cancor": "linspec.CCA(X, Y, k)",
    "fit": "linspec.solve(problem)",
    "load": "linspec.load_solution(path)",
    "lsqr": 'linspec.solve(linspec.LeastSquares(A, B), "lsqr")',
    "lstsq": "linspec.LeastSquares(A, B)",
}
"""Names of other libraries, and the counterparts of linspec."""


def meaning(name: str, known: Collection[str]) -> str:
    """The one of the known names that a name may stand for, by its spelling or in another library; "" if none."""
    word = name.lower().strip("_")
    meant: dict[str, str] = {}
    for here, foreign in _FOREIGN.items():
        target = next((each for each in here if each in known), None)
        meant |= {each: target for each in foreign.split() if target and each not in meant}
    meant |= {each.lower(): each for each in known}
    if word not in meant and any(word in foreign.split() for foreign in _FOREIGN.values()):
        return ""
    return next((meant[near] for near in get_close_matches(word, meant, 1, NEAR)), "")


def unknown_name(owner: str, kind: str, name: str, known: Collection[str]) -> UnknownOption:
    """Make the error for an unknown keyword, with what it may stand for.

    Parameters
    ----------
    owner : str
        The name of the class that was called.
    kind : str
        "parameter" or "option".
    name : str
        The unknown keyword.
    known : collection of str
        The keywords of the class.
    """
    meant = "" if name in OF_SOLVE else meaning(name, known)
    of_solve = "" if meant else meaning(name, OF_SOLVE)
    hint = f" Did you mean {meant!r}?" if meant else ""
    if of_solve:
        hint = f" {of_solve!r} is an argument of linspec.solve. Pass it there."
    return UnknownOption(f"{owner} has no {kind} {name!r}.{hint} Its {kind}s: {', '.join(known) or 'none'}.")


@lru_cache(maxsize=256)
def parameters_of(function: Any) -> tuple[tuple[str, ...], bool]:
    """Return the names of the parameters of a function or method, and whether it takes other keywords as well."""
    kinds = {
        name: each.kind for name, each in inspect.signature(function).parameters.items() if name != "self"
    }
    names = tuple(name for name, kind in kinds.items() if not kind.name.startswith("VAR_"))
    return names, inspect.Parameter.VAR_KEYWORD in kinds.values()
