"""Where warnings point to, however deep in linspec and in plugins they arise; and what the log has at DEBUG."""

from __future__ import annotations

import logging
import os
import warnings

import forked
import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import registry
from linspec.errors import AccuracyWarning, ConvergenceWarning, PluginWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 8))
Y = RNG.standard_normal((60, 5)) + X[:, :5]
TIGHT = {"tol": 1e-14, "max_iterations": 1, "rng": 0}
PATH = [1e-3, 1e-2]
CASES = {
    "a run": (lambda: ls.solve(ls.CCA(X, Y, 2), "als", **TIGHT), ConvergenceWarning),
    "runs within runs": (lambda: ls.ridge_path(ls.CCA(X, Y, 2), PATH, solver="als", **TIGHT), ConvergenceWarning),
    "a plugin": (lambda: ls.solve(ls.CCA(X + 9, Y, 2), "d-cca", rng=0), AccuracyWarning),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_warning_points_to_the_line_that_called(name):
    call, category = CASES[name]
    with pytest.warns(category) as caught:
        call()
    places = {(one.filename, one.lineno) for one in caught if issubclass(one.category, category)}
    assert places == {(__file__, call.__code__.co_firstlineno)}


ACME = """
import dataclasses, linspec as ls
from linspec.errors import AccuracyWarning, warn
from linspec.iteration import Iterate
from linspec.solving import Solver
@dataclasses.dataclass(frozen=True, kw_only=True)
class Acme(Solver):
    def iterate(self, problem, moments, context, start):
        warn('acme', AccuracyWarning)
        few = dict(form='implicit', oversample=0, tol=1e-14, max_iterations=1, rng=0)
        inner = ls.solve(ls.CCA(problem.X, problem.Y, 2), 'lobpcg', **few)
        arrays = {'x_weights': inner.x_weights, 'y_weights': inner.y_weights}
        yield Iterate(0.0, lambda: arrays, final=True)
"""
USER = """import numpy, linspec as ls
ls.register(ls.SolverSpec(name='acme', problem='cca', target='acme:Acme', summary='S.', reference='R 1999'))
X = numpy.random.default_rng(0).standard_normal((2, 50, 6))
ls.solve(ls.CCA(*X, 2), 'acme')
ls.solve(ls.CCA(*X, 2), 'acme')
"""


def test_a_plugin_that_asks_itself_is_passed_over_whatever_it_is_called(tmp_path):
    """Its solver hands its problem to another one: a warning for each line of the user, and for no other file."""
    (tmp_path / "acme.py").write_text(ACME)
    (tmp_path / "user.py").write_text(USER)
    done = forked.run([str(tmp_path / "user.py")], tmp_path, dict(os.environ))
    said = [line.partition("user.py:")[2] for line in done.stderr.splitlines() if "Warning: " in line]
    kinds = {tuple(line.split(": ")[:2]) for line in said}
    assert kinds == {(line, f"{kind}Warning") for line in "45" for kind in ("Accuracy", "Convergence")}


def test_a_plugin_named_twice_is_said_where_it_was_registered(monkeypatch):
    record = ls.SolverSpec(name="direct", problem="svd", target="a:B", summary="S.", reference="R 1999")
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ls.register(record)
        ls.solvers()
    assert {(warning.category, warning.filename) for warning in caught} == {(PluginWarning, __file__)}


# ---- the log ------------------------------------------------------------------------------------


def test_the_choice_and_its_figures_are_told(caplog):
    caplog.set_level(logging.DEBUG, "linspec")
    problem = ls.CCA(X, Y, 2)
    solution = ls.solve(problem)
    assert {record.name for record in caplog.records} == {"linspec"}
    messages = [record.getMessage() for record in caplog.records]
    assert f"auto: {ls.select(problem).reason}" in messages
    assert any(f"ends as {solution.status.name}" in text and solution.message in text for text in messages)


@pytest.mark.parametrize("data", [X, scipy.sparse.csr_array(X), lambda: iter([X[:30], X[30:]])])
def test_every_pass_is_told_with_its_columns_and_seconds(data, caplog):
    caplog.set_level(logging.DEBUG, "linspec")
    moments = ls.Moments(data, form="implicit")
    for columns in (3, 7):
        moments.products(np.ones((8, columns)))
    passes = [
        text for text in map(logging.LogRecord.getMessage, caplog.records) if text.startswith("pass over X")
    ]
    assert [text.split(":")[0] for text in passes] == [f"pass over X with {k} columns" for k in (3, 7)]
    assert all(text.endswith(" s") for text in passes)


def test_nothing_is_told_and_nothing_made_for_it_by_default(monkeypatch, capfd):
    def made(self):
        raise AssertionError("a text was made that nobody reads")

    monkeypatch.setattr(logging.getLogger("linspec"), "level", logging.INFO)
    monkeypatch.setattr(ls.CCA, "__repr__", made)
    ls.solve(ls.CCA(X, Y, 2))
    assert capfd.readouterr() == ("", "")
