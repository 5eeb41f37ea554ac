"""Convergence plots: residuals and scores of runs over the cost of the runs.

Residuals are drawn on a logarithmic axis. A direct solver has no history, only a final residual, drawn as a diamond
at the cost of the run. If this residual is far below those of other solvers, the diamond is drawn on the lower edge
with the residual written beside it, so that rounding errors do not compress the rest of the plot. The curve of an
iterative solver ends in a point, which is filled if the run converged. A final point far below the tolerance is drawn
on the lower edge, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linspec import registry
from linspec.errors import InvalidOption, InvalidProblem, LinspecError, shown
from linspec.plots.style import COLOURS, MUTED, THIN, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COSTS",
    "COST_WORDS",
    "Curve",
    "closed",
    "convergence",
    "cost_of",
    "dot_panel",
    "legend_below",
    "residual_panel",
    "score_panel",
]

COST_WORDS = {"passes": "passes over the data", "seconds": "seconds", "iterations": "iterations"}

COSTS = tuple(COST_WORDS)
"""The costs that the horizontal axis can show."""

PERCENT = 100.0

LEGEND_COLUMNS = 7
"""Largest number of columns in a legend."""

FEW = 15
"""Largest number of points for which each point of a curve is marked."""

DASHES = ("-", (0, (6, 2)), (0, (6, 2, 1.5, 2)), (0, (1.5, 1.5)))
"""Line styles of successive runs, so that lines can be distinguished in black and white."""

FAR = 1e-8
"""A residual below this fraction of the tolerance is drawn on the lower edge, with its value as text."""

WIDE = 30
"""The cost axis is logarithmic if the ratio of the largest to the smallest cost is above this."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The data of one run in a plot.

    Attributes
    ----------
    label, colour : str
    cost : str
        The unit of the abscissae, one of `COSTS`.
    residuals, scores : (sequence of float, sequence of float)
        Costs and values over the course of the run; the last entries belong to the solution.
    end : float
        The total cost.
    residual, tol : float or None
        The residual of the solution, and the requested tolerance.
    direct, converged : bool
    """

    label: str
    colour: str
    cost: str
    residuals: tuple[Sequence[float], Sequence[float]]
    end: float
    residual: float | None
    scores: tuple[Sequence[float], Sequence[float]] = ((), ())
    tol: float | None = None
    direct: bool = False
    converged: bool = True


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
    if against is not None and against not in COSTS:
        raise InvalidOption(f"against must be one of {', '.join(COSTS)}; got {shown(against)}.")
    if hasattr(solutions, "entries"):  # of a comparison; a solver that failed has no solution
        done = [each for each in solutions.entries if each.solution is not None]
        alone = len({each.problem for each in done}) == 1
        solutions = {
            each.solver if alone else f"{each.problem}, {each.solver}": each.solution for each in done
        }
    if isinstance(solutions, Mapping):
        runs = [(str(name), solution) for name, solution in solutions.items()]
    else:
        given = [solutions] if hasattr(solutions, "history") else list(solutions)
        runs = [(solution.solver, solution) for solution in given]
    if not runs:
        raise InvalidProblem("convergence draws at least one solution; got none.")
    columns = ("iteration", "passes", "seconds", "residual")
    ways = [{name: solution.history[name].tolist() for name in columns} for _, solution in runs]
    cost = cost_of(ways, against)
    curves = [
        _curve_of(label, number, cost, solution, way, tol)
        for number, ((label, solution), way) in enumerate(zip(runs, ways, strict=True))
    ]
    with axes_for(ax, (5.4, 3.8)) as axes:
        residual_panel(axes, curves)
        axes.legend(loc="best")
    return axes


def cost_of(ways: Sequence[Mapping[str, Sequence[float]]], against: str | None) -> str:
    """The cost to draw: `against`; if None, passes, or seconds if some run iterates without reading data again."""
    still = any(len(set(way["passes"])) == 1 < len(way["passes"]) for way in ways)
    return against or ("seconds" if still else "passes")


def closed(
    way: Mapping[str, Sequence[float]], name: str, cost: str, end: float, last: float | None
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the costs and the values `name` of a history, followed by the total cost `end` and the final value `last`.

    If `last` is None, neither `end` nor `last` is appended.
    """
    xs = list(way.get("iteration" if cost == "iterations" else cost, ()))
    ys = list(way.get(name, ()))
    return (xs, ys) if last is None else ([*xs, max([end, *xs[-1:]])], [*ys, last])


