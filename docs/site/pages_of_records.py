"""Pages of solvers and problems, made of their records and classes when the site is built.

Problem: a page for each solver with its options, needs and source repeats what records and classes say, and
repetitions drift apart.
Method: before Sphinx looks for pages, this extension asks the registry, writes a page for each problem and each
solver, and a table of which solver takes which data. The text of a page is the head of the solver's module;
its example is the one in the docstring of the problem's class, solved by this solver, and its output is what
the example printed just now. The table is found by trying. What an installed plugin registers gets the same pages.

A problem's class states an example when the ``Examples`` of its docstring give a value to ``problem``. Without one,
the first planted case of the conformance kit is the example.
"""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import importlib.util
import io
import json
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends import BACKENDS
from planted import MADE, planted_case
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

import linspec
from linspec import errors, registry
from linspec.registry.options import Option
from linspec.registry.spec import TRAITS, ProblemSpec, SolverSpec

LOG = logging.getLogger(__name__)

NUMBERS = Path(__file__).parent / "solver-numbers.json"
"""File of the measurements of `solver_numbers.py`, by problem and solver."""

PART = re.compile(r"^(Problem|Method|Source|Where we differ|Names|Notes?): ", re.MULTILINE)
"""How the parts of a module's head begin."""

NEEDS = {
    "adjoint": "products with the transpose",
    "diagonal": "exact column norms",
    "dense": "the whole matrix as an array",
    "entries": "the entries, some rows at a time",
    "rows": "row slices by index, for minibatches",
}


INDEX = """\
A page for each problem lists its solvers, and :doc:`one page <numbers>` compares them all. A page for each solver has
an example with its output, the options, the method and its source. :doc:`data` shows which solver takes which data.
"""

NUMBERS_PAGE = """\
Every solver solved one problem of its kind with its default options. Passes do not depend on the machine.
``python docs/site/solver_numbers.py`` measures them anew.
"""

DATA_PAGE = """\
Each solver was given the first planted case of its problem as each kind of data when this page was made. *no* means
that linspec refuses before anything is computed, and names solvers that can take the data; – means that the library or
the device was not there. *array API* is array-api-strict, which stands for libraries that follow it; *slices*
are rows that come from a function, an *iterator* gives them once; *products* can only be multiplied.
Frames become arrays, and what takes NumPy arrays takes them: :doc:`what can be passed as data </guide/data>`.
"""


# ---------------------------------------------------------------------------------------------- files and markup


class Pages:
    """A folder of generated pages: files are written where they change, and removed where nobody writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.written = folder, set[Path]()

    def write(self, name: str, text: str) -> None:
        """Write a page, unless it is there with this text."""
        file = self.folder / name
        self.written.add(file)
        if not file.exists() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")

    def finish(self) -> None:
        """Remove the pages of what is no longer registered."""
        for file in self.folder.rglob("*.*"):
            if file.is_file() and file not in self.written:
                file.unlink()


def title(text: str, line: str = "=") -> str:
    """A title in reStructuredText."""
    return f"{text}\n{line * len(text)}\n"


def escaped(text: str) -> str:
    """Plain text as reStructuredText: what stands in backticks is code, the rest is as it is written."""
    pieces = re.split(r"(``[^`]+``|`[^`\n]+`)", text)
    for i in range(0, len(pieces), 2):
        pieces[i] = re.sub(r"([\\*|])|_(?!\w)", lambda match: "\\" + match[0], pieces[i])
    return "".join(pieces)


def with_links(text: str) -> str:
    """Escaped text whose DOIs and numbers of arXiv are links."""
    text = re.sub(r"doi:(10\.[^\s,;)\]]*[^\s,;.)\]])", r"`doi:\1 <https://doi.org/\1>`__", text)
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"`arXiv:\1 <https://arxiv.org/abs/\1>`__", text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]], widths: str = "auto") -> str:
    """A list-table."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [head, *rows]:
        for i, cell in enumerate(row):
            lead = "   * - " if i == 0 else "     - "
            lines.append(lead + cell.replace("\n", "\n       "))
    return "\n".join(lines) + "\n"


def code(text: str, language: str = "python", css: str = "") -> str:
    """A block of code."""
    option = f"   :class: {css}\n" if css else ""
    return f".. code-block:: {language}\n{option}\n{textwrap.indent(text.rstrip(), '   ')}\n"


