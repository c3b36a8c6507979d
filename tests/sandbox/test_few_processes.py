# SPDX-License-Identifier: Apache-2.0
"""Commands with a limit on processes and threads (ulimit -u) that is raised step by step.

Each works, or ends with an error that names the limit. Nothing hangs, aborts or remains, which the
fixture `place` checks.
"""

from __future__ import annotations

import os

import harness
import pytest
from box import Box
from kernels import Kernels
from mcp_driver import try_cell

# With this number everything works: the program, the forkserver with the threads of its imports,
# the kernel and its own threads, and what makes a sandbox.
ENOUGH = 24
# The limit counts all processes of a user. So each test runs as a user of its own, which only root
# can arrange.
FIRST_ID = 300_000
pytestmark = pytest.mark.needs_root


@pytest.fixture
def lonely(place: harness.Place) -> Kernels:
    """Runs as a user of its own."""
    return Kernels(Box(place, ordinary_id=FIRST_ID + os.getpid()), "user")


def limited(kernels: Kernels, n: int, verb: str, *args: str) -> list[str]:
    line = kernels.command(verb, *args)
    at = line.index(kernels.box.program("user"))
    return [*line[:at], "prlimit", f"--nproc={n}:{n}", *line[at:]]


def says_why(text: str) -> bool:
    """The message is ours, or that of Python or the C library for what a cell or an import does."""
    words = ["ulimit -u", "Resource temporarily unavailable", "can't start new thread"]
    words.append("the kernel was killed by SIGKILL")  # its sandbox lost a process of its own
    return any(part in text for part in words)


@pytest.mark.parametrize("options", [["--no-sandbox"], []], ids=["kernel", "sandbox"])
def test_run(lonely: Kernels, options: list[str]) -> None:
    works = False
    for n in range(1, ENOUGH + 1):
        done = harness.run(
            limited(lonely, n, "run", *options, "-c", "print(6 * 7)"),
            lonely.place,
            env=lonely.environ,
        )
        works = done.returncode == 0
        if works:
            assert done.stdout == "42\n"
        else:
            assert done.returncode == 1 and says_why(done.stderr), (n, done)
        if works and n > 12:
            break
    assert works


def test_mcp_server(lonely: Kernels) -> None:
    place = harness.Place(**{**vars(lonely.place), "environ": lonely.environ})
    works = False
    for n in range(1, ENOUGH + 1):
        text, said, status = try_cell(limited(lonely, n, "mcp"), place)
        works = text == "42"
        if works:
            assert status == 0
            break
        assert status in (0, 1) and says_why(text + said), (n, status, text, said)
    assert works
