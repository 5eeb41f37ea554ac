"""Python programs in processes of their own that begin with linspec and its libraries imported.

Problem: a command of linspec takes a second of imports for some hundredths of work, and the suite runs hundreds.
Method: the fork server of the standard library imports once, and forks for each program; the child has its own folder,
environment and streams. Where a program needs an interpreter that nothing was imported in, `subprocess.run` is the
right call.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import multiprocessing
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = """
    scipy.linalg scipy.sparse.linalg scipy.special scipy.stats click linspec pandas pyarrow.parquet matplotlib.pyplot
    sklearn.base sklearn.pipeline sklearn.datasets
"""
"""Modules that the server imports if they are installed, before all modules of linspec that solve or command."""
READ_AT_START = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "MKL_", "MPL", "MALLOC_")
"""How variables begin that are read when an interpreter or a library starts."""


def run(
    line: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The end of a program of Python and what it printed, as from `subprocess.run`.

    It is forked where it may be: on POSIX, with this interpreter, and in an environment that starts no library
    differently.
    """
    env = dict(os.environ if env is None else env)
    if not hasattr(os, "fork") or line[0] != sys.executable or not _starts_alike(env):
        return subprocess.run(
            line, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False, encoding="utf-8"
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, name) for name in ("out", "err")]
        child = _server().Process(
            target=_become, args=(line[1:], cwd or Path.cwd(), env, [os.devnull, *printed])
        )
        child.start()
        child.join()
        texts = [path.read_text("utf-8") for path in printed]
    return subprocess.CompletedProcess(list(line), child.exitcode or 0, *texts)


def _starts_alike(env: Mapping[str, str]) -> bool:
    """Say whether no variable that is read at a start differs from those of this process."""
    names = {name for name in {*env, *os.environ} if name.startswith(READ_AT_START)}
    return all(env.get(name) == os.environ.get(name) for name in names)


@cache
def _server() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LIBRARIES.split(), *_modules_of_linspec()])
    return context


def _modules_of_linspec() -> Iterator[str]:
    """The modules of linspec and of the packages that come with it, but those that run a program or test plugins."""
    packages = [name.name for name in pkgutil.iter_modules() if name.name.startswith("linspec")]
    for package in packages:
        folders = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folders, f"{package}.", onerror=lambda _: None):
            if not {"__main__", "testing"} & set(module.name.split(".")):
                yield module.name


def _become(words: list[str], cwd: Path, env: Mapping[str, str], streams: Sequence[str | Path]) -> None:
    """Run a program, and leave as Python does."""
    code = 1
    try:
        for number, path in enumerate(streams):
            stream = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY)
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        coding = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")[0]
        sys.stdin = os.fdopen(0, encoding=coding, closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding=coding, closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding=coding, errors="backslashreplace", closefd=False, buffering=1)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        code = _ran(words)
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the end of an interpreter
        atexit._run_exitfuncs()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        try:
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001  # a stream may be of any kind
            code = code or 120  # the code with which Python leaves then
        os._exit(code)


def _ran(words: list[str]) -> int:
    """The exit code of the program that stands in a command line after `python`."""
    try:
        if words[0] == "-m":
            sys.argv, sys.path[0] = words[1:], str(Path.cwd())
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv, sys.path[0] = ["-c", *words[2:]], ""
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv, sys.path[0] = words, str(Path(words[0]).resolve().parent)
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001  # an interpreter prints whatever a program raised
        traceback.print_exc()
        return 1
    return 0
