"""Files that are no files, are broken, never end or declare what they do not hold."""

from __future__ import annotations

import gzip
import io
import os
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("click")

from cli.running import refusal, run
from hostile.outcomes import apart, put
from written_files import saved

HOSTILE = int(os.environ.get("LINSPEC_HOSTILE", "1"))
DENSE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
MIB = 2**20
POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links of POSIX")


def file_refused(path: Path, said: str = "", member: str = "") -> str:
    """Require that the command refuses a file, and names it; return the message."""
    message = refusal(("solve", "svd", f"{path}{member}", "-k", 1))
    assert said in message
    assert "out of memory" not in message  # which is said beforehand
    assert path.name in message or not path.name.isprintable()
    return message


def read(path: Path, member: str = "") -> Any:
    """The numbers of a file, as the command reads them."""
    from linspec.cli.data import read as rows_of

    matrix = rows_of(f"{path}{member}")
    return matrix.dense() if hasattr(matrix, "dense") else np.asarray(matrix)


# ---- sparse matrices in .npz ------------------------------------------------------------------

ENTRIES = np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 0, 5], [0, 6, 7, 0]])
INDICES = [(kind, name) for kind in ("csr", "csc", "bsr") for name in ("indices", "indptr")]


def parts_of(kind: str) -> dict[str, Any]:
    """The parts of a good matrix, as SciPy saves them."""
    matrix = scipy.sparse.csr_array(ENTRIES)
    matrix = matrix.tobsr((2, 2)) if kind == "bsr" else matrix.asformat(kind)
    with np.load(io.BytesIO(saved(scipy.sparse.save_npz, matrix))) as archive:
        return dict(archive)


@pytest.mark.parametrize(("kind", "name"), [*INDICES, ("coo", "row"), ("coo", "col")])
def test_indices_out_of_range(tmp_path: Path, kind: str, name: str) -> None:
    word = {"indices": name}.get(name, "ind")  # SciPy says "index pointer" and "axis 0 index" as well
    for index in (-1, 10**6, 2**62, -(2**62), 2**63 + 1):  # the last is negative, were it taken for an int64
        for place in (0, -1):
            parts = parts_of(kind)
            parts[name] = parts[name].astype(np.uint64 if index >= 2**63 else np.int64)
            parts[name][place] = index
            np.savez(tmp_path / "a.npz", **parts)
            file_refused(tmp_path / "a.npz", word)


@pytest.mark.parametrize(
    ("name", "change", "word"),
    [
        ("indices", lambda indices: indices + 0.25, "whole numbers"),
        ("indptr", lambda ends: ends[:-1], "index pointer"),
        ("format", lambda _: b"lil", "format"),
    ],
)
def test_parts_that_make_no_sparse_matrix(tmp_path: Path, name: str, change: Any, word: str) -> None:
    parts = parts_of("csr")
    np.savez(tmp_path / "a.npz", **{**parts, name: change(parts[name])})
    file_refused(tmp_path / "a.npz", word)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia"])
@pytest.mark.parametrize("dtype", ["f4", ">f8", "f2", "g", "i2", "u8", "?", ">i4"])
def test_good_sparse_matrices_of_every_dtype(tmp_path: Path, kind: str, dtype: str) -> None:
    parts = parts_of(kind)
    parts["data"], parts["shape"] = parts["data"].astype(dtype), parts["shape"].astype(">i4")
    np.savez(tmp_path / "a.npz", **parts)
    np.testing.assert_array_equal(read(tmp_path / "a.npz"), ENTRIES > 0 if dtype == "?" else ENTRIES)


# ---- archives ---------------------------------------------------------------------------------


def test_damaged_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, np.random.default_rng(0).standard_normal((40, 4)))
    whole = path.read_bytes()
    local, central = whole.index(b"PK\x03\x04"), whole.index(b"PK\x01\x02")
    for offset, first, value in (
        (8, 6, 1), (10, 8, 1), (10, 8, 12), (10, 8, 99), (6, 4, 99),  # encrypted, methods, a version to come
    ):  # fmt: skip
        content = bytearray(whole)
        struct.pack_into("<H", content, central + offset, value)
        struct.pack_into("<H", content, local + first, value)
        path.write_bytes(content)
        file_refused(path, "encrypted" if offset == 8 else "")


def header(text: str) -> bytes:
    """The beginning of a .npy file with this header."""
    content = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(content)) + content


