"""How a hostile trial ends: by one clear error of linspec, or in a process of its own, if it could crash or hang."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from linspec.errors import LinspecError

SECONDS = 600.0
"""A trial that takes longer hangs: it takes a few seconds of a processor, which others may use, too."""


@contextmanager
def refused(*words: str, kind: type[LinspecError] = LinspecError) -> Iterator[None]:
    """Require that the block ends in an error of linspec, whose message is one clear text with these words."""
    with pytest.raises(kind) as caught:
        yield
    message = str(caught.value)
    assert message.isprintable(), ascii(message)
    assert len(message) < 2000
    for word in words:
        assert word.lower() in message.lower(), f"{word!r} is not in: {message}"


def apart(
    program: str | Path,
    *arguments: object,
    seconds: float = SECONDS,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a Python program, or a file with one, in a fresh interpreter; return what it prints."""
    source = ["-c", program] if isinstance(program, str) else [str(program)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *source, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **(env or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, cwd=cwd, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


def put(kind: str, path: Path) -> None:
    """Put something that is no file in a place; a socket in the folder of the process, as its names are short."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind(path.name)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "no bytes":
        path.touch()
    elif kind != "nothing":
        path.symlink_to(path.name if kind == "a circle" else kind)
