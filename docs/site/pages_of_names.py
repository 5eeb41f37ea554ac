"""Pages of the public names of linspec, one each, and of its public modules.

Problem: a list of names beside the library misses the name that was added last.
Method: `linspec.__all__` has the names, and the modules that hold them give the groups of the index. Modules that are
imported by their own name (`linspec.estimators`) have one page with all that their ``__all__`` lists.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from pages_of_records import Pages, escaped, title
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import linspec

GROUPS = {
    "Problems and their answers": (
        "linspec.families.",
        "linspec.solving.problem",
        "linspec.solving.solution",
        "linspec.solving.conclusion",
    ),
    "Solving": (
        "linspec.solving.solve",
        "linspec.solving.select",
        "linspec.solving.solver",
        "linspec.solving.iterates",
        "linspec.solving.run",
        "linspec.studies.comparison",
        "linspec.studies.held_out",
        "linspec.solving.projection",
    ),
    "Data": ("linspec.operators", "linspec.kernels.kernel_matrices", "linspec.moments.moments"),
    "Names of what is installed": ("linspec.registry.queries", "linspec.registry.loading"),
    "For plugins": (
        "linspec.registry.spec",
        "linspec.registry.options",
        "linspec.registry.hookspecs",
        "linspec.solving.normalizer",
        "linspec.solving.random_test_matrix",
    ),
}
"""The groups of the index, by the modules in which names are defined; inference has a group by names."""

INTRODUCTION = """\
``import linspec as ls`` loads a name with its first use. What is listed here is public: :doc:`/about/stability` says
what that promises.
"""

INFERENCE = (
    "significance",
    "permutation_test",
    "null_correlations",
    "bootstrap",
    "cross_validate",
    "ridge_path",
)

BESIDE = (
    "estimators",
    "arrays",
    "algebra",
    "cli",
    "cost",
    "families.cca",
    "moments",
    "operators",
    "process",
    "solving",
    "sweeps",
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
        pages.write(f"{name}.rst", _page(name))
    for name in modules():
        pages.write(f"{name}.rst", _module_page(name))
    pages.write("index.rst", _index())
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
    first = escaped((module.__doc__ or "").strip().partition("\n")[0])
    lines = [title(f"linspec.{name}"), first + "\n", f".. currentmodule:: linspec.{name}\n"]
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


def _index() -> str:
    lines = [
        title("Names in Python"),
        INTRODUCTION,
    ]
    groups: dict[str, list[str]] = {}
    for name in names():
        groups.setdefault(group_of(name), []).append(name)
    for group, members in [
        *((g, groups.pop(g)) for g in [*GROUPS, "Choosing and inference"] if g in groups),
        *groups.items(),
    ]:
        lines += [
            title(group, "-"),
            ".. currentmodule:: linspec\n",
            ".. autosummary::\n   :nosignatures:\n",
            *(f"   {name}" for name in sorted(members, key=str.lower)),
            "",
        ]
    lines += [title("Modules", "-"), *(f"- :doc:`{name}`" for name in modules()), ""]
    lines += [
        ".. toctree::\n   :hidden:\n",
        *(f"   {name}" for name in sorted([*names(), *modules()], key=str.lower)),
        "",
    ]
    return "\n".join(lines)


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
    """Name the default home, whose text has a path of the machine that builds the pages."""
    return signature and re.sub(r"Home\(xp=<module .*?>, device='cpu'\)", "HOST", signature), returned


def skip_member(app: Sphinx, what: str, name: str, found: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator to route metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx: pages are written before it looks for them."""
    app.connect("config-inited", write_pages)
    app.connect("autodoc-process-docstring", escape_docstring, priority=100)  # before numpydoc
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-skip-member", skip_member)
    app.setup_extension("sphinx_click")  # which has these events
    for part in ("description", "options", "arguments", "epilog"):
        app.connect(f"sphinx-click-process-{part}", escape_help)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
