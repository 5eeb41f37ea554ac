"""Standard errors of least-squares coefficients: classical, robust against unequal variances, and by clusters.

Problem: how much would the coefficients of a regression change with other rows from the same source, without drawing
rows? The data may be in files, and the intercept and the confounds count as columns, too.
Method: R of the QR factorisation of the preprocessed rows [A B], from one pass (`linspec.rows.Moments.triangle`), gives
the coefficients and squared residuals without a product AᵀA. With its columns R_A of A, the rows q = [1/√Σw, a R_A⁻¹]
of the preprocessed rows a are those of a matrix with orthonormal columns, and coefficients are L Qᵀ√D b, where

    L = [[1/√Σw, −āᵀR_A⁻¹], [0, R_A⁻¹]],    covariance L M Lᵀ.    (1)

The first row of L is that of the intercept. Classical: M = σ² I. Otherwise a second pass sums M = Σ u² q qᵀ over rows
of residuals e, or over clusters g of the sums of their rows:

    HC0, HC1: u = e,    HC2, HC3: u = e / (1 − h)^½, e / (1 − h),    clustered: M = Σ_g s_g s_gᵀ,  s_g = Σ_{i in g} e q,

where the leverage h = ‖q‖² has the part of confounds. The rows that a weight counts are equal, so each has the leverage
h of its own; weights that are no counts multiply e and q by their roots.
Source: MacKinnon & White 1985, J. Econometrics 29:305, doi:10.1016/0304-4076(85)90158-7 (HC1 to HC3); Liang & Zeger
1986, Biometrika 73:13 (clusters); Frisch & Waugh 1933 and Lovell 1963 (confounds are columns of the regression).
Where we differ: M is summed in orthonormal coordinates, so that units, large means and correlated columns cost no more
digits than the coefficients themselves lose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from linspec.arrays import HostArray, reciprocal, with_device
from linspec.errors import AccuracyWarning, InvalidOption, InvalidProblem, MissingCapability, shown, warn
from linspec.families.least_squares.problem import LeastSquares
from linspec.frames import library_for_table, table
from linspec.linalg import EPS, r_squared
from linspec.registry.options import is_number
from linspec.rows import Passes
from linspec.solving.checks import check_choice, check_fraction
from linspec.solving.on_rows import moments_of
from linspec.solving.select import check_fits
from linspec.solving.tables import Summary, some_of
from linspec.studies.inference.exchange import group_numbers

POWERS = {"HC0": 0.0, "HC1": 0.0, "HC2": 0.5, "HC3": 1.0, "clustered": 0.0}
"""Residuals of a kind are divided by these powers of 1 − leverage."""

LABELS = ("coefficient", "standard error", "t", "p value", "lower", "upper")
"""The columns of tables."""

DEPENDENT = 1e-12
"""Columns depend on each other if a singular value of columns of length 1 is below this share of the largest."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StandardErrors:
    """Coefficients with standard errors, t statistics, p-values and intervals.

    The first of c coefficients is the intercept, if the problem centres: the value where columns are zero and confounds
    have their means. The others are those of the columns of A. If B is a matrix with m columns, arrays of shape (c,)
    have the shape (c, m), and those of shape () the shape (m,).

    Attributes
    ----------
    coefficients, errors : numpy.ndarray of shape (c,)
        The coefficients and their standard errors.
    t, p_values : numpy.ndarray of shape (c,)
        Coefficients divided by errors, and the two-sided p-values by the t distribution.
    intervals : numpy.ndarray of shape (2, c)
        The lower and the upper ends of the intervals of the coefficients.
    covariance : numpy.ndarray of shape (c, c)
        The covariances of the coefficients; of m right-hand sides of shape (m, c, c).
    df : float
        Degrees of freedom of the t distribution: rows less coefficients, or the number of clusters less 1.
    rows : float
        The number of rows, or the sum of the weights where these are counts.
    r_squared : numpy.ndarray of shape ()
        R² of the training rows, about the mean of B, also without an intercept; NaN where it is not known.
    kind : str
    level : float
        The coverage of `intervals`.
    names, targets : tuple of str
        The names of the coefficients and of the right-hand sides.
    frame_library : str
        The library of tables by default.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.arange(8.0)[:, None]
    >>> errors = ls.standard_errors(ls.LeastSquares(A, A[:, 0] + [1, -1, 1, -1, 1, -1, 1, -1], center=True))
    >>> errors.errors.round(4), errors.df
    (array([0.7274, 0.1739]), 6.0)
    """

    coefficients: HostArray
    errors: HostArray
    t: HostArray
    p_values: HostArray
    intervals: HostArray
    covariance: HostArray
    df: float
    rows: float
    r_squared: HostArray
    kind: str
    level: float
    names: tuple[str, ...]
    targets: tuple[str, ...]
    frame_library: str

    def table(self, target: str | int = 0, *, library: str | None = None) -> Any:
        """Make a table with a row for each coefficient of one right-hand side.

        Parameters
        ----------
        target : str or int, default 0
            The name or the number of the right-hand side.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The columns "coefficient", "standard error", "t", "p value", "lower" and "upper".

        Raises
        ------
        InvalidOption
            There is no such right-hand side or library.
        """
        named = isinstance(target, str) and target in self.targets
        number: Any = self.targets.index(target) if named else target
        if not is_number(number, int) or number not in range(len(self.targets)):
            raise InvalidOption(
                f"target must be one of {some_of(self.targets)}, or its number; got {shown(target)}."
            )
        parts = (self.coefficients, self.errors, self.t, self.p_values, *self.intervals)
        values = np.stack(parts).reshape(len(LABELS), len(self.names), -1)[..., number]
        columns = dict(zip(LABELS, values, strict=True))
        return table("column", self.names, columns, library_for_table(library, self))

    def __repr__(self) -> str:
        rows = f"{self.rows:g}, degrees of freedom {self.df:g}, R² {self.r_squared.flat[0]:.6g}"
        title = f"{self.targets[0]}: {self.kind} standard errors, intervals of {100 * self.level:g} %"
        return repr(Summary(self.table(library=""), title, [("rows", rows)]))


