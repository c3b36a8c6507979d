# SPDX-License-Identifier: Apache-2.0
"""Processes that user code starts: forks, programs, and those of multiprocessing.

The kernel's buffered text is written before such a process starts. So it comes before the output of
the process, and a fork does not write it a second time.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from . import linux
from .imports import when_imported

if TYPE_CHECKING:
    from .output import Output

# Audit events of calls that start a program without the hooks of os.fork.
STARTS_PROGRAM = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn")
)


def watch(output: Output) -> None:
    def before_fork() -> None:
        if output.is_connected:
            output.flusher.stop()
            output.flusher_is_armed = False
            output.pipes.are_shared = output.pipes.are_shared or not output.is_branching
        output.flush()
        linux.flush_c_stdout()

    def on_audit_event(event: str, _: Any) -> None:
        if event in STARTS_PROGRAM:
            output.pipes.are_shared = True
            output.flush()

    os.register_at_fork(before=before_fork, after_in_child=output.become_child)
    sys.addaudithook(on_audit_event)


def make_multiprocessing_fork() -> None:
    """Sets the default of multiprocessing to fork, as before Python 3.14.

    A process that is started in another way imports the function that it calls, and functions of
    cells are not in a file. User code may set another method.
    """

    def choose(context: Any) -> None:
        default = context._default_context
        default._default_context = default.get_context("fork")

    when_imported("multiprocessing.context", choose)


def exit_child(output: Output, error: BaseException | None) -> None:
    """Ends a forked process that has reached the end of its cell. Does not return."""
    if isinstance(error, SystemExit) and not isinstance(error.code, (int, type(None))):
        print(error.code, file=sys.stderr)
    output.flush()
    linux.flush_c_stdout()
    code = 0 if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    os._exit(code & 0xFF)
