# SPDX-License-Identifier: Apache-2.0
"""LangChain's tools of an MCP server, in a session that lasts for all calls."""

import asyncio
import base64

import job
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitResult

asked = []
observers = []


async def on_elicitation(mcp_context, params, context):
    asked.append(params.message)
    return ElicitResult(action="accept", content={"decision": "allow"})


async def on_progress(done, total, message, context):
    for observe in observers:
        await observe(done, total, message)


class Session:
    def __init__(self, loaded):
        self.loaded = {tool.name: tool for tool in loaded}

    async def tools(self):
        return list(self.loaded)

    async def call(self, tool, arguments, observe):
        observers[:] = [observe] if observe else []
        call = {"type": "tool_call", "id": "1", "name": tool, "args": arguments}
        message = await self.loaded[tool].ainvoke(call)
        content = message.content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        images = [block for block in blocks if block["type"] == "image"]
        for image in images:
            assert base64.b64decode(image["base64"], validate=True).startswith(b"\x89PNG")
        return {
            "text": "".join(block["text"] for block in blocks if block["type"] == "text"),
            "images": len(images),
            "error": message.status == "error",
        }


async def main():
    if url := job.SERVER.get("url"):
        connection = {"transport": "streamable_http", "url": url, "headers": job.HEADERS}
    else:
        command, *args = job.SERVER["command"]
        connection = {"transport": "stdio", "command": command, "args": args, "env": job.ENVIRON}
    callbacks = Callbacks(on_progress=on_progress, on_elicitation=on_elicitation)
    client = MultiServerMCPClient({"ipybox": connection}, callbacks=callbacks)
    async with client.session("ipybox") as session:
        loaded = await load_mcp_tools(session, callbacks=callbacks, server_name="ipybox")
        await job.report(Session(loaded), "langchain-mcp-adapters", asked)


asyncio.run(main())
