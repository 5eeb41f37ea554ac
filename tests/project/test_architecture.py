"""The page on how linspec is built is what its script prints; numbers may have moved by a little since."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "extend" / "architecture.md"
SCRIPT = Path(__file__).parents[2] / "docs" / "site" / "draw_architecture.py"


def test_the_page_has_the_layers_and_the_frames_of_today() -> None:
    printed = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    today, page = (re.sub(r"\d+", "", text) for text in (printed, PAGE.read_text("utf-8")))
    assert today.strip() in page, f"run `python {SCRIPT.relative_to(PAGE.parents[2])} --write`"
