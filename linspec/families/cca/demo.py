"""`linspec demo`: canonical correlations of the two halves of handwritten digits, exactly and by three solvers.

The data are the 1797 digits that scikit-learn ships (8 x 8 pixels; Alpaydin & Kaynak 1998, UCI repository). CCA
finds the relations between the left and the right half of an image. For 32 + 32 columns the iterative solvers would
hold Gram matrices. The demo makes them sweep the data instead, as they do with data that do not fit into memory.
"""

from __future__ import annotations

import sys
import textwrap
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from linspec.cli import plots
from linspec.cli.compare import show_outcomes
from linspec.cli.failures import Command, install_hint
from linspec.cli.interrupts import INTERRUPTED, held, raising
from linspec.cli.outputs import Target, Writer, check_target, write_all

if TYPE_CHECKING:
    from linspec.arrays import Array
    from linspec.cli.measured import Limits, Outcome

__all__ = ["demo"]

K = 10
RIDGE = 1000.0
PASSES = 150
QUICK_PASSES = 30
PICTURE = "linspec-demo.png"
VIEWS = ("left.npy", "right.npy")
PAIRS_DRAWN = 5
SIDE = 8
HALF = SIDE // 2


@dataclass(frozen=True)
class _Entry:
    """A solver to show, its options, and a short description."""

    solver: str
    words: str
    options: dict[str, Any] = field(default_factory=dict)


ENTRIES = (
    _Entry("gram", "one pass forms the Gram matrices, a small SVD does the rest"),
    _Entry("als", "alternating least squares, each solved by conjugate gradients", {"form": "implicit"}),
    _Entry(
        "appgrad",
        "gradient steps that keep only a few blocks of weights",
        {"form": "implicit", "update": "alternating"},
    ),
)


@click.command(cls=Command)
@click.option("--plot", metavar="FILE", help=f"Where to draw. By default {PICTURE} in the working directory.")
@click.option(
    "--quick", is_flag=True, help=f"{QUICK_PASSES} passes at most, not {PASSES}; draw only with --plot."
)
@click.option(
    "--save", is_flag=True, help="Write the views, left.npy and right.npy, to try other commands on."
)
def demo(plot: str | None, quick: bool, save: bool) -> None:
    """Solve CCA of handwritten digits by three solvers, and draw it."""
    from linspec.cli.measured import Limits  # it loads array libraries
    from linspec.process.blas_threads import one_blas_thread

    here = Path.cwd()
    saved = [check_target("--save", str(here / name), (".npy",)) for name in VIEWS if save]
    if plot is None and not quick and plots.can_draw():
        plot = str(here / PICTURE)
    target = plots.check_plot("--plot", plot, others=saved)
    begun = time.perf_counter()
    images = _images()
    left, right = _halves(images)
    _say(
        f"{len(left)} handwritten digits of {SIDE} x {SIDE} pixels, cut in two: X holds the left halves, Y the "
        f"right ones, {HALF * SIDE} columns each. CCA finds {K} pairs of weights, one for each half, whose scores "
        f"agree most from digit to digit. The ridge, {RIDGE:g}, is 3 % of the sum of squares of an average pixel."
    )
    limits = Limits(max_passes=float(QUICK_PASSES if quick else PASSES))
    with held() as interrupts:
        # For products as small as these, several threads would wait for each other.
        with one_blas_thread(needed=True):
            exact, outcomes, stopped = _solved(left, right, limits)
        _show(exact, outcomes, limits)
        files: list[tuple[Target | None, Writer]] = [
            (place, partial(_write_view, view)) for place, view in zip(saved, (left, right), strict=False)
        ]
        if outcomes:
            files.append((target, partial(_draw, exact, (left, right), outcomes)))
        write_all(files)
        if target is None and not quick:
            click.echo("picture   none: it needs matplotlib, pip install 'linspec[cli]'")
        click.echo(f"time      {time.perf_counter() - begun:.1f} s")
        _tell_next(save)
    if stopped or interrupts.came:
        click.get_current_context().exit(INTERRUPTED)


def _show(exact: Any, outcomes: list[Outcome], limits: Limits) -> None:
    """Print the exact correlations, and a table of the other solvers compared with them."""
    from linspec.families.cca.command import COMMAND  # here: it imports linspec.cli, which imports this file

    correlations = "  ".join(f"{value:.3f}" for value in exact.correlations)
    click.echo(f"exact correlations   {correlations}")
    click.echo(f"their sum            {exact.correlations.sum():.6f}   (solver: direct)\n")
    if not outcomes:
        return
    show_outcomes(COMMAND, outcomes, K, best=float(exact.correlations.sum()))
    click.echo()
    for entry in ENTRIES:
        click.echo(f"{entry.solver:<9}{entry.words}")
    click.echo()
    _say(
        "PCC is the fraction of the exact sum that a solver found. The residual measures how far its pairs are from "
        "solving the equations of CCA. The two iterative solvers read the data again in every step, in at most "
        f"{limits.max_passes:g} passes, as they would read files that do not fit into memory."
    )


