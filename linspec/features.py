"""Feature maps: a nonlinear problem as a linear one. They are made in `linspec.kernels.features`."""

from __future__ import annotations

from linspec.kernels.features import (
    FeatureMap,
    FeatureOperator,
    FourierMap,
    KernelMap,
    fourier,
    nystrom,
)
from linspec.kernels.features import diagonal_of as diagonal_of  # noqa: PLC0414 (for authors)
from linspec.kernels.features import turn_of as turn_of  # noqa: PLC0414 (for authors)

__all__ = [
    "FeatureMap",
    "FeatureOperator",
    "FourierMap",
    "KernelMap",
    "fourier",
    "nystrom",
]
