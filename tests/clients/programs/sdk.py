# SPDX-License-Identifier: Apache-2.0
"""The official Python SDK, 1.x and 2.x."""

import asyncio

import job
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.types import ElicitResult

asked = []


async def on_elicitation(context, params):
    asked.append(params.message)
    return ElicitResult(action="accept", content={"decision": "allow"})


class Session:
    def __init__(self, session):
        self.session = session

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, arguments, on_progress):
        result = await self.session.call_tool(tool, arguments, progress_callback=on_progress)
        # Version 2 has a Python name for it.
        failed = result.is_error if hasattr(result, "is_error") else result.isError
        return job.blocks(result.content, failed)


async def use(streams):
    async with ClientSession(*streams[:2], elicitation_callback=on_elicitation) as session:
        await session.initialize()
        await job.report(Session(session), "mcp", asked)


async def main():
    if url := job.SERVER.get("url"):
        async with (
            create_mcp_http_client(job.HEADERS) as http,
            streamable_http_client(url, http_client=http) as streams,
        ):
            await use(streams)
    else:
        command, *args = job.SERVER["command"]
        server = StdioServerParameters(command=command, args=args, env=job.ENVIRON)
        async with stdio_client(server) as streams:
            await use(streams)


asyncio.run(main())
