"""Python programs in processes that begin with linspec and its libraries imported, which takes a second each otherwise.

Method: the fork server of the standard library imports once, and forks for each program.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = """
    scipy.linalg scipy.sparse.linalg scipy.special scipy.stats click linspec pandas pyarrow.parquet matplotlib.pyplot
    sklearn.base sklearn.pipeline sklearn.datasets
"""
"""Modules that the server imports if they are installed, before all modules of linspec that solve or command."""


def run(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The end of a program, a file or `-m` and a module, and what it printed, as from `subprocess.run`."""
    if not hasattr(os, "fork"):
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, check=False, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, name) for name in ("out", "err")]
        child = _server().Process(target=_become, args=(words, cwd, dict(env), [os.devnull, *printed]))
        child.start()
        child.join()
        texts = [path.read_text("utf-8") for path in printed]
    return subprocess.CompletedProcess(list(words), child.exitcode or 0, *texts)


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


def _become(words: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[Any]) -> None:
    """Run a program; multiprocessing ends the process as Python does."""
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, "w" if i else "r", encoding="utf-8") for i in range(3))
    if words[0] == "-m":
        sys.argv, sys.path[0] = list(words[1:]), str(cwd)
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = list(words), str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")
