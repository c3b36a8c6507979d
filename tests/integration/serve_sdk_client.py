# SPDX-License-Identifier: Apache-2.0
"""A client of `ipybox serve`, with the official Python SDK 1.x or 2.x. Run by test_serve.py.

usage: serve_sdk_client.py URL TOKEN
"""

import asyncio
import contextlib
import json
import sys

from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.types import ElicitResult


async def on_elicitation(context, params):
    assert "name?" in params.message, params.message
    return ElicitResult(action="accept", content={"value": "typed"})


@contextlib.asynccontextmanager
async def connect(url, headers):
    """Streams of messages, by the transport that belongs to the path."""
    if url.endswith("/sse"):
        async with sse_client(url, headers) as streams:
            yield streams
    else:
        async with (
            create_mcp_http_client(headers) as client,
            streamable_http_client(url, http_client=client) as streams,
        ):
            yield streams


async def main(url: str, token: str) -> None:
    progress = []

    async def on_progress(done, total, message):
        progress.append(message)

    headers = {"Authorization": f"Bearer {token}"}
    async with (
        connect(url, headers) as streams,
        ClientSession(*streams[:2], elicitation_callback=on_elicitation) as session,
    ):
        await session.initialize()

        async def cell(code, **options):
            result = await session.call_tool("execute_ipython_cell", {"code": code}, **options)
            return result.content[0].text

        seen = {
            "tools": [tool.name for tool in (await session.list_tools()).tools],
            "cell": await cell("x = 6\nx * 7"),
            "kept": await cell("[name for name in globals() if name == 'x']"),
            "error": await cell("1/0"),
            "input": await cell("input('name? ')"),
        }
        code = "import time\nfor i in range(3): print(i, flush=True); time.sleep(0.5)"
        await cell(code, progress_callback=on_progress)
    print(json.dumps({**seen, "progress": progress}))


asyncio.run(main(*sys.argv[1:]))
