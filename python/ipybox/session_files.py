# SPDX-License-Identifier: Apache-2.0
"""Files of a session as bytes and as archives.

Everything is done by a command beside the kernel (`kernel_host/file_helper.py`), with its rights
and its view. So one mechanism serves the workspace, a staged workspace and `/tmp`. It can read what
a cell can read, and nothing else. What it answers is untrusted: all sizes are limited here, too.
"""

from __future__ import annotations

import errno
import functools
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from .commands import CommandResult
from .files import MAX_FILES, TransferLimitError

MAX_READ_BYTES = 100 * 1024 * 1024
MAX_ARCHIVE_BYTES = 1024 * 1024 * 1024
# What one command reads or writes: below the maximum of its input and of its output.
PIECE_BYTES = 16 * 1024 * 1024
# Of a report on stderr.
MAX_REPORT_BYTES = 64 * 1024
MAX_LIST_BYTES = 32 * 1024 * 1024
FAILED = 3

Runner = Callable[[Sequence[str], bytes | None, int], Awaitable[CommandResult]]


@dataclass
class FileEntry:
    """An entry of a directory in a session.

    Attributes:
        name: Its name, without the directory.
        kind: `file`, `directory`, `link` or `special`: a pipe, a socket or a device.
        size: In bytes.
        modified: When it was changed, in seconds since 1970.
    """

    name: str
    kind: str
    size: int
    modified: float


class SessionFiles:
    """The files of a session. Paths are those of `CodeExecutor.read_file`."""

    def __init__(self, run: Runner, python: str) -> None:
        """
        Args:
            run: Runs a command in the workspace: its arguments, its input, and how much of its
                output is kept.
            python: The interpreter of the session's kernels.
        """
        self._run = run
        self._python = python

    async def read(self, path: str | PurePath, max_bytes: int) -> bytes:
        data = bytearray()
        while True:
            piece, report = await self._act(
                "read", path=str(path), offset=len(data), size=PIECE_BYTES, max_bytes=max_bytes
            )
            data += piece
            if len(data) > max_bytes:
                raise TransferLimitError(f"{path} has more than {max_bytes} bytes")
            if len(piece) < PIECE_BYTES:
                return bytes(data)

    async def write(self, path: str | PurePath, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, max(len(view), 1), PIECE_BYTES):
            piece = bytes(view[start : start + PIECE_BYTES])
            await self._act("write", piece, path=str(path), appends=start > 0)

    async def list(self, path: str | PurePath) -> list[FileEntry]:
        text, _ = await self._act("list", path=str(path), max_entries=MAX_FILES)
        try:
            kinds = (str, str, int, float)
            return [FileEntry(*map(_check, row, kinds)) for row in json.loads(text)]
        except (ValueError, TypeError, RecursionError):
            raise _make_error({}) from None

    async def pack(self, paths: Iterable[str | PurePath], max_bytes: int) -> bytes:
        names = [str(path) for path in paths]
        data, report = await self._act(
            "pack", paths=names, max_bytes=max_bytes, max_files=MAX_FILES, piece=PIECE_BYTES
        )
        place = report.get("path")
        if not isinstance(place, str):
            return data
        try:
            return await self.read(place, max_bytes)
        finally:
            await self._act("remove", path=place)

    async def unpack(self, data: bytes, target: str | PurePath, max_bytes: int) -> int:
        if len(data) > max_bytes:
            raise TransferLimitError(f"the archive has {len(data)} bytes, {max_bytes} are allowed")
        params: dict[str, Any] = {
            "path": str(target),
            "max_bytes": max_bytes,
            "max_files": MAX_FILES,
        }
        if len(data) <= PIECE_BYTES:
            _, report = await self._act("unpack", data, source=None, **params)
            return _count(report)
        _, staged = await self._act("stage")
        place = str(staged.get("path"))
        try:
            await self.write(place, data)
            _, report = await self._act("unpack", source=place, **params)
            return _count(report)
        finally:
            await self._act("remove", path=place)

    async def _act(
        self, action: str, data: bytes | None = None, **params: Any
    ) -> tuple[bytes, dict[str, Any]]:
        argv = [self._python, "-I", "-S", "-c", _source(), action, json.dumps(params)]
        result = await self._run(argv, data, MAX_LIST_BYTES)
        report = _read_report(result)
        if result.exit_status != 0 or result.stdout_cut:
            raise _make_error(report)
        return result.stdout, report


@functools.cache
def _source() -> str:
    path = Path(__file__).parent / "kernel_host" / "file_helper.py"
    return path.read_text(encoding="utf-8")


def _read_report(result: CommandResult) -> dict[str, Any]:
    try:
        report = json.loads(result.stderr[:MAX_REPORT_BYTES])
    except (ValueError, RecursionError):
        report = None
    if isinstance(report, dict):
        return report
    why = result.limit or result.stderr[-200:].decode(errors="replace").strip()
    end = f"signal {result.signal}" if result.signal else f"status {result.exit_status}"
    return {"text": f"the command that reads and writes files ended with {end}: {why}"}


def _make_error(report: dict[str, Any]) -> Exception:
    code, text, path = report.get("errno"), report.get("text"), report.get("path")
    code = code if isinstance(code, int) and code in errno.errorcode else errno.EIO
    text = text if isinstance(text, str) else "the sandbox gave no valid answer"
    path = path if isinstance(path, str) else ""
    if code == errno.EFBIG:
        where = f"{path}: " if path else ""
        return TransferLimitError(f"{where}{text}: allow more, or transfer less")
    return OSError(code, text, path) if path else OSError(code, text)


def _check(value: Any, kind: type) -> Any:
    if kind is float and isinstance(value, int):
        value = float(value)
    if not isinstance(value, kind):
        raise TypeError(kind)
    return value


def _count(report: dict[str, Any]) -> int:
    n = report.get("files")
    return n if isinstance(n, int) else 0
