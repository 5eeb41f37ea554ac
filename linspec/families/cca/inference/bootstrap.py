"""Bootstrap intervals of canonical correlations, loadings and weights.

Problem: how much would correlations, loadings and weights change with other rows from the same source?
Method: that of `linspec.studies.inference.bootstrap`, with a rotation for each view. In these coordinates the
cross-covariance of a draw is a k x k matrix M, which varies about diag(ρ), and the pairs of the draw are its singular
vectors. No score of a row is computed: for the weights Φ of all rows and W of a draw, with the Gram matrices S of all
rows and S* of the rows drawn,

    inner products ΦᵀSW,    squared lengths diag(WᵀS*W),    loadings (S*W)ⱼᵢ / √(S*ⱼⱼ (WᵀS*W)ᵢᵢ),    (1)

so one pass over each draw tells all.
Source: that of the general bootstrap; Beran & Srivastava 1985, Ann. Statist. 13:95, doi:10.1214/aos/1176346579 (the
bootstrap fails at ties); Fisher 1915, Biometrika 10:507 (the scale t = artanh ρ).
Where we differ: the interval of a correlation is t − b ± z·e on the scale t = artanh ρ, with the bias b and the root
mean square e of the differences between the draws and t. The mean square is the variance plus b²: the bias is an
estimate too, and a corrected correlation varies more than the plain one. Gaps between neighbouring correlations are
reduced by the share of noise (`linspec.studies.inference.gaps`); basic and normal intervals and BCa do not repair the
plain draws (measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.solving.linear_solution import Loadings, loadings_of
from linspec.studies.inference.bootstrap import ComponentBootstrap, Draws, Side, weights_on_host

__all__ = ["Bootstrap", "DrawnPairs"]

LARGEST = 1 - 1e-15
"""The largest correlation whose artanh is computed; larger ones are set to this."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Bootstrap(ComponentBootstrap):
    """Intervals of the pairs of a solution; the first axis of each array holds lower ends, then upper ends.

    It has the attributes of a ComponentBootstrap, and these:

    Attributes
    ----------
    correlations : numpy.ndarray of shape (2, k)
        Intervals of the i-th largest correlation: `values`.
    x_weights, y_weights : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the weights: `weights` of "X" and of "Y".
    x_loadings, y_loadings : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the loadings: `loadings` of "X" and of "Y".
    loadings : dict from str to numpy.ndarray of shape (2, p, k) or (2, q, k)
    solution_loadings : dict from str to numpy.ndarray of shape (p, k) or (q, k)
        By view, "X" and "Y", the loadings of the solution in all rows.
    agreement : numpy.ndarray of shape (k,)
        For each pair, the mean over the draws of |cx + cy| / 2. cx is the cosine between the variate of X in `solution`
        and the variate of X in the draw, and cy is the cosine for Y. The pairs of the draw are rotated, ordered and
        signed as for the intervals of loadings and weights. If the mean is far below 1, the pair is not stable, and
        its intervals are wide. The length of a variate of the draw is that over the rows of the draw, because its
        length over all rows would take one more sweep for each draw. So cx and cy are cosines but for a relative error
        of about 1/√n in each draw, and a mean above 1 is returned as 1.
    """

    loadings: Mapping[str, HostArray]
    solution_loadings: Mapping[str, HostArray]
    words: ClassVar = ("pairs", "correlations")

    @property
    def correlations(self) -> HostArray:
        """Intervals of the correlations."""
        return self.values

    @property
    def x_weights(self) -> HostArray:
        """Intervals of the weights of X."""
        return self.weights["X"]

    @property
    def y_weights(self) -> HostArray:
        """Intervals of the weights of Y."""
        return self.weights["Y"]

    @property
    def x_loadings(self) -> HostArray:
        """Intervals of the loadings of X."""
        return self.loadings["X"]

    @property
    def y_loadings(self) -> HostArray:
        """Intervals of the loadings of Y."""
        return self.loadings["Y"]

    def loadings_table(self, matrix: str = "", *, library: str | None = None) -> Any:
        """Make a table with a row for each column of a view: its loadings and their intervals.

        Parameters
        ----------
        matrix : {"X", "Y"}
            The view.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            p or q rows with the names of the columns. For each pair there are three columns: "pair1", "pair1 lower" and
            "pair1 upper".

        Raises
        ------
        InvalidOption
            There is no such view or library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> X, Y = ls.labelled(rng.standard_normal((100, 2)), columns=["age", "dose"]), rng.standard_normal((100, 2))
        >>> found = ls.bootstrap(ls.CCA(X, Y, k=1), draws=20, rng=0)
        >>> [row["column"] for row in found.loadings_table("X")]
        ['age', 'dose']
        """
        return self._table_of_columns(matrix, library, self.solution_loadings, self.loadings)


class DrawnPairs(Draws):
    """The results of the draws so far, rotated to the pairs of all rows."""

    def begun(self) -> list[Side]:
        self.whole = self._related(self.solution, self.problem.sample_weight)
        return [Side(view.lengths) for view in self.whole]

    def _related(self, solution: Any, w: HostArray | None) -> list[Loadings]:
        """The loadings of both views in rows with weights w, with their products (1); one pass."""
        rows = {"center": bool(self.problem.center), "confounds": self.problem.confounds, "sample_weight": w}
        return loadings_of(self.problem.matrices, [solution.x_weights, solution.y_weights], **rows)

    def rotated(self, found: Any, w: HostArray) -> list[HostArray]:
        rotations, weights = [], weights_on_host(found)
        drawn = zip(self.sides, self.whole, self._related(found, w), weights.items(), strict=True)
        for side, whole, view, (name, W) in drawn:
            blocks = {name: W, "loadings": view.correlations * view.lengths}
            rotations.append(side.add(whole.products.T @ W, view.products.T @ W, blocks))  # (1)
        return rotations

    def vectors(self, M: HostArray) -> list[HostArray]:
        U, _, Vt = np.linalg.svd(M)
        return [U, Vt.transpose(0, 2, 1)]

    def made(self, turns: list[HostArray], **fields: Any) -> Bootstrap:
        loadings = {}
        for name, side, turn in zip("XY", self.sides, turns, strict=True):
            over = reciprocal(side.compared(turn)[1])[:, None, :]
            loadings[name] = self.quantiles(
                np.clip(np.array(side.blocks["loadings"]) @ turn * over, -1.0, 1.0)
            )
        whole = {name: view.correlations for name, view in zip("XY", self.whole, strict=True)}
        return Bootstrap(**self.of_weights(turns), loadings=loadings, solution_loadings=whole, **fields)

    def interval(self, drawn: HostArray, values: HostArray) -> HostArray:
        t, draws = (np.arctanh(np.clip(a, 0.0, LARGEST)) for a in (values, drawn))
        return np.asarray(np.tanh(np.maximum(self.ends(draws, t), 0.0)))
