"""The conformance tests of least-squares solvers: planted cases, an oracle, paths of ridges, and `prepare`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from linspec.errors import MissingCapability
from linspec.families.least_squares.planted import (
    LeastSquaresOracle,
    least_squares_cases,
    planted_least_squares,
)
from linspec.families.least_squares.preparing import PREPARE_CHECKS
from linspec.testing.behaviour import host_data
from linspec.testing.family import ProblemTesting
from linspec.testing.oracle import (
    Reading,
    as_host,
)
from linspec.testing.problems import (
    Case,
)
from linspec.testing.solving import Subject, attempt

RIDGES = (2.0, 0.5, 30.0)
"""The ridges of a path."""


def check_path(subject: Subject) -> Iterator[str]:
    """With the trait 'path' each of several ridges has its solution; without it several ridges raise an error."""
    for case in least_squares_cases():
        if case.main.dtype != np.float64 or not subject.must_converge(case) or case.dense_offset:
            continue
        if case.parameters.get("ridge"):
            continue  # gentle only with its ridge
        several = replace(case, parameters={"ridge": list(RIDGES)})
        result = attempt(several.state(host_data(case)), subject.for_case(case), rng=0)
        if not subject.trait("path"):
            if not isinstance(result.error, MissingCapability):
                yield (
                    f"{case.name}: a solver without the trait 'path' must refuse several ridges with "
                    f"MissingCapability; got {result.error!r}"
                )
        elif result.error is not None:
            yield f"{case.name}: {result.raised}"
        else:
            yield from (f"{case.name}: {issue}" for issue in _path_issues(case, result.solution))


def _path_issues(case: Case, solution: Any) -> Iterator[str]:
    x, residuals = as_host(solution.x), solution.residuals
    expected = (len(RIDGES), case.main.shape[1], *case.arrays["B"].shape[1:])
    if x.shape != expected or residuals.shape != (len(RIDGES),):
        yield (
            f"x must have shape {expected}, and residuals one entry for each ridge; got {x.shape} and "
            f"{residuals.shape}"
        )
        return
    if solution.residual != residuals.max():
        yield f"residual must be the largest of residuals, {residuals}; got {solution.residual:.3g}"
    for ridge, own, residual in zip(RIDGES, x, residuals, strict=True):
        oracle = LeastSquaresOracle(replace(case, parameters={"ridge": ridge}, truth={}), Reading())
        one = SimpleNamespace(x=own)
        if oracle.law(one).contradicts(float(residual)):
            yield (
                f"ridge {ridge:g}: the solution claims residual {residual:.3g}; x has "
                f"{oracle.law(one).residual:.3g}"
            )
        if not residual <= max(1e-8, oracle.attainable):
            yield f"ridge {ridge:g}: the solver must reach the tolerance; got residual {residual:.3g}"
        yield from (f"ridge {ridge:g}: {issue}" for issue in oracle.errors(one))


def _shapes(case: Case, _: Any) -> dict[str, tuple[int, ...]]:
    return {"x": (case.main.shape[1], *case.arrays["B"].shape[1:])}


def _moved(case: Case, factor: float, _: int) -> Case:
    """The case with B multiplied by c: x(cB) = c x(B)."""
    return replace(case, arrays={**case.arrays, "B": case.arrays["B"] * factor}, truth={})


def _start_case() -> Case:
    """A case for which conjugate gradients need about ten iterations."""
    return planted_least_squares(120, 40, np.geomspace(1.0, 0.1, 40), name="many-columns")


TESTING = ProblemTesting(
    cases=lambda: tuple(least_squares_cases()),
    oracle=LeastSquaresOracle,
    shapes=_shapes,
    moved=_moved,
    companions=frozenset({"B"}),
    start_case=_start_case,
    behaviour_checks={"path": check_path, **PREPARE_CHECKS},
)
"""The conformance tests of least-squares solvers."""
