"""`linspec demo`: canonical correlations of the two halves of handwritten digits, exactly and by three solvers.

The data are the 1797 digits that scikit-learn ships (8 x 8 pixels; Alpaydin & Kaynak 1998, UCI repository). CCA finds
the relations between the left and the right half of an image. For 32 + 32 columns the iterative solvers would hold Gram
matrices; the demo makes them read the data in every step, as they do with data that do not fit into memory.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from linspec.cli import output
from linspec.cli.output import echo, missing_package, show_facts, show_table
from linspec.cli.problems import Command

K, RIDGE, PASSES, QUICK_PASSES = 10, 1000.0, 150.0, 30.0

PICTURE = "linspec-demo.png"

VIEWS = {"left.npy": slice(0, 4), "right.npy": slice(4, 8)}
"""The files of the halves, and their columns of pixels."""

SOLVERS = {
    "gram": "one pass forms the Gram matrices, a small SVD does the rest",
    "als": "alternating least squares, each solved by conjugate gradients",
    "appgrad": "gradient steps that keep only a few blocks of weights",
}


@click.command(cls=Command)
@click.option("--plot", metavar="FILE", help=f"Where to draw. By default {PICTURE} in the working directory.")
@click.option("--quick", is_flag=True, help=f"{QUICK_PASSES:g} passes at most, not {PASSES:g}; draw only with --plot.")
@click.option("--save", is_flag=True, help="Write the views, left.npy and right.npy, to try other commands on.")
def demo(plot: str | None, quick: bool, save: bool) -> None:
    """Solve CCA of handwritten digits by three solvers, and draw it."""
    import linspec

    saved = [output.check_target("--save", name, (".npy",)) for name in VIEWS if save]
    picture = plot or (PICTURE if not quick and output.can_draw() else None)
    target = output.check_plot(picture, [])
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise missing_package("demo needs the digits of scikit-learn", "demo") from error
    images = load_digits().images
    views = [images[:, :, columns].reshape(len(images), -1).copy() for columns in VIEWS.values()]
    echo(
        f"{len(images)} handwritten digits of 8 x 8 pixels, cut in two: X holds the left halves, Y the right ones, 32\n"
        f"columns each. CCA finds {K} pairs of weights, one for each half, whose scores agree most from digit to\n"
        f"digit. The ridge, {RIDGE:g}, is 3 % of the sum of squares of an average pixel.\n"
    )
    problem = linspec.CCA(*views, k=K, ridge=RIDGE)
    exact = linspec.solve(problem, "direct")
    best = float(exact.correlations.sum())
    table = linspec.compare(problem, list(SOLVERS), form="implicit", rng=0, max_passes=QUICK_PASSES if quick else PASSES)
    with output.finishing(table):
        correlations = "  ".join(f"{value:.3f}" for value in exact.correlations)
        show_facts([("exact correlations", correlations), ("their sum", f"{best:.6f}   (solver: direct)")])
        echo()
        show_table([_figures(entry, best) for entry in table.entries])
        echo()
        show_facts(SOLVERS.items())
        echo(
            "\nPCC is the fraction of the exact sum that a solver reached. The residual measures how far its pairs are\n"
            "from solving the equations of CCA.\n"
        )
        panels = _panels(table, exact) if target else []
        files = [(file, partial(_save, view)) for file, view in zip(saved, views, strict=False)]
        output.write_all([*files, (target, partial(output.draw, panels))])
        files_of_views = " ".join(VIEWS)
        echo(
            "\nTry next:\n" + "  linspec demo --quick --save      # writes left.npy and right.npy\n" * (not save)
            + f"  linspec solve cca {files_of_views} -k {K} --ridge {RIDGE:g}\n"
            f"  linspec compare cca {files_of_views} -k {K} --ridge {RIDGE:g} --plot compare.png\n"
            "  linspec solvers cca"
        )


def _figures(entry: Any, best: float) -> dict[str, Any]:
    """Return the figures of one solver."""
    return {
        "solver": entry.solver,
        "sum": entry.objective,
        "PCC": f"{min((entry.objective or 0.0) / best, 1.0):.3%}",
        "residual": float(f"{entry.residual:.1e}"),
        "status": entry.status.lower().replace("_", " "),
        "passes": entry.passes,
        "seconds": float(f"{entry.seconds:.3f}"),
    }


def _panels(table: Any, exact: Any) -> list[Any]:
    from linspec import plots

    return [partial(plots.convergence, table, against="passes"), partial(plots.scree, exact)]


def _save(view: Any, stream: IO[bytes], _: str) -> None:
    import numpy as np

    np.save(stream, view)
