"""Records and options: what an author may declare, and what a user may pass."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linspec as ls
from linspec.errors import InvalidDeclaration, InvalidOption, LinspecError, UnknownOption
from linspec.registry import KINDS
from linspec.registry.options import RUN_ARGUMENTS, build, options_of, parse, validate

if TYPE_CHECKING:
    from nowhere import Nothing

FACTS: dict[str, Any] = {"name": "two-stage", "target": "a.b:C", "summary": "S.", "reference": "Golub 1973"}


def solver(**changes: Any) -> ls.SolverSpec:
    return ls.SolverSpec(**{**FACTS, "problem": "cca", **changes})


def test_a_record_is_a_value() -> None:
    record = solver()
    assert record.qualified == "cca/two-stage"
    assert ls.NormalizerSpec(**FACTS).qualified == "normalizer/two-stage"
    assert (
        copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == dataclasses.replace(record) == record
    )
    assert len({record, solver(), solver(name="other")}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.name = "x"  # type: ignore[misc]
    assert str(ls.Needs(dense=True)) == "adjoint, dense"
    assert str(ls.Needs(adjoint=False)) == "forward products only"


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"name": name}
            for name in ("", "L-CCA", "l_cca", "-cca", "l--cca", "cca/gram", "a:gram", "gram\n", 3)
        ),
        *({"problem": problem} for problem in ("least squares", None)),
        *({"target": target} for target in ("a.b", "a.b:", ":C", "a..b:C", "a b:C", dict)),
        {"summary": " "},
        {"reference": None},
        {"needs": {"adjoint": True}},
        *({"traits": traits} for traits in (["direct"], "direct", ("driect",))),
    ],
)
def test_a_malformed_record_is_refused(changes: dict[str, Any]) -> None:
    (value,) = changes.values()
    with pytest.raises(InvalidDeclaration) as caught:
        solver(**changes)
    assert repr(value) in str(caught.value).replace("\\\\", "\\")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: solver(traits=("itertive",)), r"of the traits direct, .*got \('itertive',\)"),
        (
            lambda: ls.ProblemSpec(name="my problem", target="a:B", summary="S."),
            "name must be lower-case words",
        ),
        (lambda: ls.option(None, "of which type?"), "float, int, bool or str"),
        (lambda: ls.option([1], "a list"), "float, int, bool or str"),
        (lambda: ls.option(-1.0, "x", above=0), r"the default must itself be a number > 0; got -1\.0"),
        (lambda: ls.option("up", "x", choices=("left",)), r"must itself be a string in \{left\}"),
        (lambda: ls.part("ling"), "problem='least-squares'"),
        (lambda: ls.part("qr", kind="normalizer", problem="cca"), "got 'normalizer' with problem='cca'"),
        (lambda: ls.part("qr", kind="normaliser"), "a part is one of solver, normalizer, test-matrix"),
        (lambda: options_of(int), "@dataclass"),
    ],
)
def test_a_wrong_declaration_names_the_right_one(make: Any, words: str) -> None:
    with pytest.raises(InvalidDeclaration, match=words):
        make()


def test_a_field_that_a_record_lacks_is_named() -> None:
    for make, name in ((lambda: solver(need=ls.Needs()), "need"), (lambda: ls.Needs(entry=True), "entry")):
        with pytest.raises(TypeError, match=f"'{name}'"):
            make()


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.base])
def test_the_base_class_of_a_kind_has_its_method(kind: Any) -> None:
    assert not kind.method or callable(getattr(ls.registry.resolve(kind.base), kind.method))  # type: ignore[attr-defined]


# ---- options ---------------------------------------------------------------------------------------------------


class Inner:
    def iterate(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Method:
    step: float | None = ls.option(None, "step length; None: from the data", above=0)
    tol: float = ls.option(1e-8, "stop at this residual", above=0, below=1)
    ridge: float = ls.option(0.0, "ridge", at_least=0, below=math.inf)
    share: float = ls.option(0.5, "share", at_least=0, at_most=1)
    rank: int = ls.option(10, "rank", at_least=1, at_most=512)
    exact: bool = ls.option(False, "exactly")
    side: str = ls.option("left", "side", choices=("left", "right"))
    label: str | None = ls.option(None, "label", kind=str)
    power: int = ls.option(1, "power", choices=(1, 2, 4))
    lstsq: str | Inner = ls.part("ling", "inner solver", problem="least-squares", method="iterate")
    normalizer: Nothing = ls.part(None, kind="normalizer")  # annotations are never evaluated

    def __post_init__(self) -> None:
        validate(self)


BY_NAME = {declared.name: declared for declared in options_of(Method)}
EXPECTED = {
    "step": "a number > 0, or None",
    "tol": "a number > 0, < 1",
    "ridge": "a number >= 0, finite",
    "share": "a number >= 0, <= 1",
    "rank": "an integer >= 1, <= 512",
    "exact": "True or False",
    "side": "a string in {left, right}",
    "label": "a string, or None",
    "power": "an integer in {1, 2, 4}",
    "lstsq": "the name of a least-squares solver that has the method iterate, or an instance of one",
    "normalizer": "the name of a normalizer or an instance of one, or None",
}


def test_options_come_in_order_of_declaration_with_what_they_expect() -> None:
    assert {name: declared.expects for name, declared in BY_NAME.items()} == EXPECTED
    assert list(BY_NAME) == list(EXPECTED)

    @dataclass(frozen=True, kw_only=True)
    class Special(Method):
        extra: float = ls.option(1.0, "more", above=0)

    assert [declared.name for declared in options_of(Special())] == [*EXPECTED, "extra"]


@pytest.mark.parametrize(
    "options",
    [
        {"step": 3},
        {"step": None},
        {"step": np.float32(0.5), "tol": np.float64(0.5), "rank": np.int16(3)},
        {"step": Fraction(1, 3)},
        {"step": math.inf, "share": 0.0},
        {"share": 1, "rank": 512, "side": "right", "exact": True, "label": "x"},
        {"lstsq": Inner(), "normalizer": "qr"},
    ],
)
def test_values_that_are_accepted_are_kept_as_they_are(options: dict[str, Any]) -> None:
    method = Method(**options)
    assert all(getattr(method, name) is value for name, value in options.items())


REFUSED: dict[str, list[Any]] = {
    "step": [0, -0.0, True, math.nan, np.float32("nan"), "1", 1j, 10**400],
    "tol": [None, 1.0],
    "ridge": [math.inf, -1e-300],
    "rank": [0, 513, 3.0, False],
    "exact": [1, np.True_],
    "side": ["Left", ["left"]],
    "label": [3],
    "power": [3, np.ones(2)],
    "lstsq": ["", Inner, None],  # the class has no options; an instance is meant
    "normalizer": [Inner()],  # a solver is no normalizer
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name]])
def test_a_refusal_states_what_is_expected_and_what_it_got(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption) as caught:
        Method(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"option {name!r} of Method must be {EXPECTED[name]}; got ")
    assert f"Leave it out for the default, {BY_NAME[name].default!r}." in message


@given(st.floats(allow_nan=True), st.floats(-10, 10), st.floats(-10, 10))
def test_bounds_mean_what_they_say(value: float, low: float, high: float) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Between:
        x: float | None = ls.option(None, "x", above=low, at_most=high)

    assert options_of(Between)[0].accepts(value) == (low < value <= high)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("step", "None", None),
        ("step", "1e-3", 1e-3),
        ("rank", "7", 7),
        ("exact", "yes", True),
        ("side", "right", "right"),
        ("power", "4", 4),
        ("lstsq", "gram", "gram"),
        *(
            (name, text, ...)
            for name, text in (("step", "fast"), ("step", "0"), ("tol", "none"), ("rank", "1.5"))
        ),
    ],
)
def test_reading_from_the_command_line(name: str, text: str, value: Any) -> None:
    if value is ...:
        with pytest.raises(InvalidOption, match=name):
            parse(BY_NAME[name], text)
    else:
        assert repr(parse(BY_NAME[name], text)) == repr(value)


def test_build_is_the_constructor_with_better_errors() -> None:
    assert build(Method, {"rank": 3}) == Method(rank=3)
    with pytest.raises(
        UnknownOption, match=r"Method has no option 'rnak'. Did you mean 'rank'\? Its options: step"
    ):
        build(Method, {"rnak": 3})
    with pytest.raises(UnknownOption, match=r"argument of linspec\.solve"):
        build(Method, {"max_passes": 3})
    assert {*inspect.signature(ls.solve).parameters} - {"options_"} == RUN_ARGUMENTS


def test_declaring_needs_no_array_library() -> None:
    code = "import sys, linspec.registry.options; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("problem", ls.problems())
def test_the_built_in_solvers_declare_the_usual_options_alike(problem: str) -> None:
    tolerance = f"{ls.get_problem(problem).tolerance:.0e}".replace("e-0", "e-")
    for name in ls.solvers(problem):
        for declared in ls.describe(f"{problem}/{name}").options or ():
            if declared.name == "tol":
                assert declared.expects == "a number > 0, or None"
                assert f"none: {tolerance}" in declared.help
            elif declared.name == "form":
                for form in declared.choices or ():
                    ls.Moments(np.eye(3), form=form)
            elif declared.name == "max_iterations":
                assert (declared.kind, declared.at_least) == (int, 1)
    with pytest.raises(LinspecError):
        ls.Moments(np.eye(3), form="held")
