"""Files of rows: read where they lie, in any order and offset, and given back page by page."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from linspec import Moments, as_operator
from linspec.blocks import base
from linspec.errors import NonFiniteData, UnsupportedData
from linspec.operators import CombinedColumns, MappedOperator, open_rows

N, P = 211, 8
RNG = np.random.default_rng(0)
M = RNG.standard_normal((N, P))


def test_a_file_whose_bytes_are_of_another_format_is_not_said_to_have_an_unknown_ending(tmp_path):
    path = tmp_path / "x.npy"
    path.write_text("1,2\n3,4\n")
    with pytest.raises(UnsupportedData, match=r"the bytes are not of that format"):
        open_rows(path)
    path = path.rename(tmp_path / "x.unknown")
    with pytest.raises(UnsupportedData, match=r"no plugin knows files that end in '\.unknown'.*\.npy"):
        open_rows(path)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make many blocks, and as many releases, of 211 rows."""
    monkeypatch.setattr(base, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(base, "FEWEST_ROWS", 1)


def mapped(folder, array, *, mode="r", offset=0, order="C"):
    """A memory map of a raw file with some bytes in front."""
    path = folder / "raw"
    with path.open("wb") as file:
        file.write(b"x" * offset)
        file.write(array.tobytes(order=order))
    return np.memmap(path, array.dtype, mode, offset, array.shape, order)


def check(A, X, rtol=1e-12):
    n, p = X.shape
    V, U = RNG.standard_normal((p, 3)), RNG.standard_normal((n, 2))
    last = n - 1
    scale = np.abs(X).max() * 100
    for _ in range(2):  # pages that were released are read again
        np.testing.assert_allclose(A.matmat(V), X @ V, rtol=rtol, atol=rtol * scale)
        np.testing.assert_allclose(A.rmatmat(U), X.T @ U, rtol=rtol, atol=rtol * scale)
        np.testing.assert_allclose(A.dense(), X, rtol=rtol, atol=rtol * scale)
        np.testing.assert_allclose(A.H.matmat(U), X.T @ U, rtol=rtol, atol=rtol * scale)
        for rows in (slice(5, n // 2), np.array([last, 0, n // 3, n // 3])):
            np.testing.assert_allclose(A.rows(rows).matmat(V), X[rows] @ V, rtol=rtol, atol=rtol * scale)
        centred = X - X.mean(axis=0)
        B = CombinedColumns(A, X.mean(axis=0))
        np.testing.assert_allclose(B.matmat(V), centred @ V, rtol=rtol, atol=rtol * scale)
        for form in ("implicit", "dense"):
            found = Moments(A, center=True, form=form).products(V)[0]
            np.testing.assert_allclose(found, centred.T @ (centred @ V), rtol=rtol, atol=rtol * scale * 100)
        A.release()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("offset", [0, 8, 3, 5000])
def test_memory_maps(tmp_path, order, mode, offset):
    A = as_operator(mapped(tmp_path, M, mode=mode, order=order, offset=offset))
    assert isinstance(A, MappedOperator) == (mode != "c")
    check(A, M)


def test_many_columns_in_column_order(tmp_path):
    X = RNG.standard_normal((60, 50))
    check(as_operator(mapped(tmp_path, X, order="F")), X)
    check(as_operator(mapped(tmp_path, X, order="F")[10:, ::-1]), X[10:, ::-1])


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "bool", ">f8", "float16"])
def test_dtypes(tmp_path, dtype):
    X = (M * 3).astype(dtype)
    check(as_operator(mapped(tmp_path, X)), X.astype(np.float64), 1e-12 if dtype == ">f8" else 3e-6)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("as_text", [False, True])
def test_npy_files(tmp_path, order, as_text):
    path = tmp_path / "x.npy"
    np.save(path, np.asarray(M, order=order))
    check(as_operator(str(path) if as_text else path), M)
    check(as_operator(np.load(path, mmap_mode="r")), M)


@pytest.mark.parametrize("order", ["C", "F"])
def test_column_views_of_one_map(tmp_path, order):
    """The two views share map and offset; each is read at its own place in the file, both in one pass."""
    whole = mapped(tmp_path, M, order=order, offset=24)
    X, Y = whole[:, :3], whole[:, 3:]
    check(as_operator(X), M[:, :3])
    check(as_operator(Y), M[:, 3:])
    for form in ("implicit", "dense"):
        m = Moments(X, Y, form=form)
        found = m.products(np.eye(3), np.eye(5))
        np.testing.assert_allclose(found[0], M[:, :3].T @ M[:, :3], atol=1e-11)
        np.testing.assert_allclose(found[1], M[:, :3].T @ M[:, 3:], atol=1e-11)
        assert m.passes == 1
    check(as_operator(whole[100:, ::2]), M[100:, ::2])
    check(as_operator(whole[::-1]), M[::-1])
    check(as_operator(whole.T[1:]), M.T[1:])


def test_changes_to_a_private_map_survive(tmp_path):
    """A release would drop the very pages that hold them."""
    private = mapped(tmp_path, M, mode="c")
    private[3] = 7.0
    changed = np.array(private)
    for view in (private, private[:, :4], np.asarray(private)):
        A = as_operator(view)
        assert not isinstance(A, MappedOperator)
        A.matmat(np.ones((view.shape[1], 1)))
        A.release()
    assert np.array_equal(private, changed)


def test_changes_to_a_shared_map_survive(tmp_path):
    shared = mapped(tmp_path, M, mode="r+")
    shared[3] = 7.0
    A = as_operator(shared)
    A.matmat(np.ones((P, 1)))
    A.release()
    assert (shared[3] == 7.0).all()
    assert A.matmat(np.eye(P))[3, 0] == 7.0
    del shared, A
    assert (np.fromfile(tmp_path / "raw").reshape(N, P)[3] == 7.0).all()


def test_the_file_is_not_modified(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, M)
    before = path.read_bytes()
    Moments(path, center=True, form="implicit").products(np.eye(P))
    Moments(path, center=True, form="dense").dense()
    assert path.read_bytes() == before


# ---- what is not a file of rows ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["complex128", "U3"])
def test_files_of_other_dtypes_are_refused(tmp_path, dtype):
    np.save(tmp_path / "x.npy", M.astype(dtype))
    with pytest.raises(UnsupportedData, match=r"^X must .*; got dtype"):
        as_operator(tmp_path / "x.npy", "X")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_a_bad_entry_of_a_file_is_located(tmp_path, order, form):
    X = M.copy()
    X[150, 6] = -np.inf
    whole = mapped(tmp_path, X, order=order)
    with pytest.raises(NonFiniteData, match=r"^X must be finite; got -inf at row 150, column 6"):
        Moments(whole, form=form).products(np.eye(P))
    with pytest.raises(NonFiniteData, match=r"^Y must be finite; got -inf at row 150, column 2"):
        Moments(whole[:, :4], whole[:, 4:], form=form, center=True).products(np.eye(4), np.eye(4))


# ---- memory -------------------------------------------------------------------------------------------

SWEEPS = """
    import resource, sys
    import numpy as np
    import linspec
    from linspec import Moments

    order, form, center = sys.argv[2], sys.argv[3], sys.argv[4] == "True"
    data = np.memmap(sys.argv[1], np.float32, "r", 0, (500_000, 100), order)
    Moments(np.ones((50, 4)), np.ones((50, 4)), center=True).products(np.eye(4), np.eye(4))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    m = Moments(data[:, :60], data[:, 60:], center=center, form=form)
    m.products(np.eye(60, 10), np.eye(40, 10))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "rows"
    with path.open("wb") as file:
        for _ in range(50):
            file.write(RNG.random(1_000_000, np.float32).tobytes())
    yield path
    path.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.slow(keep=2)
def test_a_sweep_does_not_fill_the_memory(large_file, order, form, center):
    """200 MB of file; what is resident at the peak is a few blocks."""
    command = [sys.executable, "-c", textwrap.dedent(SWEEPS), str(large_file), order, form, str(center)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 100
