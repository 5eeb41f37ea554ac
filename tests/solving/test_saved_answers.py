"""Answers in files: they come back with the same bits, in later versions, and broken files are refused in one line."""

from __future__ import annotations

import dataclasses
import io
import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from files_of_answers import changed_header, put_together, taken_apart
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
from tests.fixtures.write_fixtures import FOLDER, continued, data, problems


def same(one: Any, other: Any, where: str = "") -> None:
    """Refuse what differs in a bit, in dtype or in class."""
    if scipy.sparse.issparse(one):
        assert (one != other).nnz == 0, where
    elif hasattr(one, "dtype") and hasattr(one, "shape"):
        one, other = to_host(one), to_host(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.tobytes() == other.tobytes(), where
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


def again(solution: Any, path: Any) -> Any:
    """The answer that a file of an answer has."""
    solution.save(path)
    return ls.load_solution(path)


@dataclass(frozen=True)
class Shifted(Kernel):
    """xᵀz + c, a kernel of somebody else's."""

    c: float = 1.0

    def diagonal(self, X):
        return (X * X).sum(axis=1) + self.c

    def tile(self, X, Z, sx=None, sz=None):
        return X @ Z.T + self.c


X, Y, Z = (np.random.default_rng(p).standard_normal((60, p)) for p in (4, 3, 2))
SPARSE = scipy.sparse.csr_array(X), scipy.sparse.csc_array(Y)
DENSE, LANDMARKS, FEATURES = (X, Y), ("nystrom-kcca", {"landmarks": 20}), ("rff-kcca", {"features": 20})


def of_kernel(kernel: Any, data: Any = DENSE) -> Any:
    return ls.KernelCCA(*data, 2, kernel, ridge=0.1)


STATED: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "confounds of two": (ls.CCA(X, Y, k=2, ridge=0.1, confounds=Z, scale=True), "auto", {}),
    "confounds of one": (ls.SVD(X, k=2, center=True, confounds=Z, scale=True), "auto", {}),
    "a path": (ls.LeastSquares(X, Y, ridge=[0.1, 1.0], center=True, confounds=Z), "auto", {}),
    "a kernel of one's own": (of_kernel(Shifted(2.0)), "kcca", {}),
    "polynomial": (of_kernel(ls.kernels.polynomial(3)), "kcca", {}),
    "linear": (of_kernel(ls.kernels.linear(), SPARSE), "kcca", {}),
    "landmarks": (of_kernel(ls.kernels.rbf(2.0)), *LANDMARKS),
    "sparse landmarks": (of_kernel(ls.kernels.rbf(), SPARSE), *LANDMARKS),
    "features of rbf": (of_kernel(ls.kernels.rbf(), SPARSE), *FEATURES),
    "features of laplacian": (of_kernel(ls.kernels.laplacian()), *FEATURES),
}
QUICK = {"deep-cca": ("dcca", {"width": 8, "epochs": 3})}
"""What is left at its default takes too long here."""


@pytest.mark.parametrize("case", [*ls.problems(), *STATED])
def test_an_answer_comes_back_with_the_same_bits(case, tmp_path):
    if case == "deep-cca":
        pytest.importorskip("torch", reason="no torch")
    if case in STATED:
        problem, solver, options = STATED[case]
    else:
        problem, (solver, options) = planted_case(case).state(), QUICK.get(case, ("auto", {}))
    solution = ls.solve(problem, solver, rng=0, **options)
    loaded = again(solution, tmp_path / "answer.npz")
    same(solution, loaded)
    assert repr(loaded) == repr(solution)
    with np.load(tmp_path / "answer.npz", allow_pickle=False) as file:  # by the names of the fields
        for field in dataclasses.fields(solution):
            if isinstance(getattr(solution, field.name), np.ndarray):
                same(file[field.name], getattr(solution, field.name))
        assert not any(file[name].dtype.hasobject for name in file.files)


def test_a_function_as_kernel_is_refused_before_anything_is_written(tmp_path):
    solution = ls.solve(of_kernel(lambda a, b: a @ b.T), "kcca")
    with pytest.raises(CannotSave, match=r"kernel\.of cannot be saved.*function.*class of your own"):
        solution.save(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())


