"""Outcomes as plain tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from linspec_fuzz.judge import CLASSES
from linspec_fuzz.run import Outcome

__all__ = ["causes", "counts", "features", "table"]

NUMBER = re.compile(r"[-+.0-9e]*|nan|inf")


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return a table as text, with words aligned to the left and numbers to the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(*texts, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [all(NUMBER.fullmatch(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in texts:
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def counts(outcomes: Iterable[Outcome]) -> str:
    """Return a table with the number of verdicts of each kind (`CLASSES`) for each solver, sorted by family.

    Further columns have the number of solves and their seconds.
    """
    tally: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    seconds: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        for name in (_name(outcome), "(all)"):
            key = outcome.case.family, name
            tally[key][outcome.verdict.kind] += 1
            seconds[key] += outcome.seconds  # type: ignore[assignment]
    rows: list[list[object]] = [["solver", *CLASSES, "solves", "seconds"]]
    for (family, name), tallied in sorted(tally.items()):
        numbers = [tallied[kind] or "." for kind in CLASSES]
        rows.append([f"{family}/{name}", *numbers, tallied.total(), f"{seconds[family, name]:.1f}"])
    return table(rows)


def features(outcomes: Iterable[Outcome]) -> str:
    """Return a table of trials, solves and classes by family, features and kinds of data of the cases."""
    trials: dict[str, set[str]] = defaultdict(set)
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        case = outcome.case
        kinds = {f"{matrix.kind} data" for matrix in case.matrices.values()}
        for name in ("(all)", f"{case.family} (family)", *case.features, *kinds):
            trials[name].add(outcome.name)
            tally[name][outcome.verdict.kind] += 1
    rows: list[list[object]] = [["trials with", "trials", "solves", *CLASSES]]
    for name, tallied in sorted(tally.items()):
        rows.append([name, len(trials[name]), tallied.total(), *(tallied[kind] or "." for kind in CLASSES)])
    return table(rows)


def causes(outcomes: Iterable[Outcome]) -> str:
    """Return a table of failures and refusals by cause, the most frequent first, each with an example."""
    groups: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict.fails or outcome.verdict.kind == "refused":
            groups[outcome.case.family, outcome.verdict.kind, outcome.verdict.cause].append(outcome)
    if not groups:
        return ""
    rows: list[list[object]] = [["family, class and cause", "count", "for instance", "solvers"]]
    for (family, kind, cause), found in sorted(groups.items(), key=lambda item: (item[0][:2], -len(item[1]))):
        solvers = Counter(_name(outcome) for outcome in found)
        named = ", ".join(f"{name} {count}" for name, count in solvers.most_common())
        rows.append([f"{family} {kind}: {cause}", len(found), found[0].name, named])
    return table(rows)


def _name(outcome: Outcome) -> str:
    return outcome.solver if isinstance(outcome.solver, str) else type(outcome.solver).__name__
