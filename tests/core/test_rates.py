"""The rates from which costs are estimated: shipped, or measured by `linspec calibrate` and kept for one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from linspec import rates
from linspec.cli import main
from linspec.errors import InvalidOption

MEASURED = rates.KernelRates(dense=1e10, factor=2e9, cholesky=3e9, sparse=4e8, pairs=5e7, date="2026-01-31")

CHOICE = "import linspec as ls, numpy as np; print(ls.select(ls.SVD(np.ones((9, 3)), 1)).reason)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LINSPEC_RATES", raising=False)
    rates.in_force.cache_clear()
    yield tmp_path
    rates.in_force.cache_clear()


def test_what_is_written_is_in_force_until_it_is_removed(folder):
    assert rates.in_force() == rates.SHIPPED
    rates.in_force.cache_clear()
    assert rates.write(MEASURED) == folder / "linspec" / "rates.json"
    assert rates.in_force() == MEASURED
    rates.in_force.cache_clear()
    assert rates.remove()
    assert not rates.remove()
    assert rates.in_force() == rates.SHIPPED


@pytest.mark.parametrize(
    "change",
    [
        lambda found: {**found, "machine": "another"},  # a home folder that machines share
        lambda found: {**found, "date": None},
        lambda found: {**found, "rates": {**found["rates"], "dense": -1}},
        lambda found: {**found, "rates": {**found["rates"], "dense": "fast"}},
        lambda found: {**found, "rates": {"dense": 1e10}},
        lambda found: [],
    ],
)
def test_a_file_that_makes_no_sense_here_does_not_count(folder, change):
    path = rates.write(MEASURED)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert rates.read() is None


def test_a_broken_file_does_not_count(folder):
    rates.write(MEASURED).write_bytes(b"\xff{")
    assert rates.read() is None


def test_the_variable_puts_the_shipped_rates_in_force(folder, monkeypatch):
    rates.write(MEASURED)
    monkeypatch.setenv("LINSPEC_RATES", "shipped")
    assert rates.in_force() == rates.SHIPPED
    rates.in_force.cache_clear()
    monkeypatch.setenv("LINSPEC_RATES", "fast")
    with pytest.raises(InvalidOption, match="must be shipped or calibrated; got 'fast'"):
        rates.in_force()


def test_a_relative_cache_folder_is_ignored(folder, monkeypatch):
    """As the XDG Base Directory Specification asks."""
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(folder))
    assert rates.file() == folder / ".cache" / "linspec" / "rates.json"


def test_later_processes_take_what_calibrate_measured_and_say_so(folder):
    """Through the command and processes of their own."""
    environment = dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-m", "linspec", "calibrate"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = rates.read()
    assert found is not None
    assert str(rates.file()) in done.stdout
    said = subprocess.run(
        [sys.executable, "-c", CHOICE], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip().endswith(f"Rates: measured by `linspec calibrate` on {found.date}.")
    rates.write(replace(found, date="2020-02-02"))
    said = subprocess.run(
        [sys.executable, "-c", CHOICE],
        env={**environment, "LINSPEC_RATES": "shipped"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip().endswith("Rates: shipped.")


def test_calibrate_shows_and_removes(folder):
    rates.write(MEASURED)
    shown = CliRunner().invoke(main, ["calibrate", "--show"])
    assert shown.exit_code == 0
    assert "2026-01-31" in shown.output
    removed = CliRunner().invoke(main, ["calibrate", "--remove"])
    assert removed.output.strip() == f"Removed {rates.file()}."
    assert not rates.file().exists()
    assert CliRunner().invoke(main, ["calibrate", "--show", "--remove"]).exit_code == 2
