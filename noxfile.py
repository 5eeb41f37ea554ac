"""The checks of linspec, one session each: `nox` runs the default ones, `nox -l` lists them all.

In an environment that has `.[dev]` already, `nox --no-venv --no-install -s lint types` makes no other.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "contracts", "tests"]

ROOT = Path(__file__).parent
DEV = ("-e", ".[dev]")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
QUICK = (
    "project/test_import.py",
    "solving/test_solve.py",
    "solving/test_saved_answers.py",
    "plugins/test_svd.py",
)
"""Tests that show within a minute whether an installed linspec finds its solvers and computes."""
TEMPLATES = {
    "two-point": ("solver",),
    "mca": ("problem",),
    "npz-shards": ("data",),
}
"""The names that the templates have in the pages, and what `linspec new` is asked for."""

VERSIONS = nox.project.load_toml(Path(__file__).parent / "tests" / "releases" / "versions.toml")
RELEASES = {
    name: [nox.param(entry["python"], releases, id=releases) for releases, entry in entries.items()]
    for name, entries in VERSIONS.items()
}
"""The environments of the sessions `formats` and `peers`."""

KERNELS = (
    *("Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom", "Barcelona", "Bobcat"),
    *("Sandybridge", "Bulldozer", "Piledriver", "Steamroller", "Excavator"),
    *("Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"),
    *("ARMV8", "CORTEXA57", "NEOVERSEN1", "NEOVERSEV1", "NEOVERSEN2", "THUNDERX2T99", "A64FX", "VORTEX"),
    *("POWER8", "POWER9", "POWER10"),
)
"""What OPENBLAS_CORETYPE may name. Of those that it does not have, OpenBLAS takes the nearest or its own choice."""

PROBE = """
import numpy, scipy.linalg, threadpoolctl
A = numpy.random.default_rng(0).standard_normal((200, 200))
scipy.linalg.lu_factor(A @ A), numpy.linalg.eigh(A + A.T)
found = [(i.get("architecture"), i["internal_api"]) for i in threadpoolctl.threadpool_info() if i["user_api"] == "blas"]
print(" and ".join(sorted({kernel for kernel, library in found if library == "openblas"})))
"""
"""Works with a kernel, which ends the process where the processor lacks the instructions, and says what it was."""

VIEWS = """
import numpy
rng = numpy.random.default_rng(0)
shared = rng.standard_normal((150, 3))
for name, columns in (("X", 8), ("Y", 6)):
    numpy.save(name, shared @ rng.standard_normal((3, columns)) + rng.standard_normal((150, columns)))
"""
"""Writes two views with something in common."""


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules and its format."""
    session.install(*DEV)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict."""
    session.install(*DEV)
    session.run("mypy")


@nox.session
def contracts(session: nox.Session) -> None:
    """Who may import whom: the contracts in pyproject.toml."""
    session.install(*DEV)
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """The whole suite on all cores; arguments after `--` go to pytest."""
    session.install(*DEV)
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The slow tests and cases that the suite leaves out, or a slice: `nox -s slow -- 3/10`; more goes to pytest."""
    session.install(*DEV)
    part = session.posargs[0] if session.posargs and "/" in session.posargs[0] else ""
    arguments = session.posargs[bool(part) :]
    session.run("pytest", "-n", "auto", "-m", "slow", *arguments, env={"LINSPEC_SLOW": part or "1"})


@nox.session
def conformance(session: nox.Session) -> None:
    """The conformance tests of all that is registered."""
    session.install(*DEV)
    session.run("pytest", "-n", "auto", "tests/test_conformance.py", *session.posargs)


