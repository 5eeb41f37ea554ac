"""The table of contents of the solvers for discriminant subspaces."""

from linspec import Needs, SolverSpec, hookimpl


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Solvers of discriminant subspaces, and of CCA with a narrow view."""
    return (
        SolverSpec(
            name="direct",
            problem="discriminant",
            target="linspec_discriminant.direct:DirectDiscriminant",
            summary="Cholesky of the Gram matrix on the shorter side, orthogonal transformations on evidence: exact.",
            reference="Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, section 5.3 and Theorem 4",
            needs=Needs(entries=True),
            traits=("direct", "randomized", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="two-stage",
            problem="discriminant",
            target="linspec_discriminant.two_stage:TwoStage",
            summary="Least squares on the targets by any solver, by name; then an eigenproblem of their size.",
            reference="Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Algorithms 1 and 2",
            traits=("iterative", "randomized", "resumable", "automatic"),
        ),
        SolverSpec(
            name="two-stage",
            problem="cca",
            target="linspec_discriminant.two_stage:TwoStageCCA",
            summary="For a narrow Y: least squares of Y on X, then an exact CCA as small as Y.",
            reference="Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Algorithm 2",
            traits=("iterative", "randomized", "resumable", "automatic"),
        ),
    )
