# SPDX-License-Identifier: Apache-2.0
"""Attack suites B and F, bombs: each ends in an error that names the limit, and no other process on
the machine notices.
"""

from __future__ import annotations

import subprocess

import pytest
from box import Box, make_settings

# What is run, with which limits, and the expected message.
BOMBS = {
    "fork": (
        "import os\nn = 0\nwhile True:\n"
        "    try:\n"
        "        pid = os.fork()\n"
        "    except BlockingIOError as error: print(n, error.strerror, flush=True); "
        "os._exit(0)\n"
        "    if pid == 0:\n        import signal; signal.pause()\n    n += 1\n",
        {"processes": 40},
        "38 Resource temporarily unavailable",
    ),
    "fork, all of them": (
        "import os, signal\nn = 0\nwhile True:\n"
        "    try:\n        os.fork()\n    except BlockingIOError: break\n"
        "if os.getpid() == 2: print('stopped')\nelse: signal.pause()\n",
        {"processes": 40},
        "stopped",
    ),
    "threads": (
        "import threading\n"
        "n = 0\n"
        "try:\n"
        "    while n < 1000:\n"
        "        threading.Thread(target=threading.Event().wait, daemon=True).start(); "
        "n += 1\n"
        "except RuntimeError as error: print(n, error)\n"
        "import os, sys; sys.stdout.flush(); os._exit(0)\n",
        {"processes": 40},
        "38 can't start new thread",
    ),
    "memory": (
        "x = []\n"
        "try:\n"
        "    while True: x.append(bytearray(10_000_000))\n"
        "except MemoryError: print(len(x) < 30, 'memory')\n",
        {"memory": "256M"},
        "True memory",
    ),
    "files": (
        "import os\n"
        "n = 0\n"
        "try:\n"
        "    while True: os.dup(0); n += 1\n"
        "except OSError as error: print(n, error.strerror)\n",
        {"openFiles": 50},
        "47 Too many open files",
    ),
    "file size": (
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "f = open('big', 'wb')\n"
        "while True: f.write(bytes(1000))\n",
        {"fileSize": "1M"},
        "limits.fileSize is 1048576 bytes",
    ),
    "file size, handled": (
        "f = open('big', 'wb', buffering=0)\n"
        "try:\n"
        "    while True: f.write(bytes(1000))\n"
        "except OSError as error: print(error.strerror)\n",
        {"fileSize": "1M"},
        "File too large",
    ),
    "temporary files": (
        "n = 0\n"
        "try:\n"
        "    while True: open(f'/tmp/{n}', 'wb').write(bytes(100_000)); n += 1\n"
        "except OSError as error: print(n < 21, error.strerror)\n",
        {"temporaryFiles": "4M"},
        "True No space left on device",
    ),
    "inodes": (
        "n = 0\n"
        "try:\n"
        "    while n < 3_000_000: open(f'/tmp/{n}', 'w').close(); n += 1\n"
        "except OSError as error: print(error.strerror)\n",
        {"temporaryFiles": "4M"},
        "No space left on device",
    ),
    "time": ("while True: pass\n", {"cpuSeconds": 1}, "limits.cpuSeconds is 1"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb(box: Box, user: str, bomb: str) -> None:
    script, limits, said = BOMBS[bomb]
    done = box(["/usr/bin/python3", "-I", "-c", script], make_settings(limits=limits), user=user)
    assert said in done.stdout + done.stderr, (done.stdout, done.stderr)


def test_other_sandboxes_do_not_notice(box: Box) -> None:
    """RLIMIT_NPROC counts by user: it must not count other processes of the same user."""
    settings = make_settings(limits={"processes": 10})
    many = box.command(
        ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo full; wait"],
        settings,
        user="user",
    )
    few = box.command(["sh", "-c", "(echo a); (echo b); (echo c)"], settings, user="user")
    options = {
        "cwd": box.place.workspace,
        "env": box.place.environ,
        "stdout": subprocess.PIPE,
        "text": True,
    }
    with subprocess.Popen(many, **options) as first:
        assert first.stdout is not None and first.stdout.readline() == "full\n"
        assert subprocess.run(few, timeout=120, **options).stdout.split() == ["a", "b", "c"]
        first.kill()


def test_limits_are_explained(box: Box) -> None:
    path = box.write_settings(
        make_settings(limits={"memory": "2G", "cpuSeconds": 60, "fileSize": "none"})
    )
    done = box([box.program("root"), "sandbox", "--explain", "--settings", path], sandbox=False)
    words = [line.split()[:3] for line in done.stdout.splitlines()]
    assert (
        ["memory", "2", "GiB"] in words
        and ["cpuSeconds", "60", "seconds"] in words
        and ["fileSize", "no", "limit"] in words
    )