def prose(text: str) -> str:
    """The text of a docstring: paragraphs, and indented formulas line by line."""
    blocks = []
    for paragraph in re.split(r"\n[ \t]*\n", text.strip("\n")):
        if paragraph.startswith((" ", "\t")):
            blocks.append(code(textwrap.dedent(paragraph), "none", "formula"))
        else:
            blocks.append(with_links(escaped(re.sub(r"::$", ":", paragraph))) + "\n")
    return "\n".join(blocks)


def head_of(module: str) -> str:
    """The docstring of a module, with a term for each of its parts."""
    text = textwrap.dedent(sys.modules[module].__doc__ or "").strip()
    _, _, body = text.partition("\n")  # the first line is a title
    pieces = PART.split(body.strip())
    parts = [prose(pieces[0])] if pieces[0].strip() else []
    for name, content in zip(pieces[1::2], pieces[2::2], strict=True):
        parts += [f".. rubric:: {name}\n", prose(content[:1].upper() + content[1:])]
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------------------ examples


@dataclass(frozen=True)
class Example:
    """A script that states a problem, and what it needs."""

    statement: str
    problem: str

    def by(self, solver: str, *, randomized: bool) -> str:
        """The script that solves it by one solver and shows the answer."""
        seed = ", rng=0" if randomized else ""
        return (
            f'{self.statement}\nsolution = ls.solve(problem, "{solver}"{seed})\nprint(solution.summary())\n'
        )


def example_of(problem: str) -> Example:
    """The example of a problem, from the docstring of its class: what leads to a line ``problem = ...``."""
    cls = registry.get_problem(problem)
    lines: list[str] = []
    for example in doctest.DocTestParser().get_examples(cls.__doc__ or ""):
        lines.append(example.source.rstrip())
        if re.match(r"problem\s*=", example.source):
            return Example("\n".join(lines), problem)
    raise ExtensionError(f"the docstring of {cls.__name__} must have an example with a line 'problem = ...'")


def output_of(script: str, place: str) -> str:
    """Run a script and return its output; a script that fails ends the build."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a budget ran out is in the answer as well
            exec(compile(script, f"<example of {place}>", "exec"), {"__name__": "__example__"})  # noqa: S102
    except Exception as error:
        raise ExtensionError(f"the example of {place} failed: {type(error).__name__}: {error}") from error
    return printed.getvalue()


# ----------------------------------------------------------------------------------------------- kinds of data


def _slices(x: Any) -> Any:
    return lambda: (x[i : i + 20] for i in range(0, len(x), 20))


def _backend(name: str) -> Callable[[Any], Any] | None:
    found = next(backend for backend in BACKENDS if backend.name == name)
    return None if found.missing() else found.wrap


DATA: dict[str, Callable[[], Callable[[Any], Any] | None]] = {
    "NumPy": lambda: _backend("numpy"),
    "array API": lambda: _backend("array-api-strict"),
    "torch": lambda: _backend("torch"),
    "CuPy": lambda: _backend("cupy"),
    "sparse": lambda: _backend("scipy-csr"),
    "``.npy`` file": lambda: _backend("npy-file"),
    "slices": lambda: _slices,
    "iterator": lambda: lambda x: _slices(x)(),
    "products": lambda: _backend("products-only"),
}
"""Kinds of data, and what makes such data of an array; None where the machine lacks the library."""

TAKES, REFUSES, UNTRIED = "yes", "no", "–"

COMPANIONS = {"least-squares": "B", "kernel-ridge": "Y", "ridge-many-targets": "Y", "pls-regression": "Y"}
"""Matrices that are arrays whatever the data are: right-hand sides."""


def takes(problem: str, solver: str) -> dict[str, str]:
    """Which kinds of data a solver takes, found by solving a small case on each; problems of others are not tried."""
    if problem not in MADE:
        return dict.fromkeys(DATA, UNTRIED)
    case, companions = planted_case(problem), COMPANIONS.get(problem, "")
    rows = {name: value for name, value in case.parameters.items() if name != "kernel_x"}
    case = dataclasses.replace(case, parameters=rows)  # a kernel of rows, which come in any kind
    found = {}
    for kind, make in DATA.items():
        wrap = make()
        found[kind] = UNTRIED if wrap is None else _answer(case, solver, wrap, kind, companions)
    return found


def _answer(case: Any, solver: str, wrap: Any, kind: str, companions: str) -> str:
    arrays = kind in {"NumPy", "array API", "torch", "CuPy"}
    cls = registry.get_solver(solver, case.problem)
    few = (
        {"max_iterations": 2}
        if "max_iterations" in {o.name for o in linspec.describe(f"{case.problem}/{solver}").options}
        else {}
    )
    main = [name for name in case.arrays if name not in companions]
    data = {
        name: x.copy() if name in companions and not arrays else wrap(x) for name, x in case.arrays.items()
    }
    if kind == "iterator" and len(main) > 2:  # slices of two matrices can be paired, of more not
        return REFUSES
    if kind == "iterator" and len(main) > 1:
        first, second = (case.arrays[name] for name in main)
        both = linspec.paired(
            iter([(first[i : i + 20], second[i : i + 20]) for i in range(0, len(first), 20)])
        )
        data.update(zip(main, both, strict=True))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            linspec.solve(case.state(data), cls(**few), rng=0)
    except (errors.MissingCapability, errors.SweptOnce, errors.UnsupportedData):
        return REFUSES
    except errors.MissingPackage:
        return UNTRIED
    return TAKES


# ---------------------------------------------------------------------------------------------------------- pages


def solver_page(problem: str, solver: str) -> str:
    """The name of a solver's page; names with a provider have a colon, which files do not."""
    return f"solvers/{problem}/{solver.replace(':', '--')}"


