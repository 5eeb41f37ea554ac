"""New rows of the matrix of a solution: preprocessed as the training rows were, times weights, and back.

Problem: scores, variates, predictions and reconstructions are all (A − 1 meanᵀ − Z slopes) diag(scale)⁻¹ V for a thin
V, where Z are the confounds of the rows A, which may be of any kind.
Method: what was learnt from the training rows is the preprocessing of the new rows, whose confounds are its basis
(`linspec.rows.Preprocessing`): one pass. Rows that come slice by slice are multiplied slice by slice, and rows in
blocks on the workers that hold them: their images stay there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.blocks import Dense
from linspec.errors import InvalidProblem, shown
from linspec.frames import check_names, check_order, column_names_of
from linspec.operators import LinearOperator, as_operator
from linspec.operators.weights import weights_and_confounds
from linspec.rows import Fitted, Moments, Preprocessing


@dataclass(frozen=True)
class NewRows:
    """The adjustment of new rows of one matrix, learned from the training rows of a solution.

    Attributes
    ----------
    mean : array of shape (p,) or None
    slopes : array of shape (c, p) or None
        Regression coefficients of the columns on the confounds.
    confound_mean : numpy.ndarray of shape (c,) or None
    scale : array of shape (p,) or None
        Divisors of the columns, after means and confounds are subtracted.
    names, confound_names : tuple of str or None
        The names of the columns, and of the confounds, where the training data had any.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import NewRows
    >>> solution = ls.solve(ls.SVD(np.array([[1.0, 0.0], [3.0, 0.0]]), k=1, center=True))
    >>> NewRows.of(solution, "A").images(np.array([[5.0, 1.0]]), np.eye(2), "A")
    array([[3., 1.]])
    """

    mean: Array | None = None
    slopes: Array | None = None
    confound_mean: HostArray | None = None
    scale: Array | None = None
    names: tuple[str, ...] | None = None
    confound_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, solution: Any, matrix: str) -> NewRows:
        """Return the adjustment of new rows of one matrix of a solution.

        `scale` is None if the weights of the solution belong to unscaled columns: these weights are divided by the
        scale already.
        """
        layout = solution.layout
        several = matrix not in solution.layout.means
        field = next(iter(layout.weights)) if several else matrix  # one field declares all views
        number = int(matrix[1:]) - 1 if several else 0
        prefix = layout.prefix(field)

        def part(what: str) -> Any:
            value = getattr(solution, prefix + what, None)
            return value[number] if isinstance(value, tuple) else value

        return cls(
            mean=part("mean"),
            slopes=part("slopes"),
            confound_mean=getattr(solution, "confound_mean", None),
            scale=None if layout.scaled.get(field) else part("scale"),
            names=solution.column_names.get(matrix),
            confound_names=solution.column_names.get("confounds"),
        )

    def images(
        self,
        data: Any,
        V: Array,
        name: str,
        confounds: Any = None,
        *,
        offset: Array | None = None,
        slopes: Array | None = None,
    ) -> Any:
        """Compute (A − 1 meanᵀ − Z self.slopes) diag(scale)⁻¹ V + 1 offsetᵀ + Z slopes for new rows A.

        Z has the confounds of the new rows, minus the means of the confounds of the training rows. `self.slopes` are
        the coefficients that were learned from the training rows; `slopes` is the argument.

        Parameters
        ----------
        data : data of shape (n, p)
            The rows A.
        V : array of shape (p, k)
            The vectors that the adjusted rows are multiplied by.
        name : str
            The name of the data in messages.
        confounds : array of shape (n, c), optional
        offset : array of shape (k,), optional
            Added to every row of the result; by default 0.
        slopes : array of shape (c, k), optional
            Z times these coefficients is added to the result; by default 0.

        Returns
        -------
        array of shape (n, k)
            In the library, on the device and in the working dtype of the data. For rows in blocks, the result of
            `linspec.workers.BlockOperator.given_back`: a dask array for dask data, else an operator, whose rows
            stay where the blocks are. `linspec.workers.brought_here` turns both into an array of this process.

        Raises
        ------
        InvalidProblem
            When the columns, or the confounds, do not fit those of the training data.
        NonFiniteData
            When an entry of the rows is NaN or infinite. The rows are searched only if their images are not finite.
        """
        A = _checked(data, V, name, "columns of the training data", self.names)
        Z = self.confounds_less_mean(confounds, {name: data})
        return self._images(A, V, name, Z, offset, slopes)

    def _images(
        self,
        A: LinearOperator,
        V: Array,
        name: str,
        Z: HostArray | None,
        offset: Array | None,
        slopes: Array | None,
    ) -> Any:
        """Compute `images` for rows with confounds Z less their training means."""
        n, p = A.shape
        _check_confounds(Z, n)
        if n == 0:
            return A.device.asarray(np.zeros((0, V.shape[1])), A.dtype)
        mean = np.zeros(p) if self.mean is None else to_host(self.mean).astype(np.float64)
        fitted_slopes = None if Z is None or self.slopes is None else to_host(self.slopes).T
        factors = None if self.scale is None else reciprocal(to_host(self.scale).astype(np.float64))
        pre = Preprocessing(self.mean is not None, None, Z, self.scale is not None)
        moments = Moments([A.in_blocks(name)], pre, names=[name])
        moments.fitted[0] = Fitted.known(mean, fitted_slopes, factors)
        asarray = A.device.blocks.asarray
        # The last bits of a product depend on the memory order of V, which a saved answer does not keep.
        W = asarray(np.ascontiguousarray(V) if isinstance(V, np.ndarray) else V)
        more = (None if part is None else asarray(part) for part in (offset, None if Z is None else slopes))
        scores: Any = moments.scores(W, 0, A.dtype, *more)
        _check_confounds(Z, scores.shape[0])
        return (
            A.device.asarray(scores.array, A.dtype)
            if isinstance(scores, Dense)
            else scores.given_back(scores)
        )

    def restored(self, scores: Any, V: Array, name: str, confounds: Any = None) -> Any:
        """Compute P V diag(scale) + 1 meanᵀ + Z slopes for scores P: rows of the matrix.

        Parameters
        ----------
        scores : data of shape (n, k)
        V : array of shape (k, p)
        name : str
            The name of the scores in messages.
        confounds : array of shape (n, c), optional

        Returns
        -------
        array of shape (n, p)
            In the library, on the device and in the working dtype of the scores; for scores in blocks as in `images`.

        Raises
        ------
        InvalidProblem
            When the columns, or the confounds, do not fit.
        NonFiniteData
            When a score is NaN or infinite.
        """
        V = V if self.scale is None else V * self.scale[None, :]
        A = _checked(scores, V, name, "columns of `transform`", None)
        Z = self.confounds_less_mean(confounds, {name: scores})
        bare = NOTHING if Z is None else NewRows(slopes=np.zeros((Z.shape[1], A.shape[1])))
        return bare._images(A, V, name, Z, self.mean, self.slopes)

    def confounds_less_mean(self, confounds: Any, data: Mapping[str, Any]) -> HostArray | None:
        """Return the confounds of some rows less their training means; None if the solution removes no confounds.

        Parameters
        ----------
        confounds : array of shape (n, c), or None
        data : mapping of str to data
            The rows by name, whose labels must be those of the confounds.
        """
        wanted = 0 if self.slopes is None else int(self.slopes.shape[0])
        if self.slopes is None and confounds is None:
            return None
        check_names(column_names_of(confounds), self.confound_names, "confounds", "the training rows")
        check_order({**data, "confounds": confounds}, again=True)
        _, Z = weights_and_confounds(None, confounds, math.inf)
        got = 0 if Z is None else Z.shape[1]
        if Z is None or self.slopes is None or got != wanted:
            raise InvalidProblem(
                f"confounds= must be an array with a row for each row and {wanted} columns, as the solved problem "
                f"had; got {got} columns."
            )
        return Z if self.confound_mean is None else Z - self.confound_mean


NOTHING = NewRows()
"""The adjustment that leaves rows unchanged."""


def _checked(data: Any, V: Array, name: str, expected: str, names: tuple[str, ...] | None) -> LinearOperator:
    """Make an operator of data, and check its columns against V and the names of the training data."""
    A = as_operator(data, name)
    check_names(A.column_names, names, name, "the training data")
    p = V.shape[0]
    if A.shape[1] != p:
        remedy = ""
        named = isinstance(data, str | os.PathLike)
        if A.sparse and (named or A is data):  # perhaps a file
            path = shown(os.fspath(data)) if named else "path"
            remedy = (
                f" An svmlight file does not say how many it has: pass linspec.open_rows({path}, "
                f"columns=range({p})), with base=0 if its indices count from 0."
            )
        raise InvalidProblem(f"{name} must have the {p} {expected}; got {A.shape[1]}.{remedy}")
    return A


def _check_confounds(Z: HostArray | None, rows: float) -> None:
    """Refuse confounds with another number of rows than the data, once these have been counted."""
    if Z is not None and rows not in (math.inf, len(Z)):
        raise InvalidProblem(f"confounds must have a row for each of {rows} rows; got {len(Z)}.")
