# SPDX-License-Identifier: Apache-2.0
"""MCP servers over HTTP as processes of a test: started, waited for until they listen, ended."""

from __future__ import annotations

import contextlib
import random
import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

START_SECONDS = 60.0


# Where the system takes the ports from that nobody chose.
EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that is free now, for servers that must be told one. Until they listen, nobody else is given it: not the system's
    own choice (unless that has them all), nor a choice of many."""
    first, last = map(int, EPHEMERAL_PORTS.read_text().split())
    ports = [port for port in range(10_000, 65_536) if not first <= port <= last] or range(
        10_000, 65_536
    )
    while True:
        port = random.SystemRandom().choice(ports)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_for_line(process: subprocess.Popen[bytes], pattern: str) -> re.Match[str]:
    """The first line of its output that matches; the process must not end before."""
    seen = b""
    deadline = time.monotonic() + START_SECONDS
    while True:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([process.stdout], [], [], left)[0]:
            raise TimeoutError(
                f"the server does not listen after {START_SECONDS} s; it said: {seen!r}"
            )
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended, and said: {seen.decode(errors='replace')}")
        seen += line
        if found := re.search(pattern, line.decode(errors="replace")):
            return found


def drain(process: subprocess.Popen[bytes]) -> None:
    while process.stdout.read(65536):
        pass


@contextlib.contextmanager
def running(command: list[str], environ: dict[str, str], pattern: str) -> Iterator[re.Match[str]]:
    """Gives the match of the line by which it says that it listens. Both its outputs are read, to its end."""
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )
    reader = threading.Thread(target=drain, args=(process,))
    try:
        found = wait_for_line(process, pattern)
        reader.start()
        yield found
    finally:
        process.kill()
        process.wait()
        if reader.ident is not None:
            reader.join()
        process.stdout.close()
