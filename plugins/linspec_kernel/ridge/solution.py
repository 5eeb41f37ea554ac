"""The answer of kernel ridge regression: coefficients of the kernel functions of the training rows, and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray, at_home, to_host
from linspec.errors import InvalidProblem
from linspec.features import FeatureMap
from linspec.kernels import Kernel, Points
from linspec.solving import RidgesSolution, check_columns, table_of_training_rows
from linspec_kernel.solution import Fitted


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelRidgeSolution(
    RidgesSolution,
    vector="target",
    component="ridge",
    score="R²",
    residual="relative",
    saved_types=(Fitted, FeatureMap, Points, Kernel),
):
    """Functions f = Σ aⱼ k(·, xⱼ) + c, one for each target.

    Attributes
    ----------
    dual : array of shape (n, m), or (n,) if Y was a vector
        The coefficients aⱼ of the kernel functions of the training rows. For r ridges the shape is (r, n, m) or (r, n).
    intercept : numpy.ndarray of shape (m,), or () if Y was a vector; None
        The constants c if the problem centres, else None. For r ridges the shape is (r, m) or (r,).
    kernel_map : Fitted
        The map from rows to the values of the kernel with all training rows; `kernel` is its kernel.
    residuals : numpy.ndarray of shape (r,)
        The largest residual of a target, for each ridge; `residual` is the largest of them.
    bounds : numpy.ndarray of the shape of `intercept`
        Upper bounds of ‖f − f*‖ in the space of the kernel, where f* is the exact function without its constant. By the
        Cauchy-Schwarz inequality a prediction at any x is wrong by at most this number times √k(x, x); if the problem
        centres, times √k(x, x) plus the largest √k(xᵢ, xᵢ) of a training row.
    path : bool
        Whether the first axis of `dual` counts the ridges of a path, which are in `ridge`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> solution = ls.solve(ls.KernelRidge(x, np.sin(x[:, 0]), ridge=[1e-3, 1.0]))
    >>> solution.dual.shape, solution.predict(x[:4]).shape
    ((2, 60), (2, 4))
    >>> first, second = solution.along_path()
    >>> bool(first.score(x, np.sin(x)) > second.score(x, np.sin(x)) > 0.9)
    True
    """

    dual: Array = ls.field(leading=True, shape="any")
    residuals: HostArray = ls.field(shape="r")
    bounds: HostArray = ls.field(shape="any")
    kernel_map: Fitted
    intercept: HostArray | None = None

    targets: ClassVar[str] = "Y"
    per_ridge: ClassVar[tuple[str, ...]] = ("intercept", "bounds")

    @classmethod
    def from_saved_parts(cls, parts: Mapping[str, Any]) -> Self:
        found = super().from_saved_parts(parts)
        shape, rows = found.dual.shape, found.kernel_map.map.columns
        if shape[int(found.path)] != rows:
            raise InvalidProblem(
                f"dual must have a row for each of the {rows} columns of kernel_map; got {shape}."
            )
        others = shape[: int(found.path)] + shape[int(found.path) + 1 :]
        for name in found.per_ridge:
            value = getattr(found, name)
            if value is not None and value.shape != others:
                raise InvalidProblem(f"{name} must have shape {others}; got {value.shape}.")
        return found

    def facts(self) -> list[tuple[str, str]]:
        """The kernel with all its numbers, the shape of the coefficients, and the bound of the errors."""
        return [
            ("kernel", str(self.kernel)),
            ("coefficients", " x ".join(map(str, self.dual.shape))),
            ("error of a function, at most", f"{float(np.max(self.bounds)):.2g}"),
        ]

    @classmethod
    def has_rows(cls, fields: Mapping[str, Any]) -> bool:
        """Return True: the coefficients belong to training rows, whose names are kept."""
        return True

    @property
    def kernel(self) -> Kernel:
        """The kernel with all its numbers, including a scale chosen from the data."""
        return self.kernel_map.kernel

    @at_home
    def predict(self, X: Any) -> Array:
        """Predict the targets of rows: the functions at these rows, whose kernel values are formed slice by slice.

        Parameters
        ----------
        X : data of shape (n, p)
            Anything with rows that `linspec.as_operator` takes. If the kernel is precomputed, pass its values between
            these rows and the training rows.

        Returns
        -------
        array of shape (n, m), or (n,) if Y was a vector
            In the library and working dtype of the rows. For r ridges the shape is (r, n, m) or (r, n).

        Raises
        ------
        InvalidProblem
            The rows do not have the columns of the training data.
        """
        check_columns(self, "X", X)
        A = self.kernel_map.map(X, "X")
        found = A.matmat(A.home.blocks.place(to_host(self._as_block(self.dual))))
        if self.intercept is not None:
            found = found + A.home.place(self.intercept.reshape(1, -1), A.dtype)
        return self._as_targets(found)

    @at_home
    def predictions_table(self, X: Any, *, library: str | None = None) -> Any:
        """Make a table of the predictions of `predict`, with the names of the targets and the labels of the rows.

        Parameters
        ----------
        X
            As for `predict`.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the rows.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each row of X, and a column for each target, or for each target and ridge of a path.
        """
        return self._table_of_predictions(self.predict(X), X, library)

    @at_home
    def dual_table(self, *, library: str | None = None) -> Any:
        """Make a table of the coefficients: a row for each training row, by its label or else its number.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each target, or for each target and ridge of a path.
        """
        return table_of_training_rows(self, self._by_name(to_host(self.dual), "target"), library)

    @at_home
    def score(self, X: Any, Y: Any, *, sample_weight: Any = None) -> float:
        """Compute R²: 1 minus the squared errors of predictions over the squares of Y about its means on these rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, m)
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        float
            At most 1; over all targets together.

        Raises
        ------
        InvalidProblem
            The rows do not fit, or the answer is a path: each answer of `along_path` has a score.
        """
        return self._score_of(X, Y, sample_weight=sample_weight)
