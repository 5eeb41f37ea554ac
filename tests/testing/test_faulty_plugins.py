"""The kit and plugins that are broken on purpose: the check of the broken promise fails, in words that help."""

from __future__ import annotations

import os
import random
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import linspec as ls
from linspec import Status, registry
from linspec.arrays import to_host
from linspec.cli import main
from linspec.cost import sweeps_estimate
from linspec.iteration import Iterate
from linspec.operators import RowFiles
from linspec.testing import kit, run_checks
from tests import faulty_plugins as f
from tests import resources
from tests.faulty_plugins import after, answering, of, part, problem, same, solver, twisted


@pytest.fixture
def fresh_registry(monkeypatch):
    """A registry of its own, so that faulty plugins are registered for nobody else."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)


@dataclass(frozen=True)
class Fault:
    """A faulty plugin: what its author would say, how it is registered, the check that finds it, and what that says."""

    sentence: str
    register: Callable[[], str]
    check: str
    says: str
    limit: float = 60.0


def raising(error: type[Exception]) -> Callable[..., Any]:
    def work(arrays: Any, problem: Any, moments: Any) -> Any:
        if type(arrays["x"]) is not np.ndarray:
            raise error("list index out of range")

    return work


def keeps_in_a_list(arrays, problem, moments):
    f.KEPT.append(np.array(to_host(problem.A.dense())))


def keeps_its_answer(self, problem, moments, context, start):
    kept, key = vars(self).setdefault("kept", {}), problem.A.shape
    if key not in kept:
        kept[key] = next(f.Honest.iterate(self, problem, moments, context, start)).arrays()
    yield Iterate(0.0, lambda: kept[key], final=True)


def source(problem: Any) -> Any:
    """The array that the user has passed."""
    return getattr(problem.A, "array", None)


def changes_its_input(arrays, problem, moments):
    if type(source(problem)) is np.ndarray and source(problem).flags.writeable:
        source(problem)[0, :] = 0.0


def multiplies_uncounted(self, problem, moments, context):
    for _ in range(30):
        problem.A.matmat(problem.A.home.blocks.zeros((problem.A.shape[1], 1)))


def unlimited(self, problem, moments, context):
    context.passes.most = np.inf


def hangs(self, problem, moments, context):
    while True:
        pass


def swallows(self, problem, moments, context):
    with suppress(BaseException):
        moments.gram_product(np.ones((problem.A.shape[1], 1)))


def other_error(self, *given):
    try:
        yield from f.Iterating.iterate(self, *given)
    except ls.errors.NonFiniteData:
        raise ValueError("bad data") from None


def one_layout(self, problem, *given):
    if type(source(problem)) is np.ndarray and not source(problem).flags.c_contiguous:
        raise BufferError("ndarray is not C-contiguous")
    return f.Honest.iterate(self, problem, *given)


def reads_the_statement(self, problem, moments):
    """The rows before weights, confounds and scale are taken into account."""
    A = source(problem)
    return moments.triangle() if A is None else np.hstack([A - A.mean(axis=0), problem.B.dense()])


def refuses(*_: Any) -> Any:
    raise ls.errors.MissingCapability("it cannot be done")


def raises_here(*_: Any) -> Any:
    raise IndexError("index 9 is out of bounds")


def dense_again(self, problem, moments, context):
    np.array(to_host(problem.A.dense()))


def warns(*_: Any) -> None:
    warnings.warn("be careful", UserWarning, stacklevel=1)


def warns_and_multiplies(self, U):
    warns()
    return f.Adapted._rmatmat(self, U)


def says(number: float) -> classmethod:
    return classmethod(lambda cls, sizes: replace(sweeps_estimate(sizes, 1), seconds=number))


def thousandth(self, rr, scale):
    return f.Iterating.measure(self, rr, scale) / 1000


def thousandfold(self, rr, scale):
    return f.Iterating.measure(self, rr, scale) * 1000


def with_a_number(found):
    """A residual relative to σ₁² and a number."""
    size = float(np.max(found.fields["S"], initial=0.0)) ** 2
    return found._replace(residual=found.residual * size / (size + 1e-20))


TRIPLETS, PAIRS, ITERATING = f.Triplets, f.Pairs, f.Iterating
FAULTS = [
    # ---- what a record says
    Fault(
        "has no docstring",
        solver(after(f.Honest, __doc__=None)),
        "declaration",
        "must have a docstring; it has none",
    ),
    Fault(
        "has an option without a declaration",
        solver(after(f.Honest, step=0.1, __annotations__={"step": float})),
        "declaration",
        r"'step'.* is not declared as an option; write step = option\(",
    ),
    Fault(
        "has no estimate, and says so",
        solver(f.Honest, "automatic"),
        "estimate",
        "within 1000 times of the clock; it says 0 s",
    ),
    # ---- answers
    Fault(
        "forgets the ridge",
        solver(after(f.Honest, ridge=lambda self, problem: 0.0)),
        "accuracy",
        "wide, times 1e.50: the solver must reach its tolerance here",
    ),
    Fault(
        "is a thousandth too large",
        solver(after(f.Honest, given=lambda self, x: {"x": 1.001 * x})),
        "accuracy",
        "must reach its tolerance here; .* residual 0.001",
    ),
    Fault(
        "gives the transposed answer",
        solver(after(f.Honest, given=lambda self, x: {"x": x.T})),
        "accuracy",
        r"x of shape \(8, 2\).* got \(2, 8\)",
    ),
    Fault(
        "gives an array that the certificate does not take",
        solver(after(f.Honest, given=lambda self, x: {"coef": x})),
        "accuracy",
        "got coef",
    ),
    Fault(
        "raises on NumPy arrays",
        solver(after(f.Honest, iterate=raises_here)),
        "accuracy",
        "IndexError: index 9 .*py:",
    ),
    Fault(
        "claims to have converged after one iteration",
        problem(
            answering("__post_init__", lambda self: f.altered(self, converged=True, status=Status.CONVERGED)),
            "tests.faulty_plugins:ONE_STEP",
            "faulty/block-krylov",
        ),
        "accuracy",
        "needs a residual of at most tol",
    ),
    Fault(
        "claims a smaller residual",
        problem(
            f.certifying(lambda found: found._replace(residual=1e-12)),
            "tests.faulty_plugins:ONE_STEP",
            "faulty/block-krylov",
        ),
        "accuracy",
        r"claims residual 1e-12; its arrays have \d",
    ),
    Fault(
        "returns one triplet less",
        solver(after(TRIPLETS, choose=lambda self, k, found: list(range(k - 1)))),
        "accuracy",
        r"S must have shape \(3,\); got \(2,\)",
    ),
    Fault(
        "returns one triplet more",
        problem(f.returning(S=lambda S: np.append(S, 0.1)), name="faulty/direct"),
        "accuracy",
        r"must have shape \(3,\)|operands|mismatch",
    ),
    Fault(
        "misses the second triplet",
        solver(after(TRIPLETS, choose=lambda self, k, found: [0, *range(2, k + 1)])),
        "accuracy",
        "must be the exact one|must reach",
    ),
    Fault(
        "returns vectors that are not orthonormal",
        problem(f.returning(Vh=lambda V: V * 1.1), name="faulty/direct"),
        "accuracy",
        "Vh.T must be the exact one",
    ),
    Fault(
        "returns vectors of the wrong sign",
        problem(f.returning(Vh=lambda V: -V), name="faulty/direct"),
        "accuracy",
        "largest entry of each component of Vh must be positive",
    ),
    Fault(
        "returns the least values first",
        problem(f.returning(S=lambda S: S[::-1].copy(), Vh=lambda V: V[::-1]), name="faulty/direct"),
        "accuracy",
        "S must be the exact one.*Sort",
    ),
    Fault(
        "has a random answer, as an approximate solver",
        solver(after(TRIPLETS, choose=lambda self, k, found: list(range(found - k, found))), "approximate"),
        "accuracy",
        "nearer to the exact ones than chance",
    ),
    Fault(
        "writes its own residual into the history, over 1000",
        solver(after(ITERATING, measure=thousandth)),
        "residual",
        "last residual of the history",
    ),
    Fault(
        "writes its own residual into the history, times 1000",
        solver(after(ITERATING, measure=thousandfold)),
        "residual",
        "last residual of the history",
    ),
    Fault(
        "cuts at a number",
        solver(after(f.Honest, least=1e-20)),
        "accuracy",
        "times 1e-50: .*(must reach its tolerance|compare with sizes of the data)",
    ),
    Fault(
        "refuses all data",
        solver(after(f.Honest, iterate=refuses)),
        "accuracy",
        "raised MissingCapability: it cannot",
    ),
    # ---- data
    Fault(
        "raises on one library",
        solver(twisted(raising(IndexError))),
        "data:array-api-strict",
        "raised IndexError: list index out of range .*py:",
    ),
    Fault(
        "refuses one library",
        solver(twisted(raising(ls.errors.MissingCapability))),
        "data:array-api-strict",
        "raised MissingCapability",
    ),
    Fault(
        "raises on float32",
        solver(twisted(lambda s, p, r: 1 / (p.A.dtype != np.float32))),
        "data:float32",
        "ZeroDivisionError",
    ),
    Fault(
        "returns NumPy arrays for another library",
        problem(f.returning(Vh=lambda V: np.array(to_host(V))), name="faulty/direct"),
        "data:array-api-strict",
        "of array_api_strict, float64, like the data; got numpy",
    ),
    Fault(
        "returns float32 for float64",
        problem(f.returning(Vh=lambda V: same(V, lambda x: x.astype(np.float32))), name="faulty/direct"),
        "data:numpy",
        "of numpy, float64, like the data; got numpy, float32",
    ),
    Fault(
        "writes into its data",
        solver(twisted(changes_its_input)),
        "data:numpy",
        "must stay as they are; they are changed. Work on a copy",
    ),
    Fault(
        "takes C order for granted", solver(after(f.Honest, iterate=one_layout)), "data:layout", "BufferError"
    ),
    Fault(
        "ignores the weights",
        solver(after(f.Honest, reduced=reads_the_statement)),
        "weights",
        "effect of repeated rows",
    ),
    Fault(
        "ignores the confounds",
        solver(after(f.Honest, reduced=reads_the_statement)),
        "confounds",
        "effect of residuals of a regression",
    ),
    Fault(
        "ignores the scale",
        solver(after(f.Honest, reduced=reads_the_statement)),
        "scale",
        "effect of divided columns",
    ),
    Fault(
        "raises ValueError where data are not finite",
        solver(after(ITERATING, iterate=other_error)),
        "bad-data",
        "must raise NonFiniteData; got ValueError",
    ),
    # ---- the run
    Fault(
        "draws from a generator without a seed",
        solver(
            twisted(
                lambda s, p, r: {
                    "x": same(s["x"], lambda x: x * (1 + 3e-15 * np.random.default_rng().random(x.shape)))
                }
            )
        ),
        "seed",
        "two runs with rng=7 differ",
    ),
    Fault("draws a start without the trait", solver(PAIRS), "seed", "needs the trait 'randomized'; add it"),
    Fault(
        "keeps its answer for the next problem",
        solver(after(f.Honest, iterate=keeps_its_answer)),
        "seed",
        "keep nothing of one problem for the next",
    ),
    Fault(
        "multiplies behind the counter's back",
        solver(after(ITERATING, begin=multiplies_uncounted)),
        "passes",
        "passes must count every pass",
    ),
    Fault(
        "ignores its budget",
        solver(after(ITERATING, begin=unlimited)),
        "passes",
        "must keep to max_passes",
    ),
    Fault(
        "catches BaseException",
        solver(after(ITERATING, begin=swallows)),
        "passes",
        "Catch Exception instead",
    ),
    Fault(
        "takes a start and begins anew",
        solver(after(PAIRS, begin=lambda self, start, x: x), "randomized", "warm-start"),
        "resume",
        "must begin at its start",
    ),
    Fault(
        "goes on from no checkpoint, and says so",
        solver(ITERATING, "resumable"),
        "resume",
        "gone on from a checkpoint|must leave its checkpoint",
    ),
    Fault(
        "has a value of an option that was never tried",
        solver(
            after(
                f.Honest,
                way=f.option("svd", "how", choices=("svd", "qr")),
                __annotations__={"way": str},
                twist=lambda self, s, p, r: s if self.way == "svd" else nowhere,  # noqa: F821
            )
        ),
        "choices",
        "NameError: name 'nowhere' is not defined",
    ),
    Fault(
        "answers every ridge of a path with the first",
        solver(
            after(
                f.Honest, ridge=lambda self, p: p.ridges[0], given=lambda self, x: {"x": np.hstack([x] * 3)}
            ),
            "path",
        ),
        "choices",
        "ridge 0.5 of a path: the solver must reach",
    ),
    Fault(
        "reads twice what can be read once", solver(after(ITERATING), "one-pass"), "data:iterator", "raised"
    ),
    Fault(
        "never ends",
        solver(after(ITERATING, begin=hangs)),
        "accuracy",
        r"must end within 0.5 s; it was ended.*py:",
        0.5,
    ),
    Fault(
        "makes a matrix of n x n",
        solver(twisted(lambda s, p, r: np.ones((p.A.shape[0], p.A.shape[0]), np.float32).sum() * 0)),
        "memory",
        "with the rows, not with their square",
    ),
    Fault(
        "keeps its data alive", solver(twisted(keeps_in_a_list)), "memory", "nothing of a problem may be kept"
    ),
    Fault(
        "makes sparse rows dense",
        solver(after(ITERATING, begin=dense_again)),
        "sparse",
        "sparse rows must stay sparse",
    ),
    Fault(
        "makes some sparse rows after the others dense",
        solver(f.DenseInTurn, needs=ls.Needs()),
        "sparse",
        "of 40000 were made dense",
    ),
    Fault(
        "says that it takes 1e-12 s",
        solver(after(f.Honest, estimate=says(1e-12)), "automatic"),
        "estimate",
        "within 1000 times of the clock",
    ),
    Fault(
        "prints",
        solver(twisted(lambda s, p, r: print("solved"))),
        "process",
        r"print nothing.* it prints 'solved\\n'",
    ),
    Fault("warns", solver(twisted(warns)), "process", "it warns of UserWarning: be careful"),
    Fault(
        "seeds the global generator",
        solver(twisted(lambda s, p, r: np.random.seed(0))),  # noqa: NPY002
        "process",
        "the global generator of NumPy is changed",
    ),
    Fault(
        "draws from the generator of Python",
        solver(twisted(lambda s, p, r: random.random() and None)),
        "process",
        "the global generator of Python is changed",
    ),
    # ---- parts
    Fault(
        "returns another T",
        part(after(f.Orthonormal, twist=lambda self, V, Q, T: (Q, T[::-1].copy()))),
        "orthonormal",
        "Q must be VT; .* Return the T of this Q",
    ),
    Fault(
        "drops a direction",
        part(after(f.Orthonormal, twist=lambda self, V, Q, T: (Q[:, 1:], T[:, 1:]))),
        "orthonormal",
        "of rank 6",
    ),
    Fault(
        "is not orthonormal",
        part(after(f.Orthonormal, twist=lambda self, V, Q, T: (Q * 1.01, T * 1.01))),
        "orthonormal",
        "must be orthonormal",
    ),
    Fault(
        "overwrites its block",
        part(after(f.Orthonormal, twist=lambda self, V, Q, T: (V.__setitem__(0, 0 * V[0]), (Q, T))[1])),
        "orthonormal",
        "V must stay as it is|read-only",
    ),
    Fault(
        "takes NaN",
        part(
            after(
                f.Orthonormal, orthonormalize=lambda self, V, MV=None: (V[:, :0], np.zeros((V.shape[1], 0)))
            )
        ),
        "bad-data",
        "NaN in V must raise NonFiniteData",
    ),
    Fault(
        "prints as a normalizer",
        part(after(f.Orthonormal, twist=lambda self, V, Q, T: (print(1), (Q, T))[1])),
        "process",
        "print nothing",
    ),
    Fault(
        "draws another variance",
        part(after(f.Normal, twist=lambda self, drawn: 0.9 * drawn)),
        "moments",
        "E ΩΩᵀ/l must be I",
    ),
    Fault(
        "draws from a global generator",
        part(
            after(f.Normal, draw=lambda self, rows, columns, rng: np.random.standard_normal((rows, columns)))  # noqa: NPY002
        ),
        "draws",
        "Draw from rng alone",
    ),
    Fault(
        "multiplies by twice its entries",
        part(
            after(
                f.Normal,
                operator=lambda self, rows, columns, rng: f.Doubled(self.draw(rows, columns, rng)),
            )
        ),
        "draws",
        "and sketch by them; they differ",
    ),
    Fault(
        "changes the error state where it draws",
        part(after(f.Normal, twist=lambda self, drawn: np.seterr(over="raise") and drawn)),
        "process",
        "error state of NumPy",
    ),
    # ---- kinds of data
    Fault(
        "gives rows in ascending order",
        f.adapter(
            of(
                f.Gathering,
                gathered=lambda self, chosen: self.array[
                    chosen if isinstance(chosen, slice) else np.sort(chosen)
                ],
            )
        ),
        "laws",
        r"rows \[10  0 19 10\] .* come as rows \[0, 10, 10, 19\]",
    ),
    Fault(
        "declares float32, and multiplies in float64",
        f.adapter(
            lambda data: of(f.Adapted, _matmat=lambda self, V: self.array.astype(float) @ V)(
                f.Parcel(data.array.astype(np.float32))
            )
        ),
        "laws",
        "declared dtype float32; got float64",
    ),
    Fault(
        "gives rows of another dtype",
        f.adapter(
            lambda data: of(f.Gathering, gathered=lambda self, chosen: self.array[chosen].astype(float))(
                f.Parcel(data.array.astype(np.float32))
            )
        ),
        "laws",
        "declared dtype float32; got float64",
    ),
    Fault(
        "writes into the block",
        f.adapter(of(f.Adapted, _matmat=lambda self, V: (V.__imul__(2.0), self.array @ V / 2)[1])),
        "laws",
        "one writes into it. Work on a copy",
    ),
    Fault(
        "has a wrong adjoint",
        f.adapter(of(f.Adapted, _rmatmat=lambda self, U: (self.array.T @ U)[::-1].copy())),
        "laws",
        r"rmatmat\(U\) must be AᵀU",
    ),
    Fault(
        "is not linear",
        f.adapter(of(f.Adapted, _matmat=lambda self, V: self.array @ V + 1e-3 * (self.array @ V) ** 2)),
        "laws",
        "matmat must be linear",
    ),
    Fault(
        "has one name for all columns",
        f.adapter(of(f.Adapted, column_names=("one",))),
        "laws",
        "column_names must be None or a tuple of 6 texts",
    ),
    Fault(
        "has the shape of the transpose",
        f.adapter(lambda data: f.altered(f.Adapted(data), shape=(6, 20))),
        "laws",
        r"block of 20 rows, since shape is \(6, 20\); it raised ValueError",
    ),
    Fault(
        "takes files of all formats",
        f.adapter(matches=lambda data: isinstance(data, f.Parcel | RowFiles)),
        "adapts",
        "files of other formats",
    ),
    Fault(
        "takes everything",
        f.adapter(matches=lambda data: True),
        "adapts",
        "matches must be False for ndarray",
    ),
    Fault(
        "has another first value",
        f.adapter(
            of(
                f.Adapted,
                matmat=lambda self, V: f.Adapted.matmat(self, V) * (1.0 if V.shape[1] == 6 else 1.5),
            )
        ),
        "laws",
        "must be",
    ),
    Fault(
        "reads the whole file for each block",
        f.adapter(f.FromFile, "stored"),
        "reads",
        "16 pieces of the rows take .* Read the rows that are asked",
    ),
    Fault(
        "makes a sparse format dense",
        f.adapter(lambda data: f.Adapted(f.Parcel(data.held.toarray())), "Sparse"),
        "reads",
        "sparse data must stay sparse",
    ),
    Fault(
        "warns where it multiplies",
        f.adapter(of(f.Adapted, _rmatmat=warns_and_multiplies)),
        "process",
        "it warns of UserWarning: be careful",
    ),
    # ---- kinds of problems
    Fault(
        "has another name than its record",
        problem(f.problem_after(name="truth")),
        "declaration",
        "name must be 'faulty', as in the record; got 'truth'",
    ),
    Fault(
        "names a score of held-out rows that is nowhere",
        problem(f.problem_after(held_out_scores={"reconstruction": "nowhere:X"})),
        "declaration",
        "held_out_scores must name classes that can be imported; got nowhere:X",
    ),
    Fault(
        "declares no weights that scale is for",
        problem(f.problem_after(solution=f.WithoutWeights)),
        "scale",
        "effect of divided columns",
    ),
    Fault(
        "has a reference that compares nothing",
        problem(testing="tests.faulty_plugins:NOTHING_SEEN"),
        "accuracy",
        "it compares nothing",
    ),
    Fault(
        "has a certificate by which every answer is exact",
        problem(f.certifying(lambda found: found._replace(residual=0.0))),
        "residual",
        "claims residual 0; its arrays have",
    ),
    Fault(
        "has a certificate with a number",
        problem(f.certifying(with_a_number)),
        "residual",
        "times 1e-50: the answer claims",
    ),
    Fault(
        "does not look at its weights",
        problem(f.problem_after(__post_init__=f.takes_any_weights)),
        "bad-data",
        r"Call super\(\)|raised ValueError",
    ),
    Fault("forgets weights", problem(f.forgetting("sample_weight")), "weights", "effect of repeated rows"),
    Fault(
        "forgets confounds", problem(f.forgetting("confounds")), "confounds", "raised|effect of the residuals"
    ),
    Fault(
        "transforms rows as if they were not scaled",
        problem(answering("transform", f.without("scale"))),
        "scale",
        "effect of divided columns",
    ),
    Fault(
        "transforms rows with their means",
        problem(answering("transform", f.without("mean"))),
        "confounds",
        "scores differ",
    ),
    Fault(
        "saves other values",
        problem(answering("saved_parts", lambda self: {**ls.SVDSolution.saved_parts(self), "S": 2 * self.S})),
        "answers",
        "must be read back as it was; S differ",
    ),
    Fault(
        "prints where it transforms",
        problem(answering("transform", f.prints_scores)),
        "process",
        r"print nothing.* it prints 'scores",
    ),
]


RESOURCES = {check for table in resources.CHECKS.values() for check in table}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.sentence)
def test_the_check_of_the_broken_promise_fails(fresh_registry, fault):
    name = fault.register()
    make = resources.checks_of if fault.check in RESOURCES else kit.Checks
    outcome, text = make(name, time_limit=fault.limit).run(fault.check)
    assert outcome == "failed"
    assert re.search(fault.says, text, re.DOTALL), text
    f.KEPT.clear()


HONEST = {
    "direct": solver(f.Honest),
    "iterating": solver(ITERATING),
    "triplets": solver(TRIPLETS),
    "pairs": solver(PAIRS, "randomized", "warm-start"),
    "normalizer": part(f.Orthonormal),
    "test matrix": part(f.Normal),
    "products": f.adapter(),
    "rows": f.adapter(f.Gathering),
    "problem": problem(),
}


@pytest.mark.parametrize("register", HONEST.values(), ids=HONEST)
def test_honest_plugins_pass(fresh_registry, register):
    name = register()
    report = run_checks(name)
    assert report.ok, report
    checks = resources.checks_of(name)
    outcomes = [checks.run(check) for check in checks.table]
    assert {outcome for outcome, _ in outcomes} <= {"passed", "skipped"}, outcomes


RECORD = """
import linspec


