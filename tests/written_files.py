"""Small matrices in files of every kind, as other packages write them: what tests of files read."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

N, P = 900, 12
RNG = np.random.default_rng(0)
DENSE = RNG.standard_normal((N, 4)) @ RNG.standard_normal((4, P)) + 0.1 * RNG.standard_normal((N, P)) + 3.0
SPARSE = scipy.sparse.random_array((N, P), density=0.2, rng=np.random.default_rng(1), format="csr")
CSC = SPARSE.tocsc()
CSC.data[:5] = 0.0  # stored zeros stay stored
GENES = tuple(f"gene{j}" for j in range(P))
CUTS = {0: (0, 100), 1: (100, 100), 2: (100, 650), 10: (650, N)}
"""Several files, in the order of the numbers in their names; the second has no rows."""


def entries(A: Any) -> Any:
    if hasattr(A, "dense"):
        return np.asarray(A.dense())
    return A.toarray() if scipy.sparse.issparse(A) else np.asarray(A)


def write_sparse(group: Any, matrix: Any) -> None:
    """A matrix as AnnData writes it, by rows or by columns, into a group of zarr or of h5py."""
    make = getattr(group, "create_array", None) or group.create_dataset
    group.attrs.update({"encoding-type": f"{matrix.format}_matrix", "encoding-version": "0.1.0"})
    group.attrs["shape"] = list(matrix.shape)
    for part in ("data", "indices", "indptr"):
        values = getattr(matrix, part)
        chunks = {"chunks": (min(100, values.size),)} if values.size else {}
        make(part, shape=values.shape, dtype=values.dtype, **chunks)[:] = values


def write_zarr(path: Path, A: Any, **more: Any) -> str:
    zarr = pytest.importorskip("zarr")
    if scipy.sparse.issparse(A):
        write_sparse(zarr.open_group(str(path), mode="w"), A)
    else:
        zarr.create_array(str(path), shape=A.shape, dtype=A.dtype, **{"chunks": (50, 5), **more})[:] = A
    return str(path)


def write_h5(path: Path, A: Any, chunks: Any = (50, 5)) -> str:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        if scipy.sparse.issparse(A):
            write_sparse(file.create_group("a"), A)
        else:
            file.create_dataset("a", data=A, chunks=chunks)
    return str(path)


def write_h5ad(path: Path, matrix: Any) -> str:
    """An AnnData by its format: X sparse, a layer dense, an embedding, and the frames of labels."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        write_sparse(file.create_group("X"), matrix)
        file["layers/dense"], file["obsm/X_pca"] = matrix.toarray(), matrix.toarray()[:, :3]
        for name, count, label in (("obs", matrix.shape[0], "cell"), ("var", matrix.shape[1], "gene")):
            file.create_group(name).attrs["_index"] = "_index"
            file[name]["_index"] = [f"{label}{i}" for i in range(count)]
    return str(path)


def write_cells(path: Path, matrix: Any, names: Any = ("features/name", "features/id")) -> str:
    """The counts of 10x Genomics: features x cells, compressed by cells."""
    h5py = pytest.importorskip("h5py")
    n, p = matrix.shape
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        for part in ("data", "indices", "indptr"):
            values = getattr(matrix.tocsr(), part)
            chunks = {"chunks": (min(100, values.size),), "compression": "gzip"} if values.size else {}
            group.create_dataset(part, data=values, **chunks)
        group["shape"], group["barcodes"] = (
            np.array([p, n], "i4"),
            np.array([f"cell{i}" for i in range(n)], "S"),
        )
        group[names[0]], group[names[1]] = (
            np.array(GENES[:p], "S"),
            np.array([f"id{j}" for j in range(p)], "S"),
        )
    return str(path)


