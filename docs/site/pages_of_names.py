"""Pages of the public names of linspec, one each, and of its public modules.

Problem: a list of names beside the library misses the name that was added last.
Method: the tables in `linspec/__init__.py` have the names of users and those of authors, which have an index each; the
modules that hold them give the groups. Modules that are imported by their own name (`linspec.estimators`) have one page
with all that their ``__all__`` lists. Each page ends with what belongs to it: TOPICS.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from pages_of_records import Pages, escaped, table, title
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import linspec

GROUPS = {
    "Problems and their answers": (
        "linspec.families.",
        "linspec.solving.problem",
        "linspec.solving.solution",
        "linspec.solving.verdict",
        "linspec.solving.linear_solution",
        "linspec.solving.fields",
    ),
    "Solving": (
        "linspec.solving.solve",
        "linspec.solving.select",
        "linspec.solving.solver",
        "linspec.iteration",
        "linspec.solving.checkpoints",
        "linspec.solving.run",
        "linspec.studies.comparison",
        "linspec.studies.held_out",
        "linspec.solving.projection",
    ),
    "Data": ("linspec.operators", "linspec.kernels.kernel_matrices", "linspec.solving.shared_moments"),
    "Names of what is installed": ("linspec.registry.queries",),
    "For plugins": (
        "linspec.registry.spec",
        "linspec.registry.options",
        "linspec.solving.parts",
    ),
}
"""The groups of the index, by the modules in which names are defined; inference has a group by names."""

INTRODUCTION = """\
``import linspec as ls`` loads a name with its first use. Further names are for :doc:`authors of plugins <authors>`.
Problems of plugins, such as ``ls.KernelCCA``, have :doc:`pages of their own </solvers/index>`.
What is listed is public: :doc:`/about/stability` says what that promises.
"""

FOR_AUTHORS = """\
These names are for those who write solvers, problems and kinds of data: :doc:`/extend/write-a-plugin`.
Who only solves problems needs :doc:`the names of users <index>`.
"""

TOPICS = {
    "problems/cca": "CCA CCASolution significance permutation_test null_correlations bootstrap",
    "problems/svd": "SVD SVDSolution rotate Rotation project",
    "problems/least-squares": "LeastSquares LeastSquaresSolution standard_errors StandardErrors",
    "problems/supervised": "Discriminant DiscriminantSolution LinearClassifier targets",
    "problems/sparse-weights": "stability_selection StabilitySelection",
    "problems/kernel-cca": "kernels features KernelOperator get_problem",
    "problems/similarity": "similarity Similarity",
    "guide/choose-a-solver": "solve select Selection solvers describe get_solver",
    "guide/choosing": "cross_validate CrossValidation HeldOutScore ridge_path",
    "guide/compare": "compare Comparison",
    "guide/answers": "Solution load_solution Checkpoint",
    "guide/certificates": "Status Solution errors",
    "guide/rows-later": "HeldMoments",
    "guide/data": "as_operator open_rows paired labelled lagged drop_missing LinearOperator KernelOperator Moments",
    "guide/estimators": "estimators metrics",
    "guide/plots": "plots",
    "start/jobs": "datasets",
    "extend/index": "problems solvers normalizers test_matrices plugins PluginInfo",
    "extend/write-a-plugin": "Solver Iterate Context Certificate SolverSpec Needs register hookimpl testing "
    "option part tol_option limit_option form_option",
    "extend/a-problem-of-your-own": "Problem ProblemSpec LinearSolution field matrix views ridge count flag",
    "extend/architecture": "arrays linalg operators workers rows solving cost process "
    "families.cca families.discriminant",
    "reference/command-line": "cli",
}
"""Pages, and the names that belong to each of them and to each other."""

INFERENCE = (
    "significance",
    "permutation_test",
    "null_correlations",
    "bootstrap",
    "standard_errors",
    "cross_validate",
    "ridge_path",
    "stability_selection",
)

BESIDE = (
    "estimators",
    "arrays",
    "cli",
    "cost",
    "families.cca",
    "families.discriminant",
    "operators",
    "process",
    "solving",
    "workers",
)
"""Public modules that are no names of `linspec` itself."""


BAR_OR_TAIL = re.compile(r"(``[^`]+``|`[^`]*`)|\||(?<=\w)_(?!\w)")
"""A bar, or an underscore at the end of a word; code in backticks is matched first, as a group."""


def modules() -> list[str]:
    """The public modules."""
    named = [name for name in linspec.__all__ if inspect.ismodule(getattr(linspec, name))]
    return sorted({*named, *BESIDE})


def names() -> list[str]:
    """The public names that are no modules."""
    return [name for name in linspec.__all__ if name != "__version__" and name not in modules()]


def authors() -> set[str]:
    """The names and modules that only authors of plugins need."""
    return {name for name in [*names(), *modules()] if name not in linspec._OF_USERS}


def related(name: str) -> str:
    """The end of a page: the pages and names that belong to a name."""
    topics = {page: topic.split() for page, topic in TOPICS.items() if name in topic.split()}
    pages = list(topics) or ["extend/write-a-plugin" if name in authors() else "guide/index"]
    known = {*names(), *modules()}
    near = [other for members in topics.values() for other in members if other != name and other in known]
    links = [f":doc:`/{page}`" for page in pages] + [f":doc:`{other}`" for other in dict.fromkeys(near)]
    return f"\n.. seealso::\n\n   {', '.join(links)}\n"


def group_of(name: str) -> str:
    """The heading under which the index lists a name."""
    if name in INFERENCE:
        return "Choosing and inference"
    module = linspec._PUBLIC[name]
    return next((group for group, starts in GROUPS.items() if module.startswith(starts)), "More")


def write_pages(app: Sphinx, config: Any) -> None:
    """Write the index and the pages."""
    pages = Pages(Path(app.srcdir) / "api")
    for name in names():
        pages.write(f"{name}.rst", _page(name) + related(name))
    for name in modules():
        pages.write(f"{name}.rst", _module_page(name) + related(name))
    listed = {*names(), *modules()}
    pages.write("index.rst", _index("Names in Python", INTRODUCTION, listed - authors(), ["authors"]))
    pages.write("authors.rst", _index("Names for authors of plugins", FOR_AUTHORS, authors(), []))
    pages.finish()


def _page(name: str) -> str:
    """A class or a function. Of a problem only what states it: its methods are for solvers."""
    found = getattr(linspec, name)
    kind, options = ("autoclass", "   :members:\n") if inspect.isclass(found) else ("autofunction", "")
    shown = name
    if inspect.isclass(found) and issubclass(found, linspec.Problem) and found is not linspec.Problem:
        shown, options = linspec.describe(f"problem/{found.name}").statement, ""
    return f"{title(name)}\n.. currentmodule:: linspec\n\n.. {kind}:: {shown}\n{options}"


def _module_page(name: str) -> str:
    """A module with its members; its head is a title and paragraphs."""
    module = import_module(f"linspec.{name}")
    lines = [title(f"linspec.{name}"), _first_line(name) + "\n", f".. currentmodule:: linspec.{name}\n"]
    for member in module.__all__:
        found = getattr(module, member)
        if member in linspec.__all__ and getattr(linspec, member) is found:
            lines.append(f":doc:`{member}` has a page of its own.\n")
            continue
        below = docstring_below(_holder(module, member), member)
        if below:
            lines.append(f".. py:data:: {member}\n\n" + "\n".join(f"   {line}".rstrip() for line in below))
        elif inspect.isclass(found):
            lines.append(f".. autoclass:: {member}\n   :members:\n")
        else:
            lines.append(f".. autofunction:: {member}\n")
    return "\n".join(lines)


def _holder(module: Any, member: str) -> str:
    """The module that defines what another one hands on."""
    table = getattr(module, "_HOLDERS", {})
    if member in table:
        return str(table[member])
    imports = (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ImportFrom))
    names = {alias.name: node.module for node in imports for alias in node.names}
    return names.get(member) or module.__name__


def docstring_below(module: str, constant: str) -> list[str]:
    """The lines of the docstring below a constant: Python does not keep it, and autodoc looks in one file alone."""
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return [
        BAR_OR_TAIL.sub(lambda match: match[1] or "\\" + match[0], line)
        for line in found.get(("", constant), [])
    ]


def _index(heading: str, introduction: str, listed: set[str], below: list[str]) -> str:
    """A page that lists names by groups, and the pages below it."""
    groups: dict[str, list[str]] = {group: [] for group in [*GROUPS, "Choosing and inference"]}
    for name in (name for name in names() if name in listed):
        groups.setdefault(group_of(name), []).append(name)
    lines = [title(heading), introduction, ".. currentmodule:: linspec\n"]
    for group, members in groups.items():
        if members:
            ordered = [f"   {name}" for name in sorted(members, key=str.lower)]
            lines += [title(group, "-"), ".. autosummary::\n   :nosignatures:\n", *ordered, ""]
    own = [name for name in modules() if name in listed]
    rows = [(f":doc:`linspec.{name} <{name}>`", _first_line(name)) for name in own]
    lines += [title("Modules", "-"), table(("module", "what it holds"), rows, "30 70")]
    children = [*sorted(listed, key=str.lower), *below]
    lines += [".. toctree::\n   :hidden:\n", *(f"   {name}" for name in children), ""]
    return "\n".join(lines)


def _first_line(module: str) -> str:
    """The title in the docstring of a module."""
    return escaped((import_module(f"linspec.{module}").__doc__ or "").strip().partition("\n")[0])


def escape_docstring(app: Sphinx, what: str, of: str, found: Any, options: Any, lines: list[str]) -> None:
    """Make plain text of |u| and x_, which docutils takes for markup; examples stay as they are."""
    for i, line in enumerate(lines):
        if line.strip() == "Examples":
            break
        # numpydoc escapes the name of a parameter itself, before its colon.
        parameter = re.match(r"\s*[\w, *]+ : ", line)
        start = parameter.end() if parameter else 0
        lines[i] = line[:start] + BAR_OR_TAIL.sub(lambda match: match[1] or "\\" + match[0], line[start:])


def escape_help(app: Sphinx, ctx: Any, lines: list[str]) -> None:
    """Escape bars in the help of a command, where they separate choices."""
    lines[:] = [line.replace("|", "\\|") for line in lines]


def shorten_signature(
    app: Sphinx, what: str, name: str, found: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Name the default home, whose text has a path of this machine; leave out constructors that only solvers call."""
    if what == "class" and issubclass(found, linspec.Solution):
        return "", None
    return signature and re.sub(r"Home\(xp=<module .*?>, device='cpu'\)", "HOST", signature), returned


def skip_member(app: Sphinx, what: str, name: str, found: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator to route metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def mend_ways_back(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Correct the links from sources to documentation: viewcode knows one public module for each file."""
    documented = app.env.domains["py"].data["objects"]

    def corrected(match: re.Match[str]) -> str:
        parts = match[2].split(".")
        tails = [".".join(["", *parts[i:]]) for i in range(1, len(parts))]
        ends = (full for tail in tails for full in documented if full.endswith(tail))
        return match[1] + (match[2] if match[2] in documented else next(ends, match[2]))

    if page.startswith("_modules/"):
        context["body"] = re.sub(
            r'(viewcode-back" href="[^"#]*#)([\w.]+)', corrected, context.get("body", "")
        )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx: pages are written before it looks for them."""
    app.connect("config-inited", write_pages)
    app.connect("autodoc-process-docstring", escape_docstring, priority=100)  # before numpydoc
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("html-page-context", mend_ways_back)
    app.setup_extension("sphinx_click")  # which has these events
    for part in ("description", "options", "arguments", "epilog"):
        app.connect(f"sphinx-click-process-{part}", escape_help)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
