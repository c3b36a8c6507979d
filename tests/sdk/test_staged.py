# SPDX-License-Identifier: Apache-2.0
"""A staged workspace: what cells write stays aside until it is committed or discarded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import harness
import pytest
from ipybox import CellChange, Changes, CodeExecutionError, CodeExecutor
from ipybox.core import CoreError, acquire_core


def staged(**options: object) -> CodeExecutor:
    return CodeExecutor(sandbox=True, workspace_mode="staged", **options)  # type: ignore[arg-type]


async def text(executor: CodeExecutor, code: str) -> str:
    return (await executor.execute(code)).text or ""


def described(changes: Changes) -> list[str]:
    marks = {"added": "+", "changed": "~", "removed": "-"}
    return [marks[change.kind] + change.path for change in changes.changes]


def problems(changes: Changes) -> dict[str, str]:
    return {change.path: change.problem for change in changes.changes if change.problem}


def layers(home: harness.Place) -> list[Path]:
    place = Path(home.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    return sorted(place.iterdir()) if place.exists() else []


WRITE = """
import os, shutil
open("changed", "a").write("three\\n")
open("added", "w").write("new")
os.remove("removed")
shutil.rmtree("folder")
os.mkdir("folder")
open("folder/other", "w").write("other")
os.symlink("added", "link")
"""
LIST = "-folder/file -removed ~changed +added +folder/other +link"


@pytest.fixture
def files(workspace: Path) -> Path:
    (workspace / "changed").write_text("one\ntwo\n")
    (workspace / "removed").write_text("removed")
    (workspace / "folder").mkdir()
    (workspace / "folder/file").write_text("file")
    return workspace


async def test_commit(files: Path) -> None:
    before = sorted(str(path) for path in files.rglob("*"))
    async with staged() as executor:
        assert await text(executor, WRITE) == ""
        assert sorted(str(path) for path in files.rglob("*")) == before
        assert (files / "changed").read_text() == "one\ntwo\n"
        changes = await executor.changes(diffs=True)
        assert sorted(described(changes)) == sorted(LIST.split())
        diffs = {change.path: change.diff for change in changes.changes}
        assert "+three" in (diffs["changed"] or "")
        done = await executor.commit()
        assert all(change.done for change in done.changes)
        assert (files / "changed").read_text() == "one\ntwo\nthree\n"
        assert (files / "folder/other").read_text() == "other"
        assert os.readlink(files / "link") == "added"
        assert not (files / "folder/file").exists()
        assert not (files / "removed").exists()
        assert (await executor.changes()).total == 0
        assert await text(executor, "print(sorted(os.listdir('.')))") == str(
            sorted(os.listdir(files))
        )


async def test_discard(files: Path) -> None:
    async with staged() as executor:
        await executor.execute(WRITE)
        await executor.execute("stays_open = open('changed')")
        undone = await executor.discard()
        assert not problems(undone)
        assert (await executor.changes()).total == 0
        assert await text(executor, "print(open('changed').read(), end='')") == "one\ntwo"
        assert await text(executor, "print(open('folder/file').read())") == "file"
        assert await text(executor, "print(stays_open.read(), end='')") == "one\ntwo"
        assert await text(executor, "print(os.path.exists('added'))") == "False"
    assert (files / "changed").read_text() == "one\ntwo\n"


async def test_parts(files: Path) -> None:
    async with staged() as executor:
        await executor.execute(WRITE)
        assert described(await executor.commit(["folder"])) == ["-folder/file", "+folder/other"]
        assert described(await executor.discard([Path("added"), "link"])) == ["+added", "+link"]
        assert sorted(described(await executor.changes())) == ["-removed", "~changed"]
        with pytest.raises(CoreError, match="nothing has changed at"):
            await executor.commit(["kept"])
        with pytest.raises(CoreError, match="do not begin with"):
            await executor.commit(["/etc/passwd"])
        with pytest.raises(CoreError, match="nothing has changed at"):
            await executor.discard(["../outside"])


async def test_kernel_that_died(files: Path) -> None:
    """The layer outlives the kernel, and what was committed is no part of it any more."""
    async with staged() as executor:
        await executor.execute(WRITE)
        await executor.commit(["added"])
        (files / "added").write_text("by the host")
        await executor.reset()
        assert await text(executor, "print(open('added').read())") == "by the host"
        assert await text(executor, "print(open('changed').read(), end='')") == "one\ntwo\nthree"
        assert "+added" not in described(await executor.changes())


async def test_conflict(files: Path) -> None:
    async with staged() as executor:
        await executor.execute("open('changed', 'w').write('by the code')")
        (files / "changed").write_text("by the host")
        done = await executor.commit()
        assert [change.conflict for change in done.changes] == [True]
        assert (files / "changed").read_text() == "by the host"
        assert await text(executor, "print(open('changed').read())") == "by the code"


PROTECTED = """
import os, socket
def tries(action):
    try:
        action()
        return "done"
    except OSError as error:
        return error.strerror
