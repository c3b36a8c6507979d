# SPDX-License-Identifier: Apache-2.0
"""Copies files into a workspace and out of it.

Code in a kernel may have created anything there: links to the application's secrets, pipes that
never end, directories nested without a limit. So below the workspace each path component is opened
on its own, relative to its directory. Links are not followed. Sizes, numbers of files and depths
are limited. Paths outside of the workspace belong to the application and are trusted.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath

MAX_TRANSFER_BYTES = 1024 * 1024 * 1024
MAX_FILES = 100_000
MAX_DEPTH = 64
CHUNK_BYTES = 1024 * 1024

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK, because opening a pipe without a writer would block.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TransferLimitError(ValueError):
    """More bytes or files than are allowed; the text says which maximum it is."""


@dataclass
class Transfer:
    """What was copied.

    Attributes:
        files: The files, relative to the source; `.` is the source itself.
        skipped: What is neither file nor directory and was skipped: links, pipes, sockets, devices.
        n_bytes: The size of all files, in bytes.
    """

    files: list[PurePath] = field(default_factory=list)
    skipped: list[PurePath] = field(default_factory=list)
    n_bytes: int = 0


@dataclass
class _Job:
    max_bytes: int
    transfer: Transfer = field(default_factory=Transfer)

    def count(self, n_bytes: int) -> None:
        self.transfer.n_bytes += n_bytes
        if self.transfer.n_bytes > self.max_bytes:
            raise TransferLimitError(
                f"more than {self.max_bytes} bytes: pass a larger max_bytes, or copy less"
            )

    def copied(self, name: PurePath) -> None:
        self.transfer.files.append(name)
        if len(self.transfer.files) > MAX_FILES:
            raise TransferLimitError(f"more than {MAX_FILES} files: pack them into an archive")


def upload(source: Path, workspace: Path, target: PurePath, max_bytes: int) -> Transfer:
    """See `CodeExecutor.upload`."""
    names = _split(target)
    job = _Job(max_bytes)
    with _open_directory(workspace, names[:-1], makes=True) as directory:
        _put(job, source, directory, names[-1], PurePath("."), 0)
    return job.transfer


def download(workspace: Path, source: PurePath, target: Path, max_bytes: int) -> Transfer:
    """See `CodeExecutor.download`."""
    names = _split(source)
    job = _Job(max_bytes)
    with _open_directory(workspace, names[:-1], makes=False) as directory:
        if not _get(job, directory, names[-1], target, PurePath("."), 0):
            raise ValueError(
                f"{source} in the workspace is a link, or neither file nor directory: "
                "it is not followed"
            )
    return job.transfer


def _split(path: PurePath) -> list[str]:
    names = [name for name in path.parts if name != "."]
    if path.is_absolute() or ".." in names or not names or any("\0" in name for name in names):
        raise ValueError(
            f"{str(path)!r} is not a path below the workspace: "
            "give one relative to it, without '..'"
        )
    return names


@contextmanager
def _open_directory(workspace: Path, names: list[str], *, makes: bool) -> Iterator[int]:
    """Opens the directory that the names lead to, without following links."""
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, name in enumerate(names):
            try:
                inner = _open_step(fd, name, makes)
            except OSError as error:
                path = "/".join(names[: number + 1])
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise ValueError(
                        f"{path} in the workspace is a link or no directory: it is not followed"
                    ) from None
                raise OSError(error.errno, error.strerror, path) from None
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _open_step(fd: int, name: str, makes: bool) -> int:
    if makes:
        try:
            os.mkdir(name, dir_fd=fd)
        except FileExistsError:
            pass
    return os.open(name, DIRECTORY, dir_fd=fd)


# Into the workspace


def _put(job: _Job, source: Path, directory: int, name: str, shown: PurePath, depth: int) -> None:
    kind = os.stat(source).st_mode
    if stat.S_ISDIR(kind):
        _check_depth(depth)
        with _open_directory_at(directory, name) as inner:
            for entry in sorted(os.listdir(source)):
                _put(job, source / entry, inner, entry, shown / entry, depth + 1)
    elif stat.S_ISREG(kind):
        _put_file(job, source, directory, name)
        job.copied(shown)
    else:
        job.transfer.skipped.append(shown)


@contextmanager
def _open_directory_at(directory: int, name: str) -> Iterator[int]:
    fd = _open_step(directory, name, makes=True)
    try:
        yield fd
    finally:
        os.close(fd)


def _put_file(job: _Job, source: Path, directory: int, name: str) -> None:
    """Writes a temporary file and renames it, so an existing file or link is replaced as a whole
    and never written through."""
    temporary = f".{name[:100]}.{secrets.token_hex(4)}"
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(reading).st_mode) & 0o777
        writing = os.open(temporary, WRITE, 0o600, dir_fd=directory)
        try:
            _copy(job, reading, writing)
            os.fchmod(writing, mode | stat.S_IRUSR | stat.S_IWUSR)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
        finally:
            os.close(writing)
    finally:
        os.close(reading)


# Out of the workspace


def _get(job: _Job, directory: int, name: str, target: Path, shown: PurePath, depth: int) -> bool:
    """Copies a file or a directory. False: it is something else, or does not exist any more."""
    try:
        kind = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        if depth == 0:
            raise
        return False  # it was removed after the directory was read
    if stat.S_ISDIR(kind):
        _check_depth(depth)
        _get_directory(job, directory, name, target, shown, depth)
        return True
    return stat.S_ISREG(kind) and _get_file(job, directory, name, target, shown)


def _get_directory(
    job: _Job, directory: int, name: str, target: Path, shown: PurePath, depth: int
) -> None:
    target.mkdir(parents=True, exist_ok=True)
    inner = os.open(name, DIRECTORY, dir_fd=directory)
    try:
        with os.scandir(inner) as entries:
            for entry in entries:
                if not _get(
                    job, inner, entry.name, target / entry.name, shown / entry.name, depth + 1
                ):
                    job.transfer.skipped.append(shown / entry.name)
                    if len(job.transfer.skipped) > MAX_FILES:
                        raise ValueError(
                            f"more than {MAX_FILES} links and the like: remove them, or copy less"
                        )
    finally:
        os.close(inner)


def _get_file(job: _Job, directory: int, name: str, target: Path, shown: PurePath) -> bool:
    try:
        reading = os.open(name, READ, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # it has become a link or a socket
            return False
        raise
    try:
        about = os.fstat(reading)
        if not stat.S_ISREG(about.st_mode):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        # A temporary name first: a failure leaves no incomplete file, and an existing link is not
        # written through.
        temporary = target.parent / f".{name[:100]}.{secrets.token_hex(4)}"
        writing = os.open(temporary, WRITE, 0o600)
        try:
            _copy(job, reading, writing)
            # A file from a kernel never gets the set-user-id bit.
            os.fchmod(writing, (stat.S_IMODE(about.st_mode) & 0o755) | stat.S_IRUSR | stat.S_IWUSR)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    job.copied(shown)
    return True


def _copy(job: _Job, reading: int, writing: int) -> None:
    while data := os.read(reading, CHUNK_BYTES):
        job.count(len(data))
        view = memoryview(data)
        while view:
            view = view[os.write(writing, view) :]


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise ValueError(
            f"directories are nested more than {MAX_DEPTH} deep: pack them into an archive"
        )
