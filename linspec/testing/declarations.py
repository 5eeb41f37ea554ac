"""Checks of the declarations of a record and its class, without solving anything.

Problem: listing, help, documentation and the other checks all read declarations, so a wrong declaration is
wrong in all of them.
Method: each check takes the record and the class and returns their faults. Bad option values are generated
from the options' own constraints. A fresh interpreter shows whether a table loads an array library.
Source: scikit-learn's parameter-constraint tests.
Where we differ: the checks do not guess what an option means; they use what it declares.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import Any

from linspec import registry
from linspec.errors import InvalidOption, LinspecError, UnknownOption
from linspec.registry.options import Option, build, invalid_values, options_of
from linspec.registry.queries import LOCAL
from linspec.registry.spec import PROJECT, resolve
from linspec.testing.process import SLEEP

__all__ = ["declaration_issues", "table_file"]

ARRAY_LIBRARIES = ("numpy", "scipy", "cupy", "torch", "jax", "dask", "sklearn", "array_api_compat")


IMPORT_SECONDS, TRIES = 1.0, 3
"""Time limit of the import of a table, and number of tries; tables of linspec take some milliseconds."""


def declaration_issues(spec: Any, provider: str) -> Iterator[tuple[str, str]]:
    """Check a record and the class it names.

    Parameters
    ----------
    spec : SolverSpec, NormalizerSpec, TestMatrixSpec or OperatorSpec
    provider : str
        ``distribution:entry`` of the plugin that registers it.

    Yields
    ------
    (check, issue) : tuple of str
        The name of the check, and the fault. The issue is "" if the check passed. An issue that begins with
        "skipped: " is the reason why the check was not made.
    """
    if spec.kind == "operator":  # it names functions and has nothing else to declare
        yield "summary", _summary_issue(spec, None)
        yield "light-table", _table_issue(provider)
        return
    try:
        cls = resolve(spec.target)
    except Exception as error:  # noqa: BLE001 (an import may fail in any way)
        yield (
            "target",
            f"the target {spec.target} must be importable; got {type(error).__name__}: {error}",
        )
        return
    yield "target", ""
    if spec.kind == "problem":  # its fields are not options
        yield "summary", _summary_issue(spec, None)
        yield "light-table", _table_issue(provider)
        yield "quiet-import", _import_issue(spec, provider)
        return
    for name, check in (
        ("defaults", _defaults_issue),
        ("invalid-options", _invalid_options_issue),
        ("option-help", _option_help_issue),
        ("docstring", _docstring_issue),
        ("reference", _reference_issue),
        ("summary", _summary_issue),
        *([("automatic", _automatic_issue)] if spec.kind == "solver" else []),
    ):
        try:
            yield name, check(spec, cls)
        except Exception as error:  # noqa: BLE001 (a broken declaration may fail in any way)
            yield name, f"the declaration could not be checked: raised {type(error).__name__}: {error}"
    yield "light-table", _table_issue(provider)
    yield "quiet-import", _import_issue(spec, provider)


def _defaults_issue(_: Any, cls: Any) -> str:
    try:
        cls()
    except Exception as error:  # noqa: BLE001 (a class may fail in any way)
        return f"{cls.__name__}() must accept its own defaults; it raised {type(error).__name__}: {error}"
    return ""


def _invalid_options_issue(_: Any, cls: Any) -> str:
    issues = [
        _accepted(cls, declared, value) for declared in options_of(cls) for value in invalid_values(declared)
    ]
    try:
        build(cls, {"no_such_option": 1})
        issues.append("an unknown option must be refused with UnknownOption; no_such_option was accepted")
    except UnknownOption:
        pass
    return "; ".join(issue for issue in issues if issue)


def _accepted(cls: Any, declared: Option, value: Any) -> str:
    try:
        cls(**{declared.name: value})
    except InvalidOption:
        return ""
    except Exception as error:  # noqa: BLE001 (any other exception is the issue)
        return f"{declared.name}={value!r} must raise InvalidOption; raised {type(error).__name__}: {error}"
    return f"{declared.name}={value!r} must raise InvalidOption: {declared.name} must be {declared.expects}"


def _option_help_issue(_: Any, cls: Any) -> str:
    silent = [declared.name for declared in options_of(cls) if not declared.help.strip()]
    return f"every option must have a help text; give help= to {', '.join(silent)}" if silent else ""


def _docstring_issue(spec: Any, cls: Any) -> str:
    own = (cls.__doc__ or "").strip()
    # A dataclass without a docstring is given its signature as one.
    if not own or own.startswith(f"{cls.__name__}("):
        return f"{cls.__name__} must have a docstring; it has none. State the method and its source"
    text = own + (sys.modules[cls.__module__].__doc__ or "")
    years = re.findall(r"\b(1[89]\d\d|20\d\d)\b", spec.reference)
    if years and not any(year in text for year in years):
        return f"the docstring of {cls.__name__} or of its module must name the source ({spec.reference})"
    return ""


def _reference_issue(spec: Any, _: Any) -> str:
    if not re.search(r"\b(1[89]\d\d|20\d\d)\b", spec.reference):
        return f"the reference must have an author and a year; got {spec.reference!r}"
    if not re.match(r"[^\W\d]", spec.reference):
        return f"the reference must begin with its author; got {spec.reference!r}"
    doi = re.search(r"doi:\s*(\S*)", spec.reference)
    if doi and not re.match(r"10\.\d{4,9}/\S+", doi[1]):
        return f"a DOI must be written doi:10.1234/...; got {doi[0]!r}"
    return ""


def _summary_issue(spec: Any, _: Any) -> str:
    summary = spec.summary
    if "\n" in summary or not summary.endswith(".") or len(summary.split()) < 3 or summary[0].islower():
        return (
            "the summary must be one sentence that begins with a capital and ends with a full stop; "
            f"got {summary!r}"
        )
    return ""


def _automatic_issue(spec: Any, cls: Any) -> str:
    if cls.has_estimate() and "automatic" not in spec.traits:
        return (
            f'{cls.__name__} defines estimate, but "auto" only considers records with the trait '
            "'automatic'; add the trait to the record"
        )
    if "automatic" in spec.traits and not cls.has_estimate():
        return (
            "a class with the trait 'automatic' must define estimate; define it in "
            f"{cls.__name__}, or leave the trait out"
        )
    return ""


def _table_of(provider: str) -> Any:
    """Return the entry point of a plugin, which names the module of the plugin's table.

    None if no installed distribution has this entry point.
    """
    distribution, _, entry = provider.partition(":")
    found = (
        point
        for point in metadata.entry_points(group=PROJECT)
        if point.name == entry and point.dist is not None and point.dist.name == distribution
    )
    return next(found, None)


def table_file(provider: str) -> str:
    """Return the file of a plugin's table, or "" if there is none."""
    table = _table_of(provider)
    try:
        found = None if table is None else importlib.util.find_spec(table.module)
    except (ImportError, AttributeError, ValueError):  # a package that cannot be imported
        return ""
    return (found and found.origin) or ""


