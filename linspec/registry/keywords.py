"""Names that users of other libraries write, and misspelt names: which name of linspec is meant.

Problem: other libraries use other names for parameters. And a function that passes options to a solver would report a
misspelt parameter of its own as an unknown option of the solver: `bootstrap(problem, samples=200)`.
Method: an unknown keyword is compared with the names of the parameters, and with the names that other libraries use for
them. The function that passes options on adds its own suggestion to the error that refuses the option.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from linspec.errors import UnknownOption

__all__ = ["COUNTERPARTS", "RUN_ARGUMENTS", "hinted", "meaning", "parameters_of", "unknown_parameter"]

P = ParamSpec("P")
R = TypeVar("R")

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

NOTES = {
    "ridge": " It is added to the Gram matrix, which is not divided by the number of rows.",
    "level": " It is the coverage of the intervals, such as 0.95.",
}
"""Sentences added to a message about parameters that other libraries define differently."""

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


def unknown_parameter(
    owner: str, name: str, known: Sequence[str], elsewhere: Mapping[str, Collection[str]]
) -> UnknownOption:
    """Make the error for an unknown parameter.

    Parameters
    ----------
    owner : str
        The name of the function or class that was called.
    name : str
        The unknown parameter.
    known : sequence of str
        The parameters of the owner.
    elsewhere : mapping of str to collection of str
        The parameters of another function or class, by its name, to which the argument may belong.
    """
    none, listed = f"{owner} has no parameter {name!r}", f"Its parameters: {', '.join(known)}."
    for place, names in elsewhere.items():
        if name in names and not get_close_matches(name, known, 1, NEAR):
            message = f"{none}; it is an argument of {place}. Pass it there. {listed}"
            return UnknownOption(message, name=name, meant=f"{place}({name}=)")
    meant = meaning(name, known)
    hint = f" Did you mean {meant!r}?{NOTES.get(meant, '')}" if meant else ""
    return UnknownOption(f"{none}.{hint} {listed}", name=name, meant=meant)


@lru_cache(maxsize=256)
def parameters_of(function: Any) -> tuple[tuple[str, ...], bool]:
    """Return the names of the parameters of a function or method, and whether it takes other keywords as well."""
    kinds = {
        name: each.kind for name, each in inspect.signature(function).parameters.items() if name != "self"
    }
    names = tuple(name for name, kind in kinds.items() if not kind.name.startswith("VAR_"))
    return names, inspect.Parameter.VAR_KEYWORD in kinds.values()


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its error for an unknown keyword suggests the right keyword.

    The decorated function raises `UnknownOption`, a TypeError. If it takes ``**options`` and passes them on, the error
    of the code that refuses the option is replaced by a better suggestion.
    """
    known, takes_any = parameters_of(function)
    accepted = frozenset(known)

    @wraps(function)
    def answering(*args: P.args, **kwargs: P.kwargs) -> R:
        strangers = [] if kwargs.keys() <= accepted else [name for name in kwargs if name not in accepted]
        if strangers and not takes_any:
            raise unknown_parameter(function.__name__, strangers[0], known, {})
        try:
            return function(*args, **kwargs)
        except UnknownOption as error:
            choices = [*known, error.meant] if error.meant else known
            if error.name not in strangers or meaning(error.name, choices) not in known:
                raise
            better = unknown_parameter(function.__name__, error.name, known, {})
        raise better

    return answering
