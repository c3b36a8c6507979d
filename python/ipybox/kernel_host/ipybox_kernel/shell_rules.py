# SPDX-License-Identifier: Apache-2.0
"""The session's rules for shell commands: `approve_shell_cmds` asks before each, `require_shell_escape` refuses other ways.

These are hooks in the process that runs the user's code, so they hold for code that does not mean to get around them: no wall.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Audit events by which a program gets to run. What starts processes of Python itself (os.fork, multiprocessing) is not among them.
PROGRAM_EVENTS = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn")
)
REFUSED = (
    "{}: refused, for this session has the rule require_shell_escape: programs are run by shell escapes only,"
    " that is !command, name = !command, %sx, %%bash or %%sh"
)


class ShellRules:
    def __init__(self, approves: bool, requires_escape: bool) -> None:
        self._approves = approves
        self._local = threading.local()
        if requires_escape:
            sys.addaudithook(self._on_audit)
            self._guard_spawn()

    def approve(self, tool: str, command: str, program: str | None = None) -> None:
        """Returns if the command may run. Raises what the stub's ToolRunner raises: ApprovalRejectedError, …"""
        if not self._approves:
            return
        from ipybox.tool_exec.client import ToolRunner  # the stub package

        arguments = {"cmd": command} if program is None else {"cmd": command, "program": program}
        ToolRunner("ipybox", server_id="ipybox").run_sync(tool, arguments)

    @contextmanager
    def escape(self) -> Iterator[None]:
        """While a shell escape starts its program, in the thread that does so."""
        before = getattr(self._local, "is_escape", False)
        self._local.is_escape = True
        try:
            yield
        finally:
            self._local.is_escape = before

    def _on_audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in PROGRAM_EVENTS:
            self._check(event)

    def _check(self, what: str) -> None:
        if not getattr(self._local, "is_escape", False):
            raise PermissionError(REFUSED.format(what))

    def _guard_spawn(self) -> None:
        """os.spawn* fork before there is an audit event, and would tell no more than status 127."""
        original = getattr(os, "_spawnvef", None)
        if original is None:
            return

        def spawn(*args: Any) -> int:
            self._check("os.spawn")
            result: int = original(*args)
            return result

        os._spawnvef = spawn  # type: ignore[attr-defined]
