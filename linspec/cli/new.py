"""`linspec new`: write a package for a solver, a problem or a kind of data, under the user's own names.

Problem: a first plugin needs a dozen names in seven files, and a misspelt one is found only when it is installed.
Method: the folders of `linspec/templates` are packages that pass the conformance tests. A copy has the user's names in
place of the template's in every text and every path. The template's own name is that of its package.
"""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

import click

import linspec
from linspec import registry
from linspec.cli.commands import Command
from linspec.cli.output import echo, refuse
from linspec.process.files import is_there
from linspec.process.plurals import count_of

TEMPLATES = Path(linspec.__file__).parent / "templates"

SUFFIXES = {".md", ".py", ".toml", ".typed"}
"""Suffixes of the files of a template that are copied."""


@click.command(
    cls=Command, short_help="Write a package for a solver, a problem or a kind of data of your own."
)
@click.argument("kind", type=click.Choice(["solver", "problem", "data"]))
@click.argument("name")
@click.option("--folder", default=".", metavar="DIR", help="Where to write linspec-NAME.  [default: here]")
def new(kind: str, name: str, folder: str) -> None:
    """Write a package for a solver, a problem or a kind of data of your own.

    The folder linspec-NAME has a working example under your name, which can be installed and passes the conformance
    tests: replace the example by your method. NAME is lower-case words joined by hyphens, such as two-step.
    """
    template = TEMPLATES / kind
    paths = [path for path in sorted(template.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    files = {path.relative_to(template).as_posix(): path.read_text("utf-8") for path in paths}
    (example,) = {
        path.partition("/")[0].removeprefix("linspec_") for path in files if path.startswith("linspec_")
    }
    _check_name(kind, name, example, files)
    target = Path(folder) / f"linspec-{name}"
    refuse(is_there(target), f"{target} exists already. Choose another name or --folder, or remove it.")
    for path, text in files.items():
        copy = target / _renamed(path, example, name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_renamed(text, example, name), "utf-8")
    echo(f"Wrote {count_of(len(files), 'file')} to {target}. Next, in this folder:\n")
    commands = _renamed(files["README.md"], example, name).partition("```console\n")[2].partition("```")[0]
    echo(re.sub(r"^\$ ", "    ", commands, flags=re.MULTILINE).rstrip("\n"))


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in re.split("[-_]", name))


def _renamed(text: str, example: str, name: str) -> str:
    """Replace the example's name, its module and its class, all in one pass."""
    record = example.replace("_", "-")
    module = name.replace("-", "_")
    forms = {
        f"_{example}": f"_{module}",
        example: module,
        record: name,  # a single word means the record, except behind an underscore
        _class_name(example): _class_name(name),
        record.upper(): _class_name(name),  # the class of the example may be an abbreviation
    }
    return re.sub("|".join(map(re.escape, forms)), lambda match: forms[match[0]], text)


def _check_name(kind: str, name: str, example: str, files: dict[str, str]) -> None:
    """Refuse a name that no record or module can have, that is taken, or that the template uses for something else."""
    refuse(
        not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name),
        "NAME must be lower-case words of letters and digits joined by hyphens, such as two-step, and begin with a "
        f"letter; got {name!r}.",
    )
    module = name.replace("-", "_")
    class_name = _class_name(name)
    code = "\n".join(f"/{path}\n{text}" for path, text in files.items() if path.endswith(".py"))
    others = _renamed(code, example, "of-the-example")
    names = {
        "solver": [full.rpartition("/")[2] for full in registry.solvers()],
        "problem": [*registry.problems(), "solver", "normalizer", "test-matrix", "operator", "problem"],
        "data": [spec.name for spec in registry.operator_adapters()],
    }
    used = re.search(rf"\b{class_name}(Solution)?\b|/{module}\.py$", others, re.MULTILINE)
    keywords = {module, class_name} & {*keyword.kwlist}
    refuse(
        keywords or name in names[kind] or used or find_spec(f"linspec_{module}") is not None,
        f"the name {name!r} is taken: by Python, by a {kind} or a package linspec_{module} that is here, or by the "
        f"template itself. Choose another one, such as {f'my-{name}'!r}.",
    )