def _table_issue(provider: str) -> str:
    """Describe the fault of the import of a plugin's table (see `import_issue`); "" if there is none.

    The text begins with "skipped: " if the plugin has no table.
    """
    if provider.partition(":")[0] == LOCAL:
        return "skipped: the record was registered by hand and has no table"
    table = _table_of(provider)
    if table is None:
        return f"skipped: there is no entry point {provider}"
    return import_issue(table.module)


def _import_issue(spec: Any, provider: str) -> str:
    """Return the fault of a module that changes its process when it is imported, or ""."""
    if provider.partition(":")[0] == LOCAL:
        return "skipped: the record was registered by hand and has no table"
    modules = {_module_of(spec)}
    for name in next((info.provides for info in registry.plugins() if info.identity == provider), ()):
        with suppress(LinspecError):  # two packages may have the name
            modules.add(_module_of(registry.get_spec(None, name)))
    changed = left_in_fresh_process(tuple(sorted(modules - {""}))).get(_module_of(spec))
    if not changed:
        return ""
    return (
        f"an import must leave the process as it was; importing {_module_of(spec)} changes {', '.join(changed)}. "
        "Do no work at import"
    )


def _module_of(spec: Any) -> str:
    """Return the module of a record's target, or "" if it has none."""
    return str(getattr(spec, "target", "")).partition(":")[0]


@cache
def left_in_fresh_process(modules: tuple[str, ...]) -> dict[str, list[str]]:
    """Import modules one after the other in a fresh interpreter; return the changes that each of them makes.

    A module that cannot be imported is left out; the check "target" reports it.
    """
    code = (
        "import json\n"
        "from contextlib import suppress\n"
        "from linspec.testing.process import left_by_import\n"
        "found = {}\n"
        f"for module in {modules!r}:\n"
        "    with suppress(Exception):\n"
        "        found[module] = left_by_import(module)\n"
        "print('\\n' + json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    return found


def import_issue(module: str) -> str:
    """Import a module in a fresh interpreter, and describe its fault; "" if there is none.

    The import must succeed, load none of the `ARRAY_LIBRARIES`, and take at most `IMPORT_SECONDS` in one of the tries.
    """
    # Other processes lengthen wall time. So the time is CPU time plus time slept, but at least a tenth of wall time.
    code = (
        "import importlib, linspec, sys, time\n"
        "slept, sleep = [], time.sleep\n"
        "time.sleep = lambda seconds: (slept.append(seconds), sleep(seconds))[1]\n"
        "began, worked = time.perf_counter(), time.process_time()\n"
        f"importlib.import_module({module!r})\n"
        "took = time.process_time() - worked + sum(slept)\n"
        f"took = max(took, (time.perf_counter() - began) / {SLEEP})\n"
        f"print('\\n', took, *[name for name in {ARRAY_LIBRARIES!r} if name in sys.modules])"
    )
    took = []
    for _ in range(TRIES):  # the first import may write bytecode
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            return (
                f"the table {module} must be importable in a fresh interpreter; got "
                f"{done.stderr.strip().splitlines()[-1]}"
            )
        seconds, *loaded = done.stdout.splitlines()[-1].split()
        if loaded:
            return (
                f"a table must load no array library; importing {module} loads {', '.join(loaded)}. Import "
                "these in the modules that the records name"
            )
        took.append(float(seconds))
        if took[-1] <= IMPORT_SECONDS:
            return ""
    return (
        f"a table must be imported in less than {IMPORT_SECONDS:g} s, since every listing imports it; {module} "
        f"takes {min(took):.2g} s, the least of {TRIES} tries. Do no work at import"
    )
