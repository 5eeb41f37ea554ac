"""The kit on kinds of problems: those that ship keep their promises, and each liar fails the check of its promise."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from linspec.cli.kinds import Kind

import linspec as ls
from linspec import registry
from linspec.errors import InvalidProblem, MissingCapability
from linspec.solving.conclusion import DEFAULT_TERMS
from linspec.solving.new_rows import NewRows
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


@dataclass(frozen=True, kw_only=True, repr=False)
class OfAnotherMatrix(ls.SVDSolution):
    """Its lengths are said to be those of a matrix that the problem does not have."""

    column_norms: Any = ls.field(None, rows_of="B")


class Astray(Honest):
    """Its answers declare a matrix that it does not have."""

    solution: ClassVar[type] = OfAnotherMatrix


class TakesAnyWeights(Honest):
    """Does not look at its weights."""

    def __post_init__(self):
        weights = self.sample_weight
        object.__setattr__(self, "sample_weight", None)
        super().__post_init__()
        object.__setattr__(self, "sample_weight", weights)


class ForgetsWeights(Honest):
    """Takes weights, and solves without them."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "sample_weight", None)


class ForgetsConfounds(Honest):
    """Takes confounds, and solves without them."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "confounds", None)


@dataclass(frozen=True, kw_only=True, repr=False)
class WithoutWeights(ls.SVDSolution):
    """Its vectors are not declared as weights."""

    Vh: Any = ls.field(leading=True, axis=1, shape="k p")

    def transform(self, A, *, confounds=None):
        own = NewRows(self.mean, self.slopes, self.confound_mean, self.scale)
        return own.images(A, self.Vh.T, "A", confounds)


class ScalesNothing(Honest):
    """Has a flag that says scale, and no matrix that it is for."""

    solution: ClassVar[type] = WithoutWeights


@dataclass(frozen=True, kw_only=True, repr=False)
class OfUnscaledColumns(ls.SVDSolution):
    """Its right singular vectors are said to belong to the columns before they are scaled."""

    Vh: Any = ls.field(rows_of="A", axis=1, leading=True)


class ScalesOtherVectors(Honest):
    """Gives right singular vectors back as if they were weights."""

    solution: ClassVar[type] = OfUnscaledColumns


class ForgetsNames(Honest):
    """Does not keep the names of columns."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "column_names", {})


@dataclass(frozen=True, eq=False, repr=False)
class NamedAsTheEstimatorsOwn(Honest):
    """Has a number that is called like a parameter of every estimator."""

    solver: Any = 0.5

    def __post_init__(self):
        super().__post_init__()
        if self.solver != 0.5:
            raise InvalidProblem(f"solver must be 0.5; got {self.solver}.")


@dataclass(frozen=True, eq=False, repr=False)
class WithANumber(Honest):
    """Has a number that is not declared."""

    rounds: int = 3


class AnswersInAnyUnit(Honest):
    """Does not look at the size of its entries."""

    def in_range(self, looks):
        return self


class ScoresNowhere(Honest):
    """Names a score that is in no module."""

    held_out_scores: ClassVar[dict[str, str]] = {"reconstruction": "nowhere:X"}


class ScoresByAnythingElse(Honest):
    """Names a class that is no score."""

    held_out_scores: ClassVar[dict[str, str]] = {"reconstruction": f"{__name__}:Honest"}


class NoNumber(ls.HeldOutScore):
    label = "nothing"

    def of_solution(self, problem, solution, ks):
        return np.full(len(ks), np.nan)


class TwoNumbers(ls.HeldOutScore):
    """One number from solutions, and another from second moments."""

    label = "something"

    def of_solution(self, problem, solution, ks):
        return np.full(len(ks), 1.0)

    def of_moments(self, problem, split, ridges, ks):
        return np.full((len(ridges), len(ks)), 2.0)


class NeedsMore(ls.HeldOutScore):
    """Needs something that these data lack."""

    label = "something"

    def of_solution(self, problem, solution, ks):
        raise MissingCapability("these rows have no classes.")


class ScoresNoData(Honest):
    """Its only score refuses the data."""

    held_out_scores: ClassVar[dict[str, str]] = {"something": f"{__name__}:NeedsMore"}


class ScoresSomeDataOtherwise(Honest):
    """A second score refuses the data, which is no fault."""

    held_out_scores: ClassVar[dict[str, str]] = {
        **ls.SVD.held_out_scores,
        "something": f"{__name__}:NeedsMore",
    }


class ScoresNaN(Honest):
    """Its score is no number."""

    held_out_scores: ClassVar[dict[str, str]] = {"nothing": f"{__name__}:NoNumber"}


class ScoresTwice(Honest):
    """Its score depends on how it is computed."""

    held_out_scores: ClassVar[dict[str, str]] = {"something": f"{__name__}:TwoNumbers"}


