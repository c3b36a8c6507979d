# SPDX-License-Identifier: Apache-2.0
"""The MCP client of smolagents. Its tools are functions that block, and return one text."""

import asyncio

import job
from mcp import StdioServerParameters
from smolagents import MCPClient


class Session:
    def __init__(self, loaded):
        self.loaded = {tool.name: tool for tool in loaded}

    async def tools(self):
        return list(self.loaded)

    async def call(self, tool, arguments, on_progress):
        text = await asyncio.to_thread(self.loaded[tool], **arguments)
        return {"text": text, "images": 0, "error": False}


if url := job.SERVER.get("url"):
    server = {"url": url, "transport": "streamable-http", "headers": job.HEADERS}
else:
    command, *args = job.SERVER["command"]
    server = StdioServerParameters(command=command, args=args, env=job.ENVIRON)
with MCPClient(server, adapter_kwargs={"connect_timeout": 120}, structured_output=False) as loaded:
    asyncio.run(job.report(Session(loaded), "smolagents", []))
