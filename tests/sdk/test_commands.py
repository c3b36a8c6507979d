# SPDX-License-Identifier: Apache-2.0
"""Commands beside a kernel: what they are, where they run, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import harness
import pytest
from ipybox import CodeExecutionError, CodeExecutor, CommandResult, CommandTimeout
from ipybox.core import CoreError

PROBES = harness.ROOT / "tests/sandbox/probes"
both = pytest.mark.parametrize("sandbox", [True, False])


def executor(sandbox: bool = True, **options: object) -> CodeExecutor:
    options |= {"sandbox": sandbox, "approve_tool_calls": False}
    return CodeExecutor(**options)  # type: ignore[arg-type]


# Runs a program in a cell.
RUN = """
import subprocess
print(subprocess.run({command!r}, shell=True, capture_output=True, text=True).stdout)
"""


async def shell(executor: CodeExecutor, command: str, **options: object) -> str:
    result = await executor.run_command(command, **options)  # type: ignore[arg-type]
    assert result.ok, result
    return result.stdout.decode()


async def wait_for(path: Path) -> str:
    while not path.exists() or not path.read_text().endswith("\n"):
        await asyncio.sleep(0.01)
    return path.read_text().strip()


@both
async def test_what_it_gets_and_returns(sandbox: bool, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    async with executor(sandbox, kernel_env={"COLOUR": "green"}) as e:
        script = "cat; echo to stderr >&2; echo $COLOUR $MORE; pwd; exit 7"
        result = await e.run_command(
            script, input=b"in\0put\n", env={"MORE": "blue=1"}, cwd="folder"
        )
        text = f"in\0put\ngreen blue=1\n{workspace}/folder\n"
        assert result == CommandResult(7, None, text.encode(), b"to stderr\n")
        assert (result.returncode, result.ok) == (7, False)
        odd = ["printf", "%s|", "a b", "", "$HOME", os.fsdecode(b"\xff\xfe"), "\n"]
        assert (await e.run_command(odd)).stdout == b"a b||$HOME|\xff\xfe|\n|"
        ended = await e.run_command("kill -USR1 $$")
        assert (ended.exit_status, ended.signal, ended.returncode) == (None, 10, -10)
        assert await shell(e, "pwd", cwd="/") == "/\n"
        assert await shell(e, "cat") == ""
        # No descriptor but the standard streams, and no signal that is ignored or blocked.
        assert await shell(e, "ls /proc/self/fd | wc -l") == "4\n"
        masks = await shell(e, "cat /proc/self/status")
        lines = [line for line in masks.splitlines() if line[:6] in ("SigBlk", "SigIgn", "SigCgt")]
        assert [line.split()[1] for line in lines] == ["0" * 16] * 3


@both
async def test_files_and_environment_are_those_of_cells(sandbox: bool) -> None:
    async with executor(sandbox) as e:
        await e.execute("open('/tmp/ipb-cell', 'w').write('from a cell')")
        try:
            assert await shell(e, "cat /tmp/ipb-cell") == "from a cell"
        finally:
            await shell(e, "rm /tmp/ipb-cell")
        await shell(e, "echo from a command > shared")
        assert (await e.execute("!cat shared")).text == "from a command"
        # What a child of the kernel has. The kernel's own Python sets no more.
        listing = "import os, json\nprint(json.dumps(dict(os.environ)))"
        mine = json.loads(await shell(e, f"{sys.executable} -c '{listing}'"))
        cell = json.loads((await e.execute(listing)).text or "")
        for name in ("PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"):
            mine.pop(name, None), cell.pop(name, None)
        assert mine == cell


async def test_it_has_the_walls_of_a_cell(workspace: Path) -> None:
    """Whatever a child of a cell finds out about its sandbox, a command finds out, too."""
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / ".git/HEAD").write_text("ref: refs/heads/main\n")
    facts = (
        "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status;"
        "ls -l /proc/self/ns | sed 's/.*-> //'; cat /proc/self/limits;"
        "cut -d ' ' -f 4- /proc/self/mountinfo; cat /proc/self/cgroup; cat /proc/net/dev;"
        "cat /proc/self/oom_score_adj;"
        "for file in .git/hooks/pre-commit .bashrc /etc/new /usr/new; do "
        "echo x > $file; echo $? $file; done 2>&1 | grep -v '^/bin/sh'"
    )
    (workspace / "facts.sh").write_text(facts)
    (workspace / "probe.py").write_text((PROBES / "syscalls.py").read_text())
    async with executor() as e:
        for command in ("sh facts.sh", f"{sys.executable} probe.py"):
            mine = await shell(e, command)
            await shell(e, "find . -type p -delete; find . -type s -delete")
            cell = (await e.execute(RUN.format(command=command))).text or ""
            assert mine.strip() == cell.strip()
            assert len(cell) > 500
        assert not (workspace / ".git/hooks/pre-commit").exists()
        assert not (workspace / ".bashrc").exists()
        processes = await shell(e, "ls /proc | grep -c '^[0-9]'")
        assert int(processes) < 10


async def test_it_cannot_read_what_the_sandbox_hides(workspace: Path, home: harness.Place) -> None:
    secret = home.root / "secret"
    secret.write_text("secret")
    config = home.root / "sandbox.json"
    files = {"allowWrite": ["."], "denyWrite": [], "denyRead": [str(secret)]}
    network = {"allowedDomains": [], "deniedDomains": []}
    config.write_text(json.dumps({"filesystem": files, "network": network}))
    (workspace / "link").symlink_to(secret)
    try:
        async with executor(sandbox_config=config) as e:
            for path in (str(secret), "link"):
                result = await e.run_command(["cat", path])
                assert (result.exit_status, result.stdout) == (1, b"")
                with pytest.raises(PermissionError):
                    await e.read_file(path)
        async with executor() as e:  # the same, where it is not hidden
            assert await shell(e, "cat link") == "secret"
    finally:
        secret.unlink()
        config.unlink()


async def test_it_cannot_trace_the_kernel_and_is_not_traced(workspace: Path) -> None:
    attach = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "libc.ptrace(16, int(sys.argv[1]), 0, 0)\n"
        "print(ctypes.get_errno())\n"
    )
    (workspace / "attach.py").write_text(attach)
    async with executor() as e:
        kernel = (await e.execute("import os\nprint(os.getpid())")).text
        mine = await shell(e, f"{sys.executable} attach.py {kernel}")
        assert mine == "1\n"  # EPERM
        running = asyncio.create_task(e.run_command("echo $$ > pid; exec sleep 1000"))
        pid = await wait_for(workspace / "pid")
        command = f"{sys.executable} attach.py {pid}"
        assert (await e.execute(RUN.format(command=command))).text == "1"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


@both
async def test_it_runs_while_a_cell_hangs(sandbox: bool, workspace: Path) -> None:
    async with executor(sandbox) as e:
        code = "open('ready', 'w').write('1\\n')\nimport signal\nwhile True: signal.pause()"
        cell = asyncio.ensure_future(e.execute(code))
        await wait_for(workspace / "ready")
        texts = await asyncio.gather(*(shell(e, f"echo {i}") for i in range(20)))
        assert texts == [f"{i}\n" for i in range(20)]
        assert not cell.done()
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell


async def test_output_is_cut(workspace: Path) -> None:
    async with executor() as e:
        script = "head -c 3000000 /dev/zero; head -c 10 /dev/zero >&2; echo end > end"
        result = await e.run_command(script, max_output=1000)
        assert result.stdout == bytes(1000) and result.stdout_cut
        assert result.stderr == bytes(10) and not result.stderr_cut
        assert (workspace / "end").exists()
        assert (await e.run_command("echo x", max_output=0)).stdout_cut
        large = bytes(range(256)) * 40_000
        echoed = await e.run_command(["cat"], input=large)
        assert echoed.stdout == large and not echoed.stdout_cut
        # Input that is not read is no error.
        assert (await e.run_command(["true"], input=large)).ok


@both
async def test_timeout_with_partial_output_kills_all(sandbox: bool, workspace: Path) -> None:
    async with executor(sandbox) as e:
        # A child, a grandchild in a session of its own without environment, and an orphan.
        script = (
            "sleep 1001 & setsid env -i sh -c 'sleep 1002 & sleep 1003' & "
            "(setsid env -i sleep 1004 &) ; echo begun; echo err >&2; sleep 1005"
        )
        with pytest.raises(CommandTimeout) as caught:
            await e.run_command(script, timeout=0.5)
        result = caught.value.result
        assert (result.signal, result.stdout, result.stderr) == (9, b"begun\n", b"err\n")
        assert isinstance(caught.value, TimeoutError)
        await no_sleeper(e)


async def no_sleeper(e: CodeExecutor) -> None:
    """Waits until no process `sleep 100N` is left."""
    names = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"
    while "sleep 100" in (await e.run_command(["sh", "-c", names])).stdout.decode():
        await asyncio.sleep(0.01)


@both
async def test_cancellation_kills_all(sandbox: bool, workspace: Path) -> None:
    async with executor(sandbox) as e:
        script = "(setsid env -i sleep 1001 &); echo x > begun; sleep 1002"
        running = asyncio.create_task(e.run_command(script))
        await wait_for(workspace / "begun")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await no_sleeper(e)
        assert await shell(e, "echo still") == "still\n"


@both
async def test_a_fork_bomb_is_killed(sandbox: bool, workspace: Path) -> None:
    """New processes are made all the time, while those that exist are killed."""
    script = (
        "import subprocess, sys\n"
        "while True:\n"
        "    try:\n"
        "        subprocess.Popen(['sleep', '1001'])\n"
        "    except OSError:\n"
        "        pass\n"
    )
    options: dict[str, object] = {"limits": {"processes": 100}} if sandbox else {}
    async with executor(sandbox, **options) as e:
        with pytest.raises(CommandTimeout):
            await e.run_command([sys.executable, "-c", script], timeout=0.3)
        await no_sleeper(e)


async def test_thousands_of_children_are_killed(workspace: Path) -> None:
    """More than fit into what is read of /proc at once."""
    script = "for i in $(seq 2500); do setsid -f sleep 1001; done; echo x > begun; sleep 1001"
    async with executor(False) as e:
        running = asyncio.create_task(e.run_command(script))
        await wait_for(workspace / "begun")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await no_sleeper(e)


@both
async def test_what_it_leaves_ends_with_the_kernel(sandbox: bool, workspace: Path) -> None:
    async with executor(sandbox) as e:
        await shell(e, "sleep 1001 >/dev/null 2>&1 & echo $!")
        assert "sleep" in await shell(e, "cat /proc/[0-9]*/comm 2>/dev/null || true")
        await e.reset()
        await no_sleeper(e)
        # One whose output is not redirected does not delay the result.
        assert await shell(e, "sleep 1001 & echo done") == "done\n"


@both
async def test_it_ends_with_the_kernel(sandbox: bool, workspace: Path) -> None:
    async with executor(sandbox) as e:
        running = asyncio.create_task(e.run_command("echo x > begun; sleep 1001"))
        await wait_for(workspace / "begun")
        with pytest.raises(CodeExecutionError):
            await e.execute("import os\nos.kill(os.getpid(), 9)")
        with pytest.raises(CoreError) as caught:
            await running
        assert caught.value.kind == "kernel_died"
        assert await shell(e, "echo fresh") == "fresh\n"
        (workspace / "begun").unlink()
        running = asyncio.create_task(e.run_command("echo x > begun; sleep 1001"))
        await wait_for(workspace / "begun")
        await e.reset()
        with pytest.raises(CoreError) as caught:
            await running
        assert caught.value.kind == "cancelled"
        await no_sleeper(e)


async def test_errors(workspace: Path) -> None:
    (workspace / "data").write_text("no program")
    e = executor()
    with pytest.raises(RuntimeError, match="start the executor"):
        await e.run_command(["true"])
    async with e:
        with pytest.raises(FileNotFoundError, match='"no-such"'):
            await e.run_command(["no-such"])
        with pytest.raises(FileNotFoundError, match="working directory"):
            await e.run_command(["true"], cwd="nowhere")
        with pytest.raises(CoreError, match="denied") as caught:
            await e.run_command(["./data"])
        assert caught.value.kind == "refused"
        with pytest.raises(CoreError, match="too long") as caught:
            await e.run_command(["echo", "x" * 200_000])
        assert caught.value.kind == "limit"
        for wrong in ([], "\0", [""], ["a\0b"]):
            with pytest.raises(ValueError):
                await e.run_command(wrong)
        with pytest.raises(ValueError):
            await e.run_command(["true"], timeout=0)
        with pytest.raises(ValueError):
            await e.run_command(["true"], env={"A=B": "c"})
        with pytest.raises(CoreError) as caught:
            await e.run_command(["true"], max_output=33 * 1024 * 1024)
        assert caught.value.kind == "invalid"
        results = await asyncio.gather(
            *(e.run_command("cat") for _ in range(200)), return_exceptions=True
        )
        refused = [one for one in results if isinstance(one, CoreError)]
        assert {one.kind for one in refused} <= {"limit"}
        assert len([one for one in results if isinstance(one, CommandResult)]) >= 64


async def test_a_limit_of_the_sandbox_is_named(workspace: Path) -> None:
    async with executor(limits={"cpuSeconds": 1}) as e:
        result = await e.run_command("while :; do :; done")
        assert result.signal in (signal.SIGXCPU, signal.SIGKILL)
        assert "limits.cpuSeconds" in (result.limit or ""), result


async def test_stopping_the_executor_ends_it(workspace: Path) -> None:
    before = harness.descendants()
    e = executor(False)
    await e.start()
    running = asyncio.create_task(e.run_command("echo x > begun; sleep 1001"))
    await wait_for(workspace / "begun")
    await e.stop()
    with pytest.raises(CoreError):
        await running
    new = harness.descendants() - before
    harness.wait_for_end(
        {pid for pid in new if "sleep" in harness.describe(pid)}, time.monotonic() + 60
    )
    assert not [pid for pid in new if "sleep" in harness.describe(pid)]


async def test_branches_and_undo(workspace: Path) -> None:
    """A branch has commands of its own, in the sandbox that it shares."""
    async with executor(undo=1) as e:
        await e.execute("x = 1")
        (branch,) = await e.fork()
        try:
            assert await shell(branch, "echo branch > file; cat file") == "branch\n"
            running = asyncio.create_task(e.run_command("echo x > begun; sleep 1001"))
            await wait_for(workspace / "begun")
            await e.undo()
            with pytest.raises(CoreError, match="restored"):
                await running
            assert await shell(e, "cat file") == "branch\n"
        finally:
            await branch.stop()
        assert await shell(e, "echo alone") == "alone\n"


async def test_staged_workspace(workspace: Path) -> None:
    (workspace / "file").write_text("old")
    async with executor(workspace_mode="staged") as e:
        await shell(e, "echo new > file; echo more > more")
        assert (workspace / "file").read_text() == "old"
        assert await e.read_file("file") == b"new\n"
        assert {change.path for change in (await e.changes()).changes} == {"file", "more"}
