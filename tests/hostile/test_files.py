"""Files that are no files, are broken, never end or declare what they do not hold, and numbers on the command line."""

from __future__ import annotations

import gzip
import io
import os
import socket
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("click")

from hostile.fuzz_files import run
from hostile.outcomes import Crash, Defect, Raw, Silent, apart, command, holds

from linspec.process import machine

HOSTILE = int(os.environ.get("LINSPEC_HOSTILE", "1"))
DENSE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
MIB = 2**20
POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links of POSIX")


def ended(*args: object) -> tuple[int, str, str]:
    """A command in this process: its code and what it said; bad endings have their names."""
    try:
        code, out, err = run([str(arg) for arg in args])
    except Exception as error:
        raise Raw(f"{type(error).__name__}: {error}") from error
    if code == 70:
        raise Defect(err.strip())
    for text in (*out.splitlines(), *err.splitlines()):
        if not text.isprintable():
            raise Raw(f"what is printed has control characters: {text!r}")
    return code, out, err


def refused(*args: object, said: str = "") -> str:
    """The one clear sentence with which a command refuses what it was given."""
    code, _, err = ended(*args)
    if code == 0:
        raise Silent(f"{args}: nothing was refused")
    if code != 2 or not err.startswith("Error: ") or err.count("\n") != 1:
        raise Raw(f"exit code {code}: {err!r}")
    if "out of memory" in err:
        raise Raw(f"it was not said beforehand: {err}")
    if said not in err:
        raise Raw(f"the message does not say {said!r}: {err}")
    return err


def file_refused(path: Path, said: str = "", member: str = "") -> str:
    """Require that the command refuses a file, and names it; return the message."""
    message = refused("solve", "svd", f"{path}{member}", "-k", 1, said=said)
    if path.name.isprintable():
        holds(path.name in message, f"the file is not named: {message}")
    return message


def read(path: Path, member: str = "") -> Any:
    """Read a file as the command does."""
    from linspec.cli.data import read as rows_of

    try:
        matrix = rows_of(f"{path}{member}")
    except Exception as error:
        raise Raw(f"{type(error).__name__}: {error}") from error
    return matrix.dense() if hasattr(matrix, "dense") else np.asarray(matrix)


def reads(path: Path, expected: Any) -> None:
    """A file must be read as these numbers."""
    holds(np.array_equal(read(path), expected), f"{path.name} is read as other numbers")


def little_memory(monkeypatch: pytest.MonkeyPatch, size: int = 16 * MIB) -> None:
    """As on a machine with little memory left."""
    monkeypatch.setattr(machine, "available_memory", lambda: size)


# ---- sparse matrices in .npz ------------------------------------------------------------------


def parts_of(kind: str) -> dict[str, Any]:
    """The parts of a good matrix, as SciPy saves them."""
    matrix = scipy.sparse.csr_array(np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 0, 5], [0, 6, 7, 0]]))
    stream = io.BytesIO()
    scipy.sparse.save_npz(stream, matrix.tobsr((2, 2)) if kind == "bsr" else matrix.asformat(kind))
    stream.seek(0)
    with np.load(stream) as archive:
        return dict(archive)


SPARSE = ("csr", "csc", "bsr", "coo", "dia")
INDICES = [(kind, name) for kind in SPARSE[:3] for name in ("indices", "indptr")]
INDICES += [("coo", "row"), ("coo", "col"), ("dia", "offsets")]


