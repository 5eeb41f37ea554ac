"""A problem with its rows in blocks, its certificate, and what its solution keeps for new rows.

Problems, options, messages and solutions are those of `linspec.solving`. This module and `row_solver` go when the last
family has moved: `linspec.solve` will then be the loop of `linspec.iteration` itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from linspec import iteration
from linspec._new.operators import ByProducts
from linspec.arrays import Array, reciprocal
from linspec.errors import OutOfMemory
from linspec.iteration import Certificate
from linspec.operators import CountedOperator
from linspec.process import pauses
from linspec.process.turns import in_turn
from linspec.rows import Moments, OutOfPasses, Passes, Preprocessing
from linspec.solving.about_columns import (
    CENTRING,
    about_constant,
    nearly_explained,
    underflowing_columns,
    wide_enough,
)
from linspec.solving.adjusting import adjusted, fields_of_adjustments, in_given_columns
from linspec.solving.conclusion import Conclusion, Terms
from linspec.solving.door import rows_of
from linspec.solving.shared_moments import Moments as Shared
from linspec.solving.stating import least_ridges
from linspec.status import Status

__all__ = [
    "OnRows",
    "certified_apart",
    "constant_columns_of",
    "fields_of_preprocessing",
    "lost_to_preprocessing",
    "shared_moments",
]


class OnRows(iteration.Problem):
    """A problem with its rows in blocks.

    Parameters
    ----------
    problem : Problem
    resumed : bool, default False
        Whether a start is an iterate of a run, and not an answer for the columns of the data.
    complete : bool, default False
        Whether the certificate shall prove that no component is missing, from Gram matrices.
    """

    rows: Any
    shares: bool = False

    def __init__(self, problem: Any, *, resumed: bool = False, complete: bool = False) -> None:
        self.problem, self.name, self.tol = problem, problem.name, problem.default_tol
        self.resumed, self.complete = resumed, complete
        self.counts = any(A.streamed or A.shape[0] == np.inf for A in problem.matrices.values())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def moments(self, passes: Passes) -> Any:
        problem = self.problem
        self.rows = problem.moments_of_its_own(passes)
        if self.rows is not None:
            return self.rows
        if isinstance(problem.shared, Shared):
            own = problem.certificate_products + self.complete
            self.rows = problem.shared.of_run(passes, 0.0 if problem.sweeps == 1 else own)
            return self.rows
        shared = shared_moments(problem, passes)
        if shared is not None:  # of columns that are scaled already
            self.rows, self.shares = shared, True
            return shared
        problem = problem if problem.given is None else problem.given
        rows = [rows_of(A, name) for name, A in problem.matrices.items()]
        pre = Preprocessing.of(
            center=problem.center,
            weights=problem.sample_weight,
            confounds=problem.confounds,
            scale=problem.scale,
        )
        scaled = problem.solution.layout.scaled
        names, once = tuple(problem.matrices), any(A.readings == 1 for A in rows)
        self.rows = Moments(
            rows,
            pre,
            passes,
            names,
            certificate_passes=0.0 if once else problem.certificate_products + self.complete,
            scaled=[i for i, name in enumerate(names) if problem.stated.field_of(name) in scaled],
        )
        return self.rows

    def started(self, moments: Moments, start: Mapping[str, Array]) -> Mapping[str, Array]:
        return start if self.resumed else self.problem.for_preprocessed(moments, start)

    def certify(self, moments: Any, arrays: Mapping[str, Array], tol: float) -> Certificate:
        if not isinstance(moments, Moments):  # of no rows that are preprocessed
            own: Certificate = self.problem.certify(moments, arrays, tol)
            return own
        if self.counts and moments.rereads:
            self.problem.check_sizes()  # the rows of streams are counted now
        moments.complete = self.complete
        if self.complete and not moments.holds and moments.rereads:
            if 48.0 * sum(moments.widths) ** 2 > self.problem.home.blocks.free_memory():
                raise OutOfMemory(
                    f"complete=True forms Gram matrices of order {sum(moments.widths)}, which do not fit into memory. "
                    "Leave complete out."
                )
            moments.gram()
        problem = self.problem
        certificate: Certificate = problem.certify(moments, arrays, tol)
        findings = [*certificate.findings, *lost_to_preprocessing(problem, moments)]
        findings += constant_columns_of(problem, moments, findings)
        fields = {**certificate.fields, **fields_of_preprocessing(problem, moments)}
        if self.shares:
            fields = in_given_columns(adjusted(problem), fields)
        if self.complete and not moments.holds:
            findings.append(
                (None, "It is not shown that no component is missing: rows cannot be read again.")
            )
        hidden = list(zip(repeat(Status.INCONSISTENT), moments.contradictions, strict=False))
        for i, name in enumerate(moments.names):
            columns = moments.faint(i)
            if columns and (moments.scales(i) or least_ridges(problem).get(name) == 0):
                hidden.append(underflowing_columns(name, columns))
        return certificate._replace(
            findings=(*findings, *hidden), fields=fields, lost=certificate.lost or bool(hidden)
        )


def shared_moments(problem: Any, passes: Passes) -> Moments | None:
    """Moments with the dense Gram matrices that `linspec.Moments` in place of the data hold, or will hold; else None.

    Parameters
    ----------
    problem : Problem
    passes : Passes
        Counts the pass that forms them.
    """
    shared, names = problem.shared, tuple(problem.matrices)
    if shared is None or shared.form == "sparse" or not (shared.held or shared.form == "dense"):
        return None
    with in_turn(shared._of_all):  # of several threads one makes the pass
        if not shared.held:
            passes.take()
        upper = iter(shared.dense())
    rows = [ByProducts(shared.matrix(i), name) for i, name in enumerate(names)]  # whose rows are counted now
    moments = Moments(rows, Preprocessing(), passes, names)
    held: list[list[Any]] = [[None] * len(names) for _ in names]
    for i in range(len(names)):
        for j in range(i, len(names)):
            held[i][j] = next(upper)
            held[j][i] = held[i][j].T
    moments.hold(held, shared.total)
    return moments


def fields_of_preprocessing(problem: Any, moments: Moments) -> dict[str, Any]:
    """The fields of a solution that new rows are preprocessed with: means, slopes, scales.

    Parameters
    ----------
    problem : Problem
    moments : Moments
        After a pass.
    """
    if problem.shared is not None and problem.shared.held and not isinstance(problem.shared, Shared):
        return fields_of_adjustments(adjusted(problem), problem.shared)
    fields: dict[str, Any] = {}
    pre, layout = moments.pre, problem.solution.layout
    for i, (name, A) in enumerate(problem.matrices.items()):
        if name not in layout.means:
            continue
        fitted, kept = moments.fitted[i], {}
        if pre.center:
            kept["mean"] = fitted.mean
        if pre.turn is not None:
            slopes = np.zeros((moments.widths[i], 0)) if fitted.slopes is None else fitted.slopes
            kept["slopes"] = pre.turn @ slopes.T
            fields["confound_mean"] = pre.confound_mean
        if fitted.factors is not None:
            kept["scale"] = np.where(fitted.factors > 0, reciprocal(fitted.factors), 1.0)
        for what, value in kept.items():
            dtype = wide_enough(value, A.dtype) if what == "slopes" else A.dtype
            fields[layout.prefix(name) + what] = A.home.place(value, dtype)
    return fields


def lost_to_preprocessing(problem: Any, moments: Moments) -> tuple[tuple[Status, str], ...]:
    """What is said of digits that means or confounds have lost; nothing if they have not.

    Parameters
    ----------
    problem : Problem
    moments : Moments
        After a pass.
    """
    findings = []
    for i, name in enumerate(problem.matrices):
        fitted = moments.fitted[i]
        columns = tuple(np.flatnonzero(fitted.explained).tolist())
        if columns:
            findings.append(nearly_explained(problem, name, columns))
    error = max([moments.error_of_means(i) for i in range(len(moments.operators))])
    if error > 0 and not findings and error > CENTRING * problem.default_tol:
        what = "Means" if moments.pre.B is None else "Means, or what confounds explain,"
        text = f"{what} much larger than the deviations of a column were subtracted from products, not from entries: "
        text += f"relative errors of about {min(error, 1.0):.0e} remain, which the residual does not show. "
        other = "Pass an array or a file" if moments.pre.center else "Pass center=True"
        findings.append((Status.ILL_CONDITIONED, text + f"{other}, or subtract a constant from each column."))
    return tuple(findings)


def constant_columns_of(
    problem: Any, moments: Moments, findings: Sequence[tuple[Status | None, str]]
) -> tuple[tuple[None, str], ...]:
    """Name constant columns: of a matrix that has no others, or if ranks are found deficient.

    Parameters
    ----------
    problem : Problem
    moments : Moments
        After a pass.
    findings : sequence of (Status or None, str)
    """
    deficient = any(status is Status.RANK_DEFICIENT for status, _ in findings)
    remarks = []
    for i, name in enumerate(problem.matrices):
        columns = tuple(np.flatnonzero(moments.fitted[i].squares == 0).tolist())
        remarks += about_constant(problem, name, columns, centred=moments.pre.center, deficient=deficient)
    return tuple(remarks)


def certified_apart(problem: Any, arrays: Mapping[str, Array], terms: Terms) -> Conclusion:
    """Judge the arrays of a solver that has a `Run` by the certificate of the problem, within the passes that are left.

    Parameters
    ----------
    problem : Problem
    arrays : mapping of str to array
    terms : Terms
    """
    whole = {name: A.operator for name, A in problem.matrices.items() if isinstance(A, CountedOperator)}
    uncounted = problem.with_matrices(whole) if problem.given is None else problem.given
    stated = OnRows(uncounted, complete=terms.complete)
    passes = Passes(problem.certified_passes + max(terms.passes_left, 0.0))
    moments = stated.moments(passes)
    passes.reserved = 0.0  # they are for this certificate
    try:
        certificate = stated.certify(moments, arrays, terms.tol)
    except OutOfPasses as error:
        raise pauses.OutOfPasses(terms.passes + passes.lacking) from error
    return Conclusion(
        certificate.fields,
        certificate.residual,
        certificate.findings,
        certificate.kind,
        certificate.lost,
        certificate.least,
        passes.count,
    )
