"""The templates, installed as other distributions are: by themselves, beside a namesake, beside a wreck."""

from __future__ import annotations

import ast
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from installed import PACKAGE, PROBLEM, TEMPLATES, Site

PAGES = TEMPLATES.parents[1] / "docs" / "extend"
PAGE = PAGES / "write-a-plugin.md"
PROBLEM_PAGE = PAGES / "a-problem-of-your-own.md"
PROBLEM_PACKAGE = TEMPLATES / "problem" / "linspec_mca"
DATA_PACKAGE = TEMPLATES / "data" / "linspec_npz_shards"
PACKAGES = {
    PACKAGE: "two-point",
    PROBLEM_PACKAGE: "mca",
    DATA_PACKAGE: "npz-shards",
}
"""The packages of the templates, and the names of their entry points."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("LINSPEC_DISABLE_PLUGINS", raising=False)
    return Site(tmp_path)


# ------------------------------------------------------------------------------------------------ the template


def test_the_template_is_found_and_solves(site: Site) -> None:
    site.install_template()
    names, solved, provider = site.ask(
        "[ls.solvers(problem), good(ls.solve(problem, 'two-point')), ls.describe('two-point').provider]"
    )
    assert "two-point" in names
    assert solved
    assert provider == "linspec-two-point:two-point"


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.parent.name)
def test_the_tests_of_the_template_pass(site: Site, package: Path) -> None:
    """The public kit among them, as an author runs it; `nox -s template` does the same with a wheel."""
    site.install_template(package)
    done = site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package.parent)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize(
    ("package", "entry"), PACKAGES.items(), ids=[package.parent.name for package in PACKAGES]
)
def test_the_template_builds_a_wheel_with_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: Path, entry: str
) -> None:
    build = pytest.importorskip(
        "hatchling.build", reason="hatchling is not installed; nox -s template builds it"
    )
    copy = tmp_path / "template"
    shutil.copytree(package.parent, copy, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    monkeypatch.chdir(copy)
    wheel = zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path)))
    names = wheel.namelist()
    assert {f"{package.name}/{path.name}" for path in package.glob("*.py")} <= set(names)
    assert not [name for name in names if "test_" in name]
    (points,) = [name for name in names if name.endswith("entry_points.txt")]
    assert wheel.read(points).decode().split() == ["[linspec]", entry, "=", f"{package.name}.plugin"]


def test_the_plugin_is_less_than_forty_lines_of_code() -> None:
    assert sum(len(code_lines(path)) for path in PACKAGE.glob("*.py")) < 40


def code_lines(path: Path) -> set[int]:
    """The lines on which something stands that is neither a docstring nor a comment."""
    tree = ast.parse(path.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    doc = {
        line
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    lines = path.read_text("utf-8").splitlines()
    return {
        number
        for number, line in enumerate(lines, 1)
        if number not in doc and line.strip() and not line.lstrip().startswith("#")
    }


def test_the_page_shows_the_template_as_it_is() -> None:
    page = PAGE.read_text("utf-8")
    for name in ("two_point.py", "plugin.py"):
        assert f"```python\n{(PACKAGE / name).read_text('utf-8')}```" in page
    config = (PACKAGE.parent / "pyproject.toml").read_text("utf-8")
    table = config[config.index("[project.entry-points") : config.index("[tool.hatch")].strip()
    assert f"```toml\n{table}\n```" in page
    test = (PACKAGE.parent / "tests" / "test_two_point.py").read_text("utf-8")
    assert 'test_conformance = conformance("least-squares/two-point")\n' in test


# ------------------------------------------------------------------------------------------ the problem template


@pytest.mark.slow
def test_a_problem_of_another_distribution_is_solved_compared_drawn_and_written(site: Site) -> None:
    pytest.importorskip("matplotlib", reason="nothing can be drawn")
    site.install_template(PROBLEM_PACKAGE)
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((150, 3))
    views = [shared @ rng.standard_normal((3, p)) + rng.standard_normal((150, p)) for p in (8, 6)]
    for name, view in zip("XY", views, strict=True):
        np.save(site.folder / f"{name}.npy", view)
    X, Y = (view - view.mean(axis=0) for view in views)
    exact = np.linalg.svd(X.T @ Y, compute_uv=False)[:3]

    def linspec(*arguments: str) -> str:
        done = site.run("-m", "linspec", *arguments, MPLBACKEND="Agg", NO_COLOR="1")
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    data = ("mca", "X.npy", "Y.npy", "-k", "3")
    solved = linspec("solve", *data, "--out", "answer.npz", "--plot", "run.png")
    assert "k=3, center=True" in solved
    assert "gram" in solved
    assert all(format(value, ".5g") in solved for value in exact)
    np.testing.assert_allclose(np.load(site.folder / "answer.npz")["singular_values"], exact)
    rows = linspec("compare", *data, "--plot", "all.png").splitlines()
    assert [line.split()[1] for line in rows if f"{exact.sum():.6g}" in line] == ["gram", "power"]
    assert all((site.folder / name).stat().st_size > 10_000 for name in ("run.png", "all.png"))
    assert "linspec-mca:mca" in linspec("describe", "mca/power")
    assert "2 solvers" in linspec("solvers", "mca")
    described = linspec("describe", "mca")
    assert "MCA(X, Y, k, center=True, scale=False, sample_weight=None, confounds=None)" in described
    assert "gram, power" in described


def test_the_problem_template_imports_what_its_page_names() -> None:
    text = PROBLEM_PAGE.read_text("utf-8")
    table = text[text.index("## What there is for authors of problems") :]
    named = {"linspec", *re.findall(r"^\| `(linspec[.\w]*)` \|", table, re.MULTILINE)}
    assert len(named) > 5
    for path in [*PROBLEM_PACKAGE.glob("*.py"), *(PROBLEM_PACKAGE.parent / "tests").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = {name for name in modules if name.partition(".")[0] == "linspec"}
            assert ours <= named, f"{path.name} imports {ours - named}"


def test_the_page_shows_the_problem_template_as_it_is() -> None:
    page = PROBLEM_PAGE.read_text("utf-8")
    shown = set()
    for path in PROBLEM_PACKAGE.glob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                assert "\n".join(text.splitlines()[first - 1 : node.end_lineno]) in page, node.name
                shown.add(node.name)
    assert {"MCA", "MCASolution", "Gram", "Power", "pencil", "linspec_problems"} <= shown


# ------------------------------------------------------------------------- two of one name, and one that breaks


def test_two_distributions_of_one_name_and_a_wreck_leave_everything_else_at_work(site: Site) -> None:
    site.install_copy("acme-solvers", "two-point", "acme-only")
    site.install_copy("bolt", "two-point")
    site.install_wreck("crash")
    unknown, listed, states, works = site.ask(
        "[message(ls.solve, problem, 'three-point'),"
        " ls.solvers(problem), [[i.identity, i.status, i.error] for i in ls.plugins()],"
        " [good(ls.solve(problem, name)) for name in"
        "  ('direct', 'acme-only', 'acme-solvers:two-point', 'bolt:two-point',"
        "   'least-squares/bolt:two-point')]]"
    )
    # Who is broken, why, and that it might have had the name.
    assert unknown.startswith("UnknownName: ")
    assert "crash:solvers is broken" in unknown
    assert "a_library_that_is_not_there" in unknown
    # The rest keeps working, the namesakes too.
    assert {"acme-only", "two-point", "bolt:two-point", "direct"} <= set(listed)
    assert works == [True] * 5
    status = {identity: (state, error) for identity, state, error in states}
    assert status["crash:solvers"][0] == "broken"
    assert "a_library_that_is_not_there" in status["crash:solvers"][1]
    assert status["bolt:solvers"] == ("loaded", None)


def test_an_instance_of_either_namesake_can_be_used_and_is_named(site: Site) -> None:
    site.install_copy("acme", "two-point")
    site.install_copy("bolt", "two-point")
    chosen = "ls.get_solver('bolt:two-point', problem)"
    module, solved, name = site.ask(
        f"[{chosen}.__module__, good(ls.solve(problem, {chosen}(tol=1e-10))),"
        f" ls.solve(problem, {chosen}()).solver]"
    )
    assert module == "bolt.two_point"
    assert solved
    assert "two-point" in name


@pytest.mark.slow
def test_disabling_one_of_two_namesakes_gives_the_name_to_the_other(site: Site) -> None:
    site.install_copy("acme", "two-point")
    site.install_copy("bolt", "two-point")
    module = "ls.get_solver('two-point', problem).__module__"
    assert site.ask(module, LINSPEC_DISABLE_PLUGINS="bolt") == "acme.two_point"
    assert site.ask(module, LINSPEC_DISABLE_PLUGINS="acme") == "bolt.two_point"
    assert "two-point" not in site.ask("ls.solvers(problem)", LINSPEC_DISABLE_PLUGINS="*")


def test_a_name_of_linspec_stays_its_own_with_one_warning(site: Site) -> None:
    site.install_copy("acme", "cg")
    done = site.run(
        "-W",
        "always",
        "-c",
        f"{PROBLEM}\nfor _ in range(3): ours = ls.get_solver('cg', problem)\n"
        "print(ours.__module__, ls.get_solver('acme:cg', problem).__module__)\n"
        "print(good(ls.solve(problem, 'cg')), good(ls.solve(problem, 'acme:cg')))",
    )
    assert done.stdout.split() == [
        "linspec_lstsq.conjugate_gradients",
        "acme.two_point",
        "True",
        "True",
    ], done.stderr
    assert done.stderr.count("PluginWarning") == 1
    assert "'acme:cg'" in done.stderr


def test_a_solver_whose_own_import_fails_says_who_to_ask(site: Site) -> None:
    """The table is sound, what it points to is not: the others stay, and so does the cause."""
    site.install_copy("acme", "two-point")
    (site.folder / "acme" / "two_point.py").write_text("import a_library_that_is_not_there\n")
    said, works, listed = site.ask(
        "[message(ls.solve, problem, 'two-point'), good(ls.solve(problem, 'cg')), ls.solvers(problem)]"
    )
    assert said.startswith("BrokenPlugin: least-squares/two-point, registered by acme:solvers")
    assert "a_library_that_is_not_there" in said
    assert "Update acme, or tell its authors" in said
    assert works
    assert "two-point" in listed
