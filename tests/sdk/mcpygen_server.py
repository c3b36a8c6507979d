# SPDX-License-Identifier: Apache-2.0
"""An MCP server for packages that mcpygen generates.

It is made with FastMCP, in mcpygen's environment, and not with the scripted server, because the
tests check what mcpygen makes of FastMCP's own results.
"""

import hashlib
import os

from mcp.server.fastmcp import FastMCP
from pydantic import BaseModel

server = FastMCP("calc")


class Pair(BaseModel):
    first: int
    second: str


@server.tool(structured_output=False)
def add(a: int, b: int = 2) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool()
def pair(first: int) -> Pair:
    """A structured result."""
    return Pair(first=first, second="x")


@server.tool()
def shout(text: str) -> str:
    """A result that FastMCP wraps in an object."""
    return text.upper()


@server.tool(structured_output=False)
def fail() -> str:
    raise ValueError("out of cheese")


@server.tool(structured_output=False)
def die() -> str:
    os._exit(1)


@server.tool(structured_output=False)
def pid() -> str:
    return str(os.getpid())


@server.tool(structured_output=False)
def digest() -> str:
    """The hash of the key: the kernel sees the result, and must not see the key."""
    return hashlib.sha256(os.environ["API_KEY"].encode()).hexdigest()


server.run()
