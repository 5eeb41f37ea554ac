"""The resources of the machine that this process may use: cores, memory, and one pool of threads.

Problem: plans (the number of threads, whether a Gram matrix fits into memory) need the share of
the machine that the process was given, not the size of the machine: batch systems pin processes to cores, containers
limit memory.

Method: the CPU affinity mask and the CPU quota of the control groups; `MemAvailable` of Linux, lowered to what
the control groups and the resource limits of the process still allow. On systems without these, portable defaults
are used.

Source: the Linux documents proc(5), sched_setaffinity(2), getrlimit(2), cgroups(7), "Control Group v2" and
"CFS Bandwidth Control".

Where we differ: page cache that the kernel can drop at once (`inactive_file`) does not count as used memory in a
control group, so that reading a file does not seem to use up the memory. In `map_parallel` the caller works, too, and
waits for nothing but items that have begun. So a parallel function may call another one without a deadlock, and the
caller does all items if no thread can be started.
"""

from __future__ import annotations

import math
import os
import re
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from linspec.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

THREADS_VARIABLE = "LINSPEC_NUM_THREADS"
MEMORY_VARIABLE = "LINSPEC_MAX_MEMORY"
ROOT = Path("/")
"""Made once: every product needs the number of threads, and making a path takes as long as a small product."""

DEFAULT_MEMORY = 2 * 2**30
"""If the system reports no memory: a size that any machine of this century has."""

