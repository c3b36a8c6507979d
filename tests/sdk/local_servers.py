# SPDX-License-Identifier: Apache-2.0
"""The commands `npx` and `uvx` for the examples of the documents.

They start local MCP servers instead of the newest ones of a registry.
"""

from __future__ import annotations

from pathlib import Path

import scripted_server

NPX = """#!/bin/sh
# usage: npx -y PACKAGE [ARGUMENT]...
[ "$1" != -y ] || shift
case $1 in
@brave/brave-search-mcp-server) script=brave_search ;;
@modelcontextprotocol/server-filesystem) script=filesystem ;;
*) echo "npx of the tests: no $1 here" >&2; exit 1 ;;
esac
exec /usr/bin/python3 -I -S {server} $script
"""
UVX = """#!/bin/sh
# usage: uvx mcp-server-fetch
[ "$1" = mcp-server-fetch ] || exit 1
exec /usr/bin/python3 -I -S {server} fetch
"""


def write_commands(directory: Path) -> None:
    """Puts the commands and their servers into a directory for PATH, also for use in sandboxes."""
    directory.mkdir()
    server = Path(scripted_server.copy(directory)) / "scripted_server.py"
    for name, text in (("npx", NPX), ("uvx", UVX)):
        path = directory / name
        path.write_text(text.format(server=server))
        path.chmod(0o755)