@pytest.mark.parametrize(("kind", "name"), INDICES[:-1])
def test_indices_out_of_range(tmp_path: Path, kind: str, name: str):
    word = {"indices": name}.get(name, "ind")  # SciPy says "index pointer" and "axis 0 index" as well
    for index in (-1, 10**6, 2**40, 2**62, -(2**62)):
        for place in (0, -1):
            parts = parts_of(kind)
            parts[name] = parts[name].astype(np.int64)
            parts[name][place] = index
            np.savez(tmp_path / "a.npz", **parts)
            file_refused(tmp_path / "a.npz", word)
    parts = parts_of(kind)
    parts[name] = parts[name].astype(np.uint64)
    parts[name][-1] = 2**63 + 1  # a negative number, were it taken for an int64
    np.savez(tmp_path / "a.npz", **parts)
    file_refused(tmp_path / "a.npz", word)


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("dtype", ["f4", ">f8", "f2", "g", "i2", "u8", "?", ">i4"])
def test_good_sparse_matrices_of_every_dtype(tmp_path: Path, kind: str, dtype: str):
    parts = parts_of(kind)
    parts["data"] = parts["data"].astype(dtype)
    parts["shape"] = parts["shape"].astype(">i4")
    np.savez(tmp_path / "a.npz", **parts)
    expected = np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 0, 5], [0, 6, 7, 0]])
    reads(tmp_path / "a.npz", expected > 0 if dtype == "?" else expected)


# ---- archives ---------------------------------------------------------------------------------


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_names_of_members_are_printed_without_control_characters(tmp_path: Path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("\x1b[31mred", "\x07bell", "\u202eright to left", "tab\tand\nline"):
            archive.writestr(f"{name}.npy", npy(DENSE))
    file_refused(path, "or several")
    file_refused(path, "no array", ":\x1b[31mother")
    holds(read(path, ":\x1b[31mred").shape == (3, 2), "the member is not found by its name")
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(1000):
            archive.writestr(f"array{number}.npy", npy(DENSE))
    holds(len(file_refused(path, "or several")) < 600, "a message lists a thousand names")


def test_damaged_archives(tmp_path: Path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, np.random.default_rng(0).standard_normal((40, 4)))
    whole = path.read_bytes()
    local, central = whole.index(b"PK\x03\x04"), whole.index(b"PK\x01\x02")

    def spoilt(offset: int, value: int, first: int | None = None) -> bytes:
        content = bytearray(whole)
        struct.pack_into("<H", content, central + offset, value)
        if first is not None:
            struct.pack_into("<H", content, local + first, value)
        return bytes(content)

    path.write_bytes(spoilt(8, 1, 6))  # encrypted
    file_refused(path, "encrypted")
    for method in (1, 12, 14, 93, 99):
        path.write_bytes(spoilt(10, method, 8))
        file_refused(path)
    path.write_bytes(spoilt(6, 99))  # a version to come
    file_refused(path)
    for offset in range(0, len(whole), 29):
        content = bytearray(whole)
        content[offset] ^= 0xFF
        path.write_bytes(content)
        code, *_ = ended("solve", "svd", path, "-k", 1)
        holds(code in (0, 2), f"exit code {code}")
        path.write_bytes(whole[:offset])
        file_refused(path)


def header(text: str) -> bytes:
    """The beginning of a .npy file with this header."""
    content = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(content)) + content


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000000)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 4000 + ", 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2.5, 2)}",
        "{'descr': '<f8', 'fortran_order': 3, 'shape': (2, 2)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<U1000000000', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '\x1b[31m', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': ('<f8', (1000000, 1000000)), 'fortran_order': False, 'shape': (2, 2)}",
        "(" * 3000,
        "-" * 9000,
        "{'descr': __import__('os').system('false')}",
        "\0" * 100,
        "",
    ],
)
def test_headers_of_arrays(tmp_path: Path, text: str):
    (tmp_path / "a.npy").write_bytes(header(text) + DENSE.tobytes())
    file_refused(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header(text) + DENSE.tobytes())
    file_refused(tmp_path / "a.npz")


# ---- bombs ------------------------------------------------------------------------------------


