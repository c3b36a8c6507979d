# SPDX-License-Identifier: Apache-2.0
"""SIGINT: cancels an async cell, raises KeyboardInterrupt in a sync one, does nothing to an idle kernel."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .output import Output

# A signal so soon after one that was acted on is the core's repetition: a signal that comes just before
# a blocking call does not wake it, so the core sends each one twice.
REPEATED_WITHIN_S = 0.2


class Interrupts:
    def __init__(self, output: Output, loop: asyncio.AbstractEventLoop) -> None:
        self.was_requested = False  # in this cell
        self.is_running = False  # user code is, that may be interrupted
        self._output = output
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._acted_at = float("-inf")
        self._is_held = False
        self._has_waited = False

    def install(self) -> None:
        """At each cell's start: user code may have put its own handler there."""
        signal.signal(signal.SIGINT, self._on_sigint)

    def enter(self) -> None:
        self.was_requested = False
        self._acted_at = float("-inf")
        self._output.interrupt_waits = False
        self._task = None
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
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread is ever interrupted
            return
        self._is_held, self._has_waited = True, False
        try:
            yield
        finally:
            self._is_held = False
        if self._has_waited:
            raise KeyboardInterrupt

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if not self._output.is_connected:
            signal.default_int_handler(number, frame)
        now = time.monotonic()
        if not self.is_running or now - self._acted_at < REPEATED_WITHIN_S:
            return
        self._acted_at = now
        is_first = not self.was_requested
        self.was_requested = True
        if self._task is not None:
            current = asyncio.current_task(self._loop)
            # Between its awaits a cell is code like any other. Some other task that lets nobody else
            # run is stopped when the user asks again.
            if current is not self._task and (is_first or current is None):
                self._loop.call_soon_threadsafe(self._task.cancel)
                return
        if self._is_held:
            self._has_waited = True
            return
        if self._output.must_not_be_interrupted():
            self._output.interrupt_waits = True
            return
        raise KeyboardInterrupt
