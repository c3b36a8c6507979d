# SPDX-License-Identifier: Apache-2.0
"""A hand in the sandbox: it does what the test says, one action after another.

The test decides when each action happens, so it can change files between two of them. Each line of
stdin is a JSON list: an action and its arguments. Each line of stdout is what came of it: "ok", the
name of an errno, or a value. names_hand.py is the other side.

The numbers of system calls are those of x86-64.
"""

import ctypes
import errno
import json
import os
import socket
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

AT_FDCWD = -100
AT_REMOVEDIR, AT_FOLLOW, AT_EMPTY_PATH = 0x200, 0x400, 0x1000
NOREPLACE, EXCHANGE = 1, 2


def text(path):
    return path if isinstance(path, bytes) else os.fsencode(path)


def call(number, *args):
    """A system call. Texts are given as str or bytes; every other pointer as a ctypes object."""
    values = [
        ctypes.c_long(arg)
        if isinstance(arg, int)
        else ctypes.c_char_p(text(arg))
        if isinstance(arg, (str, bytes))
        else arg
        for arg in args
    ]
    result = libc.syscall(ctypes.c_long(number), *values)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"call {number}")
    return result


def put(fd, content="evil"):
    """Writes to a descriptor, and closes it."""
    try:
        os.write(fd, content.encode())
    finally:
        os.close(fd)


# What every test may ask for.


def read(path):
    with open(path, errors="surrogateescape") as file:
        return [file.read()]


def write(path, content="evil"):
    put(os.open(path, os.O_WRONLY | os.O_TRUNC), content)


def append(path, content="evil"):
    put(os.open(path, os.O_WRONLY | os.O_APPEND), content)


def create(path, content="evil"):
    put(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), content)


def make(path, content="evil"):
    """Creates it with the directories on the way."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    create(path, content)


def replace(path, content="evil"):
    """As editors do: a new file gets the name."""
    create("hand.new", content)
    try:
        os.replace("hand.new", path)
    finally:
        if os.path.lexists("hand.new"):
            os.unlink("hand.new")


def execute(*command):
    import subprocess

    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return [done.returncode, done.stdout, done.stderr]


def listing(path="."):
    return sorted(os.listdir(path))


def open_to_keep(path, flags):
    """Returns a descriptor, which stays open."""
    return [os.open(path, flags)]


def create_at(fd, path, content="evil"):
    put(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd), content)


def write_at(fd, path, content="evil"):
    put(os.open(path, os.O_WRONLY | os.O_TRUNC, dir_fd=fd), content)


def read_at(fd, path):
    kept = os.open(path, os.O_RDONLY, dir_fd=fd)
    try:
        return [os.read(kept, 1000).decode()]
    finally:
        os.close(kept)


ACTIONS = {
    "read": read,
    "write": write,
    "append": append,
    "create": create,
    "make": make,
    "replace": replace,
    "remove": os.unlink,
    "mkdir": os.mkdir,
    "mkdirs": lambda path: os.makedirs(path, exist_ok=True),
    "rmdir": os.rmdir,
    "rename": os.rename,
    "link": os.link,
    "symlink": os.symlink,
    "chmod": os.chmod,
    "chdir": os.chdir,
    "execute": execute,
    "listing": listing,
    "open": open_to_keep,
    "create_at": create_at,
    "write_at": write_at,
    "read_at": read_at,
    "fchdir": os.fchdir,
    "pid": lambda: [os.getpid()],
}


def do(name, *args):
    try:
        result = ACTIONS[name](*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return result if isinstance(result, (str, list)) else "ok"


def serve():
    for line in sys.stdin:
        print(json.dumps(do(*json.loads(line))), flush=True)
