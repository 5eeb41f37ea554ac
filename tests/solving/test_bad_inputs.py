"""Every bad input ends in one clear error of ours before any work is lost."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
Y = RNG.standard_normal((30, 3))


def cca(X: Any = X, Y: Any = Y, k: Any = 2, solver: Any = "gram", ridge: Any = 0.0, **options: Any) -> Any:
    """The call that every case varies in one place."""
    return ls.solve(ls.CCA(X, Y, k, ridge=ridge), solver, **options)


def with_entry(value: float) -> np.ndarray:
    """X with one entry replaced."""
    bad = X.copy()
    bad[7, 2] = value
    return bad


def by_products(A: np.ndarray) -> Any:
    """A SciPy operator that knows nothing but its products."""
    return scipy.sparse.linalg.aslinearoperator(A)


def strict(A: np.ndarray, device: str = "CPU_DEVICE") -> Any:
    """An array of another library."""
    import array_api_strict as xp

    return xp.asarray(A, device=xp.Device(device))


def truncated(folder: Path) -> Path:
    """A .npz cut in the middle."""
    whole = io.BytesIO()
    np.savez(whole, A=X)
    path = folder / "cut.npz"
    path.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    return path


def pickled(folder: Path) -> Path:
    """A .npz that holds pickled objects."""
    path = folder / "objects.npz"
    np.savez(path, A=np.array([{"a": 1}, None], dtype=object))
    return path


def prose(folder: Path) -> Path:
    """A text file that is not numbers."""
    path = folder / "prose.csv"
    path.write_text("it was, the best\nof times, it was\n")
    return path


def no_archive(folder: Path) -> Path:
    """A zip archive without arrays."""
    path = folder / "empty.npz"
    with zipfile.ZipFile(path, "w"):
        pass
    return path


CALLS: dict[str, Callable[[], Any]] = {
    "NaN": lambda: cca(with_entry(np.nan)),
    "infinity": lambda: cca(with_entry(np.inf)),
    "NaN in a sparse matrix": lambda: cca(scipy.sparse.csr_matrix(with_entry(np.nan))),
    "mismatched rows": lambda: cca(X[:20]),
    "k too large": lambda: cca(k=4),
    "k = 0": lambda: cca(k=0),
    "k not an integer": lambda: cca(k=2.5),
    "k = True": lambda: cca(k=True),
    "negative ridge": lambda: cca(ridge=-1.0),
    "ridge NaN": lambda: cca(ridge=np.nan),
    "ridge of three numbers": lambda: cca(ridge=(1, 2, 3)),
    "complex": lambda: cca(X + 1j),
    "object dtype": lambda: cca(X.astype(object)),
    "string dtype": lambda: cca(X.astype(str)),
    "0 rows": lambda: cca(X[:0], Y[:0]),
    "0 columns": lambda: cca(X[:, :0]),
    "1-D": lambda: cca(X[:, 0]),
    "3-D": lambda: cca(X[:, :, None]),
    "a list of texts": lambda: cca(X.astype(str).tolist()),
    "no Y": lambda: ls.CCA(X, k=2),
    "not a problem": lambda: ls.solve(X, "gram"),
    "unknown solver": lambda: cca(solver="gramm"),
    "a solver of another problem": lambda: cca(solver="cg"),
    "unknown option": lambda: cca(solver="als", tolerance=1e-3),
    "option out of range": lambda: cca(solver="als", tol=-1.0),
    "option of a wrong type": lambda: cca(solver="als", max_iterations=2.5),
    "unknown part": lambda: cca(solver="als", lstsq="conjugate-gradients"),
    "options beside an instance": lambda: cca(solver=ls.get_solver("als", "cca")(), tol=1e-3),
    "options for auto": lambda: cca(solver="auto", max_iterations=3),
    "max_passes = 0": lambda: cca(max_passes=0),
    "max_passes too small": lambda: cca(solver="als", form="implicit", max_passes=1),
    "a solver that needs entries, products only": lambda: cca(
        by_products(X), by_products(Y), solver="direct"
    ),
    "two libraries mixed": lambda: cca(X, strict(Y)),
    "two devices mixed": lambda: cca(strict(X), strict(Y, "device1")),
    "a missing file": lambda: cca("nowhere.npy"),
}

FILES: dict[str, Callable[[Path], Path]] = {
    "a truncated .npz": truncated,
    "a pickled .npz": pickled,
    "an empty .npz": no_archive,
    "a text file that is not numbers": prose,
}

SPEAKS_OF = {
    "NaN": ("X", "nan", "row 7", "column 2"),
    "infinity": ("X", "inf", "row 7", "column 2"),
    "NaN in a sparse matrix": ("X", "nan", "row 7", "column 2"),
    "mismatched rows": ("20", "30"),
    "k too large": ("between 1 and 3", "got 4"),
    "k not an integer": ("integer", "2.5"),
    "negative ridge": ("at least 0", "-1"),
    "complex": ("real", "complex128"),
    "object dtype": ("numbers", "object"),
    "unknown solver": ("gramm", "gram"),
    "unknown option": ("tolerance", "tol"),
    "option out of range": ("tol", "-1"),
    "a solver that needs entries, products only": ("direct", "entries", "gram"),
    "max_passes too small": ("at least", "passes"),
}


@pytest.mark.parametrize("case", CALLS)
def test_one_clear_error(case):
    with pytest.raises((ls.errors.LinspecError, TypeError)) as caught:
        CALLS[case]()
    message = str(caught.value)
    assert "\n" not in message.strip()
    assert len(message) > 20
    for words in SPEAKS_OF.get(case, ()):
        assert words in message


def answer_to_file(path: Path, folder: Path) -> Any:
    """Run the command line with a file as X, and return its answer."""
    from click.testing import CliRunner

    from linspec.cli import main

    np.save(folder / "Y.npy", Y)
    return CliRunner().invoke(main, ["solve", "cca", str(path), str(folder / "Y.npy"), "-k", "1"])


@pytest.mark.parametrize("case", FILES)
def test_files_in_one_line_with_exit_code_2(case, tmp_path):
    path = FILES[case](tmp_path)
    result = answer_to_file(path, tmp_path)
    assert result.exit_code == 2
    message = result.stderr.strip()
    assert path.name in message
    assert "Traceback" not in message
    assert len(message.splitlines()) == 1


def test_constant_column_is_no_error():
    """A constant column has no variance: it gets no weight, and the other answers stay."""
    constant = np.hstack([X, np.full((len(X), 1), 3.0)])
    with_it, without = cca(constant), cca(X)
    np.testing.assert_allclose(with_it.correlations, without.correlations, atol=1e-12)
    assert with_it.status is ls.Status.RANK_DEFICIENT
    assert np.abs(with_it.x_weights[-1]).max() < 1e-8
