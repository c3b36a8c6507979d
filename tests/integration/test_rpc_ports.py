# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc`: tool server and gateway of a session, and questions about shell commands."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import scripted_server
from rpc_driver import RpcCore, RpcError
from websockets.sync.client import connect

FAKE = scripted_server.params("results")
CALL = "from mcptools.fake import two_texts\nprint(two_texts.run(two_texts.Params()))"


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place) as core:
        yield core


def ask(
    port: dict, method: str, path: str, body: dict | None = None, token: str | None = None
) -> dict | list:
    request = urllib.request.Request(
        f"http://{port['host']}:{port['port']}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {token or port['token']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def open_with(core: RpcCore, **options) -> dict:
    return core.call("session.open", workspace=core.workspace, **options)


def run_in_gateway(gateway: dict, code: str) -> str:
    """The output of a cell in a new kernel."""
    kernel = ask(gateway, "POST", "/api/kernels", {})["id"]
    url = f"ws://{gateway['host']}:{gateway['port']}/api/kernels/{kernel}/channels?token={gateway['token']}"
    header = {
        "msg_id": "1",
        "msg_type": "execute_request",
        "session": "s",
        "username": "",
        "version": "5.3",
        "date": "",
    }
    text = ""
    with connect(url) as channel:
        content = {"code": code, "silent": False, "store_history": True}
        channel.send(
            json.dumps(
                {
                    "channel": "shell",
                    "header": header,
                    "parent_header": {},
                    "metadata": {},
                    "content": content,
                }
            )
        )
        while True:
            message = json.loads(channel.recv(120))
            if message["header"]["msg_type"] == "stream":
                text += message["content"]["text"]
            elif message["header"]["msg_type"] == "error":
                text += message["content"]["evalue"]
            elif message["header"]["msg_type"] == "execute_reply":
                return text


def test_no_port_is_open_without_being_asked_for(core):
    assert set(open_with(core, tool_server=None)) == {"session", "workspace"}


@pytest.fixture
def package(core) -> None:
    """The package of the server FAKE, in the workspace."""
    root = core.workspace + "/mcptools"
    core.call("sources.generate", server_name="fake", server_params=FAKE, root_dir=root)


def test_a_tool_server(core):
    answer = open_with(core, approval="allow", tool_server={})
    assert answer["gateway"] is None
    server = answer["tool_server"]
    assert server["host"] == "localhost"
    call = {"server_name": "fake", "server_params": FAKE, "tool_name": "two_texts", "tool_args": {}}
    assert ask(server, "POST", "/run", call) == {"result": "one\ntwo"}
    # Our own user needs the token, too: kernels are processes of that user.
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(server, "POST", "/run", call, token="x")
    assert core.text(answer["session"], "1") == "1"


def test_a_gateway(core, package):
    answer = open_with(core, approval="allow", gateway={"host": "127.0.0.1"}, kernel_env={"A": "b"})
    assert answer["tool_server"] is None
    assert run_in_gateway(answer["gateway"], "import os; print(os.environ['A'])") == "b\n"
    assert run_in_gateway(answer["gateway"], CALL) == "one\ntwo\n"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(answer["gateway"], "GET", "/api/kernels", token="x")
    assert len(ask(answer["gateway"], "GET", "/api/kernels")) == 2
    assert core.call("session.close", session=answer["session"]) == {}
    with pytest.raises(urllib.error.URLError):
        ask(answer["gateway"], "GET", "/api/kernels")


def test_kernels_of_a_gateway_call_tools_at_its_tool_server(core, package):
    answer = open_with(core, approval="allow", gateway={}, tool_server={})
    assert run_in_gateway(answer["gateway"], CALL) == "one\ntwo\n"
    # Kernels do not have the token.
    assert (
        run_in_gateway(
            answer["gateway"],
            f"import os; print({answer['tool_server']['token']!r} in str(os.environ))",
        )
        == "False\n"
    )


def test_nobody_is_asked_for_calls_of_a_gateway(core, package):
    answer = open_with(core, approval="ask", gateway={})
    assert "no cell runs" in run_in_gateway(answer["gateway"], CALL)


def test_ports_that_cannot_be_had(core):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for name in ("gateway", "tool_server"):
            with pytest.raises(RpcError) as caught:
                open_with(core, **{name: {"host": "127.0.0.1", "port": taken.getsockname()[1]}})
            assert caught.value.kind == "system", caught.value
            for value, message in (
                (1, f"{name} must be an object"),
                ({"port": -1}, f"{name}: port must be an integer from 0 to 65535"),
                ({"port": 1, "x": 1}, f'{name}: there is no parameter "x"'),
            ):
                with pytest.raises(RpcError, match=f"^{message}"):
                    open_with(core, **{name: value})


def test_the_end_with_ports_open(ipybox, place):
    with RpcCore(ipybox, place) as core:
        answer = open_with(core, gateway={}, tool_server={})
        run_in_gateway(answer["gateway"], "1")
        core.request(
            "session.execute", session=answer["session"], code="import time; time.sleep(60)"
        )


def test_shell_commands_are_asked_for_where_tools_are_allowed(core, package):
    session = core.open(approval="allow", approve_shell_cmds=True)
    id = core.request("session.execute", session=session, code=CALL + "\n!echo three")
    question = core.wait_for_request()
    assert question["params"]["server_name"] == "ipybox"
    core.reply(question, {"accept": True})
    assert core.wait(id)["text"].split() == ["one", "two", "three"]
    assert core.text(session, "!echo four", approval="allow") == "four"
    assert core.execute(session, "!echo five", approval="deny")["status"] == "error"
    id = core.request("session.execute", session=session, code=CALL, approval="ask")
    core.reply(core.wait_for_request(), {"accept": False})
    assert core.wait(id)["status"] == "error"


def test_rules_that_ask_hold_where_only_shell_commands_are_asked_for(core, package, place):
    rules = place.workspace / "rules.json"
    rules.write_text(json.dumps({"rules": [{"server": "fake", "decision": "ask"}]}))
    session = core.open(approval="allow", approve_shell_cmds=True, approval_rules=str(rules))
    id = core.request("session.execute", session=session, code=CALL)
    question = core.wait_for_request()
    assert question["params"]["server_name"] == "fake"
    core.reply(question, {"accept": False})
    assert core.wait(id)["status"] == "error"
