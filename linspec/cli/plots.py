"""Pictures: how runs converge, drawn by matplotlib where it is installed.

Residuals are drawn on a logarithmic axis over what they cost. A direct solver has no way to show, only an end: it
is a diamond at its cost; where its residual lies far below what the others reach, the diamond sits on the lower
edge with the residual written beside it, so that rounding errors do not squeeze the rest of the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import IO, Any

from linspec.cli.failures import install_hint
from linspec.cli.kinds import Kind
from linspec.cli.measured import Outcome
from linspec.cli.outputs import Target, check_room, check_target
from linspec.cli.tables import status_in_words

__all__ = ["COSTS", "check_plot", "draw_comparison", "draw_run", "save"]

COSTS = ("passes", "seconds", "iterations")
"""What can be on the horizontal axis."""

SUFFIXES = (".png", ".pdf", ".svg")

PICTURE_BYTES = 2**16
"""What a picture takes, about."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#7F7F7F")
"""Distinguishable with every kind of colour vision (Okabe & Ito 2008, and two more)."""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 150,
}
PERCENT = 100.0

LEGEND_COLUMNS = 7
"""Entries beside each other in a legend."""

FEW = 15
"""Up to so many points, each is marked."""


def check_plot(
    option: str, name: str | None, *, inputs: Iterable[str] = (), others: Iterable[Target | None] = ()
) -> Target | None:
    """Where to draw, once it is sure that one can; a Failure names the extra that is missing."""
    target = check_target(option, name, SUFFIXES, inputs=inputs, others=others)
    if target is not None:
        if not can_draw():
            raise install_hint(f"{option} needs matplotlib", "cli")
        check_room(target, PICTURE_BYTES)
    return target


def save(figure: Any, stream: IO[bytes], suffix: str) -> None:
    """Write a figure in the format of a suffix."""
    picture = BytesIO()
    figure.savefig(picture, format=suffix.removeprefix("."))
    stream.write(picture.getvalue())  # here a full disk says that it is full


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    try:
        import_module("matplotlib.figure")
    except ImportError:
        return False
    return True


def draw_comparison(
    kind: Kind,
    outcomes: Sequence[Outcome],
    against: str | None,
    title: str,
    stream: IO[bytes],
    suffix: str,
) -> None:
    """Draw residuals, and scores where the problem has one, of several solvers against their cost."""
    curves = curves_of(outcomes, against)
    scored = kind.score is not None and any(curve.outcome.score is not None for curve in curves)
    with new_figure((10.5 if scored else 6.5, 4.6)) as figure:
        axes = figure.subplots(1, 2 if scored else 1, squeeze=False)[0]
        residual_panel(axes[0], curves)
        if scored and kind.score:
            best = max(outcome.score or 0.0 for outcome in outcomes)
            score_panel(axes[1], curves, best, f"{kind.score.name}, % of the best")
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
        legend_below(figure, axes[0])
        save(figure, stream, suffix)


def draw_run(kind: Kind, solution: Any, outcome: Outcome, stream: IO[bytes], suffix: str) -> None:
    """Draw one run: its residuals, and the numbers of its answer where they are a decreasing list."""
    cls = type(solution)
    listed = (cls.value_field, cls.value_label, cls.ceiling) if cls.value_field else None
    converging = listed is None or not outcome.direct
    panels = int(converging) + int(listed is not None)
    with new_figure((5.2 * panels, 4.2)) as figure:
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        if converging:
            residual_panel(axes.pop(0), curves_of([outcome], None))
        if listed is not None:
            _number_panel(axes[0], getattr(solution, listed[0]), listed[1], listed[2])
        words = status_in_words(outcome.status)
        figure.suptitle(f"{kind.name} by {outcome.solver}: {words}", fontsize=11, x=0.01, ha="left")
        save(figure, stream, suffix)


# ---- curves -----------------------------------------------------------------------------------


@dataclass
class Curve:
    """What is drawn of one solver.

    Attributes
    ----------
    outcome : Outcome
        Where it comes from.
    colour : str
        Its own.
    cost : str
        What the abscissae are.
    """

    outcome: Outcome
    colour: str
    cost: str

    @property
    def end(self) -> float:
        """The whole cost."""
        return float(getattr(self.outcome, self.cost) or 0.0)

    @property
    def residuals(self) -> tuple[list[float], list[float]]:
        """Abscissae and residuals by the problem's law, the certificate last."""
        own = {} if self.outcome.approximate else self.outcome.history
        table = self.outcome.scores if self.outcome.approximate and self.outcome.scores else own
        return self._closed(table, "residual", self.outcome.residual)

    @property
    def scores(self) -> tuple[list[float], list[float]]:
        """Abscissae and scores, that of the solution last."""
        return self._closed(self.outcome.scores, "score", self.outcome.score)

    def _closed(self, table: dict[str, list[float]], name: str, last: float | None) -> tuple[Any, Any]:
        column = "iteration" if self.cost == "iterations" else self.cost
        xs, ys = list(table.get(column, ())), list(table.get(name, ()))
        if last is not None:
            xs, ys = [*xs, max([self.end, *xs[-1:]])], [*ys, last]
        return xs, ys


def curves_of(outcomes: Sequence[Outcome], against: str | None) -> list[Curve]:
    """A curve for each solver that gave a solution; the cost is chosen where none is asked for.

    Passes are the natural cost, unless an iterative solver holds Gram matrices: its passes stand still
    while it works, and seconds are compared instead.
    """
    done = [(number, outcome) for number, outcome in enumerate(outcomes) if not outcome.failed]
    still = any(
        len(set(outcome.history["passes"])) == 1 < len(outcome.history["passes"])
        for _, outcome in done
        if outcome.history
    )
    cost = against or ("seconds" if still else "passes")
    return [Curve(outcome, COLOURS[number % len(COLOURS)], cost) for number, outcome in done]


