# SPDX-License-Identifier: Apache-2.0
"""Runs in an environment with jupyter_client and pyzmq.

argv[1] names a scenario, argv[2] a kernelspec. The program starts the kernel as front ends do, acts
on it, and prints what happened as JSON.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import zmq
from jupyter_client import BlockingKernelClient, KernelManager

TIMEOUT = 60.0


class Front:
    """A front end with one kernel."""

    def __init__(self, name: str, transport: str = "tcp") -> None:
        self.manager = KernelManager(kernel_name=name, transport=transport)
        self.manager.start_kernel()
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def run(self, code: str, answer: str | None = None) -> list[dict[str, Any]]:
        """The messages of a cell on iopub, and its reply, in short."""
        seen = []

        def on_output(message: dict[str, Any]) -> None:
            seen.append({"type": message["msg_type"], **message["content"]})

        reply = self.client.execute_interactive(
            code,
            timeout=TIMEOUT,
            output_hook=on_output,
            allow_stdin=answer is not None,
            stdin_hook=lambda message: self.client.input(answer),
        )
        return [*seen, {"type": "reply", **reply["content"]}]

    def wait_for_end(self) -> int | None:
        deadline = time.monotonic() + TIMEOUT
        process = self.manager.provisioner.process
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return process.poll()

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()


def staged(name: str) -> Any:
    front = Front(name)
    outcome = front.run("open('aside', 'w').write('x')")
    front.stop()
    return outcome


def cells(name: str) -> Any:
    front = Front(name)
    info = front.client.kernel_info(reply=True, timeout=TIMEOUT)["content"]
    outcome = {
        "info": info,
        "plain": front.run("import sys\nprint('one')\nprint('two', file=sys.stderr)\n6 * 7"),
        "input": front.run("print('hello', input('Name? '))", answer="Ann"),
        "error": front.run("1 / 0"),
        "outside": front.run("open('/etc/made-by-a-cell', 'w')"),
        "beats": front.client.hb_channel.is_beating(),
        "completion": front.client.complete("pri", reply=True, timeout=TIMEOUT)["content"],
    }
    front.stop()
    return outcome


def interrupt(name: str) -> Any:
    front = Front(name)
    front.run("x = 1")
    msg_id = front.client.execute("print('begun', flush=True)\nimport time\ntime.sleep(600)")
    while front.client.get_iopub_msg(timeout=TIMEOUT)["msg_type"] != "stream":
        pass
    front.manager.interrupt_kernel()
    reply = front.client.get_shell_msg(timeout=TIMEOUT)
    assert reply["parent_header"]["msg_id"] == msg_id
    outcome = {"reply": reply["content"], "after": front.run("x")}
    front.stop()
    return outcome


def ready_messages(client: BlockingKernelClient) -> Iterator[dict[str, Any]]:
    """The messages that have come on iopub."""
    while client.iopub_channel.msg_ready():
        yield client.get_iopub_msg(timeout=TIMEOUT)


def restart(name: str) -> Any:
    front = Front(name)
    front.run("x = 1")
    before = front.manager.provisioner.process.pid
    front.manager.restart_kernel()
    # Until the new process is heard.
    states: list[str] = []
    asked: set[str] = set()
    while True:
        asked.add(front.client.kernel_info())
        front.client.get_shell_msg(timeout=TIMEOUT)
        heard = list(ready_messages(front.client))
        states += [m["content"]["execution_state"] for m in heard if m["msg_type"] == "status"]
        if any(message["parent_header"].get("msg_id") in asked for message in heard):
            break
    front.client.wait_for_ready(timeout=TIMEOUT)
    after = front.manager.provisioner.process.pid
    outcome = {"is_new": before != after, "x": front.run("'x' in globals()"), "states": states}
    front.stop()
    return outcome


def death(name: str) -> Any:
    """Of the Python process, in a cell and between two."""
    ends = []
    for code in (
        "import os\nos._exit(3)",
        "import os, signal, threading\n"
        "_ = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()",
    ):
        front = Front(name)
        front.client.execute(code)
        ends.append(front.wait_for_end())
        front.stop()
    return ends


def flood(name: str) -> Any:
    """Output that the front end does not read until the kernel has to wait."""
    front = Front(name)
    front.client.execute("for i in range(20_000): print(i, flush=True)")
    time.sleep(2)
    text = ""
    while True:
        message = front.client.get_iopub_msg(timeout=TIMEOUT)
        if message["msg_type"] == "stream":
            text += message["content"]["text"]
        if message["content"].get("execution_state") == "idle" and text:
            break
    front.stop()
    return text.split() == [str(i) for i in range(20_000)]


def hostile(name: str) -> Any:
    """What others send to the sockets."""
    front = Front(name)
    front.run("x = 1")
    session = front.client.session
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    connection = front.manager.get_connection_info()
    socket.connect(f"tcp://{connection['ip']}:{connection['shell_port']}")
    message = session.msg("execute_request", {"code": "x = 2", "silent": False})
    good = session.serialize(message)
    socket.send_multipart(good)
    reply = session.deserialize(session.feed_identities(socket.recv_multipart())[1])
    front.run("x = 1")
    socket.send_multipart(good)  # again
    forged = session.serialize(session.msg("execute_request", {"code": "x = 3", "silent": False}))
    socket.send_multipart([forged[0], b"0" * 64, *forged[2:]])
    socket.send_multipart([forged[0], b"", *forged[2:]])
    socket.send_multipart([*forged[:5], b'{"code": "x = 4", "silent": false}'])
    for garbage in ([b""], [b"<IDS|MSG>"], [b"a"] * 3, [b"a"] * 200, [b"x" * 10**6]):
        socket.send_multipart(garbage)
    unparsable = [b"{", b"{}", b"{}", b"{}"]
    socket.send_multipart([b"<IDS|MSG>", session.sign(unparsable), *unparsable])
    # Messages of one socket are taken in order: when this is answered, all were.
    socket.send_multipart(session.serialize(session.msg("kernel_info_request", {})))
    socket.recv_multipart()
    outcome = {"first": reply["content"]["status"], "x": front.run("x")}
    socket.close(linger=0)
    context.term()
    front.stop()
    return outcome


CALL = """
from mcptools.fake import CLIENT
try:
    print(CLIENT.run_sync("echo_json", {"a": 1}))
