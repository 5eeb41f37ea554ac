"""Feature maps: a nonlinear problem as a linear one. They are defined in `linspec.kernels.features`."""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "FeatureMap": "linspec.kernels.features",
    "FeatureOperator": "linspec.kernels.features",
    "FourierMap": "linspec.kernels.features",
    "KernelMap": "linspec.kernels.features",
    "drawn_rows": "linspec.kernels.features",
    "fourier": "linspec.kernels.features",
    "nystrom": "linspec.kernels.features",
    "turn_of": "linspec.kernels.features",
}

__all__ = [name for name in _HOLDERS if name not in {"drawn_rows", "turn_of"}]
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