@nox.session(python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """The suite on every supported Python that is installed; `nox -s pythons-3.12` takes one of them."""
    session.install(*DEV)
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def newest(session: nox.Session) -> None:
    """The suite with the newest release of every dependency."""
    session.install("--upgrade", "--upgrade-strategy", "eager", *DEV)
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """The suite with the lowest release of every dependency that pyproject.toml permits."""
    constraints = Path(session.create_tmp(), "lowest.txt")
    constraints.write_text("\n".join(_lowest_versions()) + "\n", "utf-8")
    session.install("--constraint", str(constraints), *DEV)
    # The checks of scikit-learn 1.6 cannot be imported without it where array-api-compat is installed.
    session.run("pytest", "-n", "auto", *session.posargs, env={"SCIPY_ARRAY_API": "1"})


@nox.session
@nox.parametrize("python,releases", RELEASES["formats"])
def formats(session: nox.Session, releases: str) -> None:
    """Objects and files of other libraries, by pinned releases: taken with their numbers, or refused with the way."""
    _with_releases(session, "formats", releases)


@nox.session
@nox.parametrize("python,releases", RELEASES["peers"])
def peers(session: nox.Session, releases: str) -> None:
    """Each row of the pages that translate the calls of other libraries, run with pinned releases of these."""
    _with_releases(session, "peers", releases)
    pages = ("-k", "coming-from or compare", "tests/pages/test_docs_snippets.py")
    session.run("pytest", *pages, env={"LINSPEC_SLOW": "1", "SCIPY_ARRAY_API": "1"})


@nox.session
def wheel(session: nox.Session) -> None:
    """Wheel and sdist, built once: the wheel is tried with every supported Python that is here, the sdist with one.

    Each is installed into an empty environment, where the example of the README and the demonstration run. With the
    Python of the session tests run, too: arguments after `--`, or a few quick ones by default.
    """
    session.install("build", "twine")
    folder = Path(session.create_tmp()).resolve()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist), str(ROOT))
    built, sdist = next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))
    session.run("twine", "check", "--strict", str(built), str(sdist))
    example = folder / "example.py"
    example.write_text(_first_example(ROOT / "README.md"), "utf-8")
    found = _pythons()
    session.log(f"Python {', '.join(found)}; not here: {', '.join(set(PYTHONS) - set(found)) or 'none'}")
    own = ".".join(map(str, sys.version_info[:2]))
    tests = [str(ROOT / test) for test in session.posargs or [f"tests/{test}" for test in QUICK]]
    tried = [(built, version) for version in found] + [(sdist, own if own in found else next(iter(found)))]
    alone = {"PYTHONPATH": None}  # the sources must not be found
    for archive, version in tried:
        session.chdir(folder)  # elsewhere than the root, where `import linspec` would find the sources
        environment = folder / f"{archive.suffix[1:]}-{version}"
        session.run(found[version], "-m", "venv", "--clear", str(environment), external=True)
        python = _python_of(environment)
        extras = "demo,testing" if version == own else "demo"
        session.run(
            python, "-m", "pip", "install", "--quiet", f"{archive}[{extras}]", env=alone, external=True
        )
        session.run(python, "-m", "linspec", "--version", env=alone, external=True)
        session.run(python, str(example), env=alone, external=True)
        session.run(python, "-m", "linspec", "demo", "--quick", env=alone, external=True)
        if version == own:
            session.run(python, "-m", "pytest", "-q", *tests, env=alone, external=True)


@nox.session
def processors(session: nox.Session) -> None:
    """The suite as other processors round it: each OpenBLAS kernel that runs here, one BLAS thread and two.

    Arguments after `--` go to pytest; `nox -s processors -- tests/plugins -x` is a quick way.
    """
    session.install(*DEV)
    default = _kernel(session, None)
    if not default:
        session.skip("NumPy and SciPy have no OpenBLAS, or threadpoolctl does not know it")
    # What NumPy and SciPy report, and the name that asks for it.
    runs: dict[str, str | None] = {default: None}
    for name in KERNELS:
        kernel = _kernel(session, name)
        if kernel is None:
            session.log(f"{name}: skipped, this processor lacks its instructions")
        elif kernel in runs:
            session.log(f"{name}: skipped, OpenBLAS takes {kernel} for it, which runs already")
        else:
            runs[kernel] = name
    failed = []
    for kernel, name in runs.items():
        for threads in ("1", "2"):
            run = f"{kernel} with {threads} BLAS thread(s)"
            session.log(f"{run}: OPENBLAS_CORETYPE={name}")
            env = {"OPENBLAS_CORETYPE": name, "OPENBLAS_NUM_THREADS": threads}
            try:
                session.run("python", "-m", "pytest", "-q", "-n", "auto", *session.posargs, env=env)
            except nox.command.CommandFailed:
                failed.append(run)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def hostile(session: nox.Session) -> None:
    """Ten times as many hostile trials as in the suite, the slow ones too, and a fuzzer of files.

    Arguments after `--` go to pytest.
    """
    session.install(*DEV)
    env = {"LINSPEC_HOSTILE": "10", "LINSPEC_SLOW": "1"}
    session.run("pytest", "-q", "-n", "auto", "tests/hostile", *session.posargs, env=env)
    session.chdir("tests")
    session.run("python", "-m", "hostile.fuzz_files", "--trials", "5000", "--seed", "0")


