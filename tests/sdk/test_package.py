# SPDX-License-Identifier: Apache-2.0
"""The package: its names and signatures, the cost of its import, and the small modules."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import socket
import subprocess
import sys
import threading
import typing
from pathlib import Path

import harness
import ipybox
import pytest
import scripted_server
from ipybox import (
    ApprovalRequest,
    CodeExecutionError,
    CodeExecutor,
    MCPClient,
    generate_mcp_sources,
)
from ipybox.mcp_apigen import sanitize_name
from ipybox.tool_exec.approval.server import ApprovalChannel
from ipybox.utils import arun, find_free_port
from ipybox.vars import replace_variables
from meeting import Meeting

PUBLIC_MODULES = (
    "code_exec",
    "files",
    "kernel_mgr.client",
    "kernel_mgr.server",
    "mcp_apigen",
    "mcp_client",
    "results",
    "tool_exec.approval.client",
    "tool_exec.approval.server",
    "tool_exec.client",
    "tool_exec.server",
    "utils",
    "vars",
)
PACKAGE = {"PYTHONPATH": str(harness.ROOT / "python")}


def run_python(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        env=os.environ | PACKAGE,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_names() -> None:
    for name in ipybox.__all__:
        assert getattr(ipybox, name).__name__ == name
        scope: dict[str, object] = {}
        exec(f"from ipybox import {name}", scope)
        assert scope[name] is getattr(ipybox, name)
    assert set(ipybox.__all__) <= set(dir(ipybox))
    assert {
        "ApprovalRequest",
        "CodeExecutionChunk",
        "CodeExecutionError",
        "CodeExecutionResult",
        "CodeExecutor",
    } <= set(ipybox.__all__)
    with pytest.raises(AttributeError):
        ipybox.nothing  # noqa: B018
    from ipybox.tool_exec.approval.client import ApprovalRequest as Same

    assert Same is ApprovalRequest


async def test_names_of_the_document() -> None:
    """The document, the package and the one in kernels agree."""
    text = (harness.ROOT / "docs/how-to/python-sdk.md").read_text()
    table = text.partition("\n## Names\n")[2].partition("\n## ")[0]
    of_programs: set[str] = set()
    of_cells: set[str] = set()
    for names, programs, cells in re.findall(
        r"^\| (`.+`) \| (yes)? ?\| ?(yes)? ?\|", table, re.MULTILINE
    ):
        found = set(re.findall(r"`(\w+)`", names))
        of_programs |= found if programs else set()
        of_cells |= found if cells else set()
    assert len(of_cells) > 5
    assert of_programs == set(ipybox.__all__)
    async with CodeExecutor() as executor:
        listed = await executor.execute("import ipybox; print(*ipybox.__all__, sep='\\n')")
        assert listed.text is not None and set(listed.text.split()) == of_cells
        for name in sorted(of_cells):
            result = await executor.execute(
                f"from ipybox import {name}\nprint({name}.__name__, ipybox.{name} is {name})"
            )
            assert result.text == f"{name} True"
        for name in sorted(of_programs - of_cells):
            with pytest.raises(
                CodeExecutionError, match=f"{name} is not for cells: import it in a program"
            ) as caught:
                await executor.execute(f"from ipybox import {name}")
            assert caught.value.name == "ImportError"
        with pytest.raises(
            CodeExecutionError,
            match="has no attribute 'nothing' in a kernel; it has ApprovalRejectedError, ",
        ):
            await executor.execute("ipybox.nothing")


def test_import_loads_nothing() -> None:
    """Neither asyncio nor dataclasses nor typing, which take most of the time."""
    code = (
        "import sys; before = set(sys.modules); import ipybox; print(sorted(set(sys.modules) - "
        "before))"
    )
    done = run_python("-S", "-c", code)
    assert done.stdout.strip() == "['__future__', 'ipybox']", done.stderr


def test_parameters_are_those_of_the_original() -> None:
    parameters = inspect.signature(CodeExecutor).parameters
    assert {name: p.default for name, p in parameters.items() if p.kind is not p.KEYWORD_ONLY} == {
        "tool_server_host": "localhost",
        "tool_server_port": None,
        "kernel_gateway_host": "localhost",
        "kernel_gateway_port": None,
        "kernel_env": None,
        "working_dir": None,
        "images_dir": None,
        "approval_timeout": None,
        "connect_timeout": 30,
        "kernel_init_timeout": 10,
        "sandbox": False,
        "sandbox_config": None,
        "log_level": "WARNING",
        "approve_tool_calls": True,
        "approve_shell_cmds": False,
        "require_shell_escape": False,
    }
    for function, expected in (
        (CodeExecutor.execute, ["self", "code", "timeout=None"]),
        (CodeExecutor.stream, ["self", "code", "timeout=None", "chunks=False"]),
        (generate_mcp_sources, ["server_name", "server_params", "root_dir", "async_api=False"]),
        (MCPClient.__init__, ["self", "server_params", "connect_timeout=30"]),
        (ApprovalRequest.__init__, ["self", "server_name", "tool_name", "tool_args", "respond"]),
    ):
        shown = [
            p.name if p.default is p.empty else f"{p.name}={p.default}"
            for p in inspect.signature(function).parameters.values()
            if p.kind is not p.KEYWORD_ONLY
        ]
        assert shown == expected


def test_users_programs_are_typed(workspace: Path) -> None:
    (workspace / "program.py").write_text(
        """
