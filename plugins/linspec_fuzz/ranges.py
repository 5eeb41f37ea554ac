"""The check, in extended precision, whether the entries of a case are in the documented range.

For each matrix the largest √w·|entry| must be in [1e-60, 1e60], and so must that of confounds and the root of each
ridge. For kernels the range applies to the largest value of the kernel matrix. Within a decade of a bound, an answer
and a refusal are both right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec.kernels import Linear, Polynomial
from linspec_fuzz.extended import extended
from linspec_fuzz.kernel_truth import kernel_matrix
from linspec_fuzz.problems import Case

__all__ = ["range_of"]

BOUND = 60
"""The largest entry of a matrix must be between 10^-BOUND and 10^BOUND."""


def range_of(case: Case) -> tuple[str, tuple[str, ...]]:
    """Determine whether the entries of a case are in the range.

    Parameters
    ----------
    case : Case

    Returns
    -------
    str
        "inside", "outside", or "edge" if either an answer or a refusal is right.
    tuple of str
        The names of the matrices and parameters that are outside or on the edge.
    """
    distance: dict[str, float] = {}
    for name, size in _sizes(case):  # a name may come twice, such as the ridges of two views
        distance[name] = max(distance.get(name, -BOUND), abs(size) - BOUND)
    near = tuple(name for name, off in distance.items() if off > -1)
    beyond = any(off >= 1 for off in distance.values())
    kernels = case.family in ("kernel-cca", "preimage-cca", "deep-cca", "kernel-ridge")
    if (
        beyond and not kernels and case.parameters.get("present") is None
    ):  # entries of absent rows do not count
        return "outside", near  # a refusal may name either
    return ("edge", near) if near else ("inside", ())


def _sizes(case: Case) -> Iterator[tuple[str, float]]:
    """Yield (name, log10 of the largest magnitude) for each matrix, the confounds and each ridge of a case.

    The rows of matrices and confounds are multiplied by the roots of their weights. The root of each ridge is taken.
    A matrix with a kernel has a further number, twice the logarithm for its entries without weights. A linear or
    polynomial kernel adds the logarithm for the kernel matrix.
    """
    roots = None if case.weights is None else np.sqrt(extended(case.weights))
    for name, matrix in case.matrices.items():
        yield name, _exponent(_rows(matrix.entries, roots))
    if case.confounds is not None:
        yield "confounds", _exponent(_rows(case.confounds, roots))
    ridge = case.parameters.get("ridge", 0.0)
    for value in ridge if isinstance(ridge, tuple | list) else (ridge,):
        yield "ridge", _exponent(np.sqrt(extended(value)))
    for name, kernel in zip(
        "XY", (case.parameters.get("kernel_x"), case.parameters.get("kernel_y")), strict=True
    ):
        kernel = (
            kernel or case.parameters.get("kernel_x") or case.parameters.get("kernel" if name == "X" else "")
        )
        if name in case.matrices and kernel is not None:
            # Kernels square entries, so that these have half the range.
            yield name, 2 * _exponent(extended(case.entries(name)))
            if isinstance(kernel, Linear | Polynomial) and not isinstance(kernel, str):
                yield (
                    f"the kernel matrix of {name}",
                    _exponent(kernel_matrix(kernel, extended(case.entries(name)))),
                )


def _rows(entries: Any, roots: Any) -> Any:
    X = extended(entries)
    X = X[:, None] if X.ndim == 1 else X
    return X if roots is None else roots[:, None] * X


def _exponent(values: Any) -> float:
    """Return the decimal exponent of the largest magnitude; 0 if there is none."""
    largest = np.max(np.abs(values), initial=0)
    return float(np.log10(largest)) if 0 < largest < math.inf else 0.0
