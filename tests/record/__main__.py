"""Record what a commit answers and takes, or compare two records.

    python tests/record --commit COMMIT --out FOLDER [--quick] [--only TEXT] [--python-of-this-environment]
    python tests/record --compare OLD NEW

COMMIT may be a folder with a checkout; the code that records is that of this checkout. A record is ``answers.json``.
With --only TEXT, what has no TEXT in its name is left out; --quick draws fewer cases. A comparison ends with 1 if a
rule is broken.

What else a commit does is held elsewhere: saved files by `tests/fixtures`, names and commands by
`tests/project/public_surface.txt`, transfers by `tests/doubles/budgets.json`, memory and time by `asv_bench`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if __package__ in {None, ""}:
    sys.path[0] = str(HERE.parent)

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", help="what is recorded: a commit, or a folder with a checkout")
    parser.add_argument("--out", type=Path, help="the folder of the record")
    parser.add_argument("--parts", nargs="+", choices=["answers"], help="what is recorded; there is one part")
    parser.add_argument("--only", default="", help="what has this text in its name")
    parser.add_argument("--quick", action="store_true", help="draw fewer cases")
    parser.add_argument("--python-of-this-environment", action="store_true", help="make no environment")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"))
    asked = parser.parse_args()
    if asked.compare:
        from record.compare import report

        return report(*asked.compare, asked.only)
    if asked.out is None:
        parser.error("name a commit with --commit and a folder with --out, or two records with --compare")
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.commit is None:  # this process has the environment of the commit
        from record.answers import record

        warnings.simplefilter("ignore")
        sys.stdout.write(record(asked.out, asked.only, asked.quick))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        return run(asked, Path(scratch))


def run(asked: Any, scratch: Path) -> int:
    """Record a commit in a process of its own."""
    checkout, code = Path(asked.commit).resolve(), scratch / "code"
    if not checkout.is_dir():
        checkout = scratch / "checkout"
        checkout.mkdir()
        archive = ["git", "archive", asked.commit]
        packed = subprocess.run(archive, cwd=HERE.parents[1], stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", checkout], input=packed.stdout, check=True)
    shutil.copytree(HERE, code / "record", ignore=shutil.ignore_patterns("__pycache__", "test_*"))
    for module in ("backends.py", "fuzz.py", "judging.py", "planted.py", "truths.py"):
        shutil.copy(HERE.parent / module, code)
    python, environment = (_shared if asked.python_of_this_environment else _made)(checkout, scratch)
    path = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), str(code)]))
    environment |= dict.fromkeys(THREADS, "1") | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    command = [python, "-m", "record", "--out", str(asked.out.resolve()), "--only", asked.only]
    command += ["--quick"] if asked.quick else []
    return subprocess.run(command, cwd=checkout, env=environment, check=False).returncode


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


if __name__ == "__main__":
    sys.exit(main())
