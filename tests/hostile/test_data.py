"""Data and arguments from Python: broken sparse matrices, buffers filled again, operators that lie, nonsense."""

from __future__ import annotations

import math
import os
import pickle
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hostile.outcomes import Leak, Raw, apart, holds, refused
from scipy.sparse.linalg import LinearOperator as SciPyOperator

import linspec as ls
from linspec.iteration import Iterate
from linspec.solving import Solver

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
    "svd": lambda X, **named: ls.SVD(X, k=2, **named),
    "cca": lambda X, **named: ls.CCA(X, Y, 2, **named),
    "least-squares": lambda X, **named: ls.LeastSquares(X, Y, **named),
    "discriminant": lambda X, **named: ls.Discriminant(X, ls.targets.lda(CLASSES), 2, **named),
}
ANSWERS = {"svd": "S", "cca": "correlations", "least-squares": "x", "discriminant": "eigenvalues"}
EVERYONE = [(kind, name) for kind in PROBLEMS for name in ls.solvers(kind)]


def answer(kind: str, solution: Any) -> np.ndarray:
    """Return the main array of a solution, on the host."""
    return np.asarray(getattr(solution, ANSWERS[kind]))


def quietly(problem: Any, solver: Any, **settings: Any) -> Any:
    """A solution, whatever it warns of; None where the solver cannot take the data."""
    try:
        return ls.solve(problem, solver, **{"rng": 0, "max_passes": PASSES, **settings})
    except ls.errors.MissingCapability:
        return None


pytestmark = pytest.mark.filterwarnings("ignore")


# ---- sparse matrices whose arrays do not fit together --------------------------------------------------

BROKEN = """
import sys
import numpy as np, scipy.sparse as sp
import linspec as ls
from linspec.errors import LinspecError
sys.path.insert(0, {tests!r})
from hostile.outcomes import Raw, Silent, refused

rng = np.random.default_rng(0)
FORMAT = {format!r}

def good():
    S = sp.random(60, 40, 0.2, format="csr", random_state=0) + sp.eye(60, 40)
    return sp.csr_array(S).asformat(FORMAT) if FORMAT != "bsr" else sp.csr_array(S).tobsr((2, 2))

def put(name, at, value):
    def broken(S):
        getattr(S, name)[at] = value
    return broken

def swap(S):
    S.indptr[3], S.indptr[4] = S.indptr[9], S.indptr[2]

def become(name, made):
    def broken(S):
        setattr(S, name, made(getattr(S, name)))
    return broken

limit = dict(csr=40, csc=60, bsr=20).get(FORMAT, 0)
compressed = dict(
    far=put("indices", 3, 10**6), farther=put("indices", -1, 2**31 - 1), negative=put("indices", 3, -5),
    least=put("indices", 0, -2**31), edge=put("indices", 3, limit), falling=swap, beyond=put("indptr", -1, 10**6),
    late=put("indptr", 0, 1), below=put("indptr", 2, -100), short=become("indptr", lambda a: a[:-3].copy()),
    long=become("indptr", lambda a: np.append(a, a[-1])), few=become("data", lambda a: a[:10].copy()),
    many=become("data", lambda a: np.concatenate([a, a])), fractions=become("indices", lambda a: a + 0.5),
    flags=become("indices", lambda a: a > 3), flat=become("indices", lambda a: a[None, :]),
    lists=become("indices", list), none=become("indptr", lambda a: None), text=become("data", lambda a: a.astype(str)),
    objects=become("data", lambda a: a.astype(object)), masked=become("data", lambda a: np.ma.masked_less(a, 0.5)),
    wide=become("indices", lambda a: a.astype(np.int64) + 2**40),
    narrow=become("indices", lambda a: (a - 100).astype(np.int8)),
    unsigned=become("indices", lambda a: a.astype(np.uint32) + np.uint32(2**31)),
)

def coords(row, value):
    def broken(S):
        parts = [part.copy() for part in S.coords]
        parts[row][3] = value
        S.coords = tuple(parts)
    return broken

def short_coords(S):
    S.coords = (S.coords[0], S.coords[1][:-3])

def row_of(columns, values=None):
    def broken(S):
        S.rows[3] = columns(S.rows[3])
        S.data[3] = S.data[3] if values is None else values(S.data[3])
    return broken

faults = dict(
    csr=compressed, csc=compressed, bsr=compressed,
    coo=dict(far=coords(1, 10**6), far_row=coords(0, 10**7), negative=coords(1, -7), negative_row=coords(0, -1),
             edge=coords(1, 40), short=short_coords, few=become("data", lambda a: a[:5])),
    lil=dict(far=row_of(lambda r: [10**6] * len(r)), negative=row_of(lambda r: [-3] * len(r)),
             longer=row_of(lambda r: [*r, 5]), fewer=row_of(lambda r: r[1:]),
             text=row_of(lambda r: r, lambda d: ["a"] * len(d)), huge=row_of(lambda r: [10**30] * len(r))),
    dok=dict(far=lambda S: S._dict.update({{(10**6, 3): 1.0}}), negative=lambda S: S._dict.update({{(-3, 3): 1.0}})),
    dia=dict(twice=become("offsets", lambda a: a * 0), more=become("offsets", lambda a: np.append(a, 10**6)),
             fractions=become("offsets", lambda a: a + 0.5), flat=become("data", lambda a: a.ravel())),
)[FORMAT]

def places(S):
    n, p = S.shape
    A, B = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    yield "X", lambda: ls.solve(ls.SVD(S, k=2), "block-krylov", rng=0)
    {places}

for fault, break_ in faults.items():
    for place in range({count}):
        S = good()
        break_(S)
        name, use = list(places(S))[place]
        try:
            with refused():
                use()
        except (Raw, Silent) as ending:
            raise type(ending)(f"{{FORMAT}}, {{fault}}, {{name}}: {{ending}}") from None
"""

