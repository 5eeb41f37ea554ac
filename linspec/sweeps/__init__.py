"""Rows in blocks that stay on workers: read `blocks`."""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "BlockOperator": "linspec.sweeps.blocks",
    "Call": "linspec.sweeps.blocks",
    "Engine": "linspec.sweeps.blocks",
    "InProcess": "linspec.sweeps.blocks",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
