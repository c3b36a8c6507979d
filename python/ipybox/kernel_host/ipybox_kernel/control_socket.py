# SPDX-License-Identifier: Apache-2.0
"""The forkserver's control socket: each packet is a JSON object, and may have file descriptors."""

from __future__ import annotations

import array
import errno
import json
import os
import socket
import time
from typing import Any

MAX_PACKET = 65536
MAX_FDS = 8
# The maximum of one text in a packet, so that the packet stays below its limit.
MAX_TEXT = 2000
# How often, and how many times, a packet is sent again, see send().
IN_FLIGHT_PAUSE_S = 0.01
MAX_IN_FLIGHT_PAUSES = 200


class ControlSocket:
    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """Waits for the next packet; returns it with its descriptors, or None at the end."""
        data, ancillary, _, _ = self._socket.recvmsg(
            MAX_PACKET, socket.CMSG_SPACE(MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
        )
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        if not data:
            return None
        return json.loads(data), list(fds)

    def send(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        """Sends a packet.

        Linux limits the descriptors that an ordinary user has in flight, in the sockets of all
        programs. Most are received within milliseconds, but the system reports no event for it. So
        the packet is sent again after a pause, a limited number of times.
        """
        data = json.dumps(message).encode()
        for _ in range(MAX_IN_FLIGHT_PAUSES):
            try:
                socket.send_fds(self._socket, [data], fds or [])
                return
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    raise
            time.sleep(IN_FLIGHT_PAUSE_S)
        socket.send_fds(self._socket, [data], fds or [])

    def detach(self) -> None:
        """Forgets the descriptor without closing it."""
        self._socket.detach()


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + " …"
