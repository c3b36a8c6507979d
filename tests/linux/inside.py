# SPDX-License-Identifier: Apache-2.0
"""Uses and attacks ipybox's wheel on another Linux; scripts/check-kernels runs it in a virtual
machine, as root, with the system's Python.

It prints lines of JSON on the second serial line: {"row": NAME, "value": VALUE} for what was found,
and {"end": true}. What the rows mean, and which values are right, is known to scripts/check-kernels
only.

With `units` it runs the unit tests, each a row.

usage: inside.py quick|full|units
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
ENVIRONMENT = TESTS.parent / ".venv"
IPYBOX = ENVIRONMENT / "bin/ipybox"
SERVER = TESTS / "scripted_server/scripted_server.py"
REPORT = "/dev/ttyS0" if platform.machine() == "aarch64" else "/dev/ttyS1"

# The machine is emulated, which makes it twenty times as slow, and others may use the processors.
TIMEOUT = 240
USERS = {"user": 1000, "root": 0}
SETTINGS = {
    "network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [".env", "below/.env"], "allowWrite": ["."], "denyWrite": []},
}
OPEN_SETTINGS = SETTINGS | {
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
}

libc = ctypes.CDLL(None, use_errno=True)


class Report:
    def __init__(self) -> None:
        self.file = os.fdopen(os.open(REPORT, os.O_WRONLY | os.O_NOCTTY), "w")
        tty.setraw(self.file.fileno())

    def __call__(self, row: str, function: Callable[..., object], *arguments: object) -> None:
        """Runs the function. If it fails, that is the row's value."""
        try:
            value = function(*arguments)
        except Exception as error:
            traceback.print_exc()
            value = f"failed: {error!r}"
        print(json.dumps({"row": row, "value": value}), file=self.file, flush=True)


# --- the kernel's own answers --------------------------------------------------------------------


def call(number: int, *arguments: object) -> int:
    """Returns the result of a system call, or -errno."""
    result = libc.syscall(number, *arguments)
    return -ctypes.get_errno() if result < 0 else result


