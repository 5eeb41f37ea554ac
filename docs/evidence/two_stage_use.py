"""A classifier does not see which of two ways a subspace was found: Figures 1 and 2 of Sun, Ceran & Ye 2010.

    python docs/evidence/two_stage_use.py --data FOLDER [--quick] [--splits 5] [--out FOLDER]

- yeast, 14 labels: CCA, OPLS and hypergraph spectral learning (clique, star), each with a ridge γ from 1e-6 to 1e6, by
  `direct` and by `two-stage` with its defaults. Half of the rows, at random, are learnt from: the subspace first, then
  a linear support vector machine for each label on the rows reduced to it. Judged on the other half by the area under
  the ROC curve (AUC), averaged over labels (Figure 1).
- wine, 3 classes: LDA with the same ridges, and the share of the other half that is put in the right class (Figure 2).

The source has one split; here are `--splits`, averaged. Rows are multiplied by one number after the reduction, so that
the columns of those learnt from have mean square one and the penalty of the classifier (C = 1, scikit-learn's
LinearSVC) means the same for every γ. A label that either half lacks is left out.

Printed: a table for each set, and for each claim whether it held. With `--out`: both tables as CSV, a figure for each.
`--quick` takes small sets.

Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, section 5.2.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import LabelSet, label_set
from discriminant_law import TARGETS
from showing import Claim, Report, arguments, panels

import linspec as ls

try:
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import LinearSVC
except ImportError:
    sys.stderr.write("scikit-learn is needed for the classifiers: pip install scikit-learn.\n")
    raise SystemExit(2) from None

# ---- settings --------------------------------------------------------------------------------------

RIDGES, QUICK_RIDGES = tuple(10.0**power for power in range(-6, 7)), (1e-6, 1.0, 1e6)

TECHNIQUES = {"yeast": ("CCA", "OPLS", "HSL clique", "HSL star"), "wine": ("LDA",)}
SCORES = {"yeast": "AUC", "wine": "accuracy"}

DIRECT, TWO_STAGE = "direct", "two-stage"

PENALTY = 1.0
"""C of the classifier."""

SAME = 1e-4
"""Scores are called the same when they differ by no more in any split."""

# ---- measuring -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The score of one way with one ridge on one split."""

    data: str
    technique: str
    ridge: float
    split: int
    way: str
    score: float


def measure(data: LabelSet, splits: int, ridges: tuple[float, ...]) -> Iterator[Outcome]:
    """All splits, techniques, ridges and both ways."""
    n = len(data.X)
    for split in range(splits):
        learnt = np.random.default_rng(split).permutation(n) < n // 2
        for technique in TECHNIQUES[data.name]:
            H = TARGETS[technique](data.labels[learnt])
            for ridge in ridges:
                for way in (DIRECT, TWO_STAGE):
                    found = ls.solve(ls.Discriminant(data.X[learnt], H, ridge=ridge), way, rng=0)
                    rows = np.asarray(found.transform(data.X))
                    yield Outcome(data.name, technique, ridge, split, way, score(rows, data.labels, learnt))
        sys.stderr.write(f"{data.name}, split {split}\n")


def score(rows: np.ndarray, labels: np.ndarray, learnt: np.ndarray) -> float:
    """Mean AUC over labels, or the share of classes that are right, on the rows not learnt from."""
    rows = rows / np.sqrt(np.mean(rows[learnt] ** 2))
    model: Any = LinearSVC(C=PENALTY, dual=False)
    if labels.ndim == 1:
        return float(model.fit(rows[learnt], labels[learnt]).score(rows[~learnt], labels[~learnt]))
    areas = []
    for label in labels.T:
        if all(0 < part.sum() < len(part) for part in (label[learnt], label[~learnt])):
            model.fit(rows[learnt], label[learnt])
            areas.append(roc_auc_score(label[~learnt], model.decision_function(rows[~learnt])))
    return float(np.mean(areas))


# ---- what follows ----------------------------------------------------------------------------------


