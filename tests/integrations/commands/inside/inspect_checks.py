# SPDX-License-Identifier: Apache-2.0
"""What Inspect's own checks do not ask of its sandbox."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from inspect_ai import Task, eval_async
from inspect_ai.approval import Approval, ApprovalPolicy, Approver, approver
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, ToolCall, tool
from inspect_ai.util import OutputLimitExceededError, SandboxUserUnsupportedError
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from ipybox import CodeExecutionError, CommandTimeout
from ipybox.integrations.inspect import IpyboxSandboxEnvironment, run_python

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def environment() -> AsyncIterator[Any]:
    made = await IpyboxSandboxEnvironment.sample_init("task", None, {})
    yield made["default"]
    await IpyboxSandboxEnvironment.sample_cleanup("task", None, made, False)


async def test_a_sample_is_sandboxed_and_removed() -> None:
    made = await IpyboxSandboxEnvironment.sample_init("task", None, {})
    environment: Any = made["default"]
    workspace: Path = environment._session.workspace
    result = await environment.exec(["sh", "-c", "pwd; echo x > /etc/x; echo x > .bashrc"])
    assert result.stdout.strip() == str(workspace) and not result.success
    assert not (workspace / ".bashrc").exists()
    await IpyboxSandboxEnvironment.sample_cleanup("task", None, made, True)
    assert not workspace.exists()
    with pytest.raises(RuntimeError):
        await environment.exec(["true"])


async def test_state_lives_as_long_as_the_sample(environment: Any) -> None:
    await environment.exec(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
    await environment.write_file("a", "1")
    assert "sleep" in (await environment.exec(["sh", "-c", "cat /proc/[0-9]*/comm; cat a"])).stdout


async def test_failures_differ(environment: Any) -> None:
    missing = await environment.exec(["no-such-program"])
    assert (missing.returncode, missing.success) == (127, False)
    with pytest.raises(CommandTimeout) as late:
        await environment.exec(["sh", "-c", "echo part; sleep 100"], timeout=1)
    assert late.value.result.stdout == b"part\n"
    with pytest.raises(OutputLimitExceededError) as long:
        await environment.exec(["sh", "-c", "echo begin; head -c 11000000 /dev/zero"])
    assert long.value.truncated_output.startswith("begin")
    with pytest.raises(SandboxUserUnsupportedError):
        await environment.exec(["true"], user="root")
    name = (await environment.exec(["id", "-un"])).stdout.strip()
    assert (await environment.exec(["true"], user=name)).success
    # The kernel is lost while a command runs.
    running = asyncio.create_task(environment.exec(["sh", "-c", "echo x > begun; sleep 100"]))
    while not (environment._session.workspace / "begun").exists():
        await asyncio.sleep(0.01)
    with pytest.raises(CodeExecutionError):
        await environment._session.executor.execute("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(SandboxUnavailableError):
        await running


async def test_configuration() -> None:
    files = {"allowWrite": ["."], "denyWrite": [], "denyRead": ["/etc/hostname"]}
    network: dict[str, list[str]] = {"allowedDomains": [], "deniedDomains": []}
    limits = {"cpuSeconds": 1}
    Path("config.json").write_text(
        json.dumps({"filesystem": files, "network": network, "limits": limits})
    )
    made = await IpyboxSandboxEnvironment.sample_init("task", os.path.abspath("config.json"), {})
    environment: Any = made["default"]
    try:
        with pytest.raises(PermissionError):
            await environment.read_file("/etc/hostname")
        result = await environment.exec(["sh", "-c", "while :; do :; done"])
        assert result.returncode > 128 and "limits.cpuSeconds" in result.stderr
    finally:
        await IpyboxSandboxEnvironment.sample_cleanup("task", None, made, False)


ordered: list[str] = []


@tool
def get_price() -> Tool:
    async def execute(item: str) -> int:
        """The price of an item.

        Args:
            item: Its name.
        """
        return {"tea": 3, "rice": 4}[item]

    return execute


@tool
def order() -> Tool:
    async def execute(item: str, amount: int = 1) -> str:
        """Orders an item.

        Args:
            item: Its name.
            amount: How many.
        """
        ordered.append(f"{amount} {item}")
        return "ordered"

    return execute


@approver
def only_tea(refusal: str = "reject") -> Approver:
    async def approve(message: Any, call: ToolCall, view: Any, history: Any) -> Approval:
        is_fine = call.function != "order" or call.arguments["item"] == "tea"
        decision: Any = "approve" if is_fine else refusal
        return Approval(decision=decision, explanation="only tea")

    return approve


async def run_cells(cells: list[str], refusal: str = "reject", timeout: float = 60) -> Any:
    """The sample of a task whose model runs the cells, one a turn."""
    ordered.clear()
    answers = [ModelOutput.for_tool_call("mockllm/model", "run_python", {"code": c}) for c in cells]
    answers.append(ModelOutput.from_content("mockllm/model", "done"))
    for answer in answers:
        answer.usage = ModelUsage()
    task = Task(
        dataset=[Sample(input="go", files={"file": "5"})],
        solver=[use_tools(run_python([get_price(), order()], timeout=timeout)), generate()],
        sandbox="ipybox",
        approval=[ApprovalPolicy(only_tea(refusal), "*")],
    )
    (log,) = await eval_async(
        task, model=get_model("mockllm/model", custom_outputs=answers), log_dir="logs"
    )
    return log.samples[0]


def tool_messages(sample: Any) -> list[Any]:
    return [message for message in sample.messages if message.role == "tool"]


async def test_cells_call_tools_and_errors_differ() -> None:
    cells = [
        "x = get_price(item='tea') + int(open('file').read())",
        "x",
        "1 / 0",
        "order('tea', 2)",
        "order('rice')",
        "print('part', flush=True)\nwhile True: pass",
        "x",
        "import os; os.kill(os.getpid(), 9)",
        "'x' in globals()",
    ]
    messages = tool_messages(await run_cells(cells, timeout=1))
    kinds = [message.error.type if message.error else None for message in messages]
    assert kinds == [
        None,
        None,
        None,
        None,
        "approval",
        "timeout",
        None,
        "sandbox_unavailable",
        None,
    ]
    assert messages[1].text == "8" and "ZeroDivisionError" in messages[2].text
    assert ordered == ["2 tea"]
    assert messages[5].text.startswith("part\n") and messages[6].text == "8"
    assert messages[8].text.startswith("False")


async def test_a_policy_can_end_the_sample() -> None:
    sample = await run_cells(["order('rice')", "order('tea')"], "terminate")
    assert not ordered and len(tool_messages(sample)) <= 1


async def test_the_model_sees_what_a_command_wrote(environment: Any) -> None:
    with pytest.raises(CommandTimeout) as late:
        await environment.exec(["sh", "-c", "echo part; sleep 100"], timeout=1)
    assert late.value.truncated_output == "part\n"  # type: ignore[attr-defined]


async def test_a_limit_has_a_type_of_its_own() -> None:
    limits = {"limits": {"cpuSeconds": 1}}
    filesystem: dict[str, list[str]] = {"allowWrite": ["."], "denyWrite": [], "denyRead": []}
    network: dict[str, list[str]] = {"allowedDomains": [], "deniedDomains": []}
    config = limits | {"filesystem": filesystem, "network": network}
    Path("ipybox-sandbox.json").write_text(json.dumps(config))
    answer = ModelOutput.for_tool_call("mockllm/model", "run_python", {"code": "while True: pass"})
    end = ModelOutput.from_content("mockllm/model", "done")
    for each in (answer, end):
        each.usage = ModelUsage()
    task = Task(
        dataset=[Sample(input="go")],
        solver=[use_tools(run_python()), generate()],
        sandbox=("ipybox", os.path.abspath("ipybox-sandbox.json")),
    )
    model = get_model("mockllm/model", custom_outputs=[answer, end])
    (log,) = await eval_async(task, model=model, log_dir="logs")
    (message,) = tool_messages(log.samples[0])
    assert message.error.type == "limit" and "cpuSeconds" in message.error.message
