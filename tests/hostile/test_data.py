"""Data and arguments from Python: broken sparse matrices, buffers filled again, operators that lie, nonsense."""

from __future__ import annotations

import math
import os
import re
from decimal import Decimal
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
    become("data", lambda a: a[:10].copy()), become("data", lambda a: a.astype(object)),
    become("indices", lambda a: a + 0.5), become("indices", lambda a: a.astype(np.int64) + 2**40),
]
faults = dict(
    csr=[*compressed, put("indices", 3, 40)], csc=[*compressed, put("indices", 3, 60)],
    bsr=[*compressed, put("indices", 3, 20)],
    coo=[coords(1, 10**6), coords(1, -7), coords(0, 10**7), become("data", lambda a: a[:5])],
    lil=[lambda S: S.rows.__setitem__(3, [10**6] * len(S.rows[3]))],
    dia=[become("offsets", lambda a: np.append(a, 10**6)), become("offsets", lambda a: a + 0.5)],
)
B = rng.standard_normal((60, 2))
uses = dict(
    X=lambda S: ls.solve(ls.SVD(S, k=2), "block-krylov", rng=0),
    B=lambda S: ls.solve(ls.LeastSquares(B, S), "cg"),
    Y=lambda S: ls.solve(ls.CCA(B, S, 2), "lobpcg"),
    slice=lambda S: ls.solve(ls.SVD(lambda: iter([good(), S]), k=2), "block-krylov"),
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


@pytest.mark.parametrize("forms", [["csr"], ["csc", "bsr"], ["coo", "lil", "dia"]], ids=" ".join)
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
    for answered in (np.array([True, False]), np.ones(3), np.array("text")):
        with refused("callback", "array"):
            ls.solve(ls.CCA(X, Y, 2), "lobpcg", callback=lambda progress, answered=answered: answered)
    with pytest.raises(ZeroDivisionError):
        ls.solve(ls.CCA(X, Y, 2), "als", callback=lambda progress: 1 / 0)


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


def test_shapes_and_dtypes_that_are_none_are_refused():
    for shape in ((200, 8, 1), (-3, 8), (200.0, 8.0), ("200", "8"), (None, 8), (200,), 200, None, "ab"):
        with refused("shape"):
            ls.solve(ls.SVD(Operator(shape=shape), k=2), "lanczos")
    for dtype in (complex, object, str, "M8[s]", None):
        with refused():
            ls.solve(ls.SVD(Operator(dtype=dtype), k=2), "lanczos")


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
    "endless": 10**5000,
    "nan": math.nan,
    "true": True,
    "decimal": Decimal("0.5"),
    "matrix": np.eye(2),
    "list": [1, -2],
    "object": object(),
    "long": "x" * 5000,
    "control": "a\x1b[31m\nb",
}
LIMITS = [0, -0.0, -math.inf]
COUNTS = [2.0, 0, np.float64(2.0), Fraction(2), math.inf]
RIDGES = [None, math.inf, -0.1]
FLAGS = [None, 0, "False"]
ARGUMENTS: dict[str, Any] = {
    "rng": (lambda value: ls.solve(ls.SVD(X, 2), "block-krylov", rng=value), "huge endless", [1.5, math.inf, ["a"]]),
    "max_passes": (lambda value: ls.solve(ls.SVD(X, 2), max_passes=value), "", LIMITS),
    "max_seconds": (lambda value: ls.solve(ls.SVD(X, 2), "block-krylov", max_seconds=value), "", LIMITS),
    "tol": (lambda value: ls.solve(ls.SVD(X, 2), "block-krylov", tol=value), "", LIMITS),
    "k must": (lambda value: ls.SVD(X, k=value), "", [*COUNTS, 9]),
    "max_iterations": (
        lambda value: ls.solve(ls.CCA(X, Y, 2), "lobpcg", max_iterations=value), "huge endless true", [*COUNTS, None],
    ),
    "ridge": (lambda value: ls.LeastSquares(X, Y, ridge=value), "list", RIDGES),
    "ridge of views": (lambda value: ls.CCA(X, Y, 2, ridge=value), "list", RIDGES),
    "ridge of a view": (lambda value: ls.CCA(X, Y, 2, ridge=(1.0, value)), "", RIDGES),
    "center": (lambda value: ls.SVD(X, 2, center=value), "true", FLAGS),
    "left": (lambda value: ls.SVD(X, 2, left=value), "true", FLAGS),
    "progress": (lambda value: ls.solve(ls.SVD(X, 2), progress=value), "true", FLAGS),
    "solver": (lambda value: ls.solve(ls.CCA(X, Y, 2), value), "", [None, 3]),
    "lstsq": (lambda value: ls.solve(ls.CCA(X, Y, 2), "als", lstsq=value), "", [None, 3]),
    "normalizer": (lambda value: ls.solve(ls.CCA(X, Y, 2), "als", normalizer=value), "", [None, 3]),
    "problem": (ls.solve, "", [None, 3]),
    "callback": (
        lambda value: ls.solve(ls.CCA(X, Y, 2), "lobpcg", callback=value), "endless matrix", [lambda: True],
    ),
    "start": (lambda value: ls.solve(ls.CCA(X, Y, 2), "lobpcg", start=value), "", ["/no/file.npz", {"a": 1}]),
    "rows": (lambda value: ls.as_operator(X, rows=value), "", []),
    "rows of slices": (lambda value: ls.as_operator(lambda: iter([X]), rows=value), "huge endless", [0, 2.5, math.inf]),
    "dtype": (lambda value: ls.as_operator(X, dtype=value), "", []),
}  # fmt: skip
"""For each argument: a call with it, the nonsense that makes sense there, and other values that make none."""


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nonsense_is_refused_by_the_name_of_the_argument(name):
    call, fine, more = ARGUMENTS[name]
    words = [] if name in ("solver", "lstsq", "normalizer", "problem") else [name.partition(" of ")[0]]
    for value in [value for key, value in NONSENSE.items() if key.split()[0] not in fine.split()] + more:
        with refused(*words):
            call(value)


