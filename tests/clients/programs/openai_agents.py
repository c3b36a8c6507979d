# SPDX-License-Identifier: Apache-2.0
"""The MCP servers of the OpenAI Agents SDK."""

import asyncio

import job
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp


class Session:
    def __init__(self, server):
        self.server = server

    async def tools(self):
        return [tool.name for tool in await self.server.list_tools()]

    async def call(self, tool, arguments, on_progress):
        result = await self.server.call_tool(tool, arguments)
        return job.blocks(result.content, bool(result.is_error))


async def main():
    if url := job.SERVER.get("url"):
        params = {"url": url, "headers": job.HEADERS, "timeout": 120}
        server = MCPServerStreamableHttp(params, client_session_timeout_seconds=120)
    else:
        command, *args = job.SERVER["command"]
        params = {"command": command, "args": args, "env": job.ENVIRON}
        server = MCPServerStdio(params, client_session_timeout_seconds=120)
    async with server:
        await job.report(Session(server), "openai-agents", [])


asyncio.run(main())
