# SPDX-License-Identifier: Apache-2.0
"""Attacks on names in a workspace, for machines on which the whole test suite does not run.

It runs in the workspace, in a sandbox or, as positive control, without one. For each attack it
prints a line of JSON: `attack`, `error` (the name of an errno, or null if the attack got through),
and `trace`, the path that it made.

Before some attacks the host does something. The script prints {"host": NAME} then, and continues
when it reads a line. With HAS_HOST = False, which a caller may put before it, it leaves these out.

No system call here is newer than Linux 5.10, so that it attacks each kernel in the same way.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Callable

HAS_HOST = globals().get("HAS_HOST", True)
TEXT = "planted"

Attack = Callable[[], str]
attacks: list[tuple[str, str | None, Attack]] = []


def attack(name: str, host: str | None = None) -> Callable[[Attack], Attack]:
    def add(function: Attack) -> Attack:
        attacks.append((name, host, function))
        return function

    return add


def write(path: str, flags: int = os.O_CREAT | os.O_EXCL) -> str:
    descriptor = os.open(path, os.O_WRONLY | flags, 0o755)
    os.write(descriptor, TEXT.encode())
    os.close(descriptor)
    return path


def directory(path: str) -> str:
    os.makedirs(path, exist_ok=True)
    return path


def read(path: str) -> str:
    with open(path) as file:
        if "secret" not in file.read():
            raise OSError(errno.ENODATA, "")  # something else was shown in its place
    return path


@attack("create a git hook")
def create_hook() -> str:
    return write(".git/hooks/pre-commit")


@attack("create the hook of a submodule that is not there yet")
def create_hook_of_submodule() -> str:
    return write(directory(".git/modules/one/hooks") + "/post-checkout")


@attack("create .mcp.json")
def create_servers() -> str:
    return write(".mcp.json")


@attack("create .vscode/tasks.json")
def create_tasks() -> str:
    return write(directory(".vscode") + "/tasks.json")


@attack("create .husky/pre-commit")
def create_husky() -> str:
    return write(directory(".husky") + "/pre-commit")


@attack("create a name in capitals")
def create_in_capitals() -> str:
    return write(directory("capitals") + "/.MCP.json")


@attack("rename a file to it")
def rename_file() -> str:
    target = directory("rename") + "/.mcp.json"
    os.rename(write("rename/file"), target)
    return target


@attack("rename a directory with a hook in it to .git")
def rename_directory() -> str:
    write(directory("repository/plain/hooks") + "/pre-commit")
    os.rename("repository/plain", "repository/.git")
    return "repository/.git/hooks/pre-commit"


@attack("link a file to it")
def link() -> str:
    target = directory("link") + "/.mcp.json"
    os.link(write("link/file"), target)
    return target


@attack("link it symbolically")
def link_symbolically() -> str:
    target = directory("symlink") + "/.mcp.json"
    write("symlink/file")
    os.symlink("file", target)
    return target


@attack("link a file without a name to it")
def link_nameless() -> str:
    target = directory("nameless") + "/.mcp.json"
    descriptor = os.open("nameless", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(descriptor, TEXT.encode())
    # With a directory Python calls linkat(), without one link(), which follows no link.
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    os.link(f"/proc/self/fd/{descriptor}", target, src_dir_fd=root, follow_symlinks=True)
    return target


@attack("create it by a directory's descriptor")
def create_by_descriptor() -> str:
    descriptor = os.open(directory("descriptor"), os.O_PATH | os.O_DIRECTORY)
    os.close(os.open(".mcp.json", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=descriptor))
    return "descriptor/.mcp.json"


@attack("bind a socket to it")
def bind() -> str:
    target = directory("socket") + "/.mcp.json"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(target)
    return target


@attack("write .git/config after the host has replaced it", host="replace .git/config")
def write_configuration() -> str:
    return write(".git/config", os.O_APPEND)


@attack("read .env after the host has replaced it", host="replace .env")
def read_replaced() -> str:
    return read(".env")


@attack("read a .env that the host has created", host="create below/.env")
def read_created() -> str:
    return read("below/.env")


@attack("write the .env that the host has created")
def write_created() -> str:
    return write("below/.env", os.O_APPEND)


def main() -> None:
    has_created = HAS_HOST
    for name, host, function in attacks:
        if (host is not None or "the host has" in name) and not has_created:
            continue
        if host is not None:
            print(json.dumps({"host": host}), flush=True)
            sys.stdin.readline()
        try:
            result = {"error": None, "trace": function()}
        except OSError as error:
            result = {"error": errno.errorcode[error.errno or 0], "trace": None}
        print(json.dumps({"attack": name, **result}), flush=True)


main()
