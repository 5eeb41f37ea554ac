"""What this process may use of the machine: cores, memory, cache, and one pool of threads.

Problem: plans (how many threads, may a Gram matrix be held, how wide a tile) need the share of the machine
that the process was given, not the size of the machine: batch systems pin processes to cores, containers
limit memory.

Method: the CPU affinity mask; `MemAvailable` of Linux, lowered to what the control groups of the process
still allow; the last-level caches that belong to the usable cores, from sysfs.

Source: the Linux documents proc(5), sched_setaffinity(2), cgroups(7) and "cpu/cache" of the sysfs ABI.

Where we differ: page cache that the kernel can drop at once (`inactive_file`) does not count as used memory
in a control group, so that reading a file does not seem to use up the memory. `map_parallel` lets the caller
work too and take back what no thread has begun, so that a parallel function may call another one without any
risk of a deadlock.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from linspec.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

THREADS_VARIABLE = "LINSPEC_NUM_THREADS"
# Where nothing can be learnt about the caches: one modest last-level cache.
DEFAULT_CACHE = 32 * 2**20
# Where nothing can be learnt about the memory: a size that any machine of this century has.
DEFAULT_MEMORY = 2 * 2**30


def cpu_count() -> int:
    """Count the threads that linspec may run at once.

    The environment variable `LINSPEC_NUM_THREADS` where it is set, else the number of cores in the affinity
    mask of the process, else (where the system has no such mask) the number of cores.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InvalidOption
        `LINSPEC_NUM_THREADS` is not a positive whole number.
    """
    setting = os.environ.get(THREADS_VARIABLE, "").strip()
    if not setting:
        return len(_usable_cores())
    if not (setting.isascii() and setting.isdigit() and int(setting) >= 1):
        raise InvalidOption(
            f"the environment variable {THREADS_VARIABLE} must be a positive whole number; got {setting!r}. "
            "Set it to the number of threads to use, or unset it to use every core of the process."
        )
    return int(setting)


def available_memory() -> int:
    """Tell the bytes that the process can still allocate without swapping or being killed.

    On Linux `MemAvailable` of /proc/meminfo, lowered to what remains under the memory limit of each control
    group (version 1 or 2) that holds the process. Elsewhere the free, or else the whole, physical memory that
    `sysconf` tells, and 2 GiB where it tells nothing.

    Returns
    -------
    int
        Bytes, at least 0. An instant's estimate: other processes change it.
    """
    return _available_memory(Path("/"))


def cache_size() -> int:
    """Tell the bytes of last-level cache that belong to the usable cores.

    Returns
    -------
    int
        The sizes of the distinct caches of the highest level, added up; 32 MiB where the system does not
        tell.
    """
    return _cache_size(Path("/"), tuple(_usable_cores()))


def worker_pool() -> ThreadPoolExecutor:
    """Give the one thread pool of this process, made when first asked for.

    A forked child, whose copy of the parent's pool has no threads, gets a pool of its own, and so does a
    process whose `cpu_count()` has changed.

    Returns
    -------
    concurrent.futures.ThreadPoolExecutor
        A pool of `cpu_count()` threads. Do not shut it down.
    """
    return _pool(os.getpid(), cpu_count())


def map_parallel(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to every item, on the calling thread and on the pool's.

    Parameters
    ----------
    function : callable
        Called once an item. It gains from threads only where it releases the interpreter lock.
    items : iterable
        The arguments.

    Returns
    -------
    list
        The results, in the order of the items.

    Raises
    ------
    Exception
        The exception of the earliest item that failed, once no item is running any more.
    """
    items = list(items)
    if len(items) < 2:
        return [function(item) for item in items]
    pool = worker_pool()
    # Each in the context of the caller, which has what it is to look at between blocks.
    futures = [pool.submit(copy_context().run, function, item) for item in items[1:]]
    try:
        results = [function(items[0])]
        # The caller takes the items that no thread has begun; so a call from inside a worker always makes
        # progress.
        for item, future in zip(items[1:], futures, strict=True):
            results.append(function(item) if future.cancel() else future.result())
    except BaseException:
        # Whatever still runs may be writing into arrays of the caller.
        wait([future for future in futures if not future.cancel()])
        raise
    return results


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    # The process number is part of the key only: it makes a forked child build its own pool.
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"linspec-{process}")


def _usable_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0)) or [0]
    return list(range(os.cpu_count() or 1))


def _available_memory(root: Path) -> int:
    limits = [_system_memory(root), *_control_group_memory(root)]
    return max(0, min(limits))


def _system_memory(root: Path) -> int:
    for line in _lines(root / "proc/meminfo"):
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split():
            return int(rest.split()[0]) * 1024
    names = getattr(os, "sysconf_names", {})
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        if pages in names and "SC_PAGE_SIZE" in names:
            return int(os.sysconf(pages)) * int(os.sysconf("SC_PAGE_SIZE"))
    return DEFAULT_MEMORY


def _control_group_memory(root: Path) -> Iterator[int]:
    """Yield what each control group around the process, of either version, still allows."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "-", "")
        if controllers == "":
            mount, limit, usage, cache = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            mount, limit, usage, cache = (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        # Inside a container the listed path may exist only outside it; the mount itself is then the
        # container's group.
        relative = Path(path.strip("/"))
        for directory in (relative, *relative.parents):
            group = root / mount / directory
            allowed, used = _number(group / limit), _number(group / usage)
            if allowed is not None and used is not None:
                yield allowed - used + _statistic(group / "memory.stat", cache)


def _statistic(path: Path, name: str) -> int:
    for line in _lines(path):
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    lines = _lines(path)
    # "max" stands for no limit.
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


@lru_cache(maxsize=8)  # it stays as it is, and reading it takes most of a millisecond
def _cache_size(root: Path, cores: tuple[int, ...]) -> int:
    levels: dict[int, dict[str, int]] = {}
    for core in cores:
        for cache in (root / f"sys/devices/system/cpu/cpu{core}/cache").glob("index*"):
            level, size = _number(cache / "level"), _size(cache / "size")
            sharing = _lines(cache / "shared_cpu_list") or [str(core)]
            if level is not None and size and _lines(cache / "type") != ["Instruction"]:
                levels.setdefault(level, {})[sharing[0]] = size
    return sum(levels[max(levels)].values()) if levels else DEFAULT_CACHE


def _size(path: Path) -> int:
    lines = _lines(path)
    text = lines[0].strip() if lines else ""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    return int(number) * unit if number.isdigit() else 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
