"""The table of contents of the least-squares solvers."""

from linspec import Needs, SolverSpec, hookimpl


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Least-squares solvers."""
    return (
        SolverSpec(
            name="direct",
            problem="least-squares",
            target="linspec_lstsq.direct:DirectLeastSquares",
            summary="Cholesky of the Gram matrix, QR and SVD where it is ill-conditioned; least norm at ridge 0.",
            reference="Golub & Van Loan 2013, Matrix Computations, 4th edition, sections 5.3 and 5.5",
            needs=Needs(entries=True),
            traits=("direct", "path", "one-pass", "automatic"),
        ),
        SolverSpec(
            name="gd",
            problem="least-squares",
            target="linspec_lstsq.gradient_descent:GradientDescent",
            summary="Gradient descent with exact line search, each right-hand side its own step.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), Algorithms 3 and 13",
            traits=("iterative", "path", "resumable"),
        ),
        SolverSpec(
            name="svrg",
            problem="least-squares",
            target="linspec_lstsq.svrg:SVRG",
            summary="Stochastic gradients of few rows, their variance reduced by a full gradient now and then.",
            reference="Johnson & Zhang 2013, Advances in Neural Information Processing Systems 26",
            needs=Needs(rows=True),
            traits=("iterative", "randomized", "path", "resumable"),
        ),
        SolverSpec(
            name="pcr",
            problem="least-squares",
            target="linspec_lstsq.principal_components:PrincipalComponentRegression",
            summary="Regression on the leading principal components alone, in two passes.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), chapter 2",
            traits=("randomized", "approximate", "path"),
        ),
        SolverSpec(
            name="ling",
            problem="least-squares",
            target="linspec_lstsq.ling:Ling",
            summary="A few leading components by projection, the rest by an iteration they no longer slow down.",
            reference="Lu 2015, Fast linear algorithms for machine learning (thesis), Algorithms 1 and 5",
            traits=("iterative", "randomized", "path", "resumable"),
        ),
        SolverSpec(
            name="cg",
            problem="least-squares",
            target="linspec_lstsq.conjugate_gradients:ConjugateGradients",
            summary="Block conjugate gradients: all right-hand sides search together, all ridges share the products.",
            reference="O'Leary 1980, doi:10.1016/0024-3795(80)90247-5; Dubrulle 2001, Electron. Trans. Numer. Anal. 12",
            traits=("iterative", "path", "one-pass", "warm-start", "resumable", "automatic"),
        ),
        SolverSpec(
            name="nystrom-pcg",
            problem="least-squares",
            target="linspec_lstsq.nystrom_pcg:NystromPCG",
            summary="Conjugate gradients with a randomized preconditioner that takes the large eigenvalues away.",
            reference="Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244",
            traits=("iterative", "randomized", "path", "warm-start", "resumable", "automatic"),
        ),
        SolverSpec(
            name="lsqr",
            problem="least-squares",
            target="linspec_lstsq.lsqr:SimultaneousLSQR",
            summary="LSQR for all right-hand sides at once, which never squares the condition number as cg does.",
            reference="Paige & Saunders 1982, doi:10.1145/355984.355989",
            traits=("iterative", "path", "warm-start", "resumable"),
        ),
        SolverSpec(
            name="sketch-precondition",
            problem="least-squares",
            target="linspec_lstsq.sketch_precondition:SketchPrecondition",
            summary="LSQR preconditioned by a sketch: accurate as QR on tall ill-conditioned data, dozens of passes.",
            reference="Avron, Maymon & Toledo 2010, doi:10.1137/090767911; Meng, Saunders & Mahoney 2014, "
            "doi:10.1137/120866580; Epperly, Meier & Nakatsukasa 2024, arXiv:2406.03468",
            needs=Needs(dense=True, rows=True),
            traits=("iterative", "randomized", "path", "resumable", "automatic"),
        ),
    )