except Exception as error:
    print(type(error).__name__)
"""


def tools(name: str) -> Any:
    """Calls that need an answer, before and after a question that was withdrawn."""
    front = Front(name)
    prompts = []

    def ask(code: str, choose: Any) -> str:
        text = []

        def on_output(message: dict[str, Any]) -> None:
            text.append(message["content"].get("text", ""))

        def on_stdin(message: dict[str, Any]) -> None:
            prompts.append(message["content"]["prompt"])
            front.client.input(choose(message["content"]["prompt"]))

        front.client.execute_interactive(
            code, timeout=TIMEOUT, output_hook=on_output, allow_stdin=True, stdin_hook=on_stdin
        )
        return "".join(text)

    outcome = {
        "yes": ask(CALL, lambda prompt: "y"),
        "no": ask(CALL, lambda prompt: "n"),
        "not asked": front.run(CALL),
    }
    front.client.execute("input('withdrawn')", allow_stdin=True)
    front.client.get_stdin_msg(timeout=TIMEOUT)
    front.manager.interrupt_kernel()
    front.client.get_shell_msg(timeout=TIMEOUT)
    outcome["stale"] = ask(CALL, lambda prompt: "y")
    outcome["code"] = ask(CALL, lambda prompt: re.search(r"Type (\d+)", prompt)[1])
    outcome["prompts"] = prompts
    front.stop()
    return outcome


def parent(name: str) -> Any:
    """A front end that dies: prints the pid of the kernel, which a test looks for."""
    front = Front(name)
    front.run("1")
    print(front.manager.provisioner.process.pid, flush=True)
    os.unlink(front.manager.connection_file)
    os._exit(0)


def ipc(name: str) -> Any:
    os.umask(0)
    front = Front(name, "ipc")
    files = glob.glob(f"{front.manager.get_connection_info()['ip']}-*")
    outcome = {
        "cell": front.run("6 * 7"),
        "modes": [oct(os.stat(path).st_mode & 0o777) for path in files],
    }
    front.stop()
    return outcome


ECHO = """
import comm, ipywidgets
slider = ipywidgets.IntSlider(value=3)
slider.observe(lambda change: print('changed to', change['new']), 'value')
def opened(c, message):
    c.on_msg(lambda message: c.send(message['content']['data'], buffers=message['buffers']))
    c.on_close(lambda message: print('closed with', message['content']['data']))
