"""Random cases, each from a seed and the number of a trial.

Problem: solvers fail on data that nobody tried: one short direction, columns that are nearly copies, a view
that is a noisy copy of the other, 1e-80, labels as bytes, means that are a million times the spread.
Method: a case is drawn in steps: shape, spectrum, correlations, copies and dependent columns, scales, means,
weights, confounds, units, dtypes, kinds of data, ridge, k, tol. Each step may leave the data unchanged.
`draw(seed, trial)` draws from ``numpy.random.default_rng([seed, trial])``, so the two numbers repeat a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec import targets
from linspec.arrays import HostArray
from linspec.kernels import laplacian, linear, polynomial, rbf
from linspec.testing import testing_of
from linspec_fuzz.problems import TARGETS, Case, Matrix, families_here

__all__ = ["draw"]

ORDINARY, BEYOND = (10, 25, 40, 50, 57), (63, 70, 100, 160, 250)
"""Exponents of the powers of ten by which entries are multiplied: within the range that linspec accepts, and beyond."""

KERNELS = ("kernel-cca", "preimage-cca", "kernel-ridge")
"""The families of kernels."""

VIEWS = ("multiset-cca", "sumcor-cca")
"""The families of several views."""

TARGETED = (
    "least-squares",
    "pls-regression",
    "reduced-rank-regression",
    "ridge-many-targets",
    "kernel-ridge",
)
"""The families that predict columns."""

TERMS = ("least-squares", "svd", "cca", "discriminant", "pls", *VIEWS, *TARGETED[1:4])
"""The families with weights, confounds and scale."""

STUDIED = (
    "least-squares",
    "svd",
    "cca",
    "pls",
    "multiset-cca",
    "pls-regression",
    "reduced-rank-regression",
    "kernel-ridge",
)
"""The families whose held-out rows are scored, too."""

COMMON_KINDS = (
    "fortran", "strided", "csr", "csc", "products", "npy", "npy", "slices", "slices", "blocks", "blocks",
    "operator", "scaled", "array-api-strict",
)  # fmt: skip


def draw(seed: int, trial: int, families: tuple[str, ...] | None = None) -> Case:
    """Draw the case of a trial.

    Parameters
    ----------
    seed, trial : int
    families : tuple of str, optional
        The families of the cases, in turn; by default all that have an oracle and available solvers.

    Returns
    -------
    Case
    """
    families = families_here() if families is None else families
    family = families[trial % len(families)]
    rng = np.random.default_rng([seed, trial])
    drawing = _Draw(rng, family, (seed, trial))
    return drawing.case() if hasattr(drawing, drawing.maker) else drawing.recorded()


class _Draw:
    """The state while one case is drawn."""

    def __init__(self, rng: np.random.Generator, family: str, seed: tuple[int, int]) -> None:
        self.rng, self.family, self.seed = rng, family, seed
        self.notes: list[str] = []
        self.folds = family in STUDIED and self.chance(0.3)
        self.n, self.p, self.q = self._shape()
        self.units = ""

    @property
    def maker(self) -> str:
        """The name of the method that makes data of the family, if there is one."""
        return "_data_of_" + self.family.replace("-", "_")

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def power(self, low: float, high: float) -> float:
        """Draw 10^U(low, high)."""
        return float(10 ** self.rng.uniform(low, high))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def case(self) -> Case:
        main = self._main()
        data = getattr(self, self.maker)(main)
        center = self._center()
        if self.chance(0.06):
            again = self.rng.integers(0, max(self.n // 2, 1), self.n)
            data = {name: M[again] for name, M in data.items()}
            self.note("repeated rows")
        data = self._spoiled(data, center)
        data = self._scaled(data)
        if self.chance(0.25 if center else 0.08 * (not self.folds)):
            data = self._shifted(data)
        terms: dict[str, Any] = {}
        if self.family in TERMS:
            terms = {"sample_weight": self._weights(), "scale": self.chance(0.2)}
            data, terms["confounds"] = self._confounded(data)
        elif self.family == "kernel-ridge":
            terms = {"sample_weight": self._weights()}
        if self.family == "multiset-cca" and self.chance(0.4):
            data, terms["present"] = self._absent(data)
        terms = {name: value for name, value in terms.items() if value is not None and value is not False}
        labels = self._labels()
        if self.folds:
            data, terms = self._spoiled_fold(data, terms, labels)
        elif self.chance(0.3):
            data, terms = self._in_units(data, terms)
        matrices = self._wrapped(data)
        wide = all(matrix.entries.dtype == np.float64 for matrix in matrices.values())
        tol = self.power(-10, -4) if wide and self.chance(0.1) else None
        entries = {name: matrix.entries.astype(np.float64) for name, matrix in matrices.items()}
        parameters = self._parameters(entries, center, terms)
        if self.family == "ridge-many-targets":
            parameters["splitter"] = labels
        study = self._study(labels, parameters) if self.folds else {}
        parameters |= terms
        return Case(self.family, matrices, parameters, tol, self.seed, tuple(self.notes), self.units, study)

    def recorded(self) -> Case:
        """Draw a planted case of the family's record, perhaps in other coordinates and another kind of data."""
        testing = testing_of(self.family)
        planted = self.pick(*testing.cases())
        self.note(f"planted: {planted.name}")
        if self.chance(0.6):
            planted = testing.moved(planted, self.power(-3, 3), int(self.rng.integers(1000)))
            self.note("in other coordinates")
        matrices = {
            name: Matrix(
                array,
                "ndarray"
                if array.ndim == 1 or name in testing.companions or self.chance(0.5)
                else self.pick(*COMMON_KINDS[:-1]),
            )
            for name, array in planted.arrays.items()
        }
        return Case(self.family, matrices, planted.parameters, None, self.seed, tuple(self.notes))

    # ---- shapes and spectra -------------------------------------------------------------------

    def _shape(self) -> tuple[int, int, int]:
        r = self.rng
        kind = self.pick("tall", "tall", "tall", "tall", "square", "wide", "tiny", "large")
        if self.folds:
            return int(r.integers(6, 28)), int(r.integers(1, 6)), int(r.integers(1, 5))
        if self.family in KERNELS:
            return int(r.integers(4, 45)), int(r.integers(1, 7)), int(r.integers(1, 6))
        if self.family in (*VIEWS, "ridge-many-targets", "pls-regression"):
            kind = "tall" if kind == "large" else kind
        if kind == "tall":
            p, q = int(r.integers(1, 15)), int(r.integers(1, 12))
            return int(r.integers(max(p, q) + 2, 150)), p, q
        if kind == "square":
            p = int(r.integers(2, 15))
            return p, p, int(r.integers(1, p + 1))
        if kind == "wide":
            return int(r.integers(3, 14)), int(r.integers(6, 30)), int(r.integers(2, 20))
        if kind == "tiny":
            return int(r.integers(1, 7)), int(r.integers(1, 3)), int(r.integers(1, 3))
        return int(r.integers(80, 160)), int(r.integers(20, 60)), int(r.integers(5, 30))

    def _orthonormal(self, n: int, k: int) -> HostArray:
        Q: HostArray = np.linalg.qr(self.rng.standard_normal((n, k)))[0]
        return Q

    def _spectrum(self, m: int) -> HostArray:
        """Draw singular values from 1 downwards, and note the condition number."""
        kappa = self.power(0, 5 if self.folds else 14) if self.chance(0.5) else self.power(0, 3)
        kind = self.pick("geometric", "one short", "gap", "clusters", "flat", "repeated")
        s: HostArray = np.ones(m)
        if kind == "geometric":
            s = np.geomspace(1, 1 / kappa, m)
        elif kind == "one short":
            s = np.linspace(1, 0.3, m)
            s[-1] = 1 / kappa
        elif kind == "gap":
            s[int(self.rng.integers(0, m)) :] = 1 / kappa
            s *= np.linspace(1, 0.5, m)
        elif kind == "clusters":
            s = np.geomspace(1, 1 / min(kappa, 1e6), max(m // 3, 1)).repeat(3)[:m]
            s = np.concatenate([s, np.full(m - len(s), s[-1])]) * (1 + 1e-9 * self.rng.standard_normal(m))
        elif kind == "repeated":
            s = np.repeat(np.geomspace(1, 1 / min(kappa, 1e4), m), 2)[:m]
        if kind != "flat":
            self.note(f"{kind} spectrum, kappa {kappa:.1e}")
        return np.sort(s)[::-1]

    def _main(self) -> tuple[HostArray, HostArray, HostArray]:
        """Draw U, s, V of the main matrix."""
        m = min(self.n, self.p)
        U = self._orthonormal(self.n, m)
        V = (
            np.eye(self.p)[:, self.rng.permutation(self.p)[:m]]
            if self.chance(0.2)
            else self._orthonormal(self.p, m)
        )
        return U, self._spectrum(m), V

    # ---- families -----------------------------------------------------------------------------

    def _data_of_svd(self, main: Any) -> dict[str, HostArray]:
        U, s, V = main
        return {"A": (U * s) @ V.T * np.sqrt(self.n)}

    def _data_of_least_squares(self, main: Any) -> dict[str, HostArray]:
        U, s, V = main
        A = (U * s) @ V.T * np.sqrt(self.n)
        m = 1 if self.chance(0.5) else int(self.rng.integers(1, 5))
        kind = self.pick("planted x", "planted x", "noise alone", "in the shortest direction", "consistent")
        if kind == "in the shortest direction":
            B = np.outer(U[:, -1], np.ones(m)) + 0.01 * self.rng.standard_normal((self.n, m))
        elif kind == "noise alone":
            B = self.rng.standard_normal((self.n, m))
        else:
            B = A @ self.rng.standard_normal((self.p, m))
            B = B + (0.1 * self.rng.standard_normal(B.shape) if kind == "planted x" else 0)
        self.note(f"targets: {kind}")
        return {"A": A, "B": B[:, 0] if m == 1 and self.chance(0.6) else B}

    def _data_of_cca(self, main: Any) -> dict[str, HostArray]:
        U, s, V = main
        X = (U * s) @ V.T
        my = min(self.n, self.q)
        rho = self._correlations(min(len(s), my))
        order = np.arange(len(s))
        where = self.pick("long", "shortest", "any")
        order = {"long": order, "shortest": order[::-1], "any": self.rng.permutation(order)}[where]
        noise = self.rng.standard_normal((self.n, my))
        noise -= U @ (U.T @ noise)
        # If X spans the whole space, no noise is left.
        basis = np.linalg.qr(noise)[0] if self.n > len(s) + my else self._orthonormal(self.n, my)
        shared = U[:, order[: len(rho)]] * rho
        basis[:, : len(rho)] = shared + basis[:, : len(rho)] * np.sqrt(1 - rho**2)
        Y = (basis * self._spectrum(my)) @ self._orthonormal(self.q, my).T
        self.note(f"correlations {np.array2string(rho[:4], precision=4)} in the {where} directions of X")
        return {"X": X * np.sqrt(self.n), "Y": Y * np.sqrt(self.n)}

    def _data_of_kernel_cca(self, main: Any) -> dict[str, HostArray]:
        U, s, V = main
        # The oracle of preimages differentiates by steps, which short directions make inexact.
        X = (U * np.maximum(s, 0.1 if self.family == "preimage-cca" else 1e-3)) @ V.T * np.sqrt(self.n)
        Y = self.rng.standard_normal((self.n, self.q))
        size = max(float(np.abs(X).max(initial=0.0)), 1e-300)
        for j, relation in zip(range(min(self.p, self.q)), (np.sin, np.square, np.tanh), strict=False):
            Y[:, j] = relation(3 * X[:, j] / size) + self.power(-2, 0) * Y[:, j]
        return {"X": X, "Y": Y}

    _data_of_preimage_cca = _data_of_kernel_ridge = _data_of_kernel_cca
    _data_of_pls = _data_of_cca

    def _data_of_pls_regression(self, main: Any) -> dict[str, HostArray]:
        A, B = self._data_of_least_squares(main).values()
        return {"X": A, "Y": B}

    _data_of_ridge_many_targets = _data_of_pls_regression

    def _data_of_reduced_rank_regression(self, main: Any) -> dict[str, HostArray]:
        data = self._data_of_pls_regression(main)
        return {**data, "Y": data["Y"].reshape(self.n, -1)}

    def _data_of_multiset_cca(self, main: Any) -> dict[str, HostArray]:
        X, Y = self._data_of_cca(main).values()
        Z = X @ self.rng.standard_normal((self.p, int(self.rng.integers(1, 5))))
        Z = Z + self.power(-3, 1) * np.sqrt(np.mean(Z**2)) * self.rng.standard_normal(Z.shape)
        return {"X1": X, "X2": Y, "X3": Z} if self.chance(0.8) else {"X1": X, "X2": Y}

    _data_of_sumcor_cca = _data_of_multiset_cca

    def _correlations(self, m: int) -> HostArray:
        kind = self.pick("spread", "spread", "one", "repeated", "cluster", "small", "ones", "none")
        rho = {
            "spread": np.linspace(0.95, 0.05, m),
            "one": np.concatenate([[0.88], np.zeros(m - 1)]),
            "repeated": np.repeat([0.9, 0.5, 0.2], m)[: 3 * m : 3] if m > 3 else np.full(m, 0.7),
            "cluster": 0.8 - self.power(-6, -2) * np.arange(m),
            "small": self.power(-6, -2) * np.linspace(1, 0.1, m),
            "ones": np.concatenate([np.ones(1), np.linspace(0.9, 0.1, m)])[:m],
            "none": np.zeros(m),
        }[kind]
        clipped: HostArray = np.clip(rho, 0, 1)
        return clipped

    def _data_of_discriminant(self, main: Any) -> dict[str, HostArray]:
        U, s, V = main
        X = (U * s) @ V.T * np.sqrt(self.n)
        t = min(self.q, 8)
        kind = self.pick("classes", "classes", "random", "in the shortest direction", "labels", "labels")
        kind = kind if self.n > 1 else "random"
        if kind == "classes":
            t = max(t, 2)
            labels = self.rng.integers(0, t, self.n)
            counts = np.bincount(labels, minlength=t)
            H = (labels[:, None] == np.arange(t)) / np.sqrt(np.maximum(counts, 1))
            if self.chance(0.3):
                H = (H > 0).astype(float)
            spread = np.sqrt(np.mean(X**2, axis=0))
            X = X + spread * (self.rng.standard_normal((t, self.p)) * self.power(-2, 0))[labels]
        elif kind == "random":
            H = self.rng.standard_normal((self.n, t))
        elif kind == "labels":
            H = self._of_labels(t)
        else:
            H = np.outer(U[:, -1], self.rng.standard_normal(t)) + 0.1 * self.rng.standard_normal((self.n, t))
        self.note(f"targets: {kind}")
        return {"X": X, "H": H}

    def _of_labels(self, t: int) -> HostArray:
        """Draw targets from random labels; some labels may be nearly equal, and one row has all labels."""
        Y = (self.rng.random((self.n, t)) < self.rng.uniform(0.1, 0.7, t)).astype(float)
        if t > 1 and self.chance(0.4):
            Y[:, 1] = Y[:, 0]
            Y[int(self.rng.integers(self.n)), 1] = 1.0
        Y[0], Y[1] = 0.0, 1.0
        make = self.pick(targets.lda, targets.opls, targets.cca, targets.hsl)
        self.note(f"labels by {make.__name__}")
        if make is targets.lda:
            classes = self.rng.integers(0, t + 1, self.n)
            classes[:2] = 0, 1
            Y = np.eye(t + 1)[classes]
            Y = Y[:, Y.any(axis=0)]
        H: HostArray = make(Y)
        return H

    def _center(self) -> bool:
        if self.family in KERNELS:
            return self.chance(0.8)
        if self.family == "least-squares":
            return self.chance(0.35)
        return self.chance(0.35 if self.family == "svd" else 0.7)

    # ---- difficult data -----------------------------------------------------------------------

    def _spoiled(self, data: dict[str, HostArray], center: bool) -> dict[str, HostArray]:
        """Make data more difficult: copies, dependent or constant columns, a view that is nearly the other."""
        names = [name for name in data if name not in TARGETS and data[name].ndim > 1]
        name = names[int(self.rng.integers(len(names)))]
        M = data[name].copy()
        n, p = M.shape
        kind = self.pick("none", "none", "none", "near copy", "copy", "rank", "zero", "tiny copy", "sparse")
        if self.family == "preimage-cca" and kind in ("near copy", "copy", "rank"):
            return data  # steps of its oracle would be along null directions
        if kind == "tiny copy" and self.family == "cca":
            return self._tiny_copy(data)
        if kind == "near copy" and p > 1:
            off = self.power(-12, -5)
            i, j = self.rng.permutation(p)[:2]
            M[:, j] = M[:, i] + off * np.linalg.norm(M[:, i]) / np.sqrt(n) * self.rng.standard_normal(n)
            self.note(f"column {j} of {name} is column {i} but for {off:.1e}")
        elif kind == "copy" and p > 1:
            i, j = self.rng.permutation(p)[:2]
            M[:, j] = M[:, i]
            self.note(f"column {j} of {name} is column {i}")
        elif kind == "rank" and min(n, p) > 1:
            r = int(self.rng.integers(1, min(n, p)))
            # Small integers times columns rounded to few bits: exactly dependent, even after rounding.
            base = np.round(M[:, :r] / np.abs(M).max() * 2**12) / 2**12
            M = base @ self.rng.integers(-2, 3, (r, p))
            self.note(f"{name} has rank {r}")
        elif kind == "zero":
            M[:, int(self.rng.integers(p))] = 1.0 if center and self.chance(0.5) else 0.0
            self.note(f"a constant column in {name}")
        elif kind == "sparse":
            M[np.abs(M) < np.quantile(np.abs(M), self.pick(0.5, 0.8))] = 0.0
            self.note(f"small entries of {name} are zero")
        return {**data, name: M}

    def _tiny_copy(self, data: dict[str, HostArray]) -> dict[str, HostArray]:
        """Make the last column of Y its first column plus a little of X."""
        X, Y = data["X"], data["Y"].copy()
        small = self.power(-11, -4)
        x = X[:, 0] / max(np.linalg.norm(X[:, 0]), 1e-300)
        noise = self.rng.standard_normal(len(x)) / np.sqrt(len(x))
        Y[:, -1] = Y[:, 0] + small * np.linalg.norm(Y[:, 0]) * (x + 0.1 * noise)
        self.note(f"the last column of Y is its first and {small:.1e} of X")
        return {**data, "Y": Y}

    def _scaled(self, data: dict[str, HostArray]) -> dict[str, HostArray]:
        found = {}
        for name, M in data.items():
            if name not in TARGETS and self.family in TERMS and self.chance(0.1):
                span = 2 if self.folds else self.pick(2, 8)
                M = M * 10 ** self.rng.uniform(-span, span, M.shape[1:])
                self.note(f"columns of {name} scaled by 10^U(-{span}, {span})")
            found[name] = M
        return found

    def _in_units(
        self, data: dict[str, HostArray], terms: dict[str, Any]
    ) -> tuple[dict[str, HostArray], dict[str, Any]]:
        """Multiply all matrices, one matrix, a column, a row, the weights or the confounds by a power of ten."""
        low = self.family in KERNELS
        inside = low or self.chance(0.6)
        power = self.pick(*(5, 10, 20, 27) if low else ORDINARY if inside else BEYOND) * self.pick(-1, 1)
        if not inside and self.chance(0.1):
            power = -self.pick(305, 308, 315)  # the entries are subnormal, or some are
        names = list(data)
        self.units = self.pick(
            "all", "matrix", "matrix", "column", "row", *terms.keys() & {"sample_weight", "confounds"}
        )
        if self.units in ("sample_weight", "confounds"):
            name, self.units = self.units, {"sample_weight": "weights"}.get(self.units, self.units)
            # Roots of weights count.
            factor = 10.0 ** min(2 * power if name == "sample_weight" else power, 300)
            self.note(f"{self.units} times {factor:.0e}")
            return data, {**terms, name: terms[name] * factor}
        chosen = names if self.units == "all" else [self.pick(*names)]
        found = dict(data)
        for name in chosen:
            M = found[name].copy()
            size = float(np.abs(M).max(initial=0.0)) or 1.0
            where: Any = ...
            if self.units == "column" and M.ndim > 1:
                where = (slice(None), int(self.rng.integers(M.shape[1])))
            elif self.units == "row":
                where = self.pick(len(M) - 1, int(self.rng.integers(len(M))))
            factor = 10.0 ** min(power, 300 - np.log10(size))
            M[where] = M[where] * factor
            self.note(
                f"{'a ' + self.units + ' of ' if self.units in ('column', 'row') else ''}{name} times {factor:.0e}"
            )
            found[name] = M
        return found, terms

    # ---- weights and confounds ----------------------------------------------------------------

    def _weights(self) -> HostArray | None:
        if not self.chance(0.3):
            return None
        kind = self.pick("uniform", "zeros", "counts", "skewed", "one heavy", "equal")
        w: HostArray = self.rng.uniform(0.5, 2, self.n)
        if kind == "counts":
            w = self.rng.poisson(self.pick(0.7, 2.0), self.n).astype(float)
        elif kind == "zeros":
            w *= self.rng.random(self.n) < 0.6
        elif kind == "skewed":
            w = 10 ** self.rng.uniform(-3, 3, self.n)
        elif kind == "one heavy":
            w[int(self.rng.integers(self.n))] = self.power(2, 5)
        elif kind == "equal":
            w = np.full(self.n, self.power(-6, 6))
        if not w.any():
            w[0] = 1.0
        self.note(f"{kind} weights")
        return w

    def _confounded(self, data: dict[str, HostArray]) -> tuple[dict[str, HostArray], HostArray | None]:
        """Draw confounds, and make data depend on them."""
        if not self.chance(0.3):
            return data, None
        c = int(self.rng.integers(1, min(4, max(self.n - 1, 1)) + 1))
        Z = self.rng.standard_normal((self.n, c))
        kind = self.pick("plain", "plain", "means", "means", "copies", "constant", "near copies", "scales")
        if kind == "means":
            Z = Z + self.power(0, 9.5)
        elif kind == "copies" and c > 1:
            Z[:, -1] = 2 * Z[:, 0]
        elif kind == "constant":
            Z[:, 0] = self.pick(1.0, 1 / 3, 1e4 / 3)
        elif kind == "near copies" and c > 1:
            Z[:, -1] = Z[:, 0] + self.power(-7, -3) * Z[:, -1]
        elif kind == "scales":
            Z = Z * 10 ** self.rng.uniform(-8, 8, c)
        self.note(f"{c} confounds: {kind}")
        found = {}
        sizes = np.sqrt(np.mean(Z**2, axis=0))
        for name, M in data.items():
            if self.chance(0.6) and name != "H":
                strength = self.power(-1, 3)
                slopes = self.rng.standard_normal((c, *M.shape[1:])) / np.sqrt(c)
                own = np.sqrt(np.mean(M**2, axis=0))
                M = M + (Z / sizes) @ slopes * own * strength
                self.note(f"{name} depends on them, {strength:.1e} times its size")
            found[name] = M
        return found, Z[:, 0] if c == 1 and self.chance(0.5) else Z

    def _shifted(self, data: dict[str, HostArray]) -> dict[str, HostArray]:
        names = [name for name in data if name != "H"]
        name = names[int(self.rng.integers(len(names)))]
        M = data[name]
        shift = self.power(0, 3 if self.family in KERNELS else 8)
        size = float(np.abs(M).max(initial=0.0)) or 1.0  # squares of 1e200 are no numbers
        spread = size * np.sqrt(np.mean((M / size - np.mean(M / size, axis=0)) ** 2, axis=0))
        self.note(f"means of {name} are {shift:.1e} times the spread")
        return {**data, name: M + shift * spread * self.rng.uniform(0.5, 1, M.shape[1:])}

    # ---- dtypes and kinds ---------------------------------------------------------------------

    def _wrapped(self, data: dict[str, HostArray]) -> dict[str, Matrix]:
        kind = (
            "float64"
            if self.folds or self.chance(0.7) or (self.units and not self._within_single(data))
            else self.pick("float32", "narrow", "mixed", "mixed")
        )
        strict = self.chance(0.03)
        once = self.chance(0.04) and not self.folds and self.family in TERMS  # an iterator can be read once
        found = {}
        for name, M in data.items():
            dtype = self._dtype(kind, name)
            entries = self._rounded(M, dtype)
            wrap = "ndarray" if self.chance(0.6) else self.pick(*COMMON_KINDS[: 3 if self.folds else -1])
            if strict and dtype.startswith("float"):
                wrap = "array-api-strict"
            elif strict:
                entries, wrap = M, "array-api-strict"
            if once and M.ndim > 1 and not strict:
                wrap = "iterator"
            if name == "H" and wrap in ("csr", "csc") and self.chance(0.5):
                wrap = "factored"
            if M.ndim == 1 and wrap not in ("ndarray", "array-api-strict"):
                wrap = "ndarray"
            found[name] = Matrix(entries, wrap)
        dtypes = sorted({str(matrix.entries.dtype) for matrix in found.values()})
        if dtypes != ["float64"]:
            self.note(f"dtypes {', '.join(dtypes)}")
        return found

    @staticmethod
    def _within_single(data: Mapping[str, HostArray]) -> bool:
        """Whether float32 represents all matrices, without underflow."""
        return all(1e-30 < float(np.abs(M).max(initial=0.0)) < 1e30 for M in data.values())

    def _dtype(self, kind: str, name: str) -> str:
        narrow = self.pick("int8", "uint8", "bool", "int16", "int64", "float32")
        main = name in ("A", "X", "X1")
        mixed = "float64" if main else narrow
        return str({"float64": "float64", "float32": "float32", "narrow": narrow, "mixed": mixed}[kind])

    def _rounded(self, M: HostArray, dtype: str) -> HostArray:
        """Convert entries to a dtype: integers from -100 to 100, uint8 from 0 to 200, bools by sign."""
        if dtype == "float64":
            return M
        if dtype == "float32":
            return M.astype(np.float32)
        unit = M / max(np.abs(M).max(), 1e-300)
        if dtype == "bool":
            return np.asarray(unit > 0)
        low = 100 if dtype == "uint8" else 0
        return np.asarray(np.round(100 * unit) + low).astype(dtype)

    # ---- numbers ------------------------------------------------------------------------------

    def _ridge(self, M: HostArray) -> float:
        """Draw a ridge: 0, or a multiple of the mean squared length of a column."""
        size = float(np.abs(M).max()) if M.size else 0.0
        if self.chance(0.5) or not 1e-120 < size < 1e120:
            return 0.0
        unit = size**2 * float(np.mean(np.sum((M / size) ** 2, axis=0)))
        kind, share = self.pick(
            ("tiny", self.power(-11, -6)), ("moderate", self.power(-4, 0)), ("huge", self.power(2, 6))
        )
        self.note(f"{kind} ridge")
        return float(share * unit)

    def _adjusted(self, M: HostArray, center: bool, terms: Mapping[str, Any]) -> HostArray:
        """Return the matrix weighted, centred, with confounds removed and scaled, in float64.

        Ridges are drawn relative to this matrix.
        """
        w = terms.get("sample_weight", np.ones(len(M)))
        M = M[:, None] if M.ndim == 1 else M
        roots = np.sqrt(w / w.max())[:, None]
        if center:
            M = M - np.average(M, axis=0, weights=w / w.max())
        M = roots * M
        if terms.get("confounds") is not None:
            Z = np.asarray(terms["confounds"]).reshape(len(M), -1)
            Z = Z / np.maximum(np.abs(Z).max(axis=0), 1e-300)
            Q = np.linalg.qr(roots * np.column_stack([np.ones(len(M)), Z]))[0]
            M = M - Q @ (Q.T @ M)
        if terms.get("scale"):
            size = np.abs(M).max(axis=0)
            M = M / np.where(size > 0, size, 1.0)
        found: HostArray = M * np.sqrt(w.max())
        return found

    def _parameters(  # noqa: PLR0911 (a family each)
        self, data: Mapping[str, HostArray], center: bool, terms: Mapping[str, Any]
    ) -> dict[str, Any]:
        if self.family == "kernel-ridge":
            return self._kernel_ridge(data["X"], center)
        if self.family in KERNELS:
            return self._kernels(center)
        with np.errstate(all="ignore"):
            plain = {name: self._adjusted(M, center, terms) for name, M in data.items()}
        if self.family == "least-squares":
            ridge: Any = self._ridge(plain["A"])
            if ridge and not self.folds and self.chance(0.2):
                ridge = (ridge, 10 * ridge, 0.0)[: int(self.rng.integers(2, 4))]
            return {"ridge": ridge, "center": center}
        sizes = [self.n, *(M.shape[1] for M in data.values() if M.ndim > 1)]
        if self.family == "pls-regression":
            sizes = sizes[:2]
        limit = sum(sizes[1:]) if self.family == "multiset-cca" else min(sizes)
        limit = min(limit, self.n, 3 if self.folds else limit)
        k = 1 if self.chance(0.3) else int(self.rng.integers(1, limit + 1))
        found: dict[str, Any] = {"k": k, "center": center}
        if self.family == "svd":
            return {**found, "left": self.chance(0.2)}
        if self.family in ("discriminant", "reduced-rank-regression"):
            found["k"] = None if self.family == "discriminant" and self.chance(0.15) else k
            return {**found, "ridge": self._ridge(plain["X"])}
        if self.family == "ridge-many-targets":
            return self._many(plain["X"], center)
        if self.family in ("pls", "pls-regression"):
            return found
        if self.family in VIEWS:
            return self._several(plain, k, center)
        rx = self._ridge(plain["X"])
        ry = self._ridge(plain["Y"]) if rx else 0.0
        # With one ridge for views of different scales the correlations would be only rounding.
        alike = rx > 0 and 1e-3 < ry / rx < 1e3
        ridge = (rx, rx) if alike and self.chance(0.5) else (rx, ry)
        return {**found, "ridge": ridge if ridge[0] != ridge[1] else ridge[0]}

    def _many(self, X: HostArray, center: bool) -> dict[str, Any]:
        size = max(float(np.abs(X).max(initial=0.0)), 1e-100)
        unit = size * min(size, 1e100) * float(np.mean(np.sum((X / size) ** 2, axis=0)))
        bands = np.sort(self.rng.integers(0, 2, self.p) * self.chance(0.4)).tolist()
        bands = bands if 0 in bands else [0] * self.p
        settings = [[1.0, 1.0], [1.0, 0.05], [0.0, 1.0]] if 1 in bands else [[1.0]]
        ridges = tuple(unit * self.power(-11 if self.chance(0.1) else -4, 2) for _ in range(self.pick(1, 3)))
        return {"ridges": ridges, "bands": bands, "band_weights": settings, "center": center}

    def _several(self, views: Mapping[str, HostArray], k: int, center: bool) -> dict[str, Any]:
        ridges = tuple(self._ridge(X) for X in views.values())
        ridges = ridges if all(ridges) else (0.0,) * len(views)
        found = {"k": k, "ridge": ridges if ridges[0] else 0.0, "center": center}
        if self.family == "multiset-cca" and self.chance(0.3):
            found["view_weights"] = tuple(self.power(-1, 1) for _ in views)
        return found

    def _kernel_ridge(self, X: HostArray, center: bool) -> dict[str, Any]:
        scale = float(np.sqrt(2 * np.sum(np.var(X, axis=0)))) or 1.0
        kernel = self.pick(
            linear(),
            rbf(self.pick(0.5, 1.0, 3.0) * scale),
            laplacian(scale),
            polynomial(2, 1.0, 1 / scale**2),
        )
        size = float(np.mean(np.sum(X**2, axis=1))) if kernel == linear() else 1.0
        ridge = (size or 1.0) * self.n * self.power(-9 if self.chance(0.2) else -4, 0)
        return {
            "kernel": kernel,
            "ridge": ridge if self.folds or self.chance(0.7) else (ridge, 10 * ridge),
            "center": center,
        }

    # ---- folds and absent rows ----------------------------------------------------------------

    def _absent(self, data: dict[str, HostArray]) -> tuple[dict[str, HostArray], list[HostArray]]:
        """Draw masks of the rows that each view has; anything may stand in the others."""
        masks = [self.rng.random(self.n) < self.pick(0.6, 0.9) for _ in data]
        for mask in masks:
            mask[int(self.rng.integers(self.n))] = True
        self.note("absent rows")
        return {
            name: np.where(mask[:, None], M, 7 * M[:1])
            for (name, M), mask in zip(data.items(), masks, strict=True)
        }, masks

    def _labels(self) -> HostArray:
        """Draw the fold of each row: folds of any sizes, one of one row, or all of one row."""
        kind = self.pick("folds", "folds", "a fold of one row", "leave-one-out")
        labels: HostArray = self.rng.permutation(self.n) % self.pick(2, 3, 5)
        if kind == "a fold of one row":
            labels[0] = 9
        if kind == "leave-one-out" and self.n < 20:
            labels = np.arange(self.n)
        if self.folds or self.family == "ridge-many-targets":
            self.note(kind)
        return labels

    def _spoiled_fold(self, data: dict[str, HostArray], terms: dict[str, Any], labels: HostArray) -> Any:
        """Make rows of a fold count nothing, or its targets constant."""
        kind, there = self.pick("", "", "weigh nothing", "are constant"), labels == labels[0]
        if kind == "weigh nothing" and not there.all() and "present" not in terms and self.family != "svd":
            terms = {**terms, "sample_weight": np.where(there, 0.0, 1.0)}
        elif kind == "are constant" and self.family in TARGETED:
            last = list(data)[-1]
            M = data[last].copy()
            M[there] = self.pick(0.0, 4.3, 98.6)
            data = {**data, last: M}
        else:
            return data, terms
        self.note(f"held-out rows of a fold {kind}")
        return data, terms

    def _study(self, labels: HostArray, parameters: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"splitter": labels}
        if self.family in TARGETED and self.family != "kernel-ridge":
            found["score"] = "r2"
        ridge = parameters.get("ridge")
        if isinstance(ridge, float) and ridge > 0 and self.chance(0.5):
            found["ridges"] = (ridge, 10 * ridge)
        if "k" in parameters:
            found["ks"] = tuple(range(1, parameters["k"] + 1))
        return found

    def _kernels(self, center: bool) -> dict[str, Any]:
        """Draw kernels with scales from the rows, so that their values do not depend on units."""
        k = int(self.rng.integers(1, max(min(5, self.n - 2), 1) + 1))
        smooth = (
            rbf(factor=self.pick(0.5, 1.0, 2.0)),
            polynomial(self.pick(1, 2, 3), self.pick(0.0, 0.5, 1.0)),
        )
        if self.family == "preimage-cca":
            # The scale of a Gaussian kernel is in units of the data, and both views have the same kernel.
            kernel = self.pick(linear(), linear(), polynomial(2, 0.0), linear() if self.units else rbf(2.0))
            bound = self.pick(None, None, ("ratio", 1.5)) if self.p > 2 and self.q > 2 else None
            return {"k": min(k, 2), "kernel_x": kernel, "bound_x": bound, "center": center}
        kernel = self.pick(*smooth, laplacian(factor=self.pick(1.0, 2.0)))
        found = {"k": k, "kernel_x": kernel, "center": center}
        if self.chance(0.3):
            found["kernel_y"] = self.pick(*smooth)
        ridge = self.n * self.power(-6, 0)
        return {**found, "ridge": ridge if self.chance(0.6) else (ridge, self.n * self.power(-4, 0))}
