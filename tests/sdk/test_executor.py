# SPDX-License-Identifier: Apache-2.0
"""CodeExecutor beyond the examples: its end, cancellations, loops, threads, forks, and what only
ipybox 1.0 has.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import logging
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import harness
import pytest
import scripted_server
from ipybox import (
    CodeExecutionChunk,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutionTimeout,
    CodeExecutor,
    DisplayData,
    MCPClient,
    Variables,
    generate_mcp_sources,
)
from ipybox.core import Core, CoreDiedError, CoreError, acquire_core, client, close_core
from ipybox.utils import arun
from meeting import Meeting
from server_process import free_port

FOREVER = "import time\nprint('begun', flush=True)\ntime.sleep(1000)"


async def begin(executor: CodeExecutor, code: str = FOREVER) -> asyncio.Task[list[object]]:
    """A task that runs a cell; when this returns, the cell has printed something."""
    begun = asyncio.Event()

    async def run() -> list[object]:
        items: list[object] = []
        async for item in executor.stream(code, chunks=True):
            items.append(item)
            begun.set()
        return items

    task = asyncio.create_task(run())
    waiter = asyncio.create_task(begun.wait())
    await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    return task


# Its life


async def test_not_started() -> None:
    executor = CodeExecutor()
    with pytest.raises(RuntimeError, match="^Not connected to kernel"):
        await executor.execute("1")
    with pytest.raises(RuntimeError, match="^Not connected to kernel"):
        await anext(executor.stream("1"))
    with pytest.raises(RuntimeError):
        await executor.reset()
    executor.cancel()
    await executor.stop()


async def test_started_twice_stopped_twice_started_again() -> None:
    executor = CodeExecutor()
    await executor.start()
    with pytest.raises(RuntimeError, match="already started"):
        await executor.start()
    await executor.execute("x = 1")
    await executor.stop()
    await executor.stop()
    with pytest.raises(RuntimeError):
        await executor.execute("x")
    async with executor:
        with pytest.raises(CodeExecutionError, match="NameError"):
            await executor.execute("x")


@pytest.mark.parametrize("end", ["stop", "reset"])
async def test_end_in_the_middle_of_a_cell(end: str) -> None:
    async with CodeExecutor() as executor:
        task = await begin(executor)
        waiting = asyncio.create_task(executor.execute("1"))
        await asyncio.sleep(0)
        await getattr(executor, end)()
        for each in (task, waiting):
            with pytest.raises(CodeExecutionError, match="was (stopped|reset)"):
                await each
        if end == "reset":
            assert (await executor.execute("'time' in dir()")).text == "False"


async def test_a_stop_that_is_cancelled_still_stops() -> None:
    executor = CodeExecutor()
    await executor.start()
    task = await begin(executor)
    stop = asyncio.create_task(executor.stop())
    await asyncio.sleep(0)
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stop
    with pytest.raises(CodeExecutionError):
        await task


async def test_stopped_while_it_starts() -> None:
    executor = CodeExecutor()
    start = asyncio.create_task(executor.start())
    await asyncio.sleep(0)
    await executor.stop()
    with pytest.raises(RuntimeError, match="stopped while it started"):
        await start


async def test_a_start_that_fails_leaves_nothing() -> None:
    for options in (
        {"python": "/nowhere/python"},
        {"seed": -1},
        {"sandbox": True, "sandbox_config": Path(__file__)},
    ):
        executor = CodeExecutor(**options)
        with pytest.raises(CoreError):
            await executor.start()
        with pytest.raises(RuntimeError):
            await executor.execute("1")


async def test_a_python_that_hangs(workspace: Path) -> None:
    """It reads from a pipe to which nothing is written."""
    os.mkfifo(workspace / "never")
    python = workspace / "python"
    python.write_text(f"#!/bin/sh\nread line <{workspace}/never\n")
    python.chmod(0o755)
    for sandbox in (False, True):
        executor = CodeExecutor(python=python, kernel_init_timeout=0.5, sandbox=sandbox)
        for _ in range(2):
            with pytest.raises(
                TimeoutError, match="not ready within 0.5 s, the limit kernel_init_timeout"
            ):
                await executor.start()
    close_core()  # ends what hangs


async def test_one_limit_for_the_whole_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gets what the start of the core and `session.open` left of the limit."""
    asked: list[Any] = []
    call = Core.call

    async def record(
        core: Core, method: str, params: dict[str, Any], *args: Any, **more: Any
    ) -> Any:
        asked.append((method, params))
        return await call(core, method, params, *args, **more)

    monkeypatch.setattr(Core, "call", record)
    clock = iter((100.0, 103.5))
    monkeypatch.setattr("ipybox.core_session.time", SimpleNamespace(monotonic=lambda: next(clock)))
    async with CodeExecutor(kernel_init_timeout=60):
        assert asked[-1][0] == "session.start"
        assert asked[-1][1]["timeout"] == 56.5
    async with CodeExecutor(kernel_init_timeout=float("inf")):
        assert asked[-1][0] == "session.start"
        assert "timeout" not in asked[-1][1]


