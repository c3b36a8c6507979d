# SPDX-License-Identifier: Apache-2.0
"""SIGINT: cancels an async cell, raises KeyboardInterrupt in a sync one, does nothing to an idle kernel. And the handlers that user code
has set: they raise in cells only."""

from __future__ import annotations

# `signal` makes enums of all it is asked, and each cell asks for every handler.
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

# By this the core repeats an interrupt until the cell is done: one that came before the cell began, or just before a blocking call, had
# no effect. A cell that has acted on an interrupt, and may be cleaning up, passes over it.
REPETITION = signal.SIGRTMIN + 6
# So long a task may keep the loop from cancelling the cell. Then it is interrupted itself.
STUCK_AFTER_S = 1.0
# Those that a handler can be set for.
HANDLED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class Interrupts:
    def __init__(
        self,
        output: Output,
        loop: asyncio.AbstractEventLoop,
        tell_error_of_nobody: Callable[[BaseException], None],
    ) -> None:
        self.was_requested = False  # in this cell
        self.is_running = False  # user code is, that may be interrupted
        self.cell_code: CodeType | None = None  # of the coroutine that a cell is
        self._output = output
        self._loop = loop
        self._tell_error_of_nobody = tell_error_of_nobody
        self._task: asyncio.Task[Any] | None = None
        self._is_held = False
        self._has_waited = False
        self._cancel_due_since: float | None = None  # the task shall be cancelled, by the loop
        self._replaced: dict[int, Any] = {}  # what user code has set, until the next cell

    def install(self) -> None:
        """At each cell's start: user code may have put its own handler there."""
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
        """What runs after the cell's own code."""
        self._task = None
        self.is_running = True

    def leave(self) -> None:
        self.is_running = False
        self._task = None
        self._output.interrupt_waits = False

    def guard(self) -> None:
        """At each cell's end: what a handler of user code raises from now on would hit the kernel. It is told, and ends nothing."""
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
            self._tell_error_of_nobody(error)

    def forget(self) -> None:
        """What IPython or a finalizer took for an error of its own did not end the cell: the next repetition counts."""
        self.was_requested = False

    def on_unraisable(self, what: Any) -> None:
        """sys.unraisablehook."""
        sys.__unraisablehook__(what)  # which may swallow another one
        if what.exc_type is KeyboardInterrupt and self._output.is_connected:
            self.forget()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """While a frame is sent that must come out whole; an interrupt meanwhile has come too late."""
        was_running, self.is_running = self.is_running, False
        try:
            yield
        finally:
            self.is_running = was_running

    @contextmanager
    def held(self) -> Iterator[None]:
        """While something begins that an interrupt has to end; it is delivered at the end of the block."""
        if self._is_held or threading.current_thread() is not threading.main_thread():
            yield  # an outer block delivers it; only the main thread is ever interrupted
            return
        self._is_held, self._has_waited = True, False
        try:
            yield
        finally:
            self._is_held = False
        if self._has_waited:
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
        """Whether some task or callback lets nobody else run."""
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
            # Between its awaits a cell is code like any other; what asyncio does at the task's ends is not, for a callback would
            # be lost. Some other task that lets nobody else run is stopped when the user asks again, or after a while.
            is_between = current is not self._task or not self._is_in_cell(frame)
            if is_between and self._is_stuck():
                self._cancel_due_since = time.monotonic()  # patience anew: it may be cleaning up
            elif is_between and (is_first or current is None):
                self._cancel_soon(self._task)
                return
        if self._is_held:
            self._has_waited = True
            return
        if self._output.must_not_be_interrupted():
            self._output.interrupt_waits = True
            return
        raise KeyboardInterrupt
