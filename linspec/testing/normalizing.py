"""Checks of a normalizer: its promises, compared with NumPy's arithmetic on planted blocks.

Problem: every subspace method calls a normalizer in its innermost loop. There its faults show as slow
convergence, if they show at all.
Method: each promise of `linspec.Normalizer` has its own check, on every library, in float64 and float32. The
blocks have planted ranks and condition numbers. QᵀMQ, VT and (MV)T are formed in float64 on the host, from
copies of V and MV that the normalizer has no access to. The allowed error is the rounding of the dtype. With a
metric it is multiplied by the condition number, since MV is known only up to rounding.
Source: the bounds of Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44, for orthogonality and residual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from linspec.arrays import HostArray, device_of, host_dtype, is_array, namespace, on_device, to_host
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.testing.backends import Backend
from linspec.testing.oracle import ROUNDING
from linspec.testing.places import package_of, said_of
from linspec.testing.problems import orthonormal
from linspec.testing.process import left_behind, moved_generators

__all__ = ["NORMALIZER_CHECKS", "Blocks"]

DTYPES = ("float64", "float32")


@dataclass(frozen=True, eq=False)
class Planted:
    """A block whose rank and condition number are known, and its metric.

    Attributes
    ----------
    name : str
    V : numpy.ndarray of shape (p, k)
        float64, with numbers that float32 can represent.
    rank : int
        The rank of V in the inner product of M.
    condition : float
        The condition number of V on its range.
    M : numpy.ndarray of shape (p, p), optional
        The metric; by default the identity.
    """

    name: str
    V: HostArray
    rank: int
    condition: float = 1.0
    M: HostArray | None = None


def _graded(p: int, k: int, condition: float) -> HostArray:
    """Make a p x k block with singular values from 1 to 1/condition."""
    rng = np.random.default_rng([p, k])
    return (orthonormal(rng, p, k) * np.geomspace(1, 1 / condition, k)) @ orthonormal(rng, k, k).T


@cache
def _planted() -> tuple[Planted, ...]:
    """Make the planted blocks."""
    rng = np.random.default_rng(5)
    some = _graded(60, 3, 3.0).astype(np.float32).astype(np.float64)
    holes = np.insert(some, (0, 2), 0.0, axis=1)
    blocks = [
        Planted("tall", _graded(150, 6, 30.0), 6, 30.0),
        Planted("square", _graded(9, 9, 10.0), 9, 10.0),
        Planted("one-column", _graded(40, 1, 1.0), 1),
        Planted("more-columns-than-rows", _graded(12, 5, 3.0).T, 5, 3.0),
        # Exact multiples of columns, so that the rank is the same in every dtype.
        Planted("dependent-columns", np.hstack([some, some[:, ::-1], -2 * some]), 3, 3.0),
        Planted("zero-columns", holes, 3, 3.0),
        Planted("zeros", np.zeros((30, 4)), 0),
        Planted("no-columns", np.zeros((30, 0)), 0),
    ]
    Z = orthonormal(rng, 50, 50)
    M = (Z * np.geomspace(1, 1e-2, 50)) @ Z.T
    blocks.append(Planted("metric", _graded(50, 5, 10.0), 5, 10.0, (M + M.T) / 2))
    # A metric of rank exactly three: only three coordinates enter it.
    seen = np.zeros(50)
    seen[[4, 17, 30]] = 1.0, 2.0, 4.0
    blocks.append(Planted("singular-metric", np.eye(50)[:, [4, 9, 17, 30, 31]], 3, 1.0, np.diag(seen)))
    return tuple(blocks)


ACCUMULATED = 1e3
"""Condition number at which a Gram matrix summed in float32 has lost six of its seven digits."""


class Orthonormalized:
    """One call of a normalizer, with copies of its input."""

    def __init__(self, normalizer: Any, backend: Backend, block: Planted, dtype: str) -> None:
        self.block = block
        self.package = package_of(type(normalizer))
        self.eps = float(np.finfo(dtype).eps)
        V = block.V.astype(dtype)
        MV = None if block.M is None else (block.M @ V.astype(np.float64)).astype(dtype)
        given = backend.wrap(V), None if MV is None else backend.wrap(MV)
        self.like = given[0]
        before = [backend.snapshot(A) for A in given if A is not None]
        self.error: Exception | None = None
        self.Q: Any = None
        self.T: Any = None
        try:
            with on_device(*given):
                self.Q, self.T = normalizer.orthonormalize(*given)
        except Exception as error:  # noqa: BLE001 (whatever it raises is reported)
            self.error = error
        self.untouched = before == [backend.snapshot(A) for A in given if A is not None]
        # The kit's own copies, to which the normalizer has no access.
        self.V = V.astype(np.float64)
        self.MV = None if MV is None else MV.astype(np.float64)

    @property
    def writes(self) -> bool:
        """Whether the call failed because its data are read-only."""
        return self.error is not None and "read-only" in str(self.error)

    @property
    def answered(self) -> bool:
        """Whether Q and T are blocks that can be multiplied."""
        return all(is_array(A) and A.ndim == 2 for A in (self.Q, self.T))

    @cached_property
    def host(self) -> tuple[HostArray, HostArray]:
        """Q and T on the host, float64."""
        return tuple(np.asarray(to_host(A), dtype=np.float64) for A in (self.Q, self.T))  # type: ignore[return-value]


class Blocks:
    """All calls of one normalizer that the checks use; each call is made once."""

    def __init__(self, normalizer: Any) -> None:
        self.normalizer = normalizer
        self._made: dict[tuple[str, str, str], Orthonormalized] = {}

    def on(self, backend: Backend) -> Iterator[tuple[str, Orthonormalized]]:
        """Yield each call on a backend, with a name for it."""
        for dtype in DTYPES if backend.float64 else DTYPES[1:]:
            for block in _planted():
                key = backend.name, block.name, dtype
                if key not in self._made:
                    self._made[key] = Orthonormalized(self.normalizer, backend, block, dtype)
                yield f"{block.name}, {dtype}", self._made[key]

    def answered(self, backend: Backend) -> Iterator[tuple[str, Orthonormalized]]:
        """Return the calls on a backend that returned two blocks, with their names."""
        return ((name, made) for name, made in self.on(backend) if made.answered)


def check_solves(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """The normalizer returns two blocks and raises no exception."""
    for name, made in blocks.on(backend):
        if made.error is not None and not (made.writes and backend.name == "numpy-readonly"):
            yield f"{name}: orthonormalize must return Q and T; it raised {said_of(made.error, made.package)}"
        elif made.error is None and not made.answered:
            got = " and ".join(type(A).__name__ for A in (made.Q, made.T))
            yield f"{name}: orthonormalize must return two blocks, Q and T; got {got}"


def check_orthonormal(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """QᵀMQ = I."""
    for name, made in blocks.answered(backend):
        Q, M = made.host[0], made.block.M
        if Q.shape != (len(made.V), made.block.rank):
            continue  # the check "rank" reports it
        gram = Q.T @ (Q if M is None else M @ Q)
        off = float(np.abs(gram - np.eye(Q.shape[1])).max(initial=0.0))
        limit = ROUNDING * made.eps * (1.0 if M is None else made.block.condition * _root_condition(M))
        if not off <= limit:
            yield (
                f"{name}: Qᵀ{'' if M is None else 'M'}Q must be I; it differs by {off:.2g}, and rounding "
                f"explains {limit:.2g}"
            )


def _root_condition(M: HostArray) -> float:
    values = np.linalg.eigvalsh(M)
    live = values[values > 1e-12 * values[-1]]
    return float(np.sqrt(live[-1] / live[0]))


def check_transform(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """Q = VT and MQ = (MV)T, up to the error of a backward-stable algorithm."""
    for name, made in blocks.answered(backend):
        (Q, T), V = made.host, made.V
        if Q.shape[0] != V.shape[0] or T.shape != (V.shape[1], Q.shape[1]):
            continue  # the check "rank" reports it
        if 0 in Q.shape:
            continue
        pairs = [("Q", "VT", Q, V)]
        if made.block.M is not None and made.MV is not None:
            pairs.append(("MQ", "(MV)T", made.block.M @ Q, made.MV))
        for basis, product, wanted, factor in pairs:
            off = float(np.linalg.norm(wanted - factor @ T))
            limit = ROUNDING * made.eps * float(np.linalg.norm(factor, 2) * np.linalg.norm(T, 2))
            if not off <= limit:
                yield (
                    f"{name}: {basis} must be {product}; they differ by {off:.2g}, and rounding explains "
                    f"{limit:.2g}. Return the T of this Q"
                )


def check_rank(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """Q has as many columns as the numerical rank of the block, and T has the matching shape."""
    for name, made in blocks.answered(backend):
        (p, k), r = made.V.shape, made.block.rank
        for what, found, shape in (("Q", made.Q, (p, r)), ("T", made.T, (k, r))):
            if tuple(found.shape) != shape:
                yield f"{name}: {what} must have shape {shape} (rank {r}); got {tuple(found.shape)}"


def check_output_home(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """Q has the namespace, dtype and device of V; T is float64 on the host."""
    for name, made in blocks.answered(backend):
        Q, like = made.Q, made.like
        if namespace(Q) is not namespace(like):
            yield f"{name}: Q must be an array of {namespace(like).__name__}; got {namespace(Q).__name__}"
        elif device_of(Q) != device_of(like):
            yield f"{name}: Q must be on {device_of(like)}; got {device_of(Q)}"
        if host_dtype(Q) != host_dtype(like):
            yield f"{name}: Q must be {host_dtype(like)}, like V; got {host_dtype(Q)}"
        if type(made.T) is not np.ndarray or made.T.dtype != np.float64:
            yield f"{name}: T must be a NumPy array of float64; got {type(made.T).__name__} of {made.T.dtype}"


def check_input_untouched(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """V and MV are not changed, and may be read-only."""
    for name, made in blocks.on(backend):
        if not made.untouched:
            yield f"{name}: a normalizer must not change V or MV; they differ after the call. Work on a copy"
        if made.writes and backend.name == "numpy-readonly" and made.error is not None:
            yield (
                f"{name}: a normalizer must not write to V or MV; on read-only blocks it raised "
                f"{said_of(made.error, made.package)}"
            )


def check_accumulation(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """Sums over the rows of a float32 block are accumulated in float64."""
    off = []
    for condition in (1.0, ACCUMULATED):
        block = Planted("long", _graded(2000, 8, condition), 8, condition)
        made = Orthonormalized(blocks.normalizer, backend, block, "float32")
        if not made.answered or made.host[0].shape != block.V.shape:
            return  # the checks "solves" and "rank" report it
        Q = made.host[0]
        off.append(float(np.abs(Q.T @ Q - np.eye(Q.shape[1])).max()))
    limit = ROUNDING * made.eps
    if off[0] <= limit < off[1]:  # if even the first is off, the check "orthonormal" reports it
        yield (
            f"QᵀQ must be I for a float32 block of condition number {ACCUMULATED:g}, too; it differs by "
            f"{off[1]:.2g}. Sum in float64: a float32 Gram matrix loses digits with the square of the "
            "condition number"
        )


def check_non_finite(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """NaN and infinity in V or MV raise NonFiniteData."""
    dtype = DTYPES[0] if backend.float64 else DTYPES[1]
    good = _graded(20, 3, 2.0).astype(dtype)
    for value in (np.nan, np.inf, -np.inf):
        bad = good.copy()
        bad[7, 1] = value
        for what, given in (("V", (bad, None)), ("MV", (good, bad))):
            V, MV = (None if A is None else backend.wrap(A) for A in given)
            error = _raised(blocks.normalizer, V, MV)
            if not isinstance(error, NonFiniteData):
                yield f"{value} in {what} must raise NonFiniteData; got {error!r}"


def check_refusals(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """Wrong shapes raise InvalidProblem. Wrong dtypes, and blocks of two libraries, raise UnsupportedData."""
    dtype = DTYPES[0] if backend.float64 else DTYPES[1]
    good = _graded(20, 3, 2.0).astype(dtype)
    V = backend.wrap(good)
    wrong: list[tuple[str, Any, Any, type[Exception]]] = [
        ("a V of one dimension", V[:, 0], None, InvalidProblem),
        ("an MV of another shape", V, backend.wrap(good[:, :2].copy()), InvalidProblem),
        ("a V of integers", backend.wrap(np.ones((20, 3), np.int32)), None, UnsupportedData),
    ]
    if namespace(V) is not namespace(good):
        wrong.append(("an MV of another library", V, good.copy(), UnsupportedData))
    for what, block, MV, expected in wrong:
        error = _raised(blocks.normalizer, block, MV)
        if not isinstance(error, expected):
            yield f"{what} must raise {expected.__name__}; got {error!r}"


def check_process(blocks: Blocks, backend: Backend) -> Iterator[str]:
    """A call prints nothing, uses no global generator, and leaves the settings of the process as they were."""
    V = backend.wrap(_graded(20, 3, 2.0).astype(DTYPES[0] if backend.float64 else DTYPES[1]))

    def work() -> None:
        with suppress(Exception), on_device(V):  # the check "solves" reports it
            blocks.normalizer.orthonormalize(V, None)

    yield from left_behind(work)
    for owner in moved_generators(work):
        yield f"a normalizer must not use a global random generator; it used that of {owner}"


def _raised(normalizer: Any, V: Any, MV: Any) -> Exception | None:
    with np.errstate(all="ignore"):
        try:
            with on_device(V):
                normalizer.orthonormalize(V, MV)
        except Exception as error:  # noqa: BLE001 (which one it is, is the question)
            return error
    return None


NORMALIZER_CHECKS: dict[str, Callable[[Blocks, Backend], Iterator[str]]] = {
    "solves": check_solves,
    "orthonormal": check_orthonormal,
    "transform": check_transform,
    "rank": check_rank,
    "output-home": check_output_home,
    "input-untouched": check_input_untouched,
    "accumulation": check_accumulation,
    "non-finite": check_non_finite,
    "refusals": check_refusals,
    "process": check_process,
}
"""The checks of a normalizer, by their names in test ids and expected failures; each runs on every library."""
