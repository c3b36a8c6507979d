# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, restore and undo in a staged session: files go back together with the variables."""

from __future__ import annotations

import asyncio
import fcntl
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


def layers(home: harness.Place) -> set[Path]:
    place = Path(home.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    return set(place.iterdir()) if place.exists() else set()


# Everything that code can see of files: names, types, contents, permissions, times.
SEE = """
import os
def see(top="."):
    found = {}
    for path, names, files in os.walk(top):
        for name in names + files:
            full = os.path.join(path, name)
            info = os.lstat(full)
            kind = info.st_mode >> 12
            more = (
                os.readlink(full) if kind == 10
                else (open(full).read(), oct(info.st_mode & 0o777), info.st_mtime_ns) if kind == 8
                else oct(info.st_mode & 0o777) if kind == 4
                else None
            )
            found[full] = (kind, more)
    return found
"""
CHANGE = """
import shutil
open("changed", "a").write("three\\n")
open("added", "w").write("new")
os.chmod("added", 0o640)
os.utime("added", (1e9, 1e9))
os.remove("removed")
shutil.rmtree("folder")
os.mkdir("folder")
open("folder/other", "w").write("other")
os.symlink("added", "link")
os.link("added", "second")
os.mkfifo("fifo")
os.makedirs("deep/er")
open("deep/er/file", "w").write("x" * 100000)
"""
CHANGE_MORE = """
open("changed", "w").write("else")
os.remove("second"); os.link("folder/other", "second")
os.remove("fifo"); os.mkdir("fifo"); open("fifo/in", "w").write("in")
os.remove("link"); open("link", "w").write("no link")
open("removed", "w").write("back again")
shutil.rmtree("deep"); open("deep", "w").write("a file now")
os.rename("added", "moved")
shutil.rmtree("folder"); os.symlink("kept", "folder")
os.chmod("kept", 0o600)
"""


@pytest.fixture
def files(workspace: Path) -> Path:
    (workspace / "changed").write_text("one\ntwo\n")
    (workspace / "removed").write_text("removed")
    (workspace / "kept").write_text("kept")
    (workspace / "folder").mkdir()
    (workspace / "folder/file").write_text("file")
    return workspace


async def test_restore(files: Path) -> None:
    """What code sees is as it was, whatever was done since, and as often as one likes."""
    outside = sorted((str(path), path.stat().st_mtime_ns) for path in files.rglob("*"))
    async with staged() as executor:
        await executor.execute(SEE)
        empty = await executor.checkpoint("empty")
        begin = await text(executor, "see()")
        await executor.execute(CHANGE)
        changed = await executor.checkpoint("changed")
        middle = await text(executor, "see()")
        listed = (await executor.changes()).changes
        for _ in range(2):
            await executor.execute(CHANGE_MORE)
            assert await text(executor, "see()") not in (begin, middle)
            await changed.restore()
            assert await text(executor, "see()") == middle
            again = (await executor.changes()).changes
            assert sorted((c.path, c.kind) for c in again) == sorted(
                (c.path, c.kind) for c in listed
            )
        await empty.restore()
        assert await text(executor, "see()") == begin
        assert (await executor.changes()).total == 0
        await changed.restore()
        assert await text(executor, "see()") == middle
        assert sorted((str(path), path.stat().st_mtime_ns) for path in files.rglob("*")) == outside
        await executor.commit([change.path for change in listed if change.path != "fifo"])
    assert (files / "deep/er/file").read_text() == "x" * 100000
    assert (files / "changed").read_text() == "one\ntwo\nthree\n"


async def test_discard_of_a_link(files: Path) -> None:
    """A file with two names: if one of them is restored, the other keeps its contents."""
    async with staged() as executor:
        await executor.execute("import os; os.remove('removed'); os.link('kept', 'removed')")
        undone = await executor.discard()
        assert not [change.problem for change in undone.changes if change.problem]
        assert await text(executor, "open('kept').read(), open('removed').read()") == (
            "('kept', 'removed')"
        )
        assert (await executor.changes()).total == 0


async def test_open_for_reading(files: Path) -> None:
    """A file that code has open sees what was restored."""
    async with staged() as executor:
        await executor.execute("file = open('changed', 'a'); file.write('x'); file.close()")
        await executor.execute("file = open('changed')")
        checkpoint = await executor.checkpoint()
        await executor.execute("open('changed', 'w').write('something else')")
        await checkpoint.restore()
        assert await text(executor, "file.read()") == repr("one\ntwo\nx")


async def test_refused(files: Path) -> None:
    async with staged() as executor:
        await executor.execute("x = 1; file = open('folder/file', 'a')")
        with pytest.raises(RuntimeError, match="the file folder/file is open for writing: close"):
            await executor.checkpoint()
        await executor.execute(
            "import mmap; file.close(); file = open('kept', 'r+')\n"
            "mapped = mmap.mmap(file.fileno(), 0); file.close()"
        )
        with pytest.raises(RuntimeError, match="the file kept is "):
            await executor.checkpoint()
        await executor.execute("mapped.close(); secret = open('/tmp/elsewhere', 'w')")
        await executor.checkpoint()
        await executor.execute("open('unreadable', 'w').close()")
        assert await text(executor, "x") == "1"


async def test_undo(files: Path) -> None:
    async with staged(undo=3) as executor:
        await executor.execute(SEE)
        before = await text(executor, "see()")
        await executor.execute(CHANGE)
        await executor.undo()
        assert await text(executor, "see()") == before
        for number in range(5):
            await executor.execute(f"n = {number}; open('n', 'w').write(str(n))")
        await executor.undo(2)
        assert await text(executor, "n, open('n').read()") == "(2, '2')"
        with pytest.raises(CodeExecutionError) as failed:
            await executor.execute("os.remove('n'); 1 / 0", undo_on_error=True)
        assert failed.value.is_undone
        assert await text(executor, "n, open('n').read()") == "(2, '2')"


async def test_kernel_that_died(files: Path) -> None:
    """Its checkpoints keep the sandbox. A fresh kernel enters it, and has the files as they are.
    The checkpoints can still be restored."""
    async with staged(undo=2) as executor:
        await executor.execute("x = 1; open('n', 'w').write('1')")
        checkpoint = await executor.checkpoint()
        for _ in range(2):
            with pytest.raises(CodeExecutionError, match="exit status 3"):
                await executor.execute("open('n', 'w').write('2'); import os; os._exit(3)")
            await checkpoint.restore()
            assert await text(executor, "x, open('n').read()") == "(1, '1')"
        with pytest.raises(CodeExecutionError) as failed:
            await executor.execute(
                "import os, signal; os.remove('n'); os.kill(os.getpid(), signal.SIGKILL)",
                undo_on_error=True,
            )
        assert failed.value.is_undone
        assert await text(executor, "x, open('n').read()") == "(1, '1')"
        with pytest.raises(CodeExecutionError, match="exit status 3"):
            await executor.execute("open('n', 'w').write('3'); import os; os._exit(3)")
        result = await executor.execute("'x' in globals(), open('n').read()")
        assert (result.text, result.notices) == ("(False, '3')", [])
        assert len(await executor.checkpoints()) == 1
        await executor.undo(2)
        assert await text(executor, "x, open('n').read()") == "(1, '1')"
        await checkpoint.restore()
        assert await text(executor, "x, open('n').read()") == "(1, '1')"


async def test_commit(files: Path) -> None:
    """What was committed since a checkpoint is not taken back."""
    async with staged() as executor:
        await executor.execute("a = 1; open('a', 'w').write('1'); open('b', 'w').write('1')")
        checkpoint = await executor.checkpoint()
        await executor.execute("a = 2; open('a', 'w').write('2'); open('b', 'w').write('2')")
        await executor.execute("open('c', 'w').write('2')")
        await executor.commit(["a", "c"])
        await checkpoint.restore()
        seen = "a, [open(name).read() for name in 'abc']"
        assert await text(executor, seen) == "(1, ['2', '1', '2'])"
        assert [change.path for change in (await executor.changes()).changes] == ["b"]
        assert (files / "a").read_text() == "2"
        await executor.discard()
        await checkpoint.restore()
        assert await text(executor, "open('b').read()") == "'1'"


async def test_process_in_the_background(files: Path) -> None:
    """A process that writes all the time is killed first, so it writes nothing afterwards."""
    async with staged() as executor:
        await executor.execute("open('n', 'w').write('0')")
        checkpoint = await executor.checkpoint()
        for _ in range(3):
            await executor.execute(
                """
import subprocess, sys, os
loop = '''
import itertools
for i in itertools.count():
    open("n", "w").write(str(i))
    open(f"m{i % 9}", "w")
'''
process = subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
while not os.path.exists("m8"):
    os.sched_yield()"""
            )
            await checkpoint.restore()
            code = "import os; open('n').read(), [n for n in os.listdir('.') if n[0] == 'm']"
            assert await text(executor, code) == "('0', [])"


async def test_space(files: Path, home: harness.Place) -> None:
    """Copies share what has not changed, and a drop gives the space back."""
    before = layers(home)
    async with staged(undo=3) as executor:
        (layer,) = layers(home) - before
        copies = layer / "copies"
        await executor.execute("import os; open('large', 'wb').write(os.urandom(5_000_000))")
        made = []
        for number in range(3):
            await executor.execute(f"open('small', 'w').write('{number}')")
            made.append(await executor.checkpoint())
        inodes = {(path.stat().st_ino) for path in copies.glob("*/large")}
        assert len(list(copies.glob("*/large"))) == 6
        assert len(inodes) <= 2
        for each in made:
            await each.drop()
        await executor.execute("1")
        deadline = time.monotonic() + harness.GRACE_SECONDS
        while len(list(copies.iterdir())) > 3:
            assert time.monotonic() < deadline
        await executor.reset()
        while list(copies.iterdir()):
            assert time.monotonic() < deadline
        assert await text(executor, "import os; os.path.getsize('large')") == "5000000"
    assert not copies.exists()


async def test_too_much(files: Path) -> None:
    async with staged(undo=2) as executor:
        await executor.execute(
            "import os\n"
            "for i in range(20_001): os.close(os.open(f'f{i}', os.O_CREAT | os.O_WRONLY))"
        )
        with pytest.raises(RuntimeError, match="too many files for a checkpoint: 20000 files and"):
            await executor.checkpoint()
        (notice,) = (await executor.execute("os.remove('f0')")).notices
        assert "this cell cannot be undone: the session has changed too many files" in notice
        await executor.checkpoint()


async def test_killed_core(files: Path, home: harness.Place) -> None:
    """A layer that is left has no copies once it was looked at, and all its changes."""
    before, processes = layers(home), harness.descendants()
    executor = staged(undo=2)
    await executor.start()
    await executor.execute("open('new', 'w').write('new')")
    await executor.checkpoint()
    os.kill(acquire_core().pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="core"):
        await executor.execute("1")
    await executor.stop()
    (layer,) = layers(home) - before
    assert list((layer / "copies").iterdir())
    left = harness.processes_left(processes)
    assert not left, "\n".join(left)


async def test_removed_after_a_commit(files: Path) -> None:
    """A file in a directory that the session has made, and that was committed: no mark in the layer
    says that it was removed later."""
    async with staged() as executor:
        await executor.execute(
            "import os; os.makedirs('new/deep'); open('new/deep/x', 'w').close()"
        )
        await executor.execute("open('new/y', 'w').close()")
        await executor.commit()
        checkpoint = await executor.checkpoint()
        await executor.execute("os.remove('new/deep/x'); os.rmdir('new/deep'); os.remove('new/y')")
        removed = ["new/deep", "new/deep/x", "new/y"]
        assert sorted(each.path for each in (await executor.changes()).changes) == removed
        later = await executor.checkpoint()
        await checkpoint.restore()
        assert (await executor.changes()).total == 0
        assert await text(executor, "os.listdir('new/deep')") == "['x']"
        await later.restore()
        assert sorted(each.path for each in (await executor.changes()).changes) == removed
        await executor.reset()
        assert await text(executor, "import os; os.listdir('new')") == "[]"
        await executor.commit()
        assert os.listdir(files / "new") == []


async def test_replaced_directory_after_a_commit(files: Path) -> None:
    """A directory that takes the place of a committed one hides what the workspace has there, also
    after a second commit: the session's own files stay."""
    async with staged() as executor:
        await executor.execute("import os; os.mkdir('new'); open('new/x', 'w').write('1')")
        await executor.commit()
        await executor.execute("import shutil; shutil.rmtree('new')")
        await executor.execute("os.mkdir('new'); open('new/x', 'w').write('2')")
        await executor.commit()
        assert (files / "new/x").read_text() == "2"
        for _ in range(2):
            await executor.reset()
            assert await text(executor, "print(open('new/x').read())") == "2"
            assert (await executor.changes()).total == 0
        await executor.execute("import os; os.remove('new/x')")
        assert [each.path for each in (await executor.changes()).changes] == ["new/x"]


async def test_fresh_kernel_during_a_commit(files: Path, home: harness.Place) -> None:
    """A sandbox is made when no commit runs: what was removed below a committed directory stays
    removed."""
    async with staged() as executor:
        await executor.execute(
            "import os; os.mkdir('new'); open('new/x', 'w').close(); open('new/y', 'w').close()"
        )
        await executor.commit()
        await executor.execute("os.remove('new/x'); open('later', 'w').close()")
        # A commit waits for this lock, a second at most.
        state = os.open(Path(home.environ["XDG_STATE_HOME"]) / "ipybox", os.O_RDONLY)
        fcntl.flock(state, fcntl.LOCK_EX)
        commit = asyncio.create_task(executor.commit(["later"]))
        await asyncio.sleep(0)
        reset = asyncio.create_task(executor.reset())
        await asyncio.sleep(0)
        with pytest.raises(CoreError, match="another operation on the session's changes runs"):
            await executor.changes()
        os.close(state)
        await commit
        await reset
        assert await text(executor, "import os; sorted(os.listdir('new'))") == "['y']"
        assert "new/x" in [each.path for each in (await executor.changes()).changes]
