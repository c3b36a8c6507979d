# SPDX-License-Identifier: Apache-2.0
"""Reads and writes files of a workspace for `ipybox serve` (`src/serve/mcp-http/files.c`).

It runs in a sandbox like that of a cell, with the workspace as its directory and only the standard
library. So the sandbox decides what it can read and write. It follows no symbolic link.

    python -I -S workspace_files.py ACTION '{"path": …}'

stdout begins with a line of JSON about what is there now. Then the server sends a line on stdin, or
closes it if nothing is to be done. Content follows: on stdout, or on stdin in pieces, each after 8
hexadecimal digits with its size. A piece of size 0 ends the content. Without it, nothing is
changed. Changes end with another line of JSON. Errors are a line of JSON with "error" and "text".
"""

import errno
import json
import os
import resource
import stat
import sys
import tarfile

CHUNK = 256 * 1024
MAX_ENTRIES = 10000  # of a list
MAX_MEMBERS = 100000  # of an archive
MAX_ARCHIVE = 4 << 30  # bytes of the files in an archive
MAX_DEPTH = 64
MAX_MEMORY = 1 << 30
MAX_LINE = 256
TEMPORARY = ".ipybox-upload-"
FAILED = 3

DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """What was asked for is not done. `code` decides the status of the answer."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


class Gone(Exception):
    """The server has closed stdin: nothing is to be done."""


def missing():
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


# --- the server ---------------------------------------------------------------------------------


def say(**report):
    write_all(1, json.dumps(report).encode() + b"\n")


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_exactly(size):
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            raise Gone
        data += piece
    return bytes(data)


def read_line():
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < MAX_LINE:
        line += read_exactly(1)
    return line.decode().split()


def receive():
    """The pieces of the content."""
    while size := int(read_exactly(8), 16):
        while size > 0:
            piece = os.read(0, min(size, CHUNK))
            if not piece:
                raise Gone
            size -= len(piece)
            yield piece


# --- names --------------------------------------------------------------------------------------


def enter(path, makes=False):
    """Opens a directory below the workspace. The caller closes it."""
    fd = os.open(".", DIRECTORY)
    for name in filter(None, path.split("/")):
        try:
            try:
                below = os.open(name, DIRECTORY, dir_fd=fd)
            except FileNotFoundError:
                if not makes:
                    raise
                try:
                    os.mkdir(name, dir_fd=fd)
                except FileExistsError:
                    pass
                below = os.open(name, DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def split(path):
    parent, _, name = path.strip("/").rpartition("/")
    return parent, name


def look(parent, name):
    """What has the name; None: nothing."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def kind_of(about):
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISLNK, "link"))
    return next((name for test, name in kinds if test(about.st_mode)), "special")


def tag(about):
    """Another one after each change that the file system's clock can distinguish."""
    numbers = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns
    return "-".join(f"{number:x}" for number in numbers)


def describe(about):
    if about is None:
        return {"kind": "missing"}
    about_it = {"kind": kind_of(about), "mtime": int(about.st_mtime)}
    if stat.S_ISREG(about.st_mode):
        about_it |= {"size": about.st_size, "etag": tag(about)}
    return about_it


# --- reading ------------------------------------------------------------------------------------


def read(path):
    parent, name = split(path)
    fd = os.open(name, READ, dir_fd=enter(parent))
    about = os.fstat(fd)
    if kind_of(about) not in ("file", "directory"):
        raise missing()
    say(**describe(about))
    start, size = map(int, read_line())
    os.lseek(fd, start, os.SEEK_SET)
    while size > 0:
        data = os.read(fd, min(size, CHUNK))
        if not data:
            raise Refused("changed", "the file became shorter while it was read")
        write_all(1, data)
        size -= len(data)


def can_read(name, parent):
    try:
        os.close(os.open(name, READ, dir_fd=parent))
    except OSError:
        return False
    return True


