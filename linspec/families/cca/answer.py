"""Canonical weights that are judged, with their products and those of what rides beside them.

Problem: the law needs products of the weights with the Gram matrices, columns beside them that tell of what was left
out, and norms in which residuals are lengths; it may cost one product.
Method: what rides is multiplied with the weights. Weights are turned to be canonical within their spans, and rounded
as they will be returned. Where Gram matrices have squared too much, and rows can be reduced by orthogonal
transformations at a small price, products and norms come from these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.block_algebra import EPS, canonical_rotation, metric_rounding, rank_cut
from linspec.families.cca.evidence import Evidence, Rider, norms_by, riders
from linspec.inverse_norm import BasisNorm, FactorNorm, InverseNorm
from linspec.moments import Moments
from linspec.row_reduction import ColumnBasis, column_basis
from linspec.unit_vectors import lengths_in, signs

CROOKED = 1e-6
"""Departure from orthonormal columns, by rounding of sums that cancel, from which on they are turned once more."""

SQUARED_AWAY = 1e7
"""Condition number of a Gram matrix from which on rows are reduced without squares, where that is cheap."""

REDUCTION = 0.2
"""Seconds that it may take; or a tenth of what products have taken."""

CERTIFIED_SHARE = 0.1
"""Share of the operations so far that the exact correlations of small views may take."""


class Answer:
    """Weights of both views with their products, and those of the columns that ride beside them.

    Attributes
    ----------
    W : list of arrays
        Φ and Ψ.
    made : list of arrays
        SxΦ, SyΨ, CΨ, CᵀΦ.
    beside : list of arrays
        What rides: S⁻¹ϱ where residuals are known, then random columns, or the identity.
    beside_made : list of arrays
        The same products of it.
    cancelled : float
        By so much is rounding larger than that of unit columns, because turned columns are sums of longer ones.
    """

    def __init__(
        self, problem: Any, moments: Moments, W: list[Array], evidence: Evidence, room: float
    ) -> None:
        self.problem, self.moments, self.W, self.evidence = problem, moments, W, evidence
        self.home: Home = moments.home
        self.made: list[Array] | None = None
        self.riders: list[Rider] = []
        self.beside: list[Array] = []
        self.beside_made: list[Array] = []
        self.norms: tuple[InverseNorm, InverseNorm] | None = evidence.norms
        self.room = room
        self.cancelled = 1.0
        self.reduced: list[Array] | None = None  # rows, where Gram matrices have squared too much
        self.bases: list[ColumnBasis] = []

    # ---- products -----------------------------------------------------------------------------

    def multiply(self) -> list[Array]:
        """The products of the weights: one sweep, in which the others ride the first time."""
        if self.made is not None:
            return self.made
        if self.beside_made or not self._wants_riders():
            self.made = self._products(self.W)
        else:
            self.riders = riders(self.problem, self.moments)
            self.beside = [
                self.home.concat([*self._directions(i), rider.block]) for i, rider in enumerate(self.riders)
            ]
            widths = [W.shape[1] for W in self.W]
            blocks = [self.home.concat([W, E]) for W, E in zip(self.W, self.beside, strict=True)]
            of_both = self._products(blocks)
            cuts = [widths[0], widths[1], widths[1], widths[0]]
            self.made = [V[:, :m] for V, m in zip(of_both, cuts, strict=True)]
            self.beside_made = [V[:, m:] for V, m in zip(of_both, cuts, strict=True)]
        self._find_norms()
        return self.made

    def _wants_riders(self) -> bool:
        return not all(isinstance(norm, BasisNorm) for norm in self.norms or (None,))

    def _directions(self, i: int) -> list[Array]:
        """S⁻¹ϱ of a view, where its norm and residuals are known and a sweep is what products cost."""
        if self.evidence.residuals is None or self.norms is None or self.moments.form != "implicit":
            return []
        return [unit_columns(self.norms[i].solve(self.evidence.residuals[i]), self.home)]

    def _products(self, V: list[Array]) -> list[Array]:
        if self.reduced is not None:
            (Rx, Ry), (x, y) = self.reduced, V
            P, Q = Rx @ x, Ry @ y
            return [Rx.T @ P, Ry.T @ Q, Rx.T @ Q, Ry.T @ P]
        SxV, CV, CtV, SyV = self.moments.products(*V)
        (rx, ry), (x, y) = self.problem.ridge, V
        return [SxV + x * rx, SyV + y * ry, CV, CtV]

    @property
    def formed(self) -> bool:
        """Whether the Gram matrices and XᵀY are there: held, or multiplied by the identity."""
        whole = bool(self.riders) and all(rider.whole for rider in self.riders)
        return self.moments.form != "implicit" or whole

    def product(self, i: int, V: Array) -> tuple[Array, Array]:
        """A block of one view with its Gram matrix, the ridge included, and with the cross product: SV, CᵀV or CV."""
        if self.reduced is not None:
            P = self.reduced[i] @ V
            return self.reduced[i].T @ P, self.reduced[1 - i].T @ P
        if self.moments.form == "implicit":  # by the products with the identity
            by_identity = (self.beside_made[i], self.beside_made[3 - i])
            SV, other = (made[:, made.shape[1] - V.shape[0] :] @ V for made in by_identity)
            return SV, other
        SxV, CV, CtV, SyV = self.moments.products(*((V, None) if i == 0 else (None, V)))
        SV, other = (SxV, CtV) if i == 0 else (SyV, CV)
        return SV + V * self.problem.ridge[i], other

    def _find_norms(self) -> None:
        """By the Gram matrices or by what rode; those of the solver where nothing better is had."""
        if not self._wants_riders():
            return
        sent = [E[:, E.shape[1] - r.block.shape[1] :] for E, r in zip(self.beside, self.riders, strict=True)]
        made = [S[:, S.shape[1] - E.shape[1] :] for S, E in zip(self.beside_made[:2], sent, strict=True)]
        found = norms_by(self.problem, self.moments, self.riders, made, judging=True)
        if self.norms is not None:
            better = [
                old if n.kind == old.kind == "preconditioned" else n
                for n, old in zip(found, self.norms, strict=True)
            ]
            found = better[0], better[1]
        self.norms = found
        if max(norm.condition for norm in found) > SQUARED_AWAY and self._reducible(found):
            self._reduce()

    def _reducible(self, norms: tuple[InverseNorm, InverseNorm]) -> bool:
        """Whether the rows can be reduced at a small price: where squares are all that is known of both views."""
        views = self._views()
        if self.room < 1 or not all(A.readable and not A.streamed for A in views):
            return False
        if not all(isinstance(norm, FactorNorm) for norm in norms):
            return False
        width = sum(A.shape[1] for A in views)
        spent = sum(2.0 * A.nnz * self.moments.columns_made(i) for i, A in enumerate(views)) / cost.DENSE_RATE
        reducing = 2.5 * views[0].shape[0] * width**2 / cost.FACTOR_RATE
        return bool(reducing < max(REDUCTION, CERTIFIED_SHARE * spent))

    def _reduce(self) -> None:
        """Products and norms by orthogonal transformations of the rows: one more sweep."""
        self.reduced = self.moments.reduced_rows(self.problem.ridge)
        pairs = zip(self.reduced, self._views(), strict=True)
        self.bases = [
            column_basis(R, rank_cut(A.shape, A.dtype), self.home, float(np.finfo(A.dtype).eps))
            for R, A in pairs
        ]
        x, y = (BasisNorm(basis.W, basis.condition**2, self.home) for basis in self.bases)
        self.norms, self.riders, self.beside, self.beside_made = (x, y), [], [], []
        self.made = self._products(self.W)

    # ---- turning ------------------------------------------------------------------------------

    def turn(self, turns: list[HostArray]) -> None:
        """Φ Tx and Ψ Ty."""
        Tx, Ty = (self.home.place(T) for T in turns)
        self.W = [self.W[0] @ Tx, self.W[1] @ Ty]
        if self.made is not None:
            self.made = [V @ T for V, T in zip(self.made, (Tx, Ty, Ty, Tx), strict=True)]

    def turn_canonical(self) -> HostArray:
        """Turn the weights into the canonical pairs within their spans; their correlations."""
        Sphi, Spsi, Cpsi, _ = self.multiply()
        x, y = self.W
        Gx, C, Gy = (to_host(G) for G in (x.T @ Sphi, x.T @ Cpsi, y.T @ Spsi))
        noise = [
            (to_host(w.T @ (w * d[:, None])), metric_rounding(A.shape[1], A.dtype))
            for w, d, A in zip(self.W, self.diagonals(), self._views(), strict=True)
        ]
        turns, rho = canonical_rotation(Gx, C, Gy, min(x.shape[1], y.shape[1]), (noise[0], noise[1]))
        turns = (turns[0][:, : self.problem.k], turns[1][:, : self.problem.k])
        lengths: list[float] = []
        for T, G, (H, _) in zip(turns, (Gx, Gy), noise, strict=True):
            # Columns that hardly differ cancel, and what is left has their rounding.
            own, plain = (np.abs(T).T @ np.sqrt(np.maximum(np.diag(M), 0.0)) for M in (G, H))
            held = self.moments.held and self.reduced is None
            lengths.append(float(np.max(plain * (plain if held else own), initial=1.0)))
        self.cancelled = max(lengths)
        self.turn(list(turns))
        return rho

    def make_unit(self) -> None:
        """Signs fixed, unit length, and rounded as they will be returned: it is that which is judged."""
        if self.made is None:
            self._round()
            self.multiply()
        assert self.made is not None  # noqa: S101
        flips = signs(self.W[0], self.home)
        pairs = zip(self.W, self.made[:2], self._views(), strict=True)
        self.turn([np.diag(flips / lengths_in(w, s, A.dtype, self.home)) for w, s, A in pairs])
        self._round()
        self.multiply()

    @property
    def unit_of_sums(self) -> float:
        """The rounding of products that are held, or made in the precision of the data."""
        return EPS if self.reduced is not None else self.moments.rounding

    @property
    def unsettled(self) -> bool:
        """Whether turned columns are orthonormal to few digits, and products of their own can be had."""
        rounding = self.cancelled * self.unit_of_sums
        free = self.moments.held or self.reduced is not None
        return rounding > CROOKED and (free or self.room >= 1)

    def drop_null_parts(self) -> None:
        """Take out of the weights what the views annihilate: it may be far longer than the rest."""
        assert self.made is not None and self.norms is not None  # noqa: S101, PT018
        pairs = zip(self.W, self.made[:2], self.norms, strict=True)
        self.W = [
            norm.solve(SW) if isinstance(norm, FactorNorm) and norm.factor.cut is not None else W
            for W, SW, norm in pairs
        ]
        self.made = None

    def present(self) -> HostArray:
        """1 for pairs with weights in both views, 0 for others, which correlate with nothing."""
        xp = self.home.xp
        there = (
            [to_host(xp.max(xp.abs(w), axis=0)) > 0 for w in self.W] if self.W[0].shape[1] else [np.ones(0)]
        )
        return np.asarray(np.all(there, axis=0), dtype=np.float64)

    def _round(self) -> None:
        """To the dtype of the data; products that belong to other numbers are dropped."""
        if not self.problem.single:
            return
        rounded = [
            self.home.place(A.home.place(w, A.dtype)) for w, A in zip(self.W, self._views(), strict=True)
        ]
        if any(bool(self.home.xp.any(a != b)) for a, b in zip(self.W, rounded, strict=True)):
            self.W, self.made = rounded, None

    def _views(self) -> tuple[Any, Any]:
        return self.problem.X, self.problem.Y

    def diagonals(self) -> list[Array]:
        """diag(Sx) and diag(Sy)."""
        return [d + r for d, r in zip(self.moments.diagonal(), self.problem.ridge, strict=True)]


def unit_columns(V: Array, home: Home) -> Array:
    """Columns of length 1; of zeros zeros."""
    lengths = np.sqrt(to_host(home.xp.sum(V * V, axis=0)))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return V * home.place(scale)[None, :]
