"""Record what a commit answers and takes, or compare two records.

    python tests/record --commit COMMIT --out FOLDER [--parts answers ...] [--from OLD] [--python-of-this-environment]
    python tests/record --compare OLD NEW

COMMIT may be a folder with a checkout. A record has ``PART.json`` and a folder PART for each part. With --from, answers
that the older record has saved are loaded by this commit, too. With --only TEXT, what has no TEXT in its name is left
out, if the part allows it; --quick leaves out hard cases and large files. A comparison ends with 1 if a rule is broken.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from pathlib import Path

if __package__ in {None, ""}:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

PARTS = {
    "answers": "record.answers",
    "costs": "record.costs",
    "saved": "record.saved",
    "texts": "record.texts",
    "commands": "record.commands",
}


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", help="what is recorded: a commit, or a folder with a checkout")
    parser.add_argument("--out", type=Path, help="the folder of the record")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--from", dest="earlier", type=Path, help="a record whose saved answers are loaded")
    parser.add_argument("--only", default="", help="what has this text in its name")
    parser.add_argument("--quick", action="store_true", help="record the ordinary cases alone")
    parser.add_argument("--python-of-this-environment", action="store_true", help="make no environment")
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
    from record.run import run

    settings = {"RECORD_ONLY": asked.only, "RECORD_QUICK": "1" if asked.quick else ""}
    return run(
        asked.commit,
        asked.out.resolve(),
        asked.parts,
        asked.earlier,
        asked.python_of_this_environment,
        settings,
    )


def record(part: str, out: Path) -> int:
    """Write one part; the process has the environment of the commit."""
    import linspec

    warnings.simplefilter("ignore")
    (out / part).mkdir(parents=True, exist_ok=True)
    entries = dict(importlib.import_module(PARTS[part]).record(out / part))
    (out / f"{part}.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")
    sys.stdout.write(f"{part}: {len(entries)} entries of {Path(linspec.__file__).parent}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
