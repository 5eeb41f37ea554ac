"""Files that earlier releases have written are read: answers with the same numbers, checkpoints that go on."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import AccuracyWarning, InvalidFile

FIXTURES = Path(__file__).parents[1] / "fixtures"
RELEASES = sorted(path.stem for path in FIXTURES.glob("*.zip"))
ANSWERS = ("svd", "cca", "least-squares", "discriminant", "kernel-cca", "preimage-cca")
CHECKPOINTS = ("block-krylov", "als")


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("written", FIXTURES / "written.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["written"] = module
    spec.loader.exec_module(module)
    return module


written = _script()


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder with the files of a release."""
    with zipfile.ZipFile(FIXTURES / f"{request.param}.zip") as bundle:
        bundle.extractall(tmp_path / request.param)
    return tmp_path / str(request.param)


@contextmanager
def _other_threads() -> Iterator[None]:
    """Other numbers of BLAS threads than those of the machine that wrote the files are reported."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "was written with|.*threads of the BLAS", AccuracyWarning)
        yield


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=rtol, atol=1e-14)


def test_the_first_release_is_here() -> None:
    assert "0.1.0" in RELEASES
    assert sum(path.stat().st_size for path in FIXTURES.glob("0.1.0*")) < 40_000


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_with_its_numbers_and_makes_scores(name: str, release: Path) -> None:
    answer = ls.load_solution(release / f"{name}.npz")
    expected = json.loads((release / "expected.json").read_text("utf-8"))[name]
    assert answer.converged
    for field in expected.keys() - {"scores", "intercept"}:  # stored, so their bits are the same
        np.testing.assert_array_equal(getattr(answer, field), expected[field])
    found = written.numbers_of(name, answer)
    assert found.keys() == expected.keys()
    for one, other in zip(found["scores"], expected["scores"], strict=True):
        close(one, other)
    assert answer.summary()
    assert repr(answer)


def test_numbers_of_read_answers_are_those_of_numpy(release: Path) -> None:
    """Guards the expected numbers themselves, which came from the version that wrote the files."""
    X, Y = written.views()
    svd, least, cca = (ls.load_solution(release / f"{name}.npz") for name in ("svd", "least-squares", "cca"))
    centred, targets = X - X.mean(axis=0), Y[:, :2] - Y[:, :2].mean(axis=0)
    U, S, Vh = np.linalg.svd(centred, full_matrices=False)
    close(svd.S, S[:2], 1e-10)
    np.testing.assert_allclose(np.abs(svd.Vh @ Vh[:2].T), np.eye(2), atol=1e-10)
    np.testing.assert_allclose(np.abs(svd.transform(X)), np.abs(U[:, :2] * S[:2]), rtol=1e-8, atol=1e-10)
    for ridge, x in zip(written.RIDGES, least.x, strict=True):
        exact = np.linalg.solve(centred.T @ centred + ridge * np.eye(written.P), centred.T @ targets)
        close(x, exact, 1e-10)
    images = least.predict(X)
    close(images[0], centred @ least.x[0] + Y[:, :2].mean(axis=0), 1e-10)
    scores = cca.transform(X, Y)
    assert abs(np.corrcoef(scores[0][:, 0], scores[1][:, 0])[0, 1]) > 0.9 * cca.correlations[0]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_goes_on_or_is_refused_as_promised(name: str, release: Path) -> None:
    """The page on stability: the version that wrote a file goes on with it; another one may refuse it."""
    problem, solver, options = written.runs()[name]
    whole = ls.solve(problem, solver, rng=0, **options)
    try:
        with _other_threads():
            found = ls.solve(problem, solver, start=release / f"{name}.ckpt", rng=0, **options)
    except InvalidFile:
        assert release.name != ls.__version__.partition(".dev")[0], "its own files it must read"
        return
    assert found.converged
    field = "S" if name == "block-krylov" else "correlations"
    close(getattr(found, field), getattr(whole, field), 1e-9)
    assert found.passes == whole.passes, "it has not begun anew"


def test_files_of_a_release_are_not_written_over() -> None:
    if ls.__version__ not in RELEASES:
        pytest.skip("this version has written no files yet")
    before = (FIXTURES / f"{ls.__version__}.zip").read_bytes()
    with pytest.raises(FileExistsError):
        written.main()
    assert (FIXTURES / f"{ls.__version__}.zip").read_bytes() == before
