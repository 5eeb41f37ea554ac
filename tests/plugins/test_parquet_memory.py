"""Buffers of Parquet files count as memory: bounds from pyarrow's own pool, plans, and refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.cost import moments_form
from linspec.errors import NonFiniteData, NoSuitableSolver, UnsupportedData

pa = pytest.importorskip("pyarrow", reason="no pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="no pyarrow")
parquet_files = pytest.importorskip("linspec_files.parquet_files")

N, P = 20_000, 8
GROUP_BYTES = 8 * N * P


@pytest.fixture(autouse=True)
def _small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slabs of 500 rows, and no file so small that it is not looked at."""
    monkeypatch.setattr(parquet_files, "SMALL", 0)
    for module in ("slabs", "parquet_files"):
        monkeypatch.setattr(f"linspec_files.{module}.SLAB_BYTES", 8 * P * 500)


def numbers() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, P))


def write(path: Path, group: int = N, page: int = 8 * 2500, **more: Any) -> str:
    A = numbers()
    table = pa.table({f"c{j}": A[:, j] for j in range(P)})
    settings = {"compression": None, "use_dictionary": False, **more}
    pq.write_table(table, path, row_group_size=group, data_page_size=page, write_batch_size=100, **settings)
    return str(path)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"compression": "snappy"},
        {"use_dictionary": True},
        {"compression": "gzip", "use_dictionary": True},
    ],
)
def test_what_pyarrow_holds_of_a_large_row_group_is_counted(tmp_path: Path, more: dict[str, Any]) -> None:
    source = ls.open_rows(write(tmp_path / "a.parquet", **more)).source
    before, held = pa.total_allocated_bytes(), []
    for start, stop in zip(source.edges[:-1], source.edges[1:], strict=True):
        np.testing.assert_array_equal(source.read(slice(int(start), int(stop))), numbers()[start:stop])
        held.append(pa.total_allocated_bytes() - before)
    assert 0 < max(held) <= source.decoding_bytes
    assert held[-1] == 0, "the last part of a row group gives its pages back"
    if not more:
        assert source.decoding_bytes < GROUP_BYTES, "the row group is not held as a whole"


def test_a_row_group_of_one_page_a_column_counts_whole(tmp_path: Path) -> None:
    operator = ls.open_rows(write(tmp_path / "a.parquet", page=2**30))
    assert operator.source.decoding_bytes >= GROUP_BYTES


def test_a_column_with_a_header_that_is_none_counts_whole() -> None:
    sizes = parquet_files._sizes_of_page
    assert sizes(b"\x15\x00\x15\xc8\x01\x15\x10\x2c") == (100, 8)  # 100 and 8 as zigzag numbers
    assert sizes(b"") == sizes(b"\x15\x00\x25\x02") == sizes(b"\x15") == (0, 0)


@pytest.mark.parametrize("group", [N, 100])
def test_buffers_lower_the_memory_of_plans(
    group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "40MB")
    A = ls.open_rows(write(tmp_path / "a.parquet", group))
    assert A.buffer_bytes >= A.source.decoding_bytes + 2 * A.source.slab_bytes
    for problem, views in ((ls.SVD(A, k=2, center=True), 1), (ls.CCA(A, A, k=2), 2)):
        sizes = problem.sizes()
        assert sizes.buffers == views * A.buffer_bytes
        assert sizes.free_memory() == max(40 * 10**6 - sizes.buffers, 10**7)
    assert ls.SVD(numbers(), k=2).sizes().free_memory() == 40 * 10**6, "rows in memory have no buffers"


def test_buffers_of_a_description_grow_with_row_groups(tmp_path: Path) -> None:
    many, few = (ls.open_rows(write(tmp_path / f"{group}.parquet", group)) for group in (20, 1000))
    metadata = pq.read_metadata(tmp_path / "20.parquet")
    assert many.buffer_bytes > metadata.serialized_size > few.source.decoding_bytes


def test_a_form_or_a_solver_that_the_buffers_leave_no_room_for_is_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = ls.open_rows(write(tmp_path / "a.parquet"))
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "1GB")
    sizes = ls.cost.Sizes(10**6, 3000, 0, 3 * 10**9, None, 5, readable=True)
    assert moments_form(sizes, 1000, 5)[0] == "dense", "two matrices of 72 MB"
    assert moments_form(replace(sizes, buffers=7 * 10**8), 1000, 5)[0] == "implicit"
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "400kB")
    monkeypatch.setattr("linspec.solving.select.ALWAYS_AVAILABLE", 0)
    with pytest.raises(NoSuitableSolver, match="for reading the data"):
        ls.select(ls.SVD(operator, k=7))


def test_a_file_whose_buffers_do_not_fit_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", page=2**30)
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "2MB")
    with pytest.raises(UnsupportedData, match=r"in row groups of 500 to 4,000 rows") as caught:
        ls.open_rows(path)
    assert "2 MB are free" in str(caught.value)
    np.testing.assert_array_equal(
        ls.open_rows(write(tmp_path / "b.parquet", 2000)).dense(), numbers()
    )  # as the message says
    narrow = ls.open_rows(path, columns=["c3", "c1"])
    np.testing.assert_array_equal(narrow.dense(), numbers()[:, [3, 1]])


def test_a_description_is_read_once_for_all_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    described = parquet_files._described
    monkeypatch.setattr(parquet_files, "_described", lambda path: read.append(path) or described(path))
    operator = ls.open_rows(write(tmp_path / "a.parquet", 700))
    for _ in range(3):
        operator.matmat(np.eye(P))
    assert len(read) == 1


@pytest.mark.parametrize("group", [N, 700, 8000])
@pytest.mark.parametrize("together", [8 * N, 8 * P * 10_000, 2**26])
def test_a_whole_file_is_read_in_tiles(
    group: int, together: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "TOGETHER", together)
    operator = ls.open_rows(write(tmp_path / "a.parquet", group))
    np.testing.assert_array_equal(operator.in_memory(math.inf).dense(), numbers())
    np.testing.assert_array_equal(operator.source.whole(), numbers())


def test_a_missing_value_of_a_tile_is_named_by_its_row_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "TOGETHER", 8 * P * 1000)
    values = [None if i == 4321 else float(i) for i in range(N)]
    pq.write_table(pa.table({"a": np.arange(N), "b": values}), tmp_path / "a.parquet", row_group_size=500)
    with pytest.raises(NonFiniteData, match="missing at row 4321, column 'b'"):
        ls.open_rows(tmp_path / "a.parquet").in_memory(math.inf)
