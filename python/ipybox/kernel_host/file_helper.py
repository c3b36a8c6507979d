# SPDX-License-Identifier: Apache-2.0
"""Reads and writes files, within the walls of a session.

The SDK runs this as a command beside a kernel (`ipybox.session_files`), with the kernel's Python
and only the standard library. So it may do what a cell may do, and no more.

    python -I -S -c SOURCE ACTION '{"path": …}'

Data goes over stdin and stdout. On success, stderr has a JSON object and the exit status is 0. Else
stderr has {"errno", "text", "path"} and the exit status is 3.
"""

import errno
import json
import os
import shutil
import stat
import sys
import tarfile
import tempfile

CHUNK = 1024 * 1024
FAILED = 3


class Refused(Exception):
    """What was asked for is not done."""

    def __init__(self, code, text, path=""):
        super().__init__(text)
        self.code, self.text, self.path = code, text, path


def read(path, offset, size, max_bytes):
    """A piece of a regular file."""
    # O_NONBLOCK, because opening a pipe without a writer would block.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    about = os.fstat(fd)
    if stat.S_ISDIR(about.st_mode):
        raise Refused(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(about.st_mode):
        raise Refused(errno.EINVAL, "it is neither a file nor a directory", path)
    if about.st_size > max_bytes:
        raise Refused(errno.EFBIG, f"it has {about.st_size} bytes", path)
    with open(fd, "rb", buffering=0) as file:
        file.seek(offset)
        while size > 0:
            data = file.read(min(size, CHUNK))
            if not data:
                break
            size -= len(data)
            write_all(1, data)
    return {"size": about.st_size}


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write(path, appends):
    """Writes stdin to a file. An existing file keeps its owner and its permissions."""
    parent = os.path.dirname(path)
    if parent and not appends:
        os.makedirs(parent, exist_ok=True)
    mode = os.O_APPEND if appends else os.O_CREAT | os.O_TRUNC
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | mode, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise Refused(errno.EINVAL, "it is neither a file nor a directory", path)
    while data := os.read(0, CHUNK):
        write_all(fd, data)
    os.close(fd)
    return {}


def describe(entry):
    about = entry.stat(follow_symlinks=False)
    kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link"))
    kind = next((name for test, name in kinds if test(about.st_mode)), "special")
    return [entry.name, kind, about.st_size, about.st_mtime]


def list_directory(path, max_entries):
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            if len(found) >= max_entries:
                raise Refused(errno.EFBIG, f"it has more than {max_entries} entries", path)
            try:
                found.append(describe(entry))
            except FileNotFoundError:
                pass
    write_all(1, json.dumps(sorted(found)).encode())
    return {}


def stage():
    """Makes an empty file outside of the workspace."""
    fd, path = tempfile.mkstemp(prefix=".ipybox-")
    os.close(fd)
    return {"path": path}


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    return {}


class Counter:
    """The file that a tar is written to, which has a maximum."""

    def __init__(self, file, max_bytes):
        self.file, self.left, self.max_bytes = file, max_bytes, max_bytes

    def write(self, data):
        self.left -= len(data)
        if self.left < 0:
            raise Refused(errno.EFBIG, f"the archive has more than {self.max_bytes} bytes")
        return self.file.write(data)


def pack(paths, max_bytes, max_files, piece):
    """A small archive goes to stdout. A larger one is a file, whose path is returned."""
    n = 0

    def check(member):
        nonlocal n
        n += 1
        if n > max_files:
            raise Refused(errno.EFBIG, f"there are more than {max_files} files")
        is_plain = member.isreg() or member.isdir() or member.issym() or member.islnk()
        return member if is_plain else None

    fd, temporary = tempfile.mkstemp(prefix=".ipybox-")
    is_kept = False
    try:
        with open(fd, "w+b") as file:
            with tarfile.open(fileobj=Counter(file, max_bytes), mode="w|") as archive:
                for path in paths:
                    archive.add(path, filter=check)
            size = file.tell()
            if size > piece:
                is_kept = True
                return {"path": temporary}
            file.seek(0)
            while data := file.read(CHUNK):
                write_all(1, data)
            return {}
    finally:
        if not is_kept:
            os.unlink(temporary)


def check_member(member, target):
    """Nothing may be made outside of the target."""
    names = member.name.split("/")
    if member.name.startswith("/") or ".." in names:
        raise Refused(errno.EINVAL, f"the member {member.name!r} leads out of the directory")
    if member.issym() or member.islnk():
        start = os.path.dirname(member.name) if member.issym() else ""
        end = os.path.normpath(os.path.join(start, member.linkname))
        if os.path.isabs(end) or end.split("/")[0] == "..":
            raise Refused(errno.EINVAL, f"the link {member.name!r} leads out of the directory")
    elif not member.isreg() and not member.isdir():
        raise Refused(errno.EINVAL, f"the member {member.name!r} is neither a file nor a directory")
    parent = os.path.realpath(os.path.join(target, os.path.dirname(member.name)))
    if os.path.commonpath((parent, target)) != target:
        raise Refused(errno.EINVAL, f"the member {member.name!r} leads out of the directory")


def unpack(path, source, max_bytes, max_files):
    target = os.path.realpath(path)
    os.makedirs(target, exist_ok=True)
    n_files = n_bytes = 0
    own = os.geteuid(), os.getegid()
    with open(source if source else 0, "rb") as file:
        with tarfile.open(fileobj=file, mode="r|*") as archive:
            for member in archive:
                n_files += 1
                n_bytes += max(member.size, 0)
                if n_files > max_files or n_bytes > max_bytes:
                    raise Refused(
                        errno.EFBIG,
                        f"the archive has more than {max_files} files or {max_bytes} bytes",
                    )
                check_member(member, target)
                # Files belong to the user of the session, who can read them.
                member.uid, member.gid = own
                member.uname = member.gname = ""
                member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o600)
                extract(archive, member, target)
    return {"files": n_files}


def extract(archive, member, target):
    place = os.path.join(target, member.name)
    if not member.isdir() and os.path.lexists(place):
        os.unlink(place)
    if hasattr(tarfile, "fully_trusted_filter"):
        # check_member and what was set above are the filter.
        archive.extract(member, target, set_attrs=not member.issym(), filter="fully_trusted")
    else:
        archive.extract(member, target, set_attrs=not member.issym())


ACTIONS = {
    "read": read,
    "write": write,
    "list": list_directory,
    "stage": stage,
    "remove": remove,
    "pack": pack,
    "unpack": unpack,
}


def main():
    try:
        report, status = ACTIONS[sys.argv[1]](**json.loads(sys.argv[2])), 0
    except Refused as error:
        report = {"errno": error.code, "text": error.text, "path": error.path}
        status = FAILED
    except OSError as error:
        report = {
            "errno": error.errno or errno.EIO,
            "text": error.strerror or str(error),
            "path": str(error.filename or ""),
        }
        status = FAILED
    except (tarfile.TarError, EOFError) as error:
        report = {"errno": errno.EINVAL, "text": f"the archive is damaged: {error}", "path": ""}
        status = FAILED
    sys.stderr.write(json.dumps(report))
    sys.stderr.flush()
    os._exit(status)


main()
