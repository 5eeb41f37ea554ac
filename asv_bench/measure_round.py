"""What a pass over rows on workers of dask costs beside the products: the seconds of a round.

    python asv_bench/measure_round.py --workers 1 2 --blocks 2 12 48 192

Rows are so few that their products take no time. Prints, for each number of workers and of blocks, the median and the
least seconds of a pass of implicit products and of the same pass in this process, and at the end the line that fits the
least ones. "auto" reckons with the constants `ROUND_SECONDS` and `CALL_SECONDS` of `linspec_dask.engine`,
which lie between the lines of two runs.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", LINSPEC_NUM_THREADS="1")

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from measure_dask import MALLOC

import linspec as ls
from linspec.blocks import BlockOperator

ROWS_A_BLOCK, COLUMNS, WIDTH = 2_000, 40, 2
"""Blocks large beside their products, so that each is a run of its own, and yet multiplied in a millisecond."""


def seconds_of_passes(data: Any, passes: int) -> np.ndarray:
    """The seconds of each of some passes, after the first two."""
    moments = ls.Moments(data, form="implicit")
    V = np.random.default_rng(0).standard_normal((COLUMNS, WIDTH))
    found = []
    for _ in range(passes + 2):
        began = time.perf_counter()
        moments.gram_matmat(V)
        found.append(time.perf_counter() - began)
    return np.array(found[2:])


def main() -> None:
    """All figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--blocks", type=int, nargs="+", default=[2, 12, 48, 192])
    parser.add_argument("--passes", type=int, default=15)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = np.random.default_rng(0).standard_normal((ROWS_A_BLOCK, COLUMNS))
    print("| workers | blocks | seconds of a pass, median | least | in this process |")
    print("| --- | --- | --- | --- | --- |")
    least = []
    for count in args.workers:
        with (
            dask.config.set(MALLOC),
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster),
        ):
            for blocks in args.blocks:
                here = np.median(seconds_of_passes(BlockOperator([rows] * blocks), args.passes))
                whole = da.concatenate([da.from_array(rows, chunks=rows.shape) for _ in range(blocks)])
                there = seconds_of_passes(whole, args.passes)
                print(
                    f"| {count} | {blocks} | {np.median(there):.3f} | {there.min():.3f} | {here:.4f} |",
                    flush=True,
                )
                least.append((1.0, blocks, there.min()))
    found = np.array(least)
    scaled = found / found[:, 2:]  # relative errors count
    (each, per_block), *_ = np.linalg.lstsq(scaled[:, :2], scaled[:, 2], rcond=None)
    print(f"a round takes {each:.3f} s, and {1000 * per_block:.2f} ms for each block")


if __name__ == "__main__":
    main()
