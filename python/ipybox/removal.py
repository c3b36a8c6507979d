# SPDX-License-Identifier: Apache-2.0
"""Removes directories in which untrusted code has worked."""

from __future__ import annotations

import logging
import os
import secrets
import stat
from pathlib import Path

logger = logging.getLogger("ipybox")


def remove_directory(directory: Path) -> None:
    """Removes a directory with everything in it. What cannot be removed is logged.

    Code may have made directories that cannot be read, and a tree of any depth. So nothing here is
    recursive, no path is longer than two names, and two files are open at a time: each pass moves
    directories one level up. No process may still work in it.
    """
    try:
        mode = os.lstat(directory).st_mode
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(f"not a directory: {directory}")
        os.chmod(directory, 0o700)
        base = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _empty(base)
        finally:
            os.close(base)
        os.rmdir(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("files of a session cannot be removed: %s: %s", directory, error)


def _empty(base: int) -> None:
    """Removes what can be removed, and then raises the first error."""
    prefix = secrets.token_hex(8)
    n_moved = 0
    failed: dict[str, OSError] = {}
    while names := [name for name in os.listdir(base) if name not in failed]:
        for name in names:
            try:
                if _is_directory(name, base):
                    n_moved = _remove_level(base, name, prefix, n_moved)
                else:
                    os.unlink(name, dir_fd=base)
            except OSError as error:
                failed[name] = error
    for first in failed.values():
        raise first


def _remove_level(base: int, name: str, prefix: str, n_moved: int) -> int:
    """Removes a directory. Those in it move to the base, and get new names there."""
    os.chmod(name, 0o700, dir_fd=base)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=base)
    try:
        for child in os.listdir(folder):
            if _is_directory(child, folder):
                os.chmod(child, 0o700, dir_fd=folder)  # it cannot be moved without
                n_moved += 1
                os.rename(child, f"{prefix}-{n_moved}", src_dir_fd=folder, dst_dir_fd=base)
            else:
                os.unlink(child, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=base)
    return n_moved


def _is_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
