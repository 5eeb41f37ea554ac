"""The table of contents: kernel canonical correlations, kernel ridge regression, and the solvers for them."""

from linspec import Needs, ProblemSpec, SolverSpec, hookimpl


@hookimpl
def linspec_problems() -> tuple[ProblemSpec, ...]:
    """Kernel CCA, kernel CCA with functions that are kernels at single points, and kernel ridge regression."""
    return (
        ProblemSpec(
            name="kernel-cca",
            target="linspec_kernel.problem:KernelCCA",
            summary="Canonical correlations of functions of two views, in the spaces of kernels.",
            testing="linspec.testing.references:KERNEL_CCA",
        ),
        ProblemSpec(
            name="preimage-cca",
            target="linspec_kernel.preimage.problem:PreimageCCA",
            summary="Correlations of the kernel functions of single points, with bounds that make them sparse.",
            testing="linspec.testing.references:PREIMAGE",
        ),
        ProblemSpec(
            name="kernel-ridge",
            target="linspec_kernel.ridge.problem:KernelRidge",
            summary="Ridge regression on functions in the space of a kernel, for any targets and ridges at once.",
            testing="linspec.testing.references:KERNEL_RIDGE",
        ),
    )


@hookimpl
def linspec_solvers() -> tuple[SolverSpec, ...]:
    """Return the `SolverSpec` of each solver of this package."""
    return (
        SolverSpec(
            name="kcca",
            problem="kernel-cca",
            target="linspec_kernel.kcca:KCCA",
            summary="Eigendecompositions of both kernel matrices: the oracle, for some thousand rows.",
            reference="Hardoon, Szedmak & Shawe-Taylor 2004, Neural Comput. 16(12), doi:10.1162/0899766042321814",
            needs=Needs(dense=True),
            traits=("direct", "automatic"),
        ),
        SolverSpec(
            name="nystrom-lobpcg",
            problem="kernel-cca",
            target="linspec_kernel.nystrom_lobpcg:NystromLOBPCG",
            summary="Block iteration with a Nyström preconditioner: exact, few passes, no n x n matrix.",
            reference="Frangella, Tropp & Udell 2023, SIAM J. Matrix Anal. Appl. 44(2), doi:10.1137/21M1466244",
            needs=Needs(dense=True),
            traits=("iterative", "randomized", "resumable", "automatic"),
        ),
        SolverSpec(
            name="nystrom-kcca",
            problem="kernel-cca",
            target="linspec_kernel.features_kcca:NystromKCCA",
            summary="CCA of Nyström features: the best functions of some landmarks, without an n x n matrix.",
            reference="Williams & Seeger 2001, NIPS 13, Using the Nyström method to speed up kernel machines",
            needs=Needs(dense=True, rows=True),
            traits=("randomized", "approximate"),
        ),
        SolverSpec(
            name="rff-kcca",
            problem="kernel-cca",
            target="linspec_kernel.features_kcca:FourierKCCA",
            summary="CCA of random Fourier features, for Gaussian and Laplacian kernels: for comparison.",
            reference="Lopez-Paz et al. 2014, ICML, Randomized nonlinear component analysis, arXiv:1402.0119",
            needs=Needs(dense=True, rows=True),
            traits=("randomized", "approximate"),
        ),
        SolverSpec(
            name="kernel-appgrad",
            problem="kernel-cca",
            target="linspec_kernel.kernel_appgrad:KernelAppGrad",
            summary="Gradient descent on k functions of each view, with products only: for comparison.",
            reference="Ma, Lu & Foster 2015, ICML, PMLR 37, Finding linear structure in large datasets, section 2.4",
            needs=Needs(dense=True),
            traits=("iterative", "randomized", "resumable"),
        ),
        SolverSpec(
            name="knoi",
            problem="kernel-cca",
            target="linspec_kernel.knoi:KNOI",
            summary="Minibatches of random Fourier features, made anew from a seed: memory of some columns of weights.",
            reference="Wang & Livescu 2016, ICLR, Large-scale approximate kernel CCA, arXiv:1511.04773",
            needs=Needs(dense=True, rows=True),
            traits=("randomized", "approximate", "resumable"),
        ),
        SolverSpec(
            name="gradkcca",
            problem="preimage-cca",
            target="linspec_kernel.preimage.gradkcca:GradKCCA",
            summary="Projected gradients from many starts at once; products with the data only, no kernel matrix.",
            reference="Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Large-scale sparse kernel CCA",
            traits=("iterative", "randomized", "warm-start", "resumable", "automatic"),
        ),
        SolverSpec(
            name="scca-hsic",
            problem="preimage-cca",
            target="linspec_kernel.preimage.gradkcca:SCCAHSIC",
            summary="Combinations of columns that depend on each other in any way: HSIC by features of one variable.",
            reference="Uurtio, Bhadra & Rousu 2018, ICDM, Sparse non-linear CCA, doi:10.1109/ICDM.2018.00172",
            traits=("iterative", "randomized", "warm-start", "resumable"),
        ),
        SolverSpec(
            name="kcca-preimage",
            problem="preimage-cca",
            target="linspec_kernel.preimage.kcca_preimage:KCCAPreimage",
            summary="Points nearest to the functions of kernel CCA: for comparison, or as a start to improve.",
            reference="Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Large-scale sparse kernel CCA",
            needs=Needs(dense=True, rows=True),
            traits=("approximate",),
        ),
        SolverSpec(
            name="direct",
            problem="kernel-ridge",
            target="linspec_kernel.ridge.solvers:Direct",
            summary="A Cholesky factorisation of the kernel matrix for each ridge, for some thousand rows.",
            reference="Saunders, Gammerman & Vovk 1998, ICML, Ridge regression learning algorithm in dual variables",
            needs=Needs(dense=True),
            traits=("direct", "path", "automatic"),
        ),
        SolverSpec(
            name="nystrom-pcg",
            problem="kernel-ridge",
            target="linspec_kernel.ridge.solvers:NystromPCG",
            summary="Block conjugate gradients with a Nyström preconditioner: few passes, no n x n matrix.",
            reference="Ji & Li 2017, BIT Numer. Math. 57, doi:10.1007/s10543-016-0631-z",
            needs=Needs(dense=True),
            traits=("iterative", "randomized", "path", "warm-start", "resumable", "automatic"),
        ),
    )
