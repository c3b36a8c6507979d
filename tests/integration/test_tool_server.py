# SPDX-License-Identifier: Apache-2.0
"""`ipybox tool-server` with curl and the PyPI package websockets as clients, and with hostile
bytes.

The MCP server behind it is the script `hostile`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
import pytest
import scripted_server
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

# The interpreter itself: a wrapper would be the process that ipybox starts.
PARAMS = scripted_server.params("hostile", command=os.path.realpath(sys.executable))


class ToolServer:
    def __init__(self, command: list[str], environ: dict[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
            cwd=cwd,
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        ready = json.loads(line)
        self.host, self.port, self.token = ready["host"], ready["port"], ready["token"]

    def curl(
        self,
        path: str,
        *options: str,
        body: object = None,
        user: str | None = None,
        address: str = "localhost",
    ) -> tuple[int, dict]:
        """Status and JSON."""
        command = [
            "curl",
            "-sS",
            "-w",
            "\n%{http_code}",
            *options,
            f"http://{address}:{self.port}{path}",
        ]
        if body is not None:
            command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        if user is not None:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        text, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(text)

    def run(
        self, tool: str = "echo", args: dict | None = None, *options: str, **members: object
    ) -> dict:
        body = {
            "server_name": "fake",
            "server_params": PARAMS,
            "tool_name": tool,
            "tool_args": args or {},
        }
        return self.curl("/run", *options, body=body | members)[1]

    def approval(self, **options: object) -> ClientConnection:
        return connect(f"ws://localhost:{self.port}/approval", **options)

    def end(self) -> tuple[int, str]:
        """The status and the log."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.wait(), errors


@pytest.fixture
def start(
    ipybox: str, environ: dict[str, str], workspace: Path
) -> Iterator[Callable[..., ToolServer]]:
    servers: list[ToolServer] = []

    def start(*options: str, **variables: str) -> ToolServer:
        command = [ipybox, "tool-server", "--port=0", *options]
        servers.append(ToolServer(command, environ | variables, workspace))
        return servers[-1]

    yield start
    for server in servers:
        if not server.process.stdin.closed:
            assert server.end() == (0, "")


# HTTP


def test_run(start):
    server = start()
    assert server.curl("/status") == (200, {"status": "ok"})
    status, info = server.curl("/info")
    assert (
        status == 200 and info["version"] and info["approval_required"] is False and len(info) == 2
    )
    assert server.run(args={"x": [1, 2**70]}) == {"result": {"x": [1, 2**70]}}
    assert "error" in server.run("nosuchtool")
    failure = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
    answer = server.run("result", {"text": json.dumps(failure)})
    assert answer == {"error": "fake.result: no such file", "error_type": "server"}


def test_servers_are_started_once_until_reset(start):
    server = start()
    first = server.run("pid")["result"]
    assert server.run("pid")["result"] == first
    assert server.run("pid", server_params=PARAMS | {"env": {"A": "b"}})["result"] != first
    assert server.curl("/reset", "-X", "PUT") == (200, {"status": "ok"})
    assert not Path(f"/proc/{first}").exists()
    assert server.run("pid")["result"] != first


def test_bad_server_params(start):
    server = start()
    answer = server.run(server_params={})
    assert '"command"' in answer["error"] and '"url"' in answer["error"]
    assert server.run(server_params={"command": "/nonexistent/server"})["error_type"] == "not_found"
    answer = server.run(server_params=PARAMS | {"env": {"A": "${NOWHERE}"}})
    assert "NOWHERE" in answer["error"]


def test_variables_come_from_env_file(start, workspace):
    (workspace / ".env").write_text("SECRET_OF_SERVER=s3cret\n")
    server = start()
    params = {
        "command": "sh",
        "args": ["-c", 'test "$A" = s3cret && exec "$0" "$@"', PARAMS["command"], *PARAMS["args"]],
    }
    assert server.run(server_params=params | {"env": {"A": "${SECRET_OF_SERVER}"}}) == {
        "result": {}
    }


