"""How a hostile trial may end, and the words with which its test says so.

A trial hands linspec something that it was not made for: broken data, a full disk, an interrupt. It ends well where
the answer is right, or where one clear error or status says what is wrong. Each bad ending has a name, which stands in
the first line of the failure, so that `python -m hostile` can count them for any checkout:

- ``silent``: a wrong answer, or a lost part of the data, that nobody is told of;
- ``raw``: an error of Python, NumPy or SciPy instead of linspec's;
- ``rc 70``: the command line calls it a defect of its own;
- ``leak``: something of the process, a file or a child is left in another state than before;
- ``crash`` and ``hang``: the process is killed by a signal, or does not end. These are seen from outside only, so what
  may end so runs in a process of its own (`apart`, `command`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import forked

from linspec.errors import LinspecError

SECONDS = 600.0
"""A trial that takes longer hangs: it takes a few seconds of a processor, which others may use, too."""


class BadEnding(AssertionError):  # noqa: N818  # an ending has a name of its own
    """A trial that ended badly; the first word of its message is how."""

    word: ClassVar[str]

    def __init__(self, what: str) -> None:
        super().__init__(f"{self.word}: {what}")


class Silent(BadEnding):
    """A wrong answer, or a lost part of the data, that nothing reports."""

    word = "silent"


class Raw(BadEnding):
    """An error of Python, NumPy or SciPy instead of linspec's."""

    word = "raw"


class Defect(BadEnding):
    """The command line calls it a defect of its own."""

    word = "rc 70"


class Leak(BadEnding):
    """Something of the process, a file or a child is left in another state than before."""

    word = "leak"


class Crash(BadEnding):
    """The process was killed by a signal."""

    word = "crash"


class Hang(BadEnding):
    """The process did not end."""

    word = "hang"


def holds(fact: Any, what: str) -> None:
    """Raise `Silent` for a wrong answer that nothing reports."""
    if not fact:
        raise Silent(what)


@contextmanager
def refused(*words: str, kind: type[LinspecError] = LinspecError) -> Iterator[None]:
    """Require that the block ends in an error of linspec, whose message is one clear text with these words."""
    try:
        yield
    except kind as error:
        message = str(error)
        missing = [word for word in words if word.lower() not in message.lower()]
        if missing:
            raise Raw(f"the message does not say {missing}: {message}") from error
        if not message.isprintable():
            raise Raw(f"the message has control characters: {message!r}") from error
    except BadEnding:
        raise
    except Exception as error:
        raise Raw(f"{type(error).__name__}: {error}") from error
    else:
        raise Silent(f"{' '.join(words)}: nothing was refused")


def apart(
    program: str | Path,
    *,
    seconds: float = SECONDS,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """A Python program, or a file with one, in a process of its own.

    How it ended is looked at here, what it printed by the caller. A program that ends with a bad ending of its own
    passes it on.
    """
    source = ["-c", program] if isinstance(program, str) else [program]
    done = _run(_started, [sys.executable, *source], seconds, env, cwd)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        for kind in (Silent, Raw, Leak):
            _, found, said = last.partition(f"{kind.__name__}: {kind.word}: ")
            if found:
                raise kind(said)
        raise Raw(last)
    return done


def command(
    *args: Any,
    codes: Sequence[int] = (0, 2),
    seconds: float = SECONDS,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Any = subprocess.DEVNULL,
    stdout: Any = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """The command `linspec` in a process of its own, which begins with linspec imported.

    Parameters
    ----------
    *args
        Of the command line; bytes are handed on as they are.
    codes : sequence of int
        Exit codes that are good endings: 0 for an answer, 2 for one clear sentence about what was given.
    """
    line = [sys.executable, "-m", "linspec", *(arg if isinstance(arg, bytes) else str(arg) for arg in args)]
    done = _run(forked.run, line, seconds, env, cwd, stdin=stdin, stdout=stdout)
    if done.returncode == 70:
        raise Defect(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message")
    if "Traceback (most recent call last)" in done.stderr:
        raise Raw(done.stderr.strip().splitlines()[-1])
    if done.returncode not in codes:
        kind = Silent if done.returncode == 0 else Raw
        raise kind(
            f"exit code {done.returncode} instead of {codes}: {done.stderr.strip() or (done.stdout or '').strip()}"
        )
    return done


def _started(line: Sequence[Any], **settings: Any) -> subprocess.CompletedProcess[str]:
    """A process that begins with nothing imported."""
    settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **settings}
    return subprocess.run(line, check=False, **settings)


def _run(
    start: Callable[..., subprocess.CompletedProcess[str]],
    line: Sequence[Any],
    seconds: float,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    **streams: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a process and name the endings that only its parent sees."""
    try:
        done = start(
            line,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=seconds,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            **streams,
        )
    except subprocess.TimeoutExpired as error:
        raise Hang(f"no end after {seconds:g} s") from error
    if done.returncode < 0:
        raise Crash(f"killed by signal {-done.returncode}: {done.stderr.strip()[-200:]}")
    return done
