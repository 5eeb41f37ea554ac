"""A fuzzer of files: `python -m hostile.fuzz_files --trials 5000 --seed 0 [--format npz ...]`, from the folder `tests`.

A trial takes a good file of a format that the command line reads, mutates it, and hands it to `linspec solve svd`. Many
trials run in one forked child, which has a limit on memory; its parent watches the time, and goes on in another child
where one is killed. What is read without an error is compared with what another reader makes of the file:
`numpy.load`, loops over the parts of a sparse matrix, the module `csv`, scikit-learn's reader of svmlight, or a few
lines of Python.

Endings: ``read`` (and the values are those of the other reader), ``refused`` (exit code 2 and one printable sentence),
``out of memory`` (the same, but not before memory was taken), ``lone`` (read, but the other reader refuses),
``silent`` (other values), ``rc 70``, ``raw`` (any other exit code, message or exception), ``crash``, ``hang``.
The linspec that is tried is the one that Python finds: PYTHONPATH says which.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse

ENDINGS = ("read", "refused", "out of memory", "lone", "silent", "rc 70", "raw", "crash", "hang")
GOOD = frozenset({"read", "refused"})
BAD = frozenset({"lone", "silent", "rc 70", "raw", "crash", "hang"})
SECONDS = 10.0
MEMORY = 4 * 2**30
COMPARED = 10**6
"""Entries of a matrix that is compared."""

EXTREMES = (
    *(
        "0",
        "-1",
        "1",
        "2",
        "3.5",
        "-0.0",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "1e400",
        "1e-400",
        "1_0",
        "0x10",
        "1e",
        ".",
        "+5",
    ),
    *(
        "2147483647",
        "2147483648",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
    ),
    *(
        "99999999999",
        "1" * 400,
        "-9223372036854775809",
        "1000000000",
        "٣",
        "1,5",
        "1;5",
        "NA",
        '"1"',
        "1.5.2",
        "5x",
        "",
    ),
)
TOKENS = (
    *(b'"', b"'", b"\0", b"\r", b"\n", b"\r\n", b"\n\n", b"\t", b",", b";", b":", b"#", b"%", b" ", b"  ", b"\\"),
    *(b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\x80", b"\x0b", b"\x1a", b"\x1c", b"\xc2\x85", b"\xe2\x80\xa8"),
    *(b"\x1b[31m", b"\x1b]0;title\x07", b"nan", b"qid:1", b"1:1", b"e", b".", b"-", b"+"),
    *(b"symmetric", b"complex", b"array", b"pattern", b"integer"),
)  # fmt: skip

Rng = np.random.Generator


@dataclass(frozen=True)
class Format:
    """A format: its suffix, good files, how they are mutated, and what another reader makes of one."""

    suffix: str
    good: Callable[[Rng], bytes]
    mutate: Callable[[Rng, bytes], bytes]
    peer: Callable[[Path], Any]
    members: tuple[str, ...] = ("",)


# ---- good files -------------------------------------------------------------------------------


def numbers(rng: Rng) -> Any:
    """A matrix of one of the usual dtypes."""
    values = rng.standard_normal((int(rng.integers(2, 9)), int(rng.integers(1, 5)))) * 4
    return values.astype(rng.choice(["f8", "f4", "i8", "i4", "u1", "?", ">f8", "f2"]))


def sparse(rng: Rng) -> Any:
    """A sparse matrix of whole numbers and others."""
    shape = (int(rng.integers(2, 5)) * 2, int(rng.integers(1, 4)) * 2)
    dense = np.round(rng.standard_normal(shape) * 8) / 4 * (rng.random(shape) < 0.5)
    dense[0, 0] = 1.0
    return scipy.sparse.csr_array(dense)


def npy(array: Any) -> bytes:
    """The array as a `.npy` file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)
    return stream.getvalue()


def npz(parts: dict[str, bytes], rng: Rng) -> bytes:
    """An archive with these members."""
    stream = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return stream.getvalue()


def good_npz(rng: Rng) -> bytes:
    """An archive of an array or two."""
    names = ["arr_0.npy", "right.npy"][: 1 if rng.random() < 0.9 else 2]
    return npz({name: npy(numbers(rng)) for name in names}, rng)


