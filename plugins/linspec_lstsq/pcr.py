"""Principal component regression.

Problem: min ‖A x − B‖² + r ‖x‖², with x only along the leading right singular vectors of A.
Method: with the k leading triplets U, d, V of A, found by a randomized SVD, x = V (d/(d² + r)) UᵀB.
Source: Lu 2015 (thesis), chapter 2; Massy 1965, doi:10.1080/01621459.1965.10480787.
Where we differ: only in that U is never formed. The part outside the components is ignored, so the residual
of the full problem remains large; the status says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, Status, form_option, option, part
from linspec.arrays import to_host
from linspec_lstsq.principal_components import principal_components


@dataclass(frozen=True, kw_only=True)
class PrincipalComponentRegression(Solver):
    """Ridge regression on the leading principal components (Lu 2015, chapter 2)."""

    rank: int = option(20, "principal components", at_least=1)
    test_matrix: Any = part("gaussian", "what the randomized SVD multiplies", kind="test-matrix")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        moments = run.moments(self.form)
        home = moments.home
        found = principal_components(moments, self.rank, run.part(self.test_matrix), run)
        UtB = to_host(found.Z.T @ found.AtB)
        d = found.d[:, None]
        x = found.V @ home.place(np.hstack([d / (d**2 + r) * UtB for r in problem.ridges]))
        run.note(
            Status.APPROXIMATE,
            f"Regressed on {len(found.d)} principal components of {min(problem.A.shape)}; raise rank for more.",
        )
        return run.finish(x=x, rank=None)
