# SPDX-License-Identifier: Apache-2.0
"""`ipybox serve`: sessions of MCP clients over Streamable HTTP."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from docs_blocks import fenced
from meeting import Meeting
from serve_driver import (
    ACCEPT,
    Background,
    Serve,
    send_raw,
    text_of,
    write_tokens,
)

ALICE, BOB = "a" * 32, "b" * 32


@pytest.fixture
def serve(ipybox, place) -> Iterator[Serve]:
    with Serve(ipybox, place) as server:
        yield server


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not below /tmp, of which each sandbox has its own."""
    with tempfile.TemporaryDirectory(prefix="ipb-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


# --- sessions ---------------------------------------------------------------------------------


def test_session(serve):
    client = serve.client()
    result = client.initialized["result"]
    assert (client.status, result["protocolVersion"]) == (200, "2025-11-25")
    tools = client.post("tools/list").json()["result"]["tools"]
    assert "execute_ipython_cell" in [tool["name"] for tool in tools]
    client.cell("x = 6")
    assert client.cell("x * 7") == "42"
    other = serve.client()
    assert other.id != client.id and len(other.id) == 64
    assert other.cell("'x' in globals()") == "False"
    assert client.delete() == 204
    gone = client.post("ping")
    assert gone.status == 404 and gone.json()["error"]["code"] == -32001
    assert client.delete() == 404
    assert other.cell("2") == "2"


def test_how_to_with_curl(serve, place):
    """The command of docs/how-to/serve.md. A call with the id of its answer continues."""
    document = (harness.ROOT / "docs/how-to/serve.md").read_text()
    (block,) = (b for b in fenced("serve.md", document) if "8901/mcp" in b.text and b.kind == "sh")
    commands = block.text.replace("localhost:8901", f"localhost:{serve.port}")
    commands = commands.replace("TOKEN=…", f"TOKEN={serve.token}")

    def run(arguments: dict[str, str]) -> dict:
        changed = commands.replace('{"code": "6 * 7"}', json.dumps(arguments))
        done = harness.run(["bash", "-e", "-c", changed], place)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["result"]

    result = run({"code": "6 * 7"})
    assert result["content"][0]["text"] == "42"
    session = result["_meta"]["ipybox/session_id"]
    assert session in result["content"][1]["text"]
    run({"code": "x = 1", "session_id": session})
    assert run({"code": "x", "session_id": session})["content"][0]["text"] == "1"


@pytest.mark.parametrize("path", ["mcp", "sse"])
def test_python_sdk(client_python, ipybox, place, path):
    """Cells, progress, and a question to the user."""
    script = Path(__file__).with_name("serve_sdk_client.py")
    with Serve(ipybox, place) as server:
        url = f"http://127.0.0.1:{server.port}/{path}"
        done = harness.run([client_python, str(script), url, server.token], place, timeout=240)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["cell"] == "42"
    assert seen["kept"] == "['x']"
    assert "".join(seen["progress"]) == "0\n1\n2\n"
    assert seen["input"] == "'typed'"
    assert seen["error"].startswith("Error executing tool execute_ipython_cell: ZeroDivisionError")


@pytest.mark.parametrize("options", [[], ["--unsandboxed-kernels"]])
def test_sandbox_is_the_default(ipybox, place, directory, options):
    with Serve(ipybox, place, *options) as server:
        answer = server.client().cell(f"open({str(directory / 'file')!r}, 'w').close()")
    assert ("OSError" in answer or "PermissionError" in answer) == (options == [])
    assert (directory / "file").exists() == (options != [])


def test_end_of_idle_sessions(ipybox, place):
    """A session without requests ends by itself. A running cell keeps its session."""
    with Serve(ipybox, place, "--idle-timeout=0.3", "--max-sessions=1") as server:
        client = server.client()
        assert client.cell("import time; time.sleep(1); 1") == "1"
        while (other := server.client()).status == 503:
            pass
        assert other.status == 200
        assert client.post("ping").status == 404


def test_limits_of_sessions(ipybox, place, workspace):
    tokens = write_tokens(place.home / "tokens", alice=ALICE, bob=BOB)
    options = ["--max-sessions=2", "--max-sessions-each=1"]
    with Serve(ipybox, place, tokens, *options) as server:
        alice = server.client(ALICE)
        second = server.client(ALICE)
        assert second.status == 503 and second.id is None
        assert "--max-sessions-each" in second.initialized["error"]["message"]
        bob = server.client(BOB)
        assert (alice.cell("1"), bob.cell("2")) == ("1", "2")
        assert alice.delete() == 204


# --- streams ----------------------------------------------------------------------------------


def test_stream(serve):
    client = serve.client()
    with_progress = client.start_cell("print(1, flush=True); input", token="t")
    assert with_progress.is_stream
    *progress, answer = with_progress.messages()
    assert {message["params"]["progressToken"] for message in progress} == {"t"}
    assert text_of(answer).startswith("1\n")
    assert not client.start_cell("1").is_stream


def test_stream_of_a_slow_cell(serve, workspace):
    """A client gets the head of the answer soon, and can resume the stream from the start."""
    go = Meeting(workspace / "go")
    client = serve.client()
    response = client.start_cell(f"{go.code}\n'done'")
    assert response.is_stream
    events = response.events()
    assert next(events) is None and response.last_id
    response.close()
    go.wait()
    resumed = client.resume(response.last_id)
    assert text_of(resumed.messages()[-1]) == "'done'"


def test_first_event_of_old_revisions(serve):
    """Their clients may not expect an event without data."""
    client = serve.client(revision="2025-06-18")
    response = client.start_cell("import time; print(1, flush=True); time.sleep(1.5); 2", token=1)
    assert None not in list(response.events())


def test_resumption(serve, workspace):
    """A client that lost the connection gets what it missed, each event once, as often as it asks.

    The request is not run again.
    """
    go, end = Meeting(workspace / "go"), Meeting(workspace / "end")
    client = serve.client()
    response = client.start_cell(
        f"print('a', flush=True)\n{go.code}\nprint('b', flush=True)\n{end.code}\n'done'",
        token="t",
    )
    events = response.events()
    assert next(events) is None
    assert next(events)["params"]["message"] == "a\n"
    seen = response.last_id
    response.close()
    go.wait()
    end.wait()
    *progress, answer = client.resume(seen).messages()
    assert [message["params"]["message"] for message in progress] == ["b\n"]
    assert text_of(answer) == "a\nb\n'done'"
    again = client.resume(seen).messages()
    assert again == [*progress, answer]
    assert client.resume("1000-1").status == 400
    assert client.resume("x").status == 400
    assert serve.client().resume(seen).status == 400  # an event of another session


def test_resumption_while_connected(serve, workspace):
    """The server may not have noticed that the connection is gone. The old one ends."""
    go = Meeting(workspace / "go")
    client = serve.client()
    first = client.start_cell(f"print('a', flush=True)\n{go.code}\n'done'", token="t")
    events = first.events()
    assert next(events) is None
    second = client.resume(first.last_id)
    rest = list(events)
    go.wait()
    assert text_of(second.messages()[-1]) == "a\n'done'"
    assert all("result" not in message for message in rest)


def test_large_answer_in_a_stream(serve):
    client = serve.client()
    code = "print('x', flush=True)\nprint('y' * 900_000)"
    response = client.start_cell(code, token="t", max_output_chars=4_000_000)
    assert len(text_of(response.messages()[-1])) == 2 + 900_000


def test_maximum_of_a_text(serve):
    """A larger answer would keep other clients waiting."""
    answer = serve.client().cell("print('x' * 3_000_000)", max_output_chars=4_000_000)
    assert 1_000_000 < len(answer) < 1_000_200 and "2000000 of 3000000 characters" in answer
    assert len(serve.client().cell("print('é' * 900_000)", max_output_chars=9_000_000)) == 900_000


def test_replay_is_bounded(serve):
    """Only the newest events are kept."""
    client = serve.client()
    code = "print('x', flush=True)\nprint('y' * 900_000)"
    responses = []
    for _ in range(8):
        response = client.start_cell(code, token="t", max_output_chars=4_000_000)
        response.messages()
        responses.append(response.last_id.partition("-")[0] + "-0")
    assert client.resume(responses[0]).status == 400
    assert len(text_of(client.resume(responses[-1]).messages()[-1])) == 2 + 900_000


def test_cancel(serve, workspace):
    begun = Meeting(workspace / "begun")
    client = serve.client()
    cell = Background(
        lambda: client.start_cell(f"{begun.code}\nwhile True: pass", id="c").messages()
    )
    begun.wait()
    assert client.notify("notifications/cancelled", {"requestId": "c"}).status == 202
    assert cell.result() == []
    assert client.cell("3") == "3"


def test_lost_connection_is_no_cancellation(serve, workspace):
    begun, go = Meeting(workspace / "begun"), Meeting(workspace / "go")
    client = serve.client()
    connection = serve.connection()
    body = {
        "jsonrpc": "2.0",
        "id": 1000,
        "method": "tools/call",
        "params": {
            "name": "execute_ipython_cell",
            "arguments": {"code": f"{begun.code}\n{go.code}\nx = 5"},
        },
    }
    headers = {
        "Accept": ACCEPT,
        "Content-Type": "application/json",
        "Authorization": f"Bearer {serve.token}",
        "Mcp-Session-Id": client.id,
    }
    connection.request("POST", "/mcp", json.dumps(body), headers)
    begun.wait()
    connection.close()
    go.wait()
    assert client.cell("x") == "5"


def test_result_after_a_lost_connection(serve, workspace):
    """The answer of a cell comes again, also if the cell still runs. The cell runs once."""
    go = Meeting(workspace / "go")
    client = serve.client()

    def get(**arguments):
        return client.call("get_cell_result", arguments).messages()[-1]["result"]

    def text(result):
        return result["content"][0]["text"]

    assert "no cell was run" in text(get()) and get()["isError"]
    client.cell("n = 0")
    lost = client.start_cell(f"n += 1\nprint(n, flush=True)\n{go.code}\n1/0", token="t")
    lost.close()
    waiting = Background(get)
    go.wait()
    result = waiting.result()
    assert result["isError"] and "ZeroDivisionError" in text(result)
    assert result == get() == get(cell_id=result["_meta"]["ipybox/cell_id"])
    answer = client.start_cell("n").messages()[-1]["result"]
    assert text(answer) == "1"
    again = get(cell_id=answer["_meta"]["ipybox/cell_id"])
    assert again == {**answer, "structuredContent": {"output": "1"}}
    for _ in range(20):
        client.cell("'later'")
    assert "not kept any more" in text(get(cell_id=result["_meta"]["ipybox/cell_id"]))
    assert "no cell 1000" in text(get(cell_id=1000))
    assert "must be the number" in text(get(cell_id="x"))
    large = "print('\\U0001f642' * 1_000_000); raise ValueError('x' * 300_000)"
    client.start_cell(large, max_output_chars=6_000_000).messages()
    assert "was not kept" in text(get())


def test_cancelled_wait_for_a_result(serve, workspace):
    """The cell continues."""
    begun, go = Meeting(workspace / "begun"), Meeting(workspace / "go")
    client = serve.client()
    cell = Background(client.cell, f"{begun.code}\n{go.code}\n'done'")
    begun.wait()
    wait = client.post("tools/call", {"name": "get_cell_result", "arguments": {}}, id="w")
    assert wait.is_stream
    assert client.notify("notifications/cancelled", {"requestId": "w"}).status == 202
    assert wait.messages() == []
    go.wait()
    assert cell.result() == "'done'"


def test_question(ipybox, place):
    """It goes on the stream of the call that it belongs to; the answer is a POST of its own."""
    with Serve(ipybox, place) as server:
        client = server.client(elicitation={})
        response = client.start_cell("input('name? ')")
        for message in response.events():
            if message and message.get("method") == "elicitation/create":
                assert "name?" in message["params"]["message"]
                reply = client.send(
                    "POST",
                    {
                        "jsonrpc": "2.0",
                        "id": message["id"],
                        "result": {"action": "accept", "content": {"value": "me"}},
                    },
                )
                assert reply.status == 202
                reply.close()
            elif message and "result" in message:
                assert text_of(message).endswith("'me'")
                break
        else:
            pytest.fail("no answer")


def test_batches(serve):
    """Revision 2025-03-26 has them, the later ones do not."""
    pings = [{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(3)]
    client = serve.client(revision="2025-03-26")
    answers = client.send("POST", pings).messages()
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2]
    for bad in ([], pings * 50, [*pings, pings[0]], [1], [*pings, {"jsonrpc": "2.0"}]):
        assert client.send("POST", bad).status == 400
    notifications = [{"jsonrpc": "2.0", "method": "notifications/x"}] * 2
    assert client.send("POST", notifications).status == 202
    assert serve.client().send("POST", pings).status == 400


# --- who may send what ------------------------------------------------------------------------


PROBE = """
import pathlib, sys
def seen(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError as error:
        return type(error).__name__
"""


@pytest.fixture
def principals(ipybox, place, directory) -> Iterator[Serve]:
    """Alice and Bob, below a directory that sandboxes can read; Alice has a file with a secret."""
    (directory / "work/alice").mkdir(parents=True)
    (directory / "work/alice/file").write_text("secret")
    (directory / "open").write_text("control")
    tokens = write_tokens(directory / "tokens", alice=ALICE, bob=BOB)
    options = [f"--workspace={directory / 'work'}", f"--audit-log={directory / 'log'}"]
    with Serve(ipybox, place, tokens, *options) as server:
        yield server


def test_principals(principals, directory):
    """A session belongs to its principal; its files and all tokens are invisible to the others."""
    assert principals.token is None
    assert principals.request("POST", body={}).status == 401
    alice, bob = principals.client(ALICE), principals.client(BOB)
    files = [directory / name for name in ("work/alice/file", "tokens", "log", "open")]
    code = f"{PROBE}\nfor file in {[str(file) for file in files]}: print(seen(file))"
    assert alice.cell(code).split("\n")[0] == "secret"
    lines = bob.cell(code).split("\n")
    assert lines[3] == "control"
    assert "secret" not in lines[0] and lines[0].endswith("Error")
    assert ALICE not in lines[1] and BOB not in lines[1]
    assert lines[2] in ("", "FileNotFoundError", "PermissionError")
    assert bob.cell("import os; os.getcwd()") == repr(str(directory / "work/bob"))
    assert bob.cell(f"os.listdir({str(directory / 'work')!r})") == "['bob']"
    # No directory is shared.
    ipython = "import pathlib; path = pathlib.Path.home() / '.ipython'\n"
    alice.cell(ipython + "path.mkdir(exist_ok=True); (path / 'note').write_text('secret')")
    assert bob.cell(ipython + "(path / 'note').exists()") == "False"
    bob.cell("open('mine', 'w').write('1')")
    assert (directory / "work/bob/mine").read_text() == "1"
    assert bob.post("ping", Mcp_Session_Id=alice.id).status == 404
    assert bob.send("DELETE", Mcp_Session_Id=alice.id).status == 404
    assert alice.cell("1") == "1"


def test_servers_of_principals(principals, directory):
    """A server that a client registers sees no more than the client's cells."""
    path = str(directory / "work/alice/file")
    script = f"{PROBE}\nsys.stderr.write('seen: ' + seen({path!r}))\nraise SystemExit(1)"
    params = {"command": "python3", "args": ["-c", script]}
    for token, expected in ((ALICE, "seen: secret"), (BOB, "Error")):
        client = principals.client(token)
        answer = client.call("register_mcp_server", {"server_name": "s", "server_params": params})
        text = text_of(answer.messages()[-1])
        assert "seen: " in text and expected in text
        assert token == ALICE or "secret" not in text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic eDp5"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost:1"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Accept": "application/json"}, 406),
        ({"Accept": None}, 406),
        ({"MCP_Protocol_Version": "1900-01-01"}, 400),
        ({"Mcp_Session_Id": "x"}, 400),
        ({}, 200),
        ({"Accept": "*/*"}, 200),
    ],
)
def test_headers_of_initialize(serve, headers, status):
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
    }
    if "Mcp_Session_Id" in headers:
        headers = {"Mcp_Session_Id": serve.client().id}
    response = serve.request("POST", body=body, **headers)
    assert response.status == status
    assert ("Mcp-Session-Id" in response.headers) == (status == 200)


