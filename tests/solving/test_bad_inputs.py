"""Every bad input ends in one clear error of ours, in few words that no terminal obeys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import LinspecError, fit_to_read

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
Y = RNG.standard_normal((30, 3))


def cca(X: Any = X, Y: Any = Y, k: Any = 2, solver: Any = "gram", ridge: Any = 0.0, **options: Any) -> Any:
    """The call that every case varies in one place."""
    return ls.solve(ls.CCA(X, Y, k, ridge=ridge), solver, **options)


def strict(A: np.ndarray, device: str = "CPU_DEVICE") -> Any:
    import array_api_strict as xp

    return xp.asarray(A, device=xp.Device(device))


CALLS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "mismatched rows": (lambda: cca(X[:20]), ("20", "30")),
    "k too large": (lambda: cca(k=4), ("between 1 and 3", "got 4")),
    "ridge of three numbers": (lambda: cca(ridge=(1, 2, 3)), ()),
    "a list of texts": (lambda: cca(X.astype(str).tolist()), ()),
    "no Y": (lambda: ls.CCA(X, k=2), ()),
    "not a problem of select": (lambda: ls.select(X), ("linspec.CCA", "ndarray")),
    "unknown solver": (lambda: cca(solver="gramm"), ("gramm", "gram")),
    "a solver of another problem": (lambda: cca(solver="cg"), ()),
    "unknown option": (lambda: cca(solver="als", tolerance=1e-3), ("tolerance", "tol")),
    "unknown part": (lambda: cca(solver="als", lstsq="conjugate-gradients"), ()),
    "options beside an instance": (lambda: cca(solver=ls.get_solver("als", "cca")(), tol=1e-3), ()),
    "options for auto": (lambda: cca(solver="auto", max_iterations=3), ()),
    "max_passes too small": (
        lambda: cca(solver="als", form="implicit", max_passes=1),
        ("at least", "passes"),
    ),
    "a solver that needs entries, products only": (
        lambda: cca(aslinearoperator(X), aslinearoperator(Y), solver="direct"),
        ("direct", "entries", "gram"),
    ),
    "two libraries mixed": (lambda: cca(X, strict(Y)), ()),
    "two devices mixed": (lambda: cca(strict(X), strict(Y, "device1")), ()),
    "labels that are a number": (lambda: ls.labelled(X, 3), ()),
    "labels with two dimensions": (lambda: ls.labelled(X, X), ()),
    "a scale whose square is 0": (lambda: ls.kernels.rbf(1e-300), ()),
    "ridges without dimensions": (lambda: ls.cross_validate(ls.CCA(X, Y, 1), ridges=np.array(0.1)), ()),
    "ks without dimensions": (lambda: ls.cross_validate(ls.CCA(X, Y, 1), ks=np.array(1)), ()),
    "columns beyond all memory": (lambda: ls.project(X, 10**12), ()),
}


@pytest.mark.parametrize("case", CALLS)
def test_one_clear_error(case: str) -> None:
    call, words = CALLS[case]
    with pytest.raises((LinspecError, TypeError)) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message.strip()
    assert 20 < len(message) < 1000
    assert all(word in message for word in words), message


ECHOES: dict[str, Callable[[str], Any]] = {
    "solver": lambda text: ls.solve(ls.SVD(X, k=2), text),
    "option of auto": lambda text: ls.solve(ls.SVD(X, k=2), **{text: 1}),
    "option": lambda text: ls.solve(ls.SVD(X, k=2), "gram", **{text: 1}),
    "value": lambda text: ls.solve(ls.SVD(X, k=2), "gram", form=text),
    "parameter": lambda text: ls.SVD(X, **{text: 1}),
    "name": ls.describe,
    "problem": ls.solvers,
    "start": lambda text: ls.solve(ls.SVD(X, k=2), "block-krylov", start=text),
    "file": lambda text: ls.SVD(text + ".npy", k=2),
    "checkpoint": lambda text: ls.Checkpoint("nowhere/" + text),
    "matrix": lambda text: ls.solve(ls.SVD(X, k=2)).weights_table(text),
    "seed": lambda text: ls.solve(ls.SVD(X, k=2), rng=text),
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
