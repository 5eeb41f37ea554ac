"""Checks of `prepare`, which prepares a least-squares solver for one matrix, as a part of another method.

Problem: only outer methods call `prepare`, so it may be wrong although `solve` is right. It may reuse the
first right-hand side, write to the start, sweep beyond the budget, or never call `watch`.
Method: the state is prepared for a matrix in each form that outer methods pass: an operator, a centred operator,
and the moments of a view, held or not. The data have only the capabilities that the record declares. The
state solves for one right-hand side after the other. Each solution is compared with NumPy's, up to the error
that the tolerance explains: ‖x − x*‖ ≤ ‖Aᵀ(b − Ax) − rx‖ / λmin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from linspec import Moments
from linspec.arrays import Array, Home, HostArray, is_array, on_device
from linspec.families.least_squares.planted import planted_least_squares
from linspec.operators import LinearOperator, as_operator
from linspec.process.pauses import OutOfPasses
from linspec.registry.options import with_parts
from linspec.solving.run import Run, watching
from linspec.solving.solver import LeastSquaresState
from linspec.testing.backends import BACKENDS
from linspec.testing.behaviour import Skip
from linspec.testing.operators import CountingOperator
from linspec.testing.oracle import as_host
from linspec.testing.places import package_of, said_of
from linspec.testing.problems import Case
from linspec.testing.solving import Subject

__all__ = ["PREPARE_CHECKS"]

TOL, WATCHED, RIDGES = 1e-8, 1e-11, (0.0, 0.7)

ROUGH = 1e-2
"""Tolerance of the checks on other array libraries."""

SLACK = 1e-12
"""Permitted rounding: relative in solutions, absolute in residuals and pass counts."""

BUDGETS = (2, 3, 4, 5, 6, 8, 11, 16)

FRACTION = 0.1
"""The factor by which `reduce` must reduce a residual."""

AGREES = 0.01
"""Relative error allowed in the residual that `watch` receives."""


def _planted() -> Case:
    """Return a case with 40 columns, so that iterations are needed.

    Some solvers compute leading directions of A by a random sketch, by default only 20 of them ("ling"), and iterate on
    all other directions.
    """
    return planted_least_squares(240, 40, np.geomspace(3, 1, 40))


class _Prepared:
    """A least-squares solver, and a run for a matrix A with singular values between 1 and 3.

    `begin` prepares the solver for A, and returns the `LeastSquaresState` that `prepare` makes. `exact` computes
    NumPy's solution for some right-hand sides.

    Parameters
    ----------
    subject : Subject
    form : str
        One of `FORMS`.
    ridge : float
    max_passes : float, optional
    tight : bool, default False
        Whether the data have only the capabilities that the record of the solver declares.
    wrap : callable
        Turns a NumPy array into an array of the library to test.
    """

    def __init__(
        self,
        subject: Subject,
        form: str,
        ridge: float,
        *,
        max_passes: float | None = None,
        tight: bool = False,
        wrap: Callable[[HostArray], Any] = np.copy,
    ) -> None:
        case, needs = _planted(), subject.spec.needs
        data: dict[str, Any] = {key: wrap(value) for key, value in case.arrays.items()}
        name, entries = next(iter(case.arrays.items()))
        self.source = CountingOperator(
            data[name],
            sliceable=needs.rows or not tight,
            readable=needs.dense or needs.entries or needs.diagonal or not tight,
        )
        self.ridge, self.form, self.subject, self.wrap, self.tight = ridge, form, subject, wrap, tight
        problem = case.state(data | {name: self.source})
        self.solver: Any = with_parts(subject.make())
        self.run = Run(problem, self.solver, subject.name, rng=0, max_passes=max_passes)
        self.counted: LinearOperator = self.run.problem.matrices[name]
        self.entries = entries - entries.mean(axis=0) if "centred" in form else entries
        values = np.linalg.eigvalsh(self.entries.T @ self.entries)
        self.least = float(values[0]) + ridge
        self.A = FORMS[form](self.counted)
        self.package = package_of(subject.cls)

    @property
    def sweep(self) -> float:
        """The passes of one product with AᵀA."""
        return 1.0 if self.counted.access == "rows" else 2.0

    def begin(self) -> LeastSquaresState:
        """Make the state; raise Skip if that fails, because the check "prepare" reports it."""
        try:
            state = self.solver.prepare(self.A, self.ridge, self.run)
        except Exception as error:
            raise Skip("prepare raises") from error
        if not isinstance(state, LeastSquaresState):
            raise Skip("prepare returns no state")
        return state

    def exact(self, B: HostArray) -> HostArray:
        """NumPy's least-squares solution."""
        p = self.entries.shape[1]
        rows = np.vstack([self.entries, np.sqrt(self.ridge) * np.eye(p)])
        below = np.zeros((p, B.shape[1]))
        found: HostArray = np.linalg.lstsq(rows, np.vstack([B, below]), rcond=None)[0]
        return found

    def AtB(self, B: HostArray) -> HostArray:
        """Compute AᵀB."""
        product: HostArray = self.entries.T @ B
        return product

    def residual(self, x: HostArray, B: HostArray) -> float:
        """The largest ‖Aᵀ(b − A x) − r x‖ / ‖Aᵀb‖ over all columns."""
        gaps = np.linalg.norm(self.AtB(B - self.entries @ x) - self.ridge * x, axis=0)
        sizes = np.linalg.norm(self.AtB(B), axis=0)
        return float((gaps[sizes > 0] / sizes[sizes > 0]).max(initial=0.0))

    def issue(self, x: Any, B: HostArray, tol: float = TOL) -> str:
        """Message if x has a wrong type or differs from NumPy's solution beyond the tolerance; otherwise ""."""
        shape = (self.entries.shape[1], B.shape[1])
        if not is_array(x) or tuple(x.shape) != shape or not str(x.dtype).endswith("float64"):
            got = f"{x.dtype} of shape {tuple(x.shape)}" if is_array(x) else type(x).__name__
            return f"solve must return float64 of shape {shape}; got {got}"
        home = self.counted.home.blocks
        if Home.of(x) != home:
            return f"solve must return an array of {home}; got one of {Home.of(x)}"
        exact = self.exact(B)
        gap = np.linalg.norm(as_host(x) - exact, axis=0)
        if not self.subject.exact:
            tol = 1.0
        allowed = tol * np.linalg.norm(self.AtB(B), axis=0) / self.least + SLACK * np.linalg.norm(exact)
        if np.all(gap <= allowed):
            return ""
        worst = int(np.argmax(gap / allowed))
        return (
            f"the answer must be NumPy's up to the tolerance; column {worst} differs by {gap[worst]:.2g}, "
            f"and the tolerance explains {allowed[worst]:.2g}"
        )


