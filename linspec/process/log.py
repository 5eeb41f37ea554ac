"""Logging of choices and steps to `logging.getLogger("linspec")` at level DEBUG."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["LOG", "tells", "timed"]

LOG = logging.getLogger("linspec")
"""The logger of linspec, silent by default: users set its level and add a handler."""

LOG.addHandler(logging.NullHandler())


def tells() -> bool:
    """Whether DEBUG messages are enabled; if not, callers need not collect their contents."""
    return LOG.isEnabledFor(logging.DEBUG)


@contextmanager
def timed(what: str, *details: Any) -> Iterator[None]:
    """Log, at the end of a `with` block, the work done in it and its duration."""
    if not tells():
        yield
        return
    begun = time.perf_counter()
    yield
    LOG.debug(what + ": %.3g s", *details, time.perf_counter() - begun)  # noqa: G003 - one template of both
