"""How every script here says what it found: tables, claims with a verdict, and the record of all that.

A script makes a `Report` of its options, prints through it, and ends with its exit status. What is measured are rows:
figures by name, printed one a line as they come. Claims are judged from rows alone, so that those of a record are
judged again in no time: with `--recorded` nothing is measured, and rows are read from `recorded/NAME.json`. With
`--record` the rows, the verdicts, the command, the day and the versions are written there; pages and gallery are drawn
from these files.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import math
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
# The least number above zero: a bound for what is to be more than zero.
POSITIVE = math.ulp(0.0)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every script has."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form)
    parser.add_argument("--data", default=os.environ.get("LINSPEC_DATA"), help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="small generated data of the same kind: seconds")
    return parser


Row = dict[str, Any]
# Rows as they are measured, without the names.
Measured = Iterator[tuple[Any, ...]]


class Rows(list[Row]):
    """What was measured, or recorded: figures by name, the same names in each row."""

    def where(self, **wanted: Any) -> Rows:
        return Rows(row for row in self if all(row[name] == value for name, value in wanted.items()))

    def of(self, name: str) -> list[Any]:
        return [row[name] for row in self]

    def by(self, *names: str) -> dict[Any, Rows]:
        """Groups with equal values, by the value of the one column or the values of several."""
        found: dict[Any, Rows] = {}
        for row in self:
            key = tuple(row[name] for name in names)
            found.setdefault(key if len(names) > 1 else key[0], Rows()).append(row)
        return found

    def medians(self, name: str, by: str) -> dict[Any, float]:
        """The median of one column for each value of another."""
        return {value: float(np.median(rows.of(name))) for value, rows in self.by(by).items()}

    def curves(self, by: Sequence[str]) -> list[Row]:
        """Rows with equal values of `by` as one, which has lists of the others: shorter to record."""
        found = []
        for rows in self.by(*by).values():
            lists = {name: rows.of(name) for name in rows[0] if name not in by}
            found.append({name: rows[0][name] for name in by} | lists)
        return found

    @classmethod
    def of_curves(cls, curves: Iterable[Row], by: Sequence[str]) -> Rows:
        """Rows as they were before `curves`, if `by` names any column; what is missing is no number."""
        found = cls()
        for curve in curves:
            lists = {name: values for name, values in curve.items() if by and name not in by}
            for values in zip(*lists.values(), strict=True) if by else [()]:
                row = curve | dict(zip(lists, values, strict=True))
                found.append({name: math.nan if value is None else value for name, value in row.items()})
        return found


@dataclass(frozen=True)
class Claim:
    """A sentence, whether it held (None: what it speaks of is missing), the figures, and whether it is linspec's own.

    A paper's may fail here; a run in which one of linspec's own is missed ends with exit status 1.
    """

    text: str
    held: bool | None
    figures: str
    own: bool = False

    def __str__(self) -> str:
        verdict = "SKIPPED" if self.held is None else "HELD" if self.held else "FAILED"
        return f"{self.text}: {verdict} ({self.figures})"


def at_most(
    text: str, value: float, bound: float, figures: str = "{value:.3g}", *, own: bool = False
) -> Claim:
    """A claim that a figure is no larger than a bound; `figures` says it, with {value} and {bound}."""
    return Claim(text, bool(value <= bound), figures.format(value=value, bound=bound), own)


def every(
    text: str, values: Any, least: float, most: float = math.inf, form: str = ".2f", told: str = "{}"
) -> Claim:
    """A claim that all values, by name or in a list, lie between bounds; `told` says them."""
    numbers = list(values.values()) if isinstance(values, Mapping) else list(values)
    held = all(least <= number <= most for number in numbers)
    return Claim(text, held, told.format(listed(values, form)))


def listed(values: Any, form: str = ".2f") -> str:
    """Numbers between commas, with their names where they have any."""
    if isinstance(values, Mapping):
        return ", ".join(f"{name}: {value:{form}}" for name, value in values.items())
    return ", ".join(format(value, form) for value in values)


@dataclass
class Table:
    """A Markdown table, printed row by row. A column is its name, and after "::" how its numbers are written."""

    title: str
    head: tuple[str, ...]
    formats: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def row(self, *cells: Any) -> None:
        """Print one more row; what is no finite number is "-", and what is missing on the right is empty."""
        texts = [self._text(*pair) for pair in zip(cells, self.formats, strict=False)]
        texts += [""] * (len(self.head) - len(texts))
        self.rows.append(tuple(texts))
        print(f"| {' | '.join(texts)} |", flush=True)

    @staticmethod
    def _text(cell: Any, form: str) -> str:
        if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
            return "-"
        if isinstance(cell, list):
            return f"{len(cell)} numbers"
        return " ".join(cell.split()) if isinstance(cell, str) else format(cell, form)


class Report:
    """The findings of a script: printed as they come, and kept for `--record`; `given` are its options."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--record", action="store_true", help="keep the numbers in recorded/NAME.json")
        parser.add_argument("--recorded", action="store_true", help="judge its rows again; measure none")
        self.given = parser.parse_args()
        if self.given.record and (self.given.quick or self.given.recorded):
            parser.error("--record would overwrite the numbers of the whole experiment")
        self.name = getattr(self.given, "study", None) or Path(sys.argv[0]).stem
        packages = (f"{name} {version(name)}" for name in ("linspec", "numpy", "scipy"))
        self.versions = ", ".join([*packages, f"Python {platform.python_version()}"])
        self.tables: list[Table] = []
        self.kept: dict[str, list[Row]] = {}
        self.claims: list[Claim] = []
        # Many runs are stopped long before their tolerance on purpose; what ends early is said in the tables.
        warnings.simplefilter("ignore")
        print(self.versions)

    def table(self, *head: str, title: str = "") -> Table:
        pairs = [(name, form) for name, _, form in (column.partition("::") for column in head)]
        names, formats = zip(*pairs, strict=True)
        print(f"\n{title}\n" if title else "")
        print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
        self.tables.append(Table(title, names, formats))
        return self.tables[-1]

    def rows(self, name: str, columns: str, found: Measured, by: str = "", *, shown: bool = True) -> Rows:
        """Print what is found, row by row, keep it under a name, and return it; with `--recorded` that of the record.

        Columns are names with formats. Rows that have equal values in the columns `by` are recorded as one.
        """
        if self.given.recorded:
            old = json.loads((HERE / "recorded" / f"{self.name}.json").read_text("utf-8")).get(name, [])
            return Rows.of_curves(old, by.split())
        names = [column.partition("::")[0] for column in columns.split()]
        rows, table = Rows(), self.table(*columns.split(), title=name) if shown else None
        for cells in found:
            rows.append(dict(zip(names, cells, strict=True)))
            if table:
                table.row(*cells)
        self.kept[name] = rows.curves(by.split()) if by else list(rows)
        return rows

    def say(self, claims: Iterable[Claim], part: str = "") -> None:
        """Print claims, and the part that they are about."""
        print()
        for claim in claims:
            print(f"CLAIM ({part}) {claim}" if part else f"CLAIM {claim}", flush=True)
            self.claims.append(dataclasses.replace(claim, text=f"{part}: {claim.text}") if part else claim)

    def end(self) -> int:
        if self.given.record:
            print(f"written: {self._record()}")
        return int(any(claim.own and claim.held is False for claim in self.claims))

    def _record(self) -> Path:
        tables = [{"title": t.title, "head": t.head, "rows": t.rows} for t in self.tables]
        found = {
            "command": " ".join(["python", f"docs/evidence/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "versions": self.versions,
            "claims": [str(claim) for claim in self.claims],
            **(_in_json(self.kept) if self.kept else {"tables": tables}),
        }
        text = json.dumps(found, ensure_ascii=False)
        text = re.sub(r'(\}, |: \[|"\], |\}\], )(?=[{"])', lambda found: found[1].rstrip() + "\n", text)
        path = HERE / "recorded" / f"{self.name}.json"
        path.write_text(text + "\n", encoding="utf-8")
        return path


def _in_json(value: Any) -> Any:
    """Convert a value for JSON: nan, which is no number there, becomes null; numbers are rounded to eight digits."""
    if isinstance(value, Mapping):
        return {name: _in_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(part) for part in value]
    if isinstance(value, np.generic):
        return _in_json(value.item())
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.8g}")
    return value


def run_study(description: str | None, *studies: Callable[[Report], None], **options: Any) -> int:
    """The command of a script of studies: run the one that is named, and return the exit status.

    `options` are the script's own, with their defaults, or the types of those that have none.
    """
    parser = arguments(description)
    named = {study.__name__: study for study in studies}
    parser.add_argument("study", choices=list(named), help="what is measured")
    parser.add_argument("--only", nargs="+", metavar="PART", help="parts, or data sets, by name")
    parser.add_argument("--seeds", type=int, help="of everything random; the head says how many there are")
    for name, default in options.items():
        if isinstance(default, type):
            parser.add_argument(f"--{name}", type=default, nargs="+")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    report = Report(parser)
    named[report.given.study](report)
    return report.end()


def printed(table: str) -> dict[str, Any]:
    """The figures of a table of a paper, from `papers.json`."""
    tables: dict[str, dict[str, Any]] = json.loads((HERE / "papers.json").read_text("utf-8"))
    return next(figures for name, figures in tables.items() if name.startswith(table))


def chosen(report: Report, *names: str) -> list[str]:
    """The parts of a study that are asked for; all of them if nothing is said."""
    only = report.given.only or list(names)
    if unknown := sorted(set(only) - set(names)):
        sys.stderr.write(f"--only takes {', '.join(names)}; got {', '.join(unknown)}.\n")
        raise SystemExit(2)
    return [name for name in names if name in only]
