"""The declarations of the test matrices of this package, which are not imported here."""

from __future__ import annotations

from linspec import TestMatrixSpec, hookimpl


@hookimpl
def linspec_test_matrices() -> tuple[TestMatrixSpec, ...]:
    """Declare the test matrices.

    Returns
    -------
    tuple of TestMatrixSpec
    """
    return (
        TestMatrixSpec(
            name="count-sketch",
            target="linspec_sketches.sparse:CountSketch",
            summary="One random sign a row (feature hashing): one addition for each entry of the data.",
            reference="Clarkson and Woodruff 2013, doi:10.1145/2488608.2488620",
            traits=("randomized",),
        ),
        TestMatrixSpec(
            name="gaussian",
            target="linspec_sketches.gaussian:Gaussian",
            summary="Independent standard normal entries: the sharpest guarantees, at a dense product.",
            reference="Halko, Martinsson and Tropp 2011, doi:10.1137/090771806",
            traits=("randomized",),
        ),
        TestMatrixSpec(
            name="sparse-sign",
            target="linspec_sketches.sparse:SparseSign",
            summary="A few random signs in every row: the cost of a sparse product, close to Gaussian in practice.",
            reference="Tropp, Yurtsever, Udell and Cevher 2019, doi:10.1137/18M1201068",
            traits=("randomized",),
        ),
        TestMatrixSpec(
            name="srht",
            target="linspec_sketches.srht:SRHT",
            summary="Signs, fast Walsh-Hadamard transform, sample: for dense data and many columns.",
            reference="Tropp 2011, doi:10.1142/S1793536911000787",
            traits=("randomized",),
        ),
        TestMatrixSpec(
            name="very-sparse",
            target="linspec_sketches.sparse:VerySparse",
            summary="Independent entries +, 0 and -, with density 1/sqrt(p) or log(p)/p.",
            reference="Li, Hastie and Church 2006, doi:10.1145/1150402.1150436",
            traits=("randomized",),
        ),
    )
