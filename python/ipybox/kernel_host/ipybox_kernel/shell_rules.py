# SPDX-License-Identifier: Apache-2.0
"""The session's rules for shell commands.

`approve_shell_cmds` asks before each command. `require_shell_escape` refuses other ways to start
programs.

The rules are hooks in the process that runs the user's code. They are not a security boundary: code
can bypass them on purpose.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Audit events of calls that run a program, and the name of the call. Calls that only fork Python
# (os.fork, multiprocessing) are not included.
PROGRAM_EVENTS = {
    "subprocess.Popen": "subprocess",
    "os.system": "os.system()",
    "os.exec": "os.exec*()",
    "os.posix_spawn": "os.posix_spawn*()",
    "os.spawn": "os.spawn*()",
    "pty.spawn": "pty.spawn()",
}
# Functions of os whose audit event does not have their name.
GUARDED_PREFIXES = ("exec", "spawn", "posix_spawn")
# The first sentence is that of ipybox 0.9, which agents may match.
REFUSED = (
    "Direct {} calls are not allowed. This session has the rule require_shell_escape: run programs"
    " by a shell escape, that is !command, name = !command, %sx, %%bash or %%sh."
)


class ShellRules:
    def __init__(self, approves: bool, requires_escape: bool) -> None:
        self._approves = approves
        self._local = threading.local()
        if requires_escape:
            sys.addaudithook(self._on_audit)
            self._guard_functions()

    def approve(self, tool: str, command: str, program: str | None = None) -> None:
        """Returns if the command may run; else raises as ToolRunner does."""
        if not self._approves:
            return
        from ipybox.tool_exec.client import ToolRunner  # the stub package

        arguments = {"cmd": command} if program is None else {"cmd": command, "program": program}
        ToolRunner("ipybox", server_id="ipybox").run_sync(tool, arguments)

    @contextmanager
    def escape(self) -> Iterator[None]:
        """Allows the calls of this thread while a shell escape starts its program."""
        before = getattr(self._local, "is_escape", False)
        self._local.is_escape = True
        try:
            yield
        finally:
            self._local.is_escape = before

    def _on_audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in PROGRAM_EVENTS:
            self._check(PROGRAM_EVENTS[event])

    def _check(self, what: str) -> None:
        if not getattr(self._local, "is_escape", False):
            raise PermissionError(REFUSED.format(what))

    def _guard_functions(self) -> None:
        """Guards the functions of os, too, so that errors name the function.

        All of os.exec* have one audit event. os.spawn* fork before it, so the error would only be
        status 127.
        """
        for name, function in vars(os).copy().items():
            if name.startswith(GUARDED_PREFIXES) and callable(function):
                setattr(os, name, self._guard(f"os.{name}()", function))
        spawn = os._spawnvef  # type: ignore[attr-defined]
        os._spawnvef = self._guard(PROGRAM_EVENTS["os.spawn"], spawn)  # type: ignore[attr-defined]

    def _guard(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._check(what)
            return function(*args, **kwargs)

        return guarded
