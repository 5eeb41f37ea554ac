"""Random problems of every kind, each answer held to the equations of `truths`.

``python tests/fuzz.py --trials 1000 --seed 0`` tries a thousand; ``--first 17 --trials 1`` repeats trial 17. Random
solvers answer a case, or `linspec.cross_validate` scores its folds.

right    CONVERGED, and residual, value, lengths, means are within ten times what the answer claims
flagged  another status; APPROXIMATE within ten times its residual
refused  an error of linspec
silent   CONVERGED or APPROXIMATE, and wrong
foreign  another exception, a RuntimeWarning, or an error that calls finite data not finite or a solver broken
hang     no answer a minute after ten times the limit of seconds
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse
from backends import BACKENDS
from judging import judge, judge_folds
from planted import Case as Planted
from planted import orthonormal
from truths import TARGETS, Incomplete, Truth

import linspec as ls
from linspec import errors
from linspec.kernels import laplacian, linear, polynomial, rbf
from linspec.operators import CombinedColumns, as_operator
from linspec.workers import BlockOperator

FAILING = ("silent", "foreign", "hang")
NARROW = ("int8", "uint8", "bool", "int16", "int64", "float32")
VIEWS, KERNELS = ("multiset-cca", "sumcor-cca"), ("kernel-cca", "preimage-cca", "kernel-ridge", "deep-cca")
APART = ("incomplete-pca",)
"""Problems that take no preprocessing, and have a truth of their own."""
TERMS = tuple(problem for problem in ls.problems() if problem not in (*KERNELS, *APART))
DRAWN = (*TERMS, *KERNELS, *APART)
"""Problems of trials."""
SCORED = ("least-squares", "svd", "cca", "pls", "pls-regression", "reduced-rank-regression", "kernel-ridge")
UNFAIR = (errors.NonFiniteData, errors.DataOutOfRange, errors.BrokenPlugin, errors.InvalidDeclaration)
"""Errors that must not be raised here, where data are finite and in range, and solvers are registered."""


# ---- kinds of data ----------------------------------------------------------------------------


def strided(X: Any) -> Any:
    outer = np.zeros([2 * size for size in X.shape], X.dtype)
    outer[::2, ::2] = X
    return outer[::2, ::2]


def cut(X: Any) -> list[Any]:
    """Blocks of three and of seven rows, and one of a single row at the end."""
    edges = [0, *range(3, len(X) - 1, 7), len(X) - 1, len(X)]
    return [X[a:b].copy() for a, b in itertools.pairwise(edges) if b > a]


def windows(X: Any, lags: Any, epochs: Any) -> Any:
    """The rows at some lags side by side, zeros beyond an epoch, one row after the other."""
    Z = np.zeros((len(X), len(lags), X.shape[1]), X.dtype)
    runs = np.cumsum(np.append(True, epochs[1:] != epochs[:-1]))
    for t, (i, lag) in itertools.product(range(len(X)), enumerate(lags)):
        if 0 <= t - lag < len(X) and runs[t - lag] == runs[t]:
            Z[t, i] = X[t - lag]
    return Z.reshape(len(X), -1)


def stored(X: Any) -> Any:
    """Sparse rows with all entries but missing ones, zeros among them."""
    i, j = np.nonzero(~np.isnan(X))
    return scipy.sparse.csr_array((X[i, j], (i, j)), X.shape)


def in_dtype(X: Any, dtype: str) -> Any:
    """Entries in a dtype; integers count a hundredth of the largest entry, bools are signs."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        X = np.round(100 * X / (np.abs(X).max() or 1.0)) + 100 * (kind == "u")
    return (X > 0 if kind == "b" else X).astype(dtype)


SPARSE = [one.name for one in BACKENDS if one.name.startswith("scipy-") and one.sparse]
KINDS: dict[str, Callable[[Any], Any]] = {
    **{one.name: one.wrap for one in BACKENDS if one.name.startswith(("numpy", "scipy", "npy", "products"))},
    "fortran": np.asfortranarray,
    "strided": strided,
    "slices": lambda X: lambda: iter(cut(X)),
    "iterator": lambda X: iter(cut(X)),
    "blocks": lambda X: BlockOperator(cut(X)),
    "factored": lambda X: CombinedColumns(
        as_operator(X[:, ::-1].copy()), np.zeros(X.shape[1]), np.fliplr(np.eye(X.shape[1]))
    ),
    "lagged": lambda X: ls.lagged(X, [0]),
    "stored": stored,
}
"""Functions that wrap the entries of a matrix."""


