"""What linspec chooses and does, told to `logging.getLogger("linspec")` at DEBUG."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["LOG", "tells", "timed"]

LOG = logging.getLogger("linspec")
"""Silent by itself: whoever wants to read it sets its level and gives it a handler."""

LOG.addHandler(logging.NullHandler())


def tells() -> bool:
    """Whether anybody reads: what is told may take time to find out."""
    return LOG.isEnabledFor(logging.DEBUG)


@contextmanager
def timed(what: str, *details: Any) -> Iterator[None]:
    """Tell of some work once it is done, and how long it took."""
    if not tells():
        yield
        return
    begun = time.perf_counter()
    yield
    LOG.debug(what + ": %.3g s", *details, time.perf_counter() - begun)  # noqa: G003 - one template of both
