"""The truth about a case of any family."""

from __future__ import annotations

from collections.abc import Mapping

from linspec_fuzz.kernel_truth import KernelCCATruth
from linspec_fuzz.problems import Case
from linspec_fuzz.recorded import Recorded
from linspec_fuzz.truth import CCATruth, DiscriminantTruth, LeastSquaresTruth, SVDTruth, Truth

__all__ = ["TRUTHS", "truth_of"]

TRUTHS: Mapping[str, type[Truth]] = {
    "least-squares": LeastSquaresTruth,
    "svd": SVDTruth,
    "cca": CCATruth,
    "discriminant": DiscriminantTruth,
    "kernel-cca": KernelCCATruth,
}
"""The families with a truth in extended precision."""


def truth_of(case: Case) -> Truth | Recorded:
    """Return the truth about a case: in extended precision, or by the oracle of the family's record."""
    return TRUTHS[case.family](case) if case.family in TRUTHS else Recorded(case)
