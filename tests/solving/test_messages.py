"""Calls that make no sense end in one clear error, in few words that no terminal obeys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidProblem, LinspecError, fit_to_read

A = np.random.default_rng(0).standard_normal((30, 4))
B = A[:, :2] + 0.1

NONSENSE: dict[str, Callable[[], Any]] = {
    "labels that are a number": lambda: ls.labelled(A, 3),
    "labels without dimensions": lambda: ls.labelled(A, np.array(3)),
    "labels with two": lambda: ls.labelled(A, A),
    "a scale whose square is 0": lambda: ls.kernels.rbf(1e-300),
    "a scale whose square is infinite": lambda: ls.kernels.rbf(1e300),
    "a scale below all numbers": lambda: ls.kernels.laplacian(5e-324),
    "ridges without dimensions": lambda: ls.cross_validate(ls.LeastSquares(A, A[:, 0]), ridges=np.array(0.1)),
    "ridges of a CCA": lambda: ls.cross_validate(ls.CCA(A, B, k=1), ridges=np.array(0.1)),
    "a path without dimensions": lambda: ls.ridge_path(ls.CCA(A, B, k=1), np.array(0.1)),
    "ks without dimensions": lambda: ls.cross_validate(ls.CCA(A, B, k=1), ks=np.array(1)),
    "columns beyond all memory": lambda: ls.project(A, 10**12),
    "columns beyond all numbers": lambda: ls.project(A, 10**30),
}


@pytest.mark.parametrize("call", NONSENSE.values(), ids=list(NONSENSE))
def test_nonsense_is_an_invalid_problem(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidProblem) as told:
        call()
    assert len(str(told.value)) < 400


ECHOES: dict[str, Callable[[str], Any]] = {
    "solver": lambda text: ls.solve(ls.SVD(A, k=2), text),
    "option of auto": lambda text: ls.solve(ls.SVD(A, k=2), **{text: 1}),
    "option": lambda text: ls.solve(ls.SVD(A, k=2), "gram", **{text: 1}),
    "value": lambda text: ls.solve(ls.SVD(A, k=2), "gram", form=text),
    "parameter": lambda text: ls.SVD(A, **{text: 1}),
    "name": ls.describe,
    "problem": ls.solvers,
    "start": lambda text: ls.solve(ls.SVD(A, k=2), "block-krylov", start=text),
    "file": lambda text: ls.SVD(text + ".npy", k=2),
    "checkpoint": lambda text: ls.Checkpoint("nowhere/" + text),
    "matrix": lambda text: ls.solve(ls.SVD(A, k=2)).weights_table(text),
    "seed": lambda text: ls.solve(ls.SVD(A, k=2), rng=text),
}


@pytest.mark.parametrize("text", ["x" * 11_000, "\x1b]0;title\x07\x1b[2J\r\u202e", "a\nb"])
@pytest.mark.parametrize("call", ECHOES.values(), ids=list(ECHOES))
def test_what_is_echoed_is_cut_and_written_out(call: Callable[[str], Any], text: str) -> None:
    with pytest.raises((LinspecError, TypeError)) as told:
        call(text)
    message = str(told.value)
    assert len(message) < 2000
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(message)


def test_messages_keep_what_can_be_read() -> None:
    """Lines, words of usual length, and letters of any alphabet."""
    for message in ("XᵀX of ä, 列 1", "two\nlines", "a " * 3000, "/a/path/of/usual/length" * 10):
        assert fit_to_read(message) == message
        assert str(LinspecError(message)) == message
    assert LinspecError("a", 3).args == ("a", 3)