FORMS: dict[str, Callable[[LinearOperator], Any]] = {
    "an operator": lambda A: A,
    "a centred operator": lambda A: A.centered(Moments(A, center=True, form="implicit").columns.means()[0]),
    "moments that are held": lambda A: Moments(A, form="dense"),
    "moments that sweep": lambda A: Moments(A, form="implicit"),
    "centred moments": lambda A: Moments(A, center=True, form="implicit"),
    "the view of centred moments that are held": lambda A: Moments(A, A, center=True, form="dense").view(0),
}
"""The forms of A that outer methods pass to `prepare`."""


def _right_hand_sides(
    n: int, wrap: Callable[[HostArray], Any] = np.copy
) -> Iterator[tuple[str, HostArray, LinearOperator]]:
    """Yield right-hand sides of several widths, one with a column of zeros, one a product that is never formed."""
    rng = np.random.default_rng(12)
    for columns in (2, 3, 1):
        B = rng.standard_normal((n, columns))
        if columns == 3:
            B[:, 1] = 0.0
        yield f"{columns} right-hand sides", B, as_operator(wrap(B))
    factors = rng.standard_normal((n, 5)), rng.standard_normal((5, 2))
    product = as_operator(wrap(factors[0])) @ as_operator(wrap(factors[1]))
    yield "a product as right-hand sides", factors[0] @ factors[1], product


def _needs_prepare(subject: Subject) -> None:
    if subject.spec.problem != _planted().problem or not callable(getattr(subject.cls, "prepare", None)):
        raise Skip("the solver has no prepare")


def check_prepare(subject: Subject) -> Iterator[str]:
    """`prepare` returns a state that solves for one right-hand side after the other, as NumPy does."""
    _needs_prepare(subject)
    for form in FORMS:
        for ridge, tight in ((RIDGES[0], False), (RIDGES[1], True)):
            ready = _Prepared(subject, form, ridge, tight=tight)
            what = f"{form}{' with the declared needs only' if tight else ''}, ridge {ridge:g}"
            yield from (f"{what}: {issue}" for issue in _answer_issues(ready))
    for backend in BACKENDS[1:]:
        if backend.is_array and backend.float64 and not backend.missing():
            ready = _Prepared(subject, "an operator", RIDGES[1], wrap=backend.wrap)
            with on_device(ready.counted):  # as the run of the outer method does
                issues = list(_answer_issues(ready, ROUGH, 1))
            yield from (f"{backend.name}: {issue}" for issue in issues)


