"""Checkpoints: the state of a run in a file, from which another process continues it.

Problem: a run of hours ends with its machine, by a signal, or because its time is over, and should continue where it
was, with the same bits as if nothing had happened.
Method: at the top of its loop a solver hands over the state of its iteration (`Run.checkpoint`). This state, the
accounts of the run, its random numbers, the column statistics of the moments, and the Gram matrices that are held, are
written in the format of saved answers: whole, beside the last file, which the new one then replaces. So there is a
good file at any time. Choices that depend on the machine, such as the widths of blocks or whether Gram matrices are
held, are stored, too, and not made again.
A file names the problem and the solver that it belongs to, and has a checksum of some rows of each matrix: others are
refused at once. It also has sums over all rows (`linspec.sweeps.witness`), which the next sweep is compared with: no
answer rests on other data.
Where we differ from a pickle of the solver: nothing is executed when a file is read, and errors say what is wrong.
"""

from __future__ import annotations

import dataclasses
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse

import linspec
from linspec import cost
from linspec.arrays import to_host
from linspec.errors import (
    AccuracyWarning,
    InvalidFile,
    InvalidOption,
    InvalidProblem,
    LinspecError,
    one_line,
    printable,
    shown,
    warn,
)
from linspec.operators import LinearOperator
from linspec.process import machine
from linspec.process.blas_threads import usual_blas_threads
from linspec.process.whole_files import check_replaceable, named_file, replaced
from linspec.registry.options import is_number, stated_options
from linspec.solving import archive
from linspec.sweeps.blocks import BlockOperator
from linspec.sweeps.held_grams import HeldGram
from linspec.sweeps.witness import Witness

__all__ = ["Checkpoint", "CheckpointWriter", "Saved", "check_state", "fingerprint", "is_checkpoint", "loaded"]

VERSION = 1
"""Version of the fields of a checkpoint; the format of the file has a version of its own."""

PLACES = 16
"""Number of rows in the checksum of a matrix. They are spread evenly over all rows. Where rows can only be decoded in
groups, as in some files, one half are the first rows and the other half the last ones."""

COLUMNS = {"mean?": "p", "squares?": "p"}

FIELDS: Mapping[str, Any] = {
    "about": {"problem": str, "solver": str, "numbers": Mapping, "options": Mapping, "matrices": Mapping},
    "run": {
        **dict.fromkeys(
            ("_iteration", "_iteration_passes", "_passes_before", "_earlier_seconds", "_since"), float
        ),
        **dict.fromkeys(("_claim", "_correction", "_shortfall", "_least"), float),
        "history": np.ndarray,
        "ledgers": Mapping,
        "rng": Mapping,
    },
    "threads": {"cores": int, "blas": int},
    "witnesses": [{"matrix": str, "sums": "p", "rounding": "p"}],
    "moments?": {"form": str, "views": [{**COLUMNS, "unresolved": bool, "warned": bool}], "cross?": "p q"},
    "adjustments": Mapping,
    "streams": Mapping,
    "state?": Mapping,
    "start?": Mapping,
}
"""Fields of a file, declared as for `check_state`; the solver declares the state itself."""

FREE = ("max_iterations",)
"""Options that may differ when a run is continued."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run writes its state, and how often.

    Parameters
    ----------
    path : path
        The file. Each checkpoint replaces the one before, whole or not at all.
    seconds : float, default 60
        The least time between two checkpoints. 0: after every iteration.

    Raises
    ------
    InvalidOption
        The path is not valid, or leads to something that cannot be replaced by a file (a folder, a device, a file
        without write permission); or `seconds` is not a number of at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 30))
    >>> problem = ls.SVD(A, k=3)
    >>> settings = {"form": "implicit", "block": 3, "rng": 0}
    >>> part = ls.solve(problem, "block-krylov", max_passes=4, checkpoint=ls.Checkpoint("svd.ckpt"), **settings)
    >>> whole = ls.solve(problem, "block-krylov", start="svd.ckpt", **settings)
    >>> bool((whole.S == ls.solve(problem, "block-krylov", **settings).S).all())
    True
    """

    path: str | os.PathLike[str]
    seconds: float = 60.0

    def __post_init__(self) -> None:
        path = named_file(self.path, "the path of a checkpoint")
        if not is_number(self.seconds) or not self.seconds >= 0:
            raise InvalidOption(
                f"seconds of a checkpoint must be a number from 0 on; got {shown(self.seconds)}."
            )
        try:
            check_replaceable(path)
            fault = "" if Path(os.path.realpath(path)).parent.is_dir() else "there is no such folder"
        except OSError as error:
            fault = str(error.strerror)
        if fault:
            raise InvalidOption(
                f"the path of a checkpoint must be a file in a folder that exists, and may be written; got "
                f"{shown(os.fspath(path))}: {fault}."
            )


