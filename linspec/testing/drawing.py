"""What every test matrix promises: shape, both forms alike, nothing random but the generator, and its moments.

Problem: a random matrix that is wrong still gives answers, a little worse than they should be, or that nobody can
repeat.
Method: each promise of `linspec.TestMatrix` is a check of its own. Entries are compared to the last bit, products with
those of NumPy on every backend, the moments with E Ω = 0 and E ΩΩᵀ = l I over some hundred seeds, within five standard
errors, which are estimated from the same draws. What is drawn must not change with the global generators, and must not
touch them.
Where we differ: the seeds of the kit are fixed, so a matrix that passes passes every time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from linspec.arrays import HostArray, device_of, host_dtype, is_array, namespace, to_host
from linspec.operators import LinearOperator
from linspec.testing.backends import Backend
from linspec.testing.behaviour import Skip, moved_generators
from linspec.testing.operators import CountingOperator, check_operator
from linspec.testing.oracle import ROUNDING

__all__ = ["PRODUCT_CHECKS", "TEST_MATRIX_CHECKS"]

SHAPES = ((40, 9), (64, 16), (5, 12), (23, 1), (1, 4), (1, 1))

SEEDS, SIGMAS = 600, 5.0
"""Draws of which moments are estimated, and standard errors within which they must be what is promised."""

SMALL = ((13, 6), (5, 9))
"""Shapes of those draws: rows that are no power of two, and fewer rows than columns."""


@contextmanager
def _global_generators(seed: int) -> Iterator[None]:
    """NumPy's and Python's global generators in a known state, and afterwards in that which they had."""
    state, python = np.random.get_state(), random.getstate()  # noqa: NPY002 (the global one is meant)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(python)


def _entries(matrix: Any, rows: int, columns: int, seed: int, *, outer: int = 0) -> HostArray:
    """What is drawn from a seed, the global generators being in the same state every time."""
    with _global_generators(outer):
        drawn: HostArray = matrix.draw(rows, columns, np.random.default_rng(seed))
    return drawn


def check_shape(matrix: Any) -> Iterator[str]:
    """`draw` gives float64 of the shape asked for, on the host; `operator` an operator of that shape."""
    for rows, columns in SHAPES:
        drawn = _entries(matrix, rows, columns, 0)
        what = f"draw({rows}, {columns}, rng)"
        if type(drawn) is not np.ndarray or drawn.dtype != np.float64:
            yield f"{what} must give a NumPy array of float64; got {type(drawn).__name__}"
        elif drawn.shape != (rows, columns):
            yield f"{what} must have that shape; got {drawn.shape}"
        elif not np.isfinite(drawn).all():
            yield f"{what} has entries that are not finite"
        made = matrix.operator(rows, columns, np.random.default_rng(0))
        if not isinstance(made, LinearOperator) or not callable(getattr(made, "sketch", None)):
            yield f"operator({rows}, {columns}, rng) must give a linspec.operators.Sketch; got {type(made).__name__}"
        elif made.shape != (rows, columns):
            yield f"operator({rows}, {columns}, rng) must have that shape; got {made.shape}"


def check_forms(matrix: Any) -> Iterator[str]:
    """`operator` makes the matrix that `draw` draws, and multiplies by it, also once the generator has gone on."""
    for rows, columns in SHAPES:
        drawn = _entries(matrix, rows, columns, 3)
        if not np.array_equal(drawn, _entries(matrix, rows, columns, 3)):
            raise Skip("what is drawn cannot be repeated")
        rng = np.random.default_rng(3)
        with _global_generators(0):
            made = matrix.operator(rows, columns, rng)
        rng.standard_normal(5)  # a generator that is kept would now give other numbers
        for reading in ("", ", read a second time,"):
            if not np.array_equal(to_host(made.dense()), drawn):
                yield f"the entries of operator({rows}, {columns}, rng){reading} are not those of draw"
                break
        else:
            laws = check_operator(made, entries=drawn)
            yield from (f"operator({rows}, {columns}, rng): {issue}" for issue in laws)


def check_same_seed(matrix: Any) -> Iterator[str]:
    """Equal states of the generator give equal matrices, whatever was drawn before."""
    for rows, columns in SHAPES:
        first = _entries(matrix, rows, columns, 7)
        _entries(matrix, rows + 3, columns, 8)
        if not np.array_equal(first, _entries(matrix, rows, columns, 7)):
            yield f"draw({rows}, {columns}, rng) twice from equal states gives two matrices"


def check_random_state(matrix: Any) -> Iterator[str]:
    """All that is random comes from the generator that is given; the global ones are neither asked nor moved."""
    rows, columns = SHAPES[0]
    first, second, other = (_entries(matrix, rows, columns, 0, outer=outer) for outer in (1, 1, 2))
    if np.array_equal(first, second) and not np.array_equal(first, other):
        yield "the matrix changes with the global generators of NumPy or Python; draw from rng alone"
    if np.array_equal(_entries(matrix, rows, columns, 0), _entries(matrix, rows, columns, 1)):
        yield "generators in different states give the same matrix; draw from rng"

    def draw() -> None:
        matrix.draw(rows, columns, np.random.default_rng(0))
        matrix.operator(rows, columns, np.random.default_rng(0)).dense()

    with _global_generators(0):
        for owner in moved_generators(draw):
            yield f"{owner}'s global generator is used; draw from rng"


def check_moments(matrix: Any) -> Iterator[str]:
    """Entries with mean zero and variance one, any two of a column uncorrelated: E ΩΩᵀ = l I."""
    with _global_generators(0):
        for rows, columns in SMALL:
            drawn = np.stack(
                [matrix.draw(rows, columns, np.random.default_rng([seed, rows])) for seed in range(SEEDS)]
            )
            where = f"over {SEEDS} draws of {rows} x {columns}"
            yield from (f"{where}, {issue}" for issue in _moment_issues(drawn))


def _moment_issues(drawn: HostArray) -> Iterator[str]:
    _, rows, columns = drawn.shape
    outer = np.einsum("sij,skj->sik", drawn, drawn) / columns
    x = np.random.default_rng(9).standard_normal(rows)
    lengths = ((x @ drawn) ** 2).sum(axis=1) / columns / (x @ x)
    diagonal = outer[:, np.arange(rows), np.arange(rows)]
    off = outer - np.eye(rows) * outer
    for what, found, expected in (
        ("the mean of an entry", drawn, 0.0),
        ("the mean of all entries", drawn.mean(axis=(1, 2)), 0.0),
        ("the mean square of the entries of a row", diagonal, 1.0),
        ("the mean square of all entries", diagonal.mean(axis=1), 1.0),
        ("the mean product of two entries of a column", off, 0.0),
        ("the mean of ‖xᵀΩ‖² / l‖x‖²", lengths, 1.0),
    ):
        mean = found.mean(axis=0)
        error = found.std(axis=0) / np.sqrt(len(found)) + 1e-9
        worst = np.argmax(np.abs(mean - expected) / error)
        value, unit = float(np.ravel(mean)[worst]), float(np.ravel(error)[worst])
        if not abs(value - expected) <= SIGMAS * unit:
            yield f"{what} is {value:.3g}; {expected:g} is promised (standard error {unit:.2g})"


TEST_MATRIX_CHECKS: dict[str, Callable[[Any], Iterator[str]]] = {
    "shape": check_shape,
    "forms": check_forms,
    "same-seed": check_same_seed,
    "random-state": check_random_state,
    "moments": check_moments,
}
"""By name, as in test ids and expected failures."""


def check_products(matrix: Any, backend: Backend) -> Iterator[str]:
    """A Ω for data of this kind: NumPy's product, of the library, device and dtype of the data, in one sweep."""
    host = np.random.default_rng(4).standard_normal((30, 37)) * (np.arange(37) % 3 > 0)
    host = host if backend.float64 else host.astype(np.float32)
    data = backend.wrap(host)
    for columns in (6, 45):
        Omega = matrix.operator(37, columns, np.random.default_rng(2))
        entries = np.asarray(to_host(Omega.dense()), dtype=np.float64)
        A = CountingOperator(data, readable=backend.readable, sliceable=backend.readable)
        for what, product in (("", Omega.sketch(A.inner)), (" known by its products", Omega.sketch(A))):
            found = np.asarray(to_host(product), dtype=np.float64)
            wanted = host.astype(np.float64) @ entries
            size = np.abs(host.astype(np.float64)) @ np.abs(entries)
            if found.shape != wanted.shape:
                yield f"the product of data{what} must have shape {wanted.shape}; got {found.shape}"
            elif not np.all(np.abs(found - wanted) <= ROUNDING * float(np.finfo(A.dtype).eps) * size):
                yield f"the product of data{what} is off by {np.abs(found - wanted).max():.2g}"
            if not is_array(product) or host_dtype(product) != A.dtype:
                yield f"the product of data{what} must be of {A.dtype}, as theirs; got {product.dtype}"
        if backend.is_array and (
            namespace(product) is not namespace(data) or device_of(product) != device_of(data)
        ):
            yield f"the product must live where the data do; got {namespace(product).__name__}"
        if A.passes > 1:
            yield f"{A.passes:g} sweeps were made; one is promised"


PRODUCT_CHECKS: dict[str, Callable[[Any, Backend], Iterator[str]]] = {"products": check_products}
"""Those that are made on every backend."""
