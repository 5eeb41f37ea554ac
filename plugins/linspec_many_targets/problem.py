"""Ridge regression of many targets: the problem and its law."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

import linspec as ls
from linspec import Status
from linspec.algebra import EPS, ratio
from linspec.arrays import Array, HostArray, is_array, reciprocal, to_host
from linspec.errors import BrokenPlugin, InvalidProblem
from linspec.operators import CountedOperator, uncounted
from linspec.solving import DEFAULT_TERMS, Terms
from linspec.studies import cells_of, folds_of, split_of
from linspec_many_targets.candidates import checked_bands, checked_ridges, checked_weights
from linspec_many_targets.choice import COLLINEAR, DIGITS, Choice, blocks_of
from linspec_many_targets.kernel import band_kernels, sum_of
from linspec_many_targets.solution import RidgeManyTargetsSolution

__all__ = ["RidgeManyTargets", "RidgeManyTargetsSolution"]

RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
"""The ridges by default."""

ERROR = 1e-2
"""A finding is reported if the relative error of the coefficients of a target may be above this."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The moments of the cells of all folds, and of all rows."""

    problem: Any
    cells: list[Any]
    whole: Any

    def of_all(self, targets: Any) -> Any:
        """Return the adjusted moments of all rows, as those of training rows, with some of the targets."""
        rows = self.whole.with_diagonal(targets)
        return split_of(self.problem, rows, rows)