@pytest.mark.parametrize(
    ("status", "path", "options"),
    [
        (404, "/", []),
        (404, "/run/", []),
        (405, "/run", []),
        (405, "/reset", []),
        (411, "/run", ["-X", "POST", "-H", "Content-Type: application/json"]),
        (415, "/run", ["-d", "{}"]),
        (400, "/run", ["-H", "Content-Type: application/json", "-d", "{}"]),
        (403, "/status", ["-H", "Origin: http://localhost:3000"]),
        (403, "/status", ["-H", "Host: evil.example"]),
        (401, "/status", ["-H", "Authorization: Bearer wrong"]),
        (
            401,
            "/run",
            ["-H", "Authorization: Basic eDp5", "-H", "Content-Type: application/json", "-d", "{}"],
        ),
        (403, "/status", ["-H", "Ipybox-Role: kernel"]),
        (403, "/info", ["-H", "Ipybox-Role: kernel"]),
        (403, "/reset", ["-H", "Ipybox-Role: kernel", "-X", "PUT"]),
        (
            403,
            "/approve",
            ["-H", "Ipybox-Role: kernel", "-H", "Content-Type: application/json", "-d", "{}"],
        ),
        (403, "/approval", ["-H", "Ipybox-Role: kernel"]),
        (426, "/approval", []),
    ],
)
def test_refused(start, status, path, options):
    got, answer = start().curl(path, *options)
    assert got == status
    assert isinstance(answer["error"], str)


@pytest.mark.needs_root
def test_other_users_need_the_token(start):
    server = start()
    assert server.curl("/status", user="1234")[0] == 401
    assert (
        server.curl("/status", "-H", f"Authorization: Bearer {server.token}", user="1234")[0] == 200
    )


def test_every_address(start):
    """Any numeric address works, since only names can be rebound.

    The rules for tokens are the same.
    """
    server = start("--host=0.0.0.0")
    for address in ("127.0.0.1", "127.0.0.2"):
        assert server.curl("/status", address=address)[0] == 200
    assert server.curl("/status", "-H", "Host: 10.1.2.3")[0] == 200
    assert server.curl("/status", "-H", "Host: evil.example")[0] == 403


def test_given_token_and_allowed_names(start):
    server = start(
        "--allow-host=tools.example",
        "--allow-origin=http://localhost:3000",
        IPYBOX_TOOL_SERVER_TOKEN="t0ken",
    )
    assert server.token == "t0ken"
    named = [
        "-H",
        "Host: tools.example:80",
        "-H",
        "Authorization: token t0ken",
        "-H",
        "Origin: http://localhost:3000",
    ]
    assert server.curl("/status", *named)[0] == 200


def test_kernels_start_nothing(start, workspace):
    """They can call what an application started here with equal parameters, and nothing else."""
    server = start()
    kernel = ["-H", "Ipybox-Role: kernel"]
    trace = workspace / "started"
    own = {"command": "touch", "args": [str(trace)]}
    assert server.run("echo", {}, *kernel, server_params=own)["error_type"] == "not_found"
    assert server.run("echo", {}, *kernel)["error_type"] == "not_found"
    assert server.run() == {"result": {}}
    assert server.run("echo", {"a": 1}, *kernel) == {"result": {"a": 1}}
    assert server.run("echo", {}, *kernel, server_params=own)["error_type"] == "not_found"
    assert not trace.exists()


def test_registered_servers(start, run_ipybox, workspace):
    """By id: an application may call any, a kernel those of the workspace."""
    generated = ["--server-params", json.dumps(PARAMS), "--root-dir"]
    elsewhere = workspace.parent / "elsewhere"
    assert (
        run_ipybox(
            "apigen", "--server-name", "here", *generated, str(workspace / "mcptools")
        ).returncode
        == 0
    )
    assert (
        run_ipybox("apigen", "--server-name", "there", *generated, str(elsewhere)).returncode == 0
    )
    listed = json.loads(run_ipybox("servers", "--json").stdout)
    ids = {each["name"]: each["id"] for each in listed}
    server = start(f"--workspace={workspace}")
    kernel = ["-H", "Ipybox-Role: kernel"]
    by_id = {
        name: {"server_name": name, "server_id": ids[name], "server_params": None} for name in ids
    }
    assert server.run("echo", {}, *kernel, **by_id["here"]) == {"result": {}}
    assert server.run("echo", {}, *kernel, **by_id["there"])["error_type"] == "not_found"
    assert server.run("echo", {}, **by_id["there"]) == {"result": {}}


