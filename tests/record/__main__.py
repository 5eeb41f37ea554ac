"""Record what a commit answers and takes, or compare two records.

    python tests/record --commit COMMIT --out FOLDER [--parts answers ...] [--from OLD]
    python tests/record --compare OLD NEW

COMMIT may be a folder with a checkout; this Python runs it. A record has ``PART.json`` and a folder PART for each
part; the code that records is that of this checkout. A comparison ends with 1 if a rule is broken.
"""

from __future__ import annotations

import argparse
import importlib
import json
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

PARTS = ("answers", "saved", "texts", "commands")
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", help="what is recorded: a commit, or a folder with a checkout")
    parser.add_argument("--out", type=Path, help="the folder of the record")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--from", dest="earlier", type=Path, help="a record whose saved answers are loaded")
    parser.add_argument("--only", default="", help="what has this text in its name")
    parser.add_argument("--quick", action="store_true", help="record the ordinary cases alone")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"))
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.compare:
        from record.compare import report

        return report(*asked.compare, asked.only)
    if asked.out is None or (asked.commit is None) == (asked.part is None):
        parser.error("name a commit with --commit and a folder with --out, or two records with --compare")
    if asked.part:
        return record(asked.part, asked.out)
    with tempfile.TemporaryDirectory() as scratch:
        return run(asked, asked.out.resolve(), Path(scratch))


def record(part: str, out: Path) -> int:
    """Write one part; the process has the environment of the commit."""
    import linspec

    warnings.simplefilter("ignore")
    (out / part).mkdir(parents=True, exist_ok=True)
    entries = dict(importlib.import_module(f"record.{part}").record(out / part))
    (out / f"{part}.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")
    sys.stdout.write(f"{part}: {len(entries)} entries of {Path(linspec.__file__).parent}\n")
    return 0


def run(asked: Any, out: Path, scratch: Path) -> int:
    """Record the parts of a commit, each in a process; return 1 if a part ended with an error."""
    out.mkdir(parents=True, exist_ok=True)
    checkout, code = Path(asked.commit).resolve(), scratch / "code"
    if not checkout.is_dir():
        checkout = scratch / "checkout"
        checkout.mkdir()
        archive = subprocess.run(
            ["git", "archive", asked.commit], cwd=HERE.parents[1], stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", checkout], input=archive.stdout, check=True)
    shutil.copytree(HERE, code / "record", ignore=shutil.ignore_patterns("__pycache__", "test_*"))
    for module in ("planted.py", "truths.py"):
        shutil.copy(HERE.parent / module, code)
    sys.path.append(str(HERE.parents[1] / "docs" / "evidence"))
    from timing import environment_of

    (scratch / "declared").mkdir()
    environment = environment_of(checkout, scratch / "declared")
    environment |= dict.fromkeys(THREADS, "1") | {
        "PYTHONPATH": os.pathsep.join([environment["PYTHONPATH"], str(code)]),
        "PYTHONSAFEPATH": "1", "MPLBACKEND": "Agg",
        "RECORD_ONLY": asked.only, "RECORD_QUICK": "1" if asked.quick else "",
    }  # fmt: skip
    status = 0
    for part in asked.parts:
        shutil.rmtree(out / part, ignore_errors=True)
        (out / f"{part}.json").unlink(missing_ok=True)
        if part == "saved" and asked.earlier is not None:
            shutil.copytree(asked.earlier / "saved", out / "saved" / "earlier")
        command = [sys.executable, "-m", "record", "--part", part, "--out", str(out)]
        status |= subprocess.run(command, cwd=checkout, env=environment, check=False).returncode != 0
    return status


if __name__ == "__main__":
    sys.exit(main())
