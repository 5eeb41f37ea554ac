"""The checks of normalizers, test matrices, kinds of data and kinds of problems.

Problem: the faults of a part show as slow convergence of the methods that use it, or not at all.
Method: each promise is tested on small arrays, by products with NumPy. An operator is compared with the matrix whose
products it has; what it reads is counted in bytes that the process asks of files.
Source: Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44 (orthogonality); Frisch & Waugh 1933 (confounds).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import is_array, to_host
from linspec.errors import InvalidProblem, LinspecError, MissingCapability, NonFiniteData
from linspec.testing.data import BACKENDS
from linspec.testing.references import planted
from linspec.testing.solvers import OnHost, Skip, Solver, equal, left_behind, peak, reference_of, scores, units

__all__ = ["ADAPTER_CHECKS", "NORMALIZER_CHECKS", "PROBLEM_CHECKS", "TEST_MATRIX_CHECKS", "check_operator"]

Array = np.ndarray[Any, Any]
DRAWS, ERRORS = 600, 5.0
"""Draws that estimate the moments of a test matrix, and the largest error in standard errors."""


# ---- normalizers ----------------------------------------------------------------------------------


def blocks() -> Iterator[tuple[str, Array, Array | None, int]]:
    """Yield blocks by name, with the metric and the rank."""
    rng = np.random.default_rng(5)
    tall = rng.standard_normal((150, 6))
    some = rng.standard_normal((60, 3)).astype(np.float32).astype(float)  # multiples are exact in every dtype
    yield "tall", tall * np.geomspace(1, 30, 6), None, 6
    yield "one column", tall[:, :1], None, 1
    yield "more columns than rows", rng.standard_normal((5, 12)), None, 5
    yield "dependent columns", np.hstack([some, -2 * some]), None, 3
    yield "zeros", np.zeros((30, 4)), None, 0
    root = rng.standard_normal((50, 50)) + 10 * np.eye(50)
    yield "in a metric", rng.standard_normal((50, 5)), root @ root.T, 5
    yield "long", rng.standard_normal((2000, 8)) @ np.triu(np.ones((8, 8))), None, 8


def orthonormal(normalizer: Any) -> Iterator[str]:
    """QᵀMQ = I with as many columns as the rank, and Q = V T, on every library, in float64 and float32."""
    for backend in BACKENDS:
        if not backend.library or backend.missing():
            continue
        for name, V, M, rank in blocks():
            given = [backend.wrap(X) for X in ([V] if M is None else [V, M @ V])]
            before, where = [to_host(X).tobytes() for X in given], f"{name}, {backend.name}"
            Q, T = normalizer.orthonormalize(*given)
            if not is_array(Q) or type(Q) is not type(given[0]) or str(Q.dtype) != str(given[0].dtype):
                yield f"{where}: Q must be an array like V; got {type(Q).__name__}, {getattr(Q, 'dtype', '')}"
            if type(T) is not np.ndarray or T.dtype != np.float64:
                yield f"{where}: T must be a NumPy array of float64; got {type(T).__name__}, {getattr(T, 'dtype', '')}"
            if before != [to_host(X).tobytes() for X in given]:
                yield f"{where}: V must stay as it is; it is changed. Work on a copy"
                continue
            q, unit = np.asarray(to_host(Q), dtype=float), float(np.finfo(to_host(given[0]).dtype).eps)
            if q.shape != (len(V), rank) or T.shape != (V.shape[1], rank):
                yield f"{where}: Q must have shape {(len(V), rank)} (rank {rank}), and T {(V.shape[1], rank)}; got {q.shape} and {T.shape}"
                continue
            v = np.asarray(to_host(given[0]), dtype=float)
            room = 2000 * unit * (1.0 if M is None else 20.0)
            off = np.abs(q.T @ (q if M is None else M @ q) - np.eye(rank)).max(initial=0.0)
            if not off <= room:
                yield f"{where}: Q must be orthonormal; QᵀMQ differs from I by {off:.2g}. Sum in float64"
            off = np.abs(q - v @ T).max(initial=0.0)
            if not off <= room * max(1.0, float(np.abs(v).max(initial=0.0) * np.abs(T).max(initial=0.0))):
                yield f"{where}: Q must be VT; they differ by {off:.2g}. Return the T of this Q"


def refusals(normalizer: Any) -> Iterator[str]:
    """Data that are not finite, and blocks of wrong shapes, are refused."""
    good = np.random.default_rng(0).standard_normal((20, 3))
    bad = np.where(np.arange(60).reshape(20, 3) == 22, np.nan, good)
    for what, given, error in (
        ("NaN in V", (bad,), NonFiniteData),
        ("NaN in MV", (good, bad), NonFiniteData),
        ("a V of one dimension", (good[:, 0],), InvalidProblem),
        ("an MV of another shape", (good, good[:, :2]), InvalidProblem),
        ("a V of integers", (np.ones((20, 3), int),), LinspecError),
    ):
        try:
            normalizer.orthonormalize(*given)
        except error:
            continue
        except Exception as other:  # noqa: BLE001 (which one it is, is the question)
            yield f"{what} must raise {error.__name__}; got {type(other).__name__}: {other}"
        else:
            yield f"{what} must raise {error.__name__}; it was taken"


def normalizer_process(normalizer: Any) -> Iterator[str]:
    """A call prints nothing and leaves the process as it was."""
    V = np.random.default_rng(0).standard_normal((20, 3))
    yield from left_behind(lambda: normalizer.orthonormalize(V, None))


# ---- test matrices --------------------------------------------------------------------------------


def draws(matrix: Any) -> Iterator[str]:
    """Equal generators give equal entries of the right shape, also as an operator; other ones give others."""
    for rows, columns in ((40, 9), (64, 16), (5, 12), (23, 1), (1, 1)):
        what = f"draw({rows}, {columns}, rng)"
        first, second, other = (matrix.draw(rows, columns, np.random.default_rng(s)) for s in (7, 7, 8))
        if type(first) is not np.ndarray or first.dtype != np.float64 or first.shape != (rows, columns):
            yield f"{what} must return a NumPy array of float64 of that shape; got {type(first).__name__}, {getattr(first, 'shape', '')}"
            continue
        if not np.array_equal(first, second):
            yield f"{what} must give the same matrix for equal generators; two draws differ. Draw from rng alone"
            continue
        if rows * columns > 20 and np.array_equal(first, other):
            yield f"{what} must change with the generator; it does not. Draw from rng"
        made = matrix.operator(rows, columns, np.random.default_rng(7))
        A = np.random.default_rng(1).standard_normal((4, rows))
        sketch = to_host(made.sketch(ls.as_operator(A)))
        if not np.array_equal(to_host(made.dense()), first) or not np.allclose(sketch, A @ first, atol=1e-10):
            yield f"operator({rows}, {columns}, rng) must have the entries of draw, and its sketch their products; they differ"


def moments(matrix: Any) -> Iterator[str]:
    """E Ω = 0 and E ΩΩᵀ = l I, within the errors of some hundred draws."""
    for rows, columns in ((13, 6), (5, 9)):
        drawn = np.array([matrix.draw(rows, columns, np.random.default_rng([3, s])) for s in range(DRAWS)])
        gram = drawn @ drawn.transpose(0, 2, 1) / columns
        for what, values, wanted in (("the mean", drawn, 0.0), ("E ΩΩᵀ/l", gram, np.eye(rows))):
            error = values.std(axis=0) / np.sqrt(DRAWS) + 1e-12
            if not (off := float((np.abs(values.mean(axis=0) - wanted) / error).max())) <= ERRORS:
                yield f"{what} must be {'0' if what == 'the mean' else 'I'}; got one that is {off:.1f} standard errors away, for {rows} rows and {columns} columns"


def matrix_process(matrix: Any) -> Iterator[str]:
    """Drawing prints nothing, and uses and changes nothing of the process."""
    yield from left_behind(lambda: matrix.operator(40, 9, np.random.default_rng(0)).dense())


# ---- kinds of data --------------------------------------------------------------------------------


def check_operator(data: Any, *, entries: Array | None = None, seed: int = 0) -> list[str]:
    """Test an operator, or data that `linspec.as_operator` takes, against the laws of operators.

    Parameters
    ----------
    data : data of shape (n, p)
        Small, since its entries are formed.
    entries : numpy.ndarray of shape (n, p), optional
        Its entries, where they are known. By default they are computed by products with the identity.
    seed : int, default 0

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
    return list(_products(data, entries, seed)) or list(_rows(data, entries))


