"""The runner: a checkout of the commit, an environment of its own, and a process for each part.

The recording code is that of this checkout, whatever the commit: what was forgotten can be recorded later.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run(
    commit: str, out: Path, parts: list[str], earlier: Path | None, shared: bool, settings: dict[str, str]
) -> int:
    """Record the parts of a commit; return 1 if a part ended with an error."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        checkout = (
            Path(commit).resolve() if Path(commit).is_dir() else _checkout(commit, scratch / "checkout")
        )
        code = scratch / "code"
        shutil.copytree(HERE, code / "record", ignore=shutil.ignore_patterns("__pycache__", "test_*"))
        for module in ("planted.py", "truths.py"):
            shutil.copy(HERE.parent / module, code)
        python, environment = (_shared if shared else _made)(checkout, scratch)
        path = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), str(code)]))
        once = dict.fromkeys(THREADS, "1") | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "MPLBACKEND": "Agg"}
        status = 0
        for part in parts:
            shutil.rmtree(out / part, ignore_errors=True)
            (out / f"{part}.json").unlink(missing_ok=True)
            if part == "saved" and earlier is not None:
                shutil.copytree(earlier / "saved", out / "saved" / "earlier")
            command = [python, "-m", "record", "--part", part, "--out", str(out)]
            ended = subprocess.run(command, cwd=checkout, env=environment | once | settings, check=False)
            status |= ended.returncode != 0
    return status


def _checkout(commit: str, folder: Path) -> Path:
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit], cwd=HERE.parents[1], stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def _made(checkout: Path, scratch: Path) -> tuple[str, dict[str, str]]:
    """A virtual environment with the commit and all that its developers have."""
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
    python = str(scratch / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"{checkout}[dev]"], check=True)
    return python, {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _shared(checkout: Path, scratch: Path) -> tuple[str, dict[str, str]]:
    """This Python, with the checkout and its plugins in front of what is installed."""
    sys.path.append(str(HERE.parents[1] / "docs" / "evidence"))
    from timing import environment_of

    (scratch / "declared").mkdir()
    return sys.executable, environment_of(checkout, scratch / "declared")
