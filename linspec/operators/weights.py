"""Weights of rows and confounds, as they are given: checked, on the host, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linspec.arrays import HostArray, check_bare, host_dtype, to_host
from linspec.blocks.units import check_entries, check_sizes
from linspec.errors import InvalidProblem, NonFiniteData, called, shown
from linspec.frames import is_frame, is_series, numbers_of
from linspec.operators.sparse import SparseOperator, is_scipy_sparse


def weights_and_confounds(
    sample_weight: Any, confounds: Any, rows: float
) -> tuple[HostArray | None, HostArray | None]:
    """Weights and confounds as float64 arrays on the host, after a check that they fit the rows.

    Parameters
    ----------
    sample_weight : array of shape (n,), or None
        How often each row counts: zero or more.
    confounds : array of shape (n, c) or (n,), or None
        Nuisance variables; the part of a column that they explain is subtracted.
    rows : int or infinity
        Rows of the data; infinity for streams.

    Raises
    ------
    InvalidProblem
        A weight is negative, all weights are zero, or the number of rows differs from `rows`.
    NonFiniteData
        A weight or a confound is not finite.
    DataOutOfRange
        The largest confound is too small or too large.
    """
    w = None if sample_weight is None else _weights(sample_weight, rows)
    if confounds is None:
        return w, None
    Z = _confounds(confounds, rows if w is None else len(w))
    sizes = np.max(np.abs(Z) * (1.0 if w is None else np.sqrt(w)[:, None]), axis=0, initial=0.0)
    check_sizes("confounds", sizes)
    return w, Z


def _numbers(values: Any, name: str, dimensions: str) -> HostArray:
    check_bare(values, name)
    if is_frame(values) or is_series(values):
        columns = numbers_of(values, name)[0]
        values = columns[:, 0] if is_series(values) else columns
    if hasattr(values, "dense"):  # an operator, such as `labelled` makes
        values = values.dense()
    if hasattr(values, "toarray"):
        with called(name):
            values = SparseOperator(values).dense() if is_scipy_sparse(values) else values.toarray()
    host = to_host(values)
    if host.dtype.kind not in "biuf":
        raise InvalidProblem(
            f"{name} must be {dimensions} of real numbers; got {host_dtype(host)} in {shown(values)}."
        )
    return np.array(host, dtype=np.float64)


def _weights(values: Any, rows: float) -> HostArray:
    w = _numbers(values, "sample_weight", "an array")
    if w.ndim != 1 or (rows != math.inf and len(w) != rows):
        raise InvalidProblem(
            f"sample_weight must have one number for each of the {rows:g} rows; got shape {tuple(w.shape)}."
        )
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad):
        kind = InvalidProblem if np.isfinite(w).all() else NonFiniteData
        raise kind(
            f"sample_weight must be finite, and zero or more; got {w[bad[0]]:g} for row {bad[0]}. Weight 0 leaves a "
            "row out."
        )
    if not w.any():
        raise InvalidProblem("sample_weight must have a positive number; got zeros only, which leave no row.")
    return w


def _confounds(values: Any, rows: float) -> HostArray:
    Z = _numbers(values, "confounds", "an array")
    Z = Z[:, None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or (rows != math.inf and len(Z) != rows) or Z.shape[1] == 0:
        raise InvalidProblem(
            f"confounds must be columns with one number for each of the {rows:g} rows; got shape {tuple(Z.shape)}."
        )
    check_entries("confounds", Z)
    return Z
