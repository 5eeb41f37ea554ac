"""Two records by rules.

Errors against the exact equations: a new one is at most `FACTOR` times the old one, or the tolerance of the run. Runs
that say APPROXIMATE, and those of random methods, are judged by what their values miss over five seeds, the median and
the worst. A run may not be refused where it was not, nor return other components, nor take more passes. CONVERGED may
neither get lost nor be claimed where the error stayed large. Other changes of statuses and of warnings are listed, and
break nothing.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FACTOR = 2.0
LEAST = 1e-10
"""What rounding allows."""
RANDOM = 0.05
"""What values of five seeds may vary by where nobody knows the largest one."""
SLACK = {"passes": 1.0, "iterations": 1.1, "columns": 1.1}
"""The factors by which costs may grow."""
LISTED = frozenset({"status", "warnings", "kind", "new"})
"""Rules of differences that are shown, and break nothing."""

Line = tuple[str, str]


def report(old: Path, new: Path, only: str = "") -> int:
    """Print every difference; return 1 if a rule is broken."""
    records = [json.loads((folder / "answers.json").read_text("utf-8")) for folder in (old, new)]
    before, after = ({name: each for name, each in record.items() if only in name} for record in records)
    count = Counter[str]()
    for rule, line in differences(before, after):
        count[rule] += 1
        print(f"{rule}: {line}")
    broken = count.keys() - LISTED
    print(f"{len(before)} entries, then {len(after)}; {dict(count) or 'no difference'}")
    print(f"broken: {', '.join(sorted(broken)) or 'nothing'}")
    return 1 if broken else 0


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Line]:
    """The differences, each with the name of its rule."""
    for name, old in before.items():
        yield from [("gone", name)] if name not in after else _of_answers(name, old, after[name])
    yield from (("new", name) for name in after if name not in before)


def _of_answers(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Line]:
    if "refused" in old or "refused" in new:
        if old.get("refused") != new.get("refused"):
            was, now = (each.get("refused", each.get("status")) for each in (old, new))
            yield "new" if "refused" not in new else "refused", f"{name}: {was} -> {now}"
        return
    if len(old["values"]) != len(new["values"]):
        yield "components", f"{name}: {len(old['values'])} -> {len(new['values'])}"
    yield from _of_errors(name, old, new)
    if old["status"] != new["status"]:
        large = any(error > 1e3 * _tolerance(what, new) for what, error in new["errors"].items())
        rule = "no longer converged" if old["status"] == "CONVERGED" else "status"
        rule = "claimed" if new["status"] == "CONVERGED" and large else rule
        yield rule, f"{name}: {old['status']} -> {new['status']}"
    for key, slack in SLACK.items():
        if new[key] is None or new[key] > old[key] * slack + 1e-9:
            yield key, f"{name}: {old[key]:.4g} -> {new[key]}"
    for field in ("warnings", "kind"):
        if old[field] != new[field]:
            yield field, f"{name}: {old[field]} -> {new[field]}"


def _of_errors(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Line]:
    if "APPROXIMATE" not in (old["status"], new["status"]):
        for what, error in new["errors"].items():
            before = old["errors"].get(what, 0.0)
            allowed = max(FACTOR * before, _tolerance(what, old))
            if not error <= allowed:
                yield what, f"{name}: error {before:.2g} -> {error:.2g}, at most {allowed:.2g}"
    if old["shortfalls"] and new["shortfalls"]:
        least = max(_tolerance("loss", old), 1e-3 if old["status"] == "APPROXIMATE" else 0.0)
        for what, of in (("median", statistics.median), ("worst", max)):
            was, now = (of(each["shortfalls"]) for each in (old, new))
            allowed = was + max((FACTOR - 1) * was, RANDOM * abs(was), least)
            if not now <= allowed:
                yield "sum", f"{name}: {what} of five seeds {was:.3g} -> {now:.3g}, at most {allowed:.3g}"


def _tolerance(what: str, run: dict[str, Any]) -> float:
    """What rounding allows a direct method, and its own tolerance an iteration: squared errors are its residual."""
    single = 1e-5 if run["single"] else 0.0
    tol = run["tol"] if run["iterations"] and run["status"] == "CONVERGED" else 0.0
    return float(max(LEAST, single, tol**0.5 if what == "not orthonormal" else tol))
