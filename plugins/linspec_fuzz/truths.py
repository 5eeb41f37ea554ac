"""The truth about a case of any family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec_fuzz.components_truth import PLSRegressionTruth, PLSTruth, ReducedRankTruth
from linspec_fuzz.held_out_truth import FoldTruth, ManyTargetsTruth
from linspec_fuzz.kernel_truth import KernelCCATruth, KernelRidgeTruth
from linspec_fuzz.problems import Case
from linspec_fuzz.recorded import Recorded
from linspec_fuzz.truth import CCATruth, DiscriminantTruth, LeastSquaresTruth, SVDTruth, Truth
from linspec_fuzz.views_truth import MultisetTruth, SumcorTruth

__all__ = ["TRUTHS", "truth_of"]

TRUTHS: Mapping[str, type[Truth]] = {
    "least-squares": LeastSquaresTruth,
    "svd": SVDTruth,
    "cca": CCATruth,
    "discriminant": DiscriminantTruth,
    "kernel-cca": KernelCCATruth,
    "pls": PLSTruth,
    "pls-regression": PLSRegressionTruth,
    "reduced-rank-regression": ReducedRankTruth,
    "kernel-ridge": KernelRidgeTruth,
    "ridge-many-targets": ManyTargetsTruth,
    "multiset-cca": MultisetTruth,
    "sumcor-cca": SumcorTruth,
}
"""The families with a truth in extended precision."""


def truth_of(case: Case) -> Any:
    """Return the truth about a case: in extended precision, or by the oracle of the family's record."""
    with np.errstate(all="ignore"):
        if case.study:
            return FoldTruth(case, truth_of)
        return TRUTHS[case.family](case) if case.family in TRUTHS else Recorded(case)
