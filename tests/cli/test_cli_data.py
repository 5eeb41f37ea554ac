"""Files as the command line reads them, against what other programs wrote and read."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from linspec.cli.data import described, read_named
from linspec.cli.failures import Failure

DENSE = np.array([[1.0, 2.5, -3.0], [0.0, 4.0, 1e-3]])


@pytest.fixture
def sparse():
    return scipy.sparse.random_array((7, 5), density=0.4, rng=np.random.default_rng(0), format="csr")


def read_matrix(text: str) -> Any:
    """Return the values that are read, without the names of columns."""
    return read_named(text).values


def refusal(text: object) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(Failure) as caught:
        read_matrix(str(text))
    message = caught.value.format_message()
    assert "\n" not in message
    return message


# ---- .npy and .npz ----------------------------------------------------------------------------


def test_npy_is_mapped_not_loaded(tmp_path: Path):
    np.save(tmp_path / "a.npy", DENSE)
    matrix = read_matrix(str(tmp_path / "a.npy"))
    assert isinstance(matrix, np.memmap)
    np.testing.assert_array_equal(matrix, DENSE)
    assert described(matrix) == "2 x 3, float64"


def test_npz_with_one_array_and_with_names(tmp_path: Path):
    np.savez(tmp_path / "one.npz", DENSE)
    np.savez(tmp_path / "two.npz", left=DENSE, right=2 * DENSE)
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "one.npz")), DENSE)
    np.testing.assert_array_equal(read_matrix(f"{tmp_path / 'two.npz'}:right"), 2 * DENSE)
    assert "left, right" in refusal(tmp_path / "two.npz")
    assert "two.npz:left" in refusal(tmp_path / "two.npz")
    assert "no array 'up'" in refusal(f"{tmp_path / 'two.npz'}:up")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_npz_of_every_format(tmp_path: Path, sparse, kind: str):
    scipy.sparse.save_npz(tmp_path / "s.npz", sparse.asformat(kind))
    matrix = read_matrix(str(tmp_path / "s.npz"))
    assert matrix.format == "csr"
    np.testing.assert_array_equal(matrix.toarray(), sparse.toarray())


def test_sparse_indices_outside_the_matrix_are_refused(tmp_path: Path, sparse):
    sparse.indices[0] = 10**6
    scipy.sparse.save_npz(tmp_path / "s.npz", sparse)
    assert "from 0 to 4 in 'indices'; got 1000000" in refusal(tmp_path / "s.npz")


@pytest.mark.parametrize("save", [np.save, np.savez], ids=["npy", "npz"])
def test_nothing_is_unpickled(tmp_path: Path, save):
    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "exploded",)

    path = tmp_path / f"p.{'npy' if save is np.save else 'npz'}"
    save(path, np.array([Bomb()], dtype=object))
    assert "pickle" in refusal(path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "s.npz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_files(tmp_path: Path, sparse, name: str, share: float):
    np.save(tmp_path / "a.npy", DENSE)
    np.savez(tmp_path / "a.npz", DENSE)
    scipy.sparse.save_npz(tmp_path / "s.npz", sparse)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(share * len(whole))])
    assert name in refusal(tmp_path / name)


def test_a_spoilt_archive(tmp_path: Path):
    """A flipped byte is found by the checksum of the archive."""
    np.savez(tmp_path / "a.npz", DENSE)
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    start = bytes(whole).index(DENSE.tobytes())
    whole[start] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(whole)
    assert "cannot be read" in refusal(tmp_path / "a.npz")


def test_an_archive_without_arrays(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    assert "0 arrays" in refusal(tmp_path / "empty.npz")


def test_arrays_that_are_no_matrices(tmp_path: Path):
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "complex.npy", DENSE.astype(complex))
    assert "3 dimensions" in refusal(tmp_path / "cube.npy")
    assert "<U1" in refusal(tmp_path / "words.npy")
    assert "complex128" in refusal(tmp_path / "complex.npy")


# ---- Matrix Market ----------------------------------------------------------------------------


def test_matrix_market(tmp_path: Path, sparse):
    scipy.io.mmwrite(tmp_path / "s.mtx", sparse)
    scipy.io.mmwrite(tmp_path / "d.mtx", DENSE)
    (tmp_path / "s.mtx.gz").write_bytes(gzip.compress((tmp_path / "s.mtx").read_bytes()))
    for name in ("s.mtx", "s.mtx.gz"):
        np.testing.assert_allclose(read_matrix(str(tmp_path / name)).toarray(), sparse.toarray(), rtol=1e-12)
    np.testing.assert_allclose(read_matrix(str(tmp_path / "d.mtx")), DENSE, rtol=1e-12)


def test_a_symmetric_matrix_market_file_is_filled(tmp_path: Path):
    text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 3.0\n2 1 5.0\n"
    (tmp_path / "s.mtx").write_text(text)
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "s.mtx")).toarray(), [[3, 5], [5, 0]])


def test_matrix_market_that_is_cut_off(tmp_path: Path):
    (tmp_path / "s.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 3.0\n")
    assert "s.mtx" in refusal(tmp_path / "s.mtx")


# ---- svmlight ---------------------------------------------------------------------------------

SVM = """# a comment
+1 qid:3 1:0.5 4:-2e-1 # the tail is a comment: 7:9

