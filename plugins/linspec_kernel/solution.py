"""The solution of a kernel CCA: functions of rows, by coefficients of kernel functions or of features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from linspec import field
from linspec.arrays import Array, Home, HostArray, at_home, to_host
from linspec.errors import InvalidOption, InvalidProblem, shown
from linspec.families.cca import TwoViewSolution
from linspec.features import FeatureMap, KernelMap
from linspec.kernels import Kernel, Points
from linspec.operators import LinearOperator
from linspec.process import count_of
from linspec.solving import table_of_features, table_of_training_rows


class Fitted:
    """Feature map of a view, fitted to the training rows.

    Attributes
    ----------
    map : FeatureMap
    """

    def __init__(self, map: FeatureMap, kernel: Kernel) -> None:  # noqa: A002  # the name of the attribute
        self.map, self.kernel = map, kernel

    def __repr__(self) -> str:
        return f"{type(self.map).__name__}({self.map.inputs} -> {self.map.columns}, {self.kernel})"


class FunctionsSolution(TwoViewSolution):
    """Base class of answers whose variates are functions of rows."""

    def centred(self, side: str, Z: Array, A: LinearOperator) -> Array:
        """Variates minus the training means of a view, in the library and dtype of its rows."""
        mean, home = getattr(self, f"{side}_mean"), A.home.blocks
        return A.home.place(Z if mean is None else home.place(Z) - home.place(mean)[None, :], A.dtype)


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelCCASolution(
    FunctionsSolution, residual="squared", saved_types=(Fitted, FeatureMap, Points, Kernel)
):
    """Canonical pairs of functions.

    Attributes
    ----------
    x_weights, y_weights : array of shape (m, k)
        Each function is a combination of kernel functions k(·, xⱼ) (of all training rows or of the landmarks) or of
        features; these are its coefficients. The functions have unit length in the metric of the problem.
    correlations : numpy.ndarray of shape (k,)
        Canonical correlations in decreasing order, with the ridge of the problem, float64.
    x_landmarks, y_landmarks : numpy.ndarray of shape (m,) or None
        Indices of the training rows to which the coefficients belong; None if they belong to all rows, or to features.
    x_mean, y_mean : numpy.ndarray of shape (k,) or None
        Means of the variates over the training rows, which `transform` subtracts; None without centring.
    x_map, y_map : Fitted
        Maps from rows to the features that the weights multiply; `kernel_x` and `kernel_y` are their kernels.
    residuals : numpy.ndarray of shape (k,)
        The contribution of each pair to the residual, times the sum of the correlations. They are nan for
        functions made of random features, which do not lie in the spaces of the kernels and so have no residual.
    bounds : numpy.ndarray of shape (k,) or None
        For each correlation, a distance within which there is an exact correlation. None for functions that are not
        made of kernel functions.
    loss_estimate : float or None
        Estimate of the missing part of the sum of the exact correlations, relative to the sum of the returned ones. An
        iteration works on more functions than it returns. The estimate is the rise of the sum if the residuals of all
        pairs of these functions were added to the functions. None if the solver passes no such pairs to the problem.
    """

    x_weights: Array = field(leading=True, shape="m k")
    y_weights: Array = field(leading=True, shape="l k")
    correlations: HostArray = field(value="canonical correlation", at_most=1.0)
    residuals: HostArray = field(shape="k")
    x_map: Fitted
    y_map: Fitted
    x_landmarks: HostArray | None = field(None, shape="m")
    y_landmarks: HostArray | None = field(None, shape="l")
    x_mean: HostArray | None = field(None, shape="k")
    y_mean: HostArray | None = field(None, shape="k")
    bounds: HostArray | None = field(None, shape="k")
    loss_estimate: float | None = None

    def _headline(self) -> str:
        total = float(self.correlations.sum())
        return f"{count_of(len(self.correlations), 'correlation')}{self._with_ridge}, sum {total:.6f}"

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the correlations, and the kernels with all their numbers."""
        kernels = dict.fromkeys([str(self.kernel_x), str(self.kernel_y)])
        return [*super().facts(), ("kernels", " and ".join(kernels))]

    def _per_component(self) -> dict[str, Any]:
        columns = {**super()._per_component(), "residual": self.residuals}
        return columns if self.bounds is None else {**columns, "bound": self.bounds}

    @classmethod
    def from_saved_parts(cls, parts: Mapping[str, Any]) -> Self:
        found = super().from_saved_parts(parts)
        for name, fitted, weights in (
            ("x", found.x_map, found.x_weights),
            ("y", found.y_map, found.y_weights),
        ):
            if fitted.map.columns != weights.shape[0]:
                raise InvalidProblem(
                    f"{name}_weights must have a row for each of the {fitted.map.columns} columns of {name}_map; got "
                    f"{weights.shape[0]}."
                )
        return found

    @property
    def kernel_x(self) -> Kernel:
        """Kernel of X with all its numbers, including scales chosen from the data."""
        return self.x_map.kernel

    @property
    def kernel_y(self) -> Kernel:
        """Kernel of Y with all its numbers, including scales chosen from the data."""
        return self.y_map.kernel

    @property
    @at_home
    def x_dual(self) -> Array:
        """Coefficients of the kernel functions of all n training rows of X: 0 except at the landmarks.

        Raises
        ------
        InvalidProblem
            The functions are made of other features.
        """
        return _dual(self.x_weights, self.x_landmarks, self.x_map, "x")

    @property
    @at_home
    def y_dual(self) -> Array:
        """Coefficients of the kernel functions of all n training rows of Y: 0 except at the landmarks."""
        return _dual(self.y_weights, self.y_landmarks, self.y_map, "y")

    def variates(self, view: str, data: Any) -> Array:
        side = view.lower()
        A = getattr(self, f"{side}_map").map(data, view)
        Z = A.matmat(A.home.blocks.place(to_host(getattr(self, f"{side}_weights"))))
        return self.centred(side, Z, A)

    @classmethod
    def has_rows(cls, fields: Mapping[str, Any]) -> bool:
        """Whether functions consist of kernel functions, which belong to training rows."""
        return any(_is_of_rows(fields[name].map) for name in ("x_map", "y_map"))

    def coefficients_table(self, view: str, *, library: str | None = None) -> Any:
        """The coefficients of the functions of a view: of the kernel functions of training rows, or of features.

        Parameters
        ----------
        view : {"X", "Y"}
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each pair. With kernel functions of training rows or of landmarks, a row for each of these
            rows, by its label if the training data had labels, else by its number; with features, a row for each
            feature, by its number. Columns of the data have no coefficients: `loadings_table` is about them.

        Raises
        ------
        InvalidOption
            There is no such view.
        """
        if view not in ("X", "Y"):
            raise InvalidOption(f"view must be 'X' or 'Y'; got {shown(view)}.")
        side = view.lower()
        weights, fitted = getattr(self, f"{side}_weights"), getattr(self, f"{side}_map")
        if _is_of_rows(fitted.map):
            return table_of_training_rows(self, weights, library, getattr(self, f"{side}_landmarks"))
        return table_of_features(self, weights, library)


def _is_of_rows(features: FeatureMap) -> bool:
    """Whether each feature is the kernel function of one training row."""
    return isinstance(features, KernelMap) and features.turn is None


def _dual(weights: Array, landmarks: HostArray | None, fitted: Fitted, view: str) -> Array:
    if not isinstance(fitted.map, KernelMap):
        raise InvalidProblem(
            f"{view}_dual belongs to functions made of kernel functions; these are made of {fitted.map}. Take "
            f"{view}_weights."
        )
    if landmarks is None:
        return weights
    home, rows = Home.of(weights), int(fitted.map.rows)
    scattered = np.zeros((rows, int(weights.shape[1])), dtype=to_host(weights).dtype)
    scattered[landmarks] = to_host(weights)
    return home.place(scattered, scattered.dtype)
