"""Draw the picture of the README, `docs/pictures/digits.svg`: ``python docs/site/draw_readme.py [FILE]``.

1797 handwritten digits of 8 x 8 pixels come with scikit-learn. X has the left four columns of pixels of each, Y the
right four. On the left the first pairs: each pixel's correlation with the variate of its half, in the place of the
pixel. On the right the canonical correlations of 1200 images, what the same weights give on the other 597, and what
chance gives: 40 solves with the rows of one view permuted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import linspec as ls

PAIRS, FITTED, RIDGE = 12, 1200, 100.0


def halves() -> tuple[Any, Any]:
    """The two views, in an order of rows that is random and fixed."""
    images = load_digits().images[np.random.default_rng(0).permutation(1797)]
    return images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)


def main(path: Path) -> None:
    X, Y = halves()
    problem = ls.CCA(X[:FITTED], Y[:FITTED], k=PAIRS, ridge=RIDGE)
    solution = ls.solve(problem)
    null = ls.null_correlations(problem, permutations=40, rng=0)
    held_out = solution.score(X[FITTED:], Y[FITTED:]).correlations
    left, right = (np.asarray(half).reshape(8, 4, PAIRS) for half in solution.loadings(X, Y))

    settings = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "linspec",
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        maps, curve = figure.subfigures(1, 2, width_ratios=(1.15, 1))
        maps.suptitle("what the halves share: correlation of each pixel")
        panels = maps.subplots(2, 3)
        for pair, ax in enumerate(panels.ravel()):
            image = np.hstack([left[:, :, pair], np.full((8, 1), np.nan), right[:, :, pair]])
            shown = ax.imshow(image, cmap="RdBu_r", vmin=-1, vmax=1)
            ax.set_title(f"pair {pair + 1}", fontsize=9)
            ax.set_axis_off()
        maps.colorbar(shown, ax=panels, shrink=0.8, ticks=[-1, 0, 1])
        curve.suptitle("how much they share")
        ls.plots.scree(solution, null=null, held_out=held_out, ax=curve.subplots())
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "pictures" / "digits.svg")
