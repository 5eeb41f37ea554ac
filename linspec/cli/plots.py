"""Pictures: how runs converge, drawn by matplotlib where it is installed.

Residuals are drawn on a logarithmic axis over what they cost. A direct solver has no way to show, only an end: it
is a diamond at its cost; where its residual lies far below what the others reach, the diamond sits on the lower
edge with the residual written beside it, so that rounding errors do not squeeze the rest of the picture.
"""

from __future__ import annotations

import math
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

COST_WORDS = {"passes": "passes over the data", "seconds": "seconds", "iterations": "iterations"}

HELD_OUT = "score of the held-out rows"

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

PAIRS = 4
"""Canonical pairs whose variates are drawn."""

MOST_POINTS = 2000
"""Rows whose variates are drawn; of more, evenly spaced ones."""

PAIR_WIDTH = 3.2
"""Inches of the picture of one pair."""


@dataclass(frozen=True)
class Cloud:
    """Variates of some rows, in pairs: column i of one block belongs to column i of the other.

    Attributes
    ----------
    label : str
        Which rows these are.
    P, Q : numpy.ndarray of shape (n, k)
    """

    label: str
    P: Any
    Q: Any

    @property
    def correlations(self) -> list[float]:
        """The correlation of each pair over these rows; 0 where a variate does not vary."""
        import numpy as np

        P, Q = (np.asarray(block, dtype=np.float64) for block in (self.P, self.Q))
        P, Q = P - P.mean(axis=0), Q - Q.mean(axis=0)
        lengths = np.linalg.norm(P, axis=0) * np.linalg.norm(Q, axis=0)
        return [
            float(c / size) if size > 0 else 0.0 for c, size in zip((P * Q).sum(axis=0), lengths, strict=True)
        ]


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
    if len({outcome.variant for outcome in outcomes}) > 1:
        _draw_variants(kind, outcomes, against, title, stream, suffix)
        return
    curves = curves_of(outcomes, against)
    scored = kind.score is not None and any(curve.outcome.score is not None for curve in curves)
    judged = [curve.outcome for curve in curves if curve.outcome.held_out is not None]
    panels = 1 + int(scored) + int(bool(judged))
    with new_figure((5.25 * panels if panels > 1 else 6.5, 4.6)) as figure:
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        residual_panel(axes[0], curves)
        if scored and kind.score:
            best = max(outcome.score or 0.0 for outcome in outcomes)
            score_panel(axes[1], curves, best, f"{kind.score.name}, % of the best")
        if judged:
            colours = [curve.colour for curve in curves if curve.outcome.held_out is not None]
            dot_panel(axes[-1], judged, [o.held_out for o in judged], colours, HELD_OUT)
            axes[-1].set_yticks(range(len(judged)), [outcome.label for outcome in judged])
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
        legend_below(figure, axes[0])
        save(figure, stream, suffix)


def _draw_variants(
    kind: Kind,
    outcomes: Sequence[Outcome],
    against: str | None,
    title: str,
    stream: IO[bytes],
    suffix: str,
) -> None:
    """Draw runs of problems that differ: a line for each run, and a panel for the score, the residual, the cost."""
    done = [outcome for outcome in outcomes if not outcome.failed]
    solvers = list(dict.fromkeys(outcome.solver for outcome in outcomes))
    colours = [COLOURS[solvers.index(outcome.solver) % len(COLOURS)] for outcome in done]
    cost = against or "seconds"
    columns: list[tuple[str, list[float | None]]] = [(HELD_OUT, [outcome.held_out for outcome in done])]
    if kind.score and not any(columns[0][1]):
        columns = [(kind.score.name, [outcome.score for outcome in done])]
    columns += [("residual", [outcome.residual for outcome in done])]
    columns += [(COST_WORDS[cost], [getattr(outcome, cost) for outcome in done])]
    columns = [(label, values) for label, values in columns if any(value is not None for value in values)]
    with new_figure((3.4 * len(columns) + 2.6, 1.6 + 0.26 * len(done))) as figure:
        axes = list(figure.subplots(1, len(columns), squeeze=False, sharey=True)[0])
        for panel, (label, values) in zip(axes, columns, strict=True):
            dot_panel(panel, done, values, colours, label)
        axes[0].set_yticks(range(len(done)), [outcome.label for outcome in done])
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
        legend_below(figure, axes[0])
        save(figure, stream, suffix)


def draw_run(
    kind: Kind,
    solution: Any,
    outcome: Outcome,
    clouds: Sequence[Cloud],
    stream: IO[bytes],
    suffix: str,
) -> None:
    """Draw one run: its residuals, the numbers of its answer where they are a decreasing list, and its variates."""
    cls = type(solution)
    listed = (cls.value_field, cls.value_label, cls.ceiling) if cls.value_field else None
    converging = listed is None or (cls.certified and not outcome.direct and outcome.iterations > 0)
    pairs = min([PAIRS, *(cloud.P.shape[1] for cloud in clouds)]) if clouds else 0
    with new_figure(_size_of_run(int(converging) + int(listed is not None), pairs)) as figure:
        axes, grid = _panels_of_run(figure, int(converging) + int(listed is not None), pairs)
        if converging:
            residual_panel(axes.pop(0), curves_of([outcome], None))
        if listed is not None:
            _number_panel(axes[0], getattr(solution, listed[0]), listed[1], listed[2], clouds[1:])
        if grid:
            _draw_clouds(figure, grid, clouds)
        words = status_in_words(outcome.status)
        figure.suptitle(f"{kind.name} by {outcome.solver}: {words}", fontsize=11, x=0.01, ha="left")
        save(figure, stream, suffix)


