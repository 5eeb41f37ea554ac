"""A run: what a solver may ask while it solves one problem.

Problem: random numbers, counts, history, callbacks, interrupts and checkpoints are the same for all solvers.
Method: a solver's loop reads ``while run.proceed(residual=r, current=lambda: dict(x=x)):`` and ends with
``return run.finish(x=x)``. All of that happens in these two calls. What the run may take is its `Budget`, and how it
ends is a `Verdict`.
Where we differ: a part of a solver has a run of its own, a `PartRun`. Its sweeps are on the account of the run around
it, which alone is judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import CellType, FunctionType
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import copied, host_dtype, is_array, random_generator
from linspec.errors import (
    BrokenPlugin,
    BudgetTooSmall,
    InvalidFile,
    InvalidOption,
    SweptOnce,
    one_line,
)
from linspec.moments.moments import Moments
from linspec.moments.ways import read_once
from linspec.operators import CountedOperator, Ledger, uncounted
from linspec.process.faults import is_out_of_memory
from linspec.process.interrupts import first_interrupt
from linspec.process.log import LOG, tells
from linspec.process.pauses import Ended, OutOfPasses, admitting, looking
from linspec.registry.options import stated_options, with_parts
from linspec.solving.accounts import Allowance, Counts
from linspec.solving.adjusting import adjusted, adjustments_of, constant_columns
from linspec.solving.budget import Budget, certificate_passes, too_few, too_often
from linspec.solving.checkpoints import CheckpointWriter, Saved, check_state, how_to_go_on
from linspec.solving.conclusion import Terms, check_handed
from linspec.solving.problem import Problem
from linspec.solving.solution import History, Solution, labels_of_rows
from linspec.solving.verdict import (
    PATIENCE,
    Finding,
    Judgement,
    as_interrupted,
    contradicts,
    empty_handed,
    gets_on,
    is_empty,
    judged,
    salvaged,
    verdict,
)
from linspec.status import Status
from linspec.sweeps.views import View


@dataclass(frozen=True)
class Progress:
    """The argument of a callback, which is called after each iteration.

    Attributes
    ----------
    iteration : int
    passes, seconds, residual : float
    current : callable
        Computes the iterate as a dict of arrays. They are copies, which a callback may keep and change.
    """

    iteration: int
    passes: float
    seconds: float
    residual: float
    current: Callable[[], Mapping[str, Any]]


KEPT = (Status.BUDGET, Status.INTERRUPTED, Status.ITERATION_LIMIT, Status.STOPPED)
"""Endings after which another run may continue the iteration, so that a checkpoint is written."""

ACCOUNTS = (
    "_iteration",
    "_iteration_passes",
    "_passes_before",
    "_claim",
    "_correction",
    "_shortfall",
    "_least",
    "_since",
    "_earlier_seconds",
)
"""Attributes of a run that are part of a checkpoint."""

ROUNDING = 1e-9
"""Tolerance for the rounding of sums of fractions of a sweep, in passes."""

Callback = Callable[[Progress], Any]


class Run:
    """The context of one solve, handed to `Solver.solve`.

    Attributes
    ----------
    tol : float
        The tolerance in force.
    start : mapping or None
        Arrays of an earlier answer to begin at, float64: "x_weights" and "y_weights" of a CCA, "x" of a least-squares
        problem, "Vh" of an SVD. Solvers with the trait "warm-start" use them; None if the caller gave none.
    underflowing : bool
        Whether squares of some columns underflow; see `Terms.underflowing`.
    resumed : mapping or None
        The state that the solver gave to `checkpoint` in the run that is continued here, its arrays on the host; None
        in a new run. Solvers with the trait "resumable" use it.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Normal(ls.Solver):
    ...     def solve(self, problem, run):
    ...         moments = run.moments()
    ...         unit = np.eye(problem.A.shape[1])
    ...         AtA, AtB = moments.gram(unit), moments.cross()
    ...         return run.finish(x=np.linalg.solve(AtA + problem.ridge * unit, AtB))
    >>> A = np.random.default_rng(0).standard_normal((50, 3))
    >>> ls.solve(ls.LeastSquares(A, A @ np.ones(3)), Normal()).x.round(6)
    array([1., 1., 1.])
    """

    def __init__(  # noqa: PLR0913 (what one call of `solve` sets)
        self,
        problem: Problem[Any],
        solver: Any,
        name: str,
        *,
        rng: Any = None,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        callbacks: tuple[Callback, ...] = (),
        start: Mapping[str, Any] | None = None,
        tol: float | None = None,
        began: float | None = None,
        writer: CheckpointWriter | None = None,
        saved: Saved | None = None,
        complete: bool = False,
    ) -> None:
        self._seed = rng
        self._rng: np.random.Generator | None = None
        self.start = start
        self.name = name
        self._solver = solver
        self._ledgers = {label: Ledger() for label in problem.matrices}
        self.problem: Any = problem.with_matrices(
            {label: CountedOperator(A, self._ledgers[label]) for label, A in problem.matrices.items()}
        )
        given = getattr(solver, "tol", tol)  # "auto" may stand for a solver that has no tolerance of its own
        self.tol: float = problem.default_tol if given is None else float(given)
        self._by_default = given is None
        self.underflowing = False
        self._complete = complete
        self._sweeps = problem.sweeps
        self._budget = Budget(
            self._sweeps if max_passes is None else min(max_passes, self._sweeps), max_seconds, began
        )
        self._callbacks = callbacks
        self._cut = False
        self._latest: Callable[[], Mapping[str, Any]] | None = None
        self._moments: Moments | None = None
        self._shared_before = problem.shared.passes if problem.shared else 0.0
        self._certified_passes = 0.0
        self._own_before = problem.shared.bookkeeping.own_passes if problem.shared else 0.0
        self._history = History()
        self._iteration = 0
        self._iteration_passes = math.inf  # the least that an iteration has taken
        self._passes_before = 0.0
        self._ending: Status | None = None
        self._notes: list[Finding] = []
        self._remarks: list[str] = []
        self._interrupts = 0
        self._claim = math.inf  # the residual of the current iterate by the solver's own account
        self._correction = 1.0  # by so much was it too small when the law was asked
        self._shortfall = math.inf
        self._least, self._since = math.inf, 0
        self._judged: Judgement | None = None
        self._made: list[Any] = []
        self._writer = writer
        self._top: Mapping[str, Any] = {}  # the accounts at the last top of the loop
        self._written: Mapping[str, Any] = self._top  # those in the last checkpoint
        self._earlier_seconds = 0.0
        self._state: Callable[[], Mapping[str, Any]] | None = None
        self.resumed: Mapping[str, Any] | None = None
        self._saved, self._tops = saved, 0
        if saved is not None:
            with saved.taken_up():
                self._take_up(saved)

    # ---- parts --------------------------------------------------------------------------------

    @property
    def rng(self) -> np.random.Generator:
        """The only source of random numbers; made at the first use, because that takes long."""
        if self._rng is None:
            self._rng = random_generator(self._seed)
        return self._rng

    def moments(self, form: str = "auto", expect: tuple[int, int] | None = None) -> Moments:
        """The moments of the problem's data: made at the first call, and the same object at later calls.

        Parameters
        ----------
        form : {"auto", "dense", "sparse", "implicit"}
            See `linspec.Moments`.
        expect : (int, int), optional
            The number of products that the solver expects to make, and the number of columns of each. "auto" chooses
            the form by these numbers.
        """
        if self._moments is None:
            expect = expect or (cost.EXPECTED_PRODUCTS, self.problem.width)
            self._moments = self.problem.moments(form, expect)
            if self._saved is not None and self._saved.fields["moments"] is not None:
                with self._saved.taken_up():
                    self._moments.bookkeeping.take_up(self._saved.fields["moments"])
        return self._moments

    def part(self, value: Any) -> Any:
        """The part that a part option has as its value, ready to use.

        A part is a solver, a normalizer or a test matrix that another solver calls. `linspec.solve` has already
        replaced names of parts by instances. If the value was made since, its own part options may still be names:
        they are replaced here.
        """
        return with_parts(value)

    def within(
        self, problem: Problem[Any], solver: Any, label: str | Mapping[str, str] | None
    ) -> Mapping[str, Any]:
        """Solve another problem on matrices of this run with another solver, called a part, without a certificate.

        Sweeps, random numbers, budget and interrupts are those of this run.

        Parameters
        ----------
        problem : Problem[Any]
            Made from the moments of one view, for example: ``SVD(run.moments().view(0), 10)``.
        solver : Solver
            The part.
        label : str or mapping from str to str
            A matrix of this run, such as "X": the sweeps of the part are counted as sweeps over this matrix. A
            mapping such as ``{"A": "X", "B": "Y"}`` has such a matrix of this run for each matrix of `problem`. None
            if this run holds the matrices of `problem` in memory, so that products with them read no data.

        Returns
        -------
        mapping of str to arrays
            The arrays that the part passes to `finish`.

        Raises
        ------
        BudgetTooSmall
            When the set-up of the part does not fit into the budget.
        """
        problem = adjusted(problem)
        if label is None:
            return self._arrays_of(PartRun(self, problem, solver, None))
        labels = dict.fromkeys(problem.matrices, label) if isinstance(label, str) else label
        part = PartRun(self, problem, solver, next(iter(labels.values())))
        try:
            return self._arrays_of(part)
        finally:
            for name, ledger in part._ledgers.items():
                self._ledgers[labels[name]].take_over(ledger)

    @staticmethod
    def _arrays_of(part: PartRun) -> dict[str, Any]:
        """The arrays that the solver of a part passes to `finish`."""
        try:
            with admitting(part._admit):
                return dict(part._accepted(part._solver.solve(part.problem, part)))
        finally:
            part._let_go()

    # ---- accounts -----------------------------------------------------------------------------

    @property
    def passes(self) -> float:
        """The largest number of sweeps over any one matrix so far."""
        own = max(ledger.sweeps for ledger in self._ledgers.values())
        return own + self._shared_passes + self._certified_passes

    @property
    def _shared_passes(self) -> float:
        """Sweeps that this run, and no other thread, has made over moments given in place of the data."""
        shared = self.problem.shared
        return shared.bookkeeping.own_passes - self._own_before if shared else 0.0

    @property
    def counts(self) -> Counts:
        """The products and the time so far."""
        return Counts(self)

    # ---- budget -------------------------------------------------------------------------------

    def plan(self, *, setup: float) -> None:
        """Refuse a budget that is too small for a set-up of several sweeps, before the first of them.

        Without this call, too, the run refuses each sweep that would leave too few passes for the certificate. But
        the refusal may come in the middle of the set-up, after sweeps that were then made in vain. A run that
        continues from a checkpoint learns the data anew, and has no other set-up.

        Parameters
        ----------
        setup : float
            The passes before the first iterate.

        Raises
        ------
        BudgetTooSmall
            When set-up and certificate do not fit into `max_passes`; the message names the least number.
        """
        if self.resumed is not None:
            setup = self.settling
        least = self.passes + setup + self._certificate(after_setup=setup > 0)
        if least > self._budget.max_passes:  # which is 1 at most where data can be read once
            raise self._too_few(least)

    @property
    def settling(self) -> float:
        """Passes that the first product with a matrix of the problem takes in addition, to adjust the rows.

        The number is 1 if column means, effects of confounds or scales must be learned first. It is 0 if they are
        known, or if the data can be read only once. A solver that multiplies the matrices themselves adds this number
        to the set-up in `plan`. Products with moments need no such pass: they compute the means on the way.
        """
        if self._sweeps == 1:
            return 0.0
        return 0.0 if all(adjustment.known for adjustment in adjustments_of(self.problem).values()) else 1.0

    def _too_few(self, least: float) -> BudgetTooSmall | SweptOnce:
        """Make the error for a run that needs `least` passes in all.

        It is SweptOnce if the data cannot be read that often, and else BudgetTooSmall.
        """
        if least > self._sweeps:
            return too_often(self.name, self._solver, self.problem, least)
        return too_few(self.name, least, self._budget.max_passes)

    def _read_before(self) -> None:
        """Count the rows of streamed data for a solver that needs their number, and compute their means."""
        streams = {name: A for name, A in self.problem.matrices.items() if A.access == "slices"}
        unknown = [View(name, A) for name, A in streams.items() if math.isinf(A.shape[0])]
        if unknown:
            read_once(unknown)
        self.problem.check_sizes()

    @property
    def budget(self) -> Allowance:
        """The passes that the run may still take, beside those of the certificate."""
        return Allowance(self)

    def _admit(self, ledger: Ledger, sweeps: float) -> None:
        """Refuse a sweep that would leave too few passes for the certificate."""
        limit = self._budget.max_passes
        if math.isinf(limit) or self._budget.closing:
            return
        if any(ledger is own for own in self._ledgers.values()):
            made = ledger.sweeps + self._shared_passes + self._certified_passes
        elif self.problem.shared is not None and self.problem.shared.bookkeeping.counts_in(ledger):
            made = self.passes
        else:  # of some rows, or of another run
            return
        least = made + sweeps + self._budget.reserved + self._certificate()
        if least > limit + ROUNDING:
            raise OutOfPasses(least)

    def _certificate(self, after_setup: bool = False) -> float:
        """The passes of the certificate."""
        if self._sweeps == 1:  # it would be the second: the solution says that it has none
            return 0.0
        moments = self.moments("implicit") if self._moments is None else self._moments
        return certificate_passes(self.problem, moments, after_setup=after_setup)

    # ---- checkpoints --------------------------------------------------------------------------

    def checkpoint(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Provide the state of the iteration for a checkpoint, at the top of the loop and before `proceed`.

        Parameters
        ----------
        state : callable
            Returns numbers, texts, arrays, and lists and mappings of these, from which the solver can restore its
            iteration: it finds them in `resumed` and enters its loop there, without a product. It is called now, if
            it is time to write, or by the `proceed` that ends the loop; its result must not change until then.
        """
        self._tops += 1
        if self._writer is not None:
            self._state = state
            self._note_accounts()
            if self._writer.due:
                self._keep()

    def _taking_up(self) -> AbstractContextManager[None]:
        """Turn errors of the first step from a checkpoint into one that names the file.

        Reading a file does not show every fault: whether its arrays fit together shows in a step.
        """
        if self._saved is None or self.resumed is None or self._tops > 1:
            return nullcontext()
        return self._saved.taken_up()

    @property
    def keeps(self) -> bool:
        """Whether checkpoints are written, so that the state given to `checkpoint` may still be called."""
        return self._writer is not None

    def _note_accounts(self) -> None:
        """Record the accounts of the run at the top of the loop."""
        self._top = {
            **{name: getattr(self, name) for name in ACCOUNTS},
            "_earlier_seconds": self.counts.seconds,
            "rows": len(self._history.rows),
            "ledgers": {name: ledger.entries() for name, ledger in self._ledgers.items()},
            "rng": self.rng.bit_generator.state,
        }

    def _hold_state(self) -> None:
        """Copy the state for a checkpoint now, because the next step changes it."""
        if self._state is not None:
            held = self._state()
            self._state = lambda: held

    def _keep(self) -> None:
        """Write the checkpoint of the last top of the loop, unless it is written already."""
        if self._state is None and not self._top and self.keeps:  # before the first `proceed`
            self._note_accounts()
        if self._writer is None or self._top is self._written:
            return
        begins, moments = self._state is None, self._moments
        start = self._arrays_so_far() if begins else None
        if begins and not start:
            return
        accounts: dict[str, Any] = dict(self._top)
        accounts["history"] = np.asarray(self._history.rows[: accounts.pop("rows")], dtype=np.float64)
        self._writer.write(
            {
                "run": accounts,
                "moments": None if begins or moments is None else moments.bookkeeping.learnt(),
                "state": None if self._state is None else self._state(),
                "start": start,
            }
        )
        self._written = self._top

    @property
    def _how_to_go_on(self) -> str:
        """The sentence on the checkpoint of a run that ends early, or ""."""
        if self._writer is None:
            return ""
        return "" if self._written and not self._writer.written else how_to_go_on(self._writer)

    def _say_how_to_go_on(self, error: BaseException) -> None:
        if self._how_to_go_on:
            error.add_note(self._how_to_go_on)

    def _arrays_so_far(self) -> dict[str, Any]:
        """The arrays of the last iterate, without other arguments of its law; none before the first."""
        found = None if self._latest is None else salvaged(self._latest)
        return {name: value for name, value in (found or {}).items() if is_array(value)}

    def _take_up(self, saved: Saved) -> None:
        """Continue with the accounts and the random numbers of an earlier run."""
        fields, accounts = saved.fields, saved.fields["run"]
        for name in ACCOUNTS:
            setattr(self, name, accounts[name])
        self._history.rows = [tuple(row) for row in accounts["history"].tolist()]
        for name, entries in accounts["ledgers"].items():
            check_state(name, entries, {"sweeps": Mapping, "columns": Mapping, "flops": float})
            self._ledgers[name].enter(entries)
        if not all(math.isfinite(one.sweeps + one.columns) for one in self._ledgers.values()):
            raise InvalidFile("what has been counted must be finite")
        self.resumed = fields["state"]
        if self.resumed is None:  # the solver begins at its last iterate, and its set-up is made anew
            self.start = fields["start"]
            return
        self.rng.bit_generator.state = accounts["rng"]

    # ---- the loop -----------------------------------------------------------------------------

    def proceed(
        self, *, residual: float, current: Callable[[], Mapping[str, Any]], judged: bool = True
    ) -> bool:
        """Whether to make another iteration.

        Records the residual of the current iterate and calls the callbacks. False if the residual is within the
        tolerance, if the budget or the solver's own `max_iterations` is used up, if a callback returns True, and after
        an interrupt.

        Parameters
        ----------
        residual : float
            The residual of the current iterate, by the problem's law or the solver's estimate of it.
        current : callable
            Returns the current iterate as a dict of arrays.
        judged : bool, default True
            Whether a residual within the tolerance ends the run. A solver says False if the residual is that of a part,
            or if it does not show yet that the answer is complete.
        """
        if self._writer is not None and self._state is None:
            self._note_accounts()
        if self._iteration:
            self._iteration_passes = min(self._iteration_passes, self.passes - self._passes_before)
        self._passes_before = self.passes
        self._claim, residual = residual, residual * self._correction
        self._history.add(
            iteration=self._iteration,
            passes=self.passes,
            columns=self.counts.columns,
            flops=self.counts.flops,
            seconds=self.counts.seconds,
            residual=residual,
        )
        self._latest = _as_it_is(current)
        progress = Progress(
            self._iteration, self.passes, self.counts.seconds, float(residual), lambda: _copies(current())
        )
        with looking(None):  # what callbacks do is theirs
            stop = [says_stop(callback(progress)) for callback in self._callbacks]
        if self._writer is not None and self._state is None and self._writer.due:
            self._keep()
        ending = self._ending_at(residual, any(stop), judged)
        if ending in KEPT:
            self._keep()
        if ending is not None:
            self._ending = ending
            self._budget.close()
            return False
        self._iteration += 1
        return True

    def _ending_at(self, residual: float, stop: bool, judged: bool) -> Status | None:
        if self._ending is not None:
            return self._ending
        if not math.isfinite(residual):
            return Status.BREAKDOWN
        if judged and residual <= self.tol:
            return Status.CONVERGED
        if stop:
            return Status.STOPPED
        return self._limit() or self._standstill(residual)

    def _limit(self) -> Status | None:
        """The status that forbids another iteration; None if there is none."""
        if self._interrupted:
            return Status.INTERRUPTED
        if self._iteration >= getattr(self._solver, "max_iterations", math.inf):
            return Status.ITERATION_LIMIT
        least = self._iteration_passes if math.isfinite(self._iteration_passes) else 0.0
        if not self.budget.affords(least):
            return Status.BUDGET
        return None

    def _standstill(self, residual: float) -> Status | None:
        """Return STAGNATED if the residual no longer improves after `falls_short` has returned True; else None.

        The residual no longer improves if more than PATIENCE iterations pass without a residual below PROGRESS times
        the least one. Its changes are then rounding.
        """
        if math.isinf(self._shortfall):
            return None
        falls = gets_on(residual, self._least)
        self._least, self._since = (residual, 0) if falls else (self._least, self._since + 1)
        return Status.STAGNATED if self._since > PATIENCE else None

    def falls_short(self, most: float = math.inf, /, **arrays: Any) -> bool:
        """Whether to go on, because the residual of the law exceeds the tolerance although the solver's own does not.

        A loop reads ``while run.proceed(residual=r, current=c) or run.falls_short(**answer()):`` and ends with
        ``return run.finish(**answer())``. The solver's own residual may be an estimate. So this method computes the
        residual of the law, which costs the sweep of the certificate. If the result is True, each later residual of
        the solver is multiplied by a factor: the residual of the law divided by the solver's own. The result is False
        if the budget or a limit forbids another iteration, or if the residual of the law is hardly smaller than at
        the last call. If `finish` gets the same arrays, the law does not judge them again.

        Parameters
        ----------
        most : float, default infinity
            The loop goes on only if the residual of the law is at most this multiple of the tolerance. Methods that
            converge to the answer of another problem do not get nearer by going on.
        **arrays
            The arguments of `finish`.

        Returns
        -------
        bool
            False also if the loop has ended for another reason than its residual.
        """
        if self._ending is not Status.CONVERGED or not self._claim * self._correction <= self.tol:
            return False
        conclusion = self._judge(arrays).conclusion
        residual = conclusion.residual
        if not contradicts(residual, self._claim, max(self.tol, conclusion.least), most):
            return False
        limit = self._limit()
        if limit is None and not gets_on(residual, self._shortfall):
            limit = Status.STAGNATED
        if limit is not None:
            self._ending = limit
            if limit in KEPT:
                self._keep()
            return False
        self._shortfall, self._correction = residual, residual / self._claim
        self._least, self._since = residual, 0
        self._ending = None
        self._budget.reopen()
        self._passes_before = self.passes
        self._iteration += 1
        return True

    def _judge(self, arrays: Mapping[str, Any]) -> Judgement:
        """The law's judgement of arrays; computed once for the same arrays."""
        if self._judged is None or not self._judged.is_of(arrays):
            check_handed(self.problem, f"{self._call} must give run.finish", arrays)
            moments = self.moments("implicit") if self._moments is None else self._moments
            left = self._budget.left(self.passes, self._certificate())
            terms = Terms(self.tol, left, self.underflowing, self._complete, self.passes)
            found = judged(self.problem, moments, terms, arrays)
            self._certified_passes += found.conclusion.passes
            self._judged = found
        return self._judged

    @property
    def _call(self) -> str:
        """The call of the solver, as messages name it."""
        return f"solve of {self.name} ({type(self._solver).__name__})"

    @property
    def ended(self) -> bool:
        """Whether the run has ended, so that `proceed` returns False."""
        return self._ending is not None

    def offer(self, current: Callable[[], Mapping[str, Any]]) -> None:
        """Provide an answer for a run that time, an interrupt or memory ends before the next `proceed`.

        A solver whose loop runs in a library that calls back, such as ARPACK, calls this before its first iterate. An
        iterative solver does not need it: it yields an `Iterate` that is not `shown`.

        Parameters
        ----------
        current : callable
            As for `proceed`; called when the answer is needed. An answer without columns counts as none.
        """
        self._latest = current

    def _cut_short(self) -> None:
        """End at the last iterate, whose next step the budget has no passes for."""
        self._iteration = max(self._iteration - 1, 0)
        self._ending = Status.BUDGET
        self._keep()
        self._budget.close()

    def end(self, status: Status) -> None:
        """Make the next `proceed` return False and the solution carry `status`."""
        self._ending = status

    def note(self, status: Status | None, text: str) -> None:
        """Add a finding to the message of the solution.

        Parameters
        ----------
        status : Status or None
            A status such as RANK_DEFICIENT becomes the status of the solution if the run would otherwise be
            CONVERGED; see `linspec.solving.verdict.FINDINGS_FIRST`. None adds only the text.
        text : str
        """
        self._notes.append((status, text))

    def remark(self, text: str) -> None:
        """Add a sentence to the message of the solution, if it is not there yet; it bears on no status.

        Parameters
        ----------
        text : str
            A sentence; "" adds nothing.
        """
        if text and text not in self._remarks:
            self._remarks.append(text)

    # ---- the ending ---------------------------------------------------------------------------

    def finish(self, **arrays: Any) -> Solution:
        """Apply the problem's law to the arrays found and make the solution.

        Parameters
        ----------
        **arrays
            The arguments of the problem's law: ``x`` for least squares; ``x_weights``, ``y_weights`` and,
            where they are known, ``correlations`` and ``ranks`` for CCA; ``Vh``, ``S``, ``U`` for an SVD.
        """
        late = self._ending is Status.BUDGET and self._budget.timed_out
        if (late or self._interrupted) and is_empty(arrays):
            raise self._empty_handed(Status.BUDGET if late else Status.INTERRUPTED, "")
        self._budget.close()
        judgement = self._judge(arrays)
        conclusion = judgement.conclusion
        constant = constant_columns(self.problem, self.moments(), (*self._notes, *conclusion.findings))
        conclusion = replace(conclusion, findings=(*conclusion.findings, *constant))
        tol = max(self.tol, conclusion.least)
        unfinished = is_empty(arrays) or not conclusion.residual <= tol
        if unfinished and (self._cut or self._ending in KEPT):
            self.remark(self._how_to_go_on)
        found = verdict(
            self.problem,
            conclusion,
            tol=tol,
            by_default=self._by_default,
            once=self._sweeps == 1,
            ending=self._ending,
            interrupted=self._interrupted,
            cut=self._cut,
            underflowing=self.underflowing,
            notes=self._notes,
            contradictions=self.moments().bookkeeping.contradictions,
            remarks=self._remarks,
        )
        solution: Solution = self.problem.solution(
            status=found.status,
            converged=found.converged,
            message=found.message,
            residual=conclusion.residual,
            residual_kind=judgement.kind,
            iterations=self._iteration,
            passes=self.passes,
            columns=self.counts.columns,
            flops=self.counts.flops,
            seconds=self.counts.seconds,
            setup_passes=self._shared_before,
            history=self._history.table(),
            solver=self.name,
            column_names=dict(self.problem.column_names),
            frame_library=self.problem.frame_library,
            **labels_of_rows(self.problem, conclusion.fields),
            problem=self.problem.name,
            ridge=getattr(self.problem, self.problem.stated.ridge) if self.problem.stated.ridge else None,
            tol=tol,
            options=stated_options(self._solver),
            **conclusion.fields,
        )
        self._made.append(solution)
        if tells():
            LOG.debug(
                "%s: ends as %s after %d iterations, %g passes and %.3g s: %s",
                self.name,
                found.status.name,
                self._iteration,
                solution.passes,
                solution.seconds,
                found.message,
            )
        return solution

    def _accepted(self, returned: Any) -> Any:
        """Check that `finish` of this run made the return value of a solver, and return it.

        Raises
        ------
        BrokenPlugin
            When it is anything else, which the law has not judged.
        """
        if any(returned is made for made in self._made):
            return returned
        got = "None" if returned is None else f"a {type(returned).__name__} that it did not make"
        raise BrokenPlugin(
            f"{self._call} must return what run.finish(...) of its run made; got {got}. Return run.finish(...) "
            "itself, unchanged."
        )

    # ---- endings from outside -----------------------------------------------------------------

    @property
    def _interrupted(self) -> bool:
        return self._interrupts > 0

    def _interruptible(self) -> AbstractContextManager[None]:
        """Let the first Ctrl-C end the run with its last iterate; see `linspec.process.interrupts`."""
        return first_interrupt(self._note_interrupt)

    def _note_interrupt(self) -> None:
        self._interrupts += 1

    def _look(self) -> None:
        """Raise `Ended` in a sweep after an interrupt or when time is over; called by any thread."""
        if self._interrupts and not self._budget.closing:  # the ending is not cut short
            raise Ended(interrupted=True)
        if self._budget.overdue:
            raise Ended(interrupted=False)

    def _announced(self, solution: Any) -> Any:
        """The solution, with the status INTERRUPTED if an interrupt came after the verdict."""
        late = self._interrupted and solution.status is not Status.INTERRUPTED
        return as_interrupted(solution) if late else solution

    def _completed(self, solve: Callable[[], Any]) -> Any:
        """Return the solution of a solver; if passes, time, memory or an interrupt ends it, that of its last iterate.

        Parameters
        ----------
        solve : callable
            Returns the solution that `finish` of this run made.

        Raises
        ------
        BudgetTooSmall, KeyboardInterrupt, OutOfMemory
            When there is no iterate yet.
        """
        with self._watched():
            try:
                return self._accepted(solve())
            except Ended as ended:
                ending = Status.INTERRUPTED if ended.interrupted else Status.BUDGET
                cause, over = "", self._budget.closing
                least = ended.least if isinstance(ended, OutOfPasses) else None
            except BaseException as error:
                if not is_out_of_memory(error):
                    self._keep()
                    self._say_how_to_go_on(error)
                    with nullcontext() if self._tops else self._taking_up():  # the loop has not begun
                        raise
                ending, cause, over, least = Status.OUT_OF_MEMORY, one_line(error), False, None
            # Here the frames of the solver are gone, and with them what they held.
            try:
                self._keep()
                found = None if over else self._salvaged(ending)
            except BaseException as error:
                if is_out_of_memory(error):
                    ending, cause = Status.OUT_OF_MEMORY, one_line(error)
                elif not isinstance(error, Ended):
                    raise
                found = None
        if found is None:
            raise self._empty_handed(ending, cause) if least is None else self._too_few(least)
        return found

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Enforce time, interrupts and the budget inside the block, as `watching` does.

        At the end of the block, release the answers and iterates that the run holds.
        """
        try:
            with watching(self):
                yield
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._made, self._latest, self._judged = [], None, None
        if self.problem.shared is None and isinstance(self._moments, Moments):
            self._moments.bookkeeping.forget_views()

    def _salvaged(self, ending: Status) -> Solution | None:
        """The solution from the last iterate; None if there is none, or if it cannot be computed."""
        if self._latest is None:
            return None
        self._ending, self._cut = ending, True
        self._budget.reopen()
        self._budget.close()
        arrays = salvaged(self._latest)
        return None if arrays is None else self.finish(**arrays)

    def _empty_handed(self, ending: Status, cause: str) -> BaseException:
        """Make the error for a run that has nothing to return."""
        return empty_handed(
            self.name,
            self.problem,
            ending,
            cause,
            passes=self.passes,
            max_seconds=self._budget.max_seconds,
            remark=self._how_to_go_on,
        )


def _as_it_is(current: Callable[[], Mapping[str, Any]]) -> Callable[[], Mapping[str, Any]]:
    """Copy a function with the present values of its variables, which a loop rebinds within a step."""
    if not isinstance(current, FunctionType) or not current.__closure__:
        return current
    try:
        cells = tuple(CellType(cell.cell_contents) for cell in current.__closure__)
    except ValueError:  # a variable that has no value yet
        return current
    defaults, name = current.__defaults__, current.__name__
    frozen = FunctionType(current.__code__, current.__globals__, name, defaults, cells)
    frozen.__kwdefaults__ = current.__kwdefaults__
    return frozen


def _copies(iterate: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the arrays of an iterate, which its solver may change."""
    return {name: copied(value) if is_array(value) else value for name, value in iterate.items()}


