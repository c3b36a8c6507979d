# SPDX-License-Identifier: Apache-2.0
"""Attack suite E, the tool channel, from a kernel in a sandbox.

Bytes that are not a call, calls of tools that the session does not have, and calls that were not
approved. The MCP server records each call that it gets. tests/integration/test_tool_channel.py
tests the channel without a kernel; other sessions and own server_params are in test_kernels.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import scripted_server
from box import Box
from kernels import Kernels
from mcp_driver import YES, Client

MIB = 1 << 20

# A cell's own way to its channel: raw bytes, without the stub.
CHANNEL = r"""
import contextlib, json, os, re, socket, struct, threading
HOST, PORT = os.environ["TOOL_SERVER_HOST"], int(os.environ["TOOL_SERVER_PORT"])
SERVER = re.search(r'server_id="(\w+)"', open("mcptools/fake/__init__.py").read())[1]
def body(tool="echo_json", args='{"value": 1}', **members):
    call = {"server_name": "fake", "server_id": SERVER, "tool_name": tool} | members
    return (json.dumps(call)[:-1] + ', "tool_args": ' + args + "}").encode()
def head(length, line="POST /run HTTP/1.1", **headers):
    fields = {"Host": f"{HOST}:{PORT}", "Content-Type": "application/json"}
    fields["Content-Length"] = length
    fields |= {n.replace("_", "-"): v for n, v in headers.items()}
    text = "".join(f"{n}: {v}\r\n" for n, v in fields.items() if v is not None)
    return (line + "\r\n" + text + "\r\n").encode()
def request(args='{"value": 1}', **headers):
    data = body(args=args)
    return head(len(data), **headers) + data
def open_channel():
    sock = socket.create_connection((HOST, PORT), 60)
    return sock, sock.makefile("rb")
def answer(input):
    # What came: "closed", the status of what was refused, or the kind of the error or the result.
    line = input.readline()
    if not line:
        return "closed"
    length = 0
    while (header := input.readline().strip()):
        if header.lower().startswith(b"content-length:"):
            length = int(header.split(b":")[1])
    value = json.loads(input.read(length) or b"null")
    status = int(line.split()[1])
    if status != 200: return status
    return value.get("error_type") or ("result" if "result" in value else "error")
def ask(data):
    sock, input = open_channel()
    with sock, input:
        with contextlib.suppress(ConnectionError):
            sock.sendall(data)
        try:
            return answer(input)
        except ConnectionError:
            return "closed"
