"""A notebook, by a real kernel: progress, answers, and an interrupt that leaves an answer."""

from __future__ import annotations

import os
from pathlib import Path

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


@pytest.fixture(scope="module")
def cell():
    """A function that runs a cell and returns its messages; an interrupt is sent when a text is printed."""
    manager = client.KernelManager(kernel_name="python3")
    paths = [str(ROOT), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")]
    manager.start_kernel(env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    kernel = manager.client()
    kernel.start_channels()
    kernel.wait_for_ready(timeout=PATIENCE)

    def run(code, interrupt_at=None):
        sent, shown = kernel.execute(code), []
        while True:
            message = kernel.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            if content.get("execution_state") == "idle":
                return shown
            shown.append({"type": message["msg_type"], **content})
            if interrupt_at and interrupt_at in content.get("text", ""):
                manager.interrupt_kernel()
                interrupt_at = None

    assert said(run(SETUP)) == ""
    yield run
    kernel.stop_channels()
    manager.shutdown_kernel(now=True)


def said(messages):
    """The output of a cell, and its error."""
    return "".join(each.get("text", "") + each.get("ename", "") for each in messages)


def test_progress_and_an_answer_are_lines(cell):
    shown = cell("found = ls.solve(ls.CCA(X, Y, k=3), 'naive-gradient', max_passes=9, progress=True)")
    assert {(each["type"], each.get("name")) for each in shown if "text" in each} <= {("stream", "stderr")}
    shown = cell("ls.solve(ls.SVD(X, k=3))")
    (data,) = (each["data"] for each in shown if each["type"] == "execute_result")
    assert data["text/plain"].startswith("<SVDSolution")
    assert "CONVERGED" in data["text/plain"]


@pytest.mark.parametrize("before", ["", "await asyncio.sleep(0)\n"], ids=["plain", "await"])
@pytest.mark.parametrize("more", ["", "progress=True"])
def test_an_interrupt_leaves_the_best_answer_so_far_and_the_next_cell_starts_afresh(cell, before, more):
    cell("s = None")
    for _ in range(2):
        assert "KeyboardInterrupt" not in said(cell(f"{before}s = long({more})", interrupt_at="at 3"))
        assert said(cell("print(s.status.name, s.x_weights.shape); s = None")) == "INTERRUPTED (60, 3)\n"
