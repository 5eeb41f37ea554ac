"""Plots over the ridge: values, scores or coefficients of a path, and the scores of cross-validation.

Problem: show which ridge and which k should be chosen.
Method: the ridge is on a logarithmic axis, with 0 at its left end; pairs of different ridges are drawn side by side.
Means over splits have bars of one standard error. Lines mark the best setting, and the simplest setting within one
standard error of the best.
Source: Breiman, Friedman, Olshen & Stone 1984, Classification and Regression Trees, section 3.4.3 (one standard
error).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidProblem, MissingCapability, shown
from linspec.plots.style import COLOURS, LINE, MARKERS, MUTED, THIN, axes_for, legend_beside, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cross_validation", "ridge_path"]

NAMED = 8
"""Number of lines in a plot, those of the largest values, that get a colour and a name each; others are grey."""

FAINT: dict[str, Any] = {"linewidth": 0.8, "markersize": 2.5, "alpha": 0.5}
"""The style of lines without a name."""

MARKED = 10
"""Approximate number of markers on a named line, so that lines can be distinguished in black and white."""

WIDTH = 0.07
"""Width of a letter in a legend, in inches."""

MANY_DIGITS = 4
"""A power of ten is written as a power if the magnitude of its exponent is at least this."""

ZERO = 10.0
"""The ridge 0 is drawn at the smallest positive ridge divided by this factor."""


def ridge_path(
    path: Any,
    *,
    ridges: Sequence[float] | None = None,
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
    ridges : sequence of float, optional
        For least squares, the ridges in the order of the problem; by default those that the solution holds.
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
        If the path has a wrong type. For least squares also if `ridges` is missing or has another length than the
        number of ridges of the problem, or if the number of `names` is not that of the coefficients of one ridge.
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
        given, columns, label = _of_path(path)
        labels: Sequence[str] = [f"{i + 1}" for i in range(columns.shape[1])]
        scored = path.totals is not None
    else:
        given, columns = _of_coefficients(path, ridges)
        labels, label, scored = _names(path, names, columns.shape[1]), "coefficient", False
    xs, order = _places(given)
    named = np.sort(np.argsort(-np.nanmax(np.abs(columns), axis=0), kind="stable")[:NAMED])
    longest = max(len(labels[i]) for i in named)
    join = "" if _pairs(given) else "-"  # pairs have no order: no line joins them
    apart = max(1, len(order) // MARKED)
    with axes_for(ax, (5.2 + WIDTH * longest, 3.8)) as axes:
        for number, i in enumerate(named):
            form, colour = f"{MARKERS[number]}{join}", COLOURS[number]
            name = labels[i] if columns.shape[1] > 1 else "_"
            axes.plot(xs[order], columns[order, i], form, color=colour, label=name, markevery=apart, **LINE)
        others = np.delete(columns, named, axis=1)
        for number, column in enumerate(others.T):
            name = f"{len(others.T)} smaller" if number == 0 else "_"
            axes.plot(xs[order], column[order], f".{join}", color=MUTED, label=name, zorder=1, **FAINT)
        if scored:
            with contextlib.suppress(InvalidProblem):  # test rows that say nothing choose no ridge
                best = path.best
                words = _in_words(given[best], in_full=_pairs(given))
                _mark(axes, xs[best], f"best: {words}", right=bool(xs[best] <= np.median(xs)))
        elif label == "coefficient":
            axes.axhline(0, color=MUTED, linewidth=0.8)
        elif np.min(columns) >= 0:
            axes.set_ylim(bottom=0)
        if columns.shape[1] > 1:
            legend_beside(axes, "" if label == "coefficient" else "number")
        axes.set_ylabel(label)
        _ridge_axis(axes, given, xs)
    return axes


def _of_path(path: Any) -> tuple[Sequence[Any], HostArray, str]:
    """The ridges of a path, an array with a column for each line to draw, and the label of the values."""
    cls = type(path.solutions[0])
    if path.totals is not None:
        return path.ridges, np.asarray(path.totals)[:, None], f"{cls.layout.score}, test rows"
    values = [np.asarray(getattr(solution, cls.layout.value)) for solution in path.solutions]
    columns = np.full((len(values), max(map(len, values))), np.nan)  # some ridges may have fewer
    for row, found in zip(columns, values, strict=True):
        row[: len(found)] = found
    return path.ridges, columns, f"{cls.layout.value_label}, fitted rows"


def _of_coefficients(solution: Any, ridges: Sequence[float] | None) -> tuple[Sequence[Any], HostArray]:
    if not getattr(solution, "path", False):
        raise InvalidProblem(
            "ridge_path draws a path of linspec.ridge_path, or a solution of least squares with several ridges; got "
            f"{type(solution).__name__}."
        )
    x = np.asarray(to_host(solution.x), dtype=np.float64)
    held = solution.ridge if isinstance(solution.ridge, tuple) else None
    ridges = held if ridges is None else ridges
    count = 0 if ridges is None else len(ridges)
    if ridges is None or count != len(x):
        raise InvalidProblem(
            f"ridges must have the {len(x)} ridges of the problem; got {count or shown(ridges)}. Pass "
            "ridges=problem.ridges."
        )
    return list(ridges), x.reshape(len(x), -1)


def _names(solution: Any, names: Sequence[str] | None, count: int) -> list[str]:
    columns = getattr(solution, "column_names", None) or {}
    known, sides = columns.get("A"), columns.get("B")
    if names is None and known is not None:
        many = count // len(known)  # coefficients are counted by columns of A, then by right-hand sides
        names = known if many == 1 else [f"{a}, {b}" for a in known for b in sides or range(many)]
    labels = [str(name) for name in (range(count) if names is None else names)]
    if len(labels) != count:
        raise InvalidProblem(f"names must have one for each of the {count} coefficients; got {len(labels)}.")
    return labels


# ---- cross-validation -------------------------------------------------------------------------


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
    >>> found = ls.cross_validate(ls.CCA(X, Y, k=2), ridges=[1.0, 10.0], rng=0)
    >>> axes = ls.plots.cross_validation(found)
    >>> axes.get_xscale()
    'log'
    """
    if not all(
        hasattr(result, name) for name in ("scores", "mean", "standard_error", "ridges", "ks", "best")
    ):
        raise InvalidProblem(
            f"cross_validation draws the scores of all settings and splits; got {type(result).__name__}."
        )
    over_k = len(result.ridges) == 1 and len(result.ks) > 1
    scores, mean, error = (np.asarray(block) for block in (result.scores, result.mean, result.standard_error))
    if over_k:
        scores, mean, error = scores.transpose(0, 2, 1), mean.T, error.T
        xs, order = np.asarray(result.ks, dtype=float), np.argsort(result.ks)
        lines: Sequence[Any] = result.ridges
    else:
        (xs, order), lines = _places(result.ridges), result.ks
    with axes_for(ax, (5.2, 3.8)) as axes:
        if folds and len(lines) == 1 and len(scores) > 1:
            for number, split in enumerate(scores[:, order, 0]):
                line_label = "one split" if number == 0 else "_"
                axes.plot(xs[order], split, color=MUTED, linewidth=0.6, alpha=0.5, label=line_label)
        for i, line in enumerate(lines):
            colour = COLOURS[i % len(COLOURS)]
            line_label = "mean" if len(lines) == 1 else f"k = {line}"
            bars = error[order, i] if np.isfinite(error).any() else None
            style: dict[str, Any] = {"elinewidth": 0.9, "capsize": 2, **LINE}
            marker = MARKERS[i % len(MARKERS)]
            form = marker if not over_k and _pairs(result.ridges) else f"{marker}-"
            axes.errorbar(
                xs[order], mean[order, i], yerr=bars, fmt=form, color=colour, label=line_label, **style
            )
        _settings(axes, result, xs, over_k=over_k)
        axes.set_ylabel(result.label + ", held-out rows" * (getattr(result, "method", "") != "gcv"))
        if len(lines) > 1 or len(scores) > 1:
            legend_beside(axes)
        if over_k:
            axes.set_xlabel("k")
            whole_numbers(axes)
        else:
            _ridge_axis(axes, result.ridges, xs)
    return axes


