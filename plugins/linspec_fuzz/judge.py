"""The verdict on one answer: right, near, flagged, silent, refused, foreign, claimed, violated, undecided.

Problem: a solver must never be wrong and say CONVERGED.
Method: the law and the loss of the answer are computed in extended precision (`linspec_fuzz.truth`).

=============  ======================================================================================
right          converged, and law and loss are within the claims
near           CONVERGED, and law or loss are up to ten times above the claims
undecided      CONVERGED and more than ten times above, but rounding of the data explains it
flagged-right  another status, although the answer is right
flagged        another status, and the answer is not right
refused        an error of linspec that fits the data
silent         CONVERGED, and the law is above 10 tol or the loss above 10 max(residual, loss_estimate);
               APPROXIMATE, and the law is above 10 max(residual, tol); an answer for entries out of range
claimed        like silent, but with another status and ``converged=True``, and by more than 10 tol
violated       another claim is false: bounds, lengths, means, a sum above the true one, or entries in range that
               are called out of range
foreign        an exception that is not linspec's, a RuntimeWarning, or finite data called not finite
hang           no answer within `HANG` times the time limit and `LEAST` seconds
=============  ======================================================================================

The last five fail.
"""

from __future__ import annotations

import math
import re
import signal
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

import linspec
from linspec import Status
from linspec.errors import (
    AccuracyWarning,
    BrokenPlugin,
    ConvergenceWarning,
    DataOutOfRange,
    InvalidDeclaration,
    LinspecError,
    NonFiniteData,
)
from linspec_fuzz.held_out_truth import FoldTruth
from linspec_fuzz.kernel_truth import KernelCCATruth
from linspec_fuzz.problems import Case
from linspec_fuzz.ranges import range_of
from linspec_fuzz.recorded import Recorded
from linspec_fuzz.truth import Findings, Truth

__all__ = ["CLASSES", "FAILING", "Verdict", "judge", "judge_solution"]

CLASSES = (
    "right", "near", "undecided", "flagged-right", "flagged", "refused", "silent", "claimed", "violated", "foreign",
    "hang",
)  # fmt: skip
FAILING = frozenset(CLASSES[CLASSES.index("silent") :])

FACTS = frozenset({Status.RANK_DEFICIENT, Status.DEGENERATE})
"""Statuses that report a fact about the data and do not question the answer."""

UNFAIR = (NonFiniteData, BrokenPlugin, InvalidDeclaration)
"""Errors of linspec that must never be raised here, where data are finite and solvers registered."""

SILENT = 10.0
"""An answer is wrong if its error exceeds this multiple of the tolerance, or of the error that the answer claims."""

ROUNDING = 5.0
"""A solver's error may be this multiple of the effect that rounding of the data has."""

FEW_ROUNDINGS = 100.0
"""A loss below this multiple of eps is ignored."""

FRACTION = 1e-4
"""A loss below this fraction of the tolerance is ignored."""

CROOKED = 1e-4
"""Largest distance from orthonormality that is allowed to vectors, if the answer claims the tolerance."""

NOTICED = 1e-3
"""Largest loss that the law can excuse in an answer that is right whatever the solver claims (`_Judged.good`). Its loss
is at most ten times this value, or ten times the tolerance if that is larger. For a very large condition number the law
would excuse any loss, and a solver that then reports a problem is right to do so."""

MAX_SECONDS = 20.0

HANG, LEAST = 20.0, 60.0
"""A run that takes 20 times its time limit, and at least 60 seconds, is ended, as one that never answers."""


class Hang(BaseException):
    """Raised by the alarm clock in a run that never answers."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """End a run by an exception after some seconds, where the system has such signals."""

    def ring(*_: Any) -> None:
        raise Hang

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Verdict:
    """The verdict on one solver and one case.

    Attributes
    ----------
    kind : str
        One of `CLASSES`.
    reason : str
        The fault, with figures.
    cause : str
        The fault without figures, for counting.
    status : str
        The status of the solution, or the name of the error.
    law : float
        The residual of the solution, computed in extended precision by the law of the problem.
    loss : float
        The loss in the value of the problem, relative to the best value (`linspec_fuzz.truth.Findings`).
    residual : float
        The residual that the solution reports. `law`, `loss` and `residual` are nan if they are not known, for example
        without a solution.
    values : tuple of float
        The exact singular values, correlations or eigenvalues, if the verdict is a failure; otherwise empty.
    """

    kind: str
    reason: str = ""
    cause: str = ""
    status: str = ""
    law: float = math.nan
    loss: float = math.nan
    residual: float = math.nan
    values: tuple[float, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the verdict is a failure."""
        return self.kind in FAILING


