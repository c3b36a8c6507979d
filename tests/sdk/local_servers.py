# SPDX-License-Identifier: Apache-2.0
"""Commands of the documents' examples, `npx` and `uvx`, which start local MCP servers instead of the newest of a registry."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import harness

SHAPES = Path(__file__).with_name("shapes_server.py")

NPX = """#!/bin/sh
# usage: npx -y PACKAGE [ARGUMENT]...
[ "$1" != -y ] || shift
case $1 in
@brave/brave-search-mcp-server) shift; exec {python} {shapes} brave_search "$@" ;;
@modelcontextprotocol/*) script={cache}/node/node_modules/$1/dist/index.js; shift; exec {cache}/node/bin/node "$script" "$@" ;;
esac
echo "npx of the tests: no $1 here" >&2
exit 1
"""
UVX = """#!/bin/sh
# usage: uvx mcp-server-fetch
[ "$1" = mcp-server-fetch ] || exit 1
exec {python} {shapes} fetch
"""


def write_commands(directory: Path) -> None:
    """Puts the commands into a directory for PATH."""
    directory.mkdir()
    for name, text in (("npx", NPX), ("uvx", UVX)):
        path = directory / name
        path.write_text(text.format(python=sys.executable, shapes=SHAPES, cache=harness.CACHE))
        path.chmod(0o755)


def shapes(name: str, **more: Any) -> dict[str, Any]:
    """`server_params` of one of ours."""
    return {"command": sys.executable, "args": [str(SHAPES), name], **more}
