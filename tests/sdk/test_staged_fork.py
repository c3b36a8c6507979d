# SPDX-License-Identifier: Apache-2.0
"""Branches of a staged session: all of them work in one layer, in one sandbox."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import harness
import pytest
from ipybox import CodeExecutionError, CodeExecutor
from ipybox.core import CoreError, acquire_core


def staged(**options: object) -> CodeExecutor:
    return CodeExecutor(sandbox=True, workspace_mode="staged", **options)  # type: ignore[arg-type]


async def text(executor: CodeExecutor, code: str) -> str:
    return (await executor.execute(code)).text or ""


async def paths(executor: CodeExecutor) -> list[str]:
    return sorted(change.path for change in (await executor.changes()).changes)


async def stop(*executors: CodeExecutor) -> None:
    for executor in executors:
        await executor.stop()


def layers(home: harness.Place) -> set[Path]:
    place = Path(home.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    return set(place.iterdir()) if place.exists() else set()


# Which sandbox, and which overlay.
WHERE = """
import os
print(os.readlink("/proc/self/ns/mnt"), os.stat(".").st_dev, end="")"""
# Cells that run at the same time wait for each other's files.
WAIT = """
import os
def wait(path):
    while not os.path.exists(path):
        os.sched_yield()
"""


async def test_one_layer(workspace: Path, home: harness.Place) -> None:
    before = layers(home)
    async with staged() as executor:
        await executor.execute("x = 1; open('a', 'w').write('a')")
        left, right = await executor.fork(2)
        for branch in (left, right):
            assert "files are shared: what each of the sessions writes" in branch.warnings[0]
        assert len(layers(home) - before) == 1
        assert len({await text(each, WHERE) for each in (executor, left, right)}) == 1
        await left.execute("x = 2; open('b', 'w').write('b')")
        assert await text(right, "x, open('a').read(), open('b').read()") == "(1, 'a', 'b')"
        for each in (executor, left, right):
            assert await paths(each) == ["a", "b"]
        await right.commit(["a"])
        assert os.listdir(workspace) == ["a"]
        assert await paths(executor) == ["b"]
        await left.discard()
        for each in (executor, left, right):
            assert await text(each, "import os; os.listdir('.')") == "['a']"
        await stop(left, right)
    assert layers(home) == before


async def test_layer_ends_with_the_last_session(workspace: Path, home: harness.Place) -> None:
    before = layers(home)
    executor = staged()
    await executor.start()
    await executor.execute("open('a', 'w').write('a')")
    (branch,) = await executor.fork()
    (second,) = await branch.fork()
    await stop(executor, second)
    assert len(layers(home) - before) == 1
    assert await text(branch, "open('a').read()") == "'a'"
    assert await paths(branch) == ["a"]
    await branch.commit()
    await branch.stop()
    assert (workspace / "a").read_text() == "a"
    assert layers(home) == before


async def test_files_of_their_own(workspace: Path) -> None:
    async with staged() as executor, CodeExecutor() as live:
        await executor.execute("1")
        checkpoint = await executor.checkpoint()
        for each in (executor, live, checkpoint):
            fork = each.branch if each is checkpoint else each.fork  # type: ignore[union-attr]
            with pytest.raises(RuntimeError, match="right to enter another mount namespace"):
                await fork(files="own")
            with pytest.raises(RuntimeError, match='only "shared" is possible'):
                await fork(files="copied")
        (branch,) = await executor.fork(files="shared")
        await branch.stop()


async def test_fresh_kernels(workspace: Path) -> None:
    """After a reset or a death, a kernel enters the sandbox in which the others live."""
    async with staged(undo=2) as executor:
        await executor.execute("x = 1; open('a', 'w').write('a')")
        (branch,) = await executor.fork()
        where = await text(executor, WHERE)
        seen = f"{WHERE}\nprint('x' in globals(), open('a').read())"
        await executor.reset()
        assert await text(executor, seen) == f"{where}False a"
        await branch.reset()
        assert await text(branch, seen) == f"{where}False a"
        with pytest.raises(CodeExecutionError, match="exit status 3"):
            await branch.execute("open('b', 'w').write('b'); os._exit(3)")
        result = await branch.execute(seen)
        assert (result.text, result.notices) == (f"{where}False a", [])
        assert await paths(executor) == ["a", "b"]
        # The walls of the two are apart, as those of any two sandboxes.
        pid = await text(executor, "os.getpid()")
        signalled = f"""
