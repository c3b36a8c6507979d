# SPDX-License-Identifier: Apache-2.0
"""A running cell: receives events in the reading thread, and passes them to a task."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from pathlib import Path
from typing import Any, Protocol

from .core import Approval, Core, CoreError, Handler
from .results import (
    CodeExecutionChunk,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutionTimeout,
    DisplayData,
)
from .tool_exec.approval.client import ApprovalRequest

# Chunks that wait for the task. If there are more, the session is paused until half of them are
# read.
MAX_WAITING_CHUNKS = 1024
MAX_WAITING_CHARS = 1024 * 1024
MAX_KEPT_NOTICES = 100

logger = logging.getLogger("ipybox")


class KeptNotices:
    """Keeps notices and violations of answers that reached no caller, for the next answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, list[str]] = {"notices": [], "violations": []}

    def keep(self, answer: dict[str, Any]) -> None:
        """Keeps the lists of an answer."""
        with self._lock:
            for name, texts in self._kept.items():
                texts += (answer.get(name) or [])[: MAX_KEPT_NOTICES - len(texts)]

    def add_to(self, answer: dict[str, Any]) -> None:
        """Moves the kept lists to the beginning of an answer's lists."""
        with self._lock:
            for name, texts in self._kept.items():
                answer[name] = [*texts, *(answer.get(name) or [])]
                texts.clear()


class CellOwner(Protocol):
    """The part of a session that a cell uses."""

    core: Core
    end_reason: str | None
    kept_notices: KeptNotices

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def remove(self, cell: Cell) -> None: ...


class Cell(Handler):
    """A running cell. A task of one event loop creates and reads it. Any thread may cancel it.

    It ends in one of two ways: `finish` returns the result or raises, or `abandon` drops the rest.
    """

    def __init__(self, session: CellOwner, *, asks: bool, wants_chunks: bool) -> None:
        """`asks`: approvals become items, else they are given. `wants_chunks`: so does text."""
        self._session = session
        self._asks = asks
        self._wants_chunks = wants_chunks
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: deque[ApprovalRequest | CodeExecutionChunk] = deque()
        self._n_chars = 0
        self._waiter: asyncio.Future[None] | None = None
        self._answer: dict[str, Any] | None = None
        self._error: CoreError | None = None
        self._is_done = False
        self._is_paused = False
        self._drops = False  # the task has abandoned the cell
        self._is_ending = False
        self._is_taken = False  # whether the answer's notices have reached the caller or are kept
        self.number = 0

    # For the task

    async def next(self) -> ApprovalRequest | CodeExecutionChunk | None:
        """Waits for the next item; None when the cell has ended."""
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

    def finish(self, *, returns_cancelled: bool) -> CodeExecutionResult | None:
        """The result of a cell that has ended.

        None if it was cancelled, unless `returns_cancelled`.

        Raises:
            CodeExecutionError, TimeoutError, CoreError: If the cell has failed.
        """
        if self._error is not None:
            raise self._explain(self._error)
        answer = self._answer or {}
        status = answer.get("status")
        if status == "cancelled":
            if answer.get("message"):
                logger.info("%s", answer["message"])
            if not returns_cancelled:
                return None
        self._take(answer)
        if status == "ok":
            return _read_result(answer)
        if status == "cancelled":
            return _read_cancellation(answer)
        if status == "timeout":
            raise _read_timeout(answer)
        raise _read_failure(answer, self._session.end_reason)

    def _take(self, answer: dict[str, Any]) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                self._session.kept_notices.add_to(answer)

    def abandon(self) -> None:
        """Drops the rest of the output, and interrupts the cell if it has not ended."""
        if self._session.core.is_of_parent:
            return  # in a forked child the lock may be held for ever
        self._drop()
        if not self._is_done:
            self._session.core.cancel(self.number)

    # From anywhere

    def cancel(self) -> None:
        """Interrupts the cell. Items that were not read are kept."""
        self.let_go()
        self._session.core.cancel(self.number)

    def let_go(self) -> None:
        """Called when the cell is about to end: its session is not paused for it any more."""
        with self._lock:
            self._is_ending = True
            self._resume()

    def fail(self, error: CoreError) -> None:
        """Ends a cell that gets no answer."""
        self.on_done(None, error)

    # By the reading thread

    def on_event(self, event: dict[str, Any]) -> None:
        if event["type"] != "text" or not self._wants_chunks:
            return
        text = event["text"]
        with self._lock:
            if self._drops or self._is_done or not text:
                return
            self._items.append(CodeExecutionChunk(text))
            self._n_chars += len(text)
            is_much = self._n_chars > MAX_WAITING_CHARS or len(self._items) > MAX_WAITING_CHUNKS
            if is_much and not self._is_paused and not self._is_ending:
                self._is_paused = True
                self._session.pause()
            self._wake()

    def on_approval(self, approval: Approval) -> None:
        if not self._asks:
            approval.respond(True)
            return
        request = make_request(approval)
        with self._lock:
            if self._drops or self._is_done:
                return  # the core withdraws the request
            self._items.append(request)
            self._wake()

    def on_done(self, result: Any, error: CoreError | None) -> None:
        self._session.remove(self)
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
            self._answer, self._error = result, error
            self._is_paused = False
            self._keep_notices_of_dropped()
            self._wake()

    # With the lock held

    def _keep_notices_of_dropped(self) -> None:
        if self._drops and self._is_done and not self._is_taken:
            self._is_taken = True
            self._session.kept_notices.keep(self._answer or {})

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            try:
                self._loop.call_soon_threadsafe(_resolve, waiter)
            except RuntimeError:
                pass  # the loop is closed

    def _resume_if_read(self, item: ApprovalRequest | CodeExecutionChunk) -> None:
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
            self._drops = True
            self._items.clear()
            self._resume()
            self._keep_notices_of_dropped()

    def _explain(self, error: CoreError) -> Exception:
        reason = self._session.end_reason
        if reason is not None and error.kind in ("busy", "closed", "not_found", "cancelled"):
            return CodeExecutionError(reason)
        return error


