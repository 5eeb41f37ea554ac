"""Multiset canonical correlations: the problem, its answer and the entry of its certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidProblem, shown
from linspec.rows import Moments, Preprocessing, Rows
from linspec.solving import check_rows_count
from linspec_multiset import certificate
from linspec_multiset.absent import AbsentRows, without_absent


@dataclass(frozen=True, kw_only=True, repr=False)
class MultisetCCASolution(ls.LinearSolution, vector="component"):
    """Weights of each view, and the eigenvalues of the components.

    Attributes
    ----------
    weights : tuple of array of shape (pᵢ, k)
        One array for each view. Together they have unit length in the metric of the problem: Σ ωᵢ Wᵢᵀ(XᵢᵀXᵢ + rᵢI)Wᵢ
        is the identity.
    eigenvalues : numpy.ndarray of shape (k,)
        λ, decreasing. At most Σωᵢ, where all views agree. With weights of 1, a component that only one view has gets 1,
        and two views get 1 + ρ for the canonical correlation ρ.
    agreement : numpy.ndarray of shape (m, k)
        λ wᵢᵀSᵢwᵢ for each view, whose sum with the view weights is λ. Without ridges and absent rows it is the squared
        correlation of the scores of the view with the consensus Σωᵢ Xᵢwᵢ.
    """

    weights: tuple[Array, ...] = ls.field(rows_of="views", leading=True)
    eigenvalues: HostArray = ls.field(value="eigenvalue")
    agreement: HostArray = ls.field(shape="m k")

    def _per_component(self) -> dict[str, Any]:
        of_views = {f"agreement of X{i + 1}": values for i, values in enumerate(self.agreement)}
        return {**super()._per_component(), **of_views}


@dataclass(frozen=True, eq=False, repr=False)
class MultisetCCA(ls.Problem[MultisetCCASolution]):
    """The k directions of each of several views on which the views agree most (MAXVAR, generalised CCA).

    The leading solutions of A w = λ B w. With Cᵢⱼ = XᵢᵀXⱼ, Sᵢ = Cᵢᵢ + rᵢI and view weights ωᵢ, A has the blocks
    ωᵢωⱼ Cᵢⱼ, and ωᵢ²Sᵢ on its diagonal; B has the blocks ωᵢSᵢ on its diagonal, and zeros elsewhere.

    Parameters
    ----------
    views : list of data of shape (n, pᵢ), or Moments
        Two or more views. Anything `linspec.as_operator` accepts, in any mixture, with equally many rows.
    k : int
        The number of components, at most n and Σpᵢ.
    ridge : float or sequence of float, default 0.0
        Added to the unnormalised XᵢᵀXᵢ; a number for each view, or one for all.
    center : bool, default True
        Whether to subtract column means; sparse data stay sparse.
    view_weights : sequence of float, optional
        ωᵢ > 0, how much each view counts; by default 1. Without a ridge, a view of weight 2 counts as two equal views.
    present : sequence, optional
        For each view a mask of shape (n,) that is True where the view has the row, or None for a view that has all
        rows. What stands in absent rows does not count, and may be NaN; of rows that come in slices or in blocks of
        dask it must be finite. By default all rows are present.

    Notes
    -----
    Residual: the largest ‖A w − λ B w‖ of a component in the norm of B⁻¹, divided by λ₁. Some exact eigenvalue lies
    within the residual times λ₁ of each returned one. The norm is exact if `residual_kind` is "exact". It is that of
    a preconditioner if it is "preconditioned": too small where columns nearly depend on each other.

    With ridge 0, λ are the eigenvalues of Σωᵢ Xᵢ(XᵢᵀXᵢ)⁺Xᵢᵀ. The scores Σωᵢ Xᵢwᵢ are its eigenvectors: the variables
    that are closest to all views (Carroll 1968). For any ridge the same w maximise Σ ωᵢωⱼ wᵢᵀCᵢⱼwⱼ over i ≠ j plus
    Σ ωᵢ²wᵢᵀSᵢwᵢ under Σ ωᵢwᵢᵀSᵢwᵢ = 1 (Kettenring 1971). For two views of weight 1 this is CCA with the same ridges.

    With absent rows, let Kᵢ be the diagonal matrix of the mask of view i and N = ΣωᵢKᵢ. Then Cᵢⱼ = (Σωᵢ) XᵢᵀKᵢN⁻¹KⱼXⱼ,
    also in the diagonal blocks of A, and Sᵢ = XᵢᵀKᵢXᵢ + rᵢI. Without a ridge λ/Σωᵢ are the leading values of
    tr Gᵀ(Σωᵢ KᵢPᵢKᵢ)G under GᵀNG = I, with the projections Pᵢ on the columns of KᵢXᵢ (van de Velden & Takane
    2012). Means, and what confounds explain, are those of the rows that a view has; with confounds the answer keeps
    what this makes of each view where the confounds have their means of the first view. A row that one view alone has
    agrees with itself, and makes λ larger.

    References
    ----------
    van de Velden & Takane 2012, Comput. Stat. 27, 551-571, doi:10.1007/s00180-011-0277-y;
    Carroll 1968, Proc. 76th Annual Convention of the APA 3, 227-228; Kettenring 1971, Biometrika 58(3), 433-451.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> common = rng.standard_normal((500, 1))
    >>> views = [common @ np.ones((1, p)) + rng.standard_normal((500, p)) for p in (3, 4, 5)]
    >>> problem = ls.MultisetCCA(views, k=2)
    >>> solution = ls.solve(problem)
    >>> solution.eigenvalues.round(1)
    array([2.6, 1.2])
    >>> [W.shape for W in solution.weights]
    [(3, 2), (4, 2), (5, 2)]
    """

    views: Any = ls.views()
    k: Any = ls.count(
        "components",
        limits=lambda problem: {
            "rows": min(A.shape[0] for A in problem.views),
            "columns of all views together": sum(A.shape[1] for A in problem.views),
        },
    )
    ridge: Any = ls.ridge(each=True, help="Added to the diagonal of each XᵢᵀXᵢ.")
    center: bool = ls.flag(True)
    view_weights: Any = ls.setting(
        None, several=True, kw_only=True, help="How much each view counts; by default 1."
    )
    present: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "multiset-cca"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_several(self.views)
        object.__setattr__(self, "view_weights", _checked_weights(self.view_weights, len(self.views)))
        object.__setattr__(self, "present", _checked_masks(self, self.present))
        if self.present is not None:
            views = tuple(without_absent(A, mask) for A, mask in zip(self.views, self.present, strict=True))
            object.__setattr__(self, "views", views)
        check_rows_count(self)

    def weights_of(self, name: str) -> HostArray | None:
        """Return the weights of the rows of one view: 0 for its absent rows."""
        mask = None if self.present is None else dict(zip(self.matrices, self.present, strict=True))[name]
        weights: HostArray | None = self.sample_weight
        return weights if mask is None else mask * (1.0 if weights is None else weights)

    def on_rows(self, numbers: HostArray) -> Self:
        """Return a copy of the problem on some of its rows."""
        twin = super().on_rows(numbers)
        if self.present is not None:
            masks = tuple(None if mask is None else mask[numbers] for mask in self.present)
            object.__setattr__(twin, "present", masks)
        return twin

    def moments_on_rows(self, rows: Sequence[Rows], pre: Preprocessing, **options: Any) -> Moments:
        """Return the moments of the views; those of `linspec_multiset.absent` if rows are absent."""
        if self.present is None:
            return super().moments_on_rows(rows, pre, **options)
        n = next(len(mask) for mask in self.present if mask is not None)
        w = np.ones(n) if self.sample_weight is None else self.sample_weight
        settings = {"center": self.center, "confounds": self.confounds, "scale": self.scale}
        preprocessings = [
            Preprocessing.of(weights=self.weights_of(name), **settings) for name in self.matrices
        ]
        return AbsentRows(rows, preprocessings, self.present, self.view_weights, w, **options)

    certify = certificate.certify


def check_several(views: Sequence[Any]) -> None:
    """Refuse a single view."""
    if len(views) == 1:
        raise InvalidProblem("views must be at least two; got one. For a single matrix solve linspec.SVD.")


def _checked_weights(view_weights: Any, count: int) -> tuple[float, ...]:
    """Return the weights of the views as numbers; 1 for each by default."""
    if view_weights is None:
        return (1.0,) * count
    with suppress(TypeError, ValueError):
        weights = np.asarray(to_host(view_weights), dtype=np.float64)
        if weights.shape == (count,) and np.all(np.isfinite(weights) & (weights > 0)):
            return tuple(weights.tolist())
    raise InvalidProblem(
        f"view_weights must be a positive number for each of the {count} views; got {view_weights!r}. Leave a view out "
        "that should not count."
    )


def _checked_masks(problem: MultisetCCA, present: Any) -> tuple[HostArray | None, ...] | None:
    """Return a mask for each view, None for a view with all rows; None if all views have all rows."""
    if present is None:
        return None
    names = tuple(problem.matrices)
    if not isinstance(present, tuple | list) or len(present) != len(names):
        raise InvalidProblem(
            f"present must be a list with a mask, or None, for each of the {len(names)} views."
        )
    if problem.shared is not None:
        raise InvalidProblem("present changes the moments; got moments that are made already. Pass the data.")
    problem.check_labels({f"present of {name}": mask for name, mask in zip(names, present, strict=True)})
    masks = [None if mask is None else to_host(mask) for mask in present]
    arrays = [data for data in (problem.sample_weight, problem.confounds, *masks) if data is not None]
    rows = ({float(A.shape[0]) for A in problem.views} | {float(len(data)) for data in arrays}) - {math.inf}
    if len(rows) > 1 or any(
        mask is not None and (mask.dtype != np.bool_ or mask.ndim != 1) for mask in masks
    ):
        raise InvalidProblem(
            f"present must have True or False for each row of the data; got {shown(present)}, and data and masks with "
            f"{' and '.join(f'{n:g}' for n in sorted(rows))} rows. Pass bools, such as ~np.isnan(X).any(axis=1)."
        )
    absent = tuple(None if mask is None or mask.all() else np.array(mask) for mask in masks)
    return None if all(mask is None for mask in absent) else absent
