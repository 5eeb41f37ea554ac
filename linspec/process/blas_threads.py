"""The threads of the BLAS: limited to one while several threads of linspec multiply, and restored afterwards.

Problem: the limit on the threads of a BLAS belongs to the process, and solves overlap. Suppose that each solve
restored the limit that it found. The second solve would find the limit of one thread that the first has set; if it
ended last, it would restore that limit, and the process would keep one thread.

Method: one record for the whole process, under one lock, lists the active `with` blocks. The first block to enter
stores the limits and sets them to one; the last block to leave restores them, in whatever order blocks leave. Some
libraries have a limit for each thread instead (those on OpenMP, MKL through threadpoolctl 3.8): there the first entry
of a thread sets the limit, and its last exit restores it.

Where we differ from `threadpoolctl.threadpool_limits`, whose handles we use: a limit that is no longer 1 was changed by
other code and is kept; libraries that were loaded later are found; any thread may restore a limit that another has set,
which threadpoolctl from 3.8 on ignores silently unless control is cleared.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread(*, needed: bool) -> Iterator[None]:
    """Limit the BLAS to one thread within a `with` block.

    Parameters
    ----------
    needed : bool
        Whether to limit the BLAS; if False, nothing is done.
    """
    if not needed:
        yield
        return
    _HOLD.enter()
    try:
        yield
    finally:
        _HOLD.leave()


def usual_blas_threads() -> int:
    """Number of threads that a BLAS call in the calling thread may use.

    A limit of one thread that another thread has set by `one_blas_thread` is ignored.

    Returns
    -------
    int
        The largest number over the loaded BLAS libraries; 1 if the calling thread is within `one_blas_thread`.
    """
    return _HOLD.usual()


class _Hold:
    """Record of the active `one_blas_thread` blocks, and of the thread limits that the libraries had before them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._inside: list[int] = []  # the thread of each block
        # Path of a library and the thread whose limit it is (None: that of the process), and its threads.
        self._before: dict[tuple[str, int | None], int] = {}
        self._libraries: dict[str, Any] = {}
        self._modules = -1

    def enter(self) -> None:
        """Register a `with` block, and limit every library that is not limited yet to one thread."""
        with self.lock:
            thread = threading.get_ident()
            self._inside.append(thread)
            for path, library in self._loaded().items():
                of_process = library.internal_api == "openblas" and library.threading_layer != "openmp"
                place = path, None if of_process else thread
                threads = library.num_threads
                if place not in self._before and threads not in (None, 1):
                    self._before[place] = threads
                    _set_threads(library, 1)

    def leave(self) -> None:
        """Remove a `with` block, and restore the limits that no other block needs, unless other code changed them."""
        with self.lock:
            thread = threading.get_ident()
            self._inside.remove(thread)
            for path, owner in list(self._before):
                needed = self._inside if owner is None else owner != thread or thread in self._inside
                if not needed:
                    threads = self._before.pop((path, owner))
                    if self._libraries[path].num_threads == 1:
                        _set_threads(self._libraries[path], threads)

    def usual(self) -> int:
        """Number of BLAS threads for the calling thread, without the limits that blocks of other threads have set."""
        with self.lock:
            if threading.get_ident() in self._inside:
                return 1
            now = (library.num_threads or 1 for library in self._loaded().values())
            return max([1, *now, *self._before.values()])

    def _loaded(self) -> dict[str, Any]:
        """The BLAS libraries of this process by path; the search (some milliseconds) is repeated only after imports."""
        if self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            for library in ThreadpoolController().select(user_api="blas").lib_controllers:
                self._libraries.setdefault(library.filepath, library)
        return self._libraries


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads of a library, even if another thread has set it before."""
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
    library.set_num_threads(threads)
    if clear is not None:
        clear(force=True)


_HOLD = _Hold()