@dataclass(frozen=True, eq=False)
class Case(Planted):
    """A problem on kinds of data, the tolerance of its solve, and the arguments of a cross-validation.

    Some matrices are windows of rows at lags, and the truth has all their entries.
    """

    kinds: Any = ()
    lagged: Any = ()
    tol: float | None = None
    study: Any = None
    notes: tuple[str, ...] = ()

    def state(self, data: Any = None) -> Any:
        kinds, data = dict(self.kinds), data or self.arrays
        lagged = {name: (KINDS[kind](X), *more) for name, kind, X, *more in self.lagged}
        wrapped = {name: KINDS[kinds.get(name, "numpy")](X) for name, X in data.items()}
        return super().state(wrapped | {name: ls.lagged(*given) for name, given in lagged.items()})

    def __str__(self) -> str:
        kinds = dict(self.kinds)
        shapes = [f"{name} {X.shape} {X.dtype} {kinds.get(name, '')}" for name, X in self.arrays.items()]
        plain = {name: np.shape(X) if np.size(X) > 9 else X for name, X in self.parameters.items()}
        folds = " in folds" if self.study else ""
        return f"{self.problem}{folds}: {'; '.join(shapes)}; {plain}, tol={self.tol}; {'; '.join(self.notes)}"


# ---- drawing ----------------------------------------------------------------------------------


