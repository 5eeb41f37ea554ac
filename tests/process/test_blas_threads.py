"""The BLAS is held to one thread while anybody needs it, and has its own limits back afterwards."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import threadpoolctl

from linspec.process import blas_threads
from linspec.process.blas_threads import one_blas_thread


class Library:
    """A BLAS whose limit is the process's or, with the layer "openmp", each thread's own."""

    internal_api = "openblas"

    def __init__(self, path: str, threads: int, layer: str = "pthreads") -> None:
        self.filepath, self.threading_layer, self.usual = path, layer, threads
        self.own = threading.local() if layer == "openmp" else SimpleNamespace()

    @property
    def num_threads(self) -> int:
        return getattr(self.own, "threads", self.usual)

    def set_num_threads(self, threads: int) -> None:
        self.own.threads = threads


@pytest.fixture
def libraries(monkeypatch):
    """The libraries that are found in place of the real ones; more may come with a module."""
    found = [Library("a", 4)]
    controller = SimpleNamespace(select=lambda user_api: SimpleNamespace(lib_controllers=found))
    monkeypatch.setattr(blas_threads, "ThreadpoolController", lambda: controller)
    monkeypatch.setattr(blas_threads, "_HOLD", blas_threads._Hold())
    return found


def held():
    context = one_blas_thread(needed=True)
    context.__enter__()
    return context


@pytest.mark.parametrize("leaving", [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]])
def test_the_last_to_leave_gives_back_what_the_first_has_found(libraries, leaving):
    inside = [held() for _ in range(3)]
    for i in leaving:
        assert libraries[0].num_threads == 1
        inside[i].__exit__(None, None, None)
    assert libraries[0].num_threads == 4


def test_a_limit_that_somebody_else_has_set_meanwhile_stays(libraries):
    with one_blas_thread(needed=True):
        libraries[0].set_num_threads(2)
    assert libraries[0].num_threads == 2
    with one_blas_thread(needed=True):
        assert libraries[0].num_threads == 1
    assert libraries[0].num_threads == 2


def test_libraries_that_come_later_are_held_too(libraries, monkeypatch):
    with one_blas_thread(needed=True):
        libraries.append(Library("b", 8))
        monkeypatch.setitem(sys.modules, "a_module_that_loads_a_blas", SimpleNamespace())
        with one_blas_thread(needed=True):
            assert [library.num_threads for library in libraries] == [1, 1]
    assert [library.num_threads for library in libraries] == [4, 8]


def test_a_limit_of_each_thread_is_given_back_in_each_thread(libraries):
    """Also where another thread is still inside, whose own limit stays."""
    libraries[:] = [Library("own", 6, "openmp")]
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        first, second = one.submit(held).result(), two.submit(held).result()
        for pool, context in ((one, first), (two, second)):
            assert pool.submit(lambda: libraries[0].num_threads).result() == 1
            pool.submit(context.__exit__, None, None, None).result()
            assert pool.submit(lambda: libraries[0].num_threads).result() == 6


def test_a_thread_that_did_not_set_the_limit_gives_it_back():
    """The real libraries: threadpoolctl ignores any thread but the one that has set a limit first."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threadpoolctl.threadpool_info()
        first = held()
        with ThreadPoolExecutor(1) as pool:
            last = pool.submit(held).result()
            first.__exit__(None, None, None)
            pool.submit(last.__exit__, None, None, None).result()
        assert threadpoolctl.threadpool_info() == before