def test_health(serve):
    assert serve.request("GET", "/healthz", Authorization=None).json() == {"status": "ok"}
    assert serve.request("GET", "/readyz", Authorization=None).json() == {"status": "ready"}
    assert serve.request("GET", "/healthz", Authorization=None, Host="evil.example").status == 403
    assert serve.request("GET", "/healthz", Authorization="Bearer wrong").status == 401


def test_methods_and_paths(serve):
    client = serve.client()
    plain = client.send("GET", Accept="text/event-stream")
    assert plain.status == 405 and plain.headers["Allow"] == "POST, DELETE"
    assert serve.request("PUT", body={}).status == 405
    assert serve.request("GET", "/nosuch").status == 404
    assert serve.request("POST", "/mcp/", body={}).status == 404
    assert serve.request("DELETE").status == 400


def test_bad_messages(serve):
    client = serve.client()
    bad = [
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} x',
        b"\xff",
        b"[" * 100_000,
        b"null",
        b"1",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","result":1}',
        b'{"jsonrpc":"2.0","id":"' + b"x" * 2000 + b'","method":"ping"}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1}',
    ]
    for body in bad:
        response = client.send("POST", body)
        assert response.status == 400, body[:100]
        assert response.json()["error"]["code"] in (-32700, -32600)
    assert client.post("nosuch").json()["error"]["code"] == -32601
    assert client.send("POST", {"jsonrpc": "2.0", "id": 99, "result": {}}).status == 202
    missing = client.send(
        "POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, Mcp_Session_Id=None
    )
    assert missing.status == 400
    assert client.cell("1") == "1"


