"""The checks of normalizers, test matrices, kinds of data and kinds of problems.

Problem: the faults of a part show as slow convergence of the methods that use it, or not at all.
Method: each promise is tested on small arrays, by products with NumPy. An operator is compared with the matrix whose
products it has; what it reads is counted in bytes that the process asks of files.
Source: Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44 (orthogonality); Frisch & Waugh 1933 (confounds).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from pydoc import locate
from typing import Any

import numpy as np

import linspec as ls
from linspec import registry
from linspec.arrays import to_host
from linspec.errors import BrokenPlugin, InvalidProblem, LinspecError, MissingCapability, NonFiniteData
from linspec.testing.data import BACKENDS
from linspec.testing.solvers import Skip, Solver, equal, left_behind, on_host, peak, scores, units, unless

__all__ = ["CHECKS", "Adapter", "Problem", "check_operator"]

Array = np.ndarray[Any, Any]
Checks = dict[str, Callable[..., Iterator[str]]]
DRAWS, ERRORS = 600, 5.0
"""Draws that estimate the moments of a test matrix, and the largest error in standard errors."""


# ---- normalizers and test matrices ----------------------------------------------------------------


def orthonormal(normalizer: Any) -> Iterator[str]:
    """QᵀMQ = I with as many columns as the rank, and Q = V T, on every library, in float64 and float32."""
    rng = np.random.default_rng(5)
    root, some = (
        rng.standard_normal((50, 50)) + 10 * np.eye(50),
        rng.standard_normal((60, 3)).astype(np.float32),
    )
    blocks = {
        "tall": (rng.standard_normal((150, 6)) * np.geomspace(1, 30, 6), None, 6),
        "more columns than rows": (rng.standard_normal((5, 12)), None, 5),
        "dependent columns": (np.hstack([some, -2 * some]).astype(float), None, 3),
        "zeros": (np.zeros((30, 4)), None, 0),
        "in a metric": (rng.standard_normal((50, 5)), root @ root.T, 5),
        "long": (rng.standard_normal((2000, 8)) @ np.triu(np.ones((8, 8))), None, 8),
    }
    for backend in (each for each in BACKENDS if each.library and not each.missing()):
        for name, (V, M, rank) in blocks.items():
            given = [backend.wrap(X) for X in ([V] if M is None else [V, M @ V])]
            v, where = np.array(to_host(given[0]), dtype=float), f"{name}, {backend.name}"
            Q, T = normalizer.orthonormalize(*given)
            kinds = [(type(X), str(X.dtype)) for X in (Q, given[0], T)]
            yield from unless(
                kinds[0] == kinds[1] and kinds[2] == (np.ndarray, "float64"),
                f"{where}: Q must be an array like V, and T one of NumPy, float64; got {kinds}",
            )
            same = np.array_equal(v, np.asarray(to_host(given[0]), dtype=float))
            yield from unless(same, f"{where}: V must stay as it is; it is changed. Work on a copy")
            q, shape = np.asarray(to_host(Q), dtype=float), (len(V), rank)
            if q.shape != shape or T.shape != (V.shape[1], rank):
                yield f"{where}: Q must have shape {shape} (rank {rank}), T as many columns; got {q.shape}, {T.shape}"
                continue
            room = (2000 if M is None else 40000) * float(np.finfo(to_host(given[0]).dtype).eps)
            off = np.abs(q.T @ (q if M is None else M @ q) - np.eye(rank)).max(initial=0.0)
            yield from unless(
                off <= room,
                f"{where}: Q must be orthonormal; QᵀMQ differs from I by {off:.2g}. Sum in float64",
            )
            off = np.abs(q - v @ T).max(initial=0.0)
            size = max(1.0, float(np.abs(v).max() * np.abs(T).max(initial=0.0)))
            yield from unless(
                off <= room * size or not same,
                f"{where}: Q must be VT; they differ by {off:.2g}. Return the T of this Q",
            )


def refusals(normalizer: Any) -> Iterator[str]:
    """Data that are not finite, and blocks of wrong shapes, are refused."""
    good = np.random.default_rng(0).standard_normal((20, 3))
    bad = np.where(good == good[7, 1], np.nan, good)
    for what, given, error in (
        ("NaN in V", (bad,), NonFiniteData),
        ("NaN in MV", (good, bad), NonFiniteData),
        ("a V of one dimension", (good[:, 0],), InvalidProblem),
        ("a V of integers", (np.ones((20, 3), int),), LinspecError),
    ):
        said = "nothing"
        try:
            normalizer.orthonormalize(*given)
        except Exception as raised:  # noqa: BLE001 (which one it is, is the question)
            said = "" if isinstance(raised, error) else repr(raised)
        yield from unless(not said, f"{what} must raise {error.__name__}; got {said}")


def draws(matrix: Any) -> Iterator[str]:
    """Equal generators give equal entries of the right shape, also as an operator; other ones give others."""
    for rows, columns in ((40, 9), (64, 16), (5, 12), (23, 1)):
        what = f"draw({rows}, {columns}, rng)"
        first, second, other = (matrix.draw(rows, columns, np.random.default_rng(s)) for s in (7, 7, 8))
        kind = type(first), first.shape, str(first.dtype)
        yield from unless(
            kind == (np.ndarray, (rows, columns), "float64"),
            f"{what} must be float64 of that shape; got {kind}",
        )
        same, others = np.array_equal(first, second), not np.array_equal(first, other)
        yield from unless(
            same and others,
            f"{what} must be equal for equal generators and change with the generator. Draw from rng alone",
        )
        made, A = (
            matrix.operator(rows, columns, np.random.default_rng(7)),
            np.random.default_rng(1).standard_normal((4, rows)),
        )
        equal = same and np.array_equal(to_host(made.dense()), first)
        yield from unless(
            (equal and np.allclose(to_host(made.sketch(ls.as_operator(A))), A @ first, atol=1e-10))
            or not same,
            f"operator({rows}, {columns}, rng) must have the entries of draw, and sketch by them; they differ",
        )


def moments(matrix: Any) -> Iterator[str]:
    """E Ω = 0 and E ΩΩᵀ = l I, within the errors of some hundred draws."""
    for rows, columns in ((13, 6), (5, 9)):
        drawn = np.array([matrix.draw(rows, columns, np.random.default_rng([3, s])) for s in range(DRAWS)])
        gram = drawn @ drawn.transpose(0, 2, 1) / columns
        for what, values, wanted in (
            ("E Ω must be 0", drawn, 0.0),
            ("E ΩΩᵀ/l must be I", gram, np.eye(rows)),
        ):
            off = np.abs(values.mean(axis=0) - wanted) / (values.std(axis=0) / DRAWS**0.5 + 1e-12)
            yield from unless(off.max() <= ERRORS, f"{what}; it is {off.max():.1f} standard errors away")


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
    return list(_products(ls.as_operator(data), entries)) or list(_rows(ls.as_operator(data), entries))


def _formed(A: Any) -> Array:
    """Return the entries of an operator, by products with the identity."""
    found: Array = np.asarray(to_host(A.matmat(A.home.blocks.place(np.eye(A.shape[1])))), dtype=float)
    return found


def _near(A: Any, got: Any, wanted: Array) -> bool:
    """Whether a block is the right one but for rounding in the dtype of an operator."""
    room = 1e3 * float(np.finfo(A.dtype).eps) * np.abs(wanted).max(initial=1e-300)
    return got.shape == wanted.shape and bool(
        np.abs(np.asarray(to_host(got), dtype=float) - wanted).max(initial=0.0) <= room
    )


def _products(A: Any, entries: Array | None) -> Iterator[str]:
    try:
        M = _formed(A)
    except Exception as error:  # noqa: BLE001 (an operator may fail in any way)
        yield f"matmat must multiply a block of {A.shape[1]} rows, since shape is {tuple(A.shape)}; it raised {error!r}"
        return
    yield from unless(
        M.shape == tuple(A.shape), f"shape must be {M.shape}, that of the products; got {tuple(A.shape)}"
    )
    yield from unless(
        entries is None or _near(A, M, np.asarray(entries, dtype=float)),
        "products must be those of the entries",
    )
    rng = np.random.default_rng(0)
    V, U = (A.home.place(rng.standard_normal((size, 3)), A.dtype) for size in (M.shape[1], len(M)))
    v, u = (np.array(to_host(block), dtype=float) for block in (V, U))
    forward, adjoint = A.matmat(V), A.rmatmat(U)
    yield from unless(
        np.array_equal(to_host(V), v) and np.array_equal(to_host(U), u),
        "matmat and rmatmat must leave their blocks as they are; one writes into it. Work on a copy",
    )
    declared = str(forward.dtype).endswith(A.dtype.name)
    yield from unless(
        declared,
        f"matmat must return the declared dtype {A.dtype}; got {forward.dtype}. Declare this, or convert",
    )
    yield from unless(
        _near(A, forward, M @ v), "matmat must be linear: a block has other products than the identity says"
    )
    yield from unless(
        _near(A, adjoint, M.T @ u), "rmatmat(U) must be AᵀU, for the A with which matmat multiplies"
    )
    names, p = A.column_names, M.shape[1]
    good = names is None or (isinstance(names, tuple) and [*map(type, names)] == [str] * p)
    yield from unless(good, f"column_names must be None or a tuple of {p} texts; got {names!r:.60}")


def _rows(A: Any, entries: Array | None) -> Iterator[str]:
    M = _formed(A) if entries is None else np.asarray(entries, dtype=float)
    n = len(M)
    for chosen in (
        slice(0, n),
        slice(n // 3, 2 * n // 3 + 1),
        np.array([n - 1, 0]),
        np.array([n // 2, 0, n - 1, n // 2]),
    ):
        try:
            part = A.rows(chosen)
        except MissingCapability:
            return
        got = _formed(part)
        came = [int(np.abs(M - row).sum(axis=1).argmin()) for row in got]
        yield from unless(
            _near(A, got, M[chosen]),
            f"rows {chosen} must be these rows, in this order and as often; they come as rows {came}",
        )
        yield from unless(
            str(part.dtype).endswith(A.dtype.name),
            f"rows must have the operator's dtype, {A.dtype}; got {part.dtype}",
        )


class Adapter:
    """An adapter under test."""

    def __init__(self, spec: Any, _: Any) -> None:
        self.spec, self.cls = spec, spec.adapt

    def sample(self) -> Any:
        """Make the sample that the record names."""
        module, _, name = (self.spec.sample or "").partition(":")
        if not name:
            raise LookupError(
                "the record must name a function that makes a small object: sample='package.module:function'"
            )
        return getattr(__import__(module, fromlist=[name]), name)()

    def adapted(self) -> Any:
        """Adapt the sample."""
        return self.spec.adapt(self.sample())


def adapts(a: Adapter) -> Iterator[str]:
    """The adapter takes its sample, and nothing that is not its own."""
    yield from unless(a.spec.matches(a.sample()) is True, "matches must be True for the sample; it is not")
    for other in (np.eye(2), object(), "name", 3, None, [1, 2], ls.as_operator(np.eye(2))):
        yield from unless(
            not a.spec.matches(other),
            f"matches must be False for {type(other).__name__}; it is True. Look at the class of the data",
        )
    yield from unless(
        isinstance(a.adapted(), ls.LinearOperator), "adapt must return a LinearOperator; it does not"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.unknown"
        path.write_bytes(b"1 2\n3 4\n")
        taken = True
        try:
            ls.open_rows(str(path))
        except Exception as error:  # noqa: BLE001 (an adapter that takes the file may fail in any way)
            taken = not isinstance(error, LinspecError) or isinstance(error, BrokenPlugin)
        yield from unless(
            not taken, "matches must be False for files of other formats; it is True. Compare the suffix"
        )


def reads(a: Adapter) -> Iterator[str]:
    """Rows in pieces take about the bytes of all rows from files, and sparse data no dense array."""
    data = a.sample()
    A = a.spec.adapt(data)
    n, whole = A.shape[0], A.shape[0] * A.shape[1] * 8
    if whole < 2**19:
        raise Skip("the sample is smaller than half a megabyte, so that bytes say nothing")
    if getattr(data, "nnz", whole) < whole / 80:
        most, _ = peak(lambda: a.spec.adapt(data).matmat(np.ones((A.shape[1], 1))))
        yield from unless(
            most < whole / 2, f"sparse data must stay sparse; a product takes {most / 1e6:.1f} MB"
        )
    asked: list[int] = []
    for rows in ([slice(0, n)], [slice(i * n // 16, (i + 1) * n // 16) for i in range(16)]):
        try:
            before = bytes_read()
            tuple(_formed(A.rows(piece)) for piece in rows)
            asked.append(bytes_read() - before)
        except (MissingCapability, OSError) as error:
            raise Skip(f"readings cannot be counted: {error}") from error
    text = f"16 pieces of the rows take {asked[1] / 1e6:.1f} MB of files, and all at once {asked[0] / 1e6:.1f} MB"
    yield from unless(asked[1] <= 8 * asked[0] + 2**18, f"{text}. Read the rows that are asked")


def bytes_read() -> int:
    """Return the number of bytes that the process has asked of files so far, where the system tells it."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


