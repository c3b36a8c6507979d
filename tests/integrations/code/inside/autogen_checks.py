# SPDX-License-Identifier: Apache-2.0
"""The executor for AutoGen, alone; examples/autogen_coder.py runs it in an agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor
from autogen_core.tools import FunctionTool
from ipybox import (
    ApprovalRequest,
    CallRefusedError,
    CodeExecutionError,
    CodeExecutionTimeout,
    KernelLostError,
    LimitExceededError,
)
from ipybox.integrations.autogen import IpyboxCodeExecutor, IpyboxCodeResult


async def run(executor: IpyboxCodeExecutor, *codes: str) -> IpyboxCodeResult:
    blocks = [CodeBlock(code=code, language="python") for code in codes]
    return await executor.execute_code_blocks(blocks, CancellationToken())


async def look_up(city: str, days: int = 1) -> dict[str, Any]:
    """The weather."""
    return {"city": city, "days": days}


def add(a: int, b: int) -> int:
    return a + b


async def test_how_blocks_end() -> None:
    async with IpyboxCodeExecutor(timeout=100, limits={"cpuSeconds": 2}) as executor:
        result = await run(executor, "x = 1\nprint(x)", "x + 1")
        assert (result.exit_code, result.output, result.error) == (0, "1\n\n2", None)
        result = await run(executor, "print('a')", "print('b'); 1 / 0", "print('never')")
        assert result.exit_code == 1 and type(result.error) is CodeExecutionError
        assert result.output.startswith("a\n\nb\n\n-----")
        assert result.output.endswith("ZeroDivisionError: division by zero")
        result = await run(executor, "import os; os._exit(1)")
        assert result.exit_code == 137 and type(result.error) is KernelLostError
        result = await run(executor, "while True: pass")
        assert result.exit_code == 137 and isinstance(result.error, LimitExceededError)
        result = await run(executor, "'x' in globals()")
        assert (result.exit_code, result.output) == (0, "False")
        block = CodeBlock(code="ls", language="sh")
        result = await executor.execute_code_blocks([block], CancellationToken())
        assert (result.exit_code, "Python only, not 'sh'" in result.output) == (127, True)


async def test_a_timeout_has_the_output() -> None:
    async with IpyboxCodeExecutor(timeout=1) as executor:
        with pytest.raises(asyncio.TimeoutError, match="first\n\nso far\n.*are kept") as caught:
            late = "import time; x = 1; print('so far', flush=True); time.sleep(1000)"
            await run(executor, "print('first')", late)
        assert isinstance(caught.value, CodeExecutionTimeout)
        assert caught.value.output == "so far"
        assert (await run(executor, "x")).output == "1"


async def test_cancellation_keeps_variables() -> None:
    async with IpyboxCodeExecutor(timeout=None) as executor:
        await run(executor, "x = 1")
        token = CancellationToken()
        code = "open('begun', 'w').close(); import time; time.sleep(1000)"
        blocks = [CodeBlock(code=code, language="python")]
        task = asyncio.create_task(executor.execute_code_blocks(blocks, token))
        assert executor.workspace is not None
        while not (executor.workspace / "begun").exists():
            await asyncio.sleep(0.01)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await run(executor, "x")).output == "1"


async def test_tools_and_approvals() -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(str(request))
        return request.tool_args.get("city") != "Paris"

    tools = [look_up, FunctionTool(add, "Adds.", name="plus")]
    async with IpyboxCodeExecutor(tools=tools, approve=approve) as executor:
        calls = ["look_up('Rome')", "look_up(city='Oslo', days=2)", "plus(1, 2)"]
        result = await run(executor, *calls)
        assert result.output == "\n".join(
            ["{'city': 'Rome', 'days': 1}", "{'city': 'Oslo', 'days': 2}", "3"]
        )
        result = await run(executor, "look_up('Paris')")
        assert result.exit_code == 126 and isinstance(result.error, CallRefusedError)
        result = await run(executor, "plus(1, 'x')")
        assert result.exit_code == 1 and "ValidationError" in result.output
        assert len(asked) == 5
        # A fresh kernel has them, too.
        await executor.restart()
        assert (await run(executor, "plus(2, 2)")).output == "4"
        await run(executor, "import os; os._exit(0)")
        assert (await run(executor, "plus(2, 3)")).output == "5"
        with pytest.raises(ValueError, match="cannot be written to a configuration"):
            executor.dump_component()


async def test_files(tmp_path: Path) -> None:
    show = "from IPython.display import *\nfrom PIL import Image\ndisplay(HTML('<b>x</b>'))\n"
    async with IpyboxCodeExecutor(output_dir=tmp_path / "out", workspace=tmp_path) as executor:
        result = await run(executor, show + "Image.new('RGB', (3, 2))")
        assert sorted(path.suffix for path in result.output_files) == [".html", ".png"]
        assert {path.parent for path in result.output_files} == {tmp_path / "out"}
        html = next(path for path in result.output_files if path.suffix == ".html")
        assert html.read_text() == "<b>x</b>"
        await run(executor, "open('kept', 'w').close()")
    assert (tmp_path / "kept").exists()


async def test_it_is_sandboxed(outside: Path) -> None:
    write = f"open({str(outside / 'w')!r}, 'w').close()"
    async with IpyboxCodeExecutor() as executor:
        assert (await run(executor, write)).exit_code == 1
    assert not (outside / "w").exists()
    async with IpyboxCodeExecutor(sandbox=False) as executor:
        assert (await run(executor, write)).exit_code == 0
    assert (outside / "w").exists()


async def test_start_and_stop() -> None:
    executor = IpyboxCodeExecutor()
    with pytest.raises(RuntimeError, match="must be started"):
        await run(executor, "1")
    for _ in range(2):
        await executor.start()
        await executor.start()
        workspace = executor.workspace
        assert workspace is not None and workspace.exists()
        await executor.stop()
        await executor.stop()
        assert not workspace.exists()


async def test_configuration(tmp_path: Path) -> None:
    made = IpyboxCodeExecutor(
        timeout=7, workspace=tmp_path, output_dir=tmp_path / "out", limits={"processes": 20}
    )
    loaded = CodeExecutor.load_component(made.dump_component())
    assert isinstance(loaded, IpyboxCodeExecutor)
    assert loaded.dump_component() == made.dump_component()
    async with loaded:
        assert (await run(loaded, "import os; os.getcwd()")).output == repr(str(tmp_path))


@pytest.mark.parametrize("options", [{"timeout": -1}, {"timeout": "x"}, {"undo": -1}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        IpyboxCodeExecutor(**options)
    with pytest.raises(TypeError):
        IpyboxCodeExecutor(no_such_option=1)
