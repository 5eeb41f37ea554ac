"""Moments in place of data: products against NumPy, what is held, passes, and problems that share them."""

from __future__ import annotations

import re
from typing import Any

import array_api_strict
import fuzz
import numpy as np
import pytest
from backends import BACKENDS

import linspec as ls
from linspec import rows
from linspec.arrays import to_host
from linspec.errors import InvalidOption, InvalidProblem, UnsupportedData

N, P, Q = 400, 6, 3
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((N, P)) + 1.0, RNG.standard_normal((N, Q))
A[:, :Q] += B
V, W = RNG.standard_normal((P, 2)), RNG.standard_normal((Q, 2))
CENTRED = A - A.mean(axis=0), B - B.mean(axis=0)

NAMES = "numpy", "array-api-strict", "scipy-csr", "scipy-operator", "cupy", "slices", "blocks"
KINDS = {each.name: each.wrap for each in BACKENDS if not each.missing()} | fuzz.KINDS
KINDS = {name: KINDS[name] for name in NAMES if name in KINDS}


def near(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(to_host(found), wanted, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("form", ["dense", "implicit", "auto"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_entries(kind: str, center: bool, form: str) -> None:
    moments = ls.Moments(KINDS[kind](A), KINDS[kind](B), center=center, form=form)
    X, Y = CENTRED if center else (A, B)
    found = moments.products(V, W)
    for product, wanted in zip(found, (X.T @ X @ V, X.T @ Y @ W, Y.T @ X @ V, Y.T @ Y @ W), strict=True):
        near(product, wanted)
    near(moments.gram(W, 1), Y.T @ Y @ W)
    near(moments.products(None, W, onto=(0,))[1], X.T @ Y @ W)
    assert moments.products(V)[1] is moments.products(V)[3] is None
    assert moments.products(V, W, onto=(0,))[2:] == (None, None)
    for block, wanted in zip(moments.dense(), (X.T @ X, X.T @ Y, Y.T @ Y), strict=True):
        near(block, wanted)
    assert (moments.held, moments.form) == (True, "dense")


@pytest.mark.parametrize("kind", KINDS)
def test_every_matrix_is_sketched_by_the_same_matrix_which_the_seed_determines(kind: str) -> None:
    """The sketch of [A B I] shows Ω; ΩA and ΩB are products with it."""

    def sketch(*data: Any, center: bool = False) -> Any:
        blocks = [ls.as_operator(matrix).in_blocks() for matrix in data]
        return [
            to_host(S)
            for S in rows.Moments(blocks, rows.Preprocessing(center), sketch_rows=50, seed=5).sketch()
        ]

    Omega = sketch(np.hstack([A, B, np.eye(N)]))[0][:, P + Q :]
    for found, exact in zip(sketch(KINDS[kind](A), KINDS[kind](B)), (Omega @ A, Omega @ B), strict=True):
        near(found, exact)
    np.testing.assert_allclose(
        sketch(KINDS[kind](A), center=True)[0], Omega @ CENTRED[0], rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "slices", "blocks"])
def test_a_product_is_one_pass_and_a_held_form_one_in_all(kind: str) -> None:
    each, held = (
        ls.Moments(KINDS[kind](A), KINDS[kind](B), center=True, form=form) for form in ("implicit", "dense")
    )
    assert (each.passes, held.passes) == (0, 0)  # nothing is read before the first product
    for passes in (1, 2):
        each.products(V, W)
        held.products(V, W)
        held.gram(W, 1)
        assert (each.passes, held.passes) == (passes, 1)


H = ls.targets.lda(np.arange(N) % 3)
SHARED: dict[str, Any] = {
    "cca": lambda data: ls.CCA(*data, k=2, ridge=1.0),
    "svd": lambda data: ls.SVD(data[0], k=2, center=True),
    "least-squares": lambda data: ls.LeastSquares(*data, ridge=2.0, center=True),
    "discriminant": lambda data: ls.Discriminant(data[0], *(data[1:] and [H])),
}
SOLVERS = [
    *(("cca", name) for name in ("gram", "als", "lobpcg", "direct")),
    *(("least-squares", name) for name in ("cg", "gd", "nystrom-pcg", "lsqr", "direct")),
    *((problem, "auto") for problem in SHARED),
]


@pytest.mark.parametrize("form", ["dense", "implicit"])
@pytest.mark.parametrize("problem, solver", SOLVERS)
def test_problems_that_share_moments_have_the_answers_of_their_data(
    problem: str, solver: str, form: str
) -> None:
    """Slices of the first matrix are read once, where a held form is all that is needed."""
    given = {"cca": [A, B], "svd": [A], "least-squares": [A, B], "discriminant": [A, H]}[problem]
    first = iter(np.array_split(A, 4)) if (solver, form) == ("gram", "dense") else A
    moments = ls.Moments(first, *given[1:], center=True, form=form)
    for again in (False, True):
        found = ls.solve(SHARED[problem]([moments]), solver, rng=0)
        alone = ls.solve(SHARED[problem](given), rng=0)
        value = found.layout.value or "x"
        np.testing.assert_allclose(getattr(found, value), getattr(alone, value), rtol=1e-6, atol=1e-8)
        if form == "dense" and solver not in {"direct", "lsqr", "auto"}:  # which may read the rows
            assert (found.passes, moments.passes) == (0 if again else 1, 1)


def test_components_of_views_take_the_pass_that_forms_all_moments() -> None:
    assert ls.solve(ls.CCA(A, B, 2, ridge=1.0), "rpcca", rng=0).passes == 1


REFUSED: list[tuple[Any, str]] = [
    (ls.Moments, "moments are those of matrices; got none"),
    (lambda: ls.Moments(A, form="best"), "form must be one of auto, dense, sparse, implicit; got 'best'"),
    (lambda: ls.Moments(A, B).products(V[:, 0]), "which are 6, 3; got shape (6,) for matrix 0"),
    (lambda: ls.Moments(A, array_api_strict.asarray(B)), "X and Y must come from one library and device"),
    (lambda: ls.CCA(ls.Moments(A, B, center=True), k=2, center=False), "center=True"),
    (
        lambda: ls.CCA(ls.Moments(A, B, center=True), k=2, scale=True),
        "sample_weight, confounds and scale change the moments",
    ),
    (lambda: ls.Moments(A, form="sparse").gram(V), 'form "sparse" holds'),
    (lambda: ls.CCA(ls.Moments(A, center=True), k=1), "needs moments of 2 matrices; got moments of 1"),
]


@pytest.mark.parametrize("call, message", REFUSED)
def test_misuse_is_told(call: Any, message: str) -> None:
    with pytest.raises((InvalidProblem, InvalidOption, UnsupportedData), match=re.escape(message)):
        call()
