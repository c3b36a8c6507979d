# SPDX-License-Identifier: Apache-2.0
"""`ExecutorPool`: many short sessions on one machine, as evaluations and RL need them."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .code_exec import CodeExecutor
from .removal import remove_directory
from .results import CodeExecutionError
from .utils import arun, check_seconds

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "ExecutorPool",
    "PoolClosedError",
    "PoolFullError",
    "PoolStatistics",
    "SessionExpiredError",
]

logger = logging.getLogger("ipybox")

# Executors at the same time: the sessions of a core (docs/internals/rpc.md). A program has one.
MAX_EXECUTORS = 1000
DEFAULT_READY = 4
# Tasks that wait for a session. One more gets a PoolFullError.
MAX_WAITING = 100_000
# After this many seconds the pool tries again to start an executor in advance.
RETRY_S = 1.0


class PoolClosedError(RuntimeError):
    """The pool is closed, or was closed while the task waited for a session."""


class PoolFullError(RuntimeError):
    """More tasks wait for a session than the pool accepts."""


class SessionExpiredError(TimeoutError):
    """The session took longer than `session_timeout`. Its executor was stopped."""


@dataclass
class PoolStatistics:
    """What a pool has done so far.

    Attributes:
        sessions: How many sessions were begun.
        sessions_ready: For how many of them an executor was ready.
        failed_starts: How many executors could not be started.
        expired: How many sessions took longer than `session_timeout`.
        in_use: Sessions now.
        peak_in_use: The most sessions at the same time.
        ready: Executors that are ready now.
        waiting: Tasks that wait for a session now.
        waited_s: Seconds that tasks have waited for a session, together.
        longest_wait_s: Seconds that one of them has waited, at most.
    """

    sessions: int = 0
    sessions_ready: int = 0
    failed_starts: int = 0
    expired: int = 0
    in_use: int = 0
    peak_in_use: int = 0
    ready: int = 0
    waiting: int = 0
    waited_s: float = 0.0
    longest_wait_s: float = 0.0


class ExecutorPool:
    """A bounded number of sessions, each with a fresh kernel in an empty directory of its own.

        async with ExecutorPool(8) as pool:
            async with pool.session() as executor:
                result = await executor.execute("1 + 1")

    A session's executor is started, and is used by nothing else. At the end of the session it is
    stopped, and its directory is removed with all files. Tasks that wait for a session get one in
    the order in which they asked. Some executors are started before they are needed.

    Kernels are sandboxed, unless the option `sandbox` is False. The pool belongs to the event loop
    in which it was opened.

    Attributes:
        size: The most sessions at the same time.
    """

    def __init__(
        self,
        size: int,
        *,
        ready: int | None = None,
        directory: Path | None = None,
        session_timeout: float | None = None,
        sandbox: bool = True,
        **options: Any,
    ) -> None:
        """
        Args:
            size: The most sessions at the same time, 1 to 1000.
            ready: How many more executors are kept started; with `size`, 1000 at most. None:
                `size`, but at most 4.
            directory: Where the sessions' directories are created. None: a new directory for
                temporary files, which is removed with the pool.
            session_timeout: Seconds after which a session's executor is stopped. None: no limit.
            sandbox: Whether kernels run in sandboxes.
            **options: Of each CodeExecutor, but not `workspace`. `limits` limits each session.

        Raises:
            ValueError: If an option is wrong. The first session checks those of the executors.
            TypeError: If CodeExecutor has no such option.
        """
        if not 1 <= size <= MAX_EXECUTORS:
            raise ValueError(f"size must be from 1 to {MAX_EXECUTORS}, not {size}")
        most = MAX_EXECUTORS - size
        if ready is not None and not 0 <= ready <= most:
            raise ValueError(f"ready must be from 0 to {most} with size={size}, not {ready}")
        if "workspace" in options:
            raise TypeError("each session has a workspace of its own: give the pool a directory")
        self.size = size
        self._n_wanted = min(size, DEFAULT_READY, most) if ready is None else ready
        self._session_timeout = check_seconds(session_timeout, "session_timeout")
        self._options: dict[str, Any] = {"sandbox": sandbox, **options}
        executor = CodeExecutor(**self._options)
        if executor.tools:
            self._options["tools"] = executor.tools
        self._given_directory = directory
        self._directory: Path | None = None
        self._n_taken = 0  # of `size`
        self._waiters: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._starting: set[asyncio.Task[CodeExecutor]] = set()  # for sessions
        self._started: set[CodeExecutor] = set()  # all that have not ended
        self._ready: deque[CodeExecutor] = deque()
        self._in_use: set[CodeExecutor] = set()
        self._ending: dict[CodeExecutor, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._refilling: asyncio.Task[None] | None = None
        self._statistics = PoolStatistics()
        self._is_closed = False

    # Open and close

    async def __aenter__(self) -> Self:
        if self._directory is not None or self._is_closed:
            raise RuntimeError("the pool was opened already")
        if self._given_directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="ipybox-pool-"))
        else:
            self._directory = Path(os.path.abspath(self._given_directory))
            self._directory.mkdir(parents=True, exist_ok=True)
        self._refill()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the pool: sessions that are in use, too. Their cells end with an error.

        Tasks that wait for a session get a PoolClosedError.
        """
        self._is_closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(PoolClosedError("the pool was closed"))
        starts: set[asyncio.Task[Any]] = {*self._starting}
        if self._refilling is not None:
            starts.add(self._refilling)
        for start in starts:
            start.cancel()
        if starts:
            await asyncio.wait(starts)
        self._ready.clear()
        await asyncio.gather(*(self._end(executor) for executor in self._started))
        if self._leaving:
            await asyncio.wait(self._leaving)
        if self._given_directory is None and self._directory is not None:
            await arun(remove_directory, self._directory)

    # Sessions

    @asynccontextmanager
    async def session(self, timeout: float | None = None) -> AsyncIterator[CodeExecutor]:
        """A session: a started executor, whose `workspace` is an empty directory.

        Args:
            timeout: Seconds to wait until fewer than `size` sessions are in use. None: no limit.

        Yields:
            The executor.

        Raises:
            TimeoutError: If no session was free in time.
            SessionExpiredError: If the session took longer than `session_timeout`. It is a
                TimeoutError, and takes the place of the error that the stopped executor raised.
            PoolClosedError: If the pool is not open.
            PoolFullError: If 100,000 tasks wait already.
            RuntimeError: If the executor cannot be started; the text says why.
        """
        if self._directory is None or self._is_closed:
            raise PoolClosedError("the pool is not open: use it in 'async with'")
        seconds = check_seconds(timeout, "timeout")
        await self._take_place(seconds)
        executor: CodeExecutor | None = None
        timer: asyncio.TimerHandle | None = None
        expired: list[bool] = []
        try:
            executor = await self._take_executor()
            if self._session_timeout is not None:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(self._session_timeout, self._expire, executor, expired)
            yield executor
        except (CodeExecutionError, RuntimeError) as error:
            if not expired:
                raise
            raise SessionExpiredError(
                f"the session took longer than {self._session_timeout:g} s, the limit"
                " session_timeout"
            ) from error
        finally:
            if timer is not None:
                timer.cancel()
            # The place is free when the executor has ended, also if this task is cancelled.
            leaving = asyncio.get_running_loop().create_task(self._leave(executor))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            await asyncio.shield(leaving)

    def statistics(self) -> PoolStatistics:
        """What the pool has done so far."""
        return replace(
            self._statistics,
            in_use=len(self._in_use),
            ready=len(self._ready),
            waiting=len(self._waiters),
        )

    # Places: at most `size`, in the order of the requests

    async def _take_place(self, timeout: float | None) -> None:
        if self._n_taken < self.size and not self._waiters:
            self._n_taken += 1
            return
        if len(self._waiters) >= MAX_WAITING:
            raise PoolFullError(f"{MAX_WAITING} tasks wait for a session of the pool already")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters[waiter] = None
        begun = time.monotonic()
        # Before Python 3.12, asyncio.wait_for loses a cancellation that comes with the place.
        timer = (
            None if timeout is None else loop.call_later(timeout, self._give_up, waiter, timeout)
        )
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._free_place()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._waiters.pop(waiter, None)
            waited = time.monotonic() - begun
            self._statistics.waited_s += waited
            self._statistics.longest_wait_s = max(self._statistics.longest_wait_s, waited)

    def _give_up(self, waiter: asyncio.Future[None], timeout: float) -> None:
        if not waiter.done():
            text = f"no session was free within {timeout:g} s: {self.size} are in use"
            waiter.set_exception(TimeoutError(text))

    def _free_place(self) -> None:
        """Gives the place to the task that has waited longest, if any."""
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
                return
        self._n_taken -= 1

    # Executors

    async def _take_executor(self) -> CodeExecutor:
        ready = self._take_ready()
        executor = await self._start_one() if ready is None else ready
        if self._is_closed:
            await self._end(executor)
            raise PoolClosedError("the pool was closed")
        self._in_use.add(executor)
        counts = self._statistics
        counts.sessions += 1
        counts.sessions_ready += ready is not None
        counts.peak_in_use = max(counts.peak_in_use, len(self._in_use))
        self._refill()
        return executor

    def _take_ready(self) -> CodeExecutor | None:
        """One that is ready, if any. If the core has died, those that it had are dropped."""
        while self._ready:
            executor = self._ready.popleft()
            session = executor._session
            if session is not None and session.core.error is None:
                return executor
            self._end(executor)
        return None

    async def _start_one(self) -> CodeExecutor:
        """For a session. The close of the pool ends the start."""
        start = asyncio.get_running_loop().create_task(self._start())
        self._starting.add(start)
        start.add_done_callback(self._starting.discard)
        try:
            return await start
        except asyncio.CancelledError:
            if not start.cancelled() and start.done() and start.exception() is None:
                self._end(start.result())  # it has started, and the task has ended
            if self._is_closed:
                raise PoolClosedError("the pool was closed") from None
            raise

    async def _start(self) -> CodeExecutor:
        workspace = Path(tempfile.mkdtemp(prefix="session-", dir=self._directory))
        executor = CodeExecutor(workspace=workspace, **self._options)
        try:
            await executor.start()
        except BaseException as error:
            self._statistics.failed_starts += isinstance(error, Exception)
            remove_directory(workspace)
            raise
        self._started.add(executor)
        return executor

    def _end(self, executor: CodeExecutor) -> asyncio.Task[None]:
        """The task that stops the executor and removes its directory: one for all callers."""
        task = self._ending.get(executor)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._stop_and_remove(executor))
            self._ending[executor] = task
            task.add_done_callback(lambda _: self._ending.pop(executor))
        return task

    async def _stop_and_remove(self, executor: CodeExecutor) -> None:
        try:
            await executor.stop()
        finally:
            self._started.discard(executor)
            assert executor.workspace is not None
            await arun(remove_directory, executor.workspace)

    async def _leave(self, executor: CodeExecutor | None) -> None:
        try:
            if executor is not None:
                await self._end(executor)
        finally:
            if executor is not None:
                self._in_use.discard(executor)
            self._free_place()

    def _expire(self, executor: CodeExecutor, expired: list[bool]) -> None:
        expired.append(True)
        self._statistics.expired += 1
        self._end(executor)

    # Executors that are started in advance

    def _refill(self) -> None:
        if self._refilling is not None and not self._refilling.done():
            return
        if not self._is_closed and len(self._ready) < self._n_wanted:
            self._refilling = asyncio.get_running_loop().create_task(self._start_ready())

    async def _start_ready(self) -> None:
        while len(self._ready) < self._n_wanted:
            try:
                executor = await self._start()
            except (OSError, RuntimeError, ValueError) as error:
                # A session that finds none ready starts its own, and raises the error.
                logger.warning("the pool cannot start an executor: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                self._ready.append(executor)
