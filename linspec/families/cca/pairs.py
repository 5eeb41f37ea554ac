"""The start and the iterates of an iteration for canonical pairs.

Problem: iterations on a block of columns of each view differ only in their step. They start in the same way, from the
columns of an earlier solution followed by random ones, and use the same stopping rule.
Method: the sweep of the first blocks also computes the norms in which residuals are measured. Iterates are the
canonical pairs of the two spans, with the residual of the law or the gain that is still expected.
"""

from __future__ import annotations

import math
from typing import Any

from linspec.algebra import metric_rounding
from linspec.algebra.inverse_norm import diagonal_norm
from linspec.arrays import Array, Home, largest_magnitude
from linspec.families.cca.expected_gain import ExpectedGain
from linspec.families.cca.law.evidence import Evidence, inverse_norms, probes
from linspec.families.cca.problem import CCA
from linspec.moments.moments import Moments
from linspec.moments.pairs import PARTS_OF_PAIRS, Basis, Metrics, Pairs, multiplied
from linspec.solving.iterates import Iterate
from linspec.solving.run import Run
from linspec.status import Status


class PairsIterate(Iterate):
    """Canonical pairs as an iterate.

    Parameters
    ----------
    pairs : Pairs
        Canonical pairs, as `Pairs.canonical` returns them.
    k : int
        The number of requested pairs; the blocks may have more.
    gain : ExpectedGain, optional
        The expected gain after this step. `gain.residual` is compared with the tolerance. Without `gain`, the residual
        Σ‖ϱᵢ‖² / Σρᵢ of the first k pairs is compared (`Pairs.residual`), measured in the norms `pairs.metrics.norms`.
    ending : Status, optional
        The status with which the run ends at this iterate; by default the run decides.
    **state
        Further state that the next step needs in addition to the pairs.

    Examples
    --------
    A loop with one step of power iteration on each side, Φ ← C Ψ and Ψ ← CᵀΦ:

    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> from linspec.families.cca import KEPT, PairsIterate, first_pairs
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Power(ls.IterativeSolver):
    ...     tol: float | None = ls.tol_option()
    ...     max_iterations: int = ls.limit_option(20)
    ...     test_matrix: object = ls.part("gaussian", "random start", kind="test-matrix")
    ...     normalizer: object = ls.part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    ...     kept = KEPT
    ...     def iterates(self, problem, run, state=None):
    ...         moments, normalizer = run.moments(), run.part(self.normalizer)
    ...         if state is None:
    ...             pairs = first_pairs(problem, run, moments, run.part(self.test_matrix), problem.k)
    ...             state = PairsIterate(pairs.canonical(normalizer), problem.k)
    ...         while True:
    ...             yield state
    ...             pairs = state.pairs.renewed(moments, state.pairs.image(0), state.pairs.image(1))
    ...             state = PairsIterate(pairs.canonical(normalizer), problem.k)
    >>> Q = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 5)))[0]  # its columns have no others' part
    >>> found = ls.solve(ls.CCA(Q[:, :3], Q[:, 1:], k=2, center=False), Power(), rng=0)
    >>> found.correlations.round(6), found.converged
    (array([1., 1.]), True)
    """

    def __init__(
        self,
        pairs: Pairs,
        k: int,
        /,
        *,
        gain: ExpectedGain | None = None,
        ending: Status | None = None,
        **state: Any,
    ) -> None:
        residual = pairs.leading(k).residual if gain is None else gain.residual
        super().__init__(residual, ending=ending, state=state)
        self.pairs, self.k, self.gain = pairs, k, gain

    def weights(self) -> dict[str, Array]:
        """The leading k columns of both blocks."""
        return {"x_weights": self.pairs[0].V[:, : self.k], "y_weights": self.pairs[1].V[:, : self.k]}

    def answer(self) -> dict[str, Any]:
        """Return the keyword arguments for `run.finish`.

        `x_weights` and `y_weights` are all columns of both blocks, also those beyond k. `evidence` holds the norms,
        residuals and correlations from which the certificate is computed.
        """
        pairs, k = self.pairs, self.k
        leading = pairs.leading(k)
        known = Evidence(
            norms=(pairs.metrics.norms[0], pairs.metrics.norms[1]),
            residuals=(leading.residual_block(0), leading.residual_block(1)),
            carried=None if pairs.rho is None or len(pairs.rho) <= k else float(pairs.rho[-1]),
            expected_gain=0.0 if self.gain is None else self.gain.expected,
        )
        return {"x_weights": pairs[0].V, "y_weights": pairs[1].V, "evidence": known}


KEPT: tuple[type, ...] = (PairsIterate, ExpectedGain, *PARTS_OF_PAIRS)
"""The classes that solvers with such iterates list in `kept`, so that checkpoints can restore them."""


