"""Sparse components by alternation from several starts: the best weights of each view in turn, with the others held.

Problem: those of `linspec_pls.sparse.problem`.
Method: for each component, and for each start v,

    u ← the best weights for C v,   v ← the best weights for Cᵀu,                      (1)

where C has lost earlier components; of one matrix v ← the best weights for AᵀA v. No value falls. "pmd" has soft
thresholds for (1), "admm" solves a convex problem each time (`linspec_pls.sparse.penalty`). The starts are the
leading singular vectors of C, from subspace iteration with a random block, this block, and vectors of an earlier
answer. All starts are columns of one block, which has ROUGH steps; then a few go on until the best of them violates no
condition.
What is held: "pmd" holds XᵀY, or of one matrix AᵀA, where that saves passes and fits; else a step is a pass over each
view. So sparse rows stay sparse, and of wide data no square matrix is formed. "admm" holds all Gram matrices.
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Algorithms 1 to 3; Suo, Minden, Nelson,
Tibshirani & Saunders 2017, arXiv:1705.10865, Algorithm 1.
Where we differ: they have one start, the leading singular vector, and a fixed number of steps. A search also ends where
no step has lowered the residual for long, as where no weights of length 1 in S are best within a small bound of groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import form_option, limit_option, option, tol_option
from linspec.arrays import HostArray, reciprocal, to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.iteration import Context, Iterate
from linspec.process import check_memory
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.sparse.penalty import MetricPenalty
from linspec_pls.sparse.problem import Component

POWERS = 20
ROUGH = 15
KEPT = 3
COPIES = 6
EXPECTED = 100
PATIENCE = 200
"""Steps of the subspace iteration, steps of all starts, the starts that go on, square matrices of all columns that
"admm" holds at most, expected products with each view, and steps without a lower residual after which a search ends."""

ENDED = "The search had not ended: components are missing, or other starts may have larger values."


@dataclass(frozen=True, kw_only=True)
class PMD(Solver):
    """The penalized matrix decomposition from several starts (Witten, Tibshirani & Hastie 2009)."""

    repeats: int = option(10, "starts of each component", at_least=1)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    def hold(self, problem: Any, moments: Moments) -> Any:
        """Hold what saves passes; return the penalty of each side, whose best weights are the half steps."""
        moments.expect(EXPECTED, self.repeats, "dense" if moments.once else self.form)
        return problem.penalties

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the components so far and the best start of the next one, after each step."""
        penalties = self.hold(problem, moments)
        d = problem.lengths(moments)
        spare = context.rng.standard_normal((len(d), problem.k))
        if start is not None:
            spare = problem.joined([start[name] for name in problem.solved]) * d[:, None]
        earlier: list[Component] = []
        residual = worst = 0.0

        def pull(T: HostArray) -> Any:
            onto, image, _ = problem.multiplied(moments, T, d)
            return problem.after(onto, T, earlier), image

        while len(earlier) < problem.k:
            random = context.rng.standard_normal((len(d), self.repeats))
            W = random[:, : min(problem.widths)]
            for _ in range(POWERS):
                W = np.concatenate([np.linalg.qr(part)[0] for part in problem.sides(pull(W)[0])])
            W = np.concatenate([W, random, spare], axis=1)
            A = pull(W)[0]
            past: list[float] = []
            while len(past) < ROUGH or (
                residual > context.tol and min(past[-PATIENCE:]) < min(past[:-PATIENCE], default=np.inf)
            ):
                for i, penalty in enumerate(penalties):
                    w = problem.sides(W)
                    w[i] = penalty.best(problem.sides(A)[i], w[i])
                    W = np.concatenate(w)
                    A, image = pull(W)
                values = problem.products(W, A)[0]
                best = np.argsort(-values)[: KEPT if len(past) >= ROUGH else None]
                W = W[:, best]
                A = A[:, best]
                component = Component(W[:, 0], image[:, best[0]], A[:, 0], float(values[best[0]]))
                residual = max(worst, problem.violation(component, penalties))
                past.append(residual)
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


@dataclass(frozen=True, kw_only=True)
class ADMM(PMD):
    """Alternating convex problems by ADMM (Suo, Minden, Nelson, Tibshirani & Saunders 2017)."""

    def hold(self, problem: Any, moments: Moments) -> Any:
        """Hold the Gram matrices, and return the penalties with these in units of the columns."""
        columns = sum(moments.widths)
        what = f"Gram matrices and eigenvectors of {columns} columns"
        check_memory("sparse-cca", 8 * COPIES * columns**2, what, "linspec.SparsePLS takes more columns.")
        held = moments.gram()
        units = problem.sides(reciprocal(problem.lengths(moments)))
        metrics = [unit[:, None] * to_host(held[i][i]) * unit for i, unit in enumerate(units)]
        pairs = zip(problem.penalties, metrics, strict=True)
        return [MetricPenalty(penalty.bound, penalty.index, S) for penalty, S in pairs]
