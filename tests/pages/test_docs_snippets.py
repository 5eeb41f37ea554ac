"""The documentation runs: Python blocks, commands, links. Its lists are what is registered.

``<!-- not run: reason -->`` stands before a block that cannot run, ``<!-- needs PACKAGE: for what -->`` in a page, or
before a block, that needs a package, and ``<!-- each block is a script of its own -->`` in a page whose blocks share no
names. A block ``text`` after a Python block is what it prints: ``...`` stands for a part of a line, numbers agree to
three digits, and `tests/pages/write_outputs.py` writes them anew. Experiments run with ``--quick``.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import forked
import numpy as np
import pytest
import scipy.sparse
from project.public_surface import MODULES

import linspec as ls
from linspec.registry import Registry

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(page for page in (ROOT / "docs").glob("*/*.md") if page.parent.name != "listings"),
]

GUIDE = ROOT / "docs/evidence/README.md"
"""Its one block is a measurement, which has a test of its own."""


def place_of(page: Path) -> str:
    """A page, by its place in the repository."""
    return page.relative_to(ROOT).as_posix()


BLOCK = re.compile(
    r"^(<!-- not run: [^\n]+ -->\n)?(?:^<!-- needs (\w+): [^\n]+ -->\n)?^```(\w+)[ \t]*\n(.*?)^```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
NEEDS = re.compile(r"^<!-- needs (\w+): .+ -->$(?!\n```)", re.MULTILINE)
APART = "\n<!-- each block is a script of its own -->\n"
OUTPUT = re.compile(r"\n?```text\n(.*?)```$", re.MULTILINE | re.DOTALL)
"""What a block prints, from the line after its closing fence on."""

NUMBER = re.compile(r"(?<![\w.])-?\d*\.?\d+(?:e[+-]?\d+)?(?![\w])")
END = "\x1e"
"""Printed after each block."""

FORGET = "[globals().pop(name) for name in list(globals()) if not name.startswith('__')]"


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of its first line within the page
    needs: str | None = None  # an optional package
    prints: str | None = None  # what the page says that it prints

    @property
    def lacks(self) -> bool:
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for match in BLOCK.finditer(text):
        if match[1] is None:
            line = text.count("\n", 0, match.start(4)) + 1
            output = OUTPUT.match(text, match.end() + 1)
            found.append(Block(match[3], match[4], line, match[2], output and output[1]))
    return found


def commands() -> list[Any]:
    """The commands of each page that begin with linspec or the fuzzer, and each experiment, which takes seconds."""
    found = []
    for page in PAGES:
        own: list[str] = []
        for block in (block for block in blocks(page) if block.language in {"sh", "console"}):
            lines = [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
            if block.language == "console":  # the rest is output
                lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            if lines and lines[0].startswith("python docs/evidence/"):
                found += [pytest.param(page, [line], marks=pytest.mark.slow, id=line) for line in lines]
            elif lines and lines[0].startswith(("linspec ", "python -m linspec")):
                own += lines
        if own:
            found.append(pytest.param(page, own, id=place_of(page)))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages")
    write_data(path)
    return path


def write_data(path: Path) -> None:
    """Write the files that the pages speak of."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((150, 3))
    for name, columns in (("X", 8), ("Y", 6), ("A", 8), ("B", 2)):
        data = shared @ rng.standard_normal((3, columns)) + rng.standard_normal((150, columns))
        np.save(path / f"{name}.npy", data)
        scipy.sparse.save_npz(path / f"{name}.npz", scipy.sparse.csr_array(np.where(data > 0, data, 0.0)))
    np.save(path / "y.npy", shared.argmax(axis=1))
    scipy.sparse.save_npz(path / "labels.npz", scipy.sparse.csr_array(shared > 0.5))
    lines = [f"{a:.6f},{b:.6f},{c:.6f},{'rose' if a > 0 else 'lily'}" for a, b, c in shared]
    (path / "flowers.csv").write_text("\n".join(["petal,sepal,stem,species", *lines]) + "\n")
    lines = [
        f"{a:.6f},,{b:.6f},{c:.6f},{a + b:.6f}" if a > b else f"{a:.6f},{c - a:.6f},NA,{c:.6f},1"
        for a, b, c in shared
    ]
    (path / "gaps.csv").write_text("\n".join(["u,v,w,x,y", *lines]) + "\n")
    for name, columns in (("genes", 4), ("traits", 3)):
        data = shared @ rng.standard_normal((3, columns)) + rng.standard_normal((150, columns))
        head = ["person", *(f"{name}{j}" for j in range(columns))]
        lines = [",".join([f"p{i}", *map(str, row)]) for i, row in enumerate(data.tolist())]
        (path / f"{name}.csv").write_text("\n".join([",".join(head), *lines]) + "\n")
    if not all(map(importlib.util.find_spec, ("zarr", "h5py", "pyarrow"))):
        return  # the page on rows in files has nothing to say without these
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    X = np.load(path / "X.npy")
    zarr.create_array(str(path / "X.zarr"), shape=X.shape, dtype=X.dtype)[:] = X
    for i, part in enumerate((X[:100], X[100:])):
        pq.write_table(pa.table({f"c{j}": part[:, j] for j in range(8)}), path / f"days{i}.parquet")


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MPLBACKEND": "Agg", "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"}
    return forked.run(arguments, folder, environment)


