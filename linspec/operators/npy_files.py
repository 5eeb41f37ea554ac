"""Files that are passed by their path: `.npy` files are mapped.

Problem: a file may be cut off, hold Python objects or several arrays, or be of another format than its name says.
Method: a file is recognized by its first bytes. NumPy reads its header, and the size that the header states is compared
with the size of the file. Nothing is ever unpickled.
Source: NumPy's format of arrays (NEP 1), read by ``numpy.lib.format``.
Where we differ from ``numpy.load``: a file that continues after its array is refused.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, one_line, printable
from linspec.process.files import LONGEST_NAME, looked_at


def mapped(path: str | os.PathLike[str]) -> HostArray:
    """The array of a `.npy` file, mapped and not read.

    Raises
    ------
    InvalidProblem
        When there is no such file; or the file is no `.npy` file, is broken, holds Python objects, or continues after
        its array.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from linspec.operators import mapped
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(os.path.join(folder, "rows.npy"), np.eye(3))
    ...     mapped(os.path.join(folder, "rows.npy")).shape
    (3, 3)
    """
    looked_at(path)
    name = printable(os.fspath(path))[:LONGEST_NAME]
    try:
        with Path(path).open("rb") as file:
            # Version 3 differs from 2 in the names of fields alone, and data with fields are refused.
            first = npy.read_magic(file) == (1, 0)
            read: Any = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
            shape, in_columns, dtype = read(file)
            offset, size = file.tell(), os.fstat(file.fileno()).st_size
    except Exception as error:  # whatever parsing some bytes may raise
        raise InvalidProblem(
            f"{name} cannot be read as the rows of a .npy file: {one_line(error)} Write it again with numpy.save, or "
            "give it the ending of its own format."
        ) from error
    expected = offset + dtype.itemsize * math.prod(shape)
    if dtype.names is not None or dtype.hasobject or size != expected:
        raise InvalidProblem(
            f"{name} cannot be read as the rows of a .npy file: it must hold one array of plain numbers, and nothing "
            f"else; its header promises {str(dtype)[:100]} of shape {str(shape)[:100]}, {expected:,} bytes, and it has "
            f"{size:,}. Convert the array where it was made, and write it again with numpy.save."
        )
    if 0 in shape:  # nothing can be mapped
        return np.empty(shape, dtype)
    array: HostArray = np.memmap(Path(path), dtype, "r", offset, shape, "F" if in_columns else "C")
    return array


def is_npy(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a regular file that begins with the magic bytes of `.npy` files."""
    try:
        looked_at(path)
        with Path(path).open("rb") as file:
            return file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
    except (OSError, InvalidProblem):
        return False
