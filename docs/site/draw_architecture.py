"""Print how linspec is built: its layers, what to read first, and three calls with their frames.

    python docs/site/draw_architecture.py [--write]

Layers come from the contracts of import-linter in pyproject.toml, sizes from the source, and frames from calls that are
run here. `--write` puts the text into `docs/extend/architecture.md`, between its two marks.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import scipy.sparse

import linspec as ls

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "project"))

from size import size_of, sizes  # noqa: E402

PAGE = ROOT / "docs" / "extend" / "architecture.md"
MARKS = "<!-- printed by docs/site/draw_architecture.py -->", "<!-- end of what is printed -->"
FIRST = (
    "linspec/registry/spec.py",
    "linspec/blocks/base.py",
    "linspec/rows/preprocessing.py",
    "linspec/rows/reductions.py",
    "linspec/rows/executor.py",
    "linspec/rows/moments.py",
    "linspec/iteration/loop.py",
    "linspec/families/svd/problem.py",
    "plugins/linspec_cca/gram.py",
)
"""What to read, in this order."""


def sentence(text: str | None) -> str:
    """The first sentence of a docstring."""
    return re.split(r"(?<=[.:])\s", (text or "").strip(), maxsplit=1)[0].rstrip(".:").replace("\n", " ")


def opening(path: Path) -> str:
    """The first sentence of a module or a package."""
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return sentence(ast.get_docstring(ast.parse(path.read_text("utf-8"))))


def tree() -> Iterator[str]:
    """The layers, the highest first, with statements and first sentences."""
    counted = {name: size.statements for name, size in sizes().items()}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(one["layers"] for one in contracts if one["id"] == "layers")
    yield "| layer | folder | statements | what it is |"
    yield "|---|---|---|---|"
    for number, layer in zip(range(len(layers), 0, -1), layers, strict=True):
        for name in re.split(r"\s*[:|]\s*", layer):
            path = ROOT / "linspec" / name
            size = counted.get(f"linspec/{name}") if path.is_dir() else None
            alone = size or size_of(path.with_suffix(".py").read_text("utf-8")).statements
            yield f"| {number} | `{name}` | {alone} | {opening(path)} |"
    plugins = sum(size for name, size in counted.items() if name.startswith("plugins/"))
    yield f"|  | `plugins/linspec_*` | {plugins} | Solvers, further problems and kinds of data |"


def files() -> Iterator[str]:
    """The files to read, with their statements and first sentences."""
    for number, name in enumerate(FIRST, 1):
        size = size_of((ROOT / name).read_text("utf-8")).statements
        yield f"{number}. `{name}` ({size}): {opening(ROOT / name)}"


# ---- frames -----------------------------------------------------------------------------------


def traced(call: Callable[[], Any], leaf: str, through: str) -> tuple[list[CodeType], int, int]:
    """The frames above the first entry of `leaf` that come through a function, and all functions and calls."""
    call()  # imports, and what is cached
    stack: list[CodeType] = []
    way: list[CodeType] = []
    entered: list[CodeType] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(str(ROOT)) or code.co_filename == __file__:
            return
        if event == "call":
            stack.append(code)
            entered.append(code)
            names = [each.co_qualname for each in stack]
            if not way and code.co_qualname == leaf and through in names:
                way.extend(stack)
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return way, len(set(entered)), len(entered)


def flow(title: str, call: Callable[[], Any], leaf: str, through: str) -> Iterator[str]:
    """One call with its frames, each with the sentence that its function says of itself."""
    way, functions, calls = traced(call, leaf, through)
    yield f"**{title}** {functions} functions of linspec, {calls} calls."
    yield ""
    yield "```text"
    for code in way:
        if "<" in code.co_qualname:
            continue  # a function within the one before
        place = Path(code.co_filename).relative_to(ROOT).as_posix().removeprefix("linspec/")
        first = code.co_consts[0] if code.co_consts and isinstance(code.co_consts[0], str) else ""
        says = re.split("[,;]", sentence(first))[0]
        yield f"{place + '  ' + code.co_qualname:58}  {says}".rstrip()
    yield "```"
    yield ""


def flows() -> Iterator[str]:
    """Moments for a solver, the certificate of an answer, and rows that are read in slices."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((500, 10)), rng.standard_normal((500, 8))
    S = scipy.sparse.random(500, 40, 0.2, format="csr", random_state=0)
    terms = {"sample_weight": rng.random(500), "confounds": rng.standard_normal((500, 2)), "center": True}
    yield from flow(
        '`ls.solve(ls.CCA(X, Y, 2), "als")`: a solver asks for second moments.',
        lambda: ls.solve(ls.CCA(X, Y, 2), "als", rng=0),
        "DenseBlock.gram",
        "Alternating.alternate",
    )
    yield from flow(
        '`ls.solve(ls.LeastSquares(S, Y, ...), "lsqr")` with weights and confounds, S sparse: the answer is judged.',
        lambda: ls.solve(ls.LeastSquares(S, Y, **terms), "lsqr", rng=0),
        "SparseBlock.t_times",
        "LeastSquares.certify",
    )
    yield from flow(
        '`ls.solve(ls.SVD(lambda: slices(), 2, center=True), "block-krylov")`: rows come in slices.',
        lambda: ls.solve(ls.SVD(lambda: iter(np.array_split(X, 4)), 2, center=True), "block-krylov", rng=0),
        "_Source._slices",
        "Executor.reduce",
    )


def text() -> str:
    """All that is printed."""
    parts = [
        "## The layers\n\nA file imports from its own layer and from lower ones.\n", *tree(),
        "\n## Nine files to read first\n", *files(), "\n## Three calls, and their frames\n", *flows(),
    ]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put it into the page")
    if not parser.parse_args().write:
        print(text())
        return
    before, rest = PAGE.read_text("utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{text()}\n{MARKS[1]}{after}", "utf-8")


if __name__ == "__main__":
    main()