async def test_parameters_are_attributes(workspace: Path) -> None:
    given: dict[str, Any] = {
        "tool_server_host": "127.0.0.1",
        "kernel_gateway_host": "127.0.0.1",
        "kernel_env": {"A": "1"},
        "working_dir": workspace,
        "images_dir": Path("i"),
        "approval_timeout": 7,
        "connect_timeout": 31,
        "kernel_init_timeout": 60,
        "sandbox": False,
        "sandbox_config": None,
        "log_level": "INFO",
        "approve_tool_calls": False,
        "approve_shell_cmds": True,
        "require_shell_escape": True,
    }
    executor = CodeExecutor(**given)
    assert {name: getattr(executor, name) for name in given} == given
    assert (CodeExecutor().connect_timeout, CodeExecutor().kernel_init_timeout) == (30, 10)
    executor.kernel_env["A"] = "2"
    async with executor:
        assert (await executor.execute("import os; os.environ['A']")).text == "'2'"
    executor.connect_timeout = -1
    with pytest.raises(ValueError, match="connect_timeout"):
        await executor.start()


def test_options_that_make_no_sense() -> None:
    for options in (
        {"approval_timeout": -1},
        {"connect_timeout": float("nan")},
        {"kernel_init_timeout": 0},
        {"approval_timeout": "5"},
        {"log_level": "LOUD"},
        {"log_level": 10},
        {"require_shell_escape": True},
    ):
        with pytest.raises(ValueError):
            CodeExecutor(**options)  # type: ignore[arg-type]


async def test_what_is_not_utf8(workspace: Path) -> None:
    """The bytes of a variable reach the kernel; a directory is refused."""
    async with CodeExecutor(kernel_env={"NAME": "\udce9\u00e9"}) as executor:
        result = await executor.execute("import os; os.environb[b'NAME']")
        assert result.text == repr(b"\xe9\xc3\xa9")
    place = os.fsencode(workspace) + b"/caf\xe9"
    os.mkdir(place)
    os.chdir(place)
    with pytest.raises(ValueError, match="workspace must be a path in UTF-8"):
        await CodeExecutor().start()


async def test_python_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is searched in PATH, as everywhere."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    async with CodeExecutor(python=Path(sys.executable).name, preload="json") as executor:
        assert (await executor.execute("import sys; print(sys.prefix)")).text == sys.prefix


def n_forgotten(caught: list[warnings.WarningMessage]) -> int:
    """Counts warnings of this test only; garbage of other tests may warn, too."""
    return sum(
        each.category is ResourceWarning and "was not stopped" in str(each.message)
        for each in caught
    )


async def test_one_that_was_forgotten() -> None:
    executor = CodeExecutor()
    await executor.start()
    gc.collect()  # what other tests left
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del executor
        gc.collect()
    assert n_forgotten(caught) == 1


