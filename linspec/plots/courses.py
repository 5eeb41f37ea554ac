"""How runs converge: residuals and scores over what they cost.

Residuals are drawn on a logarithmic axis. A direct solver has no way to show, only an end: it is a diamond at its cost.
Where its residual lies far below what the others reach, the diamond sits on the lower edge with the residual written
beside it, so that rounding errors do not squeeze the rest of the picture. The end of other curves is a point, filled
where the run converged. Far below the tolerance, it sits on the edge, too.
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
"""What can be on the horizontal axis."""

PERCENT = 100.0

LEGEND_COLUMNS = 7
"""Entries beside each other in a legend."""

FEW = 15
"""Up to so many points, each is marked."""

DASHES = ("-", (0, (6, 2)), (0, (6, 2, 1.5, 2)), (0, (1.5, 1.5)))
"""Of one run after the other: lines differ in black and white, too."""

FAR = 1e-8
"""Residuals below this share of the tolerance are written, not drawn."""

WIDE = 30
"""From this ratio of the largest to the smallest cost on, the axis is logarithmic."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What is drawn of one run.

    Attributes
    ----------
    label, colour : str
    cost : str
        What the abscissae are, one of `COSTS`.
    residuals, scores : (sequence of float, sequence of float)
        Abscissae and values, the last of which belong to the answer.
    end : float
        The whole cost.
    residual, tol : float or None
        Of the answer, and what was asked for.
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
    """Draw the residuals of one or more runs against what they cost.

    Parameters
    ----------
    solutions : Solution, mapping from str to Solution, or sequence of Solution
        The names of a mapping are the labels; otherwise these are the names of the solvers.
    against : {"passes", "seconds", "iterations"}, optional
        The default is passes; seconds where an iterative solver holds Gram matrices, because its passes stand still.
    tol : float, optional
        A tolerance to draw as a line. The default is that of each run.
    ax : matplotlib.axes.Axes, optional
        Where to draw. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A run ends in a point, filled where it converged; a direct solver is a diamond.

    Raises
    ------
    InvalidProblem
        There are no solutions.
    InvalidOption
        For `against`.
    MissingPackage
        matplotlib is not installed.

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
    """What was asked for; else passes, or seconds where some run iterates without reading the data again."""
    still = any(len(set(way["passes"])) == 1 < len(way["passes"]) for way in ways)
    return against or ("seconds" if still else "passes")


def closed(
    way: Mapping[str, Sequence[float]], name: str, cost: str, end: float, last: float | None
) -> tuple[Sequence[float], Sequence[float]]:
    """What something cost on the way, and what it was there; what belongs to the answer is last."""
    xs = list(way.get("iteration" if cost == "iterations" else cost, ()))
    ys = list(way.get(name, ()))
    return (xs, ys) if last is None else ([*xs, max([end, *xs[-1:]])], [*ys, last])


def _curve_of(
    label: str, number: int, cost: str, solution: Any, way: Mapping[str, Sequence[float]], tol: float | None
) -> Curve:
    """The curve of a solution, the certificate last."""
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
    """Whether the residuals on the way may belong to another law than that of the answer."""
    for problem in registry.problems():
        try:
            if "approximate" in registry.get_spec("solver", solver, problem).traits:
                return True
        except LinspecError:  # the problem has no such solver
            continue
    return False


# ---- panels -----------------------------------------------------------------------------------


def residual_panel(axes: Axes, curves: Sequence[Curve]) -> None:
    """Residuals on a logarithmic axis, with the tolerance."""
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
    """Scores as shares of the best, in per cent."""
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
    """One number of each run, each on a line of its own; where asked, the largest has a line through all."""
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
        if run.solver not in named:  # for the legend: filled, whatever became of the first run
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
    """One legend for all panels, below them, with what the marks mean."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    style: dict[str, Any] = {"linestyle": "", "color": MUTED, "markersize": 6}
    handles += [Line2D([], [], marker="o", **style), Line2D([], [], marker="o", fillstyle="none", **style)]
    labels += ["within the tolerance", "ended above it"]
    rows = 1 + (len(labels) - 1) // LEGEND_COLUMNS
    columns = -(-len(labels) // rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


def _residual_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """The limits that show the iterative solvers' residuals and the tolerance."""
    seen = [y for curve in curves if not curve.direct for y in curve.residuals[1]]
    seen += [curve.tol for curve in curves if curve.tol and not curve.direct]
    seen = [y for y in seen if 0 < y < float("inf")]
    if not seen:
        seen = [max(curve.residual or 0.0, 1e-17) for curve in curves] or [1.0]
    tols = [curve.tol for curve in curves if curve.tol and not curve.direct]
    return max(min(seen) / 5, FAR * min(tols, default=0.0)), max(seen) * 3


def _diamond(axes: Axes, curve: Curve, residual: float, low: float) -> None:
    """A direct solver: at its residual, or on the lower edge with the residual in words."""
    axes.plot([curve.end], [max(residual, low)], label=curve.label, **_diamond_style(curve))
    _written(axes, curve, residual, low)


def _written(axes: Axes, curve: Curve, residual: float, low: float) -> None:
    """A residual below the lower edge, in words."""
    if residual < low:
        place: Any = {"xytext": (7, 5), "textcoords": "offset points"}
        axes.annotate(f"{residual:.0e}", (curve.end, low), fontsize=8, color=curve.colour, **place)


def _line_style(xs: Sequence[float], number: int) -> dict[str, Any]:
    """A line, by its number dashed or not; where it joins a few iterations only, they are marked."""
    few = len(xs) <= FEW
    dashes = DASHES[number % len(DASHES)]
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
    """The end of a curve, filled where it converged."""
    fill = curve.colour if curve.converged else "white"
    style: Any = {"markersize": 6, "markerfacecolor": fill, "zorder": 4, "clip_on": False}
    axes.plot([x], [y], "o", color=curve.colour, **style)


def _cost_axis(axes: Axes, curves: Sequence[Curve]) -> None:
    """Logarithmic where the costs differ much, from the first point to the last."""
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
