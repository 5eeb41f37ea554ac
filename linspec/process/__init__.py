"""The process that linspec runs in: its cores, memory, threads, files, interrupts and log.

Nothing here knows a matrix. Read `machine` first: what this machine has, and what this process may use of it. `room`
asks before memory is taken, `interrupts` and `pauses` are how a run can be ended, `blas_threads` and `turns` say who
computes at a time, and `whole_files` writes a file whole or not at all.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "check_memory": "linspec.process.room",
    "check_memory_for_sparse": "linspec.process.room",
    "count_of": "linspec.process.plurals",
    "pause": "linspec.process.pauses",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
