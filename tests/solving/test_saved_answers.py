"""Answers in files: they come back with the same bits, in other processes, and broken files are refused in one line."""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from planted import planted_case

import linspec as ls
from linspec.arrays import to_host
from linspec.errors import (
    CannotSave,
    InvalidFile,
    InvalidOption,
    InvalidProblem,
    LinspecError,
    MissingPackage,
)
from linspec.kernels.functions import Kernel
from linspec.solving import archive

# What is left at its default takes too long here: problem -> solver and options.
QUICK = {"deep-cca": ("dcca", {"width": 8, "epochs": 3})}


def solved(problem: str) -> tuple[Any, Any]:
    """The first planted case of a problem, and its answer."""
    if problem == "deep-cca":
        pytest.importorskip("torch", reason="no torch")
    case = planted_case(problem)
    name, options = QUICK.get(problem, ("auto", {}))
    return case, ls.solve(case.state(case.arrays), name, rng=0, **options)


def same(one: Any, other: Any, where: str = "") -> None:
    """Refuse what differs in a bit, in dtype or in class."""
    if hasattr(one, "dtype") and hasattr(one, "shape") and not scipy.sparse.issparse(one):
        one, other = to_host(one), to_host(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.tobytes() == other.tobytes(), where
    elif scipy.sparse.issparse(one):
        assert (one != other).nnz == 0, where
    elif isinstance(one, float):
        assert np.float64(one).tobytes() == np.float64(other).tobytes(), where
    elif isinstance(one, tuple | list):
        assert type(one) is type(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{where}[{i}]")
    elif dataclasses.is_dataclass(one) or type(one).__module__.startswith("linspec"):
        assert type(one) is type(other), where
        for name in vars(one):
            same(getattr(one, name), getattr(other, name), f"{where}.{name}")
    else:
        assert one == other, where


def uses(solution: Any, arrays: Any) -> list[Any]:
    """Return the results of all methods of an answer that take rows."""
    rows = list(arrays.values())
    found = []
    for name in ("transform", "predict", "loadings", "score"):
        method = getattr(solution, name, None)
        if method is None or (name == "predict" and getattr(solution, "classes", 0) is None):
            continue
        views = rows if name == "score" or hasattr(solution, "x_weights") else rows[:1]
        if name == "predict" and "Y" not in inspect.signature(method).parameters:
            views = rows[:1]
        found.append(method(*views))
    return found


@pytest.mark.parametrize("problem", ls.problems())
def test_an_answer_comes_back_with_the_same_bits(problem, tmp_path):
    case, solution = solved(problem)
    solution.save(tmp_path / "answer.npz")
    again = ls.load_solution(tmp_path / "answer.npz")
    same(solution, again)
    made = uses(solution, case.arrays)
    assert made or problem not in ("cca", "svd", "discriminant", "least-squares", "kernel-cca")
    same(made, uses(again, case.arrays))
    assert repr(again) == repr(solution)
    with np.load(tmp_path / "answer.npz", allow_pickle=False) as file:  # by the names of the fields
        for field in dataclasses.fields(solution):
            value = getattr(solution, field.name)
            if isinstance(value, np.ndarray):
                same(file[field.name], value)
        assert {name: file[name].dtype.hasobject for name in file.files if file[name].dtype.hasobject} == {}


# ---- what an answer may consist of ------------------------------------------------------------


KERNELS = [
    ("rbf", ls.kernels.rbf(2.0), np.asarray),
    ("median", ls.kernels.rbf(), scipy.sparse.csr_array),
    ("polynomial", ls.kernels.polynomial(3), np.asarray),
    ("linear", ls.kernels.linear(), scipy.sparse.csc_array),
    ("laplacian", ls.kernels.laplacian(), np.asarray),
]


def views(n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((n, 2))
    return (
        shared @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((n, 4)),
        shared @ rng.standard_normal((2, 3)) + 0.1 * rng.standard_normal((n, 3)),
    )


@pytest.mark.parametrize("name, kernel, kind", KERNELS, ids=[name for name, _, _ in KERNELS])
@pytest.mark.parametrize("solver", ["kcca", "nystrom-kcca", "rff-kcca"])
def test_kernels_and_features_come_back(name, kernel, kind, solver, tmp_path):
    if solver == "rff-kcca" and name not in ("rbf", "laplacian"):
        pytest.skip("Fourier features are those of kernels of differences")
    X, Y = (kind(view) for view in views())
    options = {} if solver == "kcca" else {"landmarks" if solver == "nystrom-kcca" else "features": 20}
    problem = ls.get_problem("kernel-cca")(X, Y, 2, kernel, ridge=0.1)
    solution = ls.solve(problem, solver, rng=0, **options)
    solution.save(tmp_path / "a.npz")
    again = ls.load_solution(tmp_path / "a.npz")
    # Copies: of rows that are the training rows themselves, some BLAS forms A Aᵀ with other roundings than A Bᵀ.
    X, Y = (kind(view) for view in views())
    same(solution.transform(X, Y), again.transform(X, Y))
    assert again.kernel_x == solution.kernel_x


@dataclass(frozen=True)
class Shifted(Kernel):
    """xᵀz + c, a kernel of somebody else's."""

    c: float = 1.0

    def diagonal(self, X):
        return (X * X).sum(axis=1) + self.c

    def tile(self, X, Z, sx=None, sz=None):
        return X @ Z.T + self.c


def test_a_kernel_of_ones_own_comes_back_and_a_function_is_refused_before_anything_is_written(tmp_path):
    X, Y = views()
    KernelCCA = ls.get_problem("kernel-cca")
    solution = ls.solve(KernelCCA(X, Y, 2, Shifted(2.0), ridge=0.1), "kcca")
    solution.save(tmp_path / "a.npz")
    again = ls.load_solution(tmp_path / "a.npz")
    assert again.kernel_x == Shifted(2.0)
    X, Y = views()  # copies, see above
    same(solution.transform(X, Y), again.transform(X, Y))

    before = (tmp_path / "a.npz").read_bytes()
    by_function = ls.solve(KernelCCA(X, Y, 2, lambda a, b: a @ b.T, ridge=0.1), "kcca")
    with pytest.raises(CannotSave, match=r"kernel\.of cannot be saved.*function.*class of your own"):
        by_function.save(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_confounds_and_scale_and_paths_come_back(tmp_path):
    X, Y = views()
    Z = np.random.default_rng(5).standard_normal((60, 2))
    for problem in (
        ls.CCA(X, Y, k=2, ridge=0.1, confounds=Z, scale=True),
        ls.LeastSquares(X, Y, ridge=[0.1, 1.0], center=True, confounds=Z),
        ls.SVD(X, k=2, center=True, confounds=Z, scale=True),
    ):
        solution = ls.solve(problem)
        solution.save(tmp_path / "a.npz")
        again = ls.load_solution(tmp_path / "a.npz")
        same(solution, again)
        method = "predict" if hasattr(again, "predict") else "transform"
        same(getattr(solution, method)(X, confounds=Z), getattr(again, method)(X, confounds=Z))


def json_like(value: Any) -> Any:
    """NumPy's numbers as Python's, which is how they come back."""
    if isinstance(value, np.generic):
        return value.item()
    return type(value)(json_like(each) for each in value) if isinstance(value, tuple | list) else value


# ---- libraries and devices --------------------------------------------------------------------


def test_weights_come_back_as_numpy_and_go_where_they_are_wanted(tmp_path):
    strict = pytest.importorskip("array_api_strict")
    X, Y = views()
    device = strict.Device("device1")
    A, B = (strict.asarray(view, device=device) for view in (X, Y))
    solution = ls.solve(ls.LeastSquares(A, B, center=True))
    solution.save(tmp_path / "a.npz")
    plain = ls.load_solution(tmp_path / "a.npz")
    assert all(isinstance(array, np.ndarray) for array in (plain.x, plain.a_mean, plain.b_mean))
    placed = ls.load_solution(tmp_path / "a.npz", like=A)
    assert placed.x.device == placed.a_mean.device == device
    assert placed.predict(A).device == device
    same(placed.predict(A), solution.predict(A))
    same(plain.predict(A), solution.predict(A))
    with pytest.raises(InvalidOption, match="like must be an array"):
        ls.load_solution(tmp_path / "a.npz", like=3)


# ---- another process --------------------------------------------------------------------------


def complaint(code: str, **environment: str) -> str:
    """The last line of what another process complains of."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode != 0, done.stdout
    return done.stderr.strip().splitlines()[-1]


def test_a_plugin_that_is_missing_is_named(tmp_path):
    _, solution = solved("kernel-cca")
    solution.save(tmp_path / "a.npz")
    code = f"import linspec as ls; ls.load_solution({str(tmp_path / 'a.npz')!r})"
    said = complaint(code, LINSPEC_DISABLE_PLUGINS="linspec:kernel")
    assert "MissingPackage" in said
    assert "of the class 'linspec_kernel:KernelCCASolution'" in said
    assert "Install or enable its plugin" in said


# ---- broken and hostile files -----------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "a.npz"
    X, Y = views()
    ls.solve(ls.get_problem("kernel-cca")(X, Y, 2, "rbf", ridge=0.1), "kcca").save(path)
    return path.read_bytes()


def taken_apart(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("linspec").tobytes()), arrays


def refused(path, data: bytes, *said: str) -> None:
    """Refuse a file that is read, or that is refused in another way than by one line."""
    path.write_bytes(data)
    with pytest.raises(LinspecError) as found:
        ls.load_solution(path)
    message = str(found.value)
    assert isinstance(found.value, InvalidFile | InvalidProblem | MissingPackage)
    assert "\n" not in message
    assert len(message) < 700
    for text in said:
        assert text in message, message


def changed(data: bytes, change: Any) -> bytes:
    """The file after a change of its header or its arrays."""
    header, arrays = taken_apart(data)
    change(header, arrays)
    return put_together(header, arrays)


def put_together(header: Any, arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, linspec=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
    return stream.getvalue()


def _set(path: str, value: Any) -> Any:
    def change(header: Any, arrays: Any) -> None:
        *first, last = path.split("/")
        for name in first:
            header = header[name]
        header[last] = value

    return change


def _array(name: str, value: Any) -> Any:
    return lambda header, arrays: arrays.update({name: value})


CHANGED = ("has been changed since it was written",)
CHANGES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "newer": (_set("format", 2), ("format 2", "newer linspec")),
    "no fields": (_set("fields", []), ()),
    "another class": (_set("class", "os:system"), ("not known here",)),
    "unknown field": (_set("fields/extra", 1), CHANGED),
    "another status": (_set("fields/status", "CONVERGED "), CHANGED),
    "a number": (_set("fields/residual", 0.0), CHANGED),
    "a part of an object": (_set("fields/x_map/parts/kernel/parts/scale", 2.0), CHANGED),
    "another object": (_set("fields/x_map/object", "subprocess:Popen"), CHANGED),
    "missing array": (lambda header, arrays: arrays.pop("x_weights"), ("x_weights is not a file",)),
    "an array that is not listed": (_set("arrays", []), CHANGED),
    "another shape": (_array("x_weights", np.ones((60, 3))), CHANGED),
    "other numbers": (_array("x_weights", np.full((60, 2), np.nan)), CHANGED),
    "another digest": (_set("digest", "0"), CHANGED),
    "no digest": (lambda header, arrays: header.pop("digest"), ("digest",)),
}


@pytest.mark.parametrize("change, said", CHANGES.values(), ids=list(CHANGES))
def test_a_file_with_a_header_or_arrays_that_are_wrong_is_refused(change, said, sound, tmp_path):
    refused(tmp_path / "a.npz", changed(sound, change), *said)


@pytest.mark.parametrize("field", ["message", "solver", "problem", "residual_kind"])
def test_no_text_of_a_file_acts_on_a_terminal(field):
    solution = ls.solve(ls.SVD(np.diag([3.0, 2.0, 1.0]), k=2))
    found = type(solution).from_saved_parts({**solution.saved_parts(), field: "a\x1b[2J\r\x07\u202eb"})
    assert getattr(found, field) == r"a\x1b[2J\r\x07\u202eb"
    shown = "\n".join([repr(found), str(found), str(found.summary())])
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(shown)


def test_an_answer_without_vectors_has_not_converged():
    """There is nothing in a matrix of zeros: the residual of nothing is no evidence of anything."""
    for problem in (ls.SVD(np.zeros((20, 5)), k=2), ls.CCA(np.zeros((20, 5)), np.eye(20, 4), k=2)):
        found = ls.solve(problem)
        assert found.status is ls.Status.RANK_DEFICIENT
        assert not found.converged


ANYTHING: list[Any] = [
    None, True, -1, 1.5, "", "x_weights", [], [1, [2]], {}, {"array": "x_weights"}, {"number": "x"}, {"tuple": 5},
    {"mapping": [[1, 2]]}, {"object": "linspec:KernelMap", "parts": {}}, {"object": 1}, {"sparse": [1, 1]},
]  # fmt: skip


def places(node: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all nodes of a header."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [place for key in keys for place in ((*above, key), *places(node[key], (*above, key)))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow(keep=1)
def test_whatever_is_changed_a_file_is_read_or_refused_in_one_line(seed, sound, tmp_path):
    """Any node of the header replaced by anything, and any bytes: no other error, and what is read can be shown."""
    rng = np.random.default_rng(seed)
    path = tmp_path / "a.npz"
    for trial in range(60):
        if trial % 3:
            header, arrays = taken_apart(sound)
            ways = places(header)
            *first, last = ways[rng.integers(len(ways))]
            node = header
            for key in first:
                node = node[key]
            node[last] = ANYTHING[rng.integers(len(ANYTHING))]
            path.write_bytes(put_together(header, arrays))
        else:
            data = bytearray(sound)
            data[rng.integers(len(data))] = rng.integers(256)
            path.write_bytes(data[: len(data) if trial % 2 else rng.integers(len(data))])
        said = ""
        try:
            said = repr(ls.load_solution(path).summary()).replace("\n", " ")
        except (InvalidFile, InvalidProblem, MissingPackage) as error:
            said = str(error)
        assert said
        assert "\n" not in said


def with_entry(data: bytes, name: str, content: bytes, how: int = zipfile.ZIP_STORED) -> bytes:
    """The file with other bytes for one entry."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for entry in old.namelist():
            new.writestr(entry, content if entry == name else old.read(entry), how if entry == name else None)
    return stream.getvalue()


def header_of(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_bytes_that_are_wrong_are_refused(sound, tmp_path):
    path = tmp_path / "a.npz"
    for data in (b"", b"PK", b"nothing", sound[:1000], sound[:-30], sound[200:]):
        refused(path, data)
    flipped = bytearray(sound)
    flipped[sound.index(b"x_weights.npy") + 300] ^= 1
    refused(path, bytes(flipped))
    stream = io.BytesIO()
    np.savez(stream, a=np.ones(3))
    refused(path, stream.getvalue(), "no entry 'linspec'")
    stream = io.BytesIO()
    np.savez(stream, linspec=np.array([object()]), a=np.ones(3))
    refused(path, stream.getvalue())
    for content in (b"", b"{}", header_of("(2,)", "'|u1'") + b"[]", header_of("(3,)", "'|u1'") + b"\xff{}"):
        refused(path, with_entry(sound, "linspec.npy", content))


def test_headers_of_arrays_are_held_to_the_bytes(sound, tmp_path):
    path = tmp_path / "a.npz"
    for shape in (
        "(10**9, 10**9)",
        "(1000000000, 1000000000)",
        "(-60, -2)",
        "(60, 3)",
        "'ab'",
        "(60, 2), open('x', 'w')",
    ):
        refused(path, with_entry(sound, "x_weights.npy", header_of(shape) + bytes(960)))
    refused(path, with_entry(sound, "x_weights.npy", header_of("(60, 2)", "'|O'") + bytes(960)))


def test_what_would_expand_is_refused_before_it_is_read(sound, tmp_path):
    path = tmp_path / "a.npz"
    bomb = header_of("(40000000,)") + bytes(30_000_000)
    refused(path, with_entry(sound, "x_weights.npy", bomb, zipfile.ZIP_DEFLATED), "it is compressed")
    text = header_of("(30000000,)", "'|u1'") + b" " * 30_000_000
    refused(path, with_entry(sound, "linspec.npy", text, zipfile.ZIP_DEFLATED), "it is compressed")
    deep = b"[" * 200_000
    refused(path, with_entry(sound, "linspec.npy", header_of("(200000,)", "'|u1'") + deep))


def test_what_is_no_file_is_refused(tmp_path):
    import os

    with pytest.raises(InvalidProblem, match="there is no such file"):
        ls.load_solution(tmp_path / "none.npz")
    with pytest.raises(InvalidProblem, match="it is a folder"):
        ls.load_solution(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidProblem, match="it is a pipe"):
            ls.load_solution(tmp_path / "pipe")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    _, solution = solved("svd")
    solution.save(tmp_path / "a.npz")
    before = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "link.npz").symlink_to("a.npz")

    def fails(stream, *contents):
        stream.write(b"half")
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(archive, "write", fails)
        with pytest.raises(OSError, match="no space left"):
            solution.save(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").read_bytes() == before
    solution.save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "link.npz"]
