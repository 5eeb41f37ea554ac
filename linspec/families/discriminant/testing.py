"""Planted test cases of discriminants, and an independent computation of the exact solutions and the law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray
from linspec.errors import MissingCapability
from linspec.operators import as_operator
from linspec.testing.family import KINDS, ProblemTesting
from linspec.testing.operators import ProductsOnly
from linspec.testing.oracle import (
    ROUNDING,
    Law,
    Reading,
    as_host,
    centred,
    precision,
    ratio,
    shift_of,
)
from linspec.testing.problems import (
    Case,
    Values,
    as_integers,
    constant_columns,
    geometric,
    in_other_coordinates,
    offset,
    orthonormal,
    single,
    unrelated,
    zeroed,
    zeroed_columns,
)
from linspec.testing.solving import Subject, attempt


def planted_discriminant(  # noqa: PLR0913
    n: int,
    p: int,
    t: int,
    eigenvalues: Values,
    k: int | None,
    *,
    values: Values | None = None,
    ridge: float = 0.0,
    center: bool = True,
    seed: int = 0,
    name: str = "planted",
    gentle: bool = True,
) -> Case:
    """Construct data and targets with known discriminant eigenvalues.

    Parameters
    ----------
    n, p, t : int
        Rows, columns of X, columns of H.
    eigenvalues : sequence of float
        The nonzero eigenvalues, with the ridge of the problem: at most t, and at most as many as X has
        singular values.
    k : int or None
        The number of directions to compute.
    values : sequence of float, optional
        The nonzero singular values of the (centred) X; by default p ones.
    ridge : float, default 0.0
    center : bool, default True
        Whether the problem centres. If so, X and H get column means.
    seed : int, default 0
        The seed of the random matrices.
    name : str, default "planted"
        The name of the case.
    gentle : bool, default True
        Whether an iterative solver must reach its tolerance on the case: see `Case`.

    Returns
    -------
    Case
        ``truth["eigenvalues"]`` holds the k largest of `eigenvalues`; all of them if k is None or above their number.

    Examples
    --------
    >>> import linspec as ls
    >>> from linspec.testing import planted_discriminant
    >>> case = planted_discriminant(60, 5, 3, [0.8, 0.4], k=2)
    >>> ls.solve(ls.Discriminant(**case.arrays, **case.parameters), "direct").eigenvalues.round(6)
    array([0.8, 0.4])
    """
    rng = np.random.default_rng([seed, n, p, t])
    s = np.ones(p) if values is None else np.asarray(values, dtype=np.float64)
    found = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    U, V = orthonormal(rng, n, len(s), centered=center), orthonormal(rng, p, len(s))
    P, Q = orthonormal(rng, len(s), len(found)), orthonormal(rng, t, len(found))
    # Noise orthogonal to X, about as large as the part of H in its range.
    unseen = rng.standard_normal((n, t)) * np.sqrt(found.sum() / (n * t))
    unseen -= U @ (U.T @ unseen) + center * unseen.mean(axis=0)
    X, H = (U * s) @ V.T, U @ ((np.sqrt(s**2 + ridge) / s)[:, None] * P * np.sqrt(found)) @ Q.T + unseen
    if center:
        X, H = X + rng.standard_normal(p), H + rng.standard_normal(t)
    return Case(
        name=name,
        problem="discriminant",
        arrays={"X": X, "H": H},
        parameters={"k": k, "ridge": ridge, "center": center},
        truth={"eigenvalues": found[:k]},
        gentle=gentle,
    )


def _discriminant_cases() -> list[Case]:
    make = planted_discriminant
    found = (5.0, 2.0, 1.0, 0.4)
    mild: dict[str, Any] = {"values": geometric(3, 1, 8)}
    low: dict[str, Any] = {"values": geometric(3, 1, 6)}
    steep: dict[str, Any] = {"values": geometric(300, 1, 8)}
    tall = make(60, 8, 6, found, 3, **mild, name="tall")
    none = {"eigenvalues": np.zeros(0)}
    return [
        tall,
        make(20, 30, 5, found, 3, values=geometric(3, 1, 19), name="wide"),
        make(20, 30, 5, found, 3, values=geometric(3, 1, 19), ridge=0.7, name="wide-ridge"),
        make(15, 15, 5, found, 3, values=geometric(3, 1, 15), center=False, name="square"),
        make(90, 8, 5, found, 3, **steep, name="decaying", gentle=False),
        make(90, 8, 5, found, 3, **steep, ridge=1e4, name="decaying-ridge"),
        make(90, 8, 5, found, 3, values=geometric(1e6, 1, 8), name="ill-conditioned", gentle=False),
        make(60, 8, 5, found, 3, name="flat"),
        make(50, 10, 5, found, 3, **low, name="rank-deficient"),
        make(50, 10, 5, found, 3, **low, ridge=0.5, name="rank-deficient-ridge"),
        make(50, 10, 5, found[:3], 3, **low, name="k-equals-rank"),
        make(50, 10, 5, found[:3], 5, **low, name="k-above-rank"),
        make(50, 10, 5, found[:3], 5, **low, ridge=0.5, name="k-above-rank-ridge"),
        make(50, 10, 5, found[:3], None, **low, name="k-by-rank"),
        make(50, 8, 6, found[:3], None, **mild, ridge=0.5, name="k-by-rank-ridge"),
        make(50, 8, 5, (4, 4, 4, 1), 3, **mild, name="repeated"),
        make(50, 8, 5, (4, 2, 2, 1), 2, **mild, name="repeated-at-k"),
        zeroed_columns(make(40, 6, 5, found, 2), "zero-columns", "X", "H"),
        constant_columns(make(40, 6, 5, found, 2), "constant-columns"),
        make(60, 8, 5, found, 1, **mild, name="k-one"),
        make(60, 8, 4, found, 4, **mild, name="k-all"),
        make(40, 1, 3, (2.0,), 1, name="one-column"),
        make(60, 8, 1, (2.0,), 1, **mild, name="one-target"),
        make(1, 4, 2, (2.0,), 1, values=[2.0], center=False, name="one-row"),
        replace(zeroed(tall, "H"), name="zero-targets", truth=none),
        replace(
            tall,
            arrays={**tall.arrays, "H": np.tile([3.0, 0.1, 7.0], (60, 1))},
            name="constant-targets",
            truth=none,
        ),
        replace(unrelated(tall), name="unrelated", truth=none),
        replace(zeroed(tall, "X"), name="zero-data", truth=none),
        make(2, 4, 3, (2.0,), 1, values=[2.0], name="two-rows"),
        replace(
            make(60, 8, 5, found, 3, **mild, name="badly-scaled", gentle=False),
            arrays={**tall.arrays, "X": tall.main * geometric(1e-3, 1e3, 8)},
        ),
        make(60, 8, 6, found, 3, **mild, center=False, name="no-centring"),
        make(60, 8, 6, found, 3, **mild, ridge=2.0, name="ridge"),
        replace(offset(tall, "X"), name="offset"),
        replace(offset(tall, "H"), name="offset-targets"),
        tall.with_arrays(single, "float32"),
        replace(offset(tall, "X"), name="float32-offset").with_arrays(single, "float32-offset"),
        make(60, 8, 6, found, 3, **mild, ridge=2.0).with_arrays(single, "float32-ridge"),
        replace(tall, name="float32-data", arrays={**tall.arrays, "X": single(tall.main)}, truth={}),
        as_integers(tall, "int8", "int8"),
        as_integers(tall, "int64", "int64"),
        as_integers(tall, "bool", "bool"),
        _classes(3, "classes"),
        _classes(4, "classes-all"),
        _classes(None, "classes-by-rank"),
        _labels(),
        tall.with_arrays(lambda x: x * 1e15, "large-units"),
        tall.with_arrays(lambda x: x * 1e-15, "small-units"),
        # With this many columns and targets a basis of a few times k vectors does not span the whole space.
        make(110, 90, 40, geometric(9, 0.1, 40), 2, values=geometric(3, 1, 90), name="many-columns"),
        make(60, 100, 40, geometric(9, 0.1, 40), 2, values=geometric(3, 1, 50), name="many-columns-wide"),
    ]


def _classes(k: int | None, name: str) -> Case:
    """LDA targets of four classes of unequal size; they have rank three, because X is centred."""
    case = planted_discriminant(60, 8, 4, (3.0, 2.0, 1.0), k, values=geometric(3, 1, 8), name=name)
    members = np.repeat(np.eye(4), (30, 15, 10, 5), axis=0)
    return replace(case, arrays={**case.arrays, "H": members / np.sqrt(members.sum(axis=0))}, truth={})


class DiscriminantOracle:
    """The exact eigenpairs of XᵀHHᵀX w = λ M w with M = XᵀX + ridge·I for a case, and the residuals of solutions.

    The eigenpairs come from two singular value decompositions: X = U S Vᵀ, and S (S² + ridge)^(-1/2) UᵀH = P diag(t) Qᵀ
    with the vector t of singular values. Then λ = t², and W = V (S² + ridge)^(-1/2) P. The method `law` recomputes the
    residual of a solution.
    """

    def __init__(self, case: Case, reading: Reading) -> None:
        center, self.ridge = (
            bool(case.parameters.get("center", True)),
            float(case.parameters.get("ridge", 0.0)),
        )
        X, H = case.arrays["X"].astype(np.float64), case.arrays["H"].astype(np.float64)
        given = precision(case)
        shifts = (shift_of(X), shift_of(H)) if center else (1.0, 1.0)
        self.unit = reading.rounding(given, max(shifts) if reading.readable else shifts[0] * shifts[1])
        self.X: HostArray = centred(X) if center else X
        self.H: HostArray = centred(H) if center else H
        U, s, Vt = np.linalg.svd(self.X, full_matrices=False)
        self.rank = int(np.sum(s > max(X.shape) * given * s[0]))
        U, s, self.V = U[:, : self.rank], s[: self.rank], Vt[: self.rank].T
        self.shrunk = np.sqrt(s**2 + self.ridge)
        self.least = float(self.shrunk[-1] ** 2) if self.rank else 1.0
        if self.ridge and self.rank < X.shape[1]:
            self.least = self.ridge
        self.size = float(self.shrunk[0] ** 2) if self.rank else self.ridge
        self.condition = max(self.size / self.least, 1.0)
        self.targets = float(np.linalg.norm(self.H, 2))
        P, t, _ = np.linalg.svd((s / self.shrunk)[:, None] * (U.T @ self.H), full_matrices=False)
        known = int(np.sum(t > ROUNDING * given * math.sqrt(self.condition) * self.targets))
        wanted = case.parameters["k"]
        self.count = known if wanted is None else min(int(wanted), known)
        self.k = self.count if wanted is None else int(wanted)
        self.eigenvalues, self.P = t[: self.count] ** 2, P[:, : self.count]
        after = float(t[self.count] ** 2) if self.count < len(t) else 0.0
        self.gap = float(self.eigenvalues[-1]) - after if self.count else 0.0

    @property
    def weights(self) -> HostArray:
        """The exact weights."""
        exact: HostArray = self.V @ (self.P / self.shrunk[:, None])
        return exact

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave, estimated as a third of its upper bound from `_floor`.

        The bound adds the largest possible rounding errors of all steps; usually these errors partly cancel.
        """
        return self._floor(self.weights, self.eigenvalues) / 3

    def _image(self, W: HostArray) -> HostArray:
        image: HostArray = self.X.T @ (self.H @ (self.H.T @ (self.X @ W)))
        return image

    def _metric(self, W: HostArray) -> HostArray:
        product: HostArray = self.X.T @ (self.X @ W) + self.ridge * W
        return product

    def _floor(self, W: HostArray, values: HostArray) -> float:
        """Bound of the residual caused by rounding; the rounding of C = XᵀH is relative to ‖X‖‖H‖."""
        C = float(np.linalg.norm(self.X.T @ self.H, 2))
        spread = C * math.sqrt(self.size) * self.targets * float(np.linalg.norm(W))
        spread += self.size * float(np.linalg.norm(W * values))
        return ROUNDING * self.unit * ratio(spread, float(np.linalg.norm(self._image(W))))

    def law(self, solution: Any) -> Law:
        """Recompute the residual ‖CCᵀW − MWΛ‖ / ‖CCᵀW‖ of a solution, for C = XᵀH.

        The norm is ‖R‖² = tr RᵀM⁻¹R if the `residual_kind` of the solution is "exact", otherwise the Frobenius norm.
        `Law.most` is ‖C − MWWᵀC‖ / ‖C‖ in the chosen norm, the error of the span of W. If `Law.most` is larger than the
        residual, the solution may report any number up to `Law.most`.
        """
        W, values = as_host(solution.weights), as_host(solution.eigenvalues)
        exact, floor = solution.residual_kind == "exact", self._floor(W, values)
        C: HostArray = self.X.T @ self.H
        image, MW = self._image(W), self._metric(W)
        parts = [image - MW * values, image, C - MW @ (W.T @ C), C]
        if exact:
            parts, floor = [self._halved(part) for part in parts], floor * math.sqrt(self.condition)
        gap, size, lacking, whole = (float(np.linalg.norm(part)) for part in parts)
        return Law(ratio(gap, size), floor, most=ratio(lacking, whole))

    def _halved(self, R: HostArray) -> HostArray:
        """M^(-1/2) R up to a rotation: its columns have the lengths of those of R in the norm of M⁻¹."""
        inside = self.V.T @ R
        found: HostArray = inside / self.shrunk[:, None]
        if self.ridge > 0:
            found = np.vstack([found, (R - self.V @ inside) / math.sqrt(self.ridge)])
        return found

    def errors(self, solution: Any) -> list[str]:
        """Messages about errors of the solution that are larger than its residual explains."""
        order = np.argsort(-as_host(solution.eigenvalues), kind="stable")
        values, W = as_host(solution.eigenvalues)[order], as_host(solution.weights)[:, order]
        if len(values) != self.count:
            return [f"there are {self.count} directions to return; got {len(values)}"]
        if self.count == 0:
            return []
        rounding = ROUNDING * self.unit * self.condition
        law = self.law(solution)
        # The residual of the symmetric eigenproblem of M^(-1/2) CCᵀ M^(-1/2).
        off = (law.residual + law.floor) * float(np.linalg.norm(self._image(W))) / math.sqrt(self.least)
        off += rounding * self.targets**2
        found = []
        error = float(np.abs(values - self.eigenvalues).max())
        if not error <= off:
            found.append(f"an eigenvalue is wrong by {error:.2g}; the residual explains {off:.2g}")
        misfit = float(np.abs(W.T @ self._metric(W) - np.eye(self.count)).max())
        if not misfit <= 10 * rounding:
            found.append(
                "the weights must be orthonormal in their metric; the Gram matrix differs from I by "
                f"{misfit:.2g}"
            )
        if off < self.gap:
            angle = self._angle(W)
            if not angle <= 2 * off / self.gap:
                found.append(
                    f"the weights must span the leading space; the sine of the angle is {angle:.2g}, and the "
                    f"residual explains {2 * off / self.gap:.2g}"
                )
        outside = float(np.linalg.norm(W - self.V @ (self.V.T @ W)) / np.linalg.norm(W))
        if self.ridge == 0 and not outside <= rounding:
            found.append(
                f"the weights must lie in the span of the rows of X; a fraction {outside:.2g} lies outside"
            )
        return found

    def _angle(self, W: HostArray) -> float:
        """Sine of the angle between M^(1/2) W and the exact leading space."""
        root = np.vstack([self.X, math.sqrt(self.ridge) * np.eye(self.X.shape[1])])
        Q = np.linalg.qr(root @ W)[0]
        exact = root @ self.weights
        return float(np.linalg.norm(Q - exact @ (exact.T @ Q), 2))


