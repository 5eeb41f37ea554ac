"""Files of answers, checkpoints and moments, taken apart and put together with something else in them."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np


def taken_apart(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a file."""
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("linspec").tobytes()), arrays


def put_together(header: Any, arrays: Any) -> bytes:
    """A file of them."""
    stream = io.BytesIO()
    np.savez(stream, linspec=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    return stream.getvalue()


def changed_header(data: bytes, path: str, value: Any) -> bytes:
    """The file with another value at this path of the header, or without it if the value is `...`."""
    header, arrays = taken_apart(data)
    *first, last = path.split("/")
    node = header
    for name in first:
        node = node[name]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return put_together(header, arrays)
