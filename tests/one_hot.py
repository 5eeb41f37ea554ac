"""A kind of data of one's own, in one file: the indicator matrix of integer codes, which is never formed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec.blocks import Block, Rows


class OneHotBlock(Block):
    subtracts = False

    def __init__(self, codes: Any, columns: int, row: Any = None) -> None:
        self.codes, self.columns, self.row = codes, columns, row
        self.rows = self.entries = len(codes)

    def origin(self, w: Any) -> Any:
        return np.bincount(self.codes[:256], minlength=self.columns) / min(self.rows, 256)

    def about(self, row: Any) -> OneHotBlock:
        return OneHotBlock(self.codes, self.columns, row)

    def times(self, V: Any) -> Any:
        return V[self.codes] - (0.0 if self.row is None else self.row @ V)

    def t_times(self, U: Any, out: Any) -> None:
        np.add.at(out, self.codes, U)

    def sums(self, w: Any, *, squares: bool, exact: bool) -> tuple[Any, Any]:
        n = self.rows if w is None else w.sum()
        counts = np.bincount(self.codes, w, self.columns)
        row = np.zeros(self.columns) if self.row is None else self.row
        return counts - n * row, counts * (1 - 2 * row) + n * row**2 if squares else None

    def gram(self, w: Any, other: Block) -> Any:
        if other is self:
            return np.diag(np.bincount(self.codes, w, self.columns).astype(np.float64))
        out = np.zeros((self.columns, other.columns))
        self.t_times(other.dense() if w is None else other.dense() * w[:, None], out)
        return out

    def dense(self) -> Any:
        return self.times(np.eye(self.columns))

    def cut(self, start: int, stop: int) -> OneHotBlock:
        return OneHotBlock(self.codes[start:stop], self.columns)


class OneHot(Rows):
    def __init__(self, codes: Any, columns: int) -> None:
        self.codes, self.shape = codes, (len(codes), columns)

    def blocks(self) -> Iterator[Block]:
        yield OneHotBlock(self.codes, self.shape[1])