async def test_forgotten_at_a_bad_moment() -> None:
    """The garbage collector may run in a thread that holds our locks."""
    executor = CodeExecutor()
    mcp = MCPClient(scripted_server.params("work"))
    await executor.start()
    await mcp.start()
    core = acquire_core()
    gc.collect()  # what other tests left
    with warnings.catch_warnings(record=True) as caught, core._lock, core._process._lock:
        warnings.simplefilter("always")
        del executor, mcp
        gc.collect()
    core.release()
    assert n_forgotten(caught) == 2
    # The fixture checks after each test that they have ended.


# Cells


async def test_awaitable_in_all_ways() -> None:
    async with CodeExecutor() as executor:
        results = await asyncio.gather(*(executor.execute(f"{n}") for n in range(20)))
        assert [result.text for result in results] == [str(n) for n in range(20)]
        assert (await asyncio.create_task(executor.execute("1"))).text == "1"
        assert (await asyncio.wait_for(executor.execute("2"), 60)).text == "2"
        assert (await asyncio.shield(executor.execute("3"))).text == "3"
        executor.execute("4").close()
        with pytest.warns(RuntimeWarning, match="'CodeExecutor.execute' was never awaited"):
            executor.execute("5")
        used = executor.execute("6")
        assert (await used).text == "6"
        with pytest.raises(RuntimeError, match="already awaited"):
            await used


async def test_execute_is_a_coroutine_function() -> None:
    """Frameworks that take functions as tools check that, and so do mocks."""
    is_coroutine_function = (
        inspect.iscoroutinefunction if sys.version_info >= (3, 12) else asyncio.iscoroutinefunction
    )
    assert is_coroutine_function(CodeExecutor.execute)
    assert is_coroutine_function(CodeExecutor().execute)
    mock = create_autospec(CodeExecutor)
    mock.execute.return_value = CodeExecutionResult("1", [])
    assert (await mock.execute("1")).text == "1"


async def test_results_are_as_the_originals() -> None:
    async with CodeExecutor() as executor:
        for code, text in (
            ("x = 1", None),
            ("print('  ')", ""),
            ("print('a\\nb')\n3", "a\nb\n3"),
            ("import sys; print('out'); print('err', file=sys.stderr)", "out\nerr"),
            ("import asyncio; await asyncio.sleep(0); 'top'", "'top'"),
            ("print('\\x00\\ud800'.encode('utf-8', 'surrogatepass'))", r"b'\x00\xed\xa0\x80'"),
        ):
            assert await executor.execute(code) == CodeExecutionResult(text=text, images=[]), code
        match await executor.execute("7"):
            case CodeExecutionResult(text, images):
                assert (text, images) == ("7", [])


async def test_text_and_its_white_space() -> None:
    async with CodeExecutor() as executor:
        result = await executor.execute("print('   a  b')\nprint('0  1  2')")
        assert (result.text, result.raw_text) == ("a  b\n0  1  2", "   a  b\n0  1  2\n")
        result = await executor.execute(
            "print('\\xa0x\\v')"
        )  # white space of Unicode, as in ipybox 0.9
        assert (result.text, result.raw_text) == ("x", "\xa0x\v\n")
        result = await executor.execute("x = 1")
        assert (result.text, result.raw_text, result.is_cancelled) == (None, None, False)


async def test_errors() -> None:
    async with CodeExecutor() as executor:
        with pytest.raises(CodeExecutionError) as caught:
            await executor.execute("print('before')\nraise ValueError('bad')")
        error = caught.value
        assert error.args == (str(error),)
        assert str(error).startswith("ValueError: bad\n" + "-" * 75 + "\nValueError ")
        assert (error.name, error.value, error.output) == ("ValueError", "bad", "before")
        with pytest.raises(CodeExecutionError, match="the kernel ended with exit status 3"):
            await executor.execute("import os; os._exit(3)")
        assert (await executor.execute("1")).text == "1"
        with pytest.raises((CodeExecutionError, CoreError)):
            await executor.execute("'\ud800'")
        with pytest.raises(ValueError):
            await executor.execute("1", timeout=-1)
        assert (await executor.execute("1", timeout=float("inf"))).text == "1"


