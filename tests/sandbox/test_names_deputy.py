# SPDX-License-Identifier: Apache-2.0
"""Attack suite I, the supervisor as a deputy: it performs calls outside, with the user's rights.

Each test is a way in which it once did more for code inside than code inside may do.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from box import Box, make_settings
from names_hand import give, hand, make

CONNECT = """
import os, socket
socket.socket(socket.AF_UNIX).connect("named.sock")
try: print(len(open("secret").read()) and "read")
except OSError as error: print(os.strerror(error.errno))
"""


@pytest.mark.needs_root
def test_rights_after_a_socket_that_the_plan_names(box: Box) -> None:
    """Root's sandbox connects to such a socket with root's rights, and gives them up again."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        # Not in the workspace, whose files belong to the sandbox.
        hidden = Path(other) / "secret"
        hidden.write_text("root's")
        hidden.chmod(0o600)
        Path(other).chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(box.place.workspace / "named.sock"))
            listener.listen()
            settings = make_settings(denyRead=[".env"], allowUnixSockets=["named.sock"])
            script = CONNECT.replace('"secret"', repr(str(hidden)))
            done = box(["/usr/bin/python3", "-I", "-c", script], settings)
            assert done.stdout == "Permission denied\n", done.stderr
            # Positive control: root itself can read it.
            done = box(["/usr/bin/python3", "-I", "-c", script], sandbox=False)
            assert done.stdout == "read\n", done.stderr
        (box.place.workspace / "named.sock").unlink()


TRUNCATE = """
import os
try: os.truncate("/proc/self/fd/0", 0); print("ok")
except OSError as error: print(os.strerror(error.errno))
"""


def test_a_file_that_is_handed_in_is_not_emptied(box: Box, user: str) -> None:
    """The file is in the host's /tmp, which has the name of the sandbox's own /tmp."""
    box.prepare(user)
    with tempfile.NamedTemporaryFile("w+", dir="/tmp") as file:
        Path(file.name).chmod(0o666)
        file.write("contents")
        file.flush()
        for prefix, expected, left in (
            (
                box.command(["/usr/bin/python3", "-I", "-c", TRUNCATE], user=user),
                "Perm",
                "contents",
            ),
            ([*box.become(user), "/usr/bin/python3", "-I", "-c", TRUNCATE], "ok", ""),
        ):
            line = ["/bin/bash", "-c", f'exec 0<{file.name}; exec "$@"', "-", *prefix]
            done = box.run(line, timeout=60)
            assert done.stdout.startswith(expected), done.stderr
            assert Path(file.name).read_text() == left


@pytest.mark.parametrize("how", ["rename", "symlink"])
def test_a_directory_that_is_put_above_a_denied_path(box: Box, user: str, how: str) -> None:
    for deny_write, expected in ((["q/lit"], "EBUSY"), ([], "ok")):
        with hand(box, make_settings(denyWrite=deny_write), user=user) as inside:
            assert inside("mkdir", "made") == "ok"
            assert inside("create", "made/lit") == "ok"
            assert inside(how, "made", "q") == expected
            assert (box.place.workspace / "q/lit").exists() == (expected == "ok")
            for name in ("q/lit", "made/lit"):
                (box.place.workspace / name).unlink(missing_ok=True)
            for name in ("q", "made"):
                found = box.place.workspace / name
                found.unlink() if found.is_symlink() else found.is_dir() and found.rmdir()


# Two programs in two sandboxes of one workspace. The first wants a name for whatever is there; the
# second exchanges what is there.
FIRST = """
import os, sys, time
end = time.monotonic() + 2
while time.monotonic() < end and not os.path.isdir(sys.argv[1]):
    try: os.rename("x", sys.argv[1])
    except OSError: pass
    else:
        if not os.path.isdir(sys.argv[1]):
            os.rename(sys.argv[1], "x")
"""
SECOND = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
end = time.monotonic() + 2
while time.monotonic() < end and not os.path.isdir(sys.argv[1]):
    libc.renameat2(-100, b"x", -100, b"d", 2)
"""


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_two_sandboxes_and_a_directory_in_place_of_a_file(
    box: Box, user: str, is_sandboxed: bool
) -> None:
    box.prepare(user)
    make(box, box.place.workspace / "d/settings.json", user)
    make(box, box.place.workspace / "x", user)
    lines = [["/usr/bin/python3", "-I", "-c", text, ".claude"] for text in (FIRST, SECOND)]
    processes = [
        subprocess.Popen(
            box.command(line, user=user) if is_sandboxed else [*box.become(user), *line],
            cwd=box.place.workspace,
            env=box.place.environ,
            stderr=subprocess.DEVNULL,
        )
        for line in lines
    ]
    for process in processes:
        process.wait(60)
    give(box, box.place.workspace, user)
    assert (box.place.workspace / ".claude").is_dir() != is_sandboxed
