"""The table of contents: what this package provides. It imports no array library."""

from linspec import SolverSpec, hookimpl


@hookimpl
def linspec_solvers():
    return [
        SolverSpec(
            name="heavy-ball",
            problem="cca",
            target="linspec_heavy_ball.heavy_ball:HeavyBall",
            summary="AppGrad with momentum: gradient steps on auxiliary blocks, two sweeps each.",
            reference="Polyak 1964; Ma, Lu & Foster 2015, ICML, Finding linear structure in large datasets",
            traits=("iterative", "randomized", "resumable"),
        )
    ]
