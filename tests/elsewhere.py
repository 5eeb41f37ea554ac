"""Take from this process what only Linux, or only POSIX, has: so it is like one on Windows or macOS.

`LINSPEC_ELSEWHERE=1 pytest` runs the suite so. Left is what the standard library itself uses on this system, or could
not be loaded any more.
"""

from __future__ import annotations

import builtins
import io
import mmap
import os
import select
import signal
import sys
from typing import Any

OF_OS = """
    sched_getaffinity sched_setaffinity process_cpu_count sysconf sysconf_names getloadavg fork forkpty
    register_at_fork setsid getpgid getsid killpg nice wait3 wait4 mkfifo statvfs fstatvfs posix_fadvise
    posix_fallocate pread preadv pwrite pwritev pidfd_open memfd_create copy_file_range splice getxattr setxattr sync
    fdatasync O_NONBLOCK O_CLOEXEC O_DIRECTORY O_SYNC O_PATH O_NOATIME chown lchown
"""
OF_SIGNAL = """
    SIGALRM SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGXCPU SIGXFSZ SIGBUS SIGCHLD SIGSTOP SIGCONT SIGTSTP alarm setitimer
    getitimer pause siginterrupt sigwait sigwaitinfo sigtimedwait sigpending pthread_kill pthread_sigmask
"""
MODULES = ("resource", "fcntl", "pwd", "grp", "termios")
NOWHERE = ("/proc", "/sys")


class _Map(mmap.mmap):
    """A memory map without `madvise`."""

    @property
    def madvise(self) -> Any:
        raise AttributeError("madvise")


def leave_linux() -> None:
    """Remove it all, before linspec is imported."""
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL), (select, "epoll kqueue poll")):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in [name for name in dir(mmap) if name.startswith("MADV_")]:
        delattr(mmap, name)
    mmap.mmap = _Map  # type: ignore[misc]
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    real_open = io.open

    def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
        return real_open(_visible(file), *args, **kwargs)

    io.open = builtins.open = opened  # type: ignore[assignment]
    for name in ("listdir", "scandir", "stat"):
        setattr(os, name, _of_visible(getattr(os, name)))


def _visible(path: Any) -> Any:
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if text in NOWHERE or text.startswith(tuple(f"{folder}/" for folder in NOWHERE)):
        raise FileNotFoundError(2, "No such file or directory", text)
    return path


def _of_visible(function: Any) -> Any:
    return lambda path=".", **kwargs: function(_visible(path), **kwargs)
