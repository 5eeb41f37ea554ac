"""The table of contents of ridge regression of many targets: the problem and its solvers."""

from linspec import Needs, ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems() -> tuple[ProblemSpec, ...]:
    """Return the record of the problem."""
    return (
        ProblemSpec(
            name="ridge-many-targets",
            target="linspec_many_targets.problem:RidgeManyTargets",
            summary="Ridge regression of many targets, each with a ridge and weights of bands chosen by held-out rows.",
            testing="linspec.testing.references:MANY_TARGETS",
        ),
    )


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Return the `SolverSpec` of each solver of this package."""
    return (
        SolverSpec(
            name="gram",
            problem="ridge-many-targets",
            target="linspec_many_targets.gram:Gram",
            summary="One pass forms the Gram matrices of the folds; one decomposition serves all ridges and targets.",
            reference="Nunez-Elizalde, Huth & Gallant 2019, NeuroImage 197, doi:10.1016/j.neuroimage.2019.04.012",
            needs=Needs(entries=True),
            traits=("direct", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="kernel",
            problem="ridge-many-targets",
            target="linspec_many_targets.kernel:Kernel",
            summary="Kernel matrices of the bands, for fewer rows than columns; coefficients are kept as factors.",
            reference="Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant 2022, NeuroImage 264, "
            "doi:10.1016/j.neuroimage.2022.119728",
            needs=Needs(dense=True),
            traits=("direct", "automatic"),
        ),
    )