def _answer_issues(ready: _Prepared, tol: float = TOL, count: int | None = None) -> Iterator[str]:
    """Yield messages about wrong solutions for the first `count` blocks of right-hand sides."""
    try:
        state = ready.solver.prepare(ready.A, ready.ridge, ready.run)
    except Exception as error:  # noqa: BLE001 (whatever it raises is reported)
        yield f"prepare must return a state; it raised {said_of(error, ready.package)}"
        return
    if not isinstance(state, LeastSquaresState):
        yield f"prepare must return a linspec.LeastSquaresState; got {type(state).__name__}"
        return
    for i, (what, B, operator) in enumerate(islice(_right_hand_sides(len(ready.entries), ready.wrap), count)):
        # AᵀB is passed with every second block; for data with the declared needs only, with the other blocks.
        known = {"AtB": ready.counted.home.blocks.place(ready.AtB(B))} if (i + ready.tight) % 2 else {}
        where = f"{what}{', AtB given' if known else ''}"
        try:
            x = state.solve(operator, tol=tol, **known)
        except Exception as error:  # noqa: BLE001
            yield f"{where}: solve of the state must return x; it raised {said_of(error, ready.package)}"
            continue
        issue = ready.issue(x, B, tol)
        if issue:
            yield f"{where}: {issue}"
    if ready.source.passes > ready.run.passes + SLACK:
        yield (
            f"the run must count every sweep; {ready.source.passes:g} sweeps were made, and it counts "
            f"{ready.run.passes:g}. Use the operators that prepare is given"
        )


def check_prepare_start(subject: Subject) -> Iterator[str]:
    """A state starts from `x0`: a wrong start still gives the solution, and the solution as start saves sweeps."""
    _needs_prepare(subject)
    for form in ("an operator", "moments that are held"):
        ready = _Prepared(subject, form, RIDGES[1])
        state = ready.begin()
        _, B, operator = next(_right_hand_sides(len(ready.entries)))
        AtB, exact = ready.AtB(B), ready.exact(B)
        wrong = exact + np.random.default_rng(1).standard_normal(exact.shape)
        for start in (wrong, exact):
            AtAx0 = ready.AtB(ready.entries @ start)
            for known in ({}, {"AtB": AtB}, {"AtB": AtB, "AtAx0": AtAx0}):
                given = {"x0": start, **known}
                copies = {name: value.copy() for name, value in given.items()}
                issue = ready.issue(state.solve(operator, tol=TOL, **copies), B)
                where = f"{form}, {', '.join(given)} given"
                if issue:
                    yield f"{where}: {issue}"
                yield from (
                    f"{where}: solve must not change its arguments; {name} was changed. Work on a copy"
                    for name, value in given.items()
                    if not np.array_equal(value, copies[name])
                )
        if subject.exact:
            yield from (f"{form}: {issue}" for issue in _reduction_issues(ready, state, B, operator))
    if subject.trait("iterative"):
        yield from _sooner_issues(subject)


def _reduction_issues(
    ready: _Prepared, state: LeastSquaresState, B: HostArray, operator: LinearOperator
) -> Iterator[str]:
    """Check that `reduce` ends at FRACTION times the residual of the iterate whose gradient it receives.

    `reduce` is called with this iterate as start, and without a start.
    """
    AtB = ready.AtB(B)
    other = ready.exact(B) + np.random.default_rng(3).standard_normal((len(AtB), B.shape[1]))
    AtAx = ready.AtB(ready.entries @ other)
    gradient = AtB - AtAx - ready.ridge * other
    for given in ({}, {"x0": other}, {"x0": other, "AtAx0": AtAx}):
        x = as_host(state.reduce(operator, FRACTION, gradient, AtB, **given))
        most, got = FRACTION * ready.residual(other, B), ready.residual(x, B)
        if got > most * (1 + AGREES):
            what = f", {', '.join(given)} given" if given else ""
            yield f"reduce{what} must end at a residual of at most {most:.3g}; it ended at {got:.3g}"


def _sooner_issues(subject: Subject) -> Iterator[str]:
    """A state that starts from the solution makes fewer sweeps than without a start."""
    ready = _Prepared(subject, "an operator", RIDGES[1])
    state = ready.begin()
    _, B, operator = next(_right_hand_sides(len(ready.entries)))
    AtB, exact = ready.AtB(B), ready.exact(B)
    state.solve(operator, tol=TOL, AtB=AtB)  # the first solve includes work that the state does only once
    spent = []
    for x0 in (None, exact):
        before = ready.run.passes
        AtAx0 = None if x0 is None else ready.AtB(ready.entries @ exact)
        state.solve(operator, x0, TOL, AtB, AtAx0)
        spent.append(ready.run.passes - before)
    anew, at_answer = spent
    if not at_answer < anew:
        yield (
            f"begun at the answer, solve must make fewer sweeps; it makes {at_answer:g}, and without a start "
            f"{anew:g}"
        )


