"""What is right: the equations of every problem, computed from its entries in extended precision.

Method: all is computed anew in ``longdouble``, singular values by one-sided Jacobi rotations (Demmel & Veselić 1992,
doi:10.1137/0613074). With [X; √r I] = [F; R] S Vᵀ and coordinates a = S Vᵀ w, every spectral problem is one of the
singular triplets of a small matrix T. `Truth.readings` has a truth for each rank that directions near eps allow, and
`Truth.effects` what rounding of the data does.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

import linspec as ls
from linspec.arrays import to_host, working_dtype
from linspec.kernels import RBF, Linear, Polynomial

EPS = float(np.finfo(np.longdouble).eps)
TARGETS = ("B", "H")
REGRESSIONS = ("discriminant", "reduced-rank-regression")


def extended(x: Any) -> Any:
    """A matrix in extended precision; numbers and vectors become columns."""
    x = np.asarray(to_host(x) if hasattr(x, "dtype") else x, np.longdouble)
    return x.reshape(-1, 1) if x.ndim < 2 else x


def norms(X: Any) -> Any:
    return np.sqrt(np.sum(X * X, axis=0))


def length(X: Any) -> Any:
    return np.sqrt(np.sum(X * X))


def ratio(a: Any, b: Any) -> float:
    """The largest a / b, where 0 / 0 is 0; nan is infinite."""
    a, b = np.broadcast_arrays(extended(a), extended(b))
    quotients = np.divide(a, b, out=np.where(a == 0, extended(0), np.inf), where=b > 0)
    return float(np.max(np.nan_to_num(quotients, nan=np.inf), initial=0.0))


def rounds(p: int) -> Iterator[Any]:
    """Every pair of p columns once, in rounds of disjoint pairs, as in a round-robin tournament."""
    players = list(range(p + p % 2))
    for _ in players[1:]:
        half = len(players) // 2
        pairs = zip(players[:half], players[: half - 1 : -1], strict=True)
        yield np.array([pair for pair in pairs if max(pair) < p], int).reshape(-1, 2).T
        players = [players[0], players[-1], *players[1:-1]]


def svd(A: Any) -> tuple[Any, Any, Any]:
    """U, s, V without zero singular values; small ones are right also where columns differ in size.

    Equal values keep the order of columns: that of an identity is the identity.
    """
    if A.shape[0] < A.shape[1]:
        V, s, U = svd(A.T)
        return U, s, V
    order = np.argsort(-norms(A), kind="stable")
    B, V = A[:, order], np.eye(A.shape[1], dtype=np.longdouble)[:, order]
    for _ in range(40):
        turned = False
        for left, right in rounds(len(V)):
            P, Q = B[:, left], B[:, right]
            c, gap = np.sum(P * Q, axis=0), np.sum(Q * Q, axis=0) - np.sum(P * P, axis=0)
            turning = np.abs(c) > 8 * EPS * norms(P) * norms(Q)
            zeta = np.divide(gap, 2 * c, out=0 * gap, where=turning)
            t = turning * np.where(zeta < 0, -1, 1) / (np.abs(zeta) + np.sqrt(1 + zeta * zeta))
            cos = 1 / np.sqrt(1 + t * t)
            for M in (B, V):
                P, Q = M[:, left], M[:, right]
                M[:, left], M[:, right] = (P - t * Q) * cos, (t * P + Q) * cos
            turned |= bool(turning.any())
        if not turned:
            break
    s = norms(B)
    order = [i for i in np.argsort(-s, kind="stable") if s[i] > 0]
    return B[:, order] / s[order], s[order], V[:, order]


def kernel_matrix(kernel: Any, A: Any) -> Any:
    """The values of a kernel for all pairs of rows, by its formula."""
    if isinstance(kernel, Linear | Polynomial):
        K = A @ A.T
        gamma = getattr(kernel, "gamma", 1.0)
        gamma = 1 / np.mean(np.diag(K)) if isinstance(gamma, str) else gamma
        return K if isinstance(kernel, Linear) else (gamma * K + kernel.offset) ** kernel.degree
    gaps = A[:, None, :] - A[None, :, :]
    D = np.sqrt(np.sum(gaps**2, axis=2)) if isinstance(kernel, RBF) else np.sum(np.abs(gaps), axis=2)
    scale = kernel.scale
    if isinstance(scale, str):
        scale = np.median(D[np.triu_indices(len(D), 1)]) * kernel.factor
    return np.exp(-((D / scale) ** 2) / 2) if isinstance(kernel, RBF) else np.exp(-D / scale)


@dataclass
class Adjusted:
    """Rows less means and what confounds explain, over scales; `shift` is how much that shortens a column at most."""

    rows: Any
    roots: Any
    mean: Any
    scale: Any
    shift: float

    @property
    def entries(self) -> Any:
        return self.roots * self.rows


def adjusted(X: Any, w: Any, Z: Any, *, center: bool, scale: bool = False) -> Adjusted:
    """Learn means, slopes and scales from rows with weights, and apply them to all.

    Constant columns become 0, but in rows of weight 0 they may differ from the constant.
    """
    roots = np.sqrt(w)[:, None]

    def centred(M: Any) -> Any:
        for _ in range(2 * center):
            M = M - w @ M / np.sum(w)
        return M

    R, before = centred(X), norms(roots * X)
    mean = (X - R)[0]
    if Z is not None:
        D, size = centred(Z), norms(roots * centred(Z))
        live = size > 1000 * EPS * norms(roots * Z)
        D = D[:, live] / size[live]
        U, s, V = svd(roots * D)
        keep = s > 1e-15 * np.max(s, initial=0)
        for _ in range(2):
            R = R - D @ ((V[:, keep] / s[keep]) @ (U[:, keep].T @ (roots * R)))
    after = norms(roots * R)
    live = after > 2.0**-46 * before * (center or Z is not None)
    divisors = np.where(live & scale, after / np.sqrt(np.sum(w)), 1)
    kept = live | (w == 0)[:, None]
    return Adjusted(R * kept / divisors, roots, mean, divisors, ratio(before[live], after[live]) or 1.0)


class View:
    """A matrix in coordinates in which it is F: [X; √r I] diag(d)⁻¹ = [F; R] diag(s) Vᵀ, d the sizes of columns."""

    into = back = None  # where weights are coefficients of other columns: these to those of X, and back

    def __init__(self, X: Any, ridge: float = 0.0, scale: Any = 1.0, rounding: float = EPS) -> None:
        n, p = X.shape
        A = np.vstack([X, np.sqrt(extended(ridge)) * np.eye(p)]) if ridge > 0 else X
        size = norms(A) + (norms(A) == 0)
        U, self.s, self.V = svd(A / size)
        self.F, self.R, self.d = U[:n], U[n:], (size * scale)[:, None]
        bounds = (20 * rounding, 0.5 * rounding, 100 * EPS)
        few, many, full = (int(np.sum(self.s > bound * np.max(self.s, initial=0))) for bound in bounds)
        ranks = [*range(min(few, full), min(many, full) + 1)][:4]
        # of the numbers as they are stored
        self.ranks = [full] if ridge > 0 else [*dict.fromkeys([*ranks, full])]

    def cut(self, rank: int) -> View:
        twin = copy.copy(self)
        twin.F, twin.R, twin.s, twin.V = self.F[:, :rank], self.R[:, :rank], self.s[:rank], self.V[:, :rank]
        return twin

    def coordinates(self, W: Any) -> Any:
        W = W if self.into is None else self.into @ W
        return self.s[:, None] * (self.V.T @ (W * self.d))

    def weights(self, a: Any) -> Any:
        W = (self.V @ (a / self.s[:, None])) / self.d
        return W if self.back is None else self.back @ W


class Truth:
    """The equations of a problem on some data.

    Errors are the residual ("law"), "loss" and "excess" of the value, the loss that the residual explains, what
    rounding of the value ("grain") and of Gram matrices ("squared") explain, and others by their words.
    """

    views: tuple[View, ...] = ()

    def __init__(self, case: Any, data: Any = None, train: Any = None) -> None:
        self.case, self.given, self.perturbed = case, case.parameters, data is not None
        self.data = {name: extended(X) for name, X in case.arrays.items()} | {
            name: extended(self.given[name]) for name in ("sample_weight", "confounds") if name in self.given
        }
        self.data |= data or {}
        n, uncentred = len(next(iter(self.data.values()))), ("least-squares", "svd", "kernel-ridge")
        self.center = bool(self.given.get("center", case.problem not in uncentred))
        w = self.data.get("sample_weight", extended(np.ones(n)))[:, 0]
        self.w = w if train is None else w * train
        masks = self.given.get("present") or [np.ones(n)] * len(case.arrays)
        masked = zip(case.arrays, masks, strict=True)
        self.parts = {name: self.adjusted(name, self.w * mask) for name, mask in masked}
        self.unit = max(self.unit_of(name) for name in case.arrays if name not in TARGETS)
        self.build()
        self.finish()

    def unit_of(self, name: str) -> float:
        """The spacing of the numbers in which solvers compute with a matrix."""
        return float(np.finfo(working_dtype(self.case.arrays[name].dtype)).eps)

    def adjusted(self, name: str, w: Any) -> Adjusted:
        target = name in TARGETS or (self.case.problem == "ridge-many-targets" and name == "Y")
        scale = bool(self.given.get("scale")) and not target
        return adjusted(self.data[name], w, self.data.get("confounds"), center=self.center, scale=scale)

    def build(self) -> None:
        """Factorise the views."""

    def finish(self) -> None:
        """Make what depends on the ranks of the views."""

    def view(self, name: str, ridge: float) -> View:
        X = self.parts[name]
        of_scaled = self.case.problem == "sparse-cca"  # weights belong to the scaled columns
        return View(X.entries, ridge, 1.0 if of_scaled else X.scale, self.unit_of(name) * X.shift)

    def cut(self, ranks: Any) -> Truth:
        twin = copy.copy(self)
        twin.views = tuple(view.cut(rank) for view, rank in zip(self.views, ranks, strict=True))
        twin.finish()
        return twin

    def readings(self) -> Iterator[Truth]:
        """The truth for each choice of ranks."""
        for ranks in itertools.islice(itertools.product(*(view.ranks for view in self.views)), 9):
            yield self.cut(ranks)

    def answer(self, found: Any) -> dict[str, Any]:
        """The arrays of a solution."""
        raise NotImplementedError

    def best(self) -> dict[str, Any]:
        """The exact answer, {} where none is known."""
        return {}

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        raise NotImplementedError

    def about(self, found: Any) -> dict[str, float]:
        """Errors of the means and scales of a solution, relative to the columns."""
        errors = {}
        for name, place in ls.get_problem(self.case.problem).solution.layout.means.items():
            X = self.parts.get(name)
            for what in ("mean", "scale"):
                value = getattr(found, place.removesuffix("mean") + what, None)
                if X is not None and value is not None and X.shift * self.unit < 1e-7:
                    size = norms(X.roots * self.data[name]) / length(X.roots) if what == "mean" else X.scale
                    off = np.abs(extended(value)[:, 0] - getattr(X, what))
                    errors[f"{what} of {name} is off"] = ratio(off, size)
        return errors

    def noisy(self, seed: int) -> dict[str, Any]:
        """The data with errors of ten units of rounding."""
        rng, units = np.random.default_rng(seed), {"sample_weight": 2.2e-16, "confounds": 2.2e-16}
        return {
            name: X + 10 * (units.get(name) or self.unit_of(name)) * rng.standard_normal(X.shape)
            * (X if name == "sample_weight" else norms(X) / np.sqrt(len(X)))
            for name, X in self.data.items()
        }  # fmt: skip

    def effects(self, answer: dict[str, Any]) -> dict[str, float]:
        """What rounding of the data does to errors: those of the best answers to noisy data."""
        worst: dict[str, float] = {}
        for seed in (0, 1) if self.best() else ():
            twin = type(self)(self.case, self.noisy(seed)).cut([len(view.s) for view in self.views])
            answer = {name: np.asarray(X, float).astype(np.longdouble) for name, X in twin.best().items()}
            found = self.errors(answer)
            either = max(found.get(name, 0.0) for name in ("loss", "excess"))
            found |= dict.fromkeys(("loss", "excess"), either + found.get("not orthonormal", 0.0))
            worst |= {name: max(worst.get(name, 0.0), error) for name, error in found.items()}
        return worst


class LeastSquares(Truth):
    def build(self) -> None:
        self.ridges = np.ravel(self.given.get("ridge", 0.0))
        self.views = tuple(self.view("A", float(ridge)) for ridge in self.ridges)
        A = self.parts["A"].entries
        s = np.linalg.svd(np.asarray(A / (length(A) or 1), float), compute_uv=False)
        self.squares = s[s > 1e-17] ** 2

    def best(self) -> dict[str, Any]:
        B = self.parts["B"].entries
        return {"x": np.stack([view.weights(view.F.T @ B) for view in self.views])}

    def answer(self, found: Any) -> dict[str, Any]:
        shape = (len(self.views), self.data["A"].shape[1], -1)
        return {"x": np.asarray(to_host(found.x), np.longdouble).reshape(shape)}

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        A, B = self.parts["A"], self.parts["B"].entries
        errors = dict.fromkeys(("law", "loss", "explained", "not of least norm"), 0.0)
        for found, view, ridge in zip(answer["x"], self.views, self.ridges, strict=True):
            x, best = A.scale[:, None] * found, view.F.T @ B
            law = ratio(norms(A.entries.T @ (B - A.entries @ x) - ridge * x), norms(A.entries.T @ B))
            squares = self.squares + float(ridge / (length(A.entries) ** 2 or 1))
            each = {
                "law": law,
                "loss": ratio(np.sum((view.coordinates(found) - best) ** 2, axis=0), np.sum(best**2, axis=0)),
                "explained": law**2 * squares[0] / squares[-1] if law and len(squares) else 0.0,
            }
            if not ridge and len(view.s) < len(x) and np.ptp(view.d) == 0:
                each["not of least norm"] = ratio(norms(x - view.V @ (view.V.T @ x)), norms(x))
            errors |= {name: max(errors[name], error) for name, error in each.items()}
        return errors


class Spectral(Truth):
    """Leading singular triplets of T: pairs (a, b) with T b = ρ a and Tᵀ a = ρ b, or c with T Tᵀ c = λ c."""

    fields: ClassVar = {
        "svd": ("Vh", "S"),
        "discriminant": ("weights", "eigenvalues"),
        "reduced-rank-regression": ("weights", "singular_values"),
        "multiset-cca": ("weights", "eigenvalues"),
        "sumcor-cca": ("weights", "sums"),
        "cca": ("x_weights", "y_weights", "correlations"),
        "kernel-cca": ("x_dual", "y_dual", "correlations"),
        "preimage-cca": ("x_weights", "y_weights", "correlations"),
        "pls": ("x_weights", "y_weights", "singular_values"),
        "sparse-cca": ("x_weights", "y_weights", "values"),  # without bounds
        "sparse-pca": ("weights", "values"),
        "sparse-pls": ("x_weights", "y_weights", "values"),
    }

    def build(self) -> None:
        problem, ridges = self.case.problem, self.given.get("ridge", 0.0)
        self.paired = len(self.fields[problem]) == 3
        self.k, self.lifted = self.given.get("k"), False
        self.omega = np.sqrt(extended(self.given.get("view_weights") or [1.0] * len(self.parts)))[:, 0]
        main = list(self.parts)[:1] if problem in REGRESSIONS else list(self.parts)
        ridges = ridges if isinstance(ridges, tuple) else (ridges,) * len(main)
        kernels = self.given.get("kernel_x"), self.given.get("kernel_y") or self.given.get("kernel_x")
        if problem in ("svd", "pls", "sparse-pca", "sparse-pls"):
            sizes = [X.rows.shape[1] for X in self.parts.values()]
            self.views = tuple(View(np.eye(p, dtype=np.longdouble)) for p in sizes)
        elif problem == "kernel-cca":
            self.views = tuple(map(self.features, main, kernels, ridges))
        else:
            self.views = tuple(map(self.view, main, ridges))

    def features(self, name: str, kernel: Any, ridge: float) -> View:
        """The view of U √w, where U diag(w) Uᵀ is the centred kernel matrix; its weights are those of the rows."""
        K = kernel_matrix(kernel, self.data[name])
        noise = np.random.default_rng(2).standard_normal(K.shape) * self.perturbed
        H = np.eye(len(K)) - self.center / extended(len(K))
        K = H @ (K + K.T + 10 * self.unit * (noise + noise.T) * np.max(np.abs(K))) @ H / 2
        w, U = map(extended, np.linalg.eigh(np.asarray(K, float)))  # the ridge is far above its error
        w, live = w[:, 0], w[:, 0] > 1e-14 * np.max(w)
        view = View(U[:, live] * np.sqrt(w[live]), ridge)
        view.into, view.back = (U[:, live] * np.sqrt(w[live])).T, U[:, live] / np.sqrt(w[live])
        return view

    @property
    def count(self) -> int:
        """k, or the least number of values whose squares add up to its share."""
        if self.k is None or not 0 < self.k < 1:
            return len(self.s) if self.k is None else int(self.k)
        return int(np.searchsorted(self.held, self.k * self.held[-1])) if len(self.s) else 0

    @property
    def held(self) -> Any:
        """The squares of the first values together, from none on."""
        return np.append(extended(0)[0], np.cumsum(self.s**2))

    def finish(self) -> None:
        problem, X = self.case.problem, [part.entries for part in self.parts.values()]
        F = [view.F for view in self.views]
        if problem in ("svd", "sparse-pca"):
            self.T, self.size = X[0].T, extended(0)[0, 0]
        elif problem in ("pls", "sparse-pls"):
            self.T, self.size = X[0].T @ X[1], length(X[0]) * length(X[1])
        elif problem == "multiset-cca":
            seen = self.omega**2 @ extended(self.given.get("present") or np.ones((len(F), len(X[0]))))
            D = np.sqrt(np.divide(np.sum(self.omega**2), seen, out=0 * seen, where=seen > 0))
            tops = [w * (D[:, None] * f).T for w, f in zip(self.omega, F, strict=True)]
            rests = [w * view.R.T for w, view in zip(self.omega, self.views, strict=True)]
            self.T = np.hstack([np.vstack(tops), scipy.linalg.block_diag(*rests)])
            self.size = np.sum(self.omega**2)
        else:
            self.T = F[0].T @ (F[1] if self.paired else X[1])
            self.size = extended(1)[0, 0] if self.paired else np.sum(X[1] ** 2)
        self.U, self.s, self.V = svd(self.T)

    def best(self) -> dict[str, Any]:
        k = min(self.count, len(self.s))
        cuts = np.cumsum([len(view.s) for view in self.views])[:-1]
        parts = (self.U, self.V) if self.paired else np.split(self.U, cuts)
        found = {
            f"W{i}": view.weights(a[:, :k] / w)
            for i, (view, a, w) in enumerate(zip(self.views, parts, self.omega, strict=False))
        }
        return {**found, "values": self.s[:k] if self.paired else self.s[:k] ** 2}

    def answer(self, found: Any) -> dict[str, Any]:
        problem, fields = self.case.problem, self.fields[self.case.problem]
        *weights, value = (getattr(found, name) for name in fields)
        if problem == "preimage-cca":  # combinations of the points
            weights = [extended(found.x_preimages) @ weights[0], extended(found.y_preimages) @ weights[1]]
        weights = list(weights[0]) if isinstance(weights[0], tuple | list) else weights
        self.lifted = problem in REGRESSIONS and found.residual_kind != "exact"
        answer = {f"W{i}": extended(W.T if problem == "svd" else W) for i, W in enumerate(weights)}
        squared = 2 if problem in ("svd", "reduced-rank-regression") else 1
        return {**answer, "values": extended(value)[:, 0] ** squared}

    def coordinates(self, answer: dict[str, Any]) -> list[Any]:
        views = enumerate(zip(self.views, self.omega, strict=False))
        return [w * view.coordinates(answer[f"W{i}"]) for i, (view, w) in views]

    def about(self, found: Any) -> dict[str, float]:
        errors = super().about(found)
        answer = self.answer(found)
        C, values = self.coordinates(answer), answer["values"]
        if getattr(found, "U", None) is not None:
            U = found.U.matmat(np.eye(len(values))) if hasattr(found.U, "matmat") else found.U  # in blocks
            off = norms(self.parts["A"].entries @ C[0] - extended(U) * np.sqrt(values))
            errors["left vectors are off"] = ratio(off, np.max(self.s, initial=0))
        if self.case.problem == "multiset-cca":
            shares = np.array([values * np.sum(c * c, axis=0) for c in C])
            off = np.abs(shares - found.agreement * self.omega[:, None] ** 2)
            off = off - np.abs(np.sum(shares, axis=0) - values)  # lengths are judged elsewhere
            errors["agreement is off"] = ratio(np.maximum(off, 0), self.size)
        if self.paired and getattr(found, "bounds", None) is not None and len(self.s):
            off = np.min(np.abs(self.s - values[:, None]), axis=1) - 1.001 * found.bounds[: len(values)]
            errors["a correlation is beyond its bound"] = ratio(max(np.max(off, initial=0) - 1e-8, 0), 1)
        return errors

    def effects(self, answer: dict[str, Any]) -> dict[str, float]:
        """Also what rounding of a kernel does to the answer itself, whose functions may be long."""
        effects = super().effects(answer)
        if self.case.problem == "kernel-cca":
            before, after = self.errors(answer), Spectral(self.case, self.noisy(0)).errors(answer)
            effects |= {name: max(effects.get(name, 0.0), abs(after[name] - before[name])) for name in after}
        return effects

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        C, values, s = self.coordinates(answer), answer["values"], self.s
        share = self.k is not None and 0 < self.k < 1
        k = len(values) if share else self.count
        largest = np.max(values, initial=0)
        if self.paired:
            gap = np.vstack([self.T @ C[1] - C[0] * values, self.T.T @ C[0] - C[1] * values])
            law = ratio(norms(gap), largest)
            if self.case.problem in ("cca", "kernel-cca"):
                law = ratio(np.sum(gap**2), np.sum(values))
            true, noise = s[:k], self.size * k
        else:
            C = [np.vstack(C)]
            image = self.T @ (self.T.T @ C[0])
            gap = image - C[0] * values
            if self.lifted:
                lift = self.views[0].d / self.parts["X"].scale[:, None] * self.views[0].V * self.views[0].s
                gap, image = lift @ gap, lift @ image
            law = ratio(norms(gap), largest)
            law = ratio(length(gap), length(image)) if self.case.problem in REGRESSIONS else law
            true, noise = s[:k] ** 2, np.sqrt(self.size) * np.sum(s[:k])
        total, sum_of = np.sum(true), np.sum(values)
        errors = {
            "law": law,
            "loss": ratio(max(total - sum_of, 0), total),
            "excess": ratio(max(sum_of - total, 0), total),
            "grain": ratio(100 * self.unit * noise, total),
            "not orthonormal": max(ratio(np.abs(c.T @ c - np.eye(len(values))), 1) for c in C),
        }
        if self.case.problem in ("cca", "multiset-cca", *REGRESSIONS):
            squares = [ratio(view.s[0], view.s[-1]) ** 2 for view in self.views if len(view.s)]
            errors["squared"] = self.unit * max(squares, default=0.0)
        if self.case.problem == "svd" and len(s):  # by the values themselves: squares hide the small ones
            S, true = (np.pad(x, (0, max(k - len(x), 0)))[:k] for x in (np.sqrt(values), s))
            errors["loss"] = ratio(np.abs(S - true), s[0])
            least = np.divide(s[0], S + true, out=0 * S, where=S + true > 0)
            errors["explained"] = ratio(np.minimum(np.sqrt(extended(law)[0]), law * least), 1)
        if share and len(s):
            fewer, held = self.held[np.minimum([max(k - 1, 0), k], len(s))] / self.held[-1] - self.k
            errors |= {"short of its share": max(-held, 0), "beyond its share": max(fewer, 0)}
        return errors


class Stationary(Spectral):
    """Scores without a known best answer: SUMCOR, and preimages, which for linear kernels are canonical pairs."""

    def best(self) -> dict[str, Any]:
        return {}

    def effects(self, answer: dict[str, Any]) -> dict[str, float]:
        """How much the errors of the answer itself change with the data."""
        twin = Stationary(self.case, self.noisy(0)).cut([len(view.s) for view in self.views])
        other = twin.errors(answer)
        return {name: abs(error - other[name]) for name, error in self.errors(answer).items()}

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        if self.paired:  # one pair of points u: the gradient of the correlation of X u, at points of length 1
            W, X = (answer["W0"], answer["W1"]), [part.entries for part in self.parts.values()]
            c = [A @ V for A, V in zip(X, W, strict=True)]
            slopes = [X[i].T @ (c[1 - i] - answer["values"] * c[i]) * length(W[i]) for i in (0, 1)]
            own = super().errors(answer)
            return {"law": max(map(length, slopes)), "not orthonormal": own["not orthonormal"]}
        C, sums = self.coordinates(answer), answer["values"]
        live = [bool(np.any(view.F)) for view in self.views]  # a view of zeros has no scores
        C = [c for c, there in zip(C, live, strict=True) if there]
        F = [view.F for view, there in zip(self.views, live, strict=True) if there]
        squares, exact = 0 * sums, 0 * sums
        scores = sum(f @ c for f, c in zip(F, C, strict=True))
        for f, c in zip(F, C, strict=True):
            g = f.T @ (scores - f @ c)
            exact = exact + np.sum(c * g, axis=0) / 2
            for j in range(len(sums)):
                free = g[:, [j]] - c[:, :j] @ (c[:, :j].T @ g[:, [j]])
                squares[j] += np.sum((free - c[:, [j]] * length(free)) ** 2)
        return {
            "law": ratio(np.sqrt(squares), 2 * np.max(sums, initial=0)),
            "sums are off": ratio(np.max(np.abs(exact - sums), initial=0), 1),
            "not orthonormal": max(map(_uneven, F, C)),
            "grain": ratio(100 * self.unit * len(C) ** 2, np.max(sums, initial=0)),
        }


def _uneven(F: Any, c: Any) -> float:
    """How far weights are from orthonormal; beyond the rank of a view they may be 0, which adds nothing to a sum."""
    known = np.any(c, axis=0) | (np.arange(c.shape[1]) < len(svd(F)[1]))
    return ratio(np.abs(c.T @ c - np.diag(known.astype(np.longdouble))), 1)


class Components(Truth):
    """Partial least squares regression: each direction leads in XᵀY after deflation by the scores of the earlier."""

    def deflated(self, weights: Any) -> tuple[dict[str, Any], dict[str, float]]:
        """The coefficients that belong to these weights, or to the best ones, and what is wrong with the weights."""
        (X, Y), k = (self.parts[name].entries for name in "XY"), self.given["k"]
        A, R, W, fit = X, [], [], np.zeros((X.shape[1], Y.shape[1]), np.longdouble)
        first = np.max(svd(X.T @ Y)[1], initial=0)
        errors = {"law": 0.0, "loss": 0.0, "grain": ratio(100 * self.unit * length(X) * length(Y), first)}
        for i in range(k):
            C = A.T @ Y
            U, s, _ = svd(C)
            if weights is not None and i >= weights.shape[1]:
                errors["loss"] = max(errors["loss"], ratio(np.max(s, initial=0), first))
                break
            if weights is None and (not len(s) or s[0] < 100 * EPS * length(X) * length(Y)):
                break
            w = U[:, :1] if weights is None else weights[:, [i]]
            size = length(C.T @ w)
            errors["law"] = max(errors["law"], ratio(norms(C @ (C.T @ w) - size**2 * w), size * first))
            errors["loss"] = max(errors["loss"], ratio(max(np.max(s, initial=0) - size, 0), first))
            t, r = A @ w, w
            for u in R:
                r = r - u * np.sum((X @ u) * (X @ w)) / np.sum((X @ u) ** 2)
            fit = fit + r @ (t.T @ Y) / np.sum(t**2)
            A = A - t @ (t.T @ A) / np.sum(t**2)
            W, R = [*W, w], [*R, r]
        return {"weights": np.hstack(W) if W else fit[:, :0], "coefficients": fit}, errors

    def best(self) -> dict[str, Any]:
        return self.deflated(None)[0]

    def answer(self, found: Any) -> dict[str, Any]:
        X, Y = self.parts["X"], self.parts["Y"]
        B = extended(found.coefficients()).reshape(len(X.scale), -1) * X.scale[:, None] / Y.scale
        return {"weights": extended(found.x_weights), "coefficients": B}

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        own, errors = self.deflated(answer["weights"])
        X, B = self.parts["X"].entries, own["coefficients"]
        off = ratio(length(X @ (answer["coefficients"] - B)), length(X @ B))
        return {**errors, "coefficients do not belong to the weights": off}


class KernelRidge(Truth):
    """(M + r) b = T, with M and T centred and weighted, for the coefficients a = √w b."""

    def build(self) -> None:
        K = kernel_matrix(self.given["kernel"], self.data["X"])
        noise = np.random.default_rng(2).standard_normal(K.shape) * self.perturbed
        self.K = K + 5 * self.unit * (noise + noise.T) * np.max(np.abs(K))
        self.roots = np.sqrt(self.w)[:, None]
        H = np.eye(len(K)) - self.center * self.roots @ self.roots.T / np.sum(self.w)
        self.M, self.B = H @ (self.roots * self.K * self.roots.T) @ H, self.parts["Y"].entries
        self.ridges = extended(np.ravel(self.given["ridge"]))[:, 0]

    def best(self) -> dict[str, Any]:
        s, U = np.linalg.eigh(np.asarray(self.M + self.M.T, float) / 2)
        inside = U.T @ self.B
        b = [self.B / r - U @ ((s / (s + r))[:, None] * inside) / r for r in self.ridges]
        return {"dual": self.roots * np.array(b)}

    def intercept(self, dual: Any) -> Any:
        return self.center * (self.w @ (self.data["Y"] - self.K @ dual)) / np.sum(self.w)

    def answer(self, found: Any) -> dict[str, Any]:
        dual = np.asarray(to_host(found.dual), np.longdouble).reshape(len(self.ridges), len(self.K), -1)
        none = found.intercept is None
        return {"dual": dual, "intercept": 0.0 if none else np.asarray(to_host(found.intercept))}

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        dual = answer["dual"]
        b = np.divide(dual, self.roots, out=np.where(dual == 0, extended(0), np.inf), where=self.roots > 0)
        gaps = self.B - self.M @ b - self.ridges[:, None, None] * b
        errors = {"law": max(ratio(norms(gap), norms(self.B)) for gap in gaps)}
        if "intercept" in answer:
            exact = self.intercept(dual)
            off = np.max(np.abs(exact - np.reshape(answer["intercept"], exact.shape if self.center else ())))
            off = max(off - self.unit * np.max(np.abs(self.K) @ np.abs(dual)), 0)  # coefficients are rounded
            errors["intercept is off"] = ratio(off, np.max(np.abs(self.data["Y"])))
        return errors


class ManyTargets(Truth):
    """The ridge and the weights of bands with the best mean R² of the folds for each target, and its coefficients."""

    def build(self) -> None:
        Y, labels = self.data["Y"], np.asarray(self.given["splitter"])
        self.ridges = extended(self.given["ridges"])[:, 0]
        self.roots = np.sqrt(extended(self.given["band_weights"]))[:, np.asarray(self.given["bands"])]
        self.scores = np.zeros((len(self.roots), len(self.ridges), Y.shape[1]), np.longdouble)
        folds = np.zeros(Y.shape[1])  # in which a target varies; in others it has no R²
        for label in np.unique(labels):
            test, v = labels == label, self.w[labels == label]
            rows = Y[test][v > 0]
            A, B = (self.adjusted(name, self.w * ~test) for name in "XY")
            about = v @ (Y[test] - v @ Y[test] / np.sum(v)) ** 2
            varies = about > 1e-26 * (v @ Y[test] ** 2)  # else rounding of its entries
            known = len(rows) != 1 and self._slopes_of(~test) == self._slopes_of(np.ones(len(Y), bool))
            folds = folds + varies if known else np.nan
            for i, d in enumerate(self.roots):
                U, s, V = svd(A.entries * d)
                for j, r in enumerate(self.ridges):
                    x = d[:, None] * (V @ ((s / (s * s + r))[:, None] * (U.T @ B.entries)))
                    errors = v @ (B.rows[test] - A.rows[test] @ x) ** 2
                    self.scores[i, j] += varies * (1 - errors / np.where(varies, about, 1))
        self.scores /= np.where(folds > 0, folds, np.nan)

    def _slopes_of(self, rows: Any) -> int:
        """The number of slopes of confounds, beside means, that some rows determine."""
        Z = self.data.get("confounds", np.zeros((len(rows), 0)))
        D = np.hstack([np.ones((len(Z), int(self.center))), np.asarray(Z - Z.mean(axis=0), float)])
        D = (np.sqrt(np.asarray(self.w, float))[:, None] * D)[rows]
        return int(np.linalg.matrix_rank(D / np.maximum(np.linalg.norm(D, axis=0), 1e-300)))

    def effects(self, answer: dict[str, Any]) -> dict[str, float]:
        twin = ManyTargets(self.case, self.noisy(0))
        return {"scores are off": ratio(np.abs(twin.scores - self.scores), 1)}

    def about(self, found: Any) -> dict[str, float]:
        return {}  # coefficients show wrong scales, and scores show wrong means

    def answer(self, found: Any) -> dict[str, Any]:
        settings, ridges = np.asarray(self.given["band_weights"]), np.asarray(self.given["ridges"])
        return {
            "x": extended(found.coefficients(list(range(len(found.ridges))))),
            "setting": [np.argmin(norms((settings - own).T)) for own in found.band_weights],
            "ridge": [np.argmin(np.abs(ridges - own)) for own in found.ridges],
            "scores": found.scores,
        }

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        A, B = self.parts["X"], self.parts["Y"].entries
        errors = {"law": 0.0, "loss": 0.0, "scores are off": 0.0}
        for t, (i, j, score) in enumerate(zip(*list(answer.values())[1:], strict=True)):
            d, x, y = self.roots[i][:, None], A.scale[:, None] * answer["x"][:, [t]], B[:, [t]]
            z = np.divide(x, d, out=np.where(x == 0, extended(0), np.inf), where=d > 0)
            gap = d * (A.entries.T @ (y - A.entries @ x)) - self.ridges[j] * z
            own, best = self.scores[i, j, t], np.max(self.scores[:, :, t])
            noise = 10 * self.unit * length(A.entries) * length(y)  # all that is left of a target beside X
            each = {"law": ratio(max(length(gap) - noise, 0), length(d * (A.entries.T @ y)))}
            # Else it varies in no fold, or a fold has a single row.
            if np.isfinite(self.scores[:, :, t]).all():
                each["loss"] = ratio(best - own, max(1, abs(best)))
                each["scores are off"] = ratio(abs(score - own), max(1, abs(own)))
            errors |= {name: max(errors[name], error) for name, error in each.items()}
        return errors


class Variates(Truth):
    """Curved preimages and nets: the variates of the answer have the returned correlations."""

    def about(self, found: Any) -> dict[str, float]:
        return {}

    def answer(self, found: Any) -> dict[str, Any]:
        variates = [extended(V) for V in found.transform(*self.case.arrays.values())]
        return {"variates": variates, "correlations": found.correlations}

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        P, Q = (V - np.mean(V, axis=0) * (self.center) for V in answer["variates"])
        sizes = norms(P) * norms(Q)
        own = np.divide(np.sum(P * Q, axis=0), sizes, out=0 * sizes, where=sizes > 0)
        return {"law": 0.0, "correlations are off": ratio(np.abs(own - answer["correlations"]), 1)}


def inverses(S: Any) -> tuple[Any, Any]:
    """Inverses of positive definite matrices, and the logarithms of their determinants, by Gauss and Jordan."""
    S, logarithms = S.copy(), np.zeros(len(S), np.longdouble)
    for j in range(S.shape[1]):
        pivot = S[:, j, j].copy()
        logarithms += np.log(pivot)
        S[:, j, j] = 1
        S[:, j] /= pivot[:, None]
        for i in {*range(S.shape[1])} - {j}:
            factor = S[:, i, j].copy()
            S[:, i, j] = 0
            S[:, i] -= factor[:, None] * S[:, j]
    return S, logarithms


class Incomplete(Truth):
    """The likelihood of known entries by the covariance matrix of each row: its slopes, EM, and the closed form."""

    def __init__(self, case: Any, data: Any = None, train: Any = None) -> None:
        self.case, self.given, self.parts = case, case.parameters, {}
        self.unit = self.unit_of("X")
        X = extended(case.arrays["X"])
        self.seen = np.any(~np.isnan(X), axis=0)  # columns without known entries say nothing
        self.known = ~np.isnan(X[:, self.seen])
        self.X = np.where(self.known, X[:, self.seen], 0)
        self.count = max(np.sum(self.known), 1)
        self.means = np.sum(self.X, axis=0) / np.sum(self.known, axis=0)
        self.variance = np.sum(self.known * (self.X - self.means) ** 2) / self.count

    def answer(self, found: Any) -> dict[str, Any]:
        rows = self.case.arrays["X"]
        names = "transform", "score_errors", "impute"
        made = {name: extended(getattr(found, name)(rows)) for name in names}
        W, mean = extended(found.weights), extended(found.mean)[:, 0]
        beyond = np.where(np.isnan(mean[~self.seen]), length(W[~self.seen]), np.inf)
        model = {"W": W[self.seen], "mean": mean[self.seen], "noise": np.longdouble(found.noise_variance)}
        return {**model, **made, "beyond": beyond, "likelihood": np.longdouble(found.log_likelihood)}

    def law(self, W: Any, mean: Any, noise: Any) -> dict[str, Any]:
        """The likelihood, its slopes, and the conditional law of all entries and scores of each row."""
        p, known = len(W), self.known.astype(np.longdouble)
        S = W @ W.T + noise * np.eye(p)
        both = known[:, :, None] * known[:, None, :]
        C, logarithms = inverses(both * S + (1 - known)[:, :, None] * np.eye(p))
        C, r = C * both, known * (self.X - mean)
        u = np.einsum("iab,ib->ia", C, r)
        E = np.einsum("ia,ib->ab", u, u) - np.sum(C, axis=0)
        constant = self.count * np.log(2 * np.longdouble(np.pi))
        spread, _ = inverses(np.eye(W.shape[1]) + np.einsum("ia,ak,al->ikl", known, W, W) / noise)
        return {
            "likelihood": -(constant + np.sum(logarithms) + np.sum(u * r)) / 2,
            "slopes": np.column_stack([np.sum(u, axis=0), E @ W]), "noise slope": np.trace(E) / 2,
            "scores": u @ W, "spread": spread, "rows": mean + u @ S,
        }  # fmt: skip

    def stepped(self, floor: float, W: Any, mean: Any, noise: Any) -> tuple[Any, float]:
        """What a step of EM makes of a model, with a limit of the noise, and the length of the step: the residual."""
        law = self.law(W, mean, noise)
        ones = np.ones((len(self.X), 1), np.longdouble)
        second = np.einsum("ia,ib->iab", *2 * [np.hstack([ones, law["scores"]])])
        second[:, 1:, 1:] += law["spread"]
        A, _ = inverses(np.einsum("ij,iab->jab", self.known, second))
        G = noise * law["slopes"]
        D = np.einsum("jab,jb->ja", A, G)
        gain = np.sum(G * D) / self.count
        left = noise + 2 * noise**2 * law["noise slope"] / self.count
        off = np.log(max(left, floor) / noise)
        residual = np.sqrt(gain / noise + off**2 / 2)
        return (W + D[:, 1:], mean + D[:, 0], max(left - gain, floor)), float(residual)

    def effects(self, answer: dict[str, Any]) -> dict[str, float]:
        """What rounding of the arrays of the answer does to its errors."""
        rng, twin, worst = np.random.default_rng(0), dict(answer), dict[str, float]()
        twin["noise"] = answer["noise"] + 4 * 2.2e-16 * np.sum(answer["W"] ** 2)
        before = self.errors(answer)
        for _ in range(3):
            for name in ("W", "mean"):
                twin[name] = answer[name] * (1 + 4 * self.unit * rng.standard_normal(answer[name].shape))
            after = self.errors(twin)
            worst |= {name: max(worst.get(name, 0.0), abs(after[name] - before[name])) for name in after}
        return worst

    def errors(self, answer: dict[str, Any]) -> dict[str, float]:
        model = answer["W"], answer["mean"], answer["noise"]
        floor = 1e-10 * self.variance
        floor = answer["noise"] if answer["noise"] < 2 * floor else floor
        law, (later, residual) = self.law(*model), self.stepped(floor, *model)
        for _ in range(19):
            later, _ = self.stepped(floor, *later)
        gain = max(self.law(*later)["likelihood"] - law["likelihood"], 0) / (10 * self.count)
        if (
            np.min(np.sum(answer["W"] ** 2, axis=0)) < 1e-6 * answer["noise"]
        ):  # a saddle, which rounding leaves
            gain = 0 * gain
        size = np.sqrt(self.variance)
        deviations = np.sqrt(np.diagonal(law["spread"], axis1=1, axis2=2))
        filled = np.where(self.known, self.X, law["rows"]) - answer["impute"][:, self.seen]
        far = size + np.max(np.abs(answer["mean"]), initial=0) * self.unit * 1e4
        errors = {
            "law": residual,
            "EM goes on": float(np.sqrt(gain)),
            "likelihood is off": ratio(abs(answer["likelihood"] - law["likelihood"]), self.count),
            "scores are off": ratio(np.max(np.abs(law["scores"] - answer["transform"])), 1),
            "errors of scores are off": ratio(np.max(np.abs(deviations - answer["score_errors"])), 1),
            "imputed entries are off": ratio(np.max(np.abs(filled)), far),
            "columns without entries have weights": ratio(answer["beyond"], size),
        }
        if np.all(self.known):
            squares = np.append(svd(self.X - self.means)[1] ** 2, np.zeros(len(self.means)))
            squares, k = squares[: len(self.means)] / len(self.X), answer["W"].shape[1]
            noise = max(np.mean(squares[min(k, len(squares) - 1) :]), floor)
            values = np.log(np.append(np.maximum(squares[:k], noise), np.full(len(squares) - k, noise)))
            best = (
                -len(self.X)
                / 2
                * (np.sum(values + squares / np.exp(values)) + len(values) * np.log(2 * np.pi))
            )
            errors["loss"] = float(max(best - law["likelihood"], 0) / self.count)
            own = np.sum(answer["W"] ** 2, axis=0) + answer["noise"]
            off = np.maximum(np.abs(own - np.exp(values[:k])) - 100 * residual * squares[0], 0)
            errors["variances are off"] = ratio(off, squares[0])
        return errors


def truth_of(case: Any, data: Any = None, train: Any = None) -> Truth:
    """The truth about a case, in which rows that are no training rows have weight 0."""
    others: dict[str, type[Truth]] = {
        "least-squares": LeastSquares, "sumcor-cca": Stationary, "pls-regression": Components,
        "kernel-ridge": KernelRidge, "ridge-many-targets": ManyTargets, "deep-cca": Variates,
        "incomplete-pca": Incomplete,
    }  # fmt: skip
    kind = others.get(case.problem, Spectral)
    if case.problem == "preimage-cca":
        straight = isinstance(case.parameters["kernel_x"], Linear) and case.parameters.get("bound_x") is None
        kind = Stationary if straight else Variates
    return kind(case, data, train)