def test_failed_initialize_begins_no_session(ipybox, place):
    with Serve(ipybox, place, "--max-sessions=1") as server:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        for _ in range(3):
            response = server.request("POST", body=body)
            assert "Mcp-Session-Id" not in response.headers
            assert "error" in response.json()
        # The last failed one may still be ending.
        while (client := server.client()).status == 503:
            pass
        assert client.cell("1") == "1"


def test_ids_of_requests(serve, workspace):
    """An id can be used again when its request is answered, and `1` is not `"1"`."""
    go = Meeting(workspace / "go")
    client = serve.client()
    cell = Background(lambda: client.start_cell(f"{go.code}\n1", id=7).messages())
    response = client.start_cell("2", id="7")
    twice = client.post("ping", id=7)
    while twice.status == 200:  # the cell was sent, but may not have arrived
        twice = client.post("ping", id=7)
    assert twice.status == 400 and "id" in twice.json()["error"]["message"]
    go.wait()
    assert text_of(cell.result()[-1]) == "1"
    assert text_of(response.messages()[-1]) == "2"
    assert client.post("ping", id=7).json() == {"jsonrpc": "2.0", "id": 7, "result": {}}


# --- hostile peers ----------------------------------------------------------------------------


def test_large_bodies(serve):
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{serve.port}\r\nAccept: {ACCEPT}\r\n"
    head += f"Authorization: Bearer {serve.token}\r\nContent-Type: application/json\r\n"
    declared = send_raw(serve.port, f"{head}Content-Length: 100000000\r\n\r\n".encode())
    assert declared.startswith(b"HTTP/1.1 413 ")
    chunked = send_raw(serve.port, f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode())
    assert chunked.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 411 "))
    headers = send_raw(serve.port, f"{head}X: {'x' * 20000}\r\n\r\n".encode())
    assert headers.startswith(b"HTTP/1.1 431 ")
    # Without a token no body is read.
    stranger = head.replace(serve.token, "x" * 64)
    refused = send_raw(serve.port, f"{stranger}Content-Length: 10000000\r\n\r\n".encode())
    assert refused.startswith(b"HTTP/1.1 401 ")
    assert serve.client().cell("1") == "1"