class LawOfZero(Honest):
    """Every answer is exact."""

    def conclude(self, moments, terms=DEFAULT_TERMS, *, Vh, S=None, U=None):
        found = super().conclude(moments, terms, Vh=Vh, S=S, U=U)
        return replace(found, residual=0.0)


class LawWithANumber(Honest):
    """A law that adds a number to the squares that it divides by, against division by zero."""

    def conclude(self, moments, terms=DEFAULT_TERMS, *, Vh, S=None, U=None):
        found = super().conclude(moments, terms, Vh=Vh, S=S, U=U)
        largest = float(np.max(found.fields["S"], initial=0.0)) ** 2
        return replace(found, residual=found.residual * largest / (largest + 1e-20))


# ---- answers ----------------------------------------------------------------------------------


def answers(fault: Any, member: str = "transform") -> type:
    """A class of answers with one fault, found under its name in this module."""
    own = {"__module__": __name__, "__doc__": "An answer that is here to be caught.", member: fault}
    cls = dataclass(frozen=True, kw_only=True, repr=False)(
        type(f"Answer_{fault.__name__}", (ls.SVDSolution,), own)
    )
    globals()[cls.__name__] = cls
    return cls


def _with(solution: Any, **fields: Any) -> Any:
    twin = copy.copy(solution)
    for name, value in fields.items():
        object.__setattr__(twin, name, value)
    return twin


def forgets_scale(self, A, *, confounds=None):
    return ls.SVDSolution.transform(_with(self, scale=None), A, confounds=confounds)


def forgets_mean(self, A, *, confounds=None):
    bare = _with(self, mean=None if self.mean is None else 0 * self.mean)
    return ls.SVDSolution.transform(bare, A, confounds=confounds)


def forgets_confounds(self, A, *, confounds=None):
    none = {} if self.slopes is None else {"slopes": 0 * self.slopes}
    return ls.SVDSolution.transform(_with(self, **none), A, confounds=confounds)


def gives_zeros(self, A, *, confounds=None):
    return 0 * ls.SVDSolution.transform(self, A, confounds=confounds)


def centres_the_rows(self, A, *, confounds=None):
    scores = ls.SVDSolution.transform(self, A, confounds=confounds)
    return scores - scores.mean(axis=0)


def refuses_float32(self, A, *, confounds=None):
    if getattr(A, "dtype", None) == np.float32:
        raise ls.errors.UnsupportedData("float64 only")
    return ls.SVDSolution.transform(self, A, confounds=confounds)


def prints(self, A, *, confounds=None):
    print("scores")
    return ls.SVDSolution.transform(self, A, confounds=confounds)


def loses_the_values(self):
    return {**ls.SVDSolution.saved_parts(self), "S": 2 * self.S}


class TransformForgetsScale(Honest):
    solution: ClassVar[type] = answers(forgets_scale)


class TransformForgetsMean(Honest):
    solution: ClassVar[type] = answers(forgets_mean)


class TransformForgetsConfounds(Honest):
    solution: ClassVar[type] = answers(forgets_confounds)


class TransformGivesZeros(Honest):
    solution: ClassVar[type] = answers(gives_zeros)


class TransformCentresRows(Honest):
    solution: ClassVar[type] = answers(centres_the_rows)


class TransformRefusesFloat32(Honest):
    solution: ClassVar[type] = answers(refuses_float32)


class TransformPrints(Honest):
    solution: ClassVar[type] = answers(prints)


class SavesOtherValues(Honest):
    solution: ClassVar[type] = answers(loses_the_values, "saved_parts")


@dataclass(frozen=True, eq=False, repr=False)
class HonestPairs(ls.CCA):
    """CCA by another name."""

    name: ClassVar[str] = "liar"


class KeepsItsPairs(HonestPairs):
    """Keeps the rows of Y that it had when it is given others."""

    def with_matrices(self, matrices):
        return super().with_matrices({} if list(matrices) == ["Y"] else matrices)


