"""Planted cases of deep CCA, and its residual computed independently.

No oracle knows the best nets. It is known that if the views have features in common without noise, nets exist with
correlations of 1. The CCA of the features of the returned nets is computed a second time.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.testing import Case, Law, ProblemTesting, Reading, as_host, orthonormal, precision
from linspec_deep.nets import Net

DEPENDENT = 1e-5
"""Directions of features are left out if their singular value is below this fraction of the largest."""

SUMS = 1000.0
"""Allowed error of the correlations of features, in units of eps times the squared condition number of the features.

A feature is a sum over up to some hundreds of columns, and a covariance is a sum over as many rows. The rounding errors
of such sums may reach this multiple of eps."""


def planted_deep_cca(
    n: int,
    p: int,
    q: int,
    k: int,
    *,
    seed: int = 0,
    noise: float = 0.5,
    mean: float = 1.0,
    name: str = "planted",
) -> Case:
    """Two views with k features in common: z is a linear map of X, and z² + 0.3 z one of Y.

    The views also have independent noise in the other columns, and column means.

    Parameters
    ----------
    n, p, q, k : int
        Rows, columns of X (at least k) and of Y (at least k), and features in common.
    seed : int, default 0
    noise : float, default 0.5
        The standard deviation of the other columns; that of z is 1.
    mean : float, default 1.0
        The size of the column means.
    name : str, default "planted"

    Returns
    -------
    Case
        ``truth["correlations"]``: k ones.
    """
    rng = np.random.default_rng([seed, n, p, q])
    z = rng.standard_normal((n, k))
    X = np.hstack([z, noise * rng.standard_normal((n, p - k))]) @ orthonormal(rng, p, p)
    Y = np.hstack([z**2 + 0.3 * z, noise * rng.standard_normal((n, q - k))]) @ orthonormal(rng, q, q)
    return Case(
        name=name,
        problem="deep-cca",
        arrays={
            "X": X + mean * rng.standard_normal(p),
            "Y": Y + mean * rng.standard_normal(q),
        },
        parameters={"k": k},
        truth={"correlations": np.ones(k)},
    )


def cases() -> tuple[Case, ...]:
    """Cases: ordinary, wide, few and many features, large means, constant columns, other dtypes and units."""
    make = planted_deep_cca
    tall = make(100, 6, 5, 2, name="tall")
    constant = {
        name: np.insert(A, [1, 3], [3.0, 0.1], axis=1) for name, A in make(80, 5, 4, 2).arrays.items()
    }
    return (
        tall,
        make(60, 40, 30, 2, name="wide"),
        make(60, 1, 1, 1, name="one-column"),
        replace(make(80, 3, 2, 2), parameters={"k": 4}, truth={}, name="more-features-than-columns"),
        replace(make(80, 5, 4, 2), arrays=constant, name="constant-columns"),
        replace(
            make(80, 5, 4, 2),
            arrays={"X": np.ones((80, 5)), "Y": constant["Y"]},
            truth={},
            name="nothing-varies",
        ),
        replace(make(100, 6, 5, 2, mean=1e4), dense_offset=True, name="offset"),
        tall.with_arrays(lambda A: A.astype(np.float32), "float32"),
        tall.with_arrays(lambda A: np.rint(100 * A / np.abs(A).max()).astype(np.int8), "int8"),
        tall.with_arrays(lambda A: np.median(A, axis=0) < A, "bool"),
        tall.with_arrays(lambda A: A * 1e12, "large-units"),
        tall.with_arrays(lambda A: A * 1e-12, "small-units"),
    )


def features(net: Net, rows: HostArray) -> HostArray:
    """Compute the features of rows from the definition of a net, independently of `Net`.

    The columns of H are the shifted and scaled rows. Each layer replaces H by Wᵀ H + b 1ᵀ, computed as one product
    [Wᵀ b] [H; 1ᵀ]. ReLU follows each layer except the last one.
    """
    H = ((rows.astype(np.float64) - net.shift) / net.scale).T
    for layer, (W, b) in enumerate(zip(net.weights, net.biases, strict=True)):
        H = np.hstack([W.T, b[:, None]]).astype(np.float64) @ np.vstack([H, np.ones(H.shape[1])])
        H = H if layer == len(net.weights) - 1 else np.where(H > 0, H, 0.0)
    return H.T


class DeepCCAOracle:
    """Exact CCA of the features of the returned nets, by singular value decompositions of the features."""

    def __init__(self, case: Case, reading: Reading) -> None:
        self.case = case
        self.unit = precision(case)
        self.attainable = 0.0

    def _decomposed(self, solution: Any) -> tuple[list[HostArray], list[HostArray], float]:
        """Centred features of both views, orthonormal bases of them, and their largest condition number."""
        centred, bases, condition = [], [], 1.0
        for name, net in (("X", solution.x_net), ("Y", solution.y_net)):
            F = features(net, self.case.arrays[name])
            size = np.linalg.norm(F, axis=0)
            centred.append(F - F.mean(axis=0))
            U, s, _ = np.linalg.svd(centred[-1] / np.where(size > 0, size, 1.0), full_matrices=False)
            keep = s > DEPENDENT * max(1.0, s.max(initial=0.0))
            bases.append(U[:, keep])
            condition = max(condition, 1.0 / float(s[keep].min(initial=1.0)))
        return centred, bases, condition

    def law(self, solution: Any) -> Law:
        """Compute the residual Σ‖ϱᵢ‖² / Σρᵢ of the returned pairs.

        ρᵢ is the returned correlation of pair i. ϱᵢ is the error of pair i in the equations of the CCA of the features,
        in the norm of S⁻¹. S is the block diagonal matrix of the Gram matrices of the centred features of both views.
        """
        (F, G), (U, V), condition = self._decomposed(solution)
        P, Q = F @ as_host(solution.x_weights), G @ as_host(solution.y_weights)
        rho = as_host(solution.correlations)
        defects = (U.T @ (Q - P * rho), V.T @ (P - Q * rho))
        total = float(rho.sum())
        residual = float(sum((D**2).sum() for D in defects)) / total if total > 0 else 0.0
        # Both residuals are of the same rounded weights; sums of squares of features lose the square of the
        # condition number.
        floor = (SUMS * np.finfo(np.float64).eps * condition**2) ** 2 / max(total, 1e-3)
        return Law(residual, floor)

    def errors(self, solution: Any) -> list[str]:
        """Describe deviations of the answer from the exact CCA of its own features."""
        (F, G), (U, V), condition = self._decomposed(solution)
        rho = as_host(solution.correlations)
        exact = np.clip(np.linalg.svd(U.T @ V, compute_uv=False), 0.0, 1.0)
        if len(rho) != len(exact):
            return [f"the features have {len(exact)} pairs; got {len(rho)}"]
        rounding = SUMS * np.finfo(np.float64).eps * condition**2
        found = []
        error = float(np.abs(rho - exact).max(initial=0.0))
        if not error <= rounding:
            found.append(
                f"a correlation of the features is wrong by {error:.2g}; rounding explains {rounding:.2g}"
            )
        allowed = rounding + 100 * self.unit * condition
        for name, A, W in (("x", F, solution.x_weights), ("y", G, solution.y_weights)):
            P = A @ as_host(W)
            misfit = float(np.abs(P.T @ P - np.eye(P.shape[1])).max(initial=0.0))
            if not misfit <= allowed:
                found.append(
                    f"the variates of {name}_weights must be orthonormal; their Gram matrix differs from I by "
                    f"{misfit:.2g}"
                )
        return found


def check_exact_end(trial: Any) -> Iterator[str]:
    """Check that the pairs are those of the exact CCA of the returned features, whatever their quality."""
    yield from trial.oracle.errors(trial.solution)


def shapes(case: Case, solution: Any) -> Mapping[str, tuple[int, ...]]:
    """Expected shapes of canonical weights and of means of features."""
    k, pairs = case.parameters["k"], len(solution.correlations)
    means = dict.fromkeys(("x_feature_mean", "y_feature_mean"), (k,))
    return {"x_weights": (k, pairs), "y_weights": (k, pairs), **means}


def moved(case: Case, factor: float, seed: int) -> Case:
    """Permute the rows and change the units."""
    rows = np.random.default_rng(seed).permutation(len(case.main))
    return replace(case, arrays={name: factor * A[rows] for name, A in case.arrays.items()})


def missing() -> str:
    """Reason why solvers cannot run here, or ""."""
    return "" if importlib.util.find_spec("torch") else "no torch"


TESTING = ProblemTesting(
    cases=cases,
    oracle=DeepCCAOracle,
    shapes=shapes,
    moved=moved,
    residual_kinds=frozenset({"recomputed"}),
    answer_checks={"exact-end": check_exact_end},
    missing=missing,
)
"""Independent checks for solvers of deep CCA."""
