"""Options: what a declaration accepts and refuses, says, and reads from a command line."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linspec
from linspec.errors import InvalidDeclaration, InvalidOption, LinspecError, UnknownOption
from linspec.registry.options import (
    RUN_ARGUMENTS,
    build,
    invalid_values,
    option,
    options_of,
    parse,
    part,
    validate,
)

if TYPE_CHECKING:
    from nowhere import Nothing


class Inner:
    def solve(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Method:
    step: float | None = option(None, "step length; None: from the data", above=0)
    tol: float = option(1e-8, "stop at this residual", above=0, below=1)
    ridge: float = option(0.0, "ridge", at_least=0, below=math.inf)
    share: float = option(0.5, "share", at_least=0, at_most=1)
    rank: int = option(10, "rank", at_least=1, at_most=512)
    cap: int | None = option(None, "cap", kind=int, at_least=0)
    exact: bool = option(False, "exactly")
    side: str = option("left", "side", choices=("left", "right"))
    label: str | None = option(None, "label", kind=str)
    power: int = option(1, "power", choices=(1, 2, 4))
    lstsq: str | Inner = part("ling", "inner solver", problem="least-squares")
    normalizer: Nothing = part(None, kind="normalizer")

    def __post_init__(self) -> None:
        validate(self)


BY_NAME = {declared.name: declared for declared in options_of(Method)}


def test_the_defaults_are_valid_and_annotations_are_never_evaluated() -> None:
    method = Method()  # the annotation Nothing names a module that does not exist
    assert method.tol == 1e-8
    with pytest.raises(FrozenInstanceError):
        method.tol = 1.0


def test_options_come_in_order_of_declaration_with_all_that_was_said() -> None:
    assert list(BY_NAME)[:3] == ["step", "tol", "ridge"]
    assert options_of(Method) == options_of(Method())
    step, lstsq = BY_NAME["step"], BY_NAME["lstsq"]
    assert (step.kind, step.optional, step.default, step.above) == (float, True, None, 0)
    assert step.help == "step length; None: from the data"
    assert (lstsq.part_kind, lstsq.part_problem, lstsq.default) == ("solver", "least-squares", "ling")


@pytest.mark.parametrize(
    ("name", "constraint"),
    [
        ("step", "> 0"),
        ("tol", "> 0, < 1"),
        ("ridge", ">= 0, finite"),
        ("share", ">= 0, <= 1"),
        ("side", "in {left, right}"),
        ("power", "in {1, 2, 4}"),
        ("exact", ""),
    ],
)
def test_a_constraint_in_words(name: str, constraint: str) -> None:
    assert BY_NAME[name].constraint == constraint


@pytest.mark.parametrize(
    "options",
    [
        {"step": 3},  # an integer is a number
        {"step": None},
        {"step": np.float32(0.5), "tol": np.float64(0.5), "rank": np.int16(3)},
        {"step": Fraction(1, 3)},
        {"step": 10**400},  # does not fit a double, is a number above 0 all the same
        {"step": math.inf},
        {"share": 0.0},
        {"share": 1},
        {"rank": 512},
        {"side": "right", "exact": True, "label": "x"},
        {"lstsq": Inner(), "normalizer": "qr"},
    ],
)
def test_values_that_are_accepted_are_kept_as_they_are(options: dict[str, Any]) -> None:
    method = Method(**options)
    for name, value in options.items():
        assert getattr(method, name) is value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", 0),
        ("step", -0.0),
        ("step", True),
        ("step", math.nan),
        ("step", np.float32("nan")),
        ("step", "1"),
        ("step", 1j),
        ("tol", None),
        ("tol", 1.0),
        ("ridge", math.inf),
        ("ridge", -1e-300),
        ("rank", 0),
        ("rank", 513),
        ("rank", 3.0),
        ("rank", False),
        ("exact", 1),
        ("exact", np.True_),
        ("side", "Left"),
        ("side", ["left"]),
        ("label", 3),
        ("power", 3),
        ("power", np.ones(2)),
        ("lstsq", ""),
        ("lstsq", Inner),  # the class has no options; an instance is meant
        ("lstsq", None),
        ("normalizer", Inner()),  # a solver is no normalizer
    ],
)
def test_values_that_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption) as caught:
        Method(**{name: value})
    message = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LinspecError)
    assert name in message
    assert "Method" in message  # whose
    assert repr(value) in message  # what was got
    assert "default" in message  # the remedy


def test_a_refusal_states_the_range() -> None:
    with pytest.raises(
        InvalidOption, match=r"'step' of Method must be a number > 0, or None; got -1 \(int\)"
    ):
        Method(step=-1)
    with pytest.raises(InvalidOption, match="the name of a least-squares solver or an instance of one"):
        Method(lstsq=3)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_generated_invalid_value_is_refused(name: str) -> None:
    values = invalid_values(BY_NAME[name])
    assert values
    for value in values:
        with pytest.raises(InvalidOption):
            Method(**{name: value})


def test_generated_invalid_values_sit_on_the_bounds() -> None:
    assert 0 in invalid_values(BY_NAME["step"])
    assert {0, 513} <= {value for value in invalid_values(BY_NAME["rank"]) if isinstance(value, int)}
    assert math.nextafter(1.0, 2.0) in invalid_values(BY_NAME["share"])
    assert None in invalid_values(BY_NAME["tol"])
    assert None not in invalid_values(BY_NAME["step"])


@given(st.floats(allow_nan=True), st.floats(-10, 10), st.floats(-10, 10))
def test_bounds_mean_what_they_say(value: float, low: float, high: float) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Between:
        x: float | None = option(None, "x", above=low, at_most=high)

    (declared,) = options_of(Between)
    try:
        declared.check(value)
    except InvalidOption:
        accepted = False
    else:
        accepted = True
    assert accepted == (low < value <= high)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("step", "none", None),
        ("step", "None", None),
        ("step", "1e-3", 1e-3),
        ("rank", "7", 7),
        ("exact", "yes", True),
        ("exact", "False", False),
        ("side", "right", "right"),
        ("power", "4", 4),
        ("lstsq", "gram", "gram"),
        ("normalizer", "none", None),
    ],
)
def test_reading_from_the_command_line(name: str, text: str, value: Any) -> None:
    parsed = parse(BY_NAME[name], text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("step", "fast"), ("step", "0"), ("tol", "none"), ("rank", "1.5"), ("exact", "maybe"), ("power", "3")],
)
def test_text_that_is_no_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        parse(BY_NAME[name], text)


def test_build_is_the_constructor_with_better_errors() -> None:
    assert build(Method, {"rank": 3}) == Method(rank=3)
    with pytest.raises(UnknownOption, match="Did you mean 'rank'") as caught:
        build(Method, {"rnak": 3})
    assert isinstance(caught.value, TypeError)
    assert "normalizer" in str(caught.value)  # it lists them
    with pytest.raises(InvalidOption):
        build(Method, {"rank": 0})


def test_build_says_where_a_run_argument_belongs() -> None:
    with pytest.raises(UnknownOption, match=r"argument of linspec\.solve"):
        build(Method, {"max_passes": 3})


def test_the_run_arguments_are_those_of_the_call() -> None:
    named = {*inspect.signature(linspec.solve).parameters} - {"options_"}
    assert named == RUN_ARGUMENTS


@pytest.mark.parametrize(
    "declare",
    [
        lambda: option(None, "of which type?"),
        lambda: option(-1.0, "its own default is refused", above=0),
        lambda: option("up", "not a choice", choices=("left", "right")),
        lambda: option("text", "bounds on a text", above=0),
        lambda: option([1], "a list"),
        lambda: option(None, "nothing to choose", kind=str, choices=()),
        lambda: part("ling"),  # which problem?
        lambda: part("qr", kind="normalizer", problem="cca"),
        lambda: part("qr", kind="normaliser"),
        lambda: part(3, problem="cca"),
    ],
)
def test_a_declaration_that_contradicts_itself_fails_where_it_is_written(declare: Any) -> None:
    with pytest.raises(InvalidDeclaration):
        declare()


def test_a_field_that_is_no_option_is_an_error_of_the_author() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Bare:
        tol: float = 1e-8

    with pytest.raises(InvalidDeclaration, match=r"'tol' of Bare .* option\("):
        options_of(Bare)
    with pytest.raises(InvalidDeclaration, match="@dataclass"):
        options_of(int)


def test_options_are_inherited() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Special(Method):
        extra: float = option(1.0, "more", above=0)

    assert [declared.name for declared in options_of(Special)] == [*BY_NAME, "extra"]


def test_declaring_needs_no_array_library() -> None:
    modules = "linspec.registry.options, linspec.registry.spec, linspec.registry.hookspecs"
    code = f"import sys, {modules}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- what most solvers declare alike -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Usual:
    tol: float | None = linspec.tol_option(1e-8)
    max_iterations: int = linspec.limit_option(20, "epochs")
    form: str = linspec.form_option("implicit")


def test_the_makers_declare_what_a_solver_needs():
    tol, limit, form = options_of(Usual)
    assert (tol.default, tol.expects) == (None, "a number > 0, or None")
    assert "1e-8" in tol.help
    assert (limit.default, limit.expects, limit.help) == (20, "an integer >= 1", "epochs at most")
    assert form.default == "implicit"
    with pytest.raises(InvalidOption):
        validate(Usual(max_iterations=0))
    with pytest.raises(InvalidDeclaration):
        linspec.form_option("spares")


def test_a_form_is_what_moments_take():
    for form in options_of(Usual)[2].choices:
        linspec.Moments(np.eye(3), form=form)
    with pytest.raises(LinspecError):
        linspec.Moments(np.eye(3), form="held")


@pytest.mark.parametrize("problem", linspec.problems())
def test_the_built_in_solvers_declare_them_alike(problem):
    tolerance = linspec.get_problem(problem).tolerance
    for name in linspec.solvers(problem):
        for declared in linspec.describe(f"{problem}/{name}").options:
            if declared.name == "tol":
                assert declared.constraint == "> 0"
                assert f"none: {tolerance:.0e}".replace("e-0", "e-") in declared.help
            elif declared.name == "form":
                assert declared.choices == options_of(Usual)[2].choices
            elif declared.name == "max_iterations":
                assert (declared.kind, declared.at_least) == (int, 1)
