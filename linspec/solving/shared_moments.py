"""Moments in place of data: a user, or a path of ridges, forms Gram matrices once for several problems.

Problem: several problems have the same rows, and each would read them for the same Gram matrices. For methods of one's
own, products with these are wanted without a solver.
Method: one `linspec.rows.Moments` knows what was learnt and holds what was formed. Each run gets moments of its own,
which know and hold the same, count their passes in the run, and hand back what they form at the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from linspec import rows
from linspec.arrays import Array, Device, is_array, on_device
from linspec.cost import EXPECTED_PRODUCTS
from linspec.errors import AccuracyWarning, InvalidProblem, shown, warn
from linspec.frames import check_order
from linspec.operators import LinearOperator, as_operator
from linspec.process.locks import locked
from linspec.registry.options import FORMS
from linspec.solving.checks import check_device, check_flag, check_rows
from linspec.solving.verdict import lost_digits


class Moments:
    """Products and Gram matrices of one matrix, or of several with the same rows.

    Parameters
    ----------
    *views : data of shape (n, p)
        Anything that `linspec.as_operator` takes, all with the same rows. None is left out.
    center : bool, default False
        Whether column means are subtracted.
    form : {"auto", "dense", "sparse", "implicit"}, default "auto"
        Hold the Gram matrices as dense or sparse arrays, or read the data for every product.
    expect : (int, int), optional
        The number of products that are expected, and of columns of each. "auto" chooses the form that takes least
        time for these. By default 60 products with 20 columns.
    names : sequence of str, optional
        The names of the matrices in messages; by default X and Y, or X1, X2, X3 and so on of more than two.

    Attributes
    ----------
    matrices : dict of str to LinearOperator
        The matrices as they were passed, by name.

    Raises
    ------
    InvalidProblem
        There is no matrix, or they have different numbers of rows; or the form is not one of the four.
    UnsupportedData
        The matrices are in different libraries or on different devices.

    Notes
    -----
    Nothing is read before the first product. There is an `AccuracyWarning` if the products of an operator are not
    those of a matrix and its transpose, and if large means have taken digits of products. Blocks and results are
    float64, in the library and on the device of the data (NumPy's for sparse matrices, files and operators). Threads
    that share moments take turns.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving.shared_moments import Moments
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> moments = Moments(A)
    >>> bool(np.allclose(moments.gram(np.eye(10)), A.T @ A))
    True
    """

    def __init__(
        self,
        *views: Any,
        center: bool = False,
        form: str = "auto",
        expect: tuple[int, int] = (EXPECTED_PRODUCTS, 20),
        names: Sequence[str] | None = None,
    ) -> None:
        if str(form) not in FORMS:
            raise InvalidProblem(f"form must be one of {', '.join(FORMS)}; got {shown(form)}.")
        check_flag("center", center)
        data = [view for view in views if view is not None]
        if not data:
            raise InvalidProblem("moments are those of matrices; got none. Pass Moments(X) or Moments(X, Y).")
        numbered = "XY" if len(data) <= len("XY") else [f"X{i + 1}" for i in range(len(data))]
        named = dict(zip(names or numbered, data, strict=False))
        matrices = {name: as_operator(matrix, name) for name, matrix in named.items()}
        check_order(named, again=True)
        first = next(iter(matrices))
        for name, A in matrices.items():
            check_rows(first, matrices[first], name, A)
            check_device(first, matrices[first], name, A)
        pre = rows.Preprocessing(center=bool(center))
        moments = rows.Moments([A.in_blocks(name) for name, A in matrices.items()], pre, names=list(matrices))
        self.matrices, self._moments, self._form, self._expect = matrices, moments, str(form), expect

    @classmethod
    def of(
        cls,
        matrices: Mapping[str, LinearOperator],
        moments: rows.Moments,
        form: str = "auto",
        expect: tuple[int, int] = (EXPECTED_PRODUCTS, 20),
    ) -> Moments:
        """Share moments of preprocessed matrices, which are read here alone from now on.

        Parameters
        ----------
        matrices : mapping of str to LinearOperator
        moments : linspec.rows.Moments
        form, expect
            As for the class.
        """
        shared = object.__new__(cls)
        shared.matrices, shared._moments, shared._form, shared._expect = dict(matrices), moments, form, expect
        return shared

    def __repr__(self) -> str:
        views = ", ".join(f"{name}={A!r}" for name, A in self.matrices.items())
        return f"Moments({views}, center={self.center}, form={self._form!r})"

    @property
    def center(self) -> bool:
        """Whether the column means are subtracted."""
        return self._moments.pre.center

    @property
    def device(self) -> Device:
        """The library and the device of blocks and results."""
        return self._moments.device

    @property
    def passes(self) -> float:
        """The number of passes over the data so far, but for those of runs beyond what they have formed for all."""
        return self._moments.passes.count

    @property
    def held(self) -> bool:
        """Whether products take no pass, because Gram matrices are held."""
        return self._moments.holds

    @property
    def form(self) -> str:
        """The form in force: "dense", "sparse" or "implicit"; it is chosen when it is first needed."""
        with locked(self):
            if self._form == "sparse" and not all(A.sparse for A in self.matrices.values()):
                raise InvalidProblem(
                    'form "sparse" holds the Gram matrices of sparse matrices; got '
                    f'{", ".join(map(repr, self.matrices.values()))}. Use "auto", "dense" or "implicit".'
                )
            if self._form == "auto":
                self._form = self._moments.cheapest_form(*self._expect)
            return self._form

    def of_run(self, passes: rows.Passes, certificate_passes: float = 0.0) -> rows.Moments:
        """Moments that know and hold the same, for a run; they form here what the form asks for, for later runs, too.

        Parameters
        ----------
        passes : Passes
            The count of the run.
        certificate_passes : float, default 0
            Passes that are set aside for the certificate, unless something is held.
        """
        with locked(self):
            moments = self._moments.again(passes, certificate_passes)
            before = passes.count
            self._form_held(moments)
            self._moments.take_up(moments)
            self._moments.passes.count += passes.count - before
        return moments

    def _form_held(self, moments: rows.Moments) -> rows.Moments:
        """Form what the form asks for."""
        if not moments.holds:
            moments.expect(*self._expect, self.form)
        return moments

    @contextmanager
    def _ready(self) -> Iterator[rows.Moments]:
        """The moments for one product, which no other thread uses now."""
        with locked(self), on_device(self.device):
            yield self._form_held(self._moments)
            least = 1e3 * max(float(np.finfo(A.dtype).eps) for A in self.matrices.values())
            for text in filter(None, (*self._moments.contradictions, lost_digits(self._moments, least))):
                warn(text, AccuracyWarning)

    def _block(self, V: Array, i: int) -> Array:
        """The block that multiplies matrix i, at the place of the data."""
        widths = self._moments.widths
        if i not in range(len(widths)) or len(V.shape) != len("pk") or V.shape[0] != widths[i]:
            raise InvalidProblem(
                f"a block must have a row for each column of its matrix, which are {', '.join(map(str, widths))}; got "
                f"shape {tuple(V.shape)} for matrix {i}."
            )
        return self.device.asarray(V)

    def products(self, *blocks: Array | None, onto: Sequence[int] | None = None) -> tuple[Array | None, ...]:
        """Compute XᵢᵀXⱼ Vⱼ of all matrices in one pass: for two of them (XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy).

        Parameters
        ----------
        *blocks : array of shape (p, k), or None
            Vⱼ of each matrix. Those of the last ones may be left out.
        onto : sequence of int, optional
            The matrices i whose products are needed; those of others may be None. By default all.

        Returns
        -------
        tuple of array or None
            XᵢᵀXⱼ Vⱼ of m matrices has the index i m + j.

        Raises
        ------
        InvalidProblem
            A block does not fit its matrix, or there are more blocks than matrices.
        """
        m = len(self.matrices)
        wanted = [*blocks[:m], *(V for V in blocks[m:] if V is not None)]
        placed = [None if V is None else self._block(V, i) for i, V in enumerate(wanted)]
        with self._ready() as moments:
            products = moments.products(*placed, *[None] * (m - len(placed)), onto=onto)
        return tuple(products[j][i] for i in range(m) for j in range(m))

    def gram(self, V: Array, index: int = 0) -> Array:
        """Compute XᵢᵀXᵢ V for one matrix. Others are not read, unless Gram matrices still have to be formed.

        Parameters
        ----------
        V : array of shape (p, k)
        index : int, default 0
            The matrix: 0 for X, 1 for Y, and so on.

        Returns
        -------
        array of shape (p, k)

        Raises
        ------
        InvalidProblem
            V does not fit the matrix, or there is no such matrix.
        """
        V = self._block(V, index)
        with self._ready() as moments:
            return moments.gram_product(V, index)

    def dense(self) -> tuple[Array, ...]:
        """Return XᵢᵀXⱼ with i ≤ j as dense arrays, for two matrices (XᵀX, XᵀY, YᵀY).

        They are held from now on. Do not write to them.
        """
        with locked(self), on_device(self.device):
            self._form = "dense"
            upper = [G for i, row in enumerate(self._moments.gram()) for G in row[i:]]
            return tuple(G if is_array(G) else G.toarray() for G in upper)
