"""Fixtures that the tests of several plugins need."""

from __future__ import annotations

import pytest

import linspec as ls
from linspec.registry import operator_adapters
from linspec_dask import plugin


@pytest.fixture(scope="session", autouse=True)
def _adapters_of_dask() -> None:
    """A checkout that was installed before it had the plugin of dask does not know its adapters."""
    if "operator/dask-array" not in {adapter.qualified for adapter in operator_adapters()}:
        for record in plugin.linspec_operators():
            ls.register(record)