def _formed(A: Any) -> Array:
    """Return the entries of an operator, by products with the identity."""
    found: Array = np.asarray(to_host(A.matmat(A.home.blocks.place(np.eye(A.shape[1])))), dtype=float)
    return found


def _unlike(got: Any, wanted: Array, unit: float) -> bool:
    """Whether two blocks differ by more than rounding."""
    got = np.asarray(to_host(got), dtype=float)
    return got.shape != wanted.shape or not np.allclose(got, wanted, rtol=0, atol=1e3 * unit * (np.abs(wanted).max(initial=0.0) + 1e-300))


def _products(data: Any, entries: Array | None, seed: int) -> Iterator[str]:
    A = ls.as_operator(data)
    if A.dtype not in (np.float32, np.float64):
        yield f"dtype must be float32 or float64, that of products; got {A.dtype}"
        return
    unit = float(np.finfo(A.dtype).eps)
    try:
        M = _formed(A)
    except Exception as error:  # noqa: BLE001 (an operator may fail in any way)
        yield f"matmat must multiply a block of {A.shape[1]} rows, since shape is {tuple(A.shape)}; it raised {type(error).__name__}: {error}"
        return
    if M.shape != tuple(A.shape):
        yield f"shape must be {M.shape}, that of the products; got {tuple(A.shape)}"
        return
    if entries is not None and _unlike(M, np.asarray(entries, dtype=float), unit):
        yield "products with the identity must be the entries; they differ"
    rng = np.random.default_rng(seed)
    V, U = (A.home.place(rng.standard_normal((size, 3)), A.dtype) for size in reversed(M.shape))
    before = [to_host(block).copy() for block in (V, U)]
    forward, adjoint = A.matmat(V), A.rmatmat(U)
    for name, block, old in zip(("matmat", "rmatmat"), (V, U), before, strict=True):
        if not np.array_equal(to_host(block), old):
            yield f"{name} must leave its block as it is; it writes into it. Work on a copy"
            return
    if not str(forward.dtype).endswith(A.dtype.name):
        yield f"matmat must return the declared dtype {A.dtype}; got {forward.dtype}. Declare this, or convert"
    if _unlike(forward, M @ before[0], unit):
        yield "matmat of a block must be the product of its columns; it is not linear"
    if _unlike(adjoint, M.T @ before[1], unit):
        yield "rmatmat(U) must be AᵀU, for the A with which matmat multiplies; ⟨u, Av⟩ is not ⟨Aᵀu, v⟩"
    names = A.column_names
    if names is not None and not (isinstance(names, tuple) and len(names) == M.shape[1] and all(isinstance(n, str) for n in names)):
        yield f"column_names must be None or a tuple of {M.shape[1]} texts; got {names!r:.60}"
    means = ls.solve(ls.LeastSquares(data, np.ones((len(M), 1)), ridge=1.0, center=True), "cg")
    if entries is None and not np.allclose(to_host(means.x), 0.0, atol=1e-6):
        yield "a constant must have the coefficients 0 where means are subtracted; it has others"


