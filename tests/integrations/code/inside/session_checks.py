# SPDX-License-Identifier: Apache-2.0
"""What the adapters share: the loop in the background, approvals, and the end of a program."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from ipybox import ApprovalRequest, CallRefusedError, CodeExecutionError, KernelLostError
from ipybox.core import CoreError
from ipybox.integrations import background
from ipybox.integrations.causes import find_error
from ipybox.integrations.code_session import CodeSession

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="none")

PROGRAM = """
import os, signal, sys, threading
from ipybox.integrations import background
from ipybox.integrations.dspy import IpyboxInterpreter
interpreter = IpyboxInterpreter()
interpreter.execute("x = 1")
"""


def make_session(**options: Any) -> CodeSession:
    given = {"approve": None, "timeout": None, "workspace": None}
    own = {name: options.pop(name) for name in given if name in options}
    return CodeSession(**{**given, **own}, options={"sandbox": True, **options})


def test_run() -> None:
    async def get_name() -> str:
        await asyncio.sleep(0)
        return NAME.get() + threading.current_thread().name

    NAME.set("mine ")
    assert background.run(get_name()) == "mine ipybox-loop"

    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        background.run(fail())

    async def nest() -> None:
        background.run(get_name())

    with pytest.raises(RuntimeError, match="would wait for itself"):
        background.run(nest())


def test_run_in_a_program_with_a_loop() -> None:
    async def get() -> int:
        return 1

    async def main() -> int:
        return background.run(get())

    assert asyncio.run(main()) == 1


def test_an_interrupt_cancels() -> None:
    ended = threading.Event()

    async def wait() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0)
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        background.run(wait())
    assert ended.is_set()


def test_a_fork_has_its_own_loop() -> None:
    async def get() -> int:
        return os.getpid()

    assert background.run(get()) == os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if background.run(get()) == os.getpid() else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert background.run(get()) == os.getpid()


def run_program(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM + text],
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        # While a cell runs in another thread.
        (
            "threading.Thread(target=interpreter.execute, daemon=True,"
            ' args=(\'open("begun", "w"); import time; time.sleep(1000)\',)).start()\n'
            "while not (interpreter.workspace / 'begun').exists(): pass",
            0,
        ),
        # A forked child leaves everything to its parent.
        (
            "pid = os.fork()\nif pid == 0: sys.exit(0)\nassert os.waitpid(pid, 0)[1] == 0\n"
            "assert interpreter.workspace.exists() and interpreter.execute('x') == 1",
            0,
        ),
    ],
)
def test_the_end_of_a_program(text: str, status: int) -> None:
    """The fixture checks that no directory is left; test_code_adapters.py, that no process is."""
    done = run_program(text)
    assert done.returncode == status, done.stderr


def test_a_program_that_is_killed() -> None:
    """Its processes end with it. Nothing can remove its directory."""
    done = run_program("print(interpreter.workspace, flush=True); os.kill(os.getpid(), 9)")
    assert done.returncode == -9
    workspace = Path(done.stdout.strip())
    assert workspace.exists()
    workspace.rmdir()


def test_garbage_collection() -> None:
    """The fixture checks that no directory is left."""
    session = make_session()
    background.run(session.start())
    with pytest.warns(ResourceWarning, match="was not stopped"):
        del session
        import gc

        gc.collect()


async def call_tool(approve: Any, **options: Any) -> Any:
    session = make_session(approve=approve, **options)
    calls = []
    tool = session.make_tool("act", "Acts.", {"x": {}}, lambda given: calls.append(given))
    await session.start([tool])
    await session.prepare("", "_ipybox.define_tools({'act': (['x'], '')})")
    try:
        return calls, (await session.run("act(1)")).error
    finally:
        await session.close()


async def test_approve() -> None:
    async def accept(request: ApprovalRequest) -> bool:
        return True

    for approve in (None, accept, lambda request: True, lambda request: accept(request)):
        assert await call_tool(approve) == ([{"x": 1}], None)
    calls, error = await call_tool(lambda request: False)
    assert calls == [] and isinstance(error, CallRefusedError)


async def test_an_approve_that_fails_refuses() -> None:
    def fail(request: ApprovalRequest) -> bool:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await call_tool(fail)
    with pytest.raises(TypeError, match="approve must return True or False, not 1"):
        await call_tool(lambda request: 1)


async def test_a_decision_that_comes_too_late() -> None:
    async def think(request: ApprovalRequest) -> bool:
        await asyncio.sleep(1000)
        return True

    calls, error = await call_tool(think, approval_timeout=0.5)
    assert calls == [] and isinstance(error, CallRefusedError)


async def test_rules_decide_first(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"server": "app", "tool": "act", "decision": "deny"}]}')
    calls, error = await call_tool(None, approval_rules=rules)
    assert calls == [] and isinstance(error, CallRefusedError)


async def test_a_kernel_can_report_anything() -> None:
    """It is hostile: no report makes the program fail."""
    session = make_session()
    await session.start()
    await session.prepare("", "")
    send = "from IPython.display import display\ndisplay({_ipybox.MIME: %r}, raw=True)\n"
    stop = "get_ipython().events.unregister('post_run_cell', _ipybox.report)\n"
    await session.run(stop)
    for text in ("", "[", "[" * 10_000, "1", '{"final": 1}', '{"final": "["}', '{"value": null}'):
        await session.prepare("", "")
        outcome = await session.run(stop + send % text)
        assert (outcome.error, outcome.value, outcome.final) == (None, None, None), text
    assert isinstance((await session.run("1")).error, KernelLostError)
    await session.close()


def test_find_error() -> None:
    inner = CodeExecutionError("inner")
    outer = ValueError("outer")
    outer.__context__ = inner
    assert find_error(outer) is inner
    assert find_error(inner) is inner
    core = CoreError("core")
    core.__cause__ = inner
    assert find_error(core) is core
    assert find_error(ValueError("x")) is None
    assert find_error(None) is None
    outer.__context__ = KeyError("circle")
    outer.__context__.__context__ = outer
    assert find_error(outer) is None
