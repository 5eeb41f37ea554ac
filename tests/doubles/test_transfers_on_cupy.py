"""Transfers between host and device stay small: counted on the double of CuPy, solver by solver."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from backends import BACKENDS

if reason := next(backend.missing() for backend in BACKENDS if backend.name == "cupy"):
    pytest.skip(f"{reason}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy

if "double" not in cupy.__version__:
    pytest.skip("nothing counts on a GPU", allow_module_level=True)

from doubles import transfers

import linspec as ls
from linspec.arrays import to_host

RNG = np.random.default_rng(0)


def test_no_iteration_carries_more_than_its_budget_or_waits_unannounced():
    found, waits = transfers.measured()
    assert found.keys() == transfers.budgets().keys()
    assert transfers.risen(found) == []
    assert waits == {}


def test_steps_of_cg_are_those_of_the_host():
    """Also where right-hand sides depend on each other, and where they converge one by one.

    After a few steps the iterates differ by rounding. Answers that have converged have residuals of the tolerance at
    most, and each is off by the residual over the least eigenvalue of AᵀA + r I at most.
    """
    A = RNG.standard_normal((300, 40)) * np.geomspace(1, 0.1, 40)
    ridge, tol = 0.3, 1e-10
    least = np.linalg.svd(A, compute_uv=False)[-1] ** 2 + ridge
    dependent = RNG.standard_normal((300, 2)) @ RNG.standard_normal((2, 4))
    few = A[:, :1] * [1.0, -2.0]
    for B in (RNG.standard_normal((300, 3)), dependent, few):
        for steps in (1, 4, 9, 60):
            answers = []
            for asarray in (np.asarray, cupy.asarray):
                problem = ls.LeastSquares(asarray(A), asarray(B), ridge=ridge)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    answers.append(ls.solve(problem, "cg", max_iterations=steps, tol=tol))
            here, there = answers
            assert abs(here.iterations - there.iterations) <= (steps == 60)
            assert here.status is there.status
            limit = 1e-9 * np.linalg.norm(here.x, axis=0)
            if here.status is ls.Status.CONVERGED:
                limit = 2 * tol * np.linalg.norm(A.T @ B, axis=0) / least
            assert np.all(np.linalg.norm(to_host(there.x) - here.x, axis=0) <= limit), steps
