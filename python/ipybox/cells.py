# SPDX-License-Identifier: Apache-2.0
"""A running cell, between the thread that reads from the core and the task that iterates over
it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import Any, Protocol

from .answers import CellAnswer, KeptNotices
from .core import Approval, Core, CoreError, Handler
from .inputs import InputRequest
from .results import CodeExecutionChunk, CodeExecutionError, CodeExecutionResult
from .tool_exec.approval.client import ApprovalRequest

# Chunks, and their characters, that wait for a reader. If there are more, the session is paused
# until half of them are read.
MAX_WAITING_CHUNKS = 1024
MAX_WAITING_CHARS = 1024 * 1024

logger = logging.getLogger("ipybox")

Item = ApprovalRequest | InputRequest | CodeExecutionChunk


class CellOwner(Protocol):
    """What a cell needs from its session."""

    core: Core
    end_reason: str | None
    kept_notices: KeptNotices

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def remove(self, cell: Cell) -> None: ...

    async def answer_input(self, number: int, answer: dict[str, Any]) -> None: ...


class Cell(Handler):
    """One execution. A task of one event loop creates and reads it; any thread may cancel it.

    It ends in one of two ways: `finish` returned the result or raised an exception; or `abandon`
    was called, and the rest of its output is dropped.
    """

    def __init__(self, session: CellOwner, *, asks: bool, wants_chunks: bool) -> None:
        """
        Args:
            session: The session that runs the cell.
            asks: Whether requests for approval are items; else they are accepted.
            wants_chunks: Whether pieces of text are items.
        """
        self._session = session
        self._asks = asks
        self._wants_chunks = wants_chunks
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._n_chars = 0
        self._waiter: asyncio.Future[None] | None = None
        self._answer: CellAnswer | None = None
        self._error: CoreError | None = None
        self._is_done = False
        self._is_paused = False
        self._is_abandoned = False
        self._is_ending = False
        self._is_taken = False  # whether the answer's notices have reached the caller or are kept
        self.number = 0

    # For the task

    async def next(self) -> Item | None:
        """Waits for the next item. None: the cell has ended."""
        while True:
            with self._lock:
                if self._items:
                    item = self._items.popleft()
                    self._resume_if_read(item)
                    return item
                if self._is_done:
                    return None
                waiter = self._waiter = self._loop.create_future()
            await waiter

    def finish(self, *, reports_cancellation: bool) -> CodeExecutionResult | None:
        """The result of a cell that has ended.

        Args:
            reports_cancellation: Whether a cancelled cell has a result; else it is None.

        Raises:
            CodeExecutionError: If the code raised an exception, or the kernel or session has ended.
            CodeExecutionTimeout: If the cell exceeded its time limit.
            CoreError: If the core could not run it.
        """
        if self._error is not None:
            raise self._explain(self._error)
        answer = self._answer
        assert answer is not None
        if answer.status == "cancelled":
            if answer.message:
                logger.info("%s", answer.message)
            if not reports_cancellation:
                return None
        self._take(answer)
        if answer.status == "ok":
            return answer.result()
        if answer.status == "cancelled":
            return answer.cancelled_result()
        raise answer.error(self._session.end_reason)

    def _take(self, answer: CellAnswer) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                self._session.kept_notices.add_to(answer)

    def abandon(self) -> None:
        """The task stops reading: the cell is interrupted, unless it has ended."""
        if self._session.core.is_of_parent:
            return  # another thread of the parent may have held the lock when it forked
        self._drop()
        if not self._is_done:
            self._session.core.cancel(self.number)

    # From any thread

    def cancel(self) -> None:
        """Interrupts the cell. Items that were not read stay."""
        self.let_go()
        self._session.core.cancel(self.number)

    def let_go(self) -> None:
        """The cell is about to end, so its session is not paused for it any more."""
        with self._lock:
            self._is_ending = True
            self._resume()

    def fail(self, error: CoreError) -> None:
        """Ends a cell that got no answer."""
        self.on_done(None, error)

    # By the reading thread

    def on_event(self, event: dict[str, Any]) -> None:
        if event["type"] == "input_request":
            self._on_input_request(event)
        if event["type"] != "text" or not self._wants_chunks:
            return
        text = event["text"]
        with self._lock:
            if self._is_abandoned or self._is_done or not text:
                return
            self._items.append(CodeExecutionChunk(text))
            self._n_chars += len(text)
            is_much = self._n_chars > MAX_WAITING_CHARS or len(self._items) > MAX_WAITING_CHUNKS
            if is_much and not self._is_paused and not self._is_ending:
                self._is_paused = True
                self._session.pause()
            self._wake()

    def _on_input_request(self, event: dict[str, Any]) -> None:
        number, session = event["input"], self._session

        async def send(answer: dict[str, Any]) -> None:
            await session.answer_input(number, answer)

        with self._lock:
            if not self._is_abandoned and not self._is_done:
                self._items.append(InputRequest(event["prompt"], event["password"], send))
                self._wake()

    def on_approval(self, approval: Approval) -> None:
        if not self._asks:
            approval.respond(True)
            return
        request = make_request(approval)
        with self._lock:
            if self._is_abandoned or self._is_done:
                return  # the core withdraws it
            self._items.append(request)
            self._wake()

    def on_done(self, result: Any, error: CoreError | None) -> None:
        self._session.remove(self)
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
            self._answer = CellAnswer(result) if error is None else None
            self._error = error
            self._is_paused = False
            self._keep_lost_notices()
            self._wake()

    # With the lock held

    def _keep_lost_notices(self) -> None:
        if self._is_abandoned and self._answer is not None and not self._is_taken:
            self._is_taken = True
            self._session.kept_notices.keep(self._answer)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            try:
                self._loop.call_soon_threadsafe(_resolve, waiter)
            except RuntimeError:
                pass  # the loop is closed

    def _resume_if_read(self, item: Item) -> None:
        if isinstance(item, CodeExecutionChunk):
            self._n_chars -= len(item.text)
        if self._n_chars <= MAX_WAITING_CHARS // 2 and len(self._items) <= MAX_WAITING_CHUNKS // 2:
            self._resume()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._session.resume()

    def _drop(self) -> None:
        with self._lock:
            self._is_abandoned = True
            self._items.clear()
            self._resume()
            self._keep_lost_notices()

    def _explain(self, error: CoreError) -> Exception:
        reason = self._session.end_reason
        if reason is not None and error.kind in ("busy", "closed", "not_found", "cancelled"):
            return CodeExecutionError(reason)
        return error


def make_request(approval: Approval) -> ApprovalRequest:
    """Converts a request of the core to the one that the application receives."""

    async def respond(accept: bool) -> None:
        approval.respond(accept)

    params = approval.params
    request = ApprovalRequest(
        params["server_name"],
        params["tool_name"],
        params["tool_args"],
        respond,
        server_params=params.get("server_params"),
    )
    approval.on_withdrawn = request.expire
    return request


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
