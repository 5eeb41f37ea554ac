"""Plugins that are broken on purpose, each in one way, as an author breaks one without noticing.

The honest parts at the head of each section pass all checks; a faulty one changes a line of them.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

import linspec as ls
from linspec import Needs, Normalizer, TestMatrix, option
from linspec.arrays import from_host, host_dtype, to_host
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.iteration import Iterate
from linspec.operators import RowOperator, Sketch
from linspec.solving import NewRows, Solver
from linspec.testing import references

SOURCE = "Golub 1965, SIAM J. Numer. Anal. 2(2)"
KEPT: list[Any] = []


def altered(solution: Any, **changes: Any) -> Any:
    """Change a solution in place."""
    for name, value in changes.items():
        object.__setattr__(solution, name, value)
    return solution


# ---- solvers of least squares ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DenseInTurn(Solver):
    """Normal equations, after a look at the entries of some rows after the others (Golub 1965)."""

    def iterate(self, problem, moments, context, start):
        for block in moments.operators[0].blocks():
            for first in range(0, block.rows, 500):
                block.cut(first, min(first + 500, block.rows)).dense()
        (S, C), _ = ([G.toarray() if scipy.sparse.issparse(G) else G for G in row] for row in moments.gram())
        x = np.linalg.lstsq(S + problem.ridges[0] * np.eye(len(S)), C, rcond=1e-12)[0]
        yield Iterate(0.0, lambda: {"x": x}, final=True)


@dataclass(frozen=True, kw_only=True)
class Honest(Solver):
    """The SVD of a triangle of the rows (Golub 1965)."""

    least: ClassVar[float] = 0.0

    def iterate(self, problem, moments, context, start):
        R, p = self.reduced(problem, moments), moments.widths[0]
        U, s, Vt = np.linalg.svd(R[:, :p], full_matrices=False)
        keep = s > max(1e-13 * s[0], self.least)
        x = Vt[keep].T @ (
            (s[keep] / (s[keep] ** 2 + self.ridge(problem)))[:, None] * (U[:, keep].T @ R[:, p:])
        )
        given = self.given(moments.operators[0].backend.blocks.place(x))
        arrays = self.twist(given, problem, moments) or given
        yield Iterate(0.0, lambda: arrays, final=True)

    # For faulty ones.

    def reduced(self, problem, moments):
        return moments.triangle()

    def ridge(self, problem):
        return problem.ridge

    def given(self, x):
        return {"x": x}

    def twist(self, arrays, problem, moments):
        return arrays


@dataclass(frozen=True, kw_only=True)
class Iterating(Solver):
    """Conjugate gradients on the normal equations (Hestenes & Stiefel 1952; Golub 1965)."""

    tol: float | None = option(None, "residual to stop at", kind=float, above=0)
    max_iterations: int = option(300, "iterations at most", at_least=1)

    def iterate(self, problem, moments, context, start):
        home, m = moments.operators[0].backend.blocks, problem.B.shape[1]
        self.begin(problem, moments, context)
        AtB = moments.products(None, moments.operators[1].backend.blocks.eye(m), onto=(0,))[1][0]
        scale, x, r = np.linalg.norm(to_host(AtB), axis=0), home.zeros(tuple(AtB.shape)), AtB
        p, rr = r, np.sum(to_host(r) ** 2, axis=0)
        while True:
            yield Iterate(self.measure(rr, scale), lambda x=x: {"x": x})
            Mp = moments.gram_product(p) + p * problem.ridge
            pMp = np.sum(to_host(p) * to_host(Mp), axis=0)
            a = home.place(np.divide(rr, pMp, out=np.zeros(m), where=pMp > 0))
            x, r = x + p * a[None, :], r - Mp * a[None, :]
            before, rr = rr, np.sum(to_host(r) ** 2, axis=0)
            p = r + p * home.place(np.divide(rr, before, out=np.zeros(m), where=before > 0))[None, :]

    def measure(self, rr, scale):
        return float(np.max(np.sqrt(rr) / np.where(scale > 0, scale, 1.0), initial=0.0))

    # For faulty ones.

    def begin(self, problem, moments, context):
        pass


def after(base: type, **members: Any) -> type:
    """Derive a faulty class that changes members, and find it under its name in this module."""
    number = sum(name.startswith("Faulty") for name in globals())
    words = {"__module__": __name__, "__doc__": "After Golub 1965.", **members}
    cls = dataclass(frozen=True, kw_only=True, eq=base in (Honest, Iterating, Triplets, Orthonormal, Normal))(
        type(f"Faulty{number}", (base,), words)
    )
    globals()[cls.__name__] = cls
    return cls


def twisted(work: Callable[..., Any]) -> type:
    """Derive a class whose arrays go through a function, which may return others."""

    def twist(self, arrays, problem, moments):
        found = work(arrays, problem, moments)
        return found if isinstance(found, dict) else None

    return after(Honest, twist=twist)


def same(x: Any, change: Callable[[Any], Any]) -> Any:
    return change(x) if type(x) is np.ndarray and x.dtype == np.float64 else x


# ---- solvers of SVD -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Triplets(Solver):
    """The SVD of a triangle of the rows (Golub 1965)."""

    def iterate(self, problem, moments, context, start):
        _, s, Vt = np.linalg.svd(moments.triangle(), full_matrices=False)
        kept = self.choose(min(problem.k, int(np.sum(s > 1e-13 * s[0]))), len(s))
        yield Iterate(0.0, lambda: {"Vh": Vt[kept], "S": s[kept]}, final=True)

    def choose(self, k, found):
        return list(range(k))


@dataclass(frozen=True, kw_only=True)
class Pairs(Solver):
    """Subspace iteration with exact least squares on Gram matrices (Golub & Zha 1995)."""

    tol: float | None = option(None, "residual to stop at", kind=float, above=0)
    max_iterations: int = option(300, "iterations at most", at_least=1)
    draws: ClassVar[bool] = True

    def iterate(self, problem, moments, context, start):
        (Sx, C), (_, Sy) = ([to_host(G) for G in row] for row in moments.gram())
        Sx, Sy = Sx + problem.ridge[0] * np.eye(len(Sx)), Sy + problem.ridge[1] * np.eye(len(Sy))
        Px, Py = (np.linalg.pinv(S, rcond=1e-12, hermitian=True) for S in (Sx, Sy))
        rng = context.rng if self.draws else np.random.default_rng(1)
        x = self.begin(start, rng.standard_normal((len(Sx), problem.k)))
        while True:
            x = x @ np.linalg.inv(np.linalg.cholesky(x.T @ Sx @ x)).T
            y = Py @ C.T @ x
            values, U = np.linalg.eigh(x.T @ C @ y)
            x, rho = x @ U[:, ::-1], np.sqrt(values[::-1])
            y = Py @ C.T @ x / rho
            gap = C @ y - Sx @ x * rho
            residual = float(np.sum(gap * (Px @ gap)) / rho.sum())
            yield Iterate(residual, lambda x=x, y=y: {"x_weights": x, "y_weights": y})
            x = Px @ C @ y

    def begin(self, start, x):
        return x if start is None else to_host(start["x_weights"])


# ---- normalizers and test matrices ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Orthonormal(Normalizer):
    """The singular value decomposition of a block in the metric (Golub 1965)."""

    def orthonormalize(self, V, MV=None):
        for block in (V,) if MV is None else (V, MV):
            if block.ndim != 2 or block.shape != V.shape:
                raise InvalidProblem("blocks must have two dimensions, and equal shapes")
            if host_dtype(block) not in (np.float32, np.float64):
                raise UnsupportedData("blocks must be float32 or float64")
            if not np.isfinite(to_host(block)).all():
                raise NonFiniteData("blocks must be finite")
        host, unit = np.asarray(to_host(V), dtype=np.float64), float(np.finfo(host_dtype(V)).eps)
        G = self.summed(V, host) if MV is None else host.T @ np.asarray(to_host(MV), dtype=np.float64)
        values, W = np.linalg.eigh((G + G.T) / 2)
        keep = values > max(1e-13, 10 * unit if MV is not None else 0.0) * max(
            values.max(initial=0.0), 1e-300
        )
        T = W[:, keep] / np.sqrt(values[keep])
        return self.twist(V, from_host((host @ T).astype(host_dtype(V)), like=V), T)

    def summed(self, V, host):
        return host.T @ host

    def twist(self, V, Q, T):
        return Q, T


@dataclass(frozen=True, kw_only=True)
class Normal(TestMatrix):
    """Independent normal numbers (Golub 1965)."""

    def draw(self, rows, columns, rng):
        return self.twist(rng.standard_normal((rows, columns)))

    def twist(self, drawn):
        return drawn


class Doubled(Sketch):
    """Entries that are right, and twice their product with data."""

    def sketch(self, A):
        return 2 * super().sketch(A)


# ---- kinds of data --------------------------------------------------------------------------------


class Parcel:
    """Data of a foreign library: an array, or a file of one."""

    def __init__(self, array: Any, path: str = "") -> None:
        self.array, self.path = array, path


class Adapted(ls.LinearOperator):
    """Products with a parcel."""

    fault = ""

    def __init__(self, parcel: Parcel) -> None:
        self.array, self.shape, self.dtype = parcel.array, parcel.array.shape, parcel.array.dtype

    def _matmat(self, V):
        return self.array @ V.astype(self.dtype)

    def _rmatmat(self, U):
        return self.array.T.astype(np.float64) @ U


class Gathering(Adapted):
    """Rows of a parcel by their numbers."""

    access = "rows"

    def _rows(self, selection):
        return ls.as_operator(self.gathered(selection))

    def gathered(self, selection):
        return self.array[selection]


class FromFile(RowOperator):
    """Rows of a file, of which all are read for each block."""

    def __init__(self, parcel: Parcel) -> None:
        self.path = parcel.path
        self.shape, self.dtype = np.load(self.path, mmap_mode="r").shape, np.dtype(np.float64)

    def _rows(self, selection):
        return ls.as_operator(np.load(self.path)[selection])


class Sparse:
    """Sparse data of a foreign library."""

    def __init__(self) -> None:
        self.held = scipy.sparse.random_array(
            (2000, 200), density=0.005, rng=np.random.default_rng(0), format="csr"
        )
        self.nnz = self.held.nnz


def parcel() -> Parcel:
    return Parcel(np.random.default_rng(0).standard_normal((20, 6)))


def stored() -> Parcel:
    path = str(Path(tempfile.mkdtemp()) / "rows.npy")
    np.save(path, np.random.default_rng(0).standard_normal((4000, 40)))
    return Parcel(None, path)


def is_parcel(data: Any) -> bool:
    return isinstance(data, Parcel | Sparse)


def of(base: type, **members: Any) -> type:
    """Derive a faulty operator."""
    return type("FaultyOperator", (base,), members)


# ---- kinds of problems ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Components(ls.SVD):
    """The truncated SVD by another name."""

    name: ClassVar[str] = "faulty"


def problem_after(**members: Any) -> type:
    """Derive a faulty kind of problem."""
    number = sum(name.startswith("FaultyProblem") for name in globals())
    cls = type(
        f"FaultyProblem{number}", (Components,), {"__module__": __name__, "__doc__": "Broken.", **members}
    )
    globals()[cls.__name__] = cls
    return cls


def forgetting(field: str) -> type:
    """Derive a problem that takes a field, and solves without it."""

    def forget(self):
        Components.__post_init__(self)
        object.__setattr__(self, field, None)

    return problem_after(__post_init__=forget)


def takes_any_weights(self):
    weights = self.sample_weight
    object.__setattr__(self, "sample_weight", None)
    Components.__post_init__(self)
    object.__setattr__(self, "sample_weight", weights)


def answering(member: str, work: Callable[..., Any]) -> type:
    """Derive a problem whose answers have a faulty member."""
    number = sum(name.startswith("FaultyAnswer") for name in globals())
    words = {"__module__": __name__, "__doc__": "Broken.", member: work}
    cls = dataclass(frozen=True, kw_only=True, repr=False)(
        type(f"FaultyAnswer{number}", (ls.SVDSolution,), words)
    )
    globals()[cls.__name__] = cls
    return problem_after(solution=cls)


def without(field: str) -> Callable[..., Any]:
    """Make a `transform` that forgets a field."""

    def transform(self, A, *, confounds=None):
        value = getattr(self, field)
        twin = altered(copy.copy(self), **{field: None if field == "scale" or value is None else 0 * value})
        return ls.SVDSolution.transform(twin, A, confounds=confounds)

    return transform


def prints_scores(self, A, *, confounds=None):
    print("scores")
    return ls.SVDSolution.transform(self, A, confounds=confounds)


@dataclass(frozen=True, kw_only=True, repr=False)
class WithoutWeights(ls.SVDSolution):
    """Its vectors are not declared as weights, so that `scale` divides nothing."""

    Vh: Any = ls.field(leading=True, axis=1, shape="k p")

    def transform(self, A, *, confounds=None):
        return NewRows(self.mean, self.slopes, self.confound_mean, self.scale).images(
            A, self.Vh.T, "A", confounds
        )


def certifying(change: Callable[[Any], Any]) -> type:
    """Derive a problem whose certificates go through a function."""

    def certify(self, moments, arrays, tol):
        return change(Components.certify(self, moments, arrays, tol))

    return problem_after(certify=certify)


def returning(**changes: Callable[[Any], Any]) -> type:
    """Derive a problem whose certificate changes fields of the answer."""
    return certifying(
        lambda found: found._replace(
            fields={name: changes.get(name, lambda x: x)(x) for name, x in found.fields.items()}
        )
    )


NOTHING_SEEN = replace(references.SVD, seen=lambda case, solution: {})
ONE_STEP = replace(references.SVD, options={"max_iterations": 1, "block": 4})

# ---- how they are registered ----------------------------------------------------------------------


def solver(cls: type, *traits: str, needs: Needs | None = None, **changes: Any) -> Callable[[], str]:
    """Return a function that registers a solver and returns its name."""
    problem = "svd" if issubclass(cls, Triplets) else "cca" if issubclass(cls, Pairs) else "least-squares"
    iterative = issubclass(cls, Iterating | Pairs)
    record = {
        "name": "faulty",
        "problem": problem,
        "target": f"{cls.__module__}:{cls.__name__}",
        "summary": "A solver that is broken on purpose.",
        "reference": SOURCE,
        "needs": needs or (Needs() if iterative else Needs(entries=True)),
        "traits": ("iterative" if iterative else "direct", *traits),
    }

    def register() -> str:
        ls.register(ls.SolverSpec(**(record | changes)))
        return f"{problem}/faulty"

    return register


def part(cls: type) -> Callable[[], str]:
    """Return a function that registers a normalizer or a test matrix."""
    spec = ls.NormalizerSpec if issubclass(cls, Normalizer) else ls.TestMatrixSpec

    def register() -> str:
        target = f"{cls.__module__}:{cls.__name__}"
        record = spec(
            name="faulty", target=target, summary="A part that is broken on purpose.", reference=SOURCE
        )
        ls.register(record)
        return record.qualified

    return register


def adapter(adapt: Callable[..., Any] = Adapted, sample: str = "parcel", **changes: Any) -> Callable[[], str]:
    """Return a function that registers an adapter."""
    record = {
        "name": "faulty",
        "matches": is_parcel,
        "adapt": adapt,
        "summary": "An adapter that is broken on purpose.",
        "sample": f"{__name__}:{sample}",
    }

    def register() -> str:
        ls.register(ls.OperatorSpec(**(record | changes)))
        return "operator/faulty"

    return register


def problem(
    cls: type = Components,
    testing: str = "linspec.testing.references:SVD",
    name: str = "problem/faulty",
) -> Callable[[], str]:
    """Return a function that registers a kind of problem with solvers of SVD, and returns its name or one of theirs."""

    def register() -> str:
        target = f"{cls.__module__}:{cls.__name__}"
        summary = "A problem that is broken on purpose."
        ls.register(ls.ProblemSpec(name="faulty", target=target, summary=summary, testing=testing))
        for each in ("direct", "block-krylov"):
            ls.register(replace(ls.registry.get_spec("solver", each, "svd"), problem="faulty"))
        return name

    return register