class Problem:
    """A kind of problem under test, with its exact solvers, direct ones first."""

    def __init__(self, spec: Any, cls: Any) -> None:
        self.spec, self.cls = spec, cls
        records = [(registry.get_spec("solver", name, spec.name), name) for name in ls.solvers(spec.name)]
        found = [Solver(record, ls.get_solver(name, spec.name)) for record, name in records]
        self.solvers = sorted((s for s in found if s.exact), key=lambda s: not s.has("direct"))


def stated(p: Problem) -> Iterator[str]:
    """The class has the name of its record, its answer is right, and the reference compares something."""
    yield from unless(
        p.cls.name == p.spec.name, f"name must be {p.spec.name!r}, as in the record; got {p.cls.name!r}"
    )
    places = getattr(p.cls, "held_out_scores", {}).values()
    lost = [place for place in places if locate(place.replace(":", ".")) is None]
    yield from unless(
        not lost, f"held_out_scores must name classes that can be imported; got {', '.join(lost)}"
    )
    for s in p.solvers[:1]:
        yield from s.faults(s.case, s.solved)
        compared = s.reference.seen(s.case, on_host(s.solved)).keys() & s.reference.exact(s.case).keys()
        yield from unless(
            compared, "the reference must compare an answer with the exact one; it compares nothing"
        )