def test_weights_come_back_as_numpy_and_go_where_they_are_wanted(tmp_path):
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")
    A, B = (strict.asarray(view, device=device) for view in DENSE)
    solution = ls.solve(ls.LeastSquares(A, B, center=True))
    plain = again(solution, tmp_path / "a.npz")
    assert all(isinstance(array, np.ndarray) for array in (plain.x, plain.a_mean, plain.b_mean))
    placed = ls.load_solution(tmp_path / "a.npz", like=A)
    assert placed.x.device == placed.a_mean.device == placed.predict(A).device == device
    same(placed.predict(A), solution.predict(A))
    same(plain.predict(A), solution.predict(A))
    with pytest.raises(InvalidOption, match="like must be an array"):
        ls.load_solution(tmp_path / "a.npz", like=3)


# ---- older versions ---------------------------------------------------------------------------

VERSIONS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0].isdigit())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", list(problems()))
def test_an_answer_of_an_older_version_is_read_and_applied(version: str, name: str) -> None:
    """The problems are solved anew, and the answers agree, up to the accuracy that both state."""
    problem = problems()[name]
    old, new = ls.load_solution(FOLDER / version / f"{name}.npz"), ls.solve(problem, rng=0)
    assert type(old) is type(new)
    assert (old.status, old.column_names) == (new.status, new.column_names)
    beside = {} if problem.confounds is None else {"confounds": problem.confounds}
    method = "predict" if name == "least-squares" else "transform"
    rows = data()[: 2 if name.endswith("cca") else 1]
    found = [getattr(answer, method)(*rows, **beside) for answer in (old, new)]
    rough = (
        1e-2 if name == "preimage-cca" else 1e-8
    )  # its residual, 8e-5, is a length of a projected gradient
    for one, other in zip(*(part if isinstance(part, tuple) else (part,) for part in found), strict=True):
        one, other = to_host(one), to_host(other)
        np.testing.assert_allclose(one, other, rtol=rough, atol=rough * np.abs(other).max())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", list(continued()))
def test_a_checkpoint_of_an_older_version_goes_on(version: str, name: str) -> None:
    problem, solver, options = continued()[name]
    whole = ls.load_solution(FOLDER / version / f"{name}-whole.npz")
    found = ls.solve(problem, solver, rng=0, start=FOLDER / version / f"{name}.ckpt", **options)
    assert found.status is whole.status
    assert found.iterations <= whole.iterations
    value = whole.layout.value
    np.testing.assert_allclose(getattr(found, value), getattr(whole, value), rtol=10 * whole.tol)


def test_the_running_version_has_its_fixtures() -> None:
    """`python tests/fixtures/write_fixtures.py` writes them when the version is raised."""
    assert ls.__version__ in VERSIONS
    assert (FOLDER / ls.__version__ / "als.ckpt").exists()


# ---- broken and hostile files -----------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "a.npz"
    ls.solve(of_kernel("rbf"), "kcca").save(path)
    return path.read_bytes()


def refused(path, content: bytes, *said: str) -> None:
    """Refuse a file that is read, or that is refused in another way than by one line."""
    path.write_bytes(content)
    with pytest.raises(LinspecError) as found:
        ls.load_solution(path)
    message = str(found.value)
    assert isinstance(found.value, InvalidFile | InvalidProblem | MissingPackage)
    assert "\n" not in message
    assert len(message) < 700
    assert all(text in message for text in said), message


