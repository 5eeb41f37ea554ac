"""`python -m linspec` is the command `linspec`."""

from __future__ import annotations

from linspec.cli import main

if __name__ == "__main__":
    main(prog_name="python -m linspec")
