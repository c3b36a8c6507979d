# SPDX-License-Identifier: Apache-2.0
"""`ipybox.kernel_mgr`, from its documentation: KernelGateway, KernelClient."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import harness
import pytest
from ipybox.kernel_mgr import output as kernel_output
from ipybox.kernel_mgr import socket as kernel_socket
from ipybox.kernel_mgr.client import ExecutionError, ExecutionResult, KernelClient
from ipybox.kernel_mgr.server import KernelGateway
from ipybox.mcp_apigen import generate_mcp_sources
from ipybox.tool_exec.approval.client import ApprovalClient, ApprovalRequest
from ipybox.tool_exec.server import ToolServer
from meeting import DIE, Meeting, run_while_idle, until, wait_until_reaped
from server_process import free_port, jupyter_server


def parameters(callable_: object) -> list[tuple[str, object]]:
    signature = inspect.signature(callable_)
    return [
        (name, parameter.default)
        for name, parameter in signature.parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]


REQUIRED = inspect.Parameter.empty


def test_signatures() -> None:
    assert parameters(KernelGateway) == [
        ("host", "localhost"),
        ("port", 8888),
        ("sandbox", False),
        ("sandbox_config", None),
        ("log_level", "INFO"),
        ("log_to_stderr", False),
        ("env", None),
        ("working_dir", None),
    ]
    assert parameters(KernelGateway.start) == parameters(KernelGateway.join) == []
    assert parameters(KernelGateway.stop) == [("timeout", 10)]
    assert parameters(KernelClient) == [
        ("host", "localhost"),
        ("port", 8888),
        ("images_dir", None),
        ("ping_interval", 10),
        ("working_dir", None),
        ("kernel_init_timeout", 10),
    ]
    assert parameters(KernelClient.connect) == [
        ("retries", 10),
        ("retry_interval", 1.0),
        ("kernel_init_timeout", None),
    ]
    assert parameters(KernelClient.disconnect) == parameters(KernelClient.reset) == []
    assert parameters(KernelClient.execute) == [("code", REQUIRED), ("timeout", None)]
    assert parameters(KernelClient.stream) == [("code", REQUIRED), ("timeout", None)]
    assert parameters(ExecutionResult) == [
        ("text", REQUIRED),
        ("images", REQUIRED),
    ]  # is_truncated: by keyword only
    assert issubclass(ExecutionError, Exception)


def gateway(**options: object) -> KernelGateway:
    return KernelGateway(**{"host": "localhost", "port": 0, **options})


async def test_example_of_gateway() -> None:
    port = free_port()
    async with KernelGateway(host="localhost", port=port) as gateway:
        stopping = asyncio.create_task(gateway.stop())
        await gateway.join()  # Wait until gateway stops
        await stopping


async def test_example_of_client() -> None:
    async with gateway() as server:
        chunks, results = [], []
        async with KernelClient(host="localhost", port=server.port) as client:
            # Simple execution
            result = await client.execute("print('hello')")
            assert (result.text, result.raw_text) == ("hello", "hello\n")

            # Streaming execution
            async for item in client.stream("print('hello')"):
                match item:
                    case str():
                        chunks.append(item)
                    case ExecutionResult():
                        results.append(item)
    assert "".join(chunks) == "hello\n"
    assert results == [ExecutionResult(text="hello", images=[])]


async def test_gateway_runs_once() -> None:
    async with gateway() as server:
        with pytest.raises(RuntimeError, match="already running"):
            await server.start()
    await server.stop()
    await server.join()
    async with server:  # and again
        pass


async def test_gateway_says_why_it_does_not_start() -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        with pytest.raises(RuntimeError, match=f"failed to start: .*{used.getsockname()[1]}"):
            await gateway(host="127.0.0.1", port=used.getsockname()[1]).start()
    with pytest.raises(RuntimeError, match="LOUD"):
        await gateway(log_level="LOUD").start()
    Path("box.json").write_text('{"network": 1}')
    with pytest.raises(RuntimeError, match="box.json"):
        await gateway(sandbox=True, sandbox_config=Path("box.json")).start()


async def test_log_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    async with (
        gateway(log_to_stderr=True, log_level="INFO") as server,
        KernelClient(port=server.port),
    ):
        pass
    assert "kernel" in capfd.readouterr().err
    async with gateway(log_level="INFO") as server, KernelClient(port=server.port):
        pass
    assert capfd.readouterr().err == ""


async def test_kernels_get_their_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "mine")
    monkeypatch.setenv("KERNEL_ENV_OTHER", "mine")
    async with gateway(env={"NAME": "value"}) as server, KernelClient(port=server.port) as client:
        result = await client.execute(
            "import os; [os.environ.get(n) for n in ('NAME', 'SECRET', 'OTHER')]"
        )
        assert result.text == "['value', None, None]"


async def test_state_and_reset() -> None:
    async with gateway() as server, KernelClient(port=server.port) as client:
        first = client.kernel_id
        await client.execute("x = 1")
        assert (await client.execute("x + 1")).text == "2"
        assert (await client.execute("y = 2")).text is None
        await client.reset()
        assert client.kernel_id != first
        with pytest.raises(ExecutionError, match="NameError: name 'x' is not defined"):
            await client.execute("x")


async def test_notices_are_beside_the_text() -> None:
    async with gateway() as server, KernelClient(port=server.port) as client:

        async def die_while_idle() -> None:
            go = Meeting(Path("go").absolute())
            pid = (await client.execute(run_while_idle(go, DIE))).text
            go.wait()
            wait_until_reaped(pid)

        def assert_killed(notices: list[str]) -> None:
            (notice,) = notices
            assert notice.startswith("[ipybox] while idle, the kernel was killed by SIGKILL")

        await die_while_idle()
        result = await client.execute("print('{}')")
        assert result.text == "{}"
        assert_killed(result.notices)
        await die_while_idle()
        with pytest.raises(ExecutionError) as failed:
            await client.execute("1/0")
        assert_killed(failed.value.notices)
        await die_while_idle()
        stream = client.stream("import time\nprint('begun', flush=True)\ntime.sleep(1000)")
        assert await stream.__anext__() == "begun\n"
        await stream.aclose()  # type: ignore[attr-defined]
        assert_killed((await client.execute("1")).notices)
        assert (await client.execute("1")).notices == []


async def test_working_directories(workspace: Path) -> None:
    for name in ("gateways", "clients", "elsewhere"):
        (workspace / name).mkdir()
    cwd = "import os; print(os.getcwd())"
    async with gateway(working_dir=Path("gateways")) as server:
        async with KernelClient(port=server.port) as client:
            assert (await client.execute(cwd)).text == str(workspace / "gateways")
            await client.execute("%cd -q ../elsewhere")
            assert (await client.execute(cwd)).text == str(workspace / "elsewhere")
        async with KernelClient(port=server.port, working_dir=Path("clients")) as client:
            for _ in range(2):
                assert (await client.execute(cwd)).text == str(workspace / "clients")
                assert (
                    await client.execute("os.chdir('/')")
                ).text == f"[ipybox] cwd reset to {workspace / 'clients'}"
                assert (await client.execute("print('a'); os.chdir('/')")).text == (
                    f"a\n[ipybox] cwd reset to {workspace / 'clients'}"
                )
                assert (await client.execute(cwd)).text == str(workspace / "clients")
                assert (
                    await client.execute(
                        "[name for name in dir() if name[0] != '_' and name != 'os']"
                    )
                ).text == ("['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']")
                with pytest.raises(ExecutionError, match="exit status 3"):
                    await client.execute("os._exit(3)")
        client = KernelClient(port=server.port, working_dir=Path("nowhere"))
        with pytest.raises(RuntimeError, match="working_dir is not a directory: .*nowhere"):
            await client.connect()
        assert kernels(server.port) == []
    with pytest.raises(RuntimeError, match="nowhere"):
        await gateway(working_dir=Path("nowhere")).start()


async def test_a_python_that_hangs(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads from a pipe to which nothing is written."""
    os.mkfifo(workspace / "never")
    python = workspace / "python"
    python.write_text(f"#!/bin/sh\nread line <{workspace}/never\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    async with gateway() as server:
        client = KernelClient(port=server.port, kernel_init_timeout=0.5)
        assert client.kernel_init_timeout == 0.5
        for options, limit in (({}, "0.5 s"), ({"kernel_init_timeout": 0.001}, "0.001 s")):
            with pytest.raises(
                asyncio.TimeoutError,
                match=f"not ready within {limit}, the limit kernel_init_timeout",
            ) as caught:
                await client.connect(**options)
            assert isinstance(caught.value, TimeoutError)
        with pytest.raises(RuntimeError, match="^Not connected to kernel$"):
            await client.execute("1")
        await until(lambda: not kernels(server.port))  # the client does not wait for their end
        with pytest.raises(ValueError, match="kernel_init_timeout"):
            await client.connect(kernel_init_timeout=0)


async def test_a_gateway_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ipybox.kernel_mgr.client.REQUEST_TIMEOUT_S", 0.1)
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        client = KernelClient(
            "127.0.0.1", server.sockets[0].getsockname()[1], kernel_init_timeout=0.1
        )
        with pytest.raises(TimeoutError, match="not ready within 0.1 s"):
            await client.connect()
        client = KernelClient("127.0.0.1", client.port, kernel_init_timeout=math.inf)
        with pytest.raises(
            TimeoutError, match=f"the gateway at 127.0.0.1:{client.port} did not answer in time"
        ):
            await client.connect()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_answer_that_comes_too_late(is_cancelled: bool) -> None:
    """The kernel of which it tells is ended."""
    asked, is_late, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n")).split()
        if request[0] == b"POST":
            asked.set()
            await is_late.wait()
            writer.write(b'HTTP/1.1 201 Created\r\nContent-Length: 13\r\n\r\n{"id": "x/y"}')
        elif request[:2] == [b"DELETE", b"/api/kernels/x%2Fy"]:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            ended.set()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        client = KernelClient(
            "127.0.0.1",
            server.sockets[0].getsockname()[1],
            kernel_init_timeout=60 if is_cancelled else 0.05,
        )
        connecting = asyncio.ensure_future(client.connect())
        await asked.wait()
        if is_cancelled:
            connecting.cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else TimeoutError):
            await connecting
        is_late.set()
        await until(ended.is_set)


