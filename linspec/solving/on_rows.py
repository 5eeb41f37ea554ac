"""A problem with its rows in blocks, its certificate, and what its solution keeps for new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from linspec import iteration
from linspec.arrays import Array, DType, is_array, reciprocal, to_host
from linspec.errors import BrokenPlugin, OutOfMemory, shown
from linspec.iteration import Certificate
from linspec.process.plurals import count_of
from linspec.rows import Moments, Passes, Preprocessing
from linspec.solving.findings import about_constant, lost_digits, nearly_explained, underflowing_columns
from linspec.solving.stating import in_field, least_ridges
from linspec.status import Status

__all__ = [
    "OnRows",
    "constant_columns_of",
    "fields_of_preprocessing",
    "lost_to_preprocessing",
]


CENTRING = 10
"""A finding is reported if subtracting means from products may cause an error above this multiple of the
tolerance."""


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
        if problem.shared is not None:
            own = problem.certificate_products + self.complete
            self.rows = problem.shared.of_run(passes, 0.0 if problem.sweeps == 1 else own)
            return self.rows
        rows = [A.in_blocks(name) for name, A in problem.matrices.items()]
        pre = Preprocessing.of(
            center=problem.center,
            weights=problem.sample_weight,
            confounds=problem.confounds,
            scale=problem.scale,
        )
        scaled = problem.solution.layout.scaled
        names, once = tuple(problem.matrices), any(A.readings == 1 for A in rows)
        self.rows = problem.moments_on_rows(
            rows,
            pre,
            passes=passes,
            names=names,
            certificate_passes=0.0 if once else problem.certificate_products + self.complete,
            scaled=[i for i, name in enumerate(names) if problem.stated.field_of(name) in scaled],
        )
        return self.rows

    def started(self, moments: Moments, start: Mapping[str, Array]) -> Mapping[str, Array]:
        return start if self.resumed else self.problem.for_preprocessed(moments, start)

    def certify(self, moments: Any, arrays: Mapping[str, Array], tol: float) -> Certificate:
        try:
            return self._certified(moments, arrays, tol)
        except (LookupError, TypeError, ValueError, AttributeError):
            _check_yielded(self.problem, arrays)
            raise

    def _certified(self, moments: Any, arrays: Mapping[str, Array], tol: float) -> Certificate:
        """The certificate of the problem, with what preprocessing adds to it."""
        certificate: Certificate
        if not isinstance(moments, Moments):  # of no rows that are preprocessed
            certificate = self.problem.certify(moments, arrays, tol)
            return certificate
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
        certificate = problem.certify(moments, arrays, tol)
        findings = [*certificate.findings, *lost_to_preprocessing(problem, moments)]
        findings += constant_columns_of(problem, moments, findings)
        fields = {**certificate.fields, **fields_of_preprocessing(problem, moments)}
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


def fields_of_preprocessing(problem: Any, moments: Moments) -> dict[str, Any]:
    """The fields of a solution that new rows are preprocessed with: means, slopes, scales.

    Parameters
    ----------
    problem : Problem
    moments : Moments
        After a pass.
    """
    fields: dict[str, Any] = {}
    layout = problem.solution.layout
    for i, (name, A) in enumerate(problem.matrices.items()):
        field = problem.stated.field_of(name)
        if field not in layout.means:
            continue
        fitted, pre, kept = moments.fitted[i], moments.pre_of(i), {}
        if pre.center:
            kept["mean"] = fitted.mean
        if pre.turn is not None:
            slopes = np.zeros((moments.widths[i], 0)) if fitted.slopes is None else fitted.slopes
            kept["slopes"] = pre.turn @ slopes.T
            fields.setdefault("confound_mean", pre.confound_mean)
            if pre.center:  # where the confounds have the means that the first view saw
                kept["mean"] = fitted.mean + (fields["confound_mean"] - pre.confound_mean) @ kept["slopes"]
        if fitted.factors is not None:
            kept["scale"] = np.where(fitted.factors > 0, reciprocal(fitted.factors), 1.0)
        for what, value in kept.items():
            dtype = _wide_enough(value, A.dtype) if what == "slopes" else A.dtype
            placed, key = A.home.place(value, dtype), layout.prefix(field) + what
            fields[key] = (*fields.get(key, ()), placed) if problem.stated.matrices[field].several else placed
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
    text = "" if findings else lost_digits(moments, CENTRING * problem.default_tol)
    return (*findings, (Status.ILL_CONDITIONED, text)) if text else tuple(findings)


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


def _wide_enough(values: Array, dtype: DType) -> DType:
    """Return `dtype`, or float64 for values beyond its range: confounds may be in any unit beside float32 data."""
    sizes, limits = np.abs(to_host(values)), np.finfo(dtype)
    within = (sizes == 0) | ((sizes >= limits.tiny) & (sizes <= limits.max))
    return dtype if within.all() else np.dtype(np.float64)


def _check_yielded(problem: Any, arrays: Mapping[str, Any]) -> None:
    """Refuse arrays of a solver that the certificate does not take: other names, no arrays, other shapes."""
    said = f"a solver of {problem.name} must yield"
    needed = problem.found or tuple(name for name, _ in problem.solution.layout.weights.values())
    if not arrays.keys() >= {*needed}:
        raise BrokenPlugin(f"{said} {', '.join(needed)}; got {', '.join(arrays) or 'nothing'}.")
    layout = problem.solution.layout
    for field, (name, axis) in layout.weights.items():
        if name not in arrays:
            continue
        several = problem.stated.matrices[field].several
        given = arrays[name] if several else (arrays[name],)
        names = in_field(problem, field)
        if several and not (isinstance(given, tuple) and len(given) == len(names)):
            raise BrokenPlugin(
                f"{said} {name} as a tuple of an array for each of {', '.join(names)}; got {shown(given)}."
            )
        for matrix, W in zip(names, given, strict=True):
            if not is_array(W):
                raise BrokenPlugin(f"{said} {name} as an array; got {type(W).__name__}.")
            columns, shape = problem.matrices[matrix].shape[1], tuple(W.shape)
            if len(shape) != 2 or shape[axis] != columns:
                form = f"({columns}, k)" if axis == 0 else f"(k, {columns})"
                raise BrokenPlugin(
                    f"{said} {name} of shape {form}, for the {count_of(columns, 'column')} of {matrix}; got {shape}."
                )
            values = arrays.get(layout.value)
            if values is not None and is_array(values) and tuple(values.shape) != (shape[1 - axis],):
                raise BrokenPlugin(
                    f"{said} as many {layout.value} as vectors; {name} has {shape[1 - axis]}, and they "
                    f"have shape {tuple(values.shape)}."
                )
