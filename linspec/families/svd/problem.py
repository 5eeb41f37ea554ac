"""Truncated SVD and principal components: the problem and its law."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.algebra import EPS
from linspec.algebra.small_matrices import ratio
from linspec.algebra.unit_vectors import selection_matrix, signs_of_columns
from linspec.arrays import Array, HostArray, to_host
from linspec.certificates import Euclidean, digits, enclosure
from linspec.errors import InvalidProblem
from linspec.families.svd.solution import SVDSolution
from linspec.iteration import Certificate
from linspec.linalg import tall_svd
from linspec.rows import Fitted, Moments, OutOfPasses
from linspec.solving.fields import count, flag, matrix
from linspec.solving.findings import fewer_than_asked
from linspec.solving.problem import Problem
from linspec.solving.verdict import Finding
from linspec.status import Status

NULL = 8
"""A product counts as zero if none of its columns is longer than so many roundings of the entries."""

INDEPENDENT = 0.25
"""Vectors whose Gram matrix has an eigenvalue below this are dependent."""


@dataclass(frozen=True, eq=False, repr=False)
class SVD(Problem[SVDSolution]):
    """The k leading singular triplets of A, or of A with centred columns.

    Parameters
    ----------
    A : data of shape (n, p), or Moments
    k : int, optional
        The number of triplets, at most min(n, p). The default is min(n, p) if that is at most 4096. If the
        numerical rank of A is lower, fewer triplets are returned.
    center : bool, default False
        Whether to centre the columns (principal components).
    left : bool, default False
        Whether to compute the left singular vectors. They are those of the adjusted matrix: columns are centred and
        scaled and confounds subtracted, as the problem states, and with weights w the rows are multiplied by √w.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: max over triplets of ‖AᵀA v − σ² v‖ / σ₁². For rows of `linspec.HeldMoments` with a rank, the bound of
    what their AᵀA lacks is added, so the residual bounds that of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((1000, 5)) @ rng.standard_normal((5, 30)) * 2 + rng.standard_normal((1000, 30))
    >>> problem = ls.SVD(A, k=3, center=True)
    >>> solution = ls.solve(problem)
    >>> solution.explained_variance_ratio.round(3)
    array([0.328, 0.224, 0.161])
    >>> solution.transform(A).shape
    (1000, 3)
    """

    A: Any = matrix("data", permuted="columns")
    k: Any = count("singular triplets", optional=True)
    center: bool = flag(False)
    left: bool = flag(False, "Compute the left singular vectors too.")
    scale: bool = flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "svd"
    bounds_discarded: ClassVar[bool] = True
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "reconstruction": "linspec.families.svd.held_out:Reconstruction",
            "log-likelihood": "linspec.families.svd.held_out:LogLikelihood",
        }
    )

    def check_held(self) -> None:
        """Refuse left singular vectors, which belong to single rows."""
        if self.left:
            raise InvalidProblem(
                "left singular vectors belong to rows, which HeldMoments does not keep; got left=True. Leave it out, "
                "and call transform on rows."
            )

    @property
    def certificate_products(self) -> float:
        """The passes of the certificate: one, and one for left vectors."""
        return 1.0 + self.left

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Judge right singular vectors `Vh`, with values `S` if the solver knows them, and make the solution's fields.

        Where the data cannot be read again, there is no residual.
        """
        A, k = moments.operators[0], self.k
        place = A.backend.blocks
        V = place.place(arrays["Vh"]).T
        judged = moments.answers
        AtAV = moments.gram_product(V) if judged else V
        if "S" in arrays:
            S = np.asarray(to_host(arrays["S"]), dtype=np.float64)
        else:
            S = np.sqrt(np.maximum(to_host(place.xp.sum(V * AtAV, axis=0)), 0.0))
        U = place.place(arrays["U"]) if self.left and "U" in arrays else None
        if (S[1:] > S[:-1]).any():
            order = np.argsort(-S, kind="stable")
            turn = place.place(selection_matrix(len(S), order))
            V, AtAV, S, U = V @ turn, AtAV @ turn, S[order], None if U is None else U @ turn
        known, findings = self._known(moments, V[:, :k], S[:k])
        V, AtAV, S, U = V[:, :known], AtAV[:, :known], S[:known], None if U is None else U[:, :known]
        left: Callable[[HostArray], Any] | None = None
        if U is not None:
            left = partial(_turned, self.A, U)
        elif self.left:
            left, S, turn = left_vectors(self.A, moments, V, S)
            V, AtAV = V @ place.place(turn), AtAV @ place.place(turn)
        unit = float(S[0] ** 2) if len(S) and S[0] > 0 else 1.0
        gaps = AtAV / unit - V * place.place(S**2 / unit)[None, :]
        residual = float(place.column_norms(gaps).max(initial=0.0)) if judged else math.nan
        delta, least = enclosure([Euclidean(A.shape[1])], [to_host(gaps)], to_host(V.T @ V))
        if least < INDEPENDENT:
            findings += ((Status.INACCURATE, "The vectors are dependent."),)
        accuracy = ""
        if judged and len(S) and S[-1] > 0:
            worst = max(delta, EPS * V.shape[0]) * unit / (2 * S[-1] ** 2)
            accuracy = f"singular values: about {digits(worst)} correct digits"
        flips = signs_of_columns(V, place)
        V = V * place.place(flips)[None, :]
        U = None if left is None else left(np.diag(flips))
        certificate = self._concluded(moments, V, S, U, residual, findings)
        return certificate._replace(fields={**certificate.fields, "accuracy": accuracy})

    def _known(self, moments: Moments, V: Array, S: HostArray) -> tuple[int, tuple[Finding, ...]]:
        """The number of values above rounding, and what is said of values that only squaring hides.

        The columns of V that are cut are multiplied once: what they leave may be more than rounding of the entries.
        """
        A = moments.operators[0]
        largest, entries = float(S.max(initial=0.0)), moments.least_value()
        squaring = 0.0 if moments.root is not None else math.sqrt(moments.least_square())
        means = moments.subtracted() * (squaring if moments.held is not None else NULL * EPS)
        known = int(np.count_nonzero(max(squaring * largest, entries * largest, means) < S))
        if known == len(S) or squaring <= entries:
            return known, ()
        lengths: Any = [math.inf]
        with suppress(OutOfPasses):
            if moments.rereads:
                lengths = to_host(A.backend.blocks.column_norms(moments.operator().matmat(V[:, known:])))
        if max(lengths) <= NULL * entries * largest:
            return known, ()
        text = f"Only {known} of the {len(S)} singular values asked for are above {squaring:.0e} of the largest. "
        text += 'Below it, squares cannot distinguish them from zero. Choose "direct".'
        return known, ((Status.ILL_CONDITIONED, text),)

    def _concluded(
        self,
        moments: Moments,
        V: Array,
        S: HostArray,
        U: Array,
        residual: float,
        findings: tuple[Finding, ...],
    ) -> Certificate:
        """The certificate with the fields of a solution."""
        home, fitted = self.A.home, moments.fitted[0]
        norm, trace = self.lacks or (0.0, 0.0)
        unit = float(S[0] ** 2) if len(S) and S[0] > 0 else 1.0
        fields: dict[str, Any] = {"S": S, "Vh": home.place(V, self.A.dtype).T, "rows": fitted.total}
        if U is not None:
            fields["U"] = U
        squares = moments.squares()
        if squares is not None:
            total = float(squares.sum()) + trace
            fields |= {"total_squares": total, "total_norm": math.sqrt(max(total, 0.0))}
            fields["column_norms"] = None if trace else np.sqrt(np.maximum(squares, 0.0))
        if len(S) and not moments.pre.center and self.lacks is None:
            fields["share_of_means"] = self._share_of_means(fitted, to_host(V[:, 0]), float(S[0]) ** 2)
        what = "singular values that this method can distinguish from zero"
        findings += fewer_than_asked(len(S), max(len(S), 1) if self.every else self.k, what)
        if norm:
            text = f"The held moments lack up to {norm / unit:.1e} of the largest squared singular value. "
            findings = (*findings, (Status.APPROXIMATE, text + "A larger rank would lack less."))
        lost = not len(S) and bool((fitted.squares > 0).any())
        if lost:
            findings = ((Status.INCOMPLETE, "Nothing is returned, although A is not zero."), *findings)
        kind = "from-gram" if moments.holds else "recomputed" if moments.answers else "unavailable"
        return Certificate(residual + norm / unit, findings, fields, kind, lost=lost)

    def _share_of_means(self, fitted: Fitted, v: HostArray, squares: float) -> float:
        """The share of the first squared value that the column means make."""
        along = v if fitted.factors is None else v * fitted.factors
        share = fitted.total * float(fitted.average @ along) ** 2
        return min(ratio(share, squares), 1.0)


