# SPDX-License-Identifier: Apache-2.0
"""The client's side of `docs/internals/rpc.md`: requests to the core, and messages from it.

Everything here may be called from any thread. The reading thread passes messages of the core to a
`Handler`, in the order in which they came. Handlers are quick and never block. A forked child has
no core: objects that it inherited raise CoreError, and `acquire_core` starts a new core.
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
# A core without owners ends after this time. Starting a core takes half a second; a kernel of a
# running core takes ten milliseconds.
IDLE_TIMEOUT_S = 30.0

# The most log lines that are kept, in total, for sessions that are being opened.
MAX_EARLY_LOGS = 100

logger = logging.getLogger("ipybox")
LEVELS = {"debug": 10, "info": 20, "notice": 20, "warning": 30, "error": 40, "critical": 50}


class Handler:
    """Receives messages about one request, one WebSocket or one session, in the reading thread."""

    def on_event(self, event: dict[str, Any]) -> None:
        """Called for each event of the cell that the request executes."""

    def on_approval(self, approval: Approval) -> None:
        """Called for a tool call that needs an approval.

        The call is refused if there is no handler, or if the handler raises an exception.
        """
        approval.respond(False)

    def on_done(self, result: Any, error: CoreError | None) -> None:
        """Called once with the answer, after all other messages about the request."""

    def on_tool_call(self, call: ToolCall) -> None:
        """Called for a call of a tool that this process offers to the session."""
        call.fail("this session has no tools")

    def on_log(self, level: int, text: str) -> None:
        """Called for each line of the session's log."""

    def on_late_output(self, params: dict[str, Any]) -> None:
        """Called for each piece of late output of the session, if it is watched."""

    def on_core_ended(self, error: CoreError) -> None:
        """Called once for a session that was not closed before the core ended."""

    def on_message(self, message: dict[str, Any]) -> None:
        """Called for each message of a WebSocket: `text` or `base64`."""

    def on_closed(self, code: int, reason: str) -> None:
        """Called once when a WebSocket was closed or the core has ended; no message follows."""


class Approval:
    """A decision that the core waits for.

    Attributes:
        params: `server_name`, `tool_name`, `tool_args`.
        on_withdrawn: Called in the reading thread when the core stops waiting.
    """

    def __init__(self, core: Core, number: Any, params: dict[str, Any]) -> None:
        self._core = core
        self._number = number
        self.params = params
        self.on_withdrawn: Callable[[], None] | None = None
        self.is_withdrawn = False

    def respond(self, accept: bool) -> None:
        """Decides. Does nothing after a decision, and when the core has stopped waiting."""
        self._core.answer_approval(self._number, accept)

    def withdraw(self) -> None:
        self.is_withdrawn = True
        if self.on_withdrawn is not None:
            self.on_withdrawn()


class ToolCall:
    """A call of a tool of this process, which a cell has made and which was approved.

    Attributes:
        server_name: The name of the group that has the tool.
        tool_name: The tool.
        arguments: From the cell: untrusted.
        on_cancelled: Called in the reading thread when the core does not need an answer any more.
        is_cancelled: Whether that has happened.
    """

    def __init__(self, core: Core, number: Any, params: dict[str, Any]) -> None:
        self._core = core
        self._number = number
        self.server_name: str = params["server_name"]
        self.tool_name: str = params["tool_name"]
        self.arguments: dict[str, Any] = params["tool_args"]
        self.on_cancelled: Callable[[], Any] | None = None
        self.is_cancelled = False

    def answer(self, result: dict[str, Any]) -> None:
        """Ends the call with the result of a tool as MCP has it. Only the first answer counts."""
        self._core.answer_tool(self._number, result)

    def fail(self, text: str) -> None:
        """Ends the call with an error."""
        content = [{"type": "text", "text": text}]
        self._core.answer_tool(self._number, {"content": content, "isError": True})

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.on_cancelled is not None:
            self.on_cancelled()