@dataclass(frozen=True, eq=False, repr=False)
class RidgeManyTargets(ls.Problem[RidgeManyTargetsSolution]):
    """min ‖y − X w‖² + r Σ_b ‖w_b‖² / γ_b for each target y: r and the weights γ of bands are chosen by its own folds.

    For each target the candidate with the largest mean R² on held-out rows is chosen, and all rows are fitted with it.
    The mean leaves out folds in which the target does not vary. If a fold has a single row, as in leave-one-out, or if
    the target varies within no fold, R² is that of the held-out rows of all folds together.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` accepts.
    Y : data of shape (n, m), or an array, a series or a list of shape (n,)
        Targets. There may be a hundred thousand or more: Y is read once, in blocks of rows.
    ridges : float or sequence of float, default (0.1, 1, 10, 100, 1000, 10000)
        The candidates for r, above 0. They are added to XᵀX, which is not divided by the number of rows.
    bands : array or list of p labels, or mapping from names to columns, optional
        The band of each column of X. A mapping has numbers, slices, or names of columns. By default there is one band.
    band_weights : int or array of shape (settings, bands), optional
        The candidates for γ, zero or more: a band of weight 0 is left out. A number asks for so many settings with sum
        1: equal weights, and draws from Dirichlet distributions. By default 20, and 1 if there is one band.
    splitter : int, array of n labels, object with a method split, or pairs of row numbers, default 5
        The folds. A number makes folds of successive rows of equal size, as scikit-learn's KFold. Streams whose number
        of rows is not known need labels. Row labels -1 are in every training set.
    groups : array of shape (n,), optional
        Groups of rows that stay together, with a number of folds or a splitter. Groups are dealt to folds at random.
    seed : int, default 0
        The seed of the drawn weights of bands, and of folds of groups.
    center : bool, default True
        Whether to fit an intercept, which no ridge shrinks: means are those of the training rows of each fold. Sparse
        data stay sparse.
    scale : bool, default False
        Whether to divide each column of X by its root mean square after means and confounds are subtracted; with
        `center` this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of X and of Y, together with the means if
        `center`.

    Raises
    ------
    InvalidProblem
        Ridges, bands, weights of bands or folds do not fit the data.
    InvalidOption
        The splitter is of no known type.

    Notes
    -----
    Residual: the largest ‖D Xᵀ(y − X w) − r D⁻¹w‖ / ‖D Xᵀy‖ over the targets, with D = diag(√γ), for the r and γ that
    were chosen for the target.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 30))
    >>> Y = X[:, :10] @ rng.standard_normal((10, 4)) + 3 * rng.standard_normal((300, 4))
    >>> problem = ls.RidgeManyTargets(X, Y, ridges=[1, 10, 100], bands=["signal"] * 10 + ["noise"] * 20)
    >>> solution = ls.solve(problem)
    >>> bool(solution.band_weights[:, 0].mean() > 0.8), solution.coefficients([0]).shape
    (True, (30, 1))
    """

    X: Any = ls.matrix("data")
    Y: Any = ls.matrix("targets", like="X", vector=True)
    ridges: Any = ls.setting(RIDGES, several=True, help="Candidates, above 0.")
    bands: Any = None
    band_weights: Any = ls.setting(
        None, int, kw_only=True, help="How many settings of weights of bands are tried."
    )
    splitter: Any = ls.setting(5, int, kw_only=True, help="Folds of successive rows.")
    groups: Any = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    center: bool = ls.flag(True, "Fit an intercept, which no ridge shrinks; sparse data stay sparse.")
    scale: bool = ls.flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "ridge-many-targets"
    command: ClassVar[Mapping[str, Any]] = {
        "bands": ls.setting(None, int, several=True, help="The number of columns of each band, in order.")
    }
    tolerance: ClassVar[float] = 1e-8

    band_names: ClassVar[tuple[str, ...]]
    band_of: ClassVar[HostArray]
    settings: ClassVar[HostArray]
    splits: ClassVar[Any]
    _sums: ClassVar[Sums | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared is not None:
            raise InvalidProblem(
                "RidgeManyTargets needs the moments of each fold; got moments of all rows. Pass the data themselves."
            )
        names, band_of = checked_bands(self.bands, self.X.shape[1], self.column_names.get("X"))
        self._keep(
            ridges=checked_ridges(self.ridges),
            band_names=names,
            band_of=band_of,
            settings=checked_weights(self.band_weights, len(names), self.seed),
        )
        self.check_labels({"splitter": self.splitter, "groups": self.groups})
        self._split()

    @classmethod
    def from_command(cls, matrices: Sequence[Any], values: dict[str, Any]) -> Self:
        """Construct the problem with a label for each column, of the numbers of columns that a command takes."""
        counts = values.pop("bands", None)
        labels = [f"band{i + 1}" for i, count in enumerate(counts or ()) for _ in range(count)]
        values["bands"] = labels or None
        return cls(*matrices, **values)

    def _keep(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _split(self) -> None:
        """Make the folds, so that faults of them end in an error before data are read."""
        n, splitter = min(A.shape[0] for A in self.matrices.values()), self.splitter
        if _is_count(splitter) and self.groups is None and n != np.inf and 2 <= splitter <= n:
            sizes = [len(rows) for rows in np.array_split(np.arange(n), splitter)]
            splitter = np.repeat(np.arange(splitter), sizes)
        found = folds_of(splitter, n, groups=self.groups, rng=self.seed)
        w = self.sample_weight
        for number, split in enumerate(found.splits):
            for rows, what in zip(split, ("training", "held-out"), strict=True):
                if w is not None and not w[rows].any():
                    raise InvalidProblem(
                        f"the {what} rows of split {number} all have weight 0. Pass fewer folds, or other labels."
                    )
        self._keep(splits=found, _sums=None)

    def check_held(self) -> None:
        """Refuse rows that stand for others: folds hold out rows as they came."""
        raise InvalidProblem(
            "RidgeManyTargets holds out rows, which HeldMoments does not keep. Take HeldMoments(linspec.LeastSquares), "
            "and choose the ridge by linspec.cross_validate(..., method='gcv')."
        )

    def on_rows(self, numbers: HostArray) -> Self:
        """Return the problem on some rows. Folds that were given row by row stay; others are made anew."""
        twin = super().on_rows(numbers)
        if self.groups is not None:
            groups = to_host(self.groups) if is_array(self.groups) else np.asarray(self.groups)
            twin._keep(groups=groups[numbers])
        if not _is_count(self.splitter) and not callable(getattr(self.splitter, "split", None)):
            sides = [
                [np.flatnonzero(np.isin(numbers, side)) for side in split] for split in self.splits.splits
            ]
            twin._keep(splitter=[tuple(pair) for pair in sides if all(len(side) for side in pair)])
        twin._split()
        return twin

    @property
    def unadjusted(self) -> Any:
        """The problem with its weights, means, confounds and scale, which solvers get within the matrices."""
        return self if self.given is None else self.given

    @property
    def certificate_products(self) -> float:
        """The products of the law: one sweep, or for coefficients as factors a reading of X and one of Y."""
        return 2

    def sums(self, moments: ls.Moments) -> Sums:
        """Return the moments of the cells of all folds: computed by one sweep, and kept."""
        if self._sums is None:
            given, folds = self.unadjusted, self.splits

            def read() -> Any:
                rows = given.with_matrices({name: _with_rows(A) for name, A in given.matrices.items()})
                cells, whole, _ = cells_of(rows, folds, diagonal=True)
                self._keep(_sums=Sums(given, cells, whole))
                return whole

            moments.learn_from(read)
        found: Any = self._sums
        return found  # type: ignore[no-any-return]

    def rows_of(self, name: str) -> HostArray:
        """Return the rows of a matrix, adjusted, as a dense array on the host."""
        return to_host(self.matrices[name].dense())

    def rows_given(self, name: str) -> HostArray:
        """Return the rows of a matrix as they were given, as a dense array on the host."""
        _, ledger = uncounted(self.matrices[name])
        return to_host(CountedOperator(self.unadjusted.matrices[name], ledger).dense())

    @property
    def lone_rows(self) -> bool:
        """Whether some fold has only one held-out row that counts."""
        w = self.unadjusted.sample_weight
        held_out = (rows for _, rows in self.splits.splits)
        return any(len(rows) == 1 if w is None else np.count_nonzero(w[rows]) == 1 for rows in held_out)

    @property
    def loses_confounds(self) -> bool:
        """Whether confounds differ by so little that their squares lose it, and the rows keep it."""
        given = self.unadjusted
        Z = given.confounds
        if Z is None:
            return False
        Z = Z - Z[:1] * bool(given.center)
        roots = np.ones((len(Z), 1)) if given.sample_weight is None else np.sqrt(given.sample_weight)[:, None]
        Z = np.hstack([np.ones((len(Z), int(given.center))), Z]) * roots
        s = np.linalg.svd(Z * reciprocal(np.linalg.norm(Z, axis=0)), compute_uv=False)
        share = s[s > COLLINEAR * s[0]].min() / s[0]
        return bool(share**2 * DIGITS < EPS)

    def note(self, run: ls.Run, best: Choice) -> None:
        """Note how targets are scored, and targets whose scores may be rounding."""
        folds, m = len(self.splits.splits), len(best.ridges)
        out, pooled = np.flatnonzero(best.left_out), np.flatnonzero(best.pooled)
        if out.size:
            text = f"{out.size} of {m} targets do not vary in some folds, the first is target {out[0]} in "
            run.note(None, text + f"{best.left_out[out[0]]} of {folds}: their R² leave these folds out.")
        if pooled.size:
            why = "fold has a single row" if self.lone_rows else "target varies within no fold"
            text = f"The R² of {pooled.size} of {m} targets are of the held-out rows of all folds together, because a "
            run.note(None, text + f"{why}.")
        if self.loses_confounds:
            text = "The confounds depend on each other so nearly that held-out R² lose digits. Subtract a constant "
            run.note(Status.ILL_CONDITIONED, text + "from each of them, or leave some out.")
        lost = np.flatnonzero(best.rounding > DIGITS * np.maximum(1.0, np.abs(best.scores)))
        if lost.size:
            text = f"Rounding may change the held-out R² of {lost.size} of {len(best.ridges)} targets, the first is "
            text += f"target {lost[0]}, by more than {DIGITS:g}, and so the choice of its ridge. Pass larger ridges, "
            run.note(Status.ILL_CONDITIONED, text + "or scale=True.")

    def conclude(  # type: ignore[override]  # each law names the arrays that it takes
        self,
        moments: ls.Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        weights: Array,
        ridges: Any,
        band_weights: Any,
        scores: Any,
        mixing: Array | None = None,
        least: Any = None,
    ) -> ls.Conclusion:
        """Compute the residual of the normal equations of each target, for its own ridge and weights of bands.

        Parameters
        ----------
        moments : Moments
        terms : Terms
        weights : array of shape (p, m), or (p, n) with `mixing`
            Coefficients, or the rows of X.
        ridges, band_weights, scores : numpy.ndarray of shape (m,), (m, bands), (m,)
            What was chosen for each target, and its mean R² on held-out rows.
        mixing : array of shape (n, m), optional
            The numbers a with w = γ ∘ Xᵀa.
        least : numpy.ndarray of shape (m,), optional
            The smallest eigenvalue of D XᵀX D + r that the solver has inverted, by default r.

        Returns
        -------
        Conclusion
        """
        (n, p), m, home = self.X.shape, self.Y.shape[1], self.X.home
        ridges, scores, gammas = (
            np.asarray(to_host(each), dtype=np.float64) for each in (ridges, scores, band_weights)
        )
        wanted = {"ridges": (m,), "scores": (m,), "band_weights": (m, len(self.band_names))}
        wanted |= {"weights": (p, m)} if mixing is None else {"weights": (p, n), "mixing": (n, m)}
        given = {
            "weights": weights,
            "mixing": mixing,
            "ridges": ridges,
            "scores": scores,
            "band_weights": gammas,
        }
        for name, shape in wanted.items():
            if tuple(given[name].shape) != shape:
                raise BrokenPlugin(f"{name} must have shape {shape}; got {tuple(given[name].shape)}.")
        returned = home.place(weights, self.X.dtype)
        if mixing is None:
            law = self._of_columns(moments, np.asarray(to_host(returned), dtype=np.float64))
        else:
            mixing = home.place(mixing, self.X.dtype)
            law = self._of_rows(to_host(returned).T, np.asarray(to_host(mixing), dtype=np.float64))
        gammas_there = np.maximum(gammas, 0.0)
        parts = [
            law(block, ridges[block], gammas_there[block])
            for block in blocks_of(m, p if mixing is None else n)
        ]
        gaps, lengths, sizes = (np.concatenate(each) for each in zip(*parts, strict=True))
        floor = self._floor(moments) * np.sqrt(gammas_there.max(axis=1))
        ratios = [ratio(gap, max(size, low)) for gap, size, low in zip(gaps, sizes, floor, strict=True)]
        off = reciprocal(lengths * (ridges if least is None else least)) * gaps * (sizes > floor)
        return self.concluded(
            moments,
            float(max(ratios)),
            findings=_findings(off, scores),
            kind="" if self._sums is None else "from-gram",
            weights=returned,
            mixing=mixing,
            ridges=ridges,
            band_weights=gammas,
            scores=scores,
            band_of=self.band_of,
            band_names=self.band_names,
            vector=self.vector,
        )

    def _of_columns(self, moments: ls.Moments, W: HostArray) -> Law:
        """Return the law for coefficients, by the sums of the folds if they are there, or else by a product."""
        if self._sums is None:
            products = moments.products(moments.home.place(W), cross=True)
            SW, C = to_host(products[0]), to_host(products.cross)

        def law(block: slice, ridges: HostArray, gammas: HostArray) -> tuple[HostArray, HostArray, HostArray]:
            d, w = np.sqrt(gammas).T[self.band_of], W[:, block]
            if self._sums is None:
                image, cross = SW[:, block], C[:, block]
            else:
                whole = self._sums.of_all(block).training
                image, cross = whole["X", "X"] @ w, whole["X", "Y"]
            w = w * np.where(d > 0, reciprocal(d), 1.0)
            return lengths_of(d * (cross - image) - ridges * w), lengths_of(w), lengths_of(d * cross)

        return law

    def _of_rows(self, X: HostArray, duals: HostArray) -> Law:
        """Return the law for w = γ ∘ Xᵀa: D Xᵀ(y − X w) − r D⁻¹w is D Xᵀe with e = y − K a − r a."""
        if not np.array_equal(X, self.rows_of("X")):
            raise BrokenPlugin("weights must be the rows of X, transposed, where mixing is handed over.")
        kernels, Y = (
            band_kernels(X.astype(np.float64), X, self.band_of, len(self.band_names)),
            self.rows_of("Y"),
        )

        def law(block: slice, ridges: HostArray, gammas: HostArray) -> tuple[HostArray, HostArray, HostArray]:
            y, a, found = Y[:, block].astype(np.float64), duals[:, block], np.empty((3, len(ridges)))
            settings, numbers = np.unique(gammas, axis=0, return_inverse=True)
            for number, gamma in enumerate(settings):
                mine, K = numbers.ravel() == number, sum_of(kernels, gamma)
                Ka = K @ a[:, mine]
                e = y[:, mine] - Ka - ridges[mine] * a[:, mine]
                for row, left, right in ((0, e, K @ e), (1, a[:, mine], Ka), (2, y[:, mine], K @ y[:, mine])):
                    found[row, mine] = np.sqrt(np.maximum(np.einsum("ij,ij->j", left, right), 0.0))
            return found[0], found[1], found[2]

        return law

    def _floor(self, moments: ls.Moments) -> HostArray:
        """Estimate the rounding of Xᵀy for each target: a product below it is zero."""
        known = moments.columns.known_diagonals()
        if known is None:
            return np.zeros(self.Y.shape[1])
        subtracted = moments.columns.squares_subtracted(1)
        of_x, of_y = (to_host(each) for each in known)
        squares = of_y if subtracted is None else of_y + to_host(subtracted)
        size = np.sqrt(float(of_x.sum())) * np.sqrt(squares)
        found: HostArray = 10 * float(np.finfo(self.X.dtype).eps) * size
        return found


def _is_count(splitter: Any) -> bool:
    """Whether a splitter is a number of folds."""
    return isinstance(splitter, int | np.integer) and not isinstance(splitter, bool)


Law = Callable[[slice, HostArray, HostArray], tuple[HostArray, HostArray, HostArray]]
"""For a block of targets, their ridges and weights of bands: the lengths of the residual, of D⁻¹w and of D Xᵀy."""


def lengths_of(V: HostArray) -> HostArray:
    """Return the lengths of columns."""
    found: HostArray = np.linalg.norm(V, axis=0)
    return found


def _findings(off: HostArray, scores: HostArray) -> tuple[tuple[Status | None, str], ...]:
    """Report targets whose coefficients may be wrong, and targets that never vary on held-out rows."""
    findings: list[tuple[Status | None, str]] = []
    wrong, still = np.flatnonzero(off > ERROR), np.flatnonzero(np.isnan(scores))
    if wrong.size:
        text = f"The coefficients of {wrong.size} of {len(off)} targets, the first is target {wrong[0]}, may have a "
        text += f"relative error above {ERROR:g}, which the residual does not show. Pass larger ridges, or scale=True."
        findings.append((Status.ILL_CONDITIONED, text))
    if still.size:
        text = f"{still.size} of {len(off)} targets do not vary on held-out rows, the first is target {still[0]}: "
        findings.append((None, text + "they have no score, and the first candidate."))
    return tuple(findings)


def _with_rows(A: Any) -> Any:
    """The operator, which the pass counts; one that is known by products has its entries in memory."""
    A, _ = uncounted(A)
    return ls.as_operator(A.matmat(A.home.blocks.eye(A.shape[1]))) if A.access == "products" else A
