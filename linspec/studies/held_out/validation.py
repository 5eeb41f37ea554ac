"""Choice of the ridge and k of a problem by rows that were not fitted.

Problem: fit every ridge on the training rows of every split, and score every k on the held-out rows.
Method: if Gram matrices fit into memory, one pass computes the moments of cells of rows; training and held-out sets
are unions of cells (`linspec.studies.held_out.folds`). The moments of these sets are merged from those of the
cells. A split costs an eigendecomposition of each Gram matrix, and a ridge a small decomposition. A k costs only its
score: the leading columns of a solution are the solution for a smaller k. Held-out scores are functions of the
moments of the held-out rows, so no row is read again. If Gram matrices do not fit into memory, or
a score is no function of second moments, each split is solved for each ridge (`linspec.solving.ridges`) with the
largest k, and the leading columns of a solution are scored for the smaller k.
Source: Stone 1974, J. R. Stat. Soc. B 36:111, doi:10.1111/j.2517-6161.1974.tb00994.x (cross-validatory choice).
Where we differ: Stone holds out one row at a time, and we hold out sets of rows. One pass is a reading of all
rows, so a pass over training rows counts as the fraction of the rows that they are.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from linspec import cost
from linspec.arrays import HostArray, with_device
from linspec.errors import (
    AccuracyWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    NoSuitableSolver,
    shown,
    warn,
)
from linspec.frames import library_for_table, table
from linspec.process.interrupts import NothingYet, Request, first_interrupt
from linspec.process.plurals import count_of
from linspec.registry.options import ForeignNames, is_number
from linspec.rows import Passes
from linspec.solving.checks import check_choice, check_row_slices, several
from linspec.solving.on_rows import moments_of
from linspec.solving.problem import Problem
from linspec.solving.ridges import along_ridges, checked_ridges
from linspec.solving.select import select
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.solving.stating import check_range_of_ridges
from linspec.solving.tables import ridge_columns, ridge_in_words, size_of_ridge
from linspec.solving.verdict import CHOICE, WARNED
from linspec.status import Status
from linspec.studies.held_out.folds import (
    Folds,
    bytes_held,
    cells_of,
    folds_of,
    training_and_held_out,
    with_orthogonal_confounds,
)
from linspec.studies.held_out.grams import Split, split_of
from linspec.studies.held_out.scores import LOST, HeldOutScore, Ks, Rounded, default_scores

Grid = tuple[tuple[Any, ...], tuple[int | None, ...]]
"""The ridges and the ks of a grid of settings."""

MOST = 3000
"""Largest number of columns whose Gram matrices are held unasked: more take long to decompose."""

STRONG = 1e-6
"""Ridges above this share of the largest square of a column: iterations are few, and have the digits of scores."""

FOLDS = 5
"""Number of folds by default."""

METHODS, FORMS = ("folds", "gcv"), ("auto", "dense", "solve", "sparse", "implicit")


@with_device
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
        Any problem with a score of held-out rows. Means, slopes on confounds and scales of columns are those of the
        training rows of each split. Weights apply to held-out rows, too.
    ridges : sequence, optional
        Numbers; for a CCA, numbers or pairs. By default those of the problem.
    ks : sequence of int, optional
        By default the k of the problem.
    method : {"folds", "gcv"}, default "folds"
        "gcv" is generalized cross-validation of a `linspec.LeastSquares`, without splits.
    splitter : int, array of n labels, object with a method split, or iterable of pairs, default 5
        A number of folds of rows in random order; the fold of each row, -1 for rows of every training set (rows in
        temporal order: ``np.arange(n) * 5 // n``); a splitter of scikit-learn; or pairs of training and held-out
        numbers.
    groups, y : array of shape (n,), optional
        Rows of one group are on the same side of every split; y is passed to the splitter, such as classes.
    score : str, optional
        One of the scores of the problem, which the guide to choosing lists; by default its first.
    form : {"auto", "dense", "solve", "sparse", "implicit"}, default "auto"
        "dense" computes all scores from Gram matrices of all sets of rows, held in memory. The others solve for each
        ridge and split, on moments that `linspec.Moments` chooses ("solve"), sparse ones, or passes ("implicit").
    solver, rng, **options
        As for `linspec.solve`, where each ridge and split is solved; `rng` also shuffles the rows.

    Returns
    -------
    CrossValidation

    Raises
    ------
    InvalidProblem, InvalidOption
        If ridges, ks, labels or options do not fit the problem or each other, or a side of a split has no weight.
    MissingCapability, NoSuitableSolver, NonFiniteData
        If rows can be neither selected nor held, Gram matrices do not fit, or an entry is not finite.

    Warns
    -----
    AccuracyWarning
        If scores may be only rounding (`CrossValidation.uncertain`), or held-out rows of a split say nothing, such as
        those of a target that does not vary over them: its score is NaN (`CrossValidation.counted`).

    Notes
    -----
    To choose k, use "correlations" or "log-likelihood"; "tcc" and "reconstruction" grow with k. Scores that may be only
    rounding (`CrossValidation.rounding`) are recomputed from solutions by ``form="auto"``, in further passes.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((300, 2))
    >>> X = shared @ rng.standard_normal((2, 40)) + 2 * rng.standard_normal((300, 40))
    >>> Y = shared @ rng.standard_normal((2, 30)) + 2 * rng.standard_normal((300, 30))
    >>> validation = ls.cross_validate(ls.CCA(X, Y, 5), ridges=[1, 10, 100, 1000], ks=range(1, 6), rng=0)
    >>> validation.passes, validation.scores.shape
    (1.0, (5, 4, 5))
    """
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"cross_validate takes a problem such as linspec.CCA(X, Y, k); got {type(problem).__name__}."
        )
    check_choice("method", method, METHODS)
    check_choice("form", form, FORMS)
    scored, ridges, ks = _score_of(problem, score), _ridges(problem, ridges), _ks(problem, ks)
    rows = min(A.shape[0] for A in problem.matrices.values())
    if method == "gcv":
        _refuse_folds(splitter, groups, y)
        if rows == np.inf:
            raise InvalidProblem(
                "the number of rows of a stream is not known beforehand. Pass folds by labels, or slices of known "
                "length."
            )
        generalized = scored.generalized(problem, ridges, form, solver, rng, options)
        return _result(
            CrossValidation(
                generalized.scores[None, :, None],
                ridges,
                ks,
                "generalized cross-validation",
                False,  # lower is better
                "gcv",
                generalized.one_pass,
                generalized.passes,
                ((int(rows), 0),),
                problem,
                generalized.reason,
                None if generalized.errors is None else generalized.errors[:, None],
                None if generalized.rounding is None else generalized.rounding[None, :, None],
            )
        )
    problem.check_rows_came("cross_validate holds out rows")
    problem.check_labels({"splitter": splitter, "groups": groups, "y": y})
    folds = folds_of(splitter, rows, y=y, groups=groups, rng=rng)
    most = max((k for k in ks if k is not None), default=0)
    largest = problem.with_numbers(k=most or None)
    if most:
        largest.check_sizes()
    folds.check_counted(problem.sample_weight)
    for name in problem.matrices:
        folds.check_counted(problem.weights_of(name), name, sides=("training",))
    requested = _form(scored, form, solver, options)
    held, reason = _held(problem, folds, requested, ridges)
    if held:
        rounded, passes = _of_moments(problem, folds, scored, ridges, ks)
        if requested == "auto" and all(A.access == "rows" for A in problem.matrices.values()):
            again = _read_again(largest, folds, scored, (ridges, ks), rounded, rng)
            held, passes = not again, passes + again
    else:
        how = form if form in ("sparse", "implicit") else "auto"
        options = {"rng": rng, **options}
        rounded, passes = scored_by_solving(largest, folds, scored, ridges, ks, solver, how, options)
    sizes = tuple((len(training), len(held_out)) for training, held_out in folds.splits)
    return _result(
        CrossValidation(
            rounded.scores,
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
            rounding=rounded.rounding,
        )
    )


