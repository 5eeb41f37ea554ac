"""A notebook, by a real kernel: progress, answers, and an interrupt that leaves an answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel")
client = pytest.importorskip("jupyter_client")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0

SETUP = """
import asyncio
import numpy as np
import linspec as ls
X, Y = (np.random.default_rng(seed).standard_normal((4000, 60)) for seed in (0, 1))
def say(progress):
    if progress.iteration == 3:
        print("at 3", flush=True)
def long(**more):  # is not done before it is interrupted
    return ls.solve(ls.CCA(X, Y, k=3), "naive-gradient", tol=1e-300, max_iterations=10**9, rng=0, callback=say, **more)
"""


class Notebook:
    """A kernel, and what its cells show."""

    def __init__(self) -> None:
        paths = [str(ROOT), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self.manager = client.KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def run(self, code: str, *, interrupt_at: str = "") -> list[dict[str, Any]]:
        """The messages of a cell, each with its type; an interrupt is sent when a text is printed."""
        sent = self.client.execute(code)
        shown: list[dict[str, Any]] = []
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return shown
            shown.append({"type": message["msg_type"], **content})
            if interrupt_at and interrupt_at in content.get("text", ""):
                self.manager.interrupt_kernel()
                interrupt_at = ""

    def says(self, code: str, **more: Any) -> str:
        """Return the output of a cell, and its error."""
        return "".join(each.get("text", "") + each.get("ename", "") for each in self.run(code, **more))

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook():
    opened = Notebook()
    try:
        assert opened.says(SETUP) == ""
        yield opened
    finally:
        opened.close()


def test_progress_is_a_line(notebook):
    shown = notebook.run("found = ls.solve(ls.CCA(X, Y, k=3), 'naive-gradient', max_passes=9, progress=True)")
    assert {(each["type"], each.get("name")) for each in shown if "text" in each} <= {("stream", "stderr")}


def test_an_answer_is_shown_as_a_line(notebook):
    shown = notebook.run("ls.solve(ls.SVD(X, k=3))")
    data = next(each for each in shown if each["type"] == "execute_result")["data"]
    assert "CONVERGED" in data["text/plain"]
    assert data["text/plain"].startswith("<SVDSolution")


@pytest.mark.parametrize("before", ["", "await asyncio.sleep(0)\n"], ids=["plain", "await"])
@pytest.mark.parametrize("more", ["", "progress=True"])
def test_an_interrupt_leaves_the_best_answer_so_far(notebook, before, more):
    notebook.run("s = None")
    assert "KeyboardInterrupt" not in notebook.says(f"{before}s = long({more})", interrupt_at="at 3")
    assert notebook.says("print(s.status.name, s.x_weights.shape)") == "INTERRUPTED (60, 3)\n"


def test_the_next_cell_starts_afresh(notebook):
    notebook.says("one = long()", interrupt_at="at 3")
    notebook.says("two = long()", interrupt_at="at 3")
    assert notebook.says("print(one.status.name, two.status.name)") == "INTERRUPTED INTERRUPTED\n"
