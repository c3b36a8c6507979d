# SPDX-License-Identifier: Apache-2.0
"""Tries to read and write what a sandbox must protect; test_files.py makes the place.

The working directory is the workspace; the argument is a directory outside of it. Prints a JSON
object: name → name of the errno, or what was read. It also runs without a sandbox, as root. So
outside of the test's own directories it changes nothing: it opens files for writing, or creates
them without a name.
"""

import ctypes
import errno
import json
import os
import stat
import sys
import threading

OUTSIDE = sys.argv[1]
SECRET = OUTSIDE + "/file"
libc = ctypes.CDLL(None, use_errno=True)


# Some checks create or move them, if they are not prevented.
PLACES = [(OUTSIDE, n) for n in ("file", "new", "other", "fifo", "link", "socket")] + [
    (".", n) for n in ("mine", "taken", "link", "device")
]


def remove(path):
    try:
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    except OSError:
        pass


def restore():
    """Each check finds the same state."""
    for directory, name in PLACES:
        path = os.path.join(directory, name)
        if name not in ("file", "mine"):
            remove(path)
        elif not os.path.exists(path):
            try:
                write(path, os.O_WRONLY | os.O_CREAT)
            except OSError:
                pass


def outcome(action):
    restore()
    try:
        result = action()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return result if isinstance(result, (str, list)) else "ok"


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


def write(path, flags=os.O_WRONLY):
    fd = os.open(path, flags, 0o600)
    try:
        os.write(fd, b"written by the sandbox\n")
    finally:
        os.close(fd)


def open_to_write(path):
    os.close(os.open(path, os.O_WRONLY))


def make_nameless(directory):
    os.close(os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600))


def reopen(path):
    """O_PATH needs no right; the descriptor's own name is another way in."""
    fd = os.open(path, os.O_PATH)
    write(f"/proc/self/fd/{fd}")


def reopen_read_only(path):
    fd = os.open(path, os.O_RDONLY)
    write(f"/proc/self/fd/{fd}")


def by_descriptor(directory, name):
    write_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.close(os.open(name, os.O_WRONLY, dir_fd=write_fd))


def temporary_link(path):
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.link(f"/proc/self/fd/{fd}", path, follow_symlinks=True)


def map_shared(path):
    import mmap

    fd = os.open(path, os.O_RDWR)
    mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_WRITE)


def through_link(target, name):
    os.symlink(target, name)
    write(name)


def remount():
    if libc.mount(b"none", OUTSIDE.encode(), None, 0x1020, None) < 0:
        raise OSError(ctypes.get_errno(), "mount")


def race():
    """A link that leads inside and outside by turns."""
    os.makedirs("turn/in", exist_ok=True)
    open("turn/in/file", "w").close()
    os.symlink("in", "turn/a")
    os.symlink(OUTSIDE, "turn/b")
    done = threading.Event()

    def swap():
        while not done.is_set():
            libc.renameat2(-100, b"turn/a", -100, b"turn/b", 2)

    thread = threading.Thread(target=swap)
    thread.start()
    for _ in range(2000):
        try:
            write("turn/a/file")
        except OSError:
            pass
    done.set()
    thread.join()


def race_to_read():
    """A name that is by turns a readable and a hidden file, by an exchange, not by a link."""
    done = threading.Event()
    open("plain", "w").close()
    if not os.path.exists("secret.txt"):
        write("secret.txt", os.O_WRONLY | os.O_CREAT)

    def swap():
        while not done.is_set():
            libc.renameat2(-100, b"plain", -100, b"secret.txt", 2)
            libc.renameat2(-100, b"link-plain", -100, b"link-secret", 2)

    os.symlink("plain", "link-plain")
    thread = threading.Thread(target=swap)
    thread.start()
    found = "nothing"
    for _ in range(2000):
        for name in ("plain", "link-plain"):
            try:
                if read(name):
                    found = "ok"
            except OSError:
                pass
    done.set()
    thread.join()
    if found == "ok":
        return found
    raise OSError(errno.EACCES, found)