import asyncio
from pathlib import Path

from ipybox import ApprovalRequest, CodeExecutionChunk, CodeExecutionResult
from ipybox import CodeExecutor, generate_mcp_sources
from ipybox import ApprovalTimeoutError, Content, ToolRunnerError, ToolServer, ToolText, Transfer
from ipybox.utils import arun


def show(
    error: ToolRunnerError, content: Content, text: ToolText, transfer: Transfer, server: ToolServer
) -> None:
    is_late = isinstance(error, ApprovalTimeoutError)
    print(is_late, text.upper(), transfer.n_bytes, server.port, content)


async def main() -> None:
    names: list[str] = await generate_mcp_sources(
        "a", {"command": "x"}, Path("mcptools"), async_api=True
    )
    async with CodeExecutor(images_dir=Path("i"), approval_timeout=10) as executor:
        text: str | None = (await executor.execute("1", timeout=1.5)).text
        async for item in executor.stream("1", chunks=True):
            match item:
                case ApprovalRequest() as request:
                    answer: str = await arun(input, f"{request}")
                    await request.accept() if answer == "y" else await request.reject()
                case CodeExecutionChunk(text=piece):
                    print(piece, text, names)
                case CodeExecutionResult():
                    paths: list[Path] = item.images
                    print(paths)
        async for item in executor.execute("1"):
            print(item)


