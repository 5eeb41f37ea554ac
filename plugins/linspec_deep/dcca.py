"""Deep CCA on minibatches, by torch.

Problem: two nets f and g whose k + k features have large canonical correlations.
Method: Andrew, Arora, Bilmes & Livescu (2013), with minibatches as Wang, Arora, Livescu & Bilmes (2015,
doi:10.1109/ICASSP.2015.7178840): the covariances Sx, Sy, C of the features of a batch, with a ridge on Sx and Sy, are
differentiated, and the nets follow the gradient. With Sx = LxLxᵀ, Sy = LyLyᵀ and T = Lx⁻¹ C Ly⁻ᵀ, the squares of the
batch's correlations have the sum ‖T‖²_F, and the loss is its negative. Steps are those of AdamW (Loshchilov & Hutter
2019, arXiv:1711.05101) and fall to zero along half a cosine. At the end the law makes the exact CCA of the features on
all training rows.
Where we differ: (a) ‖T‖²_F by two Cholesky factorisations replaces the nuclear norm of Sx^(-1/2) C Sy^(-1/2): it needs
no eigenvectors, whose derivatives are infinite where eigenvalues coincide. (b) No layer is trained in advance. (c)
First weights and the order of rows come from the generator of the run, so torch draws nothing. (d) With `held_out`,
some rows take no part in the steps, and the nets of the epoch with the largest ‖T‖²_F on these are returned.
torch is imported when a problem is solved. Everything that is set in it (the number of threads) is set back. It runs
on the CPU, in float32, also if the data are elsewhere.
The residual reported during the run is 1 − ‖T‖²_F / k, the mean of the batches of an epoch, or that of the held-out
rows. It is no estimate of the residual of the law, and no run ends because of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from linspec import LinearOperator, Run, Solution, Solver, Status, limit_option, option
from linspec.arrays import HostArray
from linspec.errors import InvalidOption, MissingPackage, NonFiniteData
from linspec.sweeps import RandomRows
from linspec_deep.nets import Net, count, entries, side_by_side

EPOCHS, STEPS = 10, 200
"""Without the option, the epochs are at least so many, and more until there are so many steps."""

PATIENCE = 5
"""Epochs without progress on the held-out rows that end the run."""

MOST_HELD_OUT = 10_000
"""The largest number of rows that are held out: they are kept in memory."""

FORWARD_AND_BACK = 3
"""A gradient takes about as long as so many evaluations."""


@dataclass(frozen=True, kw_only=True)
class DCCA(Solver):
    """Deep CCA on minibatches (Andrew, Arora, Bilmes & Livescu 2013)."""

    width: int = option(256, "columns of each hidden layer", at_least=1)
    depth: int = option(2, "hidden layers of each net", at_least=1)
    batch: int = option(1000, "rows of a minibatch; at least 2k of them are needed", at_least=2)
    epochs: int | None = option(
        None,
        "times that all rows are read; none: 10, or more until there are 200 steps",
        kind=int,
        at_least=1,
    )
    step: float = option(2e-3, "step length of AdamW at the beginning", above=0, below=1)
    decay: float = option(1e-4, "weight decay of AdamW", at_least=0, below=1)
    ridge: float = option(1e-3, "added to the variances of features, in the loss of a batch only", above=0)
    held_out: float = option(
        0.0,
        "fraction of the rows, 10,000 at most, that judge the epochs and take no steps",
        at_least=0,
        at_most=0.5,
    )
    threads: int = option(1, "threads of torch; the last digits depend on their number", at_least=1)
    max_iterations: int = limit_option(100_000, "epochs")

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a deep CCA problem."""
        torch = _imported()
        n, k = int(problem.X.shape[0]), int(problem.k)
        aside = min(round(self.held_out * n), MOST_HELD_OUT)
        self._check_rows(n, k, aside)
        # The first sweep finds shift and scale of the views; held-out rows are read once more, and in no epoch.
        run.plan(setup=1.0 + aside / n)
        with _one_setting(torch, self.threads):
            training = _Training(torch, self, problem, run, aside)
            while run.proceed(residual=training.residual, current=training.nets, judged=False):
                training.epoch()
                if training.finished:
                    run.end(Status.APPROXIMATE)
            return run.finish(**training.nets())

    def _check_rows(self, n: int, k: int, aside: int) -> None:
        """Refuse batches and held-out rows that are too few for covariances of k features."""
        if min(self.batch, n) < 2 * k:
            short = "Raise batch" if self.batch < n else "There are too few rows: lower k"
            raise InvalidOption(
                f"batch must be at least 2k = {2 * k} rows, and there are {n}; got batch={self.batch}. {short}."
            )
        if self.held_out and not 2 * k <= aside <= n - 2 * k:
            raise InvalidOption(
                f"held_out must leave at least 2k = {2 * k} rows on both sides; got held_out={self.held_out:g}, "
                f"which is {aside} of {n} rows. Change it, or leave it out."
            )