def _settings(axes: Axes, result: Any, xs: HostArray, *, over_k: bool) -> None:
    """Mark by lines the best setting, and the simplest setting within one standard error of the best."""

    def place(setting: Any) -> float:
        at = result.ks.index(setting.k) if over_k else result.ridges.index(setting.ridge)
        return float(xs[at])

    def words(setting: Any) -> str:
        return f", k = {setting.k}" if not over_k and len(result.ks) > 1 else ""

    best = result.best
    try:
        simple = result.one_standard_error
    except MissingCapability:  # one split has no standard error
        simple = best
    x, y = place(best), place(simple)
    if (x, words(best)) == (y, words(simple)):
        _mark(axes, x, f"best{words(best)}", right=bool(x <= np.median(xs)))
    elif x == y:
        text = f"best{words(best)}; within 1 s.e.{words(simple)}"
        _mark(axes, x, text, right=bool(x <= np.median(xs)))
    else:
        _mark(axes, x, f"best{words(best)}", right=x > y)
        _mark(axes, y, f"within 1 s.e.{words(simple)}", right=y > x)


# ---- axes -------------------------------------------------------------------------------------


def _places(ridges: Sequence[Any]) -> tuple[HostArray, HostArray]:
    """Abscissae of ridges, and the order of the ridges from the smallest to the largest.

    The abscissae are the ridges, or the positions 0, 1, … if some ridge is a pair of different numbers.
    """
    sizes: HostArray = np.array([float(np.sum(ridge)) for ridge in ridges])
    order = np.argsort(sizes, kind="stable")
    if _pairs(ridges):
        return np.argsort(order).astype(float), order
    xs: HostArray = np.array([_distinct(ridge)[0] for ridge in ridges], dtype=float)
    positive = xs[xs > 0]
    xs[xs == 0] = positive.min() / ZERO if len(positive) else 1.0
    return xs, order


