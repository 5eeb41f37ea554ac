"""Write the tables of the pages that list what linspec registers, from its records: ``python docs/records.py``.

A table stands between two comments, the first of which says what it lists::

    <!-- docs/records.py: solvers cca -->
    <!-- docs/records.py: end -->

`problems`, `solvers PROBLEM`, `normalizers`, `test-matrices` and `traits` can be listed. Of plugins only linspec's own
are, so that the pages are the same whatever is installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from linspec.registry import Registry
from linspec.spec import TRAITS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/start").glob("*.md")),
]

MARK = r"<!-- docs/records\.py: (?!end)[^>]*-->\n"
BLOCK = re.compile(
    r"(<!-- docs/records\.py: (?P<what>[a-z-]+)(?: (?P<of>[a-z0-9-]+))? -->\n)"
    rf"(?:(?!{MARK}).)*?(<!-- docs/records\.py: end -->)",
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


TABLES: dict[str, Callable[[], str]] = {
    "problems": problems,
    "normalizers": lambda: methods("normalizer", RECORDS.names("normalizer")),
    "test-matrices": lambda: methods("test-matrix", RECORDS.names("test-matrix")),
    "traits": lambda: table(
        ("trait", "what it promises"), [(f'`"{trait}"`', promise) for trait, promise in TRAITS.items()]
    ),
}


def rewritten(text: str) -> str:
    """A page with its tables as the records have them."""
    written, count = BLOCK.subn(lambda m: m[1] + _listed(m["what"], m["of"]) + m[4], text)
    if count != len(re.findall(MARK, text)):
        raise ValueError(
            "a table must open with <!-- docs/records.py: WHAT --> and close with <!-- docs/records.py: end -->"
        )
    return written


def _listed(what: str, of: str | None) -> str:
    if what == "solvers" and of is not None:
        return solvers(of)
    if what not in TABLES or of is not None:
        raise ValueError(
            f"one of {', '.join(TABLES)}, or solvers PROBLEM, can be listed; got {what} {of or ''}"
        )
    return TABLES[what]()


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text("utf-8")
        if (new := rewritten(text)) != text:
            page.write_text(new, "utf-8")
            print(f"{page.relative_to(ROOT)} is written")