class CheckpointWriter:
    """Writes the checkpoints of one run.

    Parameters
    ----------
    checkpoint : Checkpoint
    about : mapping
        Problem, solver and data of the run, as `fingerprint` returns them.

    Attributes
    ----------
    written : bool
        Whether a checkpoint of this run is in the file.
    """

    def __init__(self, checkpoint: Checkpoint, about: Mapping[str, Any]) -> None:
        self.checkpoint, self._about = checkpoint, about
        self._next = time.monotonic() + checkpoint.seconds
        self._warned = self.written = False

    @property
    def due(self) -> bool:
        """Whether it is time for another checkpoint."""
        return time.monotonic() >= self._next

    def write(self, fields: Mapping[str, Any]) -> None:
        """Write a checkpoint. If the disk is full or gone, warn and keep the last file; the run goes on."""
        nodes, arrays = archive.pack({**fields, "about": self._about, "threads": _threads()}, (HeldGram,))
        seal = archive.digest(nodes, arrays)
        header = {"linspec": linspec.__version__, "checkpoint": VERSION, "digest": seal, "fields": nodes}
        try:
            with replaced(Path(self.checkpoint.path)) as stream:
                archive.write(stream, header, arrays)
            self.written = True
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn(
                    f"the checkpoint {printable(os.fspath(self.checkpoint.path))} cannot be written: "
                    f"{error.strerror or error}. The run goes on, and the last checkpoint stays. Make room, or pass "
                    "another path.",
                    UserWarning,
                )
        self._next = time.monotonic() + self.checkpoint.seconds


@dataclass(frozen=True)
class Saved:
    """The contents of a checkpoint.

    Attributes
    ----------
    path : str
    fields : mapping
        The fields that `Run` passed to `CheckpointWriter.write`.
    """

    path: str
    fields: Mapping[str, Any] = field(repr=False)

    @property
    def solver(self) -> str:
        """The name of the solver."""
        return str(self.fields["about"]["solver"])

    def check(self, about: Mapping[str, Any]) -> None:
        """Refuse another problem, other data or another solver.

        Raises
        ------
        InvalidProblem
            The message says what differs.
        """
        own = self.fields["about"]
        for key, what in (
            ("problem", "the problem"),
            ("solver", "the solver"),
            ("numbers", "the parameters of the problem"),
            ("options", "the options of the solver"),
        ):
            _compare(self.path, what, own[key], about[key])
        for name, facts in about["matrices"].items():
            _compare(self.path, f"the matrix {name}", own["matrices"].get(name), facts)

    def check_fields(self) -> None:
        """Refuse fields that no run can have written.

        Raises
        ------
        InvalidFile
        """
        check_state("the file", self.fields, FIELDS)
        _check_finite("moments", self.fields.get("moments"))

    @contextmanager
    def taken_up(self) -> Iterator[None]:
        """Turn errors while a run restores this checkpoint into an error that names the file.

        Raises
        ------
        InvalidFile
        """
        try:
            yield
        except InvalidFile as error:
            raise InvalidFile(
                f"{printable(self.path)} cannot be gone on with: {error}. Leave start out."
            ) from error
        except (LinspecError, MemoryError):
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidFile(
                f"{printable(self.path)} cannot be gone on with: {one_line(error)}. It may be damaged, or have been "
                "written by another version. Leave start out."
            ) from error

    @property
    def witnesses(self) -> dict[str, Witness]:
        """By matrix, the sums that identify its rows: they change if an entry or the order of the rows changes.

        Matrices that no sweep had read completely when the checkpoint was written are missing.
        """
        found = self.fields["witnesses"]
        return {one["matrix"]: Witness(one["sums"], one["rounding"]) for one in found}

    def check_rows(self, name: str, own: Witness, rows: float) -> None:
        """Refuse a matrix with other entries, or with its rows in another order.

        Parameters
        ----------
        name : str
        own : Witness
            Sums over the rows of the matrix of this run.
        rows : float
            The number of rows of the matrix of this run. The tolerance for rounding errors grows with its root.

        Raises
        ------
        InvalidProblem
        """
        before = self.witnesses.get(name)
        found: list[int] = [] if before is None else before.differing(own, rows).tolist()
        if found:
            raise InvalidProblem(
                f"{printable(self.path)} is the checkpoint of another run: the rows of {name} must be the same, in "
                f"the same order; {len(found)} of its {len(own.sums)} columns differ (the first is column "
                f"{found[0]}). Pass the data that the run had, or leave start out."
            )

    def warn_of_threads(self) -> None:
        """Warn if the number of BLAS threads has changed: the answer is as good, but its last bits may differ."""
        before, now = self.fields["threads"]["blas"], _threads()["blas"]
        if before != now:
            warn(
                f"{printable(self.path)} was written with {before} threads of the BLAS, and there are {now}: "
                f"the last bits "
                f"of the answer may differ from those of a run in one piece. Set OPENBLAS_NUM_THREADS={before}.",
                AccuracyWarning,
            )