@linspec.hookimpl
def linspec_solvers():
    return [
        linspec.SolverSpec(
            name="packaged",
            {field}="svd",
            target="{target}",
            summary="A solver in a broken package.",
            reference="Chan 1982, ACM Trans. Math. Softw. 8(1), doi:10.1145/355984.355990",
            needs=linspec.Needs(entries=True),
            traits=("direct", "one-pass", "automatic"),
        )
    ]
"""
SOLVER = "import numpy\nfrom linspec_svd.gram import DirectSVD as Solver\n\n"
PACKAGES = {  # name: table, module of the solver, what is said
    "misspells a field of a record": (
        RECORD.replace("{field}", "problme"),
        "",
        "unexpected keyword argument 'problme'",
    ),
    "raises where its table is imported": (
        "raise RuntimeError('no licence')\n",
        "",
        "RuntimeError: no licence",
    ),
    "does not end where it is imported": (RECORD, "while True:\n    pass\n", "declaration: "),
}


IMPORTS = {  # name: table, module of the solver, what is said
    "sleeps where its table is imported": (
        "import time\ntime.sleep(2)\n" + RECORD,
        SOLVER,
        "takes 2",
    ),
    "loads an array library": ("import numpy\n" + RECORD, SOLVER, "loads numpy"),
    "changes settings and prints where it is imported": (
        RECORD,
        SOLVER + "print('hello')\nnumpy.seterr(all='ignore')\nnumpy.random.seed(0)\n",
        "an import must leave the process as it was; .*hello.*the error state of NumPy",
    ),
}


def package(table, code, tmp_path, monkeypatch):
    """Write a package with a table and a module of a solver, and make it one of those that are installed."""
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    name = f"broken_{abs(hash((table, code)))}"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[linspec]\nbroken = {name}\n", encoding="utf-8")
    table = table.replace("{field}", "problem").replace("{target}", f"{name}_solver:Solver")
    (tmp_path / f"{name}.py").write_text(table, encoding="utf-8")
    (tmp_path / f"{name}_solver.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    own = registry.Registry()  # reads what is installed, and so the package
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)


@pytest.mark.parametrize(("table", "code", "says"), PACKAGES.values(), ids=PACKAGES)
def test_the_command_names_the_fault_of_a_package(tmp_path, monkeypatch, table, code, says):
    package(table, code, tmp_path, monkeypatch)
    with np.errstate():
        limit = "1" if "while" in code else "60"
        result = CliRunner().invoke(
            main, ["check", "svd/packaged", "--backend", "numpy", "--time-limit", limit]
        )
    assert result.exit_code != 0
    assert re.search(says, result.output, re.DOTALL), result.output


@pytest.mark.parametrize(("table", "code", "says"), IMPORTS.values(), ids=IMPORTS)
def test_what_an_import_does_is_noticed(tmp_path, monkeypatch, table, code, says):
    package(table, code, tmp_path, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    resources.imported.cache_clear()
    with np.errstate():
        outcome, text = resources.checks_of("svd/packaged").run("imports")
    assert outcome == "failed"
    assert re.search(says, text, re.DOTALL), text


def test_each_check_has_a_faulty_plugin():
    caught = {fault.check for fault in FAULTS}
    tables = [*kit.CHECKS.values(), *resources.CHECKS.values()]
    assert {name for table in tables for name in table} | {"declaration"} <= caught | {"together"}
