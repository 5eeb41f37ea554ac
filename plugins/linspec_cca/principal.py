"""RPCCA: exact CCA between principal components.

Problem: approximate the leading canonical pairs if the long directions of the views carry the correlations.
Method: compute m principal components of each view by a randomized SVD, and the exact CCA between them. The
weights are combinations of leading right singular vectors.
Source: Lu 2015 (thesis), section 3.5 (RPCCA); Ma, Lu & Foster 2015, arXiv:1506.08170, section 4 (PCA-CCA).
Where we differ: any SVD solver can be chosen by name, and its answer is not judged separately. The ridge
enters the CCA between components. That CCA uses the pass that also judges the answer, so the certificate
costs nothing. With all components the answer is that of CCA. Correlations in short directions are not found,
even if the SVD is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import SVD, Status, form_option, option, part
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver

ENDED = (
    "CCA between principal components: the residual shows the contribution of the others. "
    'Raise components, or choose a solver that iterates to a tolerance, such as "als".'
)


@dataclass(frozen=True, kw_only=True)
class PrincipalCCA(Solver):
    """Exact CCA between principal components (Lu 2015, section 3.5)."""

    components: int = option(300, "principal components of each view, at least k", at_least=1)
    svd: Any = part("lazy-spca", "the solver that finds the components", problem="svd")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        wanted, W = max(self.components, problem.k), []
        moments.expect(3, wanted, self.form)
        for i, A in enumerate((problem.X, problem.Y)):
            m = int(min(wanted, *moments.operators[i].shape))
            with moments.view(i) as view:
                W.append(self.svd.answered(SVD(A, m), view, context)["Vh"].T)
        context.note(Status.APPROXIMATE, ENDED)
        yield Iterate(0.0, partial(dict, x_weights=W[0], y_weights=W[1]), final=True)