def write_matlab(path: Path, A: Any) -> str:
    """A file of MATLAB 7.3: HDF5 behind a line of text, with matrices by columns."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        if scipy.sparse.issparse(A):
            group = file.create_group("a")
            group.attrs.update({"MATLAB_class": np.bytes_("double"), "MATLAB_sparse": np.uint64(A.shape[0])})
            group["data"], group["ir"], group["jc"] = A.data, A.indices, A.indptr
        else:
            file.create_dataset("a", data=A.T, chunks=(5, 50)).attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124))
    return str(path)


def write_parquet(path: Path, A: Any, group: int = 70) -> str:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(dict(zip(GENES, A.T, strict=False))), path, row_group_size=group)
    return str(path)


def write_numpy(path: Path, A: Any) -> str:
    dense = np.save if path.suffix == ".npy" else np.savez
    (scipy.sparse.save_npz if scipy.sparse.issparse(A) else dense)(path, A)
    return str(path)


def write_text(path: Path, A: Any) -> str:
    mark = {"tsv": "\t", "txt": " "}.get(path.name.split(".")[1], ",")
    names = mark.join(GENES[: A.shape[1]])
    np.savetxt(path, A, fmt="%.17g", delimiter=mark, header=names, comments="")
    return str(path)


def write_market(path: Path, A: Any) -> str:
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    scipy.io.mmwrite(plain, A)
    return str(path) if path == plain else packed(plain)


def write_svmlight(path: Path, rows: Any, base: int = 1, labels: Any = None) -> str:
    rows = entries(rows)
    labels = np.zeros(len(rows), dtype=int) if labels is None else labels
    lines = [
        " ".join([str(label), *(f"{j + base}:{value!r}" for j, value in enumerate(row) if value)])
        for label, row in zip(labels, rows.tolist(), strict=True)
    ]
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def saved(save: Callable[..., Any], *arrays: Any, **named: Any) -> bytes:
    """What a function writes into a stream."""
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


def packed(path: Path) -> str:
    """Compress a file by gzip."""
    into = path.with_name(path.name + ".gz")
    into.write_bytes(gzip.compress(path.read_bytes()))
    return str(into)


KINDS: dict[str, tuple[Callable[..., str], str, Any, dict[str, Any]]] = {
    "zarr2": (write_zarr, "a.zarr", DENSE, {"zarr_format": 2}),
    "zarr3": (write_zarr, "a.zarr", DENSE, {}),
    "sharded": (write_zarr, "a.zarr", DENSE, {"shards": (150, 10)}),
    "zarr-csr": (write_zarr, "a.zarr", SPARSE, {}),
    "zarr-csc": (write_zarr, "a.zarr", CSC, {}),
    "h5": (write_h5, "a.h5", DENSE, {}),
    "contiguous": (write_h5, "a.hdf5", DENSE, {"chunks": None}),
    "h5-csr": (write_h5, "a.h5", SPARSE, {}),
    "h5-csc": (write_h5, "a.h5", CSC, {}),
    "h5ad": (write_h5ad, "a.h5ad", SPARSE, {}),
    "h5ad-csc": (write_h5ad, "a.h5ad", CSC, {}),
    "cells": (write_cells, "a.h5", SPARSE, {}),
    "mat": (write_matlab, "a.mat", DENSE, {}),
    "mat-csc": (write_matlab, "a.mat", CSC, {}),
    "npy": (write_numpy, "a.npy", DENSE, {}),
    "npz": (write_numpy, "a.npz", DENSE, {}),
    "npz-csc": (write_numpy, "a.npz", CSC, {}),
    "parquet": (write_parquet, "a.parquet", DENSE, {}),
}
KINDS |= {
    f"{suffix}{gz}": (make, f"a.{suffix}{gz}", A, {})
    for make, A, suffixes in (
        (write_text, DENSE, ("csv", "tsv", "txt")),
        (write_market, SPARSE, ("mtx",)),
        (write_svmlight, SPARSE, ("svm", "svmlight", "libsvm")),
    )
    for suffix in suffixes
    for gz in ("", ".gz")
}
"""What writes a kind, its name, the matrix and settings."""

NAMED: Sequence[Callable[..., str]] = (write_h5ad, write_cells, write_parquet, write_text)
"""What writes names of columns."""

HELD: Sequence[Callable[..., str]] = (write_text, write_market, write_svmlight)
"""What writes files that are read into memory as a whole."""


def write(kind: str, folder: Path) -> tuple[str, Any]:
    """Write data of a kind, and return the path and the same in memory."""
    make, name, A, more = KINDS[kind]
    return make(folder / name, A, **more), A


def write_many(kind: str, folder: Path) -> tuple[str, Any]:
    """The rows in several files of a pattern; only sparse matrices may have no rows."""
    make, name, A, more = KINDS[kind]
    for number, (start, stop) in CUTS.items():
        if start < stop or (scipy.sparse.issparse(A) and make not in HELD):
            rows = A.tocsr()[start:stop].asformat(A.format) if scipy.sparse.issparse(A) else A[start:stop]
            make(folder / name.replace("a.", f"day{number}."), rows, **more)
    return str(folder / name.replace("a.", "day*.")), entries(A)
