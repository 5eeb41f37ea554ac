"""Planted cases with known answers, and the exact answer and the law, computed a second time by NumPy alone."""

from dataclasses import replace

import numpy as np

from linspec.testing import (
    ROUNDING,
    Case,
    Law,
    ProblemTesting,
    as_host,
    orthonormal,
    precision,
    shift_of,
)


def planted_pls(  # noqa: PLR0913
    n, p, q, values, k, *, beside=2, center=True, seed=0, name="planted", gentle=True
):
    """Two views with known singular values of XᵀY.

    With orthonormal Q, and U and V with orthonormal columns, X = Q √Σ Uᵀ and Y = Q √Σ Vᵀ have XᵀY = U Σ Vᵀ. The part
    added to each view is orthogonal to the other view: it changes XᵀX and YᵀY, but not the answer.
    """
    rng = np.random.default_rng([seed, n, p, q])
    s, r = np.sort(np.asarray(values, dtype=np.float64))[::-1], len(values)
    Q = orthonormal(rng, n, r + 2 * beside, centered=center)
    U, V = orthonormal(rng, p, r), orthonormal(rng, q, r)
    size = np.sqrt(s.max(initial=0.0)) or 1.0
    X = (Q[:, :r] * np.sqrt(s)) @ U.T + size * Q[:, r : r + beside] @ orthonormal(rng, p, beside).T
    Y = (Q[:, :r] * np.sqrt(s)) @ V.T + size * Q[:, r + beside :] @ orthonormal(rng, q, beside).T
    if center:
        X, Y = X + rng.standard_normal(p), Y + rng.standard_normal(q)
    return Case(
        name=name,
        problem="pls",
        arrays={"X": X, "Y": Y},
        parameters={"k": k, "center": center},
        truth={"singular_values": s[:k]},
        gentle=gentle,
    )


def cases():
    make, falling = planted_pls, np.geomspace(10, 0.1, 6)
    tall = make(60, 9, 7, falling, 3, name="tall")
    shifted = {name: A + 1e4 * A.std(axis=0) for name, A in tall.arrays.items()}
    return (
        tall,
        make(20, 40, 30, np.geomspace(10, 0.1, 8), 3, name="wide"),
        make(60, 8, 8, np.geomspace(1e3, 1e-3, 6), 4, name="decaying"),
        make(120, 40, 30, np.linspace(1.2, 1, 25), 3, name="slow", gentle=False),
        make(60, 9, 7, np.ones(6), 3, name="flat"),
        make(120, 40, 30, np.ones(25), 2, name="flat-beyond-the-block"),
        make(60, 9, 7, (4, 4, 4, 1, 0.5), 3, name="repeated"),
        make(60, 9, 7, (4, 3, 2), 3, name="k-equals-rank"),
        make(60, 9, 7, (4, 3, 2), 5, name="k-above-rank"),
        make(60, 9, 7, (), 2, name="unrelated"),
        make(60, 9, 7, falling, 1, name="k-one"),
        make(60, 9, 6, falling, 6, name="k-all"),
        make(40, 3, 2, (2.0,), 1, name="few-columns", beside=1),
        make(60, 9, 7, falling, 3, center=False, name="no-centring"),
        replace(tall, name="offset", arrays=shifted, dense_offset=True),
        tall.with_arrays(lambda A: A.astype(np.float32), "float32"),
        tall.with_arrays(lambda A: np.rint(100 * A / np.abs(A).max()).astype(np.int8), "int8"),
        tall.with_arrays(lambda A: np.median(A, axis=0) < A, "bool"),
        tall.with_arrays(lambda A: A * 1e12, "large-units"),
        tall.with_arrays(lambda A: A * 1e-12, "small-units"),
    )


