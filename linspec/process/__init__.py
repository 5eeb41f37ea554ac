"""The process in which linspec runs: its cores, memory, threads, files, interrupts and log.

This package does not depend on matrices. Read `machine` first: the resources of this machine that this process may
use. `files` checks what is read, and writes a file completely or not at all. `interrupts` and `pauses` end a run early,
`blas_threads` and `turns` coordinate threads.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "available_memory": "linspec.process.machine",
    "check_memory": "linspec.process.files",
    "check_memory_for_sparse": "linspec.process.files",
    "count_of": "linspec.process.plurals",
    "pause": "linspec.process.pauses",
    "tell_rows": "linspec.process.progress",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
