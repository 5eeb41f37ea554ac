"""Where warnings point to: the line of whoever uses linspec, however deep in it and in plugins they arise."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import linspec as ls
from linspec import registry
from linspec.errors import AccuracyWarning, ConvergenceWarning, PluginWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 8))
Y = RNG.standard_normal((60, 5)) + X[:, :5]
TIGHT = {"tol": 1e-14, "max_iterations": 1, "rng": 0}


CASES = {
    "a run": (lambda: ls.solve(ls.CCA(X, Y, 2), "als", **TIGHT), ConvergenceWarning),
    "a run in rounds": (
        lambda: ls.solve(ls.CCA(X, Y, 2), "lobpcg", oversample=0, form="implicit", **TIGHT),
        ConvergenceWarning,
    ),
    "runs within runs": (
        lambda: ls.ridge_path(ls.CCA(X, Y, 2), [1e-3, 1e-2], solver="als", **TIGHT),
        ConvergenceWarning,
    ),
    "a plugin": (lambda: ls.solve(ls.CCA(X + 9, Y, 2), "d-cca", rng=0), AccuracyWarning),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_warning_points_to_the_line_that_called(name):
    call, category = CASES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    ours = [warning for warning in caught if issubclass(warning.category, category)]
    assert ours
    first = call.__code__.co_firstlineno
    lines = {line for _, _, line in call.__code__.co_lines() if line is not None}
    for warning in ours:
        assert warning.filename == __file__
        assert warning.lineno in {first, *lines}


def test_a_plugin_that_asks_itself_is_passed_over_whatever_it_is_called(tmp_path):
    """Its solver hands its problem to another one; a fresh interpreter, as a user would have it."""
    (tmp_path / "acme.py").write_text(
        "import dataclasses, linspec as ls\n"
        "from linspec.errors import AccuracyWarning, warn\n"
        "from linspec.iteration import Iterate\n"
        "from linspec.solving import Solver\n"
        "@dataclasses.dataclass(frozen=True, kw_only=True)\n"
        "class Acme(Solver):\n"
        "    def iterate(self, problem, moments, context, start):\n"
        "        warn('acme', AccuracyWarning)\n"
        "        inner = ls.solve(ls.CCA(problem.X, problem.Y, 2), 'lobpcg',"
        " form='implicit', oversample=0, tol=1e-14, max_iterations=1, rng=0)\n"
        "        arrays = {'x_weights': inner.x_weights, 'y_weights': inner.y_weights}\n"
        "        yield Iterate(0.0, lambda: arrays, final=True)\n"
    )
    (tmp_path / "user.py").write_text(
        "import numpy, linspec as ls\n"
        "ls.register(ls.SolverSpec(name='acme', problem='cca', target='acme:Acme', summary='S.', reference='R 1999'))\n"
        "X = numpy.random.default_rng(0).standard_normal((2, 50, 6))\n"
        "ls.solve(ls.CCA(*X, 2), 'acme')\n"
        "ls.solve(ls.CCA(*X, 2), 'acme')\n"
    )
    done = subprocess.run(
        [sys.executable, "user.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = [line for line in done.stderr.splitlines() if "Warning: " in line]
    assert {line.split("user.py")[1].split(": ")[1] for line in said} == {
        "AccuracyWarning",
        "ConvergenceWarning",
    }
    assert {line.split(":")[1] for line in said} == {
        "4",
        "5",
    }  # one for each line and kind, and no other file


def test_a_plugin_named_twice_is_said_where_it_was_registered(monkeypatch):
    record = ls.SolverSpec(name="direct", problem="svd", target="a:B", summary="S.", reference="R 1999")
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ls.register(record)
        ls.solvers()
    assert {(warning.category, warning.filename) for warning in caught} == {(PluginWarning, __file__)}
