"""Saved answers and checkpoints of released versions are read by this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.arrays import to_host
from tests.fixtures.write_fixtures import FOLDER, continued, data, problems

VERSIONS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0].isdigit())

SCORED = {"least-squares": "predict"}
"""The method that is applied to rows, where it is not `transform`."""


def rows_of(name: str) -> tuple[Any, ...]:
    X, Y, _ = data()
    return (X, Y) if name.endswith("cca") else (X,)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", list(problems()))
def test_an_answer_of_an_older_version_is_read_and_applied(version: str, name: str) -> None:
    """The problems are solved anew, and the answers agree, up to the accuracy that both state."""
    problem = problems()[name]
    old, new = ls.load_solution(FOLDER / version / f"{name}.npz"), ls.solve(problem, rng=0)
    assert type(old) is type(new)
    assert (old.status, old.column_names) == (new.status, new.column_names)
    beside = {} if problem.confounds is None else {"confounds": problem.confounds}
    method = SCORED.get(name, "transform")
    found = [getattr(answer, method)(*rows_of(name), **beside) for answer in (old, new)]
    rough = (
        1e-2 if name == "preimage-cca" else 1e-8
    )  # its residual, 8e-5, is a length of a projected gradient
    for one, other in zip(*(part if isinstance(part, tuple) else (part,) for part in found), strict=True):
        np.testing.assert_allclose(
            to_host(one), to_host(other), rtol=rough, atol=rough * np.abs(to_host(other)).max()
        )


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
    assert Path(FOLDER / ls.__version__ / "als.ckpt").exists()
