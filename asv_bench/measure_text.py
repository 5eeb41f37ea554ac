"""How fast the command line reads delimited text: by Python's reader, by pyarrow's, and pandas beside them.

``OPENBLAS_NUM_THREADS=1 python asv_bench/measure_text.py`` writes a file of 200 MB into a temporary folder, reads it
with each reader in a process of its own, and prints CPU seconds, the peak of the memory, and a digest of the numbers.
``--quick`` takes 10 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS = 20
ROWS = 5000


def write(path: Path, size: int) -> None:
    """Random numbers with all their digits."""
    block = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    text = "".join(",".join(f"{value:.17g}" for value in row) + "\n" for row in block)
    with path.open("w") as stream:
        stream.write(",".join(f"c{j}" for j in range(COLUMNS)) + "\n")
        for _ in range(-(-size // len(text))):
            stream.write(text)


def read(path: Path, reader: str) -> dict[str, object]:
    """Read the file here."""
    import resource

    from linspec.cli import delimited

    start = time.process_time()
    if reader == "pandas":
        import pandas as pd

        values = pd.read_csv(path).to_numpy()
    else:
        if reader == "python":
            delimited.LARGE = sys.maxsize
        values = delimited.read_delimited(path).values
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]
    return {"reader": reader, "CPU s": round(seconds, 2), "peak MiB": peak, "bits": digest}


def main() -> None:
    """Write the file, and read it with every reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--read", nargs=2, metavar=("FILE", "READER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(Path(given.read[0]), given.read[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.csv"
        write(path, 10_000_000 if given.quick else 200_000_000)
        print(f"{path.stat().st_size / 1e6:.0f} MB, {COLUMNS} columns")
        for reader in ("python", "pyarrow", "pandas"):
            command = [sys.executable, __file__, "--read", str(path), reader]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 (this file)
            print(done.stdout.strip())


if __name__ == "__main__":
    main()
