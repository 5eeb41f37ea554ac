"""Discriminants, orthonormal PLS and hypergraph subspaces: the problem and its law."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from linspec import targets
from linspec.algebra.small_matrices import (
    metric_rounding,
    ratio,
    whitening_above_noise,
    whitening_of_products,
)
from linspec.algebra.unit_vectors import lengths_in, selection_matrix, signs_of_columns
from linspec.algebra.whitener import leading_svd
from linspec.arrays import (
    HOST,
    Array,
    Home,
    HostArray,
    is_array,
    largest_magnitude,
    to_host,
)
from linspec.errors import InvalidProblem
from linspec.families.discriminant.solution import DiscriminantSolution
from linspec.frames import is_series
from linspec.moments.moments import Moments
from linspec.operators import (
    CenteredOperator,
    DenseOperator,
    LinearOperator,
    ProductOperator,
    as_operator,
)
from linspec.operators.range_of_entries import Magnitude, check_magnitude
from linspec.operators.tables import is_flat_list
from linspec.solving import fields
from linspec.solving.checks import check_flag, check_k, check_rows, of_pairs
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms, without_answer
from linspec.solving.fields import count, flag, matrix
from linspec.solving.problem import Problem
from linspec.solving.stating import adopt_labels, borrow
from linspec.status import Status
from linspec.sweeps.first_look import FirstLook
from linspec.targets.matrices import classes_of, targets_of_classes

NO_TARGET = "none"  # the value of --target for a file that holds the targets themselves, and not labels

# By value of --target, the function that makes targets from labels, and its arguments. Of these, `opls` alone takes no
# weights of rows: the scaling of its targets does not count them.
TARGETS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    **{name: (getattr(targets, name), {}) for name in ("lda", "opls", "cca")},
    **{f"hsl-{name}": (targets.hsl, {"laplacian": name}) for name in ("zhou", "clique", "star")},
}

NULL = 10
"""A direction v is null if ‖Xv‖ / ‖X‖‖v‖ is at most this number of units of the data's rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Discriminant(Problem[DiscriminantSolution]):
    """The k leading directions in which X explains targets H: LDA, OPLS, hypergraph subspaces.

    With M = XᵀX + ridge·I: the leading eigenvectors of XᵀHHᵀX w = λ M w, of unit length in M. Only H determines the
    method, and `linspec.targets` makes H from labels.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything `linspec.as_operator` accepts. Moments of two views replace X and H.
    H : data of shape (n, t)
        Targets. If their dtype is narrower than that of X, they are multiplied in the dtype of X. A product of sparse
        labels and a small dense block (``linspec.targets.cca`` of sparse labels) is never formed.
    k : int, optional
        The number of directions, at most min(n, p, t). By default it is the numerical rank of XᵀH.
    ridge : float, default 0.0
        Added to the unnormalised XᵀX. With ridge 0 and dependent columns of X, the weights are those of least norm,
        which lie in the span of its rows.
    center : bool, default True
        Whether to subtract the column means of X; sparse data stay sparse. The means of H then do not matter.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
        Targets whose scaling counts rows take the same weights: ``linspec.targets.lda(y, sample_weight=w)``.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of X, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: ‖XᵀHHᵀXW − MWΛ‖ / ‖XᵀHHᵀXW‖. It is linear in the error of W, while the residual of CCA is quadratic; the
    default tolerance is 1e-6.

    If the solver can measure lengths by M⁻¹, the norm is ‖R‖² = tr RᵀM⁻¹R, and `residual_kind` is "exact". Then an
    exact eigenvalue lies within `residual` ‖Λ‖ of each returned one. Otherwise the norm is the Frobenius norm, which is
    insensitive to short directions of X.

    Stage 1 of the solver "two-stage" computes a block whose span should contain all eigenvectors. For this span
    (except with ``second_stage="printed"``) a second ratio is computed: ‖XᵀH − MQQᵀXᵀH‖ / ‖XᵀH‖, where the columns of Q
    span the same space and QᵀMQ = I. The residual is the larger of the two ratios. In the norm of M⁻¹, the square of
    the second ratio is the fraction of the sum of all eigenvalues that the span misses.

    `converged` is False if a direction v of X was cut as null although ‖Xv‖ > 10 eps ‖X‖ ‖v‖.

    For authors of solvers: in the problem that a solver receives, `H` holds the labels, and `factor` is the matrix that
    multiplies the labels, or None. `gram_and_targets` multiplies by both.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> X = rng.standard_normal((600, 20)) + 3.0 * np.eye(3, 20)[y]
    >>> problem = ls.Discriminant(X, ls.targets.lda(y), ridge=1.0)
    >>> solution = ls.solve(problem)
    >>> solution.eigenvalues.round(2)
    array([0.76, 0.74])
    >>> bool((solution.predict(X) == y).mean() > 0.9)
    True
    """

    X: Any = matrix("data")
    H: Any = matrix("targets", like="X", labels="Y")
    k: Any = count("directions", optional=True)
    ridge: Any = fields.ridge(
        of=("X",), help="Added to the diagonal of XᵀX, which is not divided by the number of rows."
    )
    center: bool = flag(True)
    scale: bool = flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "discriminant"
    command: ClassVar[Mapping[str, Any]] = {
        "target": fields.setting(
            "lda",
            str,
            choices=(*TARGETS, NO_TARGET),
            help="The targets to make of the labels in Y-FILE. One column holds the class of each row; several columns "
            "hold a label each. none: Y-FILE holds the targets themselves.",
        )
    }
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "pillai": "linspec.families.discriminant.held_out:PillaiTrace",
            "accuracy": "linspec.families.discriminant.held_out:Accuracy",
        }
    )

    factor: ClassVar[Array | None] = None
    classes: ClassVar[tuple[HostArray, HostArray] | None] = None  # names and sizes, if the targets have them
    _kept: ClassVar[Any] = None  # XᵀY and XᵀYK for a factor K

    def __post_init__(self) -> None:
        borrow(self)
        check_flag("center", self.center)
        given = self.H
        if isinstance(self.X, Moments):
            given = self.X.Y
        else:
            self._take_targets_apart()
        adopt_labels(self, {"H": given})
        super().__post_init__()
        object.__setattr__(self, "classes", classes_of(given, self.sample_weight))

    @classmethod
    def from_command(cls, matrices: Sequence[Any], values: dict[str, Any]) -> Self:
        """Construct the problem with the targets that a command makes of labels."""
        X, labels = matrices
        name = values.pop("target", NO_TARGET)
        if name == NO_TARGET:
            if getattr(labels.dtype, "kind", "") in ("U", "O"):
                raise InvalidProblem(
                    "--target none takes targets that are numbers; the file holds text. Choose another target."
                )
            return cls(X, labels, **values)
        make, arguments = TARGETS[name]
        if make is not targets.opls and "sample_weight" in values:
            arguments = {**arguments, "sample_weight": values["sample_weight"]}
        if hasattr(labels, "matmat"):
            sparse = hasattr(labels.stored_array, "tocsr")
            labels = labels.stored_array if sparse else labels.dense()
        if len(labels.shape) > 1 and labels.shape[1] == 1:
            labels = labels[:, 0]
        return cls(X, make(labels, **arguments), **values)

    def _take_targets_apart(self) -> None:
        """Split H into labels and the block that multiplies them, after a check of its kind."""
        H = self.H
        if H is None:
            raise InvalidProblem(
                "Discriminant needs targets; got no H. Make H from labels: "
                f"Discriminant(X, linspec.targets.lda(y), k).{of_pairs(self.X)}"
            )
        flat = getattr(H, "ndim", 2) == 1  # also for arrays that only an adapter knows
        if flat or is_series(H) or is_flat_list(H):
            one = f"one dimension of {type(H).__name__}"
            got = f"shape ({len(H)},)" if is_array(H) or not flat else one
            raise InvalidProblem(
                f"H must have a column for each target; got {got}. Make targets of classes "
                "with linspec.targets.lda(y)."
            )
        labels, factor = _taken_apart(as_operator(H, "H"), center=self.center)
        object.__setattr__(self, "H", labels)
        object.__setattr__(self, "factor", factor)

    def check_sizes(self) -> None:
        """Check that X and H have the same number of rows, and that k is at most min(n, p, t)."""
        check_rows("X", self.X, "H", self.H)
        sizes = {
            "rows": min(self.X.shape[0], self.H.shape[0]),
            "columns of X": self.X.shape[1],
            "targets": self.targets,
        }
        k = min(sizes.values()) if self.every else check_k(self.k, sizes)
        object.__setattr__(self, "k", k)

    @property
    def targets(self) -> int:
        """The number of targets, t."""
        return int(self.H.shape[1] if self.factor is None else self.factor.shape[1])

    @property
    def labels(self) -> HostArray | None:
        """The class of each row, None for a row without one; None if the targets were not made of classes."""
        if self.classes is None:
            return None
        H = self.H.matrix.tocsr()
        found = np.full(H.shape[0], None, dtype=object)
        found[np.repeat(np.arange(H.shape[0]), np.diff(H.indptr))] = self.classes[0][H.indices]
        return found

    @property
    def width(self) -> int:
        """The number of columns of iterates: one for each target."""
        return self.targets

    @property
    def certificate_products(self) -> int:
        """The number of products with X that the certificate takes.

        It is 1 for weights in float64. For weights in float32 it is 2: one product for Rayleigh-Ritz, and one to
        compute the residual after the weights are rounded to float32.
        """
        return 2 if self.single else 1

    def check_held(self) -> None:
        """Refuse targets: those of `linspec.targets` are scaled by the rows of one batch, and may look like others."""
        raise InvalidProblem(
            "targets are scaled by the rows of each class, of which a batch has only some. Add indicators of all "
            "classes, 0 or 1, to HeldMoments(linspec.CCA, ridge=(ridge, 0.0)): its weights of X are the directions."
        )

    def on_rows(self, numbers: HostArray) -> Self:
        """Return the problem on some rows; targets of classes are scaled anew by the class sizes in these rows."""
        twin = super().on_rows(numbers)
        if self.classes is not None:
            made = targets_of_classes(twin.H.matrix, self.classes[0], twin.sample_weight)
            H = as_operator(made, "H")
            object.__setattr__(twin, "H", H.in_dtype(self.H.dtype) or H)
            object.__setattr__(twin, "classes", classes_of(made, twin.sample_weight))
        return twin

    def looked_at(self) -> dict[str, FirstLook]:
        """Return the known size of the entries of X, of the labels and of `factor`, by the names "X", "H" and "factor".

        Arrays in memory with entries that are not finite are refused.
        """
        looks = super().looked_at()
        if self.factor is not None:
            looks["factor"] = FirstLook(Magnitude(largest_magnitude(self.factor)))
        return looks

    def in_range(self, looks: Mapping[str, FirstLook]) -> Self:
        """Check that the largest entries of X, of the labels and of `factor` are in the permitted range.

        The range is that of `linspec.operators.range_of_entries`. The returned problem has the matrices as solvers
        multiply them: see `Problem.in_range`.
        """
        if self.factor is not None:
            check_magnitude("H", looks["factor"].size)
        return super().in_range(looks)

    def gram_and_targets(self, moments: Moments, V: Array | None = None) -> tuple[Array | None, Array]:
        """Compute XᵀX V and XᵀH in one sweep; XᵀH is kept, so that later sweeps do not compute it again.

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
        products = moments.products(V, cross=True)
        XtXV, C = products[0], products.cross
        if self.factor is None:
            return XtXV, C
        if self._kept is None or self._kept[0] is not C:
            object.__setattr__(self, "_kept", (C, C @ self.factor))
        return XtXV, self._kept[1]

    def conclude(  # type: ignore[override]
        self,
        moments: Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        weights: Array,
        eigenvalues: HostArray | None = None,
        rank: int | None = None,
        inverse: Any = None,
        complete: bool = False,
        lost: bool = False,
    ) -> Conclusion:
        """Compute the eigenvectors within the span of the weights, scaled to unit length in M, and their residual.

        Parameters
        ----------
        moments : Moments
        weights, eigenvalues : array
            Weights passed with eigenvalues are eigenvectors already, and Rayleigh-Ritz is skipped.
        rank : int, optional
            The numerical rank of X.
        inverse : object with squares(R), optional
            squares(R) returns the squared lengths of the columns of R in the norm of M⁻¹. Without the object, residuals
            are measured in the Frobenius norm. The object may have two further methods, and has either both or none.
            product(W) returns XᵀXW, and is used in place of a product with the moments. within(C) is applied to
            C = XᵀH, and removes rounding errors outside the span of the rows of X.
        complete : bool
            Whether the span of the weights should contain all eigenvectors. Then the residual is at least `lacking`.
        lost : bool
            Whether directions v of X were cut as null although Xv is longer than rounding.

        Returns
        -------
        Conclusion
            The fields of a `DiscriminantSolution` with at most k directions, its residual, and findings.
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
            turn, values = selection_matrix(len(values), order), values[order]
        W, MW = W @ home.place(turn), MW @ home.place(turn)
        scale = signs_of_columns(W, home) / lengths_in(W, MW, self.X.dtype, home)
        W, MW = (V * home.place(scale)[None, :] for V in (W, MW))
        returned = self._rounded(W, home)
        if self.single and bool(to_host(home.xp.any(returned != W))):
            XtXW = self.gram_and_targets(moments, returned)[0] if multiply is None else multiply(returned)
            MW = XtXW + returned * self.ridge
        residual = max(self.residual(returned, MW, C, values, home, inverse), lacking)
        fields: dict[str, Any] = {
            "weights": returned,
            "eigenvalues": values,
            "rank": rank,
            "penalty": self.ridge * to_host(returned.T @ returned),
            **self._of_classes(returned, MW, C, moments.total),
        }
        findings = self._findings(rank, moments)
        if lost:
            text = "X has directions so short that rounding may hide them. They were left out, and eigenvalues may be "
            text += "missing. Add a ridge, or lower rank_tol."
            findings = ((Status.ILL_CONDITIONED, text), *findings)
        missing, kind = (
            "directions in which the columns of X vary with the targets",
            "" if inverse is None else "exact",
        )
        conclusion = self.concluded(
            moments, residual, findings=findings, missing=missing, kind=kind, lost=lost, **fields
        )
        if not len(values) and home.norm(C) > self.rounding(moments):
            return without_answer(conclusion, "the columns of X vary with the targets")
        return conclusion

    def _of_classes(self, W: Array, MW: Array, C: Array, n: float) -> dict[str, Any]:
        """Class sizes, class means and scatter within classes for a classifier; empty if not every row has a class.

        Column j of H is 1/√nⱼ for the nⱼ rows of class j and 0 for all other rows, as `linspec.targets.lda` makes it.
        So the columns of H are orthonormal, and column j of XᵀH is √nⱼ times the mean of class j. Hence
        WᵀMW − WᵀXᵀHHᵀXW is the scatter within the classes plus the ridge.
        """
        if self.classes is None or not math.isclose(self.classes[1].sum(), n, rel_tol=1e-12):
            return {}
        names, sizes = self.classes
        Z = to_host(C.T @ W)
        within = to_host(W.T @ MW) - Z.T @ Z
        means = Z / np.sqrt(sizes)[:, None]
        return {
            "classes": names,
            "class_sizes": sizes,
            "class_means": means,
            "within": (within + within.T) / 2,
        }

    def _rounded(self, W: Array, home: Home) -> Array:
        """The weights rounded to the dtype of the returned weights, so that the residual belongs to these."""
        return home.place(self.X.home.place(W, self.X.dtype)) if self.single else W

    def residual(
        self, W: Array, MW: Array, C: Array, values: HostArray, home: Home, inverse: Any = None
    ) -> float:
        """Compute the residual ‖C CᵀW − MWΛ‖ / ‖C CᵀW‖ for C = XᵀH.

        Parameters
        ----------
        W, MW : array of shape (p, k)
        C : array of shape (p, t)
        values : numpy.ndarray of shape (k,)
        home : Home
        inverse : object with squares(R), optional
            The squared lengths of the columns of R in the norm of M⁻¹. Without it the plain norm is used.
        """
        image = C @ (C.T @ W)
        gap = image - MW * home.place(values)[None, :]
        return ratio(*(_length(V, home, inverse) for V in (gap, image)))

    def lacking(self, W: Array, MW: Array, C: Array, moments: Moments, inverse: Any = None) -> float:
        """Compute the ratio ‖C − MQQᵀC‖ / ‖C‖ for C = XᵀH: the fraction of C that the span of W misses.

        The columns of Q span the same space as those of W, and QᵀMQ = I. With `inverse` the norm is that of M⁻¹. Then
        the square of the ratio is the missing fraction of the sum of all eigenvalues. Without `inverse` the norm is the
        Frobenius norm.
        """
        home = moments.home
        T = home.place(self._orthonormal(W, MW, moments, inverse))
        gap = C - (MW @ T) @ ((W @ T).T @ C)
        return ratio(_length(gap, home, inverse), _length(C, home, inverse))

    def within_span(
        self, W: Array, MW: Array, C: Array, moments: Moments, inverse: Any = None
    ) -> tuple[HostArray, HostArray]:
        """Compute the leading eigenvectors within the span of W, and their eigenvalues (Rayleigh-Ritz).

        Parameters
        ----------
        W, MW : array of shape (p, m)
            The block and its product with the metric.
        C : array of shape (p, t)
            XᵀH.
        moments : Moments
        inverse : object, optional
            As in `conclude`; given if MW comes from its product.

        Returns
        -------
        T : numpy.ndarray of shape (m, j)
            The columns of W T are the eigenvectors, of length 1 in M. j is k, or fewer if fewer eigenvalues within the
            span are larger than rounding.
        eigenvalues : numpy.ndarray of shape (j,)
        """
        T = self._orthonormal(W, MW, moments, inverse)
        if not T.shape[1]:
            return T, np.zeros(0)
        _, s, V = leading_svd(to_host(C.T @ W) @ T, self.k, HOST)
        count = int(np.sum(s > self.resolution * s[0]))
        return T @ V[:, :count], s[:count] ** 2

    def _orthonormal(self, W: Array, MW: Array, moments: Moments, inverse: Any) -> HostArray:
        """T with TᵀWᵀMWT = I, whose columns span those directions v of span W for which Xv is more than rounding.

        A held Gram matrix gives ‖Xv‖² up to the rounding of ‖X‖²‖v‖². Products with the rows give ‖Xv‖ up to the
        rounding of ‖X‖‖v‖.
        """
        d = moments.diagonal()[0] + self.ridge
        reduced = hasattr(inverse, "product")
        rows = reduced or not moments.held
        dense = reduced or (self.X.readable and self.X.nnz == math.prod(self.X.shape))
        means = moments.columns.squares_subtracted(0) if rows and not dense else None
        if means is not None:  # they are subtracted from the products, which adds rounding
            d = d + means
        G, D = to_host(W.T @ MW), to_host(W.T @ (W * d[:, None]))
        entries = NULL * float(np.finfo(self.X.rounded_dtype).eps)
        if not rows:
            cut = max(metric_rounding(self.X.shape[1], self.X.dtype), entries**2)
            return whitening_above_noise(G, D, cut)
        return whitening_of_products(G, D, entries)

    def rounding(self, moments: Moments) -> float:
        """The largest Frobenius norm of XᵀH that may be caused by rounding alone.

        If the norm of XᵀH is at most this, the columns of X do not explain the targets, and an answer without
        directions is correct.

        Parameters
        ----------
        moments : Moments
            A sweep is made if the column norms of X and the labels are unknown.

        Returns
        -------
        float
        """
        xp = moments.home.xp
        squares = [float(to_host(xp.sum(d))) for d in moments.diagonal()]
        # If means are subtracted from products, the rounding has the size of the subtracted part.
        squares = [square + moments.columns.subtracted_from_products(i) for i, square in enumerate(squares)]
        turned = 1.0 if self.factor is None else moments.home.norm(self.factor)
        return self.resolution * math.sqrt(squares[0] * squares[1]) * turned

    @property
    def resolution(self) -> float:
        """An eigenvalue λ counts as zero if √λ is at most this fraction of √λ₁, where λ₁ is the largest eigenvalue."""
        eps = float(np.finfo(self.dtype).eps)
        return 10 * math.sqrt(self.X.shape[1] + self.targets) * eps

    def _findings(self, rank: int | None, moments: Moments) -> tuple[tuple[Status, str], ...]:
        facts = []
        if rank is not None and self.ridge == 0:
            if rank < self.X.shape[1]:
                text = (
                    f"X has numerical rank {rank} of {self.X.shape[1]} columns: the weights have least norm."
                )
                facts.append((Status.RANK_DEFICIENT, text))
            if rank >= moments.columns.most_rank:
                text = f"X has as many independent columns as rows ({moments.n}), so any targets are met exactly. Add "
                text += "a ridge, and score other rows to distinguish real directions from chance."
                facts.append((Status.DEGENERATE, text))
        return tuple(facts)


def _taken_apart(H: LinearOperator, *, center: bool) -> tuple[LinearOperator, Array | None]:
    """Return labels L and factor K with H = L K; K is None, and L is H, if H is not a product with a dense matrix K.

    If X is centred, labels that are centred are replaced by labels without centring: the means of the labels do not
    change the product of the centred X with the labels.
    """
    factor = None
    if isinstance(H, ProductOperator) and isinstance(H.parts[1], DenseOperator):
        H, block = H.parts
        factor = H.home.blocks.place(block.dense())
    if center and isinstance(H, CenteredOperator):
        H = H.parts[0]
    return H, factor


def _length(V: Array, home: Home, inverse: Any) -> float:
    """The Frobenius norm of V, or its norm by `inverse`."""
    return home.norm(V) if inverse is None else math.sqrt(max(float(inverse.squares(V).sum()), 0.0))
