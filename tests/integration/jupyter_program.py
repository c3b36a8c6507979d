# SPDX-License-Identifier: Apache-2.0
"""Runs in an environment with jupyter_server and nbclient.

argv[1] is the URL of a Jupyter server, argv[2] its token, argv[3] a kernelspec. The program
executes a notebook with plots there through nbclient, asks its kernel for completions, and
interrupts it. It prints the outcome as JSON.
"""

import asyncio
import json
import sys
from typing import Any

import nbformat
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CELLS = [
    "import matplotlib.pyplot as plt\nprint('one')\nplt.plot([1, 2, 3])\nplt.show()",
    (
        "from IPython.display import display, HTML\n"
        "handle = display(HTML('<b>first</b>'), display_id=True)"
    ),
    "handle.update(HTML('<b>second</b>'))\n40 + 2",
]


async def reply_to(client: Any, msg_id: str) -> dict[str, Any]:
    while True:
        message = await client.get_shell_msg(timeout=120)
        if message["parent_header"].get("msg_id") == msg_id:
            return message["content"]


async def interrupt(manager: Any, client: Any) -> dict[str, Any]:
    msg_id = client.execute("print('running', flush=True)\nimport time\ntime.sleep(600)")
    while True:
        message = await client.get_iopub_msg(timeout=120)
        if message["msg_type"] == "stream" and "running" in message["content"]["text"]:
            break
    await manager.interrupt_kernel()
    return await reply_to(client, msg_id)


async def main(url: str, token: str, name: str) -> None:
    GatewayClient.instance().url = url
    GatewayClient.instance().auth_token = token
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    manager = GatewayKernelManager(kernel_name=name)
    client = NotebookClient(notebook, km=manager, timeout=60)
    async with client.async_setup_kernel(cleanup_kc=False):
        for index, cell in enumerate(notebook.cells):
            await client.async_execute_cell(cell, index)
        try:
            await client.async_execute_cell(nbformat.v4.new_code_cell("1/0"), 0)
        except CellExecutionError as error:
            failure = error.ename
        kernel = client.kc
        completion = await reply_to(kernel, kernel.complete("import colle", 12))
        inspection = await reply_to(kernel, kernel.inspect("len", 3))
        completeness = await reply_to(kernel, kernel.is_complete("def f():"))
        history = await reply_to(kernel, kernel.history(hist_access_type="tail", n=2))
        info = await reply_to(kernel, kernel.kernel_info())
        interrupted = await interrupt(manager, kernel)
        after = await reply_to(kernel, kernel.execute("handle"))
        kernel.stop_channels()
        await manager.shutdown_kernel(now=True)
    print(
        json.dumps(
            {
                "outputs": [cell.outputs for cell in notebook.cells],
                "language": notebook.metadata.get("language_info", {}).get("name"),
                "failure": failure,
                "completion": completion,
                "inspection": inspection,
                "completeness": completeness,
                "history": history,
                "info": info,
                "interrupted": interrupted,
                "after": after,
            }
        )
    )


asyncio.run(main(*sys.argv[1:]))
