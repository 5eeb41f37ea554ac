"""Errors for unknown keywords of a call, which suggest the right keyword.

Problem: other libraries use other names for parameters. And a function that passes options to a solver would report a
misspelt parameter of its own as an unknown option of the solver: `bootstrap(problem, samples=200)`.
Method: a keyword that is neither a parameter of the function nor an option of the solver is looked up in a table of
names that other libraries use, and compared with the spelling of the parameters. If it is a parameter of the problem,
or of `linspec.solve`, the error says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from linspec.errors import UnknownOption
from linspec.registry.options import RUN_ARGUMENTS, options_of

__all__ = ["hinted", "parameters_of", "unknown_parameter"]

P = ParamSpec("P")
R = TypeVar("R")

_BY_NAME_HERE: Mapping[tuple[str, ...], str] = {
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


def _by_name_elsewhere() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for here, names in _BY_NAME_HERE.items():
        for name in names.split():
            found[name] = (*found.get(name, ()), *here)
    return MappingProxyType(found)


ELSEWHERE = _by_name_elsewhere()

OF_SOLVE = (*sorted(RUN_ARGUMENTS - {"problem"}), "tol", "max_iterations")
"""Arguments of `linspec.solve` that are not parameters of a problem."""

NEAR = 0.66
"""Least similarity of two names, as difflib measures it, for a suggestion. The first name, such as `k`, was passed to
a function that has no such parameter, but is a parameter of the problem. If a parameter of the function, such as
`ks`, is at least that similar, the error suggests this parameter; else the error advises to pass the name to the
problem."""

NOTES: Mapping[str, str] = MappingProxyType(
    {
        "ridge": " It is added to the Gram matrix, which is not divided by the number of rows.",
        "level": " It is the coverage of the intervals, such as 0.95.",
    }
)
"""Sentences added to a message about parameters that other libraries define differently."""


def unknown_parameter(
    owner: str,
    name: str,
    known: Sequence[str],
    *,
    options: Collection[str] = (),
    of_solve: bool = False,
    problem: type | None = None,
) -> tuple[str, bool]:
    """Return the error message for an unknown parameter.

    Parameters
    ----------
    owner : str
        The name of the function or class that was called.
    name : str
        The unknown parameter.
    known : sequence of str
        The parameters of the owner.
    options : collection of str
        Keywords that the owner passes on to a solver or to `linspec.solve`.
    of_solve : bool, default False
        Whether the message may advise to pass the argument to `linspec.solve` instead.
    problem : type, optional
        The class of the problem that the owner takes.

    Returns
    -------
    str, bool
        The message, and whether it has a suggestion or an explanation beyond "there is no such parameter".
    """
    none = f"{owner} has no parameter {name!r}"
    listed = f" Its parameters: {', '.join(known)}."
    stated = () if problem is None else parameters_of(problem)[0]
    meant = _meant(name, known, options, stated)
    here = [each for each in meant if each in known or each in options]
    if here:
        owned = "an argument of linspec.solve" if here[0] in RUN_ARGUMENTS else "an option of what it runs"
        option = "" if here[0] in known else f", {owned}"
        note = NOTES.get(here[0], "") if here[0] == "ridge" or name == "alpha" else ""
        return f"{none}. Did you mean {here[0]!r}{option}?{note}{listed}", True
    solving = [each for each in meant if of_solve and each in OF_SOLVE]
    if solving:
        return f"{none}; it is an argument of linspec.solve. Pass {solving[0]}= there.", True
    stating = [each for each in meant if each in stated]
    if stating and problem is not None:
        message = f"{none}; it is one of the problem. Pass {stating[0]}= to {problem.__name__}."
        return f"{message}{listed}", True
    return f"{none}.{listed}", False


def _meant(name: str, known: Sequence[str], options: Collection[str], stated: Collection[str]) -> list[str]:
    """Return the parameters of linspec that a name may stand for, the likeliest first."""
    word = name.lower().strip("_")
    own = {each.lower(): each for each in (*options, *known)}
    if word in own:
        return [own[word]]
    if name in stated:
        return get_close_matches(name, known, 1, NEAR) or [name]
    found = [word] if word in ELSEWHERE else get_close_matches(word, [*own, *ELSEWHERE], 1)
    return [each for one in found for each in (*ELSEWHERE.get(one, ()), *filter(None, [own.get(one)]))]


@lru_cache(maxsize=256)
def parameters_of(function: Any) -> tuple[tuple[str, ...], bool]:
    """Return the names of the parameters of a function or method, and whether it takes other keywords as well."""
    known = inspect.signature(function).parameters
    kinds = inspect.Parameter
    names = tuple(
        name for name, each in known.items() if each.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    )
    return names[1:] if names[:1] == ("self",) else names, any(
        each.kind is kinds.VAR_KEYWORD for each in known.values()
    )


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its error for an unknown keyword suggests the right keyword.

    Parameters
    ----------
    function : callable
        The function. If it takes ``**options``, it passes them to its solver or test matrix.

    Returns
    -------
    callable
        The function, which now raises `UnknownOption`, a TypeError, for unknown keywords.
    """

    @wraps(function)
    def answering(*args: P.args, **kwargs: P.kwargs) -> R:
        known, _ = parameters_of(function)
        strangers = [name for name in kwargs if name not in known]
        if strangers:
            _check_strangers(function, strangers, args, kwargs)
        return function(*args, **kwargs)

    return answering


def _check_strangers(
    function: Callable[..., Any], strangers: Sequence[str], args: Sequence[Any], given: Mapping[str, Any]
) -> None:
    """Raise an error for unknown keywords that are no options of the solver, or for which there is a suggestion."""
    known, takes_any = parameters_of(function)
    try:
        bound: Mapping[str, Any] = (
            inspect.signature(function)
            .bind_partial(*args, **{name: value for name, value in given.items() if name in known})
            .arguments
        )
    except TypeError:  # too many, or one twice: Python says so
        return
    problems = _listed(bound.get("problem", bound.get("problems")))
    options = _options_taken(bound, known, problems) if takes_any else set()
    if options is None:
        return
    problem = type(problems[0]) if problems else None
    for name in strangers:
        if name in options:
            continue
        message, is_hint = unknown_parameter(
            function.__name__, name, known, options=sorted(options), problem=problem
        )
        if is_hint or not takes_any:
            raise UnknownOption(message)


def _listed(given: Any) -> list[Any]:
    """Return an argument as a list; it may be None, one value or several values."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return list(given.values())
    return list(given) if isinstance(given, list | tuple) else [given]


def _options_taken(
    bound: Mapping[str, Any], known: Collection[str], problems: Iterable[Any]
) -> set[str] | None:
    """Return the keywords that a call passes on to its solvers; None if one of these solvers is unknown."""
    from linspec import registry  # here: it loads pluggy, which data do not need

    if "test_matrix" in known:
        chosen = bound.get("test_matrix", "sparse-sign")
        found = [registry.get_part("test-matrix", chosen)] if isinstance(chosen, str) else []
        return {option.name for cls in found for option in options_of(cls)}
    names = {"tol"} if "solvers" in known else {*RUN_ARGUMENTS, "tol"} - {"problem", "solver"}
    solvers = _listed(bound.get("solver", bound.get("solvers", None if "solvers" in known else "auto")))
    for problem in problems:
        for solver in solvers or registry.solvers(problem):
            if isinstance(solver, str) and solver != "auto":
                try:
                    cls = registry.get_solver(solver, problem)
                except LookupError:
                    return None
                names |= {option.name for option in options_of(cls)}
    return names
