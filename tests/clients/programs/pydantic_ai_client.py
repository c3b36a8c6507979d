# SPDX-License-Identifier: Apache-2.0
"""The MCP toolset of Pydantic AI."""

import asyncio
import json

import job
from fastmcp.client.transports import StdioTransport
from pydantic_ai import BinaryContent
from pydantic_ai.mcp import MCPToolset

asked = []
observers = []


async def on_elicitation(message, response_type, params, context):
    asked.append(message)
    return {"decision": "allow"}


async def on_progress(done, total, message):
    for observe in observers:
        await observe(done, total, message)


class Session:
    def __init__(self, toolset):
        self.toolset = toolset

    async def tools(self):
        return [tool.name for tool in await self.toolset.list_tools()]

    async def call(self, tool, arguments, observe):
        observers[:] = [observe] if observe else []
        try:
            result = await self.toolset.direct_call_tool(tool, arguments)
        except Exception as error:
            return {"text": str(error), "images": 0, "error": True}
        parts = result if isinstance(result, list) else [result]
        images = [part for part in parts if isinstance(part, BinaryContent)]
        assert all(image.data.startswith(b"\x89PNG") for image in images)
        texts = "".join(
            part if isinstance(part, str) else json.dumps(part)
            for part in parts
            if part not in images
        )
        return {"text": texts, "images": len(images), "error": False}


async def main():
    options = {"elicitation_handler": on_elicitation, "progress_handler": on_progress}
    options |= {"init_timeout": 120, "read_timeout": 120, "tool_error_behavior": "error"}
    if url := job.SERVER.get("url"):
        toolset = MCPToolset(url, headers=job.HEADERS, **options)
    else:
        command, *args = job.SERVER["command"]
        toolset = MCPToolset(
            StdioTransport(command, args, env=job.ENVIRON, keep_alive=False), **options
        )
    async with toolset:
        await job.report(Session(toolset), "pydantic-ai-slim", asked)


asyncio.run(main())
