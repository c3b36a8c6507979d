# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc`: generates packages, registers servers, installs, and connects to MCP servers
without a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import scripted_server
from rpc_driver import RpcCore, RpcError

CALL = "from mcptools.fake import two_texts\nprint(two_texts.run(two_texts.Params()))"
SILENT = {"command": "sh", "args": ["-c", "cat > /dev/null"]}


def fake(*modes: str) -> dict:
    return scripted_server.params("results", *modes)


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place) as core:
        yield core


def generate(core: RpcCore, root: Path, **options) -> list[str]:
    params = {"server_name": "fake", "server_params": fake(), "root_dir": str(root)} | options
    return core.call("sources.generate", **params)["tools"]


# --- packages ---


def test_what_was_generated_can_be_called_wherever_it_is(core, place, workspace):
    elsewhere = place.root / "elsewhere"
    elsewhere.mkdir()
    open_before = core.open(approval="allow", kernel_env={"PYTHONPATH": str(elsewhere)})
    tools = generate(core, elsewhere / "mcptools")
    assert "two_texts" in tools and (elsewhere / "mcptools/fake/two_texts.py").exists()
    assert core.text(open_before, CALL) == "one\ntwo"
    opened_later = core.open(approval="allow", kernel_env={"PYTHONPATH": str(elsewhere)})
    assert core.text(opened_later, CALL) == "one\ntwo"


def test_packages_of_an_earlier_core(ipybox, place):
    elsewhere = place.root / "elsewhere"
    elsewhere.mkdir()
    with RpcCore(ipybox, place) as core:
        generate(core, elsewhere / "mcptools")
    options = {"approval": "allow", "kernel_env": {"PYTHONPATH": str(elsewhere)}}
    with RpcCore(ipybox, place) as core:
        assert core.text(core.open(package_roots=[str(elsewhere)], **options), CALL) == "one\ntwo"
        assert core.execute(core.open(**options), CALL)["status"] == "error"


def test_asynchronous_packages(core, workspace):
    generate(core, workspace / "mcptools", async_api=True)
    code = "from mcptools.fake import two_texts\nprint(await two_texts.run(two_texts.Params()))"
    assert core.text(core.open(approval="allow"), code) == "one\ntwo"


def test_variables_come_from_the_environment_given_and_the_workspace(core, workspace):
    (workspace / ".env").write_text("FROM_FILE=file\nFROM_BOTH=file\n")
    params = fake() | {"env": {"A": "${FROM_FILE}", "B": "${FROM_BOTH}", "C": "${GIVEN}"}}
    options = {
        "env": {"PATH": "/usr/bin:/bin", "FROM_BOTH": "env", "GIVEN": "env"},
        "workspace": str(workspace),
    }
    client = core.call("mcp.connect", server_params=params, **options)["client"]
    environ = core.call("mcp.call", client=client, tool_name="environ", tool_args={})[
        "result"
    ].splitlines()
    assert {"A=file", "B=env", "C=env"} <= set(environ)
    with pytest.raises(RpcError, match="NOPE") as caught:
        core.call("mcp.connect", server_params=fake() | {"env": {"A": "${NOPE}"}})
    assert caught.value.kind == "not_found"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"server_name": "no-identifier"}, "invalid"),
        ({"server_params": {}}, "invalid"),
        ({"server_params": {"command": "/nonexistent/server"}}, "not_found"),
        ({"server_params": fake("exit")}, "server"),
        ({"server_params": fake("bad-tool")}, "protocol"),
        ({"server_params": SILENT, "connect_timeout": 0.2}, "timeout"),
    ],
)
def test_what_fails_leaves_no_package(core, workspace, options, kind):
    with pytest.raises(RpcError) as caught:
        generate(core, workspace / "mcptools", **options)
    assert caught.value.kind == kind
    assert not list(workspace.rglob("*.py"))