def _imported() -> Any:
    """The torch of this environment.

    Raises
    ------
    MissingPackage
        There is none.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingPackage(
            f"deep-cca/dcca needs torch, which cannot be imported ({error}). Install it with: "
            "pip install linspec[torch]"
        ) from error
    return torch


@contextmanager
def _one_setting(torch: Any, threads: int) -> Iterator[None]:
    """The same threads and gradients whatever the caller has set; it is as before at the end."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.enable_grad(), torch.inference_mode(mode=False):
            yield
    finally:
        torch.set_num_threads(before)


class _Training:
    """Nets in torch, and the rows that train them.

    Attributes
    ----------
    residual : float
        1 − ‖T‖²_F / k after the last epoch; 1 before the first, infinity if the loss was not finite.
    finished : bool
        Whether the epochs are done, or the held-out rows say that they are.
    """

    def __init__(self, torch: Any, solver: DCCA, problem: Any, run: Run, aside: int) -> None:
        self.torch, self.solver, self.k = torch, solver, int(problem.k)
        self.views: list[LinearOperator] = [problem.X, problem.Y]
        self.n = int(problem.X.shape[0])
        self.units = _shifts_and_scales({"X": problem.X, "Y": problem.Y})
        hidden = [solver.width] * solver.depth
        self.sizes = [[A.shape[1], *hidden, self.k] for A in self.views]
        self.layers = [self._drawn(sizes, run.rng) for sizes in self.sizes]
        self.held_out = np.zeros(self.n, dtype=bool)
        self.judges: list[Any] = []
        if aside:
            chosen = np.sort(run.rng.choice(self.n, aside, replace=False))
            self.held_out[chosen] = True
            self.judges = [self._batch(view, chosen, times=0) for view in range(2)]
        self.order = RandomRows(self.views, run.rng)
        batches = max(1, round(self.n / solver.batch))
        self.batch = -(-self.n // batches)
        self.epochs = solver.epochs or max(EPOCHS, -(-STEPS // batches))
        parameters = [array for layers in self.layers for pair in layers for array in pair]
        self.steps = torch.optim.AdamW(parameters, lr=solver.step, weight_decay=solver.decay)
        total = self.epochs * batches
        self.falling = torch.optim.lr_scheduler.CosineAnnealingLR(self.steps, T_max=total)
        self.parameters = parameters
        self.made, self.since = 0, 0
        self.residual, self.least = 1.0, np.inf
        self.finished = False
        self.best: dict[str, Net] | None = None

    def nets(self) -> dict[str, Net]:
        """The nets so far: the best ones by the held-out rows, if there are any."""
        return self.best or self._copied()

    def epoch(self) -> None:
        """Read all rows once, and take a step for each batch."""
        before = self._copied()
        losses, left = [], self.n
        while left > 0:
            chosen = self.order.draw(self.batch)
            left -= len(chosen)
            chosen = chosen[~self.held_out[chosen]]
            if len(chosen) < 2 * self.k:  # too few for covariances: nearly all of them are held out
                continue
            losses.append(self._step([self._batch(view, chosen) for view in range(2)]))
            if not np.isfinite(losses[-1]):
                # Nothing to go on with: `proceed` ends the run, with the nets before this epoch.
                self.best, self.residual = self.best or before, np.inf
                return
        self.made += 1
        share = self._judged() if self.judges else -float(np.mean(losses)) / self.k
        self.residual = 1.0 - share
        self.finished = self.made >= self.epochs
        if self.judges:
            progress = self.residual < self.least
            self.since = 0 if progress else self.since + 1
            if progress:
                self.least, self.best = self.residual, self._copied()
            self.finished = self.finished or self.since >= PATIENCE

    # ---- one batch ----------------------------------------------------------------------------

    def _batch(self, view: int, chosen: HostArray, times: int = FORWARD_AND_BACK) -> Any:
        """Rows of a view in the units of its net, as a float32 tensor."""
        A = self.views[view]
        rows = self.order.rows_of(A, chosen) if times else A.rows(chosen)
        shift, scale = self.units[view]
        found = np.ascontiguousarray((entries(rows) - shift) / scale, dtype=np.float32)
        if times:
            count(rows, self.sizes[view], times=times)
        A.release()
        return self.torch.from_numpy(found)

    def _step(self, batch: list[Any]) -> float:
        """A step of AdamW on one batch; the loss before it."""
        self.steps.zero_grad()
        loss = self._loss(*(self._features(view, rows) for view, rows in enumerate(batch)))
        value = float(loss.detach())
        if np.isfinite(value):
            loss.backward()
            self.steps.step()
            self.falling.step()
        return value

    def _features(self, view: int, rows: Any) -> Any:
        layers = self.layers[view]
        for W, b in layers[:-1]:
            rows = (rows @ W + b).relu()
        W, b = layers[-1]
        return rows @ W + b

    def _loss(self, F: Any, G: Any) -> Any:
        """−‖Lx⁻¹ C Ly⁻ᵀ‖²_F of the features of a batch; NaN if they are too large for covariances."""
        linalg, free = self.torch.linalg, max(len(F) - 1, 1)
        F, G = F - F.mean(dim=0), G - G.mean(dim=0)
        ridge = self.torch.eye(self.k, dtype=F.dtype, device=F.device) * self.solver.ridge
        (Lx, fault_x), (Ly, fault_y) = (linalg.cholesky_ex(Z.T @ Z / free + ridge) for Z in (F, G))
        if int(fault_x) or int(fault_y):
            return F.sum() * float("nan")
        T = linalg.solve_triangular(Lx, F.T @ G / free, upper=False)
        T = linalg.solve_triangular(Ly, T.T, upper=False)
        return -(T * T).sum()

    def _judged(self) -> float:
        """‖T‖²_F / k of the held-out rows."""
        with self.torch.no_grad():
            loss = self._loss(*(self._features(view, rows) for view, rows in enumerate(self.judges)))
        return -float(loss) / self.k

    # ---- arrays -------------------------------------------------------------------------------

    def _drawn(self, sizes: list[int], rng: np.random.Generator) -> list[tuple[Any, Any]]:
        """First weights and biases, uniform within ±1/√(columns), as torch draws those of its own layers."""
        layers = []
        for before, after in pairwise(sizes):
            most = before**-0.5
            drawn = (rng.uniform(-most, most, shape).astype(np.float32) for shape in ((before, after), after))
            W, b = (self.torch.from_numpy(array).requires_grad_() for array in drawn)
            layers.append((W, b))
        return layers

    def _copied(self) -> dict[str, Net]:
        """The nets as arrays of NumPy, which later steps do not change."""
        found = {}
        for name, (shift, scale), layers in zip(("x_net", "y_net"), self.units, self.layers, strict=True):
            pairs = [tuple(array.detach().numpy().copy() for array in layer) for layer in layers]
            found[name] = Net(shift.copy(), scale, tuple(W for W, _ in pairs), tuple(b for _, b in pairs))
        return found


def _shifts_and_scales(views: dict[str, LinearOperator]) -> list[tuple[HostArray, float]]:
    """Of each view the column means, and the root mean square of all deviations from them: one sweep.

    Raises
    ------
    NonFiniteData
        Naming the first entry that is not finite.
    """
    n, matrices = int(next(iter(views.values())).shape[0]), list(views.values())
    first: list[HostArray] = []
    sums = [np.zeros(A.shape[1]) for A in matrices]
    squares = [np.zeros(A.shape[1]) for A in matrices]
    for start, parts in side_by_side(matrices):
        for i, (name, part) in enumerate(zip(views, parts, strict=True)):
            rows = np.asarray(part, dtype=np.float64)
            bad = np.argwhere(~np.isfinite(rows))
            if len(bad):
                row, column = bad[0]
                raise NonFiniteData(
                    f"{name} must be finite; got {rows[row, column]} at row {start + row}, column {column}. Drop or "
                    "impute such rows."
                )
            if start == 0:
                first.append(rows.mean(axis=0))  # sums about a mean of some rows lose no digits
            rows = rows - first[i]
            sums[i] += rows.sum(axis=0)
            squares[i] += (rows * rows).sum(axis=0)
    found = []
    for mean, total, square in zip(first, sums, squares, strict=True):
        deviation = float(np.sqrt(np.maximum(square - total**2 / n, 0.0).mean() / n))
        found.append((mean + total / n, deviation or 1.0))
    return found
