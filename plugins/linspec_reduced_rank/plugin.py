"""The table of contents of reduced-rank regression: the problem and its solvers."""

from linspec import Needs, ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems() -> tuple[ProblemSpec, ...]:
    """Reduced-rank regression."""
    return (
        ProblemSpec(
            name="reduced-rank-regression",
            target="linspec_reduced_rank.problem:ReducedRankRegression",
            summary="Least squares of several right-hand sides whose coefficients have rank k, with a ridge.",
            testing="linspec.testing.references:REDUCED_RANK",
        ),
    )


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Return the `SolverSpec` of each solver of this package."""
    return (
        SolverSpec(
            name="direct",
            problem="reduced-rank-regression",
            target="linspec_reduced_rank.subspaces:Direct",
            summary="A factor of XᵀX or of the rows, then singular vectors of a thin matrix: exact.",
            reference="Mukherjee & Zhu 2011, Stat. Anal. Data Min. 4(6), doi:10.1002/sam.10138",
            needs=Needs(entries=True),
            traits=("direct", "randomized", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="two-stage",
            problem="reduced-rank-regression",
            target="linspec_reduced_rank.subspaces:TwoStage",
            summary="All right-hand sides by any least-squares solver, by name; then an eigenproblem of their number.",
            reference="Izenman 1975, J. Multivar. Anal. 5, doi:10.1016/0047-259X(75)90042-1",
            traits=("iterative", "randomized", "resumable", "automatic"),
        ),
    )