def good_sparse(rng: Rng) -> bytes:
    """A sparse matrix as SciPy saves it."""
    kind = str(rng.choice(["csr", "csc", "coo", "bsr", "dia"]))
    stream = io.BytesIO()
    matrix = sparse(rng)
    made = matrix.tobsr((2, 2)) if kind == "bsr" else matrix.asformat(kind)
    scipy.sparse.save_npz(stream, made, compressed=bool(rng.random() < 0.5))
    return stream.getvalue()


def good_mtx(rng: Rng) -> bytes:
    """A Matrix Market file of any kind."""
    field = str(rng.choice(["real", "integer", "pattern"]))
    matrix = sparse(rng).tocoo()
    rows, columns = matrix.shape
    values = [
        "" if field == "pattern" else str(int(v)) if field == "integer" else repr(float(v))
        for v in matrix.data
    ]
    lines = [f"{i + 1} {j + 1} {v}".rstrip() for i, j, v in zip(matrix.row, matrix.col, values, strict=True)]
    if rng.random() < 0.3 and field != "pattern":
        dense = [repr(float(v)) if field == "real" else str(int(v)) for v in matrix.toarray().T.ravel()]
        return text([f"%%MatrixMarket matrix array {field} general", f"{rows} {columns}", *dense], rng)
    if rng.random() < 0.3:
        order = max(rows, columns)
        lower = [line for line in lines if int(line.split()[0]) >= int(line.split()[1])]
        banner = f"%%MatrixMarket matrix coordinate {field} symmetric"
        return text([banner, "% made for a trial", f"{order} {order} {len(lower)}", *lower], rng)
    return text(
        [f"%%MatrixMarket matrix coordinate {field} general", f"{rows} {columns} {len(lines)}", *lines], rng
    )


def good_svmlight(rng: Rng) -> bytes:
    """Labelled rows."""
    matrix = sparse(rng)
    first = int(rng.integers(2))
    lines = []
    for row in range(matrix.shape[0]):
        begin, end = matrix.indptr[row : row + 2]
        pairs = zip(matrix.indices[begin:end], matrix.data[begin:end], strict=True)
        lines.append(f"{int(rng.integers(3))} " + " ".join(f"{j + first}:{v:g}" for j, v in pairs))
    return text(lines, rng)


def good_text(separator: str) -> Callable[[Rng], bytes]:
    """Delimited text, with column names or without, some fields in quotes."""

    def good(rng: Rng) -> bytes:
        values = numbers(rng).astype(float)
        quoted = rng.random() < 0.3
        lines = [
            separator.join(
                f'"{v!r}"' if j and quoted and rng.random() < 0.3 else repr(v) for j, v in enumerate(row)
            )
            for row in values.tolist()
        ]
        names = [f'"x {place}"' if quoted else f"x{place}" for place in range(values.shape[1])]
        return text([separator.join(names)] * int(rng.integers(2)) + lines, rng)

    return good


def text(lines: list[str], rng: Rng) -> bytes:
    """Lines with one of the usual line ends."""
    end = "\r\n" if rng.random() < 0.2 else "\n"
    return (end.join(lines) + end * int(rng.random() < 0.9)).encode()


# ---- mutations --------------------------------------------------------------------------------


def mutate_bytes(rng: Rng, data: bytes) -> bytes:
    """Flip, cut, splice, repeat, or put something in."""
    content = bytearray(data)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        size = len(content)
        place, other = sorted(int(p) for p in rng.integers(0, size + 1, 2))
        how = int(rng.integers(7))
        if how == 0 and size:
            content[min(place, size - 1)] ^= 1 << int(rng.integers(8))
        elif how == 1:
            del content[place:]
        elif how == 2:
            del content[place : place + int(rng.integers(1, 9))]
        elif how == 3:
            content[place:place] = content[place:other]
        elif how == 4:
            content[place:place] = TOKENS[int(rng.integers(len(TOKENS)))]
        elif how == 5:
            content[place : place + 4] = rng.bytes(4)
        else:
            content[place:other] = content[place:other][::-1]
    return bytes(content)