async def test_display_data() -> None:
    async with CodeExecutor() as executor:
        result = await executor.execute(
            "from IPython.display import display\n"
            "display({'text/plain': 'plain', 'text/html': '<b>', 'application/json': {'a': "
            "[1]}}, raw=True, metadata={'m': 1})\n5"
        )
        assert result.text == "plain5"
        assert result.display_data[0] == DisplayData(
            {"text/plain": "plain", "text/html": "<b>", "application/json": {"a": [1]}}, {"m": 1}
        )
        assert result.display_data[1].data == {"text/plain": "5"}
        assert result.violations == []


async def test_displays_that_are_nested_deep() -> None:
    code = (
        "x = 1\nfor _ in range({depth}): x = [x]\ndisplay({{'application/json': x}}, raw=True)\n"
        "kept = {depth}"
    )
    async with CodeExecutor() as executor:
        for depth in (150, 250, 400, 3000, 100_000):
            result = await executor.execute(code.format(depth=depth))
            value, n_lists = result.display_data[0].data["application/json"], 0
            while isinstance(value, list):
                value, n_lists = value[0], n_lists + 1
            assert (value, n_lists) == (1, depth) if depth == 150 else isinstance(value, str)
            assert (await executor.execute("kept")).text == str(depth)


async def test_displays_of_many_values() -> None:
    code = "display({{'application/json': {value}}}, raw=True)\nkept = 1"
    async with CodeExecutor() as executor:
        for value, shown in (
            ("[0] * 2_100_000", "2100001 values, more than can be sent"),
            ("['[{,' * 700_000]", ["[{," * 700_000]),
        ):
            result = await executor.execute(code.format(value=value))
            assert result.display_data[0].data["application/json"] == shown
            assert (await executor.execute("kept")).text == "1"


async def test_violations() -> None:
    network = {"allowedDomains": ["allowed.test"], "deniedDomains": []}
    Path("sandbox.json").write_text(
        json.dumps(
            {
                "network": network,
                "filesystem": {"allowWrite": ["."], "denyWrite": [], "denyRead": []},
            }
        )
    )
    async with CodeExecutor(sandbox=True, sandbox_config=Path("sandbox.json")) as executor:
        result = await executor.execute(
            "import socket\ntry:\n    socket.create_connection(('example.org', 80))\n"
            "except OSError: pass"
        )
        assert any("example.org" in violation for violation in result.violations), result


async def test_a_sandbox_configuration_that_is_not_there() -> None:
    """The default is never used instead: it may allow what the configuration denies.

    Without a sandbox the configuration is not read, as in ipybox 0.9.
    """
    async with CodeExecutor(sandbox=False, sandbox_config=Path("nosuch.json")) as executor:
        assert (await executor.execute("1")).text == "1"
    with pytest.raises(
        CoreError, match="the sandbox configuration .*nosuch.json does not exist: create it"
    ):
        await CodeExecutor(sandbox=True, sandbox_config=Path("nosuch.json")).start()


async def test_seed_and_preload() -> None:
    texts = []
    for _ in range(2):
        async with CodeExecutor(seed=7, preload=["colorsys"]) as executor:
            texts.append(
                (
                    await executor.execute(
                        "import random, sys; print(random.random(), 'colorsys' in sys.modules)"
                    )
                ).text
            )
    assert texts[0] == texts[1] and texts[0] is not None and texts[0].endswith("True")


async def test_large_texts() -> None:
    async with CodeExecutor() as executor:
        result = await executor.execute("print('x' * 16_000_000)")
        assert result.text == "x" * 16_000_000 and not result.is_truncated
        assert (await executor.execute("print('x' * 17_000_000)")).is_truncated
        chunks = [
            item async for item in executor.stream("for i in range(200_000): print(i)", chunks=True)
        ]
        result = chunks.pop()
        assert isinstance(result, CodeExecutionResult)
        text = "".join(chunk.text for chunk in chunks if isinstance(chunk, CodeExecutionChunk))
        assert text == "".join(f"{n}\n" for n in range(200_000))
        assert result.text == text.rstrip()


