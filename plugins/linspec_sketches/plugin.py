"""Declares the test matrices of this package; imports none of them."""

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
            name="gaussian",
            target="linspec_sketches.gaussian:Gaussian",
            summary="Independent standard normal entries: the sharpest guarantees, at a dense product.",
            reference="Halko, Martinsson and Tropp 2011, doi:10.1137/090771806",
            traits=("randomized",),
        ),
    )