@with_device
def standard_errors(
    problem: LeastSquares,
    kind: str = "classical",
    *,
    groups: Any = None,
    level: float = 0.95,
    weights: str = "counts",
) -> StandardErrors:
    """Compute coefficients of least squares with their standard errors, from two passes over the rows.

    Parameters
    ----------
    problem : LeastSquares
        With ridge 0. Intercept (`center`) and confounds count as coefficients.
    kind : {"classical", "HC0", "HC1", "HC2", "HC3", "clustered"}, default "classical"
        "classical" supposes equal variances of independent rows, and takes one pass. HC1 and HC3 hold for unequal
        variances, HC3 also for few rows. "clustered" holds for rows that depend on each other within `groups`.
    groups : array of shape (n,), optional
        A label for each row: its cluster.
    level : float, default 0.95
        The coverage of the intervals.
    weights : {"counts", "survey", "precision"}, default "counts"
        The meaning of `sample_weight`. "counts": each row stands for so many equal rows. "survey": for more rows of the
        source by a factor; for robust kinds. "precision": its variance is 1 / weight.

    Returns
    -------
    StandardErrors

    Raises
    ------
    InvalidProblem
        There is a ridge, or no degree of freedom; columns depend on each other (they are named); weights are fractions,
        or classical errors are asked of a survey; `groups` do not fit; a row has leverage 1 (HC2, HC3).
    InvalidOption
        `kind`, `level` or `weights` is invalid.
    MissingCapability
        Rows can be read once only, and the kind reads them twice, or entries cannot be read.
    NoSuitableSolver
        The sums do not fit into memory.

    Warns
    -----
    AccuracyWarning
        A target is fitted up to rounding, and so its errors and p-values are rounding.

    Notes
    -----
    HC1 has the factor n / (n − c), "clustered" G / (G − 1) times (n − 1) / (n − c) for G clusters and c coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> A = ls.labelled(rng.standard_normal((500, 2)), columns=["age", "dose"])
    >>> b = A.dense()[:, 0] + rng.standard_normal(500) * np.abs(A.dense()[:, 1])
    >>> ls.standard_errors(ls.LeastSquares(A, b, center=True), "HC3").names
    ('intercept', 'age', 'dose')
    """
    _check(problem, kind, groups, level, weights)
    moments, w = moments_of(problem, Passes()), problem.sample_weight
    p, m = moments.widths
    check_fits(
        24.0 * (p + m) ** 2 + 16.0 * m * (p + 1) ** 2, "sums over rows", "Pass fewer columns of B, or of A."
    )
    R, fitted = moments.triangle(), moments.fitted
    counts, n = weights == "counts" and w is not None, int(moments.operators[0].shape[0])
    rows = fitted[0].total if counts or w is None else float(np.count_nonzero(w))
    free = rows - p - moments.pre.directions
    if free <= 0:
        raise InvalidProblem(
            f"standard errors need more rows than coefficients; got {rows:g} rows and {rows - free:g} coefficients. "
            "Pass more rows, or fewer columns."
        )
    clusters = group_numbers(groups, n, weights=w)
    count = 0 if clusters is None else 1 + int(clusters.max())
    R = np.vstack([R, np.zeros((p + m - len(R), p + m))])
    names = problem.column_names.get("A") or tuple(f"column {i}" for i in range(p))
    lengths = np.linalg.norm(R[:p, :p], axis=0)
    unit = R[:p, :p] * reciprocal(lengths)
    _, values, Vt = np.linalg.svd(unit)
    if values[-1] <= max(moments.least_value(0), DEPENDENT) * values[0]:
        among = some_of([name for name, part in zip(names, Vt[-1], strict=True) if abs(part) > 0.01])
        raise InvalidProblem(
            "standard errors need columns of A that do not depend on each other, on the intercept or on confounds; got "
            f"such ones in {among}. Leave one of them out."
        )
    V = np.asarray(np.linalg.inv(unit) * reciprocal(lengths)[:, None])
    fit, squares = R[:p, p:], (R[p:, p:] ** 2).sum(axis=0)
    L = fitted[0].kept[:, None] * V
    coefficients, df = L @ fit, free
    if moments.pre.center:
        names, mean = ("intercept", *names), fitted[0].gap(None)
        coefficients = np.vstack([fitted[1].gap(None) - mean @ coefficients, coefficients])
        L = np.block([[1 / np.sqrt(fitted[0].total), -mean @ L], [np.zeros((p, 1)), L]])
    if kind == "classical":
        meat = np.multiply.outer(squares / free, np.eye(len(L)))
    else:
        alone = reciprocal(np.sqrt(w)) if counts and clusters is None else np.ones(n)
        meat = moments.meat(V, fit, POWERS[kind], alone, clusters, count)
    if kind == "HC1":
        meat *= rows / free
    if clusters is not None:
        df = count - 1.0
        meat *= count / df * (rows - 1) / free
    covariance, some = L @ meat @ L.T, 0 if problem.vector else slice(None)
    coefficients = coefficients[:, some]
    errors = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0)).T[:, some]
    with np.errstate(divide="ignore", invalid="ignore"):  # an exact fit has no errors
        t = coefficients / errors
    reach = stdtrit(df, (1 + level) / 2) * errors
    variation = moments.variation(1)
    if ((variation > 0) & (squares <= (min(n, 1e4) * EPS) ** 2 * variation)).any():
        warn(
            "standard_errors: a target is fitted up to rounding, so its errors, t and p-values are rounding. Leave out "
            "columns of A that it is made of.",
            AccuracyWarning,
        )
    return StandardErrors(
        coefficients=coefficients,
        errors=errors,
        t=t,
        p_values=2 * stdtr(df, -np.abs(t)),
        intervals=np.stack([coefficients - reach, coefficients + reach]),
        covariance=covariance[some],
        df=df,
        rows=rows,
        r_squared=np.asarray(r_squared(squares, variation)[some]),
        kind=kind,
        level=level,
        names=names,
        targets=problem.column_names.get("B") or tuple(f"target{j + 1}" for j in range(m)),
        frame_library=problem.frame_library,
    )