comm.get_comm_manager().register_target('echo', opened)
"""


def comms(name: str) -> Any:
    """A widget, and a comm with buffers, through jupyter_client."""
    front = Front(name)
    session = front.client.session

    def tell(kind: str, buffers: list[bytes], **content: Any) -> list[dict[str, Any]]:
        """The messages on iopub, but for the states. All have the message as parent."""
        message = session.msg(kind, content)
        session.send(front.client.shell_channel.socket, message, buffers=buffers)
        seen = []
        while True:
            got = front.client.get_iopub_msg(timeout=TIMEOUT)
            if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if got["content"].get("execution_state") == "idle":
                return seen
            if got["msg_type"] != "status":
                seen.append(got)

    def texts(messages: list[dict[str, Any]]) -> list[Any]:
        return [
            [message["msg_type"], message["content"].get("text")]
            for message in messages
            if message["msg_type"] != "comm_msg"
        ]

    def echo(data: Any, buffers: list[bytes]) -> Any:
        (answer,) = tell("comm_msg", buffers, comm_id="e", data=data)
        return [bytes(buffer).hex() for buffer in answer["buffers"]], answer["content"]["data"]

    front.run(ECHO)
    (model,) = [
        message["data"]["text/plain"].strip("'")
        for message in front.run("slider.model_id")
        if message["type"] == "execute_result"
    ]
    state = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    outcome = {"slider": texts(tell("comm_msg", [], comm_id=model, data=state))}
    tell("comm_open", [], comm_id="e", data={}, target_name="echo")
    outcome["echo"] = [echo([], []), echo([1], [b"\0\xff", b""]), echo([2], [b"x"] * 1000)]
    outcome["large"] = len(echo({}, [bytes(10_000_000)])[0][0])
    info = front.client.comm_info(target_name="echo", reply=True, timeout=TIMEOUT)
    outcome["comms"] = info["content"]["comms"]
    outcome["closed"] = texts(tell("comm_close", [], comm_id="e", data={}))
    front.stop()
    return outcome


NOTEBOOK = """
import ipywidgets
from IPython.display import clear_output, display
out = ipywidgets.Output()
display(out, ipywidgets.IntSlider(value=5))
print('before')
with out:
    print('one')
    clear_output(wait=True)
    print('two')
print('after')
"""


def notebook(name: str) -> Any:
    import nbformat
    from nbclient import NotebookClient

    class Client(NotebookClient):
        def process_message(self, *args: Any) -> Any:
            # It may have sent a message of a comm. jupyter_client does not notice a reply that came
            # at that moment: it sends behind the back of asyncio, which misses the socket's event.
            output = super().process_message(*args)
            self.kc.shell_channel.socket._schedule_remaining_events()
            return output

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    Client(book, kernel_name=name, timeout=TIMEOUT).execute()
    widgets = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    states = [widget["state"] for widget in widgets.values()]
    outputs = book.cells[0].outputs
    return {
        "cells": ["".join(each.text for each in outputs if each.output_type == "stream")],
        "captured": [state["outputs"] for state in states if "outputs" in state],
        "values": [
            state["value"] for state in states if state.get("_model_name") == "IntSliderModel"
        ],
    }


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        *(cells, interrupt, restart, death, flood, hostile, tools, parent, ipc),
        *(comms, notebook, staged),
    )
}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[1]](sys.argv[2]), default=str))
