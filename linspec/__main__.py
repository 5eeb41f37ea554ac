"""`python -m linspec`, the same as the command `linspec`."""

from __future__ import annotations

import os
import signal
from types import FrameType


def start(prog_name: str | None = None) -> None:
    """Run the command `linspec` in the current process, which has no other purpose; no process is started.

    Ctrl-C during the imports ends the process at once, with the line "Interrupted." and exit status 130: an exception
    could be lost in them. Nothing is changed if the process ignores Ctrl-C, as under nohup, or if other code has set a
    handler.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, _quit)
    from linspec.cli import main

    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, usual)
    try:
        main(prog_name=prog_name)
    finally:
        if usual is signal.default_int_handler:  # one that comes as Python ends would kill without a word
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _quit(_: int, __: FrameType | None) -> None:
    """Write "Interrupted." to standard error and end the process at once with exit status 130."""
    try:
        os.write(2, b"Interrupted.\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    start("python -m linspec")