class PLSOracle:
    """The exact triplets by the SVD of XᵀY, and the law."""

    def __init__(self, case, reading):
        center, self.k = case.parameters["center"], case.parameters["k"]
        X, Y = (case.arrays[name].astype(np.float64) for name in ("X", "Y"))
        given = precision(case)
        self.unit = reading.rounding(given, max(shift_of(X), shift_of(Y)) if center else 1.0)
        X, Y = (A - A.mean(axis=0) if center else A for A in (X, Y))
        self.C = X.T @ Y
        self.U, s, Vt = np.linalg.svd(self.C, full_matrices=False)
        # The rounding of products is a fraction of this, even if XᵀY is much smaller.
        self.scale = float(np.linalg.norm(X, 2) * np.linalg.norm(Y, 2))
        self.rank = int(np.sum(s > 100 * given * self.scale))
        self.count = min(self.k, self.rank)
        self.values, self.V = s[: self.count], Vt.T
        self.gap = (
            float(s[self.count - 1] - (s[self.count] if self.count < len(s) else 0)) if self.count else 0.0
        )

    @property
    def attainable(self):
        """The residual that rounding alone may leave."""
        return ROUNDING * self.unit * self.scale / self.values[0] if self.count else 0.0

    def law(self, solution):
        """The largest of ‖C v − σ u‖ and ‖Cᵀu − σ v‖ over σ₁."""
        U, V, s = as_host(solution.x_weights), as_host(solution.y_weights), as_host(solution.singular_values)
        gaps = [*np.linalg.norm(self.C @ V - U * s, axis=0), *np.linalg.norm(self.C.T @ U - V * s, axis=0)]
        residual = float(max(gaps) / s.max()) if len(s) else 0.0
        return Law(residual, self.attainable)

    def errors(self, solution):
        """Errors of the answer that are larger than its own residual explains (Wedin 1972)."""
        U, V, s = as_host(solution.x_weights), as_host(solution.y_weights), as_host(solution.singular_values)
        if len(s) != self.count:
            return [f"there are {self.count} triplets to return; got {len(s)}"]
        if self.count == 0:
            return []
        found, law = [], self.law(solution)
        error = (np.sqrt(self.count) * law.residual + law.floor) * self.values[0]
        off = np.abs(s - self.values).max()
        if not off <= error:
            found.append(f"a singular value is wrong by {off:.2g}; the residual explains {error:.2g}")
        for name, W, exact in (("x_weights", U, self.U), ("y_weights", V, self.V)):
            crooked = np.abs(W.T @ W - np.eye(self.count)).max()
            if not crooked <= ROUNDING * self.unit:
                found.append(f"{name} must be orthonormal; the Gram matrix differs from I by {crooked:.2g}")
            if error < self.gap:
                W, exact = np.linalg.qr(W)[0], exact[:, : self.count]
                angle = np.linalg.norm(W - exact @ (exact.T @ W), 2)
                if not angle <= 2 * error / self.gap + ROUNDING * self.unit:
                    found.append(
                        f"{name} must span the leading space; the sine of the angle is {angle:.2g}, and the residual "
                        f"explains {2 * error / self.gap:.2g}"
                    )
        return found


def shapes(case, solution):
    k, p, q = len(solution.singular_values), case.arrays["X"].shape[1], case.arrays["Y"].shape[1]
    means = {"x_mean": (p,), "y_mean": (q,)} if case.parameters["center"] else {}
    return {"x_weights": (p, k), "y_weights": (q, k), **means}


def moved(case, factor, seed):
    """Other units of X, and rows in another order: singular values times |factor|, and the same vectors."""
    rows = np.random.default_rng(seed).permutation(len(case.main))
    X, Y = (case.arrays[name][rows] for name in ("X", "Y"))
    return replace(case, arrays={"X": factor * X, "Y": Y}, truth={})


TESTING = ProblemTesting(
    cases=cases,
    oracle=PLSOracle,
    shapes=shapes,
    moved=moved,
    start_case=lambda: planted_pls(120, 40, 30, np.linspace(2, 1, 25), 2, name="many-columns"),
)
"""How solvers of the problem are judged."""
