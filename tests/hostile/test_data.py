"""Data and arguments from Python: broken sparse matrices, buffers filled again, operators that lie, nonsense."""

from __future__ import annotations

import math
import os
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hostile.outcomes import apart, refused
from scipy.sparse.linalg import LinearOperator as SciPyOperator

import linspec as ls

TIMES = int(os.environ.get("LINSPEC_HOSTILE", "1"))
PASSES = 60 * TIMES
"""Passes of a run that is compared with another: what one array too few spoils shows at once."""

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 8))
Y = X[:, :5] + rng.standard_normal((200, 5))
LARGEST = np.linalg.svd(X, compute_uv=False)[:2]
COEFFICIENTS = np.linalg.lstsq(X, Y, rcond=None)[0]
CLASSES = np.arange(200) % 3

PROBLEMS = {
    "svd": (lambda X: ls.SVD(X, k=2), "S"),
    "cca": (lambda X: ls.CCA(X, Y, 2), "correlations"),
    "least-squares": (lambda X: ls.LeastSquares(X, Y), "x"),
    "discriminant": (lambda X: ls.Discriminant(X, ls.targets.lda(CLASSES), 2), "eigenvalues"),
}
EVERYONE = [(kind, name) for kind in PROBLEMS for name in ls.solvers(kind)]


def quietly(problem: Any, solver: Any) -> Any:
    """A solution, whatever it warns of; None where the solver cannot take the data."""
    try:
        return ls.solve(problem, solver, rng=0, max_passes=PASSES)
    except ls.errors.MissingCapability:
        return None


def same(kind: str, found: Any, wanted: Any, atol: float) -> None:
    """The main arrays of two solutions, and their statuses, agree."""
    assert found.status == wanted.status
    arrays = [np.asarray(getattr(solution, PROBLEMS[kind][1])) for solution in (found, wanted)]
    np.testing.assert_allclose(*arrays, rtol=0, atol=atol)


pytestmark = pytest.mark.filterwarnings("ignore")


# ---- sparse matrices whose arrays do not fit together --------------------------------------------------

BROKEN = """
import sys
import numpy as np, scipy.sparse as sp
import linspec as ls
from hostile.outcomes import refused

rng = np.random.default_rng(0)

def good(form="csr"):
    S = sp.csr_array(sp.random(60, 40, 0.2, format="csr", random_state=0) + sp.eye(60, 40))
    return S.tobsr((2, 2)) if form == "bsr" else S.asformat(form)

def put(name, at, value):
    return lambda S: getattr(S, name).__setitem__(at, value)

def become(name, made):
    return lambda S: setattr(S, name, made(getattr(S, name)))

def coords(axis, value):
    def broken(S):
        parts = [part.copy() for part in S.coords]
        parts[axis][3] = value
        S.coords = tuple(parts)
    return broken

compressed = [
    put("indices", 3, 10**6), put("indices", -1, 2**31 - 1), put("indices", 3, -5), put("indptr", -1, 10**6),
    put("indptr", 0, 1), put("indptr", 3, 60), become("indptr", lambda a: a[:-3].copy()),
    become("data", lambda a: a[:10].copy()), become("indices", lambda a: a + 0.5),
]
faults = dict(
    csr=[*compressed, put("indices", 3, 40)], csc=[*compressed, put("indices", 3, 60)],
    bsr=[*compressed, put("indices", 3, 20)],
    coo=[coords(1, 10**6), coords(1, -7), coords(0, 10**7), become("data", lambda a: a[:5])],
)
B = rng.standard_normal((60, 2))
uses = dict(
    X=lambda S: ls.solve(ls.SVD(S, k=2), "block-krylov", rng=0),
    B=lambda S: ls.solve(ls.LeastSquares(B, S), "cg"),
    Y=lambda S: ls.solve(ls.CCA(B, S, 2), "lobpcg"),
    labels=lambda S: ls.targets.opls(S),
)
for form in sys.argv[1:]:
    for number, fault in enumerate(faults[form]):
        for name in uses if form == "csr" else "X":
            S = good(form)
            fault(S)
            print(form, number, name, file=sys.stderr)
            with refused():
                uses[name](S)
"""


@pytest.mark.parametrize("forms", [["csr"], ["csc", "bsr", "coo"]], ids=" ".join)
@pytest.mark.slow(keep=1)
def test_a_sparse_matrix_whose_arrays_do_not_fit_is_refused(forms):
    apart(BROKEN, *forms)


# ---- callbacks ---------------------------------------------------------------------------------