for path in [".git/hooks", ".vscode"]:
    os.makedirs(path, exist_ok=True)
for path in [".git/hooks/pre-commit", ".bashrc", ".vscode/tasks.json", "control"]:
    print(path, tries(lambda: open(path, "w").write("x")))
print(tries(lambda: os.mknod("white", 0o020000, 0)))
print(tries(lambda: os.setxattr("control", "user.overlay.opaque", b"y")))
print(tries(lambda: os.setxattr("control", "user.overlay.redirect", b"/etc")))
print(tries(lambda: os.chmod("control", 0o6777)))
os.chmod("control", 0o777)
os.mkfifo("fifo")
os.link("control", "second")
open("with\\nline \\x1b[2J", "w").write("x")
open(b"\\xff\\xfe", "w").write("x")
"""


async def test_hostile(workspace: Path) -> None:
    async with staged() as executor:
        lines = (await text(executor, PROTECTED)).splitlines()
        assert lines[:4] == [
            ".git/hooks/pre-commit Permission denied",
            ".bashrc Permission denied",
            ".vscode/tasks.json Permission denied",
            "control done",
        ]
        # Attributes of overlays may be set: the overlay keeps them apart from its own.
        assert "done" not in (lines[4], lines[7])
        done = await executor.commit()
        assert set(problems(done)) == {"fifo"}
    assert os.stat(workspace / "control").st_mode & 0o7777 == 0o777
    assert os.stat(workspace / "control").st_nlink == 1
    assert not os.listxattr(workspace / "control")
    assert (workspace / "with\nline \x1b[2J").read_text() == "x"
    assert (workspace / os.fsdecode(b"\xff\xfe")).read_text() == "x"
    assert not (workspace / ".git/hooks/pre-commit").exists()


async def test_layer_is_unreachable(home: harness.Place, workspace: Path) -> None:
    (workspace / "file").write_text("x")
    before = set(layers(home))
    async with staged() as executor:
        await executor.execute("open('file', 'a').write('y')")
        layer = (set(layers(home)) - before).pop()
        assert (layer / "upper/file").read_text() == "xy"
        seen = await text(
            executor,
            f"""
import os
found = []
for path in [{str(layer)!r}, {str(layer.parent)!r}]:
    for action in (os.listdir, lambda path: open(path + "/new", "w")):
        try:
            found.append(action(path))
        except OSError as error:
            pass
print(found)""",
        )
        assert layer.name not in seen and "TextIO" not in seen


async def test_ordinary_work(workspace: Path) -> None:
    """git, sqlite and pandas, and what they leave is as good outside."""
    async with staged() as executor:
        out = await text(
            executor,
            """
