"""Sparse components by alternation from several starts: the best weights of each view in turn, with the others held.

Problem: those of `linspec_pls.sparse.problem`.
Method: for each component, and for each start v,

    u ← the best weights for C v,   v ← the best weights for Cᵀu,                      (1)

where C has lost earlier components; of one matrix v ← the best weights for AᵀA v. No value falls. "pmd" has soft
thresholds for (1), "admm" solves a convex problem each time (`linspec_pls.sparse.penalty`). The starts are the
leading singular vectors of C, from subspace iteration with a random block, and vectors of an earlier answer. All starts
are columns of one block, which has ROUGH steps; then the best goes on until it violates no condition.
What is held: "pmd" holds XᵀY, or of one matrix AᵀA, where that saves passes and fits; else a step is a pass over each
view. So sparse rows stay sparse, and of wide data no square matrix is formed. "admm" holds all Gram matrices.
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Algorithms 1 to 3; Suo, Minden, Nelson,
Tibshirani & Saunders 2017, arXiv:1705.10865, Algorithm 1.
Where we differ: they have one start, the leading singular vector, and a fixed number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import form_option, limit_option, option, tol_option
from linspec.arrays import HostArray, reciprocal, to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.iteration import Context, Iterate
from linspec.linalg import orthonormal
from linspec.process import check_memory
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.sparse.penalty import MetricPenalty, Penalty
from linspec_pls.sparse.problem import Component

POWERS, ROUGH, STILL, COPIES, EXPECTED = 8, 15, 50, 6, 100
"""Steps of the subspace iteration, steps of all starts, steps without a rise of the value after which one ends, square
matrices of all columns that "admm" holds at most, and expected products with each view."""

ENDED = "The search had not ended: components are missing, or other starts may have larger values."

Pull = Callable[[HostArray], HostArray]
"""The products with the rows of weights of all sides, without earlier components."""


@dataclass(frozen=True, kw_only=True)
class PMD(Solver):
    """The penalized matrix decomposition from several starts (Witten, Tibshirani & Hastie 2009)."""

    repeats: int = option(5, "starts of each component", at_least=1)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(20_000)
    form: str = form_option()

    def hold(self, problem: Any, moments: Moments) -> list[Penalty]:
        """Hold what saves passes; return the penalties, whose best weights are the half steps."""
        moments.expect(EXPECTED, self.repeats, "dense" if moments.once else self.form)
        penalties: list[Penalty] = problem.penalties
        return penalties

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the components so far and the best start of the next one, after each step."""
        penalties, d = self.hold(problem, moments), problem.lengths(moments)
        given = (
            None if start is None else problem.joined([start[name] for name in problem.solved]) * d[:, None]
        )
        earlier: list[Component] = []
        worst = 0.0

        def pull(T: HostArray) -> HostArray:
            return np.asarray(problem.after(problem.multiplied(moments, T, d)[0], T, earlier))

        while len(earlier) < problem.k:
            W = leading_vectors(problem, pull, context.rng.standard_normal((len(d), self.repeats)))
            if given is not None:
                W = np.concatenate([W, given[:, len(earlier) :][:, :1]], axis=1)
            A, taken, last, value = pull(W), 0, 0, 0.0
            while A.any() and taken < last + STILL:
                for i, penalty in enumerate(penalties):
                    w = problem.sides(W)
                    w[i] = penalty.best(problem.sides(A)[i], w[i])
                    W = np.concatenate(w)
                    A = pull(W)
                best, taken = int(np.argmax(problem.products(W, A)[0])), taken + 1
                t, a = W[:, best], A[:, best]
                image = problem.joined(
                    [penalty.S @ part for penalty, part in zip(penalties, problem.sides(t), strict=True)]
                )
                component = Component(t, image, a, float(problem.products(t, a)[0]))
                residual = max(worst, problem.violation(component, penalties))
                yield Iterate(residual, partial(problem.in_data_units, [*earlier, component], d), doubt=ENDED)
                last, value = (taken, component.value) if component.value > value else (last, value)
                if taken >= ROUGH:
                    W, A = W[:, [best]], A[:, [best]]
                    if residual <= context.tol:
                        break
            if not taken:
                break
            earlier, worst = [*earlier, component], residual
        yield Iterate(worst, partial(problem.in_data_units, earlier, d))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of products with the starts."""
        return sweeps_estimate(replace(sizes, k=cls.repeats), EXPECTED * sizes.k)


@dataclass(frozen=True, kw_only=True)
class ADMM(PMD):
    """Alternating convex problems by ADMM (Suo, Minden, Nelson, Tibshirani & Saunders 2017)."""

    def hold(self, problem: Any, moments: Moments) -> list[Penalty]:
        """Hold the Gram matrices, and return the penalties with these in units of the columns."""
        columns = sum(moments.widths)
        what = f"Gram matrices and eigenvectors of {columns} columns"
        check_memory("sparse-cca", 8 * COPIES * columns**2, what, "linspec.SparsePLS takes more columns.")
        held, units = moments.gram(), problem.sides(reciprocal(problem.lengths(moments)))
        penalties: list[Penalty] = []
        for i, (penalty, unit) in enumerate(zip(problem.penalties, units, strict=True)):
            S = unit[:, None] * to_host(held[i][i]) * unit
            penalties.append(MetricPenalty(penalty.bound, penalty.index, S))
        return penalties


def leading_vectors(problem: Any, pull: Pull, T: HostArray) -> HostArray:
    """Some leading singular vectors of what is left on all sides, by subspace iteration."""
    for _ in range(POWERS):
        blocks = [orthonormal(part)[0] for part in problem.sides(pull(T))]
        T = np.concatenate([block[:, : min(block.shape[1] for block in blocks)] for block in blocks])
    return T
