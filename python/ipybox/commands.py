# SPDX-License-Identifier: Apache-2.0
"""Commands that run beside a kernel: what `CodeExecutor.run_command` and `start_command` take and
return."""

from __future__ import annotations

import asyncio
import base64
import codecs
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from .core import Core, CoreError, ExecutionTimeout, Handler, NotFoundError

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_OUTPUT_BYTES = 10 * 1024 * 1024
# Pieces of output, and their bytes, that wait for a reader. If there are more, the command is
# paused until half of them are read.
MAX_WAITING_PIECES = 1024
MAX_WAITING_BYTES = 1024 * 1024
# What one message gives to standard input.
INPUT_PIECE_BYTES = 1024 * 1024
SHELL = "/bin/sh"

Stream = Literal["stdout", "stderr"]


@dataclass
class CommandResult:
    """How a command ended, and what it wrote.

    Attributes:
        exit_status: 0 to 255; None if a signal ended it.
        signal: The number of the signal that ended it; else None.
        stdout: What it wrote to standard output.
        stderr: What it wrote to standard error.
        stdout_cut: Whether there was more than `max_output`, of which the beginning was kept.
        stderr_cut: Likewise.
        limit: The limit of the sandbox that ended it, for people; else None.
    """

    exit_status: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_cut: bool = False
    stderr_cut: bool = False
    limit: str | None = None

    @property
    def returncode(self) -> int:
        """As in `subprocess`: the exit status, or the number of the signal below 0."""
        return self.exit_status if self.exit_status is not None else -(self.signal or 0)

    @property
    def ok(self) -> bool:
        """Whether the exit status is 0."""
        return self.exit_status == 0


class CommandTimeout(ExecutionTimeout):
    """A command exceeded its timeout, and was killed with everything that it had started.

    Attributes:
        result: What it had written until then.
    """

    def __init__(self, message: str, result: CommandResult) -> None:
        super().__init__(message)
        self.result = result


def make_params(
    command: str | Sequence[str | bytes | PurePath],
    input: bytes | str | None,
    env: Mapping[str, str] | None,
    cwd: str | PurePath | None,
    timeout: float | None,
) -> dict[str, Any]:
    """The parameters of `session.run_command`, but the session and those about its output."""
    if isinstance(command, str):
        argv = [SHELL, "-c", command]
    else:
        argv = [os.fsdecode(argument) for argument in command]
    if not argv or not argv[0]:
        raise ValueError("a command needs a program")
    if any("\0" in argument for argument in argv):
        raise ValueError("an argument of a command cannot have a NUL")
    params: dict[str, Any] = {"argv": argv}
    if input is not None:
        data = input.encode() if isinstance(input, str) else bytes(input)
        params["input"] = base64.b64encode(data).decode()
    if env is not None:
        params["env"] = dict(env)
    if cwd is not None:
        params["cwd"] = str(cwd)
    if timeout is not None:
        params["timeout"] = timeout
    return params


def read_answer(answer: dict[str, Any], timeout: float | None) -> CommandResult:
    """The result.

    Raises:
        CommandTimeout: If the command exceeded its timeout.
    """
    result = _make_result(answer)
    if answer["timed_out"]:
        raise CommandTimeout(f"the command ran longer than {timeout:g} s, and was killed", result)
    return result


def _make_result(answer: dict[str, Any]) -> CommandResult:
    return CommandResult(
        exit_status=answer["exit_status"],
        signal=answer["signal"],
        stdout=base64.b64decode(answer["stdout"]),
        stderr=base64.b64decode(answer["stderr"]),
        stdout_cut=answer["stdout_cut"],
        stderr_cut=answer["stderr_cut"],
        limit=answer["limit"],
    )


@dataclass
class CommandOutput:
    """A piece of a command's output.

    Attributes:
        stream: `stdout` or `stderr`.
        data: The bytes.
        text: The same as text, in UTF-8; what is no UTF-8 is replaced. A character whose bytes come
            in two pieces is in the second one.
    """

    stream: Stream
    data: bytes
    text: str


