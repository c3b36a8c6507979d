# SPDX-License-Identifier: Apache-2.0
"""What LangChain's own tests do not ask of the sandbox for deep agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from deepagents import create_deep_agent
from ipybox import CodeExecutionError
from ipybox.core import CoreError, acquire_core
from ipybox.integrations import background
from ipybox.integrations.deepagents import IpyboxSandbox
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command


@pytest.fixture
def sandbox() -> Iterator[IpyboxSandbox]:
    with IpyboxSandbox() as made:
        yield made


def test_it_is_sandboxed_and_removed() -> None:
    with IpyboxSandbox() as made:
        workspace = made.workspace
        result = made.execute("pwd; echo x > /etc/x")
        assert result.output.startswith(f"{workspace}\n") and result.exit_code != 0
        assert made.write(f"{workspace}/a", "text").error is None
        assert made.execute("cat a").output == "text"
        (response,) = made.upload_files([(f"{workspace}/.bashrc", b"x")])
        assert response.error == "permission_denied"
    assert not workspace.exists()
    with IpyboxSandbox("kept") as made:
        made.execute("echo x > file")
    assert Path("kept/file").read_text() == "x\n"


def test_batches_succeed_in_part(sandbox: IpyboxSandbox) -> None:
    sent = sandbox.upload_files([("/tmp/a", b"\xff"), ("relative", b""), ("/etc/b", b"")])
    assert [one.error is None for one in sent] == [True, False, False]
    got = sandbox.download_files(["/tmp/a", "/tmp/none", "/tmp", "relative"])
    assert [one.content for one in got] == [b"\xff", None, None, None]
    errors = [one.error for one in got]
    assert errors == [None, "file_not_found", "is_directory", "invalid_path"]


def test_failures_differ(sandbox: IpyboxSandbox) -> None:
    late = sandbox.execute("echo part; sleep 100", timeout=1)
    assert late.exit_code == 124 and late.output.startswith("part\n[ipybox] ")
    assert sandbox.execute("kill -9 $$").exit_code == 137
    assert sandbox.execute("echo out; echo err >&2; echo out").output == "out\nerr\nout\n"
    with IpyboxSandbox(limits={"cpuSeconds": 1}) as limited:
        result = limited.execute("while :; do :; done")
        assert result.exit_code > 128 and "limits.cpuSeconds" in result.output
    long = sandbox.execute("head -c 11000000 /dev/zero")
    assert long.truncated and long.exit_code == 0
    with pytest.raises(CodeExecutionError):
        background.run(_kill(sandbox))
    assert sandbox.execute("echo fresh").output == "fresh\n"
    sandbox.close()
    with pytest.raises(RuntimeError):
        sandbox.execute("true")


async def _kill(sandbox: IpyboxSandbox) -> None:
    await sandbox._session.executor.execute("import os; os.kill(os.getpid(), 9)")


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def get_price(item: str) -> int:
    """The price of an item."""
    return {"tea": 3, "rice": 4}[item]


ordered: list[str] = []


def order(item: str, amount: int = 1) -> str:
    """Orders an item."""
    ordered.append(f"{amount} {item}")
    return "ordered"


def make_agent(sandbox: IpyboxSandbox, cells: list[str], **options: Any) -> Any:
    """An agent whose model runs the cells, one a turn."""
    ordered.clear()
    calls: list[Any] = [
        AIMessage("", tool_calls=[{"id": f"c{i}", "name": "run_python", "args": {"code": code}}])
        for i, code in enumerate(cells)
    ]
    model = ScriptedModel(messages=iter([*calls, AIMessage("done")]))
    return create_deep_agent(
        model=model,
        backend=sandbox,
        tools=[sandbox.python_tool([get_price, order], **options)],
        checkpointer=InMemorySaver(),
    )


CONFIG: Any = {"configurable": {"thread_id": "1"}}


def tool_messages(state: dict[str, Any]) -> list[Any]:
    return [message for message in state["messages"] if message.type == "tool"]


def test_cells_call_tools_and_keep_state(sandbox: IpyboxSandbox) -> None:
    sandbox.execute("echo 5 > file")
    cells = [
        "x = get_price(item='tea') + get_price('rice')",
        "x + int(open('file').read())",
        "1 / 0",
        "open('/etc/x', 'w')",
        "import os; os.kill(os.getpid(), 9)",
        "'x' in globals(), get_price('tea')",
    ]
    state = make_agent(sandbox, cells).invoke({"messages": [("user", "go")]}, CONFIG)
    messages = tool_messages(state)
    assert [message.artifact["error"] for message in messages] == [
        None,
        None,
        "CodeExecutionError",
        "CodeExecutionError",
        "KernelLostError",
        None,
    ]
    assert messages[1].content == "12" and "ZeroDivisionError" in messages[2].content
    assert messages[5].content.startswith("(False, 3)")


def test_limits_and_timeouts_differ() -> None:
    with IpyboxSandbox(limits={"cpuSeconds": 1}) as sandbox:
        cells = ["print('part', flush=True)\nwhile True: pass"]
        for options, error in (
            ({}, "LimitExceededError"),
            ({"timeout": 0.2}, "CodeExecutionTimeout"),
        ):
            agent = make_agent(sandbox, cells, **options)
            (message,) = tool_messages(agent.invoke({"messages": [("user", "go")]}, CONFIG))
            assert message.artifact["error"] == error
            assert message.content.startswith("part\n")


def test_a_callback_decides(sandbox: IpyboxSandbox) -> None:
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(str(request))
        return request.tool_name == "get_price"

    agent = make_agent(sandbox, ["get_price('tea'); order('rice')"], approve=approve)
    (message,) = tool_messages(agent.invoke({"messages": [("user", "go")]}, CONFIG))
    assert message.artifact["error"] == "CallRefusedError" and not ordered
    assert asked == ["app.get_price(item='tea')", "app.order(item='rice')"]


def answer(kind: str) -> Any:
    return Command(resume={"decisions": [{"type": kind}]})


def test_a_person_decides(sandbox: IpyboxSandbox) -> None:
    """The cell waits in its kernel, and is never run twice."""
    cell = (
        "print('begun', get_price('tea'))\n"
        "with open('begun', 'a') as file: file.write('x')\n"
        "a = order('tea', 2)\n"
        "b = order('rice')\n"
        "a + b"
    )
    agent = make_agent(sandbox, [cell, "order('milk')", "a"], interrupt_on=["order"])
    state = agent.invoke({"messages": [("user", "go")]}, CONFIG)
    (request,) = state["__interrupt__"]
    (action,) = request.value["action_requests"]
    assert (action["name"], action["args"]) == ("order", {"item": "tea", "amount": 2})
    assert not ordered
    state = agent.invoke(answer("approve"), CONFIG)
    assert ordered == ["2 tea"]
    assert state["__interrupt__"][0].value["action_requests"][0]["args"] == {"item": "rice"}
    state = agent.invoke(answer("approve"), CONFIG)
    assert ordered == ["2 tea", "1 rice"]
    assert tool_messages(state)[0].content == "begun 3\n'orderedordered'"
    assert state["__interrupt__"][0].value["action_requests"][0]["args"] == {"item": "milk"}
    state = agent.invoke(answer("reject"), CONFIG)
    messages = tool_messages(state)
    assert messages[1].artifact["error"] == "CallRefusedError"
    assert messages[2].content == "'ordered'"
    assert ordered == ["2 tea", "1 rice"]
    assert sandbox.execute("cat begun").output == "x"


def test_what_was_not_decided_ends(sandbox: IpyboxSandbox) -> None:
    agent = make_agent(sandbox, ["x = 1; order('tea')", "x"], interrupt_on=["order"])
    agent.invoke({"messages": [("user", "go")]}, CONFIG)
    other: Any = {"configurable": {"thread_id": "2"}}
    state = agent.invoke({"messages": [("user", "other")]}, other)
    assert tool_messages(state)[0].content == "1" and not ordered


def test_cells_of_one_turn_do_not_end_each_other(sandbox: IpyboxSandbox) -> None:
    ordered.clear()
    calls: Any = [
        {"id": str(number), "name": "run_python", "args": {"code": code}}
        for number, code in enumerate(("order('tea')", "1 + 1"))
    ]
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
    agent = create_deep_agent(
        model=model,
        tools=[sandbox.python_tool([order], interrupt_on=["order"])],
        checkpointer=InMemorySaver(),
    )
    state = agent.invoke({"messages": [("user", "go")]}, CONFIG)
    assert len(state["__interrupt__"]) == 1 and not ordered
    first, second = tool_messages(agent.invoke(answer("approve"), CONFIG))
    assert first.content == "'ordered'" and ordered == ["1 tea"]
    # Either may have begun first.
    assert second.content == "2" or "another cell waits" in second.content


def test_tools_of_all_kinds(sandbox: IpyboxSandbox) -> None:
    async def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    def tell(text: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Tells."""
        return f"{text}{call_id}"

    tools = [
        StructuredTool.from_function(coroutine=double),
        StructuredTool.from_function(tell),
    ]
    description = sandbox.python_tool(tools).description
    assert "double(n): Doubles." in description and "tell(text): Tells." in description
    calls: Any = [{"id": "1", "name": "run_python", "args": {"code": "double(n=21), double(1)"}}]
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
    agent = create_deep_agent(model=model, tools=[sandbox.python_tool(tools)])
    (message,) = tool_messages(agent.invoke({"messages": [("user", "go")]}))
    assert message.content == "(42, 2)"


def test_wrong_options_are_refused(sandbox: IpyboxSandbox) -> None:
    with pytest.raises(ValueError, match="names no tool: none"):
        sandbox.python_tool([order], interrupt_on=["none"])
    with pytest.raises(ValueError, match="exclude each other"):
        sandbox.python_tool([order], interrupt_on=["order"], approve=lambda request: True)
    with pytest.raises(ValueError, match="two tools"):
        sandbox.python_tool([order, order])
    tool = StructuredTool.from_function(order, name="an-order", description="Orders.")
    with pytest.raises(ValueError, match="cannot be a function"):
        sandbox.python_tool([tool])


def test_it_ends_with_the_program() -> None:
    """Also without close(): no directory and no process is left; the caller checks both."""
    code = (
        "from ipybox.integrations.deepagents import IpyboxSandbox\n"
        "sandbox = IpyboxSandbox()\n"
        "sandbox.execute('sleep 1000 >/dev/null 2>&1 &')\n"
        "print(sandbox.workspace)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).exists()


def test_the_core_is_lost(sandbox: IpyboxSandbox) -> None:
    core = acquire_core()
    os.kill(core._process.pid, signal.SIGKILL)
    with pytest.raises(CoreError):
        sandbox.execute("true")
    core.release()
