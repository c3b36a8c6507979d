# SPDX-License-Identifier: Apache-2.0
"""Files of a session as bytes and as archives, read and written with the rights of a cell."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from ipybox import CodeExecutor, TransferLimitError
from ipybox.session_files import PIECE_BYTES


def executor(sandbox: bool = True) -> CodeExecutor:
    return CodeExecutor(sandbox=sandbox, approve_tool_calls=False)


def make_tar(*members: tuple[str, bytes | str | None]) -> bytes:
    """bytes: a file; str: a link to it; None: a directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.uid, info.mode = 4321, 0o4700
            if content is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
            else:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


@pytest.mark.parametrize("sandbox", [True, False])
async def test_bytes_there_and_back(sandbox: bool, workspace: Path) -> None:
    data = bytes(range(256)) * 3
    async with executor(sandbox) as e:
        await e.write_file("a/b/data", data)
        assert (workspace / "a/b/data").read_bytes() == data
        assert await e.read_file("a/b/data") == data
        assert (await e.execute("len(open('a/b/data', 'rb').read())")).text == "768"
        await e.write_file("a/b/data", "ü")
        assert await e.read_file(workspace / "a/b/data") == "ü".encode()
        await e.write_file("empty", b"")
        assert await e.read_file("empty") == b""
        odd = os.fsdecode(b"od\xff \n'")
        await e.write_file(odd, b"odd")
        (entry,) = [one for one in await e.list_files() if one.name == odd]
        assert (entry.kind, entry.size, await e.read_file(odd)) == ("file", 3, b"odd")
        await e.execute("import os\nos.mkfifo('pipe'); os.symlink('empty', 'link')")
        kinds = {one.name: one.kind for one in await e.list_files(".")}
        assert (kinds["pipe"], kinds["link"], kinds["a"]) == ("special", "link", "directory")


async def test_more_than_a_piece(workspace: Path) -> None:
    data = os.urandom(1024 * 1024) * (PIECE_BYTES // (1024 * 1024) + 1) + b"end"
    async with executor() as e:
        await e.write_file("large", data)
        assert await e.read_file("large") == data
        exact = data[:PIECE_BYTES]
        await e.write_file("large", exact)
        assert await e.read_file("large") == exact
        archive = await e.download_tar(["large"])
        assert len(archive) > PIECE_BYTES
        assert await e.upload_tar(archive, "copy") == 1
        assert (workspace / "copy/large").read_bytes() == exact
        # Nothing is left of what was between.
        assert not [one for one in await e.list_files("/tmp") if "ipybox" in one.name]


async def test_the_sandbox_decides(workspace: Path) -> None:
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / ".git/HEAD").write_text("ref: refs/heads/main\n")
    Path("/tmp/ipb-of-the-host").write_text("host")
    try:
        async with executor() as e:
            # A /tmp of its own.
            with pytest.raises(FileNotFoundError):
                await e.read_file("/tmp/ipb-of-the-host")
            await e.execute("open('/tmp/ipb-of-the-host', 'w').write('cell')")
            assert await e.read_file("/tmp/ipb-of-the-host") == b"cell"
            for path in (".git/hooks/pre-commit", ".bashrc", "/etc/new", workspace.parent / "new"):
                with pytest.raises(OSError):
                    await e.write_file(path, b"x")
                assert not (workspace / path).exists()
            with pytest.raises(OSError):
                await e.upload_tar(make_tar(("hooks/post-commit", b"x")), ".git")
            assert not (workspace / ".git/hooks/post-commit").exists()
    finally:
        Path("/tmp/ipb-of-the-host").unlink()


