"""Write what the examples of pages print below them: ``PYTHONPATH=tests python tests/pages/write_outputs.py PAGE ...``.

A block that prints nothing gets none. Outputs with ``...`` are left as they are where they still fit.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from test_docs_snippets import END, OUTPUT, run_page, same_output, write_data


def rewritten(page: Path, folder: Path) -> str:
    """A page with its outputs as its examples print them now."""
    done, python = run_page(page, folder)
    if done.returncode:
        sys.exit(done.stderr)
    text = page.read_text("utf-8")
    printed = done.stdout.split(END + "\n")
    ran = [block for block in python if not block.lacks]
    for block, output in reversed(list(zip(ran, printed, strict=False))):
        if not output.strip() or (block.prints and same_output(block.prints, output)):
            continue
        lines = text.splitlines(keepends=True)
        end = block.line - 1 + block.text.count("\n") + 1
        head, tail = "".join(lines[:end]), "".join(lines[end:])
        tail = OUTPUT.sub("", tail, count=1).removeprefix("\n") if OUTPUT.match(tail) else tail
        text = f"{head}\n```text\n{output.rstrip()}\n```\n{tail}"
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        for page in map(Path, sys.argv[1:]):
            page.write_text(rewritten(page.resolve(), Path(name)), "utf-8")
