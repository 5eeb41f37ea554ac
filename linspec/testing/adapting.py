"""What an adapter promises of foreign data, on the sample that its record names.

Problem: an adapter is asked about every object that linspec does not know, and what it makes is believed by every
solver: one that raises, or whose adjoint is another matrix's, harms what has nothing to do with it.
Method: the record's `sample` gives data. `matches` is asked about them and about objects of other kinds; what
`adapt` makes is held to the laws of operators (`check_operator`), one check each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from linspec.kinds import resolve
from linspec.operators import LinearOperator
from linspec.testing.behaviour import Skip
from linspec.testing.declarations import ARRAY_LIBRARIES
from linspec.testing.operators import LAWS, check_operator
from linspec.testing.places import package_of, said_of

__all__ = ["ADAPTER_CHECKS", "Adapter"]

FOLLOWING = ("moments", "means")
"""Laws about what is made of products: they say nothing where the products themselves are wrong."""


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
        """The data that the record names; Skip where there are none, which the check "sample" tells."""
        try:
            return self.make()
        except Exception as error:
            raise Skip("there is no sample") from error

    def make(self) -> Any:
        """The sample, made as the record says."""
        return resolve(self.spec.sample)()

    @cached_property
    def operator(self) -> Any:
        """What the adapter makes of the sample; Skip where that is no operator, which the check "adapt" tells."""
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
        """Each law that is broken, and how."""
        found = (issue.partition(": ") for issue in check_operator(self.operator))
        return [(law, text) for law, _, text in found]


def check_sample(adapter: Adapter) -> Iterator[str]:
    """The record names data to try the adapter on."""
    if adapter.spec.sample is None:
        yield (
            "the record names no sample, so nothing of the adapter can be tested; give it "
            'sample="package.module:function", a function without arguments that returns a small object to adapt'
        )
        return
    try:
        adapter.make()
    except Exception as error:  # noqa: BLE001 (a plugin's function may fail in any way)
        yield f"{adapter.spec.sample} raised {said_of(error, adapter.spec.sample.partition('.')[0].partition(':')[0])}"


class _Stranger:
    """An object of no library."""


def check_matches(adapter: Adapter) -> Iterator[str]:
    """`matches` is True for the sample, False for data of other kinds, imports nothing and raises nothing."""
    loaded = {name for name in ARRAY_LIBRARIES if name in sys.modules}
    others: list[Any] = [_Stranger(), _Stranger, None, 3, "text", np.eye(2), [1.0], {"a": 1}, iter(())]
    for what, data, expected in [
        ("the sample", adapter.sample, True),
        *((f"an object of type {type(other).__name__}", other, False) for other in others),
    ]:
        try:
            answer = adapter.spec.matches(data)
        except Exception as error:  # noqa: BLE001 (it must raise nothing)
            yield f"matches raised {said_of(error, adapter.package)} for {what}"
            continue
        if answer is not expected:
            yield f"matches must be {expected} for {what}; got {answer!r}"
    new = {name for name in ARRAY_LIBRARIES if name in sys.modules} - loaded
    if new:
        yield f"matches imports {', '.join(sorted(new))}; look at type(data).__module__ instead"


def check_adapt(adapter: Adapter) -> Iterator[str]:
    """`adapt` makes an operator of two dimensions."""
    sample = adapter.sample
    try:
        made = adapter.spec.adapt(sample)
    except Exception as error:  # noqa: BLE001 (a plugin's function may fail in any way)
        yield f"adapt raised {said_of(error, adapter.package)}"
        return
    if not isinstance(made, LinearOperator):
        yield f"adapt must make a linspec.LinearOperator; got {type(made).__name__}"
    elif len(tuple(made.shape)) != 2:
        yield f"the operator must have shape (n, p); got {made.shape}"


def _law(name: str) -> Callable[[Adapter], Iterator[str]]:
    def check(adapter: Adapter) -> Iterator[str]:
        broken = {law for law, _ in adapter.issues}
        if name in FOLLOWING and broken - set(FOLLOWING):
            raise Skip(f"products are wrong: {', '.join(sorted(broken - set(FOLLOWING)))}")
        yield from (text for law, text in adapter.issues if law == name)

    return check


ADAPTER_CHECKS: dict[str, Callable[[Adapter], Iterator[str]]] = {
    "sample": check_sample,
    "matches": check_matches,
    "adapt": check_adapt,
    **{name: _law(name) for name in LAWS if name != "entries"},
}
"""By name, as in test ids and expected failures. (What the entries are known to be is not known of a sample.)"""
