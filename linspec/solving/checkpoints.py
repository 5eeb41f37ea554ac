"""Checkpoints: the state of a run in a file, from which another process continues it.

Problem: a run of hours ends with its machine, by a signal, or because its time is over, and should continue where it
was, and end at the same answer within its tolerance.
Method: the loop writes the arrays of an iterate in the format of saved answers: whole, beside the last file, which the
new one then replaces. So there is a good file at any time. What the run has learnt of the data, such as column means
and Gram matrices, is computed again.
A file names the problem with its numbers, the shapes of its matrices and the solver; others are refused. Nothing else
is compared: the residual of an answer is computed from the rows of the day, so a state of other rows is a start.
Where we differ from a pickle of the solver: nothing is executed when a file is read, and errors say what is wrong.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import linspec
from linspec.errors import (
    InvalidFile,
    InvalidOption,
    InvalidProblem,
    printable,
    shown,
    warn,
)
from linspec.process.files import check_replaceable, named_file, replaced
from linspec.registry.options import is_number
from linspec.solving import archive
from linspec.solving.fields import parts_of

VERSION = 1
"""Version of the fields of a checkpoint; the format of the file has a version of its own."""


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
    >>> bool(np.allclose(whole.S, ls.solve(problem, "block-krylov", **settings).S))
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
        header = {"linspec": linspec.__version__, "checkpoint": VERSION}
        try:
            with replaced(Path(self.checkpoint.path)) as stream:
                archive.write(stream, header, {**fields, "about": self._about})
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


def how_to_go_on(writer: CheckpointWriter) -> str:
    """The sentence on the checkpoint of a run that ends early.

    Parameters
    ----------
    writer : CheckpointWriter
    """
    if writer.written:
        return f"Pass start={shown(os.fspath(writer.checkpoint.path))} to go on."
    return "No checkpoint was written: there was nothing to go on from yet."


@dataclass(frozen=True)
class Saved:
    """The contents of a checkpoint.

    Attributes
    ----------
    path : str
    fields : mapping
        The fields that a run passed to `CheckpointWriter.write`.
    """

    path: str
    fields: Mapping[str, Any] = field(repr=False)

    @property
    def solver(self) -> str:
        """The name of the solver."""
        return str(self.fields["about"]["solver"])

    @property
    def iterate(self) -> Mapping[str, Any]:
        """The arrays of an iterate."""
        return dict(self.fields["iterate"])

    def check(self, about: Mapping[str, Any]) -> None:
        """Refuse another problem, data of another shape or another solver.

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
        ):
            _compare(self.path, what, own[key], about[key])
        for name, facts in about["matrices"].items():
            _compare(self.path, f"the shape of {name}", own["matrices"].get(name), facts)


def _compare(path: str, what: str, own: Any, given: Any) -> None:
    if own != given:
        raise InvalidProblem(
            f"{printable(path)} is the checkpoint of another run: {what} must be the same; the file has "
            f"{shown(own)}, got {shown(given)}. Pass what the run had, or leave start out."
        )


def loaded(path: str | os.PathLike[str]) -> Saved | None:
    """Read a checkpoint; None for a saved answer.

    Raises
    ------
    InvalidFile
        It is neither, it is damaged, or of a newer version.
    """
    with archive.opened(path) as file:
        version = file.header.get("checkpoint")
        if version is None:
            return None
        if version != VERSION:
            raise InvalidFile(
                f"it is a checkpoint of version {shown(version)}, and this linspec reads version {VERSION}"
            )
        return Saved(os.fspath(path), file.fields())


def fingerprint(problem: Any, solver: str) -> dict[str, Any]:
    """Return the names of a problem and of its solver, the numbers of the problem, and the shapes of its matrices.

    Parameters
    ----------
    problem : Problem
        The problem as the caller passed it.
    solver : str
        The name of the solver.
    """
    numbers = {}
    for name in problem.stated.fields:
        value = getattr(problem, name)
        if all(isinstance(one, float | int | str) for one in parts_of(value)):
            numbers[name] = value
    shapes = {name: tuple(map(float, A.shape)) for name, A in problem.matrices.items()}
    return {"problem": problem.name, "solver": solver, "numbers": numbers, "matrices": shapes}