def test_iterates_that_a_callback_keeps_do_not_change():
    kept, copies = [], []

    def watch(progress):
        kept.append(progress.current())
        copies.append({name: np.array(value) for name, value in kept[-1].items()})

    for solver in ("als", "appgrad", "lobpcg"):
        ls.solve(ls.CCA(X, Y, 2), solver, rng=0, max_passes=PASSES, callback=watch)
    for current, copy in zip(kept, copies, strict=True):
        assert all(np.array_equal(current[name], copy[name]) for name in copy)


def test_what_a_callback_returns_and_raises():
    for answered in (np.array([True, False]), np.ones(3)):
        with pytest.raises(ValueError, match="ambiguous"):
            ls.solve(ls.CCA(X, Y, 2), "lobpcg", callback=lambda progress, answered=answered: answered)
    with pytest.raises(ZeroDivisionError):
        ls.solve(ls.CCA(X, Y, 2), "als", callback=lambda progress: 1 / 0)
    plain = ls.solve(ls.CCA(X, Y, 2), "als", rng=0)
    for answered in (np.asarray(0.5), np.asarray(False), 1.0, "no"):
        told = ls.solve(ls.CCA(X, Y, 2), "als", rng=0, callback=lambda progress, answered=answered: answered)
        assert told.status is plain.status
    stopped = ls.solve(ls.CCA(X, Y, 2), "als", rng=0, callback=lambda progress: np.asarray(True))
    assert stopped.status is not plain.status


# ---- operators of others -------------------------------------------------------------------------------


class Operator:
    """An operator known only by its products; `change` may spoil each of them."""

    def __init__(self, A=X, *, change=lambda product, name: product, shape=X.shape, dtype=float):
        self.A, self.change, self.shape = A, change, shape
        self.dtype = None if dtype is None else np.dtype(dtype)

    def matmat(self, V):
        return self.change(self.A @ V, "matmat")

    def rmatmat(self, U):
        return self.change(self.A.T @ U, "rmatmat")


def in_one_buffer(memory):
    def change(product, name):
        view = memory[: product.size].reshape(product.shape)
        view[...] = product
        return view

    return change


def read_only(product, name):
    product.flags.writeable = False
    return product