# Approval


def test_approval(start):
    server = start("--approval-required")
    with ThreadPoolExecutor() as pool, server.approval() as client:
        call = pool.submit(server.run, "echo", {"a": [1, "é"]})
        question = json.loads(client.recv(timeout=120))
        asked = {"server_name": "fake", "tool_name": "echo", "tool_args": {"a": [1, "é"]}}
        assert question == {
            "jsonrpc": "2.0",
            "method": "approve",
            "params": asked,
            "id": question["id"],
        }
        assert not call.done()
        client.send(json.dumps({"jsonrpc": "2.0", "result": True, "id": question["id"]}))
        assert call.result() == {"result": {"a": [1, "é"]}}
        no = {"code": 1, "message": "no"}
        for reply in (
            {"result": False},
            {"error": no},
            {"result": True, "error": no},
            {"result": "true"},
            {"result": 1},
        ):
            call = pool.submit(server.run)
            question = json.loads(client.recv(timeout=120))
            client.send(json.dumps({"jsonrpc": "2.0", "id": question["id"]} | reply))
            assert call.result()["error_type"] == "rejected"


def test_answers_in_any_order(start):
    server = start("--approval-required")
    with ThreadPoolExecutor(8) as pool, server.approval() as client:
        calls = [pool.submit(server.run, "echo", {"i": i}) for i in range(8)]
        questions = [json.loads(client.recv(timeout=120)) for _ in calls]
        for question in reversed(questions):
            is_even = question["params"]["tool_args"]["i"] % 2 == 0
            client.send(json.dumps({"jsonrpc": "2.0", "result": is_even, "id": question["id"]}))
        for i, call in enumerate(calls):
            assert ("result" in call.result()) == (i % 2 == 0)


def test_approve_without_running(start):
    server = start("--approval-required")
    body = {"server_name": "ipybox", "tool_name": "shell", "tool_args": {"cmd": "ls"}}
    with ThreadPoolExecutor() as pool, server.approval() as client:
        for accept in (True, False):
            call = pool.submit(server.curl, "/approve", body=body)
            question = json.loads(client.recv(timeout=120))
            assert question["params"] == body
            client.send(json.dumps({"jsonrpc": "2.0", "result": accept, "id": question["id"]}))
            status, answer = call.result()
            assert status == 200
            rejected = {
                "approved": False,
                "error": "Approval request for ipybox.shell rejected",
                "error_type": "rejected",
                "type": "rejected",
            }
            assert answer == ({"approved": True, "result": True} if accept else rejected)
    assert start().curl("/approve", body=body)[1] == {"approved": True, "result": True}


def test_nobody_is_asked(start):
    server = start("--approval-required")
    answer = server.run()
    assert (
        answer["error"] == "Approval request for fake.echo failed: Approval channel not connected"
    )
    assert answer["error_type"] == "rejected"


def test_client_that_leaves(start):
    """Its open question is refused, and the next client gets the next question."""
    server = start("--approval-required")
    with ThreadPoolExecutor() as pool:
        with server.approval() as client:
            calls = [pool.submit(server.run) for _ in range(3)]
            for _ in calls:
                client.recv(timeout=120)
        for call in calls:
            assert "has disconnected" in call.result()["error"]
        with server.approval() as client:
            call = pool.submit(server.run)
            question = json.loads(client.recv(timeout=120))
            client.send(json.dumps({"result": True, "id": question["id"]}))
            assert "result" in call.result()


def test_approval_timeout(start):
    server = start("--approval-required", "--approval-timeout=0.05")
    with server.approval() as client:
        answer = server.run()
        assert answer["error_type"] == answer["type"] == "timeout"
        question = json.loads(client.recv(timeout=120))
        client.send(json.dumps({"result": True, "id": question["id"]}))  # too late
        assert server.run()["error_type"] == "timeout"


def test_second_client_waits(start):
    """It gets questions once the first client has left."""
    server = start("--approval-required")
    with ThreadPoolExecutor() as pool, contextlib.ExitStack() as stack:
        with server.approval():
            second = stack.enter_context(server.approval())
        call = pool.submit(server.run)
        question = json.loads(second.recv(timeout=120))
        second.send(json.dumps({"result": True, "id": question["id"]}))
        assert call.result() == {"result": {}}