def _result(result: CrossValidation) -> CrossValidation:
    """Warn of splits without a score, and of scores that may be rounding errors."""
    without = np.flatnonzero(~result.counted)
    if len(without):
        warn(
            f"cross_validate: {count_of(len(without), 'split')} of {len(result.scores)} (the first is {without[0]}) "
            f"left out of the mean, for lack of a number as {result.label}: over the held-out rows some target or "
            "variate does not vary, or they are too few. Take fewer, larger folds.",
            AccuracyWarning,
        )
    count = int(result.uncertain.sum())
    if count:
        first = int(np.argmax(np.any(np.asarray(result.rounding) > LOST, axis=(1, 2))))
        warn(
            f"cross_validate: {count} of {result.uncertain.size} mean scores may be rounding by more than a share of "
            f"{LOST:g}, or by choice (`uncertain`), because second moments of the rows, or solutions, do not hold "
            f"their digits, or the next component is as good, first on split {first}. Do not choose by them: pass "
            'form="implicit" with a solver such as "direct", center=True, or larger ridges.',
            AccuracyWarning,
        )
    return result


def _read_again(
    problem: Problem[Any],
    folds: Folds,
    score: HeldOutScore,
    grid: Grid,
    rounded: Rounded,
    rng: Any,
) -> float:
    """Recompute, in place and from solutions, scores that may be only rounding errors; return the number of passes."""
    ridges, ks = grid
    lost = rounded.rounding > LOST
    splits = np.flatnonzero(lost.any(axis=(1, 2)))
    some = np.flatnonzero(lost.any(axis=(0, 2)))
    if not splits.size:
        return 0.0
    part = replace(folds, splits=tuple(folds.splits[i] for i in splits))
    where = np.ix_(splits, some)
    moved = np.zeros_like(rounded.rounding[where]) if rounded.moved is None else rounded.moved[where]
    again, passes = scored_by_solving(
        problem, part, score, tuple(ridges[i] for i in some), ks, "auto", "implicit", {"rng": rng}, moved
    )
    doubtful = lost[where]
    rounded.scores[where] = np.where(doubtful, again.scores, rounded.scores[where])
    rounded.rounding[where] = np.where(doubtful, again.rounding, rounded.rounding[where])
    return passes