def mutate_text(rng: Rng, data: bytes) -> bytes:
    """Change numbers to extremes, lines, and bytes."""
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        how = rng.random()
        found = list(re.finditer(rb"[-+.\w]+", data))
        if how < 0.5 and found:
            match = found[int(rng.integers(len(found)))]
            data = (
                data[: match.start()]
                + EXTREMES[int(rng.integers(len(EXTREMES)))].encode()
                + data[match.end() :]
            )
        elif how < 0.65:
            lines = data.splitlines(keepends=True)
            if lines:
                place = int(rng.integers(len(lines)))
                lines[place : place + int(rng.integers(2))] = [lines[int(rng.integers(len(lines)))]]
            data = b"".join(lines)
        elif how < 0.8:
            place = int(rng.integers(len(data) + 1))
            data = data[:place] + TOKENS[int(rng.integers(len(TOKENS)))] + data[place:]
        else:
            data = mutate_bytes(rng, data)
    return data


def mutate_npy(rng: Rng, data: bytes) -> bytes:
    """Change the header, with its length put right, or any byte."""
    how = rng.random()
    if how < 0.4 or data[:6] != b"\x93NUMPY" or len(data) < 10:
        return mutate_bytes(rng, data)
    length = int.from_bytes(data[8:10], "little")
    header = mutate_text(rng, data[10 : 10 + length])
    if how < 0.7:  # the dtype or the shape alone
        dtypes = (
            b"|O",
            b"<c16",
            b"<f2",
            b"<f16",
            b"|V8",
            b"<U3",
            b"<M8[s]",
            b"<i8",
            b">f8",
            b"|b1",
            b"<f8",
            b"<q",
        )
        shapes = (
            b"(2, 2)",
            b"(-1, 4)",
            b"(3,)",
            b"()",
            b"(2, 2, 2)",
            b"(0, 4)",
            b"(10**9, 2)",
            b"(4611686018427387904, 4)",
        )
        header = re.sub(rb"'[<>|][^']*'", b"'" + rng.choice(dtypes) + b"'", data[10 : 10 + length])
        if rng.random() < 0.5:
            header = re.sub(rb"\([^)]*\)", rng.choice(shapes), data[10 : 10 + length])
    return data[:8] + (len(header) % 2**16).to_bytes(2, "little") + header + data[10 + length :]


def mutate_npz(rng: Rng, data: bytes) -> bytes:
    """Change the archive, or its members, which are packed anew: a checksum would hide what is changed inside."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(int(rng.integers(1, 3))):
        name = str(rng.choice(list(parts)))
        how = rng.random()
        if how < 0.1 and len(parts) > 1:
            del parts[name]
        elif how < 0.2:
            parts[
                str(rng.choice(["\x1b[31m.npy", "x/../y.npy", "é.npy", "plain", "coords.npy", "data.npy"]))
            ] = parts.pop(name)
        elif how < 0.6:
            parts[name] = npy(changed(rng, np.load(io.BytesIO(parts[name]))))
        else:
            parts[name] = mutate_npy(rng, parts[name])
            break  # it may be no array any more
    return npz(parts, rng)


def changed(rng: Rng, array: Any) -> Any:
    """Another array: entries, dtype or shape."""
    how = rng.random()
    if how < 0.5 and array.size and array.dtype.kind in "iuf":
        copied = array.astype("f8" if rng.random() < 0.2 else array.dtype).copy()
        values = [
            -1,
            0,
            1,
            3,
            10**6,
            2**31 - 1,
            *([0.5, 2**31, 2**40, -(2**62)] if copied.itemsize == 8 else []),
        ]
        with np.errstate(all="ignore"), contextlib.suppress(OverflowError, ValueError):
            copied.flat[int(rng.integers(array.size))] = values[int(rng.integers(len(values)))]
        return copied
    if how < 0.65:
        with np.errstate(all="ignore"), contextlib.suppress(ValueError):
            kinds = ["f4", "i2", "u8", "c16", "U5", "S3", ">i8", "?", "f2", "g"]
            return (array.real if array.dtype.kind == "c" else array).astype(rng.choice(kinds))
    if how < 0.8 and array.ndim:
        return array[: int(rng.integers(len(array) + 1))]
    if how < 0.9 and array.ndim:
        return np.concatenate([array, array])
    return array.reshape((*array.shape, 1) if rng.random() < 0.5 else -1)


def mutate_compressed(rng: Rng, data: bytes) -> bytes:
    """Change the text, or what it is compressed to."""
    if rng.random() < 0.7:
        return gzip.compress(mutate_text(rng, gzip.decompress(data)), mtime=0)
    return mutate_bytes(rng, data)


# ---- other readers ----------------------------------------------------------------------------


def peer_array(path: Path) -> Any:
    """Read a file with NumPy."""
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        (name,) = loaded.files
        return loaded[name]


def peer_sparse(path: Path) -> Any:
    """The sum of the entries at their places, by loops over the parts; an index that is no index raises."""
    with np.load(path, allow_pickle=False) as parts:
        if not {"format", "shape"} <= set(parts.files):
            (name,) = parts.files
            return parts[name]
        kind, data = str(parts["format"].astype("U8").ravel()[0]), parts["data"]
        rows, columns = (whole(size) for size in parts["shape"])
        if rows * columns > COMPARED:
            return None
        dense = np.zeros((rows, columns))
        if kind == "dia":
            for offset, line in zip(parts["offsets"], data, strict=True):
                for j in range(min(columns, len(line))):
                    if 0 <= j - int(offset) < rows:
                        dense[j - int(offset), j] += line[j]
            return dense
        if kind == "coo":
            names = ("coords", "coords") if "coords" in parts.files else ("row", "col")
            first, second = parts["coords"] if names[0] == "coords" else (parts[name] for name in names)
            for i, j, value in zip(first, second, data, strict=True):
                dense[whole(i), whole(j)] += value
            return dense
        starts, indices = parts["indptr"], parts["indices"]
        height, width = data.shape[1:] if kind == "bsr" else (1, 1)
        for i in range(len(starts) - 1):
            for place in range(whole(starts[i]), whole(starts[i + 1])):
                j = whole(indices[place])
                block = data[place] if kind == "bsr" else [[data[place]]]
                if kind == "csc":
                    dense[j, i] += data[place]
                else:
                    dense[i * height : (i + 1) * height, j * width : (j + 1) * width] += block
        return dense


def whole(number: Any) -> int:
    """A number that is whole and not negative."""
    if int(number) != number or number < 0:
        raise ValueError(number)
    return int(number)


def decoded(path: Path, *, old: bool = True) -> list[str]:
    """The lines of a text file, which may end in \\r alone where they may be `old`."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    if b"\0" in data:
        raise ValueError("zero byte")
    text = data.decode("utf-8-sig" if old else "latin-1").replace("\r\n", "\n")
    return (text.replace("\r", "\n") if old else text).split("\n")


