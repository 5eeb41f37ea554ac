"""The kit and plugins that are broken on purpose: a report must fail, and name the fault in words that help."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from click.testing import CliRunner

from linspec import registry
from linspec.cli import main
from linspec.testing import run_checks
from tests.testing.breakages import BREAKAGES, PACKAGES, Breakage, Package


def numbered(broken: Breakage | Package) -> str:
    """The id of a test: the number and the sentence."""
    return f"{broken.number}: {broken.sentence}"


@pytest.mark.parametrize("broken", BREAKAGES, ids=numbered)
def test_the_report_names_the_fault(monkeypatch, broken):
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    with np.errstate():
        report = run_checks(broken.register(), backends=broken.backends, time_limit=broken.time_limit)
    assert not report.ok
    messages = dict(report.failed)
    assert broken.check in messages, report
    assert re.search(broken.says, messages[broken.check], re.DOTALL), messages[broken.check]


@pytest.mark.parametrize("broken", PACKAGES, ids=numbered)
def test_the_command_names_the_fault_of_a_package(tmp_path, monkeypatch, broken):
    broken.write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("linspec.testing.declarations.TRIES", 1)  # none is faster the second time
    own = registry.Registry()  # reads what is installed, and so the package
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    state = np.random.get_state()  # noqa: NPY002 (a package may seed the global generator)
    with np.errstate():
        limit = f"--time-limit={broken.time_limit}"
        result = CliRunner().invoke(main, ["check", "svd/packaged", "--backend", "numpy", limit])
    np.random.set_state(state)  # noqa: NPY002
    assert result.exit_code != 0
    assert result.output.count("FAILED") <= 1, result.output  # the rest is that of a solver of linspec
    assert re.search(broken.says, result.output, re.DOTALL), result.output


def test_each_breakage_has_a_number():
    numbers = sorted(broken.number for broken in (*BREAKAGES, *PACKAGES))
    assert numbers == list(range(1, len(numbers) + 1))
