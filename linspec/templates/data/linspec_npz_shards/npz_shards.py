"""Rows in several .npz files, one below the other, as one matrix.

Problem: the rows of a large matrix are in files, and do not fit into memory together.
Method: the sizes are read from the heads of the files. Rows are asked for by their numbers, mostly block after block;
the file that they are in is read and held until rows of another one are asked for.
"""

import zipfile
from dataclasses import dataclass

import numpy as np

from linspec.errors import InvalidProblem
from linspec.operators import DenseOperator, RowOperator


@dataclass(frozen=True)
class NpzShards:
    """Paths of .npz files, each with an array `name` of rows; all have the same columns."""

    paths: tuple[str, ...]
    name: str = "rows"


class NpzShardsOperator(RowOperator):
    """The rows of all files as one matrix."""

    def __init__(self, data):
        if not data.paths:
            raise InvalidProblem("NpzShards needs the path of at least one file; got none.")
        self.data, self.held = data, (-1, None)
        heads = [head(path, data.name) for path in data.paths]
        for path, (shape, dtype) in zip(data.paths, heads, strict=True):
            if len(shape) != 2 or shape[1:] != heads[0][0][1:] or dtype not in (np.float32, np.float64):
                raise InvalidProblem(
                    f"{path}: {data.name} must be a matrix of float32 or float64 with the columns of {data.paths[0]}; "
                    f"got shape {shape} of {dtype}. Write it again, or leave it out."
                )
        self.starts = np.cumsum(
            [0, *(shape[0] for shape, _ in heads)]
        )  # of each file, and the end of the last
        self.shape = (int(self.starts[-1]), heads[0][0][1])
        self.dtype = np.result_type(*(dtype for _, dtype in heads))

    def _rows(self, selection):
        numbers = np.arange(self.shape[0])[selection]  # of a slice, or an array of numbers
        files = np.searchsorted(self.starts, numbers, side="right") - 1
        block = np.empty((len(numbers), self.shape[1]), self.dtype)
        for file in np.unique(files):
            here = files == file
            block[here] = self.rows_of(file)[numbers[here] - self.starts[file]]
        return DenseOperator(block)

    def rows_of(self, file):
        """The rows of one file. The file that was read last is held in memory, and not read again."""
        if self.held[0] != file:
            with np.load(self.data.paths[file]) as archive:
                self.held = (file, archive[self.data.name])
        return self.held[1]


def head(path, name):
    """The shape and the dtype of an array in an .npz file, without its entries."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as array:
        np.lib.format.read_magic(array)
        shape, _, dtype = np.lib.format.read_array_header_1_0(array)
    return shape, dtype