class Draw:
    """The random choices of one case."""

    def __init__(self, seed: int, trial: int) -> None:
        self.rng, self.notes = np.random.default_rng([seed, trial]), list[str]()

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def power(self, low: float, high: float) -> float:
        return float(10 ** self.rng.uniform(low, high))

    def size(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, max(high, low) + 1))

    def spectrum(self, m: int, worst: float) -> Any:
        """Singular values from 1 downwards."""
        kappa = self.power(0, worst if self.chance(0.5) else min(worst, 3))
        kinds = {
            "graded": np.geomspace(1, 1 / kappa, m),
            "one short": np.append(np.linspace(1, 0.3, m - 1), 1 / kappa),
            "gap": np.where(np.arange(m) < self.size(1, m), 1, 1 / kappa) * np.linspace(1, 0.5, m),
            "clusters": np.geomspace(1, 1 / kappa, -(-m // 3)).repeat(3)[:m]
            * (1 + 1e-9 * self.rng.standard_normal(m)),
            "repeated": np.geomspace(1, 1 / kappa, -(-m // 2)).repeat(2)[:m],
            "flat": np.ones(m),
        }
        kind = self.pick(*kinds)
        self.notes.append(f"{kind} spectrum, kappa {kappa:.1e}")
        return np.sort(kinds[kind])[::-1]

    def matrices(self, problem: str, *, long: bool) -> dict[str, Any]:
        """The main matrix, and what goes with it: views, right-hand sides, labels."""
        shapes = {"tall": (self.size(12, 60), self.size(1, 9)), "wide": (self.size(4, 12), self.size(8, 20)),
                  "square": (9, 9), "tiny": (self.size(2, 6), self.size(1, 3)),
                  "large": (self.size(80, 140), self.size(12, 24))}  # fmt: skip
        n, p = shapes[self.pick("tall", "tall", "tall", "tall", *shapes)]
        n, p = (self.size(20, 200), self.size(1, 3)) if long and problem not in KERNELS else (n, p)
        q = self.size(1, 7)
        if problem in KERNELS:
            n, p = self.size(16, 40), min(p, 6)
        m = min(n, p)
        U, s = orthonormal(self.rng, n, m), self.spectrum(m, 2 if problem in KERNELS else 12)
        X = (U * s) @ orthonormal(self.rng, p, m).T * np.sqrt(n)
        order = self.pick(np.arange(m), np.arange(m)[::-1], self.rng.permutation(m))[: min(m, q)]
        rho = np.zeros(q)
        rho[: len(order)] = self.pick(np.linspace(0.95, 0.1, len(order)), self.power(-6, 0), 0.8, 0.999)
        related = np.zeros((n, q))
        related[:, : len(order)] = U[:, order]
        noise = np.linalg.svd(U)[0][:, m : m + q] if n >= m + q else orthonormal(self.rng, n, q)
        Y = related * rho + noise[:, :q] * np.sqrt(1 - rho**2) if n >= q else self.rng.standard_normal((n, q))
        if problem in KERNELS:
            Y += self.pick(np.sin, np.square, np.tanh)(3 * X[:, :1] / np.abs(X).max())
        if problem in ("svd", "sparse-pca"):
            return {"A": X}
        if problem == "incomplete-pca":
            return {"X": X if p > 1 else np.hstack([X, Y])[:, :2]}
        if problem == "least-squares":
            return {"A": X, "B": Y[:, 0] if self.chance(0.3) else Y}
        if problem == "discriminant":
            labels = self.rng.integers(0, q + 1, n)
            return {"X": X, "H": np.eye(q + 1)[labels][:, np.unique(labels)] if self.chance(0.5) else Y}
        if problem in VIEWS:
            Z = X @ self.rng.standard_normal((p, 3))
            Z = Z + self.power(-3, 1) * Z.std() * self.rng.standard_normal(Z.shape)
            return {"X1": X, "X2": Y, "X3": Z} if self.chance(0.8) else {"X1": X, "X2": Y}
        return {"X": X, "Y": Y * self.pick(1.0, self.spectrum(q, 3))}

    def spoiled(self, X: Any, center: bool) -> Any:
        """Columns that are copies or nearly so, dependent, constant, in other units, or far from zero."""
        (n, p), X = X.shape, X.copy()
        kind, last = self.pick("", "", "", "near copy", "copy", "dependent", "constant", "sparse"), p - 1
        if kind == "near copy" and p > 1:
            X[:, last] = X[:, 0] * (1 + self.power(-12, -5) * self.rng.standard_normal(n))
        elif kind == "copy" and p > 1:
            X[:, last] = X[:, 0]
        elif kind == "dependent" and p > 2:  # exactly, also after rounding
            X = np.round(X / np.abs(X).max() * 2**12) / 2**12
            X[:, last] = X[:, 0] - 2 * X[:, 1]
        elif kind == "constant":
            X[:, last] = 1.0 if center else 0.0
        elif kind == "sparse":
            X[np.abs(X) < np.quantile(np.abs(X), 0.6)] = 0.0
        self.notes.append(kind)
        return X

    def holes(self, X: Any) -> Any:
        """Missing entries: none, some of all or of some rows and columns, and rows or columns without any."""
        n, p = X.shape
        missing = self.rng.random(X.shape) < self.pick(0.0, 0.1, 0.3, 0.6)
        kind = self.pick("", "", "", "half", "a column", "rows", "steps")
        if kind == "half":
            missing &= (np.arange(n) < n // 2)[:, None]
        elif kind == "a column" and p > 2:
            missing[:, self.size(0, p - 1)] = True
        elif kind == "rows":
            missing[self.rng.random(n) < 0.2] = True
        elif kind == "steps":
            missing[np.arange(n)[:, None] * p > np.arange(p) * n + n] = True
        self.notes.append(f"{np.mean(missing):.0%} missing {kind}")
        return np.where(missing, np.nan, X)

    def lags(self, n: int) -> tuple[Any, Any]:
        """Lags in both directions, neighbours or far from each other, and labels of epochs."""
        reach = self.pick(3, 3, 8, 40)
        some = self.rng.choice(np.arange(-reach, reach + 1), self.size(2, 5), replace=False)
        lags = self.pick(np.sort(some), some, np.arange(self.size(2, 6)) - self.pick(0, 0, 2))
        epochs = np.sort(self.rng.integers(0, self.pick(1, 1, 2, 5), n))
        self.notes.append(f"lags {lags.tolist()}, {len(set(epochs))} epochs")
        return lags, epochs

    def moved(self, X: Any, center: bool, mild: bool) -> Any:
        """Other units of columns and of all, and means."""
        if self.chance(0.15) and not mild:
            X = X * 10 ** self.rng.uniform(-4, 4, X.shape[1:])
            self.notes.append("columns in units from 1e-4 to 1e4")
        if self.chance(0.25):
            unit = 10.0 ** self.pick(-10, -5, 3, 10, *((-40, 40) * (not mild)))
            rows = -1 if self.chance(0.2) and not mild else slice(None)
            X = X.copy()
            X[rows] *= unit
            self.notes.append(f"{'last row in ' * (rows == -1)}units {unit:.0e}")
        if self.chance(0.3 if center else 0.05):
            shift = self.power(0, 2 if mild else 8)
            X = X + shift * X.std(axis=0) * self.rng.uniform(0.5, 1, X.shape[1:])
            self.notes.append(f"means of {shift:.1e} times the spread")
        return X

    def terms(self, data: dict[str, Any], n: int) -> Iterator[tuple[str, Any]]:
        """Weights, confounds with what the columns owe them, and scale."""
        w = self.pick(
            self.rng.uniform(0.5, 2, n), self.rng.poisson(1.0, n), self.power(-3, 3) ** self.rng.random(n),
            self.rng.uniform(0.5, 2, n) * (self.rng.random(n) < 0.6), np.full(n, self.power(-6, 6)),
            np.where(np.arange(n) == n // 2, self.power(2, 5), 1.0),
        )  # fmt: skip
        if self.chance(0.4) and np.count_nonzero(w) > n / 3:
            yield "sample_weight", np.asarray(w, float)
        if self.chance(0.4) and n > 6:
            Z = self.rng.standard_normal((n, self.size(1, 2)))
            if self.chance(0.7):
                Z += self.pick(0.0, self.power(0, 6))
                Z[:, -1] *= self.power(-6, 6)
            else:
                Z[:, -1] = self.pick(2 * Z[:, 0], 1 / 3, Z[:, 0] + self.power(-5, -3) * Z[:, -1])
            for name, X in data.items():
                if name != "H" and self.chance(0.6):
                    slopes = self.rng.standard_normal((1, *X.shape[1:])) * self.power(-1, 2) * X.std(axis=0)
                    unit = (Z[:, :1] - Z[:, :1].mean()) / (Z[:, :1].std() or 1.0)
                    data[name] = X + (unit @ slopes).reshape(X.shape)
            yield "confounds", Z[:, 0] if len(Z.T) == 1 and self.chance(0.5) else Z
        if self.chance(0.2):
            yield "scale", True

    def ridge(self, X: Any) -> float:
        """0, or a share of the mean square of the columns."""
        unit = float(np.mean(np.sum(X**2, axis=0))) or 1.0
        return self.pick(0.0, self.power(-10, -4) * unit, self.power(-3, 0) * unit, self.power(1, 4) * unit)

    def share(self, A: Any) -> float:
        """A share of the squares of singular values, often one at which a number of them ends."""
        squares = np.linalg.svd(A, compute_uv=False) ** 2
        ends = np.cumsum(squares) / (np.sum(squares) or 1.0)
        end = self.pick(*ends) * (1 + self.pick(-1, 1) * self.pick(0.0, self.power(-15, -3)))
        share = self.pick(self.rng.uniform(0, 1), 1 - self.power(-16, -1), end, end)
        return float(np.clip(share, 1e-300, 1 - 2.0**-53))

    def parameters(self, problem: str, truth: Truth, data: dict[str, Any], labels: Any) -> dict[str, Any]:
        """What a problem asks besides its matrices; ridges are in units of the adjusted columns."""
        if problem in APART:
            (X,) = data.values()
            return {"k": self.size(1, min(4, len(X), X.shape[1] - 1))}
        plain = [np.asarray(truth.parts[name].entries, float) for name in data]
        n = len(plain[0])
        k = {"k": 1 if self.chance(0.3) else self.size(1, min(4, *(min(X.shape) for X in plain)))}
        scale = float(np.sqrt(2 * np.sum(np.var(plain[0], axis=0)))) or 1.0
        steep, straight = polynomial(2, 1.0, 1 / scale**2), polynomial(1, 0.0, 1 / scale**2)
        absolute = (rbf(scale), laplacian(scale), steep, straight)
        relative = rbf(factor=self.pick(0.5, 1.0)), polynomial(self.pick(1, 2, 3), 0.5), laplacian(factor=1.0)
        if problem == "least-squares":
            ridge = self.ridge(plain[0])
            path = ridge and self.chance(0.3)
            return {"ridge": (ridge, 10 * ridge, 0.0)[: self.size(2, 3)] if path else ridge}
        if problem == "svd":
            return {**k, "left": self.chance(0.3)}
        if problem in ("pls", "pls-regression", "deep-cca") or problem.startswith("sparse-"):
            return k
        if problem == "ridge-many-targets":
            unit = float(np.mean(np.sum(plain[0] ** 2, axis=0))) or 1.0
            bands = [0] if len(plain[0].T) < 2 else [0, 1]
            settings = self.pick([[1.0] * len(bands)], [[1.0, 0.3][: len(bands)], [0.1, 1.0][-len(bands) :]])
            of = sorted(bands + [self.pick(*bands) for _ in plain[0].T[len(bands) :]])
            ridges = [unit * 1e-3, unit, 100 * unit]
            return {"bands": of, "splitter": labels, "band_weights": settings, "ridges": ridges}
        if problem == "kernel-ridge":
            ridge = n * self.power(-4, 0)
            return {"kernel": self.pick(*absolute), "ridge": self.pick(ridge, ridge, (ridge, 10 * ridge))}
        if problem == "kernel-cca":
            kernels = {name: self.pick(*relative) for name in ("kernel_x", "kernel_y")[: self.size(1, 2)]}
            return {**k, **kernels, "ridge": n * self.power(-5, 0)}
        if problem == "preimage-cca":
            bound = self.pick(None, ("ratio", 1.5) if min(X.shape[1] for X in plain) > 2 else None)
            return {"k": 1, "kernel_x": self.pick(linear(), linear(), polynomial(2, 0.0)), "bound_x": bound}
        several = plain if problem in (*VIEWS, "cca") else plain[:1]
        ridges = tuple(self.ridge(X) for X in several)
        if problem == "multiset-cca" and self.chance(0.3):
            k["view_weights"] = tuple(self.power(-1, 1) for _ in plain)
        if problem == "discriminant" and self.chance(0.15):
            k["k"] = None
        return {**k, "ridge": 0.0 if not all(ridges) else ridges if len(ridges) > 1 else ridges[0]}


def draw(seed: int, trial: int, problems: tuple[str, ...] = (), lagged: float = 0.1) -> Case:
    """Draw the case of a trial, with windows of rows in a share of trials; the two numbers repeat it."""
    problems = problems or DRAWN
    problem, d = problems[trial % len(problems)], Draw(seed, trial)
    mild, long = problem in KERNELS, problem not in APART and d.chance(lagged)
    data = d.matrices(problem, long=long)
    center = d.chance(0.35 if problem in ("least-squares", "svd", "kernel-ridge") else 0.75)
    n, main = len(next(iter(data.values()))), d.pick(*[name for name in data if name not in TARGETS])
    study = problem in SCORED and n >= 12 and d.chance(0.3)
    dtype = d.pick(*["float64"] * 6, "float32", "narrow", "narrow", "mixed") if not study else "float64"
    data[main] = d.spoiled(data[main], center) if not mild else data[main]
    if d.chance(0.06):
        again = d.rng.integers(0, n // 2 + 1, n)
        data = {name: X[again] for name, X in data.items()}
        d.notes.append("repeated rows")
    narrow = mild or study or dtype != "float64"
    data = {name: X if name == "H" else d.moved(X, center, narrow) for name, X in data.items()}
    given = {} if problem in ("deep-cca", *APART) else {"center": center}
    given |= dict(d.terms(data, n)) if problem in TERMS else {}
    if problem == "multiset-cca" and d.chance(0.4):
        given["present"] = [(d.rng.random(n) < 0.8) | (np.arange(n) < 2) for _ in data]
    dtypes = dict.fromkeys(data, dtype)
    if dtype in ("narrow", "mixed"):
        dtypes = {name: d.pick(*NARROW) for name in data}
        dtypes |= {next(iter(data)): "float64"} if dtype == "mixed" else {}
    data = {name: in_dtype(X, dtypes[name]) for name, X in data.items()}
    if problem in APART and data["X"].dtype.kind == "f":
        data["X"] = d.holes(data["X"]).astype(data["X"].dtype)
    windowed = []
    if long:
        lags, epochs = d.lags(n)
        windowed = [(main, d.pick("numpy", "fortran", "strided", "npy-file"), data[main], lags, epochs)]
        data[main] = windows(data[main], lags, epochs)
    labels = d.rng.permutation(n) % d.pick(2, 3, 5)
    truth = (Truth if problem not in APART else Incomplete)(Case(problem, data, given))
    given |= d.parameters(problem, truth, data, labels)
    if problem == "svd" and not study and d.chance(0.4):
        given["k"] = d.share(np.asarray(truth.parts["A"].entries, float))
    other = d.pick(*KINDS, *SPARSE, "slices", "slices", "blocks") if d.chance(0.6) else "numpy"
    kinds = {name: d.pick("numpy", other, other) for name, X in data.items() if X.ndim > 1}
    kinds |= {name: "lagged" for name, *_ in windowed}
    if problem in APART and kinds["X"] == "factored":  # a missing entry times 0 is missing
        kinds["X"] = "blocks"
    if problem in APART and kinds["X"] in SPARSE:  # zeros are not stored, and so not known
        X = data["X"] if data["X"].dtype.kind == "f" else data["X"].astype(float)
        data["X"] = np.where(X == 0, X.dtype.type(np.nan), X)
    if study:
        study = {"splitter": labels} | ({"ks": tuple(range(1, given["k"] + 1))} if "k" in given else {})
        study |= {"score": "r2"} if problem in ("least-squares", *SCORED[4:6]) else {}
        if isinstance(given.get("ridge"), float) and given["ridge"] > 0 and d.chance(0.5):
            study |= {"ridges": (given["ridge"], 10 * given["ridge"])}
    tol = d.power(-10, -4) if dtype == "float64" and not study and d.chance(0.1) else None
    notes = tuple(filter(None, d.notes))
    return Case(problem, data, given, {}, tuple(kinds.items()), windowed, tol, study or None, notes)


# ---- trials -----------------------------------------------------------------------------------


class Hang(BaseException):
    """No answer in time; not an Exception, which a solver might catch."""


def ring(*_: Any) -> None:
    raise Hang


def attempt(case: Case, solver: Any, max_seconds: float = 5.0) -> tuple[str, str]:
    """Solve a case, and judge what comes back."""
    takes = not case.study and (solver == "auto" or hasattr(ls.get_solver(solver, case.problem), "tol"))
    options = {"tol": case.tol} if case.tol and takes else {}
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 60 + 10 * max_seconds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if case.study:
                found = ls.cross_validate(case.state(), form=solver, rng=0, **case.study)
            else:
                found = ls.solve(case.state(), solver, rng=0, max_seconds=max_seconds, **options)
        except Hang:
            return "hang", f"no answer in {60 + 10 * max_seconds} s"
        except errors.LinspecError as error:
            unfair = isinstance(error, UNFAIR) and "no entry that can be read is at fault" not in str(error)
            return "foreign" if unfair else "refused", f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 (the fuzzer looks for such exceptions)
            return "foreign", f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            return "foreign", f"{warning.message} ({warning.filename}:{warning.lineno})"
    if not case.study:
        return judge(case, found)
    doubts = (errors.AccuracyWarning, errors.ConvergenceWarning)
    with np.errstate(all="ignore"):
        return judge_folds(case, found, any(issubclass(warning.category, doubts) for warning in caught))


def fuzz(trials: Any, seed: int = 0, solvers: int = 2, **given: Any) -> Iterator[tuple[str, Case, Any, str]]:
    """Yield class, case, solver and reason of attempts: of some solvers for each trial, or of both forms of folds."""
    for trial in trials:
        case = draw(seed, trial, given.get("problems", ()), given.get("lagged", 0.1))
        names = ("auto", *ls.solvers(case.problem))
        if case.problem == "deep-cca" and not find_spec("torch"):
            continue
        some = np.random.default_rng([seed, trial, 1]).permutation(len(names))[:solvers]
        for solver in ("auto", "solve") if case.study else [names[i] for i in some]:
            kind, why = attempt(case, solver, given.get("max_seconds", 5.0))
            yield kind, case, solver, f"trial {trial}, {solver}: {why}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("trials", 100), ("seed", 0), ("first", 0), ("solvers", 2), ("max-seconds", 5.0)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--problem", action="append", default=[], help="a problem, or several")
    parser.add_argument("--lagged", type=float, default=0.1, help="the share of trials with windows of rows")
    given, counts = parser.parse_args(), Counter[str]()
    trials = range(given.first, given.first + given.trials)
    options = {"problems": tuple(given.problem), "max_seconds": given.max_seconds, "lagged": given.lagged}
    for kind, case, _, why in fuzz(trials, given.seed, given.solvers, **options):
        counts[kind] += 1
        if kind in FAILING:
            print(f"{kind}: seed {given.seed}, {why}\n    {case}", flush=True)
    print(dict(counts))
    return int(any(counts[kind] for kind in FAILING))


if __name__ == "__main__":
    sys.exit(main())