def race_to_write_below_a_directory():
    """The directory that is written to is exchanged with one on the way to read-only files."""
    done = threading.Event()
    os.makedirs("own/ro", exist_ok=True)
    open("own/ro/file", "w").close()

    def swap():
        while not done.is_set():
            libc.renameat2(-100, b"own", -100, b"above", 2)

    thread = threading.Thread(target=swap)
    thread.start()
    for _ in range(2000):
        try:
            write("own/ro/file")
        except OSError:
            pass
    done.set()
    thread.join()
    if read("above/ro/file").startswith("written") and read("own/ro/file") in (
        "",
        "content of file",
    ):
        return
    raise OSError(errno.EBUSY, "")


def watch(path):
    fd = libc.inotify_init()
    result = libc.inotify_add_watch(fd, path.encode(), 0xFFF)
    number = ctypes.get_errno()
    os.close(fd)
    if result < 0:
        raise OSError(number, path)


def by_map_files(path):
    """A mapped file has a name that leads to the file itself, whatever covers its path."""
    import mmap

    fd = os.open(path, os.O_RDONLY)
    mapping = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
    for name in os.listdir("/proc/self/map_files"):
        link = f"/proc/self/map_files/{name}"
        start, _, end = name.partition("-")
        if int(end, 16) - int(start, 16) == 4096 and os.stat(link).st_ino == os.fstat(fd).st_ino:
            open_to_write(link)
    mapping.close()


def by_system_call(number, *args):
    result = libc.syscall(
        ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in args)
    )
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def by_openat2(path):
    """Opens a file in a way in which no filter can see the flags."""
    how = (ctypes.c_uint64 * 3)(os.O_WRONLY, 0, 0)
    os.close(by_system_call(437, -100, ctypes.c_char_p(path.encode()), ctypes.byref(how), 24))


def by_a_ring():
    """io_uring opens, connects and sends without a system call that a filter could see."""
    os.close(by_system_call(425, 1, ctypes.create_string_buffer(256)))


