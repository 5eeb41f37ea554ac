"""Choice of the ridge and k of a problem by rows that were not fitted.

Problem: fit every ridge on the training rows of every split, and score every k on the held-out rows.
Method: if Gram matrices fit into memory, one sweep computes the moments of cells of rows; training and held-out sets
are unions of cells (`linspec.studies.held_out.cells`). The moments of these sets are merged from those of the
cells. A split costs an eigendecomposition of each Gram matrix, and a ridge a small decomposition. A k costs only its
score: the leading columns of a solution are the solution for a smaller k. Held-out scores are functions of the
moments of the held-out rows, so no row is read again. If Gram matrices do not fit into memory, each ridge and split
is solved (`linspec.studies.held_out.by_solving`).
Source: Stone 1974, J. R. Stat. Soc. B 36:111, doi:10.1111/j.2517-6161.1974.tb00994.x (cross-validatory choice).
Where we differ: Stone holds out one row at a time, and we hold out sets of rows.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import at_home
from linspec.errors import (
    AccuracyWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    NoSuitableSolver,
    shown,
    warn,
)
from linspec.process.plurals import count_of
from linspec.registry.options import is_number
from linspec.solving.checks import check_choice, several
from linspec.solving.problem import Problem
from linspec.solving.ridges import checked_ridges
from linspec.solving.select import estimated, has_trait
from linspec.solving.stating import check_range_of_ridges
from linspec.studies.held_out.by_solving import scored_by_solving
from linspec.studies.held_out.cells import (
    bytes_held,
    cells_of,
    training_and_held_out,
    with_orthogonal_confounds,
)
from linspec.studies.held_out.defaults import default_scores
from linspec.studies.held_out.folds import Folds, folds_of
from linspec.studies.held_out.grams import Split, split_of
from linspec.studies.held_out.result import CrossValidation
from linspec.studies.held_out.scores import LOST, HeldOutScore, Ks, Rounded

__all__ = ["cross_validate"]

MERGING = 40
"""Cost of merging and adjusting the Gram matrices of one split, in units of reading each entry of one d x d matrix.

