"""The problems: what is asked, and the law by which an answer is judged.

A problem holds its data as operators and its few numbers. Constructing one reads no entry: it checks shapes,
dtypes and numbers. Its law turns what a solver found into the solution of the contract: unit vectors, order,
signs, the residual of the returned arrays.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import (
    HOST,
    Array,
    Home,
    HostArray,
    all_finite,
    host_dtype,
    is_array,
    largest_magnitude,
    namespace,
    reciprocal,
    to_host,
)
from linspec.block_algebra import metric_rounding, ratio, whitening_above_noise, whitening_of_products
from linspec.cca_law import judged
from linspec.conclusion import NO_TERMS, Conclusion, Terms
from linspec.errors import InvalidProblem, SweptOnce, UnsupportedData
from linspec.evidence import NO_EVIDENCE, Evidence
from linspec.moments import Moments
from linspec.operators import (
    CenteredOperator,
    DenseOperator,
    LinearOperator,
    ProductOperator,
    as_operator,
)
from linspec.operators.rescaled import times_power_of_two
from linspec.operators.streamed import ONCE
from linspec.scaling import Look, divided, look_at, reduced_ridge, without_large_means
from linspec.solution import (
    CCASolution,
    DiscriminantSolution,
    LeastSquaresSolution,
    Solution,
    Status,
    SVDSolution,
)
from linspec.unit_vectors import chosen, lengths_in, row_runs, signs
from linspec.whitener import leading_svd

CENTRING = 10
"""Times the tolerance by which taking means out of products may be off, in the worst case, before it is said."""

NEGLECTED = 1e-2
"""Share of ‖b‖ by whose square a step along one column may lower the sum of squares before it is said."""

NULL = 10
"""‖Xv‖ / ‖X‖‖v‖, in units of the data's rounding, up to which v is null."""