def entries_of(parent):
    """The names, sorted, and what they are: files and directories that can be read."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)
    try:
        names = os.listdir(fd)
    finally:
        os.close(fd)
    for name in sorted(names):
        about = look(parent, name)
        if about is not None and kind_of(about) in ("file", "directory"):
            if is_text(name) and can_read(name, parent):
                yield name, about


def is_text(name):
    """Other names, which have a control character or are no UTF-8, cannot be in a URL."""
    codes = [ord(letter) for letter in name]
    is_bad = any(code < 32 or code == 127 or 0xD800 <= code <= 0xDFFF for code in codes)
    return not is_bad and not name.startswith(TEMPORARY)


def list_directory(path):
    parent = enter(path)
    entries = []
    for name, about in entries_of(parent):
        if len(entries) == MAX_ENTRIES:
            raise Refused("limit", f"the directory has more than {MAX_ENTRIES} entries")
        entries.append({"name": name, **describe(about)})
    say(kind="directory", entries=entries)


class Output:
    def write(self, data):
        write_all(1, data)
        return len(data)


class Packer:
    def __init__(self, archive):
        self.archive, self.n_members, self.n_bytes = archive, 0, 0

    def add_directory(self, parent, prefix, depth):
        if depth > MAX_DEPTH:
            raise Refused("limit", f"there are more than {MAX_DEPTH} levels of directories")
        for name, about in entries_of(parent):
            self.add(parent, name, prefix + name, about, depth)

    def add(self, parent, name, path, about, depth):
        try:
            is_directory = stat.S_ISDIR(about.st_mode)
            fd = os.open(name, DIRECTORY if is_directory else READ, dir_fd=parent)
        except OSError:
            return  # it was there a moment ago
        with os.fdopen(fd, "rb") if not is_directory else Closing(fd) as file:
            now = os.fstat(fd)
            if kind_of(now) != kind_of(about):
                return
            member = tarfile.TarInfo(path)
            member.mode, member.mtime = now.st_mode & 0o755, int(now.st_mtime)
            self.count(now)
            if is_directory:
                member.type = tarfile.DIRTYPE
                self.archive.addfile(member)
                self.add_directory(fd, path + "/", depth + 1)
            else:
                member.size = now.st_size
                self.archive.addfile(member, file)

    def count(self, about):
        self.n_members += 1
        self.n_bytes += about.st_size
        if self.n_members > MAX_MEMBERS or self.n_bytes > MAX_ARCHIVE:
            raise Refused(
                "limit", f"there are more than {MAX_MEMBERS} files or {MAX_ARCHIVE} bytes"
            )


class Closing:
    def __init__(self, fd):
        self.fd = fd

    def __enter__(self):
        return self.fd

    def __exit__(self, *error):
        os.close(self.fd)


def pack(path):
    parent = enter(path)
    say(kind="directory")
    read_line()
    with tarfile.open(fileobj=Output(), mode="w|", format=tarfile.PAX_FORMAT) as archive:
        Packer(archive).add_directory(parent, "", 0)


# --- writing ------------------------------------------------------------------------------------


class Draft:
    """A file that has no name yet, in the directory where it will have one."""

    def __init__(self, parent):
        self.parent, self.name = parent, None
        self.random = TEMPORARY + os.urandom(8).hex()
        try:
            self.fd = os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o666, dir_fd=parent)
        except OSError as error:
            # A file system without such files.
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
                raise
            self.name = self.random
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self.fd = os.open(self.name, flags, 0o666, dir_fd=parent)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.name:
            os.unlink(self.name, dir_fd=self.parent)
        os.close(self.fd)

    def link(self, name):
        """Fails if the name exists."""
        if self.name:
            os.link(self.name, name, src_dir_fd=self.parent, dst_dir_fd=self.parent)
        else:
            os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self.parent, follow_symlinks=True)

    def place(self, name, former):
        """Gives it the name, which `former` (or nothing, if it is None) has now."""
        if former is None:
            self.link(name)
            return
        os.fchmod(self.fd, stat.S_IMODE(former.st_mode) & 0o777)
        if not self.name:
            self.link(self.random)
            self.name = self.random
        os.rename(self.name, name, src_dir_fd=self.parent, dst_dir_fd=self.parent)
        self.name = None


def check_place(about, path):
    if about is not None and not stat.S_ISREG(about.st_mode):
        kind = {"directory": "a directory", "link": "a symbolic link"}.get(
            kind_of(about), "no file"
        )
        raise Refused("conflict", f"{path} is {kind}: delete it first")


def check_same(parent, name, before, is_conditional):
    """What is there now; refused if that is not what the condition was about."""
    now = look(parent, name)
    is_same = (now is None) == (before is None) and (now is None or tag(now) == tag(before))
    if is_conditional and not is_same:
        raise Refused("changed", "it was changed in the meantime")
    return now


def write(path, is_conditional):
    way, name = split(path)
    parent, before = None, None
    try:
        parent = enter(way)
        before = look(parent, name)
    except FileNotFoundError:
        pass
    check_place(before, path)
    say(**describe(before))
    read_line()
    parent = enter(way, makes=True)
    with Draft(parent) as draft:
        for piece in receive():
            write_all(draft.fd, piece)
        for _ in range(100):
            now = check_same(parent, name, before, is_conditional)
            check_place(now, path)
            try:
                draft.place(name, now)
                break
            except FileExistsError:  # since then
                continue
        else:
            raise Refused("conflict", f"{path} is created and removed all the time: try again")
        say(created=now is None, etag=tag(os.fstat(draft.fd)))


def make_directory(path):
    say(kind="directory")
    read_line()
    way, name = split(path)
    parent = enter(way, makes=True)
    about = look(parent, name) if name else os.fstat(parent)
    if about is None:
        os.mkdir(name, dir_fd=parent)
    elif not stat.S_ISDIR(about.st_mode):
        raise Refused("conflict", f"{path} is not a directory: delete it first")
    say(created=about is None)


def remove_tree(parent, name):
    about = look(parent, name)
    if about is None:
        return
    if not stat.S_ISDIR(about.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for below in os.listdir(fd):
            remove_tree(fd, below)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


def remove(path, is_conditional, is_recursive):
    way, name = split(path)
    parent = enter(way)
    before = look(parent, name)
    if before is None:
        raise missing()
    if path.endswith("/") and not stat.S_ISDIR(before.st_mode):
        raise missing()
    say(**describe(before))
    read_line()
    check_same(parent, name, before, is_conditional)
    if is_recursive:
        remove_tree(parent, name)
    elif stat.S_ISDIR(before.st_mode):
        os.rmdir(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)
    say(removed=True)


# --- archives -----------------------------------------------------------------------------------


def open_archive(file):
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    is_gzip = os.pread(file.fileno(), 2, 0) == b"\x1f\x8b"
    return tarfile.open(fileobj=file, mode="r|gz" if is_gzip else "r|")


def name_of(member):
    names = [name for name in member.name.split("/") if name not in ("", ".")]
    if member.name.startswith("/") or ".." in names:
        raise Refused("bad", f"{member.name!r} in the archive leads out of the directory")
    if not all(is_text(name) for name in names):
        raise Refused("bad", f"{member.name!r} in the archive has a name that is not accepted")
    if len(names) > MAX_DEPTH:
        raise Refused("limit", f"the archive has more than {MAX_DEPTH} levels of directories")
    return "/".join(names)


def check_archive(file):
    """Before anything is written: the archive is complete, and has only what is accepted."""
    n_members = n_bytes = 0
    with open_archive(file) as archive:
        for member in archive:
            n_members += 1
            n_bytes += member.size
            if n_members > MAX_MEMBERS or n_bytes > MAX_ARCHIVE:
                raise Refused(
                    "limit", f"the archive has more than {MAX_MEMBERS} files or {MAX_ARCHIVE} bytes"
                )
            name_of(member)
            if not member.isreg() and not member.isdir():
                raise Refused(
                    "bad",
                    f"{member.name!r} in the archive is neither a file nor a directory: links and "
                    "devices are not accepted",
                )
            if member.isreg():
                source, size = archive.extractfile(member), 0
                while piece := source.read(CHUNK):
                    size += len(piece)
                if size != member.size:
                    raise Refused("bad", "the archive is damaged: it ends too early")
    if n_members == 0:
        raise Refused("bad", "the archive is empty, or no tar")


def extract(archive, member, path):
    way, name = split(path)
    if member.isdir():
        os.close(enter(path, makes=True))
        return
    parent = enter(way, makes=True)
    try:
        with Draft(parent) as draft:
            source = archive.extractfile(member)
            while piece := source.read(CHUNK):
                write_all(draft.fd, piece)
            os.fchmod(draft.fd, (member.mode & 0o755) | 0o600)
            os.utime(draft.fd, (member.mtime, member.mtime))
            for _ in range(100):
                now = look(parent, name)
                check_place(now, path)
                try:
                    draft.place(name, now)
                    return
                except FileExistsError:
                    continue
            raise Refused("conflict", f"{path} is created and removed all the time: try again")
    finally:
        os.close(parent)


def unpack(path):
    say(kind="directory")
    read_line()
    os.close(enter(path, makes=True))
    n_files = 0
    with Draft(enter("")) as draft, os.fdopen(os.dup(draft.fd), "rb", buffering=0) as file:
        for piece in receive():
            write_all(draft.fd, piece)
        check_archive(file)
        try:
            with open_archive(file) as archive:
                for member in archive:
                    name = name_of(member)
                    whole = f"{path.strip('/')}/{name}".strip("/")
                    if name:
                        extract(archive, member, whole)
                        n_files += member.isreg()
        except (OSError, Refused) as error:
            refused = error if isinstance(error, Refused) else explain(error, True)
            raise Refused(
                refused.code,
                f"{whole}: {refused.text}. The files before it in the archive were written: "
                f"{n_files}",
            ) from error
    say(created=True, files=n_files)


# --- the end ------------------------------------------------------------------------------------

ACTIONS = {
    "read": read,
    "list": list_directory,
    "pack": pack,
    "write": write,
    "make": make_directory,
    "remove": remove,
    "unpack": unpack,
}
WRITING = {"write", "make", "remove", "unpack"}

MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}
FULL = {errno.ENOSPC, errno.EDQUOT}
CONFLICT = {errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY, errno.ETXTBSY}
# EBUSY: a sandbox has put something over a file that it protects.
DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}


def explain(error, is_writing):
    code, text = error.errno, error.strerror or str(error)
    if code in DENIED:
        return Refused("refused" if is_writing else "missing", text)
    for codes, name in ((FULL, "full"), (CONFLICT, "conflict")):
        if code in codes:
            return Refused(name, text)
    if code in MISSING:
        return Refused("conflict" if is_writing and code != errno.ENOENT else "missing", text)
    names = {errno.EFBIG: "limit", errno.ENAMETOOLONG: "bad"}
    return Refused(names.get(code, "failed"), text)


def main():
    action, params = sys.argv[1], json.loads(sys.argv[2])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or soft > MAX_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, hard))
    try:
        ACTIONS[action](**params)
        return 0
    except Gone:
        return 0
    except BrokenPipeError:
        return FAILED
    except Refused as error:
        refused = error
    except (tarfile.TarError, EOFError) as error:
        refused = Refused("bad", f"the archive is damaged: {error}")
    except (MemoryError, RecursionError):
        refused = Refused("limit", "it needs too much memory, or is nested too deeply")
    except OSError as error:
        refused = explain(error, action in WRITING)
    except ValueError as error:
        refused = Refused("bad", f"the archive is damaged: {error}")
    say(error=refused.code, text=refused.text)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
