# SPDX-License-Identifier: Apache-2.0
"""Revision 2026-07-28 of MCP over HTTP and on stdio: each request stands for itself."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_driver import McpServer
from meeting import Meeting
from serve_driver import Background, Serve, Stateless, session_of, write_tokens

ALICE, BOB = "a" * 32, "b" * 32
PREFIX = "io.modelcontextprotocol/"
TASKS = {"extensions": {PREFIX + "tasks": {}}}
YES = {"action": "accept", "content": {"decision": "allow"}}


@pytest.fixture
def serve(ipybox, place) -> Iterator[Serve]:
    with Serve(ipybox, place) as server:
        yield server


@pytest.fixture
def asking(ipybox, place) -> Iterator[Serve]:
    """Calls of tools need an approval."""
    with Serve(ipybox, place, "--approve=ask") as server:
        yield server


def text(result: dict) -> str:
    return result["content"][0]["text"]


def typed(value: str) -> dict:
    return {"action": "accept", "content": {"value": value}}


def answers(result: dict, answer: dict) -> dict:
    """The parameters that send the request again, with an answer to its question."""
    (key,) = result["inputRequests"]
    return {"inputResponses": {key: answer}, "requestState": result["requestState"]}


# --- requests ---------------------------------------------------------------------------------


def test_discover(serve):
    result = Stateless(serve).post("server/discover").json()["result"]
    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == ["2026-07-28"]
    assert set(result["capabilities"]) == {"logging", "tools", "resources", "extensions"}
    assert "session_id" in result["instructions"]
    assert (result["ttlMs"], result["cacheScope"]) == (60000, "private")
    assert result["_meta"][PREFIX + "serverInfo"]["name"] == "ipybox"


def test_lists(serve, workspace):
    (workspace / "file.txt").write_text("content")
    client = Stateless(serve)
    tools = client.post("tools/list").json()["result"]
    assert "execute_ipython_cell" in {tool["name"] for tool in tools["tools"]}
    assert tools["ttlMs"] > 0 and tools["resultType"] == "complete"
    listed = client.post("resources/list").json()["result"]
    (resource,) = listed["resources"]
    read = client.post("resources/read", {"uri": resource["uri"]}).json()["result"]
    assert read["contents"][0]["text"] == "content" and read["ttlMs"] == 0
    missing = client.post("resources/read", {"uri": "ipybox:///nothing"}).json()
    assert missing["error"]["code"] in (-32602,)


def test_state_has_a_name(serve):
    """The first answer gives the id of the session. Without it, another call knows nothing."""
    client = Stateless(serve)
    first = client.cell("x = 6")
    id = session_of(first)
    assert first["resultType"] == "complete"
    assert first["content"][-1]["text"].startswith(f"\n\n[session_id: {id}. ")
    again = client.cell("x * 7", id)
    assert again["content"] == [{"type": "text", "text": "42"}]
    assert text(client.cell("'x' in globals()")) == "False"
    assert Stateless(serve).call("reset").json()["result"]["isError"]
    listed = client.result("list_sessions")["structuredContent"]["sessions"]
    assert len(listed) == 2 and not any(s["is_default"] for s in listed)
    client.result("close_session", {"session_id": id})
    assert "was closed" in text(client.cell("x", id))


def test_no_session_headers(serve):
    response = Stateless(serve).call("list_sessions")
    assert response.headers["Mcp-Session-Id"] is None
    ignored = Stateless(serve).post("server/discover", Mcp_Session_Id="x", Last_Event_ID="1-1")
    assert ignored.status == 200


def test_progress(serve):
    client = Stateless(serve)
    meta = client.meta(progressToken="t")
    response = client.call(
        "execute_ipython_cell", {"code": "print(1, flush=True); input"}, _meta=meta
    )
    assert response.is_stream
    *progress, answer = response.messages()
    assert {message["params"]["progressToken"] for message in progress} == {"t"}
    assert response.last_id is None, "events have no ids"
    assert text(answer["result"]).startswith("1\n")


def test_lost_connection_is_a_cancellation(serve, workspace):
    begun = Meeting(workspace / "begun")
    client = Stateless(serve)
    id = session_of(client.cell("x = 1"))
    code = f"x = 2\nprint(1, flush=True)\n{begun.code}\nimport time; time.sleep(1000)"
    arguments = {"code": code, "session_id": id}
    response = client.call("execute_ipython_cell", arguments, _meta=client.meta(progressToken=1))
    begun.wait()
    response.close()
    assert text(client.cell("x", id)) == "2"


def test_servers_of_the_command_line(ipybox, place, servers):
    """They are there before a client has a session. None is left of their registration."""
    path = place.home / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"time": servers.time()}}))
    with Serve(ipybox, place, "--servers", str(path)) as server:
        client = Stateless(server)
        while "convert_time" not in text(client.result("describe_tools")):
            pass
        while client.result("list_sessions")["structuredContent"]["sessions"]:
            pass
        code = "from mcptools.time import convert_time"
        assert not client.cell(code)["isError"]


# --- what is wrong with a request ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "headers", "code"),
    [
        ({PREFIX + "protocolVersion": None}, {}, -32602),
        ({PREFIX + "clientCapabilities": None}, {}, -32602),
        ({PREFIX + "clientCapabilities": []}, {}, -32602),
        ({PREFIX + "protocolVersion": "2099-01-01"}, {}, -32020),
        (
            {PREFIX + "protocolVersion": "2099-01-01"},
            {"MCP_Protocol_Version": "2099-01-01"},
            -32022,
        ),
        ({}, {"MCP_Protocol_Version": None}, -32020),
        ({}, {"MCP_Protocol_Version": "2025-11-25"}, -32020),
        ({}, {"Mcp_Method": None}, -32020),
        ({}, {"Mcp_Method": "Tools/Call"}, -32020),
        ({}, {"Mcp_Name": None}, -32020),
        ({}, {"Mcp_Name": "reset"}, -32020),
        ({}, {"Mcp_Name": "=?base64?!!!?="}, -32020),
        ({}, {"Mcp_Name": "=?base64?"}, -32020),
    ],
)
def test_bad_envelopes(serve, meta, headers, code):
    client = Stateless(serve)
    whole = {name: value for name, value in {**client.meta(), **meta}.items() if value is not None}
    params = {"name": "list_sessions", "arguments": {}, "_meta": whole}
    response = client.post("tools/call", params, **headers)
    answer = response.json()
    assert (response.status, answer["error"]["code"]) == (400, code)
    assert answer["id"] == client.last_id
    if code == -32022:
        assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


def test_encoded_name(serve):
    client = Stateless(serve)
    name = base64.b64encode(b"list_sessions").decode()
    response = client.call("list_sessions", Mcp_Name=f"=?base64?{name}?=")
    assert response.status == 200 or response.json()["error"]["code"] == -32020


@pytest.mark.parametrize(
    "method", ["nothing", "ping", "logging/setLevel", "initialize", "prompts/list", "tasks/list"]
)
def test_unknown_methods(serve, method):
    response = Stateless(serve).post(method)
    assert (response.status, response.json()["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize(
    "body",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}],
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "method": "server/discover"},
        {"jsonrpc": "2.0", "id": "x" * 2000, "method": "server/discover"},
        {"id": 1, "method": "server/discover"},
        7,
    ],
)
def test_bad_messages(serve, body):
    response = serve.request("POST", body=body, MCP_Protocol_Version="2026-07-28")
    assert (response.status, response.json()["error"]["code"]) == (400, -32600)


def test_notifications_and_methods(serve):
    body = {"jsonrpc": "2.0", "method": "notifications/anything"}
    assert serve.request("POST", body=body, MCP_Protocol_Version="2026-07-28").status == 202
    for method in ("GET", "DELETE"):
        response = serve.request(method, MCP_Protocol_Version="2026-07-28")
        assert response.status == 405


# --- questions ----------------------------------------------------------------------------------


def test_question(serve):
    """The call ends with a question; the same call with the answer continues the cell."""
    client = Stateless(serve, elicitation={})
    asked = client.cell("n = 0; n += 1; name = input('Who? '); f'{name} {n}'")
    assert asked["resultType"] == "input_required"
    (question,) = asked["inputRequests"].values()
    assert question["method"] == "elicitation/create" and "Who?" in question["params"]["message"]
    done = client.cell(
        "n = 0; n += 1; name = input('Who? '); f'{name} {n}'", **answers(asked, typed("Ann"))
    )
    assert done["resultType"] == "complete" and text(done) == "'Ann 1'"


def test_answer_has_one_effect(serve):
    """Sent again, it gives the same result, whatever it answers. Nothing runs twice."""
    client = Stateless(serve, elicitation={})
    id = session_of(client.cell("n = 0"))
    code = "n += 1; x = input(); (x, n)"
    asked = client.cell(code, id)
    again = answers(asked, typed("a"))
    first = client.cell(code, id, **again)
    assert client.cell(code, id, **again) == first
    assert client.cell(code, id, **answers(asked, typed("b"))) == first
    assert text(first).endswith("('a', 1)")
    assert text(client.cell("n", id)) == "1"


def test_several_questions(serve):
    client = Stateless(serve, elicitation={})
    code = "a = input('1'); b = input('2'); a + b"
    first = client.cell(code)
    second = client.cell(code, **answers(first, typed("x")))
    assert second["resultType"] == "input_required"
    assert second["requestState"] != first["requestState"]
    assert set(second["inputRequests"]).isdisjoint(first["inputRequests"])
    # The first answer again: it is known, and the second question is still open.
    repeated = client.cell(code, **answers(first, typed("z")))
    assert repeated["inputRequests"] == second["inputRequests"]
    assert text(client.cell(code, **answers(second, typed("y")))).endswith("'xy'")


def test_missing_answer(serve):
    """The question is asked again."""
    client = Stateless(serve, elicitation={})
    asked = client.cell("input()")
    wrong = {"inputResponses": {"nothing": typed("x")}, "requestState": asked["requestState"]}
    again = client.cell("input()", **wrong)
    assert again["inputRequests"] == asked["inputRequests"]
    assert text(client.cell("input()", **answers(again, typed("y")))).endswith("'y'")


@pytest.mark.parametrize("state", ["", "x", "0" * 32 + ".1", 7, None])
def test_states_that_are_not_known(serve, state):
    client = Stateless(serve, elicitation={})
    answer = client.call("execute_ipython_cell", {"code": "1"}, requestState=state).json()
    assert answer["error"]["code"] == -32602
    assert "requestState" in answer["error"]["message"]


@pytest.mark.parametrize("change", ["suffix", "round", "arguments", "tool", "responses"])
def test_changed_requests(serve, change):
    client = Stateless(serve, elicitation={})
    asked = client.cell("input()")
    again: dict[str, Any] = answers(asked, typed("x"))
    name, arguments = "execute_ipython_cell", {"code": "input()"}
    if change == "suffix":
        again["requestState"] += "-TAMPERED"
    elif change == "round":
        again["requestState"] = again["requestState"][:-1] + "9"
    elif change == "arguments":
        arguments = {"code": "print('other')"}
    elif change == "tool":
        name, arguments = "reset", {}
    else:
        again["inputResponses"] = 12345
    assert client.call(name, arguments, **again).json()["error"]["code"] == -32602
    assert text(client.cell("input()", **answers(asked, typed("y")))).endswith("'y'")


def test_state_of_another_principal(ipybox, place):
    tokens = write_tokens(place.home / "tokens", alice=ALICE, bob=BOB)
    with Serve(ipybox, place, tokens) as server:
        alice = Stateless(server, ALICE, elicitation={})
        bob = Stateless(server, BOB, elicitation={})
        asked = alice.cell("input()")
        stolen = bob.call(
            "execute_ipython_cell", {"code": "input()"}, **answers(asked, typed("bob"))
        ).json()
        unknown = bob.call(
            "execute_ipython_cell", {"code": "input()"}, requestState="0" * 32 + ".1"
        ).json()
        assert stolen["error"] == unknown["error"]
        assert text(alice.cell("input()", **answers(asked, typed("alice")))).endswith("'alice'")


CALL = """
print("begun")
from mcptools.time import convert_time as c
c.run(c.Params(source_timezone="UTC", time="12:00", target_timezone="UTC")).target.datetime[11:16]
"""


@pytest.mark.parametrize("action", ["accept", "decline"])
def test_approval(asking, servers, action):
    """The half-run cell waits for the decision."""
    client = Stateless(asking, elicitation={})
    registered = client.result(
        "register_mcp_server", {"server_name": "time", "server_params": servers.time()}
    )
    id = session_of(registered)
    asked = client.cell(CALL, id)
    (question,) = asked["inputRequests"].values()
    assert "time.convert_time" in question["params"]["message"]
    decision = YES if action == "accept" else {"action": "decline"}
    done = text(client.cell(CALL, id, **answers(asked, decision)))
    assert "begun" in done
    assert ("'12:00'" if action == "accept" else "ApprovalRejectedError") in done


def test_client_without_forms(serve):
    result = Stateless(serve).cell("input()")
    assert result["isError"] and "StdinNotImplementedError" in text(result)


def test_parked_cell_can_wait_for_its_answer(serve, workspace):
    """Two clients send the answer; both get the result."""
    go = Meeting(workspace / "go")
    client = Stateless(serve, elicitation={})
    code = f"x = input()\n{go.code}\nx"
    asked = client.cell(code)
    both = [
        Background(Stateless(serve, elicitation={}).cell, code),
    ]
    both[0].result()
    again = answers(asked, typed("a"))
    waiting = [Background(lambda: client_of(serve).cell(code, **again)) for _ in range(2)]
    go.wait()
    first, second = (item.result() for item in waiting)
    assert first == second and text(first).endswith("'a'")


def client_of(serve: Serve) -> Stateless:
    return Stateless(serve, elicitation={})


# --- tasks --------------------------------------------------------------------------------------


def wait_for(client: Stateless, task: str, *statuses: str) -> dict:
    while True:
        state = client.post("tasks/get", {"taskId": task}).json()["result"]
        if state["status"] in statuses:
            return state
        time.sleep(0.05)


def test_task(serve, workspace):
    """A call that takes long ends with a task."""
    go = Meeting(workspace / "go")
    client = Stateless(serve, **TASKS)
    task = client.cell(f"{go.code}\n'done'")
    assert (task["resultType"], task["status"]) == ("task", "working")
    assert task["ttlMs"] is None and task["pollIntervalMs"] > 0
    state = client.post("tasks/get", {"taskId": task["taskId"]}).json()["result"]
    assert state["status"] == "working" and "result" not in state
    go.wait()
    done = wait_for(client, task["taskId"], "completed")
    assert text(done["result"]) == "'done'" and done["ttlMs"] >= 600_000
    assert done["createdAt"] <= done["lastUpdatedAt"]


def test_question_of_a_task(serve, workspace):
    go = Meeting(workspace / "go")
    client = Stateless(serve, elicitation={}, **TASKS)
    task = client.cell(f"{go.code}\ninput()")["taskId"]
    go.wait()
    asked = wait_for(client, task, "input_required")
    (key,) = asked["inputRequests"]
    client.post("tasks/update", {"taskId": task, "inputResponses": {"other": typed("no")}})
    answer = {"taskId": task, "inputResponses": {key: typed("yes")}}
    assert client.post("tasks/update", answer).json()["result"]["resultType"] == "complete"
    assert text(wait_for(client, task, "completed")["result"]).endswith("'yes'")


def test_cancelled_task(serve, workspace):
    begun = Meeting(workspace / "begun")
    client = Stateless(serve, **TASKS)
    id = session_of(client.cell("x = 1"))
    background = Background(
        client_with_tasks(serve).cell, f"x = 2\n{begun.code}\nimport time; time.sleep(1000)", id
    )
    begun.wait()
    task = background.result()["taskId"]
    for _ in range(2):
        ack = client.post("tasks/cancel", {"taskId": task}).json()["result"]
        assert {name for name in ack if name != "_meta"} == {"resultType"}
    assert wait_for(client, task, "cancelled")
    assert text(client.cell("x", id)) == "2"


def client_with_tasks(serve: Serve) -> Stateless:
    return Stateless(serve, **TASKS)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_tasks_that_are_not_known(serve, method):
    answer = Stateless(serve, **TASKS).post(method, {"taskId": "0" * 32}).json()
    assert answer["error"]["code"] == -32602
    response = Stateless(serve).post(method, {"taskId": "0" * 32})
    error = response.json()["error"]
    assert (response.status, error["code"]) == (400, -32021)
    assert error["data"]["requiredCapabilities"] == TASKS


# --- the end ------------------------------------------------------------------------------------


def test_subscription(serve):
    """The stream is acknowledged, and ends when the server does."""
    client = Stateless(serve)
    response = client.post("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    events = response.events()
    first = next(events)
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["_meta"][PREFIX + "subscriptionId"] == client.last_id
    serve.process.terminate()
    (last,) = list(events)
    assert last["result"]["_meta"][PREFIX + "subscriptionId"] == client.last_id
    assert serve.close() == 0


# --- stdio --------------------------------------------------------------------------------------


class Modern(McpServer):
    """On stdio, without a handshake."""

    capabilities: dict = {"elicitation": {}}

    def __init__(self, ipybox: str, place: Any):
        super().__init__(ipybox, place, initialize=False)

    def ask(self, method: str, params: dict | None = None) -> dict:
        meta = {
            PREFIX + "protocolVersion": "2026-07-28",
            PREFIX + "clientCapabilities": self.capabilities,
        }
        return self.answer(self.request(method, {"_meta": meta, **(params or {})}))

    def run(self, code: str, **params: Any) -> dict:
        call = {"name": "execute_ipython_cell", "arguments": {"code": code}, **params}
        return self.ask("tools/call", call)["result"]


def test_stdio(ipybox, place):
    with Modern(ipybox, place) as mcp:
        assert mcp.ask("server/discover")["result"]["supportedVersions"] == ["2026-07-28"]
        assert mcp.run("x = 6")["resultType"] == "complete"
        assert text(mcp.run("x * 7")) == "42"
        asked = mcp.run("input()")
        assert text(mcp.run("input()", **answers(asked, typed("a")))).endswith("'a'")
        assert mcp.ask("ping")["error"]["code"] == -32601
        legacy = mcp.request("tools/list")
        assert mcp.answer(legacy)["error"]["message"] == "initialize must come first"


def test_both_on_stdio(ipybox, place):
    """A client may use both; they see the same session."""
    with Modern(ipybox, place) as mcp:
        mcp.initialize()
        assert mcp.cell("x = 1") == ""
        assert text(mcp.run("x")) == "1"


def test_cancellation_on_stdio(ipybox, place):
    with Modern(ipybox, place) as mcp:
        begun = Meeting(place.workspace / "begun")
        meta = {
            PREFIX + "protocolVersion": "2026-07-28",
            PREFIX + "clientCapabilities": {},
        }
        code = f"x = 1\n{begun.code}\nimport time; time.sleep(1000)"
        params = {"name": "execute_ipython_cell", "arguments": {"code": code}, "_meta": meta}
        call = mcp.request("tools/call", params)
        begun.wait()
        mcp.notify("notifications/cancelled", {"requestId": call})
        assert text(mcp.run("x")) == "1"
        assert call not in mcp.answers


def test_bad_envelope_on_stdio(ipybox, place):
    with Modern(ipybox, place) as mcp:
        meta = {PREFIX + "protocolVersion": "2099-01-01", PREFIX + "clientCapabilities": {}}
        error = mcp.answer(mcp.request("tools/list", {"_meta": meta}))["error"]
        assert error["code"] == -32022
        assert json.dumps(error["data"])
