"""Buffers of Parquet files count as memory, and a whole file is read in tiles."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import NonFiniteData, UnsupportedData

pa = pytest.importorskip("pyarrow", reason="no pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="no pyarrow")
parquet_files = pytest.importorskip("linspec_files.parquet_files")

N, P = 20_000, 8


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
