# SPDX-License-Identifier: Apache-2.0
"""Calls the tools of `ipybox` with the official Python SDK, version 1 or 2. Run by
test_sdk_clients.py.

usage: sdk_client.py IPYBOX WORKSPACE RULES SERVER_PARAMS_JSON
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult


def is_error(result) -> bool:
    """Version 2 has a Python name for it."""
    return result.is_error if hasattr(result, "is_error") else result.isError


async def call(session: ClientSession, tool: str, arguments: dict, fails: bool = False) -> str:
    """The text of the result, which is always one block."""
    result = await session.call_tool(tool, arguments)
    (block,) = result.content
    if is_error(result) != fails:
        raise RuntimeError(block.text)
    return block.text


async def on_elicitation(context, params):
    """The user of this client allows everything."""
    assert "time.get_current_time" in params.message, params.message
    return ElicitResult(action="accept", content={"decision": "allow"})


async def main(ipybox: str, workspace: str, rules: str, server_params: str) -> None:
    # The SDK passes few variables by default; the server needs the test's environment.
    server = StdioServerParameters(
        command=ipybox, args=["--workspace", workspace, "--approve", rules], env=dict(os.environ)
    )
    async with (
        stdio_client(server) as (read, write),
        ClientSession(read, write, elicitation_callback=on_elicitation) as session,
    ):
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        modules = await call(
            session,
            "register_mcp_server",
            {"server_name": "time", "server_params": json.loads(server_params)},
        )
        code = (
            "from mcptools.time import convert_time as c\n"
            "r = c.run(c.Params(source_timezone='UTC', time='12:00', "
            "target_timezone='Asia/Tokyo'))\n"
            "print('21:00' in str(r))"
        )
        described = await call(session, "describe_tools", {"query": "convert"})
        called = await call(session, "execute_ipython_cell", {"code": code})
        code = (
            "from mcptools.time import get_current_time as g\n"
            "g.run(g.Params(timezone='UTC')).timezone"
        )
        asked = await call(session, "execute_ipython_cell", {"code": code})
        failed = await call(
            session, "execute_ipython_cell", {"code": "print('before')\n1/0"}, fails=True
        )
        wrong = await call(
            session, "execute_ipython_cell", {"code": "1", "timeout_s": 5}, fails=True
        )
        late = {
            "code": "import os, time\nprint('begun', flush=True)\ntime.sleep(1000)",
            "timeout": 0.5,
        }
        late = await call(session, "execute_ipython_cell", late, fails=True)
        cut = await call(
            session,
            "execute_ipython_cell",
            {"code": "print('a' * 7 + 'z' * 7)", "max_output_chars": 10},
        )
        shown = await call(
            session,
            "execute_ipython_cell",
            {"code": "from IPython.display import HTML\nHTML('<p>some <b>text</b></p>')"},
        )
        await call(session, "execute_ipython_cell", {"code": "x = 1"})
        variables = await call(session, "list_variables", {})
        (resource,) = (await session.list_resources()).resources
        (contents,) = (await session.read_resource(resource.uri)).contents
        reset = await call(session, "reset", {})
        gone = await call(session, "execute_ipython_cell", {"code": "'x' in globals()"})
        installed = await call(session, "install_package", {"package_name": "pip"})
    print(
        json.dumps(
            {
                "tools": tools,
                "modules": modules,
                "described": described,
                "called": called,
                "asked": asked,
                "failed": failed,
                "wrong": wrong,
                "late": late,
                "cut": cut,
                "shown": shown,
                "resource": [str(resource.uri), contents.text],
                "variables": variables.splitlines()[-1],
                "reset": reset,
                "gone": gone,
                "installed": installed,
            }
        )
    )


asyncio.run(main(*sys.argv[1:]))
