"""The declarations of the adapters of this package; neither these nor dask are imported here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from linspec import OperatorSpec, hookimpl


def _is_a(data: Any, package: str, name: str) -> bool:
    """Whether the class of an object, or one of its base classes, is called `name` and defined in `package`."""
    return any(kind.__name__ == name and kind.__module__.startswith(package) for kind in type(data).__mro__)


def _is_array(data: Any) -> bool:
    return _is_a(data, "dask.array", "Array")


def _is_frame(data: Any) -> bool:
    return type(data).__module__.startswith(("dask.dataframe", "dask_expr")) and hasattr(data, "to_delayed")


def _is_list_of_blocks(data: Any) -> bool:
    if not isinstance(data, list) or not data:
        return False
    return _is_a(data[0], "dask.delayed", "Delayed") or _is_a(data[0], "distributed.client", "Future")


def _adapted(data: Any) -> Any:
    """Make the operator, by the module that imports dask."""
    return import_module("linspec_dask.engine").adapted(data)


@hookimpl
def linspec_operators() -> tuple[OperatorSpec, ...]:
    """Declare the adapters.

    Returns
    -------
    tuple of OperatorSpec
    """
    return (
        OperatorSpec(
            name="dask-array",
            matches=_is_array,
            adapt=_adapted,
            summary="Arrays of dask, of NumPy arrays or SciPy sparse matrices, in blocks of rows.",
            sample="linspec_dask.engine:sample_array",
        ),
        OperatorSpec(
            name="dask-frame",
            matches=_is_frame,
            adapt=_adapted,
            summary="Data frames and series of dask, by their partitions; names of columns are kept.",
            sample="linspec_dask.engine:sample_frame",
        ),
        OperatorSpec(
            name="dask-blocks",
            matches=_is_list_of_blocks,
            adapt=_adapted,
            summary="Lists of delayed blocks or futures of dask: arrays, sparse matrices or frames.",
            sample="linspec_dask.engine:sample_list",
        ),
    )
