"""`linspec new`: write a package for a solver, a problem or a kind of data, under the user's own names.

Problem: a first plugin needs a dozen names in seven files, and a misspelt one is found only when it is installed.
Method: the folders of `linspec/templates` are packages that pass the conformance tests. A copy has the user's names in
place of the template's in every text and every path. The template's own name is that of its package.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

import linspec
from linspec import registry
from linspec.cli.output import Failure, echo
from linspec.cli.problems import Command
from linspec.process.paths import is_there
from linspec.process.plurals import count_of
from linspec.registry.kinds import KINDS

__all__ = ["new"]

TEMPLATES = Path(linspec.__file__).parent / "templates"
"""The folder of the templates."""

SOLVER = "least-squares-solver"
"""The template of a solver where no problem is named."""

TEXTS = {".md", ".py", ".toml", ".typed"}
"""Suffixes of the files of a template that are copied. Files with other suffixes, such as bytecode, are left out."""


@click.command(
    cls=Command, short_help="Write a package for a solver, a problem or a kind of data of your own."
)
@click.argument("kind", type=click.Choice(["solver", "problem", "data"]))
@click.argument("name")
@click.option("--folder", default=".", metavar="DIR", help="Where to write linspec-NAME.  [default: here]")
@click.option("--problem", metavar="NAME", help="What a solver solves.  [default: least squares]")
def new(kind: str, name: str, folder: str, problem: str | None) -> None:
    """Write a package for a solver, a problem or a kind of data of your own.

    The folder linspec-NAME has a working example under your name, which can be installed and passes the conformance
    tests: replace the example by your method. NAME is lower-case words joined by hyphens, such as two-step.
    """
    template = _template(kind, problem)
    files = _files(template)
    example = _names(_example(files))
    own = _checked(name)
    _check_free(kind, own, template.name.removesuffix("-solver"))
    _check_apart(own, example, files)
    written = {_renamed(path, example, own): _renamed(text, example, own) for path, text in files.items()}
    target = Path(folder) / own.distribution
    if is_there(target):
        raise Failure(f"{target} exists already. Choose another name or --folder, or remove it.")
    for path, text in written.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, "utf-8")
    echo(f"Wrote {count_of(len(written), 'file')} to {target}. Next, in this folder:\n")
    for line in _commands(written["README.md"]):
        echo(f"    {line}")


@dataclass(frozen=True)
class _Names:
    """The forms of a name: `record`, such as two-step; `module`, two_step; and `class_name`, TwoStep."""

    record: str
    module: str
    class_name: str

    @property
    def distribution(self) -> str:
        return f"linspec-{self.record}"


def _names(record: str) -> _Names:
    words = record.split("-")
    return _Names(record, "_".join(words), "".join(word.capitalize() for word in words))


# ---- the templates ----------------------------------------------------------------------------------


def _template(kind: str, problem: str | None) -> Path:
    """Return the folder of the template of a kind; refuse a problem whose solvers have none."""
    if kind != "solver":
        if problem is not None:
            raise Failure(f"--problem says what a solver solves; got it for {kind!r}. Leave it out.")
        return TEMPLATES / kind
    found = TEMPLATES / (SOLVER if problem is None else f"{problem}-solver")
    known = sorted(path.name.removesuffix("-solver") for path in TEMPLATES.glob("*-solver"))
    if problem is not None and problem not in known:
        raise Failure(
            f"there are templates of solvers for {', '.join(known)}; got --problem {problem}. Begin with one of "
            "these, and change `problem` in plugin.py and the arrays of its iterates."
        )
    return found


def _files(template: Path) -> Mapping[str, str]:
    """Return the texts of a template's files, by their paths relative to the folder of the template."""
    paths = sorted(path for path in template.rglob("*") if path.suffix in TEXTS and path.is_file())
    inside = {path.relative_to(template): path for path in paths}
    return {
        place.as_posix(): path.read_text("utf-8")
        for place, path in inside.items()
        if not place.as_posix().startswith((".", "build/", "dist/"))
    }


def _example(files: Mapping[str, str]) -> str:
    """Return the name of a template's example, which is read from the template's package: linspec_NAME."""
    (package,) = {path.partition("/")[0] for path in files if path.startswith("linspec_")}
    return package.removeprefix("linspec_").replace("_", "-")


def _commands(readme: str) -> list[str]:
    """Return the commands of the first block of a page."""
    block = readme.partition("```console\n")[2].partition("```")[0]
    return [line.removeprefix("$ ") for line in block.splitlines()]


# ---- the names --------------------------------------------------------------------------------------


def _renamed(text: str, example: _Names, own: _Names) -> str:
    """Replace the forms of the example's name, all in one pass."""
    forms = {
        f"_{example.module}": f"_{own.module}",
        example.module: own.module,
        example.record: own.record,  # a single word means the record, except behind an underscore
        example.class_name: own.class_name,
        example.record.upper(): own.class_name,  # the class of the example may be an abbreviation
    }
    pattern = "|".join(map(re.escape, forms))
    return re.sub(pattern, lambda match: forms[match[0]], text)


def _checked(name: str) -> _Names:
    """Return the forms of a name; refuse one that no record or no module can have."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)
        better = "-".join(words).lower().lstrip("0123456789-") or "two-step"
        raise Failure(
            "NAME must be lower-case words of letters and digits joined by hyphens, and begin with a letter; "
            f"got {name!r}. Try {better!r}."
        )
    names = _names(name)
    if keyword.iskeyword(names.module) or keyword.iskeyword(names.class_name):
        raise Failure(f"NAME must not be a keyword of Python; got {name!r}. Try {f'my-{name}'!r}.")
    return names


def _check_free(kind: str, own: _Names, problem: str) -> None:
    """Refuse a name that is registered already, or whose package linspec_NAME is installed."""
    name = own.record
    remedy = f"Choose another one, such as {f'my-{name}'!r}."
    if kind == "solver":
        taken = name in registry.solvers(problem)
    elif kind == "problem":
        taken = name in registry.problems()
    else:
        taken = name in [spec.name for spec in registry.operator_adapters()]
    if taken:
        what = f"{problem} has a solver" if kind == "solver" else f"there is a kind of {kind}"
        raise Failure(f"{what} named {name!r} already. {remedy}")
    if kind == "problem" and name in KINDS:
        raise Failure(
            f"a problem cannot have the name of a kind of records ({', '.join(KINDS)}); got {name!r}. {remedy}"
        )
    package = f"linspec_{own.module}"
    if importlib.util.find_spec(package) is not None:
        raise Failure(f"a package {package} is installed already. {remedy}")


def _check_apart(own: _Names, example: _Names, files: Mapping[str, str]) -> None:
    """Refuse a name of the user that the template uses for something other than its example.

    The module name must not be the name of a file of the template. The class name, alone or followed by "Solution",
    must not be a word in its Python code.
    """
    placeholder = _names("name-of-the-example")
    others = {_renamed(path, example, placeholder): text for path, text in files.items()}
    code = "\n".join(
        _renamed(text, example, placeholder) for path, text in others.items() if path.endswith(".py")
    )
    modules = {Path(path).stem for path in others}
    if own.module in modules or re.search(rf"\b({own.class_name}|{own.class_name}Solution)\b", code):
        raise Failure(
            f"the package itself has something else that is named {own.record!r} or {own.class_name!r}. "
            f"Choose another name, such as {f'my-{own.record}'!r}."
        )