def law(p: Problem) -> Iterator[str]:
    """The residual of an early iterate is that of its arrays, in all units."""
    able = [s for s in p.solvers if s.has("iterative") and s.reference.residual is not None]
    for s in able[:1]:
        last = s.cases[-1]
        for unit in (1.0,) if "ridge" in last.parameters else (1.0, 1e50, 1e-50):
            case = replace(last, matrices=tuple(X * unit for X in last.matrices), gentle=False)
            found = s.solve(
                case, solver=s.make(oversample=0), callback=lambda progress: progress.iteration >= 1
            )
            faults = (fault for fault in s.faults(case, found) if "claims" in fault)
            yield from (f"data times {unit:g}, after an iteration: {fault}" for fault in faults)


def adjusted(p: Problem) -> Iterator[str]:
    """Weights, confounds and scale have their effect, alone and together; wrong weights are refused."""
    every = "sample_weight", "confounds", "scale"
    for s in p.solvers[:1]:
        for asked in (*((name,) for name in every), every):
            with suppress(Skip):
                yield from equal(s, *asked)
        try:
            s.solve(replace(s.case, parameters={**s.case.parameters, "sample_weight": -np.ones(9)}))
        except (LinspecError, TypeError):
            continue
        yield "negative weights, and too few, must be refused by an error of linspec. Call super().__post_init__()"


