"""The command `linspec`, also `python -m linspec`: solve, compare and look up, from a shell.

Problem: a first look at the library, or at one's data, should need no program.
Method: click for the commands. `problems` makes the command of a problem from the declared fields of its class, and
`data` reads files; `solving` and `transform` have the commands that use both, and `output` writes tables and files.
Importing this package loads click and the registry; array libraries are loaded by the commands that need them.
Read `problems` first.
"""

from __future__ import annotations

from linspec.cli.program import main

# The command, which a script can call with a list of arguments.
__all__ = ["main"]
