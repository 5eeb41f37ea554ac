"""The command in processes of its own: what it loads, what it does without extras, interrupts, comparisons."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import linspec as ls
from linspec.cli.measured import Limits, compared
from linspec.cli.offered import kind_named

PATIENCE = 600.0
"""Seconds after which a command hangs."""

EXTRAS = ("rich", "matplotlib", "sklearn", "array_api_strict", "hypothesis", "pytest")


def linspec(*args: object, cwd: Path | None = None, blocked: tuple[str, ...] = (), code: int = 0):
    """Run the command in a fresh Python in which some modules cannot be imported."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); from linspec.cli import main; "
        f"main({[str(arg) for arg in args]!r}, prog_name='linspec')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two views on disk with correlations from 0.95 down to 0.1."""
    folder = tmp_path_factory.mktemp("views")
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((2, 400, 12))
    rho = np.geomspace(0.95, 0.1, 12)
    for name, view in (("X", U), ("Y", rho * U + np.sqrt(1 - rho**2) * V)):
        np.save(folder / f"{name}.npy", view @ (np.eye(12) + 0.3 * rng.standard_normal((12, 12))))
    return folder


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["solve", "--help"],
        ["solve", "cca", "--help"],
        ["cross-validate", "least-squares", "--help"],
        ["permute", "cca", "--help"],
        ["bootstrap", "svd", "--help"],
        ["transform", "--help"],
        ["solvers"],
        ["plugins"],
    ],
)
def test_help_and_listings_load_no_array_library(args: list[str]):
    program = (
        f"import sys\nfrom linspec.cli import main\ntry: main({args!r})\nexcept SystemExit: pass\n"
        "loaded = {'numpy', 'scipy', 'array_api_compat', 'rich', 'matplotlib', 'sklearn'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr


def test_python_dash_m():
    done = subprocess.run(
        [sys.executable, "-m", "linspec", "--version"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "linspec" in done.stdout


def test_everything_but_pictures_works_without_extras(folder: Path):
    views = ("X.npy", "Y.npy", "-k", 2, "--ridge", 1)
    out = linspec("solve", "cca", *views, "--progress", cwd=folder, blocked=EXTRAS).stdout
    assert "converged" in out
    assert "gram" in linspec("compare", "cca", *views, "--solvers", "gram", cwd=folder, blocked=EXTRAS).stdout
    for args in (["solve", "cca", *views, "--plot", "p.png"], ["compare", "cca", *views, "--plot", "p.png"]):
        assert "linspec[cli]" in linspec(*args, cwd=folder, blocked=EXTRAS, code=2).stderr
    assert "linspec[demo]" in linspec("demo", cwd=folder, blocked=EXTRAS, code=2).stderr


def test_every_help_works_without_extras():
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
        "from linspec.cli import main\n"
        "for command in ('demo', 'solve', 'compare', 'solvers', 'describe', 'plugins', 'check'):\n"
        "    main([command, '--help'], standalone_mode=False)\n"
        "main(['solvers'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") == 7


# ---- interrupts -------------------------------------------------------------------------------

ENDLESS = (
    "--solver",
    "als",
    "-o",
    "form=implicit",
    "-o",
    "max_iterations=100000000",
    "--tol",
    "1e-300",
    "--progress",
)


def interrupted(args: list[str], folder: Path, sign: str) -> tuple[int, str]:
    """Start an endless run, send SIGINT once `sign` is on standard error; its exit status and output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "linspec", *args],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A shell lets what it runs in the background ignore Ctrl-C; these must not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # no threads here
    )
    seen = ""
    deadline = time.monotonic() + PATIENCE
    while sign not in seen and time.monotonic() < deadline:
        seen += process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in seen + err
    return process.returncode, out


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_a_run_with_what_it_has(folder: Path, tmp_path: Path):
    """The best iterate is shown and written; status 130, as in a shell."""
    args = ["solve", "cca", "X.npy", "Y.npy", "-k", "2", *ENDLESS, "--out", str(tmp_path / "r.npz")]
    code, out = interrupted(args, folder, "iteration 1")
    assert code == 130
    assert "interrupted: An interrupt ended the run" in out
    with np.load(tmp_path / "r.npz") as saved:
        assert saved["status"] == "INTERRUPTED"
        assert saved["correlations"].shape == (2,)
        assert 0 < saved["correlations"][0] <= 1


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_run_says_last_how_it_goes_on(folder: Path, tmp_path: Path):
    kept = tmp_path / "run.ckpt"
    args = ["solve", "cca", "X.npy", "Y.npy", "-k", "2", *ENDLESS, "--checkpoint", str(kept)]
    _, out = interrupted(args, folder, "iteration 1")
    assert out.splitlines()[-1] == f"to go on: the same command with --start {kept}"
    before = int(re.search(r"\((\d+) iteration", out)[1])
    done = subprocess.run(
        [sys.executable, "-m", "linspec", *args, "--start", str(kept), "--max-seconds", "0.5"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert int(re.search(r"\((\d+) iteration", done.stdout)[1]) > before


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_a_comparison_with_what_it_has(folder: Path, tmp_path: Path):
    """The solvers until then are shown and drawn."""
    pytest.importorskip("matplotlib")
    solver = [
        "-o",
        "als.form=implicit",
        "-o",
        "als.max_iterations=100000000",
        "-o",
        "als.tol=1e-300",
        "--progress",
    ]
    args = ["compare", "cca", "X.npy", "Y.npy", "-k", "2", "--solvers", "gram,als,direct", *solver]
    args += ["--plot", str(tmp_path / "c.svg")]
    code, out = interrupted(args, folder, "als (2 of 3): iteration")
    assert code == 130
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert "converged" in rows["gram"]
    assert "interrupted" in rows["als"]
    assert "direct" not in rows
    assert (tmp_path / "c.svg").read_text().rstrip().endswith("</svg>")


# ---- comparisons ------------------------------------------------------------------------------


def by_als(folder: Path, **extra):
    """One run of a comparison, which sweeps the data."""
    problem = ls.CCA(*(np.load(folder / name) for name in ("X.npy", "Y.npy")), k=2, ridge=1.0)
    return compared(problem, "als", {"form": "implicit", "oversample": 0}, Limits(), **extra)


def test_scores_on_the_way_cost_the_run_nothing(folder: Path):
    """A run makes equal passes with and without scores; scores rise to that of the solution."""
    plain = by_als(folder)
    scored = by_als(folder, score=kind_named("cca").score)
    assert (scored.passes, scored.products, scored.objective) == (
        plain.passes,
        plain.products,
        plain.objective,
    )
    assert plain.scores["score"] == []
    assert len(scored.scores["score"]) >= 3
    assert scored.scores["score"][-1] == pytest.approx(scored.objective, rel=1e-4)
    assert max(scored.scores["score"]) <= scored.objective * (1 + 1e-6)
    seconds = scored.history["seconds"]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[-1] <= scored.seconds


def test_progress_of_a_run_is_reported(folder: Path):
    seen = []
    by_als(folder, reporters=[seen.append])
    assert seen[0].iteration == 0
    assert seen[0].residual > 0


def test_compare_side_by_side(folder: Path, tmp_path: Path):
    pytest.importorskip("matplotlib")
    solvers = "gram,als,d-cca,naive-gradient"
    views = ("X.npy", "Y.npy", "-k", 2, "--ridge", 1)
    args = ("compare", "cca", *views, "--solvers", solvers, "--max-passes", 300)
    options = ("-o", "form=implicit", "-o", "als.oversample=4", "--plot", tmp_path / "c.png")
    done = linspec(*args, *options, cwd=folder)
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    X, Y = (np.load(folder / name) for name in ("X.npy", "Y.npy"))
    factors = []
    for view in (X - X.mean(axis=0), Y - Y.mean(axis=0)):
        values, vectors = np.linalg.eigh(view.T @ view + np.eye(12))
        factors.append(view @ vectors / np.sqrt(values))
    best = np.linalg.svd(factors[0].T @ factors[1], compute_uv=False)[:2].sum()
    assert float(rows["gram"][1]) == pytest.approx(best, abs=1e-6)
    assert rows["gram"][2] == "100.000"
    assert float(rows["als"][2]) > 99
    assert float(rows["naive-gradient"][2]) < float(rows["als"][2])
    assert float(rows["als"][rows["als"].index("converged") + 1]) <= 300
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert all(line.startswith("Warning: ") for line in done.stderr.splitlines())


def test_a_solver_that_cannot_run_leaves_the_others(folder: Path):
    args = ("compare", "cca", "X.npy", "Y.npy", "-k", 2, "--solvers", "gram,als", "--max-passes", 1)
    out = linspec(*args, "-o", "als.form=implicit", cwd=folder).stdout
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert "failed" in out
    assert "needs at least" in rows["als"]
    assert "converged" in out


@pytest.mark.slow
def test_a_comparison_refuses_at_once_what_no_solver_can_do(folder: Path, tmp_path: Path):
    spoilt = np.load(folder / "X.npy")
    spoilt[1, 2] = np.inf
    np.save(tmp_path / "inf.npy", spoilt)
    for args in (
        (tmp_path / "inf.npy", "Y.npy", "-k", 2),
        ("X.npy", "Y.npy", "-k", 99),
        ("no.npy", "Y.npy", "-k", 2),
    ):
        done = linspec("compare", "cca", *args, "--solvers", "gram", cwd=folder, code=2)
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
