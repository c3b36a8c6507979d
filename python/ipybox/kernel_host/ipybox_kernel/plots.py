# SPDX-License-Identifier: Apache-2.0
"""Plots as PNG displays at the end of a cell, without a magic, and without importing matplotlib first.

matplotlib loads the backend that MPLBACKEND names with the first figure; IPython's inline backend then
registers with the shell all by itself. Only what was preloaded needs a hand.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BACKEND = "module://matplotlib_inline.backend_inline"
BACKEND_MODULE = "matplotlib_inline.backend_inline"


def choose_backend(shell: Any) -> None:
    """After the kernel's environment is in place."""
    backend = os.environ.setdefault("MPLBACKEND", BACKEND)
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None or backend == BACKEND:
        return
    # Preloaded, it has the inline backend by now.
    matplotlib.rcParams["backend"] = backend
    inline = sys.modules.get(BACKEND_MODULE)
    if inline is not None:
        inline.configure_inline_support(shell, backend)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.switch_backend(backend)
