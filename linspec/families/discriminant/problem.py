"""Discriminants, orthonormal PLS and hypergraph subspaces: the problem."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from linspec import targets
from linspec.arrays import (
    Array,
    HostArray,
    is_array,
    to_host,
)
from linspec.errors import InvalidProblem
from linspec.families.discriminant import directions
from linspec.families.discriminant.solution import DiscriminantSolution
from linspec.frames import is_series
from linspec.iteration import Certificate
from linspec.operators import (
    CombinedColumns,
    LinearOperator,
    as_operator,
)
from linspec.operators.tables import is_flat_list
from linspec.rows import Moments
from linspec.solving import fields
from linspec.solving.checks import check_flag, check_k, check_rows, of_pairs
from linspec.solving.fields import count, flag, matrix
from linspec.solving.problem import Problem
from linspec.solving.shared_moments import Moments as GivenMoments
from linspec.solving.stating import adopt_labels, borrow
from linspec.targets.matrices import classes_of, targets_of_classes

NO_TARGET = "none"  # the value of --target for a file that holds the targets themselves, and not labels

# By value of --target, the function that makes targets from labels, and its arguments. Of these, `opls` alone takes no
# weights of rows: the scaling of its targets does not count them.
TARGETS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    **{name: (getattr(targets, name), {}) for name in ("lda", "opls", "cca")},
    **{f"hsl-{name}": (targets.hsl, {"laplacian": name}) for name in ("zhou", "clique", "star")},
}


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
    Residual: ‖XᵀHHᵀXW − MWΛ‖ / ‖XᵀHHᵀXW‖ in the norm ‖R‖² = tr RᵀM⁻¹R. It is linear in the error of W, while the
    residual of CCA is quadratic; the default tolerance is 1e-6.

    `residual_kind` says where the norm comes from. If it is "exact", an exact eigenvalue lies within `residual` ‖Λ‖ of
    each returned one, and no larger eigenvalue is missing. "sketched": from random combinations of the rows.
    "preconditioned": from products with random columns, which may not see very short directions of X.

    Solvers may find a block whose span should contain all eigenvectors, as "two-stage" does. For it a second ratio is
    computed: ‖XᵀH − MQQᵀXᵀH‖ / ‖XᵀH‖, where the columns of Q span the same space and QᵀMQ = I. The residual is the
    larger of the two ratios. The square of the second ratio is the fraction of the sum of all eigenvalues that the span
    misses.

    `converged` is False if a direction v of X was cut as null although ‖Xv‖ > 10 eps ‖X‖ ‖v‖.

    For authors of solvers: in the problem that a solver receives, `H` holds the labels, and `factor` is the matrix that
    multiplies the labels, or None.

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
        if isinstance(self.X, GivenMoments):
            given = list(self.X.matrices.values())[-1]
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

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Judge `weights`, and make the solution's fields (`linspec.families.discriminant.directions`)."""
        certificate = directions.certify(self, moments, arrays)
        known, fields = directions.directions_of(self, moments), dict(certificate.fields)
        del fields["next"]
        W = moments.fitted[0].unscaled(known.device.place(fields["weights"]))  # as they are returned
        fields["penalty"] = self.ridge * to_host(W.T @ W)
        fields |= self._of_classes(to_host(known.C.T @ W), moments.fitted[0].total)
        return certificate._replace(fields=fields)

    def for_preprocessed(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        if moments.pre.scale:
            moments.settle(0)
            W = moments.operators[0].backend.blocks.place(arrays["weights"])
            return {**arrays, "weights": moments.fitted[0].unscaled(W)}
        return arrays

    def for_data(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        W = arrays["weights"]
        return {**arrays, "weights": moments.fitted[0].scaled(W) if moments.fitted else W}

    @property
    def resolution(self) -> float:
        """An eigenvalue λ counts as zero if √λ is at most this fraction of √λ₁, where λ₁ is the largest eigenvalue."""
        eps = float(np.finfo(self.dtype).eps)
        return 10 * math.sqrt(self.X.shape[1] + self.targets) * eps

    def _of_classes(self, Z: HostArray, n: float) -> dict[str, Any]:
        """Class sizes, class means and scatter within classes for a classifier; empty if not every row has a class.

        Column j of H is 1/√nⱼ for the nⱼ rows of class j and 0 for all other rows, as `linspec.targets.lda` makes it.
        So the columns of H are orthonormal, and row j of Z = HᵀXW is √nⱼ times the mean of class j. Hence I − ZᵀZ is
        the scatter within the classes plus the ridge.
        """
        if self.classes is None or not math.isclose(self.classes[1].sum(), n, rel_tol=1e-12):
            return {}
        names, sizes = self.classes
        within = np.eye(Z.shape[1]) - Z.T @ Z
        return {
            "classes": names,
            "class_sizes": sizes,
            "class_means": Z / np.sqrt(sizes)[:, None],
            "within": (within + within.T) / 2,
        }


def _taken_apart(H: LinearOperator, *, center: bool) -> tuple[LinearOperator, Array | None]:
    """Return labels L and factor K with H = L K; K is None, and L is H, if H has no such factor.

    If X is centred, labels that are centred are replaced by labels without centring: the means of the labels do not
    change the product of the centred X with the labels.
    """
    if not isinstance(H, CombinedColumns):
        return H, None
    return H.A if center else CombinedColumns(H.A, H.mean), H.factor
