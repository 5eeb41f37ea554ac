"""A check, before a file is read, that its contents fit into memory.

Problem: a header, an index or compressed data of a few bytes can require more memory than the machine has. Then the
process is killed, or the machine swaps, before an error could be raised.
Method: each reader computes the memory that it will need from the declarations in the file, and compares it with the
memory that this process may still use.
"""

from __future__ import annotations

from typing import Any

from linspec.errors import InvalidProblem, printable
from linspec.process import machine

__all__ = ["check_memory", "check_memory_for_sparse"]


def check_memory(path: Any, needed: int, what: str, remedy: str = "") -> None:
    """Raise an error if data do not fit into memory.

    Parameters
    ----------
    path : path
        The file.
    needed : int
        The smallest number of bytes that reading the file takes.
    what : str
        A phrase that names the data in the message.
    remedy : str, optional
        The remedy in the message. By default: use a machine with more memory, or a ``.npy`` file, which is read in
        blocks.

    Raises
    ------
    InvalidProblem
        Less memory is available.

    Examples
    --------
    >>> from linspec.process import check_memory
    >>> check_memory("small.csv", 1000, "a matrix of 25 x 5 numbers")
    >>> check_memory("large.csv", 2**80, "a matrix of 2^75 x 4 numbers")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: large.csv: a matrix of 2^75 x 4 numbers takes ... of memory; ...
    """
    available = machine.available_memory()
    if needed > available:
        raise InvalidProblem(
            f"{printable(path)}: {what} takes {needed / 2**20:,.0f} MiB of memory; "
            f"{available / 2**20:,.0f} MiB are available. "
            f"{remedy or 'Use a machine with more memory, or a .npy file, which is read in blocks.'}"
        )


def check_memory_for_sparse(path: Any, shape: tuple[int, int], entries: int) -> None:
    """Raise an error if a sparse matrix does not fit into memory, or has too many columns for one vector.

    Parameters
    ----------
    path : path
        The file.
    shape : (int, int)
        Rows and columns.
    entries : int
        The number of stored entries.

    Raises
    ------
    InvalidProblem
        Less memory is available than the matrix in compressed rows and one vector with an entry for each column take;
        every solver needs such a vector.

    Examples
    --------
    >>> from linspec.process import check_memory_for_sparse
    >>> check_memory_for_sparse("counts.mtx", (1000, 500), 20_000)
    >>> check_memory_for_sparse("counts.mtx", (1000, 2**62), 20_000)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: counts.mtx: a sparse matrix of ... takes ... of memory; ...
    """
    rows, columns = shape
    needed = 8 * (rows + 1) + 8 * columns + 12 * entries
    what = f"a sparse matrix of {rows:,} x {columns:,} with {entries:,} entries, and one vector of its width,"
    check_memory(path, needed, what, "Check its indices, or number the columns that occur.")
