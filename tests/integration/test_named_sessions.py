# SPDX-License-Identifier: Apache-2.0
"""Python sessions of MCP clients, which are used by their id: `session_id`."""

from __future__ import annotations

from collections.abc import Iterator

import mcp_driver
import pytest
from mcp_driver import McpServer
from meeting import Meeting
from serve_driver import Background, Client, Serve, session_of, write_tokens

ALICE, BOB = "a" * 32, "b" * 32


@pytest.fixture
def serve(ipybox, place) -> Iterator[Serve]:
    with Serve(ipybox, place) as server:
        yield server


@pytest.fixture
def mcp(ipybox, place) -> Iterator[McpServer]:
    with McpServer(ipybox, place) as server:
        yield server


def tool(client: Client, name: str, **arguments) -> dict:
    return client.call(name, arguments).messages()[-1]["result"]


def text(result: dict) -> str:
    return result["content"][0]["text"]


def sessions(client: Client) -> list[dict]:
    return tool(client, "list_sessions")["structuredContent"]["sessions"]


# --- on stdio ---------------------------------------------------------------------------------


def cell(mcp: McpServer, code: str, **arguments) -> dict:
    return mcp.tool("execute_ipython_cell", {"code": code, **arguments})


def test_default_on_stdio(mcp):
    """A client that names no session sees nothing of names."""
    result = cell(mcp, "x = 1; x")
    assert result["content"] == [{"type": "text", "text": "1"}]
    assert "_meta" not in result


def test_new_session_on_stdio(mcp):
    """Two sessions in one connection, each with its own variables."""
    cell(mcp, "x = 1")
    result = cell(mcp, "x = 2", session_id="new")
    id = session_of(result)
    assert result["content"][-1]["text"].startswith(f"\n\n[session_id: {id}. ")
    again = cell(mcp, "x", session_id=id)
    assert again["content"] == [{"type": "text", "text": "2"}]
    assert text(cell(mcp, "x")) == "1"
    listed = mcp.tool("list_sessions", {})
    (default,) = (s for s in listed["structuredContent"]["sessions"] if s["is_default"])
    assert text(cell(mcp, "x", session_id=default["session_id"])) == "1"
    assert [s["cells"] for s in listed["structuredContent"]["sessions"]] == [2, 2]


def test_sessions_run_at_the_same_time(mcp, workspace):
    go = Meeting(workspace / "go")
    waiting = mcp.start_tool("execute_ipython_cell", {"code": f"{go.code}\n'done'"})
    assert text(cell(mcp, "6 * 7", session_id="new")) == "42"
    go.wait()
    assert text(mcp.answer(waiting)["result"]) == "'done'"


def test_close_session(mcp):
    id = session_of(cell(mcp, "x = 1", session_id="new"))
    assert text(mcp.tool("close_session", {"session_id": id})) == "The session is closed."
    result = cell(mcp, "x", session_id=id)
    assert result["isError"]
    assert "the session was closed; its variables are gone" in text(result)
    assert mcp.tool("close_session", {"session_id": id})["isError"]


def test_close_the_default_session(mcp):
    """The next cell starts another one."""
    cell(mcp, "x = 1")
    (session,) = mcp.tool("list_sessions", {})["structuredContent"]["sessions"]
    mcp.tool("close_session", {"session_id": session["session_id"]})
    assert text(cell(mcp, "'x' in globals()")) == "False"


def test_close_while_a_cell_runs(mcp, workspace):
    begun = Meeting(workspace / "begun")
    id = session_of(cell(mcp, "1", session_id="new"))
    code = {"code": f"{begun.code}\nimport time; time.sleep(1000)", "session_id": id}
    running = mcp.start_tool("execute_ipython_cell", code)
    begun.wait()
    mcp.tool("close_session", {"session_id": id})
    assert mcp.answer(running)["result"]["isError"]
    assert text(cell(mcp, "1")) == "1"


@pytest.mark.parametrize("id", ["x", "0" * 32, 7, ["new"], "new\u0000"])
def test_bad_ids(mcp, id):
    result = cell(mcp, "1", session_id=id)
    assert result["isError"] and "session" in text(result)
    assert text(cell(mcp, "2")) == "2"


def test_each_tool_has_the_argument(mcp):
    id = session_of(cell(mcp, "here = 1", session_id="new"))
    listed = mcp.tool("list_variables", {"session_id": id})
    assert [v["name"] for v in listed["structuredContent"]["variables"]] == ["here"]
    assert "There are no variables" in text(mcp.tool("list_variables", {}))
    mcp.tool("reset", {"session_id": id})
    assert text(cell(mcp, "'here' in globals()", session_id=id)) == "False"
    assert not mcp.tool("describe_tools", {"session_id": id})["isError"]