def skip_without_packages(page: Path) -> None:
    for package in NEEDS.findall(page.read_text("utf-8")):
        pytest.importorskip(package, reason=f"no {package}")


@pytest.mark.parametrize("page", [page for page in PAGES if page != GUIDE], ids=place_of)
@pytest.mark.slow(keep=12)
def test_python_blocks_run_one_after_the_other(page: Path, folder: Path) -> None:
    """As a script of their own, at the lines where they stand, so that a traceback points into the page."""
    skip_without_packages(page)
    done, python = run_page(page, folder)
    assert done.returncode == 0, done.stderr
    outputs = done.stdout.split(END + "\n")
    for block, printed in zip([block for block in python if not block.lacks], outputs, strict=False):
        if block.prints is not None:
            assert same_output(block.prints, printed), f"line {block.line} prints:\n{printed}"
    if lacking := [f"without the block at line {b.line}: no {b.needs}" for b in python if b.lacks]:
        pytest.skip("; ".join(lacking))


def run_page(page: Path, folder: Path) -> tuple[subprocess.CompletedProcess[str], list[Block]]:
    """Run the Python blocks of a page as one script; each is followed by END."""
    text = page.read_text("utf-8")
    lines = [""] * (text.count("\n") + 1)
    python = [block for block in blocks(page) if block.language == "python"]
    for block in python:
        if not block.lacks:
            end = f"print({END!r}); {FORGET if APART in text else ''}"  # in place of the closing fence
            own = [*block.text.splitlines(), end]
            lines[block.line - 1 : block.line - 1 + len(own)] = own
    script = folder / f"{page.stem}.py"
    script.write_text("\n".join(lines), "utf-8")
    return run([str(script)], folder), python


def same_output(shown: str, printed: str) -> bool:
    """Whether a program printed what a page shows: the same words, and numbers to three digits or to rounding."""
    there, here = shown.strip().splitlines(), printed.strip().splitlines()
    return len(there) == len(here) and all(map(_same_line, there, here))


def _same_line(shown: str, printed: str) -> bool:
    shown, printed = " ".join(shown.split()), " ".join(printed.split())
    pattern = ".*".join(map(re.escape, NUMBER.sub("0", shown).split("...")))
    if re.fullmatch(pattern, NUMBER.sub("0", printed)) is None:
        return False
    if "..." in shown:
        return True
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(np.isclose(float(a), float(b), rtol=2e-3, atol=1e-9) for a, b in pairs)


def test_outputs_are_compared_by_words_and_numbers() -> None:
    shown = "sum 2.885, residual 4.5e-30\n... ms"
    assert same_output(shown, "sum 2.8852, residual 1.2e-29\ntook 12 ms\n")
    for other in ("sum 2.985, residual 4.5e-30\n1 ms", "total 2.885, residual 4.5e-30\n1 ms", "1 ms"):
        assert not same_output(shown, other)


