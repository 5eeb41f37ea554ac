"""Records: what a declaration may say."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from linspec.errors import InvalidDeclaration
from linspec.registry import hookspecs
from linspec.registry.spec import KINDS, resolve
from linspec.registry.spec import Needs, NormalizerSpec, OperatorSpec, SolverSpec, Spec, TestMatrixSpec

FACTS: dict[str, Any] = {
    "name": "two-stage",
    "target": "acme.two_stage:TwoStage",
    "summary": "Solves in two stages.",
    "reference": "Golub 1973",
}


def solver(**changes: Any) -> SolverSpec:
    return SolverSpec(**{**FACTS, "problem": "cca", **changes})


def test_qualified_names() -> None:
    assert solver().qualified == "cca/two-stage"
    assert NormalizerSpec(**FACTS).qualified == "normalizer/two-stage"
    assert TestMatrixSpec(**FACTS).qualified == "test-matrix/two-stage"


def test_a_record_is_a_value() -> None:
    assert solver() == solver()
    assert len({solver(), solver(), solver(name="other")}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver().name = "x"


def test_what_a_solver_needs_unless_it_says_otherwise() -> None:
    assert solver().needs == Needs(adjoint=True, diagonal=False, dense=False, entries=False, rows=False)
    assert str(Needs(dense=True)) == "adjoint, dense"
    assert str(Needs(adjoint=False)) == "forward products only"


@pytest.mark.parametrize("name", ["gram", "l-cca", "lobpcg", "2-means", "a1-b2-c3"])
def test_names(name: str) -> None:
    assert solver(name=name).name == name


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "L-CCA"},
        {"name": "l_cca"},
        {"name": "-cca"},
        {"name": "l--cca"},
        {"name": "cca/gram"},
        {"name": "acme:gram"},
        {"name": "gram\n"},
        {"name": 3},
        {"problem": "least squares"},
        {"problem": "normalizer"},  # "normalizer/x" must mean a normalizer
        {"problem": None},
        {"target": "acme.two_stage"},
        {"target": "acme.two_stage:"},
        {"target": ":TwoStage"},
        {"target": "acme..two:Stage"},
        {"target": "acme two:Stage"},
        {"target": dict},
        {"summary": " "},
        {"reference": None},
        {"needs": {"adjoint": True}},
        {"traits": ["direct"]},
        {"traits": "direct"},
        {"traits": ("driect",)},
    ],
)
def test_a_malformed_record_is_refused_and_says_what_it_got(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        solver(**changes)
    assert isinstance(caught.value, ValueError)
    (value,) = changes.values()
    got = value[0] if changes.get("traits") == ("driect",) else value
    assert repr(got) in str(caught.value)


@pytest.mark.parametrize("kind", [NormalizerSpec, TestMatrixSpec])
def test_parts_are_checked_alike(kind: Any) -> None:
    with pytest.raises(InvalidDeclaration):
        kind(**{**FACTS, "name": "Bad Name"})
    with pytest.raises(InvalidDeclaration):
        kind(**{**FACTS, "traits": ("fast",)})


def test_adapters_are_functions() -> None:
    good = {"name": "dask", "summary": "dask arrays", "matches": callable, "adapt": repr}
    assert OperatorSpec(**good).qualified == "operator/dask"
    with pytest.raises(InvalidDeclaration, match="adapt"):
        OperatorSpec(**{**good, "adapt": "acme:adapt"})
    assert OperatorSpec(**good).sample is None
    assert OperatorSpec(**good, sample="acme.data:sample").sample == "acme.data:sample"
    for wrong in ("acme", sum, ""):
        with pytest.raises(InvalidDeclaration, match=r"sample must be a string 'package.module:function'"):
            OperatorSpec(**good, sample=wrong)


def test_needs_are_yes_or_no() -> None:
    with pytest.raises(InvalidDeclaration, match="dense"):
        Needs(dense="yes")


def test_pytest_leaves_the_record_of_test_matrices_alone() -> None:
    assert TestMatrixSpec.__test__ is False


def test_the_table_of_kinds_agrees_with_the_records_and_the_hooks() -> None:
    """Records are a union for type checkers, hooks are functions for pluggy: both say what the table says."""
    assert {kind.record for kind in KINDS.values()} == set(get_args(Spec))
    assert all(name == kind.record.kind for name, kind in KINDS.items())
    declared = {name for name in vars(hookspecs) if name.startswith("linspec_")}
    assert {kind.hook for kind in KINDS.values()} == declared


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.base])
def test_a_base_class_can_be_imported_and_has_the_method_of_its_kind(name: str) -> None:
    base = resolve(KINDS[name].base)
    assert isinstance(base, type)
    assert callable(getattr(base, KINDS[name].method or "__init__"))


@pytest.mark.parametrize("name", KINDS)
def test_no_problem_has_the_name_of_a_kind(name: str) -> None:
    with pytest.raises(InvalidDeclaration, match="name of a kind"):
        solver(problem=name)
