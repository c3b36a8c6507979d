# SPDX-License-Identifier: Apache-2.0
"""Finds the C program."""

from __future__ import annotations

import os
from collections.abc import Iterator

PROGRAM = "ipybox"


def find_binary() -> str:
    """The path of the C program `ipybox`.

    These are tried in order: the environment variable IPYBOX_BIN; the build directory, if this
    package is in a source tree; the scripts of the environment that this package is installed in;
    PATH.

    Raises:
        FileNotFoundError: If it is in none of them, or IPYBOX_BIN does not name a program.
    """
    asked = os.environ.get("IPYBOX_BIN")
    if asked:
        if _is_program(asked):
            return os.path.abspath(asked)
        raise FileNotFoundError(f"IPYBOX_BIN does not name a program: {asked}")
    for path in _places():
        if _is_program(path):
            return path
    raise FileNotFoundError(
        "the program ipybox was not found in this package's environment or in PATH. "
        "Install the package again (pip install --force-reinstall ipybox), "
        "or set IPYBOX_BIN to the program's path"
    )


def _places() -> Iterator[str]:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    above = os.path.dirname(package)
    tree = os.path.dirname(above)
    if os.path.exists(os.path.join(tree, "meson.build")):
        yield os.path.join(tree, "build", PROGRAM)
    yield os.path.join(package, "bin", PROGRAM)
    # PREFIX/lib/python3.13/site-packages/ipybox, and `pip install --target`.
    yield os.path.normpath(os.path.join(above, "..", "..", "..", "bin", PROGRAM))
    yield os.path.join(above, "bin", PROGRAM)
    import sysconfig

    yield os.path.join(sysconfig.get_path("scripts"), PROGRAM)
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(directory):
            yield os.path.join(directory, PROGRAM)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
