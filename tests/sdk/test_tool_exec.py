# SPDX-License-Identifier: Apache-2.0
"""ipybox.tool_exec as its documents describe it: tool server, tool runner, approvals.

The MCP server is the script `hostile`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import subprocess
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path

import harness
import pytest
import scripted_server
import uvicorn
from fastapi import FastAPI
from ipybox import generate_mcp_sources
from ipybox.tool_exec.approval.client import ApprovalClient, ApprovalRequest
from ipybox.tool_exec.approval.server import ApprovalChannel
from ipybox.tool_exec.client import (
    ApprovalRejectedError,
    ApprovalRequestor,
    ApprovalTimeoutError,
    ToolRunner,
    ToolRunnerError,
)
from ipybox.tool_exec.server import ToolServer
from ipybox.utils import find_free_port
from meeting import until
from pydantic import BaseModel
from typing_extensions import Self
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

PARAMS = scripted_server.params("hostile", command=os.path.realpath(sys.executable))


def runner(server: ToolServer, **options) -> ToolRunner:
    return ToolRunner("fake", PARAMS, port=server.port, **options)


async def accept(request: ApprovalRequest) -> None:
    await request.accept()


async def reject(request: ApprovalRequest) -> None:
    await request.reject()


# What the documents say

REQUIRED = inspect.Parameter.empty


def parameters(callable_: object) -> list[tuple[str, object]]:
    return [
        (name, parameter.default)
        for name, parameter in inspect.signature(callable_).parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]


def test_signatures():
    place = [("host", "localhost"), ("port", 8900)]
    call = [("tool_name", REQUIRED), ("tool_args", REQUIRED)]
    assert parameters(ToolServer) == [
        *place,
        ("approval_required", False),
        ("approval_timeout", None),
        ("connect_timeout", 30),
        ("log_to_stderr", False),
        ("log_level", "INFO"),
    ]
    assert (
        parameters(ToolServer.start)
        == parameters(ToolServer.stop)
        == parameters(ToolServer.join)
        == []
    )
    assert parameters(ToolRunner) == [("server_name", REQUIRED), ("server_params", None), *place]
    assert parameters(ToolRunner.run) == parameters(ToolRunner.run_sync) == call
    assert parameters(ToolRunner.reset) == []
    assert parameters(ApprovalClient) == [("callback", REQUIRED), *place]
    assert parameters(ApprovalClient.connect) == parameters(ApprovalClient.disconnect) == []
    assert parameters(ApprovalRequest) == [("server_name", REQUIRED), *call, ("respond", REQUIRED)]
    assert parameters(ApprovalRequestor) == [("server_name", REQUIRED), *place]
    assert (
        parameters(ApprovalRequestor.request) == parameters(ApprovalRequestor.request_sync) == call
    )
    assert parameters(ApprovalChannel) == [("approval_required", False), ("approval_timeout", None)]
    assert parameters(ApprovalChannel.connect) == [("websocket", REQUIRED)]
    assert parameters(ApprovalChannel.join) == [("timeout", 5)]
    assert parameters(ApprovalChannel.request) == [("server_name", REQUIRED), *call]
    assert isinstance(ApprovalChannel.open, property)


# Tool server and runner


async def test_run():
    async with ToolServer(port=0) as server:
        assert await runner(server).run("echo", {"a": [1, 2**70, "é"]}) == {"a": [1, 2**70, "é"]}
        result = {"content": [{"type": "text", "text": "a"}]}
        assert await runner(server).run("result", {"text": json.dumps(result)}) == "a"
        assert await runner(server).run("result", {"text": '{"content": []}'}) is None
        assert await asyncio.to_thread(runner(server).run_sync, "echo", {"a": 1}) == {"a": 1}
        with pytest.raises(ToolRunnerError, match="no such file"):
            failure = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
            await runner(server).run("result", {"text": json.dumps(failure)})
        assert server.token in repr(server.__dict__)
        assert await runner(server, token=server.token).run("echo", {}) == {}
        with pytest.raises(ToolRunnerError, match="token"):
            await runner(server, token="wrong").run("echo", {})


async def test_generated_package_in_an_application(workspace, monkeypatch):
    """It finds the tool server as in a kernel."""
    await generate_mcp_sources("fake", PARAMS, workspace / "mcptools_here")
    monkeypatch.syspath_prepend(workspace)
    async with ToolServer(port=0) as server:
        monkeypatch.setenv("TOOL_SERVER_PORT", str(server.port))
        echo = importlib.import_module("mcptools_here.fake.echo")
        result = await asyncio.to_thread(echo.run, a=1)
        assert result.structured == {"a": 1} and isinstance(result, str)


async def test_servers_are_kept_until_reset():
    async with ToolServer(port=0) as server:
        first = await runner(server).run("pid", {})
        assert (
            await asyncio.gather(*(runner(server).run("pid", {}) for _ in range(8))) == [first] * 8
        )
        await runner(server).reset()
        assert not Path(f"/proc/{first}").exists()
        assert await runner(server).run("pid", {}) != first


async def test_life_of_the_tool_server():
    server = ToolServer(port=0)
    await server.stop()
    await server.join()
    await server.start()
    with pytest.raises(RuntimeError, match="Server already running"):
        await server.start()
    assert server.port > 0
    with pytest.raises(RuntimeError, match=f"port {server.port}, ended with status 1"):
        await ToolServer(port=server.port).start()
    pid = await runner(server).run("pid", {})
    joined = asyncio.create_task(server.join())
    await asyncio.sleep(0)
    await server.stop()
    await joined
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(ToolRunnerError, match="cannot connect"):
        await runner(server).run("echo", {})
    await server.start()  # once more
    assert await runner(server).run("echo", {}) == {}
    await server.stop()


async def test_cancelled_task_cancels_the_call():
    async with ToolServer(port=0, approval_required=True) as server:
        asked = asyncio.Event()

        async def wait(request: ApprovalRequest) -> None:
            asked.set()

        async with ApprovalClient(wait, port=server.port):
            call = asyncio.create_task(runner(server).run("echo", {}))
            await asked.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call


def test_as_a_command(workspace):
    """`python -m ipybox.tool_exec.server` is the program, and ends with its parent."""
    command = [sys.executable, "-m", "ipybox.tool_exec.server", "--port=0"]
    environ = dict(os.environ) | {"PYTHONPATH": str(harness.ROOT / "python")}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=workspace,
    ) as process:
        port = json.loads(process.stdout.readline())["port"]
        assert ToolRunner("fake", PARAMS, port=port).run_sync("echo", {"a": 1}) == {"a": 1}
        process.stdin.close()
        assert process.wait() == 0


# Approval


async def test_approval():
    requests = []

    async def on_approval_request(request: ApprovalRequest) -> None:
        requests.append(str(request))
        if request.tool_name == "dangerous_tool":
            await request.reject()
        else:
            await request.accept()

    async with ToolServer(port=0, approval_required=True) as server:
        async with ApprovalClient(callback=on_approval_request, port=server.port):
            assert await runner(server).run("echo", {"a": "x", "b": 2}) == {"a": "x", "b": 2}
            with pytest.raises(ApprovalRejectedError):
                await runner(server).run("dangerous_tool", {})
    assert requests == ["fake.echo(a='x', b=2)", "fake.dangerous_tool()"]


async def test_requests_are_decided_in_any_order():
    async with ToolServer(port=0, approval_required=True) as server:
        requests: asyncio.Queue[ApprovalRequest] = asyncio.Queue()
        async with ApprovalClient(requests.put, port=server.port):
            calls = [asyncio.create_task(runner(server).run("echo", {"i": i})) for i in range(8)]
            waiting = [await requests.get() for _ in calls]
            for request in reversed(waiting):
                await (request.accept() if request.tool_args["i"] % 2 else request.reject())
            results = await asyncio.gather(*calls, return_exceptions=True)
    for i, result in enumerate(results):
        assert result == {"i": i} if i % 2 else isinstance(result, ApprovalRejectedError)


async def test_approval_errors(caplog):
    async with ToolServer(port=0, approval_required=True, approval_timeout=0.05) as server:
        text = "^Approval request for fake.echo failed: Approval channel not connected$"
        with pytest.raises(ToolRunnerError, match=text):
            await runner(server).run("echo", {})

        async def wait(request: ApprovalRequest) -> None:
            pass

        async with ApprovalClient(wait, port=server.port):
            with pytest.raises(ApprovalTimeoutError):
                await runner(server).run("echo", {})

        async def fail(request: ApprovalRequest) -> None:
            raise ValueError("in the callback")

    assert issubclass(ApprovalRejectedError, ToolRunnerError) and issubclass(
        ApprovalTimeoutError, ToolRunnerError
    )
    assert ToolRunnerError.__module__ == "ipybox.tool_exec.client"
    async with ToolServer(port=0, approval_required=True) as server:
        async with ApprovalClient(fail, port=server.port):
            with pytest.raises(ApprovalRejectedError):
                await runner(server).run("echo", {})
        assert "in the callback" in caplog.text


async def test_arguments_that_pydantic_turns_into_json():
    class Query(BaseModel):
        since: datetime
        root: Path

    query = Query(since=datetime(2026, 2, 3, tzinfo=timezone.utc), root=Path("/a"))
    as_json = {"since": "2026-02-03T00:00:00Z", "root": "/a"}
    async with ToolServer(port=0, approval_required=True) as server:
        async with ApprovalClient(accept, port=server.port):
            assert await runner(server).run("echo", query) == as_json
            assert await asyncio.to_thread(runner(server).run_sync, "echo", {"q": query}) == {
                "q": as_json
            }


async def test_arguments_of_any_size():
    """There is no question about arguments that are too large, and the client stays connected."""
    async with ToolServer(port=0, approval_required=True) as server:
        async with ApprovalClient(accept, port=server.port):
            numbers = {"n": [10**4000, -(10**4299)]}
            assert await runner(server).run("echo", numbers) == numbers
            text = "x" * 15_000_000
            assert await runner(server).run("echo", {"text": text}) == {"text": text}
            with pytest.raises(ApprovalRejectedError, match="larger than 16 MiB"):
                await runner(server).run("echo", {"text": "x" * 17_000_000})
            assert await runner(server).run("echo", {}) == {}


async def test_client_of_a_server_that_asks_nonsense():
    approve = {"server_name": "s", "tool_name": "t", "tool_args": {}}
    questions = (
        "garbage",
        "[]",
        '{"id": 1}',
        '{"id": 1, "params": []}',
        json.dumps({"id": 1, "params": approve | {"tool_args": 3}}),
        json.dumps({"id": [], "params": approve}),
        "[" * 100_000,
        b"binary",
        '{"id": 2, "params": {"server_name": "s", "tool_name": "t", "tool_args": {"n": '
        + "9" * 5000
        + "}}}",
    )
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def ask(peer: ServerConnection) -> None:
        for question in questions:
            await peer.send(question)
        async for answer in peer:
            await answers.put(answer)

    async with serve(ask, "127.0.0.1", 0) as server:
        requests: list[str] = []

        async def note(request: ApprovalRequest) -> None:
            requests.append(str(request))
            await request.accept()

        async with ApprovalClient(note, "127.0.0.1", server.sockets[0].getsockname()[1]):
            assert json.loads(await answers.get()) == {"jsonrpc": "2.0", "result": True, "id": 2}
    assert requests == [f"s.t(n={'9' * 5000!r})"]


async def test_client_that_disconnects():
    requests: asyncio.Queue[ApprovalRequest] = asyncio.Queue()
    async with ToolServer(port=0, approval_required=True, approval_timeout=None) as server:
        async with ApprovalClient(requests.put, port=server.port):
            call = asyncio.create_task(runner(server).run("echo", {}))
            request = await requests.get()
        with pytest.raises(ApprovalRejectedError, match="disconnected"):
            await call
        assert await request.response() is False
        async with ApprovalClient(accept, port=server.port):  # the next one
            assert await runner(server).run("echo", {}) == {}


async def test_client_of_a_server_that_starts_again(monkeypatch):
    closed = asyncio.Event()
    client = ApprovalClient(accept)
    end = client._end
    monkeypatch.setattr(client, "_end", lambda code, reason: (end(code, reason), closed.set()))
    server = ToolServer(port=0, approval_required=True)
    for _ in range(2):
        server.port = 0
        async with server:
            client.port = server.port
            await client.connect()
            with pytest.raises(RuntimeError, match="Already connected"):
                await client.connect()
            assert await runner(server).run("echo", {}) == {}
        await closed.wait()
        closed.clear()
    await client.disconnect()


async def test_client_without_a_server():
    client = ApprovalClient(accept, port=1)
    await client.disconnect()
    with pytest.raises(RuntimeError):
        await client.connect()
    with pytest.raises(RuntimeError, match="Not connected"):
        await client._respond(1, True)
    async with ToolServer(port=0) as server:
        with pytest.raises(RuntimeError):
            await ApprovalClient(accept, port=server.port, token="wrong").connect()


async def test_requestor():
    async with ToolServer(port=0, approval_required=True) as server:
        requestor = ApprovalRequestor("ipybox", port=server.port)
        async with ApprovalClient(accept, port=server.port):
            assert await requestor.request("shell", {"cmd": "ls"}) is True
            assert await asyncio.to_thread(requestor.request_sync, "shell", {"cmd": "ls"}) is True
        async with ApprovalClient(reject, port=server.port):
            with pytest.raises(ApprovalRejectedError):
                await requestor.request("shell", {"cmd": "ls"})


async def test_a_client_that_cannot_connect() -> None:
    """Programs that wait for a tool server catch OSError."""
    client = ApprovalClient(accept, port=find_free_port())
    for kind in (ConnectionRefusedError, RuntimeError):
        with pytest.raises(kind, match="cannot connect"):
            await client.connect()


# A channel in an application


class Application:
    """A FastAPI application with a channel, run by uvicorn in a thread."""

    def __init__(self, **options) -> None:
        self.channel = ApprovalChannel(**options)
        self.app = FastAPI()
        self.app.websocket("/approval")(self.channel.connect)
        self.app.add_api_route("/ask", self.on_ask)
        self.app.add_api_route("/disconnect", self.on_disconnect)
        self.server = uvicorn.Server(uvicorn.Config(self.app, port=0, log_level="error"))
        self.thread = threading.Thread(target=self.server.run)

    async def on_ask(self, i: int = 0) -> dict:
        try:
            return {"result": await self.channel.request("fs", "read", {"i": i})}
        except (RuntimeError, TimeoutError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    async def on_disconnect(self) -> None:
        await self.channel.disconnect()

    def asked_port(self) -> int | None:
        """The port of the client that gets the questions."""
        websocket = self.channel._websocket
        return websocket.client.port if websocket is not None else None

    async def get(self, path: str) -> dict:
        process = await asyncio.create_subprocess_exec(
            "curl", "-sS", f"http://127.0.0.1:{self.port}{path}", stdout=subprocess.PIPE
        )
        output, _ = await process.communicate()
        return json.loads(output)

    @property
    def port(self) -> int:
        return self.server.servers[0].sockets[0].getsockname()[1]

    async def __aenter__(self) -> Self:
        self.thread.start()
        await until(lambda: self.server.started)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.should_exit = True
        await asyncio.to_thread(self.thread.join)


async def test_channel_in_fastapi():
    async with Application(approval_required=True) as application:
        assert await application.get("/ask") == {
            "error": "RuntimeError: Approval channel not connected"
        }
        async with ApprovalClient(accept, port=application.port):
            assert application.channel.open
            answers = await asyncio.gather(*(application.get(f"/ask?i={i}") for i in range(4)))
            assert answers == [{"result": True}] * 4
        await until(lambda: not application.channel.open)
        async with ApprovalClient(reject, port=application.port):
            assert await application.get("/ask") == {"result": False}
    async with Application() as application:
        assert await application.get("/ask") == {"result": True}


async def test_channel_with_a_foreign_client():
    async with Application(approval_required=True, approval_timeout=None) as application:
        async with connect(f"ws://127.0.0.1:{application.port}/approval") as client:
            ask = asyncio.create_task(application.get("/ask?i=7"))
            question = json.loads(await client.recv())
            asked = {"server_name": "fs", "tool_name": "read", "tool_args": {"i": 7}}
            assert question == {
                "jsonrpc": "2.0",
                "method": "approve",
                "params": asked,
                "id": question["id"],
            }
            await client.send("nonsense")
            await client.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": True}))
            assert await ask == {"result": True}
            application.channel.approval_timeout = 0.05
            late = await application.get("/ask")
            assert late["error"].startswith("TimeoutError: fs.read was not approved")
            await client.recv()
            application.channel.approval_timeout = None
            ask = asyncio.create_task(application.get("/ask"))
            await client.recv()
            await application.get("/disconnect")
            assert (await ask)["error"].startswith("RuntimeError")
            with pytest.raises(ConnectionClosed):
                await client.recv()


async def test_a_web_page_is_no_client():
    """A browser lets every page connect to this machine, and sends the page's origin."""
    async with Application(approval_required=True) as application:
        url = f"ws://127.0.0.1:{application.port}/approval"
        others = (
            "http://evil.example",
            "null",
            "http://127.0.0.1",
            f"http://localhost:{application.port}",
            "http://[",
        )
        for origin, host in [(other, None) for other in others] + [
            ("http://evil.example", "evil.example")
        ]:
            with pytest.raises(InvalidStatus) as caught:
                async with connect(
                    f"ws://{host}/approval" if host else url,
                    origin=origin,
                    host="127.0.0.1",
                    port=application.port,
                ):
                    pass
            assert caught.value.response.status_code == 403
        assert await application.get("/ask") == {
            "error": "RuntimeError: Approval channel not connected"
        }
        async with connect(
            url, origin=f"http://127.0.0.1:{application.port}"
        ):  # the application's own page
            pass
        application.channel.allowed_origins.add("http://page.example")
        async with connect(url, origin="http://page.example") as page:
            ask = asyncio.create_task(application.get("/ask"))
            await page.send(json.dumps({"id": json.loads(await page.recv())["id"], "result": True}))
            assert await ask == {"result": True}