class Table:
    """Scores of one set, by technique, ridge and way, a number for each split."""

    def __init__(self, name: str, outcomes: list[Outcome]) -> None:
        self.name = name
        self.ridges = tuple(dict.fromkeys(row.ridge for row in outcomes))
        self.scores: dict[tuple[str, float, str], list[float]] = {}
        for row in outcomes:
            self.scores.setdefault((row.technique, row.ridge, row.way), []).append(row.score)

    def mean(self, technique: str, ridge: float, way: str) -> float:
        """Over splits."""
        return float(np.mean(self.scores[technique, ridge, way]))

    def gap(self, technique: str, ridge: float) -> float:
        """The largest difference of the two ways in any split."""
        pair = (self.scores[technique, ridge, way] for way in (DIRECT, TWO_STAGE))
        return float(np.abs(np.subtract(*pair)).max())


def claims(table: Table) -> Iterator[Claim]:
    """Yield the claims of section 5.2 on Figures 1 and 2."""
    for technique in TECHNIQUES[table.name]:
        gaps = {ridge: table.gap(technique, ridge) for ridge in table.ridges}
        worst = max(gaps, key=lambda ridge: gaps[ridge])
        curve = {ridge: table.mean(technique, ridge, DIRECT) for ridge in table.ridges}
        best, least = (choose(curve, key=lambda ridge: curve[ridge]) for choose in (max, min))
        yield Claim(
            f"r{technique}: two-stage always classifies as well as direct",
            gaps[worst] <= SAME,
            f"{SCORES[table.name]} differs by {gaps[worst]:.1e} at most, at γ = {worst:g}; not at all for "
            f"{sum(gap == 0 for gap in gaps.values())} of {len(gaps)} γ; best {curve[best]:.4f} at γ = {best:g}, "
            f"worst {curve[least]:.4f} at γ = {least:g}",
        )


# ---- showing ---------------------------------------------------------------------------------------


def show(report: Report, data: LabelSet, table: Table) -> None:
    """The table of one set: direct, two-stage, and their largest difference."""
    columns = (
        f"{technique}{what}"
        for technique in TECHNIQUES[data.name]
        for what in ("::.4f", ", two-stage::.4f", ", gap::.1e")
    )
    title = f"{data.name}: {data.X.shape[0]} rows, {data.X.shape[1]} columns, {SCORES[data.name]} on half of the rows"
    shown = report.table("γ::g", *columns, title=title)
    for ridge in table.ridges:
        cells = (
            (*(table.mean(technique, ridge, way) for way in (DIRECT, TWO_STAGE)), table.gap(technique, ridge))
            for technique in TECHNIQUES[data.name]
        )
        shown.row(ridge, *(cell for three in cells for cell in three))


def draw(table: Table) -> Any:
    """Scores against the ridge, a panel for each technique."""
    techniques = TECHNIQUES[table.name]
    figure, (row,) = panels(1, len(techniques), sharey=True)
    for axes, technique in zip(row, techniques, strict=True):
        for way, style in ((DIRECT, {"ls": "-", "marker": "s"}), (TWO_STAGE, {"ls": "--", "marker": "x"})):
            scores = [table.mean(technique, ridge, way) for ridge in table.ridges]
            axes.plot(table.ridges, scores, label=way, **style)
        axes.set(xscale="log", xlabel="γ", title=f"{table.name}, {technique}")
    row[0].set_ylabel(SCORES[table.name])
    row[0].legend(fontsize="small")
    return figure


# ---- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--splits", type=int, help="random halves (5; 1 with --quick)")
    report = Report(parser, "scikit-learn")
    given = report.given
    everything: list[Outcome] = []
    for data in [label_set(given, name) for name in TECHNIQUES]:
        ridges = QUICK_RIDGES if given.quick else RIDGES
        outcomes = list(measure(data, given.splits or (1 if given.quick else 5), ridges))
        table = Table(data.name, outcomes)
        show(report, data, table)
        report.say(claims(table), data.name)
        report.picture(data.name, draw, table)
        everything += outcomes
    report.keep("scores", everything, ("data", "technique", "way", "split"), ("ridge", "score"))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
