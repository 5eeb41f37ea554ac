"""`python -m linspec`, the same as the command `linspec`."""

from __future__ import annotations

import os
import signal
from types import FrameType


def start(prog_name: str | None = None) -> None:
    """Run the command as its own process; from the first import on, an interrupt prints one line and exits."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as by nohup
    if ours:
        signal.signal(signal.SIGINT, _quit)
    from linspec.cli import main

    main(prog_name=prog_name, own_process=ours)


def _quit(_: int, __: FrameType | None) -> None:
    """Exit as `linspec.cli.interrupts` does, while that module is not imported yet."""
    try:
        os.write(2, b"Interrupted.\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    start("python -m linspec")