import sqlite3, subprocess
def run(command):
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
run("git init -q . && echo a > a && git add a")
run("git -c user.name=n -c user.email=e@x commit -qm first")
run("mkdir -p lib/deep && seq 1000 > lib/deep/numbers && mv lib moved && cp -r moved copied")
base = sqlite3.connect("data.sqlite")
base.execute("create table t (a)"); base.execute("insert into t values (7)"); base.commit()
print(run("git log --oneline | wc -l").stdout)""",
        )
        assert out.strip() == "1"
        # The data base is open for writing.
        done = await executor.commit()
        assert not problems(done)
        assert await text(executor, "print(base.execute('select a from t').fetchall())") == "[(7,)]"
    git = ["git", "-c", "safe.directory=*", "-C", str(workspace)]
    log = subprocess.run([*git, "log", "--format=%s"], capture_output=True, text=True, check=True)
    assert log.stdout == "first\n"
    assert subprocess.run([*git, "fsck"], capture_output=True, check=False).returncode == 0
    read = (
        "import sqlite3; "
        "print(sqlite3.connect('data.sqlite').execute('select a from t').fetchone())"
    )
    shown = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True)
    assert shown.stdout == "(7,)\n"
    assert len((workspace / "moved/deep/numbers").read_text().splitlines()) == 1000


async def test_background_writer(workspace: Path) -> None:
    """A process that writes all the time: no file is committed in part."""
    async with staged() as executor:
        await executor.execute(
            """
import os, subprocess, sys
loop = '''
import os
while True:
    open("t", "w").write("a" * 100000)
    os.replace("t", "file")
    if os.path.lexists("swap"): os.remove("swap")
    os.symlink("/etc/passwd", "swap")
    os.replace("swap", "other")
    open("swap", "w").write("text")
    os.replace("swap", "other")
'''
process = subprocess.Popen([sys.executable, "-c", loop])
while not os.path.exists("other"):
    os.sched_yield()"""
        )
        for _ in range(10):
            await executor.commit()
            if (workspace / "file").exists():
                assert (workspace / "file").read_text() == "a" * 100000
            if os.path.lexists(workspace / "other") and not (workspace / "other").is_symlink():
                assert (workspace / "other").read_text() in ("", "text")
        await executor.execute("process.kill(); process.wait()")


# --- single cells -----------------------------------------------------------------------------


def marked(changes: list[CellChange]) -> str:
    marks = {"added": "+", "changed": "~", "removed": "-"}
    return " ".join(marks[change.kind] + change.path for change in changes)


async def test_changes_of_cells(files: Path) -> None:
    """Each cell has what it changed, not what the session has changed so far."""
    cells = [
        (WRITE, "+added ~changed ~folder +folder/other +link -removed"),
        ("open('changed').read(); None", ""),
        ("open('changed', 'a').write('four'); None", "~changed"),
        ("os.remove('added'); os.remove('changed')", "-added -changed"),
        ("open('removed', 'w').write('again'); None", "+removed"),
        ("os.makedirs('a/b'); open('a/b/c', 'w').close()", "+a +a/b +a/b/c"),
        ("shutil.rmtree('a'); shutil.rmtree('folder')", "-a -folder"),
        ("os.mkdir('folder'); open('folder/file', 'w').close()", "+folder +folder/file"),
        ("open('x', 'w').close(); os.remove('x')", ""),
        ("os.chmod('removed', 0o755)", "~removed"),
        ("os.rename('removed', 'moved')", "+moved -removed"),
        ("os.remove('link'); os.mkdir('link')", "~link"),
    ]
    async with staged() as executor:
        for code, expected in cells:
            result = await executor.execute(code)
            assert marked(result.changes) == expected, code
            assert result.changes_cut is None
        with pytest.raises(CodeExecutionError) as failure:
            await executor.execute("open('y', 'w').close(); 1 / 0")
        assert failure.value.changes == [CellChange("y", "added", "file")]


async def test_unchanged_files_are_no_changes(files: Path) -> None:
    """A file that was only opened for writing, and what a commit or discard does."""
    async with staged() as executor:
        result = await executor.execute("open('changed', 'r+').close()")
        assert result.changes == []
        result = await executor.execute("open('new', 'w').close(); open('other', 'w').close()")
        assert marked(result.changes) == "+new +other"
        await executor.commit(["new"])
        assert (await executor.execute("1")).changes == []
        await executor.discard(["other"])
        assert (await executor.execute("1")).changes == []
        result = await executor.execute("open('new', 'a').write('x'); None")
        assert marked(result.changes) == "~new"
        await executor.reset()
        assert (await executor.execute("1")).changes == []


async def test_late_writes_count_to_the_next_cell(files: Path) -> None:
    code = """