ELSEWHERE = """
    yield "auto", lambda: ls.solve(ls.SVD(S, k=2))
    yield "A", lambda: ls.solve(ls.LeastSquares(S, B), "cg")
    yield "B", lambda: ls.solve(ls.LeastSquares(A, S), "cg")
    yield "Y", lambda: ls.solve(ls.CCA(A, S, 2), "lobpcg")
    yield "H", lambda: ls.solve(ls.Discriminant(A, S, 2))
    yield "a slice", lambda: ls.solve(ls.SVD(lambda: iter([good().tocsr(), S]), k=2), "block-krylov")
    yield "the one pass", lambda: ls.solve(ls.SVD(iter([S]), k=2), "gram")
    yield "labels", lambda: (ls.targets.hsl(S), ls.targets.opls(S), ls.targets.cca(S))
    yield "moments", lambda: ls.Moments(S).gram(np.ones((p, 1)))
    yield "operator", lambda: ls.operators.SparseOperator(S).matmat(np.ones((p, 1)))
"""


@pytest.mark.parametrize("forms", [["csr"], ["csc", "bsr"], ["coo", "lil", "dok", "dia"]], ids=" ".join)
@pytest.mark.slow(keep=1)
def test_a_sparse_matrix_whose_arrays_do_not_fit_is_refused(forms):
    everywhere = forms == ["csr"]
    places = {"places": ELSEWHERE if everywhere else "", "count": 11 if everywhere else 1}
    tests = str(Path(__file__).resolve().parents[1])
    apart("\n".join(BROKEN.format(format=form, tests=tests, **places) for form in forms))


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_a_matrix_that_is_refused_is_left_as_it_is_and_a_legal_one_is_right(form):
    entries = np.where(rng.random((40, 6)) < 0.4, rng.standard_normal((40, 6)), 0)
    S = scipy.sparse.coo_array(entries).asformat(form)
    before = pickle.dumps(S)
    holds(
        np.allclose(ls.solve(ls.SVD(S, k=2)).S, np.linalg.svd(entries, compute_uv=False)[:2]),
        "a legal matrix has another answer",
    )
    if pickle.dumps(S) != before:
        raise Leak("the matrix was changed")


