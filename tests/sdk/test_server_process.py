# SPDX-License-Identifier: Apache-2.0
"""The lifetime of the servers that are child processes, which is the same for both."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from ipybox.kernel_mgr.server import KernelGateway
from ipybox.tool_exec.server import ToolServer

Server = KernelGateway | ToolServer


@pytest.fixture(params=[KernelGateway, ToolServer])
def server(request: pytest.FixtureRequest) -> Server:
    made: Server = request.param(port=0)
    return made


def pid_of(server: Server) -> int:
    pid = server._server.pid
    assert pid is not None
    return pid


async def wait_for_end(pidfd: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)


async def is_cancelled(task: asyncio.Task[None]) -> bool:
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


async def test_started_twice_at_once(server: Server) -> None:
    first, second = await asyncio.gather(server.start(), server.start(), return_exceptions=True)
    assert first is None
    assert isinstance(second, RuntimeError) and "already running" in str(second)
    await server.stop()


async def test_one_that_has_died_can_be_started_again(server: Server) -> None:
    await server.start()
    os.kill(pid_of(server), signal.SIGKILL)
    await server.join()
    server.port = 0
    async with server:
        pass


async def test_a_stop_that_is_cancelled_ends_it_at_once(server: Server) -> None:
    await server.start()
    pidfd = os.pidfd_open(pid_of(server))
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await wait_for_end(pidfd)
    await server.stop()
    server.port = 0
    async with server:
        pass


async def test_stopped_by_several(server: Server) -> None:
    await server.start()
    pidfd = os.pidfd_open(pid_of(server))
    await asyncio.gather(server.stop(), server.stop(), server.join())
    await wait_for_end(pidfd)
    await server.join()


async def test_a_start_that_is_cancelled(server: Server) -> None:
    for n_turns in (0, 1, 3, 10):
        server.port = 0  # another program may have taken the port of a start that succeeded
        starting = asyncio.create_task(server.start())
        for _ in range(n_turns):
            await asyncio.sleep(0)
        if not starting.cancel() or not await is_cancelled(starting):
            await server.stop()  # it ended first
    server.port = 0
    async with server:
        pass


def test_several_loops(server: Server) -> None:
    asyncio.run(server.start())
    pidfd = os.pidfd_open(pid_of(server))
    asyncio.run(server.stop())
    asyncio.run(wait_for_end(pidfd))


def test_in_a_forked_child_it_is_none_of_ours(server: Server) -> None:
    asyncio.run(server.start())
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(asyncio.wait_for(server.stop(), 60))
            asyncio.run(asyncio.wait_for(server.join(), 60))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pid_of(server)
    asyncio.run(server.stop())
