# SPDX-License-Identifier: Apache-2.0
"""Shell commands and scripts: `!cmd`, `x = !cmd`, `%%bash` and the like.

A command writes to fds 1 and 2 of the kernel, so its output appears at once and in order. If user
code has redirected sys.stdout, the output goes there through a pipe. An interrupt ends the command
and the processes of its process group.
"""

from __future__ import annotations

import functools
import importlib
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from IPython.utils.text import LSString, SList

from . import installs

# The time between SIGINT and SIGKILL for an interrupted command.
KILL_AFTER_MS = 500
READ_SIZE = 1 << 16


def system(shell: Any, command: str) -> None:
    code = installs.take_over(command)
    if code is None:
        shell.rules.approve("shell", command)
        code = _run(shell, _shell_argv(command), subprocess.DEVNULL)
        if code != 0:
            installs.explain_failure(command)
    # As in IPython: -N for a command that was killed by signal N.
    shell.user_ns["_exit_code"] = -(code - 128) if code > 128 else code
    if code != 0 and getattr(shell, "system_raise_on_error", False):
        raise subprocess.CalledProcessError(code, command)


def getoutput(shell: Any, command: str, split: bool) -> Any:
    shell.rules.approve("shell", command)
    pieces: list[bytes] = []
    streams: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }
    code = _attend(shell, _shell_argv(command), streams, {"stdout": pieces.append})
    if getattr(shell, "system_raise_on_error", False):
        shell.user_ns["_exit_code"] = code
        if code != 0:
            raise subprocess.CalledProcessError(code, command)
    text = b"".join(pieces).decode("utf-8", "replace").replace("\r\n", "\n")
    return SList(text.splitlines()) if split else LSString(text)


def run_script(shell: Any, argv: list[str], script: str, raise_error: bool) -> None:
    """Runs a program with the script as stdin: a file in memory, because a pipe could fill up."""
    if not script.endswith("\n"):
        script += "\n"
    stdin = os.memfd_create("cell")
    try:
        with open(stdin, "wb", closefd=False) as file:
            file.write(script.encode("utf-8", "replace"))
        os.lseek(stdin, 0, os.SEEK_SET)
        try:
            code = _run(shell, argv, stdin)
        except FileNotFoundError:
            print(f"Couldn't find program: {argv[0]!r}")
            return
    finally:
        os.close(stdin)
    if raise_error and code != 0:
        raise subprocess.CalledProcessError(code, script)


def take_over_script_magics() -> None:
    """Runs `%%script` and similar magics without IPython's thread, except in the background."""
    from IPython.core.magics.script import ScriptMagics
    from IPython.utils.process import arg_split

    original = ScriptMagics.shebang

    @functools.wraps(original)
    def shebang(self: Any, line: str, cell: str) -> Any:
        args, argv = original.parser.parse_known_args(arg_split(line, posix=True))
        # For plain bash or sh, the approval shows the script only; otherwise also the program.
        if argv:
            program = None if argv in (["bash"], ["sh"]) else " ".join(argv)
            self.shell.rules.approve("shell_magic", cell, program)
        if args.bg or args.out or args.err or args.proc or not argv:
            return original(self, line, cell)
        return run_script(self.shell, argv, cell, getattr(args, "raise_error", True))

    ScriptMagics.shebang = shebang


def _shell_argv(command: str) -> list[str]:
    return [shutil.which("bash") or "/bin/sh", "-c", command]


def _run(shell: Any, argv: list[str], stdin: int) -> int:
    """Runs a command whose output goes where ours goes. Returns the exit status as a shell does."""
    output = shell.output
    output.flush()
    streams: dict[str, Any] = {"stdin": stdin}
    takers: dict[str, Callable[[bytes], Any]] = {}
    for name in ("stdout", "stderr"):
        target = getattr(sys, name)
        if target is not getattr(output, name):
            streams[name] = subprocess.PIPE
            takers[name] = functools.partial(_write_decoded, target)
    code = _attend(shell, argv, streams, takers)
    return 128 - code if code < 0 else code


def _write_decoded(target: Any, data: bytes) -> None:
    target.write(data.decode("utf-8", "replace"))


def _attend(
    shell: Any,
    argv: list[str],
    streams: dict[str, Any],
    takers: dict[str, Callable[[bytes], Any]],
) -> int:
    """Runs a command and passes on its output from pipes. An interrupt ends it."""
    group: dict[str, Any] = {"start_new_session": True}
    if sys.version_info >= (3, 11):
        group = {"process_group": 0}
    process = None
    try:
        with shell.interrupts.deferred(), shell.rules.escape():
            process = subprocess.Popen(argv, **streams, **group)
        _read_all({getattr(process, name): take for name, take in takers.items()})
        return process.wait()
    except BaseException:
        if process is not None:
            _end(process)
        raise
    finally:
        for name in takers:
            pipe = getattr(process, name, None)
            if pipe is not None:
                pipe.close()
        # The command may have installed a package.
        importlib.invalidate_caches()


def _read_all(readers: dict[Any, Callable[[bytes], Any]]) -> None:
    if not readers:
        return
    # Not epoll, whose watches other programs of the user may have taken.
    with selectors.PollSelector() as selector:
        for pipe, take in readers.items():
            selector.register(pipe, selectors.EVENT_READ, take)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, READ_SIZE)
                if data:
                    key.data(data)
                else:
                    selector.unregister(key.fileobj)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    _signal_group(process, signal.SIGINT)
    try:
        pidfd = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll(KILL_AFTER_MS)
        finally:
            os.close(pidfd)
    except (OSError, KeyboardInterrupt):
        pass  # a second interrupt: kill it now
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except OSError:
        pass
