# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of its own, within the walls of a session.

The SDK runs this as a command beside a kernel (`ipybox.integrations.terminals`), with the kernel's
Python and only the standard library.

    python -I -S -c SOURCE DIRECTORY COMMAND [ARGUMENT…]

In the directory are a pipe `in`, whose bytes are typed, and a file `out`, to which output is
appended. The exit status is that of the command, or 128 and the number of the signal.
"""

import os
import pty
import select
import sys

CHUNK = 65536
NOT_FOUND = 127
SIGNAL_BASE = 128


def start(argv):
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(NOT_FOUND)
    return pid, terminal


def copy(source, target):
    """Copies what is there. False: there is no more."""
    try:
        data = os.read(source, CHUNK)
    except OSError:  # the last one that had the terminal open has closed it
        return False
    while data:
        data = data[os.write(target, data) :]
    return True


def run(directory, argv):
    out = os.open(os.path.join(directory, "out"), os.O_WRONLY | os.O_APPEND)
    # Also for writing, so that it never ends.
    typed = os.open(os.path.join(directory, "in"), os.O_RDWR)
    pid, terminal = start(argv)
    ended = os.pidfd_open(pid)
    sources = [terminal, typed, ended]
    while True:
        ready = select.select(sources, [], [])[0]
        if typed in ready:
            copy(typed, terminal)
        if terminal in ready and not copy(terminal, out):
            sources = [ended]
        elif ended in ready and terminal not in ready:
            break
    os.unlink(os.path.join(directory, "in"))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else SIGNAL_BASE - status


sys.exit(run(sys.argv[1], sys.argv[2:]))
