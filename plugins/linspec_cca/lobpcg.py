"""CCA by locally optimal block preconditioned conjugate gradients on both subspaces at once.

Problem: the leading canonical pairs of views too large for their Gram matrices, or for factoring them.
Method: each view has a subspace, and the pairs within the two are exact. Their residuals

    Rx = CΨ − SxΦ diag(ρ),   Ry = CᵀΦ − SyΨ diag(ρ)

are multiplied by a preconditioner of each Gram matrix, made orthogonal to the subspace, and added to it. One
sweep multiplies both new blocks by all four matrices; everything else is small. A subspace that has reached
its depth is reduced to the current pairs and the pairs before the last step. For a depth of three blocks
these are the directions of conjugate gradients.
Source: Knyazev 2001, doi:10.1137/S1064827500366124 (LOBPCG); restarts with the pairs before the last step as in
Stathopoulos 2007, doi:10.1137/050631574 (GD+k). Neither is about two views.
Where we differ: there is a subspace for each view, and not one of stacked vectors, so a block gives twice the
directions. The first block is random signs. Their product begins the iteration, makes the preconditioner
(`linspec.algebra.preconditioner`), and estimates the diagonals of operators that only give products. More columns
than k are carried, because the convergence then depends on the gap after them. Their number depends on the
cost of a sweep. Pairs with a residual far below the tolerance stay in the subspace and need no more products.
On request, sweeps go over a copy in float32 until the law, whose products are of the precision of the data, finds the
answer good enough; where it does not, the pairs are multiplied in that precision and so are all later directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec import (
    Moments,
    Run,
    Solution,
    Solver,
    Status,
    cost,
    form_option,
    limit_option,
    option,
    sweeps_option,
    tol_option,
)
from linspec.algebra import (
    Preconditioner,
    SketchNorm,
    metric_rounding,
    preconditioner_from_sketch,
    raised_diagonal,
    ratio,
    squares_together,
)
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import Estimate, Sizes
from linspec.families.cca import OPTIMISTIC, Evidence, ExpectedGain, behind_an_answer
from linspec_cca.search_space import SearchSpace, View, add_multiple

EXPECTED = 40
"""The expected number of sweeps, for the decision whether to hold Gram matrices."""

OVERSAMPLED_HELD, OVERSAMPLED = 16, 50
"""The number of columns beyond k if products cost no sweep, and if each costs one."""

DEPTH_HELD, DEPTH = 4, 3
"""The blocks of a subspace at most, in the same two cases. Reducing a deeper one takes less time for each step, and a
deeper one holds more."""

SETTLED = 0.01
"""A pair whose residual is below this fraction of the tolerance gets no more directions."""

FLOPS_BETWEEN = 57.0
"""Operations between two sweeps, in units of (p + q) m² for blocks of m columns."""

BLOCKS_HELD = 13
"""Blocks of m columns that are held at the peak: nine of the subspaces, and two for each of two threads."""

FEWEST_SIGNS = 4
"""The least number of random signs for an estimate of diagonals."""

LEAST_CUT = 1e-13
"""A length in S below this fraction is rounding, for any number of columns."""

DIGITS_LOST = {8: 1e-8, 4: 1e-3}
"""By the bytes of a number: the error by squaring above which the solution reports it."""

ABOVE = 0.01
"""A correlation that is above 1 by this much shows that rounding dominates."""

SINGLE_LEAST, SINGLE_PATIENCE = (30 * float(np.finfo(np.float32).eps)) ** 2, 3
"""Products in float32 bring the law, which is quadratic in residuals, to here; and the sweeps without progress."""

HIDDEN = 300.0
"""The solution reports a loss that may be above the tolerance by this factor."""


STATE: Mapping[str, Any] = {
    "width": int,
    "single": bool,
    "space": {
        "views": [
            {
                "diagonal": "columns",
                "coordinates": "vectors kept",
                "cut": float,
                "longest": float,
                "annihilated": object,
                "dtype": str,
                "panels": [["columns block"]],
            }
        ],
        "correlations": "pairs",
        "last": "before",
        "cross": "x y",
        "turns": ["kept turned"],
        "before": ["kept turned"],
        "folded": int,
    },
    "preconditioners": [{"weights": "columns", "L": "columns rank"}],
    "gain": {
        **dict.fromkeys(
            ("tol", "apart", "slowest", "patience", "residual", "expected", "within", "since"), float
        ),
        "turned": bool,
        "least": [float],
        "total?": float,
        "gains": [float],
    },
}
"""What a checkpoint has of an iteration."""


@dataclass(frozen=True, kw_only=True)
class LOBPCG(Solver):
    """Locally optimal block preconditioned conjugate gradients (Knyazev 2001, doi:10.1137/S1064827500366124)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "sweeps")
    oversample: int | None = option(
        None, "columns carried beyond k; none: 16 with held Gram matrices, else 50", kind=int, at_least=0
    )
    depth: int | None = option(
        None, "blocks of a subspace at most; none: 4 with held Gram matrices, else 3", kind=int, at_least=3
    )
    form: str = form_option()
    sweeps: str = sweeps_option()

    resumes: ClassVar[Mapping[str, Any]] = MappingProxyType(STATE)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments(self.form, expect=(EXPECTED, problem.k + OVERSAMPLED))
        if run.resumed is not None:
            # The copy in float32 is in no file; a reading of the data makes it again.
            swept = moments.in_single_precision() if run.resumed.get("single") else moments
            return self._iterated(problem, run, moments, swept, *_again(run.resumed, moments))
        copy = moments.single_cost if self.sweeps == "float32" else 0.0
        run.plan(setup=moments.setup_cost + moments.sweep_cost + copy)
        width = self._width(problem, moments)
        space, preconditioners, swept = self._begun(problem, run, moments, width)
        gain = ExpectedGain(run.tol) if swept is moments else ExpectedGain(run.tol, patience=SINGLE_PATIENCE)
        return self._iterated(problem, run, moments, swept, width, space, preconditioners, gain)

    def _iterated(
        self,
        problem: Any,
        run: Run,
        moments: Moments,
        swept: Moments,
        width: int,
        space: SearchSpace,
        preconditioners: list[Preconditioner],
        gain: ExpectedGain,
    ) -> Solution:
        """Go on until the run ends."""
        k = problem.k
        depth = self.depth or (DEPTH if moments.form == "implicit" else DEPTH_HELD)
        norms = [SketchNorm(P, r, moments.home) for P, r in zip(preconditioners, problem.ridge, strict=True)]
        while True:
            single = swept is not moments
            run.checkpoint(partial(_state, width, space, preconditioners, gain, single))
            # 1. residuals of the pairs within the two subspaces
            R = space.residuals(width)
            squares = np.add(*squares_together(norms, R))
            total = float(space.correlations[:k].sum())
            law = ratio(float(squares[:k].sum()), total)
            gain = gain.after(law, total, whole=space.whole)
            residual = gain.residual
            exhausted = gain.fell_behind or gain.turned or run.tol < law < SINGLE_LEAST
            if swept is not moments and exhausted and run.affords(moments.sweep_cost):
                space, swept, gain = _exactly(space, problem, moments, width), moments, ExpectedGain(run.tol)
                continue
            if gain.turned:
                # Only directions of rounding are left: the space without the last ones is no worse.
                space.undo()
                R = space.residuals(width)
                squares = np.add(*squares_together(norms, R))
                law = residual = ratio(float(squares[:k].sum()), float(space.correlations[:k].sum()))
            if gain.fell_behind or gain.turned:
                run.end(Status.STAGNATED)
            if not run.proceed(residual=residual, current=partial(space.weights, k)):
                doubts = _doubts(run, problem, space, gain, law)
                answer = self._answer(
                    space, norms, R, k, width, 0.0 if space.whole else gain.expected, doubts
                )
                del R
                if not _sent_back(run, space, width, answer):
                    return run.finish(**answer)
                if swept is not moments:
                    space, swept, gain = (
                        _exactly(space, problem, moments, width),
                        moments,
                        ExpectedGain(run.tol),
                    )
                    continue
                R = space.residuals(width)
            # 2. what shrinks them, outside of the subspaces; pairs far below the tolerance ask for nothing
            settled = SETTLED * min(run.tol, law) * space.correlations[: len(squares)]
            open_ = np.flatnonzero(squares > settled)
            Z = [P.solve(r) for P, r in zip(preconditioners, _chosen(R, open_, moments.home), strict=True)]
            del R
            _make_room(space, len(open_), width, depth)
            # 3. one sweep, and the pairs within the larger subspaces
            _extend(space, problem, swept, space.directions(Z))
            if space.correlations.max(initial=0.0) > 1 + ABOVE:
                space.undo()
                run.end(Status.STAGNATED)
            elif not space.whole:  # before the residuals, which cost nothing then
                _make_room(space, len(open_), width, depth)

    def _answer(
        self,
        space: SearchSpace,
        norms: list[SketchNorm],
        R: tuple[Array, Array],
        k: int,
        width: int,
        expected_gain: float,
        doubts: list[tuple[Status, str]],
    ) -> dict[str, Any]:
        """The first k pairs, with facts for their judgement."""
        carried, found = space.correlations[k:width], min(k, R[0].shape[1])
        known = Evidence(
            norms=(norms[0], norms[1]),
            residuals=(R[0][:, :found] + 0.0, R[1][:, :found] + 0.0),  # slices would keep all of them
            carried=float(carried[-1]) if len(carried) else None,
            expected_gain=expected_gain,
            doubts=tuple(doubts),
        )
        return {**space.weights(k), "evidence": known}

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Some dozens of products, held or swept, and the algebra between them."""
        p, q = sizes.p, sizes.q
        width = min(sizes.k + OVERSAMPLED, p, q)
        form, products = cost.moments_form(sizes, EXPECTED, width)
        if form != "implicit":
            width = min(sizes.k + OVERSAMPLED_HELD, p, q)
            products = cost.moments_estimates(sizes, EXPECTED, width)[form]
        between = EXPECTED * float(p + q) * width**2 * FLOPS_BETWEEN / cost.DENSE_RATE
        held = 8.0 * (p + q) * BLOCKS_HELD * width
        note = f"some {EXPECTED} products ({products.note}) with blocks of {width} columns"
        return Estimate(products.seconds + between, products.bytes + held, note)

    def _width(self, problem: Any, moments: Moments) -> int:
        """k columns and additional ones, as the shapes allow."""
        more = self.oversample
        if more is None:
            more = OVERSAMPLED if moments.form == "implicit" else OVERSAMPLED_HELD
        return int(min(problem.k + more, *problem.X.shape, problem.Y.shape[1]))

    def _begun(
        self, problem: Any, run: Run, moments: Moments, width: int
    ) -> tuple[SearchSpace, list[Preconditioner], Moments]:
        """Subspaces of the first blocks, the estimates from their product, in one sweep, and what is swept from now on.

        The first products are of the precision of the data: all residuals are judged by preconditioners that they make.
        """
        blocks, signs = self._first_blocks(problem, run, moments, width)
        products = _products(problem, moments, blocks)
        swept = moments.in_single_precision() if self.sweeps == "float32" else moments
        single = np.dtype(np.float32) if swept is not moments else None
        views, preconditioners = [], []
        for i, (A, r, d) in enumerate(
            zip((problem.X, problem.Y), problem.ridge, moments.diagonal(), strict=True)
        ):
            V, SV = blocks[i], products[3 * i]
            if not moments.columns.exact and V.shape[1] - signs >= FEWEST_SIGNS:
                d = raised_diagonal(V[:, signs:], SV[:, signs:], r, moments.home)
            preconditioners.append(preconditioner_from_sketch(V, SV, r, d, None, moments.home))
            views.append(_view(A, d, r, moments, moments.precision(i) if single is None else single))
        space = SearchSpace((views[0], views[1]))
        space.append([view.without_dead(V) for view, V in zip(views, blocks, strict=True)], products)
        return space, preconditioners, swept

    def _first_blocks(self, problem: Any, run: Run, moments: Moments, width: int) -> tuple[list[Array], int]:
        """Random signs, after the columns of an earlier answer if there is one, and how many columns it has."""
        home = moments.home
        drawn = [home.place(_signs(run, A.shape[1], width)) for A in (problem.X, problem.Y)]
        return behind_an_answer(run, drawn, home)


def _sent_back(run: Run, space: SearchSpace, width: int, answer: dict[str, Any]) -> bool:
    """Whether the law sends an answer back: then the run goes on from the first pairs.

    The law multiplies blocks of its own, so only these pairs are held beside. Where checkpoints are written, one may
    still ask for what the top of the loop began with: there the pairs are kept when the law has spoken.
    """
    if not (space.whole or run.keeps):
        space.keep(width)
    short = run.falls_short(**answer)
    if short and run.keeps and not space.whole:
        space.keep(width)
    return short


def _state(
    width: int,
    space: SearchSpace,
    preconditioners: list[Preconditioner],
    gain: ExpectedGain,
    single: bool,
) -> dict[str, Any]:
    """What the loop goes on with, for a checkpoint."""
    made = [{"weights": P.weights, "L": P.L} for P in preconditioners]
    return {
        "width": width,
        "space": space.state(),
        "preconditioners": made,
        "gain": asdict(gain),
        "single": single,
    }


def _again(
    state: Mapping[str, Any], moments: Moments
) -> tuple[int, SearchSpace, list[Preconditioner], ExpectedGain]:
    """What the loop of a checkpoint goes on with."""
    home = moments.home
    made = [
        Preconditioner(home, home.place(P["weights"]), home.place(P["L"])) for P in state["preconditioners"]
    ]
    return state["width"], SearchSpace.again(state["space"], home), made, ExpectedGain(**state["gain"])


def _view(A: Any, diagonal: Array, ridge: float, moments: Moments, dtype: np.dtype[Any]) -> View:
    """A subspace without vectors. With fewer rows than columns some vectors have length only by the ridge."""
    cut = max(metric_rounding(A.shape[1], dtype), LEAST_CUT)
    view = View(moments.home, dtype, diagonal + ridge, cut)
    if A.shape[0] < A.shape[1] and ridge > 0:
        view.longest = float(to_host(moments.home.xp.mean(view.diagonal))) / ridge
    return view


def _doubts(
    run: Run, problem: Any, space: SearchSpace, gain: ExpectedGain, law: float
) -> list[tuple[Status, str]]:
    """Findings of the iteration that a small residual does not show."""
    found = []
    if not space.whole and law <= run.tol < gain.expected / OPTIMISTIC < np.inf:
        text = (
            f"The sum of the correlations was still growing, by a relative {gain.expected:.0e}. The residual "
            "does not show this, because columns nearly depend on each other. Add a ridge, or iterate longer."
        )
        found.append((Status.ILL_CONDITIONED, text))
    for name, view, ridge in zip("XY", space.views, problem.ridge, strict=True):
        lost = view.longest * float(np.finfo(view.dtype).eps)
        if view.annihilated and ridge == 0:
            text = f"Combinations of the columns of {name} are zero up to the rounding of products. Add a ridge to "
            found.append((Status.RANK_DEFICIENT, text + "separate signal from chance."))
        elif lost > DIGITS_LOST[view.dtype.itemsize]:
            text = f"Combinations of the columns of {name} are {view.longest**0.5:.0e} times shorter than the columns: "
            text += f"correlations may be off by {lost:.0e}, which the residual does not show. "
            found.append((Status.ILL_CONDITIONED, text + 'Add a ridge, or choose "direct".'))
        elif law <= run.tol and law * view.longest > HIDDEN * run.tol:
            # The norm of S⁻¹ is known approximately; its unknown part may be larger by at most this factor.
            text = f"Combinations of the columns of {name} are {view.longest**0.5:.0e} times shorter than the columns: "
            text += (
                'the residual may be far smaller than the loss. Lower tol, add a ridge, or choose "direct".'
            )
            found.append((Status.ILL_CONDITIONED, text))
    return found


def _exactly(space: SearchSpace, problem: Any, moments: Moments, width: int) -> SearchSpace:
    """The leading pairs with products of the precision of the data, in one sweep: the space that begins with them."""
    pairs = space.weights(width)
    blocks = [pairs["x_weights"], pairs["y_weights"]]
    products = _products(problem, moments, blocks)
    views = [
        _view(A, old.diagonal - r, r, moments, moments.precision(i))
        for i, (A, old, r) in enumerate(zip((problem.X, problem.Y), space.views, problem.ridge, strict=True))
    ]
    exact = SearchSpace((views[0], views[1]))
    exact.append(blocks, products)
    return exact


def _make_room(space: SearchSpace, columns: int, width: int, depth: int) -> None:
    """Reduce subspaces that have no room for so many columns more."""
    if max(view.columns for view in space.views) + columns > depth * width:
        space.shrink(width, (depth - 1) * width)


def _extend(space: SearchSpace, problem: Any, moments: Moments, blocks: list[Array]) -> None:
    """Multiply one block for each view, in one sweep, and add it."""
    space.append(blocks, _products(problem, moments, blocks))


def _products(problem: Any, moments: Moments, blocks: list[Array]) -> list[Array]:
    """SxZx, CZy, CᵀZx and SyZy, ridges included: one sweep."""
    SZx, CZy, CtZx, SZy = moments.products(*blocks)
    for SZ, Z, r in zip((SZx, SZy), blocks, problem.ridge, strict=True):
        if r > 0:
            add_multiple(SZ, Z, r, moments.home)
    return [SZx, CZy, CtZx, SZy]


def _signs(run: Run, rows: int, columns: int) -> HostArray:
    """Random signs whose sizes differ a little.

    A small square matrix of plain signs is often singular, and a column of signs may be orthogonal to
    constants.
    """
    signs: HostArray = run.rng.integers(0, 2, (rows, columns)) * 2.0 - 1.0
    return signs * run.rng.uniform(0.8, 1.2, (rows, columns))


def _chosen(R: tuple[Array, Array], columns: HostArray, home: Home) -> tuple[Array, Array]:
    """Some columns of both, or both themselves if these are all columns."""
    if len(columns) == R[0].shape[1]:
        return R
    there = home.xp.asarray(columns, device=home.device)
    return home.xp.take(R[0], there, axis=1), home.xp.take(R[1], there, axis=1)
