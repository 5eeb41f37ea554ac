"""Problems with targets and a path of ridges, and their answers: a column for each target and each ridge.

Problem: one run solves for several right-hand sides and several ridges; a solver has columns, and an answer has an axis
for each of the two.
Method: a solver's block has the columns of all targets for the first ridge, then those for the second ridge, and so on.
The array of an answer has the shape (ridges, rows, targets), without the first axis for one ridge, and without the last
one if the targets were a vector. Columns of tables are named by targets and ridges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from linspec.arrays import Array, HostArray, is_array, namespace, with_device
from linspec.errors import InvalidProblem, shown
from linspec.solving.checks import finite_array
from linspec.solving.linear_solution import RegressionSolution
from linspec.solving.problem import Problem, S_co
from linspec.solving.tables import ridge_labels
from linspec.workers import BlockOperator, brought_here


class WithRidges(Problem[S_co]):
    """Base class of problems that have targets, in their second matrix, and one ridge or several.

    Attributes
    ----------
    path : bool
        Whether the problem has a sequence of ridges.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import WithRidges
    >>> problem = ls.LeastSquares(np.eye(3), np.eye(3)[:, :2], ridge=[0.5, 2.0])
    >>> isinstance(problem, WithRidges), problem.width, problem.column_ridges
    (True, 4, array([0.5, 0.5, 2. , 2. ]))
    """

    @property
    def path(self) -> bool:
        """Whether the problem has a sequence of ridges."""
        return isinstance(self._ridge, tuple)

    @property
    def _ridge(self) -> Any:
        return getattr(self, self.stated.ridge)

    @property
    def ridges(self) -> tuple[float, ...]:
        """All ridges, as a tuple."""
        return tuple(self._ridge) if self.path else (self._ridge,)

    @property
    def target_count(self) -> int:
        """The number of targets."""
        return int(list(self.matrices.values())[1].shape[1])

    @property
    def column_ridges(self) -> HostArray:
        """The ridge of each column of a solution."""
        return np.repeat(np.asarray(self.ridges), self.target_count)

    @property
    def width(self) -> int:
        """The number of columns of a solution: targets times ridges."""
        return self.target_count * len(self.ridges)

    def columns_of_start(self, given: Any, name: str, rows: int, of: str) -> dict[str, Array]:
        """Check an array of an earlier answer, and return it with a column for each target and ridge.

        Parameters
        ----------
        given : array, mapping or solution
        name : str
            The name of the array.
        rows : int
            Its length along the axis of the answer.
        of : str
            What must be the same for both problems, in the plural.
        """
        x = given.get(name) if isinstance(given, Mapping) else given
        x = x if x is None or is_array(x) else getattr(x, name, None)
        device = next(iter(self.matrices.values())).device.blocks
        x = device.zeros((0,)) if x is None else device.asarray(finite_array(x, f"the {name} of start"))
        m = self.target_count
        count = len(self.ridges)
        shape = tuple(x.shape)
        axes = (rows, m)
        if self.path and shape in {(count, *axes), (count, *axes[: 1 + (m > 1)])}:
            columns = device.xp.permute_dims(device.xp.reshape(x, (count, rows, m)), (1, 0, 2))
            return {name: device.xp.reshape(columns, (rows, count * m))}
        if shape in {axes, axes[: 1 + (m > 1)]}:
            return {name: device.concat([device.xp.reshape(x, axes)] * count)}
        expected = f"{axes} or {(count, *axes)}" if self.path else f"{axes}"
        got = shape if shape != (0,) else shown(given)
        raise InvalidProblem(
            f"start must have the array {name} of shape {expected}; got {got}. Pass a "
            f"solution of {type(self).__name__} with the same {of}, or its {name}."
        )

    def shaped(self, x: Array) -> Array:
        """Reshape columns to the array of an answer: a vector if the targets are one, stacked for several ridges."""
        if self.path:
            xp = namespace(x)
            x = xp.permute_dims(xp.reshape(x.T, (len(self.ridges), -1, x.shape[0])), (0, 2, 1))
        return x[..., 0] if self.vector else x


@dataclass(frozen=True, kw_only=True, repr=False)
class RidgesSolution(RegressionSolution):
    """Base class of answers with a column for each target, and for each ridge of a path.

    The leading field of a derived class is the array with these columns.

    Attributes
    ----------
    residuals : numpy.ndarray of shape (r,)
        The residual of each ridge's solution; `residual` is the largest.
    path : bool
        Whether the first axis of the array counts the ridges of a path, which are in `ridge`. Then tables have a column
        for each target and ridge: "target1, ridge 0.1".

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import RidgesSolution
    >>> solution = ls.solve(ls.LeastSquares(np.eye(2), np.ones(2), ridge=[0.25, 1.0]))
    >>> isinstance(solution, RidgesSolution), solution.target_names
    (True, ['target1, ridge 0.25', 'target1, ridge 1'])
    >>> [part.x.round(6).tolist() for part in solution.along_path()]
    [[0.8, 0.8], [0.5, 0.5]]
    """

    residuals: HostArray
    path: bool = False

    targets: ClassVar[str]
    per_ridge: ClassVar[tuple[str, ...]] = ()  # further fields whose first axis counts the ridges of a path

    @property
    def _columns(self) -> Array:
        """The array with a column for each target and ridge."""
        return getattr(self, self.layout.leading[0])

    def _headline(self) -> str:
        return f"{self.layout.leading[0]} {tuple(self._columns.shape)}"

    def _per_component(self) -> dict[str, Any]:
        if not self.path:
            return {}
        scores = np.broadcast_to(self.training_score, self.residuals.shape)
        return {"ridge": self.ridge, "residual": self.residuals, "training R²": scores}

    def _by_name(self, values: HostArray, unnamed: str) -> dict[str, HostArray]:
        """Return the last axis of values, which counts targets, by name; for a path the first axis, too."""
        values = values if self.path else values[None]
        values = values[..., None] if values.ndim == 2 else values
        columns = (values[i, :, j] for i in range(values.shape[0]) for j in range(values.shape[2]))
        return dict(zip(self._names(unnamed), map(np.asarray, columns), strict=True))

    @property
    def target_names(self) -> list[str]:
        """The names of the columns of `predictions_table`: a target each, for a path with the ridge."""
        return self._names("target")

    def _names(self, unnamed: str) -> list[str]:
        """Return the names of targets, for each ridge of a path; `unnamed` and a number if they have none."""
        shape = self._columns.shape[1:] if self.path else self._columns.shape
        count = shape[1] if len(shape) > 1 else 1
        names = self.column_names.get(self.targets) or tuple(f"{unnamed}{i + 1}" for i in range(count))
        ends = [f", ridge {label}" for label in ridge_labels(self.ridge)] if self.path else [""]
        return [f"{name}{end}" for end in ends for name in names]

    @with_device
    def along_path(self) -> list[Self]:
        """Split a path into one solution for each ridge, in order; each keeps the costs and status of the path."""
        if not self.path:
            return [self]
        solutions = []
        for i, residual in enumerate(self.residuals):
            names = [
                name for name in (self.layout.leading[0], *self.per_ridge) if getattr(self, name) is not None
            ]
            names += ["target_errors"] * (self.target_errors.ndim > 1)
            fields = {name: getattr(self, name)[i, ...] for name in (*names, "residuals")}
            fields |= {
                "residuals": self.residuals[i : i + 1],
                "residual": float(residual),
                "ridge": self.ridge[i],
            }
            solutions.append(replace(self, path=False, **fields))
        return solutions

    def _as_block(self, x: Array) -> Array:
        """Return an array with the axes of the answer as a block with a column for each ridge and target."""
        xp = namespace(x)
        axis = int(self.path)
        return xp.reshape(xp.moveaxis(x, axis, 0), (x.shape[axis], -1))

    def _as_targets(self, predictions: Any) -> Any:
        """Return a block of predictions with the axes of the answer: ridges, rows and targets."""
        shape = self._columns.shape
        if not self.path:
            return (
                predictions
                if len(shape) == 2 or isinstance(predictions, BlockOperator)
                else predictions[:, 0]
            )
        predictions = brought_here(predictions)
        there = namespace(predictions)
        return there.moveaxis(there.reshape(predictions, (predictions.shape[0], shape[0], *shape[2:])), 1, 0)

    def _columns_of(self, predictions: Any) -> HostArray:
        return super()._columns_of(self._as_block(brought_here(predictions)))
