# SPDX-License-Identifier: Apache-2.0
"""An MCP server with one tool for each kind of result, made with an official or popular SDK.

usage: kinds_server.py {mcp1

mcp2

fastmcp} {stdio

streamable_http

sse}

It stays apart from the scripted server because the tests check the results that the SDKs make.

Over HTTP it listens on a free port of the loopback, and prints the port when it listens.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import sys
from typing import Any

import uvicorn
from mcp import types
from pydantic import AnyUrl, BaseModel

PNG = base64.b64encode(b"\x89PNG not really").decode()
WAV = base64.b64encode(b"RIFF neither").decode()


class Weather(BaseModel):
    city: str
    temperatures: list[float]
    wind: float | None = None


def text() -> str:
    """A text."""
    return "grüße 😀\u2028"


def contents() -> Any:
    """One content of each kind."""
    camel = "mimeType" in types.ImageContent.model_fields
    mime = (lambda name: {"mimeType": name}) if camel else (lambda name: {"mime_type": name})
    uri = AnyUrl if camel else str
    return [
        types.TextContent(type="text", text="caption"),
        types.ImageContent(type="image", data=PNG, **mime("image/png")),
        types.AudioContent(type="audio", data=WAV, **mime("audio/wav")),
        types.ResourceLink(type="resource_link", uri=uri("test://link"), name="link"),
        types.EmbeddedResource(
            type="resource",
            resource=types.TextResourceContents(
                uri=uri("test://text"), text="inside", **mime("text/plain")
            ),
        ),
        types.EmbeddedResource(
            type="resource",
            resource=types.BlobResourceContents(
                uri=uri("test://blob"), blob=PNG, **mime("image/png")
            ),
        ),
    ]


def weather(city: str, days: int = 3) -> Weather:
    """Structured content."""
    return Weather(city=city, temperatures=[20 + day / 4 for day in range(days)])


def number() -> int:
    """A value that is no object."""
    return 7


def fail(why: str) -> str:
    """Always fails."""
    raise failures[0](why)


# The exceptions that the library reports to the client; it may hide others.
failures: list[type[Exception]] = []


async def count(steps: int, ctx: Any) -> str:
    """Reports its progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"counted to {steps}"


def make_mcp1() -> Any:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.server.fastmcp.exceptions import ToolError

    failures.append(ToolError)
    count.__annotations__["ctx"] = Context
    server = FastMCP("kinds")
    for function in (text, weather, number, fail, count):
        server.tool()(function)
    server.tool(structured_output=False)(contents)
    return (
        server,
        {"streamable_http": server.streamable_http_app, "sse": server.sse_app},
        server.run_stdio_async,
    )


def make_mcp2() -> Any:
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError

    failures.append(ToolError)
    count.__annotations__["ctx"] = Context
    server = MCPServer("kinds")
    for function in (text, weather, number, fail, count):
        server.tool()(function)
    server.tool(structured_output=False)(contents)
    return (
        server,
        {"streamable_http": server.streamable_http_app, "sse": server.sse_app},
        server.run_stdio_async,
    )


def make_fastmcp() -> Any:
    from fastmcp import Context, FastMCP
    from fastmcp.exceptions import ToolError

    failures.append(ToolError)
    count.__annotations__["ctx"] = Context
    server = FastMCP("kinds")
    for function in (text, weather, number, fail, count):
        server.tool(function)
    server.tool(contents, output_schema=None)
    apps = {
        "streamable_http": lambda: server.http_app(path="/mcp"),
        "sse": lambda: server.http_app(path="/sse", transport="sse"),
    }
    return server, apps, lambda: server.run_stdio_async(show_banner=False)


def serve(app: Any) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    library, transport = sys.argv[1:]
    _, apps, run_stdio = {"mcp1": make_mcp1, "mcp2": make_mcp2, "fastmcp": make_fastmcp}[library]()
    if transport == "stdio":
        asyncio.run(run_stdio())
    else:
        serve(apps[transport]())


main()
