"""How every script here says what it found: tables, claims with a verdict, figures, and the record of all that.

A script makes a `Report` of its options, prints tables and claims through it, and ends with its exit status. Tables are
Markdown, a row at a time, so that a long run shows what it has. With `--record` the same rows, the verdicts, the
command, the day and the versions go to `recorded/NAME.json`, from which pages and gallery are drawn.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime as dt
import json
import math
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every script has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("LINSPEC_DATA"), help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="small generated data of the same kind: seconds")
    return parser


@dataclass(frozen=True)
class Claim:
    """A sentence, whether it held (None: what it speaks of is missing), the figures and their bound.

    The sentence is that of a paper, which may fail here, or linspec's `own`: a run in which one of these is missed ends
    with exit status 1.
    """

    text: str
    held: bool | None
    figures: str
    own: bool = False

    def __str__(self) -> str:
        verdict = "SKIPPED" if self.held is None else "HELD" if self.held else "FAILED"
        return f"{self.text}: {verdict} ({self.figures})"

    def about(self, part: str) -> Claim:
        """Return the claim with the name of the part of the script to which it belongs."""
        return dataclasses.replace(self, text=f"{part}: {self.text}") if part else self


def at_most(
    text: str, value: float, bound: float, figures: str = "{value:.3g}", *, own: bool = False
) -> Claim:
    """A claim that a figure is no larger than a bound; `figures` says it, with {value} and {bound}."""
    return Claim(text, bool(value <= bound), figures.format(value=value, bound=bound), own)


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
        return " ".join(cell.split()) if isinstance(cell, str) else format(cell, form)


class Report:
    """The findings of a script: printed as they come, and kept for `--record`.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        That of `arguments`, with the script's own options.
    *packages : str
        Distributions whose versions matter beside those of linspec, NumPy and SciPy.

    Attributes
    ----------
    given : argparse.Namespace
        The options.
    """

    def __init__(self, parser: argparse.ArgumentParser, *packages: str) -> None:
        parser.add_argument("--record", action="store_true", help="keep the numbers in recorded/NAME.json")
        parser.add_argument("--out", type=Path, help="folder for figures, and for tables as CSV")
        self.given = parser.parse_args()
        if self.given.record and self.given.quick:
            parser.error(
                "--record would overwrite the numbers of the whole experiment with those of --quick; leave one of them "
                "out"
            )
        self.name, self.versions = Path(sys.argv[0]).stem, versions(*packages)
        self.tables: list[Table] = []
        self.kept: dict[str, list[Mapping[str, Any]]] = {}
        self.claims: list[Claim] = []
        self.written: list[str] = []
        # Many runs are stopped long before their tolerance on purpose; what ends early is said in the tables.
        warnings.simplefilter("ignore")
        print(self.versions)

    def table(self, *head: str, title: str = "") -> Table:
        """A table, its head printed."""
        names, formats = zip(
            *((name, form) for name, _, form in (h.partition("::") for h in head)), strict=True
        )
        print(f"\n{title}\n" if title else "")
        print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
        self.tables.append(Table(title, names, formats))
        return self.tables[-1]

    def say(self, claims: Iterable[Claim], part: str = "") -> None:
        """Print claims, and the part that they are about."""
        print()
        for claim in claims:
            print(f"CLAIM ({part}) {claim}" if part else f"CLAIM {claim}", flush=True)
            self.claims.append(claim.about(part))

    def keep(self, name: str, rows: Sequence[Any], by: Sequence[str] = (), of: Sequence[str] = ()) -> None:
        """Keep records of one dataclass, or what `curves` makes of them, and write them as CSV."""
        self.kept[name] = curves(rows, by, of) if by else [dataclasses.asdict(row) for row in rows]
        self.csv(name, rows)

    def csv(self, name: str, rows: Sequence[Any]) -> None:
        """With `--out`, write records of one dataclass as CSV."""
        if rows and self.given.out:
            with self._path(f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, [entry.name for entry in dataclasses.fields(rows[0])])
                writer.writeheader()
                writer.writerows(dataclasses.asdict(row) for row in rows)

    def picture(self, name: str, draw: Callable[..., Any], *shown: Any) -> None:
        """With `--out`, write the figure that a function draws."""
        if self.given.out:
            draw(*shown).savefig(self._path(f"{name.replace(' ', '_')}.png"), dpi=120)

    def _path(self, name: str) -> Path:
        self.given.out.mkdir(parents=True, exist_ok=True)
        self.written.append(name)
        return Path(self.given.out / name)

    def end(self) -> int:
        """Say what was written, record what was found, and return the exit status."""
        if self.written:
            print(f"\nwritten: {', '.join(self.written)}, in {self.given.out}")
        if self.given.record:
            print(f"written: {self._record()}")
        return int(any(claim.own and claim.held is False for claim in self.claims))

    def _record(self) -> Path:
        tables = [{"title": t.title, "head": t.head, "rows": t.rows} for t in self.tables]
        found = {
            "command": " ".join(["python", f"docs/evidence/{self.name}.py", *sys.argv[1:]]),
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "versions": self.versions,
            "claims": [str(claim) for claim in self.claims],
            **(_in_json(self.kept) if self.kept else {"tables": tables}),
        }
        text = json.dumps(found, ensure_ascii=False)
        for short, long in (
            ("}, {", "},\n  {"),
            (": [{", ": [\n  {"),
            ('"], "', '"],\n"'),
            ("}], ", "}],\n"),
        ):
            text = text.replace(short, long)
        path = HERE / "recorded" / f"{self.name}.json"
        path.write_text(text + "\n", encoding="utf-8")
        return path


def versions(*others: str) -> str:
    """Return the versions of the packages that computed the figures."""
    named = ", ".join(f"{name} {version(name)}" for name in ("linspec", "numpy", "scipy", *others))
    return f"{named}, Python {platform.python_version()}"


def curves(rows: Iterable[Any], by: Sequence[str], of: Sequence[str]) -> list[Mapping[str, Any]]:
    """Records with equal fields `by` as one, which has lists of their fields `of`: shorter to record."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in by)
        curve = found.setdefault(key, {**dict(zip(by, key, strict=True)), **{name: [] for name in of}})
        for name in of:
            curve[name].append(getattr(row, name))
    return list(found.values())


def _in_json(value: Any) -> Any:
    """Convert a value for JSON: nan, which is no number there, becomes null; numbers are rounded to eight digits."""
    if isinstance(value, Mapping):
        return {name: _in_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(part) for part in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.8g}")
    return value


def panels(rows: int, columns: int, **options: Any) -> tuple[Any, Any]:
    """A figure that needs no display, and its panels, always as a two-dimensional array."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * columns, 4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)
