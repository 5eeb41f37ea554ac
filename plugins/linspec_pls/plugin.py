"""The table of contents of partial least squares: the problems, with sparse weights too, and the solvers for them."""

from linspec import ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems() -> tuple[ProblemSpec, ...]:
    """Covariances of two views, and regression on components."""
    return (
        ProblemSpec(
            name="pls",
            target="linspec_pls.problem:PLS",
            summary="Directions of two views with the largest covariance: singular vectors of XᵀY.",
            testing="linspec.testing.references:PLS",
        ),
        ProblemSpec(
            name="pls-regression",
            target="linspec_pls.regression.problem:PLSRegression",
            summary="Regression on the components of X that have the largest covariance with Y.",
            testing="linspec.testing.references:PLS_REGRESSION",
        ),
        ProblemSpec(
            name="sparse-cca",
            target="linspec_pls.sparse.problem:SparseCCA",
            summary="Canonical correlations with weights of few columns, or groups of columns.",
            testing="linspec.testing.references:SPARSE_CCA",
        ),
        ProblemSpec(
            name="sparse-pca",
            target="linspec_pls.sparse.problem:SparsePCA",
            summary="Principal components of few columns, or groups of columns.",
            testing="linspec.testing.references:SPARSE_PCA",
        ),
        ProblemSpec(
            name="sparse-pls",
            target="linspec_pls.sparse.problem:SparsePLS",
            summary="Covariances of few columns of two views, or groups of columns; with --scale sparse CCA of Witten.",
            testing="linspec.testing.references:SPARSE_PLS",
        ),
    )


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Return the `SolverSpec` of each solver of this package."""
    return (
        SolverSpec(
            name="gram",
            problem="pls",
            target="linspec_pls.solvers:Gram",
            summary="One pass forms XᵀY; its singular value decomposition is the answer.",
            reference="Bookstein 1994, Partial least squares: a dose-response model for measurement",
            traits=("direct", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="block-krylov",
            problem="pls",
            target="linspec_pls.solvers:BlockKrylov",
            summary="Block Krylov iteration with products only: XᵀY is never formed, sparse views stay sparse.",
            reference="Golub, Luk & Overton 1981, ACM Trans. Math. Softw. 7(2), doi:10.1145/355945.355946",
            traits=("iterative", "randomized", "resumable", "automatic"),
        ),
        SolverSpec(
            name="gram",
            problem="pls-regression",
            target="linspec_pls.regression.solvers:Gram",
            summary="One pass forms XᵀX and XᵀY, from which all components are deflated.",
            reference="Dayal & MacGregor 1997, J. Chemom. 11:73, section 2",
            traits=("direct", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="nipals",
            problem="pls-regression",
            target="linspec_pls.regression.solvers:Nipals",
            summary="One product with X for each component; XᵀX is never formed, and neither is a deflated X.",
            reference="Wold, Sjöström & Eriksson 2001, doi:10.1016/S0169-7439(01)00155-1",
            traits=("iterative", "resumable", "automatic"),
        ),
        *(
            SolverSpec(
                name="pmd",
                problem=problem,
                target="linspec_pls.sparse.solvers:Alternating",
                summary="Alternating soft thresholds from several starts; wide sparse data are only multiplied.",
                reference="Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008",
                traits=("iterative", "randomized", "one-pass", "resumable", "warm-start", "automatic"),
            )
            for problem in ("sparse-pca", "sparse-pls")
        ),
        SolverSpec(
            name="newton",
            problem="sparse-cca",
            target="linspec_pls.sparse.solvers:Alternating",
            summary="Alternating convex problems by Newton's method, from several starts; Gram matrices of one pass.",
            reference="Suo, Minden, Nelson, Tibshirani & Saunders 2017, arXiv:1705.10865",
            traits=("iterative", "randomized", "one-pass", "resumable", "warm-start", "automatic"),
        ),
    )
