# SPDX-License-Identifier: Apache-2.0
"""Files into the workspace and out of it, also where a kernel has laid traps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import threading
from pathlib import Path, PurePath

import pytest
from ipybox import CodeExecutor
from ipybox.files import MAX_DEPTH


@pytest.fixture
def outside(workspace: Path) -> Path:
    """A directory of the application, beside the workspace."""
    directory = workspace.parent / f"outside-{workspace.name}"
    directory.mkdir()
    (directory / "secret").write_text("secret")
    return directory


async def test_there_and_back(outside: Path) -> None:
    (outside / "data.csv").write_text("a,b\n1,2\n")
    async with CodeExecutor(sandbox=True) as executor:
        sent = await executor.upload(outside / "data.csv", "in/data.csv")
        assert (sent.files, sent.n_bytes) == ([PurePath(".")], 8)
        code = "text = open('in/data.csv').read()\nopen('result.txt', 'w').write(text.upper())"
        assert (await executor.execute(code)).text == "8"
        got = await executor.download("result.txt", outside / "new" / "result.txt")
        assert (got.files, got.skipped) == ([PurePath(".")], [])
        assert (outside / "new/result.txt").read_text() == "A,B\n1,2\n"
        # Again, over existing files.
        (outside / "data.csv").write_text("c")
        await executor.upload(str(outside / "data.csv"), PurePath("in/data.csv"))
        assert (await executor.execute("open('in/data.csv').read()")).text == "'c'"


async def test_directories(outside: Path, workspace: Path) -> None:
    tree = outside / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "empty").mkdir()
    (tree / "a/one").write_bytes(b"1" * 3_000_000)
    (tree / "a/b/run").write_text("#!/bin/sh\n")
    (tree / "a/b/run").chmod(0o755)
    executor = CodeExecutor()
    sent = await executor.upload(tree)
    assert {str(path) for path in sent.files} == {"a/one", "a/b/run"}
    assert (workspace / "tree/empty").is_dir()
    assert os.access(workspace / "tree/a/b/run", os.X_OK)
    got = await executor.download("tree", outside / "copy")
    assert sorted(got.files) == sorted(sent.files) and got.n_bytes == 3_000_010
    assert (outside / "copy/a/one").read_bytes() == (tree / "a/one").read_bytes()
    assert (outside / "copy/empty").is_dir()


@pytest.mark.parametrize("path", ["", ".", "..", "../x", "/etc/passwd", "a/../../x", "x\0y"])
async def test_paths_that_are_not_below(path: str, outside: Path) -> None:
    executor = CodeExecutor()
    with pytest.raises(ValueError):
        await executor.download(path, outside / "copy")
    if path:
        with pytest.raises(ValueError):
            await executor.upload(outside / "secret", path)


async def test_links_are_not_followed(outside: Path, workspace: Path) -> None:
    """Neither at the end nor within a path, neither to read nor to write."""
    executor = CodeExecutor()
    (workspace / "file").symlink_to(outside / "secret")
    (workspace / "directory").symlink_to(outside)
    (workspace / "real").mkdir()
    (workspace / "real/link").symlink_to(outside / "secret")
    (workspace / "real/kept").touch()
    for source in ("file", "directory", "directory/secret"):
        with pytest.raises(ValueError, match="not followed"):
            await executor.download(source, outside / "copy")
    assert not (outside / "copy").exists()
    got = await executor.download("real", outside / "copy")
    assert (got.files, got.skipped) == ([PurePath("kept")], [PurePath("link")])
    assert os.listdir(outside / "copy") == ["kept"]

    (outside / "new").write_text("new")
    with pytest.raises(ValueError, match="not followed"):
        await executor.upload(outside / "new", "directory/planted")
    await executor.upload(outside / "new", "file")
    assert (workspace / "file").read_text() == "new" and not (workspace / "file").is_symlink()
    assert (outside / "secret").read_text() == "secret" and not (outside / "planted").exists()
    with pytest.raises(OSError):
        await executor.upload(outside, "directory")
    # The application's own links are followed.
    (outside / "link").symlink_to(outside / "new")
    await executor.upload(outside / "link", "linked")
    assert (workspace / "linked").read_text() == "new"


async def test_what_is_no_file(outside: Path, workspace: Path) -> None:
    executor = CodeExecutor()
    os.mkfifo(workspace / "pipe")
    (workspace / "d").mkdir()
    os.mkfifo(workspace / "d/pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("d/socket")
        with pytest.raises(ValueError):
            await executor.download("pipe", outside / "copy")
        got = await executor.download("d", outside / "copy")
        assert sorted(map(str, got.skipped)) == ["pipe", "socket"]
        os.unlink("d/socket")
    with pytest.raises(FileNotFoundError):
        await executor.download("nothing", outside / "copy")
    with pytest.raises(FileNotFoundError):
        await executor.download("no/thing", outside / "copy")


async def test_limits(outside: Path, workspace: Path) -> None:
    executor = CodeExecutor()
    with open(workspace / "large", "wb") as file:
        file.truncate(10_000_000_000)
    (outside / "target").write_text("old")
    with pytest.raises(ValueError, match="more than 5000000 bytes"):
        await executor.download("large", outside / "target", max_bytes=5_000_000)
    with pytest.raises(ValueError, match="more than 3 bytes"):
        await executor.upload(outside / "secret", "x", max_bytes=3)
    assert (outside / "target").read_text() == "old"
    assert sorted(os.listdir(outside)) == ["secret", "target"]
    assert os.listdir(workspace) == ["large"]
    deep = workspace / "deep"
    deep.mkdir()
    fd = os.open(deep, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 5):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    with pytest.raises(ValueError, match="nested"):
        await executor.download("deep", outside / "copy")


async def test_no_set_user_id_comes_out(outside: Path, workspace: Path) -> None:
    (workspace / "run").touch()
    (workspace / "run").chmod(0o6777)
    await CodeExecutor().download("run", outside / "run")
    assert stat.S_IMODE((outside / "run").stat().st_mode) == 0o755


async def test_a_race_for_links(outside: Path, workspace: Path) -> None:
    """A directory and a link to the secret alternate in one place.

    The secret never gets out, and nothing gets in.
    """
    (workspace / "real").mkdir()
    (workspace / "real/secret").write_text("harmless")
    over = threading.Event()

    def swap() -> None:
        number = 0
        while not over.is_set():
            try:
                os.rename("real", "place")
                os.rename("place", "real")
                os.symlink(outside, "place")
                os.unlink("place")
            except OSError:  # an upload created a directory there
                number += 1
                with contextlib.suppress(OSError):
                    os.rename("place", f"aside{number}")

    (outside / "gift").write_text("gift")
    thread = threading.Thread(target=swap)
    thread.start()
    executor = CodeExecutor()
    ends = set()
    for number in range(150):
        target = outside / f"copy{number}"
        try:
            await executor.download("place/secret", target)
            ends.add(target.read_text())
            await executor.upload(outside / "gift", "place/planted")
        except (OSError, ValueError) as error:
            ends.add(type(error).__name__)
        await asyncio.sleep(0)
    assert thread.is_alive()
    over.set()
    thread.join()
    assert "secret" not in ends
    assert not (outside / "planted").exists()