def test_code_fits_into_the_site() -> None:
    """A line of more than 79 columns is cut there; pages for authors and of evidence show files as they are."""
    assert commands()
    pages = [page for page in PAGES if page.parent.name not in ("extend", "evidence")]
    wide = [
        f"{place_of(page)}:{block.line}: {line}"
        for page in pages
        for block in blocks(page)
        if block.language in ("python", "console")
        for line in block.text.splitlines()
        if len(line) > 79 and (block.language == "python" or line.startswith("$ "))
    ]
    assert wide == []


@pytest.mark.parametrize(("page", "lines"), commands())
@pytest.mark.slow(keep=6)
def test_commands_run(page: Path, lines: list[str], folder: Path) -> None:
    """Those of a page one after the other."""
    skip_without_packages(page)
    for command in lines:
        words = shlex.split(command, comments=True)
        assert not {"|", ">", "&&", ";"} & set(words), (
            f"{command}: only plain commands are run; mark the block"
        )
        if words[:2] == ["python", "-m"]:
            words = words[1:]
        elif words[0] == "python":
            words = [str(ROOT / words[1]), *words[2:], *(["--quick"] if "--quick" not in words else [])]
        else:
            words = ["-m", *words]
        done = run(words, folder)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"


def test_the_measurement_that_the_guide_shows_runs(folder: Path) -> None:
    """In an interpreter of its own, which finds what the evidence has in common as beside it."""
    (block,) = (one for one in blocks(GUIDE) if one.language == "python")
    (folder / "measure_anew.py").write_text(block.text, "utf-8")
    places = os.pathsep.join([str(GUIDE.parent), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": places, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "measure_anew.py", "--quick"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert "CLAIM three triplets" in done.stdout, done.stderr
    assert done.returncode == ("FAILED" in done.stdout)


@pytest.fixture(scope="module")
def records() -> ModuleType:
    """The script that writes the tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "site"))
        return importlib.import_module("records")


@pytest.mark.parametrize("page", PAGES, ids=place_of)
def test_links_lead_somewhere_and_tables_say_what_the_records_say(page: Path, records: ModuleType) -> None:
    text = page.read_text("utf-8")
    targets = re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", BLOCK.sub("", text))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []
    assert records.rewritten(text) == text, "python docs/site/records.py writes the tables"


def test_every_figure_has_a_command_that_can_be_found_a_day_and_a_machine_and_is_shown(
    records: ModuleType,
) -> None:
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    machines, measured = records.figures()["machines"], records.figures()["records"]
    assert {*re.findall(r"records\.py: measured ([a-z0-9-]+) -->", pages)} == set(measured)
    for name, record in measured.items():
        assert record["runs"], name
        assert all(len(row) == len(record["head"]) for row in record["rows"]), name
        for run in record["runs"]:
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"]), name
            assert run["machine"] in machines, name
            script = re.search(r"(?:asv_bench|docs/evidence)/(\w+\.py)", run["command"])  # they moved
            went = script and not (ROOT / "docs/evidence" / script[1]).exists()
            there = rf"[0-9a-f]{{7,}}:(asv_bench|docs/evidence)/{script[1]}" if went else ""
            assert re.fullmatch(there, run.get("script", "")), name
    recorded = {path.stem: path for path in (ROOT / "docs/evidence/recorded").glob("*.json")}
    decided = {name for name, path in recorded.items() if json.loads(path.read_text("utf-8"))["claims"]}
    # Its claims do not say which of its data sets they are about; those of the longer command do.
    assert {*re.findall(r"records\.py: claims (\w+) -->", pages)} == decided - {"lazy_accuracy"}


def test_everything_that_is_registered_is_listed_with_its_summary() -> None:
    registry = Registry(disabled="*")
    rows = {line for page in PAGES for line in page.read_text("utf-8").splitlines() if line.startswith("| `")}
    kinds = ("problem", "solver", "normalizer", "test-matrix")
    specs = [registry.find(name, [kind]).spec for kind in kinds for name in registry.names(kind)]
    assert len(specs) > 40
    for spec in specs:
        assert any(row.startswith(f"| `{spec.name}` | {spec.summary} |") for row in rows), spec.qualified


def test_a_table_without_an_end_is_named(records: ModuleType) -> None:
    head, end = "<!-- docs/site/records.py: solvers svd -->\n", "<!-- docs/site/records.py: end -->\n"
    for broken in (head, f"{head}{head}{end}", f"{head}{end}".replace("docs/site/", "docs/")):
        with pytest.raises(ValueError, match="a table must open with"):
            records.rewritten(broken)


def test_the_measured_table_of_the_readme_is_that_of_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "win32":
        pytest.skip("the script measures by means of POSIX")
    monkeypatch.syspath_prepend(str(ROOT / "docs/evidence"))
    import measure_readme

    results = json.loads(measure_readme.RESULTS.read_text("utf-8"))
    (shown,) = measure_readme.BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    assert shown == measure_readme.table(results), "python docs/evidence/measure_readme.py --table writes it"
    assert set(results["tasks"]) == set(measure_readme.TASKS)


# ---- pages for authors: what they import is public and in their tables ---------------------------

OF_AUTHORS = {page.name: page.read_text("utf-8") for page in sorted((ROOT / "docs/extend").glob("*.md"))}
OF_THE_SOURCE = {"architecture.md", "printed-algorithms.md"}
"""Pages that show how linspec itself is written, and so name its files."""

TABLES = {
    "write-a-plugin.md": "## What there is for authors",
    "a-problem-of-your-own.md": "## What there is for authors of problems",
}
"""The pages with a table of public names, and its heading."""


def tabled() -> dict[str, set[str]]:
    """The names of the tables of both pages, by module."""
    found: dict[str, set[str]] = {}
    for page, heading in TABLES.items():
        section = OF_AUTHORS[page].partition(f"\n{heading}\n")[2].partition("\n## ")[0]
        for line in section.splitlines():
            if line.startswith("| `linspec"):
                modules, names = line.split("|")[1:3]
                for module in re.findall(r"`([\w.]+)`", modules):
                    found.setdefault(module, set()).update(re.findall(r"`([A-Za-z_]\w*)`", names))
    return found


def imports() -> list[tuple[str, str, str]]:
    """Place, module and name of every import from linspec in blocks of pages and files of templates."""
    sources = [
        (page.name, block.text)
        for page in PAGES
        for block in (blocks(page) if page.name in OF_AUTHORS else ())
        if block.language == "python"
    ]
    templates = sorted((ROOT / "linspec/templates").glob("**/*.py"))
    found = []
    for place, code in sources + [(file.name, file.read_text("utf-8")) for file in templates]:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "linspec":
                found += [(place, node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                found += [
                    (place, alias.name, "") for alias in node.names if alias.name.startswith("linspec.")
                ]
    return found


def is_public(module: str, name: str) -> bool:
    return module in ("linspec", *MODULES) and (not name or name in importlib.import_module(module).__all__)


def test_authors_import_public_names_alone_which_are_in_a_table() -> None:
    used, names = imports(), tabled()
    assert len(used) > 50
    assert [one for one in used if not is_public(*one[1:])] == []
    of_modules = [one for one in used if one[1].startswith("linspec.")]
    assert [one for one in of_modules if one[2] not in names.get(one[1], set())] == []
    assert [(m, name) for m in names for name in names[m] if not is_public(m, name)] == []


def test_no_page_sends_to_a_private_module() -> None:
    """A dotted name is a public module, a name in it, or an attribute of this name."""
    private = []
    for page in OF_AUTHORS.keys() - OF_THE_SOURCE:
        text = re.sub(r"```.*?```", "", OF_AUTHORS[page], flags=re.DOTALL)
        for dotted in set(re.findall(r"\blinspec(?:_[a-z]+)?(?:\.\w+)+", text)):
            first, *rest = dotted.split(".")
            splits = [(".".join([first, *rest[:i]]), (*rest, "")[i]) for i in range(len(rest) + 1)]
            plugin = first != "linspec" and rest[0] in importlib.import_module(first).__all__
            private += [] if plugin or any(is_public(*split) for split in splits) else [(page, dotted)]
    assert private == []


def test_every_problem_has_a_table_of_its_arrays() -> None:
    tables = re.findall(r"<!-- arrays: ([a-z-]+) -->\n(?:\|.*\n)+", OF_AUTHORS["what-problems-ask.md"])
    shipped = {"linspec", *(folder.name for folder in (ROOT / "plugins").iterdir())}
    named = {name for name in ls.problems() if ls.get_problem(name).__module__.partition(".")[0] in shipped}
    assert set(tables) == named
