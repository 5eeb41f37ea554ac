"""Python programs in processes of their own that begin with linspec and its libraries imported.

Problem: a command of linspec takes a second of imports for some hundredths of work, and the suite runs hundreds.
Method: a server imports once, and forks for each program; the child has its own folder, environment and streams. Where
a program needs an interpreter that nothing was imported in, `subprocess.run` is the right call.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import os
import pickle
import pkgutil
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

LIBRARIES = (
    "numpy",
    "scipy.linalg",
    "scipy.sparse.linalg",
    "scipy.special",
    "scipy.stats",
    "click",
    "linspec",
)
FRIENDS = (
    "pandas",
    "pyarrow.parquet",
    "matplotlib.pyplot",
    "sklearn.base",
    "sklearn.pipeline",
    "sklearn.datasets",
)
"""Modules that the server imports if they are installed, before all modules of linspec that solve or command."""
READ_AT_START = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "MKL_", "MPL", "MALLOC_")
"""How variables begin that are read when an interpreter or a library starts."""


def run(
    line: Sequence[Any],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: Any = subprocess.DEVNULL,
    stdout: Any = subprocess.PIPE,
    timeout: float | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> subprocess.CompletedProcess[str]:
    """The end of a program of Python and what it printed, as from `subprocess.run`.

    It is forked where it may be: on POSIX, with this interpreter, and in an environment that starts no library
    differently.
    """
    env = dict(os.environ if env is None else env)
    words = [os.fsencode(word) for word in line]
    if not (hasattr(os, "fork") and words[0] == os.fsencode(sys.executable) and _starts_alike(env)):
        return subprocess.run(
            line, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=timeout, check=False,
            text=True, encoding=encoding, errors=errors,
        )  # fmt: skip
    server = _server()
    with contextlib.ExitStack() as stack:
        inner, ours = stack.enter_context(_Read()), stack.enter_context(_Read())
        out = inner.writer if stdout is subprocess.PIPE else _number(stdout, stack)
        streams = [_number(stdin, stack), out, ours.writer]
        ended = server.end_of(
            {"words": words[1:], "cwd": str(cwd or Path.cwd()), "env": env}, streams, timeout
        )
        inner.close_writer()
        ours.close_writer()
        if ended is None:
            raise subprocess.TimeoutExpired(list(line), timeout or 0)
        printed = inner.text(encoding, errors) if stdout is subprocess.PIPE else None
        return subprocess.CompletedProcess(list(line), ended, printed, ours.text(encoding, errors))


def _starts_alike(env: Mapping[str, str]) -> bool:
    """Say whether no variable that is read at a start differs from those of this process."""
    names = {name for name in {*env, *os.environ} if name.startswith(READ_AT_START)}
    return all(env.get(name) == os.environ.get(name) for name in names)


def _number(stream: Any, stack: contextlib.ExitStack) -> int:
    """The number of an open file."""
    if stream is subprocess.DEVNULL:
        return stack.enter_context(Path(os.devnull).open("r+b")).fileno()
    return stream if isinstance(stream, int) else stream.fileno()


class _Read:
    """A pipe that a thread reads to its end."""

    def __enter__(self) -> Self:
        reader, self.writer = os.pipe()
        self.content = b""
        self.thread = threading.Thread(target=self._read, args=(reader,), daemon=True)
        self.thread.start()
        return self

    def _read(self, reader: int) -> None:
        with os.fdopen(reader, "rb") as file:
            self.content = file.read()

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def text(self, encoding: str, errors: str) -> str:
        self.thread.join()
        return io.TextIOWrapper(io.BytesIO(self.content), encoding, errors).read()

    def __exit__(self, *failure: object) -> None:
        self.close_writer()


# ---- the two ends of the server -----------------------------------------------------------------------------------


class _Server:
    """The server of one process of the suite."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        number = theirs.fileno()
        self.process = subprocess.Popen([sys.executable, __file__, str(number)], pass_fds=[number])
        theirs.close()
        self.lock, self.owner = threading.Lock(), os.getpid()
        atexit.register(self.close)

    def end_of(self, request: dict[str, Any], streams: list[int], seconds: float | None) -> int | None:
        """The exit code, negative for a signal; None where time ran out."""
        with self.lock:
            content = pickle.dumps(request)
            socket.send_fds(self.socket, [struct.pack("!I", len(content))], streams)
            self.socket.sendall(content)
            child = _integer(self.socket)
            self.socket.settimeout(seconds)
            try:
                return _integer(self.socket)
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self.socket.settimeout(None)
                _integer(self.socket)
                return None
            finally:
                self.socket.settimeout(None)

    def close(self) -> None:
        """Let the server leave, which it does once nobody is at the other end."""
        if self.owner == os.getpid():
            self.socket.close()
            self.process.wait()


_servers: dict[int, _Server] = {}


def _server() -> _Server:
    """The server of this process; a fork has one of its own."""
    if os.getpid() not in _servers:
        _servers[os.getpid()] = _Server()
    return _servers[os.getpid()]


def _integer(connection: socket.socket) -> int:
    found: int = struct.unpack("!i", _exactly(connection, 4))[0]
    return found


def _exactly(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = connection.recv(count - len(content))
        if not part:
            raise EOFError("the other end is closed")
        content += part
    return content


def serve(connection: socket.socket) -> None:
    """Fork for each request, until the other end is closed."""
    for name in (*LIBRARIES, *FRIENDS, *_modules_of_linspec()):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    while True:
        length, streams, _, _ = socket.recv_fds(connection, 4, 3)
        if not length:
            return
        request = pickle.loads(_exactly(connection, struct.unpack("!I", length)[0]))
        child = os.fork()
        if child == 0:
            connection.close()
            _become(request, streams)
        for stream in streams:
            os.close(stream)
        connection.sendall(struct.pack("!i", child))
        connection.sendall(struct.pack("!i", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


def _modules_of_linspec() -> Iterator[str]:
    """The modules of linspec and of the packages that come with it, but those that run a program or test plugins."""
    packages = [name.name for name in pkgutil.iter_modules() if name.name.startswith("linspec")]
    for package in packages:
        folders = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folders, f"{package}.", onerror=lambda _: None):
            if not {"__main__", "testing"} & set(module.name.split(".")):
                yield module.name


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Run the program of a request, and leave as Python does."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(streams) + 1)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        coding = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")[0]
        sys.stdin = os.fdopen(0, encoding=coding, closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding=coding, closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding=coding, errors="backslashreplace", closefd=False, buffering=1)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        code = _ran([os.fsdecode(word) for word in request["words"]])
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


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
