"""Does the double bite? Faults that break linspec on CuPy and nowhere else are put in, one at a time.

    python tests/doubles/mutants.py

copies the checkout into a temporary folder, applies each fault there, and runs the test that has to notice it, on the
double. It prints a line for each, and ends with 1 where a test passes all the same. Each fault is a piece of text of a
file, which must be there once, and what replaces it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CONTRACT = "tests/doubles/test_kit_on_cupy.py::test_the_contract"
LITTLE = "tests/doubles/test_little_float64_on_cupy.py"
TRANSFERS = "tests/doubles/test_transfers_on_cupy.py"
LINSPEC = "tests/doubles/test_linspec_on_cupy.py::test_cupy"


class Mutant(NamedTuple):
    """A fault, and the test that has to notice it."""

    name: str
    file: str
    old: str
    new: str
    test: str


MUTANTS = (
    Mutant(
        "float32 data judged in float32 where float64 is scarce",
        "linspec/moments/precision.py",
        "        return moments._judging\n",
        "        return moments\n",
        f"{LITTLE}::test_float32_data_are_judged_in_float64_where_it_is_scarce",
    ),
    Mutant(
        "sweeps in float64 where it is scarce",
        "linspec/arrays.py",
        "        return self.single_rate >= SCARCE\n",
        "        return self.single_rate > 2 * PROCESSOR_RATE * SCARCE\n",
        f"{LITTLE}::test_the_rate_is_that_which_the_device_states",
    ),
    Mutant(
        "a device array is converted by NumPy",
        "linspec/arrays.py",
        "        host: HostArray = x.get()",
        "        host: HostArray = np.asarray(x)",
        f"{CONTRACT}[cca/gram]",
    ),
    Mutant(
        "a number of the host without dimensions meets a device array",
        "linspec/arrays.py",
        "    return xp.where(live, 1.0 / xp",
        "    return xp.where(live, np.asarray(1.0) / xp",
        f"{CONTRACT}[cca/gram]",
    ),
    Mutant(
        "a keyword that CuPy lacks",
        "linspec/arrays.py",
        "xp.max(block, axis=0)",
        "xp.max(block, axis=0, initial=-np.inf)",
        f"{CONTRACT}[cca/gram]",
    ),
    Mutant(
        "a function that CuPy lacks",
        "linspec/arrays.py",
        "self.xp.concat(blocks, axis=1)",
        "self.xp.block([blocks])",
        f"{CONTRACT}[svd/block-krylov]",
    ),
    Mutant(
        "a wait for the device that nothing announces",
        "linspec/sweeps/first_look.py",
        "(float(end) for end in to_host(ends))",
        "(float(end) for end in ends)",
        f"{CONTRACT}[cca/gram]",
    ),
    Mutant(
        "blocks allocated on the current device",
        "linspec/arrays.py",
        "    @at_home\n    def zeros",
        "    def zeros",
        f"{LINSPEC}_a_home_can_be_pickled_and_compared",
    ),
    Mutant(
        "a solve on the current device",
        "linspec/solving/solve.py",
        "@at_home\n@hinted\ndef solve",
        "@hinted\ndef solve",
        f"{LINSPEC}_answers_lie_where_the_data_are[1]",
    ),
    Mutant(
        "scores on the current device",
        "linspec/families/cca/solution.py",
        "    @at_home\n    def score(",
        "    def score(",
        f"{LINSPEC}_answers_lie_where_the_data_are[1]",
    ),
    Mutant(
        "an array of another device is converted on this one",
        "linspec/arrays.py",
        "                    with on_device(x):\n                        x = cast(x, dtype)",
        "                    x = cast(x, dtype)",
        f"{LINSPEC}_an_array_of_another_device_is_brought_home",
    ),
    Mutant(
        "factorisations fail in silence",
        "linspec/arrays.py",
        'with device, cupyx.errstate(linalg="raise"):',
        "with device:",
        f"{LINSPEC}_a_factorisation_that_fails_raises",
    ),
    Mutant(
        "the user's sparse matrix is put in order",
        "linspec/operators/foreign.py",
        "            self.matrix = self.matrix.copy()\n",
        "",
        f"{LINSPEC}_a_sparse_matrix_is_left_as_it_is",
    ),
    Mutant(
        "sparse products with no fixed order",
        "linspec/operators/foreign.py",
        "_in_order(self._shared(rows).T.tocsr())",
        "self._shared(rows).T",
        f"{LINSPEC}_products_with_the_transpose_are_those_of_rows",
    ),
    Mutant(
        "float32 summed over all rows",
        "linspec/operators/foreign.py",
        "if self.dtype == np.float64 else longest_stretch(self.home)",
        "if self.dtype == np.float64 else max(n, 1)",
        f"{LINSPEC}_long_sums_of_float32_lose_nothing",
    ),
    Mutant(
        "sparse slices of CuPy refused",
        "linspec/operators/streamed.py",
        " and not is_cupy_sparse(given)",
        "",
        f"{LINSPEC}_sparse_slices_are_streams",
    ),
    Mutant(
        "the memory of the host for that of the device",
        "linspec/arrays.py",
        "        if compat.is_cupy_namespace(self.xp):\n            import cupy",
        "        if False:\n            import cupy",
        f"{LINSPEC}_memory_is_that_of_the_device",
    ),
    Mutant(
        "an assignment over its own memory",
        "linspec/operators/dense.py",
        "            product[rows, :] = block.matmat(V)",
        "            product[rows, :] = block.matmat(V)\n            product[1:, :] = product[:-1, :]",
        f"{CONTRACT}[cca/gram]",
    ),
    Mutant(
        "small matrices that travel one by one",
        "linspec/arrays.py",
        "    if len(there) < 2:",
        "    if len(there) < 99:",
        f"{TRANSFERS}::test_no_iteration_carries_more_than_its_budget",
    ),
    Mutant(
        "an inverse that is asked whether it exists",
        "linspec/arrays.py",
        'cupyx.errstate(linalg="ignore")',
        'cupyx.errstate(linalg="raise")',
        f"{TRANSFERS}::test_inverses_are_made_without_a_wait",
    ),
    Mutant(
        "an inverse of a singular matrix taken for one",
        "plugins/linspec_lstsq/block_step.py",
        "        if inverts(inverted, G):",
        "        if len(G):",
        f"{TRANSFERS}::test_directions_without_a_product_are_no_end_of_cg",
    ),
    Mutant(
        "a part prepared on the current device",
        "linspec/families/least_squares/preparing.py",
        "            with on_device(ready.counted):  # as the run of the outer method does",
        "            if True:",
        "tests/test_conformance.py::test_least_squares_cg[prepare]",
    ),
    Mutant(
        "blocks of a Gram matrix as small as on the host",
        "linspec/sweeps/views.py",
        "    if not operators[0].home.on_host:",
        "    if not operators:",
        f"{TRANSFERS}::test_the_kernels_of_a_gram_matrix_do_not_grow_with_rows_that_fit",
    ),
    Mutant(
        "ones that come from the host",
        "linspec/operators/column_statistics.py",
        "block.home.ones((block.shape[0], 1), block.dtype)",
        "block.home.place(np.ones((block.shape[0], 1)), block.dtype)",
        f"{TRANSFERS}::test_ones_and_identities_are_made_on_the_device",
    ),
)


def noticed(mutant: Mutant, copy: Path) -> bool:
    """Whether the test fails with the fault, and passes without it."""
    path = copy / mutant.file
    whole = path.read_text("utf-8")
    if whole.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} must have {mutant.old!r} once.")
    before = _passes(mutant.test, copy)
    path.write_text(whole.replace(mutant.old, mutant.new), "utf-8")
    after = _passes(mutant.test, copy)
    path.write_text(whole, "utf-8")
    return before and not after


def _passes(test: str, copy: Path) -> bool:
    places = [copy, copy / "plugins", copy / "tests"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LINSPEC_CUPY_DOUBLE": "14.2.0",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", test]
    run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if run.returncode not in {0, 1}:
        raise RuntimeError(run.stdout + run.stderr)
    return run.returncode == 0


def main() -> int:
    """Try all of them."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="linspec-mutants-") as folder:
        copy = Path(folder) / "linspec"
        copy.mkdir()
        for name in ("linspec", "plugins", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for mutant in MUTANTS:
            found = noticed(mutant, copy)
            missed += not found
            told = "noticed by" if found else "MISSED BY"
            print(f"{mutant.name}: {told} {mutant.test}", flush=True)
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
