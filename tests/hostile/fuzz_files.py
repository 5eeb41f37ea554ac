"""A fuzzer of files: `python -m hostile.fuzz_files --trials 5000 --seed 0 [--format npz ...]`, from the folder `tests`.

A trial changes bytes or words of a good file, and hands it to `linspec solve svd` in this process. It ends well if the
command answers what another reader reads, or refuses with exit code 2 and one printable sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse
from click.testing import CliRunner
from written_files import write_market, write_numpy, write_svmlight, write_text

WORDS = (
    *("0", "-1", "2", "3.5", "-0.0", "nan", "inf", "1e308", "1e400", "1_0", "0x10", "1e", ".", "+5", "x", ""),
    *("2147483648", "9223372036854775808", "99999999999", '"', "#", ":", ",", ";", " ", "\t", "\r", "%", "٣"),
)
"""What takes the place of a word of a text."""


GOOD: dict[str, Callable[[Path, Any], Any]] = {
    "packed.npz": np.savez_compressed,
    "sparse.npz": lambda path, A: scipy.sparse.save_npz(path, scipy.sparse.csr_array(A)),
    **dict.fromkeys(("npy", "npz"), write_numpy),
    **dict.fromkeys(("csv", "tsv", "txt", "csv.gz"), write_text),
    **dict.fromkeys(("svm", "svm.gz"), write_svmlight),
    **{kind: lambda path, A: write_market(path, scipy.sparse.coo_array(A)) for kind in ("mtx", "mtx.gz")},
}
"""What writes a good file."""


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """Change a bit, a word or the end of a file, or leave a piece out."""
    place, how = int(rng.integers(len(content))), int(rng.integers(4))
    if how == 0:
        return content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]
    if how == 1:
        return content[:place]
    if how == 2:
        return content[:place] + content[place + int(rng.integers(1, 9)) :]
    words = list(re.finditer(rb"[^\s,:]+", content))
    word = words[int(rng.integers(len(words)))]
    return content[: word.start()] + str(rng.choice(WORDS)).encode() + content[word.end() :]


def peer(path: Path, kind: str) -> Any:
    """The numbers of another reader; None if it cannot read them, or is not asked."""
    with contextlib.suppress(Exception):
        if kind in ("npy", "npz", "packed.npz"):
            loaded = np.load(path, allow_pickle=False)
            return loaded if kind == "npy" else loaded[loaded.files[0]]
        if kind in ("csv", "csv.gz", "tsv"):
            content = path.read_bytes()
            lines = (gzip.decompress(content) if kind == "csv.gz" else content).decode().splitlines()
            rows = [line.strip(" \r\n").split("\t" if kind == "tsv" else ",") for line in lines]
            names = "g" in "".join(rows[0])
            return np.array([list(map(float, row)) for row in rows[names:] if row != [""]])
    return None


def ending(path: Path, kind: str) -> str:
    """How a trial ends: "read", "refused", or what went wrong."""
    from linspec.cli import main as command
    from linspec.cli.data import read

    done = CliRunner().invoke(command, ["solve", "svd", str(path), "-k", "1"], catch_exceptions=False)
    code, err = done.exit_code, done.stderr
    if code == 2:
        fits = err.startswith("Error: ") and err.count("\n") == 1 and err.strip().isprintable()
        return "refused" if fits else f"raw: {err[:300]!r}"
    if code != 0:
        return f"exit code {code}: {err[:300]!r}"
    wanted = peer(path, kind)
    if wanted is None:
        return "read"
    rows = read(str(path))
    found = np.asarray(rows.dense() if hasattr(rows, "dense") else rows)
    same = found.size == wanted.size and np.array_equal(found.ravel(), wanted.ravel(), equal_nan=True)
    return "read" if same else "silent: other numbers than another reader's"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m hostile.fuzz_files", description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", nargs="*", default=list(GOOD), choices=list(GOOD))
    settings = parser.parse_args()
    counts, bad = Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for trial in range(settings.trials):
            for kind in settings.format:
                rng = np.random.default_rng([settings.seed, trial])
                path = Path(folder) / f"a.{kind}"
                GOOD[kind](path, rng.standard_normal((6, 3)).round(2))
                path.write_bytes(mutated(rng, path.read_bytes()))
                try:
                    how = ending(path, kind)
                except Exception as error:  # noqa: BLE001  # what the fuzzer looks for
                    how = f"raw: {error!r}"
                counts[how.partition(":")[0]] += 1
                if how not in ("read", "refused"):
                    bad += 1
                    print(f"{kind}, seed {settings.seed}, trial {trial}: {how}")
    print(dict(counts))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
