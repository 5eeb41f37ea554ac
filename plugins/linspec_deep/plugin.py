"""The table of contents: canonical correlations of learnt features, and a solver that needs torch."""

from linspec import Needs, ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems() -> tuple[ProblemSpec, ...]:
    """Deep CCA."""
    return (
        ProblemSpec(
            name="deep-cca",
            target="linspec_deep.problem:DeepCCA",
            summary="Canonical correlations of features of two views, learnt by two nets.",
            testing="linspec.testing.references:DEEP_CCA",
        ),
    )


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """The solver that trains nets by torch."""
    return (
        SolverSpec(
            name="dcca",
            problem="deep-cca",
            target="linspec_deep.dcca:DCCA",
            summary="Two nets of layers with ReLU, trained by AdamW on minibatches, then an exact CCA; needs torch.",
            reference="Andrew, Arora, Bilmes & Livescu 2013, Deep canonical correlation analysis, ICML, PMLR 28(3)",
            needs=Needs(adjoint=False, rows=True, entries=True),
            traits=("randomized", "approximate", "resumable"),
        ),
    )