# ---- panels -----------------------------------------------------------------------------------


def residual_panel(axes: Any, curves: Sequence[Curve]) -> None:
    """Residuals on a logarithmic axis, with the tolerance."""
    low, high = _residual_range(curves)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    for curve in curves:
        xs, ys = curve.residuals
        if curve.outcome.direct:
            _diamond(axes, curve, ys[-1], low)
        else:
            axes.plot(xs, ys, color=curve.colour, label=curve.outcome.solver, **_line_style(xs))
            _end(axes, curve, xs[-1], ys[-1])
    tols = {curve.outcome.tol for curve in curves if curve.outcome.tol and not curve.outcome.direct}
    for tol in tols:
        axes.axhline(tol, color="#555555", linewidth=0.9, linestyle=(0, (4, 3)))
        place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate("tolerance", (0, tol), xytext=(4, 3), fontsize=8, color="#555555", **place)
    axes.set_ylabel("residual")
    _cost_axis(axes, curves)


def score_panel(axes: Any, curves: Sequence[Curve], best: float, label: str) -> None:
    """Scores as shares of the best, in per cent."""
    lowest = PERCENT
    for curve in curves:
        xs, ys = curve.scores
        shares = [PERCENT * y / best for y in ys] if best else []
        if not shares:
            continue
        lowest = min(lowest, *shares)
        if curve.outcome.direct:
            axes.plot(xs[-1:], shares[-1:], **_diamond_style(curve))
        else:
            axes.plot(xs, shares, color=curve.colour, **_line_style(xs))
            _end(axes, curve, xs[-1], shares[-1])
    axes.axhline(PERCENT, color="#555555", linewidth=0.9, linestyle=(0, (4, 3)))
    room = max(PERCENT - lowest, 0.5)
    axes.set_ylim(PERCENT - 1.08 * room, PERCENT + 0.06 * room)
    axes.set_ylabel(label)
    _cost_axis(axes, curves)


def legend_below(figure: Any, axes: Any) -> None:
    """One legend for all panels, below them, with what the marks mean."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    style: dict[str, Any] = {"linestyle": "", "color": "#555555", "markersize": 6}
    handles += [Line2D([], [], marker="o", **style), Line2D([], [], marker="o", fillstyle="none", **style)]
    labels += ["within the tolerance", "ended above it"]
    rows = 1 + (len(labels) - 1) // LEGEND_COLUMNS
    columns = -(-len(labels) // rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


def _number_panel(axes: Any, values: Any, label: str, top: float | None) -> None:
    from matplotlib.ticker import MaxNLocator

    places = range(1, len(values) + 1)
    axes.plot(places, values, "o-", color=COLOURS[0], linewidth=1.2, markersize=4)
    axes.set_ylim(0, top and 1.02 * top)
    axes.set_xlabel("number of the pair" if top else "number")
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _residual_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """The limits that show the iterative solvers' residuals and the tolerance."""
    seen = [y for curve in curves if not curve.outcome.direct for y in curve.residuals[1]]
    seen += [curve.outcome.tol for curve in curves if curve.outcome.tol and not curve.outcome.direct]
    seen = [y for y in seen if 0 < y < float("inf")]
    if not seen:
        seen = [max(curve.outcome.residual or 0.0, 1e-17) for curve in curves] or [1.0]
    return min(seen) / 5, max(seen) * 3


def _diamond(axes: Any, curve: Curve, residual: float, low: float) -> None:
    """A direct solver: at its residual, or on the lower edge with the residual in words."""
    below = residual < low
    axes.plot([curve.end], [max(residual, low)], label=curve.outcome.solver, **_diamond_style(curve))
    if below:
        axes.annotate(
            f"{residual:.0e}",
            (curve.end, low),
            xytext=(7, 5),
            textcoords="offset points",
            fontsize=8,
            color=curve.colour,
        )


def _line_style(xs: Sequence[float]) -> dict[str, Any]:
    """A line; where it joins a few iterations only, they are marked."""
    few = len(xs) <= FEW
    return {"linewidth": 1.8, "marker": "." if few else "", "markersize": 6}


def _diamond_style(curve: Curve) -> dict[str, Any]:
    return {
        "marker": "D",
        "markersize": 8,
        "linestyle": "",
        "color": curve.colour,
        "clip_on": False,
        "zorder": 5,
    }


def _end(axes: Any, curve: Curve, x: float, y: float) -> None:
    """The end of a curve, filled where it converged."""
    fill = curve.colour if curve.outcome.converged else "white"
    axes.plot([x], [y], "o", markersize=6, color=curve.colour, markerfacecolor=fill, zorder=4)


def _cost_axis(axes: Any, curves: Sequence[Curve]) -> None:
    """Logarithmic where the costs differ much, from the first point to the last."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    words = {"passes": "passes over the data", "seconds": "seconds", "iterations": "iterations"}
    axes.set_xlabel(words[curves[0].cost])
    points = [x for curve in curves for x in (*curve.residuals[0][:1], curve.end) if x > 0]
    if curves[0].cost != "iterations" and points and max(points) > 30 * min(points):
        axes.set_xscale("log")
        wide = max(points) > 300 * min(points)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)


@contextmanager
def new_figure(size: tuple[float, float]) -> Iterator[Any]:
    """A figure in the style of this file; no window system and no global state of pyplot."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        yield Figure(figsize=size, layout="constrained")