def test_an_archive_that_expands(tmp_path: Path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        text = "{'descr': '<f8', 'fortran_order': False, 'shape': (65536, 64)}"
        archive.writestr("a.npy", header(text) + bytes(32 * MIB))
    little_memory(monkeypatch)
    file_refused(tmp_path / "a.npz", "MiB")


@pytest.mark.parametrize("suffix", [".csv", ".txt", ".svm", ".mtx"])
@pytest.mark.parametrize("what", ["line", "lines", "zeros"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_text_that_takes_more_than_the_memory(
    tmp_path: Path, monkeypatch, suffix: str, what: str, packed: bool
):
    begin = b"%%MatrixMarket matrix array real general\n" if suffix == ".mtx" else b""
    rows = 2 * MIB
    begin += b"%d 2\n" % rows if suffix == ".mtx" else b""
    entry = {".svm": b"1 1:1 2:1\n", ".mtx": b"1\n1\n"}.get(suffix, b"1 1\n")
    body = {"line": b"1 1 " * (4 * MIB), "lines": entry * rows, "zeros": bytes(8 * MIB)}[what]
    path = tmp_path / f"a{suffix}{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(begin + body, 1) if packed else begin + body)
    little_memory(monkeypatch)
    file_refused(path, "zero" if what == "zeros" else "MiB")


@POSIX
def test_a_text_that_expands_far_is_refused_early(tmp_path: Path):
    """One line of 96 MiB in 100 KiB, under a limit that no reading of the whole would survive."""
    with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=6) as stream:
        for _ in range(96):
            stream.write(b"1," * (MIB // 2))
    program = f"""
import resource
from hostile.outcomes import Silent
from linspec.process import machine
machine.available_memory = lambda: 64 * 2**20
import linspec.cli.data
import numpy, scipy.sparse
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
try:
    linspec.cli.data.read({str(tmp_path / "a.csv.gz")!r})
except linspec.errors.LinspecError as error:
    print(error)
else:
    raise Silent("silent: nothing was refused")
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("limits of Linux")
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    holds("MiB" in apart(program, env={"PYTHONPATH": path}).stdout, "the size is not said")


@pytest.mark.parametrize("index", [10**12, 2**62, 2**63 - 1, 2**63, 10**30, "9" * 5000])
def test_an_index_that_makes_a_huge_matrix(tmp_path: Path, index: object):
    path = tmp_path / "a.svm"
    path.write_text(f"1 1:2 {index}:3\n-1 2:1\n")
    file_refused(path)
    reads_labels = read(path, ":labels") if isinstance(index, int) and index < 2**63 else None
    holds(reads_labels is None or reads_labels.ravel().tolist() == [1, -1], "labels need no such matrix")


SIZES = [
    "10000000000000 10000000000000",
    "3037000500000 3037000500000",
    "9223372036854775807 2",
    "9223372036854775808 2",
    "9" * 400 + " 2",
]


@pytest.mark.parametrize("sizes", SIZES)
def test_sizes_of_matrix_market_files(tmp_path: Path, sizes: str):
    path = tmp_path / "a.mtx"
    for banner, rest, entry in (
        ("array real", "", "1"),
        ("coordinate real", " 2", "1 1 1"),
        ("array integer", "", "1"),
    ):
        path.write_text(f"%%MatrixMarket matrix {banner} general\n{sizes}{rest}\n{entry}\n{entry}\n")
        file_refused(path)
    path.write_text(
        f"%%MatrixMarket matrix coordinate real general\n3 2 {sizes.split(maxsplit=1)[0]}\n1 1 1\n2 2 1\n"
    )
    file_refused(path)


# ---- Matrix Market ----------------------------------------------------------------------------

BANNER = "%%MatrixMarket matrix coordinate real general\n"


def test_good_matrix_market_files(tmp_path: Path):
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
        reads(path, expected)


@pytest.mark.parametrize("end", [b" ", b"\t", b"\r", b" \r", b""])
@pytest.mark.slow(keep=1)
def test_blanks_after_the_last_entry_of_a_matrix_market_file(tmp_path: Path, end: bytes):
    """They were a crash where no line end follows."""
    for kind, body in (("coordinate", b"1 1 1\n1 1 2"), ("array", b"1 1\n2")):
        path = tmp_path / f"{kind}.mtx"
        path.write_bytes(b"%%MatrixMarket matrix " + kind.encode() + b" real general\n" + body + end)
        program = f"""
from linspec.cli.data import read
print(float(read({str(path)!r}).dense().sum()))
"""
        holds(apart(program).stdout.strip() == "2.0", "the entry is lost")


# ---- svmlight ---------------------------------------------------------------------------------


def test_an_index_twice_in_a_long_line_is_found_at_once(tmp_path: Path):
    features = " ".join(f"{index}:1" for index in range(1, 100_001))
    (tmp_path / "a.svm").write_text(f"1 {features} 100000:2\n")
    file_refused(tmp_path / "a.svm", "100000 occurs twice")


def test_labels_are_printed_without_control_characters(tmp_path: Path):
    (tmp_path / "a.svm").write_text("\x1b[31mred 1:1 2:3\nblue 1:2\n")
    file_refused(tmp_path / "a.svm", "red", ":labels")
    holds(read(tmp_path / "a.svm", ":classes").shape == (2, 2), "labels may be any text")


# ---- delimited text ---------------------------------------------------------------------------


def test_good_delimited_text(tmp_path: Path):
    path = tmp_path / "a.csv"
    long = "x" * 200_000  # longer than a field of the module csv may be
    for text in (
        "1,2\r3,4\r5,7\r",
        "1,2\r\n3,4\n5,7\r",
        "\ufeff1,2\n3,4\n5,7",
        "\ufeffx,y\r\n1,2\r\n3,4\r\n5,7\r\n",
        f'"{long}",y\n1,2\n3,4\n5,7\n',
        f"# {long}\n1,2\n3,4 # {long}\n5,7\n",
        '"x, ""y"" # no comment",z\n"1","2"\n3,"4"\n 5 , 7 \n',
        f"1{' ' * 200_000},2\n3,4\n5,7\n",
        '"1",2\n3,4\n5,7 # a quote " in a comment\n',
    ):
        path.write_bytes(text.encode())
        reads(path, DENSE)
    (tmp_path / "a.txt").write_text('"first name" second\n1 2\n3 "4"\n 5\t7 \n')
    reads(tmp_path / "a.txt", DENSE)


@pytest.mark.parametrize("suffix", [".csv", ".svm", ".mtx"])
@pytest.mark.slow(keep=1)
def test_damaged_compression(tmp_path: Path, suffix: str):
    text = {".csv": "1,2\n3,4\n" * 500, ".svm": "1 1:2\n" * 500, ".mtx": BANNER + "1 1 1\n1 1 1\n"}[suffix]
    whole = gzip.compress(text.encode())
    path = tmp_path / f"a{suffix}.gz"
    for offset in range(len(whole)):
        path.write_bytes(whole[:offset])
        file_refused(path)
        content = bytearray(whole)
        content[offset] ^= 0xFF
        path.write_bytes(content)
        code, *_ = ended("solve", "svd", path, "-k", 1)
        holds(code in (0, 2), f"exit code {code}")


# ---- what is no file --------------------------------------------------------------------------


@POSIX
def test_pipes_devices_sockets_and_links(tmp_path: Path):
    """In one process of its own: reading any of them would wait, or never end."""
    os.mkfifo(tmp_path / "pipe.csv")
    for name, target in (
        ("zero.csv", "/dev/zero"), ("zero.npy", "/dev/zero"), ("zero.mtx", "/dev/zero"), ("zero.svm", "/dev/zero"),
        ("zero.npz", "/dev/zero"), ("random.csv.gz", "/dev/urandom"), ("stdin.csv", "/dev/stdin"),
        ("null.csv", "/dev/null"), ("pipe.npy", "pipe.csv"), ("dangling.csv", "nowhere"),
        ("loop.csv", "loop.csv"), ("folder.csv", "."),
    ):  # fmt: skip
        (tmp_path / name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(tmp_path)  # the names of sockets are short
        try:
            server.bind("socket.csv")
        finally:
            os.chdir(here)
        names = sorted(path.name for path in tmp_path.iterdir())
        named = ["/dev/zero", "/dev/stdin", "/dev/fd/0", "-", "", "pipe.csv:name", "zero.npz:name"]
        program = f"""
from hostile.test_files import refused
for name in {[*names, *named]!r}:
    message = refused("solve", "svd", name, "-k", 1)
    print(message)
    refused("solve", "least-squares", name, name)
"""
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        said = apart(program, env={"PYTHONPATH": path}, cwd=tmp_path).stdout
    for words in ("a pipe or a device", "a link that leads to no file", "a folder"):
        holds(words in said, f"nothing is called {words}")


def test_names_that_are_not_of_files(tmp_path: Path):
    for name in (
        "x" * 300 + ".csv",
        "x" * 5000 + ".csv",
        "\x1b[31m.csv",
        "\udcff.csv",
        "a\nb.csv",
        "~.csv",
        "*.csv",
    ):
        refused("solve", "svd", name, "-k", 1)
    refused("solve", "svd", tmp_path / "missing.npz:\x1b[31m", "-k", 1, said="no such file")
    refused("solve", "svd", tmp_path / "a.csv" / "b.csv", "-k", 1, said="no such file")


@POSIX
def test_a_file_without_permission(tmp_path: Path):
    if os.geteuid() == 0:
        pytest.skip("this user may read everything")
    np.save(tmp_path / "a.npy", DENSE)
    (tmp_path / "a.npy").chmod(0)
    file_refused(tmp_path / "a.npy", "ermission")


# ---- names ------------------------------------------------------------------------------------

NAMES = [
    b"\xff\xfe.npy",
    b"\x1b[31mred\x1b[0m.npy",
    b"\x1b]0;title\x07.npy",
    "\u202egnp.npy".encode(),
    b"a\nb\tc.npy",
]


@POSIX
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_files_are_printed_without_control_characters(tmp_path: Path, name: bytes):
    """Names that are no UTF-8, or hold what a terminal obeys, in messages and tables."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    try:
        np.save(path, DENSE)
    except OSError:
        pytest.skip("the file system knows no such names")
    code, out, _ = ended("solve", "svd", path, "-k", 1)
    holds(code == 0 and "(3 x 2, float64)" in out, "the file is not read")
    code, out, _ = ended("solve", "svd", path, "-k", 1, "--out", path.removesuffix(".npy") + ".json")
    holds(code == 0 and "written: " in out, "the answer is not written")
    Path(path).write_bytes(b"broken")
    file_refused(Path(path))
    for suffix in (".csv", ".svm", ".mtx", ".npz", ".csv.gz", ".parquet"):
        spoilt = Path(path.removesuffix(".npy") + suffix)
        spoilt.write_bytes(b"1 1:x\n\xff")
        file_refused(spoilt)
    good = Path(path.removesuffix(".npy") + ".mtx")
    good.write_text(BANNER + "2 2 1\n1 1 1\n")
    reads(good, [[1, 0], [0, 0]])


@POSIX
def test_names_in_processes_of_their_own(tmp_path: Path):
    """As bytes of the command line, and where they are shown."""
    for name in NAMES[:2]:
        np.save(tmp_path / os.fsdecode(name), DENSE)
    done = command("compare", "svd", NAMES[0], "-k", 1, "--solvers", "gram", codes=(0,), cwd=tmp_path)
    holds(r"\udcff\udcfe.npy" in done.stdout, "the name is not shown")
    done = command("compare", "svd", NAMES[1], "-k", 1, "--solvers", "gram", codes=(0,), cwd=tmp_path)
    holds("\x1b" not in done.stdout + done.stderr, "the terminal obeys the name of a file")


# ---- numbers on the command line --------------------------------------------------------------


@pytest.fixture
def good(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).standard_normal((20, 4)))
    return tmp_path / "a.npy"


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "-1", "0", "1e400", "-1e-400", "x", "", "٣x", "\x1b[31m"]
)
def test_tolerances(good: Path, value: str):
    """NaN was taken by "auto", and said to be converged at."""
    for solver in ("auto", "block-krylov"):
        refused("solve", "svd", good, "-k", 1, "--solver", solver, "--tol", value, said="--tol")
    if value not in ("inf", "1e400"):  # as an option of a solver it is a limit that holds at once
        refused("solve", "svd", good, "-k", 1, "--solver", "block-krylov", "-o", f"tol={value}", said="tol")
    refused("compare", "svd", good, "-k", 1, "--solvers", "auto,block-krylov", "--tol", value, said="--tol")


@pytest.mark.parametrize("value", ["-1", "-9223372036854775809", "1.5", "nan", "x", "", "9" * 5000])
def test_seeds(good: Path, value: str):
    for action in ("solve", "compare"):
        refused(action, "svd", good, "-k", 1, "--seed", value, said="--seed")


@pytest.mark.parametrize("value", ["0", "2147483648", "18446744073709551616", "9" * 4000])
def test_large_seeds(good: Path, value: str):
    code, *_ = ended("solve", "svd", good, "-k", 1, "--solver", "block-krylov", "--seed", value)
    holds(code == 0, "a large seed is a seed")


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("-k", ["0", "-1", "5", "9223372036854775808", "1" + "0" * 400, "9" * 5000, "nan", "1.5", "x"]),
        ("--max-passes", ["nan", "-1", "0", "-inf", "x"]),
        ("--max-seconds", ["nan", "-1", "0", "-inf", "x"]),
    ],
)
def test_other_numbers(good: Path, option: str, values: list[str]):
    for value in values:
        refused("solve", "svd", good, "-k", 1, option, value)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "-inf", "1e400", "x"])
