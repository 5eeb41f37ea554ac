"""What a problem says of the rows and columns of its matrices: weights, a centre, confounds, scale.

Problem: every family takes them, and no law and no solver is to know of them.
Method: a problem that has them is solved on matrices from which everything is taken out already
(`linspec.operators.row_model`, `linspec.operators.AdjustedOperator`), with `center=False`. What was taken out goes
into fields of the solution, and weights of scaled columns are given back for the columns as they were given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from linspec.arrays import Array, Home, HostArray, host_dtype, namespace, reciprocal, to_host
from linspec.errors import InvalidProblem
from linspec.frames import RowNames, check_order, column_names_of, index_of
from linspec.moments.moments import Moments
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, LinearOperator, uncounted
from linspec.operators.chosen_rows import chosen_rows
from linspec.operators.row_model import row_model, weights_and_confounds
from linspec.operators.streamed import StreamedOperator
from linspec.solving.checks import check_flag


class RowsOfProblem:
    """The part of `linspec.Problem` that is about weights, confounds, centre and scale."""

    shared: Moments | None
    column_names: Mapping[str, tuple[str, ...]]
    row_names: RowNames | None = None  # of the first matrix that has some
    row_labels: Mapping[str, RowNames] = MappingProxyType({})  # of what lies beside the matrices
    means: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by matrix, the solution's field with its column means
    scaled: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # by matrix whose columns scale divides, the solution's field with a row for each column, or ""

    regressed: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {}
    )  # by matrix that scale divides, the solution's fields with a row for each column in units of the column

    # What each problem has as its own fields; here the values for problems without them.
    center: bool = False
    scale: bool = False
    sample_weight: Any = None
    confounds: Any = None

    @property
    def matrices(self) -> dict[str, LinearOperator]:
        """The problem's matrices by name."""
        raise NotImplementedError

    def with_matrices(self, matrices: Mapping[str, LinearOperator]) -> Self:
        """The same problem on other operators."""
        raise NotImplementedError

    def adopt_rows(self) -> None:
        """Check weights, confounds and scale, in the constructor, once the matrices are there."""
        check_flag("scale", self.scale)
        if self.sample_weight is None and self.confounds is None and not self.scale:
            return
        if self.shared is not None:
            raise InvalidProblem(
                "sample_weight, confounds and scale change the moments; got moments that are made already. Pass the "
                "data themselves."
            )
        rows = min(A.shape[0] for A in self.matrices.values())
        names = column_names_of(self.confounds)
        if names is not None:
            object.__setattr__(self, "column_names", {**self.column_names, "confounds": names})
        self.adopt_labels({name: getattr(self, name) for name in ("sample_weight", "confounds")})
        w, Z = weights_and_confounds(self.sample_weight, self.confounds, rows)
        object.__setattr__(self, "sample_weight", w)
        object.__setattr__(self, "confounds", Z)
        if any(not (A.sliceable or A.streamed or A.remote) for A in self.matrices.values()):
            for (
                A
            ) in self.matrices.values():  # products with slices are made beside products of the other matrix
                if isinstance(A, StreamedOperator) and A.shape[0] == math.inf:
                    A.expect(int(rows))

    def adopt_labels(self, given: Mapping[str, Any]) -> None:
        """Check the labels of rows of what lies beside the matrices, and keep them for later checks."""
        known = {name: index_of(data) for name, data in given.items()}
        kept = {name: RowNames(index) for name, index in known.items() if index is not None}
        object.__setattr__(self, "row_labels", {**self.row_labels, **kept})
        self.check_labels({})

    def check_labels(self, given: Mapping[str, Any]) -> None:
        """Refuse what has the labels of the rows of this problem in another order.

        Parameters
        ----------
        given : mapping of str to anything
            As for `linspec.frames.check_order`.
        """
        check_order({**self.matrices, **self.row_labels, **given})

    def on_rows(self, numbers: HostArray) -> Self:
        """The same problem on some of its rows; `check_sizes` tells whether they are enough.

        Rows of files are read where they are. Moments that the problem was given are of all rows, and are left.

        Parameters
        ----------
        numbers : numpy.ndarray of int
            From 0 to n - 1.

        Raises
        ------
        MissingCapability
            Rows of a matrix cannot be read by their numbers.
        """
        twin = self.with_matrices({name: chosen_rows(A, numbers) for name, A in self.matrices.items()})
        object.__setattr__(twin, "shared", None)
        object.__setattr__(twin, "row_labels", MappingProxyType({}))
        for name in ("sample_weight", "confounds"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(twin, name, value[numbers])
        if self.row_names is not None:
            object.__setattr__(twin, "row_names", self.row_names.chosen(numbers))
        return twin

    @property
    def is_adjusted(self) -> bool:
        """Whether weights, confounds or scale change the matrices."""
        return self.sample_weight is not None or self.confounds is not None or bool(self.scale)

    def adjusted(self) -> Self:
        """The same problem on matrices that are weighted, centred and scaled, and freed of confounds; or itself.

        Solvers meet this one. Whatever is taken out of the rows is in the matrices, and `center` is False.
        """
        if not self.is_adjusted:
            return self
        model = row_model(
            center=bool(self.center),
            weights=self.sample_weight,
            confounds=self.confounds,
            about_means=True,
        )
        twin = self.with_matrices(
            {
                name: AdjustedOperator(A, model, settle, scale=bool(self.scale) and name in self.scaled)
                for name, A in self.matrices.items()
            }
        )
        values = {"center": False, "scale": False, "sample_weight": None, "confounds": None}
        for name, value in values.items():
            object.__setattr__(twin, name, value)
        return twin

    def taken_fields(self, moments: Moments) -> dict[str, Any]:
        """The fields of a solution that say what was taken out of the rows of each matrix: means, slopes, scales."""
        found: dict[str, Any] = {}
        means = moments.columns.means() if self.center else ()
        for i, (name, field) in enumerate(self.means.items()):
            A = self.matrices[name]
            if self.center:
                found[field] = A.home.place(means[i], A.dtype)
                continue
            bare, _ = uncounted(A)
            if not isinstance(bare, AdjustedOperator):
                continue
            bare.settle()
            of, turn = bare.adjustment, bare.model.turn
            constant = bare.model.constant
            if of.mean is not None and constant is None:
                found[field] = A.home.place(of.mean, A.dtype)
            if of.beside is not None and turn is not None and bare.model.confound_mean is not None:
                home, mean = A.home.blocks, bare.model.confound_mean
                slopes = home.place(turn) @ home.place(of.beside)[:, : turn.shape[1]].T
                if (
                    constant is not None
                ):  # with the means back, the confounds also explain a part of the constant
                    at_zero = home.place(of.mean) - home.place(mean) @ slopes
                    slopes = slopes + home.place(constant.slopes)[:, None] * at_zero[None, :]
                    mean = np.zeros(len(mean))
                found[_beside(field, "slopes")] = A.home.place(slopes, _wide_enough(slopes, A.dtype))
                found["confound_mean"] = mean
            if of.scale:
                found[_beside(field, "scale")] = A.home.place(reciprocal(of.factors), A.dtype)
        return found

    def in_given_columns(
        self, arrays: Mapping[str, Any], *, back: bool = False, axis: int = 0
    ) -> dict[str, Any]:
        """Arrays with a row for each column of a matrix, for the columns before they were scaled.

        Parameters
        ----------
        arrays : mapping from str to array
        back : bool, default False
            From those before to those after.
        axis : int, default 0
            Of the rows.
        """
        found = dict(arrays)
        for name, weights in self.scaled.items():
            bare, _ = uncounted(self.matrices[name])
            if bare.adjustment is None or not bare.adjustment.scale:
                continue
            for field in (weights, *self.regressed.get(name, ())):
                value = found.get(field)
                if value is None:
                    continue
                bare.settle()  # type: ignore[attr-defined]  # it has an adjustment
                factors = bare.adjustment.factors
                inverse = back if field == weights else not back
                factors = Home.of(value).place(reciprocal(factors) if inverse else factors, host_dtype(value))
                shape = [1] * value.ndim
                shape[axis] = -1
                found[field] = value * namespace(value).reshape(factors, tuple(shape))
        return found


def _wide_enough(values: Array, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """`dtype`, or float64 for numbers beyond its range: confounds may be in any unit beside data in float32."""
    sizes, limits = np.abs(to_host(values)), np.finfo(dtype)
    within = (sizes == 0) | ((sizes >= limits.tiny) & (sizes <= limits.max))
    return dtype if within.all() else np.dtype(np.float64)


def _beside(mean: str, what: str) -> str:
    """The field beside that of the means: "x_mean" gives "x_scale"."""
    return f"{mean.removesuffix('mean')}{what}"
