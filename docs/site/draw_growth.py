"""Draw `docs/pictures/growth.svg` from the record `growth` of the evidence: ``python docs/site/draw_growth.py [FILE]``.

Of every number that grows, seconds (of the clock for threads) and MiB over its size, both axes logarithmic; dotted is
what grows like the number.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator
from records import figures


def curves() -> dict[str, list[tuple[float, float, float]]]:
    """Size, seconds and MiB of every number that grows."""
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for what, size, cpu, clock, memory, *_ in figures()["records"]["growth"]["rows"]:
        seconds = clock if what == "threads" else cpu
        lines.setdefault(what, []).append((float(size.replace(",", "")), float(seconds), float(memory)))
    return lines


def draw(ax: Axes, what: str, points: list[tuple[float, float, float]]) -> None:
    """One number that grows."""
    sizes, seconds, memory = zip(*points, strict=True)
    ax.loglog(sizes, seconds, "o-", color="C0", label="seconds")
    ax.loglog(sizes, [mib / 100 for mib in memory], "s-", color="C1", label="MiB / 100")
    if what != "threads":
        straight = [seconds[-1] * size / sizes[-1] for size in sizes]
        ax.loglog(sizes, straight, ":", color="0.6", label="like the number")
    ax.set_title(what, fontsize=9)
    ax.set_xticks(sizes, [f"{size:,.0f}" for size in sizes], fontsize=7)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())


def main(path: Path) -> None:
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        mpl.rcParams["svg.hashsalt"] = "linspec"
        figure = Figure(figsize=(10.5, 5.2), layout="constrained")
        axes = figure.subplots(2, 3)
        for ax, (what, points) in zip(axes.ravel(), curves().items(), strict=True):
            draw(ax, what, points)
        axes[0, 0].legend(frameon=False, fontsize=7)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    default = Path(__file__).resolve().parents[1] / "pictures" / "growth.svg"
    main(Path(sys.argv[1]) if sys.argv[1:] else default)