def _size_of_run(panels: int, pairs: int) -> tuple[float, float]:
    """Inches: the pairs stand beside a single panel, and below two."""
    if pairs and panels > 1:
        return max(5.2 * panels, PAIR_WIDTH * pairs), 4.2 + PAIR_WIDTH + 0.4
    return 5.2 * panels + PAIR_WIDTH * pairs, 4.2


def _panels_of_run(figure: Any, panels: int, pairs: int) -> tuple[list[Any], list[Any]]:
    """Axes for the run, and for its pairs."""
    if pairs and panels > 1:
        above, below = figure.subfigures(2, 1, height_ratios=(4.2, PAIR_WIDTH))
        return list(above.subplots(1, panels)), list(below.subplots(1, pairs, squeeze=False)[0])
    ratios = [5.2] * panels + [PAIR_WIDTH] * pairs
    axes = list(figure.subplots(1, panels + pairs, squeeze=False, width_ratios=ratios)[0])
    return axes[:panels], axes[panels:]


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
            axes.plot(xs, ys, color=curve.colour, label=curve.outcome.label, **_line_style(xs))
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


def dot_panel(
    axes: Any,
    outcomes: Sequence[Outcome],
    values: Sequence[float | None],
    colours: Sequence[str],
    label: str,
) -> None:
    """One number of each run, each on a line of its own; the largest score has a line through all."""
    shown = [value for value in values if value is not None and 0 < value < math.inf]
    if label != HELD_OUT and shown and max(shown) > 30 * min(shown):
        axes.set_xscale("log")
    names: set[str] = set()
    for place, (outcome, value, colour) in enumerate(zip(outcomes, values, colours, strict=True)):
        if value is None or not math.isfinite(value):
            continue
        if outcome.solver not in names:  # for the legend: filled, whatever became of the first run
            axes.scatter([], [], s=36, color=colour, label=outcome.solver)
            names.add(outcome.solver)
        fill = colour if outcome.converged else "white"
        axes.plot([value], [place], "o", markersize=6, color=colour, markerfacecolor=fill)
    if label == HELD_OUT:
        best = max(value for value in values if value is not None)
        axes.axvline(best, color="#555555", linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_ylim(len(outcomes) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.margins(x=0.1)


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


def _number_panel(
    axes: Any, values: Any, label: str, top: float | None, clouds: Sequence[Cloud] = ()
) -> None:
    """The numbers of an answer, and beside them what the variates of other rows reach."""
    from matplotlib.ticker import MaxNLocator

    places = range(1, len(values) + 1)
    style = {"linewidth": 1.2, "markersize": 4}
    axes.plot(places, values, "o-", color=COLOURS[0], label="fitted", **style)
    lowest = 0.0
    for cloud, colour in zip(clouds, COLOURS[1:], strict=False):
        reached = cloud.correlations
        axes.plot(range(1, len(reached) + 1), reached, "s--", color=colour, label=cloud.label, **style)
        lowest = min(lowest, *reached)
    if clouds:
        axes.legend(loc="best", fontsize=9)
    axes.set_ylim(1.1 * lowest, top and 1.02 * top)
    axes.set_xlabel("number of the pair" if top else "number")
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _draw_clouds(figure: Any, grid: Sequence[Any], clouds: Sequence[Cloud]) -> None:
    """For each leading pair the variates of rows against each other, in standard deviations of the fitted rows."""
    import numpy as np

    scales = [[float(s) or 1.0 for s in np.std(block, axis=0)] for block in (clouds[0].P, clouds[0].Q)]
    reached = [cloud.correlations for cloud in clouds]
    for pair, axes in enumerate(grid):
        for cloud, colour in zip(clouds, COLOURS, strict=False):
            shown = np.unique(np.linspace(0, len(cloud.P) - 1, MOST_POINTS).astype(int))
            x, y = cloud.P[shown, pair] / scales[0][pair], cloud.Q[shown, pair] / scales[1][pair]
            axes.scatter(
                x, y, s=10, alpha=0.4, linewidths=0, color=colour, label=cloud.label, rasterized=True
            )
        axes.axline((0, 0), slope=reached[0][pair], color="#555555", linewidth=0.9, linestyle=(0, (4, 3)))
        told = ", ".join(
            f"{of[pair]:.2f} {word}" for of, word in zip(reached, ("fitted", "held out"), strict=False)
        )
        axes.set_title(f"pair {pair + 1}: {told}", fontsize=10)
        axes.set_xlabel("variate of X / st. dev.")
    grid[0].set_ylabel("variate of Y / st. dev.")
    if len(clouds) > 1:
        handles, labels = grid[0].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=len(clouds), fontsize=9)
        for handle in legend.legend_handles:
            handle.set_alpha(1.0)
            handle.set_sizes([24.0])


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
    axes.plot([curve.end], [max(residual, low)], label=curve.outcome.label, **_diamond_style(curve))
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

    axes.set_xlabel(COST_WORDS[curves[0].cost])
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
