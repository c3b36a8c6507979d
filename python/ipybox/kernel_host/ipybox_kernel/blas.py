# SPDX-License-Identifier: Apache-2.0
"""Threads of OpenBLAS.

A preloaded numpy has none, because the forkserver must not have threads when it forks. A kernel
starts them with its first cell.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def find_thread_setters() -> list[Any]:
    """One function for each OpenBLAS that is loaded."""
    try:
        with open("/proc/self/maps") as file:
            paths = {line.split(maxsplit=5)[-1].strip() for line in file if "openblas" in line}
    except OSError:
        return []
    found = []
    for path in sorted(paths):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for name in SETTERS:
            if hasattr(library, name):
                found.append(getattr(library, name))
                break
    return found


def restore_threads(setters: list[Any]) -> None:
    count = len(os.sched_getaffinity(0))
    for variable in VARIABLES:
        value = os.environ.get(variable, "")
        if value.isdigit() and int(value) > 0:
            count = int(value)
            break
    if count > 1:
        for setter in setters:
            setter(count)
