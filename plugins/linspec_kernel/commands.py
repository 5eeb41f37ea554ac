"""Kernels as options of commands: words and numbers that name the kernels of one or two matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import linspec as ls

KERNELS = ("rbf", "laplacian", "polynomial", "linear", "precomputed")

_SCALED, _POLYNOMIAL = ("rbf", "laplacian"), ("polynomial",)


def kernel_settings(usual: str, names: tuple[str, ...], *, second: bool = True) -> dict[str, Any]:
    """Declare the options for the kernels of a problem."""
    of_y = {"kernel_y": ls.setting(None, str, choices=names, help="The kernel of Y, if it differs from X's.")}
    return {
        "kernel": ls.setting(usual, str, choices=names, help="The kernel."),
        **(of_y if second else {}),
        "kernel_scale": ls.setting(
            only_with=_SCALED,
            help="The scale of rbf or laplacian. By default the median distance between rows.",
        ),
        "scale_factor": ls.setting(only_with=_SCALED, help="By which that median is multiplied."),
        "degree": ls.setting(
            None, int, only_with=_POLYNOMIAL, help="The degree of polynomial; 2 by default."
        ),
        "offset": ls.setting(only_with=_POLYNOMIAL, help="The constant of polynomial; 1 by default."),
    }


def kernels_of(values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the kernels that the values of these options name, and the other values."""
    names = [values[name] for name in ("kernel", "kernel_y") if name in values]
    others = {name: value for name, value in values.items() if name not in kernel_settings("", ())}
    return [_kernel(name, values) for name in names], others


def _kernel(name: str, values: Mapping[str, Any]) -> Any:
    """Make the kernel of a name, with the parameters among the values."""
    if name in _SCALED:
        scale, factor = values.get("kernel_scale", "median"), values.get("scale_factor", 1.0)
        return getattr(ls.kernels, name)(scale, factor=factor)
    if name in _POLYNOMIAL:
        return ls.kernels.polynomial(values.get("degree", 2), values.get("offset", 1.0))
    return getattr(ls.kernels, name)()
