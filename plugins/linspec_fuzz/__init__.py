"""Random problems from a seed, exact answers in extended precision, and a verdict on every solver's answer.

``python -m linspec_fuzz --trials 1000 --seed 0`` tries all registered solvers, including those of
plugins. ``--solvers mine`` tries one solver. In a test::

    from linspec_fuzz import fuzz

    def test_mine_is_never_silently_wrong():
        outcomes = fuzz(range(50), families=["least-squares"], solvers=["mine"])
        assert not [outcome for outcome in outcomes if outcome.verdict.fails]

Read `generator` first, which draws cases, then `truth` and `judge`.
"""

from __future__ import annotations

from linspec_fuzz.corpus import CORPUS
from linspec_fuzz.generator import draw
from linspec_fuzz.judge import CLASSES, FAILING, Verdict, judge, judge_solution
from linspec_fuzz.problems import FAMILIES, KINDS, Case, Matrix, families_here
from linspec_fuzz.recorded import Recorded
from linspec_fuzz.run import Outcome, fuzz, try_case
from linspec_fuzz.shrink import code, shrink
from linspec_fuzz.truth import Truth
from linspec_fuzz.truths import truth_of

__all__ = [
    "CLASSES",
    "CORPUS",
    "FAILING",
    "FAMILIES",
    "KINDS",
    "Case",
    "Matrix",
    "Outcome",
    "Recorded",
    "Truth",
    "Verdict",
    "code",
    "draw",
    "families_here",
    "fuzz",
    "judge",
    "judge_solution",
    "shrink",
    "truth_of",
    "try_case",
]