def peer_mtx(path: Path) -> Any:
    """A few lines of Python for the exchange format."""
    lines = decoded(path, old=False)
    _, kind, layout, field, symmetry = lines[0].lower().split()
    if (kind, field) == ("matrix", "complex") or symmetry == "hermitian":
        raise ValueError(field)
    body = [line.split() for line in lines[1:] if line.strip() and not line.startswith("%")]
    number = int if field in ("integer", "unsigned-integer") else float
    sizes, entries = [int(size) for size in body[0]], body[1:]
    if sizes[0] * sizes[1] > COMPARED:
        return None
    dense = np.zeros(sizes[:2])
    if layout == "array":
        places = [
            (i, j)
            for j in range(sizes[1])
            for i in range({"general": 0, "symmetric": j, "skew-symmetric": j + 1}[symmetry], sizes[0])
        ]
        entries = [[str(i + 1), str(j + 1), *words] for (i, j), words in zip(places, entries, strict=True)]
    elif len(entries) != sizes[2]:
        raise ValueError("entries")
    for words in entries:
        i, j, value = (*words, "1") if field == "pattern" else words
        row, column = whole(int(i) - 1), whole(int(j) - 1)
        dense[row, column] += number(value)
        if symmetry != "general" and row != column:
            dense[column, row] += number(value) * (-1 if symmetry == "skew-symmetric" else 1)
    return dense


def peer_svmlight(path: Path) -> Any:
    """Read a file with scikit-learn; rows without labels get one, because it does not accept them."""
    from sklearn.datasets import load_svmlight_file

    lines = [line.partition("#")[0].split() for line in decoded(path)]
    # It knows no rows without labels, and none whose indices are not in order.
    rows = [words if ":" in words[0] else words[1:] for words in lines if words]
    rows = [words[1:] if words[:1] and words[0].startswith("qid:") else words for words in rows]
    labelled = [["0", *sorted(words, key=lambda word: int(word.partition(":")[0]))] for words in rows]
    most = max((int(word.partition(":")[0]) for words in rows for word in words), default=0)
    if most * len(labelled) > COMPARED:
        return None
    return load_svmlight_file(io.BytesIO("\n".join(map(" ".join, labelled)).encode()))[0].toarray()


