# SPDX-License-Identifier: Apache-2.0
"""The shell of a rich client, that is a front end of Jupyter: with colour."""

from __future__ import annotations

import os
from typing import Any

import IPython

from .shell import KernelShell

# IPython's own default.
COLORS = "neutral" if IPython.version_info[0] >= 9 else "Neutral"


class JupyterShell(KernelShell):
    is_rich = True


def become_rich(shell: Any) -> None:
    """Called after the kernel's environment was set. The forkserver does not know the client."""
    shell.__class__ = JupyterShell
    if not os.environ.get("NO_COLOR"):
        shell.colors = COLORS