class Core:
    """One core process. `acquire_core` returns it; each owner calls `release` once."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._n_owners = 1  # the creator
        self._idle_since = 0.0
        self._next_number = 1
        self._requests: dict[int, Handler] = {}
        self._approvals: dict[Any, Approval] = {}
        self._tool_calls: dict[Any, ToolCall] = {}
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
        """Adds an owner. False: this core has ended or is ending."""
        if self.is_of_parent:
            return False
        with self._lock:
            if self._error is not None or self._is_closing:
                return False
            self._n_owners += 1
            return True

    def release(self) -> None:
        """Removes an owner."""
        if self.is_of_parent:
            return
        with self._lock:
            self._n_owners -= 1
            self._idle_since = time.monotonic()
            is_idle = self._n_owners == 0 and not self._is_closing and self._error is None
        if is_idle:
            self._process.wake()

    def close(self) -> None:
        """Ends the core and waits for it, at most 20 seconds. Requests under way fail."""
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
        """Whether this process was forked from the one that has this core.

        A lock may have been held by another thread at the time of the fork, and is never released
        here.
        """
        return self._pid != os.getpid()

    @property
    def error(self) -> CoreError | None:
        """Why the core cannot be used any more; None: it can."""
        if self.is_of_parent:
            return CoreError(
                "this object belongs to the parent process, which this one was forked from; "
                "create a new one after the fork",
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
            method: A method of `docs/internals/rpc.md`.
            params: Its parameters.
            on_late: Called, from any thread, with a result that comes after the task was cancelled.
            is_cancellable: If false, cancelling the task does not cancel the request.

        Raises:
            CoreError: If the core answers with an error; see its `kind`.
            ValueError: If the parameters cannot be written as JSON.
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
        """Sends a request.

        Args:
            method: A method of `docs/internals/rpc.md`.
            params: Its parameters.
            handler: Receives everything about the request. Its `on_done` is called in every case.

        Returns:
            The request's number.

        Raises:
            CoreError: If the core has ended.
            ValueError: If the parameters cannot be written as JSON.
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
                # If the core has ended, its end may have called on_done already.
                if self._requests.pop(number, None) is None:
                    return number
            raise
        return number

    def check(self) -> None:
        """Checks that the core can be used.

        Raises:
            CoreError: If it cannot; the text says why.
        """
        error = self.error
        if error is not None:
            raise make_error(error.kind, str(error))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Sends a notification; does nothing if the core has ended."""
        self._send_if_alive({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self, number: int) -> None:
        """Cancels a request that is under way. Its answer still comes."""
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

    def answer_tool(self, number: Any, result: dict[str, Any]) -> None:
        if self.is_of_parent:
            return
        with self._lock:
            if self._tool_calls.pop(number, None) is None:
                return
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "result": result}
        try:
            line = encode(message)
        except (ValueError, TypeError, RecursionError) as error:
            text = f"the result cannot be sent: {error}"
            del message["result"]
            line = encode({**message, "error": {"code": -32000, "message": text}})
        if self.error is None:
            try:
                self._process.send(line)
            except CoreError:
                pass

    def run_soon(self, errand: Callable[[], None]) -> None:
        """Has the reading thread call `errand`, unless the core ends first.

        This takes no lock, so `__del__` may call it at any time, even in a thread that holds one.
        """
        self._errands.append(errand)
        self._process.wake()

    def route_socket(self, socket: str, handler: Handler | None) -> None:
        """Sets the handler of a WebSocket. Call it in the `on_done` of `websocket.open`, or
        messages are lost."""
        with self._lock:
            _put(self._sockets, socket, handler)

    def route_session(self, session: str, handler: Handler | None) -> None:
        """Sets the handler that gets the log of a session, and its approvals while no cell runs."""
        with self._lock:
            _put(self._sessions, session, handler)
            early = [log for log in self._early_logs if log["session"] == session]
            for log in early:
                self._early_logs.remove(log)
        for log in early:
            self._dispatch_log(log)

    def forget(self) -> None:
        """In a forked child: closes what belongs to the parent."""
        self._process.forget()

    # Messages of the core; in the reading thread

    def _initialize(self) -> None:
        from .. import __version__

        self.request(
            "initialize",
            {"protocol": PROTOCOL, "client": {"name": "python", "version": __version__}},
            _Greeting(self),
        )

    def fail(self, error: CoreError) -> None:
        """Stops using the core, because of an error."""
        with self._lock:
            self._error = self._error or error
            self._is_closing = True
        self._process.close()

    def _run_errands(self) -> None:
        while self._errands:
            try:
                self._errands.popleft()()
            except Exception:
                logger.exception("an object that was not stopped could not be closed")

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
        elif method == "tool.call":
            self._dispatch_tool_call(message["id"], params)
        elif method == "tool.cancelled":
            with self._lock:
                call = self._tool_calls.pop(params["id"], None)
            if call is not None:
                call.cancel()
        elif method == "session.late_output":
            with self._lock:
                handler = self._sessions.get(params["session"])
            if handler is not None:
                handler.on_late_output(params)
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
            approval.respond(False)  # no one will decide
            raise

    def _dispatch_tool_call(self, number: Any, params: dict[str, Any]) -> None:
        call = ToolCall(self, number, params)
        with self._lock:
            self._tool_calls[number] = call
            handler = self._sessions.get(params["session"])
        try:
            if handler is None:
                call.fail("the session was closed")
            else:
                handler.on_tool_call(call)
        except Exception:
            call.fail("the application could not run the call")
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
                    f"the ipybox core (process {self._process.pid}) {why}; "
                    "its kernels are gone. Start a new executor",
                    "died",
                )
            error = self._error
            requests, self._requests = self._requests, {}
            approvals, self._approvals = self._approvals, {}
            tool_calls, self._tool_calls = self._tool_calls, {}
            sockets, self._sockets = self._sockets, {}
            sessions = list(self._sessions.values())
        steps: list[Callable[[], None]] = [approval.withdraw for approval in approvals.values()]
        steps += [call.cancel for call in tool_calls.values()]
        steps += [
            partial(handler.on_done, None, make_error(error.kind, str(error)))
            for handler in requests.values()
        ]
        steps += [partial(handler.on_closed, 1006, str(error)) for handler in sockets.values()]
        steps += [
            partial(handler.on_core_ended, make_error(error.kind, str(error)))
            for handler in sessions
        ]
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
    """Checks the answer to `initialize`. It comes first, so other requests need not wait for it."""

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
    """Passes an answer to an event loop. Either the waiting task receives it, or `on_late` does."""

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
        """The task stops waiting. Called in the loop's thread, or when the loop is closed."""
        with self._lock:
            self._is_abandoned = True
        if self.future.done() and not self.future.cancelled():
            self.future.exception()  # so that asyncio does not report it as never retrieved
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
    """The core of this process. It is started if there is none, which blocks for a few
    milliseconds.

    Raises:
        FileNotFoundError: If the program does not exist.
        OSError: If it cannot be started.
    """
    global _core
    with _lock:
        if _core is None or not _core.try_acquire():
            _core = Core()
        return _core


def close_core() -> None:
    """Ends the core, if there is one, and waits for it.

    Requests under way fail. The next `acquire_core` starts another core.
    """
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
