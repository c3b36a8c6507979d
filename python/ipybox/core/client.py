# SPDX-License-Identifier: Apache-2.0
"""Requests to the core and what it sends by itself: `docs/internals/rpc.md` from the client's side.

Everything here may be called from any thread. What the core says is told to a `Handler` by the thread that reads it, in the
order in which it came; handlers are quick and never block. After a fork the child has no core: what it kept of the parent's
raises CoreError, and `acquire_core` starts one of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from .errors import CoreDiedError, CoreError, make_error, read_error
from .lines import decode, encode
from .process import Process

PROTOCOL = 1
# A core that nobody has ends after this time. Starting one takes half a second, a kernel from one that runs ten milliseconds.
IDLE_TIMEOUT_S = 30.0

# Lines of logs of sessions that are being opened, all together.
MAX_EARLY_LOGS = 100

logger = logging.getLogger("ipybox")
LEVELS = {"debug": 10, "info": 20, "notice": 20, "warning": 30, "error": 40, "critical": 50}


class Handler:
    """What is told about one request, or one WebSocket, or one session; by the reading thread."""

    def on_event(self, event: dict[str, Any]) -> None:
        """An event of the cell that the request executes."""

    def on_approval(self, approval: Approval) -> None:
        """Somebody has to decide on a tool call; without a handler, or if it raises an exception, the call is refused."""
        approval.respond(False)

    def on_done(self, result: Any, error: CoreError | None) -> None:
        """The answer; nothing of the request comes after it."""

    def on_log(self, level: int, text: str) -> None:
        """A line of the session's log."""

    def on_message(self, message: dict[str, Any]) -> None:
        """A WebSocket's message: `text` or `base64`."""

    def on_closed(self, code: int, reason: str) -> None:
        """The end of a WebSocket, or of the core; nothing of it comes after that."""


class Approval:
    """A decision that the core waits for.

    Attributes:
        params: `server_name`, `tool_name`, `tool_args`.
        on_withdrawn: Called by the reading thread when the core does not wait any more.
    """

    def __init__(self, core: Core, number: Any, params: dict[str, Any]) -> None:
        self._core = core
        self._number = number
        self.params = params
        self.on_withdrawn: Callable[[], None] | None = None
        self.is_withdrawn = False

    def respond(self, accept: bool) -> None:
        """Decides. Does nothing if it was decided before, or is not waited for any more."""
        self._core.answer_approval(self._number, accept)

    def withdraw(self) -> None:
        self.is_withdrawn = True
        if self.on_withdrawn is not None:
            self.on_withdrawn()


