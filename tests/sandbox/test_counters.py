# SPDX-License-Identifier: Apache-2.0
"""Attack suite I, neighbours: one session takes all that it can get of what Linux counts for each
user or for the machine (probes/counters.py). Other sessions of the same user continue to work.

The tests have a user of their own, so that no other program can be starved.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from box import PROBES, Box, make_settings
from kernels import Kernels

pytestmark = pytest.mark.needs_root

COUNTERS_ID = 61235
MAX_EPOLL_WATCHES = Path("/proc/sys/fs/epoll/max_user_watches")
# Enough for all programs of any user, and taken within a second.
EPOLL_WATCHES = 200_000
# What most systems give programs: the soft limit is 1024.
FEW_FILES = ["prlimit", "--nofile=1024:"]
# More than a sandbox gets of anything.
MOST = 1_000_000

# In this order: without instances there are no watches of inotify, and without processes the others
# cannot be taken by several.
ALL = [
    "inotify watches",
    "inotify instances",
    "timers",
    "signals",
    "message queues",
    "locked memory",
    "aio",
    "keys",
    "terminals",
    "descriptors in flight",
    "pipes",
    "epoll watches",
    "processes",
]

SCRIPT = (PROBES / "counters.py").read_text()
PYTHON = ["/usr/bin/python3", "-I", "-c"]

# A cell that starts the attack and reports what it got. The attack lasts as long as the kernel.
ATTACK = f"""
import json, subprocess
attack = subprocess.Popen(
    {PYTHON!r} + [{SCRIPT!r}, "{MOST}", *{ALL!r}],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
print(attack.stdout.readline())
"""

# What a session needs: the kernel's loop, commands, a thread, files, pipes, a socket.
WORK = """
import asyncio, socket, subprocess, threading
process = await asyncio.create_subprocess_exec("echo", "read by asyncio", stdout=subprocess.PIPE)
print((await process.communicate())[0].decode(), end="")
out = subprocess.run(["echo", "from a command"], capture_output=True, text=True).stdout
thread = threading.Thread(target=lambda: print("from a thread"))
thread.start(); thread.join()
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
open("made", "w").write("x" * 1000000)
print(out, len(open("made").read()))
"""
WORKED = "read by asyncio\nfrom a thread\nfrom a command\n 1000000"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """What one test takes, another one that runs at the same time as the same user does not get."""
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def box(place: harness.Place) -> Box:
    return Box(place, COUNTERS_ID)


@pytest.fixture
def few_epoll_watches() -> Iterator[None]:
    """By default Linux allows each user watches for 4 % of the memory, which takes a minute."""
    with MAX_EPOLL_WATCHES.open() as file:
        # Other tests wait: they would take our number for the system's.
        fcntl.flock(file, fcntl.LOCK_EX)
        before = file.read()
        MAX_EPOLL_WATCHES.write_text(str(min(int(before), EPOLL_WATCHES)))
        try:
            yield
        finally:
            MAX_EPOLL_WATCHES.write_text(before)


@contextlib.contextmanager
def taking(
    box: Box,
    user: str,
    most: int,
    *names: str,
    limited: bool = False,
    settings: dict | None = None,
) -> Iterator[dict[str, list]]:
    """The attack, as the same user. Without @settings: without a sandbox."""
    command = [*PYTHON, SCRIPT, str(most), *names]
    if settings is None:
        line = [*box.become(user), *command]
    else:
        line = box.command(command, settings, user=user)
    if limited:
        line = [*FEW_FILES, *line]
    with subprocess.Popen(
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=box.place.workspace,
        env=box.place.environ,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


def test_one_session_takes_all(kernels: Kernels, user: str, few_epoll_watches: None) -> None:
    box = kernels.box
    with kernels.serve() as other, kernels.serve() as hostile:
        assert other.cell("print(6 * 7)") == "42"
        got = json.loads(hostile.cell(ATTACK))
        # One more of each, outside of sandboxes.
        with taking(box, user, 1, *ALL) as left:
            pass
        # By a program with the usual limit.
        with taking(box, user, 1, "descriptors in flight", limited=True) as left_to_limited:
            pass
        # The session that was there, a new kernel of it, a new session, and a command.
        assert other.cell(WORK) == WORKED
        other.tool("reset", {})
        assert other.cell(WORK) == WORKED
        line = [*FEW_FILES, *kernels.command("run", "-c", WORK)]
        done = harness.run(line, kernels.place, env=kernels.environ, timeout=120)
        assert done.stdout.strip() == WORKED, done.stderr
        line = [*FEW_FILES, *box.command(["sh", "-c", "echo from a sandbox | cat"], user=user)]
        done = box(line, sandbox=False)
        assert done.stdout == "from a sandbox\n", done.stderr
        # It still has all of it.
        assert hostile.cell("print(attack.poll())") == "None"
    check_what_it_got(got)
    # Root's sandboxes have users of their own. To others only this is left (SECURITY.md).
    starved = {"epoll watches": [0, "ENOSPC"], "pipes": [0, "ENOBUFS"]}
    # The attack is a process of the cell, so its kernel gets new pipes. The core has given back its
    # watches of the old ones by then, and reads them by poll.
    if left["epoll watches"] == [1, "most"]:
        del starved["epoll watches"]
    assert left == {name: [1, "most"] for name in ALL} | (starved if user != "root" else {})
    assert left_to_limited == {"descriptors in flight": [1, "most"]}


def check_what_it_got(got: dict[str, list]) -> None:
    """The probe works: each counter was taken up to the limit of the sandbox."""
    reasons = {name: reason for name, (_, reason) in got.items()}
    assert reasons == {
        "inotify watches": "ENOSPC",
        "inotify instances": "EMFILE",
        "timers": "EAGAIN",
        "signals": "EAGAIN",
        "message queues": "EACCES",  # from Landlock; the limit is for older kernels
        "locked memory": "ENOMEM",
        "aio": "ENOSYS",
        "keys": "EPERM",
        "terminals": "ENOSPC",
        "descriptors in flight": "ETOOMANYREFS",
        "pipes": "ENOBUFS",
        "epoll watches": "ENOSPC",
        "processes": "EAGAIN",
    }
    numbers = {name: number for name, (number, _) in got.items()}
    assert 0 < numbers["inotify watches"] <= 65536
    assert 0 < numbers["inotify instances"] <= 64
    assert 0 < numbers["timers"] + numbers["signals"] <= 1024
    assert numbers["terminals"] == 128
    # Of 253 each. The last one may exceed the limit of 768.
    assert numbers["descriptors in flight"] == 4
    # The kernels of the user watch something, too.
    assert numbers["epoll watches"] > int(MAX_EPOLL_WATCHES.read_text()) - 100
    assert 400 < numbers["processes"] < 512


def test_without_a_sandbox_they_can_be_taken(box: Box) -> None:
    """Positive control: the same probe gets more of each than in a sandbox."""
    more = {
        "inotify watches": 65_537,
        "timers": 1025,
        "message queues": 5,
        "aio": 1,
        "keys": 1,
        "terminals": 129,
        "descriptors in flight": 10,
        "processes": 513,
    }
    for name, number in more.items():
        with taking(box, "user", number, name) as got:
            assert got == {name: [number, "most"]}
    with taking(box, "user", 1025, "signals") as got:
        assert got == {"signals": [1025, "most"]}


@pytest.mark.parametrize(
    "name, reason",
    [
        ("inotify instances", "EMFILE"),
        ("message queues", "EMFILE"),
        ("descriptors in flight", "ETOOMANYREFS"),
        ("epoll watches", "ENOSPC"),
        ("pipes", "ENOBUFS"),
    ],
)
def test_without_a_sandbox_others_are_starved(
    box: Box, few_epoll_watches: None, name: str, reason: str
) -> None:
    """Positive control: when a program of the user has taken them, no other program gets one."""
    with taking(box, "user", MOST, name) as got:
        assert got[name][1] == reason
        with taking(box, "user", 1, name) as left:
            assert left == {name: [0, reason]}


def test_descriptors_in_flight_of_a_sandbox_with_more_open_files(box: Box) -> None:
    """Positive control of the default: with a higher limit, usual programs cannot send any more.

    ipybox still can.
    """
    name = "descriptors in flight"
    settings = make_settings(limits={"openFiles": 4096})
    with taking(box, "user", MOST, name, settings=settings) as got:
        assert got == {name: [17, "ETOOMANYREFS"]}
        with taking(box, "user", 1, name, limited=True) as left:
            assert left == {name: [0, "ETOOMANYREFS"]}
        line = [*FEW_FILES, *box.command(["echo", "sent"], user="user")]
        assert box(line, sandbox=False).stdout == "sent\n"


def test_roots_sandboxes_have_a_user_each(box: Box) -> None:
    users = {box(["cat", "/proc/self/uid_map", "/proc/self/gid_map"]).stdout for _ in range(3)}
    assert len(users) == 3
    for text in users:
        (_, uid, _), (_, gid, _) = (line.split() for line in text.splitlines())
        assert uid == gid and 0x78000000 <= int(uid) < 0x7C000000


def limits_of(text: str) -> dict[str, list[str]]:
    """Of /proc/PID/limits: name → [soft, hard]."""
    return {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()}


def test_half_is_left_to_others(box: Box, user: str) -> None:
    """Open files: otherwise code inside could keep us from sending descriptors."""
    limited = ["prlimit", "--nofile=100:600", "--nproc=400:400"]
    settings = make_settings(limits={"openFiles": 500, "processes": 300})
    command = ["cat", "/proc/self/limits"]
    inside = box([*limited, *box.command(command, settings, user=user)], sandbox=False)
    outside = box([*limited, *command], sandbox=False)
    assert limits_of(inside.stdout)["Max open files"] == ["300", "300"]
    assert limits_of(inside.stdout)["Max processes"] == ["200", "200"]
    assert limits_of(outside.stdout)["Max open files"] == ["100", "600"]
    assert limits_of(outside.stdout)["Max processes"] == ["400", "400"]


def test_programs_get_the_old_limit_back(kernel: Kernels) -> None:
    """The core raises its own soft limit; a kernel without a sandbox has the caller's."""
    code = """
import resource, os
core = int(open(f"/proc/{os.getppid()}/stat").read().rsplit(")", 1)[1].split()[1])
print(resource.getrlimit(resource.RLIMIT_NOFILE),
      resource.prlimit(core, resource.RLIMIT_NOFILE))
"""
    line = ["prlimit", "--nofile=200:1000", *kernel.command("run", "--no-sandbox", "-c", code)]
    done = harness.run(line, kernel.place, env=kernel.environ, timeout=120)
    assert done.stdout.strip() == "(200, 1000) (1000, 1000)", done.stderr