async def test_channel_takes_one_client_at_a_time():
    async with Application(approval_required=True) as application:
        url = f"ws://127.0.0.1:{application.port}/approval"
        async with contextlib.AsyncExitStack() as stack:
            async with connect(url):
                second = await stack.enter_async_context(connect(url))
            await until(lambda: application.asked_port() == second.local_address[1])
            ask = asyncio.create_task(application.get("/ask"))
            question = json.loads(await second.recv())
            third = await stack.enter_async_context(connect(url))
            await second.send(json.dumps({"id": question["id"], "result": True}))
            assert await ask == {"result": True}
            with pytest.raises(ConnectionClosed) as caught:
                await third.recv()
            assert caught.value.rcvd.code == 1008


def test_starlette_is_not_needed():
    script = (
        "import sys; sys.modules['starlette'] = None\n"
        "from ipybox.tool_exec.approval.server import ApprovalChannel\n"
        "from ipybox.tool_exec.approval.client import ApprovalClient, ApprovalRequestor\n"
        "import ipybox.tool_exec.client, ipybox.tool_exec.server\n"
        "ApprovalChannel()\n"
    )
    environ = dict(os.environ) | {"PYTHONPATH": str(harness.ROOT / "python")}
    subprocess.run([sys.executable, "-c", script], env=environ, check=True)
