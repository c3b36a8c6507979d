# SPDX-License-Identifier: Apache-2.0
"""`python -m ipybox.mcp_server`: executes the C program, with the options of `ipybox`."""

from __future__ import annotations

import sys

from .core.server_process import become


def main() -> None:
    """Executes the program in this process. Kernels use this Python, or the one of `--python`."""
    become(arguments=sys.argv[1:], takes_python=True)


if __name__ == "__main__":
    main()
