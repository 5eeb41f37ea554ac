"""The cost of a fresh interpreter before the first computation."""

from __future__ import annotations

import subprocess
import sys


class Imports:
    """Seconds of a new process; "nothing" is what the interpreter itself takes."""

    timeout = 60

    def setup(self) -> None:
        """Write the bytecode first, and skip where this commit cannot be imported."""
        if python("import linspec; linspec.solvers()") != 0:
            raise NotImplementedError("this commit has no linspec.solvers()")

    def time_import_nothing(self) -> None:
        python("pass")

    def time_import_linspec(self) -> None:
        python("import linspec")

    def time_list_solvers(self) -> None:
        python("import linspec; linspec.solvers()")


def python(code: str) -> int:
    """Run code in a new interpreter; its exit status."""
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode  # noqa: S603
