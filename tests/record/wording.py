"""Texts of two commits, compared word by word.

Problem: a text differs from run to run in times, memory, addresses and folders, and nobody wants to read about these.
Method: they become tokens. What is left is split into words and numbers; numbers agree to `CLOSE`.
Where we differ: a difference of words alone is of `wording`; one of a class, a name, a number or an answer is `hard`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

CLOSE = 1e-4
ROUNDING = 1e-9
"""Numbers below this agree: they are rounding errors."""
TEXTS = {"text", "summary", "repr", "stdout", "stderr", "reason", "says"}
"""The fields whose words may change."""
VARYING = {"seconds", "CPU", "residual"}
"""The columns of printed tables that differ from run to run."""
AMOUNT = r"(?<![\w.])[\d.,]+(?:e[-+]?\d+)? ?"
TOKENS = (
    (r"\((?:Linux|Darwin|macOS|Windows)[^()\n]*\)", "(PLATFORM)"),
    (r"(openblas \S+) \(\w+\)", r"\1 (CPU)"),
    (r"0x[0-9a-f]+", "ADDRESS"),
    (r"\b\d+\.\d+\.\d+[\w.+]*", "VERSION"),
    (AMOUNT + r"(?:[kMGTP]i?B|B|bytes)\b", "MEMORY"),
    (AMOUNT + r"(?:ns|µs|ms|s|seconds|min|minutes|h)\b", "TIME"),
    (r"(?m)^(seconds +)[\d.]\S*", r"\1TIME"),
    (r"(?m)^(residual +)\S+", r"\1RESIDUAL"),
    (r"(residual(?: is| of)? )[\d.]+e-\d+", r"\1RESIDUAL"),
    (r"after \d+ of (.*) the least p-value is [\d.e-]+", r"after COUNT of \1 the least p-value is COUNT"),
)
NUMBER = re.compile(r"(?<![A-Za-z_])[-+−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def normalised(text: str, folders: Mapping[str, str]) -> str:
    """The text with tokens for what differs from run to run."""
    for folder, token in folders.items():
        text = text.replace(folder, token)
    text = _without_columns(text)
    for pattern, token in TOKENS:
        text = re.sub(pattern, token, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _without_columns(text: str) -> str:
    """Put tokens into the columns of printed tables that differ from run to run."""
    lines = text.splitlines()
    spans: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if number and re.fullmatch(r"[- ]*--[- ]*", line):
            every = [each.span() for each in re.finditer("-+", line)]
            header = lines[number - 1]
            spans = [(i, j) for i, j in every if header[i:j].strip() in VARYING]
        elif not line.strip():
            spans = []
        for i, j in reversed(spans):
            if line[i:j].strip(" -"):
                line = line[:i] + "VARIES" + line[j:]
        lines[number] = line
    return "\n".join(lines)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """One line for each difference: `hard` or `wording`, the case and the place in it, and both sides.

    A difference that many cases share is one line with the first of them and the number of the others.
    """
    shared: dict[tuple[str, str], list[str]] = {}
    for case in [*old, *(case for case in new if case not in old)]:
        for kind, what in _of_key(old, new, case, ""):
            shared.setdefault((kind, what), []).append(case)
    for (kind, what), cases in shared.items():
        more = f" (and {len(cases) - 1} more)" if cases[1:] else ""
        yield f"{kind}: {cases[0]}{more}{what}"


def _of_key(old: Mapping[str, Any], new: Mapping[str, Any], key: str, of: str) -> Iterator[tuple[str, str]]:
    if key not in new:
        yield "hard", f"{of}: gone; it was {_short(old[key])}"
    elif key not in old:
        yield "hard", f"{of}: new; it is {_short(new[key])}"
    else:
        yield from _within(old[key], new[key], of)


def _within(old: Any, new: Any, of: str) -> Iterator[tuple[str, str]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _of_key(old, new, key, f"{of} > {key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from _within(before, now, f"{of} > {number}")
    elif isinstance(old, str) and isinstance(new, str) and of.rpartition(" > ")[2] in TEXTS:
        yield from _of_texts(old, new, of)
    elif not _agree(old, new):
        yield "hard", f"{of}: {_short(old)} -> {_short(new)}"


def _of_texts(old: str, new: str, of: str) -> Iterator[tuple[str, str]]:
    if NUMBER.sub("#", old).split() == NUMBER.sub("#", new).split():
        pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
        other = [f"{a} -> {b}" for a, b in pairs if not _agree(_number(a), _number(b))]
        if other:
            yield "hard", f"{of}: numbers {', '.join(other[:8])}"
    else:
        before, now = old.split(), new.split()
        gone = [word for word in before if word not in now]
        come = [word for word in now if word not in before]
        words = f"without {_short(' '.join(gone))}, with {_short(' '.join(come))}"
        yield "wording", f"{of}: {words if gone or come else 'other order'}"


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def _agree(old: Any, new: Any) -> bool:
    if isinstance(old, float | int) and isinstance(new, float | int):
        return old == new or abs(old - new) <= max(CLOSE * abs(old), ROUNDING)
    return bool(old == new)


def _short(value: Any, most: int = 160) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]} …"
