"""RPCCA: exact CCA between principal components.

Problem: approximate the leading canonical pairs if the long directions of the views carry the correlations.
Method: compute m principal components of each view by a randomized SVD, and the exact CCA between them. The
weights are combinations of leading right singular vectors.
Source: Lu 2015 (thesis), section 3.5 (RPCCA); Ma, Lu & Foster 2015, arXiv:1506.08170, section 4 (PCA-CCA).
Where we differ: any SVD solver can be chosen by name, and its answer is not judged separately. The ridge
enters the CCA between components. That CCA uses the sweep that also judges the answer, so the certificate
costs nothing. With all components the answer is that of CCA. Correlations in short directions are not found,
even if the SVD is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import SVD, Run, Solution, Solver, Status, form_option, option, part

ENDED = (
    "CCA between {found} of {all} principal components: the residual shows the contribution of the others. "
)
ENDED += 'Raise components, or choose a solver that iterates to a tolerance, such as "als".'


@dataclass(frozen=True, kw_only=True)
class PrincipalCCA(Solver):
    """Exact CCA between principal components (Lu 2015, section 3.5)."""

    components: int = option(300, "principal components of each view, at least k", at_least=1)
    svd: Any = part("lazy-spca", "the solver that finds the components", problem="svd")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        wanted = max(self.components, problem.k)
        moments = run.moments(self.form, expect=(3, wanted))
        svd, weights, counts = run.part(self.svd), [], []
        for i, label in enumerate(problem.matrices):
            view = moments.view(i)
            n, p, _ = view.shape
            components = SVD(view, min(wanted, n, p), center=view.center)
            weights.append(moments.home.place(run.within(components, svd, label)["Vh"]).T)
            counts.append((weights[i].shape[1], min(n, p)))
        found, others = (" and ".join(str(count[j]) for count in counts) for j in (0, 1))
        run.note(Status.APPROXIMATE, ENDED.format(found=found, all=others))
        return run.finish(x_weights=weights[0], y_weights=weights[1])
