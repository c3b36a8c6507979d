# SPDX-License-Identifier: Apache-2.0
"""Directories of adapters that end with an object of the program."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

from ..removal import remove_directory


def make_directory(owner: object, prefix: str) -> tuple[Path, weakref.finalize[Any, Any]]:
    """Makes a temporary directory.

    Args:
        owner: It is removed when this object is garbage collected, and when the program ends.
        prefix: Of its name.

    Returns:
        The directory, and a function that removes it earlier.
    """
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    return directory, weakref.finalize(owner, _remove_own, directory, os.getpid())


def _remove_own(directory: Path, pid: int) -> None:
    if os.getpid() == pid:  # a forked child leaves it to its parent
        remove_directory(directory)
