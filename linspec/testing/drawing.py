"""Checks of a test matrix: its shape, its two forms, its use of random generators, and its moments.

Problem: a wrong random matrix still gives answers. They are a little worse than they should be, or cannot be
repeated.
Method: each promise of `linspec.TestMatrix` has its own check. Entries are compared to the last bit. Products
are compared with NumPy's on every backend. The moments over some hundred seeds are compared with E Ω = 0 and
E ΩΩᵀ = l I, within five standard errors, which are estimated from the same draws. The entries must not depend
on the global random generators, and drawing must not use them.
Where we differ: the seeds of the kit are fixed, so a matrix passes every time or never.
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
from linspec.testing.behaviour import Skip
from linspec.testing.operators import CountingOperator, check_operator
from linspec.testing.oracle import ROUNDING
from linspec.testing.process import left_behind, moved_generators

__all__ = ["PRODUCT_CHECKS", "TEST_MATRIX_CHECKS"]

SHAPES = ((40, 9), (64, 16), (5, 12), (23, 1), (1, 4), (1, 1))

SEEDS, SIGMAS = 600, 5.0
"""Number of draws that estimate the moments, and largest error in standard errors."""

SMALL = ((13, 6), (5, 9))
"""Shapes of the draws for moments: a number of rows that is not a power of two, and fewer rows than columns."""


@contextmanager
def _global_generators(seed: int) -> Iterator[None]:
    """Seed NumPy's and Python's global generators, and restore their states at the end."""
    state, python = np.random.get_state(), random.getstate()  # noqa: NPY002 (the global one is meant)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(python)


def _entries(matrix: Any, rows: int, columns: int, seed: int, *, outer: int = 0) -> HostArray:
    """Draw the entries from a seed, while the global generators are seeded with `outer`."""
    with _global_generators(outer):
        drawn: HostArray = matrix.draw(rows, columns, np.random.default_rng(seed))
    return drawn


def check_shape(matrix: Any) -> Iterator[str]:
    """`draw` returns a NumPy array of float64, and `operator` a sketch, both of the requested shape."""
    for rows, columns in SHAPES:
        drawn = _entries(matrix, rows, columns, 0)
        what = f"draw({rows}, {columns}, rng)"
        if type(drawn) is not np.ndarray or drawn.dtype != np.float64:
            yield f"{what} must return a NumPy array of float64; got {type(drawn).__name__}"
        elif drawn.shape != (rows, columns):
            yield f"{what} must return that shape; got {drawn.shape}"
        elif not np.isfinite(drawn).all():
            yield f"{what} must return finite entries; some are not finite"
        made = matrix.operator(rows, columns, np.random.default_rng(0))
        if not isinstance(made, LinearOperator) or not callable(getattr(made, "sketch", None)):
            yield (
                f"operator({rows}, {columns}, rng) must return a linspec.operators.Sketch; got "
                f"{type(made).__name__}"
            )
        elif made.shape != (rows, columns):
            yield f"operator({rows}, {columns}, rng) must return that shape; got {made.shape}"


def check_forms(matrix: Any) -> Iterator[str]:
    """`operator` has the entries that `draw` returns, also after the generator has drawn other numbers."""
    for rows, columns in SHAPES:
        drawn = _entries(matrix, rows, columns, 3)
        if not np.array_equal(drawn, _entries(matrix, rows, columns, 3)):
            raise Skip("draw does not repeat its entries")
        rng = np.random.default_rng(3)
        with _global_generators(0):
            made = matrix.operator(rows, columns, rng)
        rng.standard_normal(5)  # an operator that keeps the generator would now draw other numbers
        for reading in ("", ", read a second time,"):
            if not np.array_equal(to_host(made.dense()), drawn):
                yield (
                    f"operator({rows}, {columns}, rng){reading} must have the entries of draw for the same "
                    "generator; they differ"
                )
                break
        else:
            laws = check_operator(made, entries=drawn)
            yield from (f"operator({rows}, {columns}, rng): {issue}" for issue in laws)


def check_same_seed(matrix: Any) -> Iterator[str]:
    """A generator in the same state gives the same matrix, whatever was drawn before."""
    for rows, columns in SHAPES:
        first = _entries(matrix, rows, columns, 7)
        _entries(matrix, rows + 3, columns, 8)
        if not np.array_equal(first, _entries(matrix, rows, columns, 7)):
            yield (
                f"draw({rows}, {columns}, rng) must give the same matrix for generators in the same state; "
                "two draws differ"
            )


def check_random_state(matrix: Any) -> Iterator[str]:
    """All random numbers come from the given generator; the global ones are not used."""
    rows, columns = SHAPES[0]
    first, second, other = (_entries(matrix, rows, columns, 0, outer=outer) for outer in (1, 1, 2))
    if np.array_equal(first, second) and not np.array_equal(first, other):
        yield (
            "the matrix must not depend on the global generators of NumPy or Python; it changes with them. "
            "Draw from rng alone"
        )
    if np.array_equal(_entries(matrix, rows, columns, 0), _entries(matrix, rows, columns, 1)):
        yield "generators in different states must give different matrices; they give the same. Draw from rng"

    def draw() -> None:
        matrix.draw(rows, columns, np.random.default_rng(0))
        matrix.operator(rows, columns, np.random.default_rng(0)).dense()

    for owner in moved_generators(draw):
        yield f"a test matrix must not use a global random generator; it used that of {owner}. Draw from rng"


def check_process(matrix: Any) -> Iterator[str]:
    """Drawing prints nothing, and leaves the settings of the process as they were."""
    rows, columns = SHAPES[0]
    yield from left_behind(lambda: matrix.operator(rows, columns, np.random.default_rng(0)).dense())


def check_moments(matrix: Any) -> Iterator[str]:
    """The entries have mean zero and variance one, and those of a column are uncorrelated: E ΩΩᵀ = l I."""
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
            yield f"{what} must be {expected:g}; got {value:.3g} (standard error {unit:.2g})"


TEST_MATRIX_CHECKS: dict[str, Callable[[Any], Iterator[str]]] = {
    "process": check_process,  # first: nothing is left behind by the others
    "shape": check_shape,
    "forms": check_forms,
    "same-seed": check_same_seed,
    "random-state": check_random_state,
    "moments": check_moments,
}
"""The checks of a test matrix, by their names in test ids and expected failures."""


def check_products(matrix: Any, backend: Backend) -> Iterator[str]:
    """A Ω takes one sweep and equals NumPy's product, in the library, device and dtype of the data."""
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
                yield (
                    f"the product of data{what} must equal NumPy's up to rounding; it is off by "
                    f"{np.abs(found - wanted).max():.2g}"
                )
            if not is_array(product) or host_dtype(product) != A.dtype:
                yield f"the product of data{what} must be {A.dtype}, like the data; got {product.dtype}"
        if backend.is_array and (
            namespace(product) is not namespace(data) or device_of(product) != device_of(data)
        ):
            yield (
                "the product must be in the library and on the device of the data; got "
                f"{namespace(product).__name__}"
            )
        if A.passes > 1:
            yield f"a product A Ω must take one sweep over A; {A.passes:g} sweeps were made"


PRODUCT_CHECKS: dict[str, Callable[[Any, Backend], Iterator[str]]] = {"products": check_products}
"""The checks of a test matrix that run on every backend, by name."""
