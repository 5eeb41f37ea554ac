"""Benchmarks for asv: every solver x backend x problem, and the cost of an import.

Solvers are compared on one thread. A BLAS reads these variables once, when it is loaded, so they are set
before any benchmark imports NumPy.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