asyncio.run(main())
"""
    )
    done = subprocess.run(
        [
            str(harness.ROOT / ".venv/bin/mypy"),
            "--strict",
            "--cache-dir",
            "/dev/null",
            "program.py",
        ],
        env=os.environ | {"MYPYPATH": str(harness.ROOT / "python")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_everything_public_is_documented() -> None:
    for name in ipybox.__all__:
        thing = getattr(ipybox, name)
        assert inspect.getdoc(thing)
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_") and (
                inspect.isfunction(value) or isinstance(value, property)
            ):
                assert inspect.getdoc(value), f"{name}.{member}"


# Approval requests


async def test_approval_request() -> None:
    given: list[bool] = []
    decided: list[object] = []

    async def respond(accept: bool) -> None:
        given.append(accept)

    async def later(accept: bool) -> None:
        decided.append(("later", accept))

    request = ApprovalRequest(
        "server", "tool", {"a": "x'y", "n": 1, "deep": {"k": [None]}}, respond
    )
    assert str(request) == """server.tool(a="x'y", n=1, deep={'k': [None]})"""
    request.on_decision(decided.append)
    request.on_decision(later)
    request.set_on_decision(lambda: decided.append("set"))
    waiting = asyncio.create_task(request.response())
    await asyncio.sleep(0)
    await request.reject()
    await request.accept()
    assert given == [False]
    assert await waiting is False and await request.response() is False
    request.on_decision(decided.append)
    await asyncio.sleep(0)
    assert sorted(map(str, decided)) == ["('later', False)", "False", "False", "set"]
    # The attributes that ipybox 0.9 shows.
    shown = {name for name in dir(request) if not name.startswith("_")}
    assert shown >= {
        "accept",
        "on_decision",
        "reject",
        "response",
        "server_name",
        "set_on_decision",
        "tool_args",
        "tool_name",
    }


async def test_a_decision_is_kept_where_it_could_not_be_sent() -> None:
    """As in ipybox 0.9: the caller gets the error, and a waiter gets the decision."""

    async def respond(accept: bool) -> None:
        raise RuntimeError("Not connected")

    request = ApprovalRequest("s", "t", {}, respond)
    waiting = asyncio.create_task(request.response())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="Not connected"):
        await request.accept()
    assert await waiting is True
    await request.accept()


async def test_waiting_for_a_decision_may_be_cancelled() -> None:
    async def respond(accept: bool) -> None: ...

    request = ApprovalRequest("s", "t", {}, respond)
    waiting = [asyncio.create_task(request.response()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await request.accept()
    assert await asyncio.gather(*waiting[1:], request.response()) == [True] * 3
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]


def test_what_a_kernel_names_cannot_change_what_is_seen() -> None:
    async def respond(accept: bool) -> None: ...

    request = ApprovalRequest(
        "files", "rm\x1b[2K", {"path\r\n": "/\x1b[0m", "größe\u202e": 1}, respond
    )
    assert str(request) == r"files.rm\x1b[2K(path\r\n='/\x1b[0m', größe\u202e=1)"


async def test_a_callback_that_fails_keeps_no_decision(caplog: pytest.LogCaptureFixture) -> None:
    given: list[bool] = []
    decided: list[bool] = []

    async def respond(accept: bool) -> None:
        given.append(accept)

    def fail(accept: bool) -> None:
        raise ZeroDivisionError

    request = ApprovalRequest("s", "t", {}, respond)
    request.on_decision(fail)
    request.on_decision(decided.append)
    await request.accept()
    request.on_decision(fail)
    assert given == [True] and decided == [True]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [
        ZeroDivisionError
    ] * 2


async def test_an_expired_request() -> None:
    async def respond(accept: bool) -> None:
        raise AssertionError("no caller waits for this")

    request = ApprovalRequest("s", "t", {}, respond)
    waiting = asyncio.create_task(request.response())
    await asyncio.sleep(0)
    thread = threading.Thread(target=request.expire)
    thread.start()
    assert await waiting is False
    thread.join()
    await request.accept()


# The small modules


def test_variables() -> None:
    template = {
        "a": "${A}-${B}",
        "l": ["${A}", {"x": "${MISSING}"}],
        "n": 1,
        "k": "$A ${not it} ${A",
        "v": "${V}",
    }
    result = replace_variables(template, {"A": "1", "B": "2", "V": "${A}", "OTHER": "x"})
    assert result.replaced == {
        "a": "1-2",
        "l": ["1", {"x": "${MISSING}"}],
        "n": 1,
        "k": "$A ${not it} ${A",
        "v": "${A}",
    }
    assert result.replaced_variables == {"A", "B", "V"}
    assert result.missing_variables == {"MISSING"}
    assert result.total_variables == 4
    assert template["a"] == "${A}-${B}"


def test_sanitize_name() -> None:
    assert sanitize_name("search-Repos.v2") == "search_repos_v2"
    assert sanitize_name("Größe") == "gr__e"


async def test_utils() -> None:
    assert await arun(lambda a, b: a + b, 1, b=2) == 3
    with pytest.raises(ZeroDivisionError):
        await arun(divmod, 1, 0)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", find_free_port()))


# MCPClient


async def test_mcp_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "from the environment")
    Path(".env").write_text("OTHER=from the file\n")
    client = MCPClient(scripted_server.params("work", env={"A": "${SECRET}", "B": "${OTHER}"}))
    with pytest.raises(RuntimeError, match="^MCP client not started$"):
        await client.list_tools()
    async with client:
        with pytest.raises(RuntimeError, match="already started"):
            await client.start()
        tools = await client.list_tools()
        assert [tool["name"] for tool in tools][:3] == ["echo", "add", "note"]
        # As in ipybox 0.9.
        assert [tool.name for tool in tools][:3] == ["echo", "add", "note"]
        assert (
            tools[0].inputSchema == tools[0]["inputSchema"]
            and tools[0].title is None
            and tools[0].meta is None
        )
        assert json.loads(json.dumps(tools[0])) == tools[0]
        with pytest.raises(AttributeError, match="nothing"):
            tools[0].nothing  # noqa: B018
        assert await client.run("echo", {"text": "ü😀"}) == "ü😀"
        assert await client.run("add", {"a": 2**70, "b": 1}) == {"sum": 2**70 + 1}
        assert await client.run("environ", {"name": "A"}) == "from the environment"
        assert await client.run("environ", {"name": "B"}) == "from the file"
        with pytest.raises(RuntimeError, match="went wrong"):
            await client.run("fail", {"text": "went wrong"})
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.run("hang", {}), 0.1)
        assert await asyncio.gather(*(client.run("echo", {"text": str(n)}) for n in range(20))) == [
            str(n) for n in range(20)
        ]
    with pytest.raises(RuntimeError, match="^MCP client not started$"):
        await client.run("echo", {"text": ""})
    await client.stop()


async def test_servers_that_cannot_be() -> None:
    with pytest.raises(ValueError, match='^Neither a "command" nor a "url" key in server_params'):
        MCPClient({"foo": 1})
    for params, error in (
        ({"command": "/nonexistent/server"}, LookupError),
        ({"command": "/nonexistent/server"}, FileNotFoundError),
        ({"command": sys.executable, "args": ["${NOPE}"]}, LookupError),
        ({"command": sys.executable, "args": ["${NOPE}"]}, FileNotFoundError),
        ({"command": sys.executable, "args": ["${NOPE}"]}, RuntimeError),
        ({"command": "/bin/false"}, RuntimeError),
        ({"command": 3}, ValueError),
    ):
        for use in (
            MCPClient(params).start,
            lambda params=params: generate_mcp_sources("x", params, Path("mcptools")),
        ):
            with pytest.raises(error):
                await use()
    for name in ("", "../evil", "1x", "class", "bad-name"):
        with pytest.raises(ValueError):
            await generate_mcp_sources(name, scripted_server.params("work"), Path("mcptools"))
    assert not list(Path().glob("mcptools/*"))


async def test_a_server_that_does_not_start_in_time() -> None:
    params = {"command": "sleep", "args": ["1000"]}
    with pytest.raises(TimeoutError):
        await generate_mcp_sources("x", params, Path("mcptools"), connect_timeout=0.2)
    with pytest.raises(TimeoutError):
        await MCPClient(params, connect_timeout=0.2).start()
    begun = Meeting(Path("begun").absolute())
    script = f"cat {begun.path}; exec sleep 1000"
    task = asyncio.create_task(MCPClient({"command": "sh", "args": ["-c", script]}).start())
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# As a command


def test_mcp_server_as_a_module() -> None:
    messages = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {
                "name": "execute_ipython_cell",
                "arguments": {"code": "import sys; print(sys.prefix)"},
            },
        },
    ]
    program = subprocess.Popen(
        [sys.executable, "-m", "ipybox.mcp_server", "--workspace", "."],
        env=os.environ | PACKAGE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdin is not None and program.stdout is not None
    for message in messages:
        program.stdin.write(json.dumps(message) + "\n")
    program.stdin.flush()
    answers: dict[int, dict[str, object]] = {}
    while 2 not in answers:
        answer = json.loads(program.stdout.readline())
        answers[answer.get("id", 0)] = answer
    program.communicate()
    assert program.returncode == 0
    text = answers[2]["result"]["content"][0]["text"]  # type: ignore[index]
    assert os.path.samefile(text, sys.prefix)


def test_annotations_are_resolved() -> None:
    """Frameworks read them: FastAPI those of a route, agent frameworks those of a tool."""
    modules = [importlib.import_module(f"ipybox.{name}") for name in PUBLIC_MODULES]
    functions = [
        value for module in modules for value in vars(module).values() if inspect.isfunction(value)
    ]
    for module in modules:
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                functions += [each for each in vars(value).values() if inspect.isfunction(each)]
    functions = [
        each
        for each in functions
        if each.__module__.startswith("ipybox") and not each.__name__.startswith("_")
    ]
    assert ApprovalChannel.connect in functions and generate_mcp_sources in functions
    for function in functions:
        typing.get_type_hints(function)
