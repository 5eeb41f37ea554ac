"""Canonical weights and probes with their products, from which the law computes the certificate.

Problem: the law needs the products of the weights with the Gram matrices, further columns that reveal the left-out
correlations, and norms that measure the residuals. All of this may cost only one product.
Method: the further columns, called probes, are multiplied in the same sweep as the weights. The weights are rotated to
canonical pairs within their spans, and rounded to the dtype in which they are returned. If the Gram matrices have lost
too many digits by squaring, and orthogonal transformations can reduce the rows cheaply, products and norms come from
the reduced rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import cost
from linspec.algebra.inverse_norm import BasisNorm, FactorNorm, InverseNorm
from linspec.algebra.small_matrices import (
    EPS,
    canonical_rotation,
    metric_rounding,
    rank_cut,
    rounding_of_rows,
    whitening,
)
from linspec.algebra.unit_vectors import lengths_in, signs_of_columns
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.families.cca.law.evidence import Evidence, Probe, inverse_norms, probes
from linspec.moments.moments import Moments
from linspec.moments.row_reduction import ColumnBasis, column_basis

CROOKED = 1e-6
"""Weights are rotated a second time if the error of WᵀSW − I may be above this after the first rotation.

The error comes from cancellation: columns of the rotated weights W are sums of much longer columns that nearly cancel.
"""

SQUARED_AWAY = 1e7
"""Above this condition number of a Gram matrix, rows are reduced by orthogonal transformations if that is cheap."""

REDUCTION = 0.2
"""Seconds that the reduction may take, or a tenth of the time that the products have taken if that is more."""

CERTIFIED_SHARE = 0.1
"""Limit for two computations of the certificate, as a fraction of the cost of the products with the views so far.