def test_question_of_another_session(ipybox, place):
    """A question belongs to the call whose cell asks."""
    with mcp_driver.Client(ipybox, place) as mcp:
        arguments = {"code": "input()", "session_id": "new"}
        call = mcp.start_tool("execute_ipython_cell", arguments)
        answer = {"action": "accept", "content": {"value": "typed"}}
        mcp.reply(mcp.question(), result=answer)
        assert text(mcp.answer(call)["result"]) == "'typed'"


def test_too_many_sessions(mcp):
    """The one that was not used for the longest time gives way, but never the default one."""
    cell(mcp, "x = 1")
    ids = [session_of(cell(mcp, "1", session_id="new")) for _ in range(20)]
    result = cell(mcp, "1", session_id=ids[0])
    assert "ended to make room for another one" in text(result)
    assert text(cell(mcp, "1", session_id=ids[1])) == "1"
    assert text(cell(mcp, "x")) == "1"


def test_recorded_session_is_the_only_one(ipybox, place):
    with McpServer(ipybox, place, "--record", str(place.home / "record.jsonl")) as mcp:
        assert "too many sessions" in text(cell(mcp, "1", session_id="new"))
        assert text(cell(mcp, "1")) == "1"


# --- over HTTP --------------------------------------------------------------------------------


def test_state_outlives_its_connection(serve):
    client = serve.client()
    result = tool(client, "execute_ipython_cell", code="x = 6")
    id = session_of(result)
    assert result["content"][-1]["text"].startswith(f"\n\n[session_id: {id}. ")
    assert client.delete() == 204
    other = serve.client()
    assert text(tool(other, "execute_ipython_cell", code="x * 7", session_id=id)) == "42"
    assert {s["session_id"] for s in sessions(other)} >= {id}


def test_cell_outlives_its_connection(serve, workspace):
    """Its answer is there for another connection. The cell runs once."""
    begun, go = Meeting(workspace / "begun"), Meeting(workspace / "go")
    client = serve.client()
    id = session_of(tool(client, "execute_ipython_cell", code="n = 0"))
    code = f"print(1, flush=True)\nn += 1\n{begun.code}\n{go.code}\nf'ran {{n}}'"
    response = client.start_cell(code, token="t")
    begun.wait()
    response.close()
    assert client.delete() == 204
    other = serve.client()
    waiting = Background(lambda: tool(other, "get_cell_result", session_id=id))
    go.wait()
    assert text(waiting.result()) == "1\n'ran 1'"
    assert text(tool(other, "execute_ipython_cell", code="n", session_id=id)) == "1"


def test_unused_session_ends_with_its_connection(serve):
    client = serve.client()
    client.delete()
    assert len(sessions(serve.client())) == 1


def test_progress_names_session_and_cell(serve):
    client = serve.client()
    *progress, answer = client.start_cell("print(1, flush=True); input", token="t").messages()
    meta = answer["result"]["_meta"]
    assert meta["ipybox/cell_id"] == 1 and len(meta["ipybox/session_id"]) == 32
    assert {tuple(p["params"]["_meta"].items()) for p in progress} == {tuple(meta.items())}


def test_idle_sessions_end(ipybox, place):
    with Serve(ipybox, place, "--idle-timeout=0.3") as server:
        client = server.client()
        id = session_of(tool(client, "execute_ipython_cell", code="1"))
        client.delete()
        other = server.client()
        while id in {s["session_id"] for s in sessions(other)}:
            pass
        result = tool(other, "execute_ipython_cell", code="1", session_id=id)
        assert "ended, because nothing used it for 0.3 s" in text(result)


def test_sessions_of_connections_that_left_give_way(ipybox, place):
    with Serve(ipybox, place, "--max-sessions=2") as server:
        ids = []
        for n in range(4):
            client = server.client()
            ids.append(session_of(tool(client, "execute_ipython_cell", code=f"x = {n}")))
            client.delete()
        other = server.client()
        kept = [s["session_id"] for s in sessions(other) if not s["is_default"]]
        assert kept == ids[-1:]
        assert text(tool(other, "execute_ipython_cell", code="x", session_id=ids[-1])) == "3"