def first_pairs(
    problem: CCA, run: Run, moments: Moments, test_matrix: Any, columns: int, *, diagonal: bool = False
) -> Pairs:
    """Compute starting blocks for both views with their products, and the norms of residuals, in one sweep.

    Parameters
    ----------
    problem : CCA
    run : Run
    moments : Moments
        The moments of both views.
    test_matrix : TestMatrix
        Draws the blocks, with the same numbers on every backend. If the run starts from an earlier solution, the
        weights of this solution replace the first columns.
    columns : int
        The number of columns of each block.
    diagonal : bool, default False
        Whether residuals are measured in the norms of diag(Sx)⁻¹ and diag(Sy)⁻¹. By default `inverse_norms` computes
        the norms of Sx⁻¹ and Sy⁻¹, or approximations of them.

    Returns
    -------
    Pairs
        Neither normalised nor canonical.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> from linspec.families.cca import first_pairs
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Chance(ls.Solver):
    ...     test_matrix: object = ls.part("gaussian", "random start", kind="test-matrix")
    ...     def solve(self, problem, run):
    ...         pairs = first_pairs(problem, run, run.moments(), run.part(self.test_matrix), problem.k)
    ...         return run.finish(x_weights=pairs[0].V, y_weights=pairs[1].V)
    >>> X, Y = np.random.default_rng(0).standard_normal((2, 50, 4))
    >>> ls.solve(ls.CCA(X, Y, k=4), Chance(), rng=0).x_weights.shape  # the whole space: no iteration is needed
    (4, 4)
    """
    home, ridges = moments.home, problem.ridge
    drawn = [home.place(test_matrix.draw(A.shape[1], columns, run.rng)) for A in (problem.X, problem.Y)]
    blocks, _ = behind_an_answer(run, drawn, home)
    sent = [] if diagonal else probes(problem, moments)
    beside = (
        [home.concat([V, probe.block]) for V, probe in zip(blocks, sent, strict=True)] if sent else blocks
    )
    both = [basis for basis in multiplied(moments, ridges, beside) if basis is not None]
    diagonals = tuple(d + r for d, r in zip(moments.diagonal(), ridges, strict=True))
    if diagonal:
        norms = tuple(diagonal_norm(d, r, home) for d, r in zip(diagonals, ridges, strict=True))
    else:
        tails = [basis.SV[:, V.shape[1] :] for basis, V in zip(both, blocks, strict=True)]
        norms = inverse_norms(problem, moments, sent, tails, judging=False)
    cuts = tuple(metric_rounding(A.shape[1], A.dtype) for A in (problem.X, problem.Y))
    # Weights of zero columns do not affect products, and would grow without limit in steps that scale blocks up.
    live = [home.xp.astype(d > 0, d.dtype)[:, None] for d in diagonals]
    bases = []
    for V, basis, on in zip(blocks, both, live, strict=True):
        first = basis[: V.shape[1]]
        bases.append(Basis(V * on, first.SV, first.CV))
    return Pairs(Metrics(home, tuple(ridges), diagonals, cuts, norms), (bases[0], bases[1]))


def behind_an_answer(run: Run, drawn: list[Array], home: Home) -> tuple[list[Array], int]:
    """Replace the first columns of drawn blocks by the weights of an earlier solution, if the run starts from one.

    In each block the other columns are multiplied by the smallest power of two above the largest absolute value of
    these weights, because the size of weights depends on the units of the data.

    Parameters
    ----------
    run : Run
        `run.start` holds the earlier `x_weights` and `y_weights`, or is None.
    drawn : list of array of shape (p, k) and (q, k)
    home : Home

    Returns
    -------
    blocks : list of array of shape (p, k) and (q, k)
        `drawn` itself if there are no earlier weights.
    known : int
        The number of columns that were replaced in each block.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from linspec.arrays import HOST
    >>> from linspec.families.cca import behind_an_answer
    >>> run = SimpleNamespace(start={"x_weights": np.full((2, 1), 4.0), "y_weights": np.ones((3, 1))})
    >>> blocks, known = behind_an_answer(run, [np.ones((2, 2)), np.ones((3, 2))], HOST)
    >>> blocks[0].tolist(), known
    ([[4.0, 8.0], [4.0, 8.0]], 1)
    """
    if run.start is None:
        return drawn, 0
    earlier = [home.place(run.start[name]) for name in ("x_weights", "y_weights")]
    known = int(min(drawn[0].shape[1], earlier[0].shape[1]))
    units = [2.0 ** math.frexp(largest_magnitude(V))[1] for V in earlier]
    blocks = zip(earlier, drawn, units, strict=True)
    return [home.concat([V[:, :known], W[:, known:] * unit]) for V, W, unit in blocks], known


def block_width(problem: CCA, oversample: int) -> int:
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
