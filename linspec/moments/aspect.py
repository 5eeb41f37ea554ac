"""An aspect of moments: members that belong together, in an object of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from linspec.arrays import on_device
from linspec.process.turns import in_turn

if TYPE_CHECKING:
    from linspec.moments.moments import Moments

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Moments | Aspect")


def one_at_a_time(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a method of moments so that one thread at a time runs it, with `home` as the current device.

    The lock is that of the moments of all views, and also covers the moments of single views that were made from them.
    So held matrices are formed only once, and every sweep is counted correctly.
    """

    @wraps(method)
    def alone(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with in_turn(self._of_all), on_device(self.home):
            return method(self, *args, **kwargs)

    return alone  # type: ignore[return-value]  # it is called like the method


class Aspect:
    """Base class of objects that hold the less common methods of moments, such as `Moments.cost`."""

    def __init__(self, moments: Moments) -> None:
        self._moments, self.home = moments, moments.home
        self._views, self._sweeps = moments._views, moments._sweeps

    @property
    def _of_all(self) -> Moments:
        return self._moments._of_all
