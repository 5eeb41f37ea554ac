"""`linspec demo`: canonical correlations of the two halves of handwritten digits, exactly and by three solvers.

The data are the 1797 digits that scikit-learn ships (8 x 8 pixels; Alpaydin & Kaynak 1998, UCI repository). CCA finds
the relations between the left and the right half of an image. For 32 + 32 columns the iterative solvers would hold Gram
matrices; the demo makes them read the data in every step, as they do with data that do not fit into memory.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import linspec
from linspec import plots
from linspec.cli import output
from linspec.cli.commands import option
from linspec.cli.output import echo, missing_package, show_table

K, RIDGE, PASSES, QUICK_PASSES = 10, 1000.0, 150.0, 30.0

PICTURE = "linspec-demo.png"

VIEWS = {"left.npy": slice(0, 4), "right.npy": slice(4, 8)}
"""The files of the halves, and their columns of pixels."""

SOLVERS = ("gram", "als", "appgrad")
"""One pass and a small SVD, alternating least squares, and gradient steps."""

INTRODUCTION = f"""{{}} handwritten digits of 8 x 8 pixels, cut in two: X holds the left halves, Y the right ones, 32
columns each. CCA finds {K} pairs of weights, one for each half, whose scores agree most from digit to
digit. The ridge, {RIDGE:g}, is 3 % of the sum of squares of an average pixel.
"""

EXPLANATION = """
PCC is the fraction of the exact sum that a solver reached. The residual measures how far its pairs are
from solving the equations of CCA.
"""

NEXT = f"""
Try next:
  linspec demo --quick --save      # writes left.npy and right.npy
  linspec solve cca left.npy right.npy -k {K} --ridge {RIDGE:g}
  linspec compare cca left.npy right.npy -k {K} --ridge {RIDGE:g} --plot compare.png
  linspec solvers cca"""


def _demo(plot: str | None, quick: bool, save: bool) -> None:
    """Run `linspec demo`."""
    saved = [output.check_target("--save", name, (".npy",)) for name in VIEWS if save]
    target = output.check_plot(plot or (PICTURE if not quick and output.can_draw() else None))
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise missing_package("demo needs the digits of scikit-learn", "demo") from error
    images = load_digits().images
    views = [images[:, :, columns].reshape(len(images), -1).copy() for columns in VIEWS.values()]
    echo(INTRODUCTION.format(len(images)))
    problem = linspec.CCA(views[0], views[1], k=K, ridge=RIDGE)
    exact = linspec.solve(problem, "direct")
    passes = QUICK_PASSES if quick else PASSES
    table = linspec.compare(problem, list(SOLVERS), form="implicit", rng=0, max_passes=passes)
    with output.finishing(table):
        best = float(exact.correlations.sum())
        echo(f"The exact sum of correlations, by direct: {best:.6f}")
        columns = ("solver", "objective", "residual", "status", "passes", "seconds")
        rows = [{name: row[name] for name in columns} for row in table.rows]
        show_table([{**row, "PCC": f"{min(row['objective'] / best, 1.0):.3%}"} for row in rows])
        echo(EXPLANATION)
        panels = [partial(plots.convergence, table, against="passes"), partial(plots.scree, exact)]
        files = [
            (file, lambda stream, _, view=view: np.save(stream, view))
            for file, view in zip(saved, views, strict=False)
        ]
        output.write_all(*files, (target, partial(output.draw, lambda: panels)))
        echo(NEXT)


DEMO = (
    [
        option("--plot", help=f"Where to draw. By default {PICTURE} in the working directory."),
        option(
            "--quick",
            is_flag=True,
            help=f"{QUICK_PASSES:g} passes at most; draw only with --plot.",
        ),
        option(
            "--save", is_flag=True, help="Write the views, left.npy and right.npy, to try other commands on."
        ),
    ],
    _demo,
    "Solve CCA of handwritten digits by three solvers, and draw it.",
)
"""The parameters, the function and the help of the command."""
