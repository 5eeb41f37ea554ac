"""Truncated SVD and principal components: the problem and its law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.algebra.small_matrices import ratio
from linspec.algebra.unit_vectors import row_runs, signs_of_columns
from linspec.arrays import (
    Array,
    Home,
    HostArray,
    to_host,
)
from linspec.errors import InvalidProblem
from linspec.families.svd.solution import SVDSolution
from linspec.moments.moments import Moments
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms, without_answer
from linspec.solving.fields import count, flag, matrix
from linspec.solving.problem import Problem
from linspec.status import Status
from linspec.sweeps.blocks import BlockOperator, row_images


@dataclass(frozen=True, eq=False, repr=False)
class SVD(Problem[SVDSolution]):
    """The k leading singular triplets of A, or of A with centred columns.

    Parameters
    ----------
    A : data of shape (n, p), or Moments
    k : int, optional
        The number of triplets, at most min(n, p). The default is min(n, p) if that is at most 4096. If the
        numerical rank of A is lower, fewer triplets are returned.
    center : bool, default False
        Whether to centre the columns (principal components).
    left : bool, default False
        Whether to compute the left singular vectors. They are those of the adjusted matrix: columns are centred and
        scaled and confounds subtracted, as the problem states, and with weights w the rows are multiplied by √w.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: max over triplets of ‖AᵀA v − σ² v‖ / σ₁². For rows of `linspec.HeldMoments` with a rank, the bound of
    what their AᵀA lacks is added, so the residual bounds that of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((1000, 5)) @ rng.standard_normal((5, 30)) * 2 + rng.standard_normal((1000, 30))
    >>> problem = ls.SVD(A, k=3, center=True)
    >>> solution = ls.solve(problem)
    >>> solution.explained_variance_ratio.round(3)
    array([0.328, 0.224, 0.161])
    >>> solution.transform(A).shape
    (1000, 3)
    """

    A: Any = matrix("data", permuted="columns")
    k: Any = count("singular triplets", optional=True)
    center: bool = flag(False)
    left: bool = flag(False, "Compute the left singular vectors too.")
    scale: bool = flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "svd"
    bounds_discarded: ClassVar[bool] = True
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "reconstruction": "linspec.families.svd.held_out:Reconstruction",
            "log-likelihood": "linspec.families.svd.held_out:LogLikelihood",
        }
    )

    def check_held(self) -> None:
        """Refuse left singular vectors, which belong to single rows."""
        if self.left:
            raise InvalidProblem(
                "left singular vectors belong to rows, which HeldMoments does not keep; got left=True. Leave it out, "
                "and call transform on rows."
            )

    def conclude(  # type: ignore[override]
        self,
        moments: Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        Vh: Array,
        S: HostArray | None = None,
        U: Any = None,
    ) -> Conclusion:
        """Compute the residual ‖AᵀAv − σ²v‖ / σ₁² and the solution; without S, σ = ‖Av‖ comes from the vectors."""
        home = moments.home
        V = home.place(Vh).T
        judged = not (moments.bookkeeping.spent and S is not None)
        AtAV = moments.products(V)[0] if judged else V
        if S is None:
            S = np.sqrt(np.maximum(to_host(home.xp.sum(V * AtAV, axis=0)), 0.0))
        S = np.asarray(to_host(S), dtype=np.float64)
        order = np.argsort(-S, kind="stable")[: self.k]
        largest = float(S.max(initial=0.0))
        if largest**2 == 0 < largest:  # nothing is left that products could judge
            order = order[:0]
        V, AtAV, S = _select(V, order, home), _select(AtAV, order, home), S[order]
        flips = signs_of_columns(V, home)
        # In units of the largest value, because squares of AᵀAv may overflow or underflow.
        unit = float(S[0] ** 2) if len(S) and S[0] > 0 else 1.0
        gap = _distances(AtAV, V, S**2, unit, home)
        residual = ratio(float(np.max(gap, initial=0.0)), 1.0 if len(S) and S[0] > 0 else 0.0)
        norm, trace = self.lacks or (0.0, 0.0)
        residual = residual + ratio(norm, unit) if judged else math.nan
        V = _flipped(V, flips, home, AtAV if judged and self.A.readable else None)
        fields: dict[str, Any] = {"S": S, "Vh": self.A.home.place(V, self.A.dtype).T}
        if isinstance(U, BlockOperator):  # its rows stay with those of A
            turned = np.eye(U.shape[1])[:, order] * flips
            narrow: Any = U.in_dtype(self.A.dtype)
            rows = row_images(narrow, turned)
            fields["U"] = rows if rows.given_back is None else rows.given_back(rows)
        elif U is not None:
            # In the dtype of the data, because their device may have no float64.
            chosen = _select(self.A.home.place(U, self.A.dtype), order, self.A.home)
            fields["U"] = chosen * self.A.home.place(flips, self.A.dtype)[None, :]
        fields["rows"] = moments.total
        total = moments.columns.total_squares()
        total = fields["total_squares"] = None if total is None else total + trace
        squares = moments.columns.squares()
        if squares is not None and not trace:
            fields["column_norms"] = np.sqrt(np.maximum(to_host(squares), 0.0))
        fields["total_norm"] = None if total is None else math.sqrt(max(total, 0.0))
        if len(S) and self.lacks is None:
            fields["share_of_means"] = moments.columns.share_of_means(V[:, 0], float(S[0]) ** 2)
        missing = "singular values that this method can distinguish from zero"
        lacking = self.left and U is None and len(S) > 0
        text = (
            "The solver has found no left singular vectors, which left=True asks for. Choose another solver."
        )
        findings: tuple[tuple[Status, str], ...] = ((Status.INCOMPLETE, text),) if lacking else ()
        if norm:
            text = (
                f"The held moments lack up to {ratio(norm, unit):.1e} of the largest squared singular value. "
            )
            findings += ((Status.APPROXIMATE, text + "A larger rank would lack less."),)
        conclusion = self.concluded(
            moments, residual, findings=findings, missing=missing, lost=lacking, **fields
        )
        if judged and not len(S) and not moments.columns.vanishes(0):
            return without_answer(conclusion, "A is not zero")
        return conclusion


def _distances(W: Array, V: Array, factors: HostArray, unit: float, home: Home) -> HostArray:
    """Return ‖w − f v‖ / unit for each column w of W and v of V, and each entry f of `factors`.

    On the host the differences are computed for some rows at a time, because allocating an array of the size of W takes
    longer than the arithmetic.
    """
    if not home.on_host:
        return home.column_norms(W / unit - V * home.place(factors / unit)[None, :])
    squares = np.zeros(V.shape[1])
    for rows in row_runs(V):
        gap = W[rows] / unit
        gap -= V[rows] * (factors / unit)
        squares += np.einsum("ij,ij->j", gap, gap)
    return np.sqrt(squares)


def _select(V: Array, order: HostArray, home: Home) -> Array:
    """Columns of V in the given order; a view without copy if the order is 0, 1, 2, …."""
    if (order[1:] > order[:-1]).all() and (not len(order) or order[-1] == len(order) - 1):
        return V[:, : len(order)]
    return home.xp.take(V, home.xp.asarray(order, device=home.device), axis=1)


def _flipped(V: Array, signs: HostArray, home: Home, spare: Array | None) -> Array:
    """Columns of V times signs; on the host written to `spare`, if that has the right shape."""
    if (
        home.on_host
        and spare is not None
        and spare.flags.c_contiguous
        and spare.shape == V.shape
        and not np.may_share_memory(spare, V)
    ):
        return np.multiply(V, signs, out=spare)
    return V * home.place(signs)[None, :]