def _of_moments(
    problem: Problem[Any],
    folds: Folds,
    score: HeldOutScore,
    ridges: tuple[Any, ...],
    ks: Ks,
) -> tuple[Rounded, float]:
    """Compute all scores and their rounding from the moments of one pass; return the number of passes, too."""
    problem = with_orthogonal_confounds(problem)
    cells, union, passes = cells_of(problem, folds)
    whole = split_of(problem, union, union)
    scores, rounding, moved = np.zeros((3, len(folds.splits), len(ridges), len(ks)))
    for number, (training, held_out) in enumerate(training_and_held_out(cells, folds)):
        split = split_of(problem, training, held_out, whole)
        _check_rank(split, number, ks)
        of_split = score.of_moments(problem, split, ridges, ks)
        scores[number], lost, off = of_split if isinstance(of_split, Rounded) else (of_split, 0.0, None)
        rounding[number] = np.inf if split.hides else lost
        moved[number] = 0.0 if off is None else off
    return Rounded(scores, rounding, moved), passes + whole.reread


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
    return getattr(import_module(module), cls)()


def _ridges(problem: Problem[Any], ridges: Any) -> tuple[Any, ...]:
    if not hasattr(problem, "ridge"):
        if ridges is not None:
            raise InvalidProblem(f"{type(problem).__name__} has no ridge; got ridges. Leave them out.")
        return (None,)
    default = tuple(getattr(problem, "ridges", (problem.ridge,)))
    checked = default if ridges is None else checked_ridges(problem, ridges)
    for ridge in checked:
        check_range_of_ridges(problem.with_numbers(ridge=ridge))
    return checked