"""

# What is sent, and the result.
FRAMES = {
    "twin: a call": ("request()", "result"),
    "another method": ("request(line='GET /run HTTP/1.1')", 405),
    "another path": ("request(line='POST /approval HTTP/1.1')", 404),
    "another version": ("request(line='POST /run HTTP/2.0')", 505),
    "a browser": ("request(Origin='http://evil.test')", 403),
    "another host": ("request(Host='evil.test')", 403),
    "another type": ("request(Content_Type='text/plain')", 415),
    "no length": ("request(Content_Length=None)", 411),
    "a negative length": ("request(Content_Length=-1)", 400),
    "two requests in one": ("request(Transfer_Encoding='chunked')", 400),
    "a name twice": ('request(\'{"value": 1, "value": 2}\')', 400),
    "its tool twice": ('request(\'{"value": 1}, "tool_name": "die"\')', 400),
    "no JSON": ("head(3) + b'{\"a'", 400),
    "not UTF-8": ("head(4) + b'\\xff\\xfe{}'", 400),
    "deeply nested": ("request('{\"value\": ' + '[' * 200000 + ']' * 200000 + '}')", 400),
    "deeply nested, open": ("head(1 << 20) + b'[' * (1 << 20)", 400),
    "a giant": ("head(1 << 30) + bytes(1 << 20) * 64", 413),
    "a giant head": ("b'POST /run HTTP/1.1\\r\\nX: ' + b'x' * 100000", 431),
    "nonsense": ("os.urandom(1000) + b'\\r\\n\\r\\n'", 400),
    "an unknown server": ("(lambda d: head(len(d)) + d)(body(server_id='0' * 32))", "not_found"),
    "a server's name alone": (
        "(lambda d: head(len(d)) + d)(body(server_id=None, server_name='$(touch ran)'))",
        "not_found",
    ),
    "an unknown tool": ("(lambda d: head(len(d)) + d)(body('no-such-tool'))", "server"),
    "own parameters": (
        "(lambda d: head(len(d)) + d)(body(server_id=None, "
        "server_params={'command': 'touch', 'args': ['ran']}))",
        "not_found",
    ),
    "own parameters of the sandbox's tool": (
        "(lambda d: head(len(d)) + d)(body('shell', server_id='ipybox'))",
        "not_found",
    ),
}


class Caller:
    """A session in a sandbox with a server of the user's, which records its calls."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        home = kernels.place.home
        at = scripted_server.copy(home)
        self.log = home / "calls"
        self.log.write_text("")
        params = scripted_server.params(
            "results", f"log={self.log}", at=at, command="/usr/bin/python3"
        )
        self.file = home / "servers.json"
        self.file.write_text(json.dumps({"mcpServers": {"fake": params}}))

    def serve(self, *flags: str, **options) -> Client:
        server = self.kernels.serve("--servers", str(self.file), *flags, client=Client, **options)
        server.cell(CHANNEL)
        return server

    def calls(self) -> list[dict]:
        """Returns the arguments of each call that reached the server."""
        return [
            json.loads(line)["params"]["arguments"] for line in self.log.read_text().splitlines()
        ]


@pytest.fixture
def caller(box: Box) -> Caller:
    return Caller(Kernels(box, "root"))


def status(pid: int, name: str) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition(name + ":")[2].split()[0]) * 1024


# Bytes


def test_frames(box: Box, user: str) -> None:
    caller = Caller(Kernels(box, user))
    with caller.serve() as server:
        actions = (
            "{" + ", ".join(f"{name!r}: ask({code})" for name, (code, _) in FRAMES.items()) + "}"
        )
        found = json.loads(server.cell(f"import json\nprint(json.dumps({actions}))"))
        wrong = {
            name: (found[name], expected)
            for name, (_, expected) in FRAMES.items()
            if found[name] != expected
        }
        assert not wrong, "(is, should be): " + str(wrong)
        assert server.cell("print(ask(request()))") == "result"
    # Two tools with similar names, and the tool that only its server knows.
    assert caller.calls() == [{"value": 1}] * 3
    assert not (box.place.workspace / "ran").exists()


@pytest.mark.parametrize("end", ["close", "reset", "half"])
def test_half_frames(caller: Caller, end: str) -> None:
    """Requests that are cut at many places: nothing runs, and nothing is kept."""
    code = f"""
data = request()
for size in range(0, len(data), 7):
    sock, input = open_channel()
    sock.sendall(data[:size])
    if {end!r} == "half":
        sock.shutdown(socket.SHUT_WR)
    elif {end!r} == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    input.close(); sock.close()
print(ask(data))
"""
    with caller.serve() as server:
        assert server.cell(code) == "result"
    assert caller.calls() == [{"value": 1}]


def test_a_gigabyte(caller: Caller) -> None:
    with caller.serve() as server:
        server.cell("print(ask(request()))")
        before = status(server.process.pid, "VmRSS")
        code = """
sock, input = open_channel()
sock.sendall(head(1 << 30))
with contextlib.suppress(ConnectionError):
    for _ in range(1024): sock.sendall(bytes(1 << 20))
print(ask(request()))
"""
        assert server.cell(code) == "result"
        assert status(server.process.pid, "VmHWM") - before < 64 * MIB