def execute_memory(action):
    """A program that is not on a disk is restricted in the same way.

    Returns what it reports of @action.
    """
    fd = os.memfd_create("program", 0)
    os.write(fd, b"#!/bin/sh\n" + action.encode() + b"\n")
    import subprocess

    done = subprocess.run([f"/proc/self/fd/{fd}"], pass_fds=[fd], capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout.strip() or "ok"
    raise OSError(errno.EROFS if "Read-only" in done.stderr else errno.EACCES, done.stderr)


def move_away_and_make(name, below):
    os.rename(name, name + "-aside")
    os.makedirs(os.path.dirname(name + "/" + below))
    write(name + "/" + below, os.O_WRONLY | os.O_CREAT)


CHECKS = {
    # what can be read cannot be written
    "twin: read outside": lambda: read(SECRET),
    "write outside": lambda: write(SECRET),
    "create outside": lambda: write(OUTSIDE + "/new", os.O_WRONLY | os.O_CREAT),
    "truncate outside": lambda: os.truncate(SECRET, 0),
    "make a directory outside": lambda: os.mkdir(OUTSIDE + "/new"),
    "unlink outside": lambda: os.unlink(SECRET),
    "rename outside": lambda: os.rename(SECRET, OUTSIDE + "/other"),
    "rename over outside": lambda: os.rename("mine", SECRET),
    "rename from outside": lambda: os.rename(SECRET, "taken"),
    "hard link from outside": lambda: os.link(SECRET, "taken"),
    "hard link to outside": lambda: os.link("mine", OUTSIDE + "/new"),
    "O_TMPFILE linked outside": lambda: temporary_link(OUTSIDE + "/new"),
    "chmod outside": lambda: os.chmod(SECRET, 0o777),
    "chown outside": lambda: os.chown(SECRET, os.getuid(), -1),
    "times outside": lambda: os.utime(SECRET),
    "xattr outside": lambda: os.setxattr(SECRET, "user.x", b"1"),
    "socket outside": lambda: os.mknod(OUTSIDE + "/socket", 0o600 | stat.S_IFSOCK),
    "fifo outside": lambda: os.mkfifo(OUTSIDE + "/fifo"),
    "symbolic link outside": lambda: os.symlink("x", OUTSIDE + "/link"),
    "write by ..": lambda: write("../outside/file"),
    "write by a link": lambda: through_link(SECRET, "link"),
    "write by a link that was there": lambda: write("link-out"),
    "write below a link that was there": lambda: write("link-out-dir/file"),
    "write by O_PATH": lambda: reopen(SECRET),
    "write by reopening": lambda: reopen_read_only(SECRET),
    "write by a directory": lambda: by_descriptor(OUTSIDE, "file"),
    "write by a mapping": lambda: map_shared(SECRET),
    "write by /proc/self/root": lambda: write("/proc/self/root" + SECRET),
    "write by /proc/self/cwd": lambda: write("/proc/self/cwd/../outside/file"),
    "write by /proc/1/root": lambda: open_to_write("/proc/1/root" + SECRET),
    "write by a race": lambda: race(),
    "write by /proc/self/map_files": lambda: by_map_files(SECRET),
    "write by openat2": lambda: by_openat2(SECRET),
    "io_uring": by_a_ring,
    "write by a program in memory": lambda: execute_memory(f"echo x >> {SECRET}"),
    "capability of a file": lambda: os.setxattr(
        "mine", "security.capability", b"\1\0\0\2" + bytes(16)
    ),
    "setuid file": lambda: os.chmod("mine", 0o4755),
    "setgid directory": lambda: os.chmod("deep", 0o2755),
    "remount": remount,
    "write /etc": lambda: open_to_write("/etc/passwd"),
    "create in /": lambda: make_nameless("/"),
    "create in /dev": lambda: make_nameless("/dev"),
    "device": lambda: os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 3)),
    "block device": lambda: os.mknod("device", 0o600 | stat.S_IFBLK, os.makedev(1, 3)),
    # other processes
    "/proc/1/root": lambda: os.listdir("/proc/1/root"),
    "/proc/1/cwd": lambda: os.listdir("/proc/1/cwd"),
    "/proc/1/fd": lambda: os.readlink("/proc/1/fd/3"),
    "/proc/1/mem": lambda: os.close(os.open("/proc/1/mem", os.O_RDONLY)),
    "/proc/1/environ": lambda: os.close(os.open("/proc/1/environ", os.O_RDONLY)),
    "/proc/1/map_files": lambda: os.listdir("/proc/1/map_files"),
    "/proc/parent/root": lambda: os.listdir(f"/proc/{os.getppid()}/root"),
    "/proc/parent/environ": lambda: os.close(os.open(f"/proc/{os.getppid()}/environ", os.O_RDONLY)),
    "/proc/1/ns": lambda: os.readlink("/proc/1/ns/mnt"),
    "write /proc/sys": lambda: open_to_write("/proc/sys/kernel/core_pattern"),
    "write /proc/sysrq-trigger": lambda: open_to_write("/proc/sysrq-trigger"),
    "write /sys": lambda: open_to_write("/sys/kernel/mm/ksm/run"),
    "write /dev/kmsg": lambda: open_to_write("/dev/kmsg"),
    "/dev/mem": lambda: os.close(os.open("/dev/mem", os.O_RDONLY)),
    # root's own
    "/etc/shadow": lambda: os.close(os.open("/etc/shadow", os.O_RDONLY)),
    # what is denied for reading
    "hidden file": lambda: read("secret.txt"),
    "hidden file, by O_PATH": lambda: read(f"/proc/self/fd/{os.open('secret.txt', os.O_PATH)}"),
    "hidden file, linked": lambda: os.link("secret.txt", "taken"),
    "hidden file, moved": lambda: os.rename("secret.txt", "taken"),
    "hidden file, removed": lambda: os.unlink("secret.txt"),
    "hidden file, written": lambda: write("secret.txt"),
    "hidden file, by a link that was there": lambda: read("link-secret"),
    "hidden by a glob": lambda: read("deep/er/a.key"),
    "hidden file, watched": lambda: watch("secret.txt"),
    "twin: watched": lambda: watch("mine"),
    "twin: not hidden by the glob": lambda: read("deep/er/a.keys"),
    "hidden directory": lambda: os.listdir("hidden"),
    "hidden directory's file": lambda: read("hidden/file"),
    "hidden directory's file, its times": lambda: os.stat("hidden/file") and None,
    "hidden directory's link": lambda: os.readlink("hidden/link"),
    "hidden directory, watched": lambda: watch("hidden/file"),
    "hidden directory, moved": lambda: os.rename("hidden", "taken"),
    # The next sandbox would not know what it has to hide.
    "hidden file's directory, moved": lambda: os.rename("aside/er", "aside/taken"),
    "hidden file's directories, moved": lambda: os.rename("aside", "taken"),
    "twin: shown within it": lambda: read("hidden/shown/file"),
    "twin: written within it": lambda: write("hidden/shown/file"),
    # what is denied for writing
    "read-only file": lambda: write("ro/file"),
    "read-only directory": lambda: write("ro/new", os.O_WRONLY | os.O_CREAT),
    "read-only directory, moved": lambda: os.rename("ro", "ro-aside"),
    "read-only directory's parent, moved": lambda: os.rename("above", "above-aside"),
    "read-only below, written": lambda: write("above/ro/file"),
    # what is never writable
    "git hook": lambda: write(".git/hooks/pre-commit", os.O_WRONLY | os.O_CREAT),
    "git configuration": lambda: write(".git/config"),
    "git, moved": lambda: move_away_and_make(".git", "hooks/pre-commit"),
    "git configuration of a submodule": lambda: write(".git/modules/a/b/config"),
    "git hook of a submodule's submodule": lambda: write(".git/modules/a/b/modules/c/hooks/x"),
    "twin: git, elsewhere for a worktree": lambda: write(".git/worktrees/w/commondir"),
    "twin: git of a submodule": lambda: write(".git/modules/a/b/HEAD"),
    "git of a nested repository": lambda: write(
        "deep/.git/hooks/post-checkout", os.O_WRONLY | os.O_CREAT
    ),
    ".env": lambda: write(".env"),
    ".env, removed": lambda: os.unlink(".env"),
    ".env, replaced": lambda: os.rename("mine", ".env"),
    ".mcp.json": lambda: write(".mcp.json"),
    ".bashrc": lambda: write("deep/.bashrc"),
    ".vscode": lambda: write(".vscode/settings.json", os.O_WRONLY | os.O_CREAT),
    "a cell's tools": lambda: write("mcptools/server.py", os.O_WRONLY | os.O_CREAT),
    # races, which leave files in other places
    "hidden file, raced": race_to_read,
    "write by a race of directories": race_to_write_below_a_directory,
    # similar calls that are harmless
    "twin: write": lambda: write("mine"),
    "twin: create": lambda: write("created", os.O_WRONLY | os.O_CREAT),
    "twin: rename": lambda: os.rename("created", "renamed"),
    "twin: rename to another directory": lambda: os.rename("renamed", "deep/renamed"),
    "twin: hard link": lambda: os.link("mine", "mine too"),
    "twin: mkdir": lambda: os.mkdir("directory"),
    "twin: git objects": lambda: write(".git/index", os.O_WRONLY | os.O_CREAT),
    "twin: xattr": lambda: os.setxattr("mine", "user.x", b"1"),
    "twin: chmod": lambda: os.chmod("mine", 0o600),
    "twin: fifo": lambda: os.mkfifo("fifo"),
    "twin: socket": lambda: (os.mknod("socket", 0o600 | stat.S_IFSOCK), os.unlink("socket")),
    "twin: long name": lambda: write("n" * 255, os.O_WRONLY | os.O_CREAT),
    "twin: not UTF-8": lambda: write(b"\xff\xfe", os.O_WRONLY | os.O_CREAT),
    "twin: read it": lambda: read(b"was \xff there"),
    "twin: a program in memory": lambda: execute_memory("echo fine"),
    "twin: /tmp": lambda: make_nameless("/tmp"),
    "twin: /dev/shm": lambda: make_nameless("/dev/shm"),
    "twin: /run": lambda: make_nameless("/run"),
    "twin: /dev/null": lambda: write("/dev/null"),
    "twin: own environ": lambda: read("/proc/self/environ")[:0],
}

json.dump({name: outcome(check) for name, check in CHECKS.items()}, sys.stdout)