def write_pages(app: Sphinx, config: Any) -> None:
    """Write the pages of all problems and solvers."""
    pages = Pages(Path(app.srcdir) / "solvers")
    numbers = json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}
    listed = registry.problems()
    taken, compared = {}, []
    for problem in listed:
        spec = registry.get_spec("problem", problem)
        for solver in registry.solvers(problem):
            taken[problem, solver] = takes(problem, solver)
            pages.write(
                f"{solver_page(problem, solver).removeprefix('solvers/')}.rst",
                _solver_page(problem, solver, taken[problem, solver]),
            )
        pages.write(f"{problem}/index.rst", _problem_page(spec, numbers.get(problem)))
        if problem in numbers:
            compared += [title(problem, "-"), _compared(numbers[problem], registry.solvers(problem), problem)]
    pages.write("numbers.rst", "\n".join([title("Solvers on one data set"), NUMBERS_PAGE, *compared]))
    pages.write("index.rst", _index(listed))
    pages.write("data.rst", _data_page(taken))
    pages.finish()


def _index(problems: Iterable[str]) -> str:
    lines = [
        title("Solvers"),
        INDEX,
    ]
    rows = []
    for problem in problems:
        names = [
            f":doc:`{name} <{problem}/{Path(solver_page(problem, name)).name}>`"
            for name in registry.solvers(problem)
        ]
        rows.append(
            (
                f":doc:`{problem} <{problem}/index>`",
                escaped(registry.get_spec("problem", problem).summary),
                ", ".join(names),
            )
        )
    lines += [table(("problem", "what is asked", "solvers"), rows, "15 35 50")]
    lines += [".. toctree::\n   :hidden:\n", *(f"   {problem}/index" for problem in problems), "   data", ""]
    return "\n".join(lines)


def _problem_page(spec: ProblemSpec, numbers: dict[str, Any] | None) -> str:
    names = registry.solvers(spec.name)
    cls = registry.get_problem(spec.name)
    lines = [
        title(spec.name),
        escaped(spec.summary) + "\n",
        f"In Python: ``{linspec.describe(f'problem/{spec.name}').statement}``, {_place(cls, spec.name)}.\n",
    ]
    lines += [prose(_opening(cls)), title("Solvers", "-")]
    rows = []
    for name in names:
        record = registry.get_spec("solver", name, spec.name)
        rows.append(
            (
                f":doc:`{name} <{Path(solver_page(spec.name, name)).name}>`",
                escaped(record.summary),
                ", ".join(record.traits),
            )
        )
    lines.append(table(("solver", "what it does", "traits"), rows, "20 55 25"))
    if numbers:
        lines += [":doc:`/solvers/numbers` compares them on one data set.\n"]
    lines += [
        title("An example", "-"),
        code(example_of(spec.name).statement + '\nsolution = ls.solve(problem)   # "auto"'),
    ]
    lines += [
        ".. toctree::\n   :hidden:\n",
        *(f"   {Path(solver_page(spec.name, name)).name}" for name in names),
        "",
    ]
    return "\n".join(lines)


def _place(cls: type, name: str) -> str:
    """How to get a problem's class."""
    if cls.__name__ in linspec.__all__:
        return f":doc:`linspec.{cls.__name__} </api/{cls.__name__}>`"
    return f'``linspec.get_problem("{name}")``, from ``{cls.__module__}``'


