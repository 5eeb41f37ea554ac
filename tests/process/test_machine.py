"""The resources of the machine that the process may use: against made-up /proc and /sys trees, and in new processes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hostile.outcomes import apart, refused

import linspec as ls
from linspec.errors import InvalidOption, NoSuitableSolver
from linspec.process import machine

MIB, GIB = 2**20, 2**30
X = np.random.default_rng(0).standard_normal((50, 6))


def write(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n", encoding="ascii")
    return root


# ------------------------------------------------------------------------------------ variables of the environment

SIZES = {
    "64M": 64 * 10**6,
    "64MB": 64 * 10**6,
    "64MiB": 64 * MIB,
    "1.5MiB": 3 * MIB // 2,
    " 2 KiB ": 2048,
    "7b": 7,
}
NO_SIZES = ["0", "-1", "lots", "4 gigs", "nan", "1e9", "0x10", "4GiBiB", "٣", "1.2.3", "9" * 5000, "G"]
NO_NUMBERS = ["0", "-1", "two", "1.5", "٣", "9" * 5000]


@pytest.mark.parametrize("setting", SIZES)
def test_a_ceiling_on_the_memory_is_kept(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", setting)
    assert machine.available_memory() == SIZES[setting]
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "1000 PiB")
    assert 0 < machine.available_memory() < 2**50


@pytest.mark.parametrize(
    ("name", "settings", "look", "hint"),
    [("LINSPEC_MAX_MEMORY", NO_SIZES, machine.available_memory, "4GiB"),
     ("LINSPEC_NUM_THREADS", NO_NUMBERS, machine.cpu_count, "positive whole number")],
)  # fmt: skip
def test_a_setting_that_is_no_number_is_refused_by_every_call(
    name: str, settings: list[str], look: Any, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in settings:
        monkeypatch.setenv(name, setting)
        for call in (look, lambda: ls.solve(ls.SVD(X, 2)), lambda: ls.solve(ls.SVD(X, 2), "lanczos")):
            with refused(name, hint, "unset", kind=InvalidOption):
                call()


def test_plans_rest_on_the_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Gram matrix of 32 MB is held where there is room, and not below; and "direct" is refused by its name."""
    tall = np.lib.stride_tricks.as_strided(np.zeros(1), (100_000, 2000), (0, 0))  # no memory of its own
    for ceiling, form in (("4GiB", "dense"), ("16MiB", "implicit")):
        monkeypatch.setenv("LINSPEC_MAX_MEMORY", ceiling)
        assert ls.Moments(tall).form == form
    with refused("direct", "would take", "memory", "16.8 MB are available", kind=NoSuitableSolver):
        ls.solve(ls.SVD(tall, 2), "direct")


# --------------------------------------------------------------------------------------- what the system allows


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity masks")
def test_the_cores_are_those_the_process_is_pinned_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.THREADS_VARIABLE, raising=False)
    monkeypatch.setattr(machine, "_cpu_quota", lambda _: None)  # this machine may have one
    assert machine.cpu_count() == len(os.sched_getaffinity(0))
    code = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from linspec.process import machine
        print(machine.cpu_count(), machine.worker_pool()._max_workers)
    """
    assert apart(dedent(code)).split() == ["1", "1"]


QUOTAS = {
    "200000 100000": 2, "150000 100000": 2, "50000 100000": 1, "1000 1000000": 1, "400000": None,
    "max 100000": None, "-1 100000": None, "100000 0": None, "nonsense": None, "": None,
}  # fmt: skip


@pytest.mark.parametrize("setting", QUOTAS)
@pytest.mark.parametrize("group", ["jobs/one", "cpu", "cpu,cpuacct"])
def test_the_quota_of_a_control_group(tmp_path: Path, group: str, setting: str) -> None:
    """Of version 2, and of version 1, which has two files and another mount."""
    place, cores = f"sys/fs/cgroup/{group}", QUOTAS[setting]
    files = {"proc/self/cgroup": "0::/jobs/one", f"{place}/cpu.max": setting}
    if group != "jobs/one":
        allowed, _, period = setting.partition(" ")
        lines = "7:memory:/a\n4:cpu,cpuacct:/docker/0123\n0::/"
        files = {
            f"{place}/cpu.cfs_quota_us": allowed,
            f"{place}/cpu.cfs_period_us": period,
            "proc/self/cgroup": lines,
        }
    machine._cpu_quota.cache_clear()
    assert machine._cpu_quota(write(tmp_path, files)) == cores


PLENTY = {"proc/meminfo": f"MemAvailable: {64 * GIB // 1024} kB"}


def test_memory_within_a_version_2_group(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/jobs/one/memory"
    files = {
        **PLENTY,
        "proc/self/cgroup": "0::/jobs/one",
        f"{group}.max": 10 * GIB,
        f"{group}.current": 7 * GIB,
        f"{group}.stat": f"anon {GIB}\ninactive_file {2 * GIB}\nactive_file {GIB}",
    }
    assert machine._available_memory(write(tmp_path, files)) == 5 * GIB
    above = {"sys/fs/cgroup/jobs/memory.max": 8 * GIB, "sys/fs/cgroup/jobs/memory.current": 6 * GIB}
    assert machine._available_memory(write(tmp_path, above)) == 2 * GIB  # a tighter group further up
    beyond = {"sys/fs/cgroup/jobs/memory.current": 9 * GIB}
    assert machine._available_memory(write(tmp_path, beyond)) == 0


def test_memory_within_a_version_1_group_seen_from_inside_a_container(tmp_path: Path) -> None:
    """The path is that outside the container: here the mount itself is the group."""
    files = {
        **PLENTY,
        "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/0123\n2:cpuset:/docker/0123",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": 4 * GIB,
        "sys/fs/cgroup/memory/memory.usage_in_bytes": 3 * GIB,
        "sys/fs/cgroup/memory/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}",
    }
    assert machine._available_memory(write(tmp_path, files)) == 2 * GIB


def test_resource_limits_count_less_what_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = {resource.RLIMIT_AS: 5000 * 1024, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], resource.RLIM_INFINITY))
    used = "Name:\tpython\nVmSize:\t 3000 kB\nVmData:\t 100 kB"
    root = write(tmp_path, {"proc/meminfo": "MemAvailable: 9999 kB", "proc/self/status": used})
    assert machine._available_memory(root) == 2000 * 1024
    for limit, left in ((500, 400), (50, 0)):
        limits[resource.RLIMIT_DATA] = limit * 1024
        assert machine._available_memory(root) == left * 1024


PROGRAM = """
from elsewhere import leave_linux
leave_linux()
import numpy as np, scipy.io, scipy.sparse as sp
import linspec as ls
from linspec.cli import main
from linspec.process import machine