def _images() -> Array:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise install_hint("demo needs the digits of scikit-learn", "demo") from error
    return load_digits().images


def _halves(images: Array) -> tuple[Array, Array]:
    """Left and right halves, one row for each digit."""
    rows = len(images)
    return images[:, :, :HALF].reshape(rows, -1).copy(), images[:, :, HALF:].reshape(rows, -1).copy()


def _solved(left: Array, right: Array, limits: Limits) -> tuple[Any, list[Outcome], bool]:
    """The exact solution, the outcome of each solver, and whether an interrupt has ended the series."""
    import linspec
    from linspec.cli.measured import loaded, solved
    from linspec.families.cca.command import COMMAND

    problem = linspec.CCA(left, right, k=K, ridge=RIDGE)
    for entry in ENTRIES:
        loaded(problem, entry.solver, entry.options)
    with raising():
        exact = linspec.solve(problem, "direct")
    outcomes: list[Outcome] = []
    stopped = exact.status is linspec.Status.INTERRUPTED
    for entry in ENTRIES:
        if stopped:
            break
        try:
            outcome = solved(problem, entry.solver, entry.options, limits, score=COMMAND.score)
        except KeyboardInterrupt:  # before there was a solution
            return exact, outcomes, True
        outcomes.append(outcome)
        stopped = outcome.solution.status is linspec.Status.INTERRUPTED
    return exact, outcomes, stopped


def _say(text: str) -> None:
    click.echo(textwrap.fill(text, 96) + "\n")


def _write_view(view: Array, stream: IO[bytes], _: str) -> None:
    import numpy as np

    np.save(stream, view)


def _tell_next(saved: bool) -> None:
    program = "linspec" if not sys.argv[0].endswith("__main__.py") else "python -m linspec"
    files = "left.npy right.npy"
    click.echo("\nTry next:")
    if not saved:
        click.echo(f"  {program} demo --quick --save      # writes {files.replace(' ', ' and ')}")
    click.echo(f"  {program} solve cca {files} -k {K} --ridge {RIDGE:g}")
    click.echo(f"  {program} compare cca {files} -k {K} --ridge {RIDGE:g} --plot compare.png")
    click.echo(f"  {program} solvers cca")


# ---- the picture ------------------------------------------------------------------------------


def _draw(
    exact: Any, views: tuple[Array, Array], outcomes: list[Outcome], stream: IO[bytes], suffix: str
) -> None:
    """Draw convergence above, and the weights of the leading pairs and their correlations with pixels below."""
    import numpy as np

    from linspec.plots.courses import legend_below, residual_panel, score_panel
    from linspec.plots.style import new_figure

    weights = [np.asarray(exact.x_weights), np.asarray(exact.y_weights)]
    loadings = [np.asarray(half) for half in exact.loadings(*views)]
    curves = plots.curves_of(outcomes, "passes")
    best = float(exact.correlations.sum())
    with new_figure((10.5, 8.4)) as figure:
        above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.05), hspace=0.04)
        panels = above.subplots(1, 2)
        residual_panel(panels[0], curves)
        score_panel(panels[1], curves, best, "PCC (% of the exact sum)")
        legend_below(above, panels[0])
        grid = below.subplots(2, PAIRS_DRAWN)
        for row, (halves, label) in enumerate(
            ((weights, "weights"), (loadings, "correlation with the score"))
        ):
            for pair, axes in enumerate(grid[row]):
                _image(axes, [half[:, pair] for half in halves])
            grid[row][0].set_ylabel(label, fontsize=10)
        for pair, axes in enumerate(grid[0]):
            axes.set_title(f"pair {pair + 1}: ρ = {exact.correlations[pair]:.2f}", fontsize=10)
        below.suptitle(
            "Leading canonical pairs: the left half of each image is X's, the right half Y's "
            "(red and blue: opposite signs)",
            fontsize=10.5,
        )
        above.suptitle(
            f"CCA of the halves of {len(views[0])} digits: k = {K}, ridge {RIDGE:g}", fontsize=11.5
        )
        plots.save(figure, stream, suffix)


def _image(axes: Any, halves: list[Array]) -> None:
    """Draw the two halves side by side; zero is white."""
    import numpy as np

    from linspec.plots.style import bare

    picture = np.hstack([half.reshape(SIDE, HALF) for half in halves])
    most = float(np.abs(picture).max())
    axes.imshow(picture, cmap="RdBu_r", vmin=-most, vmax=most)
    axes.axvline(HALF - 0.5, color="#333333", linewidth=0.8)
    axes.set_xticks([])
    axes.set_yticks([])
    bare(axes)
