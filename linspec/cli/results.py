"""Solutions in files: `.npz` with all arrays, or `.json` for other languages.

Neither format needs unpickling. The first is that of `Solution.save`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import IO, Any

__all__ = ["FORMATS", "least_bytes", "plain", "write_solution"]

FORMATS = (".npz", ".json")

ASKED = ("problem", "options")
"""Fields of a solution that are not written to `.json`, as the entry "about" already describes the request. The
tolerance is written, because "about" lacks a default one."""


def write_solution(solution: Any, about: Mapping[str, Any], stream: IO[bytes], suffix: str) -> None:
    """Write a solution.

    Parameters
    ----------
    solution : Solution
        Each of its fields that is not None becomes an array, or an entry. `linspec.load_solution` reads the `.npz`.
    about : mapping
        The request: files, parameters, seed, version; written as one JSON text under "about".
    stream : binary file
    suffix : str
        One of `FORMATS`.
    """
    if suffix == ".json":
        fields = {each.name: getattr(solution, each.name) for each in dataclasses.fields(solution)}
        fields = {name: value for name, value in fields.items() if value is not None and name not in ASKED}
        text = json.dumps({**plain(fields), "about": plain(about)}, indent=1, allow_nan=False)
        stream.write(text.encode() + b"\n")
    else:
        import numpy as np

        from linspec.solving import archive
        from linspec.solving.solution import packed

        archive.write(stream, *packed(solution, {"about": np.asarray(json.dumps(plain(about)))}))


def least_bytes(problem: Any) -> float:
    """Return the least number of bytes of a solution: its values for each column of the first matrix."""
    columns = next(iter(problem.matrices.values())).shape[1]
    width = getattr(problem, "k", None) or problem.width
    return float((4 if problem.single else 8) * columns * width)


def plain(value: Any) -> Any:
    """Convert a value to lists, dicts, numbers and texts; a number that JSON does not have becomes None."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, Enum):
        return value.name
    if hasattr(value, "dtype"):
        if value.dtype.names:
            return {name: plain(value[name]) for name in value.dtype.names}
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value)