def test_many_large_bodies(serve):
    """They are handled in turn. All are answered, and small requests are answered before them."""
    client = serve.client()
    bad = [Background(client.send, "POST", b"[" + b"1," * 400_000) for _ in range(6)]
    good = Background(client.cell, f"len('{'x' * 1_000_000}')")
    assert serve.client().cell("2") == "2"
    assert good.result() == "1000000"
    assert {response.result().status for response in bad} == {400}
    gone = client.server.connection()
    gone.request(
        "POST",
        "/mcp",
        b" " * 1_000_000,
        {
            "Authorization": f"Bearer {serve.token}",
            "Content-Type": "application/json",
            "Accept": ACCEPT,
        },
    )
    gone.close()
    assert client.cell("3") == "3"


def test_slow_and_silent_peers(ipybox, place):
    """Connections that send nothing, or half a request, give way to clients."""
    with Serve(ipybox, place, "--max-connections=8") as server:
        client = server.client()
        peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        for peer in peers[::2]:
            try:
                peer.sendall(b"POST /mcp HTTP/1.1\r\nHost: x")
            except OSError:
                pass  # it has given way
        # None gives way whose bytes were not read yet: they may be a request of a client.
        while (response := client.start_cell("1")).status == 503:
            response.close()
        assert text_of(response.messages()[-1]) == "1"
        for peer in peers:
            peer.close()


