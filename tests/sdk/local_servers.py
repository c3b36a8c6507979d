# SPDX-License-Identifier: Apache-2.0
"""Commands of the documents' examples, `npx` and `uvx`, which start local MCP servers instead of the newest of a registry."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

SHAPES = Path(__file__).with_name("shapes_server.py")

NPX = """#!/bin/sh
# usage: npx -y PACKAGE [ARGUMENT]...
[ "$1" != -y ] || shift
case $1 in
@brave/brave-search-mcp-server) name=brave_search ;;
@modelcontextprotocol/server-filesystem) name=filesystem ;;
*) echo "npx of the tests: no $1 here" >&2; exit 1 ;;
esac
exec /usr/bin/python3 {shapes} $name
"""
UVX = """#!/bin/sh
# usage: uvx mcp-server-fetch
[ "$1" = mcp-server-fetch ] || exit 1
exec /usr/bin/python3 {shapes} fetch
"""


def write_commands(directory: Path) -> None:
    """Puts the commands into a directory for PATH, with the servers: they can be started in a sandbox, too."""
    directory.mkdir()
    servers = shutil.copy(SHAPES, directory)
    for name, text in (("npx", NPX), ("uvx", UVX)):
        path = directory / name
        path.write_text(text.format(shapes=servers))
        path.chmod(0o755)


def shapes(name: str, *args: str, **more: Any) -> dict[str, Any]:
    """`server_params` of one of ours; it starts quickly."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SHAPES), name, *args], **more}
