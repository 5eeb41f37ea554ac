"""Threads of the BLAS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def blas_threads() -> int:
    """As many threads as the BLAS would use."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


@lru_cache(maxsize=1)
def _blas() -> Any:
    """The BLAS libraries in this process, with a handle on their threads; finding them takes some milliseconds."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread(*, needed: bool) -> Iterator[None]:
    """Hold the BLAS to one thread while others are at work; what holds it is asked for only where it is needed."""
    with _blas().limit(limits=1) if needed else nullcontext():
        yield