def in_child(function: Callable[[], int]) -> int:
    """What @function returns: 0 to 255."""
    child = os.fork()
    if child == 0:
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Program(ctypes.Structure):
    _fields_ = [("size", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def try_listener() -> int:
    """Bits: 1, a listener whose calls no signal repeats; 2, one that is woken up at once."""
    SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    SET_MODE_FILTER, NEW_LISTENER, WAIT_KILLABLE_RECV = 1, 8, 32
    PR_SET_NO_NEW_PRIVS, SET_FLAGS, SYNC_WAKE_UP = 38, 0x40082104, 1
    allow = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = Program(1, ctypes.addressof(allow))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    found = 0
    for bit, flags in ((1, WAIT_KILLABLE_RECV), (0, 0)):
        listener = call(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER | flags, ctypes.byref(program))
        if listener >= 0:
            found |= bit
            if libc.ioctl(listener, SET_FLAGS, ctypes.c_ulong(SYNC_WAKE_UP)) == 0:
                found |= 2
            break
    return found


def try_user_namespace() -> int:
    CLONE_NEWUSER = 0x10000000
    os.setuid(USERS["user"])
    return int(libc.unshare(CLONE_NEWUSER) == 0)


def probe(report: Report) -> None:
    SYS_PIDFD_OPEN, PIDFD_THREAD = 434, os.O_EXCL
    SYS_MOUNT_SETATTR, SYS_LANDLOCK_CREATE_RULESET = 442, 444
    listener = in_child(try_listener)
    found = {
        "release": platform.release(),
        "user namespaces": bool(in_child(try_user_namespace)),
        "certain notifications": bool(listener & 1),
        "quick notifications": bool(listener & 2),
        "pidfd of a thread": call(SYS_PIDFD_OPEN, os.getpid(), PIDFD_THREAD) >= 0,
        "mount_setattr": call(SYS_MOUNT_SETATTR, -1, b"", 0, None, 0) != -errno.ENOSYS,
        "landlock": max(0, call(SYS_LANDLOCK_CREATE_RULESET, None, 0, 1)),
    }
    for row, value in found.items():
        report(row, lambda value=value: value)


# --- ipybox --------------------------------------------------------------------------------------


class Account:
    """A user, with a workspace on ext4, or elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uid = USERS[name]
        self.home = Path("/home") / name
        self.home.mkdir(parents=True, exist_ok=True)
        self.own(self.home)
        self.environ = {
            "PATH": f"{ENVIRONMENT}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
        }
        self.cgroup = Path("/sys/fs/cgroup")

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.uid)

    def workspace(self, name: str, below: Path | None = None) -> Path:
        path = (below or self.home) / name
        path.mkdir()
        self.own(path)
        return path

    def start(self, *command: str | Path, cwd: Path) -> subprocess.Popen[str]:
        # Root enters the cgroup, then becomes the user.
        become = f"--reuid={self.uid} --regid={self.uid} --clear-groups"
        script = f'echo 0 >{self.cgroup}/cgroup.procs && exec setpriv {become} -- "$@"'
        return subprocess.Popen(
            ["sh", "-c", script, "sh", *map(str, command)],
            cwd=cwd,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str | Path, cwd: Path) -> tuple[int, str]:
        process = self.start(*command, cwd=cwd)
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            output += f"\n(no end after {TIMEOUT} s)"
        print(f"[{self.name}] {' '.join(map(str, command))[:120]}\n{output}", flush=True)
        return process.returncode, output


def outcome(done: tuple[int, str], expected: str) -> str:
    """ "yes" if it printed what it must, else its status and its last line."""
    status, output = done
    lines = output.strip().splitlines() or [""]
    return "yes" if status == 0 and expected in lines else f"{status}: {lines[-1]}"


def doctor(account: Account) -> dict[str, str]:
    _, output = account.run(IPYBOX, "doctor", "--json", cwd=account.home)
    found = {entry["name"]: entry for entry in json.loads(output)}
    return {
        name: f"{found[name]['state']}: {found[name]['detail'].partition('; made in')[0]}"
        for name in ("sandbox", "landlock", "seccomp", "names")
    }


def selftest(account: Account) -> object:
    status, output = account.run(IPYBOX, "selftest", "--json", cwd=account.home)
    if not output.startswith("["):
        return f"{status}: {re.sub('selftest-[^/]+', 'selftest-…', output.strip())}"
    attacks = json.loads(output)
    return {
        "attacks": len(attacks),
        "stopped": sum(attack["held"] for attack in attacks),
        "through": [
            f"{attack['section']}: {attack['attack']}" for attack in attacks if not attack["held"]
        ],
    }


def cell(account: Account, workspace: Path, *flags: str) -> str:
    code = "open('made', 'w').write('here'); print(6 * 7)"
    said = outcome(account.run(IPYBOX, "run", *flags, "-c", code, cwd=workspace), "42")
    if said == "yes" and (workspace / "made").stat().st_uid != account.uid:
        return "the file belongs to another user"
    return said


# A program of the SDK: a branch, a checkpoint and an undone cell.
BRANCHES = """
import asyncio, sys
from ipybox import CodeExecutor

async def main():
    async with CodeExecutor(
        sandbox=sys.argv[1] == "sandbox", kernel_init_timeout=200
    ) as executor:
        await executor.execute("x = [40]")
        kept = await executor.checkpoint()
        (branch,) = await executor.fork()
        await branch.execute("x.append(2)")
        await executor.execute("x.clear()")
        await kept.restore()
        texts = [(await each.execute("x")).text for each in (executor, branch)]
        await branch.stop()
        print(*texts)

asyncio.run(main())
"""


def branches(account: Account, workspace: Path, how: str) -> str:
    python = ENVIRONMENT / "bin/python"
    done = account.run(python, "-c", BRANCHES, how, cwd=workspace)
    return outcome(done, "[40] [40, 2]")


def tool(account: Account, workspace: Path, *flags: str) -> str:
    parameters = {"command": "/usr/bin/python3", "args": ["-I", "-S", str(SERVER), "work"]}
    made = account.run(
        IPYBOX,
        "apigen",
        "--connect-timeout=100",
        "--server-name=work",
        f"--server-params={json.dumps(parameters)}",
        cwd=workspace,
    )
    if made[0] != 0:
        return outcome(made, "")
    code = "from mcptools.work.add import Params, run; print(run(Params(a=40, b=2)).sum)"
    done = account.run(IPYBOX, "run", "--approve=allow", *flags, "-c", code, cwd=workspace)
    return outcome(done, "42")


# --- names ---------------------------------------------------------------------------------------


def replace(path: Path, text: str, account: Account) -> None:
    """As editors and `git config` do."""
    new = path.with_name("new")
    new.write_text(text)
    account.own(new)
    new.rename(path)


def act_as_host(step: str, workspace: Path, account: Account) -> None:
    verb, _, name = step.partition(" ")
    path = workspace / name
    old = path.read_text() if verb == "replace" else ""
    replace(path, old + ("secret\n" if path.name == ".env" else "# by the host\n"), account)


def prepare(account: Account, name: str) -> Path:
    workspace = account.workspace(name)
    account.run("git", "init", "--quiet", cwd=workspace)
    (workspace / ".env").write_text("secret\n")
    (workspace / "settings.json").write_text(json.dumps(SETTINGS))
    (workspace / "below").mkdir()
    for path in (workspace / ".env", workspace / "below"):
        account.own(path)
    return workspace


def attack(account: Account, name: str, *command: str | Path) -> object:
    """Runs name_attacks.py by @command, and does what it asks the host to do."""
    workspace = prepare(account, name)
    script = HERE / "name_attacks.py"
    process = account.start(*command, "/usr/bin/python3", "-I", script, cwd=workspace)
    assert process.stdin is not None and process.stdout is not None
    results: list[dict] = []
    noise: list[str] = []
    with process:
        for line in process.stdout:
            print(f"[{account.name}] {line}", end="", flush=True)
            if not line.startswith("{"):
                noise.append(line.strip())
                continue
            message = json.loads(line)
            if "host" in message:
                act_as_host(message["host"], workspace, account)
                process.stdin.write("\n")
                process.stdin.flush()
            else:
                results.append(message)
    return summary(results, workspace, noise)


def attack_from_cell(account: Account, name: str) -> object:
    workspace = prepare(account, name)
    code = workspace / "attacks.py"
    text = (
        (HERE / "name_attacks.py").read_text().replace("\nHAS_HOST = ", "\nHAS_HOST = False and ")
    )
    code.write_text(text)
    account.own(code)
    status, output = account.run(IPYBOX, "run", code, cwd=workspace)
    lines = output.splitlines()
    results = [json.loads(line) for line in lines if line.startswith("{")]
    return summary(results, workspace, [line for line in lines if not line.startswith("{")])


def summary(results: list[dict], workspace: Path, noise: list[str]) -> object:
    if not results:
        return f"not run: {noise[-1] if noise else ''}"
    through = [result["attack"] for result in results if result["error"] is None]
    found = {
        "attacks": len(results),
        "stopped": len(results) - len(through),
        "through": through,
        "left": left(workspace),
    }
    is_said = any("is needed to judge the names of files" in line for line in noise)
    return found | ({"says": "names are not judged"} if is_said else {})


def left(workspace: Path) -> list[str]:
    """What attacks have left in the workspace under names that they may not make."""
    names = (".mcp.json", "pre-commit", "post-checkout", "tasks.json")
    found = [path for path in workspace.rglob("*") if path.name.lower() in names]
    # An ordinary name, unless its directory became .git.
    found = [path for path in found if not path.match("repository/plain/hooks/*")]
    for path in (workspace / ".git/config", workspace / "below/.env"):
        if path.exists() and "planted" in path.read_text():
            found.append(path)
    return sorted(str(path.relative_to(workspace)) for path in found)


# --- other settings of the machine ---------------------------------------------------------------


@contextmanager
def setting(path: str, value: str) -> Iterator[None]:
    file = Path("/proc/sys") / path
    before = file.read_text()
    file.write_text(value)
    try:
        yield
    finally:
        file.write_text(before)


def weaker(account: Account) -> str:
    workspace = account.workspace("weaker")
    settings = account.home / "open.json"
    settings.write_text(json.dumps(OPEN_SETTINGS))
    outside = account.home / "outside"
    script = f"echo inside >file && cat file; echo outside >{outside}"
    done = account.run(
        IPYBOX,
        "sandbox",
        "--allow-weaker",
        f"--settings={settings}",
        "--",
        "sh",
        "-c",
        f"{script}; exit 0",
        cwd=workspace,
    )
    if outside.exists():
        return "it lets code write outside"
    return outcome(done, "inside")


# Two processes, each of which stays within the limit, while the other has its memory, too.
GROW = """
import os
mine, other = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(other)
held = bytearray(150 << 20)
held[::4096] = bytes(len(held) // 4096)
if pid == 0:
    os.read(mine, 1)
    os._exit(0)
os.close(other)
print("both", os.waitpid(pid, 0)[1])
"""


def grow(account: Account) -> tuple[int, str]:
    settings = account.home / "limit.json"
    settings.write_text(json.dumps(OPEN_SETTINGS | {"limits": {"memory": "220M"}}))
    command = [f"--settings={settings}", "--", "/usr/bin/python3", "-c", GROW]
    return account.run(IPYBOX, "sandbox", *command, cwd=account.home)


def limit(account: Account) -> str:
    """Does the limit hold for both processes together, in a cgroup that the user may divide?"""
    control = outcome(grow(account), "both 0")
    if control != "yes":
        return control
    top = account.cgroup
    (top / "cgroup.subtree_control").write_text("+memory +pids")
    group = top / account.name
    group.mkdir()
    for path in (group, *(group / f"cgroup.{n}" for n in ("procs", "threads", "subtree_control"))):
        account.own(path)
    account.cgroup = group
    status, output = grow(account)
    account.cgroup = top
    if "both 0" in output:
        return "no: both processes got their memory"
    return f"{status}: {output.strip()}" if "cannot" in output else "yes"


# --- unit tests ----------------------------------------------------------------------------------

UNIT_SECONDS = 1800
# Single tests that are left out, by the program.
UNIT_TESTS_LEFT_OUT = {
    # It makes 400,000 links: too many for an emulated machine.
    "test-sandbox-linux-layer": ["/layer/bounds-of-copies"],
}


def run_unit(program: Path) -> object:
    """The numbers of test cases, or why there are none."""
    environ = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": "/tmp",
        # As tests/unit/meson.build has them.
        "G_DEBUG": "fatal-warnings",
        "MALLOC_PERTURB_": "85",
        "G_TEST_SRCDIR": str(TESTS / "unit"),
        "IPYBOX_TEST_CACHE": "/none",
        "IPYBOX_TEST_PYTHON": str(ENVIRONMENT / "bin/python"),
    }
    skip = [f"-s={test}" for test in UNIT_TESTS_LEFT_OUT.get(program.name, [])]
    process = subprocess.Popen(
        [program, *skip],
        cwd=program.parent,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    start = time.monotonic()
    timer = threading.Timer(UNIT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    output = ""
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            # The console is slow, and shows what a program is at.
            if not line.startswith("# DEBUG: "):
                output += line
                print(f"{time.monotonic() - start:.0f} s: {line}", end="", flush=True)
    timer.cancel()
    if process.returncode == -signal.SIGKILL:
        return f"killed, or no end after {UNIT_SECONDS} s: {output[-300:]}"
    cases = re.findall(r"^(ok|not ok) \d+ (\S+)(.*)$", output, re.MULTILINE)
    failed = [name for how, name, _ in cases if how == "not ok"]
    if process.returncode != 0:
        return f"status {process.returncode}, failed: {failed}: {output[-600:]}"
    skipped = [name for how, name, more in cases if how == "ok" and "SKIP" in more]
    return {"passed": len(cases) - len(failed) - len(skipped), "skipped": skipped, "failed": failed}


def check_units(report: Report) -> None:
    Path("/root").mkdir(exist_ok=True)
    for program in sorted((TESTS.parent / "build/tests/unit").glob("test-*")):
        report(program.name.removeprefix("test-"), run_unit, program)


# --- all -----------------------------------------------------------------------------------------


def check(report: Report, is_full: bool) -> None:
    probe(report)
    user, root = (Account(name) for name in USERS)
    sandbox = [IPYBOX, "sandbox", "--settings=settings.json", "--"]
    for account in (user, root):
        name = account.name
        if is_full or account is user:
            report(f"{name}: doctor", doctor, account)
            report(f"{name}: names, without a sandbox", attack, account, "control", "env")
            report(f"{name}: names", attack, account, "names", *sandbox)
        report(f"{name}: selftest", selftest, account)
        if not is_full and account is root:
            continue
        workspace = account.workspace("workspace")
        report(f"{name}: tool", tool, account, workspace)
        if not is_full:
            continue
        report(f"{name}: cell", cell, account, workspace)
        report(f"{name}: cells in branches", branches, account, workspace, "sandbox")
        report(f"{name}: names, from a cell", attack_from_cell, account, "cells")
        free = account.workspace("free")
        report(f"{name}: cell without a sandbox", cell, account, free, "--no-sandbox")
        report(f"{name}: branches without a sandbox", branches, account, free, "none")
        report(f"{name}: tool without a sandbox", tool, account, free, "--no-sandbox")
    if not is_full:
        return
    memory = Path("/run/shared")
    memory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", memory], check=True)
    report("root: cell on tmpfs", cell, root, root.workspace("tmpfs", memory))
    traced = user.workspace("traced")
    with setting("kernel/yama/ptrace_scope", "1"):
        report("user: cell with ptrace_scope 1", cell, user, traced)
    with setting("user/max_user_namespaces", "0"):
        report("user: weaker", weaker, user)
    report("user: limit of the whole sandbox", limit, user)


def main() -> None:
    report = Report()
    if sys.argv[1] == "units":
        check_units(report)
    else:
        check(report, is_full=sys.argv[1] == "full")
    print(json.dumps({"end": True}), file=report.file, flush=True)


main()
