"""Principal component regression.

Problem: min ‖A x - B‖² + r ‖x‖², with x only along the leading right singular vectors of A.
Method: with the k leading triplets U, d, V of A, from a randomized SVD (principal_components.py),

    UᵀB = ZᵀAᵀB                     (1)
    x = V (d/(d² + r)) UᵀB          (2)

Source: Lu 2015 (thesis), chapter 2; Massy 1965, doi:10.1080/01621459.1965.10480787.
Where we differ: only in that U is never formed. The part outside the components is ignored, so the residual
of the full problem remains large; the status says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import Status, form_option, option, part
from linspec.arrays import to_host
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_lstsq.principal_components import PrincipalComponents, random_block


@dataclass(frozen=True, kw_only=True)
class PrincipalComponentRegression(Solver):
    """Ridge regression on the leading principal components (Lu 2015, chapter 2)."""

    rank: int = option(20, "principal components", at_least=1)
    test_matrix: Any = part("gaussian", "what the randomized SVD multiplies", kind="test-matrix")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        A, place = moments.operators[0], moments.operators[0].backend.blocks
        moments.expect(2, self.rank, self.form)
        Omega = place.place(random_block(self.test_matrix, A.shape[1], self.rank, context.rng))
        (Y, _), (AtB, _) = moments.products(Omega, place.eye(problem.B.shape[1]))
        leading = PrincipalComponents.of(Y, moments.gram_product, self.rank)
        UtB, d = to_host(leading.Z.T @ AtB), leading.d[:, None]  # (1)
        x = leading.V @ place.place(np.hstack([d / (d**2 + r) * UtB for r in problem.ridges]))  # (2)
        text = f"Regressed on {len(d)} principal components of {min(A.shape)}; raise rank for more."
        context.note(Status.APPROXIMATE, text)
        yield Iterate(math.nan, partial(dict, x=x), final=True)
