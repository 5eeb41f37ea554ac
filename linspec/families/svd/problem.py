"""Truncated SVD and principal components: the problem, its certificate and its answer.

Problem: how many digits of the singular values are right is to be said with them, without another pass.
Method: as many exact eigenvalues of AᵀA as there are columns of V lie within δ of the computed ones:

    δ = ‖AᵀAV − VΣ²‖₂ / √λmin(VᵀV).                                                      (1)

No condition number enters. That no larger value is missing is not said.
Source: Kahan 1967; Parlett 1998, The Symmetric Eigenvalue Problem, 11.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import (
    HOST,
    Array,
    Device,
    HostArray,
    host_dtype,
    reciprocal,
    to_host,
    with_device,
)
from linspec.certificates import digits
from linspec.errors import InvalidProblem, MissingCapability
from linspec.iteration import Certificate
from linspec.linalg import EPS, ratio, selection_matrix, signs_of_columns, tall_svd
from linspec.rows import Moments, OutOfPasses
from linspec.solving import NewRows, fewer_than_asked, table_of_columns, table_of_training_rows
from linspec.solving.tables import percent
from linspec.solving.verdict import Finding
from linspec.workers import brought_here

MOSTLY = 0.5
"""The least share of the means in the first component that the summary states."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SVDSolution(
    ls.LinearSolution, vector="component", residual="relative", objective="sum of squared singular values"
):
    """Leading singular triplets.

    Attributes
    ----------
    S : numpy.ndarray of shape (k,)
        Singular values in decreasing order, float64.
    Vh : array of shape (k, p)
        Right singular vectors as rows.
    U : array of shape (n, k) or None
        Left singular vectors, if the problem has left=True. For rows in blocks of other processes they stay there, as a
        dask array for dask data, otherwise as an operator.
    mean : array of shape (p,) or None
        Column means, if the problem centres.
    scale : array of shape (p,) or None
        The numbers that the columns were divided by, if the problem scales.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    slopes : array of shape (c, p) or None
        The slopes of the columns in the confounds, which are subtracted from rows.
    rows : float
        The number of rows of the data, or the sum of their weights.
    column_norms : numpy.ndarray of shape (p,) or None
        The length of each column of the (centred, scaled) data, which the passes of the solve compute at no extra cost.
        None for operators that only give products. `loadings` divides by it.
    total_squares : float or None
        The sum of the squares of all entries of the (centred, scaled) data, which is also the sum of the squares of all
        min(n, p) singular values. The passes of the solve compute the sum at no extra cost. None for operators that
        only give products, because the sum would need a product with each column of the identity. Then
        `explained_variance_ratio` is None, too; if you know the sum from elsewhere, divide ``S**2`` by the sum to get
        the ratios. The sum is 0 or infinite if squares underflow or overflow.
    share_of_means : float or None
        Without centring, the share of S[0]**2 that the column means make: 1 if the first component is the same in all
        rows. It is exact where a pass has computed the means, and else estimated from at most 1000 evenly spread rows
        of arrays and sparse matrices; None for other data.
    total_norm : float or None
        The square root of total_squares, the Frobenius norm of the data. It is finite if the entries are finite.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> solution = ls.solve(ls.SVD(A, k=2, center=True))
    >>> solution.S.shape, solution.Vh.shape
    ((2,), (2, 10))
    >>> bool(np.allclose(solution.transform(A), (A - A.mean(axis=0)) @ solution.Vh.T))
    True
    """

    S: HostArray = ls.field(value="singular value")
    Vh: Array = ls.field(rows_of="A", axis=1, leading=True, of_scaled=True)
    U: Array | None = ls.field(None, shape="n k", on_device=True)
    mean: Array | None = None
    scale: Array | None = None
    confound_mean: HostArray | None = None
    slopes: Array | None = None
    rows: float
    column_norms: HostArray | None = ls.field(None, shape="A")
    total_squares: float | None = None
    total_norm: float | None = None
    share_of_means: float | None = None

    @classmethod
    def objective(cls, fields: Mapping[str, Any]) -> float:
        """The sum of the squares of the singular values."""
        return float(np.linalg.norm(fields["S"]) ** 2)

    @property
    def explained_variance_ratio(self) -> HostArray | None:
        """The fraction of `total_squares` in each component, shape (k,); None if `total_squares` is None.

        With centring it is the fraction of the variance, as in ``PCA`` of scikit-learn. Without centring it
        is the fraction of the sum of squares about zero. In that case ``TruncatedSVD`` of scikit-learn divides
        variances about the means, although its components contain the means; so its fractions need not decrease
        or add up to one.
        """
        if self.total_squares is None:
            return None
        return np.asarray(self.S**2 / self.total_squares if self.total_squares > 0 else 0.0 * self.S)

    @property
    def explained_variance(self) -> HostArray | None:
        """The variance of the data along each row of `Vh`, S²/(rows − 1), shape (k,); None without centring."""
        if self.mean is None:
            return None
        return np.asarray(self.S**2 / max(self.rows - 1, 1))

    @property
    def total_variance(self) -> float | None:
        """The sum of the variances of all columns; None without centring, or if `total_squares` is None."""
        if self.mean is None or self.total_squares is None:
            return None
        return self.total_squares / max(self.rows - 1, 1)

    def _headline(self) -> str:
        return f"S {np.array2string(self.S[:3], precision=4)}"

    def _per_component(self) -> dict[str, Any]:
        variances = {
            "explained variance": self.explained_variance,
            "explained variance ratio"
            if self.mean is not None
            else "share of squares": self.explained_variance_ratio,
        }
        return {
            **super()._per_component(),
            **{name: values for name, values in variances.items() if values is not None},
        }

    def _certificate(self) -> list[tuple[str, str]]:
        share = self.share_of_means or 0.0
        if share < MOSTLY:
            return super()._certificate()
        text = f"about {share:.0%} of component 1 is the column means: center=True subtracts them"
        return [*super()._certificate(), ("means", text)]

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the squares, and all shares together."""
        facts = super().facts()
        shares = self.explained_variance_ratio
        whole = "squares" if self.mean is None else "variance"
        if shares is not None and len(shares):
            facts.append((f"share of the {whole}", f"{percent(float(shares.sum()))} together"))
        return facts

    def _annotation(self, key: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Principal components have the names that scanpy gives them."""
        if self.mean is None:
            return super()._annotation(key)
        names, _ = super()._annotation(key or "pca")
        return {**names, "weights": "PCs" if names["values"] == "pca" else names["weights"]}, {
            "singular_value": self.S,
            "variance": self.explained_variance,
            "variance_ratio": self.explained_variance_ratio,
            "params": {"zero_center": True, "use_highly_variable": False},
        }

    @property
    def _new_rows(self) -> NewRows:
        return NewRows.of(self, "A")

    def saved_parts(self) -> dict[str, Any]:
        """All fields; left vectors in blocks of other processes are copied to this process."""
        parts = super().saved_parts()
        return parts if self.U is None else {**parts, "U": brought_here(self.U)}

    @classmethod
    def has_rows(cls, fields: Mapping[str, Any]) -> bool:
        """Whether there are left singular vectors, which have a row for each training row."""
        return fields.get("U") is not None

    @with_device
    def scores_table(  # type: ignore[override]  # one matrix, which may be left out
        self, A: Any = None, *, confounds: Any = None, library: str | None = None
    ) -> Any:
        """The scores of `transform` in a table with the labels of the rows.

        Parameters
        ----------
        A : data of shape (n, p), optional
            By default the training rows, if the solution has left singular vectors: the table is U diag(S), which
            belongs to the rows times √w if the problem had weights.
        confounds : array of shape (n, c), optional
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of A.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each component. The rows are labelled by the index of a pandas frame, or by the labels passed
            to `linspec.labelled`.

        Raises
        ------
        InvalidProblem
            As for `transform`; or there are neither rows nor left singular vectors.
        """
        if A is None:
            if self.U is None or confounds is not None:
                raise InvalidProblem(
                    "scores_table needs rows A, unless the answer has left singular vectors; got "
                    f"{'confounds' if confounds is not None else 'none'}. Pass the rows, or solve SVD(..., left=True)."
                )
            return table_of_training_rows(self, to_host(brought_here(self.U)) * self.S, library)
        return super().scores_table(A, confounds=confounds, library=library)

    @with_device
    def loadings(  # type: ignore[override]  # as above
        self, A: Any = None, *, confounds: Any = None, sample_weight: Any = None
    ) -> Array:
        """The correlation of each column with each component.

        Parameters
        ----------
        A : data of shape (n, p), optional
            Rows to correlate on. By default these are the training rows, which are not read again.
        confounds : array of shape (n, c), optional
            The confounds of the rows A, if the problem had any: their effect in these rows is subtracted.
        sample_weight : array of shape (n,), optional
            How often each of the rows A counts.

        Returns
        -------
        array of shape (p, k)
            Between -1 and 1; 0 for a column that does not vary. Without centring they are cosines about the origin.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data, or confounds or weights come without rows.
        MissingCapability
            For operators that are known by their products only.

        Notes
        -----
        On the training rows the correlation of column j with component i is Sᵢ Vᵢⱼ / ‖aⱼ‖, because AᵀA vᵢ = Sᵢ² vᵢ and
        ‖A vᵢ‖ = Sᵢ; aⱼ is the adjusted column (centred, weighted, confounds subtracted), and its length is in
        `column_norms`. So the squares of a row add up to the share of the column that the components explain
        (Jolliffe 2002, Principal Component Analysis, section 2.3, doi:10.1007/b98835). They are as accurate as the
        triplets.
        """
        if A is not None:
            return super().loadings(A, confounds=confounds, sample_weight=sample_weight)
        if confounds is not None or sample_weight is not None:
            raise InvalidProblem("confounds and sample_weight belong to rows; got no rows. Pass A, too.")
        if self.column_norms is None:
            raise MissingCapability(
                "loadings need the lengths of the columns, which are unknown for data that only give products. Pass "
                "rows, as an array, a sparse matrix, a file or slices."
            )
        over = reciprocal(self.column_norms)
        V = HOST.asarray(self.Vh).T
        correlations = np.clip(over[:, None] * V * self.S, -1.0, 1.0)
        return Device.of(self.Vh).asarray(correlations, host_dtype(self.Vh))

    @with_device
    def loadings_table(  # type: ignore[override]  # as above
        self, A: Any = None, *, confounds: Any = None, sample_weight: Any = None, library: str | None = None
    ) -> Any:
        """The correlations of `loadings` in a table, with the names of the columns.

        Parameters
        ----------
        A : data of shape (n, p), optional
        confounds : array of shape (n, c), optional
        sample_weight : array of shape (n,), optional
            As for `loadings`.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each column of the data, and a column for each component.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> ls.solve(ls.SVD(np.diag([3.0, 2.0]), k=1)).loadings_table(library="")
        [{'column': 0, 'component1': 1.0}, {'column': 1, 'component1': 0.0}]
        """
        correlations = self.loadings(A, confounds=confounds, sample_weight=sample_weight)
        return table_of_columns(self, "A", correlations, library, A)

    @with_device
    def inverse_transform(self, scores: Any, *, confounds: Any = None) -> Array:
        """Compute the rows in the subspace with the given scores: scores times `Vh`, plus the training means.

        ``inverse_transform(transform(A))`` is the projection of the rows on the subspace: for the training rows, the
        nearest matrix of rank k about the means.

        Parameters
        ----------
        scores : data of shape (n, k)
            Any kind of data that `linspec.as_operator` accepts.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is added.

        Returns
        -------
        array of shape (n, p)
            In the library, on the device and in the working dtype of the scores.

        Raises
        ------
        InvalidProblem
            If the number of columns of the scores is not the number of rows of `Vh`.
        """
        return self._new_rows.restored(scores, self.Vh, "scores", confounds)