def test_pipelined_requests(serve):
    """Answers come in order, also if a session ends in between."""
    client = serve.client()
    head = f"Host: localhost:{serve.port}\r\nAuthorization: Bearer {serve.token}\r\n"
    head += f"Mcp-Session-Id: {client.id}\r\n"

    def post(id: int) -> str:
        body = json.dumps({"jsonrpc": "2.0", "id": id, "method": "ping"})
        return (
            f"POST /mcp HTTP/1.1\r\n{head}Accept: {ACCEPT}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )

    delete = f"DELETE /mcp HTTP/1.1\r\n{head}\r\n"
    last = f"GET /healthz HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
    answer = send_raw(serve.port, (post(1) + post(2) + delete + post(3) + last).encode()).decode()
    statuses = [part.split(" ")[0] for part in answer.split("HTTP/1.1 ")[1:]]
    assert statuses == ["200", "200", "204", "404", "200"]
    assert answer.index('"id":1') < answer.index('"id":2')


def test_two_clients_at_once(serve, workspace):
    """A cell that runs keeps no other session waiting."""
    go = Meeting(workspace / "go")
    slow, fast = serve.client(), serve.client()
    cell = Background(slow.cell, go.code + "\n'slow'")
    assert fast.cell("'fast'") == "'fast'"
    go.wait()
    assert cell.result() == "'slow'"


# --- start and end ----------------------------------------------------------------------------


def test_drain(ipybox, place, workspace):
    """At SIGTERM a running cell gets its answer, new requests get 503, and nothing is left."""
    begun, go = Meeting(workspace / "begun"), Meeting(workspace / "go")
    with Serve(ipybox, place) as server:
        client = server.client()
        cell = Background(client.cell, f"{begun.code}\n{go.code}\n'done'")
        begun.wait()
        server.process.send_signal(signal.SIGTERM)
        while server.request("GET", "/readyz").status == 200:
            pass
        refused = client.post("ping")
        assert refused.status == 503 and refused.headers["Retry-After"]
        assert server.request("GET", "/healthz").status == 200
        go.wait()
        assert cell.result() == "'done'"
        assert server.process.wait(60) == 0


def test_end_with_idle_sessions(ipybox, place):
    with Serve(ipybox, place) as server:
        clients = [server.client() for _ in range(3)]
        clients[0].cell("1")


def test_starting(ipybox, place, workspace):
    """Until the first kernel is ready, sessions get 503."""
    go = Meeting(workspace / "go")
    python = workspace / "python"
    python.write_text(f'#!/bin/sh\n: < "{go.path}"\nexec "{harness.ROOT}/.venv/bin/python" "$@"\n')
    python.chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place.environ["IPYBOX_SERVE_TOKEN"] = ALICE
    process = subprocess.Popen(
        [ipybox, "serve", f"--port={port}", f"--python={python}", "--unsandboxed-kernels"],
        cwd=workspace,
        env=place.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    head = f"Host: localhost:{port}\r\nConnection: close\r\n"
    ready = f"GET /readyz HTTP/1.1\r\n{head}\r\n".encode()
    post = f"POST /mcp HTTP/1.1\r\n{head}Authorization: Bearer {ALICE}\r\n"
    post += "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    try:
        answer = b""
        while not answer:
            assert process.poll() is None
            with contextlib.suppress(ConnectionRefusedError):
                answer = send_raw(port, ready)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"starting" in answer
        answer = send_raw(port, post.encode())
        assert answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in answer
        go.wait()
        assert json.loads(process.stdout.readline()) == {"host": "localhost", "port": port}
        assert send_raw(port, ready).startswith(b"HTTP/1.1 200 ")
    finally:
        process.stdin.close()
        assert process.wait(60) == 0
        process.stdout.close()


def test_no_kernel(run_ipybox, workspace):
    """The reason is printed, and the server ends."""
    python = workspace / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = run_ipybox("serve", "--port=0", f"--python={python}", "--unsandboxed-kernels")
    assert done.stdout == "" and done.returncode == 1, done
    assert "no kernel can be started" in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--host=0.0.0.0"], "--tls-certificate"),
        (["--host=127.evil.example"], "--tls-certificate"),
        (["--allow-origin=*"], "--allow-origin"),
        (["--max-sessions=0"], "--max-sessions"),
        (["--max-connections=1000000"], "--max-connections"),
        (["--idle-timeout=nan"], "--idle-timeout"),
        (["--port=70000"], "--port"),
        (["word"], "unexpected argument"),
    ],
)
def test_usage(run_ipybox, args, words):
    done = run_ipybox("serve", *args)
    assert done.returncode == 2 and words in done.stderr, done