@nox.session
def distributed(session: nox.Session) -> None:
    """Rows on workers of dask: every test of faults, the slow ones too, which kill and stop processes."""
    session.install(*DEV)
    session.run("pytest", "-q", "tests/plugins/test_dask.py", *session.posargs, env={"LINSPEC_SLOW": "1"})


@nox.session
def elsewhere(session: nox.Session) -> None:
    """The suite without what only Linux or POSIX has: affinity, control groups, madvise, fork, most signals."""
    session.install(*DEV)
    apart = {"__pycache__", "doubles", "estimators", "hostile", "mutants", "releases"}
    folders = [
        str(each) for each in sorted(Path("tests").iterdir()) if each.is_dir() and each.name not in apart
    ]
    modules = [f"tests/test_{each.stem}.py" for each in sorted(Path("linspec").glob("*.py"))]
    places = session.posargs or [*folders, *filter(os.path.exists, modules)]
    session.run("pytest", "-q", "-n", "auto", *places, env={"LINSPEC_ELSEWHERE": "1"})


@nox.session
def strict(session: nox.Session) -> None:
    """What needs no GPU to say about GPUs: array-api-strict, and NumPy arrays that refuse writing."""
    session.install(*DEV)
    session.run("pytest", "-k", "array-api-strict or layout", *session.posargs)


@nox.session
def torch(session: nox.Session) -> None:
    """Every test that takes an array backend, on torch."""
    session.install(*DEV, "torch==2.13.0")
    session.run("pytest", "-k", "torch", *session.posargs)


@nox.session
def jax(session: nox.Session) -> None:
    """Every test that takes an array backend, on JAX, with float64; tests of borrowed arrays without it, too."""
    session.install(*DEV, "jax==0.10.2")
    session.run("pytest", "-k", "jax", "tests/test_borrowed.py", *session.posargs)
    env = {"JAX_ENABLE_X64": "1"}
    session.run("pytest", "-k", "jax", *session.posargs, env=env)


@nox.session
def deep(session: nox.Session) -> None:
    """Deep CCA, which needs torch: its tests, the contract, and its page."""
    session.install(*DEV, "torch==2.13.0")
    places = (
        "tests/plugins/test_deep_cca.py",
        "tests/test_conformance.py",
        "tests/pages/test_docs_snippets.py",
    )
    session.run("pytest", "-n", "auto", "-k", "deep", *places, *session.posargs)


@nox.session
def experiments(session: nox.Session) -> None:
    """The commands of the experiments in the documentation, on the small data that each of them makes."""
    session.install(*DEV)
    env = {"LINSPEC_SLOW": "1"}
    place = "tests/pages/test_docs_snippets.py"
    session.run("pytest", "-n", "auto", "-k", "evidence", place, *session.posargs, env=env)


@nox.session
def estimators(session: nox.Session) -> None:
    """scikit-learn's checks of all estimators, with every solver and target, and with arrays of other libraries."""
    session.install(*DEV, "torch==2.13.0")
    env = {"LINSPEC_SLOW": "1", "SCIPY_ARRAY_API": "1"}
    session.run("pytest", "-n", "auto", "tests/estimators", *session.posargs, env=env)


@nox.session
def gpu(session: nox.Session) -> None:
    """Every test that takes an array backend, on CuPy."""
    session.install(*DEV, f".[{_cupy_extra(session)}]")
    session.run("pytest", "-k", "cupy", *session.posargs)


