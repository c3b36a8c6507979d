# SPDX-License-Identifier: Apache-2.0
"""Interrupts, and the signal handlers of user code.

SIGINT cancels an asynchronous cell, raises KeyboardInterrupt in a synchronous one, and has no
effect on an idle kernel. What the signal handlers of user code raise ends cells only.
"""

from __future__ import annotations

# `signal` converts all results to enums, and each cell asks for every handler.
import _signal  # type: ignore[import-not-found]
import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .output import Output

# The core repeats an interrupt by this signal until the cell has ended, because an interrupt that
# arrives before the cell begins, or just before a blocking call, has no effect. A cell that has
# reacted to an interrupt ignores the repetitions, because it may be cleaning up.
REPETITION = signal.SIGRTMIN + 6
# A task that keeps the loop from cancelling the cell for this long is interrupted itself.
STUCK_AFTER_S = 1.0
# The signals that can have a handler.
HANDLED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class Interrupts:
    def __init__(
        self,
        output: Output,
        loop: asyncio.AbstractEventLoop,
        report_background_error: Callable[[BaseException], None],
    ) -> None:
        self.was_requested = False  # in this cell
        self.is_running = False  # user code runs, and may be interrupted
        self.cell_code: CodeType | None = None  # the code of a cell's coroutine
        self._output = output
        self._loop = loop
        self._report_background_error = report_background_error
        self._task: asyncio.Task[Any] | None = None
        self._is_deferring = False
        self._was_deferred = False
        self._cancel_due_since: float | None = None  # when the loop was asked to cancel the task
        self._replaced: dict[int, Any] = {}  # user code's handlers, until the next cell

    def install(self) -> None:
        """Called at the start of each cell, because user code may have set its own handlers."""
        for number, handler in self._replaced.items():
            _signal.signal(number, handler)
        self._replaced.clear()
        _signal.signal(signal.SIGINT, self._on_sigint)
        _signal.signal(REPETITION, self._on_repetition)

    def enter(self) -> None:
        self.was_requested = False
        self._output.interrupt_waits = False
        self._task = None
        self._cancel_due_since = None
        self.is_running = True

    def enter_task(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.is_running = True

    def enter_callbacks(self) -> None:
        """Called before the callbacks that run after the cell's code."""
        self._task = None
        self.is_running = True

    def leave(self) -> None:
        self.is_running = False
        self._task = None
        self._output.interrupt_waits = False

    def guard_handlers(self) -> None:
        """Called at the end of each cell. Replaces user code's handlers by one that calls them.

        What they raise between cells is reported, and does not end the kernel.
        """
        for number in HANDLED:
            handler = _signal.getsignal(number)
            if callable(handler) and handler not in (self._on_sigint, self._on_repetition):
                self._replaced[number] = handler
                _signal.signal(number, self._on_guarded)

    def _on_guarded(self, number: int, frame: FrameType | None) -> None:
        try:
            self._replaced[number](number, frame)
        except (KeyboardInterrupt, SystemExit):
            pass
        except BaseException as error:
            self._report_background_error(error)

    def allow_repetition(self) -> None:
        """Called if IPython or a finalizer caught the interrupt, and it did not end the cell.

        The next repetition interrupts the cell again.
        """
        self.was_requested = False

    def on_unraisable(self, what: Any) -> None:
        """sys.unraisablehook."""
        sys.__unraisablehook__(what)  # it may catch another interrupt
        if what.exc_type is KeyboardInterrupt and self._output.is_connected:
            self.allow_repetition()

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Ignores interrupts while a frame is sent that must be complete: they are too late."""
        was_running, self.is_running = self.is_running, False
        try:
            yield
        finally:
            self.is_running = was_running

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defers an interrupt to the end of the block."""
        if self._is_deferring or threading.current_thread() is not threading.main_thread():
            yield  # an outer block delivers it; only the main thread is ever interrupted
            return
        self._is_deferring, self._was_deferred = True, False
        try:
            yield
        finally:
            self._is_deferring = False
        if self._was_deferred:
            raise KeyboardInterrupt

    def _is_in_cell(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code is self.cell_code:
                return True
            frame = frame.f_back
        return False

    def _on_repetition(self, number: int, frame: FrameType | None) -> None:
        if self._output.is_connected and (not self.was_requested or self._is_stuck()):
            self._on_sigint(number, frame)

    def _is_stuck(self) -> bool:
        """Whether a task or callback does not return to the loop."""
        since = self._cancel_due_since
        return since is not None and time.monotonic() - since >= STUCK_AFTER_S

    def _cancel_soon(self, task: asyncio.Task[Any]) -> None:
        if self._cancel_due_since is None:
            self._cancel_due_since = time.monotonic()
        self._loop.call_soon_threadsafe(self._cancel, task)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        if task is self._task:
            self._cancel_due_since = None
        task.cancel()

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if not self._output.is_connected:
            signal.default_int_handler(number, frame)
        if not self.is_running:
            return
        is_first = not self.was_requested
        self.was_requested = True
        if self._task is not None:
            current = asyncio.current_task(self._loop)
            # The cell's own code can be interrupted like any other. asyncio's code at the start and
            # the end of the task cannot, because a callback would be lost. Another task that does
            # not return to the loop is interrupted at the user's next interrupt, or after a while.
            is_between = current is not self._task or not self._is_in_cell(frame)
            if is_between and self._is_stuck():
                self._cancel_due_since = time.monotonic()  # it may be cleaning up: wait again
            elif is_between and (is_first or current is None):
                self._cancel_soon(self._task)
                return
        if self._is_deferring:
            self._was_deferred = True
            return
        if self._output.must_not_be_interrupted():
            self._output.interrupt_waits = True
            return
        raise KeyboardInterrupt
