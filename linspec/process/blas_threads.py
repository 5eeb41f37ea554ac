"""The threads of the BLAS: held to one while several threads of linspec multiply, and given back afterwards.

Problem: the limit on the threads of a BLAS belongs to the process, and solves overlap. If each remembered the limit
that it found and put it back, the second would find the one thread of the first, and whichever ended last might leave
it there for the rest of the process.

Method: one account for the whole process, under one lock: who is inside. The first to enter notes the limits and sets
them to one; the last to leave puts them back, in whatever order they leave. An entry has a key of its own, so that
leaving twice, or without having entered, does nothing: an interrupt may come at any point. Some libraries have a limit
for each thread instead (those on OpenMP, MKL through threadpoolctl 3.8): there the first entry of a thread sets it,
and its last one puts it back.

Where we differ from `threadpoolctl.threadpool_limits`, whose handles we use: a limit that is no longer the one thread
that was set is somebody else's and stays; libraries that were loaded later are found; any thread may put back what
another has set, which threadpoolctl from 3.8 on ignores silently unless control is cleared; a forked child keeps the
entries of its own thread only.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

from linspec.process.forks import wait_before_forks

__all__ = ["one_blas_thread", "usual_blas_threads"]


@contextmanager
def one_blas_thread(*, needed: bool) -> Iterator[None]:
    """Hold the BLAS to one thread within a block, where that is needed.

    Parameters
    ----------
    needed : bool
        Without it nothing is done.
    """
    if not needed:
        yield
        return
    key = object()
    try:
        try:
            _HOLD.enter(key)
            yield
        finally:
            _HOLD.leave(key)
    finally:
        _HOLD.leave(key)  # does nothing the second time; an interrupt may have cut the first short


def usual_blas_threads() -> int:
    """The threads that the BLAS uses for the calling thread: what other solves hold it to does not count.

    Returns
    -------
    int
        One where the calling thread is within `one_blas_thread`.
    """
    return _HOLD.usual()


class _Hold:
    """Who is inside, and the threads that the libraries had before."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._inside: dict[object, int] = {}  # key, and the thread that entered
        # Path of a library and the thread whose limit it is (None: that of the process), and its threads.
        self._before: dict[tuple[str, int | None], int] = {}
        self._libraries: dict[str, Any] = {}
        self._modules = -1

    def enter(self, key: object) -> None:
        """Set the libraries to one thread, unless somebody inside has."""
        with self.lock:
            thread = threading.get_ident()
            self._inside[key] = thread
            for path, library in self._loaded().items():
                place = path, None if _of_process(library) else thread
                found = library.num_threads
                if place not in self._before and found not in (None, 1):
                    self._before[place] = found
                    _set_threads(library, 1)

    def leave(self, key: object) -> None:
        """Put back what the libraries had, once nobody is inside."""
        with self.lock:
            self._inside.pop(key, None)
            self._restore()

    def usual(self) -> int:
        """The threads of the library that has most, as the calling thread would find them by itself."""
        with self.lock:
            if threading.get_ident() in self._inside.values():
                return 1
            most = 1
            for path, library in self._loaded().items():
                found = library.num_threads or 1
                most = max(most, self._before.get((path, None), 1) if found == 1 else found)
            return most

    def forked(self) -> None:
        """In a forked child no other thread exists that would leave."""
        try:
            own = threading.get_ident()
            self._inside = {key: thread for key, thread in self._inside.items() if thread == own}
            self._before = {place: n for place, n in self._before.items() if place[1] in (None, own)}
            self._restore()
        finally:
            self.lock.release()

    def _restore(self) -> None:
        """Put back the limits that nobody inside needs any more."""
        thread = threading.get_ident()
        needed: set[int | None] = {*self._inside.values(), *((None,) if self._inside else ())}
        for path, owner in list(self._before):
            if owner in needed or owner not in (None, thread):
                continue
            if self._libraries[path].num_threads == 1:
                _set_threads(self._libraries[path], self._before[path, owner])
            del self._before[path, owner]

    def _loaded(self) -> dict[str, Any]:
        """The BLAS libraries of this process; finding them takes some milliseconds, and they come with modules."""
        if self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            for library in ThreadpoolController().select(user_api="blas").lib_controllers:
                self._libraries.setdefault(library.filepath, library)
        return self._libraries


def _of_process(library: Any) -> bool:
    """Whether a limit is the whole process's; where that is not known, each thread puts back what it has set."""
    return bool(library.internal_api == "openblas" and library.threading_layer != "openmp")


def _set_threads(library: Any, threads: int) -> None:
    """Set a limit, whichever thread has set it before."""
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
    library.set_num_threads(threads)
    if clear is not None:
        clear(force=True)


_HOLD = _Hold()

wait_before_forks(_HOLD.lock, in_child=_HOLD.forked)