def make_request(approval: Approval) -> ApprovalRequest:
    """The approval request for the application."""

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


def _read_displays(answer: dict[str, Any]) -> list[DisplayData]:
    return [
        DisplayData(each["data"], each.get("metadata") or {})
        for each in answer.get("display_data") or []
    ]


def _strip(text: str | None) -> str | None:
    return None if text is None else text.strip()


def _read_result(answer: dict[str, Any]) -> CodeExecutionResult:
    return CodeExecutionResult(
        text=_strip(answer.get("text")),
        images=[Path(path) for path in answer.get("images") or []],
        raw_text=answer.get("text"),
        display_data=_read_displays(answer),
        violations=list(answer.get("violations") or []),
        notices=list(answer.get("notices") or []),
        is_truncated=bool(answer.get("truncated")),
    )


def _read_cancellation(answer: dict[str, Any]) -> CodeExecutionResult:
    return CodeExecutionResult(
        text=None,
        images=[],
        is_cancelled=True,
        violations=list(answer.get("violations") or []),
        notices=list(answer.get("notices") or []),
    )


def _read_timeout(answer: dict[str, Any]) -> CodeExecutionTimeout:
    error = CodeExecutionTimeout(answer["message"])
    error.output = _strip(answer.get("text"))
    error.violations = list(answer.get("violations") or [])
    error.notices = list(answer.get("notices") or [])
    return error


def _read_failure(answer: dict[str, Any], end_reason: str | None) -> CodeExecutionError:
    failure = answer.get("error") or {}
    message = failure.get("text")
    if end_reason is not None and failure.get("name") in (None, "KeyboardInterrupt"):
        message = end_reason
    elif message is None:
        message = answer.get("message") or "the cell failed"
    error = CodeExecutionError(message)
    error.name = failure.get("name")
    error.value = failure.get("value")
    error.output = _strip(answer.get("text"))
    error.images = [Path(path) for path in answer.get("images") or []]
    error.display_data = _read_displays(answer)
    error.violations = list(answer.get("violations") or [])
    error.notices = list(answer.get("notices") or [])
    return error
