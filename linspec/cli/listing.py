"""`linspec solvers`, `describe`, `plugins` and `check`: list, describe and test what is registered."""

from __future__ import annotations

from collections import Counter

import click

from linspec import registry
from linspec.cli.failures import Command, Failure, install_hint
from linspec.cli.interrupts import raising
from linspec.cli.tables import show_facts, show_table
from linspec.process.plurals import count_of
from linspec.process.progress import Goal, report_progress

__all__ = ["check", "describe", "plugins", "solvers"]


@click.command(cls=Command)
@click.argument("problem", required=False)
def solvers(problem: str | None) -> None:
    """List the solvers, all or those of one PROBLEM."""
    names = registry.solvers(problem)
    rows = []
    for name in names:
        spec = registry.get_spec("solver", name, problem)
        rows.append((name, ", ".join(spec.traits), spec.summary))
    show_table(("solver", "traits", "what it does"), rows)
    click.echo(
        f"\n{count_of(len(rows), 'solver')}. `linspec describe NAME` shows the options and the source of one."
    )


@click.command(cls=Command, short_help="Describe a solver, its source, needs and options; or a problem.")
@click.argument("name")
def describe(name: str) -> None:
    """Describe a solver, normalizer, test matrix, adapter or problem.

    Every description has a summary, and names the plugin that provides the record. For solvers, normalizers and test
    matrices the source and the options follow; for solvers also the problem, and the access to the data that the solver
    needs; for problems the constructor and the solvers.

    NAME is a bare name, or cca/gram, normalizer/qr, DISTRIBUTION:NAME. If several records have the bare name, their
    full names are listed.
    """
    click.echo(str(registry.describe(name)))


@click.command(cls=Command)
def plugins() -> None:
    """List the plugins found, loaded or not, and what they provide."""
    found = registry.plugins()
    head = ("name", "distribution", "version", "status", "provides")
    rows = [(p.name, p.distribution, p.version, p.status, ", ".join(p.provides)) for p in found]
    show_table(head, rows)
    broken = [(plugin.identity, plugin.error) for plugin in found if plugin.error]
    if broken:
        click.echo()
        show_facts([(name, f"error: {error}") for name, error in broken])


@click.command(
    cls=Command, short_help="Hold a solver, or whatever else a plugin provides, to the conformance tests."
)
@click.argument("name")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME",
    help="A kind of data to test on: numpy, torch, scipy-csr, ... or all; may be repeated. [default: one of each way]",
)
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="CPU time that each test may take. A test that takes more, or 10 times as long by the clock, is ended and "
    "fails, and the remaining ones are skipped. [default: 300]",
)
def check(name: str, backends: tuple[str, ...], time_limit: float | None) -> None:
    """Hold one solver, normalizer, test matrix, adapter or problem to the conformance tests.

    NAME is a bare name where it means one thing, else cca/gram, normalizer/qr, test-matrix/srht, operator/dask,
    problem/pls. The exit status is 1 when it fails one of the tests.
    """
    try:
        from linspec import testing
    except ImportError as error:
        missing = error.name or "a package"
        if missing.startswith("linspec"):
            raise Failure(f"the conformance kit cannot be loaded: {error}.") from error
        raise install_hint(f"check needs {missing}", "testing") from error
    known = {backend.name: backend for backend in testing.BACKENDS} if backends else {}
    for wanted in () if backends == ("all",) else backends:
        if wanted not in known:
            raise Failure(f"no backend is named {wanted!r}; the backends are {', '.join(known)}.")
        if missing := known[wanted].missing():
            raise Failure(f"the backend {wanted} is not here ({missing}), so nothing could be tested on it.")
    with raising(), report_progress(f"checking {name}", None, Goal()):
        limit = {} if time_limit is None else {"time_limit": time_limit}
        report = testing.run_checks(name, backends=backends or None, **limit)
    for check, message in report.failed:
        click.echo(f"FAILED {check}: {message}")
    skipped = Counter(reason for _, reason in report.skipped)
    reasons = ", ".join(f"{count} x {reason}" for reason, count in skipped.most_common())
    why = f" ({reasons})" if reasons else ""
    counts = f"{report.passed} passed, {len(report.failed)} failed, {skipped.total()} skipped{why}"
    click.echo(f"{name}: {counts}.")
    if report.missing:
        click.echo(f"Not tried on {', '.join(report.missing)}: not installed here, or without a device.")
    if report.failed:
        click.get_current_context().exit(1)
