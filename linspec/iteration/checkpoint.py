"""Checkpoints: the arrays of the last iterate in a file, and for what problem and solver they are.

A run that goes on from a file begins with its arrays. Its residual is computed from today's data, so that on other data
they are just a start; but another problem, other shapes or another solver are refused.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidFile, InvalidProblem, printable
from linspec.process.whole_files import replaced

__all__ = ["Saving", "read_start"]

ABOUT = "about.json"


@dataclass
class Saving:
    """Writes iterates, at most every so many seconds; a file is whole or the old one.

    Parameters
    ----------
    path : path
    about : mapping of str to object
        Problem, solver and shapes, which can be written as JSON.
    seconds : float, default 60
    """

    path: Path
    about: Mapping[str, Any]
    seconds: float = 60.0
    _last: float = field(default_factory=time.monotonic)

    def offer(self, arrays: Mapping[str, Array]) -> None:
        """Write arrays if it is time."""
        if time.monotonic() - self._last >= self.seconds:
            self.write(arrays)

    def write(self, arrays: Mapping[str, Array]) -> None:
        """Write arrays."""
        parts: dict[str, Any] = {name: to_host(x) for name, x in arrays.items()}
        parts[ABOUT] = np.array(json.dumps(dict(self.about)))
        with replaced(self.path) as stream:
            np.savez(stream, **parts)
        self._last = time.monotonic()


def read_start(path: Path, about: Mapping[str, Any]) -> dict[str, HostArray]:
    """Read the arrays of a checkpoint.

    Parameters
    ----------
    path : path
    about : mapping of str to object
        What the file must be for, as for `Saving`.

    Raises
    ------
    InvalidFile
        It is no checkpoint.
    InvalidProblem
        It is one of another problem, of other shapes, or of another solver.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        written = json.loads(str(arrays.pop(ABOUT)))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InvalidFile(
            f"{printable(str(path))} must be a checkpoint of linspec; it is not: {error}."
        ) from error
    for what, wanted in about.items():
        if written.get(what) != wanted:
            raise InvalidProblem(
                f"{printable(str(path))} is a checkpoint for {what} {written.get(what)}; this run has {wanted}. Name "
                "the file of this run, or begin anew."
            )
    return arrays