_alone: ContextVar[bool] = ContextVar("linspec_alone", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Make `cpu_count` return 1 within a `with` block, so that sums do not depend on the number of cores."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def cpu_count() -> int:
    """Return the number of threads that linspec may run at once.

    The environment variable `LINSPEC_NUM_THREADS` sets the number. By default it is the number of cores in the
    affinity mask of the process (or of the machine, if the system has no such mask), but no more than the CPU quota
    of its control groups, rounded up.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InvalidOption
        `LINSPEC_NUM_THREADS` is not a positive whole number.
    """
    most = 1 if _alone.get() else _most_threads()
    if most is not None:
        return most
    pinned = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if pinned else os.cpu_count()
    return min(cores or 1, _cpu_quota(ROOT) or math.inf)  # type: ignore[return-value]


def available_memory() -> int:
    """Return the bytes that the process can still allocate without swapping, failing or being killed.

    On Linux this is `MemAvailable` of /proc/meminfo, lowered to the remainder under the memory limits of each control
    group (version 1 or 2) of the process. On other systems it is the free, or else the whole, physical memory that
    `sysconf` reports, or 2 GiB if `sysconf` reports none. The result is never more than the resource limits leave of
    the address space and the data segment, nor more than the environment variable `LINSPEC_MAX_MEMORY`.

    Returns
    -------
    int
        Bytes, at least 0. A momentary estimate: other processes change it.

    Raises
    ------
    InvalidOption
        `LINSPEC_MAX_MEMORY` is not a positive number of bytes.

    Examples
    --------
    >>> from linspec.process import available_memory
    >>> available_memory() > 0
    True
    """
    most = _most_memory()
    memory = _available_memory(ROOT)
    return memory if most is None else min(memory, most)


def check_settings() -> None:
    """Raise an error for invalid environment variables, which small problems do not need."""
    _most_threads()
    _most_memory()


def worker_pool() -> ThreadPoolExecutor:
    """Return the thread pool of this process, made at the first call.

    A forked child, whose copy of the parent's pool has no threads, gets a new pool, and so does a process whose
    `cpu_count()` has changed.

    Returns
    -------
    concurrent.futures.ThreadPoolExecutor
        A pool of `cpu_count()` threads. Do not shut it down.

    Raises
    ------
    RuntimeError
        The interpreter is shutting down.
    """
    return _pool(os.getpid(), cpu_count())


def map_parallel(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to every item, on the calling thread and the threads of the pool.

    Parameters
    ----------
    function : callable
        Called once for each item. Calls run in parallel only while they release the interpreter lock.
    items : iterable
        The arguments.

    Returns
    -------
    list
        The results, in the order of the items.

    Raises
    ------
    Exception
        The exception of the earliest item that failed, raised when no item is running any more.

    Notes
    -----
    If the system cannot start a thread, or the interpreter is shutting down, the caller does all items itself.
    """
    items = list(items)
    results = dict[int, R]()
    errors = list[BaseException]()
    turn = count()

    def work() -> None:
        """Do items that nobody has begun, until there are none, or one has failed."""
        while (i := next(turn)) < len(items) and not errors:
            try:
                results[i] = function(items[i])
            except BaseException as error:  # noqa: BLE001 - it is raised where all have ended
                errors.append(error)

    helpers = []
    with suppress(RuntimeError, MemoryError):  # no thread can be started: the caller does all
        for _ in items[1:]:
            helpers.append(worker_pool().submit(copy_context().run, work))  # noqa: PERF401 (it may end early)
    work()  # so a call from inside a worker always makes progress
    wait(
        [helper for helper in helpers if not helper.cancel()]
    )  # they may be writing into arrays of the caller
    if errors:
        raise errors[0]
    return [results[i] for i in range(len(items))]


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    from concurrent.futures import (
        ThreadPoolExecutor,
    )  # which cannot be loaded while the interpreter shuts down

    # The process number is part of the key only: it makes a forked child build its own pool.
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"linspec-{process}")


@lru_cache(maxsize=8)  # reading it takes longer than a small product, and each product needs it
def _cpu_quota(root: Path) -> int | None:
    """Number of cores that the control groups of the process allow, rounded up; None without a quota."""
    quotas = []
    for version, group in _control_groups(root, "cpu"):
        if version == 2:  # "50000 100000", or "max 100000"
            limit, _, period = next(iter(_lines(group / "cpu.max")), "").partition(" ")
            allowed, microseconds = _whole(limit), _whole(period)
        else:  # -1 stands for no limit
            allowed = _number(group / "cpu.cfs_quota_us")
            microseconds = _number(group / "cpu.cfs_period_us")
        if allowed and microseconds:
            quotas.append(-(-allowed // microseconds))
    return min(quotas, default=None)


def _most_threads() -> int | None:
    """The number of threads that `LINSPEC_NUM_THREADS` sets; None if it is not set."""
    setting = os.environ.get(THREADS_VARIABLE, "").strip()
    if not setting:
        return None
    if not (re.fullmatch("[0-9]{1,9}", setting) and int(setting) >= 1):
        raise InvalidOption(
            f"the environment variable {THREADS_VARIABLE} must be a positive whole number; got {setting!r}. "
            "Set it to the number of threads to use, or unset it to use every core of the process."
        )
    return int(setting)


def _most_memory() -> int | None:
    """The bytes that `LINSPEC_MAX_MEMORY` allows; None if it is not set."""
    setting = os.environ.get(MEMORY_VARIABLE, "").strip()
    if not setting:
        return None
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*(?:([KMGTP])(I?))?B?", setting.upper(), re.ASCII)
    number, unit, binary = match.groups() if match else ("0", None, None)
    most = int(float(number) * (1024 if binary else 1000) ** ("KMGTP".index(unit) + 1 if unit else 0))
    if most < 1:
        raise InvalidOption(
            f"the environment variable {MEMORY_VARIABLE} must be a positive number of bytes, such as 500M (10**6 "
            f"each) or 4GiB (2**30 each); got {setting!r}. Correct it, or unset it to use the memory that there is."
        )
    return most


def _available_memory(root: Path) -> int:
    return max(0, min([_system_memory(root), *_control_group_memory(root), *_resource_limits(root)]))


def _system_memory(root: Path) -> int:
    available = _entry(root / "proc/meminfo", "MemAvailable")
    if available is not None:
        return available * 1024
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        with suppress(AttributeError, ValueError, OSError):  # the system has no such setting
            count = os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
            if count > 0:  # -1 if the system does not know
                return count
    return DEFAULT_MEMORY


def _resource_limits(root: Path) -> Iterator[int]:
    """Yield the bytes that remain under the limits of address space and data segment, if there are limits."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    for name, used in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
        limit = resource.getrlimit(getattr(resource, name))[0] if hasattr(resource, name) else -1
        if limit not in (-1, resource.RLIM_INFINITY):
            yield int(limit) - (_entry(root / "proc/self/status", used) or 0) * 1024


def _control_group_memory(root: Path) -> Iterator[int]:
    """Yield the bytes that each control group of the process, of version 1 or 2, still allows."""
    for version, group in _control_groups(root, "memory"):
        # A group above "memory.high" is slowed down until it has given memory back.
        limits, usage, cache = (
            (("memory.max", "memory.high"), "memory.current", "inactive_file")
            if version == 2
            else (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")
        )
        allowed = [limit for limit in (_number(group / name) for name in limits) if limit is not None]
        used = _number(group / usage)
        if allowed and used is not None:
            yield min(allowed) - used + min(_entry(group / "memory.stat", cache) or 0, used)


def _control_groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yield (version, folder) of each control group that limits the process by a controller, such as memory."""
    for line in _lines(root / "proc/self/cgroup"):
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        # Inside a container the listed path may exist only outside it; the mount itself is then the container's group.
        relative = Path(path.strip("/"))
        for mount in dict.fromkeys([controller, controllers]) if controllers else [""]:
            for directory in (relative, *relative.parents):
                yield 1 if controllers else 2, root / "sys/fs/cgroup" / mount / directory


def _entry(path: Path, name: str) -> int | None:
    """The number in the line that begins with `name`, such as "MemTotal: 123 kB" or "inactive_file 123"."""
    for line in _lines(path):
        key, *values = line.replace(":", " ").split() or [""]
        if key == name and values:
            return _whole(values[0])
    return None


def _number(path: Path) -> int | None:
    return _whole(next(iter(_lines(path)), ""))


def _whole(text: str) -> int | None:
    """Parse a whole number; None for any other text, such as "max" and "-1", which mean no limit."""
    text = text.strip()
    return int(text) if re.fullmatch("[0-9]{1,30}", text) else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
