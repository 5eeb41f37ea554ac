"""Checks of an adapter, on the sample that its record names.

Problem: linspec calls `matches` of an adapter for every object that it does not know, and every solver relies on
the operator that the adapter makes. An adapter that raises, or whose adjoint is wrong, harms users who have no such
data.
Method: the record's `sample` makes data. `matches` is called with them and with objects of other kinds. The operator
that `adapt` makes is tested against the laws of operators (`check_operator`), with one check for each law.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from linspec.errors import MissingPackage
from linspec.operators import LinearOperator, RowFiles
from linspec.registry.spec import resolve
from linspec.testing.behaviour import Skip
from linspec.testing.declarations import ARRAY_LIBRARIES
from linspec.testing.operators import LAWS, check_operator
from linspec.testing.places import package_of, said_of
from linspec.testing.process import left_behind, moved_generators, unexpected_warnings

__all__ = ["ADAPTER_CHECKS", "Adapter"]

FOLLOWING = ("moments", "means")
"""Laws about results computed from products. They are skipped if the products themselves are wrong."""


class Adapter:
    """An adapter with its sample.

    Parameters
    ----------
    spec : OperatorSpec
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.package = package_of(spec.adapt)

    @cached_property
    def sample(self) -> Any:
        """The data that the record names; Skip if there are none (the check "sample" reports it)."""
        try:
            return self.make()
        except Exception as error:
            raise Skip("there is no sample") from error

    def make(self) -> Any:
        """Call the function that the record names as `sample`."""
        return resolve(self.spec.sample)()

    @cached_property
    def operator(self) -> Any:
        """The operator that `adapt` makes of the sample; Skip if it makes none (the check "adapt" reports it)."""
        sample = self.sample
        try:
            made = self.spec.adapt(sample)
        except Exception as error:
            raise Skip("the sample cannot be adapted") from error
        if not isinstance(made, LinearOperator):
            raise Skip("the sample cannot be adapted")
        return made

    @cached_property
    def issues(self) -> list[tuple[str, str]]:
        """The broken laws, each with a description."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the check "process" looks at warnings
            found = [issue.partition(": ") for issue in check_operator(self.operator)]
        return [(law, text) for law, _, text in found]


def check_sample(adapter: Adapter) -> Iterator[str]:
    """The record names data to try the adapter on."""
    if adapter.spec.sample is None:
        yield (
            "the record names no sample, so the adapter cannot be tested. Give the record "
            'sample="package.module:function"; the function takes no arguments and returns a small object'
        )
        return
    try:
        adapter.make()
    except MissingPackage as error:
        raise Skip(str(error)) from error
    except Exception as error:  # noqa: BLE001 (a plugin's function may fail in any way)
        yield (
            f"{adapter.spec.sample} must return a sample; it raised "
            f"{said_of(error, adapter.spec.sample.partition('.')[0].partition(':')[0])}"
        )


class _Stranger:
    """An object of no library."""


class _Matrix(_Stranger):
    """An object of no library that has the attributes of a matrix."""

    shape, ndim, dtype, size = (2, 2), 2, np.dtype(np.float64), 4
    T = data = values = property(lambda self: self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.eye(2, dtype=dtype)

    def __getitem__(self, _: Any) -> Any:
        return self

    def __len__(self) -> int:
        return 2

    def __matmul__(self, other: Any) -> Any:
        return other


def check_matches(adapter: Adapter) -> Iterator[str]:
    """`matches` is True for the sample, False for data of other kinds, imports nothing and raises nothing."""
    sample = adapter.sample  # made first: it may import what it likes
    loaded = {name for name in ARRAY_LIBRARIES if name in sys.modules}
    others: list[Any] = [
        _Stranger(), _Matrix(), _Stranger, None, 3, "text", b"text", Path("text.of-no-format"), io.BytesIO(),
        RowFiles(("text.of-no-format",)), np.eye(2), [1.0], (), {"a": 1}, iter(()),
    ]  # fmt: skip
    for what, data, expected in [
        ("the sample", sample, True),
        *((f"an object of type {type(other).__name__}", other, False) for other in others),
    ]:
        try:
            answer = adapter.spec.matches(data)
        except Exception as error:  # noqa: BLE001 (it must raise nothing)
            yield (
                f"matches must answer for {what} and raise nothing; it raised "
                f"{said_of(error, adapter.package)}"
            )
            continue
        if answer is not expected:
            yield (
                f"matches must be {expected} for {what}; got {answer!r}. It must look at the class of the data, and at "
                "the suffix of files"
            )
    new = {name for name in ARRAY_LIBRARIES if name in sys.modules} - loaded
    if new:
        yield (
            f"matches must import no array library; it imports {', '.join(sorted(new))}. "
            "Look at type(data).__module__ instead"
        )


def check_adapt(adapter: Adapter) -> Iterator[str]:
    """`adapt` makes an operator of two dimensions."""
    sample = adapter.sample
    try:
        made = adapter.spec.adapt(sample)
    except Exception as error:  # noqa: BLE001 (a plugin's function may fail in any way)
        yield f"adapt must make an operator of the sample; it raised {said_of(error, adapter.package)}"
        return
    if not isinstance(made, LinearOperator):
        yield f"adapt must return a linspec.LinearOperator; got {type(made).__name__}"
    elif len(tuple(made.shape)) != 2:
        yield f"the operator must have shape (n, p); got {made.shape}"


def check_process(adapter: Adapter) -> Iterator[str]:
    """The adapter and its operator print nothing, give no warnings, use no global generator and change no settings."""

    def work() -> None:
        made = adapter.spec.adapt(adapter.sample)
        with suppress(Exception):  # the laws report it
            product = made.matmat(made.home.blocks.eye(made.shape[1]))
            made.rmatmat(made.home.place(product, made.dtype))
            part = made.rows(slice(0, product.shape[0])) if made.gathers else made
            if part.readable:
                part.dense()

    if adapter.operator is None:  # read first, so that the check is skipped if there is none
        return
    yield from left_behind(work)
    yield from unexpected_warnings(work)
    for owner in moved_generators(work):
        yield f"an adapter must not use a global random generator; it used that of {owner}"


def _law(name: str) -> Callable[[Adapter], Iterator[str]]:
    def check(adapter: Adapter) -> Iterator[str]:
        broken = {law for law, _ in adapter.issues if law not in {*FOLLOWING, "names"}}
        if name in FOLLOWING and broken:
            raise Skip(f"the products break other laws: {', '.join(sorted(broken))}")
        yield from (text for law, text in adapter.issues if law == name)

    return check


ADAPTER_CHECKS: dict[str, Callable[[Adapter], Iterator[str]]] = {
    "sample": check_sample,
    "matches": check_matches,
    "adapt": check_adapt,
    "process": check_process,
    **{name: _law(name) for name in LAWS if name != "entries"},
}
"""The checks of an adapter, by their names in test ids and expected failures. The law "entries" is left out: the
entries of a sample are not known."""