try:
    open("/proc/{pid}/environ").read()
    print("read")
except OSError as error:
    print(error.strerror)"""
        assert await text(branch, signalled) == "Permission denied"
        await branch.stop()
        await executor.discard()


async def test_all_kernels_died(workspace: Path) -> None:
    """Then there is one new sandbox for all."""
    async with staged() as executor:
        await executor.execute("open('a', 'w').write('a')")
        branches = await executor.fork(3)
        everyone = [executor, *branches]

        async def die(each: CodeExecutor) -> None:
            with pytest.raises(CodeExecutionError, match="SIGKILL"):
                await each.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

        for _ in range(3):
            await executor.execute("open('/tmp/old', 'w').close()")
            await asyncio.gather(*(die(each) for each in everyone))
            places = await asyncio.gather(*(text(each, WHERE) for each in everyone))
            assert len(set(places)) == 1
            assert await text(executor, "os.path.exists('/tmp/old')") == "False"
            for each in everyone:
                assert await text(each, "open('a').read()") == "'a'"
        await stop(*branches)
        await executor.discard()


async def test_restore_while_files_are_shared(workspace: Path) -> None:
    async with staged(undo=3) as executor:
        await executor.execute("x = 1; open('a', 'w').write('1')")
        checkpoint = await executor.checkpoint()
        await executor.execute("x = 2; open('a', 'w').write('2')")
        (branch,) = await executor.fork()
        with pytest.raises(RuntimeError, match="1 other session shares the files of this one"):
            await checkpoint.restore()
        with pytest.raises(RuntimeError, match="restore without files"):
            await executor.undo()
        seen = "x, open('a').read()"
        assert await text(executor, seen) == "(2, '2')"
        await checkpoint.restore(files=False)
        assert await text(executor, seen) == "(1, '2')"
        await executor.execute("x = 3")
        await executor.undo(files=False)
        assert await text(executor, seen) == "(1, '2')"
        # A checkpoint that was made while they are shared has the files, too.
        later = await executor.checkpoint()
        await branch.execute("x = 5; open('a', 'w').write('5')")
        with pytest.raises(CodeExecutionError) as failed:
            await branch.execute("x = 6; open('a', 'w').write('6'); 1 / 0", undo_on_error=True)
        assert failed.value.is_undone
        (notice,) = failed.value.notices
        assert "was undone, but not in files" in notice and "1 other session shares" in notice
        assert await text(branch, seen) == "(5, '6')"
        await branch.stop()
        await checkpoint.restore()
        assert await text(executor, seen) == "(1, '1')"
        await later.restore()
        assert await text(executor, seen) == "(1, '2')"
        await executor.execute("x = 7; open('a', 'w').write('7')")
        await executor.undo()
        assert await text(executor, seen) == "(1, '2')"
        await executor.discard()


async def test_restore_after_a_death(workspace: Path) -> None:
    """The checkpoints of a session outlive its kernel, and are in the sandbox of the others."""
    async with staged() as executor:
        await executor.execute("x = 1; open('a', 'w').write('1')")
        checkpoint = await executor.checkpoint()
        (branch,) = await executor.fork()
        where = await text(branch, WHERE)
        with pytest.raises(CodeExecutionError, match="exit status 3"):
            await executor.execute("open('a', 'w').write('2'); import os; os._exit(3)")
        assert await text(executor, "'x' in globals(), open('a').read()") == "(False, '2')"
        await branch.stop()
        await checkpoint.restore()
        assert await text(executor, "x, open('a').read()") == "(1, '1')"
        assert await text(executor, WHERE) == where
        await executor.discard()


async def test_branches_of_checkpoints(workspace: Path) -> None:
    """They have the variables of the checkpoint, and the files of now."""
    async with staged() as executor:
        await executor.execute("x = 1; open('a', 'w').write('1')")
        checkpoint = await executor.checkpoint()
        await executor.execute("x = 2; open('a', 'w').write('2')")
        first, second = await checkpoint.branch(2)
        for branch in (first, second):
            assert "files are those of now, not of the checkpoint" in branch.warnings[0]
            assert await text(branch, "x, open('a').read()") == "(1, '2')"
        with pytest.raises(RuntimeError, match="2 other sessions share the files"):
            await checkpoint.restore()
        await first.execute("open('a', 'w').write('3')")
        assert await text(executor, "x, open('a').read()") == "(2, '3')"
        await stop(first, second)
        await checkpoint.restore()
        assert await text(executor, "x, open('a').read()") == "(1, '1')"
        await executor.discard()


async def test_changes_of_cells(workspace: Path) -> None:
    """What a cell changed is exact, or the list says why not."""
    async with staged() as executor:
        await executor.execute(WAIT)
        (branch,) = await executor.fork()

        async def changed(each: CodeExecutor, code: str) -> tuple[list[str], str | None]:
            result = await each.execute(code)
            return [change.path for change in result.changes or []], result.changes_cut

        assert await changed(branch, "open('b', 'w').close()") == (["b"], None)
        assert await changed(executor, "open('a', 'w').close()") == (["a"], None)
        assert await changed(executor, "1") == ([], None)
        await branch.discard()
        assert await changed(executor, "1") == ([], None)
        assert await changed(branch, "1") == ([], None)
        (_, first), (also, second) = await asyncio.gather(
            changed(executor, "open('a1', 'w').close(); wait('b1'); open('a2', 'w').close()"),
            changed(branch, "wait('a1'); open('b1', 'w').close(); wait('a2')"),
        )
        assert "what other sessions, which share the files, changed" in (first or "")
        assert "changed at the same time is in it, too" in (second or "")
        assert "b1" in also
        assert await changed(executor, "os.remove('a1')") == (["a1"], None)
        await branch.stop()
        assert await changed(executor, "os.remove('a2')") == (["a2"], None)
        await executor.discard()


async def test_writing_while_others_run(workspace: Path) -> None:
    """What is committed or discarded as a whole is not half written. Paths can be named."""
    async with staged() as executor:
        await executor.execute(WAIT)
        (branch,) = await executor.fork()
        await branch.execute("open('done', 'w').write('done'); open('bad', 'w').write('bad')")
        running = asyncio.create_task(
            executor.execute("open('half', 'w').write('half'); open('go', 'w'); wait('end')")
        )
        await branch.execute("wait('go')")
        for method in (branch.commit, branch.discard):
            with pytest.raises(CoreError, match="a cell runs in another session that shares"):
                await method()
        with pytest.raises(CoreError, match="between cells only"):
            await executor.commit(["done"])
        await branch.commit(["done"])
        await branch.discard(["bad"])
        assert os.listdir(workspace) == ["done"]
        assert await paths(branch) == ["go", "half"]
        await branch.execute("open('end', 'w').close()")
        await running
        await branch.commit()
        assert sorted(os.listdir(workspace)) == ["done", "end", "go", "half"]
        await branch.stop()


async def test_in_order(workspace: Path) -> None:
    """What several sessions do at the same time is done one after the other."""
    async with staged(undo=2) as executor:
        await executor.execute("import os")
        branches = await executor.fork(6)

        async def work(each: CodeExecutor, name: str) -> None:
            for number in range(3):
                await each.execute(f"open('{name}', 'w').write('{number}')")
                checkpoint = await each.checkpoint()
                await each.changes(diffs=True)
                await each.commit([name])
                assert (workspace / name).read_text() == str(number)
                await each.execute(f"open('{name}-bad', 'w').write('x')")
                await each.discard([f"{name}-bad"])
                await checkpoint.restore(files=False)
                await checkpoint.drop()

        await asyncio.gather(*(work(each, f"f{i}") for i, each in enumerate(branches)))
        assert sorted(os.listdir(workspace)) == [f"f{i}" for i in range(6)]
        assert await paths(executor) == []
        # Those that wait are forgotten, and the others are done.
        await executor.execute("open('last', 'w').write('last')")
        tasks = [asyncio.create_task(each.changes(diffs=True)) for each in (*branches, executor)]
        await stop(*branches)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [change.path for change in (await tasks[-1]).changes] == ["last"]
        await executor.discard()


async def test_conflicts(workspace: Path) -> None:
    """A cell that began before the host changed a file may not have seen the change, although a
    cell of another session began later."""
    (workspace / "a").write_text("old")
    async with staged() as executor:
        await executor.execute(WAIT)
        (branch,) = await executor.fork()
        running = asyncio.create_task(
            executor.execute(
                "seen = open('a').read(); open('begun', 'w').close(); wait('go')\n"
                "open('a', 'w').write(seen + ' and more')"
            )
        )
        await branch.execute("wait('begun')")
        (workspace / "a").write_text("by the host")
        await branch.execute("open('go', 'w').close()")
        await running
        done = await executor.commit(["a"])
        assert [change.conflict for change in done.changes] == [True]
        assert (workspace / "a").read_text() == "by the host"
        await branch.stop()
        await executor.discard()


async def host_pid(executor: CodeExecutor) -> int:
    """The pid, on the host, of a process in its sandbox."""
    inside = await text(executor, "import os; os.readlink('/proc/self/ns/pid')")
    for path in Path("/proc").glob("[0-9]*/ns/pid"):
        if repr(os.readlink(path)) == inside:
            return int(path.parts[2])
    raise AssertionError(inside)


async def test_cycles_leave_nothing(workspace: Path, home: harness.Place) -> None:
    before = layers(home)
    async with staged(undo=2) as executor:
        core = acquire_core().pid

        async def run_cycles(n: int) -> None:
            for _ in range(n):
                (branch,) = await executor.fork()
                await branch.execute("open('b', 'w').write('b')")
                (second,) = await (await branch.checkpoint()).branch()
                await branch.reset()
                await branch.execute("1")
                await stop(branch, second)
                await executor.execute("open('a', 'w').write('a')")

        def count() -> list[int]:
            (layer,) = layers(home) - before
            inside = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
            fds = os.listdir(f"/proc/{core}/fd")
            return [len(fds), len(inside), len(list((layer / "copies").iterdir()))]

        await executor.execute("import os")
        pid = await host_pid(executor)
        await run_cycles(5)
        first = count()
        await run_cycles(10)
        deadline = time.monotonic() + harness.GRACE_SECONDS
        while any(now > then for now, then in zip(count(), first, strict=True)):
            assert time.monotonic() < deadline, (first, count())
        await executor.discard()


async def test_killed_core(workspace: Path, home: harness.Place) -> None:
    """One layer is left, which has what all of them wrote."""
    before, processes = layers(home), harness.descendants()
    executor = staged(undo=2)
    await executor.start()
    await executor.execute("open('a', 'w').write('a')")
    branches = await executor.fork(2)
    await branches[0].execute("open('b', 'w').write('b')")
    await branches[1].reset()
    await branches[1].execute("open('c', 'w').write('c')")
    os.kill(acquire_core().pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="core"):
        await executor.execute("1")
    await stop(executor, *branches)
    (layer,) = layers(home) - before
    left = harness.processes_left(processes)
    assert not left, "\n".join(left)
    assert {"a", "b", "c"} <= set(os.listdir(layer / "upper"))