CHANGES: dict[str, Any] = {
    "in one buffer": in_one_buffer(np.zeros(X.size * 100)),
    "read-only": read_only,
    "lists": lambda product, name: product.tolist(),
    "big-endian": lambda product, name: product.astype(">f8"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("kind", "solver"), EVERYONE)
@pytest.mark.slow(keep=20)
def test_products_of_any_make_are_right(change, kind, solver):
    plain = quietly(PROBLEMS[kind][0](Operator()), solver)
    if plain is None:
        pytest.skip("needs more than products")
    found = quietly(PROBLEMS[kind][0](Operator(change=CHANGES[change])), solver)
    same(kind, found, plain, 1e-6)


@pytest.mark.parametrize(("kind", "solver"), EVERYONE)
@pytest.mark.slow(keep=10)
def test_an_array_that_is_filled_again_for_each_column_is_inconsistent(kind, solver):
    """SciPy makes a block product of these column by column."""
    forward, backward = np.empty(200), np.empty(8)
    operator = SciPyOperator(
        X.shape,
        matvec=lambda v: np.dot(X, np.ravel(v), out=forward),
        rmatvec=lambda u: np.dot(X.T, np.ravel(u), out=backward),
        dtype=float,
    )
    found = quietly(PROBLEMS[kind][0](operator), solver)
    assert found is None or found.status is ls.Status.INCONSISTENT


SPOILT = [
    lambda P: P[:-1],
    lambda P: P.ravel(),
    lambda P: P + 0j,
    lambda P: P.astype(object),
    lambda P: None,
    lambda P: [[1.0], [1.0, 2.0]],
    scipy.sparse.csr_array,
    lambda P: np.ma.masked_less(P, 0),
    lambda P: P.view([("a", float)]),
]
"""What makes of a matrix none."""


@pytest.mark.parametrize("spoil", [*SPOILT, iter, lambda P: P.T, lambda P: 1.0])
def test_products_that_are_no_products_are_refused(spoil):
    with refused("matmat"):
        ls.solve(ls.SVD(Operator(change=lambda P, name: spoil(P)), k=2), "lanczos")


@pytest.mark.parametrize(("kind", "solver"), EVERYONE)
@pytest.mark.slow(keep=12)
def test_an_operator_that_turns_to_nan_is_named(kind, solver):
    """At any product, in any entry: an error that names matrix and product, or an answer that did not need it."""
    plain = quietly(PROBLEMS[kind][0](Operator()), solver)
    if plain is None:
        pytest.skip("needs more than products")
    for first in [1, 2, 3, 4, 6, 9, 15][: 3 + 4 * TIMES]:
        products = []

        def change(product, name, first=first, products=products):
            products.append(name)
            if len(products) >= first:
                product[-1, -1] = -np.inf if first % 2 else np.nan
            return product

        try:
            found = ls.solve(PROBLEMS[kind][0](Operator(change=change)), solver, rng=0)
        except ls.errors.NonFiniteData as error:
            said = re.search("(A|X) must .*mat returned", str(error))
        else:
            said = len(products) < first
            same(kind, found, plain, 1e-6)
        assert said, f"product {first}"


# ---- arguments -------------------------------------------------------------------------------------------

NONSENSE: dict[str, Any] = {
    "text": "abc",
    "negative": -1,
    "huge": 10**400,
    "nan": math.nan,
    "true": True,
    "matrix": np.eye(2),
    "object": object(),
    "long": "x" * 5000,
    "control": "a\x1b[31m\nb",
}
LIMITS = [0, -0.0, -math.inf]
COUNTS = [2.0, 0, np.float64(2.0), Fraction(2), math.inf]
RIDGES = [None, math.inf, -0.1]
FLAGS = [None, 0, "False"]
ARGUMENTS: dict[str, Any] = {
    "rng": (lambda value: ls.solve(ls.SVD(X, 2), "block-krylov", rng=value), "huge", [1.5, math.inf, ["a"]]),
    "max_passes": (lambda value: ls.solve(ls.SVD(X, 2), max_passes=value), "", LIMITS),
    "max_seconds": (lambda value: ls.solve(ls.SVD(X, 2), "block-krylov", max_seconds=value), "", LIMITS),
    "tol": (lambda value: ls.solve(ls.SVD(X, 2), "block-krylov", tol=value), "", LIMITS),
    "k must": (lambda value: ls.SVD(X, k=value), "", [*COUNTS, 9]),
    "max_iterations": (
        lambda value: ls.solve(ls.CCA(X, Y, 2), "lobpcg", max_iterations=value), "huge true", [*COUNTS, None],
    ),
    "ridge": (lambda value: ls.LeastSquares(X, Y, ridge=value), "", RIDGES),
    "ridge of views": (lambda value: ls.CCA(X, Y, 2, ridge=value), "", RIDGES),
    "ridge of a view": (lambda value: ls.CCA(X, Y, 2, ridge=(1.0, value)), "", RIDGES),
    "center": (lambda value: ls.SVD(X, 2, center=value), "true", FLAGS),
    "left": (lambda value: ls.SVD(X, 2, left=value), "true", FLAGS),
    "progress": (lambda value: ls.solve(ls.SVD(X, 2), progress=value), "true", FLAGS),
    "start": (lambda value: ls.solve(ls.CCA(X, Y, 2), "lobpcg", start=value), "", ["/no/file.npz", {"a": 1}]),
    "rows": (lambda value: ls.as_operator(X, rows=value), "", []),
    "rows of slices": (lambda value: ls.as_operator(lambda: iter([X]), rows=value), "huge", [0, 2.5, math.inf]),
    "dtype": (lambda value: ls.as_operator(X, dtype=value), "", []),
}  # fmt: skip
"""For each argument: a call with it, the nonsense that makes sense there, and other values that make none."""


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nonsense_is_refused_by_the_name_of_the_argument(name):
    call, fine, more = ARGUMENTS[name]
    for value in [value for key, value in NONSENSE.items() if key.split()[0] not in fine.split()] + more:
        with refused(name.partition(" of ")[0]):
            call(value)


def test_tensors_that_ask_for_gradients_are_detached():
    torch = pytest.importorskip("torch")
    T, B = torch.tensor(X).requires_grad_(), torch.tensor(Y).requires_grad_()
    found = quietly(ls.SVD(lambda: iter([T[:100], T[100:]]), k=2), "block-krylov")
    np.testing.assert_allclose(found.S, LARGEST)
    for solver in ls.solvers("least-squares"):
        found = quietly(ls.LeastSquares(T, B), solver)
        assert not found.x.requires_grad
        np.testing.assert_allclose(found.x.numpy(), COEFFICIENTS, atol=0.2)
    assert T.requires_grad
    for word, given in (("sparse_bsr", T.detach().to_sparse_bsr((2, 2))), ("meta", T.to("meta"))):
        with refused(word):
            ls.CCA(T, given, 2)


def test_messages_keep_lines_usual_words_and_letters_of_any_alphabet():
    for message in ("XᵀX of ä, 列 1", "two\nlines", "a " * 3000, "/a/path/of/usual/length" * 10):
        assert ls.errors.fit_to_read(message) == str(ls.errors.LinspecError(message)) == message
    assert ls.errors.LinspecError("a", 3).args == ("a", 3)
