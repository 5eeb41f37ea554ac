"""Checks of a kind of problem by other problems that must have the same answer.

Problem: weights, confounds, scale, means, files and held-out rows come to a problem by a few declarations. If one of
them is wrong or missing, every solver finds the answer to another problem, with a residual of zero.
Method: theorems, computed without linspec. A weight of three is three equal rows. Data with confounds have the same
answer as the residuals of a regression on the confounds (Frisch & Waugh 1933). Scaled data have the same answer as
columns divided by their root mean squares, and shifted columns the same answer as the columns. NumPy computes the plain
data; the oracle of the problem judges the answer to the given data as an answer to the plain data. Scores of rows
(`transform`) are compared with the scores that the plain answer gives to the plain rows. Their inner products are
compared, which do not depend on signs.
Source: Frisch & Waugh 1933, Econometrica 1(4), doi:10.2307/1907330; metamorphic testing, Chen, Cheung & Yiu 1998.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import linspec
from linspec import registry
from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import LinspecError, MissingCapability, UnknownName
from linspec.registry.spec import resolve
from linspec.solving.fields import Layout, each_part
from linspec.solving.solution import values_by_matrix, weights_by_matrix
from linspec.solving.solver import Solver
from linspec.studies.held_out.scores import HeldOutScore
from linspec.testing.behaviour import ANSWERED, Skip, check_units
from linspec.testing.family import ProblemTesting, testing_of
from linspec.testing.oracle import Reading, as_host
from linspec.testing.problems import Case
from linspec.testing.process import left_behind, moved_generators, unexpected_warnings
from linspec.testing.solving import Attempt, Subject, attempt

__all__ = ["EQUIVALENCE_CHECKS", "Solved"]

AGREE = 1e-6
"""Largest difference of the inner products of two answers' scores, relative to the norm of the right inner products, if
both residuals are 0. Otherwise 30 times the root of the larger residual is added."""

NEW_ROWS = 9
"""Number of new rows whose scores are compared."""

PAIRED_ROWS, STRONG = 60, 3.0
"""Number of rows that are permuted and drawn, and the strength of their common variable beside noise of variance 1."""

PERMUTATIONS, DRAWS = 9, 12
"""Numbers of permutations and draws: the chance of a failure by chance is 1e-3, or less."""


@dataclass(frozen=True)
class Equivalent:
    """A problem on data with weights, confounds, scale or shifted columns, and the plain problem with the same answer.

    Attributes
    ----------
    arrays : mapping of str to numpy.ndarray
    parameters : mapping of str
        Weights, confounds and scale.
    plain : Case
    rows, plain_rows : mapping of str to numpy.ndarray
        New rows for the answer and for the plain answer, which must have the same scores.
    beside : mapping of str
        Further arguments of `transform`: the confounds of the rows.
    scales : mapping of str to numpy.ndarray
        The divisors of the columns of plain matrices.
    """

    arrays: Mapping[str, HostArray]
    parameters: Mapping[str, Any]
    plain: Case
    rows: Mapping[str, HostArray]
    plain_rows: Mapping[str, HostArray]
    beside: Mapping[str, Any] = field(default_factory=dict)
    scales: Mapping[str, HostArray] = field(default_factory=dict)


class Solved:
    """A kind of problem for the checks of this module: its solvers, its first well-conditioned case, and the answer.

    The solver in use is an exact one, if there is any. The case, and the answer of this solver to the case, are
    computed when they are first used.

    Parameters
    ----------
    spec : ProblemSpec
        The record of the problem.
    cls : type
        The class of the problem.
    """

    def __init__(self, spec: Any, cls: Any) -> None:
        self.spec, self.cls = spec, cls

    @cached_property
    def testing(self) -> ProblemTesting:
        """The cases and the oracle of the problem; Skip if they cannot be used."""
        if not self.spec.testing:
            raise Skip("the record names no oracle")
        found = testing_of(self.spec.name)
        if found.missing():
            raise Skip(found.missing())
        cases = found.cases()
        if not cases or any(case.problem != self.spec.name for case in cases):
            raise Skip("the cases are not those of the problem")
        fields = {each.name for each in dataclasses.fields(self.cls.solution)}
        if not fields.issuperset([*self.layout.means.values(), *filter(None, self.layout.scaled.values())]):
            raise Skip("the fields are not those of the answer")
        oracle = found.oracle(cases[0], Reading())
        if not all(hasattr(oracle, name) for name in ("law", "errors")):
            raise Skip("the oracle has no law or no errors")
        return found

    @property
    def layout(self) -> Layout:
        """The declared fields of the answer."""
        found: Layout = self.cls.solution.layout
        return found

    @cached_property
    def subjects(self) -> list[Subject]:
        """The solvers of the problem, exact ones first, direct ones before others."""
        found: list[Subject] = []
        names: tuple[str, ...] = ()
        with suppress(UnknownName):  # where the problem has no solver yet
            names = registry.solvers(self.spec.name)
        for name in names:
            spec = registry.get_spec("solver", name, self.spec.name)
            cls: Any = registry.get_part("solver", name, self.spec.name)
            found.append(Subject(name=name, spec=spec, cls=cls))
        return sorted(found, key=lambda subject: (not subject.exact, not subject.trait("direct")))

    @property
    def subject(self) -> Subject:
        """The first of the solvers; Skip if there is none."""
        if not self.subjects:
            raise Skip("the problem has no solver here")
        return self.subjects[0]

    @property
    def exact(self) -> Subject:
        """An exact solver; Skip if there is none."""
        if not self.subject.exact:
            raise Skip("the problem has no exact solver here")
        return self.subject

    @cached_property
    def case(self) -> Case:
        """The first float64 case that is gentle (condition numbers of at most about ten), without large column means.

        The parameter `left` of the case, if it has one, is set to False: vectors with an entry for each training row
        cannot be compared if equivalent data have other rows.
        """
        for case in self.testing.cases():
            if (
                case.gentle
                and case.main.dtype == np.float64
                and not case.dense_offset
                and len(case.main) > NEW_ROWS
            ):
                left = {"left": False} if "left" in case.parameters else {}
                return replace(case, parameters={**case.parameters, **left})
        raise Skip("no case is gentle and of float64")

    def has(self, name: str) -> bool:
        """Whether the problem has a parameter."""
        return any(each.name == name for each in dataclasses.fields(self.cls))

    def centring(self, centred: bool) -> Case:
        """Return the case with or without centring."""
        center = {"center": centred} if self.has("center") else {}
        return replace(self.case, parameters={**self.case.parameters, **center}, truth={})

    def solve(self, arrays: Mapping[str, HostArray], parameters: Mapping[str, Any]) -> Attempt:
        """Solve the case on other arrays, with other parameters."""
        try:
            problem = replace(self.case, arrays=arrays, parameters=parameters, truth={}).state(
                {name: copy.copy(array) for name, array in arrays.items()}
            )
        except LinspecError as error:
            return Attempt(error=error)
        return attempt(problem, self.subject.make(), rng=0)

    @cached_property
    def solution(self) -> Any:
        """The answer to the case; Skip if there is none (the solver's own checks report it)."""
        result = self.solve(self.case.arrays, self.case.parameters)
        if result.error is not None:
            raise Skip(f"{self.subject.name} does not solve {self.case.name}") from result.error
        return result.solution

    @property
    def centrings(self) -> dict[str, bool]:
        """Values of `center` to test, by their descriptions in messages: both if the problem has the parameter."""
        if self.has("center"):
            return {"": False, "centring, ": True}
        return {"": bool(getattr(self.case.state(dict(self.case.arrays)), "center", False))}

    def scores(self, solution: Any, rows: Mapping[str, Any], **beside: Any) -> list[HostArray]:
        """Return the blocks that `transform` gives for rows of the matrices that it takes."""
        known = inspect.signature(solution.transform).parameters
        if any(each.kind is each.VAR_KEYWORD for each in known.values()):
            given = {name: rows[name] for name in weights_by_matrix(solution)}
        else:
            given = {name: value for name, value in rows.items() if name in known}
        found = solution.transform(**(given or dict(zip(known, rows.values(), strict=False))), **beside)
        return [as_host(block) for block in (found if isinstance(found, tuple | list) else [found])]


# ---- the same answer --------------------------------------------------------------------------


def _rows(case: Case) -> dict[str, HostArray]:
    """Make some rows that were not fitted."""
    rng = np.random.default_rng(21)
    return {
        name: array[:NEW_ROWS] + 0.1 * array.std() * rng.standard_normal((NEW_ROWS, *array.shape[1:]))
        for name, array in case.arrays.items()
    }


def _equivalent(
    solved: Solved, centred: bool, *, weights: bool = False, confounds: bool = False, scale: bool = False
) -> Equivalent:
    """Make the case with weights, confounds and scale, and the plain case with the same answer."""
    case, rows, rng = solved.centring(centred), _rows(solved.case), np.random.default_rng(20)
    n = len(case.main)
    counts = rng.integers(0, 4, n) if weights else np.ones(n, dtype=int)
    Z, Z_rows = rng.standard_normal((n, 2)) + 3.0, rng.standard_normal((NEW_ROWS, 2)) + 3.0
    parameters = dict(case.parameters)
    parameters |= {"sample_weight": counts.astype(np.float64)} if weights else {}
    parameters |= {"confounds": Z} if confounds else {}
    parameters |= {"scale": True} if scale else {}
    # The means, if the problem centres, and the fit to the confounds are subtracted from the rows.
    design, design_rows = (
        np.hstack([np.ones((len(B), int(centred))), *([B] if confounds else [])]) for B in (Z, Z_rows)
    )
    D = np.repeat(design, counts, axis=0)
    plain, plain_rows, scales = {}, {}, {}
    for name, array in case.arrays.items():
        A = np.repeat(array, counts, axis=0)
        taken = np.linalg.lstsq(D, A, rcond=None)[0] if D.shape[1] else np.zeros((0, *A.shape[1:]))
        left = A - D @ taken
        if scale and solved.cls.stated.field_of(name) in solved.layout.scaled:
            scales[name] = np.sqrt((left**2).mean(axis=0))
        by = scales.get(name, 1.0)
        plain[name], plain_rows[name] = left / by, (rows[name] - design_rows @ taken) / by
    beside = {"confounds": Z_rows} if confounds else {}
    same = replace(solved.centring(False), arrays=plain)  # the means are subtracted already
    return Equivalent(case.arrays, parameters, same, rows, plain_rows, beside, scales)


def _issues(solved: Solved, pair: Equivalent) -> Iterator[str]:
    """Yield differences between the answers to a problem and to the plain problem."""
    subject = solved.exact
    with_all = solved.solve(pair.arrays, pair.parameters)
    plain = solved.solve(pair.plain.arrays, pair.plain.parameters)
    for result in (with_all, plain):
        if result.error is not None:
            yield f"{subject.name} {result.raised}"
            return
    found = with_all.solution
    oracle = solved.testing.oracle(pair.plain, Reading())
    if plain.solution.converged and not found.converged:
        yield f"{subject.name} must solve it, as it solves the plain data; got {found.status.name}"
        return
    for matrix, scale in pair.scales.items():
        field = solved.cls.stated.field_of(matrix)
        name = solved.layout.scaled[field]
        rows = len(values_by_matrix(found, name, field)[matrix]) if name else len(scale)
        if rows != len(scale):
            yield (
                f"{name} must have a row for each column of {matrix}, as it is declared; it has {rows} rows, and "
                f"{matrix} has {len(scale)} columns"
            )
            return
    judged = _on_plain_columns(solved, found, pair.scales)
    law = oracle.law(judged)
    if found.layout.certified and law.contradicts(found.residual, found.residual_kind):
        yield f"{subject.name} claims residual {found.residual:.3g}; on the plain data it has {law.residual:.3g}"
    if found.converged:
        yield from (f"{subject.name}: {issue}" for issue in oracle.errors(judged))
    yield from _transform_issues(solved, pair, found, plain.solution)


def _on_plain_columns(solved: Solved, solution: Any, scales: Mapping[str, HostArray]) -> Any:
    """Convert an answer for the given columns to an answer for the plain columns, which are divided by `scales`.

    The weights of each column are multiplied by its scale, and fields in units of the columns are divided by it. Fields
    with an entry for each training row become None.
    """
    twin = copy.copy(solution)
    for name, axes in solution.layout.shapes.items():
        if "n" in axes.split():
            object.__setattr__(twin, name, None)
    for matrix, scale in scales.items():
        field = solved.cls.stated.field_of(matrix)
        name = solved.layout.scaled[field]
        if name:
            parts = values_by_matrix(twin, name, field)
            W = as_host(parts[matrix])
            parts[matrix] = W * scale.reshape(-1, *[1] * (W.ndim - 1))
            several = isinstance(getattr(twin, name), tuple)
            object.__setattr__(twin, name, tuple(parts.values()) if several else parts[matrix])
        for each in solved.layout.in_units.get(matrix, ()):
            value = getattr(twin, each)
            object.__setattr__(twin, each, None if value is None else as_host(value) / scale[:, None])
    return twin


def _transform_issues(solved: Solved, pair: Equivalent, found: Any, plain: Any) -> Iterator[str]:
    """Yield differences between the scores that two equivalent answers give to the same new rows.

    The answer `found` gets the rows as they are (`pair.rows`). The answer `plain` gets the rows after means and
    confounds are subtracted and the scale is applied (`pair.plain_rows`).
    """
    if not callable(getattr(found, "transform", None)):
        return
    try:
        scores = solved.scores(found, pair.rows, **pair.beside)
    except Exception as error:  # noqa: BLE001 (whatever it raises is reported)
        yield f"transform({', '.join(['rows', *pair.beside])}) raised {type(error).__name__}: {error}"
        return
    wanted = solved.scores(plain, pair.plain_rows)
    residuals = [r for r in (found.residual, plain.residual) if r > 0]  # the law may give NaN
    allowed = AGREE + 30 * math.sqrt(max(residuals, default=0.0))
    for number, (got, right) in enumerate(zip(scores, wanted, strict=True)):
        size = float(np.linalg.norm(right @ right.T))
        off = float(np.linalg.norm(got @ got.T - right @ right.T)) / size if size else math.inf
        if not off <= allowed:
            block = "" if len(scores) == 1 else f" (block {number} of {len(scores)})"
            yield (
                f"transform{block} must give the scores that the plain answer gives to the plain rows; their inner "
                f"products differ by {off:.2g} of their norm. Subtract the means and the fit to the confounds from "
                "the rows, and divide them by the scale, before the weights"
            )


def _all_issues(solved: Solved, what: str, **taken: bool) -> Iterator[str]:
    for where, centred in solved.centrings.items():
        issues = _issues(solved, _equivalent(solved, centred, **taken))
        yield from (f"{where}{what}: {issue}" for issue in issues)


def check_weights(solved: Solved) -> Iterator[str]:
    """A row of weight 3 counts as three rows, a row of weight 0 not at all."""
    if not solved.has("sample_weight"):
        raise Skip("the problem has no weights")
    if solved.cls.stated.adjusts_rows:  # else an answer for repeated rows may have an entry for each of them
        yield from _all_issues(solved, "weights as repeated rows", weights=True)
    n = len(solved.case.main)
    for what, w in {
        "a negative weight": np.r_[-1.0, np.ones(n - 1)],
        "a weight that is NaN": np.r_[np.nan, np.ones(n - 1)],
        "a weight too few": np.ones(n - 1),
    }.items():
        error = solved.solve(solved.case.arrays, {**solved.case.parameters, "sample_weight": w}).error
        if not isinstance(error, LinspecError):
            yield f"{what} must be refused with an error of linspec.errors; got {error!r}. Call super().__post_init__()"


def check_confounds(solved: Solved) -> Iterator[str]:
    """Data with confounds have the same answer as the residuals of a regression on the confounds."""
    if not solved.has("confounds"):
        raise Skip("the problem has no confounds")
    yield from _all_issues(solved, "confounds as residuals", confounds=True)


def check_scale(solved: Solved) -> Iterator[str]:
    """Scaled data have the same answer as columns over their root mean squares, also with weights and confounds."""
    if not solved.has("scale"):
        raise Skip("the problem has no scale")
    if not solved.layout.scaled:
        yield (
            f"{solved.cls.solution.__name__} must declare weights by linspec.field(rows_of=..., leading=True): scale "
            "divides the columns of these matrices; it declares none. Declare them"
        )
        return
    yield from _all_issues(solved, "scale as scaled columns", scale=True)
    if solved.has("sample_weight") and solved.has("confounds"):
        yield from _all_issues(
            solved, "weights, confounds and scale", weights=True, confounds=True, scale=True
        )


def check_shift(solved: Solved) -> Iterator[str]:
    """If the problem centres, a number added to a column changes neither the answer nor the scores of rows."""
    if not (solved.layout.means and any(solved.centrings.values())):
        raise Skip("the problem does not centre")
    pair, rng = _equivalent(solved, centred=True), np.random.default_rng(22)
    added = {name: rng.uniform(1, 2, A.shape[1:]) * A.std() for name, A in pair.arrays.items()}
    moves = {
        name: move * (solved.cls.stated.field_of(name) in solved.layout.means) for name, move in added.items()
    }
    shifted = {name: A + moves[name] for name, A in pair.arrays.items()}
    rows = {name: A + moves[name] for name, A in pair.rows.items()}
    pair = replace(pair, arrays=shifted, rows=rows)
    yield from (f"columns that were shifted: {issue}" for issue in _issues(solved, pair))


# ---- scores of rows, files, held-out rows -----------------------------------------------------


def check_transform(solved: Solved) -> Iterator[str]:
    """The scores of a row do not depend on the other rows, nor on the kind of data, and are not all zero."""
    solution = solved.solution
    if not callable(getattr(solution, "transform", None)):
        raise Skip("the answer has no transform")
    rows = _rows(solved.case)
    whole = solved.scores(solution, rows)
    forms: list[tuple[str, Callable[[HostArray], Any], slice]] = [
        ("of single rows", lambda A: A[3:4].copy(), slice(3, 4)),
        ("of other rows", lambda A: A[::-1].copy(), slice(None, None, -1)),
        ("of float32 rows", lambda A: A.astype(np.float32), slice(None)),
        ("of sparse rows", lambda A: scipy.sparse.csr_array(A) if A.ndim == 2 else A, slice(None)),
    ]
    for number, block in enumerate(whole):
        if len(block) != NEW_ROWS or not np.all(np.isfinite(block)) or not np.any(block):
            yield f"transform must give {NEW_ROWS} rows of finite scores that are not all zero; block {number} is not"
            return
    for what, form, kept in forms:
        try:
            parts = solved.scores(solution, {name: form(A) for name, A in rows.items()})
        except LinspecError as error:
            if what == "of sparse rows":
                continue  # a kernel may need entries
            yield f"transform {what} raised {type(error).__name__}: {error}"
            continue
        unit = 1e-4 if "float32" in what else AGREE
        for block, part in zip(whole, parts, strict=True):
            if (
                part.shape != block[kept].shape
                or np.abs(part - block[kept]).max() > unit * np.abs(block).max()
            ):
                yield f"transform {what} must give the scores that all rows have together; it gives others"


def check_saved(solved: Solved) -> Iterator[str]:
    """An answer that is saved and loaded has the same fields, to the last bit, and gives the same scores."""
    solution = solved.solution
    with tempfile.TemporaryDirectory(prefix="linspec-") as folder:
        path = Path(folder) / "answer.npz"
        try:
            solution.save(path)
            back = linspec.load_solution(path)
        except Exception as error:  # noqa: BLE001 (whatever it raises is reported)
            yield f"an answer must be saved and loaded; raised {type(error).__name__}: {error}"
            return
    if type(back) is not type(solution):
        yield f"an answer must be loaded as {type(solution).__name__}; got {type(back).__name__}"
        return
    for each in dataclasses.fields(solution):
        before, after = getattr(solution, each.name), getattr(back, each.name)
        if not _same(before, after):
            yield f"{each.name} of a loaded answer must be that of the saved one; it differs"
    if callable(getattr(solution, "transform", None)):
        rows = _rows(solved.case)
        pairs = zip(solved.scores(solution, rows), solved.scores(back, rows), strict=True)
        if any(a.tobytes() != b.tobytes() for a, b in pairs):
            yield "transform of a loaded answer must give the same scores, to the last bit; it gives others"


def _same(before: Any, after: Any) -> bool:
    """Whether two fields are equal: arrays in all bits, objects of other classes only in their types."""
    if is_array(before) or isinstance(before, np.ndarray):
        return bool(is_array(after)) and to_host(before).tobytes() == to_host(after).tobytes()
    if isinstance(before, Mapping):
        return {*before} == {*after} and all(_same(before[key], after[key]) for key in before)
    if isinstance(before, tuple | list):
        return len(before) == len(after) and all(map(_same, before, after))
    if before is None or isinstance(before, bool | int | float | str):
        return bool(before == after) or (before != before and after != after)  # noqa: PLR0124 (NaN)
    return type(before) is type(after)


def check_held_out(solved: Solved) -> Iterator[str]:
    """Each score of held-out rows exists and is finite; all but the first may refuse data by `MissingCapability`.

    If the score is a function of second moments, `cross_validate` must give the same scores from the moments of the
    rows (form "dense") as from solutions of a solver (form "solve").
    """
    scores = solved.cls.held_out_scores
    if not scores:
        raise Skip("the problem has no score of held-out rows")
    for name, place in scores.items():
        try:
            score = resolve(place)
        except Exception as error:  # noqa: BLE001 (an import may fail in any way)
            yield (
                f"held_out_scores[{name!r}] must be importable; {place} raised {type(error).__name__}: {error}. Write "
                "the place of a class, 'package.module:Class'"
            )
            continue
        if not (isinstance(score, type) and issubclass(score, HeldOutScore)):
            yield f"held_out_scores[{name!r}] must be a linspec.HeldOutScore; got {score!r}"
            continue
        first = name == next(iter(scores))
        yield from (f"the score {name!r}: {issue}" for issue in _score_issues(solved, name, score(), first))


def _score_issues(solved: Solved, name: str, score: HeldOutScore, first: bool) -> Iterator[str]:
    solver: Solver = solved.subject.make()
    found = {}
    for form in ("solve", *(("dense",) if score.by_moments else ())):
        problem = solved.case.state({key: array.copy() for key, array in solved.case.arrays.items()})
        arguments: dict[str, Any] = {"solver": solver} if form == "solve" else {}
        try:
            result = linspec.cross_validate(problem, score=name, form=form, splitter=3, rng=0, **arguments)
        except Exception as error:  # noqa: BLE001 (whatever it raises is reported)
            if isinstance(error, MissingCapability) and not first:
                return
            yield f"cross_validate(form={form!r}) raised {type(error).__name__}: {error}"
            continue
        found[form] = np.asarray(result.scores, dtype=np.float64)
        if not np.all(np.isfinite(found[form])):
            yield f"cross_validate(form={form!r}) must give finite scores; got {found[form].ravel()}"
    if len(found) == 2 and solved.subject.exact:
        gap = float(np.abs(found["solve"] - found["dense"]).max())
        if not gap <= 1e-4 * (1 + float(np.abs(found["solve"]).max())):
            yield f"scores from second moments must be those of solutions; they differ by {gap:.2g}"


def check_paired(solved: Solved) -> Iterator[str]:
    """A permutation test finds a component that all matrices share, and finds none in unrelated noise.

    A bootstrap draws rows of the matrices with the shared component. The first values of the draws must differ, and lie
    around the first value of the solution for all rows, or beside it by less than they differ: a maximum over fewer
    rows is larger.
    """
    names = list(solved.case.arrays)
    if len(names) < 2 or not solved.layout.value or not solved.has("sample_weight"):
        raise Skip("the problem has no values of several matrices with rows that may have weights")
    solver = solved.exact.make()

    def test(strength: float, seed: int) -> float:
        problem = _related(solved, strength, seed)
        found = linspec.permutation_test(problem, solver, permutations=PERMUTATIONS, rng=seed)
        return float(found.p_values[0]) if len(found.p_values) else 1.0

    least = 1 / (1 + PERMUTATIONS)
    p = test(STRONG, 0)
    if p > least:
        yield (
            f"a component that all matrices share must have the least p-value, {least:g}, in a permutation test; got "
            f"{p:g}. The values of the answer must depend on which rows are paired, and with_matrices return a problem "
            "on the matrices that it is given"
        )
    noise = [test(0.0, seed) for seed in (1, 2, 3)]
    if max(noise) <= least:
        yield (
            f"unrelated matrices must have larger p-values than {least:g} in some of {len(noise)} permutation tests; "
            f"all are {least:g}. Values must not depend on the order in which the rows come"
        )
    if solved.layout.weights:
        yield from _drawn_issues(linspec.bootstrap(_related(solved, STRONG, 0), solver, draws=DRAWS, rng=0))


def _related(solved: Solved, strength: float, seed: int) -> Any:
    """Make the case on rows of noise, with a common variable of the given strength in all columns."""
    rng = np.random.default_rng((24, seed))
    z = rng.standard_normal((PAIRED_ROWS, 1))
    arrays = {}
    for name, A in solved.case.arrays.items():
        signs = rng.choice([-1.0, 1.0], (1, A.shape[1]))
        arrays[name] = strength * z * signs + rng.standard_normal((PAIRED_ROWS, A.shape[1]))
    return replace(solved.case, arrays=arrays, truth={}).state(arrays)


def _drawn_issues(found: Any) -> Iterator[str]:
    """Yield faults of a bootstrap of rows with a strong common component."""
    value, drawn = as_host(getattr(found.solution, found.solution.layout.value))[0], found.drawn[:, 0]
    spread = drawn.max() - drawn.min()
    if not drawn.min() - spread < value < drawn.max() + spread:
        yield (
            f"the first value of drawn rows must lie around that of all rows, {value:.3g}; the draws are from "
            f"{drawn.min():.3g} to {drawn.max():.3g}. sample_weight must count rows"
        )


def check_process(solved: Solved) -> Iterator[str]:
    """Problem and answer print nothing, give no warnings, use no global generator and change no settings."""
    if solved.solution is None:  # read first, so that the check is skipped if there is none
        return
    rows = _rows(solved.case)

    def work() -> None:
        result = solved.solve(solved.case.arrays, solved.case.parameters)
        if callable(getattr(result.solution, "transform", None)):
            with suppress(LinspecError):  # the check "transform" reports it
                solved.scores(result.solution, rows)

    yield from left_behind(work)
    yield from unexpected_warnings(work)
    for owner in moved_generators(work):
        yield f"a problem must not use a global random generator; it used that of {owner}. Draw nothing"


# ---- the law and the oracle -------------------------------------------------------------------


class _Given(Solver):
    """A solver that returns given arrays."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays

    def solve(self, problem: Any, run: Any) -> Any:
        moments = run.moments("implicit")
        if callable(getattr(moments, "settle", None)):  # a kernel takes its scale from the rows
            moments.settle(run.rng)
        run.plan(setup=1.0)
        return run.finish(**self.arrays)


def _noisy(solved: Solved, solution: Any) -> dict[str, Any]:
    """Return the arrays of an answer that the law needs, with noise as large as their entries: they are no answer."""
    rng = np.random.default_rng(23)
    parameters = inspect.signature(solved.cls.conclude).parameters.values()
    needed = [
        each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty
    ]
    known = {each.name for each in dataclasses.fields(solved.cls.solution)}
    if not needed or not known.issuperset(needed):
        raise Skip("the law takes other arrays than an answer has")
    arrays = {name: getattr(solution, name) for name in needed}
    parts = [part for value in arrays.values() for part in (value if isinstance(value, tuple) else (value,))]
    if not all(map(is_array, parts)):
        raise Skip("the law takes other arrays than an answer has")

    def disturbed(value: Any) -> HostArray:
        host = as_host(value)
        found: HostArray = host + np.abs(host).max(initial=0.0) * rng.standard_normal(host.shape)
        return found

    return {name: each_part(value, disturbed) for name, value in arrays.items()}


def check_law(solved: Solved) -> Iterator[str]:
    """For arrays that are no answer, the laws of problem and oracle give large and equal residuals, in all units."""
    issues = list(_law_issues(solved, solved.case, solved.solution))
    yield from issues
    if issues or np.any(solved.case.parameters.get("ridge", 0.0)) or not solved.testing.bounded_entries:
        return  # a ridge is not scaled with the data, and a kernel depends on their unit
    for unit in ANSWERED:
        case = solved.case.with_arrays(lambda A, unit=unit: A * unit, solved.case.name)  # type: ignore[misc]
        result = solved.solve(case.arrays, case.parameters)
        if result.error is None:  # else the check "units" reports it
            found = _law_issues(solved, case, result.solution)
            yield from (f"data times {unit:g}: {issue}" for issue in found)


def _law_issues(solved: Solved, case: Case, solution: Any) -> Iterator[str]:
    """Disturb an answer to a case, and yield faults of the two residuals."""
    noisy = _Given(_noisy(solved, solution))
    problem = case.state({name: array.copy() for name, array in case.arrays.items()})
    result = attempt(problem, noisy, rng=0)
    if result.error is not None:
        yield f"the law must judge what a solver hands over; for disturbed arrays it {result.raised}"
        return
    found, tol = result.solution, solved.cls.tolerance
    law = solved.testing.oracle(case, Reading()).law(found)
    if not law.residual > max(tol, law.floor):
        yield (
            "the law of the oracle must have a residual above the tolerance for arrays that are no answer; got "
            f"{law.residual:.2g}. Compute it from the arrays of the answer"
        )
    if not found.residual > tol or found.converged:
        yield (
            "the law of the problem must have a residual above the tolerance for arrays that are no answer; got "
            f"{found.residual:.2g}, {found.status.name}. Compute it from the arrays that conclude takes, relative to "
            "the size of the data"
        )
    elif law.contradicts(found.residual, found.residual_kind):
        yield (
            f"the laws must agree for disturbed arrays; that of the problem has residual {found.residual:.3g}, "
            f"and that of the oracle {law.residual:.3g}"
        )


def check_oracle_errors(solved: Solved) -> Iterator[str]:
    """The oracle finds an error in a wrong answer: with a part missing, too long, or outside the span of the rows."""
    subject = solved.exact
    tried = 0
    for case in solved.testing.cases():
        if case.main.dtype != np.float64 or not subject.must_converge(case):
            continue
        result = attempt(
            case.state({name: array.copy() for name, array in case.arrays.items()}), subject.make(), rng=0
        )
        if result.solution is None or not result.solution.converged:
            continue
        oracle = solved.testing.oracle(case, Reading())
        for wrong in _wrong_answers(case, result.solution):
            tried += 1
            if oracle.errors(wrong):
                return
    if not tried:
        raise Skip(f"{subject.name} solves no case")
    yield (
        f"the oracle must report errors; it finds none in {tried} answers of {subject.name} that were made wrong "
        "(a component left out, or a part added that the data do not see). errors must compare them with the exact "
        "answer"
    )


def _wrong_answers(case: Case, solution: Any) -> Iterator[Any]:
    """Yield copies of an answer with one component less, longer vectors, or a part outside the span of the rows."""
    name = solution.layout.leading[0]
    given = getattr(solution, name)
    others = given[1:] if isinstance(given, tuple) else ()
    W = as_host(given[0] if others else given)
    axis = next((i for i, size in enumerate(W.shape) if size == case.main.shape[1]), None)
    unseen = np.linalg.svd(case.main.astype(np.float64), full_matrices=True)[2][-1]
    if axis is not None:
        outside = unseen.reshape([-1 if i == axis else 1 for i in range(W.ndim)])
        turned = W + np.linalg.norm(W) * outside
        yield _with(solution, {name: (turned, *others) if others else turned})
    yield _with(solution, {name: (1.01 * W, *others) if others else 1.01 * W})
    values = as_host(getattr(solution, solution.layout.value)) if solution.layout.value else np.zeros(0)
    if len(values) > 1:
        for kept in (slice(1, None), slice(None, -1)):
            fewer: dict[str, Any] = {solution.layout.value: values[kept]}
            for each in solution.layout.arrays:
                fewer[each] = each_part(
                    getattr(solution, each), partial(_components, kept, len(values), last=axis == 0)
                )
            yield _with(solution, fewer)


def _components(kept: slice, count: int, V: Any, *, last: bool) -> Any:
    """Return the components `kept` of an array V, whose axis of components has the length `count`.

    Of several axes with this length, the first is indexed, or the last if `last`. An array without such an axis, and
    None, are returned unchanged.
    """
    if V is None:
        return None
    host = as_host(V)
    along = [i for i, size in enumerate(host.shape) if size == count]
    if not along:
        return V
    place = along[-1 if last else 0]
    return host[tuple(kept if i == place else slice(None) for i in range(host.ndim))]


def _with(solution: Any, fields: Mapping[str, Any]) -> Any:
    twin = copy.copy(solution)
    for name, value in fields.items():
        object.__setattr__(twin, name, value)
    return twin


def check_units_of_problem(solved: Solved) -> Iterator[str]:
    """Data times 1e±50 are solved as well as the data themselves; data times 1e±75 are refused."""
    if not solved.testing.cases():
        raise Skip("there is no case")
    return check_units(solved.subject)


EQUIVALENCE_CHECKS: dict[str, Callable[[Solved], Iterator[str]]] = {
    "process": check_process,  # first: nothing is left behind by the others
    "law": check_law,
    "oracle-errors": check_oracle_errors,
    "weights": check_weights,
    "confounds": check_confounds,
    "scale": check_scale,
    "shift": check_shift,
    "units": check_units_of_problem,
    "transform": check_transform,
    "saved": check_saved,
    "held-out": check_held_out,
    "paired": check_paired,
}
"""The checks by equivalent problems, by their names in test ids and expected failures."""
