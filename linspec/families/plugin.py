"""The records of the problem families that linspec ships, registered in the same way as those of other packages."""

from __future__ import annotations

from linspec import ProblemSpec, hookimpl


@hookimpl
def linspec_problems() -> list[ProblemSpec]:
    """Return the records of the families."""
    return [
        ProblemSpec(
            name="cca",
            target="linspec.families.cca.problem:CCA",
            summary="Canonical correlations of two views.",
            testing="linspec.testing.references:CCA",
        ),
        ProblemSpec(
            name="discriminant",
            target="linspec.families.discriminant.problem:Discriminant",
            summary="Directions that tell labels apart: LDA, OPLS, CCA with labels, hypergraphs.",
            testing="linspec.testing.references:DISCRIMINANT",
        ),
        ProblemSpec(
            name="least-squares",
            target="linspec.families.least_squares.problem:LeastSquares",
            summary="Least squares and ridge regression.",
            testing="linspec.testing.references:LEAST_SQUARES",
        ),
        ProblemSpec(
            name="svd",
            target="linspec.families.svd.problem:SVD",
            summary="Leading singular values and vectors; with --center principal components.",
            testing="linspec.testing.references:SVD",
        ),
    ]
