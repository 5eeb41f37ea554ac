"""Rows in files of every kind, by Python and by the command: laws of operators, passes, and files that change."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from written_files import (
    DENSE,
    GENES,
    HELD,
    KINDS,
    NAMED,
    N,
    P,
    entries,
    write,
    write_many,
    write_parquet,
    write_zarr,
)  # fmt: skip

import linspec as ls
from linspec.errors import AccuracyWarning, InvalidOption, InvalidProblem, MissingCapability
from linspec.testing import check_operator

pytest.importorskip("linspec_files")
pytest.importorskip("click")
from linspec.cli.data import read


@pytest.fixture(autouse=True)
def _small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slabs of some dozen rows, so that small data have many."""
    monkeypatch.setattr("linspec_files.slabs.SLAB_BYTES", 8 * P * 64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.slow(keep=8)
def test_the_laws_of_operators_hold(kind: str, many: bool, tmp_path: Path) -> None:
    path, A = (write_many if many else write)(kind, tmp_path)
    make, sparse = KINDS[kind][0], KINDS[kind][2] is not DENSE
    operator, exact, command = ls.open_rows(path), entries(A), read(path)
    assert not check_operator(operator, entries=exact)
    assert operator.sparse == sparse
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(operator)).dense(), exact)
    numbers = np.random.default_rng(0).integers(0, N, 50)
    np.testing.assert_array_equal(operator.rows(numbers).dense(), exact[numbers])
    np.testing.assert_array_equal(entries(command), exact)
    if make not in HELD and not kind.endswith("csc") and not kind.startswith("npz"):
        assert len(operator.source.edges) > 5  # several slabs; none ends where a block does
    if sparse and not many:
        assert operator.nnz == A.nnz
    if make in HELD:
        assert scipy.sparse.issparse(command.stored_array) == sparse
    names = GENES if make in NAMED else None
    assert operator.column_names == getattr(command, "column_names", None) == names
    if not many:
        assert ls.SVD(path, k=1).column_names == ({} if names is None else {"A": names})
    if kind.startswith("h5ad"):
        assert operator.row_names[-1] == f"cell{N - 1}" or many
        assert len(operator.row_names) == N


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.slow(keep=8)
def test_a_range_of_rows_is_a_matrix_of_its_own(kind: str, many: bool, tmp_path: Path) -> None:
    path, A = (write_many if many else write)(kind, tmp_path)
    operator, exact = ls.open_rows(path), entries(A)
    numbers = np.array([7, -1, 7, 0])
    for chosen in (
        slice(0, N - 31),
        slice(N - 31, None),
        slice(None, -5),
        slice(3, 3),
        slice(1, None, 9),
        numbers,
    ):
        rows = operator[chosen]
        np.testing.assert_array_equal(rows.dense(), exact[chosen])
        assert (rows.column_names, rows.sparse) == (operator.column_names, operator.sparse)
        if operator.row_names is not None:
            assert list(rows.row_names) == np.array(operator.row_names)[chosen].tolist()
    assert not check_operator(operator[13:-20], entries=exact[13:-20])
    np.testing.assert_array_equal(operator[13:-20][5:][:40].dense(), exact[18:58])
    np.testing.assert_array_equal(ls.open_rows(path, rows=(13, -20)).dense(), exact[13:-20])
    first, rest = (ls.solve(ls.SVD(rows, k=2, center=True)) for rows in (operator[:70], operator[70:]))
    for answer, rows in ((first, exact[:70]), (rest, exact[70:])):
        expected = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:2]
        np.testing.assert_allclose(answer.S, expected, rtol=1e-5)


