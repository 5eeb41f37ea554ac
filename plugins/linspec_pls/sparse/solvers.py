"""Sparse components by alternation from several starts: the best weights of each view in turn, with the others held.

Problem: those of `linspec_pls.sparse.problem`.
Method: for each component, and for each start v,

    u ← the best weights for C v,   v ← the best weights for Cᵀu,                      (1)

where C has lost earlier components; of one matrix v ← the best weights for AᵀA v. No value falls. The starts are the
leading singular vectors of C, from subspace iteration with a random block, this block, and vectors of an earlier
answer. All starts are columns of one block, which has ROUGH steps with soft thresholds, as if S were the identity. Then
few go on with the S of the problem (`linspec_pls.sparse.penalty`); for correlations two more begin here, the pair of
columns that is best for bounds of 1, and the canonical pair, which is best where no bound binds. The best one goes on
until it violates no condition, and each step begins further,

    w ← w + HEAVY (w − the one before),                                                (2)

which takes fewer steps where values are close (Polyak 1964).
What is held: XᵀY, or of one matrix AᵀA, where that saves passes and fits; else a step is a pass over each view. So
sparse rows stay sparse, and of wide data no square matrix is formed. Correlations need all Gram matrices.
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Algorithms 1 to 3; Suo, Minden, Nelson,
Tibshirani & Saunders 2017, arXiv:1705.10865, Algorithm 1; Polyak 1964, doi:10.1016/0041-5553(64)90137-5.
Where we differ: they have one start, the leading singular vector, and a fixed number of steps. A search also ends where
no value has risen for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import form_option, limit_option, option, tol_option
from linspec.arrays import HOST, HostArray, reciprocal
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.iteration import Context, Iterate
from linspec.linalg import leading_svd
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.sparse.problem import Component

POWERS = 20
ROUGH = 10
FEW = 2
KEPT = 8
HEAVY = 0.8
CLOSER = 0.1
EXPECTED = 100
PATIENCE = 50
"""Steps of the subspace iteration, of all starts without an earlier answer, and of those that go on; these, the part of
a step in (2), the part of the tolerance that a component reaches, since later ones multiply its error, expected
products with each view, and steps without a larger value after which a search ends."""

ENDED = "The search had not ended: components are missing, or other starts may have larger values."


@dataclass(frozen=True, kw_only=True)
class Alternating(Solver):
    """Alternation from several starts: the penalized matrix decomposition, and sparse CCA."""

    repeats: int = option(10, "starts of each component", at_least=1)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the components so far and the best start of the next one, after each step."""
        exact = problem.exact(moments)
        moments.expect(EXPECTED, self.repeats, "dense" if moments.once else self.form)
        d = problem.lengths(moments)
        unit = reciprocal(d)[:, None]
        spare = context.rng.standard_normal((len(d), problem.k))
        if start is not None:
            spare = problem.joined([start[name] for name in problem.solved]) * d[:, None]
        rough = ROUGH if start is None else 0
        earlier: list[Component] = []
        residual = worst = 0.0

        def pull(T: HostArray) -> Any:
            onto, image, _ = problem.multiplied(moments, T, unit)
            return problem.after(onto, T, earlier), image

        while len(earlier) < problem.k:
            random = context.rng.standard_normal((len(d), self.repeats))
            W = random[:, : min(problem.widths)]
            for _ in range(POWERS):
                W = np.concatenate([np.linalg.qr(part)[0] for part in problem.sides(pull(W)[0])])
            W = np.concatenate([W, random, spare], axis=1)
            A = pull(W)[0]
            before = W, A
            past: list[float] = []
            while len(past) <= rough or (
                residual > CLOSER * context.tol
                and max(past[-PATIENCE:]) > max(past[:-PATIENCE], default=-np.inf)
            ):
                if len(past) == rough and problem.metric:
                    W = np.concatenate([W, last_starts(exact, pull)], axis=1)
                    A = pull(W)[0]
                    before = W, A
                further = HEAVY if len(past) > rough + FEW else 0.0
                now = W + further * (W - before[0])  # (2)
                pulls = A + further * (A - before[1])
                for i, penalty in enumerate(exact if len(past) >= rough else problem.penalties):
                    w = problem.sides(now)
                    w[i] = penalty.best(problem.sides(pulls)[i], w[i])  # (1)
                    now = np.concatenate(w)
                    pulls, image = pull(now)
                now, image, pulls = problem.within(exact, now, image, pulls)
                values = problem.products(now, pulls)[0]
                kept = len(values) if len(past) < rough - 1 else KEPT if len(past) < rough + FEW else 1
                best = np.argsort(-values)[:kept]
                before = W[:, best], A[:, best]
                W = now[:, best]
                A = pulls[:, best]
                component = Component(W[:, 0], image[:, best[0]], A[:, 0], float(values[best[0]]))
                residual = np.maximum(worst, problem.violation(component, exact))
                past.append(component.value)
                vectors = [*(one.t for one in earlier), component.t, *spare.T[len(earlier) + 1 : problem.k]]
                missing = start is None and len(earlier) + 1 < problem.k  # spare vectors are in their place
                yield Iterate(
                    1.0 if missing else residual, partial(problem.in_data_units, vectors, d), doubt=ENDED
                )
            earlier.append(component)
            worst = residual
        yield Iterate(worst, partial(problem.in_data_units, vectors, d))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of products with the starts."""
        return sweeps_estimate(replace(sizes, k=cls.repeats), EXPECTED * sizes.k)


def last_starts(penalties: Any, pull: Any) -> HostArray:
    """The pair of columns with the largest correlation, and the canonical pair: best for the least and no bounds."""
    N, M = (penalty.metric.N for penalty in penalties)
    both = np.eye(len(N)), np.eye(len(M))
    C = pull(np.concatenate([np.zeros((len(N), len(M))), both[1]]))[0][: len(N)]
    i, j = np.unravel_index(np.argmax(np.abs(C)), C.shape)
    U, _, V = leading_svd(N.T @ C @ M, 1, HOST)
    return np.concatenate([np.hstack([both[0][:, [i]], N @ U]), np.hstack([both[1][:, [j]], M @ V])])