def check_prepare_budget(subject: Subject) -> Iterator[str]:
    """`prepare` makes as many sweeps as it promises, and the state keeps to the run's budget."""
    _needs_prepare(subject)
    for tight in (False, True):
        for budget in BUDGETS:
            for reserved in (0.0, 2.0):
                ready = _Prepared(subject, "an operator", RIDGES[1], max_passes=budget, tight=tight)
                promised = ready.solver.preparation * ready.sweep
                if ready.run.budget.affords(promised + reserved):
                    with ready.run.budget.reserving(reserved):
                        yield from (
                            f"max_passes={budget}: {issue}" for issue in _budget_issues(ready, promised)
                        )


def _budget_issues(ready: _Prepared, promised: float) -> Iterator[str]:
    state, run = ready.begin(), ready.run
    if run.passes > promised + SLACK:
        yield (
            f"prepare must make the sweeps that the attribute preparation promises, {promised:g}; it made "
            f"{run.passes:g}"
        )
        return
    for what, B, operator in _right_hand_sides(len(ready.entries)):
        start = ready.exact(B) + 1.0
        AtB, AtAx0 = ready.AtB(B), ready.AtB(ready.entries @ start)
        for given in ({}, {"AtB": AtB}, {"x0": start}, {"x0": start, "AtB": AtB, "AtAx0": AtAx0}):
            where = f"{what}{', given ' if given else ''}{', '.join(given)}"
            try:
                with watching(run):  # as `linspec.solve` does
                    x = state.solve(operator, tol=1e-14, **given)
            except OutOfPasses:
                yield (
                    f"{where}: solve must return the x that it has when the budget ends; it let the end of the "
                    "budget through. Take iterates by run.budget.affordable or self.driven"
                )
                return
            if tuple(x.shape) != start.shape:
                yield (
                    f"{where}: solve must return an x of shape {start.shape} when the budget ends; got shape "
                    f"{tuple(x.shape)}"
                )
            if not run.budget.affords(0.0):
                yield (
                    f"{where}: solve must leave the reserved passes; it used them up, after {run.passes:g} "
                    "passes. Make products with A or its moments, which count them"
                )
                return


def check_prepare_watch(subject: Subject) -> Iterator[str]:
    """`watch` receives the residual and the iterate before each step, and can end the iteration."""
    _needs_prepare(subject)
    if not subject.trait("iterative"):
        raise Skip("the solver is not iterative")
    for stop in (0, 1, 2):
        ready = _Prepared(subject, "an operator", RIDGES[1])
        state = ready.begin()
        _, B, operator = next(_right_hand_sides(len(ready.entries)))
        seen: list[tuple[float, HostArray]] = []

        def watch(
            residual: float,
            x: Callable[[], Array],
            seen: list[tuple[float, HostArray]] = seen,
            stop: int = stop,
        ) -> bool:
            seen.append((residual, as_host(x()).copy()))
            return len(seen) <= stop

        state.watch = watch
        start = np.random.default_rng(2).standard_normal((ready.entries.shape[1], B.shape[1]))
        x = as_host(state.solve(operator, start, WATCHED, ready.AtB(B)))
        yield from (f"stopped at step {stop}: {issue}" for issue in _watch_issues(ready, seen, x, B, stop))


def _watch_issues(
    ready: _Prepared, seen: list[tuple[float, HostArray]], x: HostArray, B: HostArray, stop: int
) -> Iterator[str]:
    if not seen:
        yield (
            "an iterative state must call watch; it never did. Ask self.watched(residual, x) before each step"
        )
        return
    if len(seen) <= stop:
        if ready.residual(x, B) > WATCHED * (1 + AGREES):
            yield (
                "solve must go on to the tolerance while watch returns True; it ended above the tolerance "
                f"after {len(seen)} calls"
            )
    elif len(seen) > stop + 1:
        yield f"solve must end when watch returns False; watch was called {len(seen)} times"
    elif not np.allclose(x, seen[-1][1], rtol=1e-9, atol=SLACK):
        yield "solve must return the iterate at which watch returned False; it returned another one"
    for residual, iterate in seen:
        true = ready.residual(iterate, B)
        if not abs(residual - true) <= AGREES * true + SLACK:
            yield f"watch must be given the residual of the iterate, {true:.3g}; got {residual:.3g}"
            break


PREPARE_CHECKS: dict[str, Callable[[Subject], Iterator[str]]] = {
    "prepare": check_prepare,
    "prepare-start": check_prepare_start,
    "prepare-budget": check_prepare_budget,
    "prepare-watch": check_prepare_watch,
}
"""The checks by their names in test ids and expected failures."""