def test_ridges(good: Path, value: str):
    refused("solve", "least-squares", good, good, "--ridge", value)
    refused("solve", "cca", good, good, "-k", 1, "--ridge", value)
    refused("solve", "cca", good, good, "-k", 1, "--ridge-y", value)
    refused("solve", "discriminant", good, good, "--target", "none", "--ridge", value)


def test_words_on_the_command_line_are_printed_without_control_characters(good: Path):
    for args in (
        ["\x1b[31m"],
        ["solve", "\x1b[31m"],
        ["solve", "svd", good, "-k", 1, "--solver", "\x1b[31m"],
        ["solve", "svd", good, "-k", 1, "-o", "\x1b[31m=1"],
        ["solve", "svd", good, "-k", 1, "--\x1b[31m"],
        ["solve", "svd", good, "-k", 1, "--out", "\x1b[31m"],
        ["solve", "svd", good, "-k", 1, "--out", "no\x1b[31m/a.npz"],
        ["solve", "svd", good, "-k", 1, "\x1b[31m"],
        ["compare", "svd", good, "-k", 1, "--solvers", "\x1b[31m"],
        ["describe", "\x1b[31m"],
        ["solvers", "\x1b[31m"],
    ):
        refused(*args)


def test_numbers_at_the_ends_of_the_range(tmp_path: Path):
    """An answer whose squares are no numbers was a defect: it is refused, with the power of ten to multiply by."""
    for largest in (1e308, 1e-308, 5e-324):
        np.savetxt(tmp_path / "a.csv", DENSE / DENSE.max() * largest, delimiter=",")
        refused("solve", "svd", tmp_path / "a.csv", "-k", 1, said="Multiply A by 1e")


# ---- mutations --------------------------------------------------------------------------------


@pytest.mark.slow
def test_mutated_files():
    """The fuzzer of files, a little of it; `python -m hostile.fuzz_files` does more."""
    line = [sys.executable, "-m", "hostile.fuzz_files", "--trials", str(5 * HOSTILE)]
    done = subprocess.run(line, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    if "crash:" in done.stdout:
        raise Crash(done.stdout)
    holds(done.returncode == 0, done.stdout + done.stderr)