def _compare(path: str, what: str, own: Any, given: Any) -> None:
    if own == given:
        return
    differing = ""
    if isinstance(own, Mapping) and isinstance(given, Mapping):
        keys = [key for key in {**own, **given} if own.get(key) != given.get(key)]
        differing = f" ({', '.join(map(str, keys))})"
        own, given = ({key: each.get(key) for key in keys} for each in (own, given))
    raise InvalidProblem(
        f"{printable(path)} is the checkpoint of another run: {what} must be the same{differing}; the file has "
        f"{shown(own)}, got {shown(given)}. Pass what the run had, or leave start out."
    )


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a checkpoint rather than a saved answer.

    Raises
    ------
    InvalidFile
        It is neither, or it is damaged.
    """
    with archive.opened(path) as file:
        return "checkpoint" in file.header


def loaded(path: str | os.PathLike[str]) -> Saved:
    """Read a checkpoint.

    Raises
    ------
    InvalidFile
        It is damaged, or of a newer version.
    """
    with archive.opened(path) as file:
        version = file.header.get("checkpoint")
        if version != VERSION:
            raise InvalidFile(
                f"it is a checkpoint of version {shown(version)}, and this linspec reads version {VERSION}"
            )
        fields = file.unpack(file.header["fields"], (HeldGram,))
        if file.header.get("digest") != archive.digest(file.header["fields"], file.arrays):
            raise InvalidFile("it has been changed since it was written")
        found = Saved(os.fspath(path), fields)
        found.check_fields()
        return found


def check_state(
    what: str, state: Any, declared: Mapping[str, Any], known: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Refuse a state from a file that does not fit its declaration.

    Parameters
    ----------
    what : str
        The name of the state in messages.
    state : mapping
    declared : mapping
        A kind for each name; a name that ends in "?" may be missing or None. A kind is one of these: a type; a text
        such as "p k" with the axes of an array of finite real numbers, where each letter stands for one length; "=k"
        for a number equal to such a length; a mapping of names to kinds; a list of one kind, for lists of any length.
        In a nested mapping or list, a letter stands for the length that it has in the mapping around it. A letter
        that only occurs inside may stand for another length elsewhere.
    known : mapping from str to int, default none
        Lengths that are known beforehand, by letter.

    Raises
    ------
    InvalidFile
    """
    if not isinstance(state, Mapping):
        raise InvalidFile(f"{what} must be a mapping; got {shown(state)}")
    lengths = dict(known)
    # Numbers that are lengths come last: they are compared with the arrays.
    for stated, kind in sorted(declared.items(), key=lambda pair: str(pair[1]).startswith("=")):
        name = stated.removesuffix("?")
        value = state.get(name)
        if value is None and name != stated:
            continue
        if name not in state:
            raise InvalidFile(f"{what} lacks {name}")
        _check_value(f"{what}.{name}", value, kind, lengths)


def _check_value(name: str, value: Any, kind: Any, lengths: dict[str, int]) -> None:
    if isinstance(kind, str) and kind.startswith("="):
        if not is_number(value, int) or value != lengths.get(kind[1:]):
            raise InvalidFile(f"{name} must be {lengths.get(kind[1:])}; got {shown(value)}")
    elif isinstance(kind, str):
        _check_axes(name, value, kind, lengths)
    elif isinstance(kind, Mapping):
        check_state(name, value, kind, lengths)
    elif isinstance(kind, list):
        if not isinstance(value, list | tuple):
            raise InvalidFile(f"{name} must be a list; got {shown(value)}")
        for one in value:
            _check_value(name, one, kind[0], dict(lengths))
    elif kind in (int, float):
        if not is_number(value, kind):
            raise InvalidFile(f"{name} must be a number; got {shown(value)}")
    elif not isinstance(value, kind):
        raise InvalidFile(f"{name} must be a {kind.__name__}; got {shown(value)}")


