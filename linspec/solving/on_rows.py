"""The moments of a problem on its rows, its certificate, and what its solution keeps for new rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec.arrays import Array, DType, reciprocal, to_host
from linspec.errors import BrokenPlugin, OutOfMemory
from linspec.iteration import Certificate
from linspec.rows import Moments, Passes, Preprocessing
from linspec.solving.fields import parts_of
from linspec.solving.linear_solution import RegressionSolution
from linspec.solving.stating import in_field, least_ridges
from linspec.solving.verdict import about_constant, lost_digits, nearly_explained, underflowing_columns
from linspec.status import Status

CENTRING = 10
"""A finding is reported if subtracting means from products may cause an error above this multiple of the
tolerance."""


def moments_of(problem: Any, passes: Passes, *, complete: bool = False) -> Any:
    """What a solver multiplies with: products of the preprocessed matrices, unless the problem has moments of its own.

    Parameters
    ----------
    problem : Problem
    passes : Passes
        The count, in which passes for the certificate are set aside.
    complete : bool, default False
        Whether the certificate shall prove that no component is missing, from Gram matrices.
    """
    moments = problem.moments_of_its_own(passes)
    if moments is not None:
        return moments
    least = problem.certificate_products + complete
    if problem.shared is not None:
        return problem.shared.of_run(passes, 0.0 if problem.readings == 1 else least)
    rows = [A.in_blocks(name) for name, A in problem.matrices.items()]
    pre = Preprocessing.of(
        center=problem.center,
        weights=problem.sample_weight,
        confounds=problem.confounds,
        scale=problem.scale,
    )
    scaled = problem.solution.layout.scaled
    names = tuple(problem.matrices)
    once = any(A.readings == 1 for A in rows)
    return problem.moments_on_rows(
        rows,
        pre,
        passes=passes,
        names=names,
        certificate_passes=0.0 if once else least,
        scaled=[i for i, name in enumerate(names) if problem.stated.field_of(name) in scaled],
    )


def certified(
    problem: Any, moments: Any, arrays: Mapping[str, Array], tol: float, *, complete: bool = False
) -> Certificate:
    """The certificate of a problem, with what preprocessing adds to it.

    Parameters
    ----------
    problem : Problem
    moments : object
        Of `moments_of`.
    arrays : mapping of str to array
        Those that a solver has yielded.
    tol : float
    complete : bool, default False
        As for `moments_of`.

    Raises
    ------
    BrokenPlugin
        The arrays are not those of an answer.
    """
    on_rows = isinstance(moments, Moments)
    try:
        if on_rows:
            _make_ready(problem, moments, complete=complete)
        certificate: Certificate = problem.certify(moments, arrays, tol)
    except (LookupError, TypeError, ValueError, AttributeError):
        _check_yielded(problem, arrays)
        raise
    if not on_rows:  # no rows are preprocessed
        return certificate
    notes: list[Any] = [*certificate.notes, *_lost(problem, moments)]
    deficient = any(status is Status.RANK_DEFICIENT for status, _ in notes)
    fields = {**certificate.fields, **_fields_of_preprocessing(problem, moments)}
    if issubclass(problem.solution, RegressionSolution):
        fields["size"] = moments.fitted[0].total, moments.widths[0]
        fields["target_squares"] = moments.variation(1)
    if complete and not moments.holds:
        notes.append((None, "It is not shown that no component is missing: rows cannot be read again."))
    hidden = [(Status.INCONSISTENT, text) for text in moments.contradictions]
    for i, name in enumerate(problem.matrices):
        constant = tuple(np.flatnonzero(moments.fitted[i].squares == 0).tolist())
        notes += about_constant(problem, name, constant, centred=moments.pre.center, deficient=deficient)
        columns = moments.faint(i)
        if columns and (moments.scales(i) or least_ridges(problem).get(name) == 0):
            hidden.append(underflowing_columns(name, columns))
    return certificate._replace(notes=(*notes, *hidden), fields=fields, lost=certificate.lost or bool(hidden))


def _make_ready(problem: Any, moments: Moments, *, complete: bool) -> None:
    """Check sizes that are known only now, and form the Gram matrices that a proof of completeness needs."""
    if moments.rereads and any(A.streamed or A.access == "blocks" for A in problem.matrices.values()):
        problem.check_sizes()  # their rows are counted now
    moments.complete = complete
    if not complete or moments.holds or not moments.rereads:
        return
    if 48.0 * sum(moments.widths) ** 2 > problem.device.blocks.free_memory():
        raise OutOfMemory(
            f"complete=True forms Gram matrices of order {sum(moments.widths)}, which do not fit into memory. "
            "Leave complete out."
        )
    moments.gram()


def _fields_of_preprocessing(problem: Any, moments: Moments) -> dict[str, Any]:
    """The fields of a solution that new rows are preprocessed with: means, slopes, scales."""
    fields: dict[str, Any] = {}
    layout = problem.solution.layout
    for i, (name, A) in enumerate(problem.matrices.items()):
        field = problem.stated.field_of(name)
        if field not in layout.means:
            continue
        fitted = moments.fitted[i]
        pre = moments.pre_of(i)
        parts = {}
        if pre.center:
            parts["mean"] = fitted.mean
        if pre.turn is not None:
            slopes = np.zeros((moments.widths[i], 0)) if fitted.slopes is None else fitted.slopes
            parts["slopes"] = pre.turn @ slopes.T
            fields.setdefault("confound_mean", pre.confound_mean)
            if pre.center:  # where the confounds have the means that the first view saw
                parts["mean"] = fitted.mean + (fields["confound_mean"] - pre.confound_mean) @ parts["slopes"]
        if fitted.factors is not None:
            parts["scale"] = np.where(fitted.factors > 0, reciprocal(fitted.factors), 1.0)
        for what, value in parts.items():
            dtype = _wide_enough(value, A.dtype) if what == "slopes" else A.dtype
            placed = A.device.asarray(value, dtype)
            key = layout.prefix(field) + what
            fields[key] = (*fields.get(key, ()), placed) if problem.stated.matrices[field].several else placed
    return fields


def _lost(problem: Any, moments: Moments) -> list[tuple[Status, str]]:
    """What is said of digits that means or confounds have lost; nothing if they have not."""
    notes = []
    for i, name in enumerate(problem.matrices):
        columns = tuple(np.flatnonzero(moments.fitted[i].explained).tolist())
        if columns:
            notes.append(nearly_explained(problem, name, columns))
    text = "" if notes else lost_digits(moments, CENTRING * problem.default_tol)
    return [*notes, (Status.ILL_CONDITIONED, text)] if text else notes


def _wide_enough(values: Array, dtype: DType) -> DType:
    """Return `dtype`, or float64 for values beyond its range: confounds may be in any unit beside float32 data."""
    sizes = np.abs(to_host(values))
    limits = np.finfo(dtype)
    within = (sizes == 0) | ((sizes >= limits.tiny) & (sizes <= limits.max))
    return dtype if within.all() else np.dtype(np.float64)


def _check_yielded(problem: Any, arrays: Mapping[str, Any]) -> None:
    """Refuse arrays of a solver that the certificate does not take: other names, no arrays, other shapes."""
    prefix = f"a solver of {problem.name} must yield"
    weights = problem.solution.layout.weights
    needed = problem.found or tuple(name for name, _ in weights.values())
    if not arrays.keys() >= {*needed}:
        raise BrokenPlugin(f"{prefix} {', '.join(needed)}; got {', '.join(arrays) or 'nothing'}.")
    for field, (name, axis) in weights.items():
        columns = [problem.matrices[matrix].shape[1] for matrix in in_field(problem, field)]
        shapes = [tuple(getattr(part, "shape", ())) for part in parts_of(arrays.get(name))]
        counts = [shape[axis] for shape in shapes if len(shape) == len("pk")]
        if name in arrays and counts != columns:
            raise BrokenPlugin(
                f"{prefix} {name}, of which axis {axis} counts the columns, {columns}; got shapes {shapes}."
            )