def says_stop(answer: Any) -> bool:
    """Whether a callback has returned True, as a bool of Python or NumPy or an array with one entry."""
    if isinstance(answer, bool | np.bool_):
        return bool(answer)
    if not is_array(answer):
        return False
    if tuple(answer.shape) or host_dtype(answer).kind != "b":
        raise InvalidOption(
            "callback must return True to stop the run, and anything but True to go on; got an array of shape "
            f"{tuple(answer.shape)} and dtype {answer.dtype}. Reduce it to one truth value."
        )
    return bool(answer)


def watching(run: Run) -> AbstractContextManager[None]:
    """Enforce time, interrupts and the budget of passes of a run inside the block, as `linspec.solve` does."""
    return looking(run._look, run._admit)


class PartRun(Run):
    """The run of a solver that is a part of another, for a problem of its own on one of the matrices.

    Its budget is the rest of the outer one, and it has no certificate: the law judges the answer of the outer solver.
    """

    def __init__(self, outer: Run, problem: Problem[Any], solver: Any, label: str | None) -> None:
        self._outer = outer
        self._spent = outer._ledgers[label].sweeps + outer._shared_passes if label else 0.0
        self._kept = outer._budget.reserved + outer._certificate()
        bare = {name: uncounted(A)[0] for name, A in problem.matrices.items()}  # counted by this run alone
        super().__init__(
            problem.with_matrices(bare),
            solver,
            outer.name,
            max_passes=outer._budget.max_passes - self._spent - self._kept if label else None,
            max_seconds=outer._budget.max_seconds - outer._budget.seconds,
        )

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the outer run."""
        return self._outer.rng

    def _too_few(self, least: float) -> BudgetTooSmall | SweptOnce:
        return self._outer._too_few(least + self._spent + self._kept)

    def _certificate(self, after_setup: bool = False) -> float:
        return 0.0

    @property
    def _interrupted(self) -> bool:
        return self._outer._interrupted

    def falls_short(self, most: float = math.inf, /, **arrays: Any) -> bool:
        """False: the law judges the answer of the outer solver."""
        return False

    def finish(self, **arrays: Any) -> Any:
        """Pass the arrays to the outer solver."""
        check_handed(self.problem, f"{self._call} must give run.finish", arrays)
        self._made.append(arrays)
        return arrays
