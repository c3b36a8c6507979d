# SPDX-License-Identifier: Apache-2.0
"""Shows plots as PNG at the end of a cell, without a magic command. It does not import matplotlib.

With the first figure, matplotlib loads the backend that MPLBACKEND names, and IPython's inline
backend registers itself with the shell. A preloaded matplotlib has the inline backend already. If
MPLBACKEND names another one, `choose_backend` switches to it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BACKEND = "module://matplotlib_inline.backend_inline"
BACKEND_MODULE = "matplotlib_inline.backend_inline"


def choose_backend(shell: Any) -> None:
    """Called after the kernel's environment was set."""
    backend = os.environ.setdefault("MPLBACKEND", BACKEND)
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is None or backend == BACKEND:
        return
    # A preloaded matplotlib has the inline backend already.
    matplotlib.rcParams["backend"] = backend
    inline = sys.modules.get(BACKEND_MODULE)
    if inline is not None:
        inline.configure_inline_support(shell, backend)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.switch_backend(backend)
