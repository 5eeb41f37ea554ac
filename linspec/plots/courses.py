"""Plots of courses: residuals and scores of runs over their cost, and values, coefficients and scores over the ridge.

Problem: show how solvers converge, and which ridge and which k should be chosen.
Method: residuals are drawn on a logarithmic axis. A direct solver has no history, only a final residual, drawn as a
diamond at the cost of the run. The curve of an iterative solver ends in a point, which is filled if the run converged.
A final residual far below the tolerance is drawn on the lower edge, so that rounding errors do not compress the rest of
the plot. Ridges are on a logarithmic axis, with 0 at its left end; pairs of different ridges
are drawn side by side. Means over splits have bars of one standard error. Lines mark the best setting, and the
simplest setting within one standard error of the best.
Source: Breiman, Friedman, Olshen & Stone 1984, Classification and Regression Trees, section 3.4.3 (one standard
error).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, MissingCapability
from linspec.plots.style import (
    COLOURS,
    LINE,
    MARKERS,
    MUTED,
    SMALL_TEXT,
    THIN,
    axes_for,
    legend_beside,
    names_of,
    numbers,
)
from linspec.solving.checks import check_choice
from linspec.studies.ridge_path import values_along

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COST_WORDS = {"passes": "passes over the data", "seconds": "seconds", "iterations": "iterations"}
"""The costs that the horizontal axis can show, and their labels."""


DASHES = ("-", (0, (6, 2)), (0, (6, 2, 1.5, 2)), (0, (1.5, 1.5)))
"""Line styles of successive runs, so that lines can be distinguished in black and white."""


NAMED = 8
"""Number of lines in a plot, those of the largest values, that get a colour and a name each; others are grey."""

FAINT: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "markersize": 2.5, "alpha": 0.5, "zorder": 1}
"""The style of lines without a name."""

MARKED = 10
"""Approximate number of markers on a named line, so that lines can be distinguished in black and white."""

WIDTH = 0.07
"""Width of a letter in a legend, in inches."""


def convergence(
    solutions: Any, *, against: str | None = None, tol: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the residuals of one or more runs against their cost.

    Parameters
    ----------
    solutions : Solution, mapping from str to Solution, sequence of Solution, or Comparison
        The keys of a mapping are the labels; otherwise the labels are the names of the solvers.
    against : {"passes", "seconds", "iterations"}, optional
        The cost on the horizontal axis. By default passes; seconds if an iterative solver keeps Gram matrices in
        memory, because then the number of passes does not increase.
    tol : float, optional
        A tolerance to draw as a line; by default the tolerance of each run.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A run ends in a point, filled if it converged; a direct solver is a diamond.

    Raises
    ------
    InvalidProblem
        If there are no solutions.
    InvalidOption
        If `against` is invalid.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> runs = [ls.solve(ls.SVD(A, k=2), "block-krylov", rng=seed, form="implicit") for seed in (0, 1)]
    >>> axes = ls.plots.convergence(runs)
    >>> axes.get_yscale()
    'log'
    """
    if against is not None:
        check_choice("against", against, COST_WORDS)
    runs = _runs(solutions)
    if not runs:
        raise InvalidProblem("convergence draws at least one solution; got none.")
    passes = [run.history["passes"].tolist() for _, run in runs]
    # a run iterates without reading data again
    still = any(len({*counts}) == 1 < len(counts) for counts in passes)
    cost = against or ("seconds" if still else "passes")
    courses = [(label, run, *_course(run, cost)) for label, run in runs]
    iterative = [(run, ys) for _, run, _, ys in courses if run.iterations]
    tols = {run.tol if tol is None else tol for run, _ in iterative} - {None, 0.0}
    seen = [y for ys in [*(ys for _, ys in iterative), tols] for y in ys if 0 < y < math.inf]
    seen = seen or [max(run.residual or 0.0, 1e-17) for _, run in runs]
    low = min(seen) / 5
    with axes_for(ax, (5.4, 3.8)) as axes:
        axes.set(yscale="log", ylim=(low, max(seen) * 3), xlabel=COST_WORDS[cost], ylabel="residual")
        for number, (label, run, xs, ys) in enumerate(courses):
            colour = COLOURS[number % len(COLOURS)]
            mark: dict[str, Any] = {"marker": "D", "markersize": 8, "zorder": 5, "label": label}
            if run.iterations:
                axes.plot(
                    xs,
                    ys,
                    color=colour,
                    label=label,
                    linewidth=1.6,
                    linestyle=DASHES[(number + number // len(COLOURS)) % len(DASHES)],
                )
                face = colour if run.converged else "white"
                mark = {"marker": "o", "markersize": 6, "zorder": 4, "markerfacecolor": face}
            axes.plot(xs[-1:], [max(ys[-1], low)], color=colour, linestyle="None", clip_on=False, **mark)
        for tolerance in tols:
            axes.axhline(tolerance, **THIN)
            place = {"xycoords": ("axes fraction", "data"), "xytext": (4, 3), "color": MUTED, **SMALL_TEXT}
            axes.annotate("tolerance", (0, tolerance), **place)
        axes.set_xlim(left=0)
        axes.legend(loc="best")
    return axes


def _runs(solutions: Any) -> list[tuple[str, Any]]:
    """Solutions with their labels, of a comparison, a mapping, a sequence, or alone."""
    if hasattr(solutions, "entries"):  # of a comparison; a solver that failed has no solution
        done = [entry for entry in solutions.entries if entry.solution is not None]
        alone = len({entry.problem for entry in done}) == 1
        return [
            (entry.solver if alone else f"{entry.problem}, {entry.solver}", entry.solution) for entry in done
        ]
    if isinstance(solutions, Mapping):
        return [(str(name), solution) for name, solution in solutions.items()]
    return [
        (solution.solver, solution)
        for solution in ([solutions] if hasattr(solutions, "history") else solutions)
    ]


def _course(run: Any, cost: str) -> tuple[list[float], list[float]]:
    """The costs and the residuals of a run, which end in those of the solution."""
    names = ("iteration" if cost == "iterations" else cost, "residual")
    xs, ys = (run.history[name].tolist() for name in names)
    end = max([float(getattr(run, cost)), *xs[-1:]])
    return (xs, ys) if run.residual is None else ([*xs, end], [*ys, run.residual])


# ---- ridges -----------------------------------------------------------------------------------


def ridge_path(
    path: Any,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw scores, values or coefficients over the ridges of a path.

    Parameters
    ----------
    path : RidgePath or LeastSquaresSolution
        For a result of `linspec.ridge_path` with test rows, the scores on these rows are drawn and the best ridge is
        marked. Without test rows, the values (correlations or eigenvalues) are drawn, which always fall as the ridge
        grows. For least squares with several ridges, the coefficients are drawn.
    names : sequence of str, optional
        For least squares, a name for each coefficient of one ridge. By default the `column_names` of the solution, or
        numbers if it has none.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidProblem
        If the path has a wrong type, or for least squares if the number of `names` is not that of the coefficients of
        one ridge.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
    >>> path = ls.ridge_path(ls.CCA(X[:40], Y[:40], k=1), [0, 1, 10], test=(X[40:], Y[40:]))
    >>> ax = ls.plots.ridge_path(path)
    >>> ax.get_xlabel()
    'ridge'
    """
    if hasattr(path, "solutions"):
        of_path, columns, label = _of_path(path)
        labels = [f"{i + 1}" for i in range(columns.shape[1])]
    else:
        of_path, columns = _of_coefficients(path)
        labels, label = _names(path, names, columns.shape[1]), "coefficient"
    places, order, pairs = _places(of_path)
    named = np.sort(np.argsort(-np.nanmax(np.abs(columns), axis=0), kind="stable")[:NAMED])
    join = "" if pairs else "-"  # pairs have no order: no line joins them
    several = columns.shape[1] > 1
    marks: Any = {"markevery": max(1, len(order) // MARKED), **LINE}
    with axes_for(ax, (5.2 + WIDTH * max(len(labels[i]) for i in named), 3.8)) as axes:
        for number, i in enumerate(named):
            style: Any = {"color": COLOURS[number], "label": labels[i] if several else "_", **marks}
            axes.plot(places[order], columns[order, i], MARKERS[number] + join, **style)
        unnamed = np.delete(columns[order], named, axis=1)
        if unnamed.size:
            grey = axes.plot(places[order], unnamed, f".{join}", **FAINT)
            grey[0].set_label(f"{len(grey)} smaller")
        if label == "coefficient":
            axes.axhline(0, color=MUTED, linewidth=0.8)
        elif path.totals is not None:
            with contextlib.suppress(InvalidProblem):  # test rows that say nothing choose no ridge
                best = path.best
                words = pairs[best] if pairs else f"{places[best]:g}"
                _mark(axes, places[best], f"best: {words}", right=places[best] <= np.median(places))
        elif np.min(columns) >= 0:
            axes.set_ylim(bottom=0)
        if several:
            legend_beside(axes, "" if label == "coefficient" else "number")
        axes.set_ylabel(label)
        _ridge_axis(axes, places, pairs)
    return axes


def _of_path(path: Any) -> tuple[Sequence[Any], HostArray, str]:
    """The ridges of a path, an array with a column for each line to draw, and the label of the values."""
    layout = type(path.solutions[0]).layout
    if path.totals is not None:
        return path.ridges, np.asarray(path.totals)[:, None], f"{layout.score}, test rows"
    return path.ridges, values_along(path.solutions), f"{layout.value_label}, fitted rows"


def _of_coefficients(solution: Any) -> tuple[Sequence[Any], HostArray]:
    if not getattr(solution, "path", False):
        raise InvalidProblem(
            "ridge_path draws a path of linspec.ridge_path, or a solution of least squares with several ridges; got "
            f"{type(solution).__name__}."
        )
    x = numbers(solution.x)
    return solution.ridge, x.reshape(len(x), -1)


def _names(solution: Any, names: Sequence[str] | None, count: int) -> list[str]:
    columns = getattr(solution, "column_names", None) or {}
    known, sides = columns.get("A"), columns.get("B")
    if names is None and known is not None:
        many = count // len(known)  # coefficients are counted by columns of A, then by right-hand sides
        names = known if many == 1 else [f"{a}, {b}" for a in known for b in sides or range(many)]
    return names_of(range(count) if names is None else names, count, "coefficients")


def cross_validation(result: Any, *, folds: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the scores of cross-validation over the ridge, with a line for each k; over k if there is only one ridge.

    Parameters
    ----------
    result : object
        A result of `linspec.cross_validate`, or an object with the same attributes: `scores` of shape (splits,
        ridges, ks), `mean` and `standard_error` of shape (ridges, ks), `ridges`, `ks`, `label`, `best` and
        `one_standard_error`.
    folds : bool, default True
        Whether to draw the scores of the splits as thin lines behind the line of their mean; only if there is one
        such line.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Means are drawn with bars of one standard error. Lines mark the best setting, and the simplest setting within
        one standard error of the best.

    Raises
    ------
    InvalidProblem
        If the result has no scores.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> validation = ls.cross_validate(ls.CCA(X, Y, k=2), ridges=[1.0, 10.0], rng=0)
    >>> axes = ls.plots.cross_validation(validation)
    >>> axes.get_xscale()
    'log'
    """
    if not hasattr(result, "ks"):
        raise InvalidProblem(
            f"cross_validation draws the scores of all settings and splits; got {type(result).__name__}."
        )
    over_k = len(result.ridges) == 1 and (len(result.ks) > 1 or result.ridges[0] is None)
    scores, mean, error = (np.asarray(block) for block in (result.scores, result.mean, result.standard_error))
    (places, order, pairs), lines = _places(result.ridges), result.ks
    if over_k:
        scores, mean, error = scores.transpose(0, 2, 1), mean.T, error.T
        places, order, lines = np.asarray(result.ks, dtype=float), np.argsort(result.ks), result.ridges
    xs, join = places[order], "" if pairs and not over_k else "-"
    with axes_for(ax, (5.2, 3.8)) as axes:
        if folds and len(lines) == 1 and len(scores) > 1:
            splits = axes.plot(xs, scores[:, order, 0].T, color=MUTED, linewidth=0.6, alpha=0.5)
            splits[0].set_label("one split")
        for i, line in enumerate(lines):
            number = i % len(COLOURS)
            style: Any = {"color": COLOURS[number], "elinewidth": 0.9, "capsize": 2, **LINE}
            style["label"] = "mean" if len(lines) == 1 else f"k = {line}"
            bars = error[order, i] if np.isfinite(error).any() else None
            form = MARKERS[number] + join
            axes.errorbar(xs, mean[order, i], yerr=bars, fmt=form, **style)
        _mark_settings(axes, places, result, over_k=over_k)
        axes.set_ylabel(result.label + ", held-out rows" * (getattr(result, "method", "") != "gcv"))
        if len(lines) > 1 or len(scores) > 1:
            legend_beside(axes)
        if over_k:
            axes.set_xlabel("k")
            axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        else:
            _ridge_axis(axes, places, pairs)
    return axes


def _mark_settings(axes: Axes, places: HostArray, result: Any, *, over_k: bool) -> None:
    """Mark by lines the best setting, and the simplest setting within one standard error of the best."""
    chosen, several = {"best": result.best}, not over_k and len(result.ks) > 1
    with contextlib.suppress(MissingCapability):  # one split has no standard error
        chosen["within 1 s.e."] = result.one_standard_error
    for text, setting in chosen.items():
        x = float(places[result.ks.index(setting.k) if over_k else result.ridges.index(setting.ridge)])
        _mark(axes, x, text + f", k = {setting.k}" * several, right=text != "best")


# ---- axes of ridges ---------------------------------------------------------------------------


def _mark(axes: Axes, x: float, text: str, *, right: bool) -> None:
    """Draw a vertical line at the abscissa x, with text at its top."""
    axes.axvline(x, zorder=1, **THIN)
    side: Any = {"xytext": (4 if right else -4, -2), "ha": "left" if right else "right", "va": "bottom"}
    place: Any = {"xycoords": ("data", "axes fraction"), "color": MUTED, **SMALL_TEXT}
    axes.annotate(text, (x, 1.02), annotation_clip=False, **side, **place)


def _places(ridges: Sequence[Any]) -> tuple[HostArray, HostArray, list[str]]:
    """Abscissae of ridges, their order, and their names if some ridge is a pair of different numbers.

    The abscissae are the ridges, or the positions 0, 1, … of pairs.
    """
    values = [np.atleast_1d(np.asarray(ridge, dtype=float)) for ridge in ridges]
    order = np.argsort([value.sum() for value in values], kind="stable")
    if all(np.ptp(value) == 0 for value in values):
        return np.array([value[0] for value in values]), order, []
    pairs = [", ".join(f"{number:g}" for number in value) for value in values]
    return np.argsort(order).astype(float), order, [f"({pair})" for pair in pairs]


def _ridge_axis(axes: Axes, places: HostArray, pairs: list[str]) -> None:
    """Set up the horizontal axis: logarithmic, linear from 0 to the smallest positive ridge; or names of pairs."""
    axes.set_xlabel("ridge of X and of Y" if pairs else "ridge")
    if pairs:
        axes.set_xticks(places, pairs)
    elif places.min() > 0:
        axes.set_xscale("log")
    else:
        least = min(places[places > 0], default=1.0)
        axes.set_xscale("symlog", linthresh=least)
        axes.set_xlim(left=-0.3 * least)
    if not pairs:
        axes.xaxis.set_major_formatter("{x:g}")
