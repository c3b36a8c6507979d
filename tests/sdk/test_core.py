# SPDX-License-Identifier: Apache-2.0
"""The client of the core, against a core that misbehaves."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ipybox.core import (
    Approval,
    Core,
    CoreDiedError,
    CoreError,
    CoreTimeoutError,
    Handler,
    InvalidError,
    client,
    find_binary,
)
from ipybox.core.lines import MAX_MESSAGE_BYTES, HugeInteger, LineCutter, decode, encode


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Iterator[Core]:
    """A core of its own for the test."""
    monkeypatch.setenv("IPYBOX_BIN", str(Path(__file__).with_name("fake_core.py")))
    core = Core()
    yield core
    core.release()
    core.close()


async def test_calls(core: Core) -> None:
    assert await core.call("echo", {"x": 1}) == {"x": 1}
    answers = await asyncio.gather(*(core.call("echo", {"x": n}) for n in range(100)))
    assert answers == [{"x": n} for n in range(100)]
    large = "ü\0😀\ud800" * 300_000
    assert (await core.call("echo", {"x": large}))["x"] == large


async def test_errors(core: Core) -> None:
    for kind, of in (("invalid", InvalidError), ("timeout", CoreTimeoutError), ("busy", CoreError)):
        with pytest.raises(of, match="because") as caught:
            await core.call("error", {"code": -32000, "message": "because", "data": {"kind": kind}})
        assert caught.value.kind == kind
    with pytest.raises(ValueError, match="wrong"):
        await core.call("error", {"code": -32602, "message": "wrong"})
    with pytest.raises(CoreError):
        await core.call("error", {})
    with pytest.raises(ValueError):
        await core.call("echo", {"x": float("nan")})
    assert await core.call("echo", {}) == {}


async def test_too_large_is_refused_before_it_is_sent(core: Core) -> None:
    with pytest.raises(ValueError, match="too large"):
        await core.call("echo", {"x": "x" * MAX_MESSAGE_BYTES})
    assert await core.call("echo", {}) == {}


async def test_a_cancelled_call_gives_its_result_to_who_asked_for_late_ones(core: Core) -> None:
    late: list[Any] = []
    task = asyncio.create_task(core.call("hang", {}, late.append))
    await core.call("echo", {})
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await core.call("echo", {})
    assert late == ["late"]


async def test_cancelled_with_the_result_on_its_way(core: Core) -> None:
    """At any moment: the result goes to the caller, or to the callback for late results."""
    for n_steps in range(12):
        late: list[Any] = []
        task = asyncio.create_task(core.call("echo", {"n": n_steps}, late.append))
        for _ in range(n_steps):
            await asyncio.sleep(0)
        # The response has arrived, but this busy thread has not read it.
        event = threading.Event()
        core.request("echo", {}, SetOnDone(event))
        event.wait()
        task.cancel()
        try:
            taken = [await task]
        except asyncio.CancelledError:
            taken = []
        await core.call("echo", {})
        # A task that had not started has sent nothing.
        assert taken + late == [{"n": n_steps}] or n_steps == 0


class SetOnDone(Handler):
    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def on_done(self, result: Any, error: CoreError | None) -> None:
        self.event.set()


async def test_the_core_dies(core: Core) -> None:
    waiting = [asyncio.create_task(core.call("hang", {})) for _ in range(3)]
    await core.call("echo", {})
    with pytest.raises(CoreDiedError, match="exit status 3"):
        await core.call("die", {})
    for task in waiting:
        with pytest.raises(CoreDiedError):
            await task
    with pytest.raises(CoreDiedError):
        await core.call("echo", {})
    assert not core.try_acquire()


async def test_garbage_ends_it(core: Core) -> None:
    with pytest.raises(CoreDiedError, match="JSONDecodeError"):
        await core.call("garbage", {})


async def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYBOX_BIN", str(Path(__file__).with_name("fake_core.py")))
    monkeypatch.setenv("FAKE_PROTOCOL", "2")
    core = Core()
    with pytest.raises(CoreError, match="speaks protocol 2"):
        await core.call("hang", {})
    core.close()


async def test_numbers_of_any_length(core: Core) -> None:
    digits = "7" * 10_000
    result = await core.call(
        "raw", {"line": '{"jsonrpc":"2.0","id":ID,"result":{"n":%s,"m":12}}' % digits}
    )
    assert result == {"n": digits, "m": 12}
    assert isinstance(result["n"], HugeInteger)


async def test_nobody_decides(core: Core) -> None:
    """Handlers that return no decision, or fail, refuse the approval."""

    class Waits(Handler):
        def __init__(self) -> None:
            self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def on_done(self, result: Any, error: CoreError | None) -> None:
            self.done.get_loop().call_soon_threadsafe(self.done.set_result, result)

    class Accepts(Waits):
        def on_approval(self, approval: Approval) -> None:
            approval.respond(True)
            approval.respond(False)

    class Fails(Waits):
        def on_approval(self, approval: Approval) -> None:
            raise RuntimeError("no handler catches this")

    class AcceptsAndFails(Accepts):
        def on_approval(self, approval: Approval) -> None:
            super().on_approval(approval)
            raise RuntimeError("no handler catches this")

    handlers = ((Waits(), False), (Accepts(), True), (Fails(), False), (AcceptsAndFails(), True))
    for handler, answer in handlers:
        core.request("ask", {}, handler)
        assert await handler.done == {"accept": answer}


def test_fork(core: Core) -> None:
    """The child cannot use the parent's core, does not keep it alive, and gets its own."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with pytest.raises(CoreError, match="forked from"):
                asyncio.run(core.call("echo", {}))
            core.release()
            core.close()
            own = client.acquire_core()
            assert own is not core and asyncio.run(own.call("echo", {"x": 1})) == {"x": 1}
            client.close_core()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert asyncio.run(core.call("echo", {"y": 2})) == {"y": 2}


