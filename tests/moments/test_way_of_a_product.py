"""How many frames and files a second product of dense rows passes on its way to NumPy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls

CORE = Path(ls.__file__).parent

FRAMES, FILES = 11, 22
"""Depth of calls within linspec, and files that they go through."""


@pytest.mark.parametrize("loaded", ["numpy", "torch"])
def test_a_product_of_dense_rows_goes_a_short_way(loaded: str) -> None:
    pytest.importorskip(loaded)  # a library that is there but not used adds no frame
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 20)), rng.standard_normal((300, 15))
    V, W = rng.standard_normal((20, 4)), rng.standard_normal((15, 4))
    moments = ls.Moments(X, Y, center=True, form="implicit")
    moments.products(V, W)
    deepest, depth, files = 0, 0, set()

    def follow(frame: Any, event: str, _: Any) -> None:
        nonlocal deepest, depth
        own = Path(frame.f_code.co_filename).is_relative_to(CORE) and not frame.f_code.co_name.startswith("<")
        if own and event == "call":
            depth += 1
            deepest = max(deepest, depth)
            files.add(frame.f_code.co_filename)
        elif own and event == "return":
            depth -= 1

    sys.setprofile(follow)
    try:
        moments.products(V, W)
    finally:
        sys.setprofile(None)
    assert 0 < deepest <= FRAMES
    assert len(files) <= FILES
