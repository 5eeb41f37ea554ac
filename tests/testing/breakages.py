"""Plugins that are broken on purpose, each in one way, as an author breaks one without noticing.

Those that change one line of an honest part derive from the parts of the tests of the kit, which pass all checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from linspec import Needs
from linspec.arrays import to_host
from linspec.operators import RowFiles, uncounted
from tests import test_kit_catches_liars as solvers
from tests import test_kit_catches_liars_in_parts as parts
from tests import test_kit_catches_liars_in_problems as problems
from tests.test_kit_catches_liars import (
    Honest,
    HonestCCA,
    HonestIteration,
    HonestSVD,
    altered,
    is_wide,
    least_norm,
)

__all__ = ["BREAKAGES", "PACKAGES", "Breakage", "Package"]

STRICT = ("numpy", "array-api-strict")
PRODUCTS, DENSE = Needs(), Needs(dense=True)


# ---- least squares ----------------------------------------------------------------------------


class GivesAnswer(Honest):
    """The SVD of the entries, whose result a method gives to finish (Golub 1965)."""

    def solve(self, problem, run):
        run.plan(setup=2.0)
        run.moments("implicit").columns.means()
        A, B = (np.asarray(to_host(M.dense()), dtype=np.float64) for M in (problem.A, problem.B))
        x = least_norm(A, B, problem.ridge, float(np.finfo(problem.A.dtype).eps))
        return run.finish(**self.given(problem.A.home.blocks.place(x)))

    def given(self, x):
        return {"x": x}


class TransposesIt(GivesAnswer):
    def given(self, x):
        return {"x": x.T}


class NamesItCoef(GivesAnswer):
    def given(self, x):
        return {"coef": x}


class AddsAThousandth(GivesAnswer):
    def given(self, x):
        return {"x": 1.001 * x}


class ReturnsSingle(Honest):
    def twist(self, solution, problem, run):
        return altered(solution, x=solution.x.astype(np.float32)) if is_wide(solution.x) else solution


class MultipliesUncounted(Honest):
    def twist(self, solution, problem, run):
        A, _ = uncounted(problem.A)
        for _ in range(3):
            A.matmat(problem.A.home.blocks.zeros((problem.A.shape[1], 1)))
        return solution


class GoesOnAfterTheStop(HonestIteration):
    """Asks once more where proceed has said no."""

    def begin(self, run):
        run._callbacks = tuple(
            lambda progress, each=each: each(progress) and False for each in run._callbacks
        )


class HasABareField(Honest):
    step: float = 0.1


# ---- SVD --------------------------------------------------------------------------------------


class DropsATriplet(HonestSVD):
    def choose(self, s, k):
        return list(range(k - 1)) if k > 1 else list(range(k))


for _cls in (
    GivesAnswer, TransposesIt, NamesItCoef, AddsAThousandth, ReturnsSingle, MultipliesUncounted,
    GoesOnAfterTheStop, HasABareField, DropsATriplet,
):  # fmt: skip
    _cls.__doc__ = (_cls.__doc__ or "") + " After Golub 1965."
    dataclass(frozen=True, kw_only=True)(_cls)


@dataclass(frozen=True, kw_only=True)
class WithoutDocstring(Honest):
    def twist(self, solution, problem, run):
        return solution


# ---- adapters ---------------------------------------------------------------------------------


class WritesIntoItsBlock(parts.Adapted):
    """Scales the block before it multiplies."""

    def _matmat(self, V):
        V *= 2.0
        return self.array @ V / 2.0


class GivesWideProducts(parts.Adapted):
    """Has float32 entries, and gives float64 products."""

    def _matmat(self, V):
        return self.array.astype(np.float64) @ V


def in_single(parcel):
    return parts.Parcel(parcel.array.astype(np.float32))


# ---- how they are registered ------------------------------------------------------------------


def solver(cls: type, *traits: str, needs: Needs = PRODUCTS, **changes: Any) -> Callable[[], str]:
    """Return a function that registers a solver and returns its name."""
    problem = solvers.problem_of(cls)
    record = {
        "name": "broken",
        "problem": problem,
        "target": f"{cls.__module__}:{cls.__name__}",
        "summary": "A solver that is broken on purpose.",
        "reference": "Golub 1965, SIAM J. Numer. Anal. 2(2)",
        "needs": needs,
        "traits": traits,
    }

    def register() -> str:
        ls.register(ls.SolverSpec(**(record | changes)))
        return f"{problem}/broken"

    return register


def direct(cls: type, **changes: Any) -> Callable[[], str]:
    return solver(cls, "direct", needs=DENSE, **changes)


def iterative(cls: type, *traits: str) -> Callable[[], str]:
    return solver(cls, "iterative", *traits)


def problem(**places: str) -> Callable[[], str]:
    """Return a function that registers a problem with one solver, and returns its name."""
    record = {"target": problems.Honest, "testing": "TESTING", "command": "COMMAND"} | places
    record = {
        role: f"{place.__module__}:{place.__name__}"
        if isinstance(place, type)
        else f"{problems.__name__}:{place}"
        for role, place in record.items()
    }

    def register() -> str:
        ls.register(ls.ProblemSpec(name="liar", summary="A problem that is broken on purpose.", **record))
        ls.register(replace(ls.registry.get_spec("solver", "direct", "svd"), problem="liar"))
        return "problem/liar"

    return register


def part(cls: type) -> Callable[[], str]:
    return lambda: parts.part(cls)


def adapter(**changes: Any) -> Callable[[], str]:
    return lambda: parts.adapter(**changes)


@dataclass(frozen=True)
class Breakage:
    """A broken plugin.

    Attributes
    ----------
    number : int
    sentence : str
        The fault, as its author would say it.
    register : callable
    check : str
        The check that has to name the fault.
    says : str
        A pattern of the message: the fault, and the remedy.
    backends : tuple of str
    time_limit : float
    """

    number: int
    sentence: str
    register: Callable[[], str]
    check: str
    says: str
    backends: tuple[str, ...] = ("numpy",)
    time_limit: float = 60.0


BREAKAGES = [
    Breakage(
        1,
        "Raises IndexError on all data of one library.",
        direct(solvers.RaisesOnOneLibrary),
        "solves:array-api-strict",
        "raised IndexError: list index out of range .*py:",
        STRICT,
    ),
    Breakage(
        2,
        "Gives rows in ascending order, whatever order is requested.",
        adapter(adapt=lambda data: parts.Adapted(data, "sorted")),
        "rows",
        r"rows \[19, 0\] come as rows \[0, 19\], .* in its order and as often",
    ),
    Breakage(
        3,
        "Declares float32, and gives products of float64.",
        adapter(adapt=lambda data: GivesWideProducts(in_single(data))),
        "kind",
        r"declared dtype float32; got float64. Declare this",
    ),
    Breakage(
        4,
        "Has lost the declaration of the matrices that scale divides.",
        problem(target=problems.ScalesNothing),
        "scale",
        "must declare weights by linspec.field.*it declares none. Declare them",
    ),
    Breakage(
        5,
        "Does not look at its weights.",
        problem(target=problems.TakesAnyWeights),
        "weights",
        r"Call super\(\).__post_init__\(\)",
    ),
    Breakage(
        6,
        "Names a score of held-out rows that is nowhere.",
        problem(target=problems.ScoresNowhere),
        "held-out",
        "must be importable; nowhere:X raised ModuleNotFoundError.* Write the place of a class",
    ),
    Breakage(
        7,
        "Transforms rows as if they were not scaled.",
        problem(target=problems.TransformForgetsScale),
        "scale",
        "scale as scaled columns: transform must give .* divide them by the scale",
    ),
    Breakage(
        8,
        "Answers data in units of 1e60 and more, where squares overflow.",
        problem(target=problems.AnswersInAnyUnit),
        "units",
        r"data times 1e\+75 must be refused with DataOutOfRange; .* Problem.in_range refuses them",
    ),
    Breakage(
        9,
        "Has a law by which every answer is exact.",
        problem(target=problems.LawOfZero),
        "law",
        "the law of the problem must have a residual above the tolerance .* Compute it from the arrays",
    ),
    Breakage(
        10,
        "Has an oracle that finds no errors.",
        problem(testing="ERRORLESS"),
        "oracle-errors",
        "the oracle must report errors; it finds none .* compare them with the exact answer",
    ),
    Breakage(
        11,
        "Catches BaseException around moments.",
        direct(solvers.Swallows),
        "interrupt",
        "Catch Exception instead",
    ),
    Breakage(
        12,
        "Seeds the global generator of NumPy.",
        direct(solvers.SeedsNumPy),
        "random-state",
        "it used that of NumPy. Draw from run.rng",
    ),
    Breakage(
        13,
        "Leaves the error state of NumPy changed.",
        direct(solvers.SetsTheErrorState),
        "process",
        r"numpy.seterr\) must be left as it was; it was changed. Restore it",
    ),
    Breakage(14, "Prints.", direct(solvers.Prints), "process", r"it printed 'solved\\n'. Log it"),
    Breakage(
        15,
        "Gives a UserWarning.",
        direct(solvers.Warns),
        "warnings:numpy",
        "got UserWarning: be careful. .* run.note",
    ),
    Breakage(
        17,
        "Ignores its budget.",
        iterative(solvers.IgnoresTheBudget),
        "budget",
        "must keep to the budget; .* ask the budget first",
    ),
    Breakage(
        18,
        "Gives finish the transposed answer.",
        direct(TransposesIt),
        "solves:numpy",
        r"run.finish x of shape \(8, k\), for the 8 columns of A; got \(2, 8\)",
    ),
    Breakage(
        19,
        "Gives finish an argument that the law does not have.",
        direct(NamesItCoef),
        "solves:numpy",
        "run.finish x .*; got coef",
    ),
    Breakage(
        20,
        "Raises on NumPy arrays.",
        solver(solvers.RaisesOnAll, "direct"),
        "declared-needs",
        "IndexError: index 9 .* arrays",
    ),
    Breakage(
        23,
        "Writes into the block that it multiplies.",
        adapter(adapt=WritesIntoItsBlock),
        "untouched",
        "it writes into it. Work on a copy",
    ),
    Breakage(
        24,
        "Takes files of all formats.",
        adapter(matches=lambda data: isinstance(data, parts.Parcel | RowFiles)),
        "matches",
        "matches must be False for .*RowFiles.*; got True",
    ),
    Breakage(
        25,
        "Returns an answer that is a thousandth too large.",
        direct(AddsAThousandth),
        "accuracy:numpy",
        "must reach its tolerance 1e-08 here; got residual 0.001, .* Is the answer that of another problem",
    ),
    Breakage(
        26,
        "Has an adjoint whose rows are reversed.",
        adapter(adapt=lambda data: parts.Adapted(data, "adjoint")),
        "adjoint",
        r"compared with ⟨u, Av⟩, is wrong by .* _rmatmat\(U\) must return AᵀU",
    ),
    Breakage(
        27,
        "Has another name than its record.",
        problem(target=problems.Misnamed),
        "name",
        "name must be 'liar', as in the record; got 'truth'",
    ),
    Breakage(
        28,
        "Has an option without a declaration.",
        direct(HasABareField),
        "target",
        r"field 'step' .* is not declared as an option; write step = option\(",
    ),
    Breakage(
        29,
        "Draws from a generator without a seed.",
        direct(solvers.Unseeded),
        "same-seed",
        "two runs with rng=7 differ",
    ),
    Breakage(
        30,
        "Writes into its data.",
        direct(solvers.ChangesItsInput),
        "input-untouched:numpy",
        "Work on a copy",
    ),
    Breakage(
        31,
        "Claims to have converged after two iterations.",
        iterative(solvers.Overconfident),
        "converged:numpy",
        "status CONVERGED needs a residual at or below .* Return what run.finish makes",
    ),
    Breakage(
        32,
        "Goes on where a callback ends the run.",
        iterative(GoesOnAfterTheStop),
        "callback",
        "must end the run with STOPPED; got CONVERGED. Call run.finish when run.proceed is False",
    ),
    Breakage(
        33,
        "Multiplies with the data behind the counter's back.",
        direct(MultipliesUncounted),
        "counts",
        "passes must count every sweep over the data; .* Multiply with the matrices of the problem",
    ),
    Breakage(
        34,
        "Returns one triplet less than requested.",
        direct(DropsATriplet),
        "accuracy:numpy",
        "there are 3 singular values to return; got 2",
    ),
    Breakage(
        35,
        "Returns vectors of the wrong sign.",
        direct(solvers.WrongSigns),
        "signs:numpy",
        "largest entry of component 0 of Vh must be positive; .* Change the sign",
    ),
    Breakage(
        36,
        "Returns the least values first.",
        direct(solvers.Unsorted),
        "order:numpy",
        "S must decrease; .* Sort the components",
    ),
    Breakage(
        37,
        "Returns NumPy arrays for data of another library.",
        direct(solvers.ReturnsNumPy),
        "output-home:array-api-strict",
        "x must be an array of array_api_strict, .* got one of numpy. Place it by home.place",
        STRICT,
    ),
    Breakage(
        38,
        "Takes a start and begins anew.",
        iterative(solvers.IgnoresTheStart, "randomized", "warm-start"),
        "warm-start",
        "must begin at the start; .* run.start",
    ),
    Breakage(
        39,
        "Returns float32 for data of float64.",
        direct(ReturnsSingle),
        "output-home:numpy",
        "x must be float64, like the data; got float32. Place it",
    ),
    Breakage(
        40,
        "Raises ValueError where data are not finite.",
        iterative(solvers.RaisesAnotherError),
        "non-finite:products-only",
        "must raise NonFiniteData; got ValueError.* Let this error .* pass",
        ("numpy", "products-only"),
    ),
    Breakage(
        41,
        "Has no docstring.",
        direct(WithoutDocstring),
        "docstring",
        "must have a docstring; it has none. State the method and its source",
    ),
    Breakage(
        42,
        "Has a summary of one word.",
        direct(Honest, summary="fast"),
        "summary",
        "must be one sentence that begins with a capital and ends with a full stop; got 'fast'",
    ),
    Breakage(
        43,
        "Has a reference without a year.",
        direct(Honest, reference="Somebody"),
        "reference",
        "must have an author and a year",
    ),
    Breakage(
        44,
        "Draws a start, and does not have the trait 'randomized'.",
        iterative(HonestCCA),
        "same-seed",
        "must have the trait 'randomized'; add it to the record",
    ),
    Breakage(
        45,
        "Says that it goes on from checkpoints, and begins anew.",
        iterative(HonestIteration, "resumable"),
        "resumable",
        "gone on from the checkpoint of iterate 0, .* must be in the iterate",
    ),
    Breakage(
        46,
        "Keeps its answer for the next problem.",
        direct(solvers.KeepsItsAnswer),
        "same-instance",
        "must keep nothing of one problem for the next; .* in variables of solve",
    ),
    Breakage(
        47,
        "Returns the coefficients of a normalizer in reverse order.",
        part(parts.WrongT),
        "transform:numpy",
        "Q must be VT; .* Return the T of this Q",
    ),
    Breakage(
        48,
        "Drops a direction of a block.",
        part(parts.DropsDirections),
        "rank:numpy",
        r"Q must have shape \(150, 6\) \(rank 6\)",
    ),
    Breakage(
        49, "Draws a test matrix of another variance.", part(parts.UnitLength), "moments", "must be 1; got"
    ),
    Breakage(
        50,
        "Draws a test matrix from a global generator.",
        part(parts.DrawsFromTheGlobalGenerator),
        "random-state",
        "Draw from rng",
    ),
    Breakage(
        51,
        "Has a law with a number that is no unit of the data.",
        problem(target=problems.LawWithANumber),
        "law",
        "data times 1e-50",
    ),
    Breakage(
        52,
        "Never ends.",
        iterative(solvers.Hangs),
        "process",
        r"must end within 0.2 s .* it was ended in .*liars.py:\d+\. Does the solver end when run.proceed",
        time_limit=0.2,
    ),
    Breakage(
        55,
        "Prints where it transforms rows.",
        problem(target=problems.TransformPrints),
        "process",
        r"it printed 'scores\\n.*Log it",
    ),
    Breakage(
        56,
        "Gives a warning where it multiplies with the adjoint.",
        adapter(adapt=lambda data: parts.Adapted(data, "warns")),
        "process",
        "no warnings must be given .* got UserWarning: be careful. Silence it",
    ),
    Breakage(
        57,
        "Has a value of an option that was never tried.",
        direct(solvers.HasABrokenChoice),
        "choices",
        "with way='qr' on tall, the solver must solve it or refuse it; it raised NameError: .*py:",
    ),
    Breakage(
        58,
        "Reads the memory of its data in the order of C, whatever their layout.",
        direct(solvers.TakesAnyLayoutForOne),
        "layouts",
        "for arrays in Fortran order the solver must have the answer of arrays in C order; it raised BufferError",
    ),
    Breakage(
        59,
        "Gives one name for all columns.",
        adapter(adapt=lambda data: parts.Adapted(data, "names")),
        "names",
        "column_names must be None or a tuple of 6 texts; got",
    ),
    Breakage(
        60,
        "Has the shape of the transposed matrix.",
        adapter(adapt=lambda data: parts.Adapted(data, "shape")),
        "kind",
        r"matmat must multiply a block of 20 rows, since shape is \(6, 20\); it raised ValueError",
    ),
]


# ---- packages ---------------------------------------------------------------------------------

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


@dataclass(frozen=True)
class Package:
    """A broken package: `says` is a pattern of the output of ``linspec check svd/packaged --time-limit ...``."""

    number: int
    sentence: str
    says: str
    table: str = ""
    solver: str = ""
    time_limit: float = 60.0

    def write(self, folder: Path) -> None:
        """Write the package, as if it were installed in a folder."""
        info = folder / f"broken_{self.number}-1.0.dist-info"
        info.mkdir()
        place = f"solver_{self.number}:Solver" if self.solver else "linspec_svd.direct:DirectSVD"
        table = (self.table or RECORD).replace("{field}", "problem").replace("{target}", place)
        (folder / f"table_{self.number}.py").write_text(table, encoding="utf-8")
        (folder / f"solver_{self.number}.py").write_text(self.solver, encoding="utf-8")
        metadata = f"Metadata-Version: 2.1\nName: broken-{self.number}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[linspec]\nbroken = table_{self.number}\n", encoding="utf-8")


PACKAGES = [
    Package(
        16,
        "Sleeps for two seconds when its table is imported.",
        r"FAILED light-table: .* table_16 takes [\d.]+ s, .* Do no work at import",
        table="import time\n\ntime.sleep(2)\n" + RECORD,
    ),
    Package(
        21,
        "Misspells a field of a record.",
        "broken-21.* is broken .*SolverSpec has no field 'problme'. Did you mean 'problem'",
        table=RECORD.replace("{field}", "problme"),
    ),
    Package(
        22,
        "Raises where its table is imported.",
        "broken-22.* is broken .*RuntimeError: there is no licence",
        table="raise RuntimeError('there is no licence')\n",
    ),
    Package(
        53,
        "Changes the settings of NumPy when its solver is imported, and prints.",
        "FAILED quiet-import: .* importing solver_53 changes the error state .*, the global generator of NumPy, "
        "the output: 'hello.* Do no work at import",
        solver="import numpy\nfrom linspec_svd.direct import DirectSVD as Solver\n\n"
        "print('hello')\nnumpy.seterr(all='ignore')\nnumpy.random.seed(0)\n",
    ),
    Package(
        54,
        "Does not come to an end when its solver is imported.",
        "FAILED target: .*solver_54:Solver.* cannot be imported .*Overdue: it takes longer than the time limit",
        solver="while True:\n    pass\n",
        time_limit=0.3,
    ),
]
