"""Every example of the gallery runs, and the assertions in it hold.

Slow: the examples together take about as long as all tests of a plugin. CI runs them anyway, when the site is built
(`nox -s docs`), where an example that fails is an error; here they run without Sphinx.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.rglob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs_and_its_claim_holds(script: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    before = sorted(GALLERY.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(script)],
        cwd=script.parent,  # as Sphinx-Gallery does; those of papers read recorded numbers from there
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(GALLERY.rglob("*")) == before, "an example leaves no files"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_has_a_title_a_picture_and_an_assertion(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    title, line = text.splitlines()[1:3]
    assert set(line) == {"="}
    assert len(line) >= len(title)
    assert re.search(r"^ *assert ", text, re.MULTILINE)
    assert "plt.subplots" in text