def peer_text(path: Path) -> Any:
    """Read a file with the module csv, strictly, without a first line that has no number, or several names."""
    lines = [re.match(r'(?:[^"#]|"[^"]*"?)*', line)[0] for line in decoded(path)]  # up to a comment
    lines = [line for line in lines if line.strip()]
    name = path.name.removesuffix(".gz")
    separator = "\t" if name.endswith(".tsv") else next((m for m in (",", ";", "\t") if m in lines[0]), " ")
    if separator == " ":
        lines = [" ".join(line.split()) for line in lines]
    lines = [re.sub(f" *({separator}) *", r"\1", line.strip(" ")) for line in lines]
    rows = list(csv.reader(lines, delimiter=separator, strict=True))
    if any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("ragged")
    numbers = sum(map(is_number, rows[0]))
    names = sum(field[:1].isalpha() for field in rows[0] if not is_number(field))
    if not numbers or names > 1:
        unnamed = not rows.pop(0)[0].strip()  # a column of labels
        rows = [row[unnamed:] for row in rows]
    return np.array([[float(field.strip()) for field in row] for row in rows])


def is_number(field: str) -> bool:
    """Whether Python makes a number of it."""
    try:
        float(field.strip())
    except ValueError:
        return False
    return True


# ---- the formats ------------------------------------------------------------------------------


def compressed(good: Callable[[Rng], bytes]) -> Callable[[Rng], bytes]:
    """The same, compressed."""
    return lambda rng: gzip.compress(good(rng), mtime=0)


LABELS = ("", "", "", ":labels", ":classes")
COMMA = good_text(",")
FORMATS = {
    "npy": Format(".npy", lambda rng: npy(numbers(rng)), mutate_npy, peer_array),
    "npz": Format(".npz", good_npz, mutate_npz, peer_array),
    "sparse": Format(".npz", good_sparse, mutate_npz, peer_sparse),
    "mtx": Format(".mtx", good_mtx, mutate_text, peer_mtx),
    "svmlight": Format(".svm", good_svmlight, mutate_text, peer_svmlight, LABELS),
    "csv": Format(".csv", COMMA, mutate_text, peer_text),
    "tsv": Format(".tsv", good_text("\t"), mutate_text, peer_text),
    "txt": Format(".txt", good_text(" "), mutate_text, peer_text),
    "csv.gz": Format(".csv.gz", compressed(COMMA), mutate_compressed, peer_text),
    "mtx.gz": Format(".mtx.gz", compressed(good_mtx), mutate_compressed, peer_mtx),
    "svm.gz": Format(".svm.gz", compressed(good_svmlight), mutate_compressed, peer_svmlight, LABELS),
}


# ---- trials -----------------------------------------------------------------------------------


def made(name: str, seed: int, trial: int) -> tuple[bytes, str]:
    """Make the file of a trial, and choose the member to read."""
    form = FORMATS[name]
    rng = np.random.default_rng([seed, list(FORMATS).index(name), trial])
    content = form.mutate(rng, form.good(rng))
    return content, str(rng.choice(form.members))


def tried(name: str, content: bytes, member: str, path: Path) -> tuple[str, str]:
    """How a trial ends, and what is said."""
    path.write_bytes(content)
    try:
        code, out, err = run(["solve", "svd", f"{path}{member}", "-k", "1", "--no-progress"])
    except Exception as error:  # noqa: BLE001  # whatever comes out of the command is what is looked for
        return "raw", f"{type(error).__name__}: {error}"
    said = err.strip().splitlines()
    last = said[-1] if said else ""
    if code == 70:
        return "rc 70", last
    if code == 2 and last.startswith("Error: ") and all(line.isprintable() for line in said):
        return ("out of memory" if "out of memory" in last else "refused"), last
    if code != 0 or not all(line.isprintable() for line in (*said, *out.splitlines())):
        return "raw", f"exit code {code}: {err.strip() or out.strip()}"
    values = re.search(r"^singular values +(.*)$", out, re.MULTILINE)
    if values is None and "rank deficient" in out:
        return ("read", "") if member else compared(name, path)  # a matrix of zeros
    if values is None or not all(map(np.isfinite, map(float, values[1].split()))):
        return "silent", f"the answer is {values and values[1]!r}"
    return ("read", "") if member else compared(name, path)


