# SPDX-License-Identifier: Apache-2.0
"""FastMCP's client."""

import asyncio
import re

import job
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

asked = []


async def on_elicitation(message, response_type, params, context):
    asked.append(message)
    return {"decision": "allow"}


class Session:
    def __init__(self, client):
        self.client = client
        self.named = {}

    async def tools(self):
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, tool, arguments, on_progress):
        result = await self.client.call_tool(
            tool, self.named | arguments, progress_handler=on_progress, raise_on_error=False
        )
        # Over HTTP it speaks revision 2026-07-28, in which a connection has no session.
        if told := re.search(r"\[session_id: (\w+)\.", str(result.content)):
            self.named = {"session_id": told[1]}
        return job.blocks(result.content, result.is_error)


async def main():
    if url := job.SERVER.get("url"):
        transport = StreamableHttpTransport(url, headers=job.HEADERS)
    else:
        command, *args = job.SERVER["command"]
        transport = StdioTransport(command, args, env=job.ENVIRON, keep_alive=False)
    async with Client(transport, elicitation_handler=on_elicitation) as client:
        await job.report(Session(client), "fastmcp", asked)


asyncio.run(main())