def test_token_files(run_ipybox, workspace):
    path = workspace / "tokens"
    for text, words in {
        "": "is empty",
        "alice": "tokens:1: a line is NAME TOKEN",
        f"alice {'x' * 31}": "32 to 1024",
        f"../x {ALICE}": "a name has",
        f"a {ALICE}\na {BOB}": "tokens:2: the name is there twice",
        f"a {ALICE}\n\nb {ALICE}": "tokens:3: another name has the same token",
    }.items():
        path.write_text(text)
        path.chmod(0o600)
        done = run_ipybox("serve", "--port=0", "--token-file=tokens")
        assert done.returncode == 2 and words in done.stderr, done
        assert ALICE not in done.stderr
    path.chmod(0o644)
    assert "chmod 600" in run_ipybox("serve", "--port=0", "--token-file=tokens").stderr
    path.chmod(0o600)
    path.write_text(f"a {ALICE}\nb {BOB}")
    done = run_ipybox("serve", "--port=0", "--token-file=tokens", "--unsandboxed-kernels")
    assert done.returncode == 2 and "one client" in done.stderr
    assert "token file nosuch" in run_ipybox("serve", "--port=0", "--token-file=nosuch").stderr


# --- HTTP with server-sent events, 2024-11-05 -----------------------------------------------------


