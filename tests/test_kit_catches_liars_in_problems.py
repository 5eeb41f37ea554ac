"""The kit on kinds of problems: those that ship keep their promises, and each liar fails the check of its promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

import linspec as ls
from linspec import registry
from linspec.cli.kinds import Kind
from linspec.testing import conformance, run_checks, testing_of

HERE = Path(__file__).name

for _name in ls.problems():
    globals()["test_" + _name.replace("-", "_")] = conformance(f"problem/{_name}")


@dataclass(frozen=True, eq=False, repr=False)
class Honest(ls.SVD):
    """The truncated SVD by another name."""

    name: ClassVar[str] = "liar"


class Misnamed(Honest):
    """Called otherwise than its record says."""

    name: ClassVar[str] = "truth"


class Astray(Honest):
    """Its means are said to be in a field that answers do not have."""

    means: ClassVar[dict[str, str]] = {"A": "average"}


def cases():
    return tuple(replace(case, problem="liar") for case in testing_of("svd").cases()[:3])


TESTING = replace(testing_of("svd"), cases=cases)
TWICE = replace(TESTING, cases=lambda: cases() * 2)
NONE = replace(TESTING, cases=lambda: ())
ELSEWHERE = replace(TESTING, cases=lambda: testing_of("svd").cases()[:1])
BLIND = replace(TESTING, oracle=lambda case, reading: object())
COMMAND = Kind(name="liar", matrices=("A",), parameters=list, answer=lambda solution: [], score=None)
TWO_FILES = replace(COMMAND, matrices=("A", "B"))
VARIES = replace(COMMAND, varied=("ridge",))
SCORES = replace(COMMAND, scored=True)


@pytest.mark.parametrize(
    ("record", "failing"),
    [
        ({}, set()),
        ({"target": "Misnamed"}, {"name"}),
        ({"target": "Astray"}, {"fields"}),
        ({"testing": "TWICE"}, {"cases"}),
        ({"testing": "NONE"}, {"cases"}),
        ({"testing": "ELSEWHERE"}, {"cases"}),
        ({"testing": "BLIND"}, {"oracle"}),
        ({"testing": ""}, {"cases"}),
        ({"command": "TWO_FILES"}, {"command"}),
        ({"command": "VARIES"}, {"command"}),
        ({"command": "SCORES"}, {"command"}),
        ({"summary": "liar"}, {"summary"}),
    ],
    ids=lambda value: ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_each_liar_fails_the_check_of_its_promise(monkeypatch, record, failing):
    own = registry.Registry()
    monkeypatch.setattr(registry, "default_registry", lambda: own)
    targets = {"target": "Honest", "testing": "TESTING", "command": "COMMAND"}
    summary = record.get("summary", "A problem that is here to be caught.")
    targets |= {role: value for role, value in record.items() if role != "summary"}
    places = {role: value and f"{__name__}:{value}" for role, value in targets.items()}
    ls.register(ls.ProblemSpec(name="liar", summary=summary, **places))
    report = run_checks("problem/liar")
    assert {name for name, _ in report.failed} == failing, report
    assert all(HERE in message for name, message in report.failed if name != "summary"), report
