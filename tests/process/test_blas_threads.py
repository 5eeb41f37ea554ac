"""The BLAS is held to one thread while anybody needs it, and has its own limits back afterwards."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest
import threadpoolctl

from linspec.process import blas_threads
from linspec.process.blas_threads import one_blas_thread


class Library:
    """A BLAS whose limit is the process's or, with the layer "openmp", each thread's own."""

    internal_api = "openblas"

    def __init__(self, path: str, threads: int, layer: str = "pthreads") -> None:
        self.filepath, self.threading_layer, self.whole = path, layer, threads
        self.own = threading.local()

    @property
    def num_threads(self) -> int:
        return getattr(self.own, "threads", self.whole) if self.threading_layer == "openmp" else self.whole

    def set_num_threads(self, threads: int) -> None:
        if self.threading_layer == "openmp":
            self.own.threads = threads
        else:
            self.whole = threads


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
    for count, i in enumerate(leaving):
        assert libraries[0].num_threads == 1, count
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
    libraries[:] = [Library("own", 6, "openmp")]
    first_inside, second_inside, first_out = (threading.Event() for _ in range(3))
    after = {}

    def first() -> None:
        with one_blas_thread(needed=True):
            first_inside.set()
            second_inside.wait(600)
            after["within"] = libraries[0].num_threads
        after["first"] = libraries[0].num_threads
        first_out.set()

    def second() -> None:
        first_inside.wait(600)
        with one_blas_thread(needed=True):
            second_inside.set()
            first_out.wait(600)
            after["still within"] = libraries[0].num_threads
        after["second"] = libraries[0].num_threads

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert after == {"within": 1, "first": 6, "still within": 1, "second": 6}


def test_a_thread_that_did_not_set_the_limit_gives_it_back():
    """The real libraries: threadpoolctl ignores any thread but the one that has set a limit first."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threadpoolctl.threadpool_info()
        first = held()
        entered, leave = threading.Event(), threading.Event()

        def last() -> None:
            with one_blas_thread(needed=True):
                entered.set()
                leave.wait(600)

        thread = threading.Thread(target=last)
        thread.start()
        assert entered.wait(600)
        first.__exit__(None, None, None)
        leave.set()
        thread.join()
        assert threadpoolctl.threadpool_info() == before