def test_rows_that_are_no_range_are_refused(tmp_path: Path) -> None:
    operator = ls.open_rows(write("npy", tmp_path)[0])
    for chosen in (3, (1, 2), (slice(3), 1), ([1, 2], slice(3)), (), np.ones(N, dtype=bool), [N]):
        with pytest.raises(InvalidProblem, match=r"selected by a slice, or by integers .* numpy.flatnonzero"):
            operator[chosen]
    with pytest.raises(InvalidOption, match="slice or a pair of row numbers"):
        ls.open_rows(write("npy", tmp_path)[0], rows=[1, 2, 3])
    with pytest.raises(MissingCapability, match="no row slices"):
        ls.as_operator(lambda: iter([DENSE]))[:5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow(keep=8)
def test_columns_by_place_and_name(kind: str, tmp_path: Path) -> None:
    path, A = write(kind, tmp_path)
    found = ls.open_rows(path, columns=[3, 0])
    np.testing.assert_array_equal(found.dense(), entries(A)[:, [3, 0]])
    named = KINDS[kind][0] in NAMED
    assert found.column_names == (("gene3", "gene0") if named else None)
    for columns, said in (([99], "called 99"), ([1, 1], "named several times"), (["c9"], "called 'c9'")):
        with pytest.raises(InvalidProblem, match=said):
            ls.open_rows(path, columns=columns)
    if named:
        assert ls.open_rows(path, columns=["gene4", 1]).column_names == ("gene4", "gene1")


def test_every_slab_of_several_files_is_decoded_once_a_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = ls.open_rows(write_many("zarr3", tmp_path)[0])
    read, asked = operator.source.read, []
    monkeypatch.setattr(operator.source, "read", lambda *rows: asked.append(rows) or read(*rows))
    moments = ls.Moments(operator, form="implicit")
    for _ in range(2):
        moments.products(np.eye(P))
    assert asked == 2 * list(pairwise(operator.source.edges.tolist()))


def test_objects_and_paths_are_data(tmp_path: Path) -> None:
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    path, A = write("zarr3", tmp_path)
    assert np.array_equal(ls.as_operator(zarr.open(path, mode="r")).dense(), A)
    path, A = write("h5-csr", tmp_path)
    with h5py.File(path) as file:
        for data in (file, file["a"]):
            np.testing.assert_array_equal(ls.as_operator(data).dense(), A.toarray())
        dataset = file["a"]
    with pytest.raises(InvalidProblem, match="closed"):
        ls.as_operator(dataset)
    for version in (2, 3):  # a folder of zarr needs no ending
        path = write_zarr(tmp_path / f"store{version}", DENSE, zarr_format=version)
        np.testing.assert_array_equal(ls.as_operator(path).dense(), DENSE)


@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (1, 1), (40, 3), (3, 40)])
def test_compressed_columns_of_any_shape_are_turned(shape: tuple[int, int], tmp_path: Path) -> None:
    matrix = scipy.sparse.random_array(shape, density=0.3, rng=np.random.default_rng(2), format="csc")
    found = ls.open_rows(write_zarr(tmp_path / "a.zarr", matrix))
    np.testing.assert_array_equal(found.dense(), matrix.toarray())


# ---- Parquet ----------------------------------------------------------------------------------