@pytest.mark.parametrize("index", [np.int32, np.int64, np.int16, np.uint32, ">i4"])
@pytest.mark.parametrize("solver", ["gram", "lanczos"])
def test_unsorted_and_repeated_entries_of_any_integers_are_legal(index, solver):
    rows, columns = rng.integers(0, 40, 300), rng.integers(0, 6, 300)
    values = rng.standard_normal(300)
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(41))
    S = scipy.sparse.csr_array((40, 6))
    S.data, S.indices, S.indptr = values[order], columns[order].astype(index), starts.astype(index)
    entries = np.zeros((40, 6))
    np.add.at(entries, (rows, columns), values)
    found = quietly(ls.SVD(S, k=2), solver)
    holds(np.allclose(found.S, np.linalg.svd(entries, compute_uv=False)[:2]), "another answer")


def test_entries_behind_the_last_row_are_no_entries():
    S = scipy.sparse.csr_array(X)
    S.data, S.indices = np.append(S.data, 7.0), np.append(S.indices, 10**6).astype(np.int32)
    holds(np.allclose(quietly(ls.SVD(S, k=2), "lanczos").S, LARGEST), "another answer")


@pytest.mark.parametrize("dtype", [">f8", ">f4", np.float16, np.longdouble])
def test_numbers_that_scipy_has_no_matrix_of(dtype):
    S = scipy.sparse.csr_array(X)
    S.data = S.data.astype(dtype)
    holds(np.allclose(quietly(ls.SVD(S, k=2), "lanczos").S, LARGEST, rtol=1e-2), "another answer")


# ---- slices whose source fills one buffer -----------------------------------------------------------------


class Refilled:
    """A callable whose slices are all views of one buffer, as a reader of files has them."""

    def __init__(self, A, rows, *, sparse=False, order="C"):
        self.A, self.rows, self.sparse = A, rows, sparse
        self.buffer = np.empty((rows, A.shape[1]), A.dtype, order)

    def __call__(self):
        for start in range(0, len(self.A), self.rows):
            part = self.A[start : start + self.rows]
            self.buffer[: len(part)] = part
            yield self.buffer[: len(part)]
        self.buffer[:] = np.nan


@pytest.mark.parametrize(("kind", "solver"), EVERYONE)
@pytest.mark.slow(keep=10)
def test_one_buffer_that_two_problems_read(kind, solver):
    source = Refilled(X, 40)
    problems = [PROBLEMS[kind](source) for _ in range(2)]
    plain = Refilled(X, 40)
    fresh = quietly(PROBLEMS[kind](lambda: iter([b.copy() for b in plain()])), solver)
    for problem in problems:
        found = quietly(problem, solver)
        if found is not None:
            same = answer(kind, found).shape == answer(kind, fresh).shape
            holds(
                same and np.allclose(answer(kind, found), answer(kind, fresh), atol=1e-10), "another answer"
            )


# ---- callbacks -----------------------------------------------------------------------------------------


def test_iterates_that_a_callback_keeps_do_not_change():
    kept, copies = [], []

    def watch(progress):
        kept.append(progress.current())
        copies.append({name: np.array(value) for name, value in kept[-1].items()})

    for solver in ("als", "appgrad", "lobpcg"):
        quietly(PROBLEMS["cca"](X), solver, callback=watch)
    for current, copy in zip(kept, copies, strict=True):
        holds(all(np.array_equal(current[name], copy[name]) for name in copy), "an iterate has changed")


def test_a_callback_that_makes_no_sense_is_refused():
    for callback in (
        3,
        "stop",
        [print],
        object(),
        lambda: True,
        lambda progress, more: True,
        np.array([True, False]),
    ):
        with refused("callback"):
            ls.solve(PROBLEMS["cca"](X), "lobpcg", callback=callback)
    for answered in (np.array([True, False]), np.array([[True]]), np.ones(3), np.array("text")):
        with refused("callback", "array"):
            ls.solve(PROBLEMS["cca"](X), "lobpcg", callback=lambda progress, answered=answered: answered)


def test_what_a_callback_raises_is_its_own():
    class OwnError(Exception):
        pass

    def watch(progress):
        raise OwnError

    with pytest.raises(OwnError):
        ls.solve(PROBLEMS["cca"](X), "als", callback=watch)


# ---- operators of others -------------------------------------------------------------------------------


class Operator:
    """An operator known only by its products; `change` may spoil each of them."""

    def __init__(self, A=X, *, change=lambda product, name, count: product, shape=None, dtype=float):
        self.A, self.change = A, change
        self.shape = A.shape if shape is None else shape
        self.dtype = None if dtype is None else np.dtype(dtype)
        self.count = 0

    def _changed(self, product, name):
        self.count += 1
        return self.change(product, name, self.count)

    def matmat(self, V):
        return self._changed(self.A @ V, "matmat")

    def rmatmat(self, U):
        return self._changed(self.A.T @ U, "rmatmat")