def _opening(cls: type) -> str:
    """The paragraphs of a docstring before its first section, without the first line."""
    text = textwrap.dedent("    " + (cls.__doc__ or "")).strip()
    text = re.split(r"\n\w[\w ]*\n-{3,}", text)[0]
    first, _, rest = text.partition("\n\n")
    return f"{' '.join(first.split())}\n\n{textwrap.dedent(rest)}"


def _compared(numbers: dict[str, Any], names: Iterable[str], problem: str) -> str:
    rows = []
    for name in names:
        if (row := numbers["solvers"].get(name)) is None:
            continue
        residual = "not known" if row["residual"] is None else f"{row['residual']:.1e}"
        cells = (f"{row['passes']:g}", f"{row['seconds']:.3g}", residual, row["status"])
        rows.append((f":doc:`{name} <{problem}/{Path(solver_page(problem, name)).name}>`", *cells))
    head = ("solver", "passes", "CPU seconds", "residual", "status")
    said = (
        f"{escaped(numbers['data'])} Seconds are those of {escaped(numbers['machine'])}, "
        f"one BLAS thread, {numbers['date']}."
    )
    return said + "\n\n" + table(head, rows)


def _solver_page(problem: str, name: str, taken: dict[str, str]) -> str:
    spec = registry.get_spec("solver", name, problem)
    described = linspec.describe(f"{problem}/{name}")
    cls = registry.get_solver(name, problem)
    lines = [title(f"{problem}/{name}"), escaped(spec.summary) + "\n"]
    provider = f"{described.provider.partition(':')[0]} {described.version}".strip()
    facts = [
        ("Problem", f":doc:`{problem} <index>`"),
        ("Source", with_links(escaped(spec.reference))),
        ("Needs", _needs(spec)),
        ("Traits", "; ".join(f"*{trait}*: {escaped(TRAITS[trait])}" for trait in spec.traits) or "none"),
        ("Class", f"``{spec.target.replace(':', '.')}``, from {escaped(provider)}"),
    ]
    lines += [f":{key}: {value}" for key, value in facts]
    lines += ["", title("Example", "-"), _example(spec)]
    lines += [title("Options", "-"), _options(described.options)]
    if text := head_of(cls.__module__):
        lines += [title("Method", "-"), text]
    lines += [title("Data", "-"), _data(taken)]
    return "\n".join(lines)


def _needs(spec: SolverSpec) -> str:
    words = [words for name, words in NEEDS.items() if getattr(spec.needs, name)]
    return ", ".join(["products", *words])


def _example(spec: SolverSpec) -> str:
    script = example_of(spec.problem).by(spec.name, randomized="randomized" in spec.traits)
    shown = code(script)
    if spec.problem == "deep-cca" and importlib.util.find_spec("torch") is None:
        return f"{shown}\nThe output is missing here: no torch where these pages were made.\n"
    return f"{shown}\nIt prints:\n\n{code(output_of(script, spec.qualified), 'none', 'output')}"


def _options(options: tuple[Option, ...]) -> str:
    if not options:
        return "It has none.\n"
    rows = ((f"``{o.name}``", escaped(o.expects), f"``{o.default!r}``", escaped(o.help)) for o in options)
    return table(("option", "type and range", "default", "what it does"), rows, "18 26 16 40")


def _data(taken: dict[str, str]) -> str:
    words = {TAKES: "Takes", REFUSES: "Refuses", UNTRIED: "Not tried here"}
    groups = {answer: [kind for kind, got in taken.items() if got == answer] for answer in words}
    said = " ".join(f"{words[answer]}: {', '.join(kinds)}." for answer, kinds in groups.items() if kinds)
    passed = ":doc:`what can be passed as data </guide/data>`"
    return f"{said} See :doc:`the table of all solvers <../data>`, and {passed}.\n"


def _data_page(taken: dict[tuple[str, str], dict[str, str]]) -> str:
    lines = [
        title("Which solver takes which data"),
        DATA_PAGE,
    ]
    for problem in dict.fromkeys(problem for problem, _ in taken):
        rows = [
            (f":doc:`{name} <{problem}/{Path(solver_page(problem, name)).name}>`", *found.values())
            for (of, name), found in taken.items()
            if of == problem
        ]
        lines += [title(problem, "-"), table(("solver", *DATA), rows)]
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx: pages are written before it looks for them."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