def frames_in_parts(folder: Path, A: Any) -> None:
    """Twelve Parquet files of pandas frames with an index, named as dask names them."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    folder.mkdir(parents=True)
    for i, rows in enumerate(np.array_split(np.arange(len(A)), 12)):
        pd.DataFrame(A[rows], columns=GENES, index=rows[::-1]).to_parquet(folder / f"part.{i}.parquet")


def test_numbers_in_names_count_by_their_value_and_an_index_is_no_column(tmp_path: Path) -> None:
    frames_in_parts(tmp_path / "frames.parquet", DENSE)
    (tmp_path / "frames.parquet" / "_metadata").write_bytes(b"")
    for path in ("frames.parquet", "frames.parquet/*.parquet"):
        found = ls.open_rows(tmp_path / path)
        assert found.column_names == GENES
        np.testing.assert_array_equal(found.dense(), DENSE)


def test_an_index_labels_the_rows(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1.0, 0.0, 3.0]}, index=["ann", "bob", "cem"])
    frame.to_parquet(tmp_path / "named.parquet")
    frame.reset_index(drop=True).to_parquet(tmp_path / "counted.parquet")
    named, counted = (ls.open_rows(tmp_path / f"{name}.parquet") for name in ("named", "counted"))
    assert list(named.row_names) == list(frame.index)
    assert list(named[1:].row_names) == ["bob", "cem"]
    assert counted.row_names is None
    backwards = frame["a"][::-1]
    with pytest.raises(InvalidProblem, match="same labels in another order"):
        ls.LeastSquares(named, backwards)
    assert ls.solve(ls.LeastSquares(counted, backwards)).converged


def test_folders_named_by_values_are_not_read_without_them(tmp_path: Path) -> None:
    frames_in_parts(tmp_path / "all" / "year=2020", DENSE)
    with pytest.raises(InvalidProblem, match="partitioning"):
        ls.open_rows(tmp_path / "all")


@pytest.mark.parametrize("kind", ["filter", "schema", "keys", "in memory", "feather"])
def test_a_data_set_is_what_arrow_makes_of_it(kind: str, tmp_path: Path) -> None:
    """The rows that Arrow filters, casts and adds columns to, beside the table that it makes of them."""
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    frames_in_parts(tmp_path / "all" / "year=2020", DENSE[:500])
    frames_in_parts(tmp_path / "all" / "year=2021", DENSE[500:])
    table = pa.table(dict(zip(GENES, DENSE.T, strict=True)))
    ds.write_dataset(table, tmp_path / "feather", format="feather")
    schema = pa.schema([("gene3", pa.float32()), ("gene1", pa.float64())])
    data = {
        "filter": lambda: ds.dataset(tmp_path / "all").filter(ds.field("gene0") > 3),
        "schema": lambda: ds.dataset(tmp_path / "all", schema=schema),
        "keys": lambda: ds.dataset(tmp_path / "all", partitioning="hive"),
        "in memory": lambda: ds.dataset(table),
        "feather": lambda: ds.dataset(tmp_path / "feather", format="feather"),
    }[kind]()
    whole = data.to_table().to_pandas().reset_index(drop=True)  # the index is no column
    found = ls.as_operator(data)
    assert found.column_names == tuple(whole.columns)
    np.testing.assert_array_equal(found.matmat(np.eye(len(whole.columns))), whole.to_numpy())


def test_a_large_row_group_is_read_in_parts(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    A, path = np.random.default_rng(0).standard_normal((60_000, P)), tmp_path / "a.parquet"
    table = pa.table(dict(zip(GENES, A.T, strict=True)))
    pages = {"data_page_size": 20_000, "write_batch_size": 100}
    pq.write_table(table, path, compression=None, use_dictionary=False, **pages)
    del table
    operator, before = ls.open_rows(path), pa.total_allocated_bytes()
    most = 0
    for start in range(0, len(A), 2000):
        rows = slice(start, start + 2000)
        np.testing.assert_array_equal(operator.rows(rows).dense(), A[rows])
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < A.nbytes / 2
    picked = np.random.default_rng(1).integers(0, len(A), 50)
    np.testing.assert_array_equal(operator.rows(picked).dense(), A[picked])


# ---- files that differ, lack something or change ----------------------------------------------


@pytest.mark.parametrize(
    "kind, other, what",
    [
        ("zarr3", lambda A: A[:, 1:], "in their order"),
        ("zarr3", lambda A: A.astype("f4"), "of one dtype"),
        ("csv", lambda A: A[:, 1:], "in their order"),
        ("parquet", lambda A: A.astype("f4"), "is another"),
        ("parquet", lambda A: A[:, 1:], "gene11"),
        ("h5", scipy.sparse.csr_array, "all dense or all sparse"),
        ("mtx", np.asarray, "all dense or all sparse"),
    ],
)
def test_a_file_that_differs_is_named_before_any_pass(
    kind: str, other: Any, what: str, tmp_path: Path
) -> None:
    pattern, exact = write_many(kind, tmp_path)
    name = Path(pattern).name.replace("*", "9")
    KINDS[kind][0](tmp_path / name, other(exact[:50]))
    with pytest.raises(InvalidProblem, match=rf"{name}.*{what}"):
        ls.open_rows(pattern)


def test_a_file_with_other_variables_is_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pattern, exact = write_many("h5ad", tmp_path)
    with h5py.File(tmp_path / "day10.h5ad", "a") as file:
        del file["var/_index"]
        file["var/_index"] = ["other", *GENES[1:]]
    with pytest.raises(InvalidProblem, match=r"day10\.h5ad must have the columns of"):
        ls.open_rows(pattern)
    found = ls.open_rows(pattern, columns=["gene4", "gene2"])  # which all have
    np.testing.assert_array_equal(found.dense(), exact[:, [4, 2]])
    assert found.column_names == ("gene4", "gene2")


def test_chunks_that_are_not_there_are_told(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.zarr", DENSE)
    (tmp_path / "a.zarr/c/3/1").unlink()
    with pytest.warns(AccuracyWarning, match="lacks 1 of its 54 chunks"):
        ls.open_rows(path)
    with pytest.raises(InvalidProblem, match="lacks 1 of its 54 chunks"):
        ls.open_rows(path, missing="refuse")
    kept = np.ones((N, P), dtype=bool)
    kept[150:200, 5:10] = False
    np.testing.assert_array_equal(ls.open_rows(path, missing="fill").dense(), np.where(kept, DENSE, 0.0))


def test_an_array_of_which_only_the_consolidated_metadata_are_left_is_told(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    for name in "xy":
        group.create_array(name, shape=(N, P), chunks=(N, P), dtype="f8")[:] = DENSE
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    shutil.rmtree(tmp_path / "a.zarr/y")
    np.testing.assert_array_equal(ls.open_rows(tmp_path / "a.zarr", part="x").dense(), DENSE)
    with pytest.raises(InvalidProblem, match="y lacks 1 of its 1 chunks"):
        ls.open_rows(tmp_path / "a.zarr", part="y", missing="refuse")


@pytest.mark.parametrize("missing", ["warn", "nan", "refuse"])
@pytest.mark.parametrize("part", ["data", "indices"])
def test_a_lost_chunk_of_a_sparse_matrix_is_refused(part: str, missing: str, tmp_path: Path) -> None:
    path, _ = write("zarr-csr", tmp_path)
    chunks = sorted(one for one in (Path(path) / part).rglob("*") if one.is_file() and one.suffix != ".json")
    chunks[0].unlink()
    with pytest.raises(InvalidProblem, match=f"{part} lacks 1 of its"):
        ls.open_rows(path, missing=missing)
    assert ls.open_rows(path, missing="fill").shape == (N, P)


@pytest.mark.parametrize("kind", ["zarr3", "h5", "parquet", "npy"])
def test_a_file_that_changes_between_passes_is_refused(kind: str, tmp_path: Path) -> None:
    pattern, _ = write_many(kind, tmp_path)
    operator = ls.open_rows(pattern)
    operator.matmat(np.eye(P))
    file = tmp_path / ("day2.zarr/c/3/1" if kind == "zarr3" else f"day2{Path(pattern).suffix}")
    file.write_bytes(file.read_bytes() + b"\0" * 100)
    for _ in range(2):
        with pytest.raises(InvalidProblem, match=r"has changed since|cannot be read"):
            operator.matmat(np.eye(P))
        file.unlink(missing_ok=True)


# ---- threads, processes and memory ------------------------------------------------------------


def test_an_error_of_the_thread_ahead_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = ls.open_rows(write_zarr(tmp_path / "a.zarr", DENSE))
    read = operator.source.read

    def failing(start: int, stop: int) -> Any:
        if start >= 100:
            raise OSError("the disk has gone")
        return read(start, stop)

    monkeypatch.setattr(operator.source, "read", failing)
    said = r"rows 100 to \d+ cannot be read \(OSError: the disk has gone\)"
    with pytest.raises(InvalidProblem, match=said):
        operator.matmat(np.eye(P))
    monkeypatch.setattr(operator.source, "read", read)
    assert operator.matmat(np.eye(P)).shape == (N, P)  # and the operator can be used again


def test_a_run_that_is_given_up_leaves_no_thread(tmp_path: Path) -> None:
    operator = ls.open_rows(write_zarr(tmp_path / "a.zarr", DENSE))

    def stop(progress: ls.Progress) -> bool:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        ls.solve(ls.SVD(operator, k=2), "block-krylov", form="implicit", rng=0, callback=stop)
    for thread in threading.enumerate():
        if thread.name.startswith("linspec-read-ahead"):
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("make", [write_zarr, lambda path, A: write_parquet(path, A, group=N)])
def test_a_forked_child_decodes_by_itself(make: Any, tmp_path: Path) -> None:
    """Threads that decode ahead, and the place in an open file, are of the parent."""
    operator = ls.open_rows(make(tmp_path / ("a.zarr" if make is write_zarr else "a.parquet"), DENSE))
    np.testing.assert_array_equal(operator.rows(slice(0, 200)).dense(), DENSE[:200])
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(operator.dense(), DENSE) else 1)
    np.testing.assert_array_equal(operator.dense(), DENSE)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_slabs_are_smaller_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    A = np.random.default_rng(0).standard_normal((60_000, 50))
    np.save(tmp_path / "A.npy", A)
    assert ls.open_rows(tmp_path / "A.npy").buffer_bytes >= A.nbytes  # slabs of 16 MiB
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "10M")
    few = ls.open_rows(tmp_path / "A.npy")
    assert few.buffer_bytes <= 2.5e6
    found = ls.solve(ls.SVD(few, k=2), "gram")
    assert pytest.approx(np.linalg.svd(A, compute_uv=False)[:2], rel=1e-12) == found.S