def test_a_plugin_that_is_missing_is_named(tmp_path, sound):
    (tmp_path / "a.npz").write_bytes(sound)
    code = f"import linspec as ls; ls.load_solution({str(tmp_path / 'a.npz')!r})"
    environment = {**os.environ, "LINSPEC_DISABLE_PLUGINS": "linspec:kernel"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    said = done.stderr.strip().splitlines()[-1]
    assert "MissingPackage" in said
    assert "of the class 'linspec_kernel:KernelCCASolution'" in said
    assert "Install or enable its plugin" in said


CHANGED = "has been changed since it was written"
HEADERS: list[tuple[str, Any, str]] = [
    ("format", 2, "it has format 2, and this version reads 1"),
    ("class", "os:system", "not known here"),
    ("fields/residual", 0.0, CHANGED),
    ("fields/x_map/parts/kernel/parts/scale", 2.0, CHANGED),
    ("fields/x_map/object", "subprocess:Popen", CHANGED),
    ("digest", "0", CHANGED),
    ("digest", ..., "digest"),
]


def test_a_file_with_a_header_or_arrays_that_are_wrong_is_refused(sound, tmp_path):
    path = tmp_path / "a.npz"
    for where, value, said in HEADERS:
        refused(path, changed_header(sound, where, value), said)
    header, arrays = taken_apart(sound)
    for weights in (np.ones((60, 3)), np.full((60, 2), np.nan)):
        refused(path, put_together(header, {**arrays, "x_weights": weights}), CHANGED)
    del arrays["x_weights"]
    refused(path, put_together(header, arrays), "x_weights is not a file")


@pytest.mark.parametrize("field", ["message", "solver", "problem", "residual_kind"])
def test_no_text_of_a_file_acts_on_a_terminal(field):
    solution = ls.solve(ls.SVD(np.diag([3.0, 2.0, 1.0]), k=2))
    found = type(solution).from_saved_parts({**solution.saved_parts(), field: "a\x1b[2J\r\x07\u202eb"})
    assert getattr(found, field) == r"a\x1b[2J\r\x07\u202eb"
    shown = "\n".join([repr(found), str(found), str(found.summary())])
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(shown)


def test_bytes_that_flip_are_refused_or_change_nothing(sound, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "a.npz"
    path.write_bytes(sound)
    whole = ls.load_solution(path)
    for _ in range(60):
        content = bytearray(sound)
        content[rng.integers(len(content))] ^= rng.integers(1, 256)
        path.write_bytes(content)
        with suppress(InvalidFile, InvalidProblem, MissingPackage):
            same(ls.load_solution(path), whole)


def with_entry(content: bytes, name: str, entry: bytes, how: int = zipfile.ZIP_STORED) -> bytes:
    """The file with other bytes for one entry."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        for each in old.namelist():
            new.writestr(each, entry if each == name else old.read(each), how if each == name else None)
    return stream.getvalue()


def header_of(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_bytes_that_are_wrong_are_refused(sound, tmp_path):
    path = tmp_path / "a.npz"
    flipped = bytearray(sound)
    flipped[sound.index(b"x_weights.npy") + 300] ^= 1
    for content in (b"", b"PK", b"nothing", sound[:1000], sound[:-30], sound[200:], bytes(flipped)):
        refused(path, content)
    np.savez(path, a=np.ones(3))
    refused(path, path.read_bytes(), "no entry 'linspec'")
    np.savez(path, linspec=np.array([object()]), a=np.ones(3))
    refused(path, path.read_bytes())
    for entry in (b"", b"{}", header_of("(2,)", "'|u1'") + b"[]", header_of("(3,)", "'|u1'") + b"\xff{}"):
        refused(path, with_entry(sound, "linspec.npy", entry))
    for shape in ("(1000000000, 1000000000)", "(-60, -2)", "(60, 3)", "'ab'", "(60, 2), open('x', 'w')"):
        refused(path, with_entry(sound, "x_weights.npy", header_of(shape) + bytes(960)))
    refused(path, with_entry(sound, "x_weights.npy", header_of("(60, 2)", "'|O'") + bytes(960)))


def test_what_would_expand_is_refused_before_it_is_read(sound, tmp_path):
    path = tmp_path / "a.npz"
    bomb = header_of("(40000000,)") + bytes(30_000_000)
    refused(path, with_entry(sound, "x_weights.npy", bomb, zipfile.ZIP_DEFLATED), "it is compressed")
    text = header_of("(30000000,)", "'|u1'") + b" " * 30_000_000
    refused(path, with_entry(sound, "linspec.npy", text, zipfile.ZIP_DEFLATED), "it is compressed")
    deep = header_of("(200000,)", "'|u1'") + b"[" * 200_000
    refused(path, with_entry(sound, "linspec.npy", deep))


def test_what_is_no_file_is_refused(tmp_path):
    made = {"none.npz": "there is no such file", ".": "it is a folder"}
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        made["pipe"] = "it is a pipe"
    for name, words in made.items():
        with pytest.raises(InvalidProblem, match=words):
            ls.load_solution(tmp_path / name)