import os, threading
begin = threading.Event()
def write():
    begin.wait()
    open("late", "w").close()
writer = threading.Thread(target=write, daemon=True)
writer.start()
"""
    async with staged() as executor:
        assert (await executor.execute(code)).changes == []
        result = await executor.execute("begin.set(); writer.join()")
        assert marked(result.changes) == "+late"


async def test_bounds_of_changes_of_cells(workspace: Path) -> None:
    """At most 100 are listed, and none if the session has changed too many files."""
    make = "for i in range({}): open(f'{{i:04}}', 'w').close()"
    async with staged() as executor:
        result = await executor.execute(make.format(150))
        assert len(result.changes) == 100 and result.changes[0].path == "0000"
        assert result.changes_cut == "50 more are not listed"
        result = await executor.execute(make.format(4001))
        assert result.changes == [] and "more than 4000 files" in (result.changes_cut or "")
        await executor.discard()
        result = await executor.execute("open('x', 'w').close()")
        assert marked(result.changes) == "+x" and result.changes_cut is None


async def test_live_workspaces_report_no_changes(workspace: Path) -> None:
    async with CodeExecutor(sandbox=True) as executor:
        result = await executor.execute("open('x', 'w').close()")
        assert result.changes == [] and result.changes_cut is None


async def test_refusals(workspace: Path, home: harness.Place) -> None:
    with pytest.raises(CoreError, match="needs a sandbox"):
        async with CodeExecutor(workspace_mode="staged"):
            pass
    with pytest.raises(CoreError, match="workspace_mode"):
        async with CodeExecutor(sandbox=True, staging_dir=workspace):
            pass
    with pytest.raises(CoreError, match="the layer would be in it"):
        async with staged(staging_dir=workspace / "layers"):
            pass
    async with CodeExecutor(sandbox=True) as executor:
        with pytest.raises(CoreError, match="not staged"):
            await executor.changes()


async def test_place(workspace: Path, home: harness.Place) -> None:
    """An option names the place of layers; an empty layer is removed, another one is kept."""
    place = workspace.parent / f"{workspace.name}-layers"
    async with staged(staging_dir=place) as executor:
        await executor.execute("print(1)")
        assert len(list(place.iterdir())) == 1
    assert list(place.iterdir()) == []
    async with staged(staging_dir=place) as executor:
        await executor.execute("open('new', 'w').write('new')")
    (layer,) = place.iterdir()
    assert (layer / "upper/new").read_text() == "new"
    subprocess.run(["rm", "-rf", place], check=True)


async def test_killed_core(workspace: Path, home: harness.Place) -> None:
    """What a session has written outlives the core."""
    before = set(layers(home))
    processes = harness.descendants()
    executor = staged()
    await executor.start()
    await executor.execute("open('new', 'w').write('new')")
    os.kill(acquire_core().pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="core"):
        await executor.execute("1")
    (layer,) = set(layers(home)) - before
    assert (layer / "upper/new").read_text() == "new"
    await executor.stop()
    # The forkserver and the sandbox have no parent now that reaps them.
    left = harness.processes_left(processes)
    assert not left, "\n".join(left)
