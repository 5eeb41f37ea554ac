"""The kit on families of plugins: each liar fails the check that its family has beside those of all solvers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec import Needs, Solver, SolverSpec, registry
from linspec.testing import CheckFailed, Suite, testing_of
from linspec_deep.nets import Net
from linspec_kernel.kcca import KCCA
from linspec_kernel.preimage.gradkcca import GradKCCA
from linspec_kernel.ridge.direct import Direct as KernelRidgeDirect


def altered(solution: Any, **changes: Any) -> Any:
    """Change the contents of a solution in place: `solve` accepts no other than the one that `finish` made."""
    for name, value in changes.items():
        object.__setattr__(solution, name, value)
    return solution


@dataclass(frozen=True, kw_only=True)
class BoundsOfZero(KCCA):
    """Correlations that are off by a little, and said to be exact."""

    def solve(self, problem, run):
        found = super().solve(problem, run)
        return altered(found, correlations=0.999 * found.correlations, bounds=0 * found.correlations)


@dataclass(frozen=True, kw_only=True)
class BoundsOfOne(KCCA):
    """A correlation that no function of its rank has, within a bound that says nothing."""

    def solve(self, problem, run):
        found = super().solve(problem, run)
        raised = np.minimum(1.01 * found.correlations, 1.0)
        return altered(found, correlations=raised, bounds=np.ones(len(raised)))


@dataclass(frozen=True, kw_only=True)
class PointsOutside(GradKCCA):
    """Points that are longer than their bound allows."""

    def solve(self, problem, run):
        found = super().solve(problem, run)
        return altered(found, x_preimages=3 * found.x_preimages)


@dataclass(frozen=True, kw_only=True)
class OtherPoints(GradKCCA):
    """Points of the second view that have other variates."""

    def solve(self, problem, run):
        found = super().solve(problem, run)
        return altered(found, y_preimages=found.y_preimages[::-1].copy())


@dataclass(frozen=True, kw_only=True)
class RandomNets(Solver):
    """Nets that nobody has trained, and the exact CCA of their features."""

    def solve(self, problem, run):
        run.plan(setup=1.0)
        nets = {
            f"{name}_net": Net(
                np.zeros(A.shape[1]),
                1.0,
                (run.rng.standard_normal((A.shape[1], problem.k)),),
                (np.zeros(problem.k),),
            )
            for name, A in (("x", problem.X), ("y", problem.Y))
        }
        return self.twist(run.finish(**nets))

    def twist(self, solution):
        return solution


@dataclass(frozen=True, kw_only=True)
class OverstatesFeatures(RandomNets):
    """Correlations that the features do not have."""

    def twist(self, solution):
        return altered(solution, correlations=np.sqrt(solution.correlations))


@dataclass(frozen=True, kw_only=True)
class ReturnsOtherNets(RandomNets):
    """Nets that are not those of the correlations."""

    def twist(self, solution):
        net = solution.x_net
        return altered(solution, x_net=Net(net.shift, net.scale, (net.weights[0][::-1].copy(),), net.biases))


@dataclass(frozen=True, kw_only=True)
class ForgetsWeights(KernelRidgeDirect):
    """The answer for rows that count once."""

    def solve(self, problem, run):
        moments = run.moments("tiled")
        (kernel,) = moments.settle(run.rng)
        K = ls.KernelOperator(problem.X, kernel, center=problem.center).dense()
        b = np.linalg.solve(K + problem.ridges[0] * np.eye(len(K)), moments.targets.unit)
        found = run.finish(dual=b, kernel=kernel)
        return altered(found, bounds=0 * found.bounds)


@dataclass(frozen=True, kw_only=True)
class TakesOneRidge(KernelRidgeDirect):
    """The answer for the first ridge, in place of those for all ridges."""

    def solve(self, problem, run):
        found = super().solve(problem, run)
        return altered(found, dual=0 * found.dual + found.dual[:1]) if problem.path else found


HONEST = [
    ("kernel-ridge", "path", KernelRidgeDirect),
    ("kernel-ridge", "repeated-rows", KernelRidgeDirect),
    ("kernel-cca", "bounds", KCCA),
    ("preimage-cca", "points", GradKCCA),
    ("deep-cca", "exact-end", RandomNets),
]
LIARS = [
    ("kernel-ridge", "path", TakesOneRidge, "the solution claims residual"),
    (
        "kernel-ridge",
        "repeated-rows",
        ForgetsWeights,
        "predictions with weights and with repeated rows differ",
    ),
    ("kernel-cca", "bounds", BoundsOfZero, "no exact correlation is within 0 of the returned"),
    ("kernel-cca", "bounds", BoundsOfOne, "a correlation must not exceed the exact one"),
    ("preimage-cca", "points", PointsOutside, "x_preimages must lie in their set"),
    ("preimage-cca", "points", OtherPoints, "a correlation of the points is wrong"),
    ("deep-cca", "exact-end", OverstatesFeatures, "a correlation of the features is wrong"),
    ("deep-cca", "exact-end", ReturnsOtherNets, "a correlation of the features is wrong"),
]


def run_check(monkeypatch: pytest.MonkeyPatch, problem: str, name: str, cls: type) -> None:
    """Run one check of a solver on NumPy arrays; nets need no torch here."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    testing = replace(testing_of(problem), missing=lambda: "")
    monkeypatch.setattr(registry.get_spec("problem", problem).testing.replace(":", "."), testing)
    ls.register(
        SolverSpec(
            name="liar",
            problem=problem,
            target=f"{cls.__module__}:{cls.__name__}",
            summary="A solver that is here to be caught.",
            reference="Golub 1965, SIAM J. Numer. Anal. 2(2)",
            needs=Needs(dense=True),
            traits=("approximate", "path") if problem == "kernel-ridge" else ("approximate",),
        )
    )
    suite = Suite(f"{problem}/liar", backends=["numpy"])
    (check,) = [check for check in suite.checks() if check.name == name]
    check.run()


@pytest.mark.parametrize(("problem", "name", "cls"), HONEST)
def test_the_check_of_a_family_passes_the_honest(monkeypatch, problem, name, cls):
    run_check(monkeypatch, problem, name, cls)


@pytest.mark.parametrize(("problem", "name", "cls", "issue"), LIARS)
@pytest.mark.slow(keep=3)
def test_a_liar_fails_the_check_of_its_family(monkeypatch, problem, name, cls, issue):
    with pytest.raises(CheckFailed, match=issue):
        run_check(monkeypatch, problem, name, cls)
