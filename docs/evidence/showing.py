"""How the experiments show what they found: claims with a verdict, tables, figures."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime as dt
import json
import math
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Claim:
    """A sentence of a source, whether it held here (None: a solver it speaks of is missing), and the figures."""

    text: str
    held: bool | None
    figures: str

    def __str__(self) -> str:
        verdict = "SKIPPED" if self.held is None else "HELD" if self.held else "FAILED"
        return f"{self.text}: {verdict} ({self.figures})"

    def about(self, part: str) -> Claim:
        """The same claim, with the part of the experiment that it is about."""
        return dataclasses.replace(self, text=f"{part}: {self.text}")


def versions(*others: str) -> str:
    """What the figures were found with."""
    named = ", ".join(f"{name} {version(name)}" for name in ("linspec", "numpy", "scipy", *others))
    return f"{named}, Python {platform.python_version()}"


def write_table(path: Path, rows: Sequence[Any]) -> None:
    """Records of one dataclass as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [entry.name for entry in dataclasses.fields(rows[0])])
        writer.writeheader()
        writer.writerows(dataclasses.asdict(row) for row in rows)


def as_curves(rows: Iterable[Any], by: Sequence[str], of: Sequence[str]) -> list[dict[str, Any]]:
    """Records with equal fields `by` as one, which has lists of their fields `of`: shorter to record."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in by)
        curve = found.setdefault(key, {**dict(zip(by, key, strict=True)), **{name: [] for name in of}})
        for name in of:
            curve[name].append(getattr(row, name))
    return list(found.values())


def _in_json(value: Any) -> Any:
    """A value as JSON has it: nan, which is no number there, becomes null; eight digits tell all that is drawn."""
    if isinstance(value, Mapping):
        return {name: _in_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(part) for part in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.8g}")
    return value


def _fields(row: Any) -> Mapping[str, Any]:
    """The fields of a record."""
    return row if isinstance(row, Mapping) else dataclasses.asdict(row)


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Arguments of a command that can keep its numbers; those of generated data are not kept."""
    parser.add_argument(
        "--record", action="store_true", help="keep the numbers, where the site draws them from"
    )
    given = parser.parse_args()
    if given.record and given.quick:
        parser.error(
            "--record would overwrite the numbers of the whole experiment with those of --quick; leave one of them out"
        )
    return given


def record(name: str, tables: dict[str, Sequence[Any]], claims: Sequence[Claim], *others: str) -> Path:
    """Records (dataclasses or `as_curves`), with claims, date, command and versions, for the pictures of the site."""
    path = Path(__file__).parent / "recorded" / f"{name}.json"
    found = {
        "command": " ".join(["python", f"docs/evidence/{name}.py", *sys.argv[1:]]),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "versions": versions(*others),
        "claims": [str(claim) for claim in claims],
        **{table: [_in_json(_fields(row)) for row in rows] for table, rows in tables.items()},
    }
    path.parent.mkdir(exist_ok=True)
    text = (
        json.dumps(found, ensure_ascii=False)
        .replace("}, {", "},\n  {")
        .replace(": [{", ": [\n  {")
        .replace('"], "', '"],\n"')
    )
    path.write_text(text.replace("}], ", "}],\n") + "\n", encoding="utf-8")
    return path


def panels(rows: int, columns: int, **options: Any) -> tuple[Any, Any]:
    """A figure that needs no display, and its panels, always as a two-dimensional array."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * columns, 4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)
