"""Two devices; each thread has a current one. Source: `cupy/cuda/device.pyx`."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any, Self

from doubles.cupy_double import surface
from doubles.cupy_double.account import ACCOUNT

_STATE = threading.local()
MEMORY = {0: (6 << 30, 8 << 30), 1: (3 << 30, 8 << 30)}
"""Free bytes and all bytes of each device."""


def current() -> int:
    """The number of the current device; a new thread begins at device 0."""
    return getattr(_STATE, "device", 0)


def check(*numbers: int) -> None:
    """Refuse arrays that are not on the current device, for calls that launch a kernel (`cupy/_core/_kernel.pyx`)."""
    ACCOUNT.note("kernel")
    for number in numbers:
        if number != current():
            raise ValueError(
                f"The device where the array resides ({number}) is different from the current device ({current()}). "
                "Peer access is unavailable between these devices."
            )


class CUDARuntimeError(RuntimeError):
    """An error of the driver."""


class Device:
    """A device, and the context in which it is the current one. Equal by number, and cannot be hashed."""

    __module__ = "cupy.cuda.device"
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, device: Any = None) -> None:
        self.id = current() if device is None else int(device)
        self._before: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return int(other) == self.id if isinstance(other, int | Device) else NotImplemented

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __reduce__(self) -> Any:
        return Device, (self.id,)

    def __enter__(self) -> Self:
        if self.id not in MEMORY:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self._before.append(current())
        _STATE.device = self.id
        return self

    def __exit__(self, *_: object) -> None:
        _STATE.device = self._before.pop()

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free bytes and all bytes."""
        return MEMORY[self.id]


def modules(api: surface.Api) -> dict[str, ModuleType]:
    """`cupy.cuda` and what array-api-compat imports of it."""
    attributes = api["classes"]["cupy.cuda.Device"]
    surface.hold(Device, "Device", {name: each for name, each in attributes.items() if name != "id"})
    runtime = surface.module(
        "cupy.cuda.runtime",
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: len(MEMORY),
        getDevice=current,
    )
    device = surface.module("cupy.cuda.device", Device=Device)
    cuda = surface.module("cupy.cuda", Device=Device, runtime=runtime, device=device)
    return {each.__name__: each for each in (cuda, runtime, device)}
