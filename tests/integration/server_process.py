# SPDX-License-Identifier: Apache-2.0
"""Servers as processes of a test: started, waited for until they listen, ended."""

from __future__ import annotations

import contextlib
import random
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import harness

START_SECONDS = 60.0


# The range from which the system takes ports for sockets without a chosen one.
EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that is free now, for servers that cannot choose one themselves.

    It is outside of the range that the system chooses from, if there are such ports, and random, so
    that no other process takes it before the server listens.
    """
    first, last = map(int, EPHEMERAL_PORTS.read_text().split())
    ports = [port for port in range(10_000, 65_536) if not first <= port <= last] or range(
        10_000, 65_536
    )
    while True:
        port = random.SystemRandom().choice(ports)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_for_line(process: subprocess.Popen[bytes], pattern: str) -> re.Match[str]:
    """The match of the first line of output that matches. The process must not end before it."""
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
def running(
    command: list[str],
    environ: dict[str, str],
    pattern: str,
    cwd: Path | None = None,
    end: int = signal.SIGKILL,
    patience_s: float | None = None,
) -> Iterator[re.Match[str]]:
    """Yields the match of the line that says that the server listens.

    Its stdout and stderr are read until it ends, by the signal `end`. If a program that is not ours
    has not ended after `patience_s`, it is killed.
    """
    process = subprocess.Popen(
        command,
        cwd=cwd,
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
        process.send_signal(end)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if reader.ident is not None:
            reader.join()
        process.stdout.close()


@contextlib.contextmanager
def jupyter_server(
    directory: Path, environ: dict[str, str], token: str, *arguments: str
) -> Iterator[int]:
    """Yields the port of a Jupyter server."""
    port = free_port()
    command = [str(jupyter_python()), "-m", "jupyter_server", "--allow-root", "--no-browser"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    command += [f"--ServerApp.root_dir={directory}", *arguments]
    # Terminated, the server ends its kernels. Sometimes it waits for one of them for ever. Kernels
    # of ipykernel end when their server was killed, too.
    with running(command, environ, "is running at", directory, signal.SIGTERM, patience_s=30):
        deadline = time.monotonic() + START_SECONDS
        while not is_listening(port):  # it says so before it listens
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.01)
        yield port


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def jupyter_python() -> Path:
    """A Python that has Jupyter."""
    return harness.existing(harness.CACHE / "jupyter/bin/python")