def _ks(problem: Problem[Any], ks: Any) -> tuple[int | None, ...]:
    if not hasattr(problem, "k"):
        if ks is not None:
            raise InvalidProblem(f"{type(problem).__name__} has no k; got ks. Leave them out.")
        return (None,)
    listed = (problem.k,) if ks is None else several("ks", ks)
    for k in listed:
        if not is_number(k, int) or k < 1:
            raise InvalidProblem(f"ks must be integers of at least 1; got {shown(k)}. Pass ks=[1, 2, 3].")
    return tuple(int(k) for k in listed)


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
    extra = [*([f"solver={shown(solver)}"] if solver != "auto" else []), *options]
    if form == "dense" and not score.by_moments:
        raise MissingCapability(
            f"the score {score.label} is not a function of second moments. Leave form out."
        )
    if form == "dense" and extra:
        raise InvalidOption(
            f"no solver runs where Gram matrices are held; got {', '.join(extra)}. Leave them out, or pass "
            'form="solve".'
        )
    free = form == "auto" and score.by_moments and not extra
    return form if free or form == "dense" else "solve"


def _held(problem: Problem[Any], folds: Folds, form: str, ridges: tuple[Any, ...]) -> tuple[bool, str]:
    """Whether to hold the Gram matrices of all sets of rows in memory, and a text with the reason."""
    matrices = problem.matrices.values()
    columns = sum(A.shape[1] for A in matrices)
    columns += 0 if problem.confounds is None else problem.confounds.shape[1]
    needed, memory = bytes_held(columns, folds), problem.sizes().free_memory() / 2
    text = (
        f"Gram matrices of {columns} columns and {len(folds.cells)} sets of rows take {cost.human_bytes(needed)} of "
        f"{cost.human_bytes(memory)}"
    )
    if form == "dense" and needed > memory:
        raise NoSuitableSolver(f'{text}. Pass form="implicit", or fewer folds.')
    once = any(A.access != "rows" for A in matrices)
    few = columns <= min(MOST, 3 * folds.rows) or once
    held = form == "dense" or (form == "auto" and few and needed <= memory)
    if held and form == "auto" and not once and hasattr(problem, "path") and not problem.single:
        path = select(problem.with_numbers(ridge=ridges)).estimate
        if path is not None and 2 * path.seconds < columns**3 / cost.FACTOR_RATE:
            moments = moments_of(problem, Passes())
            moments.fit()
            if min(ridges) > STRONG * moments.fitted[0].squares.max():
                held, text = False, f"{text}, and longer to decompose than solves"
    return held, f"{'dense' if held else 'solve'}: {text}."


class Setting(NamedTuple):
    """A ridge and a k; None in place of the one that a problem does not have."""

    ridge: Any
    k: int | None