def described(descr: str = "'<f8'", order: str = "False", shape: str = "(2, 2)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


HEADERS = [
    *(described(shape=shape) for shape in ("(1000000000, 1000000000)", "(4611686018427387904, 4)", "(-1, -2)")),
    *(described(shape=shape) for shape in ("(" + "9" * 4000 + ", 2)", "(True, 2)", "(2.5, 2)")),
    described(order="3"),
    *(described(descr) for descr in ("'|O'", "'|V0'", "'<U1000000000'", "'\x1b[31m'", "[('a', '<f8')]")),
    described("('<f8', (1000000, 1000000))"),
    *("(" * 3000, "-" * 9000, "\0" * 100, "", "{'descr': __import__('os').system('false')}"),
]  # fmt: skip


@pytest.mark.parametrize("text", HEADERS, ids=range(len(HEADERS)))
def test_headers_of_arrays(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.npy").write_bytes(header(text) + DENSE.tobytes())
    file_refused(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header(text) + DENSE.tobytes())
    file_refused(tmp_path / "a.npz")


# ---- more than the memory ---------------------------------------------------------------------


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("what", ["line", "lines", "zeros"])
@pytest.mark.slow(keep=1)
def test_what_takes_more_than_the_memory_is_refused_early(tmp_path: Path, what: str) -> None:
    """Files of 96 MiB, also packed in less than 1 MiB, under a limit that no reading of the whole would survive."""
    for suffix in (".csv", ".txt", ".svm", ".mtx"):
        begin = b"%%MatrixMarket matrix array real general\n9999999 2\n" if suffix == ".mtx" else b""
        entry = {".svm": b"1 1:1 2:1\n", ".mtx": b"1\n1\n"}.get(suffix, b"1 1\n")
        body = {"line": b"1 1 ", "lines": entry, "zeros": bytes(4)}[what]
        content = begin + body * (96 * MIB // len(body))
        (tmp_path / f"a{suffix}.gz").write_bytes(gzip.compress(content, 1))
    (tmp_path / "a.csv").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", header(described(shape="(196608, 64)")) + bytes(96 * MIB))
    program = """
import resource, sys
from pathlib import Path
from hostile.outcomes import refused
from linspec.process import machine
machine.available_memory = lambda: 64 * 2**20
from linspec.cli.data import read
import numpy, scipy.sparse
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
for path in Path().glob("a.*"):
    with refused("zero" if sys.argv[1] == "zeros" and path.suffix != ".npz" else "MiB"):
        read(str(path))
"""
    apart(program, what, cwd=tmp_path)


@pytest.mark.parametrize("rows", ["10000000000000", "9223372036854775807", "9223372036854775808", "9" * 400])
def test_sizes_of_matrix_market_files(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "a.mtx"
    for banner, sizes, entry in (
        ("array real", f"{rows} 2", "1"),
        ("array integer", f"{rows} {rows}", "1"),
        ("coordinate real", f"{rows} 2 2", "1 1 1"),
        ("coordinate real", f"3 2 {rows}", "1 1 1"),
    ):
        path.write_text(f"%%MatrixMarket matrix {banner} general\n{sizes}\n{entry}\n{entry}\n")
        file_refused(path)


# ---- texts ------------------------------------------------------------------------------------

BANNER = "%%MatrixMarket matrix coordinate real general\n"


def test_good_matrix_market_files(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    full = [[1, 5], [5, 3]]
    for text, expected in (
        ("coordinate real symmetric\n% note\n\n2 2 3\n1 1 1.\n2 1 5e+0\n\n2 2 .3E1\n", full),
        ("coordinate integer general\r\n2 2 4\r\n1 1 1\r\n  1\t2 5\r\n2 1 5 \r\n2 2 3", full),
        ("array real symmetric\n2 2\n1\n5\n3\n", full),
        ("array integer skew-symmetric\n2 2\n5\n", [[0, -5], [5, 0]]),
        ("coordinate pattern general\n2 2 3\n1 1\n2 1\n2 2\n", [[1, 0], [1, 1]]),
        ("coordinate real general\n2 2 3\n1 1 1\n1 1 2\n2 2 1\n", [[3, 0], [0, 1]]),
    ):
        path.write_bytes(b"%%MatrixMarket matrix " + text.encode())
        np.testing.assert_array_equal(read(path), expected)


@pytest.mark.parametrize("end", [b"\t", b" \r"])
def test_blanks_after_the_last_entry_of_a_matrix_market_file(tmp_path: Path, end: bytes) -> None:
    """They were a crash where no line end follows."""
    for kind, body in (("coordinate", b"1 1 1\n1 1 2"), ("array", b"1 1\n2")):
        path = tmp_path / f"{kind}.mtx"
        path.write_bytes(b"%%MatrixMarket matrix " + kind.encode() + b" real general\n" + body + end)
        said = apart(f"from linspec.cli.data import read\nprint(float(read({str(path)!r}).dense().sum()))")
        assert said.strip() == "2.0"


def test_good_delimited_text(tmp_path: Path) -> None:
    long = "x" * 200_000  # longer than a field of the module csv may be
    for suffix, text in (
        ("csv", "1,2\r3,4\r5,7\r"),
        ("csv", "1,2\r\n3,4\n5,7\r"),
        ("csv", "\ufeff1,2\n3,4\n5,7"),
        ("csv", "\ufeffx,y\r\n1,2\r\n3,4\r\n5,7\r\n"),
        ("csv", f'"{long}",y\n1,2\n3,4\n5,7\n'),
        ("csv", f"# {long}\n1,2\n3,4 # {long}\n5,7\n"),
        ("csv", '"x, ""y"" # no comment",z\n"1","2"\n3,"4"\n 5 , 7 \n'),
        ("csv", f"1{' ' * 200_000},2\n3,4\n5,7\n"),
        ("csv", '"1",2\n3,4\n5,7 # a quote " in a comment\n'),
        ("txt", '"first name" second\n1 2\n3 "4"\n 5\t7 \n'),
    ):
        (tmp_path / f"a.{suffix}").write_bytes(text.encode())
        np.testing.assert_array_equal(read(tmp_path / f"a.{suffix}"), DENSE, err_msg=text[:99])


# ---- what is no file --------------------------------------------------------------------------


DEVICE = "a pipe or a device"
NO_FILES = {
    **dict.fromkeys(("a pipe", "/dev/zero", "/dev/stdin", "/dev/null", "a socket"), DEVICE),
    "a folder": "it is a folder",
    "nothing": "no such file",
    "a circle": "a link that leads to no file",
    "no bytes": "it is empty",
}


@POSIX
@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.slow(keep=2)
def test_what_is_no_file_is_refused_by_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By paths, patterns and lists, in Python and by commands: none is opened, as to open a pipe waits for ever."""
    monkeypatch.chdir(tmp_path)
    endings = [".npy", ".npz", ".parquet", ".h5", ".h5ad", ".zarr", ".csv", ".csv.gz", ".mtx", ".svm", ""]
    for ending in endings:
        put(kind, tmp_path / f"a{ending}")
    program = f"""
import linspec as ls
from hostile import outcomes
from cli.running import refusal
for ending in {endings!r}:
    name = "a" + ending
    uses = [ls.open_rows, ls.as_operator, lambda path: ls.SVD(path, k=1), lambda path: ls.open_rows([path, path])]
    if {kind!r} not in ("nothing", "a circle") and ending:
        uses.append(lambda path: ls.open_rows("[a]" + ending))
    for use in uses:
        with outcomes.refused("a"):
            use(name)
    refusal(("solve", "svd", name, "-k", 1))
    refusal(("solve", "least-squares", name, name))
assert {NO_FILES[kind]!r} in refusal(("solve", "svd", "a.npy", "-k", 1))
for name in ("/dev/zero", "/dev/stdin", "/dev/fd/0", "-", "", "a.csv:name", "a.npz:name"):
    refusal(("solve", "svd", name, "-k", 1))
"""
    apart(program, seconds=300, cwd=tmp_path)


NAMES = [b"\xff\xfe.npy", b"\x1b[31mred\x1b[0m.npy", "\u202egnp.npy".encode(), b"a\nb\tc.npy"]
"""Names that are no UTF-8, or hold what a terminal obeys."""


@POSIX
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_are_printed_without_control_characters(tmp_path: Path, name: bytes) -> None:
    """Of files, of members and labels, in messages and tables."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    stem = path.removesuffix(".npy")
    try:
        np.save(path, DENSE)
    except OSError:
        pytest.skip("the file system knows no such names")
    out, _ = run(("solve", "svd", path, "-k", 1, "--out", f"{stem}.json"))
    assert "written: " in out
    out += run(("compare", "svd", path, "-k", 1, "--solvers", "gram"))[0]
    assert "(3 x 2, float64)" in out
    assert all(line.isprintable() for line in out.splitlines())
    for suffix in (".npy", ".csv", ".svm", ".mtx", ".npz", ".csv.gz", ".parquet"):
        Path(stem + suffix).write_bytes(b"1 1:x\n\xff")
        file_refused(Path(stem + suffix))
    member = os.fsdecode(name.removesuffix(b".npy")).encode("ascii", "ignore").decode()
    np.savez(tmp_path / "a.npz", **{f"{member}1": DENSE, f"{member}2": DENSE})
    file_refused(tmp_path / "a.npz", "or several")
    file_refused(tmp_path / "a.npz", "no array", f":{member}")
    assert read(tmp_path / "a.npz", f":{member}1").shape == (3, 2)
    (tmp_path / "a.svm").write_text("\x1b[31mred 1:1 2:3\nblue 1:2\n")
    file_refused(tmp_path / "a.svm", "red", ":labels")


# ---- mutations --------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [5, pytest.param(5 * HOSTILE, marks=pytest.mark.slow)])
def test_mutated_files(trials: int) -> None:
    """The fuzzer of files, a little of it; `python -m hostile.fuzz_files` does more."""
    print(apart(Path(__file__).with_name("fuzz_files.py"), "--trials", trials))