SUPPOSED = 0.25
MOST = 1000
"""Triplets that estimates suppose a share to need: this part of what equal singular values need; at most so many."""

NULL = 8
"""A product counts as zero if none of its columns is longer than so many roundings of the entries."""

INDEPENDENT = 0.25
"""Vectors whose Gram matrix has an eigenvalue below this are dependent."""


@dataclass(frozen=True, eq=False, repr=False)
class SVD(ls.Problem[SVDSolution]):
    """The k leading singular triplets of A, or of A with centred columns.

    Parameters
    ----------
    A : data of shape (n, p), or Moments
    k : int or float, optional
        The number of triplets, at most min(n, p), which is the default. If the numerical rank of A is lower, fewer
        triplets are returned. Or a share above 0 and below 1: the least number of triplets whose squared singular
        values add up to at least this share of `total_squares`, as ``PCA(n_components=0.9)`` of scikit-learn.
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

    A: Any = ls.matrix("data", permuted="columns")
    k: Any = ls.count("singular triplets", optional=True, share=True)
    center: bool = ls.flag(False)
    left: bool = ls.flag(False, "Compute the left singular vectors too.")
    scale: bool = ls.flag(False, kw_only=True)
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

    def check_sizes(self) -> None:
        """Check k, and refuse a share of squares that are unknown."""
        super().check_sizes()
        A = self.A
        if self.share and not (A.readable or A.streamed or A.access == "blocks"):
            raise MissingCapability(
                f"a share of the squares of all entries needs these; got k={self.k} with data that only give products. "
                "Pass a number of triplets, or rows, as an array, a sparse matrix, a file or slices."
            )

    @property
    def width(self) -> int:
        """k; for a share, of which it is not known, the supposition of estimates."""
        if not self.share:
            return int(self.k)
        supposed = SUPPOSED * self.k * min(self.A.shape)
        return int(min(supposed + 1, MOST))

    def enough(self, moments: Moments, squares: HostArray) -> int:
        """The number of leading values that are kept: k, or the least that hold its share, by their squares.

        More than there are values says that they hold less. What is only rounding of sums counts as held.
        """
        if not self.share:
            return int(self.k)
        every: Any = moments.squares()
        total = every.sum() if self.lacks is None else every.sum() + self.lacks[1]
        least = min(self.k, 1.0 - moments.least_square()) - NULL * EPS
        held = np.cumsum(squares)
        return int(np.searchsorted(held, least * total)) + 1

    def check_held(self) -> None:
        """Refuse left singular vectors, which belong to single rows."""
        if self.left:
            raise InvalidProblem(
                "left singular vectors belong to rows as they came; got left=True with rows that stand for others: of "
                "HeldMoments, or of a permutation test without means and confounds. Leave it out, and call transform "
                "on rows."
            )

    @property
    def certificate_products(self) -> float:
        """The passes of the certificate: one, and one for left vectors."""
        return 1.0 + self.left

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Certify right singular vectors `Vh`, with values `S` if the solver knows them; make the solution's fields.

        Where the data cannot be read again, there is no residual.
        """
        device = moments.device
        V = device.asarray(arrays["Vh"]).T
        answers = moments.answers
        AtAV = moments.gram_product(V) if answers else V
        if "S" in arrays:
            S = HOST.asarray(arrays["S"])
        else:
            S = np.sqrt(np.maximum(to_host(device.xp.sum(V * AtAV, axis=0)), 0.0))
        if (S[1:] > S[:-1]).any():
            order = np.argsort(-S, kind="stable")
            turn = device.asarray(selection_matrix(len(S), order))
            V, AtAV, S = V @ turn, AtAV @ turn, S[order]
        k = self.enough(moments, S**2)
        known, notes = self._known(moments, V[:, :k], S[:k])
        if self.share and 0 < len(S) < k:
            text = f"The components hold less than the share k={self.k}."
            notes += ((ls.Status.INCOMPLETE, text),)
        V = V[:, :known]
        AtAV = AtAV[:, :known]
        S = S[:known]
        left: Callable[[HostArray], Any] | None = None
        if self.left:
            left, S, turn = left_vectors(self.A, moments, V, S)
            V, AtAV = V @ device.asarray(turn), AtAV @ device.asarray(turn)
        unit = float(S[0] ** 2) if len(S) and S[0] > 0 else 1.0
        gaps = AtAV / unit - V * device.asarray(S**2 / unit)
        residual = float(device.column_norms(gaps).max(initial=0.0)) if answers else math.nan
        G = to_host(V.T @ V)
        squares = to_host(gaps.T @ gaps)
        least = float(np.linalg.eigvalsh((G + G.T) / 2)[0]) if len(S) else 1.0
        if least < INDEPENDENT:
            notes += ((ls.Status.INACCURATE, "The vectors are dependent."),)
        accuracy = ""
        if answers and len(S) and S[-1] > 0:
            longest = max(float(np.linalg.eigvalsh(squares)[-1]), 0.0)
            delta = math.sqrt(longest / max(least, 0.01))  # (1)
            worst = max(delta, EPS * V.shape[0]) * unit / (2 * S[-1] ** 2)
            accuracy = f"singular values: about {digits(worst)} correct digits"
        flips = signs_of_columns(V, device)
        V = V * device.asarray(flips)
        U = None if left is None else left(np.diag(flips))
        certificate = self._concluded(moments, V, S, U, residual, notes)
        return certificate._replace(fields={**certificate.fields, "accuracy": accuracy})

    def _known(self, moments: Moments, V: Array, S: HostArray) -> tuple[int, tuple[Finding, ...]]:
        """The number of values above rounding, and what is said of values that only squaring hides.

        The columns of V that are cut are multiplied once: what they leave may be more than rounding of the entries.
        """
        A = moments.operators[0]
        largest = float(S.max(initial=0.0))
        entries = moments.least_value()
        squaring = 0.0 if moments.root is not None else math.sqrt(moments.least_square())
        means = moments.subtracted() * (squaring if moments.held is not None else NULL * EPS)
        known = int(np.count_nonzero(max(squaring * largest, entries * largest, means) < S))
        if known == len(S) or squaring <= entries:
            return known, ()
        lengths: Any = [math.inf]
        with suppress(OutOfPasses):
            if moments.rereads:
                lengths = to_host(A.device.blocks.column_norms(moments.operator().matmat(V[:, known:])))
        if max(lengths) <= NULL * entries * largest:
            return known, ()
        text = (
            f"Only {known} of the {len(S)} singular values asked for are above {squaring:.0e} of the largest. "
            'Below it, squares cannot distinguish them from zero. Choose "direct".'
        )
        return known, ((ls.Status.ILL_CONDITIONED, text),)

    def _concluded(
        self,
        moments: Moments,
        V: Array,
        S: HostArray,
        U: Array,
        residual: float,
        notes: tuple[Finding, ...],
    ) -> Certificate:
        """The certificate with the fields of a solution."""
        device = self.A.device
        fitted = moments.fitted[0]
        norm, trace = self.lacks or (0.0, 0.0)
        unit = float(S[0] ** 2) if len(S) and S[0] > 0 else 1.0
        fields: dict[str, Any] = {"S": S, "Vh": device.asarray(V, self.A.dtype).T, "rows": fitted.total}
        if U is not None:
            fields["U"] = U
        squares = moments.squares()
        if squares is not None:
            total = float(squares.sum()) + trace
            fields |= {"total_squares": total, "total_norm": math.sqrt(max(total, 0.0))}
            fields["column_norms"] = None if trace else np.sqrt(np.maximum(squares, 0.0))
        if len(S) and not moments.pre.center and self.lacks is None:
            v = to_host(V[:, 0])  # of the first squared value, the column means make this share
            along = v if fitted.factors is None else v * fitted.factors
            share = fitted.total * float(fitted.average @ along) ** 2
            fields["share_of_means"] = min(ratio(share, float(S[0]) ** 2), 1.0)
        what = "singular values that this method can distinguish from zero"
        notes += fewer_than_asked(len(S), max(len(S), 1) if self.every or self.share else self.k, what)
        if norm:
            text = f"The held moments lack up to {norm / unit:.1e} of the largest squared singular value. "
            notes = (*notes, (ls.Status.APPROXIMATE, text + "A larger rank would lack less."))
        if not len(S) and bool((fitted.squares > 0).any()):
            notes = ((ls.Status.INCOMPLETE, "Nothing is returned, although A is not zero."), *notes)
        lost = ls.Status.INCOMPLETE in dict(notes)
        kind = "from-gram" if moments.holds else "recomputed" if moments.answers else "unavailable"
        return Certificate(residual + norm / unit, notes, fields, kind, lost=lost)