def test_second_client_is_closed(start):
    server = start("--approval-required")
    with ThreadPoolExecutor() as pool, server.approval() as first, server.approval() as second:
        with pytest.raises(ConnectionClosed) as caught:
            second.recv(timeout=120)
        assert caught.value.rcvd.code == 1008
        call = pool.submit(server.run)
        question = json.loads(first.recv(timeout=120))
        first.send(json.dumps({"result": True, "id": question["id"]}))
        assert call.result() == {"result": {}}


def test_foreign_clients_of_the_channel(start):
    server = start("--approval-required")
    for options in (
        {"origin": "http://evil.example"},
        {"additional_headers": {"Authorization": "Bearer wrong"}},
        {"additional_headers": {"Ipybox-Role": "kernel"}},
    ):
        with pytest.raises(InvalidStatus), server.approval(**options):
            pass
    with server.approval(
        additional_headers={"Authorization": f"Bearer {server.token}"}, compression="deflate"
    ) as client:
        assert client.protocol.extensions == []
        client.ping().wait(30)
        client.send("nonsense")
        with pytest.raises(ConnectionClosed) as caught:
            client.recv(timeout=120)
        assert caught.value.rcvd.code == 1007


def test_rules_and_audit_log(start, workspace):
    rules = workspace / "rules.json"
    rules.write_text(
        '{"rules": [{"server": "fake", "tool": "echo", "decision": "deny"}], "default": "allow"}'
    )
    server = start("--approve", str(rules), "--audit-log", str(workspace / "audit"))
    assert server.run()["error_type"] == "rejected"
    assert "result" in server.run("pid")
    assert len((workspace / "audit").read_text().splitlines()) == 2


# Its life


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ends_with_signals(start, number):
    server = start()
    pid = server.run("pid")["result"]
    server.process.send_signal(number)
    assert server.end() == (0, "")
    assert not Path(f"/proc/{pid}").exists()


def test_ends_with_its_parent(ipybox, environ, workspace):
    """Although a child that the parent forked holds the pipe open."""
    script = (
        "import subprocess, sys, os, json\n"
        "p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, "
        "text=True)\n"
        "print(json.loads(p.stdout.readline())['port'], p.pid, flush=True)\n"
        "os.set_inheritable(p.stdin.fileno(), True)\n"
        "q = subprocess.Popen(['sleep', '1000'], close_fds=False, stdout=subprocess.DEVNULL)\n"
        "print(q.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, ipybox, "tool-server", "--port=0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=workspace,
    )
    port, pid = map(int, parent.stdout.readline().split())
    sleeper = int(parent.stdout.readline())
    with socket.create_connection(("localhost", port)) as connection:
        parent.kill()
        assert connection.recv(1) == b""
    os.kill(sleeper, signal.SIGKILL)
    parent.stdin.close()
    parent.stdout.close()
    parent.wait()
    harness.wait_for_end({pid, sleeper}, 30)


def test_port_in_use(start, run_ipybox):
    server = start()
    done = run_ipybox("tool-server", f"--port={server.port}")
    assert done.returncode == 1
    assert f"cannot listen on localhost, port {server.port}: Address already in use" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--port=70000"],
        ["--host=no.such.name.invalid"],
        ["--workspace=/nonexistent"],
        ["--approve=nonsense"],
        ["x"],
    ],
)
def test_bad_options(run_ipybox, options):
    done = run_ipybox("tool-server", *options)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "ipybox tool-server: " in done.stderr


def test_calls_end_with_their_callers(start):
    server = start("--approval-required")
    body = json.dumps(
        {"server_name": "fake", "server_params": PARAMS, "tool_name": "echo", "tool_args": {}}
    ).encode()
    head = (
        f"POST /run HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Type: application/json\r\n"
    )
    with server.approval() as client:
        with socket.create_connection(("localhost", server.port)) as caller:
            caller.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            question = json.loads(client.recv(timeout=120))
        client.send(json.dumps({"result": True, "id": question["id"]}))
        assert server.curl("/status")[0] == 200
