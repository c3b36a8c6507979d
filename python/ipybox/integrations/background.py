# SPDX-License-Identifier: Apache-2.0
"""An event loop in a thread, for frameworks whose interfaces are synchronous.

`run` is called by threads that have no event loop, or whose event loop may wait. All callers of a
process share one loop. It starts at the first call and belongs to this module, which ends it when
the program ends: what still runs is cancelled then. A forked child gets a loop of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

# How long the end of the program, and a caller that was interrupted, wait for what they cancelled.
END_TIMEOUT_S = 20.0


class _Loop:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ipybox-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def end(self) -> None:
        """Cancels all tasks, waits for them, and ends the thread."""
        ended = asyncio.run_coroutine_threadsafe(_cancel_others(), self.loop)
        concurrent.futures.wait([ended], END_TIMEOUT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_TIMEOUT_S)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=END_TIMEOUT_S)


_lock = threading.Lock()
_loop: _Loop | None = None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in the loop, and waits for it.

    The coroutine sees the context variables of the caller. If the caller is interrupted, by Ctrl-C
    for example, the coroutine is cancelled and has ended when this function raises the exception,
    unless it needs more than END_TIMEOUT_S to end.

    Args:
        coroutine: What to run.

    Returns:
        Its result.

    Raises:
        RuntimeError: If the caller is the thread of the loop: it would wait for itself.
        Exception: The coroutine's exception.
    """
    loop = _get_loop()
    if loop.is_current():
        coroutine.close()
        raise RuntimeError(
            "this call would wait for itself: an asynchronous callback, such as approve=, or a tool"
            " may not use an adapter of a synchronous framework"
        )
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
    tasks: list[asyncio.Task[T]] = []

    def start() -> None:
        tasks.append(loop.loop.create_task(coroutine))
        tasks[0].add_done_callback(partial(_pass_on, outcome))

    def cancel() -> None:
        if tasks:
            tasks[0].cancel()
        else:  # interrupted before the start
            outcome.cancel()
            coroutine.close()

    try:
        loop.loop.call_soon_threadsafe(start)
        return outcome.result()
    except BaseException:
        if not outcome.done():
            loop.loop.call_soon_threadsafe(cancel)
            concurrent.futures.wait([outcome], END_TIMEOUT_S)
        raise


def _pass_on(outcome: concurrent.futures.Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(concurrent.futures.CancelledError("the program ends"))
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def run_soon(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Runs a coroutine in the loop, and does not wait. If there is no loop, drops it."""
    loop = _loop
    if loop is None or loop.loop.is_closed():
        coroutine.close()
        return
    asyncio.run_coroutine_threadsafe(coroutine, loop.loop)


def _get_loop() -> _Loop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = _Loop()
            atexit.register(_end)
        return _loop


def _end() -> None:
    global _loop
    with _lock:
        loop, _loop = _loop, None
    if loop is not None:
        loop.end()


def _forget() -> None:
    # The thread of the parent does not exist in this process.
    global _loop, _lock
    _loop, _lock = None, threading.Lock()
    atexit.unregister(_end)


os.register_at_fork(after_in_child=_forget)
