"""The table of contents of the solvers for canonical correlation analysis."""

from linspec import Needs, SolverSpec, hookimpl


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """CCA solvers."""
    return (
        SolverSpec(
            name="direct",
            problem="cca",
            target="linspec_cca.direct:Direct",
            summary="Orthogonal reduction of both views, SVD of the product of their bases: the oracle.",
            reference="Björck & Golub 1973, Math. Comp. 27(123), doi:10.1090/S0025-5718-1973-0348991-3",
            needs=Needs(dense=True),
            traits=("direct",),
        ),
        SolverSpec(
            name="gram",
            problem="cca",
            target="linspec_cca.gram:Gram",
            summary="One pass forms the Gram matrices; Cholesky whitening and a small SVD give the exact answer.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), Lemma 4.1.2",
            traits=("direct",),
        ),
        SolverSpec(
            name="als",
            problem="cca",
            target="linspec_cca.als:AlternatingLeastSquares",
            summary="Alternating least squares with any least-squares solver and any normalizer, by name.",
            reference="Golub & Zha 1995, The canonical correlations of matrix pairs; Lu 2015, Algorithm 4",
            traits=("iterative", "randomized", "warm-start"),
        ),
        SolverSpec(
            name="l-cca",
            problem="cca",
            target="linspec_cca.l_cca:LCCA",
            summary="A few iterations of alternating least squares with LING, exact on leading components.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), Algorithm 6; arXiv:1407.4508",
            traits=("iterative", "randomized", "warm-start", "approximate"),
        ),
        SolverSpec(
            name="g-cca",
            problem="cca",
            target="linspec_cca.g_cca:GCCA",
            summary="A few iterations of alternating least squares with gradient steps, for flat spectra.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), section 3.5; arXiv:1407.4508",
            traits=("iterative", "randomized", "warm-start", "approximate"),
        ),
        SolverSpec(
            name="d-cca",
            problem="cca",
            target="linspec_cca.diagonal:DiagonalCCA",
            summary="Alternating steps with the diagonals of the Gram matrices: exact for one-hot data.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), section 3.3.1",
            traits=("iterative", "randomized", "warm-start", "approximate"),
        ),
        SolverSpec(
            name="appgrad",
            problem="cca",
            target="linspec_cca.appgrad:AppGrad",
            summary="Gradient steps on auxiliary variables, normalised by an inverse square root; thin memory.",
            reference="Ma, Lu & Foster 2015, ICML, Finding linear structure in large datasets, Algorithm 4",
            traits=("iterative", "randomized"),
        ),
        SolverSpec(
            name="rpcca",
            problem="cca",
            target="linspec_cca.principal:PrincipalCCA",
            summary="Exact CCA between principal components, which any SVD solver finds: two sweeps.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), section 3.5; arXiv:1506.08170",
            traits=("randomized", "approximate"),
        ),
        SolverSpec(
            name="nw-cca",
            problem="cca",
            target="linspec_cca.cross:NoWhitening",
            summary="Singular vectors of the cross product, not whitened: covariance in place of correlation.",
            reference="Ma, Lu & Foster 2015, ICML, Finding linear structure in large datasets, section 4",
            traits=("iterative", "randomized", "approximate"),
        ),
        SolverSpec(
            name="dw-cca",
            problem="cca",
            target="linspec_cca.cross:DiagonalWhitening",
            summary="Singular vectors of the cross product of columns of unit length: exact for one-hot data.",
            reference="Ma, Lu & Foster 2015, ICML, Finding linear structure in large datasets, section 4",
            traits=("iterative", "randomized", "approximate"),
        ),
        SolverSpec(
            name="randomized",
            problem="cca",
            target="linspec_cca.randomized:Randomized",
            summary="A random range finder, then the exact CCA within it: two sweeps, for what long directions share.",
            reference="Mineiro & Karampatziakis 2014, A randomized algorithm for CCA, arXiv:1411.3409",
            traits=("randomized", "approximate"),
        ),
        SolverSpec(
            name="stochastic-appgrad",
            problem="cca",
            target="linspec_cca.stochastic_appgrad:StochasticAppGrad",
            summary="AppGrad on minibatches, with steps and batches from the data; stops at any time.",
            reference="Ma, Lu & Foster 2015, ICML, section 3; Lu 2015, Algorithm 11",
            needs=Needs(rows=True),
            traits=("iterative", "randomized", "approximate"),
        ),
        SolverSpec(
            name="sparse-appgrad",
            problem="cca",
            target="linspec_cca.sparse_appgrad:SparseAppGrad",
            summary="AppGrad with soft thresholds: weights with few entries that are not zero.",
            reference="Ma, Lu & Foster 2015, ICML, Finding linear structure in large datasets, section 5",
            traits=("iterative", "randomized", "approximate"),
        ),
        SolverSpec(
            name="naive-gradient",
            problem="cca",
            target="linspec_cca.naive_gradient:NaiveGradient",
            summary="Projected gradient, whose steps move away from the answer: kept to show that it fails.",
            reference="Ma, Lu & Foster 2015, ICML, Finding linear structure in large datasets, Algorithm 2",
            traits=("iterative", "randomized", "approximate", "demonstration"),
        ),
    )