def answers(p: Problem) -> Iterator[str]:
    """Scores of a row do not depend on other rows, and a saved answer is read back with the same numbers."""
    for s in p.solvers[:1]:
        whole, part = (scores(s, s.solved, [X[:n] for X in s.case.matrices]) for n in (None, 9))
        yield from unless(
            np.any(whole) and np.allclose(whole[: len(part)], part, atol=1e-8 * np.abs(whole).max()),
            "scores of a row must not be all zero, nor depend on other rows; they do",
        )
        with tempfile.TemporaryDirectory() as folder:
            s.solved.save(Path(folder) / "answer.npz")
            again = ls.load_solution(Path(folder) / "answer.npz")
        arrays = {
            name: value for name, value in vars(s.solved).items() if getattr(value, "dtype", None) is not None
        }
        lost = [name for name, value in arrays.items() if not np.array_equal(value, getattr(again, name))]
        yield from unless(not lost, f"a saved answer must be read back as it was; {', '.join(lost)} differ")


def quiet(work: Callable[[Any], Any]) -> Callable[[Any], Iterator[str]]:
    """Make the check that work with a part prints nothing and leaves the process as it was."""
    return lambda subject: left_behind(lambda: work(subject))


def _multiplied(a: Adapter) -> None:
    A = a.adapted()
    A.rmatmat(A.home.place(np.ones((len(_formed(A)), 1)), A.dtype))


CHECKS: dict[str, Checks] = {
    "normalizer": {
        "orthonormal": orthonormal,
        "refusals": refusals,
        "process": quiet(lambda normalizer: normalizer.orthonormalize(np.eye(20, 3), None)),
    },
    "test-matrix": {
        "draws": draws,
        "moments": moments,
        "process": quiet(lambda matrix: matrix.operator(40, 9, np.random.default_rng(0)).dense()),
    },
    "operator": {
        "adapts": adapts,
        "laws": lambda a: iter(check_operator(a.adapted())),
        "reads": reads,
        "process": quiet(_multiplied),
    },
    "problem": {
        "stated": stated,
        "law": law,
        "units": lambda p: (fault for s in p.solvers for fault in units(s)),
        "adjusted": adjusted,
        "answers": answers,
        "process": quiet(lambda p: [scores(s, s.solved, s.case.matrices) for s in p.solvers[:1]]),
    },
}
"""The checks of parts by kind and name."""
