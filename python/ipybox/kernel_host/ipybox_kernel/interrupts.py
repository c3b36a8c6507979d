# SPDX-License-Identifier: Apache-2.0
"""SIGINT: cancels an async cell, raises KeyboardInterrupt in a sync one, does nothing to an idle kernel."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    from .output import Output


class Interrupts:
    def __init__(self, output: Output, loop: asyncio.AbstractEventLoop) -> None:
        self.was_requested = False  # in this cell
        self.is_running = False  # user code is, that may be interrupted
        self._output = output
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None

    def install(self) -> None:
        """At each cell's start: user code may have put its own handler there."""
        signal.signal(signal.SIGINT, self._on_sigint)

    def enter(self) -> None:
        self.was_requested = False
        self._output.interrupt_waits = False
        self._task = None
        self.is_running = True

    def enter_task(self, task: asyncio.Task[Any]) -> None:
        self._task = task

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

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if not self._output.is_connected:
            signal.default_int_handler(number, frame)
        if not self.is_running:
            return
        is_first = not self.was_requested
        self.was_requested = True
        if self._task is not None:
            current = asyncio.current_task(self._loop)
            # Between its awaits a cell is code like any other. Some other task that lets nobody else
            # run is stopped when the user asks again.
            if current is not self._task and (is_first or current is None):
                self._loop.call_soon_threadsafe(self._task.cancel)
                return
        if self._output.must_not_be_interrupted():
            self._output.interrupt_waits = True
            return
        raise KeyboardInterrupt