def _curve_of(
    label: str, number: int, cost: str, solution: Any, way: Mapping[str, Sequence[float]], tol: float | None
) -> Curve:
    """Return the residual curve of a solution. Its last point is `solution.residual`, that of the returned arrays.

    The curve of a solver with the trait "approximate" has only this point.
    """
    end = float(getattr(solution, cost))
    own = {} if _judges_itself(solution.solver) else way
    return Curve(
        label=label,
        colour=COLOURS[number % len(COLOURS)],
        cost=cost,
        residuals=closed(own, "residual", cost, end, solution.residual),
        end=end,
        residual=solution.residual,
        tol=getattr(solution, "tol", None) if tol is None else tol,
        direct=not solution.iterations,
        converged=solution.converged,
    )


def _judges_itself(solver: str) -> bool:
    """Whether a solver has the trait "approximate", for some problem.

    The residuals in the history of such a solver may be defined in another way than `solution.residual`, which belongs
    to the returned arrays.
    """
    for problem in registry.problems():
        try:
            if "approximate" in registry.get_spec("solver", solver, problem).traits:
                return True
        except LinspecError:  # the problem has no such solver
            continue
    return False


# ---- panels -----------------------------------------------------------------------------------


def residual_panel(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw residuals on a logarithmic axis, with the tolerance."""
    low, high = _residual_range(curves)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    for number, curve in enumerate(curves):
        xs, ys = curve.residuals
        if curve.direct:
            _diamond(axes, curve, ys[-1], low)
        else:
            axes.plot(xs, ys, color=curve.colour, label=curve.label, **_line_style(xs, number))
            _end(axes, curve, xs[-1], max(ys[-1], low))
            _written(axes, curve, ys[-1], low)
    for tol in {curve.tol for curve in curves if curve.tol and not curve.direct}:
        axes.axhline(tol, **THIN)
        place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate("tolerance", (0, tol), xytext=(4, 3), fontsize=8, color=MUTED, **place)
    axes.set_ylabel("residual")
    _cost_axis(axes, curves)


def score_panel(axes: Axes, curves: Sequence[Curve], best: float, label: str) -> None:
    """Draw scores in per cent of the score `best`."""
    lowest = PERCENT
    for number, curve in enumerate(curves):
        xs, ys = curve.scores
        shares = [PERCENT * y / best for y in ys] if best else []
        if not shares:
            continue
        lowest = min(lowest, *shares)
        if curve.direct:
            axes.plot(xs[-1:], shares[-1:], **_diamond_style(curve))
        else:
            axes.plot(xs, shares, color=curve.colour, **_line_style(xs, number))
            _end(axes, curve, xs[-1], shares[-1])
    axes.axhline(PERCENT, **THIN)
    room = max(PERCENT - lowest, 0.5)
    axes.set_ylim(PERCENT - 1.08 * room, PERCENT + 0.06 * room)
    axes.set_ylabel(label)
    _cost_axis(axes, curves)


def dot_panel(
    axes: Axes,
    runs: Sequence[Any],
    values: Sequence[float | None],
    colours: Sequence[str],
    label: str,
    *,
    best: bool = False,
) -> None:
    """Draw one number for each run, each in a row of its own; `best` adds a vertical line at the largest."""
    there = [value for value in values if value is not None and 0 < value < math.inf]
    if not best and there and max(there) > WIDE * min(there):
        axes.set_xscale("log")
    else:
        axes.ticklabel_format(axis="x", useOffset=False)
        axes.locator_params(axis="x", nbins=4)
    named: set[str] = set()
    for place, (run, value, colour) in enumerate(zip(runs, values, colours, strict=True)):
        if value is None or not math.isfinite(value):
            continue
        if run.solver not in named:  # filled in the legend, even if the first run did not converge
            axes.scatter([], [], s=36, color=colour, label=run.solver)
            named.add(run.solver)
        fill = colour if run.converged else "white"
        axes.plot([value], [place], "o", markersize=6, color=colour, markerfacecolor=fill)
    if best:
        axes.axvline(max(value for value in values if value is not None), **THIN)
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.margins(x=0.1)


def legend_below(figure: Any, axes: Axes) -> None:
    """Add one legend below all panels of a figure, with an explanation of the marks."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    style: dict[str, Any] = {"linestyle": "", "color": MUTED, "markersize": 6}
    handles += [Line2D([], [], marker="o", **style), Line2D([], [], marker="o", fillstyle="none", **style)]
    labels += ["within the tolerance", "ended above it"]
    rows = 1 + (len(labels) - 1) // LEGEND_COLUMNS
    columns = -(-len(labels) // rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


def _residual_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """Axis limits that show the residuals of the iterative solvers and the tolerance."""
    seen = [y for curve in curves if not curve.direct for y in curve.residuals[1]]
    seen += [curve.tol for curve in curves if curve.tol and not curve.direct]
    seen = [y for y in seen if 0 < y < float("inf")]
    if not seen:
        seen = [max(curve.residual or 0.0, 1e-17) for curve in curves] or [1.0]
    tols = [curve.tol for curve in curves if curve.tol and not curve.direct]
    return max(min(seen) / 5, FAR * min(tols, default=0.0)), max(seen) * 3


def _diamond(axes: Axes, curve: Curve, residual: float, low: float) -> None:
    """Draw the diamond of a direct solver at its residual, or on the lower edge with the residual as text."""
    axes.plot([curve.end], [max(residual, low)], label=curve.label, **_diamond_style(curve))
    _written(axes, curve, residual, low)


def _written(axes: Axes, curve: Curve, residual: float, low: float) -> None:
    """If a residual is below the lower edge of the axes, write it there as text, above neighbouring texts."""
    if residual < low:
        written = sum(getattr(text, "xy", (0, None))[1] == low for text in axes.texts)
        place: Any = {"xytext": (7, 5 + 10 * (written % 3)), "textcoords": "offset points"}
        axes.annotate(f"{residual:.0e}", (curve.end, low), fontsize=8, color=curve.colour, **place)


def _line_style(xs: Sequence[float], number: int) -> dict[str, Any]:
    """The style of a line: dashes chosen by its number, and marks if the line has few points.

    When all colours have been used, the dashes are shifted, so that many lines remain distinct.
    """
    few = len(xs) <= FEW
    dashes = DASHES[(number + number // len(COLOURS)) % len(DASHES)]
    return {"linewidth": 1.6, "linestyle": dashes, "marker": "." if few else "", "markersize": 6}


def _diamond_style(curve: Curve) -> dict[str, Any]:
    return {
        "marker": "D",
        "markersize": 8,
        "linestyle": "",
        "color": curve.colour,
        "clip_on": False,
        "zorder": 5,
    }


def _end(axes: Axes, curve: Curve, x: float, y: float) -> None:
    """Draw the last point of a curve, filled if the run converged."""
    fill = curve.colour if curve.converged else "white"
    style: Any = {"markersize": 6, "markerfacecolor": fill, "zorder": 4, "clip_on": False}
    axes.plot([x], [y], "o", color=curve.colour, **style)


def _cost_axis(axes: Axes, curves: Sequence[Curve]) -> None:
    """Set up the horizontal axis of costs, logarithmic if costs vary by a large factor."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xlabel(COST_WORDS[curves[0].cost])
    points = [x for curve in curves for x in (*curve.residuals[0][:1], curve.end) if x > 0]
    if curves[0].cost != "iterations" and points and max(points) > WIDE * min(points):
        axes.set_xscale("log")
        wide = max(points) > 10 * WIDE * min(points)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)
