"""No solver's estimate warns or raises, whatever its data are known by."""

from __future__ import annotations

import pytest
from fuzz import KINDS, TERMS
from planted import planted_case

import linspec as ls


@pytest.mark.parametrize("kind", ["numpy", "scipy-csr", "slices", "products-only"])
@pytest.mark.parametrize("problem", [name for name in TERMS if name != "ridge-many-targets"])
def test_auto_chooses_without_a_warning(problem, kind):
    case = planted_case(problem)
    stated = case.state({name: KINDS[kind](X) for name, X in case.arrays.items()})
    assert ls.select(stated).name in ls.solvers(problem)