class Core:
    """One core process. `acquire_core` gives it; each owner calls `release` once."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._n_owners = 1  # whoever makes it
        self._idle_since = 0.0
        self._next_number = 1
        self._requests: dict[int, Handler] = {}
        self._approvals: dict[Any, Approval] = {}
        self._sockets: dict[str, Handler] = {}
        self._sessions: dict[str, Handler] = {}
        self._early_logs: deque[dict[str, Any]] = deque(maxlen=MAX_EARLY_LOGS)
        self._error: CoreError | None = None
        self._is_closing = False
        self._errands: deque[Callable[[], None]] = deque()
        self._process = Process(
            self._on_line, self._on_end, self._idle_seconds, self._close_if_idle, self._run_errands
        )
        _all.add(self)
        self._initialize()

    # Owners

    def try_acquire(self) -> bool:
        """Adds an owner; False if this core has ended or is about to."""
        if self.is_of_parent:
            return False
        with self._lock:
            if self._error is not None or self._is_closing:
                return False
            self._n_owners += 1
            return True

    def release(self) -> None:
        """Takes an owner away."""
        if self.is_of_parent:
            return
        with self._lock:
            self._n_owners -= 1
            self._idle_since = time.monotonic()
            is_idle = self._n_owners == 0 and not self._is_closing and self._error is None
        if is_idle:
            self._process.wake()

    def close(self) -> None:
        """Ends the core and waits for it: 20 s at most. Whatever it still does fails."""
        if self.is_of_parent:
            return
        with self._lock:
            self._is_closing = True
        self._process.close()
        self._process.join()

    @property
    def pid(self) -> int:
        """The process id of the core."""
        return self._process.pid

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a fork of the one that has this core. Its locks may be held for ever."""
        return self._pid != os.getpid()

    @property
    def error(self) -> CoreError | None:
        """Why the core is of no use any more; None while it is."""
        if self.is_of_parent:
            return CoreError(
                "this belongs to the process that this one was forked from; make a new one after the fork",
                "closed",
            )
        return self._error

    # Requests

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        on_late: Callable[[Any], None] | None = None,
        *,
        is_cancellable: bool = True,
    ) -> Any:
        """Sends a request and waits for its result. Cancelling the task cancels the request.

        Args:
            method: Of `docs/internals/rpc.md`.
            params: Its parameters.
            on_late: Called with a result that nobody waits for any more, from whatever thread.
            is_cancellable: False: cancelling the task only ends the waiting.

        Raises:
            CoreError: What the core answered instead; see its `kind`.
            ValueError: If the parameters are no JSON.
        """
        reply = _Reply(asyncio.get_running_loop(), on_late)
        number = self.request(method, params, reply)
        is_taken = False
        try:
            result = await reply.future
            is_taken = True
            return result
        except CoreError:
            is_taken = True
            raise
        finally:
            if not is_taken:
                if is_cancellable:
                    self.cancel(number)
                reply.abandon()

    def request(self, method: str, params: dict[str, Any], handler: Handler) -> int:
        """Sends a request; returns its number. `handler` is told the rest, and is told `on_done` for certain.

        Raises:
            CoreError: If the core has ended.
            ValueError: If the parameters are no JSON.
        """
        self.check()
        with self._lock:
            number = self._next_number
            self._next_number += 1
        line = encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        with self._lock:
            self.check()
            self._requests[number] = handler
        try:
            self._process.send(line)
        except CoreError:
            with self._lock:
                # The end of the core may have told it already.
                if self._requests.pop(number, None) is None:
                    return number
            raise
        return number

    def check(self) -> None:
        """Raises why the core is of no use any more, if it is not."""
        error = self.error
        if error is not None:
            raise make_error(error.kind, str(error))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Sends a notification; does nothing if the core has ended."""
        self._send_if_alive({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self, number: int) -> None:
        """Cancels a request that is under way; its answer still comes."""
        if self.is_of_parent:
            return
        with self._lock:
            is_waiting = number in self._requests
        if is_waiting:
            self.notify("session.cancel", {"request": number})

    def answer_approval(self, number: Any, accept: bool) -> None:
        if self.is_of_parent:
            return
        with self._lock:
            is_waiting = self._approvals.pop(number, None) is not None
        if is_waiting:
            self._send_if_alive({"jsonrpc": "2.0", "id": number, "result": {"accept": accept}})

    def run_soon(self, errand: Callable[[], None]) -> None:
        """Has the reading thread call `errand`, unless the core ends before. For `__del__`, which may come at any time in any
        thread, also in one that holds a lock of ours: it takes none."""
        self._errands.append(errand)
        self._process.wake()

    def route_socket(self, socket: str, handler: Handler | None) -> None:
        """Who is told about a WebSocket. To lose nothing, called in the `on_done` of `websocket.open`."""
        with self._lock:
            _put(self._sockets, socket, handler)

    def route_session(self, session: str, handler: Handler | None) -> None:
        """Who is told the log of a session, and is asked where no cell is."""
        with self._lock:
            _put(self._sessions, session, handler)
            early = [log for log in self._early_logs if log["session"] == session]
            for log in early:
                self._early_logs.remove(log)
        for log in early:
            self._dispatch_log(log)

    def forget(self) -> None:
        """In a forked child: lets go of what belongs to the parent."""
        self._process.forget()

    # What the core says; in the reading thread

    def _initialize(self) -> None:
        from .. import __version__

        self.request(
            "initialize",
            {"protocol": PROTOCOL, "client": {"name": "python", "version": __version__}},
            _Greeting(self),
        )

    def fail(self, error: CoreError) -> None:
        """Gives the core up."""
        with self._lock:
            self._error = self._error or error
            self._is_closing = True
        self._process.close()

    def _run_errands(self) -> None:
        while self._errands:
            try:
                self._errands.popleft()()
            except Exception:
                logger.exception("something forgotten could not be closed")

    def _send_if_alive(self, message: dict[str, Any]) -> None:
        if self.error is None:
            try:
                self._process.send(encode(message))
            except CoreError:
                pass

    def _on_line(self, line: bytes) -> None:
        message = decode(line)
        try:
            self._dispatch(message)
        except Exception:
            logger.exception("a message of the core could not be handled")

    def _dispatch(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            self._dispatch_answer(message)
            return
        params = message.get("params") or {}
        if method == "session.event":
            with self._lock:
                handler = self._requests.get(params["request"])
            if handler is not None:
                handler.on_event(params["event"])
        elif method == "approval.request":
            self._dispatch_approval(message["id"], params)
        elif method == "approval.withdrawn":
            with self._lock:
                approval = self._approvals.pop(params["id"], None)
            if approval is not None:
                approval.withdraw()
        elif method == "log":
            self._dispatch_log(params)
        elif method in ("websocket.message", "websocket.closed"):
            self._dispatch_socket(method, params)
        elif "id" in message:
            error = {"code": -32601, "message": f"the client has no method {method}"}
            self._send_if_alive({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _dispatch_answer(self, message: dict[str, Any]) -> None:
        with self._lock:
            handler = self._requests.pop(message.get("id", 0), None)
        if handler is None:
            return
        if "error" in message:
            handler.on_done(None, read_error(message["error"]))
        else:
            handler.on_done(message.get("result"), None)

    def _dispatch_approval(self, number: Any, params: dict[str, Any]) -> None:
        approval = Approval(self, number, params)
        with self._lock:
            self._approvals[number] = approval
            handler = self._requests.get(params.get("request") or 0)
            if handler is None:
                handler = self._sessions.get(params.get("session", ""))
        if handler is None:
            approval.respond(False)
            return
        try:
            handler.on_approval(approval)
        except Exception:
            approval.respond(False)  # nobody will decide
            raise

    def _dispatch_log(self, params: dict[str, Any]) -> None:
        level = LEVELS.get(params.get("level", ""), 20)
        session = params.get("session")
        with self._lock:
            handler = self._sessions.get(session or "")
            if session and handler is None:
                self._early_logs.append(params)
        if handler is not None:
            handler.on_log(level, params["text"])
        elif not session:
            logger.log(level, "%s", params["text"])

    def _dispatch_socket(self, method: str, params: dict[str, Any]) -> None:
        is_end = method == "websocket.closed"
        with self._lock:
            handler = self._sockets.get(params["socket"])
            if is_end:
                self._sockets.pop(params["socket"], None)
        if handler is None:
            return
        if is_end:
            handler.on_closed(int(params.get("code") or 1006), params.get("reason") or "")
        else:
            handler.on_message(params)

    def _on_end(self, reason: str) -> None:
        with self._lock:
            if self._error is None:
                why = "was closed" if self._is_closing else f"ended unexpectedly ({reason})"
                self._error = CoreDiedError(
                    f"the ipybox core (process {self._process.pid}) {why}; its kernels are gone. Start a new executor",
                    "died",
                )
            error = self._error
            requests, self._requests = self._requests, {}
            approvals, self._approvals = self._approvals, {}
            sockets, self._sockets = self._sockets, {}
        steps: list[Callable[[], None]] = [approval.withdraw for approval in approvals.values()]
        steps += [
            partial(handler.on_done, None, make_error(error.kind, str(error)))
            for handler in requests.values()
        ]
        steps += [partial(handler.on_closed, 1006, str(error)) for handler in sockets.values()]
        for step in steps:
            try:
                step()
            except Exception:
                logger.exception("the end of the core could not be handled")

    def _idle_seconds(self) -> float | None:
        with self._lock:
            if self._n_owners > 0:
                return None
            return self._idle_since + IDLE_TIMEOUT_S - time.monotonic()

    def _close_if_idle(self) -> None:
        with self._lock:
            if self._n_owners > 0 or time.monotonic() < self._idle_since + IDLE_TIMEOUT_S:
                return
            self._is_closing = True
        self._process.close()


def _put(table: dict[str, Handler], name: str, handler: Handler | None) -> None:
    if handler is None:
        table.pop(name, None)
    else:
        table[name] = handler


class _Greeting(Handler):
    """The answer to `initialize`: the first of all, so the requests behind it need not wait for it."""

    def __init__(self, core: Core) -> None:
        self._core = weakref.ref(core)

    def on_done(self, result: Any, error: CoreError | None) -> None:
        core = self._core()
        if core is not None and error is None and result.get("protocol") != PROTOCOL:
            core.fail(
                CoreError(
                    f"the program ipybox speaks protocol {result.get('protocol')}, not {PROTOCOL}",
                    "protocol",
                )
            )
        elif core is not None and error is not None and error.kind != "died":
            core.fail(
                CoreError(f"the program ipybox does not fit to this package: {error}", "protocol")
            )


class _Reply(Handler):
    """Brings an answer into an event loop. Exactly one of these has it in the end: whoever waits, or `on_late`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_late: Callable[[Any], None] | None
    ) -> None:
        self.future: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._on_late = on_late
        self._lock = threading.Lock()
        self._has_result = False
        self._result: Any = None
        self._is_abandoned = False

    def on_done(self, result: Any, error: CoreError | None) -> None:
        with self._lock:
            self._result = result
            self._has_result = error is None
            is_late = self._is_abandoned
        if is_late:
            self._give_late()
            return
        try:
            self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:  # the loop is closed
            self.abandon()

    def abandon(self) -> None:
        """Nobody waits any more. In the loop's thread, or when there is no loop."""
        with self._lock:
            self._is_abandoned = True
        if self.future.done() and not self.future.cancelled():
            self.future.exception()  # seen, so that asyncio does not complain
        self._give_late()

    def _settle(self, result: Any, error: CoreError | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def _give_late(self) -> None:
        with self._lock:
            has_result, self._has_result = self._has_result, False
        if has_result and self._on_late is not None:
            self._on_late(self._result)


# The core of this process

_lock = threading.Lock()
_core: Core | None = None
_all: weakref.WeakSet[Core] = weakref.WeakSet()


def acquire_core() -> Core:
    """The core of this process, started if there is none. Blocks for the few milliseconds that starting a program takes.

    Raises:
        FileNotFoundError: If the program is not there.
        OSError: If it cannot be started.
    """
    global _core
    with _lock:
        if _core is None or not _core.try_acquire():
            _core = Core()
        return _core


def close_core() -> None:
    """Ends the core now, if there is one, and waits for it. What still uses it fails; the next `acquire_core` starts another."""
    global _core
    with _lock:
        core, _core = _core, None
    if core is not None:
        core.close()


def _after_fork() -> None:
    global _core, _lock
    _lock = threading.Lock()
    _core = None
    for core in list(_all):
        core.forget()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_core)