def check_targets(subject: Subject) -> Iterator[str]:
    """Targets may be dense, sparse, or labels times a block, centred or not; the solution is the same for all."""
    rng = np.random.default_rng(4)
    plain = planted_discriminant(60, 8, 6, (3.0, 1.0), 2, values=np.geomspace(3, 1, 8), ridge=0.5)
    labels = (rng.random((60, 6)) < np.linspace(0.1, 0.6, 6)) * 1.0
    block = rng.standard_normal((6, 4))
    for center in (True, False):
        for what, (H, entries) in _targets(labels, block).items():
            case = replace(
                plain,
                arrays={"X": plain.main, "H": entries},
                parameters={**plain.parameters, "center": center},
                truth={},
            )
            where = f"targets as {what}{', centring' if center else ''}"
            yield from (f"{where}: {issue}" for issue in _target_issues(subject, case, H))


def _targets(labels: HostArray, block: HostArray) -> dict[str, tuple[Any, HostArray]]:
    """By description, targets in several forms, each with its entries."""
    mean = labels.mean(axis=0)
    dense, sparse = as_operator(labels), as_operator(scipy.sparse.csr_array(labels))
    last, product, about = as_operator(block), labels @ block, (labels - mean) @ block
    return {
        "sparse labels": (scipy.sparse.csr_array(labels), labels),
        "centred labels": (sparse.centered(mean), labels - mean),
        "entries": (product, product),
        "products": (ProductsOnly(product), product),
        "labels times a block": (dense @ last, product),
        "sparse labels times a block": (sparse @ last, product),
        "centred labels times a block": (sparse.centered(mean) @ last, about),
    }


