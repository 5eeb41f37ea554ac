"""The constructor of a problem: operators of its matrices, and checks of its numbers, as its fields are declared.

Problem: every problem makes operators of data, compares libraries, rows and labels, and checks k, ridges, weights and
confounds; written in each constructor, some of it would be forgotten.
Method: `state` goes through the declarations (`linspec.solving.fields`). It reads no entry.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from linspec.arrays import Array, is_array
from linspec.blocks.units import check_square
from linspec.borrowed import borrowed, may_lend
from linspec.errors import InvalidDeclaration, InvalidProblem, shown
from linspec.frames import RowNames, check_order, column_names_of, index_of, is_series
from linspec.operators import LinearOperator, as_operator
from linspec.operators.streamed import StreamedOperator
from linspec.operators.weights import weights_and_confounds
from linspec.registry.options import is_number
from linspec.solving.checks import (
    as_columns,
    check_device,
    check_flag,
    check_k,
    check_ridge,
    check_ridges,
    check_rows,
    finite_array,
    refuse_iterators,
    vector_of_list,
)
from linspec.solving.fields import Flag, add_field, parts_of, view_names
from linspec.solving.shared_moments import Moments

P = TypeVar("P")

ROW_FIELDS: dict[str, tuple[str, Any, Any]] = {
    "scale": (
        "bool",
        False,
        Flag("Divide columns by what is left of them: with centring, by their standard deviations."),
    ),
    "sample_weight": ("Any", None, None),
    "confounds": ("Any", None, None),
}
"""Fields that are added to each class of problems whose rows can be adjusted, unless the class has them. An entry has
the type, the default and the declaration of the field; a declaration of None means that the field is not declared."""


def add_row_fields(cls: type) -> None:
    """Add the fields of weights, confounds and scale to a class that is no dataclass yet, unless it has them."""
    for name, (kind, default, declaration) in ROW_FIELDS.items():
        add_field(cls, name, declaration, default=default, kind=kind, kw_only=True)


def borrow(problem: Any) -> None:
    """Replace arrays of other libraries (`linspec.borrowed`) in the fields of a problem, but for its matrices."""
    matrices = [name for name, declared in problem.stated.matrices.items() if not declared.vector]
    for name, value in vars(problem).items():
        if name not in matrices and may_lend(type(value)):
            object.__setattr__(problem, name, borrowed(value, name))


def state(problem: Any) -> None:
    """Make operators of the matrices of a problem, and check all its numbers."""
    stated = problem.stated
    if not stated.matrices:
        kind = type(problem).__name__
        raise InvalidDeclaration(
            f"{kind} must declare its matrices; it declares none. Write X: Any = linspec.matrix() in its class."
        )
    borrow(problem)
    for name in stated.flags:
        check_flag(name, getattr(problem, name))
    by_name = {name: getattr(problem, name) for name in stated.matrix_names}
    shared = shared_moments(problem, by_name)
    if shared is not None:
        by_name = _of_moments(problem, shared)
    _check_matrices(problem, by_name)
    for name, declared in stated.matrices.items():
        data = by_name[name]
        if declared.several:
            views = [
                adopt(problem, view, matrix) for view, matrix in zip(view_names(len(data)), data, strict=True)
            ]
            object.__setattr__(problem, name, tuple(views))
        else:
            adopt(problem, name, _as_columns(problem, name, data) if declared.vector else data)
    matrices = list(problem.matrices.items())
    for name, A in matrices[1:]:
        check_device(matrices[0][0], matrices[0][1], name, A)
    if shared is None and len(matrices) > 1:
        _promote(problem)
    adopt_rows(problem)
    if stated.count:
        every = stated.fields[stated.count].optional and getattr(problem, stated.count) is None
        object.__setattr__(problem, "every", every)
    problem.check_sizes()
    check_order({**problem.matrices, **problem.row_labels})
    if stated.ridge:
        checked = stated_ridge(problem, getattr(problem, stated.ridge))
        object.__setattr__(problem, stated.ridge, checked)


# ---- matrices ---------------------------------------------------------------------------------


def shared_moments(problem: Any, matrices: Mapping[str, Any]) -> Moments | None:
    """Return the moments passed instead of data, after a check that they fit the problem; None for data."""
    first = next(iter(matrices.values()))
    shared = first if isinstance(first, Moments) else None
    object.__setattr__(problem, "shared", shared)
    if shared is not None and shared.center != problem.center:
        raise InvalidProblem(
            f"the moments were made with center={shared.center}; pass center={shared.center} to the problem too."
        )
    return shared


def _of_moments(problem: Any, shared: Moments) -> dict[str, Any]:
    """Return the matrices of shared moments by field."""
    views = list(shared.matrices.values())
    names = problem.stated.matrix_names
    if problem.stated.matrices[names[0]].several:
        return {names[0]: views}
    if len(views) != len(names):
        raise InvalidProblem(
            f"{type(problem).__name__} needs moments of {len(names)} matrices; got moments of {len(views)}. Pass "
            f"Moments({', '.join(names)})."
        )
    return dict(zip(names, views, strict=True))


def _check_matrices(problem: Any, matrices: Mapping[str, Any]) -> None:
    """Refuse a problem that lacks a matrix, or has iterators where rows are read several times."""
    stated, kind = problem.stated, type(problem).__name__
    for name, declared in stated.matrices.items():
        data = matrices[name]
        if declared.several and not (isinstance(data, list | tuple) and len(data)):
            raise InvalidProblem(
                f"{name} must be a list of {declared.what}, data with equally many rows; got {shown(data)}."
            )
        if data is None:
            listed = ", ".join([*stated.matrices, *filter(None, [stated.count])])
            raise InvalidProblem(
                f"{kind} needs {declared.what or name}; got no {name}. Call {kind}({listed}); `linspec.paired` splits "
                "a source of pairs of slices."
            )
        if not declared.once:
            several = dict(zip(view_names(len(data)), data, strict=True)) if declared.several else matrices
            refuse_iterators(several)


def adopt(problem: Any, name: str, data: Any) -> LinearOperator:
    """Make one of the matrices of a problem from data, in the constructor.

    Parameters
    ----------
    problem : Problem
    name : str
        The field that holds the matrix, or the name of one of several; messages use this name.
    data : anything that `linspec.as_operator` takes

    Returns
    -------
    LinearOperator

    Raises
    ------
    InvalidProblem
        The matrix has no rows or no columns.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import adopt
    >>> adopt(ls.SVD(np.eye(2), k=1), "A", np.ones((3, 2))).shape
    (3, 2)
    """
    A = as_operator(data, name)
    if 0 in A.shape:
        raise InvalidProblem(f"{name} must have rows and columns; got shape {A.shape}.")
    if name in problem.stated.matrices:
        object.__setattr__(problem, name, A)
    if A.column_names is not None:
        object.__setattr__(problem, "column_names", {**problem.column_names, name: A.column_names})
        object.__setattr__(problem, "frame_library", problem.frame_library or A.frame_library)
    if A.lacks is not None:
        object.__setattr__(problem, "lacks", A.lacks)
    if A.row_names is not None and problem.row_names is None:
        object.__setattr__(problem, "row_names", RowNames(A.row_names))
    return A


def with_values(problem: P, **values: Any) -> P:
    """Return a copy of a problem with other values of these attributes, which are not checked."""
    twin = copy.copy(problem)
    for name, value in values.items():
        object.__setattr__(twin, name, value)
    return twin


def set_matrix(problem: Any, name: str, A: LinearOperator) -> None:
    """Replace one matrix of a problem, which may be one of several in a field."""
    if name in problem.stated.matrices:
        object.__setattr__(problem, name, A)
        return
    field = problem.stated.matrix_names[0]
    views = dict(zip(view_names(len(getattr(problem, field))), getattr(problem, field), strict=True))
    object.__setattr__(problem, field, tuple((views | {name: A}).values()))


def _as_columns(problem: Any, name: str, data: Any) -> Any:
    """Return a one-dimensional array as a matrix with one column, and other data unchanged.

    `problem.vector` is set: True if the data are a vector (an array, a list of numbers, or a series of a frame
    library), else False. Only data of a matrix declared with ``vector=True`` are passed.
    """
    data = vector_of_list(data, name)
    object.__setattr__(problem, "vector", (getattr(data, "ndim", 2) == 1) is True or is_series(data))
    return as_columns(data, name)


def _promote(problem: Any) -> None:
    """Set the dtypes in which the matrices of a problem are multiplied.

    A matrix that is declared with `like` takes a wider dtype of the other matrix. A matrix of bools or integers takes
    the widest dtype of the others, in which its entries stay exact; matrices of floats keep theirs.
    """
    followed = {declared.like for declared in problem.stated.matrices.values()}
    for name, A in problem.matrices.items():
        like = problem.stated.matrices[problem.stated.field_of(name)].like
        matrices = problem.matrices
        if like:
            wanted = matrices[like].dtype
        elif name not in followed and A.stored_dtype.kind in "biu":
            wanted = max((B.dtype for B in matrices.values()), key=lambda dtype: dtype.itemsize)
        else:
            continue
        wider = A.in_dtype(wanted) if A.dtype.itemsize < wanted.itemsize else None
        if wider is not None:
            set_matrix(problem, name, wider.with_names_of(A))


# ---- rows -------------------------------------------------------------------------------------


def adopt_rows(problem: Any) -> None:
    """Check weights, confounds and scale in the constructor, after the matrices are adopted."""
    check_flag("scale", problem.scale)
    if problem.sample_weight is None and problem.confounds is None and not problem.scale:
        return
    if problem.shared is not None:
        raise InvalidProblem(
            "sample_weight, confounds and scale change the moments; got moments that are made already. Pass the "
            "data themselves."
        )
    matrices = problem.matrices.values()
    rows = min(A.shape[0] for A in matrices)
    names = column_names_of(problem.confounds)
    if names is not None:
        object.__setattr__(problem, "column_names", {**problem.column_names, "confounds": names})
    adopt_labels(problem, {name: getattr(problem, name) for name in ("sample_weight", "confounds")})
    w, Z = weights_and_confounds(problem.sample_weight, problem.confounds, rows)
    object.__setattr__(problem, "sample_weight", w)
    object.__setattr__(problem, "confounds", Z)
    if any(A.access == "products" for A in matrices):
        for A in matrices:  # products with slices are made beside products of the other matrix
            if isinstance(A, StreamedOperator) and A.shape[0] == math.inf:
                A.expect(int(rows))


def adopt_labels(problem: Any, row_data: Mapping[str, Any]) -> None:
    """Keep the row labels of data beside the matrices, such as weights, for the checks."""
    known = {name: index_of(data) for name, data in row_data.items()}
    labels = {name: RowNames(index) for name, index in known.items() if index is not None}
    object.__setattr__(problem, "row_labels", {**problem.row_labels, **labels})


# ---- numbers ----------------------------------------------------------------------------------


def check_sizes(problem: Any) -> None:
    """Check that the matrices have equally many rows, and k against the sizes."""
    matrices = list(problem.matrices.items())
    for name, A in matrices[1:]:
        check_rows(matrices[0][0], matrices[0][1], name, A)
    if not problem.stated.count:
        return
    declared = problem.stated.fields[problem.stated.count]
    sizes = {"rows": min(A.shape[0] for _, A in matrices)}
    sizes |= {f"columns of {name}": A.shape[1] for name, A in matrices}
    sizes = sizes if declared.limits is None else declared.limits(problem)
    k = getattr(problem, problem.stated.count)
    if declared.share and is_number(k) and 0 < k < 1:
        checked: float = float(k)
    else:
        checked = int(min(sizes.values())) if problem.every else check_k(k, sizes, share=declared.share)
    object.__setattr__(problem, problem.stated.count, checked)


def _penalised(problem: Any) -> tuple[str, ...]:
    """Return the names of the matrices to whose Gram matrices the ridge is added: by default those with weights."""
    of = problem.stated.fields[problem.stated.ridge].of
    fields = of or tuple(problem.solution.layout.weights) or problem.stated.matrix_names
    return tuple(name for field in fields for name in in_field(problem, field))


def stated_ridge(problem: Any, ridge: Any) -> Any:
    """Check the ridge of a constructor, or the ridges of a path, and return it in the form that the problem holds."""
    declared = problem.stated.fields[problem.stated.ridge]
    if not declared.path:
        return checked_ridge(problem, ridge)
    ridges = check_ridges(ridge)
    _check_positive(declared, parts_of(ridges))
    return ridges


def checked_ridge(problem: Any, ridge: Any) -> Any:
    """Check one ridge, a number or one for each matrix, and return it in the form in which the problem holds it."""
    declared = problem.stated.fields[problem.stated.ridge]
    names = _penalised(problem) if declared.each else ("",)
    several = declared.each and isinstance(ridge, tuple | list)
    numbers = tuple(check_ridge(number) for number in (ridge if several else (ridge,) * len(names)))
    if len(numbers) != len(names):
        raise InvalidProblem(
            f"ridge must be a number or one for each of {', '.join(names)}; got {len(numbers)} numbers."
        )
    _check_positive(declared, numbers)
    return numbers if declared.each else numbers[0]


def _check_positive(declared: Any, ridges: tuple[float, ...]) -> None:
    """Raise if one of some ridges is 0 where the declaration refuses this."""
    if declared.positive and 0.0 in ridges:
        raise InvalidProblem(f"ridge must be above 0; got {', '.join(map(str, ridges))}. {declared.positive}")


def check_range_of_ridges(problem: Any) -> None:
    """Refuse ridges whose square roots are out of the range that the largest entry of a matrix must be in.

    A ridge is added to sums of squares of entries, so its square root has the unit of an entry. The range is that of
    `linspec.blocks.units`.

    Raises
    ------
    DataOutOfRange
    """
    for ridge in parts_of(getattr(problem, "ridge", 0.0)):
        if is_number(ridge):
            check_square("ridge", float(ridge))


def least_ridges(problem: Any) -> dict[str, float]:
    """Return, by matrix, the smallest ridge that is added to the Gram matrix of this matrix.

    The keys are the matrices to which the ridge of the problem belongs. Of a sequence of ridges the smallest one
    counts. If the problem declares no ridge, the dict is empty.
    """
    if not problem.stated.ridge:
        return {}
    ridge = getattr(problem, problem.stated.ridge)
    names = _penalised(problem)
    if problem.stated.fields[problem.stated.ridge].each:
        return dict(zip(names, ridge, strict=True))
    return dict.fromkeys(names, min(ridge) if isinstance(ridge, tuple) else ridge)


def start_of(problem: Any, answer: Any) -> dict[str, Array]:
    """Check the vectors of an earlier answer against the matrices, and return them by field."""
    weights = problem.solution.layout.weights
    kind = type(problem).__name__
    if not weights:
        raise InvalidProblem(f"solvers of {problem.name} cannot begin at an earlier answer; leave start out.")
    vectors: dict[str, Any] = {}
    for field, (name, axis) in weights.items():
        W = answer.get(name) if isinstance(answer, Mapping) else getattr(answer, name, None)
        if W is None and len(weights) == 1 and is_array(answer):
            W = answer
        matrices = [problem.matrices[matrix] for matrix in in_field(problem, field)]
        parts = [finite_array(part, f"the {name} of start") for part in parts_of(W) if part is not None]
        shapes = [tuple(part.shape) for part in parts]
        wanted = [A.shape[1] for A in matrices]
        along = [shape[axis] for shape in shapes if len(shape) == len("pk")]
        counts = [part.size // max(part.shape[axis], 1) for part in parts] if along == wanted else [0]
        if not 1 <= min(counts) <= max(counts) <= max(*wanted, problem.width):
            raise InvalidProblem(
                f"start must have {name} with the columns, {wanted}, along axis {axis}, and at most so many vectors; "
                f"got {shown(shapes or answer)}. Pass a solution of {kind} on the same columns."
            )
        placed = tuple(A.device.blocks.asarray(part) for A, part in zip(matrices, parts, strict=True))
        vectors[name] = placed if problem.stated.matrices[field].several else placed[0]
    if len({part.shape[1] for W in vectors.values() for part in parts_of(W)}) > 1 < len(vectors):
        raise InvalidProblem("the weights of start must have equally many columns for both views.")
    return vectors


def in_field(problem: Any, field: str) -> tuple[str, ...]:
    """Return the names of the matrices that a field holds."""
    value = getattr(problem, field)
    return view_names(len(value)) if isinstance(value, tuple) else (field,)
