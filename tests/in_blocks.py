"""Rows in blocks of any data, for tests of what is below problems."""

from __future__ import annotations

from typing import Any

import linspec as ls
from linspec.rows import Rows


def rows_of(data: Any, name: str = "data") -> Rows:
    """Return data as rows in blocks."""
    return data if isinstance(data, Rows) else ls.as_operator(data, name).in_blocks(name)