def test_a_flood_of_connections(caller: Caller) -> None:
    """The core limits the connections of each session; other sessions are not affected."""
    with caller.serve() as server, caller.serve() as other:
        server.cell("print(ask(request()))")
        directory = f"/proc/{server.process.pid}/fd"
        before = len(os.listdir(directory))
        server.cell("flood = [socket.create_connection((HOST, PORT), 60) for _ in range(700)]")
        assert len(os.listdir(directory)) - before <= 80
        assert other.cell("print(ask(request()))") == "result"
        assert server.cell("for sock in flood: sock.close()\nprint(ask(request()))") == "result"


def test_secrets_of_the_application(caller: Caller) -> None:
    """Arguments are text: they never refer to a variable of the host."""
    caller.kernels.environ["SECRET_FOR_TESTS"] = "visible"
    with caller.serve() as server:
        assert server.cell('print(ask(request(\'{"value": "${SECRET_FOR_TESTS}"}\')))') == "result"
    assert caller.calls() == [{"value": "${SECRET_FOR_TESTS}"}]


# Approval


CALL = "print(ask(request()))"


def test_what_is_allowed_runs(caller: Caller) -> None:
    """Positive control of the tests below."""
    with caller.serve("--approve", "ask") as server:
        cell = server.start_cell(CALL)
        server.reply(server.question(), result=YES)
        assert server.text(cell) == "result"
    assert caller.calls() == [{"value": 1}]


def test_approving_ones_own_call(caller: Caller) -> None:
    """Neither paths, nor an upgrade of the protocol, nor a response sent by the client."""
    with caller.serve("--approve", "ask") as server:
        cell = server.start_cell(
            "call = threading.Thread(target=lambda: outcomes.append(ask(request())))\n"
            "outcomes = []\n"
            "call.start()"
        )
        question = server.question()
        server.answer(cell)
        code = f"""
answers = [json.dumps({{"jsonrpc": "2.0", "id": id, "result": {YES!r}}})
           for id in ({question["id"]!r}, 1, 2, "1")]
for text in answers:
    for fd in (1, 2): os.write(fd, (text + "\\n").encode())
    print(text)
upgrade = {{"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Key": "x",
           "Sec_WebSocket_Version": "13"}}
tries = [ask(head(0, line=f"GET {{path}} HTTP/1.1", **upgrade))
         for path in ("/approval", "/approvals", "/run", "/")]
for text in answers:
    tries += [ask(head(len(text), line=f"POST {{path}} HTTP/1.1") + text.encode())
              for path in ("/approval", "/approve", "/run", "/mcp")]
print("tries", sorted(set(map(str, tries))), outcomes)
"""
        assert server.cell(code).endswith("tries ['400', '404', '405'] []")
        server.reply(question, result={"action": "decline"})
        assert server.cell("call.join(60); print(outcomes)") == "['rejected']"
    assert caller.calls() == []


def test_arguments_that_change_after_they_were_shown(caller: Caller) -> None:
    """The text that was shown is what runs, even if the caller changes its memory or sends more on
    the same connection.
    """
    code = """
sock, input = open_channel()
sock.sendall(request('{"value": "shown"}'))
sock.sendall(request('{"value": "changed"}'))
print(answer(input), answer(input))
"""
    with caller.serve("--approve", "ask") as server:
        cell = server.start_cell(code)
        question = server.question()
        assert "shown" in question["params"]["message"]
        server.reply(question, result=YES)
        question = server.question()
        assert "changed" in question["params"]["message"]
        server.reply(question, result={"action": "decline"})
        assert server.text(cell) == "result rejected"
        stub = """
from mcptools.fake import echo_json
params = echo_json.Params(value="shown")
call = threading.Thread(target=lambda: echo_json.run(params))
call.start()
"""
        cell = server.start_cell(stub)
        question = server.question()
        server.answer(cell)
        server.cell("params.value = 'changed'")
        server.reply(question, result=YES)
        server.cell("call.join(60)")
    assert caller.calls() == [{"value": "shown"}] * 2