def _distinct(ridge: Any) -> list[float]:
    return sorted({float(value) for value in np.atleast_1d(np.asarray(ridge, dtype=float))})


def _pairs(ridges: Sequence[Any]) -> bool:
    """Whether some ridge is a pair of different numbers."""
    return any(len(_distinct(ridge)) > 1 for ridge in ridges)


def _in_words(ridge: Any, *, in_full: bool) -> str:
    """Format a ridge: as a pair of numbers if `in_full`, otherwise only its first number."""
    found = np.atleast_1d(np.asarray(ridge, dtype=float)).tolist()
    return f"{found[0]:g}" if not in_full else f"({', '.join(f'{value:g}' for value in found)})"


def _ridge_axis(axes: Axes, ridges: Sequence[Any], xs: HostArray) -> None:
    axes.set_xlabel("ridge")
    if _pairs(ridges):
        axes.set_xticks(xs, [_in_words(ridge, in_full=True) for ridge in ridges])
        axes.set_xlabel("ridge of X and of Y")
        return
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    zero = next((x for x, ridge in zip(xs, ridges, strict=True) if not np.any(ridge)), None)
    wide = xs.max() > 300 * xs.min()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=9))
    axes.xaxis.set_minor_locator(NullLocator())

    def tick_label(x: float, _: Any = None) -> str:
        if zero is not None and x < 2 * zero:
            return "0" if abs(x / zero - 1) < 1e-6 else ""  # rounding of the axis
        power = round(math.log10(x))
        return f"$10^{{{power}}}$" if abs(power) >= MANY_DIGITS and x == 10.0**power else f"{x:g}"

    axes.xaxis.set_major_formatter(FuncFormatter(tick_label))
    if zero is not None:
        ticks = [zero, *(x for x in axes.get_xticks() if 2 * zero < x <= 1.01 * xs.max())]
        axes.set_xticks(ticks)


def _mark(axes: Axes, x: float, text: str, *, right: bool = True) -> None:
    """Draw a vertical line at the abscissa x, with text at its top."""
    axes.axvline(x, zorder=1, **THIN)
    place: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    side: Any = {"xytext": (4 if right else -4, -2), "ha": "left" if right else "right", "va": "bottom"}
    axes.annotate(text, (x, 1.02), fontsize=8, color=MUTED, annotation_clip=False, **place, **side)
