# SPDX-License-Identifier: Apache-2.0
"""Runs MCP tools through the session's tool channel, by `POST /run` with JSON.

Connections are kept open for later calls.

The protocol is described in `docs/internals/tool-channel.md`. Two rules apply:

- A call is never sent twice, because it may have side effects. A new connection is used only if a
  kept connection turns out to be closed before it has accepted a byte of the call.
- A connection carries one call at a time and belongs to one process. A caller takes one from the
  pool or opens one. It returns the connection after a complete answer, and closes it otherwise.
  Closing a connection cancels its call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import select
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .content import ToolAnswer

DEFAULT_HOST = "localhost"
DEFAULT_PORT = 8900

CONNECT_TIMEOUT_S = 10.0
# Idle connections that are kept. The channel closes connections that are idle for five minutes.
MAX_IDLE_CONNECTIONS = 8
MAX_IDLE_S = 240.0
# Calls at the same time, of threads and of tasks each. Further calls wait. The channel serves 64
# connections.
MAX_CONCURRENT_CALLS = 24
# The depth of arguments. A request may be 128 deep, including its outer object
# (src/tools/tool-request.c).
MAX_ARGUMENT_DEPTH = 127
MAX_RESPONSE_HEAD = 64 * 1024
MAX_RESPONSE_BODY = 512 * 1024 * 1024
RECEIVE_SIZE = 256 * 1024
# If a result violates its schema more often than this, only the number is reported.
MAX_VIOLATIONS_READ = 100_000
MAX_VIOLATIONS_REPORTED = 10
MAX_VIOLATION_TEXT = 300


class ToolRunnerError(Exception):
    """A tool could not be run, failed, or was not approved."""


class ApprovalRejectedError(ToolRunnerError):
    """The call was not approved: a user or a rule rejected it."""


class ApprovalTimeoutError(ToolRunnerError):
    """The call was neither approved nor rejected in time."""


class ResultError(ToolRunnerError):
    """The tool has run, but its result violates its output schema or has no Python value.

    Attributes:
        result: The result, unchanged; its JSON text if Python has no value for it.
        path: Where the first violation is, for example `("items", 3, "name")`; empty for the whole
            result.
        violations: The violations, a line each, at most ten.
    """

    def __init__(self, result: Any, error: Any) -> None:
        """Args: result: the result; error: pydantic's ValidationError, or a text."""
        self.result = result
        self.path: tuple[int | str, ...] = ()
        if isinstance(error, str):
            self.violations = [error]
            n_violations = 1
        else:
            n_violations = error.error_count()
            self.path, self.violations = _read_violations(result, error, n_violations)
        lines = [*self.violations]
        if n_violations > len(lines):
            lines.append(f"and {n_violations - len(lines)} more")
        super().__init__(
            "the tool has run, but its result violates its schema; `result` of this error has it:\n"
            + "\n".join(f"- {line}" for line in lines)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_result_error, (self.args, self.__dict__)


def _restore_result_error(args: tuple[Any, ...], state: dict[str, Any]) -> ResultError:
    error = ResultError.__new__(ResultError, *args)
    error.__dict__.update(state)
    return error


def _read_violations(
    result: Any, error: Any, count: int
) -> tuple[tuple[int | str, ...], list[str]]:
    if count > MAX_VIOLATIONS_READ:
        return (), [f"{count} violations"]
    details = error.errors(include_url=False, include_context=False, include_input=False)
    details = details[:MAX_VIOLATIONS_REPORTED]
    paths = [_find_place(result, each["loc"], each["type"] == "missing") for each in details]
    lines = [
        _describe_violation(path, each["msg"]) for path, each in zip(paths, details, strict=True)
    ]
    return paths[0], lines


def _find_place(
    result: Any, location: tuple[int | str, ...], is_missing: bool
) -> tuple[int | str, ...]:
    """The location in the result: without the alternatives of unions, which pydantic includes."""
    path: list[int | str] = []
    for number, part in enumerate(location):
        if isinstance(result, dict) and part in result:
            result = result[part]
        elif isinstance(result, list) and isinstance(part, int) and part < len(result):
            result = result[part]
        elif not is_missing or number < len(location) - 1:
            continue
        path.append(part)
    return tuple(path)


def _describe_violation(path: tuple[int | str, ...], message: str) -> str:
    """One line of bounded length: `items[3].name: Input should be a valid string`."""
    place = ""
    for part in path:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
        if len(place) > MAX_VIOLATION_TEXT:
            place = place[:MAX_VIOLATION_TEXT] + "…"
            break
    if len(message) > MAX_VIOLATION_TEXT:
        message = message[:MAX_VIOLATION_TEXT] + "…"
    line = f"{place or 'the result'}: {message}"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


_ERROR_TYPES: dict[str, type[ToolRunnerError]] = {
    "rejected": ApprovalRejectedError,
    "timeout": ApprovalTimeoutError,
}


class ToolRunner:
    """Runs tools of one MCP server.

    Args:
        server_name: Name of the MCP server.
        server_params: How the server is started, for code that was generated without an id. Used
            only if the application registered a server with equal parameters.
        host: Host of the tool channel; default: `TOOL_SERVER_HOST`, else localhost.
        port: Port of the tool channel; default: `TOOL_SERVER_PORT`, else 8900.
        server_id: Id of the registration, which generated code contains.
        token: Token that the tool server requires from processes of other users; default for the
            kernel's own tool channel: `IPYBOX_TOOL_TOKEN`.
    """

    def __init__(
        self,
        server_name: str,
        server_params: dict[str, Any] | None = None,
        host: str | None = None,
        port: int | None = None,
        *,
        server_id: str | None = None,
        token: str | None = None,
    ) -> None:
        self.server_name = server_name
        self.server_params = server_params
        self.host = host
        self.port = port
        self.server_id = server_id
        self.token = token

    async def run(self, tool_name: str, tool_args: Any) -> Any:
        """Runs a tool and returns its result.

        The result is an object, a text (ToolText if there are images or other contents), or None.
        Cancelling the task cancels the call.

        Args:
            tool_name: Name of the tool.
            tool_args: Arguments of the tool: a dict or a pydantic model. Its values may be of any
                type that pydantic converts to JSON, such as datetimes.

        Raises:
            ToolRunnerError: If the call fails or is not approved.
        """
        return await ask(*self._make_request(tool_name, tool_args))

    def run_sync(self, tool_name: str, tool_args: Any) -> Any:
        """Like `run`, and blocks until there is a result. Can be called from any thread."""
        return ask_sync(*self._make_request(tool_name, tool_args))

    async def call(self, tool_name: str, tool_args: Any) -> ToolAnswer:
        """Runs a tool and returns its answer: structured content, texts, images and others.

        Cancelling the task cancels the call. The arguments are those of `run`.

        Raises:
            ToolRunnerError: If the call fails or is not approved.
        """
        return _make_answer(await ask(*self._make_request(tool_name, tool_args, is_whole=True)))

    def call_sync(self, tool_name: str, tool_args: Any) -> ToolAnswer:
        """Like `call`, and blocks until there is a result. Can be called from any thread."""
        return _make_answer(ask_sync(*self._make_request(tool_name, tool_args, is_whole=True)))

    async def reset(self) -> None:
        """Stops all MCP servers. For applications only: in a kernel it raises ToolRunnerError."""
        address, request = make_head("PUT", "/reset", 0, self.host, self.port, self.token)
        status, body = await _exchange_async(address, request)
        if status != 200:
            _read_answer(status, body)

    def _make_request(
        self, tool_name: str, tool_args: Any, is_whole: bool = False
    ) -> tuple[tuple[str, int], bytes]:
        body = self._encode(tool_name, tool_args, is_whole)
        address, head = make_head("POST", "/run", len(body), self.host, self.port, self.token)
        return address, head + body

    def _encode(self, tool_name: str, tool_args: Any, is_whole: bool) -> bytes:
        message: dict[str, Any] = {"server_name": self.server_name}
        if is_whole:
            message["whole_result"] = True
        if self.server_id is not None:
            message["server_id"] = self.server_id
        if self.server_params is not None:
            message["server_params"] = self.server_params
        return encode(message, tool_name, tool_args)


def encode(message: dict[str, Any], tool_name: str, tool_args: Any) -> bytes:
    """Encodes a request as JSON, with integers of any size, and lone surrogates as escapes.

    pydantic, if it is installed, converts other values.

    Raises:
        ToolRunnerError: If the arguments cannot be sent; the message says why.
    """
    message["tool_name"] = tool_name
    message["tool_args"] = tool_args
    name = f"{message['server_name']}.{tool_name}"
    try:
        try:
            text = _dump(message)
        except TypeError as error:
            message["tool_args"] = _make_jsonable(tool_args, error)
            text = _dump(message)
    except ValueError as error:
        raise ToolRunnerError(
            f"the arguments of {name} cannot be sent as JSON, which has no NaN, no infinity and no "
            f"circular references, and may be nested {MAX_ARGUMENT_DEPTH} deep at most: {error}"
        ) from error
    except TypeError as error:
        raise ToolRunnerError(f"the arguments of {name} cannot be sent as JSON: {error}") from error
    except RecursionError:
        raise _too_deep(name) from None
    if not isinstance(message["tool_args"], dict):
        kind = type(tool_args).__name__
        raise ToolRunnerError(
            f"the arguments of {name} must be a dict or a pydantic model, not {kind}"
        )
    if _is_too_deep(message["tool_args"], text):
        raise _too_deep(name)
    return text.encode("ascii")


def _dump(message: dict[str, Any]) -> str:
    return json.dumps(message, allow_nan=False, separators=(",", ":"))


def _make_jsonable(value: Any, error: TypeError) -> Any:
    """Converts datetimes, paths, UUIDs, enums, dataclasses, models and others as pydantic does."""
    try:
        # Imported late, because most calls do not need it.
        from pydantic_core import to_jsonable_python
    except ImportError:
        raise TypeError(
            f"{error}; install pydantic to send datetimes, paths, dataclasses and others"
        ) from None
    return to_jsonable_python(value)


def _is_too_deep(arguments: Any, text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_ARGUMENT_DEPTH:
        return False  # strings may contain further brackets, so this is an upper limit
    level = [arguments]
    for _ in range(MAX_ARGUMENT_DEPTH):
        containers = [value for value in level if isinstance(value, (dict, list, tuple))]
        level = [
            child
            for each in containers
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return any(isinstance(value, (dict, list, tuple)) for value in level)


def _too_deep(name: str) -> ToolRunnerError:
    return ToolRunnerError(
        f"the arguments of {name} are nested too deeply: {MAX_ARGUMENT_DEPTH} levels of arrays and "
        "objects at most"
    )


def make_head(
    method: str, path: str, length: int, host: str | None, port: int | None, token: str | None
) -> tuple[tuple[str, int], bytes]:
    """The address and the head of a request."""
    # Read for each call, because the module may be imported before the kernel is forked.
    own_port = os.environ.get("TOOL_SERVER_PORT")
    host = host or os.environ.get("TOOL_SERVER_HOST") or DEFAULT_HOST
    port = port or _parse_port(own_port)
    if token is None and own_port in (None, str(port)):  # only the kernel's own channel may know it
        token = os.environ.get("IPYBOX_TOOL_TOKEN")
    name = f"[{host}]" if ":" in host else host
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {name}:{port}",
        "Content-Type: application/json",
        f"Content-Length: {length}",
    ]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return (host, port), ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _parse_port(text: str | None) -> int:
    if not text:
        return DEFAULT_PORT
    try:
        return int(text)
    except ValueError:
        raise ToolRunnerError(f"TOOL_SERVER_PORT is not a port number: {text!r}") from None


class _Connection:
    """A socket to the channel. It is blocking, except during an asynchronous call."""

    def __init__(self, address: tuple[str, int], sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = address
        self.sock = sock
        self.idle_since = 0.0

    def is_usable(self) -> bool:
        """Whether the peer accepts calls. Input on an idle connection means that it was closed."""
        if time.monotonic() - self.idle_since > MAX_IDLE_S:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self.sock.close()


class _State:
    """The state of this process: idle connections and limits."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[_Connection] = []
        self.limit = threading.BoundedSemaphore(MAX_CONCURRENT_CALLS)
        self.async_limits: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def take(self, address: tuple[str, int]) -> _Connection | None:
        """An idle connection that is still open, or None."""
        while True:
            with self.lock:
                connection = next((c for c in self.idle if c.address == address), None)
                if connection is None:
                    return None
                self.idle.remove(connection)
            if connection.is_usable():
                return connection
            connection.close()

    def give_back(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        with self.lock:
            self.idle.insert(0, connection)
            surplus = self.idle[MAX_IDLE_CONNECTIONS:]
            del self.idle[MAX_IDLE_CONNECTIONS:]
        for old in surplus:
            old.close()


_state = _State()


def _start_over_in_child() -> None:
    # The connections belong to the parent. The child closes its copies, which does not end them. It
    # takes no lock, because a thread of the parent may have held it.
    global _state
    idle = list(_state.idle)
    _state = _State()
    for connection in idle:
        connection.close()


os.register_at_fork(after_in_child=_start_over_in_child)


def _async_limit() -> asyncio.Semaphore:
    loop = asyncio.get_running_loop()
    limits = _state.async_limits
    with _state.lock:
        if loop not in limits:
            for closed in [other for other in limits if other.is_closed()]:
                del limits[closed]
            limits[loop] = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
        return limits[loop]


def _connect(address: tuple[str, int]) -> _Connection:
    try:
        sock = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
    except OSError as error:
        raise _cannot_connect(address, error) from error
    sock.settimeout(None)
    return _Connection(address, sock)


def _cannot_connect(address: tuple[str, int], error: BaseException) -> ToolRunnerError:
    return ToolRunnerError(
        f"cannot connect to the tool server at {address[0]}:{address[1]}: {error or 'timed out'}"
    )


def _lost(error: BaseException | None) -> ToolRunnerError:
    cause = f": {error}" if error is not None else ""
    return ToolRunnerError(
        "the connection to the tool server was lost before the result arrived; the tool may have"
        f" run{cause}"
    )


def _exchange(address: tuple[str, int], request: bytes) -> tuple[int, bytearray]:
    """Sends a request and returns the status and body of its response."""
    state = _state
    connection = state.take(address) or _connect(address)
    try:
        try:
            connection = _send(connection, request)
            response = _Response()
            while not response.is_whole:
                response.feed(connection.sock.recv_into(response.room()))
        except OSError as error:
            raise _lost(error) from error
        _finish(state, connection, response)
    except BaseException:  # also KeyboardInterrupt: an unfinished connection cannot be used again
        connection.close()
        raise
    return response.status, response.body


def _send(connection: _Connection, request: bytes) -> _Connection:
    """Sends the request, on a new connection if this one accepts no byte; returns that one."""
    try:
        n_sent = connection.sock.send(request)
    except (BrokenPipeError, ConnectionResetError):
        connection.close()
        connection = _connect(connection.address)
        n_sent = 0
    try:
        # If the server refuses the request half-way, its answer may have arrived, so read it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sock.sendall(memoryview(request)[n_sent:])
    except BaseException:
        connection.close()
        raise
    return connection


async def _exchange_async(address: tuple[str, int], request: bytes) -> tuple[int, bytearray]:
    """`_exchange` without blocking the event loop."""
    loop = asyncio.get_running_loop()
    state = _state
    connection = state.take(address) or await _connect_async(address)
    try:
        try:
            connection = await _send_async(connection, request)
            response = _Response()
            while not response.is_whole:
                response.feed(await loop.sock_recv_into(connection.sock, response.room()))
        except OSError as error:
            raise _lost(error) from error
        connection.sock.setblocking(True)
        _finish(state, connection, response)
    except BaseException:  # CancelledError, too
        connection.close()
        raise
    return response.status, response.body


async def ask(address: tuple[str, int], request: bytes) -> Any:
    """Sends a request and returns the result in its answer.

    Raises:
        ToolRunnerError: The error in its answer, or another failure.
    """
    async with _async_limit():
        status, body = await _exchange_async(address, request)
    return _read_answer(status, body)


def ask_sync(address: tuple[str, int], request: bytes) -> Any:
    """`ask` for threads."""
    with _state.limit:
        status, body = _exchange(address, request)
    return _read_answer(status, body)


async def _send_async(connection: _Connection, request: bytes) -> _Connection:
    """`_send` without blocking the event loop."""
    connection.sock.setblocking(False)
    try:
        n_sent = connection.sock.send(request)
    except BlockingIOError:
        n_sent = 0
    except (BrokenPipeError, ConnectionResetError):
        connection.close()
        connection = await _connect_async(connection.address)
        n_sent = 0
    try:
        if n_sent < len(request):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(connection.sock, memoryview(request)[n_sent:])
    except BaseException:
        connection.close()
        raise
    return connection


async def _resolve(address: tuple[str, int]) -> list[Any]:
    # asyncio resolves names in a thread. The usual names need no resolver, and with a thread that
    # stays each later fork of user code would be one of a multi-threaded process.
    host, port = address
    if host == "localhost" or ":" in host or host.replace(".", "").isdecimal():
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _connect_async(address: tuple[str, int]) -> _Connection:
    loop = asyncio.get_running_loop()
    try:
        infos = await _resolve(address)
    except OSError as error:
        raise _cannot_connect(address, error) from error
    failure: BaseException | None = None
    for family, kind, protocol, _, target in infos:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(sock, target), CONNECT_TIMEOUT_S)
            return _Connection(address, sock)
        except (OSError, asyncio.TimeoutError) as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
    raise _cannot_connect(address, failure or OSError("the name has no address"))


def _finish(state: _State, connection: _Connection, response: _Response) -> None:
    if response.keeps_open and state is _state:
        state.give_back(connection)
    else:
        connection.close()


class _Response:
    """A response that is being received: the head, then a body of the announced length."""

    def __init__(self) -> None:
        self.is_whole = False
        self.status = 0
        self.keeps_open = True
        self._head: bytearray | None = bytearray()
        self._chunk = bytearray(4096)
        self._body = bytearray()
        self._filled = 0

    @property
    def body(self) -> bytearray:
        return self._body

    def room(self) -> memoryview:
        """Where the next bytes go."""
        if self._head is not None:
            return memoryview(self._chunk)
        return memoryview(self._body)[self._filled : self._filled + RECEIVE_SIZE]

    def feed(self, size: int) -> None:
        """Processes @size bytes that were received into room()."""
        if size == 0:
            raise _lost(None)
        if self._head is None:
            self._filled += size
        else:
            self._head += memoryview(self._chunk)[:size]
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                if len(self._head) > MAX_RESPONSE_HEAD:
                    raise _not_understood("its head is too large")
                return
            self._parse_head(bytes(self._head[:end]), self._head[end + 4 :])
        if self._head is None:
            self.is_whole = self._filled == len(self._body)

    def _parse_head(self, head: bytes, rest: bytearray) -> None:
        status_line, *lines = head.decode("latin-1").split("\r\n")
        parts = status_line.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
            raise _not_understood(f"it begins with {status_line[:80]!r}")
        self.status = int(parts[1])
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_RESPONSE_BODY or len(rest) > int(length):
            raise _not_understood("its Content-Length is missing or not valid")
        self.keeps_open = parts[0] == "HTTP/1.1" and headers.get("connection", "") != "close"
        self._body = bytearray(int(length))
        self._body[: len(rest)] = rest
        self._filled = len(rest)
        self._head = None


def _not_understood(why: str) -> ToolRunnerError:
    return ToolRunnerError(f"the answer of the tool server is not valid: {why}")


class _Unreadable(Exception):
    """Valid JSON that has no Python value."""


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Unreadable(f"it has {text[:40]}, which is beyond the range of a float")
    return value


def _parse_int(text: str) -> int | float:
    if text == "-0":
        return -0.0
    try:
        return int(text)
    except ValueError:
        raise _Unreadable(
            f"it has an integer of {len(text)} digits, see sys.set_int_max_str_digits"
        ) from None


def _parse_json(text: str) -> Any:
    """Parses numbers exactly or fails: 1e400 does not become infinity, and -0 keeps its sign."""
    try:
        if "-0" in text:
            return json.loads(text, parse_float=_parse_float, parse_int=_parse_int)
        return json.loads(text, parse_float=_parse_float)
    except ValueError as error:
        # JSON errors are of a subclass. ValueError itself is for an integer with too many digits.
        if type(error) is ValueError:
            return json.loads(text, parse_float=_parse_float, parse_int=_parse_int)
        raise
    except RecursionError:
        raise _Unreadable("it is nested too deeply") from None


def _take_result_text(text: str) -> str:
    """The JSON text of the result in an answer, or the whole answer."""
    for prefix in ('{"result":', '{"tool_result":'):
        if text.startswith(prefix):
            result = text[len(prefix) : -1].strip()
            return result if prefix == '{"result":' else _take_structured(result)
    return text


def _take_structured(text: str) -> str:
    """The JSON text of the structured content in the text of a result that has no Python value."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    at = 0
    with contextlib.suppress(RecursionError):
        while (start := text.find('"', at)) >= 0:
            name, end = decoder.raw_decode(text, start)
            start = text.index(":", end) + 1
            while text[start].isspace():
                start += 1
            _, at = decoder.raw_decode(text, start)
            if name == "structuredContent":
                return text[start:at]
    return text


def _make_answer(result: Any) -> ToolAnswer:
    from .content import ToolAnswer  # imported late, as above

    return result if isinstance(result, ToolAnswer) else ToolAnswer.from_value(result)


def _open_contents(result: Any) -> Any:
    """Converts contents that are not only text to a ToolText. Returns other values unchanged."""
    if not isinstance(result, list):
        return result
    from .content import ToolText, is_contents  # imported late, because most calls do not need it

    return ToolText.make(result) if is_contents(result) else result


def _read_answer(status: int, body: bytearray) -> Any:
    try:
        text = body.decode("utf-8", "surrogatepass")
        answer = _parse_json(text)
    except _Unreadable as error:
        raise ResultError(_take_result_text(text), str(error)) from None
    except ValueError as error:
        if status == 200:
            raise _not_understood(str(error)) from error
        answer = None
    if isinstance(answer, dict):
        if "error" in answer:
            error_type = _ERROR_TYPES.get(str(answer.get("error_type")), ToolRunnerError)
            raise error_type(str(answer["error"]))
        if status == 200 and "tool_result" in answer:
            from .content import ToolAnswer

            return ToolAnswer(answer["tool_result"])
        if status == 200 and "result" in answer:
            return _open_contents(answer["result"])
    raise ToolRunnerError(f"the tool server answered with HTTP status {status} and no result")