def left_vectors(
    A: Any, moments: Moments, V: Array, S: HostArray
) -> tuple[Callable[[HostArray], Any], HostArray, HostArray]:
    """Orthonormal U with A V Y = U diag(S), in one pass, and the values S and the turn Y that belong to it.

    The values come from A itself, and not from its square. U is returned as a function of M: U M.
    """
    if moments.operators[0].executor is None:
        w = moments.data.w(moments.operators[0])
        device = moments.device
        image = device.asarray(moments.images(V)) if len(S) else device.zeros((int(A.shape[0]), 0))
        U, s, turn = tall_svd(image if w is None else image * device.xp.sqrt(w)[:, None])
        turned: Callable[[HostArray], Any] = partial(_turned, A, U)
    else:
        rows: Any = moments.scores(V)  # which stay on other machines
        R = np.eye(V.shape[1])
        for _ in range(2):  # because of rounding
            of_rows = Moments([rows])
            _, s, Yt = np.linalg.svd(of_rows.triangle(), full_matrices=False)
            divisors = np.where(s > EPS * s.max(initial=0.0), s, np.inf)  # dependent columns become 0
            rows = of_rows.scores(Yt.T / divisors)
            R = (s[:, None] * Yt) @ R
        X, s, Yt = np.linalg.svd(R)
        turn, turned = Yt.T, lambda M: rows.given_back(Moments([rows]).scores(X @ M, dtype=A.dtype))
    # products with narrow data are rounded more than sums
    return turned, s if A.dtype == np.float64 else S, turn


def _turned(A: Any, Q: Array, M: HostArray) -> Array:
    """Q M, where the data are."""
    return A.device.asarray(Q @ A.device.blocks.asarray(M), A.dtype)
