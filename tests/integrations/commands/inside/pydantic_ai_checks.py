# SPDX-License-Identifier: Apache-2.0
"""What Pydantic AI's own rules do not ask of a workspace."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ipybox import CodeExecutionError
from ipybox.integrations.pydantic_ai import IpyboxWorkspace, _environments
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_is_sandboxed_and_removed() -> None:
    async with IpyboxWorkspace() as backend:
        assert backend.ref is None
        directory = Path(await backend.working_dir())
        result = await backend.run("echo x > /etc/x; echo x > .bashrc", shell=True)
        assert result.exit_code != 0 and not (directory / ".bashrc").exists()
        with pytest.raises(WorkspaceError, match="denied"):
            await Workspace(backend).write_text(str(directory / ".bashrc"), "x")
    assert not directory.exists()
    with pytest.raises(WorkspaceUnavailableError):
        await backend.run(["true"])
    with pytest.raises(ValueError):
        IpyboxWorkspace(WorkspaceRef(provider="local", id="/"))
    async with IpyboxWorkspace(workspace="kept") as backend:
        await backend.run("echo x > file", shell=True)
    assert Path("kept/file").read_text() == "x\n"


async def test_failures_differ() -> None:
    async with IpyboxWorkspace() as backend:
        with pytest.raises(WorkspaceTimeoutError) as late:
            await backend.run("echo part; echo err >&2; sleep 100", shell=True, timeout=0.5)
        assert (late.value.stdout, late.value.stderr) == ("part\n", "err\n")
        with pytest.raises(WorkspaceOutputLimitError) as long:
            await backend.run("echo begin; head -c 11000000 /dev/zero", shell=True)
        assert long.value.stdout.startswith("begin\n")
        assert (await backend.run(["/etc/passwd"])).exit_code == 126
        assert (await backend.run("kill -9 $$", shell=True)).exit_code == 137
        with pytest.raises(ValueError):
            await backend.run(["true"], timeout=-1)
        executor = _environments[backend.ref.id].session.executor
        running = asyncio.create_task(backend.run("echo x > begun; sleep 100", shell=True))
        while not (Path(await backend.working_dir()) / "begun").exists():
            await asyncio.sleep(0.01)
        with pytest.raises(CodeExecutionError):
            await executor.execute("import os; os.kill(os.getpid(), 9)")
        with pytest.raises(WorkspaceUnavailableError):
            await running


async def test_limits_are_named() -> None:
    async with IpyboxWorkspace(limits={"cpuSeconds": 1}) as backend:
        result = await backend.run("while :; do :; done", shell=True)
        assert result.exit_code > 128 and "limits.cpuSeconds" in result.stderr


async def test_paths_are_resolved_in_the_sandbox() -> None:
    async with IpyboxWorkspace() as backend:
        directory = await backend.working_dir()
        await backend.run("ln -s /tmp/x link; mkdir /tmp/x", shell=True)
        assert await backend.realpath(f"{directory}/link/none") == "/tmp/x/none"
        assert await backend.realpath("link") == "/tmp/x"


ordered: list[str] = []


def get_price(item: str) -> int:
    """The price of an item."""
    return {"tea": 3, "rice": 4}[item]


def order(context: RunContext[str], item: str, amount: int = 1) -> str:
    """Orders an item."""
    ordered.append(f"{amount} {item} for {context.deps}")
    return "ordered"


def make_agent(workspace: IpyboxWorkspace, cells: list[str], **options: Any) -> Agent[str, Any]:
    """An agent whose model runs the cells, one a turn."""
    ordered.clear()

    def answer(messages: Any, info: Any) -> ModelResponse:
        number = sum(isinstance(message, ModelResponse) for message in messages)
        if number < len(cells):
            return ModelResponse(parts=[ToolCallPart("run_python", {"code": cells[number]})])
        return ModelResponse(parts=[TextPart("done")])

    tools = [get_price, Tool(order, requires_approval=True)]
    return Agent(
        FunctionModel(answer),
        deps_type=str,
        output_type=[str, DeferredToolRequests],
        tools=[workspace.python_tool(tools, **options)],
    )


def returns(result: Any) -> list[ToolReturnPart]:
    parts = [part for message in result.all_messages() for part in message.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)]


async def test_cells_call_tools_and_keep_state() -> None:
    async with IpyboxWorkspace(limits={"cpuSeconds": 2}) as workspace:
        await workspace.run("echo 5 > file", shell=True)
        cells = [
            "x = get_price(item='tea') + get_price('rice')",
            "x + int(open('file').read())",
            "1 / 0",
            "import os; os.kill(os.getpid(), 9)",
            "'x' in globals()",
            "while True: pass",
        ]
        result = await make_agent(workspace, cells).run("go", deps="me")
        found = returns(result)
        assert [part.metadata["error"] for part in found] == [
            None,
            None,
            "CodeExecutionError",
            "KernelLostError",
            None,
            "LimitExceededError",
        ]
        assert found[1].content == "12" and "ZeroDivisionError" in str(found[2].content)
        agent = make_agent(workspace, ["print(1, flush=True)\nwhile True: pass"], timeout=0.2)
        (late,) = returns(await agent.run("go", deps="me"))
        assert late.metadata["error"] == "CodeExecutionTimeout"
        assert str(late.content).startswith("1\n")


async def test_a_callback_decides() -> None:
    async with IpyboxWorkspace() as workspace:
        asked: list[str] = []

        def approve(request: Any) -> bool:
            asked.append(str(request))
            return bool(request.tool_args["item"] == "tea")

        cells = ["order('tea', 2)", "order('rice')"]
        result = await make_agent(workspace, cells, approve=approve).run("go", deps="me")
        assert [part.metadata["error"] for part in returns(result)] == [None, "CallRefusedError"]
        assert asked == ["app.order(item='tea', amount=2)", "app.order(item='rice')"]
        assert ordered == ["2 tea for me"]


async def test_calls_are_deferred() -> None:
    """The cell waits in its kernel between two runs, and is never run twice."""
    async with IpyboxWorkspace() as workspace:
        cell = (
            "print('begun', get_price('tea'))\n"
            "with open('begun', 'a') as file: file.write('x')\n"
            "a = order('tea', 2)\n"
            "b = order('rice')\n"
            "a + b"
        )
        agent = make_agent(workspace, [cell, "c = 1; order('milk')", "a, 'c' in globals()"])
        result = await agent.run("go", deps="me")
        for args in ({"item": "tea", "amount": 2}, {"item": "rice"}):
            requests = result.output
            (call,) = requests.approvals
            about = requests.metadata[call.tool_call_id]
            assert (about["tool_name"], about["tool_args"]) == ("order", args)
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=requests.build_results(approve_all=True),
                deps="me",
            )
        assert ordered == ["2 tea for me", "1 rice for me"]
        assert returns(result)[0].content == "begun 3\n'orderedordered'"
        (call,) = result.output.approvals
        result = await agent.run(
            message_history=result.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={call.tool_call_id: False}),
            deps="me",
        )
        assert result.output == "done" and len(ordered) == 2
        # The cell was cancelled, and the state is kept.
        assert returns(result)[-1].content == "('ordered', True)"
        assert (await workspace.run(["cat", "begun"])).stdout == "x"
