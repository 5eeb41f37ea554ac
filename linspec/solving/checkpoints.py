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
from dataclasses import dataclass
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
            Path(os.path.realpath(path)).parent.stat()
            check_replaceable(path)
        except OSError as error:
            raise InvalidOption(
                f"the path of a checkpoint must be a file in a folder that exists, and may be written; got "
                f"{shown(os.fspath(path))}: {error.strerror}."
            ) from error


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
        self.path, self.seconds, self._about = Path(checkpoint.path), checkpoint.seconds, about
        self._next = time.monotonic() + self.seconds
        self.written = False

    @property
    def due(self) -> bool:
        """Whether it is time for another checkpoint."""
        return time.monotonic() >= self._next

    def write(self, fields: Mapping[str, Any]) -> None:
        """Write a checkpoint. If the disk is full or gone, warn and keep the last file; the run goes on."""
        header = {"linspec": linspec.__version__, "checkpoint": VERSION}
        try:
            with replaced(self.path) as stream:
                archive.write(stream, header, {**fields, "about": self._about})
            self.written = True
        except OSError as error:
            text = f"the checkpoint {printable(str(self.path))} cannot be written: {error.strerror or error}. The run "
            text += "goes on, and the last checkpoint stays. Make room, or pass another path."
            warn(text, UserWarning)
        self._next = time.monotonic() + self.seconds

    def how_to_go_on(self) -> str:
        """The sentence on the checkpoint of a run that ends early."""
        if self.written:
            return f"Pass start={shown(str(self.path))} to go on."
        return "No checkpoint was written: there was nothing to go on from yet."


def loaded(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Read a checkpoint: "iterate", the arrays, and "about", what `fingerprint` returned; None for a saved answer.

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
        return file.fields()


def check_same(saved: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Refuse another problem, other numbers of it, another solver or data of another shape than a checkpoint has."""
    for key, value in about.items():
        if saved[key] != value:
            raise InvalidProblem(
                f"start is the checkpoint of another run: {key} must be the same; the file has {shown(saved[key])}, "
                f"got {shown(value)}. Pass what the run had, or leave start out."
            )


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
        if all(isinstance(part, float | int | str) for part in parts_of(value)):
            numbers[name] = value
    shapes = {name: tuple(map(float, A.shape)) for name, A in problem.matrices.items()}
    return {"problem": problem.name, "solver": solver, "numbers": numbers, "matrices": shapes}
