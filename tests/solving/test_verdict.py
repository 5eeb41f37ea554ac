"""How a run ends: the order of what decides on its status, and when an iteration is sent back."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec import Status
from linspec.iteration import Certificate
from linspec.solving.verdict import verdict

PROBLEM = ls.SVD(np.eye(3), 1)


def ended(residual=1e-12, findings=(), lost=False, **how):
    told = {"tol": 1e-8, "once": False, "ending": Status.CONVERGED, "notes": ()} | how
    return verdict(PROBLEM, Certificate(residual, findings, {"Vh": np.ones((1, 3))}, lost=lost), **told)


@pytest.mark.parametrize(
    ("how", "status", "converged"),
    [
        ({}, Status.CONVERGED, True),
        ({"ending": None}, Status.CONVERGED, True),
        ({"ending": Status.BUDGET}, Status.CONVERGED, True),  # it came in time after all
        ({"residual": 1e-3}, Status.INACCURATE, False),
        ({"residual": 1e-3, "ending": Status.BUDGET}, Status.BUDGET, False),
        ({"residual": 1e-3, "notes": [(Status.APPROXIMATE, "a")]}, Status.APPROXIMATE, False),
        (
            {"residual": 1e-3, "notes": [(Status.APPROXIMATE, "a")], "ending": Status.BUDGET},
            Status.BUDGET,
            False,
        ),
        ({"notes": [(Status.APPROXIMATE, "a")]}, Status.CONVERGED, True),
        ({"notes": [(None, "a")]}, Status.CONVERGED, True),
        ({"findings": ((Status.CLUSTERED, "a"),)}, Status.CLUSTERED, True),
        ({"findings": ((Status.CLUSTERED, "a"), (Status.INCOMPLETE, "b"))}, Status.INCOMPLETE, True),
        ({"lost": True}, Status.INACCURATE, False),
        ({"findings": ((Status.INCONSISTENT, "a"),), "lost": True}, Status.INCONSISTENT, False),
        (
            {"findings": ((Status.INCONSISTENT, "a"),), "lost": True, "ending": Status.INTERRUPTED},
            Status.INTERRUPTED,
            False,
        ),
        ({"ending": Status.INTERRUPTED}, Status.INTERRUPTED, True),
        ({"ending": Status.BUDGET, "notes": [(None, "a")]}, Status.BUDGET, True),
    ],
)
def test_what_decides_on_the_status(how, status, converged):
    assert ended(**how)[:2] == (status, converged)


def test_a_message_gives_the_advice_once():
    assert ended()[2] == f"{Status.CONVERGED.value} (residual 1e-12, tolerance 1e-08)"
    found = ended(findings=((Status.CLUSTERED, "Some are close."),))
    assert found[2] == "Some are close. (residual 1e-12, tolerance 1e-08)"
    left_out = ended(notes=[(Status.APPROXIMATE, "Take more columns.")])
    assert "Take more columns" not in left_out[2]
    assert "the data can be read once" in ended(np.nan, once=True)[2]
    assert "nan" in ended(np.nan)[2]