def one_buffer_a_shape():
    buffers: dict[Any, Any] = {}

    def change(product, name, count):
        buffer = buffers.setdefault((name, product.shape), np.empty(product.shape))
        buffer[...] = product
        return buffer

    return Operator(change=change)


def one_buffer():
    memory = np.zeros(X.size * 100)

    def change(product, name, count):
        view = memory[: product.size].reshape(product.shape)
        view[...] = product
        return view

    return Operator(change=change)


def by_columns():
    """SciPy makes a block product of these column by column."""
    forward, backward = np.empty(200), np.empty(8)
    return SciPyOperator(
        X.shape,
        matvec=lambda v: np.dot(X, np.ravel(v), out=forward),
        rmatvec=lambda u: np.dot(X.T, np.ravel(u), out=backward),
        dtype=float,
    )


def read_only():
    def change(product, name, count):
        product.flags.writeable = False
        return product

    return Operator(change=change)


class Answering(ls.LinearOperator):
    """linspec's own base class, with a buffer for each width."""

    shape, dtype = X.shape, np.dtype(float)

    def __init__(self):
        self.buffers: dict[Any, Any] = {}

    def _kept(self, name, product):
        buffer = self.buffers.setdefault((name, product.shape), np.empty(product.shape))
        buffer[...] = product
        return buffer

    def _matmat(self, V):
        return self._kept("matmat", X @ V)

    def _rmatmat(self, U):
        return self._kept("rmatmat", X.T @ U)


REUSING = (one_buffer_a_shape, one_buffer, read_only, Answering)


@pytest.mark.parametrize("made", REUSING, ids=lambda made: made.__name__)
@pytest.mark.parametrize(("kind", "solver"), EVERYONE)
@pytest.mark.slow(keep=40)
def test_operators_that_fill_one_array_again(made, kind, solver):
    plain = quietly(PROBLEMS[kind](Operator()), solver)
    if plain is None:
        pytest.skip("needs more than products")
    found = quietly(PROBLEMS[kind](made()), solver)
    same = answer(kind, found).shape == answer(kind, plain).shape
    holds(same and np.allclose(answer(kind, found), answer(kind, plain), atol=1e-6), "another answer")
    holds(found.status == plain.status, f"{found.status.name} instead of {plain.status.name}")


@pytest.mark.parametrize(("kind", "solver"), EVERYONE)
@pytest.mark.slow(keep=10)
def test_an_array_that_is_filled_again_for_each_column_is_inconsistent(kind, solver):
    found = quietly(PROBLEMS[kind](by_columns()), solver)
    holds(found is None or found.status is ls.Status.INCONSISTENT, "not said")


class Identity:
    """Returns the block that it is given, or a view of it."""

    shape, dtype = (30, 30), np.dtype(float)

    def matmat(self, V):
        return V[:, :]

    def rmatmat(self, U):
        return U


def test_an_operator_that_returns_its_input():
    for solver in ("gram", "lanczos", "block-krylov"):
        holds(np.allclose(quietly(ls.SVD(Identity(), k=2), solver).S, 1), "another answer")
    b = rng.standard_normal(30)
    for solver in ("cg", "lsqr", "gd"):
        holds(np.allclose(quietly(ls.LeastSquares(Identity(), b), solver).x, b), "another answer")


def test_an_operator_that_writes_into_its_input():
    for name in ("matmat", "rmatmat"):
        spoiling = Operator()
        usual = getattr(spoiling, name)

        def written(block, plain=usual):
            product = plain(block).copy()
            block *= 2
            return product

        setattr(spoiling, name, written)
        found, wanted = (quietly(ls.SVD(A, k=2), "lanczos").S for A in (spoiling, X))
        holds(np.allclose(found, wanted), "another answer")