The reduction of the rows is limited to this fraction of the seconds (or to `REDUCTION` seconds, if that is more). The
computation of all correlations in `judging` is limited to this fraction of the operations (or to `SMALL_FLOPS`, if that
is more or if Gram matrices are held).
"""


class Answer:
    """Weights of both views, probes that are multiplied in the same sweep, and the products of weights and probes.

    Attributes
    ----------
    W : list of arrays
        The weights Φ and Ψ.
    made : list of arrays
        SxΦ, SyΨ, CΨ, CᵀΦ.
    plain : list of arrays
        XᵀXΦ, YᵀYΨ: SxΦ and SyΨ without the ridges.
    beside : list of arrays
        One block for each view. It begins with the columns S⁻¹ϱ, if the solver passes the residuals ϱ; after them come
        the columns of `probes`, which are random or the identity.
    beside_made : list of arrays
        The same four products as in `made`, with the two blocks of `beside` in place of Φ and Ψ.
    cancelled : float
        The ratio of the rounding errors of φᵀSφ for the rotated columns φ to those for columns without cancellation. It
        is above 1 if rotated columns are sums of longer columns that nearly cancel.
    """

    def __init__(
        self, problem: Any, moments: Moments, W: list[Array], evidence: Evidence, passes_left: float
    ) -> None:
        self.problem, self.moments, self.W, self.evidence = problem, moments, W, evidence
        self.home: Home = moments.home
        self.made: list[Array] | None = None
        self.plain: list[Array] = []
        self.probes: list[Probe] = []
        self.beside: list[Array] = []
        self.beside_made: list[Array] = []
        self.norms: tuple[InverseNorm, InverseNorm] | None = evidence.norms
        self.passes_left = passes_left
        self.cancelled = 1.0
        self.reduced: list[Array] | None = None  # rows, if squaring has lost too many digits
        self.bases: list[ColumnBasis] = []

    # ---- products -----------------------------------------------------------------------------

    def multiply(self) -> list[Array]:
        """Compute the products of the weights in one sweep; the first call also multiplies the probes."""
        if self.made is not None:
            return self.made
        if self.beside_made or not self._wants_probes():
            self.made, self.plain = self._products(self.W)
        else:
            known = self.norms is not None and self.evidence.carried is not None
            self.probes = probes(self.problem, self.moments, known=known)
            self.beside = [
                self.home.concat([*self._directions(i), probe.block]) for i, probe in enumerate(self.probes)
            ]
            widths = [W.shape[1] for W in self.W]
            blocks = [self.home.concat([W, E]) for W, E in zip(self.W, self.beside, strict=True)]
            of_both = list(self.moments.products(*blocks))
            del blocks
            own, beside = [], []
            for m in (widths[0], widths[1], widths[0], widths[1]):
                V = of_both.pop(0)
                own.append(V[:, :m] + 0.0)  # copies, because slices would keep the whole products in memory
                beside.append(V[:, m:] + 0.0)
            del V
            self.made, self.plain = self._ridged(self.W, own)
            self.beside_made = self._ridged(self.beside, beside)[0]
        self._find_norms()
        return self.made

    def _wants_probes(self) -> bool:
        return not all(isinstance(norm, BasisNorm) for norm in self.norms or (None,))

    def _directions(self, i: int) -> list[Array]:
        """Return a list with the block S⁻¹ϱ of view i, its columns scaled to length 1, or an empty list.

        The list is empty if the solver has not passed the residuals ϱ, or a norm that solves with S. It is also empty
        if Gram matrices are held: products then take no sweep, and S⁻¹ϱ is multiplied later.
        """
        if self.evidence.residuals is None or self.norms is None or self.moments.form != "implicit":
            return []
        return [unit_columns(self.norms[i].solve(self.evidence.residuals[i]), self.home)]

    def _products(self, V: list[Array]) -> tuple[list[Array], list[Array]]:
        """Compute [SxΦ, SyΨ, CΨ, CᵀΦ] and [XᵀXΦ, YᵀYΨ] for two blocks V = [Φ, Ψ].

        XᵀXΦ is returned beside SxΦ = XᵀXΦ + rx·Φ, because it cannot be recovered from SxΦ if the ridge rx is far larger
        than the entries of XᵀX: no digit of XᵀXΦ is left in the sum. If the rows are reduced, XᵀXΦ is nevertheless
        computed as SxΦ − rx·Φ. Reduced rows contain the ridge, and are used only with much smaller ridges.
        """
        (rx, ry), (x, y) = self.problem.ridge, V
        if self.reduced is not None:
            Rx, Ry = self.reduced
            P, Q = Rx @ x, Ry @ y
            SxV, SyV = Rx.T @ P, Ry.T @ Q
            return [SxV, SyV, Rx.T @ Q, Ry.T @ P], [SxV - x * rx, SyV - y * ry]
        return self._ridged(V, list(self.moments.products(*V)))

    def _ridged(self, V: list[Array], products: list[Array]) -> tuple[list[Array], list[Array]]:
        """Reorder the products of the moments and add the ridges; also return the first two without ridges."""
        (rx, ry), (x, y), (XtXV, CV, CtV, YtYV) = self.problem.ridge, V, products
        return [XtXV + x * rx, YtYV + y * ry, CV, CtV], [XtXV, YtYV]

    @property
    def formed(self) -> bool:
        """Whether the Gram matrices and XᵀY are known: held, or multiplied by the identity."""
        whole = bool(self.probes) and all(probe.whole for probe in self.probes)
        return self.moments.form != "implicit" or whole

    def product(self, i: int, V: Array) -> tuple[Array, Array]:
        """Compute SV (ridge included) and CᵀV or CV for a block of view i, without a sweep."""
        if self.reduced is not None:
            P = self.reduced[i] @ V
            return self.reduced[i].T @ P, self.reduced[1 - i].T @ P
        if self.moments.form == "implicit":  # the products with the identity are known
            by_identity = (self.beside_made[i], self.beside_made[3 - i])
            SV, other = (made[:, made.shape[1] - V.shape[0] :] @ V for made in by_identity)
            return SV, other
        SxV, CV, CtV, SyV = self.moments.products(*((V, None) if i == 0 else (None, V)))
        SV, other = (SxV, CtV) if i == 0 else (SyV, CV)
        return SV + V * self.problem.ridge[i], other

    def _find_norms(self) -> None:
        """Compute the norm of each view from its Gram matrix or from the products of its probe.

        The computed norm replaces the norm that the solver has passed, unless both are of the kind "preconditioned":
        then the solver's norm stays. If a Gram matrix is ill-conditioned and the reduction is cheap, rows are reduced.
        """
        if not self._wants_probes():
            return
        sent = [E[:, E.shape[1] - r.block.shape[1] :] for E, r in zip(self.beside, self.probes, strict=True)]
        made = [S[:, S.shape[1] - E.shape[1] :] for S, E in zip(self.beside_made[:2], sent, strict=True)]
        found = inverse_norms(self.problem, self.moments, self.probes, made, judging=True)
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
        """Whether the rows are to be reduced in another sweep by orthogonal transformations.

        A sweep must be left, the entries of both views must be readable without streaming, and the reduction must be
        cheap, absolutely or compared with the sweeps so far. `norms` measure the residuals; the norms of both views
        must use a factor of the Gram matrix (`FactorNorm`).
        """
        views = self._views()
        if self.passes_left < 1 or not all(A.readable and not A.streamed for A in views):
            return False
        if not all(isinstance(norm, FactorNorm) for norm in norms):
            return False
        width = sum(A.shape[1] for A in views)
        spent = (
            sum(2.0 * A.nnz * self.moments.bookkeeping.columns_made(i) for i, A in enumerate(views))
            / cost.DENSE_RATE
        )
        reducing = 2.5 * views[0].shape[0] * width**2 / cost.FACTOR_RATE
        return bool(reducing < max(REDUCTION, CERTIFIED_SHARE * spent))

    def _reduce(self) -> None:
        """Reduce the rows by orthogonal transformations in one more sweep, and recompute products and norms."""
        self.reduced = self.moments.direct.reduced_rows(self.problem.ridge)
        pairs = zip(self.reduced, self._views(), self.problem.ridge, strict=True)
        self.bases = [
            column_basis(
                R, rank_cut(A.shape, A.rounded_dtype, r), self.home, rounding_of_rows(A.rounded_dtype, r)
            )
            for R, A, r in pairs
        ]
        x, y = (BasisNorm(basis.W, basis.condition**2, self.home) for basis in self.bases)
        self.norms, self.probes, self.beside, self.beside_made = (x, y), [], [], []
        self.made, self.plain = self._products(self.W)

    # ---- rotation -----------------------------------------------------------------------------

    def turn(self, turns: list[HostArray]) -> None:
        """Replace the weights by Φ Tx and Ψ Ty, and the products accordingly."""
        Tx, Ty = (self.home.place(T) for T in turns)
        self.W = [self.W[0] @ Tx, self.W[1] @ Ty]
        if self.made is not None:
            self.made = [V @ T for V, T in zip(self.made, (Tx, Ty, Ty, Tx), strict=True)]
            self.plain = [V @ T for V, T in zip(self.plain, (Tx, Ty), strict=True)]

    def turn_canonical(self) -> HostArray:
        """Rotate the weights to the canonical pairs within their spans, and keep the weights of the first k pairs.

        Returns the correlations of all pairs in the spans, which may be more than k.
        """
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
            # A difference of nearly equal columns has the rounding of these longer columns.
            own, plain = (np.abs(T).T @ np.sqrt(np.maximum(np.diag(M), 0.0)) for M in (G, H))
            held = self.moments.held and self.reduced is None
            lengths.append(float(np.max(plain * (plain if held else own), initial=1.0)))
        self.cancelled = max(lengths)
        self.turn(list(turns))
        return rho

    def make_unit(self) -> None:
        """Fix signs, scale weights to unit length, and round them to their dtype before the residual is computed."""
        if self.made is None:
            self._round()
            self.multiply()
        assert self.made is not None  # noqa: S101
        flips = signs_of_columns(self.W[0], self.home)
        pairs = zip(self.W, self.made[:2], self._views(), strict=True)
        self.turn([np.diag(flips / lengths_in(w, s, A.dtype, self.home)) for w, s, A in pairs])
        self._round()
        self.multiply()

    @property
    def unit_of_sums(self) -> float:
        """The relative rounding of the products: of float64 for reduced rows, else that of the moments."""
        return EPS if self.reduced is not None else self.moments.rounding

    @property
    def unsettled(self) -> bool:
        """Whether the weights should be rotated a second time, from products that are computed anew.

        This is so if rounding may leave an error above `CROOKED` in WᵀSW − I for the rotated weights W, and if the new
        products take no sweep or a sweep is left.
        """
        rounding = self.cancelled * self.unit_of_sums
        free = self.moments.held or self.reduced is not None
        return rounding > CROOKED and (free or self.passes_left >= 1)

    def regressions(self) -> dict[str, Array]:
        """Least-squares coefficients of the columns of each view on the variates of each view, without a ridge.

        The keys are four fields of `CCASolution`. For example, "x_from_y" holds the coefficients of the columns of X on
        the variates of Y, of shape (p, k). For the variates P = XΦ, "x_from_x" is XᵀP (PᵀP)⁻¹ and "y_from_x" is
        YᵀP (PᵀP)⁻¹. Variates that are linearly dependent up to rounding add nothing.
        """
        assert self.made is not None  # noqa: S101
        (XtP, YtQ), (_, _, XtQ, YtP) = self.plain, self.made
        found = {}
        for view, W, columns in (("x", self.W[0], (XtP, YtP)), ("y", self.W[1], (XtQ, YtQ))):
            own = columns["xy".index(view)]
            T = whitening(to_host(W.T @ own), self.unit_of_sums)
            inverse = self.home.place(T @ T.T)
            for name, A, AtV in zip("xy", self._views(), columns, strict=True):
                found[f"{name}_from_{view}"] = A.home.place(AtV @ inverse, A.dtype)
        return found

    def drop_null_parts(self) -> None:
        """Remove from each weight vector its part in the directions that the factor of S has cut as null.

        This part does not change the variate, but its Euclidean length may be far larger than that of the other part,
        so that rounding errors grow. The products of the weights are dropped.
        """
        assert self.made is not None and self.norms is not None  # noqa: S101, PT018
        pairs = zip(self.W, self.made[:2], self.norms, strict=True)
        self.W = [
            norm.solve(SW) if isinstance(norm, FactorNorm) and norm.factor.cut is not None else W
            for W, SW, norm in pairs
        ]
        self.made = None

    def present(self) -> HostArray:
        """1 for pairs with nonzero weights in both views, 0 for others, whose correlation is zero."""
        xp = self.home.xp
        there = (
            [to_host(xp.max(xp.abs(w), axis=0)) > 0 for w in self.W] if self.W[0].shape[1] else [np.ones(0)]
        )
        return np.asarray(np.all(there, axis=0), dtype=np.float64)

    def _round(self) -> None:
        """Round the weights to the dtype of the data; if that changes them, drop their products."""
        if not self.problem.single:
            return
        rounded = [
            self.home.place(A.home.place(w, A.dtype)) for w, A in zip(self.W, self._views(), strict=True)
        ]
        if any(bool(to_host(self.home.xp.any(a != b))) for a, b in zip(self.W, rounded, strict=True)):
            self.W, self.made = rounded, None

    def _views(self) -> tuple[Any, Any]:
        return self.problem.X, self.problem.Y

    def diagonals(self) -> list[Array]:
        """diag(Sx) and diag(Sy)."""
        return [d + r for d, r in zip(self.moments.diagonal(), self.problem.ridge, strict=True)]


def unit_columns(V: Array, home: Home) -> Array:
    """The columns scaled to length 1; zero columns stay zero."""
    lengths = np.sqrt(to_host(home.xp.sum(V * V, axis=0)))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return V * home.place(scale)[None, :]