async def test_errors_are_those_of_open(workspace: Path) -> None:
    async with executor() as e:
        with pytest.raises(FileNotFoundError) as missing:
            await e.read_file("missing")
        assert missing.value.filename == "missing"
        with pytest.raises(IsADirectoryError):
            await e.read_file(".")
        with pytest.raises(IsADirectoryError):
            await e.write_file(".", b"x")
        with pytest.raises(NotADirectoryError):
            await e.list_files("/etc/passwd")
        with pytest.raises(PermissionError):
            await e.read_file("/etc/shadow")
        # One that would never end, and one that has no end.
        await e.execute("import os\nos.mkfifo('pipe')")
        for special in ("pipe", "/dev/zero"):
            with pytest.raises(OSError, match="neither a file"):
                await e.read_file(special)
        with pytest.raises(OSError):
            await e.write_file("pipe", b"x")
        await e.write_file("ten", b"x" * 10)
        assert len(await e.read_file("ten", max_bytes=10)) == 10
        with pytest.raises(TransferLimitError, match="ten"):
            await e.read_file("ten", max_bytes=9)
        with pytest.raises(TransferLimitError):
            await e.download_tar(["ten"], max_bytes=100)
        with pytest.raises(FileNotFoundError):
            await e.download_tar(["missing"])


async def test_archives(workspace: Path) -> None:
    async with executor() as e:
        tar = make_tar(("d", None), ("d/file", b"content"), ("d/link", "file"), ("top", b"t"))
        assert await e.upload_tar(tar, "into") == 4
        assert (workspace / "into/d/link").read_bytes() == b"content"
        about = (workspace / "into/d/file").stat()
        assert about.st_uid == os.getuid() and about.st_mode & 0o7777 == 0o700
        await e.upload_tar(make_tar(("d/link", b"new")), "into")  # replaces the link
        assert (workspace / "into/d/file").read_bytes() == b"content"
        await e.execute("import os\nos.mkfifo('into/pipe')")
        back = await e.download_tar(["into"])
        with tarfile.open(fileobj=io.BytesIO(back)) as archive:
            names = archive.getnames()
        assert sorted(names) == ["into", "into/d", "into/d/file", "into/d/link", "into/top"]
        for wrong in (b"", b"no archive", tar[:100]):
            with pytest.raises(OSError, match="damaged"):
                await e.upload_tar(wrong)
        with pytest.raises(TransferLimitError):
            await e.upload_tar(make_tar(("large", bytes(10_000_000))), max_bytes=1_000_000)


async def test_archives_that_lead_out(workspace: Path) -> None:
    """Also where the walls would not stop them: within the workspace."""
    async with executor() as e:
        for members in (
            [("../out", b"x")],
            [("/tmp/out", b"x")],
            [("a/../../out", b"x")],
            [("link", "../.."), ("link/out", b"x")],
            [("link", "/tmp")],
            [("d", None), ("d/link", "../..")],
        ):
            with pytest.raises(OSError, match="leads out"):
                await e.upload_tar(make_tar(*members), "target")
        # A link that is there already.
        await e.execute("import os\nos.symlink('..', 'target/up')")
        with pytest.raises(OSError, match="leads out"):
            await e.upload_tar(make_tar(("up/out", b"x")), "target")
        assert not (workspace / "out").exists()


async def test_answers_of_the_sandbox_are_not_believed(workspace: Path) -> None:
    """The helper runs in the sandbox: what it reports is checked."""
    from ipybox.commands import CommandResult
    from ipybox.session_files import SessionFiles

    answers: list[CommandResult] = []

    async def run(argv: object, data: object, max_output: int) -> CommandResult:
        return answers.pop()

    files = SessionFiles(run, "python3")
    for stderr in (b"", b"[]", b"{", b"[" * 100_000, b'{"errno": "x", "text": 1, "path": {}}'):
        answers.append(CommandResult(1, None, b"", stderr))
        with pytest.raises(OSError):
            await files.read("x", 10)
    for stdout in (b"", b"{}", b"[[1, 2]]", b"[" * 100_000, b'[["a", "file", "1", 2]]', b"\xff"):
        answers.append(CommandResult(0, None, stdout, b"{}"))
        if stdout == b"{}":
            assert await files.list(".") == []
            continue
        with pytest.raises(OSError):
            await files.list(".")
    # A file that grows while it is read, without an end.
    answers[:] = [CommandResult(0, None, bytes(PIECE_BYTES), b"{}") for _ in range(3)]
    with pytest.raises(TransferLimitError):
        await files.read("x", PIECE_BYTES + 1)
    assert len(answers) == 1
    answers[:] = [CommandResult(None, 9, b"", b"", limit="limits.memory is 5 bytes")]
    with pytest.raises(OSError, match=r"limits\.memory"):
        await files.read("x", 10)