def test_a_forked_child_does_not_keep_it(core: Core) -> None:
    asyncio.run(core.call("echo", {}))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    core.close()  # waits for the core, which ends with its stdin
    assert "exit status 0" not in str(core.error)
    os.close(write)
    os.waitpid(pid, 0)


def test_a_fork_after_the_end_closes_nothing_of_others(core: Core) -> None:
    """The numbers of its descriptors belong to other files by then."""
    asyncio.run(core.call("echo", {}))
    core.close()
    fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for fd in fds:
                os.fstat(fd)
            status = 0
        finally:
            os._exit(status)
    for fd in fds:
        os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_end_while_somebody_wakes_it(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of the pipe must not be reused before the other thread has written to it."""
    asyncio.run(core.call("echo", {}))
    write = os.write
    was_same: list[bool] = []

    def write_late(fd: int, data: bytes) -> int:
        if threading.current_thread() is threading.main_thread() and data == b".":
            monkeypatch.setattr(os, "write", write)
            pipe = os.fstat(fd)
            core.close()
            other = os.open("/dev/null", os.O_RDONLY)
            was_same.append(os.path.samestat(os.fstat(fd), pipe))
            os.close(other)
        return write(fd, data)

    monkeypatch.setattr(os, "write", write_late)
    core._process.wake()
    assert was_same == [True]
    core._process.wake()


def test_it_ends_when_nobody_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYBOX_BIN", str(Path(__file__).with_name("fake_core.py")))
    monkeypatch.setattr(client, "IDLE_TIMEOUT_S", 0.05)
    core = Core()
    assert core.try_acquire()
    core.release()
    asyncio.run(core.call("echo", {}))
    core.release()
    core._process.join()
    assert not core.try_acquire()
    gc.collect()


def test_several_loops_in_several_threads(core: Core) -> None:
    failed: list[BaseException] = []

    async def work(base: int) -> None:
        for n in range(50):
            assert await core.call("echo", {"x": base + n}) == {"x": base + n}

    def thread(base: int) -> None:
        try:
            for n in range(3):
                asyncio.run(work(base + 100 * n))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=thread, args=(1000 * n,)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


def test_lines() -> None:
    lines = [encode({"n": n, "t": "x" * (n * 7)}) for n in range(50)]
    stream = b"".join(lines)
    for size in (1, 2, 3, 64, 1000, len(stream)):
        cutter = LineCutter()
        got = [
            line
            for start in range(0, len(stream), size)
            for line in cutter.feed(stream[start : start + size])
        ]
        assert [line + b"\n" for line in got] == lines
    assert decode(b'"\xed\xa0\x80"') == "\ud800"


def test_where_the_program_is(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    program = workspace / "ipybox"
    monkeypatch.setenv("IPYBOX_BIN", str(program))
    with pytest.raises(FileNotFoundError, match="IPYBOX_BIN"):
        find_binary()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_binary() == str(program)
    monkeypatch.delenv("IPYBOX_BIN")
    assert Path(find_binary()).name == "ipybox"