class Command(AsyncIterator[CommandOutput]):
    """A command that runs beside a kernel: what `CodeExecutor.start_command` returns.

    Iterating over it yields its output, as it is printed, and ends when the command has ended. It
    raises what `wait` raises then. If the task is cancelled while it waits for the next piece, and
    at the end of an `async with` block, a command that still runs is killed with everything that it
    has started.
    """

    def __init__(self, core: Core, timeout: float | None) -> None:
        """
        Args:
            core: The core of its session.
            timeout: For the text of an error.
        """
        self._core = core
        self._timeout = timeout
        self._takes_input = False
        self._run = _Run(core)
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {
            "stdout": make("replace"),
            "stderr": make("replace"),
        }

    def begin(self, params: dict[str, Any]) -> None:
        """Sends the request. Params: of `session.run_command`."""
        self._takes_input = bool(params["open_stdin"])
        self._run.begin(params)

    def __del__(self) -> None:
        run = getattr(self, "_run", None)
        if run is not None and not run.is_done and self._core.error is None:
            self._core.run_soon(run.abandon)
            warnings.warn(f"{self!r} was not awaited", ResourceWarning, source=self, stacklevel=1)

    # Output

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CommandOutput:
        self._check_process()
        try:
            piece = await self._run.next()
        except asyncio.CancelledError:
            self._run.abandon()
            raise
        if piece is not None:
            stream, data = piece
            return CommandOutput(stream, data, self._decoders[stream].decode(data))
        for stream, decoder in self._decoders.items():
            rest = decoder.decode(b"", final=True)
            if rest:
                return CommandOutput(stream, b"", rest)
        self._result()
        raise StopAsyncIteration

    # Input

    async def write_stdin(self, data: bytes | str) -> None:
        """Gives it more standard input, and waits until its pipe has taken it.

        Args:
            data: Bytes, or text in UTF-8.

        Raises:
            BrokenPipeError: If the command has ended, or its standard input is closed.
            ValueError: If it was started without `stdin`.
            CoreError: If more than 32 MiB wait, because other tasks write, too; or if the core has
                ended.
        """
        self._check_stdin()
        view = memoryview(data.encode() if isinstance(data, str) else data).cast("B")
        for start in range(0, len(view), INPUT_PIECE_BYTES):
            text = base64.b64encode(view[start : start + INPUT_PIECE_BYTES]).decode()
            params = {"request": self._run.number, "data": text}
            try:
                await self._core.call("command.write_stdin", params)
            except NotFoundError as error:
                raise BrokenPipeError(str(error)) from None

    async def close_stdin(self) -> None:
        """Ends its standard input, after what was written. Does nothing if it has ended.

        Raises:
            ValueError: If it was started without `stdin`.
            CoreError: If the core has ended.
        """
        self._check_stdin()
        try:
            await self._core.call("command.close_stdin", {"request": self._run.number})
        except NotFoundError:
            pass

    # Its end

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`: None if it runs, or could not be run."""
        answer = self._run.answer
        return None if answer is None else _make_result(answer).returncode

    async def wait(self) -> CommandResult:
        """Waits until it has ended. Iterate first: a command whose output is not read waits.

        Returns:
            How it ended; `stdout` and `stderr` are empty.

        Raises:
            CommandTimeout: If it ran longer than its timeout.
            FileNotFoundError: If there is no such program or directory.
            ValueError: If an argument is wrong.
            CoreError: As for `CodeExecutor.run_command`.
        """
        self._check_process()
        await self._run.wait()
        return self._result()

    def send_signal(self, number: int) -> None:
        """Sends a signal to the command, but not to what it has started, except SIGKILL.

        Does nothing if it has ended.

        Args:
            number: For example `signal.SIGINT`.
        """
        if not self._run.is_done and self._core.error is None:
            self._run.send_signal(number)

    def terminate(self) -> None:
        """Sends SIGTERM, by which a program may end in order."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the command and everything that it has started."""
        self.send_signal(signal.SIGKILL)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._run.is_done or self._core.is_of_parent:
            return
        self._run.abandon()
        await self._run.wait()

    def _result(self) -> CommandResult:
        if self._run.error is not None:
            raise self._run.error
        assert self._run.answer is not None
        return read_answer(self._run.answer, self._timeout)

    def _check_process(self) -> None:
        if self._core.is_of_parent:
            self._core.check()  # raises: another thread may hold the lock for ever here

    def _check_stdin(self) -> None:
        self._check_process()
        if not self._takes_input:
            raise ValueError("start the command with stdin=True to give it input later")


class _Run(Handler):
    """A command between the thread that reads from the core and the tasks that wait for it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._pieces: deque[tuple[Stream, bytes]] = deque()
        self._n_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._is_paused = False
        self._is_abandoned = False
        self.is_done = False
        self.answer: dict[str, Any] | None = None
        self.error: CoreError | None = None
        self.number = 0

    def begin(self, params: dict[str, Any]) -> None:
        with self._lock:
            self.number = self._core.request("session.run_command", params, self)

    # For tasks

    async def next(self) -> tuple[Stream, bytes] | None:
        """Waits for the next piece. None: the command has ended."""
        while True:
            with self._lock:
                if self._pieces:
                    return self._take()
                if self.is_done:
                    return None
                waiter = self._add_waiter()
            await self._wait(waiter)

    async def wait(self) -> None:
        """Waits for the end."""
        while True:
            with self._lock:
                if self.is_done:
                    return
                waiter = self._add_waiter()
            await self._wait(waiter)

    async def _wait(self, waiter: asyncio.Future[None]) -> None:
        try:
            await waiter
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def abandon(self) -> None:
        """Drops the output, and has everything killed."""
        if self._core.is_of_parent:
            return
        with self._lock:
            self._is_abandoned = True
            self._pieces.clear()
            self._n_bytes = 0
            self._resume()
        self._core.cancel(self.number)

    def send_signal(self, number: int) -> None:
        params = {"request": self.number, "signal": int(number)}
        try:
            self._core.request("command.signal", params, Handler())
        except CoreError:
            pass  # the core has ended, and the command with it

    # By the reading thread

    def on_event(self, event: dict[str, Any]) -> None:
        if event["type"] != "output":
            return
        data = base64.b64decode(event["data"])
        with self._lock:
            if self._is_abandoned:
                return
            self._pieces.append((event["stream"], data))
            self._n_bytes += len(data)
            is_much = self._n_bytes > MAX_WAITING_BYTES or len(self._pieces) > MAX_WAITING_PIECES
            if is_much and not self._is_paused:
                self._is_paused = True
                self._core.notify("command.pause", {"request": self.number})
            self._wake()

    def on_done(self, result: Any, error: CoreError | None) -> None:
        with self._lock:
            self.is_done = True
            self.answer, self.error = result, error
            self._is_paused = False
            self._wake()

    # With the lock held

    def _take(self) -> tuple[Stream, bytes]:
        piece = self._pieces.popleft()
        self._n_bytes -= len(piece[1])
        if self._n_bytes <= MAX_WAITING_BYTES // 2 and len(self._pieces) <= MAX_WAITING_PIECES // 2:
            self._resume()
        return piece

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._core.notify("command.resume", {"request": self.number})

    def _add_waiter(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            try:
                waiter.get_loop().call_soon_threadsafe(_resolve, waiter)
            except RuntimeError:
                pass  # the loop is closed


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