class OldClient:
    """Posts its messages to an address that the first event names."""

    def __init__(self, server: Serve, token: str | None = None):
        self.server = server
        self.token = token or server.token
        self.stream = server.request(
            "GET", "/sse", Accept="text/event-stream", Authorization=f"Bearer {self.token}"
        )
        self.lines = iter(self.stream.response.readline, b"")
        self.last_id = 0
        assert self.read() == "endpoint"
        self.path = self.data
        answer = self.call("initialize", protocolVersion="2024-11-05", capabilities={})
        assert answer["result"]["protocolVersion"] == "2024-11-05"

    def read(self) -> str:
        """Reads an event, whose text is then in `data`. Returns its name."""
        fields = {}
        for raw in self.lines:
            name, _, value = raw.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                self.data = fields["data"]
                return fields["event"]
        raise EOFError

    def post(self, body: object, path: str | None = None, token: str | None = None) -> int:
        response = self.server.request(
            "POST", path or self.path, body, Authorization=f"Bearer {token or self.token}"
        )
        response.close()
        return response.status

    def call(self, method: str, **params) -> dict:
        self.last_id += 1
        id = self.last_id
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        assert self.post(message) == 202
        while True:
            assert self.read() == "message"
            answer = json.loads(self.data)
            if answer.get("id") == id:
                return answer

    def cell(self, code: str) -> str:
        arguments = {"name": "execute_ipython_cell", "arguments": {"code": code}}
        return text_of(self.call("tools/call", **arguments))