class ScoreRow(NamedTuple):
    """One row of the table of scores: a split, a setting, and the score of the setting on the split."""

    split: int
    ridge: Any
    k: int | None
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(ForeignNames):
    """The scores of every ridge and k on the held-out rows of every split.

    Attributes
    ----------
    scores : numpy.ndarray of shape (splits, ridges, ks)
        The scores, float64, read-only.
    ridges : tuple
        Numbers or, for a CCA, pairs of numbers; None for a problem without a ridge.
    ks : tuple of int or None
    label : str
        The name of the score.
    higher : bool
        Whether higher scores are better.
    method : {"folds", "gcv"}
    one_pass : bool
        Whether the scores come from second moments computed in one pass. If False, each ridge and split was solved.
    passes : float
        The number of readings of all rows; a pass over some of the rows counts as a fraction.
    sizes : tuple of (int, int)
        Per split, the numbers of training and of held-out rows.
    problem : Problem
        The problem passed to `linspec.cross_validate`.
    reason : str
        Why `form` of `linspec.cross_validate` was chosen as it was, with the estimated cost of each form.
    estimated : numpy.ndarray of shape (ridges, ks) or None
        The standard error of each score, if generalized cross-validation estimated the trace by random signs;
        otherwise None.
    rounding : numpy.ndarray of shape (splits, ridges, ks) or None
        An estimate of the rounding error of each score, relative to what it is an error of on this split.
        For least squares this is the squared error of the predictions (for "r2", too). For the library's scores of
        other problems it is the score, or 1 if the score is smaller in size. Infinite if a solve ended without the
        digits of its answer, or without reaching its tolerance. None if no score was computed from second moments, and
        no solve ended so.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> validation = ls.cross_validate(ls.CCA(X, Y, k=2), ridges=[1.0, 10.0], ks=[1, 2], rng=0)
    >>> validation.scores.shape
    (5, 2, 2)
    >>> validation.passes
    1.0
    """

    scores: HostArray
    ridges: tuple[Any, ...]
    ks: tuple[int | None, ...]
    label: str
    higher: bool
    method: str
    one_pass: bool
    passes: float
    sizes: tuple[tuple[int, int], ...]
    problem: Problem[Any]
    reason: str = ""
    estimated: HostArray | None = None
    rounding: HostArray | None = None

    @property
    def uncertain(self) -> HostArray:
        """Mask of the settings with a `rounding` above 1e-3 on some split, shape (ridges, ks); all False without it.

        The attribute `rounding` states for which scores it is relative.
        """
        if self.rounding is None:
            return np.zeros(self.scores.shape[1:], dtype=bool)
        return np.asarray(np.any((self.rounding > LOST) & np.isfinite(self.scores), axis=0))

    @property
    def counted(self) -> HostArray:
        """Mask of the splits in `mean`, shape (splits,): those with a score of each setting that has one anywhere.

        A split has no score (NaN) if its held-out rows say nothing: a target or a variate does not vary over them, or
        they are too few for a correlation.
        """
        known = ~np.isnan(self.scores)
        return np.asarray(known.any(axis=(1, 2)) & np.all(known | ~known.any(axis=0), axis=(1, 2)))

    @property
    def mean(self) -> HostArray:
        """The mean score over the splits that are `counted`, shape (ridges, ks); all of them have equal weight."""
        scores = self.scores[self.counted]
        return np.mean(scores, axis=0) if len(scores) else np.full(scores.shape[1:], math.nan)

    @property
    def standard_error(self) -> HostArray:
        """The standard deviation of the scores over the `counted` splits divided by √splits, shape (ridges, ks).

        NaN if there is only one. The training sets of the splits share rows, so this standard error is only a
        rough guide; an unbiased estimate does not exist. If generalized cross-validation estimated the trace by random
        signs, the standard errors that the random signs cause (`estimated`) are returned instead.
        """
        if self.estimated is not None:
            return self.estimated
        scores = self.scores[self.counted]
        if len(scores) < 2:
            return np.full(self.scores.shape[1:], math.nan)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.std(scores, axis=0, ddof=1) / math.sqrt(len(scores)))

    @property
    def best(self) -> Setting:
        """The setting with the best mean score; if scores are equal, the smallest k, then the largest ridge.

        Raises
        ------
        MissingCapability
            If no mean score is a number, or every score is 0 where higher scores are better: nothing is known.
        """
        return self._simplest(self._gains() == np.max(self._gains()))

    @property
    def one_standard_error(self) -> Setting:
        """The simplest setting within one standard error of the best score: smallest k, then largest ridge.

        The standard error of the best setting is used (Breiman, Friedman, Olshen & Stone 1984, section 3.4.3).

        Raises
        ------
        MissingCapability
            For one split, and for generalized cross-validation, there is no standard error over splits.
        """
        gains = self._gains()
        i, j = self._place(self.best)
        error = self.standard_error[i, j]
        if self.method == "gcv" or not math.isfinite(error):
            raise MissingCapability(
                f"one standard error needs the scores of at least two splits; got {int(self.counted.sum())}. Take best."
            )
        return self._simplest(gains >= gains[i, j] - error)

    def solve(self, rule: str = "best", solver: Any = "auto", **options: Any) -> Any:
        """Solve the problem on all rows with the chosen ridge and k.

        Parameters
        ----------
        rule : {"best", "one-standard-error"}, default "best"
        solver, **options
            As for `linspec.solve`.

        Returns
        -------
        Solution
        """
        return solve(self.chosen(rule), solver, **options)

    def chosen(self, rule: str = "best") -> Problem[Any]:
        """Return the problem with the chosen ridge and k.

        Parameters
        ----------
        rule : {"best", "one-standard-error"}, default "best"
        """
        check_choice("rule", rule, ("best", "one-standard-error"))
        setting = self.best if rule == "best" else self.one_standard_error
        return self.problem.with_numbers(ridge=setting.ridge, k=setting.k)

    @property
    def rows(self) -> list[ScoreRow]:
        """The scores as a table with a row for each split, ridge and k."""
        return [
            ScoreRow(split, ridge, k, float(self.scores[split, i, j]))
            for split in range(len(self.scores))
            for i, ridge in enumerate(self.ridges)
            for j, k in enumerate(self.ks)
        ]

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each setting: ridge, k, mean score, standard error, and marks.

        `rows` has the score of each split.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The columns "ridge", or "ridge X" and "ridge Y" for a CCA, and "k", without those that the problem does not
            have; "mean" and "standard error" of the score; "rounding", True for a setting that is `uncertain`; and
            "best", True for the setting of `best`. k is NaN where the problem leaves it open.

        Raises
        ------
        InvalidOption
            There is no such library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> A = np.random.default_rng(0).standard_normal((60, 3))
        >>> validation = ls.cross_validate(ls.LeastSquares(A, A[:, 0]), ridges=[0.1, 10.0], rng=0)
        >>> [(row["ridge"], row["best"]) for row in validation.table(library="")]
        [(0.1, True), (10.0, False)]
        """
        settings = [(ridge, k) for ridge in self.ridges for k in self.ks]
        columns = ridge_columns([ridge for ridge, _ in settings], tuple(self.problem.matrices))
        if self.ks != (None,):
            columns["k"] = np.array([math.nan if k is None else k for _, k in settings])
        columns |= {"mean": self.mean.ravel(), "standard error": self.standard_error.ravel()}
        columns |= {"rounding": self.uncertain.ravel(), "best": self._is_best().ravel()}
        return table("", None, columns, library_for_table(library, self.problem))

    def _is_best(self) -> HostArray:
        """Mask of the best setting, shape (ridges, ks); no setting is best if no mean score is a number."""
        mask = np.zeros(self.mean.shape, dtype=bool)
        with contextlib.suppress(MissingCapability):
            mask[self._place(self.best)] = True
        return mask

    def _gains(self) -> HostArray:
        """Mean scores, negated if lower scores are better, -inf in place of NaN, if they tell one from another."""
        gains = self.mean if self.higher else -self.mean
        gains = np.where(np.isnan(gains), -math.inf, gains)
        if np.all(gains == -math.inf) or (self.higher and not np.any(self.scores[self.counted])):
            raise MissingCapability(
                f"no mean {self.label} is a number other than 0: some held-out rows do not vary, or no setting has a "
                "component that does. Take fewer, larger folds, or other data."
            )
        return gains

    def _place(self, setting: Setting) -> tuple[int, int]:
        return self.ridges.index(setting.ridge), self.ks.index(setting.k)

    def _simplest(self, among: HostArray) -> Setting:
        i, j = min(
            np.argwhere(among).tolist(),
            key=lambda at: (self.ks[at[1]] or 0, -size_of_ridge(self.ridges[at[0]])),
        )
        return Setting(self.ridges[i], self.ks[j])

    def __repr__(self) -> str:
        tried = f"{count_of(self.mean.size, 'setting')}, {count_of(len(self.scores), 'split')}"
        tried += f", {count_of(self.passes, 'pass')}"
        if self.uncertain.any():
            tried += f", {int(self.uncertain.sum())} of {self.uncertain.size} uncertain by rounding"
        try:
            best, (i, j) = self.best, self._place(self.best)
        except MissingCapability:
            return f"<CrossValidation of {self.problem.name}: {tried}, no setting can be chosen>"
        words = {"ridge": "" if best.ridge is None else ridge_in_words(best.ridge), "k": best.k}
        named = ", ".join(f"{name} {value}" for name, value in words.items() if value)
        value = f"{self.label} {self.mean[i, j]:.6g} ± {self.standard_error[i, j]:.2g}"
        return f"<CrossValidation of {self.problem.name}: {tried}, best {named}: {value}>"


LOST_DIGITS = WARNED | {Status.ILL_CONDITIONED}
"""Endings after which a score may be wrong by more than the tolerance of the solve."""


def scored_by_solving(  # noqa: PLR0913, PLR0917 (the arguments of cross_validate)
    problem: Problem[Any],
    folds: Folds,
    score: HeldOutScore,
    ridges: Sequence[Any],
    ks: Ks,
    solver: str | Solver,
    form: str,
    options: dict[str, Any],
    moved: HostArray | None = None,
) -> tuple[Rounded, float]:
    """Compute the scores of all splits, with their rounding, of shape (splits, ridges, ks), and the number of passes.

    The rounding is infinite where the status of a solution says that its digits are lost, or that its solver gave up,
    and where the solution is one of several.

    Parameters
    ----------
    problem : Problem
        With the largest k.
    folds : Folds
    score : HeldOutScore
    ridges, ks : sequence
        The ridges, in the form in which the problem holds them, and the values of k.
    solver, options
        As for `linspec.solve`.
    form : str
        How each solve holds the moments of its data: see `linspec.Moments`.
    moved : numpy.ndarray of shape (splits, ridges, ks), optional
        `Rounded.moved` of scores from moments, which the scores of solutions replace.

    Raises
    ------
    MissingCapability
        If rows of a matrix cannot be selected.
    KeyboardInterrupt
        If Ctrl-C ends a solve, because scores of an unfinished solution would be wrong.
    """
    check_row_slices(
        problem,
        "one solve for each ridge and split takes rows",
        refused=("products", "slices", "blocks"),
        remedy=', or fewer columns, for which form="dense" reads slices once',
    )
    scores, rounding = np.zeros((2, len(folds.splits), len(ridges), len(ks)))
    passes, stop = 0.0, Request()
    for split, (training, held_out) in enumerate(folds.splits):
        fitted = problem.on_rows(training)
        rest = problem.on_rows(held_out)
        with first_interrupt(stop.make):
            by_ridge, solve_passes = along_ridges(fitted, ridges, solver, form, options, stop)
        if stop.made:
            raise NothingYet
        solutions = [by_ridge[i] for i in range(len(ridges))]
        scores[split] = [score.of_solution(rest, solution, ks) for solution in solutions]
        if moved is not None:  # predicts once more
            rounding[split] = score.rounding_of_solutions(rest, solutions, moved[split])
            passes += len(solutions) * len(held_out) / folds.rows
        rounding[
            split, [solution.status in LOST_DIGITS or CHOICE in solution.message for solution in solutions]
        ] = np.inf
        passes += (solve_passes * len(training) + len(solutions) * len(held_out)) / folds.rows
    return Rounded(scores, rounding), passes
