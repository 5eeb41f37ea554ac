"""Testing of problems whose answer is the leading part of a spectrum, from two functions of NumPy arrays.

Problem: each problem of this kind needs planted data, an oracle with the bounds of Wedin or of Davis and Kahan, and the
effect of other units; only the matrix whose spectrum is meant differs.
Method: an author gives `exact`, all values and vectors of the (centred) arrays, and `residual`, the law as it is
defined. The rank is cut at the rounding of products, values may be wrong by the residual, and spaces by the residual
over the gap, in the metric of the vectors. Data are views Xᵢ = Q √S Uᵢᵀ + Qᵢ Vᵢᵀ with orthonormal columns in Q, Qᵢ, Uᵢ
and Vᵢ: what is common to the views has the strengths S, and the rest of each view is orthogonal to the others.
Source: Wedin 1972, BIT 12, doi:10.1007/BF01932678; Davis & Kahan 1970, doi:10.1137/0707001.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linspec import registry
from linspec.arrays import HostArray
from linspec.testing.family import ProblemTesting
from linspec.testing.oracle import EPS, ROUNDING, Law, Reading, as_host, precision, shift_of
from linspec.testing.problems import Case, in_units, orthonormal

__all__ = ["Spectrum", "common_views", "spectral_testing"]

Views = Sequence[HostArray]


@dataclass(frozen=True)
class Spectrum:
    """All values and vectors of a problem, exact.

    Attributes
    ----------
    values : numpy.ndarray of shape (r,)
        In decreasing order.
    vectors : mapping of str to numpy.ndarray of shape (p, r)
        By the field of the answer that holds them, one for each value. A field of several views has them below each
        other.
    scale : float
        Size of the products from which the values are computed; their rounding is a fraction of it.
    metrics : mapping of str to numpy.ndarray of shape (p, p)
        By field, the matrix M in which its vectors are orthonormal; by default the identity. With None nothing is
        required of them.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import Spectrum
    >>> Spectrum(np.array([2.0, 1.0]), {"weights": np.eye(2)}, scale=2.0).values
    array([2., 1.])
    """

    values: HostArray
    vectors: Mapping[str, HostArray]
    scale: float
    metrics: Mapping[str, HostArray | None] = field(default_factory=dict)


def common_views(
    n: int,
    columns: Sequence[int],
    strengths: Sequence[float] | HostArray,
    *,
    own: int = 2,
    center: bool = True,
    seed: int = 0,
) -> list[HostArray]:
    """Make views that have variables in common, of known strengths.

    Parameters
    ----------
    n : int
    columns : sequence of int
        The number of columns of each view.
    strengths : sequence of float
        The singular values of XᵀY for any two of the views.
    own : int, default 2
        The number of variables that each view has alone.
    center : bool, default True
        Whether the variables are orthogonal to the constant; means are then added to the columns.
    seed : int, default 0

    Returns
    -------
    list of numpy.ndarray of shape (n, p)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import common_views
    >>> X, Y = common_views(30, (5, 4), [3.0, 1.0], center=False)
    >>> np.linalg.svd(X.T @ Y, compute_uv=False)[:2].round(6)
    array([3., 1.])
    """
    rng = np.random.default_rng([seed, n, *columns])
    s = np.sort(np.asarray(strengths, dtype=np.float64))[::-1]
    Q = orthonormal(rng, n, len(s) + own * len(columns), centered=center)
    size = np.sqrt(s.max(initial=0.0)) or 1.0
    found = []
    for i, p in enumerate(columns):
        common = (Q[:, : len(s)] * np.sqrt(s)) @ orthonormal(rng, p, len(s)).T
        alone = Q[:, len(s) + i * own : len(s) + (i + 1) * own] @ orthonormal(rng, p, own).T
        found.append(common + size * alone + rng.standard_normal(p) * center)
    return found


def _cases(problem: str, count: int, parameters: Mapping[str, Any]) -> tuple[Case, ...]:
    """Make the cases on which solvers of a problem of `count` views are tested.

    Each case has `count` views with common variables, and `parameters` as further arguments of the problem.
    """
    statement = registry.get_problem(problem).stated
    names = statement.matrix_names
    centring = "center" in statement.flags

    def case(name: str, n: int, columns: tuple[int, ...], strengths: Any, k: int, **more: Any) -> Case:
        center, gentle, own = (
            more.pop(key, usual) for key, usual in (("center", True), ("gentle", True), ("own", 2))
        )
        columns = (*columns, *columns[-1:] * count)[:count]
        views = common_views(n, columns, strengths, own=own, center=center and centring)
        several = statement.matrices[names[0]].several
        keys = tuple(f"X{i + 1}" for i in range(count)) if several else names
        numbers = {**parameters, "k": k, **({"center": center} if centring else {})}
        return Case(
            name=name,
            problem=problem,
            arrays=dict(zip(keys, views, strict=True)),
            parameters=numbers,
            gentle=gentle,
        )

    falling = np.geomspace(10, 0.1, 6)
    tall = case("tall", 60, (9, 7), falling, 3)
    found = [
        tall,
        case("wide", 20, (40, 30), np.geomspace(10, 0.1, 8), 3, own=1),
        case("decaying", 60, (8, 8), np.geomspace(1e3, 1e-3, 6), 4),
        case("slow", 120, (40, 30), np.linspace(1.2, 1, 25), 3, gentle=False),
        case("flat", 60, (9, 7), np.ones(5), 3),
        case("flat-beyond-the-block", 120, (40, 30), np.ones(25), 2),
        case("repeated", 60, (9, 7), (4, 4, 4, 1, 0.5), 3),
        case("k-equals-rank", 60, (9, 7), (4, 3, 2), 3),
        case("k-above-rank", 60, (9, 7), (4, 3, 2), 5),
        case("unrelated", 60, (9, 7), (), 2),
        case("k-one", 60, (9, 7), falling, 1),
        case("k-all", 60, (9, 8), falling, 6),
        case("few-columns", 40, (3, 2), (2.0,), 1, own=1),
    ]
    if centring:
        found.append(case("no-centring", 60, (9, 7), falling, 3, center=False))
        moved = {name: A + 1e4 * A.std(axis=0) for name, A in tall.arrays.items()}
        found.append(replace(tall, name="offset", arrays=moved, dense_offset=True))
    return (
        *found,
        tall.with_arrays(lambda A: A.astype(np.float32), "float32"),
        tall.with_arrays(lambda A: np.rint(100 * A / np.abs(A).max()).astype(np.int8), "int8"),
        tall.with_arrays(lambda A: np.median(A, axis=0) < A, "bool"),
        replace(in_units(tall, dict.fromkeys(tall.arrays, 1e12)), name="large-units"),
        replace(in_units(tall, dict.fromkeys(tall.arrays, 1e-12)), name="small-units"),
    )


class SpectralOracle:
    """The exact answer of a case, its law, and the errors that a residual permits.

    Parameters
    ----------
    case : Case
    reading : Reading
    exact, residual : callable
        As for `spectral_testing`.
    """

    def __init__(
        self,
        case: Case,
        reading: Reading,
        exact: Callable[[Views, Mapping[str, Any]], Spectrum],
        residual: Callable[[Views, Mapping[str, Any], Any], float],
    ) -> None:
        views = [A.astype(np.float64) for A in case.arrays.values()]
        center, given = bool(case.parameters.get("center", False)), precision(case)
        self.unit = reading.rounding(given, max(map(shift_of, views)) if center else 1.0)
        self.views = [A - A.mean(axis=0) if center else A for A in views]
        self.parameters, self._residual, self.k = case.parameters, residual, int(case.parameters["k"])
        self.all = exact(self.views, case.parameters)
        s = self.all.values
        self.rank = int(np.sum(s > 100 * given * self.all.scale))
        self.count = min(self.k, self.rank)
        self.values = s[: self.count]
        after = s[self.count] if self.count < len(s) else 0.0
        self.gap = float(s[self.count - 1] - after) if self.count else 0.0
        # The rounding of wᵀMw is that of |w|ᵀ|M||w|, which may be larger than wᵀMw = 1.
        known = {name: M for name, M in self.all.metrics.items() if M is not None}
        sizes = [
            np.einsum("ij,ij->j", W, np.abs(M) @ W).max(initial=1.0)
            for W, M in ((np.abs(self.all.vectors[name][:, : self.count]), M) for name, M in known.items())
        ]
        self.in_metric = float(max(sizes, default=1.0))

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        scale = self.all.scale * self.in_metric
        return ROUNDING * self.unit * scale / float(self.values[0]) if self.count else 0.0

    def law(self, solution: Any) -> Law:
        """Compute the residual of the returned arrays, and the part that rounding explains."""
        return Law(self._residual(self.views, self.parameters, _on_host(solution)), self.attainable)

    def errors(self, solution: Any) -> list[str]:
        """Describe errors of the answer that are larger than its own residual explains."""
        answer, layout = _on_host(solution), solution.layout
        s = getattr(answer, layout.value)
        if len(s) != self.count:
            return [f"there are {self.count} components to return; got {len(s)}"]
        if self.count == 0:
            return []
        found, law = [], self.law(solution)
        error = (np.sqrt(self.count) * law.residual + law.floor) * self.values[0]
        off = np.abs(s - self.values).max()
        if not off <= error:
            found.append(f"a {layout.value_label} is wrong by {off:.2g}; the residual explains {error:.2g}")
        for name, vectors in self.all.vectors.items():
            W, exact = getattr(answer, name), vectors[:, : self.count]
            M = self.all.metrics.get(name, np.eye(len(W)))
            crooked = 0.0 if M is None else np.abs(W.T @ M @ W - np.eye(self.count)).max()
            if not crooked <= ROUNDING * self.unit * (self.in_metric if name in self.all.metrics else 1.0):
                found.append(f"{name} must be orthonormal; the Gram matrix differs from I by {crooked:.2g}")
            if error < self.gap:
                angle, rounding = _sine(W, exact, self.all.metrics.get(name)), ROUNDING * self.unit
                if not angle <= 2 * error / self.gap + rounding * self.in_metric:
                    found.append(
                        f"{name} must span the leading space; the sine of the angle is {angle:.2g}, and the residual "
                        f"explains {2 * error / self.gap:.2g}"
                    )
        return found


def _sine(W: HostArray, exact: HostArray, metric: HostArray | None) -> float:
    """Compute the sine of the largest angle between two spans, in their metric unless that is singular."""
    size = np.ones(len(W)) if metric is None else np.sqrt(np.diag(metric))
    if metric is not None and size.min(initial=np.inf) > 0:
        values, vectors = np.linalg.eigh(metric / np.outer(size, size))
        if values[0] > len(W) * EPS * values[-1]:
            root = np.sqrt(values)[:, None] * vectors.T * size
            W, exact = root @ W, root @ exact
    W, exact = np.linalg.qr(W)[0], np.linalg.qr(exact)[0]
    return float(np.linalg.norm(W - exact @ (exact.T @ W), 2))


class _Answer:
    """The arrays of an answer on the host, by their names; vectors of several views below each other."""


def _on_host(solution: Any) -> Any:
    answer = _Answer()
    for name in (*solution.layout.leading, solution.layout.value):
        value = getattr(solution, name)
        host = (
            np.concatenate([as_host(part) for part in value]) if isinstance(value, tuple) else as_host(value)
        )
        setattr(answer, name, host)
    return answer


def spectral_testing(
    problem: str,
    exact: Callable[[Views, Mapping[str, Any]], Spectrum],
    residual: Callable[[Views, Mapping[str, Any], Any], float],
    *,
    views: int,
    parameters: Mapping[str, Any] | None = None,
    more: Sequence[Case] = (),
    **others: Any,
) -> ProblemTesting:
    """Make the testing of a problem whose answer is the leading part of a spectrum.

    Parameters
    ----------
    problem : str
        The name of the problem.
    exact : callable
        Takes the matrices of a case as float64 arrays, less their means if the case centres, and its parameters.
        Returns the `Spectrum`.
    residual : callable
        Takes the same arrays, the parameters, and the answer on the host, whose attributes are the declared vectors and
        values. Returns the residual by the law of the problem. An answer may be empty.
    views : int
        The number of matrices in a case.
    parameters : mapping, optional
        Further parameters of all cases, such as a ridge. In the cases the views share columns exactly: give a problem
        that whitens its views a ridge, or its answer is not unique.
    more : sequence of Case, optional
        Further cases.
    **others
        Further arguments of `ProblemTesting`, except `cases` and `oracle`.

    Returns
    -------
    ProblemTesting

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import Spectrum, spectral_testing
    >>> def exact(views, parameters):
    ...     _, s, Vt = np.linalg.svd(views[0])
    ...     return Spectrum(s, {"Vh": Vt.T}, scale=s[0])
    >>> testing = spectral_testing("svd", exact, lambda views, parameters, answer: 0.0, views=1)
    >>> testing.cases()[0].name
    'tall'
    """
    numbers = dict(parameters or {})
    return ProblemTesting(
        cases=lambda: (*_cases(problem, views, numbers), *more),
        oracle=lambda case, reading: SpectralOracle(case, reading, exact, residual),
        start_case=lambda: next(case for case in _cases(problem, views, numbers) if case.name == "slow"),
        **others,
    )
