"""The pictures of `--plot`: the check of their file, and the arrangement of panels of `linspec.plots`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

from linspec.cli.failures import install_hint
from linspec.cli.kinds import Kind
from linspec.cli.outputs import Target, check_room, check_target
from linspec.cli.tables import status_in_words

if TYPE_CHECKING:  # they load array libraries, which help does without
    from linspec.cli.measured import Outcome
    from linspec.plots.answers import Cloud
    from linspec.plots.courses import Curve

__all__ = ["COSTS", "check_plot", "curves_of", "draw_comparison", "draw_run", "save"]

COSTS = ("passes", "seconds", "iterations")
"""Costs that the horizontal axis can show."""

HELD_OUT = "score of the held-out rows"

SUFFIXES = (".png", ".pdf", ".svg")

PICTURE_BYTES = 2**16
"""Typical size of a picture."""

PAIRS = 4
"""Largest number of canonical pairs whose variates are drawn."""

PAIR_WIDTH = 3.2
"""Width of the picture of one pair, in inches."""


def check_plot(
    option: str, name: str | None, *, inputs: Iterable[str] = (), others: Iterable[Target | None] = ()
) -> Target | None:
    """Return the file to draw to, after a check that it can be written and that matplotlib is installed."""
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
    stream.write(picture.getvalue())  # here a full disk raises an error of the system


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
    """Draw residuals of several solvers against their cost, and scores if the problem has one."""
    from linspec.plots.courses import dot_panel, legend_below, residual_panel, score_panel
    from linspec.plots.style import new_figure

    if len({outcome.variant for outcome in outcomes}) > 1:
        _draw_variants(kind, outcomes, against, title, stream, suffix)
        return
    curves, done = curves_of(outcomes, against), [o for o in outcomes if not o.failed]
    scored = kind.score is not None and any(outcome.objective is not None for outcome in done)
    judged = [i for i, outcome in enumerate(done) if outcome.score is not None]
    panels = 1 + int(scored) + int(bool(judged))
    with new_figure((5.25 * panels if panels > 1 else 6.5, 4.6)) as figure:
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        residual_panel(axes[0], curves)
        if scored and kind.score:
            best = max(outcome.objective or 0.0 for outcome in outcomes)
            score_panel(axes[1], curves, best, f"{kind.score.name}, % of the best")
        if judged:
            own = [done[i] for i in judged]
            scores = [outcome.score for outcome in own]
            dot_panel(axes[-1], own, scores, [curves[i].colour for i in judged], HELD_OUT, best=True)
            axes[-1].set_yticks(range(len(own)), [outcome.label for outcome in own])
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
    """Draw runs of different problems: a line for each run, and panels for the score, the residual, the cost."""
    from linspec.plots.courses import COST_WORDS, dot_panel, legend_below
    from linspec.plots.style import COLOURS, new_figure

    done = [outcome for outcome in outcomes if not outcome.failed]
    solvers = list(dict.fromkeys(outcome.solver for outcome in outcomes))
    colours = [COLOURS[solvers.index(outcome.solver) % len(COLOURS)] for outcome in done]
    cost = against or "seconds"
    columns: list[tuple[str, list[float | None]]] = [(HELD_OUT, [outcome.score for outcome in done])]
    if kind.score and all(value is None for value in columns[0][1]):
        columns = [(kind.score.name, [outcome.objective for outcome in done])]
    columns += [("residual", [outcome.residual for outcome in done])]
    columns += [(COST_WORDS[cost], [getattr(outcome, cost) for outcome in done])]
    columns = [(label, values) for label, values in columns if any(value is not None for value in values)]
    with new_figure((3.4 * len(columns) + 2.6, 1.6 + 0.26 * len(done))) as figure:
        axes = list(figure.subplots(1, len(columns), squeeze=False, sharey=True)[0])
        for panel, (label, values) in zip(axes, columns, strict=True):
            dot_panel(panel, done, values, colours, label, best=label == HELD_OUT)
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
    """Draw one run: residuals against cost, the values of the solution, and variates of its leading pairs.

    Residuals are drawn for iterative solvers, and if the solution has no list of values. Values, such as correlations
    or singular values, are drawn in decreasing order if the solution has them. Variates are drawn if `clouds` has some.
    """
    from linspec.plots.answers import scree
    from linspec.plots.courses import residual_panel
    from linspec.plots.style import new_figure

    cls = type(solution)
    listed = bool(cls.layout.value)
    converging = not listed or (cls.layout.certified and not outcome.direct and outcome.iterations > 0)
    pairs = min([PAIRS, *(cloud.P.shape[1] for cloud in clouds)]) if clouds else 0
    with new_figure(_size_of_run(int(converging) + int(listed), pairs)) as figure:
        axes, grid = _panels_of_run(figure, int(converging) + int(listed), pairs)
        if converging:
            residual_panel(axes.pop(0), curves_of([outcome], None))
        if listed:
            scree(solution, held_out=clouds[1].correlations if clouds[1:] else None, ax=axes[0])
        if grid:
            _draw_clouds(figure, grid, clouds)
        words = status_in_words(outcome.status)
        figure.suptitle(f"{kind.name} by {outcome.solver}: {words}", fontsize=11, x=0.01, ha="left")
        save(figure, stream, suffix)


def _size_of_run(panels: int, pairs: int) -> tuple[float, float]:
    """Return the width and height of the figure of a run, in inches.

    The panels of canonical pairs stand to the right of the panel of the run if it has one panel, and in a row below
    the panels of the run if it has two.
    """
    if pairs and panels > 1:
        return max(5.2 * panels, PAIR_WIDTH * pairs), 4.2 + PAIR_WIDTH + 0.4
    return 5.2 * panels + PAIR_WIDTH * pairs, 4.2


def _panels_of_run(figure: Any, panels: int, pairs: int) -> tuple[list[Any], list[Any]]:
    """Return the axes of the run, and the axes of its canonical pairs, each list from left to right.

    All axes are in one row, except that the axes of pairs are in a second row if the run has two panels.
    """
    if pairs and panels > 1:
        above, below = figure.subfigures(2, 1, height_ratios=(4.2, PAIR_WIDTH))
        return list(above.subplots(1, panels)), list(below.subplots(1, pairs, squeeze=False)[0])
    ratios = [5.2] * panels + [PAIR_WIDTH] * pairs
    axes = list(figure.subplots(1, panels + pairs, squeeze=False, width_ratios=ratios)[0])
    return axes[:panels], axes[panels:]


# ---- curves -----------------------------------------------------------------------------------


def curves_of(outcomes: Sequence[Outcome], against: str | None) -> list[Curve]:
    """Return a curve for each solver that gave a solution, with the cost `against` on the horizontal axis.

    If `against` is None, the cost is passes, or seconds if some solver iterates on held Gram matrices: the passes of
    such a solver do not grow with its iterations.
    """
    from linspec.plots.courses import Curve, closed, cost_of
    from linspec.plots.style import COLOURS

    done = [(number, outcome) for number, outcome in enumerate(outcomes) if not outcome.failed]
    cost = cost_of([outcome.history for _, outcome in done], against)
    curves = []
    for number, outcome in done:
        end = float(getattr(outcome, cost) or 0.0)
        by_the_law = outcome.scores if outcome.approximate else outcome.history
        curve = Curve(
            label=outcome.label,
            colour=COLOURS[number % len(COLOURS)],
            cost=cost,
            residuals=closed(by_the_law, "residual", cost, end, outcome.residual),
            scores=closed(outcome.scores, "score", cost, end, outcome.objective),
            end=end,
            residual=outcome.residual,
            tol=outcome.tol,
            direct=outcome.direct,
            converged=outcome.converged,
        )
        curves.append(curve)
    return curves


def _draw_clouds(figure: Any, grid: Sequence[Any], clouds: Sequence[Cloud]) -> None:
    """Draw the variates of rows against each other, for each leading pair."""
    from linspec.plots.answers import cloud_panel, opaque

    for pair, axes in enumerate(grid):
        cloud_panel(axes, clouds, pair)
    grid[0].set_ylabel("variate of Y / st. dev.")
    if len(clouds) > 1:
        handles, labels = grid[0].get_legend_handles_labels()
        opaque(figure.legend(handles, labels, loc="outside lower center", ncols=len(clouds), fontsize=9))
