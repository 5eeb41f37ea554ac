"""The table of contents: the problem and its solvers. It imports no array library."""

from linspec import ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems():
    return [
        ProblemSpec(
            name="mca",
            target="linspec_mca.problem:MCA",
            summary="Directions of two views with the largest covariance: singular vectors of XᵀY.",
            testing="linspec_mca.testing:REFERENCE",
        )
    ]


@hookimpl
def linspec_solvers():
    return [
        SolverSpec(
            name="gram",
            problem="mca",
            target="linspec_mca.gram:Gram",
            summary="One pass forms XᵀY; its singular value decomposition is the answer.",
            reference="Bookstein 1994, Partial least squares: a dose-response model for measurement",
            traits=("direct", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="power",
            problem="mca",
            target="linspec_mca.power:Power",
            summary="Power iteration with a block of vectors: two passes a step, and XᵀY is never formed.",
            reference="Rutishauser 1970, Numer. Math. 16, doi:10.1007/BF02219773",
            traits=("iterative", "randomized", "resumable", "automatic"),
        ),
    ]
