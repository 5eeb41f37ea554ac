"""Two devices; each thread has a current one; and streams that have nothing to do.

Source: `cupy/cuda/device.pyx`. Devices are equal by number and cannot be hashed; a new thread begins at device 0.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any, Self

from doubles.cupy_double import surface
from doubles.cupy_double.account import ACCOUNT

COUNT = 2
_STATE = threading.local()
MEMORY = {0: (6 << 30, 8 << 30), 1: (3 << 30, 8 << 30)}
"""Free bytes and all bytes of each device."""


def current() -> int:
    """The number of the current device."""
    return getattr(_STATE, "device", 0)


class CUDARuntimeError(RuntimeError):
    """An error of the driver."""


class Device:
    """A device, and the context in which it is the current one."""

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
        before = current()
        self.use()
        self._before.append(before)
        return self

    def __exit__(self, *_: object) -> None:
        _STATE.device = self._before.pop()

    def use(self) -> None:
        """Make it the current device."""
        if not 0 <= self.id < COUNT:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        _STATE.device = self.id

    def synchronize(self) -> None:
        """Wait, explicitly; there is nothing to wait for."""

    @property
    def attributes(self) -> dict[str, int]:
        """What the driver says of the device: one of a computing centre."""
        return {"SingleToDoublePrecisionPerfRatio": 2}

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free bytes and all bytes."""
        return MEMORY[self.id]


class Stream:
    """A stream, in which all is done at once."""

    __module__ = "cupy.cuda.stream"

    def synchronize(self) -> None:
        """Wait, explicitly; there is nothing to wait for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def modules(api: surface.Api) -> dict[str, ModuleType]:
    """`cupy.cuda` and what array-api-compat imports of it."""
    attributes = api["classes"]["cupy.cuda.Device"]
    surface.hold(Device, "Device", {name: each for name, each in attributes.items() if name != "id"})
    runtime = surface.module(
        "cupy.cuda.runtime",
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: COUNT,
        getDevice=current,
        setDevice=lambda number: Device(number).use(),
        memGetInfo=lambda: MEMORY[current()],
    )
    device = surface.module("cupy.cuda.device", Device=Device, get_device_id=current)
    cuda = surface.module(
        "cupy.cuda", Device=Device, Stream=Stream, runtime=runtime, device=device, get_current_stream=Stream
    )
    return {each.__name__: each for each in (cuda, runtime, device)}


def check(*numbers: int) -> None:
    """Refuse arrays that are not on the current device, for calls that launch a kernel (`cupy/_core/_kernel.pyx`)."""
    ACCOUNT.note("kernel")
    for number in numbers:
        if number != current():
            raise ValueError(
                f"The device where the array resides ({number}) is different from the current device ({current()}). "
                "Peer access is unavailable between these devices."
            )
