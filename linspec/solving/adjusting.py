"""Weights, centre, confounds and scale of a problem: into its matrices before a solve, and out of its answer after it.

Problem: a solver and a law should see matrices and nothing else; users pass weights, confounds and scale, and expect
answers for the columns that they passed.
Method: `adjusted` moves these fields of a problem into its matrices (`linspec.operators.AdjustedOperator`).
`in_given_columns` converts arrays whose rows belong to columns, as the answer declares them; `fields_of_adjustments`
has the means, slopes and scales that an answer keeps for new rows; `lost_to_centring` reports digits lost to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from linspec.arrays import Home
from linspec.moments.moments import Moments
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, uncounted
from linspec.operators.adjustment import Adjustment
from linspec.operators.row_model import RowModel, row_model
from linspec.solving.about_columns import (
    CENTRING,
    about_constant,
    check_rows_count,
    in_field,
    nearly_explained,
    underflowing_columns,
    wide_enough,
)
from linspec.status import Status


def adjusted(problem: Any) -> Any:
    """Return the problem that solvers receive: a copy on adjusted matrices, or `problem` if nothing is adjusted.

    The matrices of the copy are `AdjustedOperator` objects that apply weights, centring, confounds and scale. The
    fields `sample_weight` and `confounds` of the copy are None, and `center` and `scale` are False, so that nothing
    is adjusted twice. The field `given` of the copy is the problem before it was adjusted, which is not changed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import adjusted
    >>> problem = adjusted(ls.SVD(np.array([[1.0], [3.0]]), k=1, center=True))
    >>> problem.center, problem.A.matmat(np.eye(1))
    (False, array([[-1.],
           [ 1.]]))
    """
    if not problem.stated.adjusts_rows:
        return problem
    models = _row_models(problem)
    if problem.shared is not None:  # its adjusted matrices share the statistics of the moments
        shared = [uncounted(problem.shared.matrix(i))[0] for i in range(len(problem.matrices))]
        found = dict(zip(problem.matrices, shared, strict=True))
    elif problem.scale or any(model.center or not model.is_plain for model in models.values()):
        found = {
            name: AdjustedOperator(
                A,
                models[name],
                settle,
                scale=bool(problem.scale) and problem.stated.field_of(name) in problem.solution.layout.scaled,
                name=name,
            )
            for name, A in problem.matrices.items()
        }
    else:
        return problem
    twin = problem.with_matrices(found)
    given = problem if problem.given is None else problem.given  # a path of ridges adjusts before it solves
    values = {"center": False, "scale": False, "sample_weight": None, "confounds": None, "given": given}
    for name, value in (values | {"weights_of": _counted_once}).items():
        object.__setattr__(twin, name, value)
    return twin


def _counted_once(_: str) -> None:
    """Return the weights of rows of an adjusted matrix, which has them already: None."""


def _row_models(problem: Any) -> dict[str, RowModel]:
    """Return the row model of each matrix; matrices whose rows have the same weights share one."""
    check_rows_count(problem)
    made: dict[int, RowModel] = {}
    found = {}
    for name in problem.matrices:
        weights = problem.weights_of(name)
        if id(weights) not in made:
            made[id(weights)] = row_model(
                center=bool(problem.center),
                weights=weights,
                confounds=problem.confounds,
                about_means=True,
                counted_by="sample_weight" if weights is problem.sample_weight else problem.counted_by,
            )
        found[name] = made[id(weights)]
    return found


def adjustments_of(problem: Any) -> dict[str, Adjustment]:
    """Return the adjustments of those matrices of an adjusted problem that have one, by matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import adjusted, adjustments_of
    >>> list(adjustments_of(adjusted(ls.SVD(np.eye(2), k=1, center=True))))
    ['A']
    """
    found = {name: uncounted(A)[0] for name, A in problem.matrices.items()}
    return {name: A.adjustment for name, A in found.items() if isinstance(A, AdjustedOperator)}


def changes_columns(problem: Any) -> bool:
    """Whether columns are scaled, so that an answer must be converted back to the columns of the data."""
    return any(adjustment.scale for adjustment in adjustments_of(problem).values())


def in_given_columns(
    problem: Any, arrays: Mapping[str, Any], *, back: bool = False, axis: int = 0
) -> dict[str, Any]:
    """Convert the arrays of an answer that belong to scaled columns, so that they belong to the columns of the data.

    Weights are divided by the scale of their columns, and coefficients in units of the columns are multiplied by it.
    `Solution.layout` states which fields these are, and of which matrix. Other arrays are returned unchanged.

    Parameters
    ----------
    arrays : mapping from str to array
        Arrays by the names of the fields of the answer; for several views a tuple of arrays.
    back : bool, default False
        Convert in the other direction.
    axis : int, default 0
        The axis of the arrays whose length is the number of columns of the matrix.
    """
    found = dict(arrays)
    layout, adjustments = problem.solution.layout, adjustments_of(problem)
    for field, weights in layout.scaled.items():
        for i, name in enumerate(in_field(problem, field)):
            adjustment = adjustments.get(name)
            if adjustment is None or not adjustment.scale:
                continue
            uncounted(problem.matrices[name])[0].settle()  # type: ignore[attr-defined]  # it has an adjustment
            for each in filter(None, (weights, *layout.in_units.get(field, ()))):
                value, inverse = found.get(each), back == (each == weights)
                if isinstance(value, tuple):
                    given = adjustment.given(value[i], axis, inverse=inverse)
                    found[each] = (*value[:i], given, *value[i + 1 :])
                elif value is not None:
                    found[each] = adjustment.given(value, axis, inverse=inverse)
    return found


def fields_of_adjustments(problem: Any, moments: Moments) -> dict[str, Any]:
    """Return the fields of a solution with the adjustment of each matrix: means, slopes, scales.

    Parameters
    ----------
    moments : Moments
        The moments of the problem.
    """
    found: dict[str, Any] = {}
    layout = problem.solution.layout
    for i, (name, A) in enumerate(problem.matrices.items()):
        field = problem.stated.field_of(name)
        if field not in layout.means:
            continue
        kept = moments.columns.adjustment(i).of_new_rows()
        own = kept.pop("confound_mean", None)
        if own is not None:  # one is kept for all matrices; those that lack rows have others
            step = found.setdefault("confound_mean", own) - own
            if step.any():
                kept["mean"] = kept["mean"] + Home.of(kept["slopes"]).place(step) @ kept["slopes"]
        for what, value in kept.items():
            dtype = wide_enough(value, A.dtype) if what == "slopes" else A.dtype
            placed, key = A.home.place(value, dtype), layout.prefix(field) + what
            several = problem.stated.matrices[field].several
            found[key] = (*found.get(key, ()), placed) if several else placed
    return found


def lost_to_centring(problem: Any, moments: Moments) -> tuple[tuple[Status, str], ...]:
    """Return the findings on digits that adjustments of the columns have lost; an empty tuple if there are none.

    There is a finding if confounds explain a column up to a share of 1e-8 or less of its squares, and if squares of a
    column underflow. If there is none of these, there is one if subtracting means or confounds from products causes a
    relative error of more than CENTRING times the default tolerance.
    """
    findings: list[tuple[Status, str]] = []
    for name, columns in moments.columns.explained.items():
        findings.append(nearly_explained(problem, name, columns))
    findings += [
        underflowing_columns(name, columns) for name, columns in moments.columns.underflowing.items()
    ]
    error = moments.columns.centring_error()
    if findings or error <= CENTRING * problem.default_tol:
        return tuple(findings)
    what = "Means, or what confounds explain," if moments.columns.confounded else "Means"
    text = f"{what} much larger than the deviations of a column were subtracted from products, not from entries: "
    text += (
        f"relative errors of about {min(error, 1.0):.0e} remain, which the residual does not show. Pass an "
    )
    return ((Status.ILL_CONDITIONED, text + "array or a file, or subtract a constant from each column."),)


def constant_columns(
    problem: Any, moments: Any, findings: Iterable[tuple[Status | None, str]]
) -> tuple[tuple[None, str], ...]:
    """Return remarks that name constant columns: of a matrix that has no others, or if ranks are found deficient.

    Such a column adds nothing to the rank. Without centring it is a column of zeros.

    Parameters
    ----------
    moments : Moments
        The moments of the problem.
    findings : iterable of (Status or None, str)
        All findings of the run.
    """
    deficient = any(status is Status.RANK_DEFICIENT for status, _ in findings)
    if not hasattr(moments, "columns"):  # a problem may have moments of its own, such as kernels
        return ()
    found: list[tuple[None, str]] = []
    for name, columns in zip(problem.matrices, moments.columns.constant, strict=False):
        found += about_constant(problem, name, columns, centred=moments.center, deficient=deficient)
    return tuple(found)
