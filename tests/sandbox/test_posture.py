# SPDX-License-Identifier: Apache-2.0
"""Attack suite A, posture: what a sandboxed process is, read from outside.

Each thread is read, and again after new threads and children; of a command and of a kernel, which
enters in another way (src/sandbox/linux/init/enter.c).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import harness
import pytest
from box import Box, make_settings
from kernels import Kernels

# Reports what it is. Then, at each line of input, it creates a thread, and a child that runs
# another program.
SUBJECT = """
import subprocess, sys, threading
print("ready", flush=True)
for line in sys.stdin:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("ready", flush=True)
"""

NAMESPACES = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]
CAPABILITIES = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]


@contextmanager
def subject(box: Box, user: str, **keys) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        box.command(["/usr/bin/python3", "-I", "-c", SUBJECT], make_settings(**keys), user=user),
        cwd=box.place.workspace,
        env=box.place.environ | {"SECRET_FOR_TESTS": "visible", "SSH_AUTH_SOCK": "/nowhere"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def namespace(pid: int, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")


def inside() -> tuple[int, list[int]]:
    """Pid 1 of the sandbox below this process, and the other processes in it."""
    ours = namespace(os.getpid(), "pid")
    found = [pid for pid in harness.descendants() if namespace(pid, "pid") != ours]
    first = [pid for pid in found if status(pid)["NSpid"].split()[-1] == "1"]
    assert len(first) == 1
    return first[0], [pid for pid in found if pid != first[0]]


def status(pid: int, tid: int | None = None) -> dict[str, str]:
    text = Path(f"/proc/{pid}/task/{tid or pid}/status").read_text()
    return {
        name: value.strip()
        for name, _, value in (line.partition(":") for line in text.splitlines())
    }


def check_thread(pid: int, tid: int) -> None:
    values = status(pid, tid)
    assert {name: values[name] for name in CAPABILITIES} == dict.fromkeys(CAPABILITIES, "0" * 16)
    assert (values["NoNewPrivs"], values["Seccomp"], values["Groups"]) in [
        ("1", "2", ""),
        ("1", "2", values["Gid"].split()[0]),
    ]


def check_all(box: Box, user: str) -> None:
    first, others = inside()
    assert others
    # Nothing of ours, and not nothing: else the ends of kernels take long (kernel/orphans.c).
    assert Path(f"/proc/{first}/environ").read_bytes() == b"IPYBOX_SANDBOX=1\0"
    for pid in [first, *others]:
        for name in NAMESPACES:
            assert namespace(pid, name) != namespace(os.getpid(), name), name
            assert namespace(pid, name) == namespace(first, name), name
        for tid in map(int, os.listdir(f"/proc/{pid}/task")):
            check_thread(pid, tid)
        # It has one id only.
        maps = [Path(f"/proc/{pid}/{name}").read_text().split() for name in ("uid_map", "gid_map")]
        assert all(len(entry) == 3 and entry[2] == "1" for entry in maps), maps
        assert all(int(word) != 0 for word in status(pid)["Uid"].split()), "root outside"
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n" or pid == first


def test_each_thread_and_child(box: Box, user: str) -> None:
    with subject(box, user) as process:
        check_all(box, user)
        for _ in range(2):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
        _, others = inside()
        assert len(others) == 3
        check_all(box, user)


GROW = """
import subprocess, threading, os
threading.Thread(target=threading.Event().wait, daemon=True).start()
children = [subprocess.Popen(["sleep", "1000"], start_new_session=True)]
reader, writer = os.pipe()
if os.fork() == 0:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    if os.fork() == 0: os.execvp("sleep", ["sleep", "1000"])
    os.write(writer, b"all are there")
    threading.Event().wait()
