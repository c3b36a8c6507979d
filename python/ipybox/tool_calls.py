# SPDX-License-Identifier: Apache-2.0
"""Runs the calls of an application's tools that come from one session."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from .core.client import ToolCall
from .tools import Tool

# Calls of functions that are not coroutine functions, at the same time. Further ones wait.
MAX_THREADS = 32
MAX_ERROR_CHARS = 10_000

logger = logging.getLogger("ipybox")


class ToolCalls:
    """The calls of one session. Coroutine functions run in the event loop of the task that has
    opened the session, other functions in threads."""

    def __init__(self, tools: Mapping[str, Mapping[str, Tool]]) -> None:
        self.tools = tools
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._running: set[Future[Any]] = set()
        self._is_closed = False

    # In the reading thread

    def run(self, call: ToolCall) -> None:
        """Begins a call. Its answer follows, from any thread."""
        tool = self.tools.get(call.server_name, {}).get(call.tool_name)
        if tool is None:
            call.fail(f"the application has no tool {call.tool_name!r} in {call.server_name!r}")
            return
        future = self._start(tool, call)
        if future is None:
            return
        call.on_cancelled = future.cancel
        if call.is_cancelled:
            future.cancel()
        future.add_done_callback(partial(self._finish, call))

    def close(self) -> None:
        """Cancels all calls. A function in a thread runs to its end; its result is dropped."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
            threads, self._threads = self._threads, None
        for future in running:
            future.cancel()
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)

    def _start(self, tool: Tool, call: ToolCall) -> Future[Any] | None:
        with self._lock:
            if self._is_closed:
                call.fail("the executor was stopped")
                return None
            if tool.is_async:
                future = self._start_in_loop(_await(tool, call), call)
            else:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(MAX_THREADS, "ipybox-tool")
                future = self._threads.submit(self._run_in_thread, tool, call)
            if future is not None:
                self._running.add(future)
            return future

    def _start_in_loop(self, coroutine: Any, call: ToolCall) -> Future[Any] | None:
        """None: it does not run, and the call has failed."""
        if self._loop.is_running():
            try:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError:
                pass  # it was closed just now
        coroutine.close()
        call.fail("the event loop in which the executor was started does not run any more")
        return None

    # In a thread, or in the event loop

    def _run_in_thread(self, tool: Tool, call: ToolCall) -> dict[str, Any]:
        value = tool.call(call.arguments)
        if inspect.isawaitable(value):  # a function that makes a coroutine
            future = self._start_in_loop(_get(value), call)
            if future is None:
                raise CancelledError
            with self._lock:
                self._running.add(future)
            call.on_cancelled = future.cancel
            if call.is_cancelled or self._is_closed:
                future.cancel()
            try:
                value = future.result()
            finally:
                with self._lock:
                    self._running.discard(future)
        return tool.make_result(value)

    def _finish(self, call: ToolCall, future: Future[Any]) -> None:
        with self._lock:
            self._running.discard(future)
        try:
            call.answer(future.result())
        except CancelledError:
            call.fail("the application cancelled the call")
        except BaseException as error:
            logger.debug("the tool %s failed", call.tool_name, exc_info=error)
            call.fail(describe_error(error))


async def _await(tool: Tool, call: ToolCall) -> dict[str, Any]:
    return tool.make_result(await tool.call(call.arguments))


async def _get(value: Awaitable[Any]) -> Any:
    return await value


def describe_error(error: BaseException) -> str:
    """The type and the text of an exception, for the code in the cell. No traceback: it would show
    files of the application."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    text = text.removesuffix(": ")
    return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + "…"
