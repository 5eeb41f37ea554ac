"""Write the tables of the pages, from records of linspec and recorded figures: ``python docs/site/records.py``.

A table stands between two comments; the first one names its contents::

    <!-- docs/site/records.py: solvers cca -->
    <!-- docs/site/records.py: end -->

`problems`, `solvers PROBLEM`, `normalizers`, `test-matrices` and `traits` can be listed. Of plugins only linspec's own
are, so that the pages are the same whatever is installed. `measured NAME` shows a record of
`docs/evidence/measured.json`, with the commands that printed it; `machines` lists what they ran on, `found` and
`missed` the sentences of that name in these records. `claims NAME` shows the verdicts in
`docs/evidence/recorded/NAME.json`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from linspec.registry import Registry
from linspec.registry.spec import TRAITS

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "docs" / "evidence" / "measured.json"
RECORDED = ROOT / "docs" / "evidence" / "recorded"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(page for page in (ROOT / "docs").glob("*/*.md") if page.parent.name != "listings"),
]

MARK = r"<!-- \S*records\.py: (?!end)[^>]*-->\n"
"""Pattern of the comment that begins a table; it matches a wrong path, too, so that this becomes an error."""

BLOCK = re.compile(
    r"(<!-- docs/site/records\.py: (?P<what>[a-z-]+)(?: (?P<of>[a-z0-9_-]+))? -->\n)"
    rf"(?:(?!{MARK}).)*?(<!-- docs/site/records\.py: end -->)",
    re.DOTALL,
)

RECORDS = Registry(disabled="*")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def problems() -> str:
    specs = [RECORDS.find(name, ["problem"]).spec for name in RECORDS.names("problem")]
    rows = [(f"`{spec.name}`", spec.summary, code(RECORDS.names("solver", spec.name))) for spec in specs]
    return table(("problem", "what is asked", "solvers"), rows)


def solvers(problem: str) -> str:
    return methods("solver", RECORDS.names("solver", problem), problem)


def methods(kind: str, names: Iterable[str], problem: str | None = None) -> str:
    specs = [RECORDS.find(name, [kind], problem).spec for name in names]
    rows = [(f"`{spec.name}`", spec.summary, ", ".join(spec.traits), spec.reference) for spec in specs]
    return table((kind.replace("-", " "), "what it does", "traits", "source"), rows)


@functools.cache
def figures() -> Mapping[str, Any]:
    """Return the measured figures: the machines, and the records by their names."""
    found: Mapping[str, Any] = json.loads(MEASURED.read_text("utf-8"))
    return found


def measured(name: str) -> str:
    """Return the subject of a measurement, the commands that printed it, and the table of figures."""
    record = figures()["records"][name]
    printed = "; ".join(_run(run) for run in record["runs"])
    return f"{record['what']} Printed by {printed}.\n\n{table(record['head'], record['rows'])}"


def _run(run: Mapping[str, str]) -> str:
    """A command, and what it ran on."""
    facts = [f"`{run['command']}`"]
    if "script" in run:
        facts.append(f"the script is `git show {run['script']}`")
    if "commit" in run:
        facts.append(f"commit {run['commit']}")
    return ", ".join([*facts, run["date"], run["machine"]])


def sentences(kind: str) -> str:
    """The sentences `found` or `missed` of the records."""
    return "".join(f"- {record[kind]}\n" for record in figures()["records"].values() if kind in record)


VERDICT = re.compile(
    r"(?:(?P<part>.*): )?(?P<claim>.*): (?P<verdict>HELD|FAILED|SKIPPED) \((?P<figures>.*)\)"
)


def claims(name: str) -> str:
    """The verdicts of an experiment, those that parts of it have in common in one row, and its command."""
    record = json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
    rows: dict[tuple[str, str], list[str]] = {}
    for said in record["claims"]:
        match = VERDICT.fullmatch(said)
        if match is None:
            raise ValueError(f"a claim must read 'PART: CLAIM: HELD (FIGURES)'; got {said!r}")
        part = f"{match['part']}: " if match["part"] else ""
        rows.setdefault((match["claim"], match["verdict"].lower()), []).append(part + match["figures"])
    verdicts = table(("claim", "", "figures"), [(*claim, "; ".join(parts)) for claim, parts in rows.items()])
    commit = f"commit {record['commit']}, " if "commit" in record else ""
    return f"`{record['command']}`, {commit}{record['date']}, {record['versions']}:\n\n{verdicts}"


TABLES: dict[str, Callable[[], str]] = {
    "problems": problems,
    "normalizers": lambda: methods("normalizer", RECORDS.names("normalizer")),
    "test-matrices": lambda: methods("test-matrix", RECORDS.names("test-matrix")),
    "traits": lambda: table(
        ("trait", "what it promises"), [(f'`"{trait}"`', promise) for trait, promise in TRAITS.items()]
    ),
    "machines": lambda: table(("machine", "what it is"), figures()["machines"].items()),
    "found": lambda: sentences("found"),
    "missed": lambda: sentences("missed"),
}

TABLES_OF: dict[str, Callable[[str], str]] = {"solvers": solvers, "measured": measured, "claims": claims}
"""Those that name what they are of."""


def rewritten(text: str) -> str:
    """A page with its tables as the records have them."""
    written, count = BLOCK.subn(lambda m: m[1] + _listed(m["what"], m["of"]) + m[4], text)
    if count != len(re.findall(MARK, text)):
        raise ValueError(
            "a table must open with <!-- docs/site/records.py: WHAT --> "
            "and close with <!-- docs/site/records.py: end -->"
        )
    return written


def _listed(what: str, of: str | None) -> str:
    if of is not None and what in TABLES_OF:
        return TABLES_OF[what](of)
    if what not in TABLES or of is not None:
        known = ", ".join([*TABLES, *(f"{name} NAME" for name in TABLES_OF)])
        raise ValueError(f"one of {known} can be listed; got {what} {of or ''}")
    return TABLES[what]()


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text("utf-8")
        if (new := rewritten(text)) != text:
            page.write_text(new, "utf-8")
            print(f"{page.relative_to(ROOT)} is written")