async def test_a_python_that_is_none(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes at once, and there is no second attempt."""
    python = workspace / "python"
    python.write_text("#!/bin/sh\necho started >>started\nexit 7\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    async with gateway() as server:
        client = KernelClient(port=server.port, kernel_init_timeout=60)
        with pytest.raises(RuntimeError, match="Failed to connect.*exit status 7"):
            await client.connect(retry_interval=3600)


def kernels(port: int) -> list[dict[str, object]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/kernels") as answer:
        found: list[dict[str, object]] = json.load(answer)
    return found


async def test_errors_keep_the_state() -> None:
    async with gateway() as server, KernelClient(port=server.port) as client:
        with pytest.raises(ExecutionError, match="ZeroDivisionError: division by zero") as caught:
            await client.execute("x = 1\n1 / 0")
        assert str(caught.value).startswith("ZeroDivisionError: division by zero\n-----")
        assert "----> 2 1 / 0" in str(caught.value)
        assert (await client.execute("x")).text == "1"


async def test_errors_that_a_handler_has_shown() -> None:
    async with gateway() as server, KernelClient(port=server.port) as client:
        await client.execute(
            "def handle(*_, **__): print('handled')\n"
            "get_ipython().set_custom_exc((ZeroDivisionError,), handle)"
        )
        items = []
        with pytest.raises(ExecutionError) as caught:
            async for item in client.stream("1 / 0"):
                items.append(item)
        assert items == ["handled\n"]
        assert str(caught.value) == "ZeroDivisionError: division by zero"


async def test_timeouts_keep_the_state() -> None:
    async with gateway() as server, KernelClient(port=server.port) as client:
        await client.execute("x = 1")
        with pytest.raises(TimeoutError, match="exceeded timeout of 0.30s"):
            await client.execute("import time; time.sleep(600)", timeout=0.3)
        with pytest.raises(TimeoutError):
            async for _ in client.stream("while True: print('x', end='')", timeout=0.3):
                pass
        assert (await client.execute("x")).text == "1"


async def test_an_interrupt_keeps_the_state() -> None:
    async with gateway() as server, KernelClient(port=server.port) as client:
        with pytest.raises(ExecutionError, match="KeyboardInterrupt"):
            async for _ in client.stream(
                "x = 1\nprint('begun', flush=True)\nimport time; time.sleep(600)"
            ):
                await client.interrupt()
        assert (await client.execute("x")).text == "1"
        await client.interrupt()
    with pytest.raises(RuntimeError, match="^Not connected to kernel$"):
        await client.interrupt()


async def test_output_in_order() -> None:
    code = (
        "from IPython.display import display\nprint('a', end='')\ndisplay('b')\nimport sys\n"
        "print('c', file=sys.stderr)\n'd'"
    )
    async with gateway() as server, KernelClient(port=server.port) as client:
        items = [item async for item in client.stream(code)]
    assert items[-1] == ExecutionResult(text="a'b'c\n'd'", images=[])
    assert "".join(items[:-1]).strip() == items[-1].text


async def test_a_result_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_output, "MAX_TEXT_CHARS", 10)
    async with gateway() as server, KernelClient(port=server.port) as client:
        items = [
            item
            async for item in client.stream("print('0123456', flush=True)\nprint('789')\n'end'")
        ]
        assert "".join(item for item in items if isinstance(item, str)) == "0123456\n789\n'end'"
        assert items[-1] == ExecutionResult("0123456\n78", [])
        assert items[-1].is_truncated
        assert not (await client.execute("print('12345678')")).is_truncated


async def test_a_stream_that_is_not_read_makes_its_kernel_wait(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_socket, "MAX_WAITING", 1024 * 1024)
    code = "for i in range(50_000): print(f'{i:0999}')\nopen(%r, 'w').close()"
    async with (
        gateway() as server,
        KernelClient(port=server.port) as slow,
        KernelClient(port=server.port) as quick,
    ):
        items = slow.stream(code % str(workspace / "done"), timeout=600)
        n_chars = len(await anext(items))
        for _ in range(200):
            await quick.execute("x = 1")
        assert not (workspace / "done").exists()
        async for item in items:
            if isinstance(item, str):
                n_chars += len(item)
        assert n_chars == 50_000 * 1000
        assert (workspace / "done").exists()
        items = slow.stream(code % str(workspace / "done"))
        await anext(items)
        for _ in range(50):
            await quick.execute("x = 1")
        await items.aclose()
        assert (await slow.execute("1")).text == "1"


@pytest.mark.parametrize("images_dir", [None, Path("deep/plots")])
async def test_images(images_dir: Path | None) -> None:
    async with gateway() as server, KernelClient(port=server.port, images_dir=images_dir) as client:
        code = (
            "import matplotlib.pyplot as plt\nfor n in (1, 2):\n    plt.plot([n, n + 1])\n"
            "    plt.show()"
        )
        result = await client.execute(code)
    assert len(set(result.images)) == 2
    for image in result.images:
        assert image.parent == (images_dir or Path("images")) and image.suffix == ".png"
        assert image.read_bytes().startswith(b"\x89PNG")


async def test_without_connection() -> None:
    client = KernelClient(port=free_port())
    with pytest.raises(RuntimeError, match="^Not connected to kernel$"):
        await client.execute("1")
    with pytest.raises(RuntimeError, match="^Not connected to kernel$"):
        client.kernel_id  # noqa: B018
    with pytest.raises(RuntimeError, match="^Not connected to kernel$"):
        await client.reset()
    with pytest.raises(RuntimeError, match="Failed to connect"):
        await client.connect(retries=2, retry_interval=0.01)
    await client.disconnect()


async def test_connect_waits_for_the_gateway() -> None:
    port = free_port()
    client = KernelClient(port=port)
    connecting = asyncio.create_task(client.connect(retries=1000, retry_interval=0.01))
    async with gateway(port=port):
        await connecting
        with pytest.raises(RuntimeError, match="Already connected"):
            await client.connect()
        assert (await client.execute("1")).text == "1"
        await client.disconnect()


@pytest.mark.parametrize(
    "answer", [b"<html>", b"[]", b"[" * 100_000, b"{", b'{"id": ' + b"9" * 5000 + b"}", b"\xff"]
)
async def test_a_server_that_is_no_gateway(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = KernelClient("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(RuntimeError, match="Failed to connect to kernel"):
            await client.connect(retries=1)


async def test_gateway_that_ends() -> None:
    async with gateway() as server, KernelClient(port=server.port) as client:
        begun = asyncio.Event()

        async def run() -> None:
            async for _ in client.stream(
                "print('begun', flush=True)\nimport time\ntime.sleep(600)"
            ):
                begun.set()

        running = asyncio.create_task(run())
        await begun.wait()
        await server.stop()
        with pytest.raises(RuntimeError, match="closed"):
            await running
        with pytest.raises(RuntimeError):
            await client.execute("1")


async def test_cancelled_and_abandoned() -> None:
    """A caller that stops waiting interrupts the code. Nothing of it disturbs later cells."""
    async with gateway() as server, KernelClient(port=server.port) as client:
        await client.execute("x = 1")
        running = asyncio.create_task(client.execute("import time; time.sleep(600)"))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        stream = client.stream("while True: print('x')")
        async for _ in stream:
            break
        await stream.aclose()
        assert (await client.execute("x")).text == "1"


async def test_clients_at_once() -> None:
    async with gateway() as server:

        async def use(number: int) -> str | None:
            async with KernelClient(port=server.port) as client:
                await client.execute(f"x = {number}")
                one, two = await asyncio.gather(client.execute("x"), client.execute("x + 100"))
                return f"{one.text} {two.text}"

        assert await asyncio.gather(*map(use, range(5))) == [f"{n} {n + 100}" for n in range(5)]


def test_threads_with_loops_of_their_own() -> None:
    async def use() -> None:
        async with gateway() as server, KernelClient(port=server.port) as client:
            texts.append((await client.execute("6 * 7")).text)

    texts: list[str | None] = []
    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["42"] * 3


async def test_sandbox(workspace: Path) -> None:
    allowed = {"denyRead": [], "allowWrite": ["out"], "denyWrite": []}
    network = {"allowedDomains": [], "deniedDomains": []}
    Path("box.json").write_text(json.dumps({"filesystem": allowed, "network": network}))
    Path("out").mkdir()
    async with gateway(sandbox=True, sandbox_config=Path("box.json")) as server:
        async with KernelClient(port=server.port) as client:
            await client.execute("open('out/file', 'w').write('1')")
            with pytest.raises(ExecutionError):
                await client.execute("open('elsewhere', 'w')")
    assert Path("out/file").exists() and not Path("elsewhere").exists()


@pytest.mark.parametrize("sandbox", [False, True])
async def test_tools_and_approvals(sandbox: bool) -> None:
    """The parts of CodeExecutor, put together by hand: a tool server, a gateway whose kernels call
    it, and an approval client.
    """
    params = {"command": "uvx", "args": ["mcp-server-fetch"]}
    asked: list[str] = []

    async def decide(request: ApprovalRequest) -> None:
        asked.append(request.tool_name)
        await (request.accept() if len(asked) == 1 else request.reject())

    await generate_mcp_sources("fetch", params, Path("mcptools"))
    async with ToolServer(port=0, approval_required=True) as tools:
        env = {"TOOL_SERVER_HOST": tools.host, "TOOL_SERVER_PORT": str(tools.port)}
        async with (
            ApprovalClient(callback=decide, port=tools.port),
            gateway(sandbox=sandbox, env=env) as server,
            KernelClient(port=server.port) as client,
        ):
            code = (
                "from mcptools.fetch import fetch\n"
                "print(fetch.run(fetch.Params(url='https://example.com')))"
            )
            assert (await client.execute(code)).text
            with pytest.raises(ExecutionError, match="ApprovalRejectedError"):
                await client.execute(code)
    assert asked == ["fetch", "fetch"]


def test_as_a_command() -> None:
    """`python -m ipybox.kernel_mgr.server`, and a client of it."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "ipybox.kernel_mgr.server", "--port", str(port)],
        env=os.environ | {"PYTHONPATH": str(harness.ROOT / "python")},
        stdout=subprocess.DEVNULL,
    )
    try:

        async def use() -> str | None:
            client = KernelClient(port=port)
            await client.connect(retries=1000, retry_interval=0.02)
            try:
                return (await client.execute("import os, sys; os.path.realpath(sys.prefix)")).text
            finally:
                await client.disconnect()

        assert asyncio.run(use()) == repr(os.path.realpath(sys.prefix))
    finally:
        process.terminate()
        assert process.wait(60) == 0


async def test_any_jupyter_server(home: harness.Place, workspace: Path) -> None:
    """Its kernels are its own, of ipykernel."""
    with jupyter_server(workspace, dict(os.environ), "secret") as port:
        await use_jupyter_server(port)


async def use_jupyter_server(port: int) -> None:
    async with KernelClient(
        host="127.0.0.1", port=port, token="secret", kernel_init_timeout=60
    ) as client:
        assert (await client.execute("x = 6\nprint('out')\nx * 7")).text == "out\n42"
        with pytest.raises(ExecutionError, match="ZeroDivisionError"):
            await client.execute("1 / 0")
        with pytest.raises(TimeoutError):
            await client.execute("import time; time.sleep(600)", timeout=1)
        assert (await client.execute("x")).text == "6"
    client = KernelClient(host="127.0.0.1", port=port, token="secret", working_dir=Path())
    with pytest.raises(RuntimeError, match="needs a gateway of ipybox"):
        await client.connect()
    client = KernelClient(host="127.0.0.1", port=port, token="wrong")
    with pytest.raises(RuntimeError, match="Failed to connect.*403"):
        await client.connect(retries=1)
