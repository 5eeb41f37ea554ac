"""Objects of other libraries: what is passed instead of them gives their numbers. Small classes stand for those.

`tests/releases` does the same with the libraries themselves.
"""

from __future__ import annotations

import dask
import dask.array
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import linspec as ls

A = np.random.default_rng(0).standard_normal((2500, 3))
GAPS = A > 2
MASKED = np.ma.array(A, mask=GAPS)
NAN = np.where(GAPS, np.nan, A)


def of(path, *bases, **names):
    """An object of a class that has the name and the place of one of another library."""
    module, _, name = path.rpartition(".")
    return type(name, bases, {"__module__": module, **names})()


class Stored:
    """Rows on a disk, of which some are read; it must not be read as a whole, and is no function."""

    shape = A.shape

    def __getitem__(self, rows):
        assert len(A[rows]) <= 1000
        return A[rows]

    def __call__(self):
        return self

    def __array__(self, *_):
        raise AssertionError

    __array_namespace__ = __len__ = __array__


class Epochs:
    """Three epochs, each with its channels as rows; it is its own iterator."""

    def __iter__(self):
        self.epochs = iter([A[:9].T, A[9:20].T, A[20:].T])
        return self

    def __next__(self):
        return next(self.epochs)

    def copy(self):
        return of("mne.epochs.BaseEpochs", Epochs)


class Unit:
    """Numbers with a unit, which others may hold."""

    units, magnitude, shape, dtype, ndim = "m", A, A.shape, A.dtype, 2
    __array__ = __array_function__ = __array_ufunc__ = lambda *_: None

    def to(self, units):
        return self


METRES = of("pint.Quantity", Unit)
SLICES = "lambda: (data[i : i + 1000] for i in range(0, data.shape[0], 1000))"
STREAM = "lambda: pyarrow.RecordBatchReader.from_stream(data)"
FILLED = "(data * 1.0).filled(numpy.nan)"
ROWS = {
    "PyTables array": (of("tables.earray.EArray", type(of("tables.array.Array", Stored))), A, SLICES),
    "blosc2 array": (of("blosc2.ndarray.NDArray", Stored), A, SLICES),
    "epochs": (Epochs().copy(), A, "lambda: (epoch.T for epoch in data.copy())"),
    "unit": (METRES, A, "data.to(data.units).magnitude"),
    "mask": (MASKED, NAN, FILLED),
    "mask of integers": (np.ma.array(np.int8(A), mask=GAPS), np.where(GAPS, np.nan, np.int8(A)), FILLED),
    "masked blocks": (
        dask.array.ma.masked_array(dask.array.from_array(A, (1000, 3)), GAPS),
        NAN,
        f"data.map_blocks(lambda data: {FILLED})",
    ),
    "delayed block": (dask.delayed(A), A, "[data]"),
    "stream of Arrow": (narwhals.from_native(pl.DataFrame(A)), A, STREAM),
    "lazy frame": (pl.DataFrame(A).lazy(), A, "data.collect()"),
    "records": (pd.DataFrame(A).to_records(index=False), A, "pandas.DataFrame(data[:])"),
    "column of lists": (pl.DataFrame({"name": A.tolist()}), A, 'numpy.stack(data["name"].to_numpy())'),
    "memory": (memoryview(A), A, "numpy.asarray(data)"),
    "sparse, unknown": (of("x.Y", to_scipy_sparse=lambda _: scipy.sparse.csr_array(A)), A, "data.to_scipy_sparse()"),
    "dense, unknown": (of("x.Y", to_numpy=lambda _: A), A, "data.to_numpy()"),
    "tuple of slices": ((A[:900], A[900:]), A, None),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROWS)
def test_a_refusal_names_the_line_that_gives_the_numbers(kind):
    data, truth, line = ROWS[kind]
    if line is not None:
        with pytest.raises(ls.errors.UnsupportedData) as refused:
            ls.SVD(data, k=1)
        stated = line.replace('"name"', "name")
        assert f"`{stated}`" in str(refused.value)
        data = eval(line, {"data": data, "numpy": np, "pandas": pd, "pyarrow": pa})
    if np.isnan(truth).any():
        with pytest.raises(ls.errors.NonFiniteData, match="got nan"):
            ls.solve(ls.SVD(data, k=1), "gram")
        np.testing.assert_array_equal(np.asarray(data), truth)
    else:
        np.testing.assert_array_equal(ls.as_operator(data).matmat(np.eye(3)), truth)


def test_what_xarray_holds_is_told_with_the_line_for_xarray():
    xr = pytest.importorskip("xarray")
    held = xr.DataArray(A, dims=("t", "x"))
    held.variable._data = METRES
    with pytest.raises(
        ls.errors.UnsupportedData, match=r"`xarray\.apply_ufunc\(lambda data: data\.to\(data\.un"
    ):
        ls.SVD(held, k=1)
    with pytest.raises(ls.errors.UnsupportedData, match=r"`data\[next\(iter\(data\)\)\]`"):
        ls.SVD(xr.Dataset({"a": (("t", "x"), A)}), k=1)


def test_an_object_that_is_its_own_iterator_is_no_stream_of_rows():
    epochs = Epochs().copy()
    for data in (epochs, iter(epochs), lambda: epochs, lambda: iter(epochs)):
        with pytest.raises(ls.errors.UnsupportedData, match=r"Epochs.*`lambda: \(epoch\.T for epoch in"):
            ls.SVD(data, k=1)


@pytest.mark.parametrize("base", ["dict", "torch.utils.data.IterableDataset"])
def test_a_class_of_slices_may_derive_from_what_is_none(base):
    bases = (pytest.importorskip("torch").utils.data.IterableDataset if "torch" in base else dict,)
    parts, slices = [A[:9], A[9:]], iter([A[:9], A[9:]])
    called = of("mine.Rows", *bases, __call__=lambda _: iter(parts), __iter__=None)
    own = of("mine.Rows", *bases, __iter__=lambda self: self, __next__=lambda _: next(slices))
    for data in (called, own):
        np.testing.assert_allclose(ls.solve(ls.SVD(data, k=1), "gram").S, np.linalg.svd(A)[1][:1])


def test_an_open_file_is_its_path(tmp_path):
    pd.DataFrame(A, columns=["a", "b", "c"]).to_csv(tmp_path / "a.csv", index=False)
    with (tmp_path / "a.csv").open() as file:
        with pytest.raises(ls.errors.UnsupportedData, match=r"`linspec\.open_rows\(data\.name\)`"):
            ls.SVD(file, k=1)
        np.testing.assert_array_equal(ls.open_rows(file.name).matmat(np.eye(3)), A)


def test_narrow_floats_of_torch():
    torch = pytest.importorskip("torch")
    half = torch.from_numpy(A).bfloat16()
    np.testing.assert_array_equal(ls.as_operator(half).matmat(np.eye(3)), half.double().numpy())
    with pytest.raises(ls.errors.UnsupportedData, match=r"`data\.float\(\)`"):
        ls.as_operator(half.to(torch.float8_e5m2))


def test_a_list_of_what_is_no_array_is_refused_with_the_words_of_its_library():
    def array(*_, **__):
        raise RuntimeError("Cannot convert a sparse array.")

    with pytest.raises(
        ls.errors.InvalidProblem, match=r"equally many numbers.*Cannot convert a sparse array"
    ):
        ls.SVD([of("sparse.COO", __array__=array)], k=1)
