# SPDX-License-Identifier: Apache-2.0
"""Forks a kernel into a sandbox: into namespaces that the core has created, with Landlock, seccomp
and limits.

One call in C does the work (src/sandbox/linux/init/enter.c). A child that shares our memory joins
the namespaces and forks the kernel. So only one fork copies memory, and our own state does not
change.
"""

from __future__ import annotations

import ctypes
import os

_MAX_ERROR = 256


class Entrance:
    def __init__(self, library: str) -> None:
        # Not CDLL: like os.fork(), the call must keep the GIL.
        self._enter = ctypes.PyDLL(library).ipb_enter_fork
        self._enter.argtypes = [
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_size_t,
        ]

    def fork(self, init_pidfd: int, plan: int, channel: int) -> int:
        """Like os.fork(). Raises OSError if the sandbox cannot be entered.

        @init_pidfd: the pidfd of the sandbox's pid 1. @plan: a sealed memory file with the
        restrictions. @channel: a socket to the core, for the notifications of seccomp.
        """
        error = ctypes.create_string_buffer(_MAX_ERROR)
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = self._enter(init_pidfd, plan, channel, error, _MAX_ERROR)
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            return 0
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        if pid < 0:
            raise OSError(
                -pid, f"the sandbox cannot be entered: {error.value.decode()}: {os.strerror(-pid)}"
            )
        return pid
