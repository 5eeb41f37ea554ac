"""Memory and threads that limits, control groups and environment variables allow: plans rest on them."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest
from hostile.outcomes import Silent, apart, command, holds, refused

import linspec as ls
from linspec.process import machine

MIB = 2**20
X = np.random.default_rng(0).standard_normal((50, 6))


def available() -> int:
    return machine.available_memory()


@pytest.mark.parametrize(
    ("setting", "most"),
    [
        *(
            ("1000000", 10**6),
            ("64M", 64 * 10**6),
            ("64MB", 64 * 10**6),
            ("64MiB", 64 * MIB),
            ("1.5MiB", 3 * MIB // 2),
        ),
        *(("2k", 2000), (" 2 KiB ", 2048), ("1g", 10**9), ("7b", 7)),
    ],
)
def test_a_ceiling_on_the_memory_is_kept(setting, most, monkeypatch):
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", setting)
    holds(available() == most, f"{setting} is {most} bytes; {available()} are said to be available")


def test_a_ceiling_above_what_there_is_changes_nothing(monkeypatch):
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "1000 PiB")
    holds(0 < available() < 2**50, "more is available than there is")


@pytest.mark.parametrize(
    "setting",
    ["0", "-1", "lots", "4 gigs", "nan", "inf", "1e9", "0x10", "4GiBiB", "٣", "1.2.3", "9" * 5000, "G", "."],
)
def test_a_ceiling_that_is_no_number_of_bytes_is_refused(setting, monkeypatch):
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", setting)
    with refused("LINSPEC_MAX_MEMORY", "4GiB", kind=ls.errors.InvalidOption):
        available()
    with refused("LINSPEC_MAX_MEMORY", kind=ls.errors.InvalidOption):
        ls.solve(ls.SVD(X, 2))
    with refused("LINSPEC_MAX_MEMORY", kind=ls.errors.InvalidOption):
        ls.solve(ls.SVD(X, 2), "lanczos")


@pytest.mark.parametrize("setting", ["0", "two", "9" * 5000, "1.5", "\N{ARABIC-INDIC DIGIT THREE}"])
@pytest.mark.parametrize("solver", ["auto", "lanczos"])
def test_threads_that_are_no_number_are_refused(setting, solver, monkeypatch):
    monkeypatch.setenv("LINSPEC_NUM_THREADS", setting)
    with refused("LINSPEC_NUM_THREADS", kind=ls.errors.InvalidOption):
        ls.solve(ls.SVD(X, 2), solver)


def test_the_command_line_refuses_it_in_a_sentence(tmp_path):
    np.save(tmp_path / "A.npy", X)
    done = command(
        "solve", "svd", tmp_path / "A.npy", "-k", 2, codes=(2,), env={"LINSPEC_MAX_MEMORY": "much"}
    )
    holds("LINSPEC_MAX_MEMORY" in done.stderr, done.stderr)


def test_plans_rest_on_the_ceiling(monkeypatch):
    """A Gram matrix of 32 MB is held where there is room, and not below; and "direct" is refused by its name."""
    wide = np.random.default_rng(0).standard_normal((30, 2000))
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "16MiB")
    holds(
        ls.Moments(wide, expect=(100_000, 20)).form == "implicit", "a Gram matrix beyond the ceiling is held"
    )
    tall = np.lib.stride_tricks.as_strided(np.zeros(1), (100_000, 2000), (0, 0))  # no memory of its own
    with refused("memory", kind=ls.errors.NoSuitableSolver):
        ls.solve(ls.SVD(tall, 2), "direct")


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
@pytest.mark.slow(keep=1)
def test_a_resource_limit_counts(limit):
    """With 300 MiB of room, what needs 3 GB is refused before it begins, and what fits is solved."""
    pytest.importorskip("resource")
    program = f"""
        import resource
        import numpy as np, scipy.linalg, linspec as ls
        from linspec.process import machine
        ls.solve(ls.SVD(np.eye(50), 2, center=True), "lanczos")
        name = {{"RLIMIT_AS": "VmSize", "RLIMIT_DATA": "VmData"}}[{limit!r}]
        used = next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith(name))
        resource.setrlimit(resource.{limit}, (used + 300 * 2**20,) * 2)
        print(machine.available_memory())
        tall = np.lib.stride_tricks.as_strided(np.zeros(1), (20000, 20000), (0, 0))
        try:
            ls.solve(ls.SVD(tall, 2), "gram")
            print("solved")
        except ls.errors.NoSuitableSolver:
            print("refused")
        except BaseException as error:
            print(type(error).__name__)
        print(ls.solve(ls.SVD(np.random.default_rng(0).standard_normal((3000, 100)), 2), rng=0).converged)
    """
    free, large, small = apart(dedent(program), env={"OPENBLAS_NUM_THREADS": "1"}).stdout.split()
    if not int(free) <= 300 * MIB:
        raise Silent(f"{int(free) // MIB} MiB are said to be available of 300")
    holds(large == "refused", f"what cannot fit ended with {large}")
    holds(small == "True", "what fits was not solved")
