"""The resources of the machine that the process may use: against made-up /proc and /sys trees, and in new processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from linspec.errors import InvalidOption
from linspec.process import machine

GIB = 2**30


def write(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n", encoding="ascii")
    return root


def run(code: str, **environment: str) -> str:
    """Return the output of a fresh process; a deadlock in it is a failure, not a hanging test."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(Path(machine.__file__).parents[2]), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return process.stdout.strip()


# ---------------------------------------------------------------------------------------------------- threads


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity masks")
def test_the_cores_are_those_the_process_is_pinned_to(monkeypatch):
    monkeypatch.delenv(machine.THREADS_VARIABLE, raising=False)
    monkeypatch.setattr(machine, "_cpu_quota", lambda _: None)  # this machine may have one
    assert machine.cpu_count() == len(os.sched_getaffinity(0))
    code = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from linspec.process import machine
        print(machine.cpu_count(), machine.worker_pool()._max_workers)
    """
    assert run(code) == "1 1"


def test_the_environment_sets_the_threads(monkeypatch):
    monkeypatch.setenv(machine.THREADS_VARIABLE, " 3 ")
    assert machine.cpu_count() == 3
    monkeypatch.setenv(machine.THREADS_VARIABLE, "")
    assert machine.cpu_count() >= 1


@pytest.mark.parametrize("setting", ["0", "-1", "two", "1.5", "٣"])
def test_a_setting_that_is_no_number_of_threads_is_refused(monkeypatch, setting):
    monkeypatch.setenv(machine.THREADS_VARIABLE, setting)
    with pytest.raises(InvalidOption, match=r"LINSPEC_NUM_THREADS.*positive whole number.*unset"):
        machine.cpu_count()


def quota(root: Path) -> int | None:
    machine._cpu_quota.cache_clear()
    return machine._cpu_quota(root)


@pytest.mark.parametrize(
    ("setting", "cores"),
    [
        *(
            ("200000 100000", 2),
            ("150000 100000", 2),
            ("50000 100000", 1),
            ("1000 1000000", 1),
            ("400000", None),
        ),
        *(("max 100000", None), ("-1 100000", None), ("100000 0", None), ("nonsense", None), ("", None)),
    ],
)
def test_the_quota_of_a_version_2_group(tmp_path, setting, cores):
    files = {"proc/self/cgroup": "0::/jobs/one", "sys/fs/cgroup/jobs/one/cpu.max": setting}
    assert quota(write(tmp_path, files)) == cores


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("allowed", "cores"), [(250_000, 3), (25_000, 1), (-1, None)])
def test_the_quota_of_a_version_1_group(tmp_path, mount, allowed, cores):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "7:memory:/a\n4:cpu,cpuacct:/docker/0123\n0::/",
            f"sys/fs/cgroup/{mount}/cpu.cfs_quota_us": allowed,
            f"sys/fs/cgroup/{mount}/cpu.cfs_period_us": 100_000,
        },
    )
    assert quota(root) == cores


# ----------------------------------------------------------------------------------------------------- memory


def test_memory_within_a_version_2_group(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/meminfo": f"MemAvailable: {64 * GIB // 1024} kB",
            "proc/self/cgroup": "0::/jobs/one",
            "sys/fs/cgroup/jobs/one/memory.max": 10 * GIB,
            "sys/fs/cgroup/jobs/one/memory.current": 7 * GIB,
            "sys/fs/cgroup/jobs/one/memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}\nactive_file {GIB}",
        },
    )
    assert machine._available_memory(root) == 5 * GIB
    # A tighter group further up counts as well.
    write(root, {"sys/fs/cgroup/jobs/memory.max": 8 * GIB, "sys/fs/cgroup/jobs/memory.current": 6 * GIB})
    assert machine._available_memory(root) == 2 * GIB
    # A group that is beyond its limit leaves nothing, not less than nothing.
    write(root, {"sys/fs/cgroup/jobs/memory.current": 9 * GIB})
    assert machine._available_memory(root) == 0


def test_memory_within_a_version_1_group_seen_from_inside_a_container(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/meminfo": f"MemAvailable: {64 * GIB // 1024} kB",
            # The path is that outside the container: here the mount itself is the group.
            "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/0123\n2:cpuset:/docker/0123",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 4 * GIB,
            "sys/fs/cgroup/memory/memory.usage_in_bytes": 3 * GIB,
            "sys/fs/cgroup/memory/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}",
        },
    )
    assert machine._available_memory(root) == 2 * GIB


def test_figures_that_make_no_sense_do_not_count(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable:\nMemAvailable: much kB",
            "proc/self/cgroup": "0::/one\n0::/two\n::\n",
            "sys/fs/cgroup/one/memory.max": "-7",
            "sys/fs/cgroup/one/memory.current": 1,
            "sys/fs/cgroup/two/memory.max": 10**12,
            "sys/fs/cgroup/two/memory.current": "?",
        },
    )
    assert machine._available_memory(root) > 0
    # More cache than is used at all would be room beyond the limit.
    write(root, {"sys/fs/cgroup/two/memory.max": 1000, "sys/fs/cgroup/two/memory.current": 10})
    write(root, {"sys/fs/cgroup/two/memory.stat": f"inactive_file {GIB}"})
    assert machine._available_memory(root) == 1000


def test_resource_limits_count_less_what_is_in_use(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    limits = {resource.RLIMIT_AS: 5000 * 1024, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], resource.RLIM_INFINITY))
    root = write(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable: 9999 kB",
            "proc/self/status": "Name:\tpython\nVmSize:\t 3000 kB\nVmData:\t 100 kB",
        },
    )
    assert machine._available_memory(root) == 2000 * 1024
    limits[resource.RLIMIT_DATA] = 500 * 1024
    assert machine._available_memory(root) == 400 * 1024
    limits[resource.RLIMIT_DATA] = 50 * 1024
    assert machine._available_memory(root) == 0


def test_memory_where_there_is_no_proc(tmp_path, monkeypatch):
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert 0 < machine._available_memory(tmp_path) <= physical
        assert 0 < machine.available_memory() <= physical
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert machine._available_memory(tmp_path) == machine.DEFAULT_MEMORY


# ------------------------------------------------------------------------------------------------------- pool


@pytest.mark.parametrize("started", [0, 1, 2])
def test_where_no_thread_starts_the_caller_does_each_item_once(monkeypatch, started):
    monkeypatch.setenv(machine.THREADS_VARIABLE, "4")
    usual, count, done = threading.Thread.start, 0, []

    def start(thread: threading.Thread) -> None:
        nonlocal count
        count += 1
        if count > started:
            raise RuntimeError("can't start new thread")
        usual(thread)

    def work(number: int) -> int:
        time.sleep(0.002)
        done.append(number)
        return number

    machine._pool.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", start)
    for _ in range(20):
        done.clear()
        assert machine.map_parallel(work, range(9)) == list(range(9))
        time.sleep(0.004)
        assert sorted(done) == list(range(9))
    monkeypatch.undo()
    machine._pool.cache_clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_child_has_a_pool_of_its_own():
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
    assert run(code, LINSPEC_NUM_THREADS="3") == "0 True True"


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_results_come_in_the_order_of_the_items(monkeypatch, threads):
    monkeypatch.setenv(machine.THREADS_VARIABLE, threads)

    def late(number: int) -> int:
        time.sleep(0.002 * (7 - number))
        return number

    assert machine.map_parallel(late, range(7)) == list(range(7))
    assert machine.map_parallel(late, []) == []
    assert machine.map_parallel(lambda item: item, iter([None])) == [None]


def test_parallel_calls_within_parallel_calls_do_not_block_each_other():
    code = """
        from linspec.process.machine import map_parallel
        def nested(depth):
            return 1 if depth == 0 else sum(map_parallel(nested, [depth - 1] * 4))
        print(nested(4))
    """
    assert run(code, LINSPEC_NUM_THREADS="2") == "256"


def test_the_first_failure_is_raised_once_nothing_runs_any_more(monkeypatch):
    monkeypatch.setenv(machine.THREADS_VARIABLE, "2")
    running = set()

    def work(number: int) -> None:
        running.add(number)
        try:
            time.sleep(0.02 * number)
            if number in {1, 4}:
                raise KeyError(number)
        finally:
            running.discard(number)

    with pytest.raises(KeyError, match="1"):
        machine.map_parallel(work, range(6))
    assert not running
    assert machine.map_parallel(lambda x: -x, range(3)) == [0, -1, -2]