@pytest.mark.parametrize("name", ["matmat", "rmatmat"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda P: P[:-1],
        lambda P: P.T,
        lambda P: P.ravel(),
        lambda P: P[:, :, None],
        lambda P: P + 0j,
        lambda P: P.astype(object),
        lambda P: P.astype(str),
        lambda P: None,
        lambda P: 1.0,
        lambda P: [[1.0], [1.0, 2.0]],
        iter,
        scipy.sparse.csr_array,
        lambda P: np.ma.masked_less(P, 0),
        lambda P: P.view([("a", float)]),
    ],
)
def test_products_that_are_no_products_are_refused(name, spoil):
    operator = Operator(change=lambda P, which, count: spoil(P) if which == name else P)
    with refused(name):
        ls.solve(ls.SVD(operator, k=2), "lanczos")


@pytest.mark.parametrize(
    "spoil", [np.asfortranarray, np.matrix, lambda P: P.tolist(), lambda P: P.astype(">f8")]
)
def test_products_of_another_kind_are_right(spoil):
    operator = Operator(change=lambda P, which, count: spoil(P))
    holds(np.allclose(quietly(ls.SVD(operator, k=2), "lanczos").S, LARGEST), "another answer")


@pytest.mark.parametrize(
    "shape", [(200, 8, 1), (-3, 8), (200.0, 8.0), ("200", "8"), (None, 8), (200,), 200, None, "ab"]
)
def test_shapes_that_are_no_shapes_are_refused(shape):
    operator = Operator()
    operator.shape = shape
    with refused("shape"):
        ls.solve(ls.SVD(operator, k=2), "lanczos")


@pytest.mark.parametrize("dtype", [complex, object, str, "M8[s]", None])
def test_operators_of_no_real_numbers_are_refused(dtype):
    with refused():
        ls.solve(ls.SVD(Operator(dtype=dtype), k=2), "lanczos")


@pytest.mark.parametrize(("kind", "solver"), EVERYONE)
@pytest.mark.slow(keep=12)
def test_an_operator_that_turns_to_nan_is_named(kind, solver):
    """At any product, in any entry: an error that names matrix and product, or an answer that did not need it."""
    plain = quietly(PROBLEMS[kind](Operator()), solver)
    if plain is None:
        pytest.skip("needs more than products")
    matrix = {"svd": "A", "least-squares": "A"}.get(kind, "X")
    for first in [1, 2, 3, 4, 6, 9, 15][: 3 + 4 * TIMES]:
        for value in (np.nan, -np.inf):
            met = []

            def change(product, name, count, first=first, value=value, met=met):
                if count >= first:
                    met.append(count)
                    product[-1, -1] = value
                return product

            operator = Operator(change=change)
            try:
                found = ls.solve(PROBLEMS[kind](operator), solver, rng=0)
            except ls.errors.NonFiniteData as error:
                if not (f"{matrix} must" in str(error) and "mat returned" in str(error)):
                    raise Raw(f"not named: {error}") from error
                continue
            except Exception as error:
                raise Raw(f"{type(error).__name__}: {error}") from error
            holds(not met, f"{len(met)} products with {value} ended as {found.status.name}")
            holds(np.allclose(answer(kind, found), answer(kind, plain), atol=1e-6), "another answer")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["cca", "least-squares"])
def test_a_stream_that_turns_to_nan_is_named(sparse, kind):
    sweeps = []

    def slices():
        sweeps.append(1)
        for start in range(0, 200, 50):
            part = X[start : start + 50].copy()
            if len(sweeps) > 2 and start == 100:
                part[7, 3] = np.nan
            yield scipy.sparse.csr_array(part) if sparse else part

    with refused("row 107, column 3", kind=ls.errors.NonFiniteData):
        solver, options = {"cca": ("als", {}), "least-squares": ("cg", {"random_columns": 0})}[kind]
        ls.solve(
            PROBLEMS[kind](slices), solver, rng=0, tol=1e-14, form="implicit", **options
        )  # a pass each product


@dataclass(frozen=True, kw_only=True)
class Diverging(Solver):
    """Its iterates grow until their products overflow."""

    def iterate(self, problem, moments, context, start):
        x = moments.operators[0].backend.blocks.zeros((8, 5)) + 1.0
        size = 1.0
        while True:
            yield Iterate(size, lambda x=x: {"x": x})
            x = x * 1e30
            size = float(np.linalg.norm(moments.operator().matmat(x)))


