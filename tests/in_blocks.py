"""Rows in blocks of any data, for tests of what is below problems, and an engine that sends all that it is given."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import linspec as ls
from linspec.rows import Rows
from linspec.workers import InProcess


def rows_of(data: Any, name: str = "data") -> Rows:
    """Return data as rows in blocks."""
    return data if isinstance(data, Rows) else ls.as_operator(data, name).in_blocks(name)


class Sent(InProcess):
    """An engine whose values and work are pickled at every step, and whose work is done twice, as after a loss."""

    def hold(self, values: Sequence[Any]) -> list[Any]:
        return [pickle.dumps(value) for value in values]

    def taken(self, handle: Any) -> Any:
        return pickle.loads(handle) if isinstance(handle, bytes) else handle

    def _done(self, work: Any, call: Any) -> Any:
        work, values = pickle.dumps(work), [Sent.taken(self, handle) for handle in call.handles]
        before = pickle.dumps(values)
        results = [pickle.dumps(pickle.loads(work)(call.number, *values)) for _ in range(2)]
        assert results[0] == results[1]
        assert pickle.dumps(values) == before
        return results[0]
