"""The checks of normalizers, test matrices and kinds of data.

Problem: the faults of a part show as slow convergence of the methods that use it, or not at all.
Method: each promise is tested on small arrays, by products with NumPy. An operator is compared with the matrix whose
products it has.
Source: Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44 (orthogonality).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any

import numpy as np

import linspec as ls
from linspec import errors
from linspec.arrays import to_host
from linspec.operators import RowFiles
from linspec.testing.solvers import (
    BACKENDS,
    PROBLEM_CHECKS,
    SOLVER_CHECKS,
    Backend,
    CheckFailed,
    require,
)

Array = np.ndarray[Any, Any]
DRAWS = 600  # of a test matrix, to estimate its moments
ERRORS = 5.0  # the largest error of a moment, in standard errors


def on_host(block: Any) -> Array:
    """Return a copy of a block as an array of NumPy, in float64."""
    return np.array(to_host(block), dtype=float)


# ---- normalizers and test matrices ----------------------------------------------------------------


def blocks() -> Iterator[tuple[str, int, Array, Array | None]]:
    """Make blocks V: their names, ranks, entries and the products M V with a metric, or None for M = I."""
    rng = np.random.default_rng(5)
    root = rng.standard_normal((50, 50)) + 10 * np.eye(50)
    thin, V = rng.standard_normal((60, 3)), rng.standard_normal((50, 5))
    yield "tall", 6, rng.standard_normal((150, 6)) * np.geomspace(1, 30, 6), None
    yield "more columns than rows", 5, rng.standard_normal((5, 12)), None
    yield "dependent columns", 3, np.hstack([thin, -2 * thin]), None
    yield "zeros", 0, np.zeros((30, 4)), None
    yield "long", 8, rng.standard_normal((2000, 8)) @ np.triu(np.ones((8, 8))), None
    yield "in a metric", 5, V, root @ root.T @ V


def orthonormal(normalizer: Any) -> None:
    """QᵀMQ = I with as many columns as the rank, and Q = V T, on every library, in float64 and float32."""
    for backend in BACKENDS:
        if backend.library and not backend.missing():
            for name, rank, V, MV in blocks():
                factored(normalizer, backend, f"{name}, {backend.name}", rank, V, MV)


def factored(normalizer: Any, backend: Backend, name: str, rank: int, V: Array, MV: Array | None) -> None:
    """Compare the Q and T of a block with their definition."""
    block = backend.wrap(V)
    before, eps = on_host(block), float(np.finfo(to_host(block).dtype).eps)
    Q, T = normalizer.orthonormalize(block, None if MV is None else backend.wrap(MV))
    require(
        np.array_equal(before, on_host(block)), f"{name}: V must stay as it is; it is changed. Work on a copy"
    )
    kinds = (type(Q), Q.dtype, type(T)) == (type(block), block.dtype, np.ndarray)
    require(
        kinds, f"{name}: Q must be an array like V, and T one of NumPy; got {type(Q)}, {Q.dtype}, {type(T)}"
    )
    q, shapes = on_host(Q), ((len(V), rank), (V.shape[1], rank))
    require(
        (q.shape, T.shape) == shapes,
        f"{name}: Q and T must have shape {shapes[0]} (rank {rank}) and {shapes[1]}; got {q.shape} and {T.shape}",
    )
    room = 2000 * eps if MV is None else 40000 * eps
    off = np.abs(q.T @ (q if MV is None else MV @ T) - np.eye(rank)).max(initial=0.0)
    require(off <= room, f"{name}: Q must be orthonormal; QᵀMQ differs from I by {off:.2g}. Sum in float64")
    off, size = np.abs(q - before @ T).max(initial=0.0), np.abs(V).max() * np.abs(T).max(initial=0.0)
    require(
        off <= room * max(1.0, size),
        f"{name}: Q must be VT; they differ by {off:.2g}. Return the T of this Q",
    )


def refusals(normalizer: Any) -> None:
    """Data that are not finite, and blocks of wrong shapes, are refused."""
    good = np.random.default_rng(0).standard_normal((20, 3))
    bad = good.copy()
    bad[7, 1] = np.nan
    for what, block, error in (
        ("NaN in V", (bad,), errors.NonFiniteData),
        ("NaN in MV", (good, bad), errors.NonFiniteData),
        ("a V of one dimension", (good[:, 0],), errors.InvalidProblem),
        ("a V of integers", (np.ones((20, 3), int),), errors.LinspecError),
    ):
        with suppress(error):
            normalizer.orthonormalize(*block)
            require(False, f"{what} must raise {error.__name__}; it was taken")


def draws(matrix: Any) -> None:
    """Equal generators give equal entries of the right shape, also as an operator; other ones give others."""
    for shape in ((40, 9), (5, 12), (23, 1)):
        first, second, other = (matrix.draw(*shape, np.random.default_rng(seed)) for seed in (7, 7, 8))
        kind = type(first), first.dtype, first.shape
        require(
            kind == (np.ndarray, np.float64, shape),
            f"draw must be float64 of NumPy, of shape {shape}; got {kind}",
        )
        require(
            np.array_equal(first, second) and not np.array_equal(first, other),
            "draw must be equal for equal generators and change with the generator. Draw from rng alone",
        )
        sketch, A = matrix.operator(*shape, np.random.default_rng(7)), np.ones((4, shape[0]))
        product = on_host(sketch.sketch(ls.as_operator(A)))
        require(
            np.array_equal(on_host(sketch.dense()), first) and np.allclose(product, A @ first, atol=1e-10),
            f"operator{shape} must have the entries of draw, and sketch by them; they differ",
        )


def moments(matrix: Any) -> None:
    """E Ω = 0 and E ΩΩᵀ = l I, within the errors of some hundred draws."""
    for rows, columns in ((13, 6), (5, 9)):
        drawn = np.array([matrix.draw(rows, columns, np.random.default_rng([3, i])) for i in range(DRAWS)])
        products = drawn @ drawn.transpose(0, 2, 1) / columns
        for what, values in (("E Ω must be 0", drawn), ("E ΩΩᵀ/l must be I", products - np.eye(rows))):
            error = values.std(axis=0) / DRAWS**0.5 + 1e-12
            off = np.max(np.abs(values.mean(axis=0)) / error)
            require(off <= ERRORS, f"{what}; it is {off:.1f} standard errors away")


# ---- kinds of data --------------------------------------------------------------------------------


def check_operator(data: Any, *, entries: Array | None = None) -> list[str]:
    """Test an operator, or data that `linspec.as_operator` takes, against the laws of operators.

    Parameters
    ----------
    data : data of shape (n, p)
        Small, since its entries are formed.
    entries : numpy.ndarray of shape (n, p), optional
        Its entries, where they are known. By default they are computed by products with the identity.

    Returns
    -------
    list of str
        The faults; empty if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import check_operator
    >>> check_operator(np.eye(3))
    []
    """
    try:
        laws(ls.as_operator(data), entries)
    except CheckFailed as fault:
        return [str(fault)]
    return []


def formed(A: Any) -> Any:
    """Return the entries of an operator, by products with the identity."""
    return A.matmat(A.home.blocks.place(np.eye(A.shape[1])))


def same(A: Any, block: Any, wanted: Array, fault: str) -> None:
    """Compare a block of an operator with the right one, but for rounding in its dtype."""
    room = 1e3 * float(np.finfo(A.dtype).eps) * np.abs(wanted).max(initial=1e-300)
    near = block.shape == wanted.shape and np.abs(on_host(block) - wanted).max(initial=0.0) <= room
    require(near, fault)


def declared(A: Any, block: Any) -> None:
    """Products and rows have the dtype of their operator; sums over rows may be more exact."""
    text = f"an operator must return its declared dtype {A.dtype}; got {block.dtype}. Convert it"
    require(str(block.dtype).endswith(A.dtype.name), text)


def laws(A: Any, entries: Array | None) -> None:
    """Products are linear and adjoint, and leave their blocks as they are; rows are rows."""
    try:
        M = on_host(formed(A))
    except Exception as error:
        shape = tuple(A.shape)
        text = f"matmat must multiply a block of {shape[1]} rows, since shape is {shape}; it raised {error!r}"
        raise CheckFailed(text) from error
    require(M.shape == tuple(A.shape), f"shape must be {M.shape}, that of the products; got {tuple(A.shape)}")
    M = M if entries is None else entries
    rng, (n, p) = np.random.default_rng(0), M.shape
    V, U = (A.home.place(rng.standard_normal((size, 3)), A.dtype) for size in (p, n))
    v, u = on_host(V), on_host(U)
    forward, adjoint = A.matmat(V), A.rmatmat(U)
    require(
        np.array_equal(on_host(V), v) and np.array_equal(on_host(U), u),
        "matmat and rmatmat must leave their blocks as they are; one writes into it. Work on a copy",
    )
    declared(A, forward)
    same(A, forward, M @ v, "matmat must be linear, with the products of the entries; it is not")
    same(A, adjoint, M.T @ u, "rmatmat(U) must be AᵀU, for the A with which matmat multiplies")
    names = A.column_names
    texts = names is None or [*map(type, names)] == [str] * p
    require(texts, f"column_names must be None or a tuple of {p} texts; got {names!r:.60}")
    rows(A, M)


def rows(A: Any, M: Array) -> None:
    """Rows by their numbers are these rows, in this order and as often."""
    n = len(M)
    for chosen in (slice(0, n), slice(n // 3, 2 * n // 3 + 1), np.array([n // 2, 0, n - 1, n // 2])):
        try:
            part = A.rows(chosen)
        except errors.MissingCapability:
            return
        block = formed(part)
        came = [int(np.abs(M - row).sum(axis=1).argmin()) for row in on_host(block)]
        fault = f"rows {chosen} must be these rows, in this order and as often; they come as rows {came}"
        declared(A, part)
        same(A, block, M[chosen], fault)


def sample_of(spec: Any) -> Any:
    """Make the sample that the record of an adapter names."""
    if spec.sample:
        return resolve_name(spec.sample)()
    raise errors.BrokenPlugin(
        "the record must name a function that makes a small object: sample='module:function'"
    )


def adapts(spec: Any) -> None:
    """The adapter takes its sample, and nothing that is not its own."""
    sample, operator = sample_of(spec), ls.as_operator(np.eye(2))
    require(spec.matches(sample) is True, "matches must be True for the sample; it is not")
    require(
        isinstance(spec.adapt(sample), ls.LinearOperator), "adapt must return a LinearOperator; it does not"
    )
    for other in (np.eye(2), object(), "name", 3, None, [1, 2], operator, RowFiles(("rows.unknown",))):
        require(
            not spec.matches(other),
            f"matches must be False for {type(other).__name__} of others, and files of other formats; it is True. Look"
            " at the class of the data, and compare the suffix",
        )


CHECKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "normalizer": {
        "orthonormal": orthonormal,
        "bad-data": refusals,
    },
    "test-matrix": {
        "draws": draws,
        "moments": moments,
    },
    "operator": {
        "adapts": adapts,
        "laws": lambda spec: laws(spec.adapt(sample_of(spec)), None),
    },
    "problem": PROBLEM_CHECKS,
    "solver": SOLVER_CHECKS,
}
"""The checks of parts by kind and name."""