def test_old_clients(serve):
    client, other = OldClient(serve), OldClient(serve)
    client.cell("x = 6")
    assert client.cell("x * 7") == "42"
    assert other.cell("'x' in globals()") == "False"
    assert len(client.cell("'a' * 3_000_000")) > 4000
    assert client.post([1]) == 202 and client.read() == "message"
    assert client.post(b"{") == 400
    client.stream.close()
    while client.post({"jsonrpc": "2.0", "method": "x"}) != 404:
        pass
    assert other.cell("2") == "2"


def test_old_clients_of_other_principals(principals):
    alice = OldClient(principals, ALICE)
    assert alice.cell("1") == "1"
    assert alice.post({"jsonrpc": "2.0", "method": "x"}, token=BOB) == 404
    assert alice.post({"jsonrpc": "2.0", "method": "x"}, token="c" * 32) == 401
    assert alice.post({"jsonrpc": "2.0", "method": "x"}, path="/sse/" + "0" * 64) == 404
    assert alice.cell("2") == "2"


def test_end_with_old_clients(ipybox, place):
    with Serve(ipybox, place) as server:
        client = OldClient(server)
        assert client.cell("1") == "1"
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(EOFError):
            client.read()
        assert server.close() == 0


def test_limit_of_old_clients(ipybox, place):
    with Serve(ipybox, place, "--max-sessions=1") as server:
        client = OldClient(server)
        refused = server.request("GET", "/sse", Accept="text/event-stream")
        assert refused.status == 503 and refused.headers["Retry-After"] == "1"
        refused.close()
        client.stream.close()
        while (again := server.client()).status == 503:
            pass
        assert again.cell("1") == "1"
