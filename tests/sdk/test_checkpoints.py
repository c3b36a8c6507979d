# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and undo of `CodeExecutor`, without a sandbox and in one."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import harness
import pytest
import scripted_server
from core_kills import kill_core_at
from ipybox import (
    CodeExecutionError,
    CodeExecutionTimeout,
    CodeExecutor,
    generate_mcp_sources,
)
from ipybox.core import acquire_core
from ipybox.core.errors import InvalidError

# `make verify-long` does 1,000.
N_CYCLES = int(os.environ.get("IPYBOX_TEST_CYCLES", "20"))
WARM_UP_CYCLES = 10
# What allocators keep may differ by a little. 1,000 cycles that each left a page would be 4 MB.
MEMORY_SLACK_KB = 3000
ALIVE = "os.path.exists('/proc/{0}') and open('/proc/{0}/stat').read().split()[2] != 'Z'"

sandboxes = pytest.mark.parametrize("sandbox", [False, True], ids=["plain", "sandbox"])


async def text(executor: CodeExecutor, code: str) -> str:
    return (await executor.execute(code)).text or ""


async def stop(*executors: CodeExecutor) -> None:
    for executor in executors:
        await executor.stop()


# Checkpoints


@sandboxes
async def test_restore(sandbox: bool) -> None:
    """State, history, working directory and random numbers are back, as often as one likes."""
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("import os, random; x = [1]; random.seed(3); os.mkdir('d')")
        before = await executor.checkpoint("before")
        assert (before.name, before.warnings, before.is_lost) == ("before", [], False)
        seen = set()
        for number in range(3):
            assert await text(executor, "x, len(In), os.path.basename(os.getcwd()) == 'd'") == (
                "([1], 3, False)"
            )
            seen.add(await text(executor, "random.random()"))
            await executor.execute(f"x.append({number}); y = 1; os.chdir('d'); print('out')")
            assert await text(executor, "x") == f"[1, {number}]"
            await before.restore()
        assert len(seen) == 1
        assert await text(executor, "'y' in globals()") == "False"
        assert await text(executor, "!echo from a program") == "from a program"
        with pytest.raises(CodeExecutionError, match="ZeroDivisionError"):
            await executor.execute("1 / 0")
        with pytest.raises(TimeoutError):
            await executor.execute("import time; time.sleep(1000)", timeout=0.2)
        assert await text(executor, "x") == "[1]"


@sandboxes
async def test_output_after_a_restore(sandbox: bool) -> None:
    """Also of C, of programs, and of duplicates of the old descriptors."""
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("import os, sys, time; fd = os.dup(1)")
        before = await executor.checkpoint()
        await executor.execute("!echo pipes are replaced after this cell")
        await before.restore()
        code = "os.write(fd, b'a\\n'); print('b', flush=True)\n!echo c\nprint('d')"
        assert (await text(executor, code)).split() == ["a", "b", "c", "d"]
        assert await text(executor, "print('x' * 300000)") == "x" * 300000
        await executor.execute("import asyncio")
        assert await text(executor, "await asyncio.sleep(0.01); print('slept')") == "slept"


@sandboxes
async def test_branch(sandbox: bool) -> None:
    """Of a checkpoint, also while a cell runs; it outlives the executor."""
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        await executor.execute("x = 2")
        task = asyncio.ensure_future(executor.execute("import time; time.sleep(0.5); x"))
        await asyncio.sleep(0)
        left, right = await checkpoint.branch(2, seed=5)
        assert (await task).text == "2"
        assert await text(left, "x += 10; x") == "11"
        assert await text(right, "import random; x, random.random()") != await text(
            left, "import random; x, random.random()"
        )
        own = await left.checkpoint()
        await left.execute("x = 0")
        await own.restore()
        assert await text(left, "x") == "11"
        await executor.stop()
        assert await text(right, "x") == "1"
        with pytest.raises(RuntimeError):
            await checkpoint.restore()
        await stop(left, right)