-1 2:3
2
0 4:1 1:7
"""


def test_svmlight_by_hand(tmp_path: Path):
    path = tmp_path / "a.svm"
    path.write_text(SVM)
    expected = [[0.5, 0, 0, -0.2], [0, 3, 0, 0], [0, 0, 0, 0], [7, 0, 0, 1]]
    np.testing.assert_array_equal(read_matrix(str(path)).toarray(), expected)
    np.testing.assert_array_equal(read_matrix(f"{path}:labels"), [[1], [-1], [2], [0]])
    classes = read_matrix(f"{path}:classes").toarray()
    np.testing.assert_array_equal(classes, [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]])


def test_svmlight_counts_from_zero_where_a_zero_occurs(tmp_path: Path):
    (tmp_path / "a.svm").write_text("1 0:5 2:6\n")
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "a.svm")).toarray(), [[5, 0, 6]])


def test_svmlight_rows_with_several_labels(tmp_path: Path):
    path = tmp_path / "m.libsvm"
    path.write_text("1,12 1:1\n 1:2\n12 2:1\n")
    np.testing.assert_array_equal(read_matrix(str(path)).toarray(), [[1, 0], [2, 0], [0, 1]])
    np.testing.assert_array_equal(read_matrix(f"{path}:classes").toarray(), [[1, 1], [0, 0], [0, 1]])
    assert "m.libsvm:classes" in refusal(f"{path}:labels")


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_as_scikit_learn_writes_and_reads_it(tmp_path: Path, zero_based: bool):
    datasets = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((40, 30)) * (rng.random((40, 30)) < 0.2)
    dense[0, 0] = 1.0  # so that the first index occurs
    X = scipy.sparse.csr_matrix(dense)
    y = rng.integers(0, 3, 40)
    path = str(tmp_path / "peer.svmlight")
    datasets.dump_svmlight_file(X, y, path, zero_based=zero_based, comment="peer", query_id=np.arange(40))
    expected, labels = datasets.load_svmlight_file(path)
    np.testing.assert_array_equal(read_matrix(path).toarray(), expected.toarray())
    np.testing.assert_array_equal(read_matrix(f"{path}:labels")[:, 0], labels)
    with gzip.open(path + ".gz", "wb") as stream:
        stream.write(Path(path).read_bytes())
    np.testing.assert_array_equal(read_matrix(path + ".gz").toarray(), expected.toarray())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1:2\n1 3:x\n", "line 2: 'index:value' is needed; got '3:x'"),
        ("1 1:2 7\n", "got '7'"),
        ("1 -2:1\n", "got '-2:1'"),
        ("1 1:2:3\n", "got '1:2:3'"),
        ("1 99999999999999999999:1\n", "line 1"),
        ("1 4:1 4:2\n", "index 4 occurs twice"),
        ("", "it is empty"),
        ("1\n2\n", "no features"),
    ],
)
def test_svmlight_lines_at_fault(tmp_path: Path, text: str, said: str):
    (tmp_path / "a.svm").write_text(text)
    assert said in refusal(tmp_path / "a.svm")


def test_svmlight_unknown_member(tmp_path: Path):
    (tmp_path / "a.svm").write_text("1 1:1\n")
    assert "'labels' and 'classes'" in refusal(f"{tmp_path / 'a.svm'}:names")


# ---- delimited text ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "1,2.5,-3\n0,4,1e-3\n"),
        ("a.csv", "one,two,three\n1,2.5,-3\n0,4,1e-3\n"),
        ("a.csv", '"a, b","c",d\n"1","2.5",-3\n0,4,1e-3\n'),
        ("a.csv", "1;2.5;-3\n0;4;1e-3\n"),
        ("a.tsv", "x y\tz, w\tv\n1\t2.5\t-3\n0\t4\t1e-3\n"),
        ("a.txt", "# made by hand\n\n 1   2.5 -3 \n0 4 1e-3 # the last\n"),
        ("a.txt", "\ufeff1 2.5 -3\n0 4 1e-3"),
        ("a.csv", "one,two,three\r\n1,2.5,-3\r\n0,4,1e-3\r\n"),
    ],
)
def test_delimited_text(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_bytes(text.encode())
    np.testing.assert_array_equal(read_matrix(str(tmp_path / name)), DENSE)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    np.testing.assert_array_equal(read_matrix(str(tmp_path / f"{name}.gz")), DENSE)


def test_delimited_text_of_numpy(tmp_path: Path):
    rng = np.random.default_rng(2)
    values = rng.standard_normal((50, 4))
    np.savetxt(tmp_path / "a.txt", values, fmt="%.17g", header="a b c d")
    np.testing.assert_array_equal(read_matrix(str(tmp_path / "a.txt")), values)


def test_one_column_is_a_matrix(tmp_path: Path):
    (tmp_path / "b.csv").write_text("y\n1\n2\n3\n")
    assert read_matrix(str(tmp_path / "b.csv")).shape == (3, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3,red\n", "line 3, field 2: a number is needed; got 'red'"),
        ("1,2\n3,\n", "line 2, field 2: a number is needed; got an empty field"),
        ("1,2\n3,4\n5\n", "line 3: 2 fields are needed, as on the lines before; got 1"),
        ("the quick brown fox\njumps over it\n", "line 2: 4 fields are needed"),
        ("", "it is empty"),
        ("# only this\n", "it is empty"),
        ("a,b\n", "no line of numbers"),
    ],
)
def test_text_that_is_not_numbers(tmp_path: Path, text: str, said: str):
    (tmp_path / "a.csv").write_text(text)
    assert said in refusal(tmp_path / "a.csv")


def test_text_that_is_not_text(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(bytes(range(256)))
    (tmp_path / "b.csv.gz").write_bytes(b"not gzip at all")
    assert "not a text file" in refusal(tmp_path / "a.csv")
    assert "not a text file" in refusal(tmp_path / "b.csv.gz")


# ---- paths ------------------------------------------------------------------------------------


def test_paths_that_lead_nowhere(tmp_path: Path):
    assert "no such file" in refusal(tmp_path / "missing.npy")
    assert "no such file" in refusal(f"{tmp_path / 'missing.npz'}:name")
    assert "is a folder" in refusal(tmp_path)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    assert ".xlsx" in refusal(tmp_path / "a.xlsx")
    for suffix in (".npy", ".npz", ".mtx", ".svm", ".parquet", ".zarr", ".h5ad", ".csv", ".tsv", ".txt"):
        assert suffix in refusal(tmp_path / "a.xlsx")
    np.save(tmp_path / "a.npy", DENSE)
    assert "'name'" in refusal(f"{tmp_path / 'a.npy'}:name")
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress((tmp_path / "a.npy").read_bytes()))
    assert ".npy.gz" in refusal(tmp_path / "a.npy.gz")


def test_a_colon_in_a_file_name(tmp_path: Path):
    np.save(io_path := tmp_path / "day:1.npy", DENSE)
    np.testing.assert_array_equal(read_matrix(str(io_path)), DENSE)


def test_a_file_that_may_not_be_read(tmp_path: Path):
    buffer = io.BytesIO()
    np.save(buffer, DENSE)
    path = tmp_path / "a.npy"
    path.write_bytes(buffer.getvalue())
    path.chmod(0)
    try:
        path.read_bytes()
    except PermissionError:
        assert "Permission denied" in refusal(path)
    else:
        pytest.skip("this user may read everything")