def test_an_iteration_that_diverges_is_not_the_operators_fault():
    found = quietly(ls.LeastSquares(Operator(), Y), Diverging())
    holds(found.status is ls.Status.BREAKDOWN, found.status.name)


# ---- arguments -------------------------------------------------------------------------------------------

NONSENSE = {
    "text": "abc",
    "negative": -1,
    "huge": 10**400,
    "endless": 10**5000,
    "nan": math.nan,
    "true": True,
    "numpy's true": np.True_,
    "complex": 1j,
    "decimal": Decimal("0.5"),
    "array": np.array(3),
    "matrix": np.eye(2),
    "list": [1, -2],
    "dict": {},
    "bytes": b"1",
    "object": object(),
    "span": np.timedelta64(3, "s"),
    "date": np.datetime64("2020-01-01"),
    "type": float,
    "long": "x" * 5000,
    "control": "a\x1b[31m\nb",
}


def bad(*fine):
    """All nonsense but what makes sense here."""
    return [pytest.param(value, id=name) for name, value in NONSENSE.items() if name not in fine]


@pytest.mark.parametrize(
    "value", [*bad("huge", "endless"), 1.5, np.float64(2.0), math.inf, [1.5], ["a"], (1, None)]
)
def test_seeds(value):
    with refused("rng"):
        ls.solve(ls.SVD(X, k=2), "block-krylov", rng=value)


@pytest.mark.parametrize("value", [*bad(), 0, -0.0, -math.inf])
@pytest.mark.parametrize("name", ["max_passes", "max_seconds", "tol"])
def test_limits(name, value):
    for solver in ("block-krylov", "auto"):
        with refused(name):
            ls.solve(ls.SVD(X, k=2), solver, **{name: value})


@pytest.mark.parametrize("value", [*bad(), None, 2.0, 0, 9, np.float64(2.0), Fraction(2), math.inf])
def test_counts(value):
    if value is not None:  # as many as there are
        with refused("k must"):
            ls.SVD(X, k=value)
    if not (isinstance(value, int) and value > 0):  # counts, if large ones
        with refused("max_iterations"):
            ls.solve(ls.CCA(X, Y, 2), "lobpcg", max_iterations=value)


@pytest.mark.parametrize("value", [*bad("list"), [1, -2], None, math.inf, -0.1])
def test_ridges(value):
    for made in (
        lambda: ls.LeastSquares(X, Y, ridge=value),
        lambda: ls.CCA(X, Y, 2, ridge=value),
        lambda: ls.CCA(X, Y, 2, ridge=(1.0, value)),
        lambda: ls.Discriminant(X, Y, 2, ridge=value),
    ):
        with refused("ridge"):
            made()


@pytest.mark.parametrize("value", [*bad("true", "numpy's true"), None, 0, "False"])
def test_flags(value):
    for name, made in (
        ("center", lambda: ls.SVD(X, 2, center=value)),
        ("center", lambda: ls.CCA(X, Y, 2, center=value)),
        ("center", lambda: ls.Discriminant(X, Y, 2, center=value)),
        ("center", lambda: ls.Moments(X, center=value)),
        ("left", lambda: ls.SVD(X, 2, left=value)),
        ("progress", lambda: ls.solve(ls.SVD(X, 2), progress=value)),
    ):
        with refused(name):
            made()


@pytest.mark.parametrize("value", [*bad(), None, 3])
def test_solvers_and_parts(value):
    with refused():
        ls.solve(ls.CCA(X, Y, 2), value)
    for name in ("lstsq", "normalizer", "test_matrix"):
        with refused():
            ls.solve(ls.CCA(X, Y, 2), "als", **{name: value})
    with refused():
        ls.solve(value)


STARTS = [
    *NONSENSE.values(),
    "/no/such/file.npz",
    {"a": 1},
    {"x_weights": "abc", "y_weights": "abc"},
]
WEIGHTS = {"x_weights": np.eye(8)[:, :2], "y_weights": np.eye(5)[:, :2]}
SPOILT = [
    lambda W: W[:3],
    lambda W: W[:, 0],
    lambda W: W[:, :0],
    lambda W: W[None],
    lambda W: W * np.nan,
    lambda W: W + np.inf,
    lambda W: W + 0j,
    lambda W: W.astype(object),
    lambda W: W.astype(str),
    lambda W: np.ma.masked_less(W, 0.5),
    scipy.sparse.csr_array,
    lambda W: [[1.0], [1.0, 2.0]],
    lambda W: None,
    lambda W: W.view([("a", float)]),
]


