"""The table of contents: canonical correlations of several views, by two criteria, and the solvers for them."""

from linspec import ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems() -> tuple[ProblemSpec, ...]:
    """Multiset CCA, and SUMCOR."""
    return (
        ProblemSpec(
            name="multiset-cca",
            target="linspec_multiset.problem:MultisetCCA",
            summary="Canonical correlations of any number of views: the directions on which they agree most.",
            testing="linspec.testing.references:MULTISET",
        ),
        ProblemSpec(
            name="sumcor-cca",
            target="linspec_multiset.sumcor:SumcorCCA",
            summary="Scores of several views with a large sum of correlations (SUMCOR): local maxima, with a bound.",
            testing="linspec.testing.references:SUMCOR",
        ),
    )


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Solvers for multiset CCA, and for SUMCOR."""
    return (
        SolverSpec(
            name="gram",
            problem="multiset-cca",
            target="linspec_multiset.solvers:GramMultiset",
            summary="One pass and an eigendecomposition of all whitened views together: exact.",
            reference="Kettenring 1971, Biometrika 58(3), doi:10.1093/biomet/58.3.433",
            traits=("direct", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="lobpcg",
            problem="multiset-cca",
            target="linspec_multiset.solvers:LOBPCGMultiset",
            summary="Block iteration with a subspace for each view: sparse and large views, no Gram matrix.",
            reference="Knyazev 2001, SIAM J. Sci. Comput. 23(2), doi:10.1137/S1064827500366124",
            traits=("iterative", "randomized", "warm-start", "resumable", "automatic"),
        ),
        SolverSpec(
            name="horst",
            problem="sumcor-cca",
            target="linspec_multiset.horst:Horst",
            summary="One pass, then Horst's iteration from many starts; the best end is returned.",
            reference="Chu & Watterson 1993, SIAM J. Sci. Comput. 14(5), doi:10.1137/0914066",
            traits=("one-pass", "randomized", "automatic"),
        ),
    )