def test_sessions_of_others(ipybox, place):
    """An id is useless to another principal, and the answer is that of an id that does not
    exist."""
    tokens = write_tokens(place.home / "tokens", alice=ALICE, bob=BOB)
    with Serve(ipybox, place, tokens) as server:
        alice, bob = server.client(ALICE), server.client(BOB)
        id = session_of(tool(alice, "execute_ipython_cell", code="secret = 1"))
        answers = [
            tool(bob, name, session_id=id, **arguments)
            for name, arguments in [
                ("execute_ipython_cell", {"code": "secret"}),
                ("list_variables", {}),
                ("get_cell_result", {}),
                ("close_session", {}),
                ("reset", {}),
            ]
        ]
        unknown = tool(bob, "list_variables", session_id="0" * 32)
        assert all(answer["isError"] for answer in answers)
        assert {text(a).partition(": ")[2] for a in answers} == {text(unknown).partition(": ")[2]}
        assert id not in {s["session_id"] for s in sessions(bob)}
        assert text(tool(alice, "execute_ipython_cell", code="secret")) == "1"


def test_question_after_the_client_left(serve, workspace):
    """Input is not given if no client can be asked."""
    begun, go = Meeting(workspace / "begun"), Meeting(workspace / "go")
    client = serve.client(elicitation={})
    id = session_of(tool(client, "execute_ipython_cell", code="1"))
    asking = "try: input()\nexcept EOFError as e: print(e)"
    code = f"print(1, flush=True)\n{begun.code}\n{go.code}\n{asking}"
    response = client.start_cell(code, token="t")
    begun.wait()
    response.close()
    client.delete()
    other = serve.client()
    waiting = Background(lambda: tool(other, "get_cell_result", session_id=id))
    go.wait()
    assert "not connected any more" in text(waiting.result())


# --- the maximum lifetime -------------------------------------------------------------------------

EXPIRED = "ended, because it reached the maximum lifetime of 0.3 s"


def test_old_sessions_end(ipybox, place):
    """Use does not extend it. The next call with the id says so."""
    with Serve(ipybox, place, "--max-lifetime=0.3") as server:
        client = server.client()
        result = tool(client, "execute_ipython_cell", code="1", session_id="new")
        id = session_of(result)
        while not (result := tool(client, "list_variables", session_id=id))["isError"]:
            pass
        assert f"the session {EXPIRED}; its variables are gone" in text(result)


def test_the_default_session_ends(ipybox, place):
    """The next cell, which names no session, begins another one, and says so once."""
    with Serve(ipybox, place, "--max-lifetime=0.3") as server:
        client = server.client()
        client.cell("x = 1")
        while "is not defined" not in (found := client.cell("x")):
            assert EXPIRED not in found
        assert f"[ipybox] the previous session {EXPIRED}; its variables are gone" in found
        assert client.cell("2") in (
            "2",
            f"2\n\n[ipybox] the previous session {EXPIRED}; its variables are gone",
        )


def test_a_cell_ends_before_its_old_session(ipybox, place, workspace):
    """It has time to end, no further one begins, and then the session ends."""
    begun, go = Meeting(workspace / "begun"), Meeting(workspace / "go")
    with Serve(ipybox, place, "--max-lifetime=1") as server:
        client = server.client()
        id = session_of(tool(client, "execute_ipython_cell", code="n = 6", session_id="new"))
        code = f"{begun.code}\n{go.code}\nn * 7"
        running = Background(lambda: tool(client, "execute_ipython_cell", code=code, session_id=id))
        begun.wait()
        other = server.client()
        while not any(s["is_ending"] for s in sessions(other) if s["session_id"] == id):
            pass
        refused = tool(other, "execute_ipython_cell", code="0", session_id=id)
        assert "ends with the cell that still runs" in text(refused)
        go.wait()
        assert text(running.result()) == "42"
        while id in {s["session_id"] for s in sessions(other)}:
            pass
        ended = tool(other, "execute_ipython_cell", code="0", session_id=id)
        assert "reached the maximum lifetime of 1 s; its variables are gone" in text(ended)


def test_a_cell_without_an_end(ipybox, place):
    """After the grace period it ends with its session, and its answer says why."""
    with Serve(ipybox, place, "--max-lifetime=0.3", "--lifetime-grace=0.3") as server:
        client = server.client()
        found = client.cell("print('before', flush=True)\nimport time; time.sleep(1000)")
        assert f"the session {EXPIRED}, while the cell ran" in found
        assert found.endswith("Output before the error:\n\nbefore")


def test_a_branch_is_as_old_as_its_forerunner(ipybox, place):
    options = ["--max-lifetime=3600", "--tools=execute_ipython_cell,list_sessions,branch"]
    with Serve(ipybox, place, *options) as server:
        client = server.client()
        id = session_of(tool(client, "execute_ipython_cell", code="x = 1", session_id="new"))
        while not any(s["age_seconds"] > 0 for s in sessions(client) if s["session_id"] == id):
            pass
        branch = tool(client, "branch", session_id=id)["structuredContent"]["session_id"]
        (found,) = (s for s in sessions(client) if s["session_id"] == branch)
        assert found["age_seconds"] > 0
