# SPDX-License-Identifier: Apache-2.0
"""`python -m ipybox.mcp_server`: the MCP server, which is the C program. Its options are those of `ipybox`."""

from __future__ import annotations

import os
import sys

from .core.binary import find_binary


def main() -> None:
    """Becomes the program, in the same process. Kernels run in this Python unless `--python` names another."""
    arguments = sys.argv[1:]
    if not any(argument == "--python" or argument.startswith("--python=") for argument in arguments):
        arguments = ["--python", sys.executable, *arguments]
    program = find_binary()
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