def _check(problem: Any, kind: str, groups: Any, level: float, weights: str) -> None:
    """Refuse what has no standard errors, before rows are read."""
    check_choice("kind", kind, ("classical", *POWERS))
    check_choice("weights", weights, ("counts", "survey", "precision"))
    check_fraction("level", level)
    if not isinstance(problem, LeastSquares) or problem.path or problem.ridges[0] > 0:
        raise InvalidProblem(
            f"standard_errors takes a linspec.LeastSquares without a ridge, which biases coefficients; got "
            f"{shown(problem)}. Leave the ridge out, or see linspec.bootstrap."
        )
    if (groups is None) == (kind == "clustered"):
        raise InvalidProblem(
            'groups are the clusters of kind="clustered"; got one without the other. Pass both, or neither.'
        )
    if kind != "classical" or weights != "counts":
        problem.check_rows_came(
            "robust standard errors, and weights that are no counts, need rows as they came"
        )
    if kind != "classical" and problem.readings == 1:
        raise MissingCapability(
            'robust standard errors read the rows twice; got rows that can be read once. Take kind="classical", or '
            "pass a function that returns the slices anew."
        )
    problem.check_labels({"groups": groups})
    w = problem.sample_weight
    fractions = w is not None and (w != np.round(w)).any()
    if (weights == "counts" and fractions) or (weights == "survey" and kind == "classical"):
        raise InvalidProblem(
            'weights="counts" must be whole numbers of equal rows, and weights="survey" need a robust kind; got '
            f'{weights} for {kind} errors of sample_weight={shown(w)}. Pass weights="survey" with HC1 or clustered, '
            'or weights="precision".'
        )
