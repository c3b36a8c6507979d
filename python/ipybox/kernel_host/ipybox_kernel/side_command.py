# SPDX-License-Identifier: Apache-2.0
"""Turns a forked child into a command that runs beside a kernel.

The child is within the walls of the kernel already. It gets over its wire what to execute, and
reports there why that failed. `src/kernel/side-command.c` describes the messages.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import NoReturn

from . import linux, process
from .interrupts import REPETITION

NOT_EXECUTED = 127
# Python and the forkserver ignore these. A program expects the default.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)


def execute(parent: int | None, open_files: int, wire: int, stdout: int, stderr: int) -> NoReturn:
    """Executes the command. If that fails, reports it and raises the error.

    Args:
        parent: As in `process.become_kernel`.
        open_files: Likewise.
        wire: A socket to the core, from which the command is read.
        stdout: A pipe to the core.
        stderr: Likewise.
    """
    os.setsid()
    process.limit(parent, open_files)
    # So the core finds all that the command starts, as long as the command runs.
    linux.become_subreaper()
    step = "other"
    with socket.socket(fileno=wire) as link:
        try:
            stdin, message = _receive(link)
            texts = message.split(b"\0")
            n = int(texts[1])
            argv, entries = texts[2 : 2 + n], texts[2 + n : -1]
            step = "cwd"
            os.chdir(texts[0])
            step = "exec"
            _connect((stdin, stdout, stderr), link)
            _exec(argv, dict(entry.split(b"=", 1) for entry in entries))
        except OSError as error:
            link.sendall(f"{step} {error.errno}".encode())
            raise
        except BaseException:
            link.sendall(b"other 0")
            raise


def _receive(link: socket.socket) -> tuple[int, bytes]:
    """The read end for stdin, and the message."""
    start, fds, _, _ = socket.recv_fds(link, 4, 1, socket.MSG_WAITALL)
    if len(start) != 4 or len(fds) != 1:
        raise ValueError("no command came")
    size = int.from_bytes(start, "little")
    message = bytearray()
    while len(message) < size:
        piece = link.recv(size - len(message))
        if not piece:
            raise ValueError("the command is incomplete")
        message += piece
    return fds[0], bytes(message)


def _connect(streams: tuple[int, int, int], link: socket.socket) -> None:
    """Makes these the standard streams, and closes what else is open, but not the wire."""
    wire = link.fileno()
    # Numbers above 2 first: a stream may have a number that another one is to get.
    safe = [process.duplicate(fd, wire + 1) for fd in streams]
    for number, fd in enumerate(safe):
        os.dup2(fd, number)
    os.set_inheritable(wire, False)
    os.closerange(3, wire)
    os.closerange(wire + 1, process.highest_fd())


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> NoReturn:
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(REPETITION, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(argv[0], argv, env)