@nox.session(name="gpu-double")
def gpu_double(session: nox.Session) -> None:
    """Every test that takes an array backend, and the whole conformance kit, on a double of CuPy: no GPU is needed.

    With the names and signatures of the oldest release that `pyproject.toml` allows, and of the newest one known.
    The checks of the kit that bear no backend in their names take every backend that is there, so all of them run.
    Arguments after `--` go to pytest; `nox -s gpu-double -- tests/doubles` is a quick way.
    """
    session.install(*DEV)
    for version in ("13.4.0", "14.2.0"):
        env = {"LINSPEC_CUPY_DOUBLE": version}
        session.run("pytest", "-q", "-n", "auto", "-k", "cupy or conformance", *session.posargs, env=env)
        if not session.posargs:
            env["SCIPY_ARRAY_API"] = "1"
            session.run("pytest", "-q", "-n", "auto", "-k", "cupy", "tests/estimators", env=env)


@nox.session
def template(session: nox.Session) -> None:
    """Packages as `linspec new` writes them: from linspec's wheel, in a clean environment, by the public kit."""
    session.install(".[cli,testing]")
    folder = Path(session.create_tmp()).resolve()
    session.chdir(folder)  # elsewhere than the root, where `import linspec` would find the sources
    for name, wanted in TEMPLATES.items():
        package = folder / f"linspec-{name}"
        shutil.rmtree(package, ignore_errors=True)
        session.run("linspec", "new", wanted[0], name, *wanted[1:])
        session.install("-e", str(package))
        session.run("linspec", "plugins")
        session.run("python", "-m", "pytest", str(package), *session.posargs)
    session.run("linspec", "check", "operator/npz-shards")
    session.run("python", "-c", VIEWS)
    data = ("mca", "X.npy", "Y.npy", "-k", "3")
    session.run("linspec", "describe", "mca")
    session.run("linspec", "solve", *data, "--out", "mca.npz")
    session.run("linspec", "compare", *data, "--plot", "mca.png")
    session.run("linspec", "check", "problem/mca")
    session.run("linspec", "check", "mca/power")


@nox.session
def bench(session: nox.Session) -> None:
    """One quick round of every benchmark: do they still run? Its times say nothing. More goes to `asv run`."""
    session.install(*DEV)
    # asv keeps its notes on this machine in the home folder; a trial run has no business there.
    home = {"HOME": session.create_tmp()}
    config = ("--config", "asv_bench/asv.conf.json")
    # One server that forks, not an interpreter for each of hundreds of parameters.
    options = ("--python=same", "--quick", "--show-stderr", "--launch-method", "forkserver")
    session.run("asv", "machine", "--yes", *config, env=home, silent=True)
    session.run("asv", "run", *config, *options, *session.posargs, env=home)
    if not session.posargs:  # the measurements that are too long for the suite
        session.run("pytest", "-q", "-n", "auto", "-m", "slow", "tests/project/test_benchmarks.py")


@nox.session
def trends(session: nox.Session) -> None:
    """Benchmarks of this commit, kept, and the pages of all results: asv_bench/.asv/html.

    Arguments after `--` go to `asv run`: `v0.1.0..HEAD` takes those commits, each in an environment of its own.
    LINSPEC_BENCH_MACHINE names the machine; by default its own name does. Results are kept by it.
    """
    session.install(*DEV, "torch==2.13.0")
    config = ("--config", "asv_bench/asv.conf.json")
    home = {"HOME": session.create_tmp()}
    machine = ("--machine", os.environ.get("LINSPEC_BENCH_MACHINE") or platform.node())
    commit = str(session.run("git", "rev-parse", "HEAD", external=True, silent=True)).strip()
    chosen = session.posargs or ("--python=same", "--set-commit-hash", commit)
    session.run("asv", "machine", "--yes", *machine, *config, env=home, silent=True)
    session.run("asv", "run", *config, *machine, "--launch-method", "forkserver", *chosen, env=home)
    session.run("asv", "publish", *config, env=home)


@nox.session
def regression(session: nox.Session) -> None:
    """Passes and errors of two commits: `nox -s regression -- BEFORE [AFTER]` fails where they rise."""
    session.install(*DEV)
    session.run("python", "asv_bench/compare_commits.py", *(session.posargs or ["HEAD"]))


