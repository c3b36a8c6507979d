# SPDX-License-Identifier: Apache-2.0
"""Results and errors of CodeExecutor: notices beside the text, representations as text, how a cell
ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ipybox import (
    ApprovalRequest,
    CallRefusedError,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutionTimeout,
    CodeExecutor,
    KernelLostError,
    LimitExceededError,
)
from meeting import DIE, Meeting, run_while_idle, wait_until_reaped

KILLED = "[ipybox] while idle, the kernel was killed by SIGKILL"


async def die_while_idle(executor: CodeExecutor) -> None:
    """Kills the kernel while no cell runs. The next cell has a notice."""
    go = Meeting(Path("go").absolute())
    pid = (await executor.execute(run_while_idle(go, DIE))).text
    go.wait()
    wait_until_reaped(pid)


@asynccontextmanager
async def executor_with_notice() -> AsyncIterator[CodeExecutor]:
    async with CodeExecutor() as executor:
        await die_while_idle(executor)
        yield executor


def assert_killed(notices: list[str]) -> None:
    (notice,) = notices
    assert notice.startswith(KILLED) and "\n" not in notice


async def begin(executor: CodeExecutor, code: str) -> AsyncGenerator[object, None]:
    """The stream of a cell that has printed something."""
    stream = executor.stream(code, chunks=True)
    await stream.__anext__()
    return stream


async def begin_task(executor: CodeExecutor) -> asyncio.Task[CodeExecutionResult]:
    """The task of a cell that never ends, once it has started."""
    begun = Meeting(Path("begun").absolute())
    task = asyncio.create_task(_await(executor.execute(f"{begun.code}\n{FOREVER}")))
    await asyncio.to_thread(begun.wait)
    return task


FOREVER = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"


async def test_notices_are_beside_the_text() -> None:
    async with executor_with_notice() as executor:
        result = await executor.execute("import json; print(json.dumps({'a': 1}))")
        assert json.loads(result.text or "") == {"a": 1}
        assert_killed(result.notices)
        assert (await executor.execute("1")).notices == []


async def test_notices_of_an_error_and_of_a_timeout() -> None:
    async with executor_with_notice() as executor:
        with pytest.raises(CodeExecutionError) as failed:
            await executor.execute("print('{}'); 1/0")
        assert failed.value.output == "{}"
        assert_killed(failed.value.notices)
        await die_while_idle(executor)
        with pytest.raises(TimeoutError) as late:
            await executor.execute(FOREVER, timeout=0.5)
        assert isinstance(late.value, CodeExecutionTimeout) and isinstance(
            late.value, asyncio.TimeoutError
        )
        assert late.value.output == "begun"
        assert_killed(late.value.notices)
        assert (await executor.execute("1")).notices == []


@pytest.mark.parametrize("end", ["cancel", "aclose", "task"])
async def test_notices_that_reached_nobody_come_with_the_next_result(end: str) -> None:
    async with executor_with_notice() as executor:
        if end == "task":
            task = await begin_task(executor)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            stream = await begin(executor, FOREVER)
            if end == "cancel":
                executor.cancel()
                assert [
                    item async for item in stream if isinstance(item, CodeExecutionResult)
                ] == []
            else:
                await stream.aclose()
        # Neither does a notice of the next cell, if that result is not read.
        stream = await begin(executor, FOREVER)
        await stream.aclose()
        assert_killed((await executor.execute("1")).notices)
        assert (await executor.execute("1")).notices == []


async def test_a_cancellation_that_is_told_has_the_notices() -> None:
    async with executor_with_notice() as executor:
        running = await begin_task(executor)
        executor.cancel()
        result = await running
        assert result.is_cancelled and result == CodeExecutionResult(text=None, images=[])
        assert_killed(result.notices)
        assert (await executor.execute("1")).notices == []


async def test_violations_are_no_text_and_are_kept() -> None:
    read = "try: open('/etc/passwd', 'a')\nexcept OSError as error: pass\n"
    fail = "open('/etc/ipybox-test', 'w')"
    async with CodeExecutor(sandbox=True) as executor:
        with pytest.raises(CodeExecutionError) as failed:
            await executor.execute(f"print('{{}}')\n{fail}")
        assert failed.value.output == "{}"
        assert failed.value.violations and failed.value.violations == failed.value.notices
        stream = await begin(executor, read + "print('x', flush=True)\n" + fail + "\n" + FOREVER)
        items = []
        with pytest.raises(CodeExecutionError) as failed:
            items = [item async for item in stream]
        assert failed.value.output == "x" and failed.value.violations
        assert items == []


async def test_the_line_of_working_dir_is_in_the_text() -> None:
    """As in ipybox 0.9."""
    async with CodeExecutor(working_dir=Path.cwd()) as executor:
        result = await executor.execute("import os; os.chdir('/'); print('there')")
        line = f"[ipybox] cwd reset to {Path.cwd()}"
        assert (result.text, result.notices) == (f"there\n{line}", [line])


async def test_a_value_that_cannot_be_shown_is_an_error() -> None:
    async with CodeExecutor() as executor:
        with pytest.raises(CodeExecutionError, match="ValueError: no repr") as failed:
            await executor.execute(
                "class A:\n    def __repr__(self): raise ValueError('no repr')\n"
                "print('before')\nx = A()\nx"
            )
        assert (failed.value.name, failed.value.value, failed.value.output) == (
            "ValueError",
            "no repr",
            "before",
        )
        with pytest.raises(CodeExecutionError, match="no html") as failed:
            await executor.execute(
                "class B:\n    def _repr_html_(self): raise ValueError('no html')\n"
                "    __repr__ = lambda self: 'B!'\nB()"
            )
        assert failed.value.output == "B!" and failed.value.display_data[0].data == {
            "text/plain": "B!"
        }
        for code in ("[x]", "import asyncio\nawait asyncio.sleep(0)\nx", "{1: x}"):
            with pytest.raises(CodeExecutionError, match="no repr"):
                await executor.execute(code)
        # They are not the value of the cell: they are reported, and the cell continues.
        for code in ("display(x)\nprint('after')", "get_ipython().run_cell('x')\nprint('after')"):
            text = (await executor.execute(code)).text or ""
            assert "no repr" in text and text.endswith("after")
        # The end of a cell counts, not failures before it.
        await executor.execute("get_ipython().ast_node_interactivity = 'all'")
        with pytest.raises(CodeExecutionError) as failed:
            await executor.execute("x\nprint('after')\n1/0")
        assert (failed.value.name, failed.value.output) == ("ZeroDivisionError", "after")
        with pytest.raises(CodeExecutionError, match="no repr"):
            await executor.execute("x\nprint('after')")


async def test_representations_as_text() -> None:
    async with CodeExecutor() as executor:
        await executor.execute("from IPython.display import *")
        for code, text in (
            ("Markdown('# Title\\n*m*')", "# Title\n*m*"),
            ("Latex(r'$\\frac{1}{2}$')", "$\\frac{1}{2}$"),
            ("HTML('<h1>a</h1><p>b &amp; <i>c</i></p>')", "a\nb & c"),
            ("display(Markdown('m'))\nprint('p')", "mp"),
            ("display({'text/html': '<b>raw</b>'}, raw=True)", "raw"),
            ("IFrame('https://example.org', 1, 1)", None),
        ):
            result = await executor.execute(code)
            assert (
                result.text == text
                if text
                else (result.text or "").startswith("<IPython.lib.display.IFrame")
            ), code
        result = await executor.execute("Markdown('m')")
        assert result.display_data[0].data == {
            "text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "m",
        }  # fmt: skip


async def test_how_a_timeout_leaves_the_kernel() -> None:
    async with CodeExecutor() as executor:
        await executor.execute("x = 1")
        start = r"^Code execution exceeded timeout of 0.50s \(approval wait excluded\)\. "
        with pytest.raises(
            TimeoutError, match=start + "The cell was interrupted; variables are kept.$"
        ):
            await executor.execute("import time; time.sleep(1000)", timeout=0.5)
        assert (await executor.execute("x")).text == "1"
        ignore = (
            "import signal, time\n"
            "for s in (signal.SIGINT, signal.SIGRTMIN + 6): signal.signal(s, signal.SIG_IGN)\n"
        )
        with pytest.raises(
            TimeoutError,
            match=start + "The kernel is gone; variables are lost: .* the kernel was killed",
        ):
            await executor.execute(ignore + "while True: time.sleep(1)", timeout=0.5)
        assert (await executor.execute("'x' in globals()")).text == "False"


async def test_why_a_cell_has_failed() -> None:
    def act() -> None:
        raise AssertionError("it is not approved")

    async def error_of(code: str) -> CodeExecutionError:
        with pytest.raises(CodeExecutionError) as caught:
            async for item in executor.stream(code):
                assert isinstance(item, ApprovalRequest)
                await item.reject()
        return caught.value

    async with CodeExecutor(sandbox=True, limits={"cpuSeconds": 1}, tools=[act]) as executor:
        assert type(await error_of("1 / 0")) is CodeExecutionError
        refused = await error_of("from mcptools.app import act; act.run()")
        assert type(refused) is CallRefusedError and refused.name == "ApprovalRejectedError"
        assert type(await error_of("import os; os._exit(1)")) is KernelLostError
        # However the end of the sandbox and of the kernel are reported.
        for _ in range(5):
            limited = await error_of("while True: pass")
            assert type(limited) is LimitExceededError and "limits.cpuSeconds is 1" in str(limited)
        code = "print('x', flush=True); import time; time.sleep(1000)"
        begun = executor.stream(code, chunks=True)
        await anext(begun)
        await executor.reset()
        with pytest.raises(KernelLostError, match="reset"):
            await anext(begun)


async def test_an_interrupt_that_the_cell_handles() -> None:
    """The cell continues. The timeout and the cancellation remain what they are."""
    code = (
        "try:\n    import time\n    print('begun', flush=True)\n    time.sleep(1000)\n"
        "except KeyboardInterrupt: x = 'handled'"
    )
    async with CodeExecutor() as executor:
        with pytest.raises(TimeoutError, match="variables are kept"):
            await executor.execute(code, timeout=0.5)
        assert (await executor.execute("x")).text == "'handled'"
        await executor.execute("del x")
        stream = await begin(executor, code)
        executor.cancel()
        assert [item async for item in stream] == []
        assert (await executor.execute("x")).text == "'handled'"
        pid = int((await executor.execute("import os; os.getpid()")).text or "")
        # If another caller interrupts, the cell is ok.
        stream = await begin(executor, code)
        os.kill(pid, signal.SIGINT)
        (result,) = [item async for item in stream]
        assert isinstance(result, CodeExecutionResult) and result.text == "begun"


async def test_what_is_cut_is_the_middle() -> None:
    async with CodeExecutor() as executor:
        result = await executor.execute("print('head'); print('x' * (17 << 20)); print('tail')")
        assert result.is_truncated and result.text is not None
        n_all = (17 << 20) + 10
        gap = f"\n\n[Output cut here: {n_all - (16 << 20)} of {n_all} characters left out]\n\n"
        assert (
            result.text.startswith("head\nx")
            and result.text.endswith("x\ntail")
            and gap in result.text
        )
        assert len(result.text) == (16 << 20) + len(gap)


async def _await(execution: object) -> CodeExecutionResult:
    return await execution  # type: ignore[misc]
