"""`python -m linspec` is the command `linspec`."""

from __future__ import annotations

import os
import signal
from types import FrameType


def start(prog_name: str | None = None) -> None:
    """Run the command in a process of its own: an interrupt is one line, from the first import on."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as by nohup
    if ours:
        signal.signal(signal.SIGINT, _quit)
    from linspec.cli import main

    main(prog_name=prog_name, own_process=ours)


def _quit(_: int, __: FrameType | None) -> None:
    """What `linspec.cli.interrupts` does, which is not imported yet."""
    try:
        os.write(2, b"Interrupted.\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    start("python -m linspec")