@pytest.mark.parametrize("spoil", [*SPOILT, lambda W: W[:, :0], lambda W: W * np.nan])
def test_starts_whose_weights_are_none(spoil):
    start = {"x_weights": np.eye(8)[:, :2], "y_weights": np.eye(5)[:, :2]}
    for name, weights in start.items():
        with refused("start"):
            ls.solve(ls.CCA(X, Y, 2), "lobpcg", start={**start, name: spoil(weights)})


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


@pytest.mark.parametrize("name", ["x" * 11_000, "\x1b]0;title\x07\x1b[2J\r\u202e", "a\nb"])
@pytest.mark.parametrize(
    "call",
    [
        lambda name: ls.solve(ls.SVD(X, 2), "gram", **{name: 1}),
        lambda name: ls.SVD(X, **{name: 1}),
        ls.describe,
        ls.solvers,
        lambda name: ls.SVD(name + ".npy", 2),
        lambda name: ls.Checkpoint("nowhere/" + name),
        lambda name: ls.solve(ls.SVD(X, 2)).weights_table(name),
    ],
)
def test_names_that_are_echoed_are_cut_and_written_out(call, name):
    with refused():
        call(name)


LOOP: list[object] = [[1.0, 2.0]]
LOOP.append(LOOP)

REFUSED: dict[str, Any] = {
    "records": np.zeros((5, 2), [("a", float)]),
    "no rows": X[:0],
    "list that holds itself": LOOP,
    "ragged": [[1, 2], [3]],
    "buffer": memoryview(X),
    "nan": np.where(X > 2, np.nan, X),
    "infinity": np.where(X > 2, np.inf, X).astype(np.float32),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_matrix_of_numbers_is_refused(name):
    given = REFUSED[name]
    for use in (
        lambda: ls.solve(ls.SVD(given, k=1), "block-krylov"),
        lambda: ls.solve(ls.LeastSquares(given, Y)),
        lambda: ls.solve(ls.CCA(X, given, 1), "lobpcg"),
        lambda: ls.solve(ls.Discriminant(X, given, 1)),
        lambda: ls.Moments(given).gram(np.ones((8, 1))),
    ):
        with refused():
            use()


def test_messages_keep_lines_usual_words_and_letters_of_any_alphabet():
    for message in ("XᵀX of ä, 列 1", "two\nlines", "a " * 3000, "/a/path/of/usual/length" * 10):
        assert ls.errors.fit_to_read(message) == str(ls.errors.LinspecError(message)) == message
    assert ls.errors.LinspecError("a", 3).args == ("a", 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ls.select(X),
        lambda: ls.solve(ls.CCA(X, Y, 2), "cg"),
        lambda: ls.kernels.rbf(1e-300),
        lambda: ls.cross_validate(ls.CCA(X, Y, 1), ridges=np.array(0.1)),
        lambda: ls.cross_validate(ls.CCA(X, Y, 1), ks=np.array(1)),
        lambda: ls.project(X, 10**12),
        lambda: ls.labelled(X, 3),
    ],
)
def test_calls_that_cannot_be_are_refused(call):
    with refused():
        call()


def test_two_libraries_or_devices_are_refused():
    strict = pytest.importorskip("array_api_strict")
    views = [strict.asarray(Y, device=strict.Device(name)) for name in ("CPU_DEVICE", "device1")]
    for first in (X, strict.asarray(X)):
        with refused():
            ls.solve(ls.CCA(first, views[first is not X], 2), "gram")