class ForgetsCounts(HonestPairs):
    """Takes weights of pairs, and solves without them."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "sample_weight", None)


def pairs():
    return tuple(replace(case, problem="liar") for case in testing_of("cca").cases()[:3])


def cases():
    return tuple(replace(case, problem="liar") for case in testing_of("svd").cases()[:3])


TESTING = replace(testing_of("svd"), cases=cases)
PAIRED = replace(testing_of("cca"), cases=pairs)
TWICE = replace(TESTING, cases=lambda: cases() * 2)
NONE = replace(TESTING, cases=lambda: ())
ELSEWHERE = replace(TESTING, cases=lambda: testing_of("svd").cases()[:1])
BLIND = replace(TESTING, oracle=lambda case, reading: object())
ORACLE = testing_of("svd").oracle


class NoLaw(ORACLE):
    def law(self, solution):
        return replace(super().law(solution), residual=0.0)


class NoErrors(ORACLE):
    def errors(self, solution):
        return []


ROUNDS = replace(
    TESTING,
    cases=lambda: tuple(replace(case, parameters={**case.parameters, "rounds": 4}) for case in cases()),
)
LAWLESS = replace(TESTING, oracle=NoLaw)
ERRORLESS = replace(TESTING, oracle=NoErrors)
COMMAND = Kind(name="liar", matrices=("A",), parameters=list, answer=lambda solution: [], score=None)
TWO_FILES = replace(COMMAND, matrices=("A", "B"))
VARIES = replace(COMMAND, varied=("ridge",))
SCORES = replace(COMMAND, scored=True)
OF_PAIRS = {"testing": "PAIRED", "solver": "cca", "command": ""}


LIARS: list[tuple[dict[str, str], set[str]]] = [
    ({}, set()),
    ({"target": "Misnamed"}, {"name"}),
    ({"target": "Astray"}, {"fields", "saved"}),
    ({"testing": "TWICE"}, {"cases"}),
    ({"testing": "NONE"}, {"cases"}),
    ({"testing": "ELSEWHERE"}, {"cases"}),
    ({"testing": "BLIND"}, {"oracle"}),
    ({"testing": ""}, {"cases"}),
    ({"command": "TWO_FILES"}, {"command"}),
    ({"command": "VARIES"}, {"command"}),
    ({"command": "SCORES"}, {"command"}),
    ({"summary": "liar"}, {"summary"}),
    ({"testing": "LAWLESS"}, {"law"}),
    ({"testing": "ERRORLESS"}, {"oracle-errors"}),
    ({"target": "LawOfZero"}, {"law"}),
    ({"target": "LawWithANumber"}, {"law"}),
    ({"target": "TakesAnyWeights"}, {"weights"}),
    ({"target": "ForgetsWeights"}, {"weights", "scale"}),
    ({"target": "ForgetsConfounds"}, {"confounds", "scale"}),
    ({"target": "ScalesNothing"}, {"scale"}),
    ({"target": "ScalesOtherVectors"}, {"scale"}),
    ({"target": "AnswersInAnyUnit"}, {"units"}),
    ({"target": "ForgetsNames"}, {"names"}),
    ({"target": "NamedAsTheEstimatorsOwn"}, {"estimator"}),
    ({"target": "WithANumber", "testing": "ROUNDS", "command": ""}, {"command-line"}),
    ({"target": "TransformForgetsScale"}, {"scale"}),
    ({"target": "TransformForgetsMean"}, {"weights", "confounds", "scale", "shift"}),
    ({"target": "TransformForgetsConfounds"}, {"confounds", "scale"}),
    (
        {"target": "TransformGivesZeros"},
        {"transform", "weights", "confounds", "scale", "shift", "held-out"},
    ),
    ({"target": "TransformCentresRows"}, {"transform", "held-out"}),
    ({"target": "TransformRefusesFloat32"}, {"transform"}),
    ({"target": "TransformPrints"}, {"process"}),
    ({"target": "SavesOtherValues"}, {"saved"}),
    ({"target": "ScoresNowhere"}, {"held-out"}),
    ({"target": "ScoresByAnythingElse"}, {"held-out"}),
    ({"target": "ScoresNaN"}, {"held-out"}),
    ({"target": "ScoresNoData"}, {"held-out"}),
    ({"target": "ScoresSomeDataOtherwise"}, set()),
    ({"target": "ScoresTwice"}, {"held-out"}),
    ({**OF_PAIRS, "target": "HonestPairs"}, set()),
    ({**OF_PAIRS, "target": "KeepsItsPairs"}, {"paired"}),
    ({**OF_PAIRS, "target": "ForgetsCounts"}, {"weights", "scale"}),
]


@pytest.mark.parametrize(
    ("record", "failing"),
    LIARS,
    ids=lambda value: ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
@pytest.mark.slow(keep=16)
def test_each_liar_fails_the_check_of_its_promise(monkeypatch, record, failing):
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    targets = {"target": "Honest", "testing": "TESTING", "command": "COMMAND"}
    summary = record.get("summary", "A problem that is here to be caught.")
    targets |= {role: value for role, value in record.items() if role not in ("summary", "solver")}
    places = {role: value and f"{__name__}:{value}" for role, value in targets.items()}
    ls.register(ls.ProblemSpec(name="liar", summary=summary, **places))
    solver = registry.get_spec("solver", "direct", record.get("solver", "svd"))
    ls.register(replace(solver, problem="liar"))
    report = run_checks("problem/liar")
    assert {name for name, _ in report.failed} == failing, report
    assert all(HERE in message for name, message in report.failed if name != "summary"), report