@pytest.mark.parametrize("start", STARTS, ids=range(len(STARTS)))
def test_starts_that_are_no_answers(start):
    with refused("start"):
        ls.solve(ls.CCA(X, Y, 2), "lobpcg", start=start)


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize("name", ["x_weights", "y_weights"])
def test_starts_whose_weights_are_none(spoil, name):
    with refused("start"):
        ls.solve(ls.CCA(X, Y, 2), "lobpcg", start={**WEIGHTS, name: spoil(WEIGHTS[name])})


# ---- tensors ---------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_tensors_that_ask_for_gradients_are_detached(torch):
    for solver in ("auto", "lanczos", "block-krylov"):
        T = torch.tensor(X).requires_grad_()
        found = quietly(ls.SVD(T * 1.0, k=2), solver)
        holds(np.allclose(found.S, LARGEST) and not found.Vh.requires_grad, "another answer, or a gradient")
    T, B = torch.tensor(X).requires_grad_(), torch.tensor(Y).requires_grad_()
    for solver in ls.solvers("least-squares"):
        found = quietly(ls.LeastSquares(T, B), solver)
        holds(not found.x.requires_grad, "the answer asks for gradients")
        holds(np.allclose(found.x.numpy(), COEFFICIENTS, atol=0.2), "another answer")
    if T.grad is not None or not T.requires_grad:
        raise Leak("the tensor was changed")
    slices = quietly(ls.SVD(lambda: iter([T[:100], T[100:]]), k=2), "block-krylov")
    holds(np.allclose(slices.S, LARGEST), "another answer")


def test_tensors_without_entries_are_refused_by_name(torch):
    T = torch.tensor(X)
    others = {
        "sparse_bsr": T.to_sparse_bsr((2, 2)),
        "meta": T.to("meta"),
        "nested": torch.nested.nested_tensor([T, T]),
        "complex": T + 0j,
    }
    for word, given in others.items():
        for use in (
            lambda given=given: ls.SVD(given, k=2),
            lambda given=given: ls.LeastSquares(T, given),
            lambda given=given: ls.CCA(T, given, 2),
            lambda given=given: ls.Moments(given),
            lambda given=given: ls.SVD(lambda: iter([given]), k=2),
        ):
            with refused(word):
                use()
    for given in (others["sparse_bsr"], others["meta"]):
        with refused("start"):
            ls.solve(ls.CCA(X, Y, 2), "lobpcg", start={**WEIGHTS, "x_weights": given})
        with refused():
            ls.targets.opls(given)
    one = torch.tensor(X[:, 0])
    for word, given in (("sparse", one.to_sparse()), ("meta", one.to("meta"))):
        with refused(word):
            ls.LeastSquares(T, given)


# ---- paths -------------------------------------------------------------------------------------------------


# ---- arrays of all kinds -----------------------------------------------------------------------------------


class Sub(np.ndarray):
    def __getitem__(self, index):
        raise RuntimeError("a subclass of its own mind")

    def __matmul__(self, other):
        raise RuntimeError("a subclass of its own mind")


class Refusing:
    shape, dtype, ndim = (3, 3), np.dtype(float), 2

    def __array__(self, *args, **named):
        raise RuntimeError("no array")


UNALIGNED = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(float).reshape(X.shape)
GOOD = {
    "matrix": lambda: np.matrix(X),
    "subclass": lambda: X.view(Sub),
    "byte order": lambda: X.astype(">f8"),
    "unaligned": lambda: UNALIGNED,
    "long": lambda: X.astype(np.longdouble),
    "upside down": lambda: np.ascontiguousarray(X[::-1])[::-1],
    "mirrored": lambda: np.ascontiguousarray(X[:, ::-1])[:, ::-1],
    "strided": lambda: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "read-only": lambda: np.frombuffer(X.tobytes()).reshape(X.shape),
    "columns": lambda: np.asfortranarray(X),
    "list of slices": lambda: lambda: [X[:50], X[50:]],
}
LOOP: list[object] = [[1.0, 2.0]]
LOOP.append(LOOP)

