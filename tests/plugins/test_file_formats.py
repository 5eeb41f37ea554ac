"""Every format of files, from Python and from the command: the matrix that another program reads of it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

pytest.importorskip("click")
pytest.importorskip("linspec_files")

from click.testing import CliRunner

import linspec as ls
from linspec import registry
from linspec.cli import main
from linspec.cli.data import names_in, read
from linspec.errors import (
    InvalidOption,
    InvalidProblem,
    MissingPackage,
    NonFiniteData,
    UnsupportedData,
)
from linspec.operators import RowFiles, names_of_columns, texts_of_column

RNG = np.random.default_rng(0)
A = RNG.standard_normal((60, 5)) * [5, 4, 3, 2, 1]
SPARSE = scipy.sparse.random_array((60, 9), density=0.4, rng=np.random.default_rng(1), format="csr")
NAMES = tuple(f"c{j}" for j in range(5))


def packed(path: Path) -> Path:
    """Compress a file by gzip."""
    into = path.with_name(path.name + ".gz")
    into.write_bytes(gzip.compress(path.read_bytes()))
    return into


def of_text(path: Path) -> Path:
    separator = "\t" if path.suffix == ".tsv" else ","
    np.savetxt(path, A, fmt="%.17g", delimiter=separator, header=separator.join(NAMES), comments="")
    return path


def of_parquet(path: Path) -> Path:
    pa, pq = pytest.importorskip("pyarrow", reason="no pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(dict(zip(NAMES, A.T, strict=True))), path, row_group_size=25)
    return path


def of_hdf5(path: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="no h5py")
    with h5py.File(path, "w") as file:
        if path.suffix == ".h5ad":
            file.attrs["encoding-type"] = "anndata"
            file["X"] = A
            file["obs/_index"] = [f"cell{i}" for i in range(60)]
            file["var/_index"] = list(NAMES)
        else:
            file["rows"] = A
    return path


def of_zarr(path: Path) -> Path:
    zarr = pytest.importorskip("zarr", reason="no zarr")
    zarr.create_array(str(path), shape=A.shape, chunks=(25, 5), dtype="f8")[:] = A
    return path


def of_svmlight(path: Path) -> Path:
    datasets = pytest.importorskip("sklearn.datasets", reason="no sklearn")
    datasets.dump_svmlight_file(SPARSE, np.arange(60) % 3, str(path), zero_based=True)
    return path


def of_market(path: Path) -> Path:
    scipy.io.mmwrite(path, SPARSE)
    return path


def of_numpy(path: Path) -> Path:
    (np.save if path.suffix == ".npy" else np.savez)(path, A)
    return path


def by_pandas(path: Path) -> Any:
    pd = pytest.importorskip("pandas")
    return pd.read_csv(path, sep="\t" if ".tsv" in path.name else ",").to_numpy()


FORMATS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any], tuple[str, ...] | None]] = {
    ".csv": (of_text, by_pandas, NAMES),
    ".tsv": (of_text, by_pandas, NAMES),
    ".txt": (of_text, lambda path: np.loadtxt(path, delimiter=",", skiprows=1), NAMES),
    ".mtx": (of_market, lambda path: scipy.io.mmread(path).toarray(), None),
    ".svm": (of_svmlight, lambda path: load_svmlight(path)[0].toarray(), None),
    ".svmlight": (of_svmlight, lambda path: load_svmlight(path)[0].toarray(), None),
    ".libsvm": (of_svmlight, lambda path: load_svmlight(path)[0].toarray(), None),
    ".npy": (of_numpy, np.load, None),
    ".npz": (of_numpy, lambda path: np.load(path)["arr_0"], None),
    ".parquet": (of_parquet, lambda path: pytest.importorskip("pandas").read_parquet(path).to_numpy(), NAMES),
    ".zarr": (of_zarr, lambda path: pytest.importorskip("zarr").open(str(path))[:], None),
    ".h5": (of_hdf5, lambda path: pytest.importorskip("h5py").File(path)["rows"][:], None),
    ".hdf5": (of_hdf5, lambda path: pytest.importorskip("h5py").File(path)["rows"][:], None),
    ".h5ad": (of_hdf5, lambda path: pytest.importorskip("h5py").File(path)["X"][:], NAMES),
}
"""By suffix: what writes a file, what else reads it, and the names of its columns."""

PACKED = (".csv", ".tsv", ".txt", ".mtx", ".svm", ".svmlight", ".libsvm")


def load_svmlight(path: Path) -> Any:
    return pytest.importorskip("sklearn.datasets").load_svmlight_file(str(path))


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


def entries(values: Any) -> np.ndarray:
    if hasattr(values, "dense"):
        return np.asarray(values.dense())
    return values.toarray() if scipy.sparse.issparse(values) else np.asarray(values)


@pytest.mark.parametrize("suffix", [*FORMATS, *(f"{suffix}.gz" for suffix in PACKED)])
def test_both_doors_read_what_another_program_reads(tmp_path: Path, suffix: str) -> None:
    write, peer, names = FORMATS[suffix.removesuffix(".gz")]
    path = write(tmp_path / f"a{suffix.removesuffix('.gz')}")
    wanted = peer(path)
    path = packed(path) if suffix.endswith(".gz") else path
    by_path, opened, command = ls.as_operator(path), ls.open_rows(path), read(str(path))
    for found in (by_path, opened, command):
        np.testing.assert_allclose(entries(found), wanted, rtol=1e-15)
    assert by_path.column_names == opened.column_names == command.column_names == names
    assert ls.SVD(str(path), k=1).column_names == ({} if names is None else {"A": names})
    assert scipy.sparse.issparse(command.stored_array) == (write in (of_market, of_svmlight))


@pytest.mark.parametrize("suffix", [*FORMATS, ".csv.gz", ".svm.gz"])
def test_files_of_a_pattern_are_one_matrix(tmp_path: Path, suffix: str) -> None:
    """In the order of the numbers in their names."""
    write, peer, names = FORMATS[suffix.removesuffix(".gz")]
    for name in ("day1", "day2", "day10"):
        path = write(tmp_path / f"{name}{suffix.removesuffix('.gz')}")
        wanted = peer(path)
        if suffix.endswith(".gz"):
            packed(path)
    for found in (ls.open_rows(tmp_path / f"day*{suffix}"), read(f"{tmp_path}/day*{suffix}")):
        np.testing.assert_allclose(entries(found), np.vstack([wanted] * 3), rtol=1e-15)
        assert found.column_names == names


@pytest.mark.parametrize("suffix", FORMATS)
def test_columns_by_place(tmp_path: Path, suffix: str) -> None:
    write, peer, names = FORMATS[suffix]
    path = write(tmp_path / f"a{suffix}")
    found = ls.open_rows(path, columns=[3, 0])
    np.testing.assert_allclose(entries(found), peer(path)[:, [3, 0]], rtol=1e-15)
    assert found.column_names == (None if names is None else ("c3", "c0"))
    with pytest.raises(InvalidProblem, match="no column is called 99"):
        ls.open_rows(path, columns=[99])
    with pytest.raises(InvalidProblem, match="named several times"):
        ls.open_rows(path, columns=[1, 1])
    with pytest.raises(InvalidProblem, match="no column is called 'c9'"):
        ls.open_rows(path, columns=["c9"])
    if names is not None:
        assert ls.open_rows(path, columns=["c4", 1]).column_names == ("c4", "c1")


def test_a_vector_is_a_column_in_python_and_a_vector_on_the_command_line(tmp_path: Path) -> None:
    """Coefficients for a vector b are then a vector, too."""
    for name, save in (("b.npy", np.save), ("b.npz", np.savez)):
        save(tmp_path / name, A[:, 0])
        np.testing.assert_array_equal(ls.open_rows(tmp_path / name).dense(), A[:, :1])
    np.testing.assert_array_equal(read(str(tmp_path / "b.npy")), A[:, 0])


# ---- what is missing, and what is no number ---------------------------------------------------


def gaps(folder: Path, suffix: str) -> Path:
    """A table of numbers and classes, each with a gap."""
    path = folder / f"gaps{suffix}"
    rows = [("1", "2", "oak"), ("3", "", "elm"), ("5", "6", ""), ("7", "8", "oak")]
    if suffix == ".csv":
        path.write_text("\n".join(["a,b,kind", *map(",".join, rows)]) + "\n")
        return path
    pa, pq = pytest.importorskip("pyarrow", reason="no pyarrow"), pytest.importorskip("pyarrow.parquet")
    a, b, kind = ([one or None for one in column] for column in zip(*rows, strict=True))
    numbers = {name: [None if one is None else int(one) for one in c] for name, c in {"a": a, "b": b}.items()}
    pq.write_table(pa.table({**numbers, "kind": kind}), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_missing_values_are_named_or_nan(tmp_path: Path, suffix: str) -> None:
    path = gaps(tmp_path, suffix)
    with pytest.raises(NonFiniteData, match="column 'b'"):
        ls.open_rows(path, columns=["a", "b"]).dense()
    found = ls.open_rows(path, columns=["a", "b"], missing="nan")
    np.testing.assert_array_equal(found.dense(), [[1, 2], [3, np.nan], [5, 6], [7, 8]])
    assert ls.open_rows(path, columns=["a"]).dense().ravel().tolist() == [1, 3, 5, 7]
    with pytest.raises(UnsupportedData, match=r"column 'kind'.*columns=, on the command line FILE:~NAME"):
        ls.open_rows(path, columns=["a", "kind"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_and_texts_of_tables(tmp_path: Path, suffix: str) -> None:
    files = RowFiles((str(gaps(tmp_path, suffix)),))
    assert tuple(names_of_columns(files) or ()) == ("a", "b", "kind")
    kind = RowFiles(files.paths, columns=("kind",), missing="nan")
    assert texts_of_column(kind) == ["oak", "elm", None, "oak"]
    with pytest.raises(NonFiniteData, match="'kind'"):
        texts_of_column(RowFiles(files.paths, columns=("kind",)))
    assert texts_of_column(RowFiles(files.paths, columns=("a",))) is None
    assert texts_of_column(RowFiles(files.paths, columns=("a", "kind"))) is None


def test_a_table_without_names_has_numbers_from_1_on(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    np.savetxt(path, A, fmt="%.17g", delimiter=",")
    assert list(names_of_columns(RowFiles((str(path),))) or ()) == [1, 2, 3, 4, 5]
    assert names_in(str(path)) == []
    np.testing.assert_array_equal(read(f"{path}:2..3").dense(), A[:, 1:3])
    assert ls.open_rows(path).column_names is None


def test_names_that_occur_twice(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("a,b,a\n1,2,3\n4,5,6\n")
    assert ls.open_rows(path).column_names is None
    assert ls.open_rows(path, columns=["b"]).column_names == ("b",)
    np.testing.assert_array_equal(ls.open_rows(path, columns=[2]).dense(), [[3], [6]])
    with pytest.raises(InvalidProblem, match="'a', or several are"):
        ls.open_rows(path, columns=["a"])
    np.testing.assert_array_equal(read(f"{path}:~b").dense(), [[1, 3], [4, 6]])


def test_the_command_reads_parts_columns_patterns_and_folders(tmp_path: Path) -> None:
    """A folder of Parquet files is one matrix; what begins with an underscore is none of them."""
    of_hdf5(tmp_path / "a.h5ad")
    (tmp_path / "days").mkdir()
    for i in range(2):
        of_parquet(tmp_path / f"days/{i}.parquet")
    (tmp_path / "days/_SUCCESS").touch()
    twice = np.vstack([A, A])
    for name, M in ("a.h5ad:X", A), ("days/*.parquet:c1,c3", twice[:, [1, 3]]), ("days", twice):
        result = run("solve", "svd", tmp_path / name, "-k", 2, "--center", "--out", tmp_path / "r.npz")
        assert f"FileRows({len(M)} x {M.shape[1]}, float64)" in result.output
        exact = np.linalg.svd(M - M.mean(axis=0), compute_uv=False)[:2]
        np.testing.assert_allclose(ls.load_solution(tmp_path / "r.npz").S, exact, rtol=1e-8)
    for name, said in {
        "a.h5ad:nothing": "no part 'nothing'",
        "days/*.parquet:c9": "no column is called 'c9'",
        "none*.parquet": "no file fits the pattern",
        "": "cannot be read as the rows of one matrix",
    }.items():
        result = run("solve", "svd", f"{tmp_path}/{name}", "-k", 1)
        assert result.exit_code == 2
        assert said in result.stderr


def test_a_package_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = of_parquet(tmp_path / "a.parquet")
    monkeypatch.delitem(__import__("sys").modules, "linspec_files.parquet_files", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    for ask in (ls.open_rows, lambda path: names_of_columns(RowFiles((str(path),)))):
        with pytest.raises(MissingPackage, match=r"linspec\[parquet\]"):
            ask(path)


def test_plain_text_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from linspec_files import delimited

    path = of_text(tmp_path / "a.csv")
    monkeypatch.setattr(delimited, "LARGE", 0)
    for package in ("pyarrow", "pandas", "narwhals"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
    np.testing.assert_array_equal(ls.open_rows(path).dense(), A)


# ---- svmlight in several files, and test files of another width -------------------------------

COUNTS = (RNG.random((40, 6)) < 0.5) * RNG.integers(1, 5, (40, 6)).astype(float)


def put_svmlight(path: Path, rows: Any, base: int, labels: Any = None) -> str:
    labels = np.zeros(len(rows), dtype=int) if labels is None else labels
    lines = [
        " ".join([str(label), *(f"{j + base}:{value}" for j, value in enumerate(row) if value)])
        for label, row in zip(labels, rows, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("lacking", [0, 5, None])
def test_parts_share_base_and_width(base: int, lacking: int | None, tmp_path: Path) -> None:
    """One part lacks the first or the last feature."""
    rows = COUNTS.copy()
    if lacking is not None:
        rows[20:, lacking] = 0
    parts = [put_svmlight(tmp_path / f"part{i}.svm", rows[20 * i : 20 * i + 20], base) for i in range(2)]
    for given in (parts, str(tmp_path / "part*.svm")):
        np.testing.assert_array_equal(ls.open_rows(given).dense(), rows)
    np.testing.assert_array_equal(ls.open_rows(parts[::-1]).dense(), np.roll(rows, 20, axis=0))
    peer = pytest.importorskip("sklearn.datasets").load_svmlight_files(parts, zero_based=not base)
    np.testing.assert_array_equal(
        ls.open_rows(parts).dense(), np.vstack([peer[0].toarray(), peer[2].toarray()])
    )


def test_labels_and_classes_of_parts(tmp_path: Path) -> None:
    labels = [[0, 1, 0], [2, 0, 2]]
    parts = [put_svmlight(tmp_path / f"part{i}.svm", COUNTS[:3], 1, labels[i]) for i in range(2)]
    np.testing.assert_array_equal(ls.open_rows(parts, part="classes").dense(), np.eye(3)[[0, 1, 0, 2, 0, 2]])
    np.testing.assert_array_equal(ls.open_rows(parts, part="labels").dense().ravel(), [0, 1, 0, 2, 0, 2])


@pytest.mark.parametrize("base", [0, 1])
def test_test_rows_of_another_width(base: int, tmp_path: Path) -> None:
    train = put_svmlight(tmp_path / "train.svm", COUNTS, base, RNG.integers(0, 9, 40))
    found = ls.solve(ls.LeastSquares(train, ls.open_rows(train, part="labels"), center=True))
    narrow, wide = COUNTS[:9].copy(), np.column_stack([COUNTS[:9], np.ones(9)])
    narrow[:, [0, 5]] = 0
    for rows in (narrow, wide, np.zeros((3, 6))):
        path = put_svmlight(tmp_path / "test.svm", rows, base)
        with pytest.raises(InvalidProblem, match=r"6 columns|no features"):
            found.predict(path)
        test = ls.open_rows(path, columns=range(6), base=base)
        np.testing.assert_allclose(found.predict(test), rows[:, :6] @ found.x + found.intercept, atol=1e-10)


def test_the_base_is_what_the_user_says(tmp_path: Path) -> None:
    path, zero = (
        put_svmlight(tmp_path / "a.svm", COUNTS[:, 1:], 1),
        put_svmlight(tmp_path / "b.svm", COUNTS, 0),
    )  # no index is 0
    np.testing.assert_array_equal(ls.open_rows(path, base=0).dense(), COUNTS * (np.arange(6) > 0))
    np.testing.assert_array_equal(ls.open_rows(path, base=1).dense(), COUNTS[:, 1:])
    for wrong in (2, True, "0"):
        with pytest.raises(InvalidOption, match="base must be 0, 1 or None"):
            ls.open_rows(path, base=wrong)
    with pytest.raises(InvalidProblem, match="base=1; got the index 0"):
        ls.open_rows(zero, base=1)


def test_a_fault_names_its_file_and_its_row(tmp_path: Path) -> None:
    good, bad = put_svmlight(tmp_path / "a.svm", COUNTS, 1), tmp_path / "b.svm"
    bad.write_text("1 2:1\n0 3:1 3:2\n")
    with pytest.raises(InvalidProblem, match=r"b\.svm, row 1: the index 3 occurs twice"):
        ls.open_rows([good, bad])
    bad.write_text("1 2:1\none 3:1\n")
    with pytest.raises(InvalidProblem, match=r"b\.svm, row 1: one number"):
        ls.open_rows([good, bad], part="labels")
    with pytest.raises(InvalidProblem, match="'labels' and 'classes'; got 'names'"):
        ls.open_rows(good, part="names")


# ---- a format of one's own --------------------------------------------------------------------


@pytest.fixture
def own_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of words: numbers and a class, below names in capitals."""

    def lines(files: RowFiles) -> list[list[str]]:
        return [line.split() for line in Path(files.paths[0]).read_text().splitlines()]

    def read(files: RowFiles) -> Any:
        names, *rows = lines(files)
        places = files.places(names, len(names)) or range(len(names))
        operator = ls.as_operator(np.array([[float(row[j]) for j in places] for row in rows]))
        operator.column_names = tuple(names[j] for j in places)
        return operator

    def texts(files: RowFiles) -> Any:
        names, *rows = lines(files)
        places = files.places(names, len(names)) or []
        return [row[places[0]] for row in rows] if len(places) == 1 and rows[0][places[0]].isalpha() else None

    spec = ls.OperatorSpec(
        name="words",
        matches=lambda data: isinstance(data, RowFiles) and data.suffix == ".words",
        adapt=read,
        summary="Lines of words.",
        suffixes=(".words",),
        column_names=lambda files: lines(files)[0],
        texts=texts,
    )
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    ls.register(spec)


@pytest.mark.usefixtures("own_format")
def test_a_format_of_a_plugin_serves_the_command(tmp_path: Path) -> None:
    kinds = ["oak" if value > 0 else "elm" for value in A[:, 0]]
    rows = [" ".join([*map(repr, row), kind]) for row, kind in zip(A.tolist(), kinds, strict=True)]
    path = tmp_path / "a.words"
    path.write_text("\n".join(["a b c d e kind", *rows]) + "\n")
    given = ["solve", "discriminant", str(path), "--columns", "a..e", "--target-column", "kind"]
    result = run(*given, "--out", tmp_path / "r.npz")
    assert result.exit_code == 0, result.output
    exact = ls.solve(ls.Discriminant(A, ls.targets.lda(kinds)))
    saved = ls.load_solution(tmp_path / "r.npz")
    np.testing.assert_allclose(saved.eigenvalues, exact.eigenvalues, rtol=1e-9)
    assert saved.column_names["X"] == tuple("abcde")
    result = run("solve", "svd", tmp_path / "a.xlsx", "-k", 1)
    assert result.exit_code == 2
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    assert ".words" in run("solve", "svd", tmp_path / "a.xlsx", "-k", 1).stderr
