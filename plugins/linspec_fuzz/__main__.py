"""`python -m linspec_fuzz`: random problems, all solvers, one table; exit status 1 for failures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from linspec_fuzz import corpus, extended, report
from linspec_fuzz.judge import FAILING, MAX_SECONDS
from linspec_fuzz.problems import families_here
from linspec_fuzz.run import Outcome, fuzz, solvers_of, try_case
from linspec_fuzz.shrink import code, shrink

SHOWN = 12
"""Default number of failures, one of each kind, that are reduced to smaller cases."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    if not extended.available():
        sys.stderr.write(
            "The fuzzer needs a numpy.longdouble that is more precise than float64; this machine has none.\n"
        )
        return 2
    families = tuple(options.family.split(",")) if options.family else families_here()
    solvers = options.solvers.split(",") if options.solvers else None
    outcomes: list[Outcome] = []
    if options.trial is None:
        outcomes += _corpus(families, solvers, options.max_seconds)
        sys.stdout.write(_corpus_table(outcomes))
    if not options.corpus:
        trials = (
            range(options.first, options.first + options.trials) if options.trial is None else [options.trial]
        )
        random = fuzz(
            trials,
            seed=options.seed,
            families=families,
            solvers=solvers,
            each=options.each,
            max_seconds=options.max_seconds,
            jobs=options.jobs,
            seen=_announce if options.trial is not None else _tell,
        )
        outcomes += random
        sys.stdout.write("\n" + report.counts(random) + "\n" + report.causes(random))
        sys.stdout.write("\n" + report.features(random))
    failures = [outcome for outcome in outcomes if outcome.verdict.fails]
    _show(failures, options)
    totals = {kind: sum(o.verdict.kind == kind for o in failures) for kind in sorted(FAILING)}
    alarms = sum(o.verdict.kind == "flagged-right" for o in outcomes)
    totals |= {"false alarms": alarms, "clear": len(outcomes) - len(failures) - alarms}
    sys.stdout.write(
        f"\n{len(outcomes)} solves; " + ", ".join(f"{kind} {n}" for kind, n in totals.items()) + "\n"
    )
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m linspec_fuzz", description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="how many random problems")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--trial", type=int, help="only this trial, with each verdict in words")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", help="families, separated by commas; by default all with an oracle")
    parser.add_argument("--solvers", help="names, separated by commas; by default all solvers, and auto")
    parser.add_argument(
        "--each", type=int, help="how many of these solve a trial, drawn anew; by default all"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--max-seconds", type=float, default=MAX_SECONDS, help="time limit of one solve")
    parser.add_argument("--corpus", action="store_true", help="only the known cases")
    parser.add_argument(
        "--shown",
        type=int,
        default=SHOWN,
        help="number of failures that are made smaller and printed as code",
    )
    return parser


def _corpus(families: Sequence[str], solvers: Sequence[str] | None, max_seconds: float) -> list[Outcome]:
    found: list[Outcome] = []
    for name, make in corpus.CORPUS.items():
        case, wanted = make()
        if case.family in families:
            chosen = solvers_of(case.family, wanted if solvers is None else solvers)
            found += try_case(case, chosen, name=name, max_seconds=max_seconds)
    return found


def _corpus_table(outcomes: Sequence[Outcome]) -> str:
    rows: list[list[object]] = [["case, solver", "class", "status", "residual", "law", "loss"]]
    for outcome in outcomes:
        verdict = outcome.verdict
        numbers = [f"{value:.2g}" for value in (verdict.residual, verdict.law, verdict.loss)]
        rows.append([f"{outcome.name}, {outcome.solver}", verdict.kind, verdict.status, *numbers])
    return report.table(rows)


def _announce(outcome: Outcome) -> None:
    verdict = outcome.verdict
    sys.stdout.write(
        f"{outcome.solver}: {verdict.kind} {verdict.status}, residual {verdict.residual:.3g}, law {verdict.law:.3g}, "
        f"loss {verdict.loss:.3g} {verdict.reason}\n"
    )


def _tell(outcome: Outcome) -> None:
    """Print a failure as soon as it occurs, before the run ends."""
    verdict = outcome.verdict
    if verdict.fails:
        sys.stderr.write(f"trial {outcome.name}, {outcome.solver}: {verdict.kind} ({verdict.cause})\n")


def _show(failures: Sequence[Outcome], options: argparse.Namespace) -> None:
    """Print every failure in a line, and one failure of each kind as a small program."""
    seen: set[tuple[str, ...]] = set()
    for outcome in failures:
        verdict = outcome.verdict
        line = f"{outcome.name}, {outcome.solver}: {verdict.kind} ({verdict.cause}) {verdict.status} {verdict.reason}"
        sys.stdout.write(f"\n{' '.join(line.split())}\n  {outcome.case}\n")
        key = outcome.case.family, str(outcome.solver), verdict.kind, verdict.cause
        if key not in seen and len(seen) < options.shown:
            seen.add(key)
            smaller, found = shrink(outcome.case, outcome.solver, verdict)
            sys.stdout.write(f"{code(smaller, outcome.solver, found)}")


if __name__ == "__main__":
    sys.exit(main())
