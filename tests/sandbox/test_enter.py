# SPDX-License-Identifier: Apache-2.0
"""A kernel that does not get through the door of a sandbox: ipybox-enter.so, called as the
forkserver calls it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import harness
import pytest
from kernels import Kernels
from rpc_driver import RpcCore

ENTER = """
import ctypes, os, sys
from ipybox_kernel.sandbox import Entrance
SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
library, init, plan, channel = sys.argv[1:]
init_pidfd = os.pidfd_open(int(init))
try:
    pid = Entrance(library).fork(init_pidfd, int(plan), int(channel))
except OSError as error:
    print(type(error).__name__, error, flush=True)
    # Neither a process nor a zombie is left.
    os.waitpid(-1, 0)
"""


def find_plan(core: int) -> int:
    """Opens the plan of the only sandbox of a core."""
    for link in Path(f"/proc/{core}/fd").iterdir():
        if os.readlink(link).startswith("/memfd:ipybox-plan"):
            return os.open(link, os.O_RDONLY)
    raise AssertionError("the core has no plan")


def find_init() -> int:
    """The process 1 of the only sandbox below this process."""
    found = []
    for pid in harness.descendants():
        with contextlib.suppress(FileNotFoundError):
            text = Path(f"/proc/{pid}/status").read_text()
            (ids,) = (line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:"))
            found += [pid] if len(ids) > 1 and ids[-1] == "1" else []
    (init,) = found
    return init


@pytest.mark.parametrize("user", ["root"], indirect=True)
def test_a_kernel_that_does_not_answer(core: RpcCore, kernels: Kernels) -> None:
    """The wait for it ends, and it is killed. It is stopped here since the socket that takes the
    listener of seccomp is full; before Linux 6.12 code in the sandbox could stop it by a signal."""
    session = core.open(sandbox=True, python=str(kernels.python))
    core.call("session.start", session=session)
    plan = find_plan(core.process.pid)
    full, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    full.setblocking(False)
    try:
        while True:
            full.send(b"x" * 1024)
    except BlockingIOError:
        full.setblocking(True)
    library = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox"))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            ENTER,
            str(library.with_name("ipybox-enter.so")),
            str(find_init()),
            str(plan),
            str(full.fileno()),
        ],
        env={**os.environ, "PYTHONPATH": str(harness.ROOT / "python/ipybox/kernel_host")},
        pass_fds=[plan, full.fileno()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    os.close(plan)
    full.close()
    other.close()
    assert "the kernel did not give up its rights in time" in done.stdout, done.stderr
    assert done.stdout.startswith("TimeoutError ")
    assert "ChildProcessError" in done.stderr
