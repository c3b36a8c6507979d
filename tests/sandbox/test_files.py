# SPDX-License-Identifier: Apache-2.0
"""Attack suite B, files: what can be read and written, tried inside and then checked from outside.

Files that do not exist yet are in test_names.py, globs and odd names in test_settings.py, full
disks in test_limits.py, the walls of kernels (environment, packages, configuration) in
test_kernels.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from box import Box, make_settings

SETTINGS = make_settings(
    denyRead=["secret.txt", "hidden", "**/*.key"],
    allowRead=["hidden/shown"],
    allowWrite=["."],
    denyWrite=["ro", "above/ro"],
)

FILES = [
    "mine",
    "secret.txt",
    "hidden/file",
    "hidden/shown/file",
    "ro/file",
    "above/ro/file",
    "deep/er/a.key",
    "deep/er/a.keys",
    ".git/hooks/pre-commit.sample",
    ".git/config",
    ".git/HEAD",
    "deep/.git/hooks/x",
    ".git/modules/a/b/HEAD",
    ".git/modules/a/b/config",
    ".git/modules/a/b/modules/c/HEAD",
    ".git/modules/a/b/modules/c/hooks/x",
    ".git/worktrees/w/HEAD",
    ".git/worktrees/w/commondir",
    "aside/er/b.key",
    ".env",
    ".mcp.json",
    "deep/.bashrc",
    ".vscode/settings.json",
    "mcptools/server.py",
]

# Results other than "EROFS", which a path that is not writable gives.
EXPECTED = {
    # of two mounts
    "rename over outside": "EXDEV",
    "rename from outside": "EXDEV",
    "hard link from outside": "EXDEV",
    "hidden file, linked": "EXDEV",
    # something below is protected
    "hidden file's directory, moved": "EBUSY",
    "hidden file's directories, moved": "EBUSY",
    "read-only directory's parent, moved": "EBUSY",
    # names that are protected
    "git hook": "EACCES",
    "git configuration": "EACCES",
    "git, moved": "EACCES",
    "git configuration of a submodule": "EACCES",
    "git hook of a submodule's submodule": "EACCES",
    "git of a nested repository": "EACCES",
    ".env": "EACCES",
    ".mcp.json": "EACCES",
    ".bashrc": "EACCES",
    ".vscode": "EACCES",
    ".env, removed": "EACCES",
    ".env, replaced": "EACCES",
    # not for this user
    "write by /proc/1/root": "EACCES",
    "write by a race": "ok",
    "remount": "EPERM",
    "device": "EPERM",
    "block device": "EPERM",
    "/proc/1/root": "EACCES",
    "/proc/1/cwd": "EACCES",
    "/proc/1/fd": "EACCES",
    "/proc/1/mem": "EACCES",
    "/proc/1/environ": "EACCES",
    "/proc/1/map_files": "EACCES",
    "/proc/1/ns": "EACCES",
    "write /proc/sys": "EACCES",
    "/etc/shadow": "EACCES",
    "hidden file": "EACCES",
    "hidden file, by O_PATH": "EACCES",
    "hidden file, by a link that was there": "EACCES",
    "hidden file, watched": "EACCES",
    "hidden file, raced": "EACCES",
    "hidden by a glob": "EACCES",
    "/proc/parent/root": "EACCES",
    "/proc/parent/environ": "EACCES",
    "write by /proc/self/map_files": "EPERM",
    "write by openat2": "ENOSYS",
    "io_uring": "ENOSYS",
    "capability of a file": "EPERM",
    "setuid file": "EPERM",
    "setgid directory": "EPERM",
    "write by a race of directories": "EBUSY",
    # not there
    "write /dev/kmsg": "ENOENT",
    "/dev/mem": "ENOENT",
    "hidden directory": ["shown"],
    "hidden directory's file": "ENOENT",
    "hidden directory's file, its times": "ENOENT",
    "hidden directory's link": "ENOENT",
    "hidden directory, watched": "ENOENT",
    # what is allowed
    "twin: a program in memory": "fine",
    "twin: read outside": "content of file",
    "twin: not hidden by the glob": "content of a.keys",
    "twin: shown within it": "content of file",
    "twin: read it": "odd",
    "twin: own environ": "",
}

# Not comparable: pid 1 of the host, devices that a machine may lack, and the race, whose result is
# checked from outside.
NOT_COMPARED = {
    "io_uring",
    "write by /proc/1/root",
    "write by a race",
    "remount",
    "/dev/mem",
    "write /sys",
    "write /proc/sysrq-trigger",
}


def expected(name: str, user: str) -> list[str | list[str]]:
    """The results that the probe may report.

    For a user that cannot write there anyway, a file system may be read-only, too.
    """
    if name == "create in /":
        return ["EROFS", "EACCES"]
    if name == "write /proc/sysrq-trigger":
        return ["ENOENT", "EACCES", "EROFS"]
    return [EXPECTED.get(name, "ok" if name.startswith("twin: ") else "EROFS")]


def make_tree(box: Box) -> Path:
    outside = box.place.root / "outside"
    outside.mkdir()
    (outside / "file").write_text("content of file")
    for name in FILES:
        path = box.place.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {path.name}")
    Path(os.fsdecode(os.fsencode(box.place.workspace) + b"/was \xff there")).write_text("odd")
    (box.place.workspace / "link-out").symlink_to(outside / "file")
    (box.place.workspace / "link-out-dir").symlink_to(outside)
    (box.place.workspace / "link-secret").symlink_to("secret.txt")
    (box.place.workspace / "hidden/link").symlink_to("file")
    # The sandbox must deny it, not the file's mode.
    outside.chmod(0o777)
    (outside / "file").chmod(0o666)
    return outside


def snapshot(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_attempts(box: Box, user: str) -> None:
    outside = make_tree(box)
    before = snapshot(outside)
    results = box.probe("files", SETTINGS, str(outside), user=user)
    wrong = {
        name: (result, expected(name, user))
        for name, result in results.items()
        if result not in expected(name, user)
    }
    assert not wrong, "(is, should be): " + str(wrong)
    # Whatever the attempts reported: checked from outside, nothing has changed.
    assert snapshot(outside) == before
    for name in FILES:
        content = (box.place.workspace / name).read_text()
        # What commondir leads to is protected itself.
        is_open = name.endswith(("HEAD", "commondir")) or name in ("mine", "hidden/shown/file")
        if not is_open:
            assert content == f"content of {os.path.basename(name)}", name
    assert (box.place.workspace / "hidden/shown/file").read_text().startswith("written")
    assert not (box.place.workspace / ".git/hooks/pre-commit").exists()


@pytest.mark.needs_root
def test_positive_control(box: Box) -> None:
    """Without a sandbox each of them works, so the attempts are real."""
    outside = make_tree(box)
    results = box.probe("files", None, str(outside), sandbox=False)
    same = {
        name
        for name, result in results.items()
        if result in expected(name, "root") and not name.startswith("twin: ")
    }
    assert {name for name in same - NOT_COMPARED if not name.startswith("/proc/1/")} == set(), same
