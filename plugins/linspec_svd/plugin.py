"""The table of contents of the solvers for the truncated singular value decomposition, and of incomplete rows."""

from linspec import Needs, ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems() -> tuple[ProblemSpec, ...]:
    """Principal components of rows with missing entries."""
    return (
        ProblemSpec(
            name="incomplete-pca",
            target="linspec_svd.incomplete.problem:IncompletePCA",
            summary="Principal components of rows with missing entries, by maximum likelihood.",
            testing="linspec.testing.references:INCOMPLETE_PCA",
        ),
    )


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Return the `SolverSpec` of each SVD solver of this package."""
    return (
        SolverSpec(
            name="direct",
            problem="svd",
            target="linspec_svd.gram:DirectSVD",
            summary="Orthogonal reduction of the rows, SVD of the small factor: the oracle.",
            reference="Chan 1982, ACM Trans. Math. Softw. 8(1), doi:10.1145/355984.355990",
            needs=Needs(entries=True),
            traits=("direct", "one-pass", "automatic", "share"),
        ),
        SolverSpec(
            name="gram",
            problem="svd",
            target="linspec_svd.gram:GramSVD",
            summary="One pass forms the Gram matrix of the shorter side; its eigenvectors are the answer.",
            reference="Golub & Van Loan 2013, Matrix Computations, 4th edition, section 8.6",
            traits=("direct", "one-pass", "automatic", "share"),
        ),
        SolverSpec(
            name="spca",
            problem="svd",
            target="linspec_svd.spca:SPCA",
            summary="A random projection, an orthonormal basis of it, a small SVD: two passes, few digits.",
            reference="Halko, Martinsson & Tropp 2011, doi:10.1137/090771806; Wojnowicz 2017, arXiv:1709.07175",
            traits=("randomized", "approximate"),
        ),
        SolverSpec(
            name="lazy-spca",
            problem="svd",
            target="linspec_svd.spca:LazySPCA",
            summary="The same subspace in one pass, without a basis as long as the data; accuracy is squared.",
            reference="Wojnowicz 2017, Lazy stochastic principal component analysis, arXiv:1709.07175",
            traits=("randomized", "approximate", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="block-krylov",
            problem="svd",
            target="linspec_svd.block_krylov:BlockKrylov",
            summary="Rayleigh-Ritz on a block Krylov space, stopped by the residual: the accurate default.",
            reference="Musco & Musco 2015, arXiv:1504.05477",
            traits=("iterative", "randomized", "warm-start", "resumable", "automatic", "share"),
        ),
        SolverSpec(
            name="lanczos",
            problem="svd",
            target="linspec_svd.lanczos:Lanczos",
            summary="ARPACK of SciPy on products; it calls back, so no run goes on from a checkpoint.",
            reference="Lehoucq, Sorensen & Yang 1998, ARPACK Users' Guide, doi:10.1137/1.9780898719628",
            traits=("iterative", "randomized"),
        ),
        SolverSpec(
            name="em",
            problem="incomplete-pca",
            target="linspec_svd.incomplete.em:EM",
            summary="Quasi-Newton steps in the metric of EM, on rows that the first pass holds, and then on all.",
            reference="Tipping & Bishop 1999, doi:10.1111/1467-9868.00196; Liu, Rubin & Wu 1998, Biometrika 85:755; "
            "Jamshidian & Jennrich 1997, doi:10.1111/1467-9868.00083",
            needs=Needs(adjoint=False, entries=True),
            traits=("iterative", "randomized", "warm-start", "resumable", "automatic"),
        ),
    )
