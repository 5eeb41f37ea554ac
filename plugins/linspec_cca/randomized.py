"""Randomized CCA: a range finder for the cross product, then the exact CCA within the ranges found.

Problem: approximate the k leading canonical pairs in as few passes as possible.
Method: with C = XᵀY and random Ω,

    (1)  Qx = orth(C Ωy),   Qy = orth(CᵀΩx),
    (2)  Qx ← orth(C Qy),   Qy ← orth(CᵀQx)   in each power pass,
    (3)  the exact CCA of X Qx and Y Qy, including the ridge.

Without power passes there are two passes in all: the last one solves (3), and is that of the certificate.
Source: Mineiro & Karampatziakis 2014, arXiv:1411.3409; the range finder is that of Halko, Martinsson & Tropp 2011,
doi:10.1137/090771806.
Where we differ: if C has a rank below k, columns of Sx Ωx and Sy Ωy from the first pass are added, because
uncorrelated pairs are pairs, too. Limit of the method: the range of C is not whitened. Directions that are correlated
but short in the data are found late or never, and power passes favour the long ones even more. A wider block helps.

RPCCA: exact CCA between principal components.

Problem: approximate the leading canonical pairs if the long directions of the views carry the correlations.
Method: compute m principal components of each view by a randomized SVD, and the exact CCA between them. The
weights are combinations of leading right singular vectors.
Source: Lu 2015 (thesis), section 3.5 (RPCCA); Ma, Lu & Foster 2015, arXiv:1506.08170, section 4 (PCA-CCA).
Where we differ: any SVD solver can be chosen by name, and its answer is not certified separately. The ridge
enters the CCA between components. That CCA uses the pass that also judges the answer, so the certificate
costs nothing. With all components the answer is that of CCA. Correlations in short directions are not found,
even if the SVD is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import linspec as ls
from linspec import SVD, Status, form_option, option, part
from linspec.families.cca import block_width, first_blocks
from linspec.iteration import Context, Iterate
from linspec.linalg import orthonormal
from linspec.rows import Moments
from linspec.solving import Solver

ENDED = (
    "The best pairs within the range of random columns: the residual shows how good they are. "
    'Raise oversample, or choose a solver that iterates to a tolerance, such as "als".'
)


@dataclass(frozen=True, kw_only=True)
class Randomized(Solver):
    """Randomized range finder and exact CCA within it (Mineiro & Karampatziakis 2014, arXiv:1411.3409)."""

    oversample: int = option(100, "columns beyond k", at_least=0)
    power_sweeps: int = option(0, "times to multiply by the cross product once more, a pass each", at_least=0)
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    normalizer: Any = part("cholesky-qr", "how bases are made orthonormal", kind="normalizer")
    form: str = form_option()

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        columns = block_width(problem, self.oversample)
        moments.expect(2 + self.power_sweeps, columns, self.form)
        W = first_blocks(moments, context, None, columns, self.test_matrix)
        (Sx, CtW), (CW, Sy) = moments.products(*W)
        for _ in range(self.power_sweeps):
            Q = [self.normalizer.orthonormalize(V)[0] for V in (CW, CtW)]  # (1), then (2)
            (_, CtW), (CW, _) = moments.products(*Q)
        Q = [self.normalizer.orthonormalize(V)[0] for V in (CW, CtW)]
        for i, V in enumerate((Sx, Sy)):
            if Q[i].shape[1] < problem.k:
                Q[i] = orthonormal(moments.operators[i].device.blocks.concat([Q[i], V]))[0]
        context.note(Status.APPROXIMATE, ENDED)
        yield Iterate(0.0, partial(dict, x_weights=Q[0], y_weights=Q[1]), final=True)  # (3)


LEFT_OUT = (
    "CCA between principal components: the residual shows the contribution of the others. "
    'Raise components, or choose a solver that iterates to a tolerance, such as "als".'
)


@dataclass(frozen=True, kw_only=True)
class PrincipalCCA(Solver):
    """Exact CCA between principal components (Lu 2015, section 3.5)."""

    components: int = option(300, "principal components of each view, at least k", at_least=1)
    svd: Any = part("lazy-spca", "the solver that finds the components", problem="svd")
    form: str = form_option()

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        wanted, W = max(self.components, problem.k), []
        moments.expect(3, wanted, self.form)
        for i, A in enumerate((problem.X, problem.Y)):
            m = int(min(wanted, *moments.operators[i].shape))
            with moments.view(i) as view:
                W.append(self.svd.answered(SVD(A, m), view, context)["Vh"].T)
        context.note(Status.APPROXIMATE, LEFT_OUT)
        yield Iterate(0.0, partial(dict, x_weights=W[0], y_weights=W[1]), final=True)