def _target_issues(subject: Subject, case: Case, H: Any) -> Iterator[str]:
    oracle = DiscriminantOracle(case, Reading(readable=False, subtracted=True))
    for X in (case.main.copy(), scipy.sparse.csr_array(case.main)):
        result = attempt(case.state({"X": X, "H": H}), subject.for_case(case), rng=0)
        if isinstance(result.error, MissingCapability):
            continue  # the check "declared-needs" tests such solvers
        if result.error is not None:
            yield result.raised
            continue
        solution = result.solution
        if oracle.law(solution).contradicts(solution.residual, solution.residual_kind):
            yield (
                f"the solution claims residual {solution.residual:.3g}; the returned arrays have "
                f"{oracle.law(solution).residual:.3g}"
            )
        elif subject.must_converge(case) and not solution.converged:
            yield f"the solver must converge; got {solution.status.name}, residual {solution.residual:.2g}"
        elif solution.converged:
            yield from oracle.errors(solution)


def _shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    p = case.main.shape[1]
    mean = {"mean": (p,)} if case.parameters.get("center", True) else {}
    k = len(solution.eigenvalues)
    return {"weights": (p, k), "penalty": (k, k), **mean}


def _moved(case: Case, factor: float, seed: int) -> Case:
    """Return the case in other coordinates: X becomes `factor` X Q D, and H becomes `factor` H Q'.

    Q and Q' are random orthogonal matrices, and the diagonal matrix D stretches the columns. H has no such D, because
    stretching its columns would change the ratios of the eigenvalues.
    """
    return in_other_coordinates(case, factor, seed, rotated=("H",))


def _labels() -> Case:
    """A case with 0/1 targets: rows have several labels or none, and one label does not occur."""
    case = planted_discriminant(60, 8, 5, (3.0, 1.0), 3, values=geometric(3, 1, 8), ridge=1.0, name="labels")
    labels = np.random.default_rng(1).random((60, 5)) < (0.5, 0.4, 0.3, 0.1, 0.0)
    return replace(case, arrays={**case.arrays, "H": labels.astype(np.int8)}, truth={})


TESTING = ProblemTesting(
    cases=lambda: tuple(_discriminant_cases()),
    oracle=DiscriminantOracle,
    shapes=_shapes,
    moved=_moved,
    residual_kinds=KINDS | {"exact"},
    behaviour_checks={"targets": check_targets},
)
"""The conformance tests of discriminant solvers."""