def _check_axes(name: str, value: Any, axes: str, lengths: dict[str, int]) -> None:
    letters = axes.split()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or value.ndim != len(letters):
        raise InvalidFile(f"{name} must be an array with the axes {axes}; got {shown(value)}")
    for letter, length in zip(letters, value.shape, strict=True):
        if lengths.setdefault(letter, length) != length:
            raise InvalidFile(f"{name} has {length} {letter}, and other arrays have {lengths[letter]}")
    if not np.isfinite(value).all():
        raise InvalidFile(f"{name} must be finite")


def _check_finite(name: str, value: Any) -> None:
    """Refuse values that are not finite, in nested mappings and lists, too."""
    if isinstance(value, HeldGram):
        value = vars(value)
    if isinstance(value, Mapping):
        for key, one in value.items():
            _check_finite(f"{name}.{key}", one)
    elif isinstance(value, list | tuple):
        for one in value:
            _check_finite(name, one)
    elif value is not None and not isinstance(value, str) and not np.isfinite(_entries(value)).all():
        raise InvalidFile(f"{name} must be finite")


def _entries(value: Any) -> Any:
    """The stored numbers of a sparse matrix, or those of an array."""
    return value.data if scipy.sparse.issparse(value) else value


def fingerprint(problem: Any, solver: str, instance: Any) -> dict[str, Any]:
    """Describe the problem, the solver and the data of a run, for comparison with a checkpoint.

    Parameters
    ----------
    problem : Problem
        The problem as the caller passed it.
    solver : str
        The name of the solver.
    instance : Solver
    """
    options = {name: value for name, value in stated_options(instance).items() if name not in FREE}
    return {
        "problem": problem.name,
        "solver": solver,
        "numbers": _numbers(problem),
        "options": options,
        "matrices": {name: _facts(A) for name, A in problem.matrices.items()},
    }


def _numbers(problem: Any) -> dict[str, Any]:
    """Return the parameters of a problem that are no matrices, with a checksum in place of each array."""
    found: dict[str, Any] = {}
    for name, value in sorted(vars(problem).items()):
        simple = value.item() if isinstance(value, np.generic) else value
        if isinstance(simple, bool | int | float | str):
            found[name] = simple
        elif isinstance(simple, tuple) and all(isinstance(one, int | float) for one in simple):
            found[name] = tuple(map(float, simple))
        elif isinstance(simple, np.ndarray) and simple.dtype.kind in "biuf":
            found[name] = _sum(simple)
        elif isinstance(simple, tuple) and all(one is None or isinstance(one, np.ndarray) for one in simple):
            found[name] = tuple(0.0 if one is None else float(_sum(one)) for one in simple)
        elif (
            dataclasses.is_dataclass(simple) or simple is None or isinstance(simple, Mapping | LinearOperator)
        ):
            continue
    return found


def _facts(A: LinearOperator) -> dict[str, Any]:
    """Shape, dtype and checksum of a matrix, and the layout of its blocks, on which the order of sums depends."""
    (n, p), bare = A.shape, cost.bare(A)
    found = {"shape": (float(n), float(p)), "dtype": str(A.dtype), "rows": _checksum(bare)}
    if isinstance(bare, BlockOperator):
        found["blocks"] = _sum(np.asarray([*bare.layout, bare.nnz, bare.largest], dtype=np.float64))
    return found


def _checksum(A: LinearOperator) -> int:
    """Checksum of some rows; 0 if rows cannot be read by number."""
    n = A.shape[0]
    if not (A.access == "rows" and A.readable) or not n:
        return 0
    if A.rows_together > 1:  # rows are decoded in groups: read only both ends
        ends = {(0, min(PLACES // 2, n)), (max(n - PLACES // 2, 0), n)}
        blocks = [A.rows(slice(*end)) for end in sorted(ends)]
    else:
        blocks = [A.rows(np.unique(np.linspace(0, n - 1, PLACES).astype(np.intp)))]
    found = [_sum(to_host(block.dense())) for block in blocks]
    A.release()
    return zlib.crc32(np.asarray(found, dtype=np.int64).tobytes())


def _sum(array: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def _threads() -> dict[str, int]:
    return {"cores": machine.cpu_count(), "blas": usual_blas_threads()}