@nox.session
def docs(session: nox.Session) -> None:
    """The site, every warning an error: links within it, and examples, which run. The suite runs the doctests."""
    session.install("-e", ".[docs]")
    shutil.rmtree(ROOT / "docs" / "_build", ignore_errors=True)  # pages of what is gone would stay
    drawn = ROOT / "docs" / "auto_gallery"
    for page in drawn.rglob("plot_*.rst"):
        if not (ROOT / "docs" / "gallery" / page.relative_to(drawn)).with_suffix(".py").exists():
            page.unlink()
    began = time.monotonic()
    env = {"OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    session.run("sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", env=env)
    session.run("python", "docs/site/check_site.py", "docs/_build/html", "--began", str(began))


@nox.session(venv_backend="none")
def site(session: nox.Session) -> None:
    """The site that `nox -s docs` has built, in Chromium: searches find their answers, every page can be read."""
    if not any(map(shutil.which, ("chromium", "google-chrome", "chromium-browser", "chrome"))):
        session.skip("no Chromium: neither chromium nor google-chrome is on PATH")
    session.run("python", "docs/site/try_site.py", *(session.posargs or ["docs/_build/html"]))


def _python_of(environment: Path) -> str:
    """The interpreter of a virtual environment."""
    return str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def _pythons() -> dict[str, str]:
    """The interpreter of each supported version that is installed: the one that runs nox, on the path, or of pyenv."""
    places = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin/python"))
    found: dict[str, str] = {}
    for program in (sys.executable, *(f"python{version}" for version in PYTHONS), *map(str, places)):
        version = _version_of(program)
        if version in PYTHONS:
            found.setdefault(version, program)
    return dict(sorted(found.items(), key=lambda item: PYTHONS.index(item[0])))


def _version_of(program: str) -> str:
    """The version of an interpreter, as 3.12; "" if it does not run, like a shim of pyenv without its Python."""
    command = [program, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _first_example(page: Path) -> str:
    """The first example in Python of a page."""
    match = re.search(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"{page} has no example in Python")
    return match[1]


def _lowest_versions() -> list[str]:
    """A pin for each requirement of linspec and its extras that has a lower bound; the highest of several bounds."""
    project = nox.project.load_toml(ROOT / "pyproject.toml")["project"]
    named = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    bounds = [match.groups() for line in named if (match := re.fullmatch(r"([\w-]+)>=([\d.]+)", line))]
    bounds.sort(key=lambda bound: [int(number) for number in bound[1].split(".")])
    return [f"{name}=={version}" for name, version in dict(bounds).items()]


def _with_releases(session: nox.Session, name: str, releases: str) -> None:
    """Run one folder of tests/releases with the packages that `versions.toml` names; prints a table."""
    pins = [*VERSIONS[name][releases]["packages"]]
    pinned = {pin.partition("==")[0] for pin in pins}
    if releases == "lowest":
        pins += [pin for pin in _lowest_versions() if pin.partition("==")[0] not in pinned]
    constraints = Path(session.create_tmp(), f"{name}-{releases}.txt")
    constraints.write_text("\n".join(pins) + "\n", "utf-8")
    session.install("--constraint", str(constraints), *DEV, *VERSIONS[name][releases]["packages"])
    tests = f"tests/releases/{name}/{VERSIONS[name][releases].get('only', '')}"
    session.run("pytest", tests, *session.posargs, env={"SCIPY_ARRAY_API": "1"})


def _kernel(session: nox.Session, name: str | None) -> str | None:
    """The kernels of NumPy and of SciPy where this one is asked for; None where they cannot run here."""
    try:
        output = session.run("python", "-c", PROBE, env={"OPENBLAS_CORETYPE": name}, silent=True, log=False)
    except nox.command.CommandFailed:
        return None
    return str(output).strip()


def _cupy_extra(session: nox.Session) -> str:
    """The extra that fits the installed driver; the session is skipped where there is no device."""
    if shutil.which("nvidia-smi") is None:
        session.skip("no NVIDIA device: nvidia-smi is not installed")
    query = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False)  # noqa: S607
    version = re.search(r"CUDA Version:\s*(\d+)", query.stdout)
    if query.returncode != 0 or version is None:
        session.skip(f"no NVIDIA device: nvidia-smi says {(query.stdout or query.stderr).strip()!r}")
    return "cupy13x" if int(version[1]) >= 13 else "cupy12x"
