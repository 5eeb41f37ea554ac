"""Two records by rules.

An error is at most `FACTOR` times the old one, or the tolerance of the run; what values miss over five seeds is judged
by the median and the worst. A run may not be refused where it was not, return other components, take more passes, lose
CONVERGED, or claim it where the error stayed large. Of texts and commands all but the words is compared.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FACTOR = 2.0
LEAST = 1e-10
"""What rounding allows."""
RANDOM = 0.05
"""What values of five seeds may vary by where nobody knows the largest one."""
SAME = 1e-12
SLACK = {"passes": 1.0, "iterations": 1.1, "columns": 1.1}
"""The factors by which costs may grow."""
LISTED = frozenset({"status", "warnings", "kind", "new", "note"})
"""Rules of differences that are shown, and break nothing."""

Line = tuple[str, str]


def report(old: Path, new: Path, only: str = "") -> int:
    """Print every difference; return 1 if a rule is broken."""
    broken: Counter[str] = Counter()
    for part in sorted({path.stem for folder in (old, new) for path in folder.glob("*.json")}):
        both = [folder / f"{part}.json" for folder in (old, new)]
        if not all(path.exists() for path in both):
            print(f"{part}: note: recorded on one side only")
            continue
        records = [json.loads(path.read_text(encoding="utf-8")) for path in both]
        before, after = ({name: each for name, each in record.items() if only in name} for record in records)
        count = Counter[str]()
        for rule, line in differences(part, before, after):
            count[rule] += 1
            print(f"{part}: {rule}: {line}")
        broken.update({rule: number for rule, number in count.items() if rule not in LISTED})
        print(f"{part}: {len(before)} entries, then {len(after)}; {_counted(count) or 'no difference'}")
    print(f"broken: {_counted(broken) or 'nothing'}")
    return 1 if broken else 0


def _counted(count: Counter[str]) -> str:
    return ", ".join(f"{number} {rule}" for rule, number in sorted(count.items()))


def differences(part: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Line]:
    """The differences of one part, each with the name of its rule."""
    if part == "saved":
        yield from _of_saved(before, after)
    elif part == "answers":
        for name, old in before.items():
            yield from [("gone", name)] if name not in after else _of_answers(name, old, after[name])
        yield from (("new", name) for name in after if name not in before)
    else:
        for name in [*before, *(name for name in after if name not in before)]:
            old, new = (_without_words(entries.get(name, "nothing")) for entries in (before, after))
            if not _agree(old, new):
                yield part, f"{name}: {old} -> {new}"


def _without_words(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: _without_words(value) for key, value in entry.items() if key != "text"}


def _agree(old: Any, new: Any) -> bool:
    """Numbers agree to four digits."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_agree(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_agree, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return bool(np.isclose(old, new, rtol=1e-4, atol=1e-9, equal_nan=True))
    return bool(old == new)


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
    for field in ("warnings", "kind", "dtype"):
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
    single = 1e-5 if run["dtype"] == "float32" else 0.0
    tol = run["tol"] if run["iterations"] and run["status"] == "CONVERGED" else 0.0
    return float(max(LEAST, single, tol**0.5 if what == "not orthonormal" else tol))


def _of_saved(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Line]:
    if not any(name.startswith("earlier/") for name in after):
        yield "note", "the newer record was made without --from the older one: no file was loaded"
        return
    for name, old in before.items():
        new = after.get(f"earlier/{name}", {"refused": "not saved"})
        if "refused" in new:
            yield "refused", f"{name}: {new['refused']}"
            continue
        for field, value in old.items():
            if field not in new:
                yield "gone", f"{name}: {field}"
            elif (apart := _apart(value, new[field])) > SAME:
                yield "arrays", f"{name}: {field} differs by {apart:.2g}"


def _apart(one: Any, other: Any) -> float:
    """The largest distance of two arrays, or of arrays in lists, relative to their largest entry."""
    try:
        a, b = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    except ValueError:
        return max((_apart(x, y) for x, y in zip(one, other, strict=True)), default=0.0)
    if a.shape != b.shape:
        return np.inf
    return float(np.abs(a - b).max(initial=0) / (np.abs(a).max(initial=0) or 1.0))
