"""The problem of the template, maximal covariances of two matrices, and views that share variables."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

TEMPLATE = Path(__file__).parents[2] / "linspec" / "templates" / "problem" / "linspec_mca"


def _module(name: str) -> Any:
    """Load a module of the template of a problem, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"template_of_mca_{name}", TEMPLATE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MCA, Gram = _module("problem").MCA, _module("gram").Gram


def related(n: int, widths: tuple[int, ...], strengths: tuple[float, ...], seed: int) -> list[Any]:
    """Draw views that share a normal variable for each strength, in random directions, and independent noise."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, len(strengths))) * np.array(strengths, dtype=float)
    return [
        shared @ np.linalg.qr(rng.standard_normal((p, len(strengths))))[0].T + rng.standard_normal((n, p))
        for p in widths
    ]
