# SPDX-License-Identifier: Apache-2.0
"""`CodeExecutor.fork`, without a sandbox and in one: state, tools, ends, refusals, what is left."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import harness
import pytest
import scripted_server
from core_kills import kill_core_at
from ipybox import (
    ApprovalRequest,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    generate_mcp_sources,
)
from ipybox.core import acquire_core
from ipybox.core.errors import InvalidError
from meeting import until

# `make verify-long` does 1,000.
N_CYCLES = int(os.environ.get("IPYBOX_TEST_CYCLES", "20"))
WARM_UP_CYCLES = 10
# What allocators keep may differ by a little. 1,000 branches that each left a page would be 4 MB.
MEMORY_SLACK_KB = 3000

TOKEN = "__import__('os').environ.get('IPYBOX_TOOL_TOKEN')"
PROBE = """
import os
def tries(pid):
    found = []
    try:
        os.kill(pid, 0)
        found.append("signalled")
    except ProcessLookupError:
        found.append("gone")
    except OSError:
        pass
    for name in ("environ", "maps", "mem", "fd/1", "root", "cwd"):
        path = f"/proc/{pid}/{name}"
        try:
            os.readlink(path) if name in ("fd/1", "root", "cwd") else open(path, "rb").close()
            found.append(name)
        except OSError:
            pass
    return found
