"""`python -m linspec`, the same as the command `linspec`."""

from __future__ import annotations

import os
import signal
from types import FrameType


def start(prog_name: str | None = None) -> None:
    """Run the command `linspec` in the current process, which has no other purpose; no process is started.

    Ctrl-C therefore ends the process at once, even during the imports, with the line "Interrupted." and exit status
    130. Later the handlers of `linspec.cli.interrupts` act instead, for example during a solve. Nothing is changed if
    the process ignores Ctrl-C, as under nohup, or if other code has set a handler.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as by nohup
    if ours:
        signal.signal(signal.SIGINT, _quit)
    from linspec.cli import main

    main(prog_name=prog_name, own_process=ours)


def _quit(_: int, __: FrameType | None) -> None:
    """Handle Ctrl-C: write "Interrupted." to standard error and end the process at once with exit status 130.

    The handler is used until `linspec.cli` is imported, which sets its own (`linspec.cli.interrupts`).
    """
    try:
        os.write(2, b"Interrupted.\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    start("python -m linspec")
