"""The table of contents: what this package provides. It imports no array library."""

from linspec import SolverSpec, hookimpl


@hookimpl
def linspec_solvers():
    return [
        SolverSpec(
            name="two-point",
            problem="least-squares",
            target="linspec_two_point.two_point:TwoPoint",
            summary="Gradient descent whose steps come one iteration late: no parameter, no line search.",
            reference="Barzilai & Borwein 1988, doi:10.1093/imanum/8.1.141",
            traits=("iterative", "resumable", "warm-start"),
        )
    ]