os.read(reader, 100)
"""


def test_each_thread_and_child_of_a_kernel(box: Box, user: str) -> None:
    with Kernels(box, user).serve() as server:
        server.cell("1")
        for n_others in (1, 4):
            check_all(box, user)
            _, others = inside()
            assert len(others) == n_others
            for pid in others:
                rows = {
                    line[:26].strip(): line[26:].split()
                    for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
                }
                assert (
                    rows["Max core file size"][1] in ("0", "1")
                    and rows["Max data size"][1] != "unlimited"
                )
                assert (
                    int(rows["Max processes"][1]) <= 512 and int(rows["Max open files"][1]) <= 768
                )
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                assert (
                    b"SECRET_FOR_TESTS" not in environment and b"SSH_AUTH_SOCK" not in environment
                )
                mounts = [
                    line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
                ]
                assert all(
                    "nosuid" in fields[5]
                    and not any(field.startswith("shared:") for field in fields)
                    for fields in mounts
                )
                assert os.readlink(f"/proc/{pid}/root") == "/" and os.readlink(
                    f"/proc/{pid}/cwd"
                ) == str(box.place.workspace)
            if n_others == 1:
                server.cell(GROW)


def test_programs_of_a_kernel_get_no_descriptors(box: Box) -> None:
    """What it starts has the three descriptors that it needs: not the wire, not the channel of the
    notifications.
    """
    with Kernels(box, "root").serve() as server:
        server.cell(
            "import subprocess\nchild = subprocess.Popen(['sleep', '1000'], close_fds=False)"
        )
        _, others = inside()
        (child,) = [pid for pid in others if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert set(os.listdir(f"/proc/{child}/fd")) == {"0", "1", "2"}


@pytest.mark.needs_root
def test_positive_control() -> None:
    """Without a sandbox the process does not look like this."""
    values = status(os.getpid())
    assert values["CapEff"] != "0" * 16 and values["NoNewPrivs"] == "0" and values["Seccomp"] == "0"


def test_descriptors(box: Box, user: str) -> None:
    """The command has the descriptors that it was given, and no others.

    Pid 1 has its control socket.
    """
    with subject(box, user):
        first, (command,) = inside()
        assert set(os.listdir(f"/proc/{command}/fd")) == {"0", "1", "2"}
        kinds = {
            fd: os.readlink(f"/proc/{first}/fd/{fd}").partition(":")[0]
            for fd in os.listdir(f"/proc/{first}/fd")
        }
        assert set(kinds.values()) - {"pipe", "/dev/null"} <= {
            "socket",
            "anon_inode",
            os.readlink("/proc/self/fd/2").partition(":")[0],
        }


def test_root_and_mounts(box: Box, user: str) -> None:
    """The host's tree is not below anything any more. Each writable mount has a reason."""
    with subject(box, user):
        _, (command,) = inside()
        mounts = [
            line.split() for line in Path(f"/proc/{command}/mountinfo").read_text().splitlines()
        ]
        writable = {fields[4] for fields in mounts if "rw" in fields[5].split(",")}
        private = {"/tmp", "/run", "/dev/shm", "/dev/pts", "/proc"}
        private |= {f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero")}
        assert writable - private == {str(box.place.workspace)}
        for fields in mounts:
            assert "nosuid" in fields[5], fields
            if fields[4] != "/dev" and not fields[4].startswith("/dev/"):
                assert "nodev" in fields[5], fields
            # Mounts made inside do not appear on the host, and mounts of the host do not appear
            # inside.
            assert not any(field.startswith("shared:") for field in fields), fields


def test_limits(box: Box, user: str) -> None:
    with subject(box, user):
        _, (command,) = inside()
        rows = {
            line[:26].strip(): line[26:].split()
            for line in Path(f"/proc/{command}/limits").read_text().splitlines()
        }
        assert rows["Max core file size"][:2] == ["1", "1"]
        assert int(rows["Max processes"][1]) <= 512
        assert int(rows["Max open files"][1]) <= 768
        assert rows["Max data size"][1] != "unlimited" and rows["Max file size"][1] != "unlimited"


def test_environment(box: Box) -> None:
    """The caller's environment, without the variables that name sockets of the host and proxies."""
    with subject(box, "root"):
        _, (command,) = inside()
        names = dict(
            entry.split("=", 1)
            for entry in Path(f"/proc/{command}/environ").read_text().split("\0")
            if entry
        )
        assert names["SECRET_FOR_TESTS"] == "visible" and names["TMPDIR"] == "/tmp"
        assert not {"SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "HTTP_PROXY"} & set(names)


@pytest.mark.parametrize("name", ["ps", "kill"])
def test_only_own_processes_are_seen(box: Box, user: str, name: str) -> None:
    script = "import os; print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))"
    if name == "kill":
        script = (
            "import os\ntry: os.kill(%d, 0)\nexcept OSError as e: print(type(e).__name__)"
            % os.getpid()
        )
    done = box(["/usr/bin/python3", "-I", "-c", script], user=user)
    assert done.stdout == ("[1, 2]\n" if name == "ps" else "ProcessLookupError\n"), done.stderr
    control = box(["/usr/bin/python3", "-I", "-c", script], sandbox=False)
    assert control.stdout not in ("[1, 2]\n", "ProcessLookupError\n")
