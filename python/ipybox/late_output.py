# SPDX-License-Identifier: Apache-2.0
"""Late output: what code writes and shows after the end of its cell, as it comes."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .core import Core, CoreError
from .results import LateOutput

if TYPE_CHECKING:
    from typing_extensions import Self

# Pieces, and their characters, that wait for a reader. Further ones are left out, and counted.
MAX_WAITING_PIECES = 1024
MAX_WAITING_CHARS = 16 * 1024 * 1024


class LateOutputs(AsyncIterator[LateOutput]):
    """What `CodeExecutor.late_output` returns: an iterator over the late output of an executor.

    One task at a time may wait for the next piece.
    """

    def __init__(self, core: Core) -> None:
        """
        Args:
            core: The core of the session.
        """
        self._core = core
        self._lock = threading.Lock()
        self._pieces: deque[LateOutput] = deque()
        self._n_chars = 0
        self._n_dropped = 0
        self._waiter: asyncio.Future[None] | None = None
        self._has_ended = False
        self._error: CoreError | None = None

    # For the task

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LateOutput:
        while True:
            if self._core.is_of_parent:
                self._core.check()  # raises: the lock may be held for ever here
            with self._lock:
                piece = self._take()
                if piece is not None:
                    return piece
                if self._error is not None:
                    raise self._error
                if self._has_ended:
                    raise StopAsyncIteration
                if self._waiter is not None and not self._waiter.done():
                    raise RuntimeError("another task waits for the late output of this iterator")
                waiter = self._waiter = asyncio.get_running_loop().create_future()
            await waiter

    async def aclose(self) -> None:
        """Ends the iteration."""
        if not self._core.is_of_parent:
            self._end(None, drops=True)

    @property
    def has_ended(self) -> bool:
        """Whether no further pieces come."""
        return self._has_ended

    # From any thread

    def add(self, piece: LateOutput) -> None:
        """Adds a piece, or counts it as left out. After one is left out, all are until the reader
        has read the others."""
        size = _size(piece.text) + _size(piece.data)
        with self._lock:
            if self._has_ended:
                return
            is_full = len(self._pieces) >= MAX_WAITING_PIECES or (
                bool(self._pieces) and self._n_chars + size > MAX_WAITING_CHARS
            )
            if is_full or self._n_dropped > 0:
                self._n_dropped += 1
                return
            self._pieces.append(piece)
            self._n_chars += size
            self._wake()

    def end(self, error: CoreError | None) -> None:
        """Ends the iteration when all pieces are read.

        Args:
            error: What the reader gets then; None: the executor was stopped.
        """
        self._end(error, drops=False)

    def _end(self, error: CoreError | None, drops: bool) -> None:
        with self._lock:
            if drops:
                self._pieces.clear()
                self._n_dropped = 0
            if not self._has_ended:
                self._has_ended, self._error = True, error
            self._wake()

    # With the lock held

    def _take(self) -> LateOutput | None:
        if self._pieces:
            piece = self._pieces.popleft()
            self._n_chars -= _size(piece.text) + _size(piece.data)
            return piece
        if self._n_dropped > 0:
            dropped, self._n_dropped = self._n_dropped, 0
            return LateOutput(None, "dropped", n_dropped=dropped)
        return None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            try:
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter)
            except RuntimeError:
                pass  # the loop is closed


def read_late_output(params: dict[str, Any]) -> LateOutput:
    """Converts a notification `session.late_output` of the core (`docs/internals/rpc.md`)."""
    event = params["event"]
    kind = event["type"]
    image = event.get("image")
    return LateOutput(
        execution_count=params["execution_count"],
        stream={"text": event.get("stream"), "clear_output": "clear"}.get(kind) or kind,
        text=event.get("text"),
        data=event.get("data") or {},
        metadata=event.get("metadata") or {},
        display_id=event.get("display_id"),
        image=Path(image) if image else None,
        wait=bool(event.get("wait")),
    )


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_size(each) for each in value.values())
    if isinstance(value, list):
        return sum(_size(each) for each in value)
    return len(value) if isinstance(value, str) else 1


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