def judge(
    case: Case, solver: Any, truth: Truth | Recorded | FoldTruth, *, max_seconds: float = MAX_SECONDS
) -> Verdict:
    """Solve a case and judge the answer.

    Parameters
    ----------
    case : Case
    solver : str or Solver
        A solver's name, ``"auto"``, or an instance.
    truth : Truth, FoldTruth or Recorded
        The truth about the same case, from `truth_of`.
    max_seconds : float, default 20.0

    Returns
    -------
    Verdict
    """
    if case.tol is not None and (case.study or not _takes_tol(case, solver)):
        case = replace(case, tol=None)
    options: dict[str, Any] = {} if case.tol is None else {"tol": case.tol}
    place, beyond = range_of(case)
    solution: Any
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with alarm(max(HANG * max_seconds, LEAST)):
                problem = case.problem()
                if case.study:
                    solution = linspec.cross_validate(problem, form=solver, rng=case.rng, **case.study)
                else:
                    solution = linspec.solve(
                        problem, solver, rng=case.rng, max_seconds=max_seconds, **options
                    )
        except Hang:
            return Verdict("hang", f"no answer after {max(HANG * max_seconds, LEAST):g} s", "no answer")
        except LinspecError as error:
            # linspec refuses products that overflow with these words; it must not blame a finite entry.
            unfair = isinstance(error, UNFAIR) and "no entry that can be read is at fault" not in str(error)
            kind = "foreign" if unfair else "refused"
            name = type(error).__name__
            if isinstance(error, DataOutOfRange) and place == "inside":
                return Verdict("violated", f"{name}: {error}", "entries in range are refused", name)
            if isinstance(error, DataOutOfRange) and not _names(str(error), beyond):
                return Verdict("violated", f"{name}: {error}", "the refusal names something in range", name)
            return Verdict(kind, f"{name}: {error}", name, name)
        except Exception as error:  # noqa: BLE001 (the fuzzer looks for such exceptions)
            name = type(error).__name__
            return Verdict("foreign", f"{name}: {error}", f"{name} in {_place(error)}", name)
    if place == "outside":
        text = f"{', '.join(beyond)} out of range, and an answer is returned"
        return Verdict("silent", text, "an answer for entries out of range", solution.status.name)
    if isinstance(truth, FoldTruth):
        warned = any(issubclass(w.category, AccuracyWarning | ConvergenceWarning) for w in caught)
        verdict = Verdict(*truth.judge(solution, warned))
    else:
        verdict = judge_solution(truth, solution, tol=case.tolerance)
    arithmetic = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    if arithmetic and not verdict.fails:
        first = arithmetic[0]
        where = f"{first.filename.rpartition('/')[2]}:{first.lineno}"
        text = f"{first.category.__name__}: {first.message} ({where})"
        return Verdict("foreign", text, text, verdict.status, verdict.law, verdict.loss, verdict.residual)
    return verdict


def _names(text: str, parts: tuple[str, ...]) -> bool:
    """Whether a message contains one of `parts`, the names of matrices and parameters, as a whole word."""
    return any(re.search(rf"\b{re.escape(part)}\b", text) for part in parts)


def _takes_tol(case: Case, solver: Any) -> bool:
    if solver == "auto":
        return True
    if not isinstance(solver, str):
        return False
    return any(option.name == "tol" for option in fields(linspec.get_solver(solver, case.family)))


