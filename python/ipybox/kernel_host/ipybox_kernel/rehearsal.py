# SPDX-License-Identifier: Apache-2.0
"""Runs cells in a shell that has no client yet, and forgets them.

In the forkserver they load and compile what cells need. A kernel runs one again while it waits for
its client: Python writes to the pages that it uses, and until then they are shared with the
forkserver. Most of them are the same for each cell. What the other cells use, and few cells of
users, stays shared.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

from . import cells, event_loop, wire

CELLS = (
    "1",
    "'a'",
    "[1, 2]",
    "x = 1\nprint(x, end='')",
    "def f():\n    return 1 / 0\nf()",
    "import warnings\n1 +",
)
ASYNC_CELL = "import asyncio\nawait asyncio.sleep(0)"


def run(shell: Any, is_whole: bool) -> None:
    """All cells, or the one that a waiting kernel runs."""
    shell.output, shell.interrupts = _NoOutput(), _NoInterrupts()
    for code in CELLS if is_whole else CELLS[:1]:
        _run_cell(shell, code)
    if is_whole:
        _run_async_cell(shell)
    shell.forget()


def _run_cell(shell: Any, code: str) -> None:
    shell.begin_cell()
    transformed = shell.transform_cell(code)
    shell.should_run_async(code, transformed_cell=transformed)
    coroutine = shell.run_cell_async(code, store_history=True, transformed_cell=transformed)
    with contextlib.redirect_stdout(io.StringIO()):
        result = cells.drive(coroutine)
    shell.trigger_post_events(result, silent=False)


def _run_async_cell(shell: Any) -> None:
    loop = event_loop.new_event_loop()
    try:
        coroutine = shell.run_cell_async(
            ASYNC_CELL, store_history=True, transformed_cell=shell.transform_cell(ASYNC_CELL)
        )
        loop.run_until_complete(coroutine)
    finally:
        loop.close()


class _NoOutput:
    """Replaces the kernel's output during the warm-up."""

    is_connected = True
    cell = 0

    def is_late(self) -> bool:
        return False

    def send(self, kind: int, payload: dict[str, Any], with_next: bool = False) -> None:
        wire.encode_payload(payload)

    send_of_caller = send


class _NoInterrupts:
    was_requested = False

    def ignored(self) -> Any:
        return contextlib.nullcontext()

    deferred = ignored

    def allow_repetition(self) -> None:
        pass