async def test_a_stream_that_is_not_read_makes_its_kernel_wait(workspace: Path) -> None:
    """Other kernels do not wait: one runs cells for longer than the first would have taken."""
    code = "for i in range(100_000): print(f'{i:0999}')\nopen('done', 'w').close()"
    async with CodeExecutor() as slow, CodeExecutor() as quick:
        items = slow.stream(code, chunks=True)
        first = await anext(items)
        assert isinstance(first, CodeExecutionChunk)
        n_chars = len(first.text)
        for _ in range(400):
            await quick.execute("x = 1")
        assert not (workspace / "done").exists()
        async for item in items:
            if isinstance(item, CodeExecutionChunk):
                n_chars += len(item.text)
        assert n_chars == 100_000 * 1000
        assert (workspace / "done").exists()


async def test_a_paused_cell_can_be_ended() -> None:
    code = "for i in range(100_000): print(f'{i:0999}')"
    async with CodeExecutor() as executor:
        for end in ("cancel", "aclose", "reset"):
            items = executor.stream(code, chunks=True)
            await anext(items)
            for _ in range(3):
                await asyncio.sleep(0.05)
            if end == "cancel":
                executor.cancel()
                rest = [item async for item in items]
                assert all(isinstance(item, CodeExecutionChunk) for item in rest)
            elif end == "aclose":
                await items.aclose()
            else:
                await executor.reset()
                with pytest.raises(CodeExecutionError):
                    async for _ in items:
                        pass
            assert (await executor.execute("1")).text == "1"


async def test_leaving_a_stream_interrupts_its_cell() -> None:
    async with CodeExecutor() as executor:
        async for _ in executor.stream("x = 5\n" + FOREVER, chunks=True):
            break
        assert (await executor.execute("x", timeout=60)).text == "5"


async def test_cancel_interrupts_only_the_running_cell() -> None:
    async with CodeExecutor() as executor:
        task = await begin(executor)
        waiting = asyncio.create_task(executor.execute("'next'"))
        running = await asyncio.sleep(0, executor)
        running.cancel()
        assert await task == [CodeExecutionChunk("begun\n")]
        assert (await waiting).text == "'next'"
        begun = Meeting(Path("begun").absolute())
        task2 = asyncio.create_task(executor.execute(f"{begun.code}\n{FOREVER}"))
        await asyncio.to_thread(begun.wait)
        executor.cancel()
        result = await task2
        assert result == CodeExecutionResult(text=None, images=[])
        assert result.is_cancelled


async def test_cancelled_tasks_at_any_point() -> None:
    """Nothing is left of a cancelled task, which the fixture checks, and other tasks continue."""
    draw = random.Random(7)

    async def whole() -> None:
        async with CodeExecutor() as executor:
            await executor.execute("x = 1")
            async for _ in executor.stream("for i in range(100): print(i)", chunks=True):
                pass
            await executor.reset()
            await executor.execute("import time; time.sleep(0.02)")

    async with CodeExecutor() as other:
        await other.execute("x = 3")
        for _ in range(4):
            tasks = [asyncio.create_task(whole()) for _ in range(6)]
            for task in tasks:
                await asyncio.sleep(draw.random() * 0.05)
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends), ends
        assert (await other.execute("x")).text == "3"


# Loops, threads, processes


def test_one_executor_in_several_loops() -> None:
    executor = CodeExecutor()
    asyncio.run(executor.start())

    async def cell(code: str) -> str | None:
        return (await executor.execute(code)).text

    asyncio.run(cell("x = 1"))
    assert asyncio.run(cell("x")) == "1"
    asyncio.run(executor.stop())