def test_each_replay_is_asked_for(caller: Caller) -> None:
    """After an approval, and after a refusal."""
    with caller.serve("--approve", "ask") as server:
        for answer, outcome in (
            (YES, "result"),
            ({"action": "decline"}, "rejected"),
            ({"action": "cancel"}, "rejected"),
        ):
            cell = server.start_cell(CALL)
            server.reply(server.question(), result=answer)
            assert server.text(cell) == outcome
    assert len(caller.calls()) == 1


def test_a_question_that_ran_out(caller: Caller) -> None:
    """An approval that comes too late has no effect."""
    with caller.serve("--approve", "ask", "--approval-timeout", "0.2") as server:
        cell = server.start_cell(CALL)
        question = server.question()
        assert server.text(cell) == "timeout"
        server.reply(question, result=YES)
        assert server.cell("print(1)") == "1"
    assert caller.calls() == []


def test_calls_across_a_reset(caller: Caller) -> None:
    """The call of the previous kernel, and its question, are gone with it."""
    with caller.serve("--approve", "ask") as server:
        cell = server.start_cell(CALL)
        question = server.question()
        reset = server.start_tool("reset")
        assert not server.answer(reset)["result"]["isError"]
        assert server.answer(cell)["result"]["isError"]
        server.reply(question, result=YES)
        server.cell(CHANNEL)
        cell = server.start_cell(CALL)
        server.reply(server.question(), result={"action": "decline"})
        assert server.text(cell) == "rejected"
    assert caller.calls() == []


WAYS = {
    "thread": "t = threading.Thread(target=lambda: print(ask(request())))\nt.start(); t.join()",
    "child": (
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.write(1, ask(request()).encode()); os._exit(0)\n"
        "os.waitpid(pid, 0);"
    ),
    "program": (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', "
        "open('channel.py').read() + '\\nprint(ask(request()))']);"
    ),
    "task": "import asyncio\nprint(await asyncio.to_thread(lambda: ask(request())))",
}


@pytest.mark.parametrize("way", WAYS)
def test_whoever_calls_is_asked_for(caller: Caller, way: str) -> None:
    (caller.kernels.place.workspace / "channel.py").write_text(CHANNEL)
    with caller.serve("--approve", "ask") as server:
        for answer, outcome in (({"action": "decline"}, "rejected"), (YES, "result")):
            cell = server.start_cell(WAYS[way])
            server.reply(server.question(), result=answer)
            assert server.text(cell).strip() == outcome
    assert len(caller.calls()) == 1


@pytest.mark.parametrize("policy", ["ask", "deny", "allow"])
def test_calls_at_exit(caller: Caller, policy: str) -> None:
    """A kernel that is ending causes no questions, nothing hangs, and denied calls do not run."""
    with caller.serve("--approve", policy) as server:
        server.cell(
            "import atexit\n"
            "atexit.register(lambda: ask(request())); atexit.register(lambda: ask(request()));"
        )
        reset = server.start_tool("reset")
        while reset not in server.answers:
            server.receive()
            for question in server.waiting():
                server.reply(question, result={"action": "decline"})
        assert not server.answer(reset)["result"]["isError"]
        assert server.cell("print(1)") == "1"
    assert len(caller.calls()) <= (2 if policy == "allow" else 0)


def test_what_goes_on_after_its_cell(caller: Caller) -> None:
    """A thread that makes a call after its cell has ended is asked about, too."""
    with caller.serve("--approve", "ask") as server:
        server.cell(
            "go = threading.Event()\n"
            "t = threading.Thread(target="
            "lambda: (go.wait(60), outcomes.append(ask(request()))))\n"
            "outcomes = []; t.start()"
        )
        server.cell("go.set()")
        server.reply(server.question(), result={"action": "decline"})
        assert server.cell("t.join(60); print(outcomes)") == "['rejected']"
    assert caller.calls() == []
