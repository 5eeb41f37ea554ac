"""Print what similarities of 24 layers take from one joint pass, beside a loop over pairs and the n x n definitions.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_similarity.py --data FOLDER [--quick] [--rounds 3] [--seeds 3]

Layers are random features of the digits of MNIST, 60,000 rows: each has 64 to 256 units max(0, W [h x] + b) of the
layer h before it and the pixels x, in float32 files. linspec reads all files together, once. The loop reads two files
for each pair, subtracts means and multiplies in float64, and computes all but unbiased CKA; it is run for every tenth
pair, and its seconds are multiplied. The definitions are those of the papers, with n x n matrices of 1,000 rows; errors
are the largest over pairs and seeds, of linspec on the same rows. Methods take turns; seconds are those of the
processor. MiB are beyond what was resident, which after the first call has what this has freed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
from showing import Claim, Report, arguments
from timing import Peak

import linspec as ls

LAYERS, ROWS, FEW, EVERY = 24, 60_000, 1_000, 10
MEASURES = ("cka", "cka-unbiased", "svcca", "pwcca", "procrustes")


def activations(pixels: Any, seed: int) -> Iterator[Any]:
    """The layers of a random network, one after the other."""
    rng = np.random.default_rng(seed)
    h = pixels
    for width in np.linspace(64, 256, LAYERS).astype(int):
        inputs = h if h is pixels else np.hstack([h, pixels])
        W = rng.standard_normal((inputs.shape[1], width), np.float32) / np.sqrt(np.float32(inputs.shape[1]))
        h = np.maximum(inputs @ W + rng.standard_normal(width, np.float32) / 10, 0)
        yield h


def pair(X: Any, Y: Any) -> dict[str, float]:
    """All measures but unbiased CKA of two layers, from products of their columns; PWCCA has the weights of X."""
    X, Y = (A.astype(np.float64) - A.mean(axis=0, dtype=np.float64) for A in (X, Y))
    G, H, C = X.T @ X, Y.T @ Y, X.T @ Y
    values = {"cka": np.sum(C**2) / np.linalg.norm(G) / np.linalg.norm(H)}
    values["procrustes"] = 2 - 2 * np.linalg.norm(C, "nuc") / np.sqrt(np.trace(G) * np.trace(H))
    for name in ("svcca", "pwcca"):
        bases = []
        for S in (G, H):
            s, V = np.linalg.eigh(S)
            kept = s > len(s) * 2e-14 * s[-1] if name == "pwcca" else np.cumsum(s) > 0.01 * s.sum()
            bases.append(V[:, kept] / np.sqrt(s[kept]))
        U, rho, _ = np.linalg.svd(bases[0].T @ C @ bases[1], full_matrices=False)
        alpha = np.abs(U.T @ bases[0].T @ G).sum(axis=1) if name == "pwcca" else np.ones(len(rho))
        values[name] = alpha @ rho / alpha.sum()
    return values


def definitions(layers: list[Any]) -> dict[str, Any]:
    """The measures by n x n matrices and orthogonal factorisations of the rows."""
    n = len(layers[0])
    centred = [X - X.mean(axis=0) for X in layers]
    kernels = [X @ X.T for X in centred]
    hollow = [K - np.diag(np.diag(K)) for K in kernels]
    factors = [np.linalg.svd(X, full_matrices=False)[:2] for X in centred]
    leading = [U[:, : 1 + np.searchsorted(np.cumsum(s**2) / np.sum(s**2), 0.99)] for U, s in factors]
    every = [U[:, s > 1e-7 * s[0]] for U, s in factors]
    values = {name: np.zeros((len(layers),) * 2) for name in MEASURES}
    for i, X in enumerate(centred):
        for j, Y in enumerate(centred):
            values["cka"][i, j] = np.sum(kernels[i] * kernels[j])
            K, L = hollow[i], hollow[j]
            sums = K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (K.sum(axis=0) @ L.sum(axis=1))
            values["cka-unbiased"][i, j] = np.sum(K * L) + sums
            values["svcca"][i, j] = np.linalg.svd(leading[i].T @ leading[j], compute_uv=False).mean()
            P, rho, _ = np.linalg.svd(every[i].T @ every[j], full_matrices=False)
            alpha = np.abs((every[i] @ P).T @ X).sum(axis=1)
            values["pwcca"][i, j] = alpha @ rho / alpha.sum()
            nuclear = np.linalg.norm(X.T @ Y, "nuc")
            values["procrustes"][i, j] = 2 - 2 * nuclear / np.linalg.norm(X) / np.linalg.norm(Y)
    for name in ("cka", "cka-unbiased"):
        squares = np.diag(values[name])
        values[name] = values[name] / np.sqrt(np.outer(squares, squares))
    return values


def together(paths: list[Path], measures: Any) -> dict[str, Any]:
    return ls.similarity({path.stem: ls.open_rows(path) for path in paths}, measures).values


def by_pairs(paths: list[Path]) -> dict[str, Any]:
    values = {name: np.full((len(paths),) * 2, np.nan) for name in MEASURES}
    for i, j in list(combinations_with_replacement(range(len(paths)), 2))[::EVERY]:
        for name, value in pair(np.load(paths[i], mmap_mode="r"), np.load(paths[j], mmap_mode="r")).items():
            values[name][i, j] = value
    return values


def measured(call: Any, *given: Any) -> tuple[Any, float, float]:
    """The answer, seconds of the processor, and MiB."""
    with Peak() as peak:
        answer = call(*given)
    return answer, peak.watch.cpu, peak.memory


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    report = Report(parser)
    given = report.given
    if given.quick:
        pixels = np.random.default_rng(0).random((600, 50), np.float32)
    else:
        pixels = np.load(Path(given.data) / "mnist" / "mnist.npz")["X_train"][:ROWS].astype(np.float32) / 255
    costs = report.table("method", "rows", "round or seed", "CPU s::.3g", "MiB::.0f")
    few = pixels[:: max(1, len(pixels) // FEW)][:FEW]
    pairs = LAYERS * (LAYERS + 1) // 2
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, X in enumerate(activations(pixels, 0)):
            paths.append(Path(folder) / f"layer{i:02d}.npy")
            np.save(paths[-1], X)
        for turn in range(1 if given.quick else given.rounds):
            ours, cpu, mib = measured(together, paths, MEASURES)
            costs.row("all measures together", len(pixels), turn, cpu, mib)
            theirs, cpu, mib = measured(by_pairs, paths)
            costs.row(
                "all but unbiased CKA by pairs",
                len(pixels),
                turn,
                cpu * pairs / len(range(0, pairs, EVERY)),
                mib,
            )
            _, cpu, mib = measured(together, paths, "cka")
            costs.row("CKA together", len(pixels), turn, cpu, mib)
    gap = max(np.nanmax(np.abs(ours[name] - theirs[name])) for name in MEASURES if "un" not in name)
    worst: dict[str, float] = dict.fromkeys(MEASURES, 0.0)
    for seed in range(1 if given.quick else given.seeds):
        layers = [X.astype(np.float64) for X in activations(few, seed)]
        exact, cpu, mib = measured(definitions, layers)
        values, seconds, own = measured(lambda some: ls.similarity(some, MEASURES).values, layers)
        costs.row("definitions", len(few), seed, cpu, mib)
        costs.row("all measures together", len(few), seed, seconds, own)
        for name in MEASURES:
            worst[name] = max(worst[name], float(np.abs(values[name] - exact[name]).max()))
    errors = report.table("measure", "error::.1e", "1,000 rows beside all::.1e")
    layers = list(activations(few, 0))
    sample = ls.similarity(layers, MEASURES).values
    for name in MEASURES:
        errors.row(name, worst[name], float(np.abs(sample[name] - ours[name]).max()))
    report.say(
        [
            Claim(
                "all measures are their definitions to 1e-10",
                max(worst.values()) < 1e-10,
                f"{max(worst.values()):.1e}",
                own=True,
            ),
            Claim("and what a loop over pairs computes, to 1e-6", gap < 1e-6, f"{gap:.1e}", own=True),
        ]
    )
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