def test_loops_in_threads() -> None:
    texts: dict[int, str | None] = {}

    async def work(number: int) -> None:
        async with CodeExecutor() as executor:
            await executor.execute(f"x = {number}")
            await asyncio.gather(*(executor.execute("x += 1") for _ in range(10)))
            texts[number] = (await executor.execute("x")).text

    threads = [threading.Thread(target=lambda n=n: asyncio.run(work(n))) for n in range(0, 80, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {n: str(n + 10) for n in range(0, 80, 10)}


async def test_fork() -> None:
    async with CodeExecutor() as executor:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                # As multiprocessing does it: no loop of the parent is used.
                asyncio.events._set_running_loop(None)

                async def main() -> None:
                    with pytest.raises(CoreError, match="forked from"):
                        await executor.execute("1")
                    executor.cancel()
                    await executor.stop()

                asyncio.run(main())
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (await executor.execute("1")).text == "1"


async def test_the_core_dies() -> None:
    async with CodeExecutor() as executor:
        task = await begin(executor)
        core = acquire_core()
        os.kill(core.pid, signal.SIGKILL)
        core.release()
        with pytest.raises(CoreDiedError, match="ended unexpectedly .killed by signal 9."):
            await task
        for use in (lambda: executor.execute("1"), executor.reset):
            with pytest.raises(CoreDiedError):
                await use()
        executor.cancel()
        await executor.stop()
        async with executor:
            assert (await executor.execute("1")).text == "1"


PROGRAM = """
import asyncio, os, sys
from ipybox import CodeExecutor
from ipybox.core import acquire_core

async def main():
    executor = CodeExecutor()
    await executor.start()
    print(acquire_core().pid, flush=True)
    HOW

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("how", "number"),
    [
        ("await asyncio.sleep(1000)", signal.SIGKILL),
        ("await asyncio.sleep(1000)", signal.SIGINT),
        ("await executor.execute('import time; time.sleep(1000)')", signal.SIGINT),
        ("os._exit(1)", 0),
        ("sys.exit(0)", 0),
        ("raise KeyboardInterrupt", 0),
    ],
)
def test_the_client_ends(how: str, number: int) -> None:
    """In every case the core ends with it. Ctrl-C at a terminal goes to the whole process group."""
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("HOW", how)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(harness.ROOT / "python")},
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    core = int(program.stdout.readline())
    fd = os.pidfd_open(core)
    if number:
        os.killpg(program.pid, number)
    program.wait(60)
    program.stdout.close()
    assert select.select([fd], [], [], 60)[0], "the core continues"
    os.close(fd)
    harness.wait_for_end({core}, 0)


# Ports


def ask(port: int | None, path: str, token: str | None) -> int:
    """The status of a GET."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_ports() -> None:
    """A port that was asked for listens, for clients with the token. There are no others."""
    wanted = free_port()
    async with (
        CodeExecutor() as plain,
        CodeExecutor(tool_server_port=wanted, kernel_gateway_port=0) as executor,
    ):
        assert (
            plain.tool_server_port is None
            and plain.kernel_gateway_port is None
            and plain.tool_server_token is None
        )
        assert executor.tool_server_port == wanted
        for port, path, token in (
            (executor.tool_server_port, "/status", executor.tool_server_token),
            (executor.kernel_gateway_port, "/api/kernelspecs", executor.kernel_gateway_token),
        ):
            assert await arun(ask, port, path, token) == 200
            assert await arun(ask, port, path, None) in (401, 403)
            assert await arun(ask, port, path, "wrong") in (401, 403)
        assert (await executor.execute("1")).text == "1"
        with pytest.raises(CoreError, match=str(wanted)):
            await CodeExecutor(tool_server_port=wanted).start()
    with pytest.raises(OSError):
        ask(wanted, "/status", None)


# Packages


async def test_packages_anywhere_and_any_time(home: harness.Place) -> None:
    """A running executor may call what is generated later, also outside of its workspace."""
    root = Path(tempfile.mkdtemp(dir=home.workspace))
    async with CodeExecutor() as executor:
        await generate_mcp_sources("late", scripted_server.params("work"), root / "mcptools")
        code = (
            f"import sys; sys.path.insert(0, {str(root)!r})\nfrom mcptools.late import add\n"
            f"add.run(add.Params(a=1, b=2)).sum"
        )
        assert (await executor.execute(code)).text == "3"
        text = (
            await executor.execute(
                "from mcptools.late import environ\nenviron.run(environ.Params(name='X'))"
            )
        ).text
        assert text == "'not set'"


async def test_packages_for_a_sandbox_that_runs_already() -> None:
    async with CodeExecutor(sandbox=True) as executor:
        await executor.execute("1")
        await generate_mcp_sources("work", scripted_server.params("work"), Path("mcptools"))
        for code in (
            "from mcptools.work import add\nadd.run(add.Params(a=1, b=2)).sum",
            "add.run(add.Params(a=1, b=2)).sum",
        ):
            assert (await executor.execute(code)).text == "3"
        assert Path("mcptools/work/add.py").exists()


async def test_servers_start_anew_after_a_reset() -> None:
    Path(".env").write_text("MARK=one\n")
    await generate_mcp_sources(
        "work", scripted_server.params("work", env={"MARK": "${MARK}"}), Path("mcptools")
    )
    code = "from mcptools.work import environ\nenviron.run(environ.Params(name='MARK'))"
    async with CodeExecutor() as executor:
        for _ in range(2):
            assert (await executor.execute(code)).text == "'one'"
            await executor.reset()


# Records


async def test_record(workspace: Path) -> None:
    path = workspace / "r.jsonl"
    async with CodeExecutor(record=Path("r.jsonl"), kernel_gateway_port=0) as executor:
        await executor.execute("print('kept')")
        with pytest.raises(RuntimeError, match="another session records to"):
            await CodeExecutor(record=path).start()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["type"] == "record"
    assert [line["text"] for line in lines if line["type"] == "stdout"] == ["kept\n"]
    assert [line["status"] for line in lines if line["type"] == "done"] == ["ok"]
    async with CodeExecutor(record=path) as executor:
        await executor.execute("1")
    assert sum('"type":"record"' in line for line in path.read_text().splitlines()) == 2


# Logs


async def test_log(caplog: pytest.LogCaptureFixture) -> None:
    Path(".env").write_text("this is no variable\n")
    for level, is_told in (("WARNING", True), ("ERROR", False)):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "ipybox"):
            async with CodeExecutor(log_level=level):
                pass
        assert any(".env" in record.getMessage() for record in caplog.records) == is_told


def test_idle_core_is_kept_for_a_while() -> None:
    assert client.IDLE_TIMEOUT_S >= 10


# Variables


async def test_variables_are_saved_and_loaded(workspace: Path) -> None:
    async with CodeExecutor() as executor:
        await executor.execute("x = [1]\ndef f(): pass")
        saved = await executor.save(Path("folder.state"), ["x", "f"])
        assert saved.names == ["x"] and saved.failed.keys() == {"f"}
        with pytest.raises(CodeExecutionError, match="^FileNotFoundError"):
            await executor.load("none")
        with pytest.raises(ValueError):
            await executor.save("s", timeout=-1)
        (workspace / "folder.state").rename(workspace / "moved")
    async with CodeExecutor() as executor:
        assert await executor.load("moved") == Variables(["x"], {})
        assert (await executor.execute("print(x)")).text == "[1]"
        await executor.execute("class C:\n    def __reduce__(self):\n        while True: pass")
        await executor.execute("c = C()")
        with pytest.raises(CodeExecutionTimeout):
            await executor.save("s", timeout=0.5)
        assert not (workspace / "s").exists()
    with pytest.raises(RuntimeError):
        await executor.load("moved")


async def test_a_cancelled_task_cancels_the_saving(workspace: Path) -> None:
    begun = Meeting(workspace / "begun")
    async with CodeExecutor() as executor:
        reduce = f"def __reduce__(self):\n        {begun.code}\n        while True: pass"
        await executor.execute(f"class C:\n    {reduce}\nc, x = C(), 1")
        task = asyncio.create_task(executor.save("s"))
        await arun(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await executor.execute("print(x)")).text == "1"
    assert not (workspace / "s").exists()
