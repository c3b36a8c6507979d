# SPDX-License-Identifier: Apache-2.0
"""If namespaces are forbidden: an error that says how to allow them, or the weaker sandbox if it
was requested.
"""

from __future__ import annotations

import socket
import subprocess

import pytest
from box import Box, make_settings

FORBID = ["sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"]


def run(box: Box, words: list[str], settings: dict | None = None, *flags: str, **options):
    path = box.write_settings(make_settings() if settings is None else settings)
    line = [
        *box.become("userns"),
        *FORBID,
        box.program("userns"),
        "sandbox",
        "--settings",
        path,
        *flags,
        "--",
        *words,
    ]
    return box(line, sandbox=False, **options)


def test_the_error_says_how_to_allow_it(box: Box, workspace) -> None:
    done = run(box, ["touch", "ran"])
    assert done.returncode == 3 and "sudo sysctl user.max_user_namespaces" in done.stderr
    assert not (workspace / "ran").exists()


def test_only_where_it_is_needed(box: Box, user: str) -> None:
    done = box(["readlink", "/proc/self"], user=user, flags=("--allow-weaker",))
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.parametrize("way", ["flag", "key"])
def test_it_says_what_it_does_not_do(box: Box, way: str) -> None:
    if way == "flag":
        done = run(box, ["sh", "-c", "exit 7"], None, "--allow-weaker")
    else:
        done = run(box, ["sh", "-c", "exit 7"], make_settings(enableWeakerNestedSandbox=True))
    assert (
        done.returncode == 7 and "no network at all" in done.stderr and ".git/hooks" in done.stderr
    )


def test_what_holds(box: Box) -> None:
    outside = box.place.root / "outside"
    outside.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    name = f"\0{box.place.workspace}"
    listener.bind(name)
    listener.listen()
    script = f"""
import ctypes, errno, os, socket
def outcome(action):
    try: return action() or 'ok'
    except OSError as error: return errno.errorcode[error.errno]
def connect():
    socket.socket(socket.AF_UNIX).connect({name!r})
libc = ctypes.CDLL(None, use_errno=True)
def ptrace():
    if libc.ptrace(0, 0, 0, 0) < 0: raise OSError(ctypes.get_errno(), '')
print([outcome(action) for action in [
    lambda: open('mine', 'w').close(), lambda: open({str(outside)!r} + '/x', 'w'),
    lambda: open(f'/tmp/ipybox-{{os.getpid()}}', 'w'), lambda: open('/dev/null', 'w').close(),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), connect, ptrace,
    lambda: open('/dev/ptmx', 'r+'),
    lambda: open(f'/proc/{{os.getppid()}}/environ'), lambda: os.chmod('mine', 0o4755),
]])
"""
    done = run(box, ["/usr/bin/python3", "-I", "-c", script], None, "--allow-weaker")
    expected = [
        "ok",
        "EACCES",
        "EACCES",
        "ok",
        "EAFNOSUPPORT",
        "EACCES",
        "EPERM",
        "EACCES",
        "EACCES",
        "EPERM",
    ]
    assert done.stdout == f"{expected}\n", done.stderr
    listener.close()


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"denyRead": ["x"]}, "denyRead"),
        ({"denyWrite": ["x"]}, "denyWrite"),
        ({"allowedDomains": ["example.com"]}, "allowedDomains"),
    ],
)
def test_what_it_cannot_do_is_refused(box: Box, workspace, keys: dict, named: str) -> None:
    done = run(box, ["touch", "ran"], make_settings(**keys), "--allow-weaker")
    assert done.returncode == 3 and named in done.stderr and "max_user_namespaces" in done.stderr
    assert not (workspace / "ran").exists()


def test_nothing_is_left_behind(box: Box) -> None:
    """Neither a process that left its group nor the end of the core leaves anything: the fixture
    checks it.
    """
    script = "setsid sleep 1000 & (sleep 1000 &) ; echo ready; "
    assert (
        run(box, ["sh", "-c", script + "exit 0"], None, "--allow-weaker", stdin="").returncode == 0
    )
    path = box.write_settings(make_settings())
    line = [
        *box.become("userns"),
        *FORBID,
        box.program("userns"),
        "sandbox",
        "--allow-weaker",
        "-s",
        path,
        "-c",
        script + "sleep 1000",
    ]
    with subprocess.Popen(
        line, cwd=box.place.workspace, env=box.place.environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.kill()


def test_no_sandbox_within_a_sandbox(box: Box, user: str) -> None:
    # A program with sanitizers needs much address space, and ptrace to find leaks.
    settings = make_settings(
        allowRead=[box.program(user).removesuffix("/ipybox")], limits={"memory": "none"}
    )
    done = box(
        ["env", "ASAN_OPTIONS=detect_leaks=0", box.program(user), "sandbox", "-c", "true"],
        settings,
        user=user,
    )
    assert done.returncode == 3 and "a sandbox already" in done.stderr
