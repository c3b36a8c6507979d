# SPDX-License-Identifier: Apache-2.0
"""Plots as PNG displays at the end of a cell, without a magic, and without importing matplotlib first.

matplotlib loads the backend that MPLBACKEND names with the first figure; IPython's inline backend then
registers with the shell all by itself. Only what was preloaded needs a hand.
"""

from __future__ import annotations

import os
import sys

BACKEND = "module://matplotlib_inline.backend_inline"
BACKEND_MODULE = "matplotlib_inline.backend_inline"


def choose_backend() -> None:
    """After the kernel's environment is in place."""
    backend = os.environ.setdefault("MPLBACKEND", BACKEND)
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is not None and backend != BACKEND:
        matplotlib.rcParams["backend"] = backend
