"""Principal components of rows with missing entries: the problem, its answer and its certificate.

Problem: rows x = μ + W z + σ ε, where z has k and ε has p standard normal numbers, k < p. Some entries of the rows are
known. Which W, μ and σ² have the largest likelihood?
Method: `known_entries` has the likelihood and its gradient, `solvers` the iterations. The answer is put into the form
W = P diag(s) of orthonormal P: the likelihood does not change if W is turned. Without missing entries P and s² + σ² are
the leading eigenvectors and eigenvalues of the covariance matrix (Tipping & Bishop 1999, equation 7), and σ² is the
mean of the other eigenvalues.
A known entry is predicted from the others of its row by one formula: with hⱼ = wⱼᵀC wⱼ/σ² and e = r − W z,

    xⱼ − E[xⱼ | other known entries] = eⱼ / (1 − hⱼ)                                      (1)

Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, doi:10.1111/1467-9868.00196; Ilin & Raiko 2010, JMLR 11:1957;
Rasmussen & Williams 2006, Gaussian Processes for Machine Learning, equation 5.12, for (1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec import HeldOutScore, Status
from linspec.arrays import Array, HostArray, host_dtype, is_array, to_host, with_device
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.iteration import Certificate
from linspec.linalg import EPS, signs_of_columns, tall_svd
from linspec.rows import Passes
from linspec.solving import NewRows, check_columns
from linspec_svd.incomplete.known_entries import (
    LEAST_NOISE,
    Known,
    KnownEntries,
    Model,
    Pairs,
    Posterior,
    known_entries,
)

ENTRIES = 2**21
"""Entries of rows that are made dense at once, for predictions of entries."""

ANOTHER = (
    "The residual says that the likelihood is stationary. With missing entries another maximum may be higher: compare "
    "log_likelihood after other seeds."
)


@dataclass(frozen=True, kw_only=True, repr=False)
class IncompletePCASolution(ls.LinearSolution, vector="component", score="share of known entries predicted"):
    """Components, means and noise of rows with missing entries.

    Attributes
    ----------
    components : array of shape (p, k)
        P: orthonormal, in the order of their variances.
    explained_variance : numpy.ndarray of shape (k,)
        s² + σ², the variance of rows along each component, noise included.
    mean : array of shape (p,)
        μ: estimated with the components, not the means of known entries. NaN for a column without known entries: in
        new rows it counts as missing.
    noise_variance : float
        σ², of an entry about the components.
    log_likelihood : float
        Of all known entries.
    known : float
        The number of known entries.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((300, 6))
    >>> X = np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
    >>> solution = ls.solve(ls.IncompletePCA(X, k=2), rng=0)
    >>> bool(np.nanstd(solution.impute(X) - rows) < 0.15), solution.transform(X[:5]).shape
    (True, (5, 2))
    """

    components: Array = ls.field(rows_of="X", leading=True)
    explained_variance: HostArray = ls.field(value="explained variance")
    mean: Array | None = None
    noise_variance: float
    log_likelihood: float
    known: float

    @property
    def scales(self) -> HostArray:
        """s, of shape (k,): standard deviations of scores without noise."""
        return np.sqrt(np.maximum(self.explained_variance - self.noise_variance, 0.0))

    def facts(self) -> list[tuple[str, str]]:
        """The noise, and the likelihood of an entry."""
        entry = self.log_likelihood / self.known
        return [
            *super().facts(),
            ("noise variance", f"{self.noise_variance:.4g}"),
            ("log-likelihood", f"{entry:.6g} an entry, of {self.known:.0f} known entries"),
        ]

    @with_device
    def transform(self, X: Any) -> Array:  # type: ignore[override]  # one matrix, and no confounds
        """Estimate the scores of rows from their known entries.

        Parameters
        ----------
        X : data of shape (n, p)
            Anything that `linspec.IncompletePCA` takes.

        Returns
        -------
        array of shape (n, k)
            Posterior means of the coordinates along the components; 0 for a row without known entries. Noise shrinks
            them: those of complete rows are (x − μ)ᵀP times s²/(s² + σ²).

        Raises
        ------
        InvalidProblem
            The columns are not those of the training data.
        """
        scales = self.scales
        return self._by_rows(X, lambda _, rows: to_host(rows.z) * scales)

    @with_device
    def score_errors(self, X: Any) -> Array:
        """Compute the posterior standard deviations of the scores of `transform`.

        Parameters
        ----------
        X : data of shape (n, p)

        Returns
        -------
        array of shape (n, k)
            The fewer entries of a row are known, the larger; the standard deviation of the component if none is.
        """
        scales = self.scales
        return self._by_rows(X, lambda _, rows: np.sqrt(_diagonals(to_host(rows.C))) * scales)

    @with_device
    def impute(self, X: Any) -> Array:
        """Fill the missing entries of rows with their expectations; known entries stay.

        Parameters
        ----------
        X : data of shape (n, p)

        Returns
        -------
        array of shape (n, p)
            Dense. NaN in a column that had no known entry in training, where it is missing.
        """
        W, mean = self._host_model[:2]

        def filled(known: Known, rows: Posterior) -> HostArray:
            R, mask = _dense(known)
            return mean + np.where(mask > 0, R, to_host(rows.z) @ W.T)

        return self._by_rows(X, filled)

    @with_device
    def imputation_errors(self, X: Any) -> Array:
        """Compute standard deviations of missing entries about those of `impute`, noise included.

        Parameters
        ----------
        X : data of shape (n, p)

        Returns
        -------
        array of shape (n, p)
            Dense; 0 for known entries.
        """
        noise = self.noise_variance

        def errors(known: Known, rows: Posterior) -> HostArray:
            deviations = np.sqrt(noise * (1 + to_host(rows.leverages(noise))))
            return np.where(_dense(known)[1] > 0, 0.0, deviations)

        return self._by_rows(X, errors)

    @with_device
    def score(self, X: Any) -> float:
        """Compute the share of the squares of known entries that the other known entries of their row predict.

        Parameters
        ----------
        X : data of shape (n, p)
            New rows, of which no part has to be held out: each entry is predicted without itself.

        Returns
        -------
        float
            1 − Σ (x − E[x | others])² / Σ (x − μ)²: at most 1, and below 0 if means would do better.
        """
        noise = self.noise_variance

        def squares(known: Known, rows: Posterior) -> HostArray:
            R, mask = _dense(known)
            left = 1 - to_host(rows.leverages(noise))
            errors = mask * (R - to_host(rows.z) @ self._host_model.W.T) / np.maximum(left, EPS)  # (1)
            return np.array([[np.sum(errors**2), np.sum(R**2)]])

        left, total = np.sum(to_host(self._by_rows(X, squares, np.float64)), axis=0)
        return 1 - float(left / total) if total > 0 else math.nan

    @with_device
    def inverse_transform(self, scores: Any) -> Array:
        """Compute the rows that have the given scores: scores times the components, plus the means.

        Parameters
        ----------
        scores : data of shape (n, k)

        Returns
        -------
        array of shape (n, p)
        """
        return NewRows.of(self, "X").restored(scores, self.components.T, "scores")

    def loadings(self, X: Any = None) -> Array:  # type: ignore[override]  # no rows are read
        """Compute the correlation of each column with each score, as the model has it.

        Parameters
        ----------
        X : data, optional
            Not read.

        Returns
        -------
        array of shape (p, k)
        """
        W = self._host_model.W
        correlations = W / np.sqrt(np.sum(W**2, axis=1) + self.noise_variance)[:, None]
        return self.device.asarray(correlations, host_dtype(self.components))

    def of_first(self, k: int | None) -> IncompletePCASolution:
        """Return the answer with its first k components; the variance of the others becomes noise.

        Without missing entries this is the answer to the problem with k components, else near it.

        Parameters
        ----------
        k : int, optional
            By default all.
        """
        values, p = self.explained_variance, self.components.shape[0]
        k = len(values) if k is None else k
        noise = (self.noise_variance * (p - len(values)) + float(values[k:].sum())) / (p - k)
        return replace(
            self, components=self.components[:, :k], explained_variance=values[:k], noise_variance=noise
        )

    @property
    def _host_model(self) -> Model:
        W = to_host(self.components).astype(np.float64) * self.scales
        return Model(W, to_host(self.mean).astype(np.float64), self.noise_variance)

    def _by_rows(self, X: Any, make: Callable[[Known, Posterior], HostArray], dtype: Any = None) -> Array:
        """What is made of each row and its posterior, one below the other, in the library of the rows."""
        A = self._operators("transform", (X,), {})["X"]
        check_columns(self, "X", A)
        _check_sparse(A)
        W, mean, noise = self._host_model
        if A.shape[1] != len(W):
            raise InvalidProblem(
                f"X must have the {len(W)} columns of the training data; got {A.shape[1]}."
            )
        place = A.device.blocks
        model, pairs = Model(place.asarray(W), place.asarray(mean), noise), Pairs.of(W.shape[1])
        parts = []
        for block in A.in_blocks("X").blocks():
            height = max(ENTRIES // max(A.shape[1], model.W.shape[1] ** 2), 1)
            for a, b in pairwise([*range(0, block.rows, height), block.rows]):
                known = known_entries(block.cut(a, b), model.mean, place)
                parts.append(make(known, Posterior(known, model, pairs, place)))
        return A.device.asarray(np.concatenate(parts), dtype or A.dtype)


class PredictedEntries(HeldOutScore):
    """The share of known entries of held-out rows that the others of their row predict."""

    label = "share of known entries predicted"

    def of_solution(
        self, problem: Any, solution: IncompletePCASolution, ks: Sequence[int | None]
    ) -> HostArray:
        return np.array([solution.of_first(k).score(problem.X) for k in ks])


@dataclass(frozen=True, eq=False, repr=False)
class IncompletePCA(ls.Problem[IncompletePCASolution], adjusts_rows=False):
    """The principal components of rows of which some entries are missing: probabilistic PCA by maximum likelihood.

    Rows are x = μ + W z + σ ε with standard normal z and ε. Missing entries are left out of the likelihood, which is
    right if what is missing does not depend on the missing numbers themselves (missing at random).

    Parameters
    ----------
    X : data of shape (n, p)
        Missing entries are NaN. Of sparse rows the stored entries are known, zeros among them, and all others missing.
        Memory is that of the known entries.
    k : int
        The number of components, below p. `linspec.cross_validate` chooses it by held-out rows, of which each known
        entry is predicted from the others.

    Notes
    -----
    Residual: the root mean square by which a step of EM changes fitted entries, relative to σ, with the change of
    log σ² over √2. It is 0 only where the gradient of the likelihood is, does not depend on units, and is computed from
    the data. The likelihood is then as far from its maximum as about N/2 times the square of the residual, for N known
    entries, divided by the share of the gap that a step closes.

    - A row without known entries changes nothing. A column without any gets weights 0 and mean NaN.
    - If components meet all known entries, the likelihood has no maximum: σ² is held at 1e-10 of the variance, and the
      status is RANK_DEFICIENT.
    - With missing entries there may be several maxima.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.array([[1.0, 2.0, 2.9], [2.0, 4.1, np.nan], [3.0, np.nan, 9.2], [np.nan, 8.0, 12.1], [5.0, 9.8, 15.0]])
    >>> solution = ls.solve(ls.IncompletePCA(X, k=1), rng=0)
    >>> np.round(solution.impute(X)[1:4], 0).tolist()
    [[2.0, 4.0, 6.0], [3.0, 6.0, 9.0], [4.0, 8.0, 12.0]]
    """

    X: Any = ls.matrix("data", once=False)
    k: Any = ls.count(
        "components",
        limits=lambda problem: {"rows": problem.X.shape[0], "columns of X less one": problem.X.shape[1] - 1},
    )

    name: ClassVar[str] = "incomplete-pca"
    found: ClassVar[tuple[str, ...]] = ("components", "mean", "noise_variance")
    held_out_scores: ClassVar[Mapping[str, str]] = {
        "entries": "linspec_svd.incomplete.problem:PredictedEntries"
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sparse(self.X)

    def moments_of_its_own(self, passes: Passes) -> KnownEntries:
        """What makes passes over the known entries."""
        return KnownEntries(self, passes)

    def start(self, given: Any) -> dict[str, Array]:
        """Return W, μ and σ² of an earlier answer."""
        if not isinstance(given, IncompletePCASolution) or given.components.shape[0] != self.X.shape[1]:
            raise InvalidProblem(
                f"start must be a solution of IncompletePCA with {self.X.shape[1]} columns; got {given!r}."
            )
        W, mean, noise = given._host_model
        return {"components": W, "mean": mean, "noise_variance": np.asarray(noise)}

    def certify(self, moments: KnownEntries, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Judge W, μ and σ² by one pass, and put them into the form of the answer."""
        W, mean, noise = (to_host(arrays[name]) for name in self.found)
        seen = moments.expectation(Model(W, mean, float(noise)))
        P, s, _ = tall_svd(W)
        empty = np.flatnonzero(moments.counts == 0)
        place = self.X.device
        fields = {
            "components": place.asarray(P * signs_of_columns(P, place.blocks), self.X.dtype),
            "explained_variance": s**2 + seen.model.noise,
            "mean": place.asarray(np.where(moments.counts > 0, mean, np.nan), self.X.dtype),
            "noise_variance": seen.model.noise,
            "log_likelihood": -seen.loss / 2,
            "known": seen.known,
        }
        complete = seen.known == moments.n * len(mean)
        notes: list[tuple[Status | None, str]] = [] if complete else [(None, ANOTHER)]
        if len(empty):
            text = f"No entry is known of column {', '.join(map(str, empty[:10]))}: its mean is NaN."
            notes.append((None, text))
        if seen.model.noise <= seen.least * (1 + 1e-6):
            text = (
                f"{self.k} components meet all known entries: the noise is held at {LEAST_NOISE:g} of the variance. Ask "
                "for fewer."
            )
            notes.append((Status.RANK_DEFICIENT, text))
        return Certificate(seen.residual, tuple(notes), fields)


def _check_sparse(A: Any) -> None:
    """Refuse sparse rows on a device."""
    if A.sparse and not A.device.on_host:
        raise UnsupportedData(
            "X must be dense, or sparse on the host; got a sparse matrix on a device. Copy it to the host."
        )


def _dense(known: Known) -> tuple[HostArray, HostArray]:
    """R and the mask of some rows as arrays on the host."""
    R, mask = (to_host(part) if is_array(part) else part.toarray() for part in known[:2])
    return R, mask


def _diagonals(C: HostArray) -> HostArray:
    return np.diagonal(C, axis1=1, axis2=2)