d is the number of columns of all matrices and confounds."""

A_SOLVE = 2e-3
"""Seconds that a solve takes for the smallest problem."""

Grid = tuple[tuple[Any, ...], tuple[int | None, ...]]
"""The ridges and the ks of a grid of settings."""

FOLDS = 5
"""Number of folds by default."""

METHODS, FORMS = ("folds", "gcv"), ("auto", "dense", "solve", "sparse", "implicit")


@at_home
def cross_validate(  # noqa: PLR0913
    problem: Problem[Any],
    *,
    ridges: Any = None,
    ks: Any = None,
    method: str = "folds",
    splitter: Any = FOLDS,
    groups: Any = None,
    y: Any = None,
    score: str | None = None,
    form: str = "auto",
    solver: Any = "auto",
    rng: Any = None,
    **options: Any,
) -> CrossValidation:
    """Score every ridge and every k of a problem on rows that were not fitted, in one pass if possible.

    Parameters
    ----------
    problem : Problem
        Any problem with a score of held-out rows: the parameter `score` lists the scores. The data, centring, weights,
        confounds and scale of the problem are used. Means, slopes on confounds and scales of columns are estimated on
        the training rows of each split. The weights apply to held-out rows, too.
    ridges : sequence, optional
        Numbers; for a CCA, numbers or pairs. By default the ridge of the problem, or the ridges of its path.
    ks : sequence of int, optional
        The values of k, for problems with a k. By default the k of the problem.
    method : {"folds", "gcv"}, default "folds"
        "gcv" is generalized cross-validation of a `linspec.LeastSquares`: without splits, in one pass. It takes no
        splitter, groups or y.
    splitter : int, array of n labels, object with a method split, or iterable of pairs, default 5
        An integer is the number of folds; the rows are put into the folds in random order. Labels give the fold of each
        row; a row labelled -1 is in all training sets. An object with a method `split` is a splitter of scikit-learn,
        and its ``split(X, y, groups)`` is called with n rows of zeros as X. A pair holds the numbers of the training
        rows and the numbers of the held-out rows of one split. For rows in temporal order pass labels of blocks,
        ``np.arange(n) * 5 // n``, or scikit-learn's ``TimeSeriesSplit``.
    groups : array of shape (n,), optional
        Rows of one group are on the same side of every split.
    y : array of shape (n,), optional
        Passed to the splitter as y, such as classes to stratify by.
    score : str, optional
        One of the scores of the problem, by default the first. CCA: "correlations" (the sum of the signed correlations
        of the pairs), "tcc" (total correlation captured). LeastSquares: "mse" (mean squared error), "r2". SVD:
        "reconstruction" (the fraction of the sum of squares), "log-likelihood". Discriminant: "pillai" (Pillai's
        trace), "accuracy" (the share of right classes). A problem of your own may list scores in
        `Problem.held_out_scores`. If it lists none, there are up to two scores. "score" is the method `score` of its
        solutions, if they have one. "correlations" is available if solutions have column weights for two or more
        matrices: for each component and each pair of matrices the correlation of the component scores of the rows, with
        its sign, summed.
    form : {"auto", "dense", "solve", "sparse", "implicit"}, default "auto"
        "dense" computes all scores from Gram matrices of all sets of rows, which it holds in memory. The next three
        values solve for each ridge and split (least squares: once for all ridges of a split). With "solve",
        `linspec.Moments` chooses how each solve holds moments; with "sparse", each solve holds sparse Gram matrices;
        with "implicit", each solve holds none and sweeps over the rows. "auto" chooses "solve" if a solver or options
        are passed; otherwise it chooses "dense" or "solve", whichever is estimated to be faster within half of the
        available memory. If `method` is "gcv", "dense" decomposes the Gram matrix of the columns or of the rows, and
        "solve" estimates the trace by random signs.
    solver : str or Solver, default "auto"
        As for `linspec.solve`; used if each ridge and split is solved.
    rng : None, int or numpy.random.Generator
        Shuffles the rows if the splitter is a number of folds, and seeds each solve.
    **options
        Options of the solver and other arguments of `linspec.solve`; used if each ridge and split is solved.

    Returns
    -------
    CrossValidation

    Raises
    ------
    InvalidProblem
        If k is too large for a training set, ridges or ks are passed for a problem without them, the number of labels
        is not that of the rows, a side of a split is empty, or all its rows have weight 0.
    InvalidOption
        If method, form, score or splitter is unknown, or splitter, groups or y is passed with ``method="gcv"``.
    MissingCapability
        If rows cannot be selected; or Gram matrices cannot be held, and the rows come as slices; or the problem has no
        scores.
    NoSuitableSolver
        If ``form="dense"`` and the Gram matrices do not fit into memory.
    NonFiniteData
        If an entry is not finite.

    Warns
    -----
    AccuracyWarning
        If some scores may be only rounding errors; `CrossValidation.uncertain` marks them. If held-out rows of a split
        say nothing, such as those of a target that does not vary over them, or a single row about a correlation: the
        split has no score (NaN), and is left out of the mean (`CrossValidation.counted`).

    Notes
    -----
    To choose k, use "correlations" or "log-likelihood", which have a maximum. More pairs always capture more in total,
    also by chance, and more vectors reconstruct more: "tcc" and "reconstruction" show what each further k adds, but
    their best k is the largest. `CrossValidation.one_standard_error` is the simplest setting about as good as the best.

    The Gram matrices of the training rows square their condition number, and terms of scores cancel where a fit is
    good. The rounding error of each score is estimated (`CrossValidation.rounding`). With ``form="auto"``, scores that
    may be only rounding errors are recomputed from solutions, if rows can be selected, at the cost of more passes.
    Where columns are dependent, the rows are read again, because a Gram matrix does not tell dependent columns from
    nearly dependent ones. What is still doubtful is flagged, also if a solve ended without the digits of its answer
    (`Status.ILL_CONDITIONED`) or without reaching its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((300, 2))
    >>> X = shared @ rng.standard_normal((2, 40)) + 2 * rng.standard_normal((300, 40))
    >>> Y = shared @ rng.standard_normal((2, 30)) + 2 * rng.standard_normal((300, 30))
    >>> found = ls.cross_validate(ls.CCA(X, Y, 5), ridges=[1, 10, 100, 1000], ks=range(1, 6), rng=0)
    >>> found.passes, found.scores.shape
    (1.0, (5, 4, 5))
    """
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"cross_validate takes a problem such as linspec.CCA(X, Y, k); got {type(problem).__name__}."
        )
    check_choice("method", method, METHODS)
    check_choice("form", form, FORMS)
    scored, ridges, ks = _score_of(problem, score), _ridges(problem, ridges), _ks(problem, ks)
    if method == "gcv":
        _refuse_folds(splitter, groups, y)
        return _generalized(problem, scored, (ridges, ks), form, solver, rng, options)
    problem.check_rows_came("cross_validate holds out rows")
    rows = min(A.shape[0] for A in problem.matrices.values())
    problem.check_labels({"splitter": splitter, "groups": groups, "y": y})
    folds = folds_of(splitter, rows, y=y, groups=groups, rng=rng)
    most = max((k for k in ks if k is not None), default=0)
    largest = problem.with_numbers(k=most or None)
    if most:
        largest.check_sizes()
    folds.check_counted(problem.sample_weight)
    for name in problem.matrices:
        folds.check_counted(problem.weights_of(name), name, sides=("training",))
    asked = _form(scored, form, solver, options)
    memory = problem.sizes().free_memory() / 2
    held, reason = _chosen(_estimates(largest, folds, scored, ridges, solver), asked, memory)
    by_moments = held
    if held:
        made, passes = _of_moments(problem, folds, scored, ridges, ks)
        if asked == "auto" and all(A.access == "rows" for A in problem.matrices.values()):
            swept = _read_again(largest, folds, scored, (ridges, ks), made, rng)
            held, passes = not swept, passes + swept
    else:
        how = form if form in ("sparse", "implicit") else "auto"
        options = {"rng": rng, **options}
        made, passes = scored_by_solving(largest, folds, scored, ridges, ks, solver, how, options)
    sizes = tuple((len(training), len(held_out)) for training, held_out in folds.splits)
    return _result(
        CrossValidation(
            made.scores,
            ridges,
            ks,
            scored.label,
            scored.higher,
            method,
            held,
            passes,
            sizes,
            problem,
            reason,
            rounding=made.rounding if by_moments or made.rounding.any() else None,
        )
    )


def _result(found: CrossValidation) -> CrossValidation:
    """Make the scores read-only, and warn of splits without a score, and of scores that may be rounding errors."""
    for array in (found.scores, found.rounding):
        if array is not None:
            array.flags.writeable = False
    without = np.flatnonzero(~found.counted)
    if len(without):
        warn(
            f"cross_validate: {count_of(len(without), 'split')} of {len(found.scores)} (the first is {without[0]}) "
            f"left out of the mean, for lack of a number as {found.label}: over the held-out rows some target or "
            "variate does not vary, or they are too few. Take fewer, larger folds.",
            AccuracyWarning,
        )
    count = int(found.uncertain.sum())
    if count:
        assert found.rounding is not None  # noqa: S101
        first = int(np.argmax(np.any(found.rounding > LOST, axis=(1, 2))))
        warn(
            f"cross_validate: {count} of {found.uncertain.size} mean scores may be rounding by more than a share of "
            f"{LOST:g}, or by choice (`uncertain`), because second moments of the rows, or solutions, do not hold "
            f"their digits, or the next component is as good, first on split {first}. Do not choose by them: pass "
            'form="implicit" with a solver such as "direct", center=True, or larger ridges.',
            AccuracyWarning,
        )
    return found


def _read_again(
    problem: Any,
    folds: Folds,
    score: HeldOutScore,
    grid: Grid,
    made: Rounded,
    rng: Any,
) -> float:
    """Recompute, in place and from solutions, scores that may be only rounding errors; return the number of passes."""
    ridges, ks = grid
    lost = made.rounding > LOST
    splits, some = np.flatnonzero(lost.any(axis=(1, 2))), np.flatnonzero(lost.any(axis=(0, 2)))
    if not splits.size:
        return 0.0
    part = replace(folds, splits=tuple(folds.splits[i] for i in splits))
    where = np.ix_(splits, some)
    moved = np.zeros_like(made.rounding[where]) if made.moved is None else made.moved[where]
    again, passes = scored_by_solving(
        problem, part, score, tuple(ridges[i] for i in some), ks, "auto", "implicit", {"rng": rng}, moved
    )
    doubtful = lost[where]
    made.scores[where] = np.where(doubtful, again.scores, made.scores[where])
    made.rounding[where] = np.where(doubtful, again.rounding, made.rounding[where])
    return passes


def _of_moments(
    problem: Problem[Any],
    folds: Folds,
    score: HeldOutScore,
    ridges: tuple[Any, ...],
    ks: Ks,
) -> tuple[Rounded, float]:
    """Compute all scores and their rounding from the moments of one sweep; return the number of passes, too."""
    problem = with_orthogonal_confounds(problem)
    cells, union, passes = cells_of(problem, folds)
    whole = split_of(problem, union, union)
    found, rounding, moved = np.zeros((3, len(folds.splits), len(ridges), len(ks)))
    for number, (training, held_out) in enumerate(training_and_held_out(cells, folds)):
        split = split_of(problem, training, held_out, whole)
        _check_rank(split, number, ks)
        made = score.of_moments(problem, split, ridges, ks)
        found[number], lost, off = made if isinstance(made, Rounded) else (made, 0.0, None)
        rounding[number] = np.inf if split.hides else lost
        moved[number] = 0.0 if off is None else off
    return Rounded(found, rounding, moved), passes + whole.reread


def _generalized(
    problem: Problem[Any], score: HeldOutScore, grid: Grid, form: str, solver: Any, rng: Any, options: Any
) -> CrossValidation:
    """Run generalized cross-validation, which holds out no rows."""
    rows = min(A.shape[0] for A in problem.matrices.values())
    if rows == np.inf:
        raise InvalidProblem(
            "the number of rows of a stream is not known beforehand. Pass folds by labels, or slices of known length."
        )
    ridges, ks = grid
    found = score.generalized(problem, ridges, form, solver, rng, options)
    return _result(
        CrossValidation(
            found.scores[None, :, None],
            ridges,
            ks,
            "generalized cross-validation",
            False,  # lower is better
            "gcv",
            found.one_pass,
            found.passes,
            ((int(rows), 0),),
            problem,
            found.reason,
            None if found.errors is None else found.errors[:, None],
            None if found.rounding is None else found.rounding[None, :, None],
        )
    )


# ---- arguments ------------------------------------------------------------------------------------------------------


def _refuse_folds(splitter: Any, groups: Any, y: Any) -> None:
    """Refuse arguments of folds, which generalized cross-validation would ignore."""
    splitter = None if isinstance(splitter, int) and splitter == FOLDS else splitter
    passed = [
        name for name, value in (("splitter", splitter), ("groups", groups), ("y", y)) if value is not None
    ]
    if passed:
        raise InvalidOption(
            f'method="gcv" holds out no rows; got {" and ".join(passed)}. Leave that out, or pass method="folds".'
        )


def _score_of(problem: Problem[Any], name: str | None) -> HeldOutScore:
    known = problem.held_out_scores
    by_fields = {} if known else default_scores(problem)
    names = tuple(known or by_fields)
    if not names:
        raise MissingCapability(
            f"{type(problem).__name__} has no score of held-out rows: its answer has no method score, and no "
            "weights of two matrices. A problem names its scores in held_out_scores: see linspec.HeldOutScore."
        )
    if name is not None and name not in names:
        raise InvalidOption(
            f"score must be one of {', '.join(names)} for {type(problem).__name__}; got {shown(name)}."
        )
    name = name or names[0]
    if by_fields:
        return by_fields[name]
    module, _, cls = known[name].partition(":")
    found: HeldOutScore = getattr(import_module(module), cls)()
    return found


def _ridges(problem: Problem[Any], ridges: Any) -> tuple[Any, ...]:
    if not hasattr(problem, "ridge"):
        if ridges is not None:
            raise InvalidProblem(f"{type(problem).__name__} has no ridge; got ridges. Leave them out.")
        return (None,)
    own = tuple(getattr(problem, "ridges", (problem.ridge,)))
    found = own if ridges is None else checked_ridges(problem, ridges)
    for ridge in found:
        check_range_of_ridges(problem.with_numbers(ridge=ridge))
    return found


def _ks(problem: Problem[Any], ks: Any) -> tuple[int | None, ...]:
    if not hasattr(problem, "k"):
        if ks is not None:
            raise InvalidProblem(f"{type(problem).__name__} has no k; got ks. Leave them out.")
        return (None,)
    given = (problem.k,) if ks is None else several("ks", ks)
    for k in given:
        if not is_number(k, int) or k < 1:
            raise InvalidProblem(f"ks must be integers of at least 1; got {shown(k)}.")
    return tuple(int(k) for k in given)


def _check_rank(split: Split, number: int, ks: Ks) -> None:
    most = max(k or 0 for k in ks)
    if most > split.rank:
        raise InvalidProblem(
            f"k must be at most {split.rank} on split {number}, whose {split.training.rows} training rows lose "
            f"{split.training.rows - split.rank} to what is subtracted; got {most}. Pass smaller ks, or fewer "
            "folds."
        )


def _form(score: HeldOutScore, form: str, solver: Any, options: dict[str, Any]) -> str:
    """Return "auto", "dense" or "solve" for the option `form`.

    "sparse" and "implicit" give "solve", because they only state how each solve holds moments. "auto" gives "solve" if
    the score is not a function of second moments, or the caller passes a solver or its options.
    """
    given = [*([f"solver={shown(solver)}"] if solver != "auto" else []), *options]
    if form == "dense" and not score.by_moments:
        raise MissingCapability(
            f"the score {score.label} is not a function of second moments. Leave form out."
        )
    if form == "dense" and given:
        raise InvalidOption(
            f"no solver runs where Gram matrices are held; got {', '.join(given)}. Leave them out, or pass "
            'form="solve".'
        )
    free = form == "auto" and score.by_moments and not given
    return form if free or form == "dense" else "solve"


def _estimates(
    problem: Problem[Any], folds: Folds, score: HeldOutScore, ridges: tuple[Any, ...], solver: Any
) -> dict[str, cost.Estimate]:
    """Estimated time and memory of the forms "dense" and "solve", without a form that data or score do not permit."""
    found, splits, sizes = {}, len(folds.splits), problem.sizes()
    if score.by_moments:
        columns = sum(A.shape[1] for A in problem.matrices.values())
        columns += 0 if problem.confounds is None else problem.confounds.shape[1]
        forming = cost.moments_estimates(sizes, 0, 1).get("dense")
        seconds = 0.0 if forming is None else forming.seconds
        merging = MERGING * float(columns) ** 2 * cost.READING / cost.DENSE_RATE
        seconds += splits * (merging + score.seconds_of_split(problem, len(ridges)))
        note = f"the Gram matrices of {len(folds.cells)} sets of rows of {columns} columns"
        found["dense"] = cost.Estimate(seconds, bytes_held(columns, folds), note)
    if all(A.access == "rows" for A in problem.matrices.values()):
        path = hasattr(problem, "path") and (solver == "auto" or has_trait(problem, solver, "path"))
        runs = splits * (1 if path else len(ridges))
        stated = problem.with_numbers(ridge=ridges if path else ridges[0])
        name, one = estimated(stated, solver, stated.sizes())
        if one is not None:
            seconds = runs * (one.seconds + A_SOLVE)
            found["solve"] = cost.Estimate(seconds, one.bytes + 16.0 * sizes.nnz, f"{runs} solves by {name}")
    return found


def _chosen(estimates: dict[str, cost.Estimate], form: str, memory: float) -> tuple[bool, str]:
    """Whether to hold the Gram matrices of all sets of rows in memory, and a text with the reason."""
    costs, room = (
        "; ".join(f"{name}: {e} ({e.note})" for name, e in estimates.items()),
        cost.human_bytes(memory),
    )
    if form == "dense" and estimates["dense"].bytes > memory:
        raise NoSuitableSolver(f'{costs}; {room} may be used. Pass form="implicit", or fewer folds.')
    why = "as was asked"
    if form == "auto":
        form, why = cost.least_time(estimates, memory) or "solve", f"by the time within {room}"
    return form == "dense", f"{form}, {why}: {costs}."
