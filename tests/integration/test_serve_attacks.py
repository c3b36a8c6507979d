# SPDX-License-Identifier: Apache-2.0
"""What a principal of `ipybox serve` tries with the names and the bandwidth of another one."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from meeting import Meeting
from serve_driver import ACCEPT, Serve, Stateless, send_raw, session_of, text_of, write_tokens

ALICE, BOB = "a" * 32, "b" * 32
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.fixture
def serve(ipybox, place) -> Iterator[Serve]:
    tokens = write_tokens(place.home / "tokens", alice=ALICE, bob=BOB)
    options = [f"--workspace={place.workspace}", "--max-sessions-each=5", "--max-connections=60"]
    with Serve(ipybox, place, tokens, *options) as server:
        yield server


def directory_of(place, name: str):
    path = place.workspace / name
    path.mkdir(exist_ok=True)
    return path


# --- names of another principal -----------------------------------------------------------------


def test_events_of_another(serve):
    alice, bob = serve.client(ALICE), serve.client(BOB)
    code = "print('secret', flush=True); input"
    response = alice.start_cell(code, token="t")
    response.messages()
    stolen = bob.send(
        "GET", Mcp_Session_Id=alice.id, Last_Event_ID="1-0", Accept="text/event-stream"
    )
    assert stolen.status == 404
    stolen.close()
    own = bob.resume(response.last_id)
    assert own.status == 400, "the ids of events belong to a session"
    own.close()


def test_answer_to_a_question_of_another(serve):
    """Bob answers questions with all the numbers that Alice's may have."""
    alice, bob = serve.client(ALICE, elicitation={}), serve.client(BOB, elicitation={})
    response = alice.start_cell("input('name? ')")
    events = response.events()
    question = next(m for m in events if m and m.get("method") == "elicitation/create")

    def answer(client, value: str) -> None:
        result = {"action": "accept", "content": {"value": value}}
        message = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        client.send("POST", message).close()

    answer(bob, "bob")
    answer(alice, "alice")
    final = next(m for m in events if m and "result" in m)
    assert text_of(final).endswith("'alice'")


def test_task_of_another(serve, place):
    directory_of(place, "alice")
    alice, bob = Stateless(serve, ALICE, **TASKS), Stateless(serve, BOB, **TASKS)
    go = Meeting(place.workspace / "alice/go")
    task = alice.cell(f"{go.code}\n'secret'")["taskId"]
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        stolen = bob.post(method, {"taskId": task, "inputResponses": {}}).json()
        unknown = bob.post(method, {"taskId": "0" * 32, "inputResponses": {}}).json()
        assert stolen["error"] == unknown["error"]
    go.wait()
    while (state := alice.post("tasks/get", {"taskId": task}).json()["result"])["status"] != (
        "completed"
    ):
        assert state["status"] == "working"
    assert state["result"]["content"][0]["text"] == "'secret'"


def test_resources_of_another(serve, place):
    (directory_of(place, "alice") / "note.txt").write_text("secret")
    (directory_of(place, "bob") / "link.txt").symlink_to(place.workspace / "alice/note.txt")
    alice, bob = Stateless(serve, ALICE), Stateless(serve, BOB)
    (resource,) = alice.post("resources/list").json()["result"]["resources"]
    assert "secret" in json.dumps(alice.post("resources/read", {"uri": resource["uri"]}).json())
    assert bob.post("resources/list").json()["result"]["resources"] == []
    scheme = resource["uri"].removesuffix("note.txt")
    for path in [
        "note.txt",
        "link.txt",
        "../alice/note.txt",
        "%2e%2e/alice/note.txt",
        "/etc/hosts",
    ]:
        answer = bob.post("resources/read", {"uri": scheme + path}).json()
        assert answer["error"]["code"] == -32602, answer


def test_guessed_ids(serve):
    """Ids are not numbers that follow each other."""
    alice = Stateless(serve, ALICE)
    ids = [session_of(alice.cell("1")) for _ in range(4)]
    assert len({id[:8] for id in ids}) == 4 and all(len(id) == 32 for id in ids)


# --- requests that are not what they seem -------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: identity, chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\n folded",
        "Content-Length : 5",
        "Host: evil.example\r\nContent-Length: 5",
    ],
)
def test_smuggling(serve, head):
    """A request that a proxy could read in another way is refused, and its connection closed.

    What follows it is not read as a request.
    """
    inner = f"GET /healthz HTTP/1.1\r\nHost: localhost:{serve.port}\r\n\r\n"
    request = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost:{serve.port}\r\nAuthorization: Bearer {ALICE}\r\n"
        f"Accept: {ACCEPT}\r\nContent-Type: application/json\r\n{head}\r\n\r\n{inner}"
    )
    answer = send_raw(serve.port, request.encode()).decode()
    assert answer.startswith("HTTP/1.1 4") and answer.count("HTTP/1.1 ") == 1
    assert "Connection: close" in answer


# --- floods -------------------------------------------------------------------------------------


def test_flood_of_sessions(serve):
    """Bob has as many sessions as he may have; Alice does not notice."""
    alice = serve.client(ALICE)
    bobs = [serve.client(BOB) for _ in range(12)]
    assert [client.status for client in bobs] == [200] * 5 + [503] * 7
    stateless = Stateless(serve, BOB)
    assert "too many sessions" in stateless.cell("1")["content"][0]["text"]
    assert alice.cell("1") == "1"


def test_flood_of_streams(serve):
    """Streams that stay open take all connections. They do not outlive their client."""
    alice, bob = serve.client(ALICE), Stateless(serve, BOB)
    streams = []
    while (stream := bob.post("subscriptions/listen", {"notifications": {}})).status == 200:
        streams.append(stream)
        if len(streams) == 40:
            break
    assert alice.cell("1") == "1"
    for stream in streams:
        stream.close()
    assert alice.cell("2") == "2"


def test_aborted_requests(serve):
    alice = serve.client(ALICE)
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost:{serve.port}\r\nAuthorization: Bearer {BOB}\r\n"
        f"Accept: {ACCEPT}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{{"
    )
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", serve.port)) as peer:
            peer.sendall(head.encode())
    assert alice.cell("1") == "1"


def test_flood_of_malformed_requests(serve):
    alice = serve.client(ALICE)
    body = b"[" * 100_000
    for _ in range(50):
        response = serve.request("POST", body=body, Authorization=f"Bearer {BOB}")
        assert response.status == 400
        response.close()
    assert alice.cell("1") == "1"


def test_deep_and_wide_calls(serve):
    """Arguments that are not what a tool takes."""
    bob = Stateless(serve, BOB)
    deep: object = 1
    for _ in range(100):
        deep = [deep]
    for arguments in ({"code": deep}, {"x" * 10_000: 1}, {str(n): n for n in range(10_000)}):
        result = bob.call("execute_ipython_cell", arguments).json()
        assert result["result"]["isError"]
    assert bob.cell("1")["content"][0]["text"] == "1"