def test_cancelling_a_generation(core, workspace):
    id = core.request(
        "sources.generate",
        server_name="fake",
        server_params=SILENT,
        root_dir=str(workspace / "mcptools"),
    )
    core.notify("session.cancel", request=id)
    with pytest.raises(RpcError) as caught:
        core.wait(id)
    assert caught.value.kind == "cancelled"


def test_registering_for_a_session(core):
    session = core.open(approval="allow")
    answer = core.call(
        "session.register", session=session, server_name="fake", server_params=fake()
    )
    assert "two_texts" in answer["tools"]
    assert core.text(session, CALL) == "one\ntwo"
    with pytest.raises(RpcError, match="cannot be the name of a server") as caught:
        core.call("session.register", session=session, server_name="1x", server_params=fake())
    assert caught.value.kind == "invalid"


def test_installing(core):
    session = core.open()
    with pytest.raises(RpcError) as caught:
        core.call("session.install", session=session, package="--help", events=True)
    assert caught.value.kind in ("invalid", "server")


# --- connections ---


@pytest.fixture
def client(core) -> str:
    return core.call("mcp.connect", server_params=fake())["client"]


@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("two_texts", {}, "one\ntwo"),
        ("nothing", {}, None),
        ("numbers", {}, {"big": 2**70, "small": 0.1}),
        (
            "echo_json",
            {"value": [1.50, "\ud800"]},
            {"text": '{"value":[1.5,"\\ud800"]}', "back": [1.5, "\ud800"]},
        ),
    ],
)
def test_results(core, client, tool, arguments, result):
    assert (
        core.call("mcp.call", client=client, tool_name=tool, tool_args=arguments)["result"]
        == result
    )


def test_tools_and_errors(core, client):
    tools = {tool["name"]: tool for tool in core.call("mcp.list_tools", client=client)["tools"]}
    assert tools["echo_json"]["inputSchema"]["properties"] == {"value": {}}
    with pytest.raises(RpcError, match="^went wrong\nsecond$") as caught:
        core.call("mcp.call", client=client, tool_name="fail")
    assert caught.value.kind == "server"
    with pytest.raises(RpcError, match="last words"):
        core.call("mcp.call", client=client, tool_name="die")
    with pytest.raises(RpcError):
        core.call("mcp.call", client=client, tool_name="two_texts")
    assert core.call("mcp.close", client=client) == {}
    with pytest.raises(RpcError, match=f'no connection "{client}" is open') as caught:
        core.call("mcp.list_tools", client=client)
    assert caught.value.kind == "not_found"


def test_cancelling_calls_and_connections(core, client):
    calls = [core.request("mcp.call", client=client, tool_name="hang") for _ in range(2)]
    core.notify("session.cancel", request=calls[0])
    with pytest.raises(RpcError) as caught:
        core.wait(calls[0])
    assert caught.value.kind == "cancelled"
    assert core.call("mcp.close", client=client) == {}
    with pytest.raises(RpcError) as caught:
        core.wait(calls[1])
    assert caught.value.kind == "cancelled"
    connecting = core.request("mcp.connect", server_params=SILENT)
    core.notify("session.cancel", request=connecting)
    with pytest.raises(RpcError) as caught:
        core.wait(connecting)
    assert caught.value.kind == "cancelled"


def test_the_end_with_all_of_it_under_way(ipybox, place, workspace):
    with RpcCore(ipybox, place) as core:
        client = core.call("mcp.connect", server_params=fake("ignore-sigterm", "ignore-eof"))[
            "client"
        ]
        core.request("mcp.call", client=client, tool_name="hang")
        core.request("mcp.connect", server_params=SILENT)
        core.request("mcp.close", client=core.call("mcp.connect", server_params=fake())["client"])
        core.request(
            "sources.generate", server_name="x", server_params=SILENT, root_dir=str(workspace / "a")
        )
        session = core.open(approval="allow")
        core.request("session.register", session=session, server_name="y", server_params=SILENT)
        core.request("session.execute", session=session, code="import time; time.sleep(60)")
        core.request("session.close", session=core.open())