X = np.load("X.npy")
exact, B = np.linalg.svd(X, compute_uv=False)[:3], X[:, :2] + 1
for given in (X, sp.csr_array(X), "X.npy", np.load("X.npy", mmap_mode="r"), lambda: iter(np.array_split(X, 7))):
    for solver in ("auto", "block-krylov"):
        np.testing.assert_allclose(ls.solve(ls.SVD(given, 3), solver, rng=0).S, exact, rtol=1e-6)
    x = ls.solve(ls.LeastSquares(given, B), "lsqr").x
    np.testing.assert_allclose(x, np.linalg.lstsq(X, B, rcond=None)[0], atol=1e-6)
assert machine.available_memory() == machine.DEFAULT_MEMORY and machine.cpu_count() >= 1
assert machine.map_parallel(lambda x: x * x, range(5)) == [0, 1, 4, 9, 16]
scipy.io.mmwrite("X.mtx", sp.coo_matrix(X))
np.savetxt("B.csv", B, delimiter=",")
for line in ("solve svd X.npy -k 2 --out answer.npz", "solve least-squares X.mtx B.csv", "solvers"):
    try:
        main(line.split())
    except SystemExit as ending:
        assert not ending.code, (line, ending.code)
"""


def test_a_process_without_what_only_linux_has_answers_as_well(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X @ np.diag(np.linspace(1, 4, 6)))
    apart(PROGRAM, cwd=tmp_path, env={"LINSPEC_NUM_THREADS": "2"})


# ------------------------------------------------------------------------------------------------------- pool


@pytest.mark.parametrize("started", [0, 1, 2])
def test_where_no_thread_starts_the_caller_does_each_item_once(
    monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    monkeypatch.setenv(machine.THREADS_VARIABLE, "4")
    usual, starts, done = threading.Thread.start, list[int](), list[int]()

    def start(thread: threading.Thread) -> None:
        starts.append(1)
        if len(starts) > started:
            raise RuntimeError("can't start new thread")
        usual(thread)

    def work(number: int) -> None:
        time.sleep(0.002)
        done.append(number)

    machine._pool.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", start)
    for _ in range(20):
        done.clear()
        machine.map_parallel(work, range(9))
        time.sleep(0.004)
        assert sorted(done) == list(range(9))
    monkeypatch.undo()
    machine._pool.cache_clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    code = """
        import os
        from linspec.process import machine
        squares = lambda: machine.map_parallel(lambda x: x * x, range(8))
        parents, before = machine.worker_pool(), squares()
        child = os.fork()
        if child == 0:
            os._exit(0 if squares() == before and machine.worker_pool() is not parents else 1)
        print(os.waitpid(child, 0)[1], squares() == before, machine.worker_pool() is parents)
    """
    assert apart(dedent(code), env={"LINSPEC_NUM_THREADS": "3"}).split() == ["0", "True", "True"]


def test_parallel_calls_within_parallel_calls_do_not_block_each_other() -> None:
    code = """
        from linspec.process.machine import map_parallel
        def nested(depth):
            return 1 if depth == 0 else sum(map_parallel(nested, [depth - 1] * 4))
        print(nested(4))
    """
    assert apart(dedent(code), env={"LINSPEC_NUM_THREADS": "2"}).strip() == "256"


def test_the_first_failure_is_raised_once_nothing_runs_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.THREADS_VARIABLE, "2")
    begun, ended = set(), set()

    def work(number: int) -> None:
        begun.add(number)
        time.sleep(0.02 * number)
        ended.add(number)
        if number in {1, 4}:
            raise KeyError(number)

    with pytest.raises(KeyError, match="1"):
        machine.map_parallel(work, range(20))
    assert begun == ended
    assert 19 not in begun


def test_results_come_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.THREADS_VARIABLE, "2")

    def late(number: int) -> int:
        time.sleep(0.002 * (7 - number))
        return number

    for _ in range(5):
        assert machine.map_parallel(late, range(7)) == list(range(7))