class Problem(ABC):
    """Data, a few numbers and a law.

    Attributes
    ----------
    name : str
        What the registry calls problems of this class.
    tolerance : float
        The default of `tol` for float64 data.
    """

    name: ClassVar[str]
    tolerance: ClassVar[float]
    solution: ClassVar[type[Solution]]
    matrix_names: ClassVar[tuple[str, ...]]

    shared: Moments | None
    vector: bool = False
    exponents: ClassVar[Mapping[str, int]] = MappingProxyType({})  # powers of two taken out of matrices
    excess: ClassVar[Sequence[int]] = (0, 0)  # and out of ridges, beside those that follow from the matrices
    taken: ClassVar[Mapping[str, HostArray]] = MappingProxyType(
        {}
    )  # rows taken out of matrices that are centred
    means: ClassVar[Mapping[str, str]] = MappingProxyType(
        {}
    )  # what an answer calls the means of which matrix

    @abstractmethod
    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """The moments of this problem's data."""

    @abstractmethod
    def conclude(self, moments: Moments, terms: Terms = NO_TERMS, **arrays: Any) -> Conclusion:
        """Apply the law to what a solver found."""

    def start(self, given: Any) -> dict[str, Array]:
        """The arrays of an earlier answer, as a solver begins at them."""
        raise InvalidProblem(f"no solver of {self.name} begins at an earlier answer; leave start out.")

    @property
    def matrices(self) -> dict[str, LinearOperator]:
        """The problem's matrices by name."""
        return {name: getattr(self, name) for name in self.matrix_names}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The least precise working dtype among the matrices, when targets have been promoted."""
        return min((A.dtype for A in self.matrices.values()), key=lambda dtype: dtype.itemsize)

    @property
    def default_tol(self) -> float:
        """The tolerance for this data: products in float32 cannot do better than 100 eps."""
        return max(self.tolerance, 100 * float(np.finfo(self.dtype).eps)) if self.single else self.tolerance

    @property
    def single(self) -> bool:
        """Whether some matrix is multiplied in float32."""
        return self.dtype == np.float32

    @property
    def sweeps(self) -> float:
        """How often the data can be read: once, where a matrix is an iterator of slices and no Gram matrix is held."""
        held = self.shared is not None and self.shared.held
        return math.inf if held else min(A.sweeps for A in self.matrices.values())

    @property
    def width(self) -> int:
        """Columns of the blocks that iterate."""
        return int(getattr(self, "k", 1))

    @property
    def certificate_products(self) -> int:
        """Products with the moments that the law makes at most."""
        return 1

    def check_sizes(self) -> None:  # noqa: B027 (not every problem has sizes that depend on the rows)
        """Compare what is asked for with rows that have been counted meanwhile."""

    def with_matrices(self, matrices: Mapping[str, LinearOperator]) -> Any:
        """The same problem on other operators (counted ones, say)."""
        twin = object.__new__(type(self))
        for entry in dataclasses.fields(self):  # type: ignore[arg-type]
            object.__setattr__(twin, entry.name, matrices.get(entry.name, getattr(self, entry.name)))
        for extra in ("vector", "shared", "factor", "every", "exponents", "excess", "taken"):
            if hasattr(self, extra):
                object.__setattr__(twin, extra, getattr(self, extra))
        return twin

    def lost_to_centring(self, moments: Moments) -> tuple[tuple[Status, str], ...]:
        """A finding where means taken out of products leave fewer digits than the tolerance asks for."""
        error = moments.centring_error()
        if error <= CENTRING * self.default_tol:
            return ()
        text = (
            "Means that are large beside the spread of a column were taken out of products, not of entries: "
        )
        text += f"relative errors of about {min(error, 1.0):.0e} are left, which the residual does not show. Pass an "
        return ((Status.ILL_CONDITIONED, text + "array or a file, or subtract a constant from each column."),)

    # ---- units --------------------------------------------------------------------------------

    def looked_at(self) -> dict[str, Look]:
        """What a first look tells of each matrix; refuses what is not finite in arrays in memory."""
        return {name: look_at(name, A) for name, A in self.matrices.items()}

    def about_rows(self) -> Any:
        """The same problem where a row is taken out of sparse matrices whose means would cancel; else itself.

        Means that are taken out anyway may be any: a copy of the entries, that is, buys back the digits.
        """
        if not getattr(self, "center", False) or self.shared is not None:
            return self
        found = {name: without_large_means(A) for name, A in self.matrices.items()}
        taken = {name: row for name, (_, row) in found.items() if row is not None}
        if not taken:
            return self
        twin = self.with_matrices({name: A for name, (A, _) in found.items()})
        object.__setattr__(twin, "taken", MappingProxyType(taken))
        return twin

    def unit_dtype(self, name: str) -> np.dtype[Any]:
        """The dtype in which what was looked at is multiplied."""
        return self.matrices[name].dtype

    def unregularised(self) -> dict[str, float]:
        """The matrices whose columns are solved for, and the least ridge of each."""
        return {}

    def divided(self, looks: Mapping[str, Look], exponents: Mapping[str, int]) -> Any:
        """The same problem on matrices divided by powers of two, its ridges with them; itself without any.

        `in_given_units` takes its answers back. Moments that were passed as the data are made anew for divided
        matrices.
        """
        if self.shared is not None and min(A.sweeps for A in self.matrices.values()) < math.inf:
            exponents = dict.fromkeys(
                exponents, 0
            )  # the rows are gone: what is held of them is taken as it is
        matrices = divided(self.matrices, looks, exponents)
        ridges, excess = self._divided_ridges(looks, exponents)
        if all(matrices[name] is A for name, A in self.matrices.items()) and not any(excess):
            return self
        twin = self.with_matrices(matrices)
        object.__setattr__(twin, "exponents", MappingProxyType(dict(exponents)))
        object.__setattr__(twin, "excess", tuple(excess))
        if ridges is not None:
            object.__setattr__(twin, "ridge", ridges)
        if any(exponents[name] for name in self.matrices):
            object.__setattr__(twin, "shared", None)
        return twin

    def _divided_ridges(
        self, looks: Mapping[str, Look], exponents: Mapping[str, int]
    ) -> tuple[Any, list[int]]:
        """The ridges of the divided problem, and the powers of two by which they are too small."""
        return None, []

    def powers(self) -> dict[str, int]:
        """For arrays of an answer, the power of two that gives them in the units of the data."""
        return {}

    def squares_in_given_units(self, name: str, value: float) -> float:
        """A number in units of the squares of a matrix, as a ridge is, in those of the data."""
        return float(times_power_of_two(value, 2 * self.exponents.get(name, 0)))

    @property
    def is_divided(self) -> bool:
        """Whether the answer is in other units than the data were given in."""
        return any(self.exponents.values()) or any(self.excess) or bool(self.taken)

    def in_given_units(self, arrays: Mapping[str, Any], *, returned: bool = True) -> dict[str, Any]:
        """Arrays of an answer to a divided problem in the units of the data; or of an iterate, not `returned`."""
        powers = self.powers()
        found = {
            name: value if value is None else times_power_of_two(value, powers.get(name, 0))
            for name, value in arrays.items()
        }
        for name, row in self.taken.items():
            mean = found.get(self.means.get(name, ""))
            if mean is not None:
                found[self.means[name]] = (mean + row).astype(mean.dtype)
        return found

    def in_own_units(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """An answer to begin at, in the units of a divided problem."""
        powers = self.powers()
        return {name: times_power_of_two(value, -powers.get(name, 0)) for name, value in start.items()}

    def beyond_range(self, arrays: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        """The first array of an answer that is no longer there in the units of the data; "" where all are."""
        for name in self.powers():
            value = arrays.get(name)
            if value is not None and not isinstance(value, float):
                axis = None if name.endswith("mean") else -1 if self.vector or value.ndim == 1 else -2
                if _out_of_range(value, given[name], axis, single=value.ndim == 1 and not self.vector):
                    return name
        return ""

    def _promote(self, name: str, dtype: np.dtype[Any]) -> None:
        """Multiply a matrix in a wider dtype than its own, which holds its entries exactly, where that can be."""
        A = getattr(self, name)
        if A.dtype.itemsize < dtype.itemsize:
            object.__setattr__(self, name, A.in_dtype(dtype) or A)

    def _adopt(self, name: str, data: Any) -> LinearOperator:
        A = as_operator(data, name)
        if 0 in A.shape:
            raise InvalidProblem(f"{name} must have rows and columns; got shape {A.shape}.")
        object.__setattr__(self, name, A)
        return A


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquares(Problem):
    """min ‖A x − B‖²_F + ridge ‖x‖²_F.

    Parameters
    ----------
    A : data of shape (n, p)
        Anything `linspec.as_operator` takes. Its dtype is that of the solution, and sets the precision.
    B : data of shape (n, m), or an array of shape (n,)
        Right-hand sides; narrower ones are multiplied in the dtype of A.
    ridge : float or sequence of floats, default 0.0
        Added to the unnormalised AᵀA. 0 asks for the least squares solution of least norm. A sequence asks for a
        path: one solution for each ridge, in one run.

    Notes
    -----
    Residual: max over right-hand sides and ridges of ‖Aᵀ(b − Ax) − ridge x‖ / ‖Aᵀb‖.

    A solver sees a path as more columns: those of all right-hand sides for the first ridge, then for the second,
    and so on. `column_ridges` has the ridge of each, and `run.finish` takes an x of so many columns.
    """

    A: Any
    B: Any
    ridge: Any = 0.0

    name: ClassVar[str] = "least-squares"
    tolerance: ClassVar[float] = 1e-8
    solution: ClassVar[type[Solution]] = LeastSquaresSolution
    matrix_names: ClassVar[tuple[str, ...]] = ("A", "B")

    def __post_init__(self) -> None:
        object.__setattr__(self, "shared", None)
        B = self.B
        _refuse_once({"A": self.A, "B": B})
        vector = is_array(B) and B.ndim == 1
        object.__setattr__(self, "vector", vector)
        A = self._adopt("A", self.A)
        B = self._adopt("B", B[:, None] if vector else B)
        _check_place("A", A, "B", B)
        self._promote("B", A.dtype)
        object.__setattr__(self, "ridge", _check_path(self.ridge))
        self.check_sizes()

    def check_sizes(self) -> None:
        """A and B have equally many rows."""
        _check_rows("A", self.A, "B", self.B)

    @property
    def path(self) -> bool:
        """Whether a solution is asked for each of several ridges."""
        return isinstance(self.ridge, tuple)

    @property
    def ridges(self) -> tuple[float, ...]:
        """All ridges, also of one."""
        return self.ridge if isinstance(self.ridge, tuple) else (self.ridge,)

    @property
    def column_ridges(self) -> HostArray:
        """The ridge of each column of a solution."""
        return np.repeat(np.asarray(self.ridges), self.B.shape[1])

    @property
    def width(self) -> int:
        """Columns of a solution: right-hand sides times ridges."""
        return int(self.B.shape[1]) * len(self.ridges)

    def _divided_ridges(
        self, looks: Mapping[str, Look], exponents: Mapping[str, int]
    ) -> tuple[Any, list[int]]:
        pairs = [reduced_ridge(ridge, exponents["A"], looks["A"].largest) for ridge in self.ridges]
        ridges = tuple(ridge for ridge, _ in pairs)
        return ridges if self.path else ridges[0], [excess for _, excess in pairs]

    def unregularised(self) -> dict[str, float]:
        """A, for a path with its least ridge."""
        return {"A": min(self.ridges)}

    def powers(self) -> dict[str, int]:
        """Coefficients are in units of B over units of A; what ridges are too small comes on top."""
        return {"x": self.exponents.get("B", 0) - self.exponents.get("A", 0)}

    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """The moments of A and B."""
        return Moments(self.A, self.B, form=form, expect=expect, names=("A", "B"))

    def conclude(  # type: ignore[override]  # each law names the arrays that it takes
        self, moments: Moments, terms: Terms = NO_TERMS, *, x: Array, rank: int | None = None
    ) -> Conclusion:
        """Residual of the normal equations, column by column."""
        home = moments.home
        returned = self.A.home.place(x, self.A.dtype)
        x = home.place(returned)
        AtAx, AtB = moments.gram_and_cross(x)
        gap = home.concat([AtB] * len(self.ridges)) - AtAx - x * home.place(self.column_ridges)[None, :]
        gaps, scales = home.column_norms(gap), home.column_norms(AtB)
        ratios = [ratio(a, b) for a, b in zip(gaps, np.tile(scales, len(self.ridges)), strict=True)]
        residuals = np.max(np.reshape(ratios, (len(self.ridges), -1)), axis=1, initial=0.0)
        findings: tuple[tuple[Status, str], ...] = ()
        if rank is not None and rank < self.A.shape[1] and 0 in self.ridges:
            text = f"A has numerical rank {rank} of {self.A.shape[1]} columns: x is the least-norm solution."
            findings = ((Status.RANK_DEFICIENT, text),)
        small = [value <= NEGLECTED**2 for value in ratios]
        if any(small):
            findings += self._neglected(gap, np.asarray(small), moments)
        fields = {"x": self._shaped(returned), "residuals": residuals}
        return Conclusion(fields, float(residuals.max()), findings)

    def _neglected(self, gap: Array, small: HostArray, moments: Moments) -> tuple[tuple[Status, str], ...]:
        """Columns of A, small beside the others, by which alone the sum of squares would fall noticeably.

        A step along column j takes gⱼ²/(‖aⱼ‖² + ridge) off the sum of squares, for the gap g of the normal equations.
        The norm of g does not show it where ‖aⱼ‖ is small.
        """
        diagonals = moments.known_diagonals()
        if diagonals is None:
            return ()
        home, (d, squares) = moments.home, diagonals
        with np.errstate(all="ignore"):
            falls = gap * reciprocal(d[:, None] + home.place(self.column_ridges)[None, :]) * gap
            worst = to_host(home.xp.max(falls, axis=0))
        noticed = small & (worst > NEGLECTED**2 * np.tile(to_host(squares), len(self.ridges)))
        if not noticed.any():
            return ()
        first = int(to_host(home.xp.argmax(falls[:, int(np.argmax(noticed))])))
        text = f"Column {first} of A is so small beside the others that the residual does not show what it leaves: a "
        text += "step along it alone takes a noticeable part off the sum of squares. Scale the columns, lower tol, or "
        return ((Status.ILL_CONDITIONED, text + 'choose "direct".'),)

    def in_given_units(self, arrays: Mapping[str, Any], *, returned: bool = True) -> dict[str, Any]:
        """Arrays of an answer to a divided problem in the units of the data; each ridge has its own."""
        found = super().in_given_units({name: value for name, value in arrays.items() if name != "x"})
        x, power, xp = arrays["x"], self.powers()["x"], self.A.home.xp
        if not self.path:
            return {**found, "x": times_power_of_two(x, power - self.excess[0])}
        if returned:
            parts = [times_power_of_two(x[i, ...], power - excess) for i, excess in enumerate(self.excess)]
            return {**found, "x": xp.stack(parts)}
        width = self.B.shape[1]
        parts = [
            times_power_of_two(x[:, i * width : (i + 1) * width], power - excess)
            for i, excess in enumerate(self.excess)
        ]
        return {**found, "x": self.A.home.blocks.concat(parts)}

    def _shaped(self, x: Array) -> Array:
        """Columns as they are returned: a vector for a vector, and stacked where there are several ridges."""
        if self.path:
            xp = self.A.home.xp
            x = xp.permute_dims(xp.reshape(x.T, (len(self.ridges), -1, x.shape[0])), (0, 2, 1))
        return x[..., 0] if self.vector else x


@dataclass(frozen=True, eq=False, repr=False)
class SVD(Problem):
    """The k leading singular triplets of A, or of A with its column means taken out.

    Parameters
    ----------
    A : data of shape (n, p), or Moments
    k : int
        Triplets wanted, at most min(n, p).
    center : bool, default False
        Take the column means out (principal components).
    left : bool, default False
        Whether the left singular vectors are wanted.

    Notes
    -----
    Residual: max over triplets of ‖AᵀA v − σ² v‖ / σ₁².
    """

    A: Any
    k: int
    center: bool = False
    left: bool = False

    name: ClassVar[str] = "svd"
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[Solution]] = SVDSolution
    means: ClassVar[Mapping[str, str]] = MappingProxyType({"A": "mean"})
    matrix_names: ClassVar[tuple[str, ...]] = ("A",)

    def __post_init__(self) -> None:
        shared = _shared_moments(self, self.A, self.center)
        self._adopt("A", shared.X if shared else self.A)
        self.check_sizes()

    def check_sizes(self) -> None:
        """k is at most what rows and columns allow."""
        n, p = self.A.shape
        object.__setattr__(self, "k", _check_k(self.k, {"rows": n, "columns of A": p}))

    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """The moments of A."""
        return self.shared or Moments(self.A, center=self.center, form=form, expect=expect, names=("A", ""))

    def powers(self) -> dict[str, int]:
        """Singular values and means are in units of A."""
        unit = self.exponents.get("A", 0)
        return {"S": unit, "mean": unit, "total_norm": unit, "total_squares": 2 * unit}

    def conclude(  # type: ignore[override]
        self,
        moments: Moments,
        terms: Terms = NO_TERMS,
        *,
        Vh: Array,
        S: HostArray | None = None,
        U: Array | None = None,
    ) -> Conclusion:
        """Residual of the eigen-equations of AᵀA; singular values from the vectors where none are given."""
        home = moments.home
        V = home.place(Vh).T
        judged = not (moments.spent and S is not None)
        AtAV = moments.products(V)[0] if judged else V
        if S is None:
            S = np.sqrt(np.maximum(to_host(home.xp.sum(V * AtAV, axis=0)), 0.0))
        S = np.asarray(to_host(S), dtype=np.float64)
        order = np.argsort(-S, kind="stable")[: self.k]
        V, AtAV, S = _select(V, order, home), _select(AtAV, order, home), S[order]
        flips = signs(V, home)
        # In units of the largest: squares of AᵀAv may be more, or less, than numbers can be.
        unit = float(S[0] ** 2) if len(S) and S[0] > 0 else 1.0
        gap = _distances(AtAV, V, S**2, unit, home)
        residual = ratio(float(np.max(gap, initial=0.0)), 1.0 if len(S) and S[0] > 0 else 0.0)
        residual = residual if judged else math.nan
        V = _flipped(V, flips, home, AtAV if judged and self.A.readable else None)
        fields: dict[str, Any] = {"S": S, "Vh": self.A.home.place(V, self.A.dtype).T}
        if U is not None:
            # In the dtype of the data: their device may have no float64.
            chosen = _select(self.A.home.place(U, self.A.dtype), order, self.A.home)
            fields["U"] = chosen * self.A.home.place(flips, self.A.dtype)[None, :]
        if self.center:
            fields["mean"] = self.A.home.place(moments.column_means()[0], self.A.dtype)
        fields["rows"] = moments.n
        total = fields["total_squares"] = moments.total_squares()
        fields["total_norm"] = None if total is None else math.sqrt(total)
        findings = _short(len(S), self.k, "singular values that this method can tell from zero")
        findings += self.lost_to_centring(moments)
        return Conclusion(fields, residual, findings)


@dataclass(frozen=True, eq=False, repr=False)
class CCA(Problem):
    """The k leading canonical pairs of two views.

    With Sx = XᵀX + ridge·I, Sy likewise and C = XᵀY: the k leading singular values of
    Sx^(-1/2) C Sy^(-1/2) are the correlations, and the weights have unit length in Sx and Sy.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything `linspec.as_operator` takes. Moments of two views stand for both of them.
    Y : data of shape (n, q)
        Each view has the dtype of its own data, and the narrower of the two sets the precision; but bools and integers
        beside float64 are multiplied in float64.
    k : int
        Pairs wanted, at most min(n, p, q).
    ridge : float or pair of floats, default 0.0
        Added to the unnormalised Gram matrices (of X, of Y). A penalty λ on XᵀX/n is a ridge of nλ.
    center : bool, default True
        Take the column means out; sparse data stay sparse.

    Notes
    -----
    Residual: Σ‖ϱᵢ‖² / Σρᵢ with ϱᵢ = (Cψᵢ − ρᵢ Sx φᵢ, Cᵀφᵢ − ρᵢ Sy ψᵢ) in the norm of S⁻¹, S = diag(Sx, Sy) as block
    matrices. With a gap gᵢ between ρᵢ and the correlations left out, the relative loss in the sum of the correlations
    is about Σ‖ϱᵢ‖²/2gᵢ over Σρᵢ. How the norm is had, and what else the certificate says: `linspec.cca_law`.
    """

    X: Any
    Y: Any = None
    k: Any = None
    ridge: Any = 0.0
    center: bool = True

    name: ClassVar[str] = "cca"
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[Solution]] = CCASolution
    means: ClassVar[Mapping[str, str]] = MappingProxyType({"X": "x_mean", "Y": "y_mean"})
    matrix_names: ClassVar[tuple[str, ...]] = ("X", "Y")

    def __post_init__(self) -> None:
        shared = _shared_moments(self, self.X, self.center)
        if shared is not None and shared.Y is None:
            raise InvalidProblem("CCA needs moments of two views; got moments of one. Pass Moments(X, Y).")
        if shared is None and self.Y is None:
            raise InvalidProblem("CCA needs two views; got no Y. Call CCA(X, Y, k).")
        _refuse_once({"X": self.X, "Y": self.Y})
        X = self._adopt("X", shared.X if shared else self.X)
        Y = self._adopt("Y", shared.Y if shared else self.Y)
        _check_place("X", X, "Y", Y)
        if shared is None:
            for name, A, other in (("X", X, Y), ("Y", Y, X)):
                if (
                    A.stored_dtype.kind in "biu"
                ):  # classes and counts are exact; floats have the precision they have
                    self._promote(name, other.dtype)
        self.check_sizes()
        pair = self.ridge if isinstance(self.ridge, tuple | list) else (self.ridge, self.ridge)
        if len(pair) != 2:
            raise InvalidProblem(f"ridge must be a number or a pair; got {len(pair)} numbers.")
        object.__setattr__(self, "ridge", (_check_ridge(pair[0]), _check_ridge(pair[1])))

    def check_sizes(self) -> None:
        """X and Y have equally many rows, and k is at most what the shapes allow."""
        (n, p), (m, q) = self.X.shape, self.Y.shape
        _check_rows("X", self.X, "Y", self.Y)
        object.__setattr__(
            self, "k", _check_k(self.k, {"rows": min(n, m), "columns of X": p, "columns of Y": q})
        )

    @property
    def certificate_products(self) -> int:
        """One; float32 weights are turned by the first and judged, rounded as they are returned, by another."""
        return 2 if self.single else 1

    def start(self, given: Any) -> dict[str, Array]:
        """The weights of an earlier answer: of both views, equally many columns, finite."""
        found = {}
        for name, A in (("x_weights", self.X), ("y_weights", self.Y)):
            W = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
            shape = None if W is None else tuple(getattr(W, "shape", ()))
            if shape is None or len(shape) != 2 or shape[0] != A.shape[1] or shape[1] < 1:
                raise InvalidProblem(
                    f"start must have {name} of shape ({A.shape[1]}, m); got {shape or type(given).__name__}. Pass a "
                    "solution of CCA on the same columns."
                )
            if not all_finite(W):
                raise InvalidProblem(f"the {name} of start must be finite; leave start out.")
            found[name] = A.home.blocks.place(W)
        if found["x_weights"].shape[1] != found["y_weights"].shape[1]:
            raise InvalidProblem("the weights of start must have equally many columns for both views.")
        return found

    def _divided_ridges(
        self, looks: Mapping[str, Look], exponents: Mapping[str, int]
    ) -> tuple[Any, list[int]]:
        pairs = [
            reduced_ridge(ridge, exponents[name], looks[name].largest)
            for name, ridge in zip(("X", "Y"), self.ridge, strict=True)
        ]
        return tuple(ridge for ridge, _ in pairs), [excess for _, excess in pairs]

    def unregularised(self) -> dict[str, float]:
        """Both views."""
        return {"X": self.ridge[0], "Y": self.ridge[1]}

    def powers(self) -> dict[str, int]:
        """Weights are in units of one over those of their view; correlations have no unit."""
        (x, y), (more_x, more_y) = (self.exponents.get(name, 0) for name in ("X", "Y")), self.excess
        less = -(more_x + more_y) // 2
        powers = {"x_weights": -x - more_x // 2, "y_weights": -y - more_y // 2, "x_mean": x, "y_mean": y}
        return {**powers, "correlations": less, "residuals": 2 * less, "bounds": less}

    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """The moments of X and Y."""
        return self.shared or Moments(self.X, self.Y, center=self.center, form=form, expect=expect)

    def conclude(  # type: ignore[override]
        self,
        moments: Moments,
        terms: Terms = NO_TERMS,
        *,
        x_weights: Array,
        y_weights: Array,
        correlations: HostArray | None = None,
        ranks: tuple[int, int] | None = None,
        evidence: Evidence = NO_EVIDENCE,
    ) -> Conclusion:
        """Scale to unit length, rotate to canonical pairs unless they are given as such, judge."""
        weights = [moments.home.place(x_weights), moments.home.place(y_weights)]
        found = judged(self, moments, terms, weights, correlations, ranks, evidence)
        return dataclasses.replace(found, findings=(*found.findings, *self.lost_to_centring(moments)))


@dataclass(frozen=True, eq=False, repr=False)
class Discriminant(Problem):
    """The k leading directions in which X shows what targets H say: LDA, OPLS, hypergraph subspaces.

    With M = XᵀX + ridge·I: the leading eigenvectors of XᵀHHᵀX w = λ M w, of unit length in M. Which method it is
    depends on H alone, which `linspec.targets` makes from labels.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything `linspec.as_operator` takes. Moments of two views stand for X and H.
    H : data of shape (n, t)
        Targets; narrower ones are multiplied in the dtype of X. A product of sparse labels and a small dense block
        (``linspec.targets.cca`` of sparse labels) is never formed.
    k : int, optional
        Directions wanted, at most min(n, p, t). None: as many as the numerical rank of XᵀH.
    ridge : float, default 0.0
        Added to the unnormalised XᵀX. At ridge 0 and with dependent columns of X, the weights lie in the span of its
        rows, as those of least norm do.
    center : bool, default True
        Take the column means of X out; sparse data stay sparse. The means of H do not matter then.

    Notes
    -----
    Residual: ‖XᵀHHᵀXW − MWΛ‖ / ‖XᵀHHᵀXW‖, linear in the error of W and not squared as that of CCA is, with a default
    tolerance of 1e-6 of its own. In the norm of M⁻¹, ‖R‖² = tr RᵀM⁻¹R, where the solver hands over what measures it
    (`residual_kind` "exact"): some eigenvalue lies within `residual` ‖Λ‖ of each that is returned. "two-stage" then
    adds ‖XᵀH − MWWᵀXᵀH‖ / ‖XᵀH‖ over its whole span, whose square is the share of the sum of all eigenvalues that it
    lacks. Otherwise in the Frobenius norm, which says little of short directions of X. Where a direction v of X was cut
    as null and ‖Xv‖ > 10 eps ‖X‖ ‖v‖, `converged` is False.

    A solver finds the labels in `H`, and in `factor` the block that they are multiplied by, or None; `gram_and_targets`
    minds it.
    """

    X: Any
    H: Any = None
    k: Any = None
    ridge: Any = 0.0
    center: bool = True

    name: ClassVar[str] = "discriminant"
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[Solution]] = DiscriminantSolution
    means: ClassVar[Mapping[str, str]] = MappingProxyType({"X": "mean"})
    matrix_names: ClassVar[tuple[str, ...]] = ("X", "H")

    factor: ClassVar[Array | None] = None
    every: ClassVar[bool] = False
    _kept: ClassVar[Any] = None  # XᵀY and XᵀYK for a factor K

    def __post_init__(self) -> None:
        shared = _shared_moments(self, self.X, self.center)
        if (shared.Y if shared else self.H) is None:
            raise InvalidProblem(
                "Discriminant needs targets; got no H. Make one from labels: "
                "Discriminant(X, linspec.targets.lda(y), k)."
            )
        if is_array(self.H) and self.H.ndim == 1:
            raise InvalidProblem(
                f"H must have a column for each target; got shape {tuple(self.H.shape)}. Classes become targets by "
                "linspec.targets.lda(y)."
            )
        _refuse_once({"X": self.X, "H": self.H})
        X = self._adopt("X", shared.X if shared else self.X)
        labels, factor = _taken_apart(as_operator(shared.Y if shared else self.H, "H"), center=self.center)
        H = self._adopt("H", labels)
        object.__setattr__(self, "factor", factor)
        _check_place("X", X, "H", H)
        if shared is None:
            self._promote("H", X.dtype)
        object.__setattr__(self, "every", self.k is None)
        object.__setattr__(self, "ridge", _check_ridge(self.ridge))
        self.check_sizes()

    def check_sizes(self) -> None:
        """X and H have equally many rows, and k is at most what the shapes allow."""
        _check_rows("X", self.X, "H", self.H)
        sizes = {
            "rows": min(self.X.shape[0], self.H.shape[0]),
            "columns of X": self.X.shape[1],
            "targets": self.targets,
        }
        k = min(sizes.values()) if self.every else _check_k(self.k, sizes)
        object.__setattr__(self, "k", k)

    @property
    def targets(self) -> int:
        """The columns of H."""
        return int(self.H.shape[1] if self.factor is None else self.factor.shape[1])

    @property
    def width(self) -> int:
        """Columns of the blocks that iterate: one for each target."""
        return self.targets

    @property
    def certificate_products(self) -> int:
        """One; float32 weights are turned by the first and judged, rounded as they are returned, by another."""
        return 2 if self.single else 1

    def looked_at(self) -> dict[str, Look]:
        """Of X and of the labels, and of the block that these are multiplied by."""
        looks = super().looked_at()
        if self.factor is not None:
            looks["factor"] = Look(largest_magnitude(self.factor))
        return looks

    def divided(self, looks: Mapping[str, Look], exponents: Mapping[str, int]) -> Any:
        """The same problem on matrices divided by powers of two, the block of the labels with them."""
        twin = super().divided(looks, exponents)
        if exponents.get("factor", 0):
            twin = self.with_matrices({}) if twin is self else twin
            object.__setattr__(twin, "exponents", MappingProxyType(dict(exponents)))
            object.__setattr__(twin, "factor", times_power_of_two(self.factor, -exponents["factor"]))
        return twin

    def _divided_ridges(
        self, looks: Mapping[str, Look], exponents: Mapping[str, int]
    ) -> tuple[Any, list[int]]:
        ridge, excess = reduced_ridge(self.ridge, exponents["X"], looks["X"].largest)
        return ridge, [excess]

    def unit_dtype(self, name: str) -> np.dtype[Any]:
        """That of a matrix; the block of the labels is float64."""
        return np.dtype(np.float64) if name == "factor" else super().unit_dtype(name)

    def unregularised(self) -> dict[str, float]:
        """X."""
        return {"X": self.ridge}

    def powers(self) -> dict[str, int]:
        """Weights are in units of one over those of X, eigenvalues in those of squared targets."""
        x, *targets = (self.exponents.get(name, 0) for name in ("X", "H", "factor"))
        more = self.excess[0]
        return {"weights": -x - more // 2, "eigenvalues": 2 * sum(targets) - more, "mean": x}

    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """The moments of X and of the labels."""
        return self.shared or Moments(
            self.X, self.H, center=self.center, form=form, expect=expect, names=("X", "H")
        )

    def gram_and_targets(self, moments: Moments, V: Array | None = None) -> tuple[Array | None, Array]:
        """XᵀX V and XᵀH in one sweep; XᵀH is kept, and later sweeps need not form it again.

        Parameters
        ----------
        moments : Moments
        V : array of shape (p, m), optional
            Without it the first result is None.

        Returns
        -------
        tuple of arrays
            Shapes (p, m) and (p, t), float64.
        """
        XtXV, C = moments.gram_and_cross(V)
        if self.factor is None:
            return XtXV, C
        if self._kept is None or self._kept[0] is not C:
            object.__setattr__(self, "_kept", (C, C @ self.factor))
        return XtXV, self._kept[1]

    def conclude(  # type: ignore[override]
        self,
        moments: Moments,
        terms: Terms = NO_TERMS,
        *,
        weights: Array,
        eigenvalues: HostArray | None = None,
        rank: int | None = None,
        inverse: Any = None,
        complete: bool = False,
        lost: bool = False,
    ) -> Conclusion:
        """Rotate to eigenvectors within the span unless they are given as such, scale to unit length, judge.

        Parameters
        ----------
        moments : Moments
        weights, eigenvalues : array
        rank : int, optional
            The numerical rank of X.
        inverse : object with squares(R), optional
            Squared lengths in the norm of M⁻¹, which take the place of the plain norm. Where it has product(W), too,
            that is XᵀXW and takes the place of the moments, and within(C) is XᵀH without rounding outside of the rows.
        complete : bool
            Whether the span of the weights is to hold every eigenvector: then the law counts what it lacks, too.
        lost : bool
            Whether directions that the data have were cut as null.
        """
        home, multiply = moments.home, getattr(inverse, "product", None)
        W = self._rounded(home.place(weights), home)
        XtXW, C = self.gram_and_targets(moments, W if multiply is None else None)
        if multiply is not None:
            XtXW, C = multiply(W), inverse.within(C)
        MW = XtXW + W * self.ridge
        lacking = self.lacking(W, MW, C, moments, inverse) if complete else 0.0
        if eigenvalues is None:
            turn, values = self.within_span(W, MW, C, moments, inverse)
        else:
            values = np.asarray(to_host(eigenvalues), dtype=np.float64)
            order = np.argsort(-values, kind="stable")[: self.k]
            turn, values = chosen(len(values), order), values[order]
        W, MW = W @ home.place(turn), MW @ home.place(turn)
        scale = signs(W, home) / lengths_in(W, MW, self.X.dtype, home)
        W, MW = (V * home.place(scale)[None, :] for V in (W, MW))
        returned = self._rounded(W, home)
        if self.single and bool(home.xp.any(returned != W)):
            XtXW = self.gram_and_targets(moments, returned)[0] if multiply is None else multiply(returned)
            MW = XtXW + returned * self.ridge
        residual = max(self.residual(returned, MW, C, values, home, inverse), lacking)
        fields: dict[str, Any] = {
            "weights": self.X.home.place(returned, self.X.dtype),
            "eigenvalues": values,
            "rank": rank,
        }
        if self.center:
            fields["mean"] = self.X.home.place(moments.column_means()[0], self.X.dtype)
        findings = self._findings(len(values), rank, moments.n) + self.lost_to_centring(moments)
        if lost:
            text = "X has directions that are so short that rounding may hide them, and they are left out: eigenvalues "
            text += "may be missing. Add a ridge, or lower rank_tol."
            findings = ((Status.ILL_CONDITIONED, text), *findings)
        return Conclusion(fields, residual, findings, "" if inverse is None else "exact", lost=lost)

    def _rounded(self, W: Array, home: Home) -> Array:
        """As it will be returned: it is that which is judged."""
        return home.place(self.X.home.place(W, self.X.dtype)) if self.single else W

    def residual(
        self, W: Array, MW: Array, C: Array, values: HostArray, home: Home, inverse: Any = None
    ) -> float:
        """The law: ‖C CᵀW − MWΛ‖ / ‖C CᵀW‖ for C = XᵀH.

        Parameters
        ----------
        W, MW : array of shape (p, k)
        C : array of shape (p, t)
        values : numpy.ndarray of shape (k,)
        home : Home
        inverse : object with squares(R), optional
            The squared lengths of the columns of R in the norm of M⁻¹. Without it the norm is the plain one.
        """
        image = C @ (C.T @ W)
        gap = image - MW * home.place(values)[None, :]
        return ratio(*(_length(V, home, inverse) for V in (gap, image)))

    def lacking(self, W: Array, MW: Array, C: Array, moments: Moments, inverse: Any = None) -> float:
        """‖C − MQQᵀC‖ / ‖C‖ for C = XᵀH and an orthonormal basis Q of the span of W: what the span lacks.

        In the norm of M⁻¹ its square is the share of the sum of all eigenvalues that the span does not have.
        """
        home = moments.home
        T = home.place(self._orthonormal(W, MW, moments, inverse))
        gap = C - (MW @ T) @ ((W @ T).T @ C)
        return ratio(_length(gap, home, inverse), _length(C, home, inverse))

    def within_span(
        self, W: Array, MW: Array, C: Array, moments: Moments, inverse: Any = None
    ) -> tuple[HostArray, HostArray]:
        """The leading eigenvectors within the span of a block, as its rotation, and their eigenvalues: Rayleigh-Ritz.

        Parameters
        ----------
        W, MW : array of shape (p, m)
            The block and its product with the metric.
        C : array of shape (p, t)
            XᵀH.
        moments : Moments
        inverse : object, optional
            As `conclude` takes it; given where MW is by its product.

        Returns
        -------
        numpy.ndarray of shape (m, k), numpy.ndarray of shape (k,)
            At most k, fewer where eigenvalues are zero to rounding.
        """
        T = self._orthonormal(W, MW, moments, inverse)
        if not T.shape[1]:
            return T, np.zeros(0)
        _, s, V = leading_svd(to_host(C.T @ W) @ T, self.k, HOST)
        count = int(np.sum(s > self.resolution * s[0]))
        return T @ V[:, :count], s[:count] ** 2

    def _orthonormal(self, W: Array, MW: Array, moments: Moments, inverse: Any) -> HostArray:
        """T with TᵀWᵀMWT = I over the directions v of the span that X does not annihilate.

        A Gram matrix that is held tells ‖Xv‖² down to the rounding of ‖X‖²‖v‖²; products with the rows tell ‖Xv‖ down
        to the rounding of ‖X‖‖v‖.
        """
        d = moments.diagonal()[0] + self.ridge
        reduced = hasattr(inverse, "product")
        rows = reduced or not moments.held
        dense = reduced or (self.X.readable and self.X.nnz == math.prod(self.X.shape))
        if rows and self.center and not dense:  # means are taken out of the products, which round them
            d = d + moments.n * moments.column_means()[0] ** 2
        G, D = to_host(W.T @ MW), to_host(W.T @ (W * d[:, None]))
        if not rows:
            return whitening_above_noise(G, D, metric_rounding(self.X.shape[1], self.X.dtype))
        return whitening_of_products(G, D, NULL * float(np.finfo(self.X.dtype).eps))

    def rounding(self, moments: Moments) -> float:
        """The Frobenius norm of XᵀH up to which it is rounding: the columns of X say nothing of the targets.

        Parameters
        ----------
        moments : Moments
            Whose column norms are there, or cost a sweep.
        """
        xp = moments.home.xp
        squares = [float(to_host(xp.sum(d))) for d in moments.diagonal()]
        # Where means are taken out of products, rounding has the size of what is taken out.
        squares = [square + moments.subtracted(i) for i, square in enumerate(squares)]
        turned = 1.0 if self.factor is None else moments.home.norm(self.factor)
        return self.resolution * math.sqrt(squares[0] * squares[1]) * turned

    @property
    def resolution(self) -> float:
        """The root of an eigenvalue, beside that of the largest, below which it is called zero."""
        eps = float(np.finfo(self.dtype).eps)
        return 10 * math.sqrt(self.X.shape[1] + self.targets) * eps

    def _findings(self, found: int, rank: int | None, n: int) -> tuple[tuple[Status, str], ...]:
        wanted = found if self.every else self.k
        facts = list(_short(found, wanted, "directions in which the columns of X vary with the targets"))
        if rank is not None and self.ridge == 0:
            if rank < self.X.shape[1]:
                text = f"X has numerical rank {rank} of {self.X.shape[1]} columns: the weights are those of least norm."
                facts.append((Status.RANK_DEFICIENT, text))
            if rank >= n - self.center:
                text = f"X has as many independent columns as rows ({n}), so that any targets are met exactly. A "
                text += "ridge, and the score of other rows, tell what is there from chance."
                facts.append((Status.DEGENERATE, text))
        return tuple(facts)


# ---- targets ----------------------------------------------------------------------------------


def _taken_apart(H: LinearOperator, *, center: bool) -> tuple[LinearOperator, Array | None]:
    """Labels and the block that they are multiplied by; where X is centred, labels as they are before centring."""
    factor = None
    if isinstance(H, ProductOperator) and isinstance(H.parts[1], DenseOperator):
        H, block = H.parts
        factor = H.home.blocks.place(block.dense())
    if center and isinstance(H, CenteredOperator):
        H = H.parts[0]
    return H, factor


# ---- validation -------------------------------------------------------------------------------


def _check_rows(name_a: str, A: LinearOperator, name_b: str, B: LinearOperator) -> None:
    if A.shape[0] != B.shape[0] and math.inf not in (A.shape[0], B.shape[0]):
        raise InvalidProblem(
            f"{name_a} and {name_b} must have equally many rows; got {A.shape[0]} and {B.shape[0]}."
        )


def _refuse_once(data: Mapping[str, Any]) -> None:
    """Two matrices are read side by side, and their slices end where they please: one reading will not do."""
    for name, given in data.items():
        if hasattr(given, "__next__") or getattr(given, "sweeps", math.inf) == 1:
            raise SweptOnce(
                f"{name} is read several times beside {', '.join(set(data) - {name})}, and {ONCE}; in one pass, an SVD "
                "of one matrix can be had."
            )


def _check_place(name_a: str, A: LinearOperator, name_b: str, B: LinearOperator) -> None:
    if A.home != B.home:
        raise UnsupportedData(
            f"{name_a} and {name_b} must come from one library and device; got {_place(A.home)} and "
            f"{_place(B.home)}. Move one of them."
        )


def _place(home: Home) -> str:
    return f"{home.xp.__name__.split('.')[-1]} on {home.device}"


def _check_k(k: Any, sizes: Mapping[str, int]) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise InvalidProblem(f"k must be an integer; got {k!r}.")
    limit = min(sizes.values())
    if not 1 <= k <= limit:
        counts = ", ".join(f"{count} {what}" for what, count in sizes.items() if count != math.inf)
        raise InvalidProblem(f"k must be between 1 and {limit} for {counts}; got {k}.")
    return int(k)


def _check_ridge(ridge: Any) -> float:
    if isinstance(ridge, bool) or not isinstance(ridge, int | float | np.integer | np.floating):
        raise InvalidProblem(f"ridge must be a number; got {ridge!r}.")
    if not (math.isfinite(ridge) and ridge >= 0):
        raise InvalidProblem(f"ridge must be finite and at least 0; got {ridge}.")
    return float(ridge)


def _check_path(ridge: Any) -> float | tuple[float, ...]:
    """A ridge, or a tuple of several."""
    if isinstance(ridge, np.ndarray) and ridge.ndim == 1:
        ridge = ridge.tolist()
    if not isinstance(ridge, tuple | list):
        return _check_ridge(ridge)
    if not ridge:
        raise InvalidProblem("ridge must be a number or a sequence of numbers; got an empty sequence.")
    return tuple(_check_ridge(value) for value in ridge)


def _out_of_range(value: Array, given: Array, axis: int | None, *, single: bool) -> bool:
    """Whether numbers that were there have become infinite, or so small that their digits are gone.

    Of a column the largest entry decides; numbers that each stand for themselves do so each.
    """
    xp = namespace(value)
    before, after = xp.abs(value), xp.abs(given)
    if not single:
        before, after = (
            xp.max(size) if axis is None else xp.max(size, axis=axis) for size in (before, after)
        )
    before, after = to_host(before), to_host(after)
    least = np.finfo(host_dtype(given)).smallest_normal
    return bool(np.any((before > 0) & ~((after >= least) & np.isfinite(after))))


def _shared_moments(problem: Problem, data: Any, center: bool) -> Moments | None:
    shared = data if isinstance(data, Moments) else None
    object.__setattr__(problem, "shared", shared)
    if shared is not None and shared.center != center:
        raise InvalidProblem(
            f"the moments were made with center={shared.center}; pass center={shared.center} to the problem too."
        )
    return shared


# ---- the algebra of the laws ------------------------------------------------------------------


def _short(found: int, wanted: int, what: str) -> tuple[tuple[Status, str], ...]:
    if found >= wanted:
        return ()
    return (
        (Status.RANK_DEFICIENT, f"{found} of the {wanted} asked for are returned: there are no more {what}."),
    )


def _length(V: Array, home: Home, inverse: Any) -> float:
    """The Frobenius norm, or that in which `inverse` measures."""
    return home.norm(V) if inverse is None else math.sqrt(max(float(inverse.squares(V).sum()), 0.0))


def _distances(W: Array, V: Array, factors: HostArray, unit: float, home: Home) -> HostArray:
    """‖w − f v‖ / unit a column; on the host some rows at a time: fresh memory costs more than the arithmetic."""
    if not home.on_host:
        return home.column_norms(W / unit - V * home.place(factors / unit)[None, :])
    squares = np.zeros(V.shape[1])
    for rows in row_runs(V):
        gap = W[rows] / unit
        gap -= V[rows] * (factors / unit)
        squares += np.einsum("ij,ij->j", gap, gap)
    return np.sqrt(squares)


def _select(V: Array, order: HostArray, home: Home) -> Array:
    """Columns in an order; those at the front, in the order that they have, without a copy."""
    if np.array_equal(order, np.arange(len(order))):
        return V[:, : len(order)]
    return home.xp.take(V, home.xp.asarray(order, device=home.device), axis=1)


def _flipped(V: Array, signs: HostArray, home: Home, spare: Array | None) -> Array:
    """Columns times signs; on the host in memory of ours that is no longer needed, where there is some."""
    if (
        home.on_host
        and spare is not None
        and spare.flags.c_contiguous
        and spare.shape == V.shape
        and not np.may_share_memory(spare, V)
    ):
        return np.multiply(V, signs, out=spare)
    return V * home.place(signs)[None, :]
