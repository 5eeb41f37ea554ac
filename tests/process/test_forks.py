"""A forked child finds no lock held by a thread that it does not have."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

CHILD = """
import os, signal, threading

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(100)  # ends a child that hangs
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

reached, go_on = threading.Event(), threading.Event()
"""

LEDGER = """
import numpy as np
from linspec import as_operator
from linspec.operators import Ledger

class Slow(float):
    def __radd__(self, other):
        reached.set()
        go_on.wait()
        return 7.0 + other

A, busy, other = as_operator(np.eye(3)), Ledger(), Ledger()
thread = threading.Thread(target=lambda: busy.record(A, 0, flops=Slow(7)))
thread.start()
reached.wait()
os.register_at_fork(before=go_on.set)  # runs before the hooks of linspec, which wait for the lock: the last is first
def work():
    for ledger in (busy, other):
        ledger.record(A, 1, flops=1.0)
    return (busy.flops, other.flops, other.columns) == (8.0, 1.0, 1.0)
print(in_child(work))
thread.join()
print(busy.flops, other.flops)
"""


def test_a_child_that_is_forked_while_a_thread_has_a_lock() -> None:
    command = [sys.executable, "-c", textwrap.dedent(CHILD + LEDGER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("0\n7.0 0.0\n", 0), done.stderr
