"""Canonical pairs within the spans of two blocks, and the norms in which their residuals are measured.

Problem: iterations on a block of columns of each view differ in their step alone. All turn their blocks to the
canonical pairs of the spans, and measure the same residual; the certificate does that, too.
Method: with Sx = XᵀX + rx I, Sy = YᵀY + ry I, C = XᵀY, and Tx, Ty such that (ΦTx)ᵀSx(ΦTx) = I, and likewise for Ψ,

    TxᵀΦᵀCΨ Ty = U diag(ρ) Vᵀ,    Φ ← Φ Tx U,    Ψ ← Ψ Ty V    (Rayleigh-Ritz),    (1)
    ϱ = (CΨ - SxΦ diag(ρ), CᵀΦ - SyΨ diag(ρ)),    residual Σ‖ϱᵢ‖² / Σρᵢ in the norm of S⁻¹.    (2)

The norm is that of held Gram matrices or of a held triangle. Else a sketch rides on the first pass, or random signs
beside the first blocks make a preconditioner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import Array, Device, HostArray, to_host, to_host_together
from linspec.certificates import Metric, noise_of, norms_of_held, with_norms
from linspec.iteration import Context
from linspec.iteration.loop import FRESH
from linspec.linalg import leading_svd, ratio, whitening_above_noise
from linspec.rows import Moments


@dataclass(frozen=True, eq=False)
class Pairs:
    """Blocks Φ and Ψ, one for each view, with their products.

    Attributes
    ----------
    W : pair of arrays of shape (p, m) and (q, m)
        Φ and Ψ.
    SW : pair of arrays
        SxΦ and SyΨ, ridges included.
    CW : pair of arrays
        CΨ and CᵀΦ.
    rho : numpy.ndarray of shape (m,)
        The correlations, once the blocks are canonical.
    noise : tuple of (array, float)
        The diagonals of Sx and Sy, and the part of a squared length that is rounding of products.
    GW : pair of arrays, or None
        XᵀXΦ and YᵀYΨ, which a large ridge would round away; None once a block has been renewed.

    Examples
    --------
    A loop with one step of power iteration on each side, Φ ← C Ψ and Ψ ← CᵀΦ:

    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> from linspec.families.cca import first_blocks, multiplied
    >>> from linspec.iteration import Iterate
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Power(ls.Solver):
    ...     tol: float | None = ls.tol_option()
    ...     test_matrix: object = ls.part("gaussian", "random start", kind="test-matrix")
    ...     def iterate(self, problem, moments, context, start):
    ...         W = first_blocks(moments, context, start, problem.k, self.test_matrix)
    ...         pairs, metrics = multiplied(problem, moments, W)
    ...         while True:
    ...             pairs = pairs.canonical()
    ...             yield Iterate(pairs.residual(metrics, problem.k), pairs.arrays)
    ...             for i in (0, 1):
    ...                 pairs = pairs.renewed(moments, problem.ridge, i, pairs.CW[i])
    >>> Q = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 5)))[0]  # no column has a part of another
    >>> solution = ls.solve(ls.CCA(Q[:, :3], Q[:, 1:], k=2, center=False), Power(), rng=0)
    >>> solution.correlations.round(6), solution.converged
    (array([1., 1.]), True)
    """

    W: tuple[Array, Array]
    SW: tuple[Array, Array]
    CW: tuple[Array, Array]
    noise: tuple[tuple[Array, float], ...]
    rho: HostArray = field(default_factory=lambda: np.zeros(0))
    GW: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, moments: Moments, ridges: Sequence[float], W: Sequence[Array]) -> Pairs:
        """Multiply two blocks, in one pass."""
        (Sx, Cx), (Cy, Sy) = moments.products(*W)
        (phi, psi), (rx, ry) = W, ridges
        SW = Sx + phi * rx, Sy + psi * ry
        return cls((phi, psi), SW, (Cy, Cx), noise_of(moments, ridges, W, SW), GW=(Sx, Sy))

    def renewed(self, moments: Moments, ridges: Sequence[float], i: int, V: Array) -> Pairs:
        """Take another block for view i, in one pass."""
        products = moments.products(*((V, None) if i == 0 else (None, V)))[i]
        W, SW, CW = list(self.W), list(self.SW), list(self.CW)
        W[i], SW[i], CW[1 - i] = V, products[i] + V * ridges[i], products[1 - i]
        return replace(self, W=tuple(W), SW=tuple(SW), CW=tuple(CW), GW=None)

    @property
    def device(self) -> Device:
        """Where the blocks are."""
        return Device.of(self.W[0])

    @cached_property
    def there(self) -> Array:
        """The correlations as a row beside the blocks."""
        return self.device.asarray(self.rho)[None, :]

    def turned(self, turns: Sequence[HostArray]) -> Pairs:
        """Multiply Φ and Ψ by small matrices from the right."""
        T = self.device.asarrays(*turns)
        W, SW = ((V[0] @ T[0], V[1] @ T[1]) for V in (self.W, self.SW))
        GW = None if self.GW is None else (self.GW[0] @ T[0], self.GW[1] @ T[1])
        return replace(self, W=W, SW=SW, CW=(self.CW[0] @ T[1], self.CW[1] @ T[0]), GW=GW)

    def canonical(self, normalizer: Any = None, new: Sequence[int] = (0, 1)) -> Pairs:
        """Turn the blocks to the canonical pairs of their spans (1).

        Parameters
        ----------
        normalizer : Normalizer, optional
            Makes the blocks of the views `new` orthonormal; by default by eigenvalues, without directions that are
            rounding.
        new : sequence of int
        """
        turns = []
        forms = [self.W[0].T @ self.CW[0]]
        if normalizer is None:
            for V, SV, (d, _) in zip(self.W, self.SW, self.noise, strict=True):
                forms += [V.T @ SV, V.T @ (V * d)]
        C, *forms = to_host_together(*forms)
        for i, (V, SV, (_, cut)) in enumerate(zip(self.W, self.SW, self.noise, strict=True)):
            if normalizer is not None and i in new:
                turns.append(normalizer.orthonormalize(V, SV)[1])
            elif normalizer is not None:
                turns.append(np.eye(V.shape[1]))
            else:
                turns.append(whitening_above_noise(forms[2 * i], forms[2 * i + 1], cut))
        U, rho, Vt = np.linalg.svd(turns[0].T @ C @ turns[1], full_matrices=False)
        m = len(rho)
        pairs = self.turned((turns[0] @ U[:, :m], turns[1] @ Vt[:m].T))
        return replace(pairs, rho=rho)

    def ordered(self, rho: HostArray) -> Pairs:
        """Pairs that are canonical already, with their correlations, largest first."""
        order = np.argsort(-rho, kind="stable")
        pairs = self
        if (np.diff(rho) > 0).any():
            turn = np.eye(len(rho))[:, order]
            pairs = self.turned((turn, turn))
        return replace(pairs, rho=np.clip(rho[order], 0.0, 1.0))

    def leading(self, k: int, of_psi: int | None = None) -> Pairs:
        """The first k columns of Φ, and as many of Ψ unless that is said."""
        m = k if of_psi is None else of_psi
        W, SW = ((V[0][:, :k], V[1][:, :m]) for V in (self.W, self.SW))
        GW = None if self.GW is None else (self.GW[0][:, :k], self.GW[1][:, :m])
        CW = self.CW[0][:, :m], self.CW[1][:, :k]
        return replace(self, W=W, SW=SW, CW=CW, GW=GW, rho=self.rho[:k])

    def gap(self, i: int) -> Array:
        """ϱ of view i (2): the residual of (1), and minus half the gradient of a half step at Φ diag(ρ)."""
        return self.CW[i] - self.SW[i] * self.there

    def squares(self, metrics: Sequence[Metric], k: int | None = None) -> HostArray:
        """‖ϱᵢ‖² for k pairs, by default all."""
        duals = [metric.dual(self.gap(i)[:, :k]) for i, metric in enumerate(metrics)]
        return to_host(sum(self.device.column_sums(y * y) for y in duals))

    def residual(self, metrics: Sequence[Metric], k: int) -> float:
        """The residual of the first k pairs (2)."""
        return ratio(float(self.squares(metrics, k).sum()), float(self.rho[:k].sum()))

    def arrays(self) -> dict[str, Array]:
        """All columns, as the certificate takes them."""
        return {"x_weights": self.W[0], "y_weights": self.W[1]}


class Gains:
    """The gain of the sum of correlations that an iteration still expects, where norms do not bound what is missing.

    If each gain is q < 1 times the one before, the gains to come add up to q/(1 - q) times the last (Aitken 1926). q
    comes from gains several steps apart, because single gains fluctuate.

    Parameters
    ----------
    metrics : sequence of Metric
        Only where one of them is that of a preconditioner, gains are expected.
    apart : int, default 5
        Steps between the gains that q comes from; more for a method with small gains in each step.
    slowest : float, default 0.98
        The largest q.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.families.cca import Gains
    >>> Gains([]).residual(1e-9, np.array([0.9, 0.5]))  # exact norms bound what is missing
    1e-09
    """

    USUAL = 0.5
    OPTIMISTIC = 3.0

    def __init__(self, metrics: Sequence[Metric], apart: int = 5, slowest: float = 0.98) -> None:
        self.rough = any(metric.source == "preconditioned" for metric in metrics)
        self.apart, self.slowest = apart, slowest
        self.totals: list[float] = []

    def residual(self, residual: float, rho: HostArray) -> float:
        """The residual, or a third of the relative gain that is expected, if that is larger."""
        if not self.rough:
            return residual
        self.totals = [*self.totals[-self.apart - 1 :], float(rho.sum())]
        gains = np.maximum(np.diff(self.totals), 0.0)
        if not len(gains):
            return max(residual, 1.0)
        apart = len(gains) - 1
        first = gains[0]
        q = (gains[-1] / first) ** (1 / apart) if apart and first > 0 else self.USUAL
        q = min(q, self.slowest)
        expected = ratio(float(gains[-1]) * q / (1 - q), self.totals[-1])
        return max(residual, min(expected / self.OPTIMISTIC, 1.0))


def first_blocks(
    moments: Moments,
    context: Context,
    start: Mapping[str, Array] | None,
    width: int,
    test_matrix: Any,
    fresh: int = FRESH,
) -> list[Array]:
    """Draw a block for each view: the weights of a start, and random columns.

    Parameters
    ----------
    moments : Moments
    context : Context
    start : mapping of str to array, or None
        With `x_weights` and `y_weights`.
    width : int
    test_matrix : TestMatrix
    fresh : int, default 5
        Random columns beside a start, at least; 0 where only runs go on from their own blocks.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from types import SimpleNamespace
    >>> from linspec.families.cca import first_blocks
    >>> from linspec.rows import Moments, Passes
    >>> moments = Moments.of_products({"X": ls.as_operator(np.eye(9, 6)), "Y": ls.as_operator(np.eye(9, 8))}, Passes())
    >>> context = SimpleNamespace(rng=np.random.default_rng(0))
    >>> matrix = SimpleNamespace(draw=lambda rows, columns, rng: rng.standard_normal((rows, columns)))
    >>> [V.shape for V in first_blocks(moments, context, None, 2, matrix)]
    [(6, 2), (8, 2)]
    """
    blocks = []
    for A, name in zip(moments.operators, ("x_weights", "y_weights"), strict=True):
        device = A.device.blocks
        known = 0 if start is None else start[name].shape[1]
        columns = min(max(width, known + fresh * (known > 0)), *moments.widths)
        drawn = device.asarray(test_matrix.draw(A.shape[1], columns, context.rng))
        if start is not None:
            weights = device.asarray(start[name])[:, :columns]
            unit = float(device.norm(weights)) / max(weights.shape[0] * weights.shape[1], 1) ** 0.5 or 1.0
            drawn = device.concat([weights, drawn[:, weights.shape[1] :] * unit])
        blocks.append(drawn)
    return blocks


def block_width(problem: ls.CCA, oversample: int) -> int:
    """The number of columns of a block: k plus `oversample`, limited by the shapes of the data.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.cca import block_width
    >>> X, Y = np.random.default_rng(0).standard_normal((2, 50, 4))
    >>> block_width(ls.CCA(X, Y, k=2), 10)
    4
    """
    return int(min(problem.k + oversample, problem.X.shape[1], problem.Y.shape[1], problem.X.shape[0]))


def multiplied(problem: Any, moments: Moments, W: Sequence[Array]) -> tuple[Pairs, list[Metric]]:
    """Multiply two blocks, and make the norms of their residuals, in one pass.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        Keeps the norms.
    W : sequence of array
        A block for each view.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.cca import multiplied
    >>> from linspec.rows import Moments, Passes
    >>> X, Y = np.random.default_rng(0).standard_normal((2, 50, 3))
    >>> problem = ls.CCA(X, Y, k=2, center=False)
    >>> pairs, metrics = multiplied(problem, Moments.of_products(problem.matrices, Passes()), [np.eye(3), np.eye(3)])
    >>> bool(np.allclose(pairs.CW[0], X.T @ Y)), [metric.source for metric in metrics]
    (True, ['preconditioned', 'preconditioned'])
    """

    def product(V: Sequence[Array]) -> tuple[Sequence[Array], Pairs]:
        """SxΦ and SyΨ, and all products."""
        pairs = Pairs.of(moments, problem.ridge, V)
        return pairs.SW, pairs

    pairs, metrics = with_norms(moments, problem.ridge, W, problem.k, product)
    return pairs.leading(W[0].shape[1], W[1].shape[1]), metrics


def cross(moments: Moments, metrics: Sequence[Metric]) -> Array:
    """T = NxᵀCNy with NNᵀ = S⁻¹, from held Gram matrices or a held triangle: its singular values are correlations."""
    x, y = metrics
    if moments.root is not None:
        Rx, Ry = moments.root
        return (Rx @ x.N).T @ (Ry @ y.N)
    return x.dual(moments.held[0][1] @ y.N)  # type: ignore[index]


def all_pairs(problem: ls.CCA, moments: Moments) -> dict[str, Any]:
    """The k leading pairs and the next correlation, from held Gram matrices or a held triangle.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.cca import all_pairs
    >>> from linspec.rows import Moments, Passes
    >>> X, Y = np.eye(4)[:, :2], np.eye(4)[:, 1:3]
    >>> problem = ls.CCA(X, Y, k=1, center=False)
    >>> moments = Moments.of_products(problem.matrices, Passes())
    >>> moments.gram() is not None, all_pairs(problem, moments)["correlations"].round(12)
    (True, array([1.]))
    """
    moments.metrics = moments.metrics or norms_of_held(moments, problem.ridge, every=True)
    T = cross(moments, moments.metrics)
    k = problem.k
    U = T[:, :0]
    rho = np.zeros(0)
    V = T.T[:, :0]
    if all(T.shape):
        U, rho, V = leading_svd(T, k + 1, Device.of(T))
    x, y = moments.metrics
    return {
        "x_weights": x.lift(U[:, :k]),
        "y_weights": y.lift(V[:, :k]),
        "correlations": rho[:k],
        "next": rho[k:],
    }
