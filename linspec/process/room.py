"""Whether what a file holds fits into memory: asked before it is read.

Problem: a header, an index or an expansion of a few bytes can ask for more memory than there is, and the process
is killed, or the machine swaps, long before the answer could be refused.
Method: each reader works out what it will need from what the file declares, and compares it with what this process may
still use.
"""

from __future__ import annotations

from typing import Any

from linspec.errors import InvalidProblem, printable
from linspec.process import machine

__all__ = ["check_memory", "check_memory_for_sparse"]

MOST = 2**63
"""Bytes that no machine has: beyond it a size is not told exactly."""


def check_memory(path: Any, needed: int, what: str, remedy: str = "") -> None:
    """Refuse what does not fit into memory.

    Parameters
    ----------
    path : path
        The file.
    needed : int
        Bytes that reading it takes at least.
    what : str
        What takes them, a phrase.
    remedy : str, optional
        What to do. By default: convert the file to `.npy`, which is read in blocks.

    Raises
    ------
    InvalidProblem
        There is less memory than that.

    Examples
    --------
    >>> from linspec.operators import check_memory
    >>> check_memory("rows.txt", 2**80, "a matrix of 2^77 numbers")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    linspec.errors.InvalidProblem: rows.txt: a matrix of 2^77 numbers takes more than 8,796,093,022,208 MiB of ...
    """
    available = machine.available_memory()
    if needed > available:
        more = "more than " if needed > MOST else ""
        raise InvalidProblem(
            f"{printable(path)}: {what} takes {more}{min(needed, MOST) / 2**20:,.0f} MiB of memory; "
            f"{available / 2**20:,.0f} MiB are available. "
            f"{remedy or 'Use a machine with more memory, or a .npy file, which is read in blocks.'}"
        )


def check_memory_for_sparse(path: Any, shape: tuple[int, int], entries: int) -> None:
    """Refuse a sparse matrix that does not fit into memory, or whose columns are too many for one vector.

    Parameters
    ----------
    path : path
        The file.
    shape : (int, int)
        Rows and columns.
    entries : int
        Entries that are stored.

    Raises
    ------
    InvalidProblem
        There is less memory than compressed rows take, and one vector as long as the columns, which every solver
        needs.

    Examples
    --------
    >>> from linspec.operators import check_memory_for_sparse
    >>> check_memory_for_sparse("rows.mtx", (10, 2**62), 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    linspec.errors.InvalidProblem: rows.mtx: a sparse matrix of 10 x 4,611,686,018,427,387,904 with 3 entries, and ...
    """
    rows, columns = shape
    needed = 8 * (rows + 1) + 8 * columns + 12 * entries
    size = f"{_number(rows)} x {_number(columns)} with {entries:,} entries"
    what = f"a sparse matrix of {size}, and one vector of its width,"
    check_memory(path, needed, what, "Check its indices, or number the columns that occur.")


def _number(count: int) -> str:
    return f"{count:,}" if count <= MOST else "more than 2^63"
