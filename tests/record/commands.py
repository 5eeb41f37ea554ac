"""What the command line does: exit codes, output and files of command lines, as a record of one commit.

Every case is a line of a shell; they cover every command, problem, option and format, and refusals. A fresh process
runs it, as `python -m linspec` does. What it prints is normalised; of the files that it writes the names, keys, shapes
and norms are recorded.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from record import wanted
from record.texts import cases, described, put_files
from record.wording import normalised

VARYING = {"linspec", "seconds", "cpu_seconds", "residual", "residuals", "history", "flops"}


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All lines that have the text that --only names, two at a time; nothing is left in the folder."""
    lines = [line for line in cases("commands.txt", "lines") if wanted(line)]
    with tempfile.TemporaryDirectory() as name, processes() as two:
        inputs = Path(name) / "inputs"
        put_inputs(inputs)
        runs = [two.submit(outcome, line, inputs, Path(name) / f"run-{i}") for i, line in enumerate(lines)]
        yield from ((f"linspec {line}", each.result()) for line, each in zip(lines, runs, strict=True))


def processes() -> ProcessPoolExecutor:
    """Two at a time, one for each line, which begin with the imports that all commands need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["numpy", "scipy.linalg", "scipy.sparse.linalg", "click", "linspec", __name__]
    )
    return ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1)


def outcome(line: str, inputs: Path, place: Path) -> dict[str, Any]:
    """What the commands of a line print, their exit codes, and the files that all of them have written."""
    shutil.copytree(inputs, place)
    os.chdir(place)
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    entry: dict[str, Any] = {}
    for number, command in enumerate(line.split("&&")):
        words = [word for word in shlex.split(command) if word != "--"]
        settings = dict(word.split("=", 1) for word in words[:1] if word[:1].isupper())
        os.environ.update({"COLUMNS": "160", "TERM": "dumb", **settings})
        code, *said = run(words[len(settings) :])
        said = [normalised(text, {str(place): "FOLDER"}) for text in said]
        last = said[1].splitlines()[-1:] if code else said[1].splitlines()
        entry[f"{number + 1}"] = {"exit": code, "stdout": said[0], "stderr": "\n".join(last)}
    after = [path for path in sorted(Path().rglob("*")) if path.is_file()]
    new = [path for path in after if path.stat().st_mtime_ns != before.get(path) and path.suffix != ".pyc"]
    entry["files"] = {str(path): contents(path) for path in new}
    os.chdir(inputs)
    shutil.rmtree(place)
    return entry


def run(words: list[str]) -> tuple[int, str, str]:
    """Run `python -m linspec` in this process: the exit code, and what is printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        before = [os.dup(stream) for stream in (1, 2)]
        for stream, file in enumerate((out, err), 1):
            os.dup2(file.fileno(), stream)
        code: Any = 0
        try:
            with patch("sys.argv", ["linspec", *words]):
                runpy.run_module("linspec", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, descriptor in enumerate(before, 1):
                os.dup2(descriptor, stream)
                os.close(descriptor)
        return code, *(_read(file) for file in (out, err))


def _read(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("utf-8", "replace"))


def contents(path: Path) -> Any:
    """What a file holds, without what differs from run to run."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: described(archive[name]) for name in archive.files if name not in VARYING}
    if path.suffix == ".npy":
        return described(np.load(path))
    if path.suffix == ".csv":
        table = pd.read_csv(path)
        numbers = table.drop(columns=[*VARYING & {*table}]).select_dtypes("number").sum().to_numpy()
        return {"columns": list(table), "rows": len(table), "numbers": described(numbers)}
    if path.suffix == ".json":
        return keys(json.loads(path.read_text()))
    return {"size": "some"}


def keys(of: Any) -> Any:
    """The names in a document, and the kinds of its values."""
    if isinstance(of, dict):
        return {name: keys(value) for name, value in of.items()}
    return [keys(of[0]), len(of)] if isinstance(of, list) and of else type(of).__name__


def put_inputs(folder: Path) -> None:
    """Write the same rows in every format, and files that are wrong."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y, y = X[:, :3] + rng.standard_normal((60, 3)), np.arange(60) % 3
    X[:, 0] += y
    put_files(folder, X, Y)
    nan, holes = X.copy(), X.copy()
    nan[7, 2], holes[[3, 9], 1] = np.nan, np.nan
    T = rng.standard_normal((400, 40)) @ np.diag(0.97 ** np.arange(40))
    for name, array in {
        "X": X, "Y": Y, "Z": rng.standard_normal((60, 2)), "T": T, "w": rng.uniform(0.5, 3.0, 60), "H": np.eye(3)[y],
        "nan": nan, "short": Y[:50], "day1": X[:30], "day2": X[30:],
    }.items():  # fmt: skip
        np.save(folder / f"{name}.npy", array)
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = frame[list("abcd")].assign(
        kind=np.array(["low", "mid", "top"])[y], id=[f"p{i}" for i in range(60)]
    )
    named.to_csv(folder / "named.csv", index=False)
    named[::-1].to_csv(folder / "other.csv", index=False)
    pd.DataFrame({"y": y}).to_csv(folder / "y.csv", index=False)
    pd.DataFrame(holes, columns=list("abcde")).to_csv(folder / "holes.csv", index=False)
    frame.assign(a=1e4 * frame["a"]).to_csv(folder / "unit.csv", index=False)
    frame.to_csv(folder / "X.csv", index=False)
    frame.to_csv(folder / "X.tsv", sep="\t", index=False)
    np.savetxt(folder / "X.txt", X)
    frame.to_parquet(folder / "X.parquet")
    few = sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    sp.save_npz(folder / "sparse.npz", few)
    np.savez(folder / "many.npz", X=X, Y=Y)
    scipy.io.mmwrite(folder / "X.mtx", few)
    dump_svmlight_file(few, y, str(folder / "X.svm"), zero_based=False)
