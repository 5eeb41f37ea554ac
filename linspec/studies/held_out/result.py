"""The result of cross-validation: the scores of all settings on all splits, and the chosen settings."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidOption, MissingCapability, shown
from linspec.frames import table
from linspec.process.plurals import count_of
from linspec.solving.problem import Problem
from linspec.solving.solve import solve
from linspec.solving.tables import ridge_columns, ridge_in_words, size_of_ridge
from linspec.studies.held_out.scores import LOST


class Setting(NamedTuple):
    """A ridge and a k; None in place of the one that a problem does not have."""

    ridge: Any
    k: int | None


class ScoreRow(NamedTuple):
    """One row of the table of scores: a split, a setting, and the score of the setting on the split."""

    split: int
    ridge: Any
    k: int | None
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation:
    """The scores of every ridge and k on the held-out rows of every split.

    Attributes
    ----------
    scores : numpy.ndarray of shape (splits, ridges, ks)
        The scores, float64, read-only.
    ridges : tuple
        Numbers or, for a CCA, pairs of numbers; None for a problem without a ridge.
    ks : tuple of int or None
    label : str
        The name of the score.
    higher : bool
        Whether higher scores are better.
    method : {"folds", "gcv"}
    one_pass : bool
        Whether the scores come from second moments computed in one sweep. If False, each ridge and split was solved.
    passes : float
        The number of readings of all rows; a sweep over some of the rows counts as a fraction.
    sizes : tuple of (int, int)
        Per split, the numbers of training and of held-out rows.
    problem : Problem
        The problem passed to `linspec.cross_validate`.
    reason : str
        Why `form` of `linspec.cross_validate` was chosen as it was, with the estimated cost of each form.
    estimated : numpy.ndarray of shape (ridges, ks) or None
        The standard error of each score, if generalized cross-validation estimated the trace by random signs;
        otherwise None.
    rounding : numpy.ndarray of shape (splits, ridges, ks) or None
        An estimate of the rounding error of each score, relative to what it is an error of on this split.
        For least squares this is the squared error of the predictions (for "r2", too). For the library's scores of
        other problems it is the score, or 1 if the score is smaller in size. Infinite if a solve ended without the
        digits of its answer, or without reaching its tolerance. None if no score was computed from second moments, and
        no solve ended so.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> found = ls.cross_validate(ls.CCA(X, Y, k=2), ridges=[1.0, 10.0], ks=[1, 2], rng=0)
    >>> found.scores.shape
    (5, 2, 2)
    >>> found.passes
    1.0
    """

    scores: HostArray
    ridges: tuple[Any, ...]
    ks: tuple[int | None, ...]
    label: str
    higher: bool
    method: str
    one_pass: bool
    passes: float
    sizes: tuple[tuple[int, int], ...]
    problem: Problem[Any]
    reason: str = ""
    estimated: HostArray | None = None
    rounding: HostArray | None = None

    @property
    def uncertain(self) -> HostArray:
        """Mask of the settings with a `rounding` above 1e-3 on some split, shape (ridges, ks); all False without it.

        The attribute `rounding` states for which scores it is relative.
        """
        if self.rounding is None:
            return np.zeros(self.scores.shape[1:], dtype=bool)
        found: HostArray = np.any((self.rounding > LOST) & np.isfinite(self.scores), axis=0)
        return found

    @property
    def counted(self) -> HostArray:
        """Mask of the splits in `mean`, shape (splits,): those with a score of each setting that has one anywhere.

        A split has no score (NaN) if its held-out rows say nothing: a target or a variate does not vary over them, or
        they are too few for a correlation.
        """
        known = ~np.isnan(self.scores)
        found: HostArray = known.any(axis=(1, 2)) & np.all(known | ~known.any(axis=0), axis=(1, 2))
        return found

    @property
    def mean(self) -> HostArray:
        """The mean score over the splits that are `counted`, shape (ridges, ks); all of them have equal weight."""
        scores = self.scores[self.counted]
        return np.mean(scores, axis=0) if len(scores) else np.full(scores.shape[1:], math.nan)

    @property
    def standard_error(self) -> HostArray:
        """The standard deviation of the scores over the `counted` splits divided by √splits, shape (ridges, ks).

        NaN if there is only one. The training sets of the splits share rows, so this standard error is only a
        rough guide; an unbiased estimate does not exist. If generalized cross-validation estimated the trace by random
        signs, the standard errors that the random signs cause (`estimated`) are returned instead.
        """
        if self.estimated is not None:
            return self.estimated
        scores = self.scores[self.counted]
        if len(scores) < 2:
            return np.full(self.scores.shape[1:], math.nan)
        with np.errstate(invalid="ignore"):
            error: HostArray = np.std(scores, axis=0, ddof=1) / math.sqrt(len(scores))
        return error

    @property
    def best(self) -> Setting:
        """The setting with the best mean score; if scores are equal, the smallest k, then the largest ridge.

        Raises
        ------
        MissingCapability
            If no mean score is a number, or every score is 0 where higher scores are better: nothing is known.
        """
        return self._simplest(self._gains() == np.max(self._gains()))

    @property
    def one_standard_error(self) -> Setting:
        """The simplest setting within one standard error of the best score: smallest k, then largest ridge.

        The standard error of the best setting is used (Breiman, Friedman, Olshen & Stone 1984, section 3.4.3).

        Raises
        ------
        MissingCapability
            For one split, and for generalized cross-validation, there is no standard error over splits.
        """
        gains = self._gains()
        i, j = self._place(self.best)
        error = self.standard_error[i, j]
        if self.method == "gcv" or not math.isfinite(error):
            raise MissingCapability(
                f"one standard error needs the scores of at least two splits; got {int(self.counted.sum())}. Take best."
            )
        return self._simplest(gains >= gains[i, j] - error)

    def solve(self, rule: str = "best", solver: Any = "auto", **options: Any) -> Any:
        """Solve the problem on all rows with the chosen ridge and k.

        Parameters
        ----------
        rule : {"best", "one-standard-error"}, default "best"
        solver, **options
            As for `linspec.solve`.

        Returns
        -------
        Solution
        """
        return solve(self.chosen(rule), solver, **options)

    def chosen(self, rule: str = "best") -> Problem[Any]:
        """Return the problem with the chosen ridge and k.

        Parameters
        ----------
        rule : {"best", "one-standard-error"}, default "best"
        """
        if rule not in ("best", "one-standard-error"):
            raise InvalidOption(f'rule must be "best" or "one-standard-error"; got {shown(rule)}.')
        setting = self.best if rule == "best" else self.one_standard_error
        return self.problem.with_numbers(ridge=setting.ridge, k=setting.k)

    @property
    def rows(self) -> list[ScoreRow]:
        """The scores as a table with a row for each split, ridge and k."""
        return [
            ScoreRow(split, ridge, k, float(self.scores[split, i, j]))
            for split in range(len(self.scores))
            for i, ridge in enumerate(self.ridges)
            for j, k in enumerate(self.ks)
        ]

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each setting: ridge, k, mean score, standard error, and marks.

        `rows` has the score of each split.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The columns "ridge", or "ridge X" and "ridge Y" for a CCA, and "k", without those that the problem does not
            have; "mean" and "standard error" of the score; "rounding", True for a setting that is `uncertain`; and
            "best", True for the setting of `best`. k is NaN where the problem leaves it open.

        Raises
        ------
        InvalidOption
            There is no such library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> A = np.random.default_rng(0).standard_normal((60, 3))
        >>> found = ls.cross_validate(ls.LeastSquares(A, A[:, 0]), ridges=[0.1, 10.0], rng=0)
        >>> [(row["ridge"], row["best"]) for row in found.table()]
        [(0.1, True), (10.0, False)]
        """
        settings = [(ridge, k) for ridge in self.ridges for k in self.ks]
        columns = ridge_columns([ridge for ridge, _ in settings], tuple(self.problem.matrices))
        if self.ks != (None,):
            columns["k"] = np.array([math.nan if k is None else k for _, k in settings])
        columns |= {"mean": self.mean.ravel(), "standard error": self.standard_error.ravel()}
        columns |= {"rounding": self.uncertain.ravel(), "best": self._is_best().ravel()}
        return table("", None, columns, self.problem.frame_library if library is None else library)

    def _is_best(self) -> HostArray:
        """Mask of the best setting, shape (ridges, ks); no setting is best if no mean score is a number."""
        mask = np.zeros(self.mean.shape, dtype=bool)
        with contextlib.suppress(MissingCapability):
            mask[self._place(self.best)] = True
        return mask

    def _gains(self) -> HostArray:
        """Mean scores, negated if lower scores are better, -inf in place of NaN, if they tell one from another."""
        gains = self.mean if self.higher else -self.mean
        gains = np.where(np.isnan(gains), -math.inf, gains)
        if np.all(gains == -math.inf) or (self.higher and not np.any(self.scores[self.counted])):
            raise MissingCapability(
                f"no mean {self.label} is a number other than 0: some held-out rows do not vary, or no setting has a "
                "component that does. Take fewer, larger folds, or other data."
            )
        return gains

    def _place(self, setting: Setting) -> tuple[int, int]:
        return self.ridges.index(setting.ridge), self.ks.index(setting.k)

    def _simplest(self, among: HostArray) -> Setting:
        i, j = min(
            np.argwhere(among).tolist(),
            key=lambda at: (self.ks[at[1]] or 0, -size_of_ridge(self.ridges[at[0]])),
        )
        return Setting(self.ridges[i], self.ks[j])

    def __repr__(self) -> str:
        tried = f"{count_of(self.mean.size, 'setting')}, {count_of(len(self.scores), 'split')}"
        tried += f", {count_of(self.passes, 'pass')}"
        if self.uncertain.any():
            tried += f", {int(self.uncertain.sum())} of {self.uncertain.size} uncertain by rounding"
        try:
            best, (i, j) = self.best, self._place(self.best)
        except MissingCapability:
            return f"<CrossValidation of {self.problem.name}: {tried}, no setting can be chosen>"
        words = {"ridge": "" if best.ridge is None else ridge_in_words(best.ridge), "k": best.k}
        named = ", ".join(f"{name} {value}" for name, value in words.items() if value)
        value = f"{self.label} {self.mean[i, j]:.6g} ± {self.standard_error[i, j]:.2g}"
        return f"<CrossValidation of {self.problem.name}: {tried}, best {named}: {value}>"
