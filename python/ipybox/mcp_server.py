# SPDX-License-Identifier: Apache-2.0
"""`python -m ipybox.mcp_server` runs the MCP server, which is the C program `ipybox`.

Its options are those of `ipybox`.
"""

from __future__ import annotations

import sys

from .core.server_process import become


def main() -> None:
    """Replaces this process by the program. Kernels run in this Python, unless `--python` names
    another."""
    become(arguments=sys.argv[1:], takes_python=True)


if __name__ == "__main__":
    main()