os.getpid()
"""
# What a process cannot do even if the descriptor can be opened.
READ_MEMORY = """
import ctypes
def reads(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.ptrace(16, pid, 0, 0), libc.syscall(310, pid, 0, 0, 0, 0, 0)
"""

sandboxes = pytest.mark.parametrize("sandbox", [False, True], ids=["plain", "sandbox"])


async def text(executor: CodeExecutor, code: str) -> str:
    return (await executor.execute(code)).text or ""


async def stop(*executors: CodeExecutor) -> None:
    for executor in executors:
        await executor.stop()


def has_signal_scope() -> bool:
    """Landlock limits signals from Linux 6.12 on."""
    return tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 12)


# State


@sandboxes
async def test_state(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("import random; x = [1]; random.seed(3)")
        left, right = await executor.fork(2)
        assert left.warnings == right.warnings == []
        assert await text(left, "x.append('left'); x") == "[1, 'left']"
        assert await text(right, "x") == await text(executor, "x") == "[1]"
        numbers = [await text(each, "random.random()") for each in (executor, left, right)]
        assert len(set(numbers)) == 1
        (deep,) = await left.fork()
        await left.stop()
        assert await text(deep, "x, len(In)") == "([1, 'left'], 5)"
        await stop(deep, right)


async def test_seeds() -> None:
    async with CodeExecutor() as executor:
        await executor.execute("import random")
        branches = await executor.fork(3, seed=10)
        numbers = [await text(each, "random.random()") for each in branches]
        seeded = "random.Random({}).random()"
        expected = [await text(executor, seeded.format(seed)) for seed in (10, 11, 12)]
        assert numbers == expected
        await stop(*branches)
        for arguments in ({"n": 0}, {"n": 1001}, {"seed": -1}, {"seed": 2**32}):
            with pytest.raises(ValueError, match="must be from"):
                await executor.fork(**arguments)


@sandboxes
async def test_shared_files(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("open('a.txt', 'w').write('x')")
        (branch,) = await executor.fork()
        await branch.execute("open('a.txt', 'a').write('y')")
        assert await text(executor, "open('a.txt').read()") == "'xy'"
        await branch.stop()


@sandboxes
async def test_errors_and_output_of_a_branch(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("def fail(): 1 / 0")
        (branch,) = await executor.fork()
        with pytest.raises(CodeExecutionError, match="ZeroDivisionError"):
            await branch.execute("fail()")
        assert await text(branch, "!echo from a program") == "from a program"
        with pytest.raises(TimeoutError):
            await branch.execute("import time; time.sleep(1000)", timeout=0.2)
        assert await text(branch, "'still here'") == "'still here'"
        with pytest.raises(CodeExecutionError, match="exit status 3"):
            await branch.execute("import os; os._exit(3)")
        assert await text(branch, "'fail' in globals()") == "False"
        assert await text(executor, "'fail' in globals()") == "True"
        await branch.stop()


@sandboxes
async def test_reset(sandbox: bool) -> None:
    """A reset gives a fresh kernel, in a sandbox of its own; the other kernel keeps its state."""
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("x = 1; open('/tmp/' + 'mark', 'w').write('x')")
        (branch,) = await executor.fork()
        await branch.reset()
        assert await text(branch, "'x' in globals()") == "False"
        await executor.reset()
        assert await text(executor, "'x' in globals()") == "False"
        if sandbox:
            assert await text(branch, "import os; os.path.exists('/tmp/mark')") == "False"
        else:
            Path("/tmp/mark").unlink()
        await branch.stop()


# Tools


@sandboxes
async def test_tools_and_approvals(sandbox: bool) -> None:
    """Each calls with its own token, is asked on its own, and works when the other has ended."""
    await generate_mcp_sources("work", scripted_server.params("work"), Path("mcptools"))
    code = "from mcptools.work import add\nadd.run(add.Params(a=1, b=2)).sum"
    async with CodeExecutor(sandbox=sandbox) as executor:
        assert await text(executor, code) == "3"
        (branch,) = await executor.fork()
        tokens = {await text(each, TOKEN) for each in (executor, branch)}
        assert len(tokens) == 2
        for each in (branch, executor):
            asked = []
            async for item in each.stream(code):
                if isinstance(item, ApprovalRequest):
                    asked.append(item.tool_name)
                    await item.accept()
                elif isinstance(item, CodeExecutionResult):
                    assert item.text == "3"
            assert asked == ["add"]
        await executor.stop()
        assert await text(branch, code) == "3"
        (second,) = await branch.fork()
        await branch.stop()
        assert await text(second, code) == "3"
        await second.stop()


async def test_calls_without_a_token_in_a_sandbox() -> None:
    await generate_mcp_sources("work", scripted_server.params("work"), Path("mcptools"))
    code = (
        "import os; from mcptools.work import add\n"
        "token = os.environ.pop('IPYBOX_TOOL_TOKEN', '')\n"
        "try:\n    print(add.run(add.Params(a=1, b=2)).sum)\n"
        "finally:\n    os.environ['IPYBOX_TOOL_TOKEN'] = token"
    )
    async with CodeExecutor(sandbox=True) as executor:
        assert await text(executor, code) == "3"
        (branch,) = await executor.fork()
        for each in (branch, executor):
            with pytest.raises(CodeExecutionError, match="since the session was forked"):
                await each.execute(code)
        await branch.stop()


async def test_call_under_way() -> None:
    """A task in the background waits for an approval."""
    await generate_mcp_sources("work", scripted_server.params("work"), Path("mcptools"), True)
    async with CodeExecutor(sandbox=False) as executor:
        items = executor.stream(
            "import asyncio; from mcptools.work import add\n"
            "task = asyncio.ensure_future(add.run(add.Params(a=1, b=2)))\nawait asyncio.sleep(1000)"
        )
        request = await anext(items)
        assert isinstance(request, ApprovalRequest)
        with pytest.raises(RuntimeError, match="between cells only"):
            await executor.fork()
        await items.aclose()
        await executor.execute("task.cancel()")
        (branch,) = await executor.fork()
        assert await text(branch, "task.done()") == "True"
        await branch.stop()


# Walls


async def test_walls_between_branches() -> None:
    """A branch can neither signal nor read its forerunner or another branch."""
    async with CodeExecutor(sandbox=True) as executor:
        await executor.execute("x = 1")
        branches = await executor.fork(2)
        kernels = [executor, *branches]
        pids = [int(await text(each, PROBE)) for each in kernels]
        for i, each in enumerate(kernels):
            await each.execute(READ_MEMORY)
            others = [pid for pid in pids if pid != pids[i]]
            for pid in others:
                found = set((await text(each, f"print(*tries({pid}))")).split())
                # A kernel reaches its own branches. Memory and environment are closed to all.
                allowed = {"signalled", "fd/1", "root", "cwd"} if each is executor else set()
                if not has_signal_scope():
                    allowed.add("signalled")
                assert found <= allowed, (i, pid, found)
                assert await text(each, f"reads({pid})") == "(-1, -1)"
        # What can be reached at all: itself, and its branches.
        found = set((await text(executor, f"print(*tries({pids[1]}))")).split())
        assert {"signalled", "fd/1"} <= found
        assert "signalled" in await text(branches[0], f"tries({pids[1]})")
        (deep,) = await branches[0].fork()
        await deep.execute(PROBE)
        for pid in pids:
            found = set((await text(deep, f"print(*tries({pid}))")).split())
            assert found <= (set() if has_signal_scope() else {"signalled"})
        await stop(deep, *branches)


async def test_depth_in_a_sandbox() -> None:
    async with CodeExecutor(sandbox=True) as executor:
        chain = [executor]
        await executor.execute("depth = 0")
        for _ in range(15):
            chain.extend(await chain[-1].fork())
            await chain[-1].execute("depth += 1")
        assert await text(chain[-1], "depth") == "15"
        with pytest.raises(RuntimeError, match="branches can be 15 deep"):
            await chain[-1].fork()
        (sibling,) = await chain[-2].fork()
        assert await text(sibling, "depth") == "14"
        await stop(sibling, *chain[1:])


async def test_names_are_judged_in_branches() -> None:
    async with CodeExecutor(sandbox=True) as executor:
        await executor.execute("import os")
        (branch,) = await executor.fork()
        await executor.stop()
        with pytest.raises(CodeExecutionError, match="Permission denied"):
            await branch.execute("os.makedirs('.git/hooks'); open('.git/hooks/pre-commit', 'w')")
        with pytest.raises(CodeExecutionError, match="Read-only|Permission"):
            await branch.execute("open('/usr/x', 'w')")
        await branch.stop()


async def test_processes_end_with_their_kernel_in_a_sandbox() -> None:
    async with CodeExecutor(sandbox=True) as executor:
        await executor.execute("import os, subprocess")
        branches = await executor.fork(2)
        code = "subprocess.Popen(['sleep', '1000'], start_new_session=True).pid"
        child = int(await text(branches[0], code))
        kept = int(await text(executor, code))
        alive = "os.path.exists('/proc/{0}') and open('/proc/{0}/stat').read().split()[2] != 'Z'"
        assert await text(branches[1], alive.format(child)) == "True"
        await branches[0].stop()
        assert await text(branches[1], alive.format(child)) == "False"
        assert await text(branches[1], alive.format(kept)) == "True"
        await executor.stop()
        assert await text(branches[1], alive.format(kept)) == "False"
        await branches[1].stop()


# Refusals


@sandboxes
async def test_refusals(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute(
            "import threading; end = threading.Event()\n"
            "thread = threading.Thread(target=end.wait, name='worker'); thread.start()"
        )
        with pytest.raises(RuntimeError, match="the thread worker runs: join it first"):
            await executor.fork(3)
        await executor.execute("end.set(); thread.join()")
        task = asyncio.ensure_future(executor.execute("import time; time.sleep(0.5); 'done'"))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="between cells only"):
            await executor.fork()
        assert (await task).text == "'done'"
        (branch,) = await executor.fork()
        await branch.stop()
    with pytest.raises(RuntimeError, match="Not connected"):
        await executor.fork()


async def test_limit_of_processes() -> None:
    """Branches count against the limits of their sandbox together."""
    async with CodeExecutor(sandbox=True, limits={"processes": 8}) as executor:
        await executor.execute("x = 1")
        branches: list[CodeExecutor] = []
        with pytest.raises(RuntimeError, match="the limit of processes is reached"):
            for _ in range(9):
                branches.extend(await executor.fork())
        assert 3 <= len(branches) <= 8
        for each in (executor, *branches):
            assert await text(each, "x") == "1"
        await branches.pop().stop()
        branches.extend(await executor.fork())
        await stop(*branches)


async def test_recorded_session(workspace: Path) -> None:
    async with CodeExecutor(record=workspace / "r.jsonl") as executor:
        await executor.execute("1")
        with pytest.raises(InvalidError, match="a record is of one session"):
            await executor.fork()


# What is left


def state_of(core: int, root: Path) -> dict[str, int]:
    """The numbers of processes, descriptors and mounts of the core and all below it.

    @root: the directory of all its files.
    """
    pids = [core, *(pid for pid in harness.descendants() if pid != core)]
    return {
        "processes": len(pids),
        "descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        "mounts": harness.own_mounts(pids, root),
    }


def memory_kb(core: int) -> int:
    """What is private to the core and all below it."""
    total = 0
    for pid in {core, *harness.descendants()}:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += sum(
            int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_Dirty")
        )
    return total


def is_at_most(core: int, root: Path, before: dict[str, int]) -> bool:
    try:
        now = state_of(core, root)
    except OSError:
        return False  # a process has just ended
    return all(now[name] <= before[name] for name in before)


@sandboxes
async def test_cycles_leave_nothing(sandbox: bool, home: harness.Place) -> None:
    """No process, descriptor, mount or memory is left; the fixture looks for processes, too."""
    async with CodeExecutor(sandbox=sandbox) as executor:
        core = acquire_core()
        await executor.execute("x = list(range(1000))")

        async def cycle(n: int) -> None:
            for _ in range(n):
                (branch,) = await executor.fork()
                await branch.stop()

        before = state_of(core.pid, home.root)
        await cycle(WARM_UP_CYCLES)
        # The last branch may not have gone quite yet.
        await until(lambda: is_at_most(core.pid, home.root, before))
        memory = memory_kb(core.pid)
        await cycle(N_CYCLES)
        await until(lambda: is_at_most(core.pid, home.root, before))
        assert memory_kb(core.pid) < memory + MEMORY_SLACK_KB
        core.release()
        assert await text(executor, "len(x)") == "1000"


PROGRAM = """
import asyncio, sys
from ipybox import CodeExecutor
from ipybox.core import acquire_core

async def main():
    executor = CodeExecutor(sandbox=SANDBOX)
    await executor.start()
    await executor.execute("x = bytearray(50_000_000)")
    print(acquire_core().pid, flush=True)
    while True:
        branches = await executor.fork(3)
        for branch in branches:
            await branch.stop()

asyncio.run(main())
"""


@sandboxes
def test_kill_during_forks(sandbox: bool) -> None:
    """The core is killed at a moment that differs each time; nothing may be left."""
    kill_core_at((0.0, 0.05, 0.1, 0.2), PROGRAM.replace("SANDBOX", str(sandbox)))
