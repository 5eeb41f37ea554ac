"""The command `linspec`, also `python -m linspec`: solve, compare and look up, from a shell.

Problem: a first look at the library, or at one's data, should need no program; and a command that loads an array
library before it prints its help feels broken.
Method: click for the commands, one file each. Importing this package loads click and the registry and nothing
else: array libraries, rich (tables and bars) and matplotlib (plots) are imported where they are used, the
last two only where the extra ``cli`` is installed. Read `kinds` first, which makes commands of records, then `solve`.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "Kind": "linspec.cli.kinds",
    "Score": "linspec.cli.kinds",
    "center_option": "linspec.cli.kinds",
    "count_option": "linspec.cli.kinds",
    "first_numbers": "linspec.cli.kinds",
    "main": "linspec.cli.program",
    "numbers_option": "linspec.cli.kinds",
    "ridge_option": "linspec.cli.kinds",
    "row_options": "linspec.cli.kinds",
    "without_columns": "linspec.cli.columns",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