REFUSED = {
    "masked": np.ma.masked_less(X, 0),
    "masked nowhere": np.ma.array(X),
    "records": np.zeros((5, 2), [("a", float)]),
    "objects": X.astype(object),
    "dates": np.zeros((5, 3), "M8[s]"),
    "spans": np.ones((5, 3), "m8[s]"),
    "texts": np.array([["1", "2"]] * 3),
    "bytes": np.array([[b"1"]]),
    "void": np.zeros((3, 3), "V8"),
    "complex": X + 0j,
    "number": np.array(1.0),
    "vector": X[0],
    "cube": X[None],
    "no rows": X[:0],
    "no columns": X[:, :0],
    "list of texts": X.astype(str).tolist(),
    "list of nothing": [[]],
    "empty list": [],
    "list that holds itself": LOOP,
    "ragged": [[1, 2], [3]],
    "refusing": Refusing(),
    "class": np.ndarray,
    "module": np,
    "none": None,
    "dict": {"a": 1},
    "buffer": memoryview(X),
    "nan": np.where(X > 2, np.nan, X),
    "infinity": np.where(X > 2, np.inf, X).astype(np.float32),
    "an array of one": lambda: X,
    "texts of one": lambda: "abc",
    "masked slices": lambda: iter([X[:50], np.ma.masked_less(X, 0)]),
    "objects in slices": lambda: iter([X.astype(object)]),
    "unlike slices": lambda: iter([X, X[:, :3]]),
    "complex slices": lambda: iter([X, X + 0j]),
    "no slices": lambda: iter([]),
}


@pytest.mark.parametrize("name", GOOD)
def test_arrays_of_any_layout_are_right(name):
    for solver in ("auto", "lanczos"):
        found = quietly(ls.SVD(GOOD[name](), k=2), solver)
        holds(np.allclose(found.S, LARGEST), f"{solver}: another answer")
    found = quietly(ls.LeastSquares(GOOD[name](), Y), "cg")
    holds(np.allclose(found.x, COEFFICIENTS, atol=1e-6), "another answer")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_matrix_of_numbers_is_refused(name):
    given = REFUSED[name]
    for use in (
        lambda: ls.solve(ls.SVD(given, k=1), "block-krylov"),
        lambda: ls.solve(ls.LeastSquares(given, Y)),
        lambda: ls.solve(ls.CCA(given, Y, 1), "lobpcg"),
        lambda: ls.solve(ls.CCA(X, given, 1), "lobpcg"),
        lambda: ls.solve(ls.Discriminant(X, given, 1)),
        lambda: ls.Moments(given).gram(np.ones((8, 1))),
    ):
        with refused():
            use()


@pytest.mark.parametrize("value", [1.7e308, 5e-324, 1e-310, 2**62, 2**64 - 1])
def test_numbers_at_the_ends_of_their_range(value):
    """An answer with a status that says what it is worth, or one clear sentence; never a wrong one that converged."""
    given = np.full((6, 3), value) if isinstance(value, float) else np.full((6, 3), value, np.uint64)
    if not 1e-60 <= value <= 1e60:
        with refused("1e-60"):
            ls.solve(ls.SVD(given, k=1))
        return
    found = quietly(ls.SVD(given, k=1), "auto")
    exact = float(value) * math.sqrt(18)
    holds(not found.converged or math.isclose(found.S[0], exact, rel_tol=1e-8), f"{found.S} for {exact}")


def test_views_that_share_memory():
    memory = X.copy()
    found = quietly(ls.CCA(memory[:, :5], memory[:, 3:], 2), "lobpcg")
    holds(np.allclose(found.correlations, 1), "another answer")
    holds(np.array_equal(memory, X), "the data were changed")
    with np.errstate(all="raise"):
        quietly(ls.CCA(X, X, 2), "gram")


def test_as_operator_has_clear_words_for_its_own_arguments():
    for value in NONSENSE.values():
        with refused("rows"):
            ls.as_operator(X, rows=value)
        with refused("dtype"):
            ls.as_operator(X, dtype=value)
    for value in (0, -1, True, 2.5, "3", math.inf):
        with refused("rows"):
            ls.as_operator(lambda: iter([X]), rows=value)