def left_vectors(
    A: Any, moments: Moments, V: Array, S: HostArray
) -> tuple[Callable[[HostArray], Any], HostArray, HostArray]:
    """Orthonormal U with A V Y = U diag(S), in one pass, and the values S and the turn Y that belong to it.

    The values come from A itself, and not from its square. U is returned as a function of M: U M.
    """
    if moments.operators[0].executor is None:
        w, place = moments.data.w(moments.operators[0]), moments.operators[0].backend.blocks
        image = place.place(moments.images(V)) if len(S) else place.zeros((int(A.shape[0]), 0))
        U, s, turn = tall_svd(image if w is None else image * place.xp.sqrt(w)[:, None])
        turned: Callable[[HostArray], Any] = partial(_turned, A, U)
    else:
        rows, R = _orthonormal(moments.scores(V), V.shape[1])
        X, s, Yt = np.linalg.svd(R)
        turn, turned = Yt.T, lambda M: rows.given_back(Moments([rows]).scores(X @ M, dtype=A.dtype))
    # products with narrow data are rounded more than sums
    return turned, s if A.dtype == np.float64 else S, turn


def _turned(A: Any, Q: Array, M: HostArray) -> Array:
    """Q M, where the data are."""
    return A.home.place(Q @ A.home.blocks.place(M), A.dtype)


def _orthonormal(rows: Any, k: int) -> tuple[Any, HostArray]:
    """Orthonormal Q and R of rows that stay on other machines, by their triangles, twice because of rounding.

    Where a column depends on others to rounding, it becomes 0.
    """
    R = np.eye(k)
    for _ in range(2):
        moments = Moments([rows])
        _, s, Yt = np.linalg.svd(moments.triangle(), full_matrices=False)
        kept = np.where(s > EPS * s[0], s, np.inf)
        rows, R = moments.scores(Yt.T / kept), (s[:, None] * Yt) @ R
    return rows, R
