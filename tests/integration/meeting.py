# SPDX-License-Identifier: Apache-2.0
"""Points where a test and a cell wait for each other, so that neither sleeps.

    begun = Meeting(workspace / "begun")
    cell = server.start_tool("execute_ipython_cell", {"code": f"{begun.code}\nwork()"})
    begun.wait()  # the cell is about to work

A meeting is a named pipe: opening one end returns when the other end is opened.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

CONDITION_SECONDS = 60.0

DIE = "os.kill(os.getpid(), 9)"


class Meeting:
    """Works any number of times. `code` is the cell's side: a line of Python."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.code = f"open({str(path)!r}).close()"
        if not path.exists():
            os.mkfifo(path)

    def wait(self) -> None:
        """The test's side: returns when the cell is there."""
        open(self.path, "w").close()


def run_while_idle(meeting: Meeting, code: str) -> str:
    """A cell that prints its process id. A thread runs a line of code after the meeting."""
    return (
        "import os, threading\n"
        f"def late():\n    {meeting.code}\n    {code}\n"
        "threading.Thread(target=late).start()\nprint(os.getpid())"
    )


def wait_until_reaped(pid: int | str) -> None:
    """Until a process of another parent has ended and was reaped, of which there is no event."""
    deadline = time.monotonic() + CONDITION_SECONDS
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"{pid} was not reaped"
        time.sleep(0.01)


async def until(condition: Callable[[], object]) -> None:
    """Until a condition is true of which there is no event either."""
    deadline = time.monotonic() + CONDITION_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        await asyncio.sleep(0.01)