@sandboxes
async def test_names_and_drop(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("x = bytearray(50_000_000)")
        first, second = await executor.checkpoint("a b"), await executor.checkpoint()
        assert second.name == "checkpoint-2"
        with pytest.raises(ValueError, match='there is a checkpoint "a b": drop it'):
            await executor.checkpoint("a b")
        for name in ("", "x" * 101, "a\nb"):
            with pytest.raises(ValueError, match="1 to 100 printable"):
                await executor.checkpoint(name)
        assert [each.name for each in await executor.checkpoints()] == ["a b", "checkpoint-2"]
        await second.drop()
        with pytest.raises(RuntimeError, match="no such checkpoint"):
            await second.drop()
        with pytest.raises(RuntimeError, match="no such checkpoint"):
            await second.restore()
        await executor.execute("for i in range(0, len(x), 4096): x[i] = 1")
        (left,) = await executor.checkpoints()
        assert left.private_bytes - first.private_bytes > 40_000_000
        await left.restore()
        assert await text(executor, "sum(x)") == "0"


@sandboxes
async def test_processes_end(sandbox: bool) -> None:
    """What cells have started since is killed, and what was started before, too."""
    async with CodeExecutor(sandbox=sandbox) as executor:
        start = "subprocess.Popen(['sleep', '1000'], start_new_session=True).pid"
        first = int(await text(executor, f"import os, subprocess\n{start}"))
        checkpoint = await executor.checkpoint()
        assert checkpoint.warnings == [
            "child processes belong to the forerunner: the branch cannot wait for them"
        ]
        second = int(await text(executor, start))
        await checkpoint.restore()
        deadline = time.monotonic() + harness.GRACE_SECONDS
        for pid in (first, second):
            while await text(executor, ALIVE.format(pid)) == "True":
                assert time.monotonic() < deadline


@sandboxes
async def test_reset_drops_checkpoints(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox, undo=3) as executor:
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        await executor.reset()
        assert await executor.checkpoints() == []
        with pytest.raises(RuntimeError, match="the session was reset"):
            await checkpoint.restore()
        with pytest.raises(ValueError, match="0 cells can be undone"):
            await executor.undo()
        result = await executor.execute("'x' in globals()")
        assert result.text == "False"
        assert result.notices == ["[ipybox] the reset has dropped 1 checkpoints"]


@sandboxes
async def test_restore_after_the_kernel_died(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        for _ in range(2):
            with pytest.raises(CodeExecutionError, match="exit status 3"):
                await executor.execute("import os; os._exit(3)")
            await checkpoint.restore()
            assert await text(executor, "x") == "1"
        with pytest.raises(CodeExecutionError, match="exit status 3"):
            await executor.execute("import os; os._exit(3)")
        assert await text(executor, "'x' in globals()") == "False"  # a fresh kernel
        await checkpoint.restore()
        assert await text(executor, "x") == "1"


async def test_lost_checkpoint() -> None:
    async with CodeExecutor() as executor:
        before = set(harness.descendants())
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        (parked,) = set(harness.descendants()) - before
        os.kill(parked, signal.SIGKILL)
        deadline = time.monotonic() + harness.GRACE_SECONDS
        while not (await executor.checkpoints())[0].is_lost:
            assert time.monotonic() < deadline
        with pytest.raises(RuntimeError, match="the checkpoint is lost: .*SIGKILL"):
            await checkpoint.restore()
        assert await text(executor, "x") == "1"
        await checkpoint.drop()


@sandboxes
async def test_refusals(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        await executor.execute(
            "import threading; end = threading.Event()\n"
            "thread = threading.Thread(target=end.wait, name='worker'); thread.start()"
        )
        with pytest.raises(RuntimeError, match="the thread worker runs: join it first"):
            await executor.checkpoint()
        task = asyncio.ensure_future(executor.execute("import time; time.sleep(0.5); 'done'"))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="between cells only"):
            await executor.checkpoint()
        with pytest.raises(RuntimeError, match="between cells only"):
            await checkpoint.restore()
        assert (await task).text == "'done'"
        await checkpoint.restore()  # ends the thread
        assert await text(executor, "'end' in globals()") == "False"
    with pytest.raises(RuntimeError, match="Not connected"):
        await executor.checkpoint()


async def test_waiting_cells_stay() -> None:
    """Cells that are given while a checkpoint is made or restored run afterwards, in order."""
    async with CodeExecutor() as executor:
        await executor.execute("x = [0]")
        checkpoint = await executor.checkpoint()
        await executor.execute("x.append(99)")
        restored = asyncio.ensure_future(checkpoint.restore())
        await asyncio.sleep(0)
        results = await asyncio.gather(*(executor.execute(f"x.append({i}); x") for i in (1, 2)))
        await restored
        assert [each.text for each in results] == ["[0, 1]", "[0, 1, 2]"]


async def test_recorded_session(workspace: Path) -> None:
    async with CodeExecutor(record=workspace / "r.jsonl") as executor:
        await executor.execute("1")
        with pytest.raises(InvalidError, match="has no way back"):
            await executor.checkpoint()
        with pytest.raises(CodeExecutionError) as failed:
            await executor.execute("1 / 0", undo_on_error=True)
        assert not failed.value.is_undone
        assert any("cannot be undone: a session that is rec" in n for n in failed.value.notices)
    with pytest.raises(ValueError, match="recorded"):
        CodeExecutor(record=workspace / "r.jsonl", undo=1)


@sandboxes
async def test_tools(sandbox: bool) -> None:
    """A restored kernel calls tools as before, also in a branch and after a fork."""
    await generate_mcp_sources("work", scripted_server.params("work"), Path("mcptools"))
    code = "from mcptools.work import add\nadd.run(add.Params(a=1, b=2)).sum"
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        assert await text(executor, code) == "3"
        await checkpoint.restore()
        assert await text(executor, code) == "3"
        (fork,), (branch,) = await executor.fork(), await checkpoint.branch()
        for each in (executor, fork, branch):
            assert await text(each, code) == "3"
        await checkpoint.restore()
        assert await text(executor, code) == "3"
        with pytest.raises(CodeExecutionError):
            await executor.execute("import os; os._exit(3)")
        assert await text(executor, code) == "3"
        await checkpoint.restore()
        assert await text(executor, code) == "3"
        await stop(fork, branch)


@sandboxes
async def test_exit_handlers(sandbox: bool) -> None:
    """A kernel that is replaced runs none, and the one that took its place does."""
    async with CodeExecutor(sandbox=sandbox) as executor:
        await executor.execute(
            "import atexit\natexit.register(lambda: print(len(In), file=open('end.txt', 'a')))"
        )
        checkpoint = await executor.checkpoint()
        await executor.execute("1")
        await checkpoint.restore()
        (branch,) = await checkpoint.branch()
        await branch.stop()
        assert not Path("end.txt").exists()
    assert Path("end.txt").read_text() == "2\n"


async def test_restores_spend_no_levels_in_a_sandbox() -> None:
    async with CodeExecutor(sandbox=True) as executor:
        await executor.execute("n = 0")
        for _ in range(20):
            checkpoint = await executor.checkpoint()
            await executor.execute("n += 1")
            await checkpoint.restore()
            await checkpoint.drop()
        chain = [executor]
        for _ in range(15):
            chain.extend(await chain[-1].fork())
        deepest = await chain[-1].checkpoint()
        await deepest.restore()
        assert await text(chain[-1], "n") == "0"
        with pytest.raises(RuntimeError, match="branches can be 15 deep"):
            await deepest.branch()
        await stop(*chain[1:])


async def test_walls_around_checkpoints() -> None:
    """A branch reaches no checkpoint of its forerunner, and the forerunner reaches its own."""
    find = (
        "import os\n"
        "def parent(pid):\n"
        "    return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
        "[pid for pid in map(int, filter(str.isdigit, os.listdir('/proc')))"
        " if pid not in (1, os.getpid()) and parent(pid) == 1]"
    )
    signal_it = "os.kill({0}, 0)"
    async with CodeExecutor(sandbox=True) as executor:
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        (parked,) = eval(await text(executor, find))
        await executor.execute(signal_it.format(parked))
        (branch,) = await checkpoint.branch()
        await branch.execute("import os, ctypes")
        if has_signal_scope():
            with pytest.raises(CodeExecutionError, match="PermissionError"):
                await branch.execute(signal_it.format(parked))
        trace = f"ctypes.CDLL(None).ptrace(16, {parked}, 0, 0)"
        assert await text(branch, trace) == "-1"
        await branch.stop()


def has_signal_scope() -> bool:
    """Landlock limits signals from Linux 6.12 on."""
    return tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 12)


async def test_limit_of_processes() -> None:
    """Parked copies count against the limits of their sandbox, and what fails leaves nothing."""
    async with CodeExecutor(sandbox=True, limits={"processes": 8}) as executor:
        await executor.execute("x = 1")
        made = []
        with pytest.raises(RuntimeError, match="the limit of processes is reached"):
            for _ in range(9):
                made.append(await executor.checkpoint())
        assert 3 <= len(made) <= 8
        assert len(await executor.checkpoints()) == len(made)
        with pytest.raises(RuntimeError, match="the limit of processes"):
            await made[0].restore()
        assert await text(executor, "x") == "1"
        for checkpoint in made[1:]:
            await checkpoint.drop()
        deadline = time.monotonic() + harness.GRACE_SECONDS
        while True:  # what was dropped counts until it is reaped
            try:
                await made[0].restore()
                break
            except RuntimeError as error:
                assert "the limit of processes" in str(error)
                assert time.monotonic() < deadline
        assert await text(executor, "x") == "1"


async def test_too_many() -> None:
    """The error says what to drop, and undo does not take the place of a named one."""
    async with CodeExecutor(undo=1) as executor:
        await executor.execute("x = bytearray(20_000_000)")
        large = await executor.checkpoint("large")
        await executor.execute("for i in range(0, len(x), 4096): x[i] = 1")
        for _ in range(99):
            await executor.checkpoint()
        with pytest.raises(RuntimeError) as refused:
            await executor.checkpoint()
        assert (
            "the session has 100 checkpoints already: drop one; the largest of this session is "
            in (str(refused.value))
        )
        assert '"large" with ' in str(refused.value)
        (notice,) = (await executor.execute("y = 1")).notices
        assert "this cell cannot be undone: the session has 100 checkpoints" in notice
        await large.drop()
        assert (await executor.execute("y = 2")).notices == []
        await executor.undo()
        assert await text(executor, "y") == "1"
        assert len(await executor.checkpoints()) == 99


# Undo


@sandboxes
async def test_undo(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox, undo=3) as executor:
        await executor.execute("x = []")
        for number in range(5):
            await executor.execute(f"x.append({number})")
        await executor.undo()
        assert await text(executor, "x") == "[0, 1, 2, 3]"
        await executor.undo(2)  # this cell, and the one before those that are undone
        assert await text(executor, "x") == "[0, 1, 2]"
        with pytest.raises(ValueError, match="2 cells can be undone now, not 3"):
            await executor.undo(3)
        for n in (0, 101):
            with pytest.raises(ValueError, match="n must be from 1 to 100"):
                await executor.undo(n)
    async with CodeExecutor() as executor:
        await executor.execute("1")
        with pytest.raises(ValueError, match="without the option undo"):
            await executor.undo()


@sandboxes
async def test_undo_of_a_cell_that_killed_the_kernel(sandbox: bool) -> None:
    async with CodeExecutor(sandbox=sandbox, undo=2) as executor:
        await executor.execute("x = 1")
        with pytest.raises(CodeExecutionError, match="exit status 3"):
            await executor.execute("x = 2; import os; os._exit(3)")
        await executor.undo()
        assert await text(executor, "x") == "1"


async def test_cell_that_cannot_be_undone() -> None:
    async with CodeExecutor(undo=5) as executor:
        await executor.execute("import threading; end = threading.Event(); x = 1")
        await executor.execute(
            "thread = threading.Thread(target=end.wait, name='worker'); thread.start()"
        )
        result = await executor.execute("x = 2; end.set(); thread.join(); x")
        assert result.text == "2"
        (notice,) = result.notices
        assert "this cell cannot be undone: " in notice
        assert "the thread worker runs" in notice
        await executor.execute("x = 3")
        await executor.undo(2)
        assert await text(executor, "x, 'thread' in globals()") == "(1, False)"


async def test_restore_and_undo() -> None:
    """After a restore, the cells before cannot be undone; named checkpoints stay."""
    async with CodeExecutor(undo=5) as executor:
        await executor.execute("x = 1")
        checkpoint = await executor.checkpoint()
        await executor.execute("x = 2")
        await checkpoint.restore()
        with pytest.raises(ValueError, match="0 cells can be undone now, not 1"):
            await executor.undo()
        await executor.execute("x = 3")
        await executor.undo()
        assert await text(executor, "x") == "1"
        assert [each.name for each in await executor.checkpoints()] == [checkpoint.name]


@sandboxes
@pytest.mark.parametrize("undo", [0, 2])
async def test_undo_on_error(sandbox: bool, undo: int) -> None:
    async with CodeExecutor(sandbox=sandbox, undo=undo) as executor:
        await executor.execute("x = 1")
        with pytest.raises(CodeExecutionError, match="ZeroDivisionError") as failed:
            await executor.execute("x = 2; print('out'); 1 / 0", undo_on_error=True)
        assert failed.value.is_undone
        assert failed.value.output == "out"
        assert any("the cell failed and was undone" in each for each in failed.value.notices)
        assert await text(executor, "x") == "1"
        with pytest.raises(CodeExecutionTimeout) as late:
            await executor.execute("x = 3\nwhile True: pass", timeout=0.3, undo_on_error=True)
        assert late.value.is_undone
        with pytest.raises(CodeExecutionError, match="exit status 3") as died:
            await executor.execute("x = 4; import os; os._exit(3)", undo_on_error=True)
        assert died.value.is_undone
        result = await executor.execute("x += 10; x", undo_on_error=True)
        assert (result.text, result.notices) == ("11", [])
        with pytest.raises(CodeExecutionError) as kept:
            await executor.execute("x = 5; 1 / 0")
        assert not kept.value.is_undone
        assert await text(executor, "x") == "5"
        task = asyncio.ensure_future(executor.execute("x = 6; 1 / 0", undo_on_error=True))
        after = asyncio.ensure_future(executor.execute("x"))
        with pytest.raises(CodeExecutionError):
            await task
        assert (await after).text == "5"


# What is left


def core_state(core: int, root: Path, layers: Path) -> tuple[int, ...]:
    """The numbers of descriptors, processes, mounts, and files of layers."""
    return (
        len(os.listdir(f"/proc/{core}/fd")),
        len(harness.descendants()),
        harness.own_mounts([core], root),
        len(list(layers.rglob("*"))) if layers.exists() else 0,
    )


def memory_kb(core: int) -> int:
    """Private memory of the core."""
    rollup = Path(f"/proc/{core}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))


async def cycle(executor: CodeExecutor, n: int) -> None:
    for _ in range(n):
        checkpoint = await executor.checkpoint()
        await executor.execute("x += 1; open('n', 'w').write(str(x))")
        await checkpoint.restore()
        await checkpoint.drop()


@pytest.mark.timeout(300 + N_CYCLES)
@pytest.mark.parametrize("mode", ["plain", "sandbox", "staged"])
async def test_cycles_leave_nothing(mode: str, home: harness.Place) -> None:
    """Processes, descriptors, memory, mounts and layers stay as they were."""
    layers = Path(home.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    options = {"workspace_mode": "staged"} if mode == "staged" else {}
    executor = CodeExecutor(sandbox=mode != "plain", **options)  # type: ignore[arg-type]
    async with executor:
        await executor.execute("x = 0; open('n', 'w').write('0')")
        kept = await executor.checkpoint()
        await cycle(executor, WARM_UP_CYCLES)
        core = acquire_core()

        async def settled(at_most: tuple[int, ...] | None) -> tuple[int, ...]:
            deadline = time.monotonic() + harness.GRACE_SECONDS
            last: tuple[int, ...] = ()
            while True:
                now = core_state(core.pid, home.root, layers)
                is_low = at_most is None or all(
                    new <= old for new, old in zip(now, at_most, strict=True)
                )
                if now == last and is_low:
                    return now
                assert time.monotonic() < deadline, (now, at_most)
                last = now
                await asyncio.sleep(0.05)

        before, memory = await settled(None), memory_kb(core.pid)
        await cycle(executor, N_CYCLES)
        await settled(before)
        assert memory_kb(core.pid) < memory + MEMORY_SLACK_KB
        core.release()
        await kept.restore()
        assert await text(executor, "x") == "0"


PROGRAM = """
import asyncio, sys
from ipybox import CodeExecutor
from ipybox.core import acquire_core

async def main():
    executor = CodeExecutor(sandbox=SANDBOX, undo=2)
    await executor.start()
    await executor.execute("x = bytearray(50_000_000)")
    print(acquire_core().pid, flush=True)
    while True:
        checkpoint = await executor.checkpoint()
        await executor.execute("x[:] = bytes(len(x))")
        await checkpoint.restore()
        await executor.execute("1")
        await executor.undo()
        await checkpoint.drop()

asyncio.run(main())
"""


@sandboxes
def test_kill_during_checkpoints(sandbox: bool) -> None:
    """The core is killed at a moment that differs each time; nothing may be left."""
    kill_core_at((0.0, 0.03, 0.06, 0.1, 0.15, 0.2), PROGRAM.replace("SANDBOX", str(sandbox)))