def _place(error: BaseException) -> str:
    """Return the innermost file and line of linspec, or of a plugin, in the traceback of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f for f in frames if "linspec" in f.filename and not re.search("/(testing|linspec_fuzz)/", f.filename)
    ]
    last = (own or frames)[-1]
    return f"{last.filename.rpartition('/')[2]}:{last.lineno}"


def judge_solution(truth: Truth | Recorded, solution: Any, *, tol: float) -> Verdict:
    """Judge a solution by the reading of the data that it fits best.

    Parameters
    ----------
    truth : Truth or Recorded
    solution : Solution
    tol : float
        The tolerance of the solve; that in force is larger where rounding of the data allows no smaller one.

    Returns
    -------
    Verdict
    """
    tol = max(tol, solution.tol or tol)
    with np.errstate(all="ignore"):
        if isinstance(truth, Recorded):
            return _by_record(truth, solution, tol)
        if isinstance(truth, KernelCCATruth) and not truth.lies_in_the_spaces(solution):
            silent = not math.isnan(solution.residual) or solution.converged
            return Verdict(
                "silent" if silent else "flagged", "", "no law applies" * silent, solution.status.name
            )
        each = [_Judged(truth, i, found, solution, tol) for i, found in enumerate(truth.findings(solution))]
        best = min(each, key=lambda judged: (judged.rank, judged.badness, abs(judged.found.loss)))
        violations = [list(judged.violations()) for judged in each]
        return best.verdict(min(violations, key=len))


def _by_record(truth: Recorded, solution: Any, tol: float) -> Verdict:
    """Judge a solution by the oracle that the record of a family names."""
    law, residual, status = truth.law(solution), float(solution.residual), solution.status
    claims = status is Status.CONVERGED or (solution.converged and status in FACTS)
    excess = law.residual - ROUNDING * law.floor
    kind, cause, reason = "flagged", "", ""
    if claims or status is Status.APPROXIMATE:
        limit = SILENT * max(residual, tol) if not math.isnan(residual) else math.nan
        if excess > limit or (claims and math.isnan(residual)):
            kind, cause = "silent", "law"
            reason = f"law {law.residual:.3g}; residual {residual:.3g}, tolerance {tol:.3g}"
        elif claims:
            kind = "right" if excess <= tol else "near"
    if not reason and (claims or status is Status.APPROXIMATE):
        issues = truth.errors(solution, converged=claims)
        if issues:
            kind, reason, cause = (
                ("silent" if claims else "violated"),
                "; ".join(issues),
                "the oracle of the record",
            )
    return Verdict(kind, reason, cause, status.name, law.residual, math.nan, residual)


class _Judged:
    """A solution, judged by one reading of the data."""

    def __init__(self, truth: Truth, number: int, found: Findings, solution: Any, tol: float) -> None:
        self.truth, self.number, self.found, self.solution, self.tol = truth, number, found, solution, tol
        claims = [float(getattr(solution, "loss_estimate", None) or 0.0), float(solution.residual)]
        self.claim = max((claim for claim in claims if not math.isnan(claim)), default=0.0)
        # If all values are rounding, nothing can be lost.
        law, loss = (found.law, found.loss) if found.grain < 1 else (0.0, 0.0)
        self.law_over = _over(law, tol)
        self.loss = loss
        self.least = max(FEW_ROUNDINGS * truth.case.precision, FRACTION * tol)
        self.loss_over = _over(loss, max(self.claim, found.explained, self.least))
        # The floor needs more answers and takes time, so it is computed only if it matters.
        if max(self.law_over, self.loss_over) > 1:
            floor = self.floor()
            self.law_after = _over(law - ROUNDING * floor.law, tol)
            self.loss_after = _over(
                loss - found.grain - ROUNDING * max(floor.loss, floor.excess),
                max(self.claim, SILENT * found.explained, self.least),
            )
        else:
            self.law_after, self.loss_after = self.law_over, self.loss_over

    def floor(self) -> Findings:
        """Return the effect of rounding of the data, in the norm of the judged law."""
        return self.truth.floor(self.number, self.truth.norm(self.solution))

    @property
    def wrong(self) -> bool:
        """Whether the error of the answer exceeds its claims and the effect of rounding of the data."""
        return not max(self.law_after, self.loss_after) <= SILENT

    @property
    def right(self) -> bool:
        """Whether law and loss are within the claims."""
        return self.law_after <= 1.001 and self.loss_after <= 1.001

    @property
    def claims(self) -> bool:
        """Whether the solver claims an answer within the tolerance, without reservation."""
        status = self.solution.status
        return status is Status.CONVERGED or (self.solution.converged and status in FACTS)

    @property
    def understates(self) -> bool:
        """Whether the error of an approximate answer exceeds its residual."""
        residual = float(self.solution.residual)
        if self.solution.status is not Status.APPROXIMATE or math.isnan(residual):
            return False
        above = (getattr(self.solution, "law_bounds", None) or (None, None))[1]
        limit = max(residual, self.tol, above or 0.0)  # bounds say how far from the residual the law may be
        if _over(self.found.law, limit) <= SILENT or self.found.grain >= 1:
            return False
        return _over(self.found.law - ROUNDING * self.floor().law, limit) > SILENT

    @property
    def harmless(self) -> bool:
        """Whether the law is at most ten times the tolerance, and the loss at most ten times the tolerance or claim.

        The claim is the larger of the solution's residual and its `loss_estimate`. The larger of the tolerance and the
        claim limits the loss.
        """
        return self.law_over <= SILENT and _over(self.loss, max(self.tol, self.claim)) <= SILENT

    @property
    def undecided(self) -> bool:
        """Whether the law or the loss exceeds ten times its limit, but rounding of the data explains the excess.

        The limit of the law is the tolerance. That of the loss is the largest of the claim, the loss that the law
        explains, and the smallest loss that counts. A `harmless` answer is not undecided.
        """
        return not self.wrong and not self.harmless and not max(self.law_over, self.loss_over) <= SILENT

    @property
    def good(self) -> bool:
        """Whether the answer is right, whatever the solver claims."""
        asked = _over(self.loss, max(self.tol, min(self.found.explained, NOTICED)))
        return self.law_over <= 1.001 and asked <= SILENT

    @property
    def rank(self) -> int:
        """How badly the answer fits this reading: 0 right, 1 within ten times its claims, 2 undecided, 3 wrong."""
        return 3 if self.wrong else 2 if self.undecided else 0 if self.right else 1

    @property
    def badness(self) -> float:
        """The larger of law and loss, as multiples of their limits, and inf for nan.

        If law or loss exceeds its limit, the effect of rounding of the data is subtracted from both before the
        division.
        """
        worst = max(self.law_after, self.loss_after)
        return worst if math.isfinite(worst) else math.inf

    def _kind(self) -> str:
        solution = self.solution
        if self.wrong and solution.status is Status.CONVERGED:
            return "silent"
        if self.understates:
            return "silent"
        if self.wrong and not self.harmless and self.claims:
            return "claimed"
        if self.claims:
            return "undecided" if self.undecided else "right" if self.right else "near"
        return "flagged-right" if self.good else "flagged"

    def verdict(self, violations: list[tuple[str, str]]) -> Verdict:
        """Return the verdict by law and loss; if the answer passes, the first of `violations` makes it a failure."""
        kind, cause, reason = self._kind(), "", ""
        if kind in {"silent", "claimed"}:
            by_law = self.understates or not self.law_after <= SILENT
            cause = "law" if by_law else "loss, within tol" if self.harmless else "loss"
            reason = (
                f"law {self.found.law:.3g}, loss {self.found.loss:.3g}; residual {self.solution.residual:.3g}, "
                f"tolerance {self.tol:.3g}"
            )
        elif violations:
            kind = "violated"
            cause, reason = violations[0]
        return Verdict(
            kind, reason, cause, self.solution.status.name, self.found.law, self.found.loss,
            float(self.solution.residual), self._values() if kind in FAILING else (),
        )  # fmt: skip

    def _values(self) -> tuple[float, ...]:
        values = self.truth.values
        return () if values is None else tuple(float(value) for value in values)

    # ---- other claims -------------------------------------------------------------------------

    def violations(self) -> Iterator[tuple[str, str]]:
        """Yield false claims about other things than law and loss: pairs of texts, without figures and with figures."""
        found, solution = self.found, self.solution
        # A solver that has not converged says by its residual how far the answer is off.
        said = 0.0
        if solution.status is not Status.CONVERGED:
            said = max(float(np.nan_to_num(solution.residual, nan=1.0)), found.squared)
        bounds = getattr(solution, "loss_bounds", None)
        if bounds is not None and bounds[0] is not None:
            # A negative lower bound says how far the sum may be above the exact one.
            said = max(said, -float(bounds[0]))
        # Rounding below the tolerance is no fault if Gram matrices explain it.
        rounded = max(0.01 * self.tol, min(found.squared, self.tol))
        allowed = self.least + found.grain + found.explained + max(said, rounded)
        # If rounding may take a tenth of the value and the solver claims no accuracy, a fault cannot be distinguished
        # from rounding.
        lost = not self.claims and found.squared > 0.1
        # Correlations of pairs that overlap, such as sparse ones, count a part twice; the solver does not
        # claim them.
        lost = lost or (not self.claims and found.misfit > CROOKED)
        if found.excess > allowed and not lost:
            floor = self.floor()
            allowed += ROUNDING * (floor.excess + floor.misfit)
            if found.excess > allowed:
                yield (
                    "above the truth",
                    f"the sum is {found.excess:.2g} above the truth ({allowed:.1g} allowed)",
                )
        if self.claims and not found.misfit <= CROOKED:
            allowed = CROOKED + ROUNDING * self.floor().misfit
            if not found.misfit <= allowed:
                yield (
                    "not orthonormal",
                    f"vectors are {found.misfit:.2g} from orthonormal ({allowed:.1g} allowed)",
                )
        for name, off in found.notes.items():
            if self.claims and off > CROOKED:
                allowed = CROOKED + ROUNDING * self.floor().notes.get(name, 0.0)
                if off > allowed:
                    yield name, f"{name}: {off:.2g} ({allowed:.1g} allowed)"
        if not lost:
            yield from self._bound_violations()

    def _bound_violations(self) -> Iterator[tuple[str, str]]:
        bounds = getattr(self.solution, "bounds", None)
        if hasattr(self.solution, "correlations") and bounds is not None and len(self.found.values):
            for value, bound in zip(self.solution.correlations, bounds, strict=True):
                off = float(np.min(np.abs(np.abs(self.found.values) - value)))
                if off > bound * 1.001 + 1e-9 and off > bound + 1e-9 + self._rounding_of_values():
                    yield (
                        "bounds",
                        f"no correlation is within {bound:.2g} of {value:.6g}; the nearest is {off:.2g} away",
                    )
        # A loss below zero is a sum above the true one, which is judged elsewhere.
        for name, value in (("law_bounds", self.found.law), ("loss_bounds", max(self.found.loss, 0.0))):
            pair = getattr(self.solution, name, None)
            if pair is None:
                continue
            floor = self.floor()
            effect = floor.law if name == "law_bounds" else floor.loss + floor.misfit
            slack = ROUNDING * effect + self.found.grain + 1e-13
            # Values computed from Gram matrices have this error, in either direction.
            share = 0.01 + min(self.found.squared, 1.0 if self.claims else math.inf)
            below, above = pair
            if below is not None and below > (1 + share) * value + slack:
                yield f"{name} below", f"{name}: the lower bound is {below:.3g}; the value is {value:.3g}"
            if above is not None and (1 + share) * above < value - slack:
                yield f"{name} above", f"{name}: the upper bound is {above:.3g}; the value is {value:.3g}"

    def _rounding_of_values(self) -> float:
        floor = self.floor()
        share = ROUNDING * (max(floor.loss, floor.excess) + floor.misfit) + self.found.grain
        return share * float(np.sum(np.abs(self.solution.correlations)))


def _over(value: float, limit: float) -> float:
    """Return a value as a multiple of a limit; nan counts as infinity."""
    if math.isnan(value):
        return math.inf
    return max(value, 0.0) / limit if limit > 0 else (0.0 if value <= 0 else math.inf)
