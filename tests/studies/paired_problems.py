"""Problems of several matrices that only tests have: covariances of two, and agreement of any number of views."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import to_host
from linspec.iteration import Certificate, Iterate
from linspec.solving import Solver

TEMPLATE = Path(__file__).parents[2] / "linspec" / "templates" / "problem" / "linspec_mca"


def _module(name: str) -> Any:
    """Load a module of the template of a problem, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"template_of_mca_{name}", TEMPLATE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MCA, Gram = _module("problem").MCA, _module("gram").Gram


@dataclass(frozen=True, kw_only=True, repr=False)
class AgreementSolution(ls.LinearSolution):
    """Weights of each view, and eigenvalues."""

    weights: Any = ls.field(rows_of="views", leading=True)
    eigenvalues: Any = ls.field(value="eigenvalue")


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(ls.Problem[AgreementSolution]):
    """A w = λ B w with the blocks XᵢᵀXⱼ in A and their diagonal in B, both with ridges on it."""

    views: Any = ls.views()
    k: Any = ls.count("components")
    ridge: Any = ls.ridge(each=True)
    center: bool = ls.flag(True)

    name: ClassVar[str] = "agreement"
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[ls.Solution]] = AgreementSolution

    def certify(self, moments, arrays, tol):
        W = [to_host(part) for part in arrays["weights"]]
        found, views = moments.products(*W), [*self.matrices.values()]
        AW = [sum(row[i] for row in found) + r * W[i] for i, r in enumerate(self.ridge)]
        BW = [found[i][i] + r * W[i] for i, r in enumerate(self.ridge)]
        norms = np.sqrt(sum(np.sum(V * M, axis=0) for V, M in zip(W, BW, strict=True)))
        values = sum(np.sum(V * M, axis=0) for V, M in zip(W, AW, strict=True)) / norms**2
        gap = [A - B * values for A, B in zip(AW, BW, strict=True)]
        residual = float(max(np.abs(G).max() for G in gap) / max(np.abs(A).max() for A in AW))
        weights = tuple(A.device.asarray(V / norms, A.dtype) for A, V in zip(views, W, strict=True))
        means = tuple(A.device.asarray(moments.fitted[i].mean, A.dtype) for i, A in enumerate(views))
        fields = {"weights": weights, "eigenvalues": values, "mean": means if self.center else None}
        return Certificate(residual, (), fields)


@dataclass(frozen=True, kw_only=True)
class Dense(Solver):
    """All eigenvectors of the dense pencil."""

    def iterate(self, problem, moments, context, start):
        cuts = np.cumsum(moments.widths)[:-1]
        A = np.block(moments.gram())
        B = np.zeros_like(A)
        for i, part in enumerate(np.split(np.arange(len(A)), cuts)):
            A[np.ix_(part, part)] += problem.ridge[i] * np.eye(len(part))
            B[np.ix_(part, part)] = A[np.ix_(part, part)]
        L = np.linalg.cholesky(B)
        V = np.linalg.eigh(np.linalg.solve(L, np.linalg.solve(L, A).T))[1][:, ::-1]
        W = np.linalg.solve(L.T, V)[:, : problem.k]
        yield Iterate(0.0, lambda: {"weights": tuple(np.split(W, cuts))}, final=True)


def related(n: int, widths: tuple[int, ...], strengths: tuple[float, ...], seed: int) -> list[Any]:
    """Draw views that share a normal variable for each strength, in random directions, and independent noise."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, len(strengths))) * np.array(strengths, dtype=float)
    return [
        shared @ np.linalg.qr(rng.standard_normal((p, len(strengths))))[0].T + rng.standard_normal((n, p))
        for p in widths
    ]