def _rows(data: Any, entries: Array | None) -> Iterator[str]:
    A = ls.as_operator(data)
    M, unit = _formed(A) if entries is None else np.asarray(entries, dtype=float), float(np.finfo(A.dtype).eps)
    n = len(M)
    for chosen in (slice(0, n), slice(n // 3, 2 * n // 3 + 1), np.array([n - 1, 0]), np.array([n // 2, 0, n - 1, n // 2])):
        try:
            part = A.rows(chosen)
        except MissingCapability:
            return
        what = chosen if isinstance(chosen, slice) else chosen.tolist()
        if _unlike(_formed(part), M[chosen], unit):
            got = [int(np.abs(M - row).sum(axis=1).argmin()) for row in _formed(part)]
            yield f"rows {what} must be these rows, in this order and as often; they come as rows {got}"
        elif not str(part.dtype).endswith(A.dtype.name):
            yield f"rows {what} must have the operator's dtype, {A.dtype}; got {part.dtype}"


class Adapter:
    """An adapter under test."""

    def __init__(self, spec: Any, _: Any = None) -> None:
        self.spec = spec

    def sample(self) -> Any:
        """Make the sample that the record names."""
        if not self.spec.sample:
            raise AssertionError("the record must name a sample, sample='package.module:function': a function that makes a small object to adapt")
        module, _, name = self.spec.sample.partition(":")
        return getattr(__import__(module, fromlist=[name]), name)()


def adapts(a: Adapter) -> Iterator[str]:
    """The adapter takes its sample, and nothing that is not its own."""
    if a.spec.matches(a.sample()) is not True:
        yield "matches must be True for the sample; it is not"
    for other in (np.eye(2), object(), "name", 3, None, [1, 2], ls.as_operator(np.eye(2))):
        if a.spec.matches(other):
            yield f"matches must be False for {type(other).__name__}; it is True. Look at the class of the data"
    if not isinstance(a.spec.adapt(a.sample()), ls.LinearOperator):
        yield f"adapt must return a LinearOperator; got {type(a.spec.adapt(a.sample())).__name__}"
    if not a.spec.suffixes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.unknown"
            path.write_bytes(b"1 2\n3 4\n")
            try:
                ls.open_rows(str(path))
            except LinspecError as error:
                if a.spec.name in str(error):
                    yield "matches must be False for files of other formats; it is True. Compare the suffix"
            else:
                yield "matches must be False for files of other formats; it is True. Compare the suffix"


def laws(a: Adapter) -> Iterator[str]:
    """The operator has the laws of a matrix and its transpose, and gives rows in the order in which they are asked."""
    yield from check_operator(a.spec.adapt(a.sample()))


def solves(a: Adapter) -> Iterator[str]:
    """A solver finds the answer of the entries, and reads the data as often as it says."""
    A = a.spec.adapt(a.sample())
    M = _formed(A)
    found, same = (ls.solve(ls.SVD(data, k=1, center=True), "gram") for data in (a.spec.adapt(a.sample()), M))
    if not np.allclose(found.S, same.S, rtol=1e-4):
        yield f"the first singular value must be that of the entries, {same.S[0]:.6g}; got {found.S[0]:.6g}"


def reads(a: Adapter) -> Iterator[str]:
    """Rows in pieces take about the bytes of all rows from files, and sparse data no dense array."""
    data = a.sample()
    A = a.spec.adapt(data)
    n, whole = A.shape[0], A.shape[0] * A.shape[1] * 8
    if whole < 2**19:
        raise Skip("the sample is smaller than half a megabyte, so that bytes say nothing")
    if hasattr(data, "nnz") and data.nnz < whole / 80:
        most, _ = peak(lambda: to_host(a.spec.adapt(data).matmat(np.ones((A.shape[1], 1)))))
        if most > whole / 2:
            yield f"sparse data must stay sparse; a product takes {most / 1e6:.1f} MB, and the entries are {whole / 1e6:.1f} MB as an array"
    pieces = [slice(i * n // 16, (i + 1) * n // 16) for i in range(16)]
    try:
        once, parts = read(lambda: _formed(A.rows(slice(0, n)))), read(lambda: [_formed(A.rows(piece)) for piece in pieces])
    except (MissingCapability, OSError) as error:
        raise Skip(f"readings cannot be counted here: {error}") from error
    if parts > 8 * once + 2**18:
        yield f"a piece of the rows must be read without the rest; 16 pieces take {parts / 1e6:.1f} MB of files, and all at once {once / 1e6:.1f} MB. Read the rows that are asked"


def read(work: Callable[[], Any]) -> int:
    """Return the bytes that the process asks of files while it works."""

    def asked() -> int:
        return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])

    before = asked()
    work()
    return asked() - before


def adapter_process(a: Adapter) -> Iterator[str]:
    """Products print nothing and leave the process as it was."""
    A = a.spec.adapt(a.sample())
    M = _formed(A)
    yield from left_behind(lambda: A.rmatmat(A.home.place(np.ones((len(M), 1)), A.dtype)))


# ---- kinds of problems ----------------------------------------------------------------------------


class Problem:
    """A kind of problem under test, with its first exact solver."""

    def __init__(self, spec: Any, cls: Any) -> None:
        self.spec, self.cls = spec, cls

    @property
    def solvers(self) -> list[Solver]:
        """The exact solvers, direct ones first."""
        reference_of(self.spec.name)
        records = [(ls.registry.get_spec("solver", name, self.spec.name), name) for name in ls.solvers(self.spec.name)]
        found = [Solver(spec, ls.get_solver(name, self.spec.name)) for spec, name in records]
        return sorted((each for each in found if each.exact), key=lambda each: not each.has("direct"))

    @property
    def solver(self) -> Solver:
        """The first exact solver."""
        if not self.solvers:
            raise Skip("the problem has no exact solver here")
        return self.solvers[0]


def stated(p: Problem) -> Iterator[str]:
    """The class has the name of its record, and its answer is right."""
    if p.cls.name != p.spec.name:
        yield f"name must be {p.spec.name!r}, as in the record; got {p.cls.name!r}"
    s = p.solver
    yield from s.faults(s.case, s.solved)
    if not s.reference.seen(s.case, OnHost(s.solved)).keys() & s.reference.exact(s.case).keys():
        yield "the reference must compare an answer with the exact one; it compares nothing. Name values and vectors"


def law(p: Problem) -> Iterator[str]:
    """The residual of an answer to other data is above the tolerance, in all units."""
    able = [s for s in p.solvers if s.has("iterative") and s.reference.residual is not None]
    if not able:
        raise Skip("the problem has no exact solver here that iterates, or its reference no residual")
    last = able[0].cases[-1]
    for unit in (1.0,) if "ridge" in last.parameters else (1.0, 1e50, 1e-50):
        case = replace(last, matrices=tuple(X * unit for X in last.matrices), gentle=False)
        solver = able[0].make(oversample=0)
        found = able[0].solve(case, solver=solver, callback=lambda progress: progress.iteration >= 1)
        faults = (fault for fault in able[0].faults(case, found) if "claims" in fault)
        yield from (f"data times {unit:g}, after an iteration: {fault}" for fault in faults)


def all_units(p: Problem) -> Iterator[str]:
    """Exact solvers have the answer of unit 1 for data times 1e±50; other data are refused, or solved rightly."""
    for s in p.solvers:
        yield from (f"{s.spec.name}: {fault}" for fault in units(s))


def adjusted(p: Problem) -> Iterator[str]:
    """Weights, confounds and scale have their effect, alone and together; wrong weights are refused."""
    s, count = p.solver, 0
    for words in ({"weights": True}, {"confounds": True}, {"scale": True}, {"weights": True, "confounds": True, "scale": True}):
        try:
            yield from equal(s, **words)
            count += 1
        except Skip:
            continue
    if not count:
        raise Skip("the problem has no weights, confounds or scale")
    n = len(s.case.matrices[0])
    for what, w in (("a negative weight", np.r_[-1.0, np.ones(n - 1)]), ("a weight too few", np.ones(n - 1))):
        try:
            s.solve(replace(s.case, parameters={**s.case.parameters, "sample_weight": w}))
        except LinspecError:
            continue
        except TypeError:
            return
        yield f"{what} must be refused with an error of linspec.errors; it was taken. Call super().__post_init__()"


def answers(p: Problem) -> Iterator[str]:
    """Scores of a row do not depend on other rows, and a saved answer is read back with the same numbers."""
    s = p.solver
    found, case = s.solved, s.case
    if hasattr(found, "transform") or hasattr(found, "predict"):
        whole, part = scores(s, found, case.matrices), scores(s, found, [X[:9] for X in case.matrices])
        if not np.any(whole) or not np.allclose(whole[: len(part)], part, atol=1e-8 * np.abs(whole).max()):
            yield "scores of a row must not be all zero, nor depend on the other rows; they do. Subtract the means of the answer"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.npz"
        found.save(path)
        again = ls.load_solution(path)
    for name, value in vars(found).items():
        if hasattr(value, "dtype") and value.dtype.names is None and not np.array_equal(to_host(value), to_host(getattr(again, name))):
            yield f"{name} of a saved answer must be read back as it was; it differs"


def problem_process(p: Problem) -> Iterator[str]:
    """A solve and scores print nothing and leave the process as it was."""
    s = p.solver
    yield from left_behind(lambda: scores(s, s.solved, s.case.matrices))


Checks = dict[str, Callable[..., Iterator[str]]]
NORMALIZER_CHECKS: Checks = {"orthonormal": orthonormal, "refusals": refusals, "process": normalizer_process}
TEST_MATRIX_CHECKS: Checks = {"draws": draws, "moments": moments, "process": matrix_process}
ADAPTER_CHECKS: Checks = {"adapts": adapts, "laws": laws, "solves": solves, "reads": reads, "process": adapter_process}
PROBLEM_CHECKS: Checks = {
    "stated": stated,
    "law": law,
    "units": all_units,
    "adjusted": adjusted,
    "answers": answers,
    "process": problem_process,
}