def run(args: list[str]) -> tuple[int, str, str]:
    """The command in this process."""
    from linspec.cli import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(args, prog_name="linspec")
    except SystemExit as ending:
        return int(ending.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def compared(name: str, path: Path) -> tuple[str, str]:
    """Compare what linspec reads with another reader; return how it ended, and the details."""
    from linspec.cli.data import read

    found: Any = read(str(path))
    if found.shape[0] * found.shape[-1] > COMPARED:
        return "read", ""
    found = found.dense() if hasattr(found, "dense") else np.asarray(found)
    try:
        with contextlib.redirect_stderr(io.StringIO()), np.errstate(all="ignore"):
            expected = FORMATS[name].peer(path)
    except Exception as error:  # noqa: BLE001  # a reader of another library
        return "lone", f"{type(error).__name__}: {error}"
    if expected is None:
        return "read", ""
    if found.shape != expected.shape or not np.allclose(
        found.astype(float), expected.astype(float), rtol=1e-14, atol=0, equal_nan=True
    ):
        return "silent", f"{found.tolist()} and {expected.tolist()}"
    return "read", ""


def work(name: str, seed: int, trials: range, folder: Path, pipe: int) -> None:
    """Run trials in a child, and report each ending as soon as it is known."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for trial in trials:
        content, member = made(name, seed, trial)
        path = folder / f"{trial}{FORMATS[name].suffix}"
        ending, said = tried(name, content, member, path)
        path.unlink()
        os.write(pipe, (json.dumps([trial, ending, said[:2000]]) + "\n").encode())


def outcomes(name: str, seed: int, trials: int, seconds: float = SECONDS) -> Iterator[tuple[int, str, str]]:
    """The endings of trials 0, 1, ... of a format: number, ending, what was said."""
    run(["solve", "svd", "--help"])  # what the children have in common is loaded once
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        while done < trials:
            child, pipe = started(name, seed, range(done, trials), Path(folder))
            late, rest = False, b""
            try:
                while not late:
                    late = not select.select([pipe], [], [], seconds)[0]
                    piece = b"" if late else os.read(pipe, 2**16)
                    if not piece:
                        break
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        number, ending, said = json.loads(line)
                        done = number + 1
                        yield number, ending, said
            finally:
                if late:
                    os.kill(child, signal.SIGKILL)
                os.close(pipe)
                _, status = os.waitpid(child, 0)
            if done < trials:
                yield done, ("hang" if late else "crash"), f"exit code {os.waitstatus_to_exitcode(status)}"
                done += 1


def started(name: str, seed: int, trials: range, folder: Path) -> tuple[int, int]:
    """Start a child that runs trials; return its number, and the pipe for its reports."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        work(name, seed, trials, folder, writing)
        os._exit(0)
    except BaseException:  # noqa: BLE001  # nothing of the parent may run in the child
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Print the table, and what was said where a trial ended badly."""
    parser = argparse.ArgumentParser(prog="python -m hostile.fuzz_files", description=__doc__)
    parser.add_argument("--trials", type=int, default=5000, help="of each format (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations (default: 0)")
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this one; may be repeated")
    parser.add_argument("--show", metavar="ENDING", help="print what was said at this ending, too")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the files of bad endings there")
    asked = parser.parse_args()
    import linspec

    print(f"{linspec.__file__}: {asked.trials} trials a format, seed {asked.seed}")
    print(f"| format | {' | '.join(ENDINGS)} | seconds |")
    print("|---" * (len(ENDINGS) + 2) + "|", flush=True)
    bad = []
    for name in asked.format or FORMATS:
        counts: Counter[str] = Counter()
        begun = time.perf_counter()
        for trial, ending, said in outcomes(name, asked.seed, asked.trials):
            counts[ending] += 1
            if ending not in GOOD or ending == asked.show:
                bad.append((name, trial, ending, said))
        took = time.perf_counter() - begun
        print(
            f"| {name} | {' | '.join(str(counts[ending]) for ending in ENDINGS)} | {took:.0f} |", flush=True
        )
    for name, trial, ending, said in bad:
        print(f"{ending}: {name} {trial}: {said[:300]!r}")
        if asked.keep:
            asked.keep.mkdir(exist_ok=True)
            content, _ = made(name, asked.seed, trial)
            (asked.keep / f"{name}-{trial}{FORMATS[name].suffix}").write_bytes(content)
    sys.exit(any(ending in BAD for _, _, ending, _ in bad))


if __name__ == "__main__":
    main()
