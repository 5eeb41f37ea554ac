"""Several files as one matrix, and some columns of a file.

Problem: measurements of many days are in many files, and are one matrix only if each has the same columns.
Method: each file is opened and described when the matrix is made, before any row is decoded. One that differs from the
first in columns, names, dtype or kind is refused by its name. The slabs of the files follow one another, so the next
file is read ahead, too, and at no time more than two slabs are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from linspec.errors import InvalidProblem
from linspec_files.slabs import RowSource
from linspec_files.stored import MOST_LABELS

__all__ = ["ChosenColumns", "StackedRows"]


class StackedRows(RowSource):
    """Several sources, stacked into one.

    Parameters
    ----------
    name : str
    sources : sequence of RowSource

    Raises
    ------
    InvalidProblem
        One of them does not have the columns of the first.
    """

    def __init__(self, name: str, sources: Sequence[RowSource]) -> None:
        first = sources[0]
        for other in sources[1:]:
            _check_alike(other, first)
        self.name, self._sources = name, [source for source in sources if source.shape[0]] or [first]
        self._offsets = [0, *accumulate(source.shape[0] for source in self._sources)]
        self.shape = (self._offsets[-1], first.shape[1])
        self.stored_dtype, self.sparse = first.stored_dtype, first.sparse
        self.edges = np.unique(
            np.concatenate([s.edges + at for s, at in zip(self._sources, self._offsets, strict=False)])
        ).astype(np.intp)
        self.column_names = first.column_names
        self.decoding_bytes = max(source.decoding_bytes for source in self._sources)
        self.decodes = any(source.decodes for source in self._sources)
        if self.shape[0] <= MOST_LABELS and all(source.row_names is not None for source in self._sources):
            self.row_names = [label for source in self._sources for label in source.row_names]

    @property
    def stored(self) -> int:
        return sum(source.stored for source in self._sources)

    @property
    def slab_bytes(self) -> int:
        return max(source.slab_bytes for source in self._sources)

    def read(self, rows: slice) -> Any:
        """Decode the rows of a slab, which is in one file."""
        source, own = self._own(rows)
        return source.read(own)

    def stamp(self, rows: slice) -> Any:
        """Return the stamp of the file of a slab."""
        source, own = self._own(rows)
        return source.stamp(own)

    def _own(self, rows: slice) -> tuple[RowSource, slice]:
        number = int(np.searchsorted(self._offsets, rows.start, side="right")) - 1
        offset = self._offsets[number]
        return self._sources[number], slice(rows.start - offset, rows.stop - offset)


def _check_alike(other: RowSource, first: RowSource) -> None:
    """Refuse a source whose columns, dtype or kind are not those of the first."""
    facts = (
        ("columns", other.shape[1], first.shape[1]),
        ("dtype", str(other.stored_dtype), str(first.stored_dtype)),
        ("kind", _kind(other), _kind(first)),
    )
    for what, got, wanted in facts:
        if got != wanted:
            said = (
                f"{got} columns, and there are {wanted}"
                if what == "columns"
                else f"{got}, and there {wanted}"
            )
            raise _other(other, first, f"has {said}")
    if other.column_names != first.column_names:
        names, wanted_names = other.column_names, first.column_names
        if names is None or wanted_names is None:
            raise _other(
                other,
                first,
                f"has {'no ' if names is None else ''}names of columns, and there it is otherwise",
            )
        j = next(j for j, (one, two) in enumerate(zip(names, wanted_names, strict=True)) if one != two)
        raise _other(other, first, f"has the column {names[j]!r} at place {j}, and there {wanted_names[j]!r}")


def _other(other: RowSource, first: RowSource, what: str) -> InvalidProblem:
    return InvalidProblem(
        f"{other.name} must have the columns of {first.name}, in their order; it {what}. Leave the file out, or "
        "write it again like the others."
    )


def _kind(source: RowSource) -> str:
    return "sparse rows" if source.sparse else "dense rows"


class ChosenColumns(RowSource):
    """Some columns of a source.

    Parameters
    ----------
    source : RowSource
    places : sequence of int
        The numbers of the columns, in the order of the result.
    """

    def __init__(self, source: RowSource, places: Sequence[int]) -> None:
        names = source.column_names
        self._source, self._numbers = source, np.asarray(places, dtype=np.intp)
        self.name, self.edges, self.sparse = source.name, source.edges, source.sparse
        self.shape, self.stored_dtype = (source.shape[0], len(places)), source.stored_dtype
        self.column_names = None if names is None else tuple(names[j] for j in places)
        self.row_names = source.row_names
        self.decoding_bytes, self.decodes = source.slab_bytes + source.decoding_bytes, source.decodes

    @property
    def stored(self) -> int:
        """The number of stored entries in the chosen columns.

        It is exact for dense rows. For sparse rows it is an estimate that assumes equally many entries in each column
        of the source.
        """
        return round(self._source.stored * self.shape[1] / max(self._source.shape[1], 1))

    @property
    def slab_bytes(self) -> int:
        """Size of the largest slab; for sparse rows an estimate, too."""
        return round(self._source.slab_bytes * self.shape[1] / max(self._source.shape[1], 1))

    def read(self, rows: slice) -> Any:
        """Decode a slab with all columns, and return the chosen ones."""
        return self._source.read(rows)[:, self._numbers]

    def stamp(self, rows: slice) -> Any:
        """Return the stamp of the source."""
        return self._source.stamp(rows)
