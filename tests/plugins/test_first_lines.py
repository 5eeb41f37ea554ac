"""Whether the first line of a text holds names: what a writer of headers wrote, read back through `ls.open_rows`."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("linspec_files")
pytest.importorskip("click")

from cli.running import refusal, run

import linspec as ls
from linspec.cli.data import read
from linspec.errors import InvalidOption, InvalidProblem

RNG = np.random.default_rng(3)
FRACTIONS = RNG.random((12, 5))
COUNTS = RNG.integers(0, 40, (12, 5))


def put(path: Path, head: Any, rows: Any, mark: str = ",") -> Path:
    lines = [*([] if head is None else [head]), *rows.tolist()]
    text = "".join(f"{mark.join(map(str, line))}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def labelled(labels: Any, rows: Any) -> Any:
    """Rows with a label in front of each."""
    return np.column_stack([np.array(list(labels), dtype=object), rows.astype(object)])


HEADERS = {
    "names among numbers": ["moisture", 1100, 1250, 1307, "protein"],
    "days": [f"2020-01-{day:02d}" for day in range(1, 6)],
    "bins": ["0-10", "10-20", "20-30", "30-40", "40+"],
    "probes": ["1007_s_at", "1053_at", "117_at", "121_at", "1255_g_at"],
}


@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t"), ("txt", " "), ("csv.gz", ";")])
@pytest.mark.parametrize("name", HEADERS)
def test_a_header_with_a_name_that_is_no_number_is_a_header(
    name: str, suffix: str, mark: str, tmp_path: Path
) -> None:
    path, names = tmp_path / f"a.{suffix}", tuple(map(str, HEADERS[name]))
    for rows in (FRACTIONS, COUNTS):
        found = ls.open_rows(put(path, HEADERS[name], rows, mark))
        np.testing.assert_array_equal(found.dense(), rows)
        assert found.column_names == names
        np.testing.assert_array_equal(ls.open_rows(path, columns=[names[3]]).dense(), rows[:, 3:4])


DATA = {
    "fractions": FRACTIONS,
    "counts": COUNTS,
    "zeros and ones": RNG.integers(0, 2, (12, 2)),
    "equal numbers first": np.vstack([np.zeros((1, 5), dtype=int), COUNTS]),
    "numbers that count on": np.arange(12).reshape(4, 3),
    "one column that counts": np.arange(9).reshape(-1, 1),
    "years below years": np.arange(1990, 2010).reshape(-1, 1) + np.arange(3),
    "powers of two": 2 ** np.add.outer(RNG.integers(0, 5, 12), np.arange(4)),
    "a path that begins at zero": np.vstack([[[0.0]], np.cumsum(FRACTIONS[:, :1] - 0.5, axis=0)]),
    "the notation of numpy": np.array(
        [["7.000e+00", "1.000e+00", "2.000e+00"], ["3.5e+00", "-1e+00", "2e+00"]]
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_plain_numbers_have_no_header(name: str, tmp_path: Path) -> None:
    found = ls.open_rows(put(tmp_path / "a.csv", None, DATA[name]))
    np.testing.assert_array_equal(found.dense(), DATA[name].astype(float))
    assert found.column_names is None


UNSURE = {
    "the 0, 1, 2 of pandas": (range(5), COUNTS),
    "years": (range(2019, 2024), FRACTIONS),
    "wavelengths": ([400.0, 400.5, 401.0, 401.5, 402.0], FRACTIONS),
    "doses": (["1e-3", "1e-2", "1e-1", "1e0", "1e1"], COUNTS),
    "quoted": (['"7157"', '"672"', '"675"', '"5728"', '"4609"'], FRACTIONS),
    "even by chance": (range(1, 4), np.array([[5, 1, 3], [2, 2, 5], [4, 1, 1]])),
    "masses over counts": ([100.0757, 115.039, 132.1019], COUNTS[:, :3]),
    "an order of ranks": (range(6), np.array([RNG.permutation(6) for _ in range(12)])),
    "a matrix of distances": ([0, 1, 2, 3, 4], np.abs(np.subtract.outer(np.arange(1, 5), np.arange(5)))),
    "one name, which may be a slip": (["x3", 2, 5], np.array([[4, 5, 6], [7, 1, 9]])),
}


@pytest.mark.parametrize("name", UNSURE)
def test_where_nobody_can_tell_the_user_says(name: str, tmp_path: Path) -> None:
    head, rows = UNSURE[name]
    names = tuple(str(one).strip('"') for one in head)
    path = put(tmp_path / "a.csv", head, rows)
    for reader in (ls.open_rows, ls.as_operator, lambda path: ls.SVD(str(path), k=1)):
        with pytest.raises(InvalidProblem, match=r"a\.csv, line 1.*header=True or header=False.*--no-header"):
            reader(path)
    found = ls.open_rows(path, header=True)
    np.testing.assert_array_equal(found.dense(), rows)
    assert found.column_names == names
    if "slip" not in name:
        data = np.vstack([np.array(names, float), rows])
        np.testing.assert_array_equal(ls.open_rows(path, header=False).dense(), data)


def test_what_else_tells_of_names(tmp_path: Path) -> None:
    """Who picks columns by names says that there are names, and so does a name over a count of rows."""
    path = put(tmp_path / "a.csv", [645, 859, 469, 555, 1240], FRACTIONS)
    np.testing.assert_array_equal(ls.open_rows(path, columns=["1240", "859"]).dense(), FRACTIONS[:, [4, 1]])
    rows = labelled(range(12), FRACTIONS[:, :3])
    found = ls.open_rows(put(tmp_path / "a.csv", ["index", 402.11, 409.9, 431.7], rows))
    np.testing.assert_array_equal(found.dense(), rows.astype(float))


def test_header_is_one_of_three(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", ["a", "b"], np.eye(2))
    for wrong in (None, 1, "yes"):
        with pytest.raises(InvalidOption, match="header must be True, False or 'auto'"):
            ls.open_rows(path, header=wrong)
    with pytest.raises(ls.errors.UnsupportedData, match="line 1, field 1"):
        ls.open_rows(path, header=False)


def test_each_of_several_files_is_asked_about(tmp_path: Path) -> None:
    put(tmp_path / "part1.csv", None, FRACTIONS[:, :3] * 1e4)
    put(tmp_path / "part2.csv", None, np.array([[1, 2, 3], [5, 1, 3], [2, 2, 5]]))
    with pytest.raises(InvalidProblem, match=r"part2\.csv, line 1.*header=False"):
        ls.open_rows(tmp_path / "part*.csv")
    assert ls.open_rows(tmp_path / "part*.csv", header=False).shape == (15, 3)


# ---- labels of rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True], ids=["line by line", "by arrow"])
@pytest.mark.parametrize("labels", [range(1, 13), [f"s_{i}" for i in range(12)]], ids=["1", "s"])
@pytest.mark.parametrize("head", [range(5), [400.0, 400.5, 401.0, 401.5, 402.0], *HEADERS.values()], ids=str)
@pytest.mark.parametrize("corner", ["", "Unnamed: 0"])
def test_a_first_column_without_a_name_holds_labels(
    corner: str, head: Any, labels: Any, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from linspec_files import delimited

    monkeypatch.setattr(delimited, "LARGE", 0 if large else delimited.LARGE)
    rows = labelled(map(str, labels), FRACTIONS)
    path = put(tmp_path / "a.csv", [corner, *head], rows)
    found = ls.open_rows(path)
    np.testing.assert_array_equal(found.dense(), FRACTIONS)
    assert found.column_names == tuple(map(str, head))
    assert list(found.row_names) == list(labels)
    some = ls.open_rows(path, columns=[str(head[2])])
    assert list(some.row_names) == list(labels)
    with_places = ls.open_rows(path, columns=[3, 1])  # places count the column of labels
    np.testing.assert_array_equal(with_places.dense(), FRACTIONS[:, [2, 0]])


def test_labels_as_r_writes_them(tmp_path: Path) -> None:
    """write.table puts no name over the labels, write.csv an empty one; both quote names and labels."""
    years = ("2019", "2021", "2024", "2030", "2031")
    names = [f'"{year}"' for year in years]
    rows = labelled([f'"{i + 1}"' for i in range(12)], FRACTIONS)
    for name, head, mark in (("a.txt", names, " "), ("a.csv", names, ","), ("b.csv", ['""', *names], ",")):
        found = ls.open_rows(put(tmp_path / name, head, rows, mark))
        np.testing.assert_array_equal(found.dense(), FRACTIONS)
        assert found.column_names == years
        assert list(found.row_names) == list(range(1, 13))


# ---- the command ------------------------------------------------------------------------------


def test_the_command_asks_and_is_told(tmp_path: Path) -> None:
    head, rows = UNSURE["even by chance"]
    path, out = put(tmp_path / "a.csv", head, rows), tmp_path / "out.npz"
    assert "--header or --no-header" in refusal(f"solve svd {path} -k 1")
    for option, values in (("--header", rows), ("--no-header", np.vstack([list(head), rows]))):
        run(f"solve svd {path} -k 1 {option} --out {out}")
        np.testing.assert_allclose(np.load(out)["S"][0], np.linalg.norm(values, 2), rtol=1e-10)
        assert len(run(f"transform {out} {path} {option}")[0].splitlines()) == 1 + len(values)
    for command in ("compare", "bootstrap"):
        run(f"{command} svd {path} -k 1 --header")


def test_the_command_leaves_labels_out_and_pairs_no_others(tmp_path: Path) -> None:
    rows = labelled([f"s{i}" for i in range(12)], FRACTIONS)
    x, y = put(tmp_path / "x.csv", ["", *"abcde"], rows), put(tmp_path / "y.csv", ["", *"abcde"], rows[::-1])
    for picked, columns in ("", [0, 1, 2, 3, 4]), (":~b", [0, 2, 3, 4]), (":b..d", [1, 2, 3]):
        np.testing.assert_array_equal(read(f"{x}{picked}").dense(), FRACTIONS[:, columns])
    with pytest.raises(InvalidProblem, match="same order"):
        ls.solve(ls.CCA(str(x), str(y), k=1))
    for more in ("", "--drop-missing"):
        assert "same order" in refusal(f"solve cca {x} {y} -k 1 {more}")
