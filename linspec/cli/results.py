"""Solutions in files: `.npz` with all arrays, or `.json` for other languages.

A file is written beside its name and moved there when it is complete. Where it cannot be written is found out
before the run, not after it. Neither format needs unpickling.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from linspec.cli.failures import Failure

__all__ = ["check_target", "write_solution"]

FORMATS = (".npz", ".json")


def check_target(option: str, path: str | None, suffixes: tuple[str, ...] = FORMATS) -> Path | None:
    """The path to write to, once it is sure that one can write there and that the format is known.

    Parameters
    ----------
    option : str
        What the user calls it, such as ``"--out"``.
    path : str or None
        What was given.
    suffixes : tuple of str
        The formats.
    """
    if path is None:
        return None
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise Failure(f"{option} must end in {' or '.join(suffixes)}; got {path!r}.")
    if not target.parent.is_dir():
        raise Failure(f"{option}: there is no folder {str(target.parent)!r}. Make it first.")
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise Failure(f"{option}: {path!r} cannot be written. Name a file in a folder of yours.")
    return target


def write_solution(path: Path, solution: Any, about: Mapping[str, Any]) -> None:
    """Write a solution.

    Parameters
    ----------
    path : Path
        Ends in `.npz` or `.json`.
    solution : Solution
        Each of its fields that is not None becomes an array, or an entry.
    about : mapping
        What was asked: files, parameters, seed, version; kept as one JSON text under "about".
    """
    fields = {field.name: getattr(solution, field.name) for field in dataclasses.fields(solution)}
    fields = {name: value for name, value in fields.items() if value is not None}
    fields["status"] = solution.status.name
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as stream:
            if path.suffix.lower() == ".json":
                text = json.dumps({**_plain(fields), "about": _plain(about)}, indent=1, allow_nan=False)
                stream.write(text.encode() + b"\n")
            else:
                _write_npz(stream, fields, about)
        Path(draft).chmod(0o666 & ~_umask())  # a temporary file is its owner's alone
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _write_npz(stream: Any, fields: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    import numpy as np

    from linspec.arrays import is_array, to_host

    arrays: dict[str, Any] = {
        name: to_host(value) if is_array(value) else np.asarray(value) for name, value in fields.items()
    }
    np.savez(stream, about=np.asarray(json.dumps(_plain(about))), **arrays)


def _plain(value: Any) -> Any:
    """The value in lists, dicts, numbers and texts; a number that JSON does not have is null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Enum):
        return value.name
    if hasattr(value, "dtype"):
        if value.dtype.names:
            return {name: _plain(value[name]) for name in value.dtype.names}
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
