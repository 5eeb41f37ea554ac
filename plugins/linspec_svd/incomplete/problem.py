"""Principal components of rows with missing entries: the problem, its answer and its certificate.

Problem: rows x = μ + W z + σ ε, where z has k and ε has p standard normal numbers, k < p. Some entries of the rows are
known. Which W, μ and σ² have the largest likelihood?
Method: `em` has the likelihood, its gradient and the iterations. The answer is put into the form W = P diag(s) with
orthonormal P: turns of W do not change the likelihood. Without missing entries P and s² + σ² are the leading
eigenvectors and eigenvalues of the covariance matrix, and σ² is the mean of the others (Tipping & Bishop 1999,
equation 7). A known entry is predicted from the others of its row: with hⱼ = wⱼᵀC wⱼ/σ² and e = r − W z,

    xⱼ − E[xⱼ | other known entries] = eⱼ / (1 − hⱼ)                                      (1)

In a row that knows fewer directions than there are, C has eigenvalues near 1 and near σ², and (1) may lose all digits.
Such rows take P = (WWᵀ + σ² I)⁻¹ of their known entries:

    xⱼ − E[xⱼ | other known entries] = (P r)ⱼ / Pⱼⱼ                                       (2)

Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, doi:10.1111/1467-9868.00196; Rasmussen & Williams 2006,
Gaussian Processes for Machine Learning, equation 5.12, for (1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Array, HostArray, to_host, with_device
from linspec.errors import InvalidProblem
from linspec.iteration import Certificate
from linspec.linalg import EPS, signs_of_columns, tall_svd
from linspec.rows import Passes, check_entries
from linspec.solving import NewRows, check_columns
from linspec_svd.incomplete.em import LEAST_NOISE, KnownEntries, OfRows, Posterior, diagonals, known_entries

ROUNDING = 1e6 * EPS
"""1 − hⱼ is rounded by about EPS times the largest entry of K; unless it is a million times as large, (2) is taken."""


@dataclass(frozen=True, kw_only=True, repr=False)
class IncompletePCASolution(ls.LinearSolution, vector="component", score="share of known entries predicted"):
    """Components, means and noise of rows with missing entries.

    Attributes
    ----------
    weights : array of shape (p, k)
        W: orthogonal columns in the order of their lengths s, in the units of the data.
    explained_variance : numpy.ndarray of shape (k,)
        s² + σ², the variance of rows along each component, noise included.
    mean : array of shape (p,)
        μ: estimated with the components, and so not the means of known entries. NaN for a column without known entries,
        which in new rows counts as missing.
    total_variance : float
        Of all columns, as the model has it: the sum of s², and p σ².
    log_likelihood : float
        Of all known entries.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((300, 6))
    >>> X = np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
    >>> solution = ls.solve(ls.IncompletePCA(X, k=2), rng=0)
    >>> bool(np.std(solution.impute(X) - rows) < 0.25), solution.transform(X[:5]).shape
    (True, (5, 2))
    """

    weights: Array = ls.field(rows_of="X", leading=True)
    explained_variance: HostArray = ls.field(value="explained variance")
    mean: Array | None = None
    total_variance: float
    log_likelihood: float

    @property
    def noise_variance(self) -> float:
        """σ², of an entry about the components; of the first k of an answer with more, all that they leave."""
        p, k = self.weights.shape
        return float(self.total_variance - self.explained_variance.sum()) / (p - k)

    @with_device
    def transform(self, X: Any) -> Array:  # type: ignore[override]  # one matrix, and no confounds
        """Estimate the scores z of rows from their known entries.

        Parameters
        ----------
        X : data of shape (n, p)
            Anything that `linspec.IncompletePCA` takes.

        Returns
        -------
        array of shape (n, k)
            Posterior means, of variance about 1; 0 for a row without known entries. Those of complete rows are
            (x − μ)ᵀW / (s² + σ²).

        Raises
        ------
        InvalidProblem
            There is no row, or the columns are not those of the training data.
        NonFiniteData
            An entry is infinite.
        """
        return self._by_rows(X, lambda _, rows: rows.z[:, 1:])

    @with_device
    def score_errors(self, X: Any) -> Array:
        """Compute the posterior standard deviations of the scores of `transform`.

        Parameters
        ----------
        X : data of shape (n, p)

        Returns
        -------
        array of shape (n, k)
            The fewer entries of a row are known, the larger: 1 if none is.
        """
        return self._by_rows(
            X,
            lambda posterior, rows: np.sqrt(posterior.lower(rows.L)[:, posterior.i == posterior.j][:, 1:]),
        )

    @with_device
    def impute(self, X: Any) -> Array:
        """Fill the missing entries of rows with their expectations; known entries stay.

        Parameters
        ----------
        X : data of shape (n, p)

        Returns
        -------
        array of shape (n, p)
            Dense; NaN in a column that had no known entry in training.
        """
        return self._by_rows(
            X,
            lambda posterior, rows: to_host(self.mean) + np.where(rows.mask, rows.R, rows.z @ posterior.W.T),
        )

    @with_device
    def score(self, X: Any) -> float:
        """Compute the share of the squares of known entries that the other known entries of their row predict.

        Parameters
        ----------
        X : data of shape (n, p)
            New rows, of which nothing has to be held out: each entry is predicted without itself.

        Returns
        -------
        float
            1 − Σ (x − E[x | others])² / Σ (x − μ)²: at most 1, and below 0 if means would do better. NaN if no entry is
            known.
        """

        def squares(posterior: Posterior, rows: OfRows) -> HostArray:
            R, mask, z, L = rows
            largest = diagonals(L).max(axis=1)
            twice = np.where(posterior.i == posterior.j, 1, 2)
            left = 1 - mask * ((posterior.lower(L) * twice) @ posterior.pairs.T)
            errors = mask * (R - z @ posterior.W.T) / np.maximum(left, EPS)  # (1)
            for row in np.flatnonzero(left.min(axis=1) < ROUNDING * largest**2):
                known = mask[row] > 0
                W = posterior.W[known]
                P = np.linalg.inv(W @ W.T + posterior.noise * np.eye(len(W)))
                errors[row, known] = P @ R[row, known] / P.diagonal()  # (2)
            return np.stack([errors**2, R**2], axis=-1).sum(axis=1)

        errors, total = to_host(self._by_rows(X, squares)).sum(axis=0)
        return float(1 - errors / total)

    @with_device
    def inverse_transform(self, scores: Any) -> Array:
        """Compute the rows that have the given scores: scores times Wᵀ, plus the means.

        Parameters
        ----------
        scores : data of shape (n, k)

        Returns
        -------
        array of shape (n, p)
        """
        return NewRows.of(self, "X").restored(scores, self.weights.T, "scores")

    @np.errstate(invalid="ignore")
    def _by_rows(self, X: Any, make: Callable[[Posterior, OfRows], HostArray]) -> Array:
        """What is made of some rows and their posterior, one below the other, in the library of the rows."""
        A = self._operators("transform", (X,), {})["X"]
        check_columns(self, "X", A)
        mean = to_host(self.mean)
        W = to_host(self.weights)
        if not A.shape[0] or A.shape[1] != len(mean):
            raise InvalidProblem(
                f"X must have rows, and the {len(mean)} columns of the training data; got shape {A.shape}."
            )
        seen = ~np.isnan(mean)
        parts = list[Any]()
        V = np.column_stack([np.where(seen, mean, 0.0), W])
        posterior = Posterior(V.astype(np.float64), self.noise_variance)
        for block in A.in_blocks("X").blocks():
            for start in range(0, block.rows, posterior.height):
                rows = block.cut(start, min(start + posterior.height, block.rows))
                X, mask = (part.toarray() if A.sparse else part for part in known_entries(rows))
                check_entries("X", X, sum(map(len, parts)))
                mask *= seen
                parts.append(make(posterior, posterior.of_rows(X * seen, mask)))
        return A.device.asarray(np.concatenate(parts), A.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class IncompletePCA(ls.Problem[IncompletePCASolution], adjusts_rows=False):
    """The principal components of rows of which some entries are missing: probabilistic PCA by maximum likelihood.

    Rows are x = μ + W z + σ ε with standard normal z and ε. Missing entries are left out of the likelihood, which is
    right if what is missing does not depend on the missing numbers themselves (missing at random).

    Parameters
    ----------
    X : data of shape (n, p)
        Missing entries are NaN. Of sparse rows the stored entries are known, zeros among them, and all others are
        missing; memory is that of the known entries.
    k : int
        The number of components, below p. `linspec.cross_validate` chooses it by held-out rows, of which each known
        entry is predicted from the others.

    Notes
    -----
    Residual: the root mean square by which a step of EM changes the fitted known entries, relative to σ, together with
    the change of log σ² over √2, and how far the scores z of all rows are from mean 0 and covariance I. It is 0 only
    where the gradient of the likelihood is, does not depend on units, and is computed from the data.

    - A row without known entries changes nothing. A column without any gets weights 0 and mean NaN.
    - If components meet all known entries, the likelihood has no maximum: σ² is held at 1e-10 of the variance, and the
      status is RANK_DEFICIENT.
    - Without missing entries the answer is that of `linspec.SVD`, which is quicker. With them there may be several
      maxima, and a small residual says only that one is reached: compare `log_likelihood` after other seeds.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.array([[1.0, 2.0, 2.9], [2.0, 4.1, np.nan], [3.0, np.nan, 9.2], [np.nan, 8.0, 12.1], [5.0, 9.8, 15.0]])
    >>> problem = ls.IncompletePCA(X, k=1)
    >>> solution = ls.solve(problem, rng=0)
    >>> np.round(solution.impute(X)[1:4], 0).tolist()
    [[2.0, 4.0, 6.0], [3.0, 6.0, 9.0], [4.0, 8.0, 12.0]]
    """

    X: Any = ls.matrix("data", once=False, gaps=True)
    k: Any = ls.count(
        "components",
        limits=lambda problem: {
            "rows": problem.X.shape[0],
            f"columns but one (n_features={problem.X.shape[1]})": problem.X.shape[1] - 1,
        },
    )

    name: ClassVar[str] = "incomplete-pca"
    found: ClassVar[tuple[str, ...]] = ("weights", "mean", "noise_variance")

    def moments_of_its_own(self, passes: Passes) -> KnownEntries:
        """What makes passes over the known entries."""
        return KnownEntries(self, passes)

    def certify(self, moments: KnownEntries, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Judge W, μ and σ² by one pass, and put them into the form of the answer."""
        W, mean, noise = (to_host(arrays[name]) for name in self.found)
        step = moments.judged(np.append(np.log(noise), np.column_stack([mean, W])))
        variance = float(np.exp(step.theta[0]))
        P, s, _ = tall_svd(W)
        empty = moments.empty
        fields = {
            "weights": self.X.device.asarray(P * s * signs_of_columns(P, HOST), self.X.dtype),
            "explained_variance": s**2 + variance,
            "mean": self.X.device.asarray(np.where(empty, np.nan, mean), self.X.dtype),
            "total_variance": float(s @ s) + len(W) * variance,
            "log_likelihood": -float(step.loss) / 2,
        }
        notes: list[Any] = []
        if empty.any():
            notes.append((None, f"No entry is known of {empty.sum()} columns, which have mean NaN."))
        if variance <= 2 * LEAST_NOISE * moments.variance:
            notes.append((ls.Status.RANK_DEFICIENT, "The components meet all known entries. Ask for fewer."))
        elif s[-1] ** 2 < 1e-6 * variance:  # where the likelihood is stationary in W = 0
            notes.append((ls.Status.INCOMPLETE, "A component has vanished. Take another seed, or fewer."))
        return Certificate(float(step.residual), tuple(notes), fields)
