"""Logging of choices and steps to `logging.getLogger("linspec")` at level DEBUG."""

from __future__ import annotations

import logging

LOG = logging.getLogger("linspec")
"""The logger of linspec, silent by default: users set its level and add a handler."""

LOG.addHandler(logging.NullHandler())


def tells() -> bool:
    """Whether DEBUG messages are enabled; if not, callers need not collect their contents."""
    return LOG.isEnabledFor(logging.DEBUG)
