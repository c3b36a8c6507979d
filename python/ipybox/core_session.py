# SPDX-License-Identifier: Apache-2.0
"""A session of the core, and the cells that run in it."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from .answers import KeptNotices
from .cells import Cell
from .commands import Command
from .core import Core, CoreError, Handler, acquire_core
from .core.client import ToolCall
from .core.errors import CoreTimeoutError
from .late_output import LateOutputs, read_late_output
from .results import Change, Changes, CodeExecutionError, CodeExecutionTimeout, Variables
from .tool_calls import ToolCalls
from .tools import Tool

logger = logging.getLogger("ipybox")

# A timeout must be above 0: this one stands for a limit that was exceeded already.
SHORTEST_TIMEOUT_S = 0.001
STOPPED = "the executor was stopped while the cell ran"


class Session(Handler):
    """An open session. It is an owner of the core until it is closed.

    Attributes:
        core: The core.
        kept_notices: Notices of cells whose results no caller received.
        end_reason: Why its cells end, if it was closed; else None.
        tool_server: `host`, `port` and `token` of its own tool server; None if it has none.
        gateway: `host`, `port` and `token` of its kernel gateway; None if it has none.
    """

    def __init__(
        self,
        core: Core,
        answer: dict[str, Any],
        log_level: int,
        tools: Mapping[str, Mapping[str, Tool]],
    ) -> None:
        self.core = core
        self.end_reason: str | None = None
        self.kept_notices = KeptNotices()
        self.tool_server: dict[str, Any] | None = answer.get("tool_server")
        self.gateway: dict[str, Any] | None = answer.get("gateway")
        self._id: str = answer["session"]
        self._log_level = log_level
        self._lock = threading.Lock()
        self._cells: list[Cell] = []
        self._late_outputs: list[weakref.ref[LateOutputs]] = []
        self._is_closed = False
        self._tool_calls = ToolCalls(tools)
        core.route_session(self._id, self)

    @classmethod
    async def open(
        cls,
        options: dict[str, Any],
        log_level: int,
        tools: Mapping[str, Mapping[str, Tool]] | None = None,
    ) -> Session:
        """Opens a session and waits until its kernel is ready.

        Args:
            options: Parameters of `session.open`. `kernel_init_timeout` limits the whole call.
            log_level: The lowest level of log lines that are passed on.
            tools: Of the application, by group and name. Coroutine functions run in the present
                event loop.

        Raises:
            CoreError: If the session cannot be opened or its kernel does not start. Nothing is
                left.
        """
        limit: float | None = options.get("kernel_init_timeout")
        deadline = None if limit is None else time.monotonic() + limit
        if tools:
            options = {**options, "application_tools": _describe(tools)}
        core = acquire_core()
        answer = await _ask_for_session(core, "session.open", options)
        session = cls(core, answer, log_level, tools or {})
        try:
            await session._start(limit, deadline)
        except BaseException:
            session.close_soon()
            raise
        return session

    async def _start(self, limit: float | None, deadline: float | None) -> None:
        params: dict[str, Any] = {"session": self._id}
        if deadline is not None:
            params["timeout"] = max(deadline - time.monotonic(), SHORTEST_TIMEOUT_S)
        try:
            await self.core.call("session.start", params)
        except CoreTimeoutError as error:
            if limit is None:
                raise
            text = f"the kernel was not ready within {limit:g} s, the limit kernel_init_timeout"
            raise CoreTimeoutError(text, error.kind) from None

    async def fork(
        self,
        seed: int | None,
        files: str,
        log_level: int,
        checkpoint: int | None = None,
    ) -> tuple[Session, list[str]]:
        """Makes a session with the same state, or with that of a checkpoint.

        Returns:
            The session, whose kernel is ready, and what both share or it lacks.

        Raises:
            CoreError: If the session cannot be forked now; the text says why. Nothing is left.
        """
        core = self.core
        if not core.try_acquire():
            core.check()
            raise CoreError("the core is being closed", "closed")
        params: dict[str, Any] = {"session": self._id, "files": files}
        if seed is not None:
            params["seed"] = seed
        if checkpoint is not None:
            params["checkpoint"] = checkpoint
        answer = await _ask_for_session(core, "session.fork", params)
        session = Session(core, answer, log_level, self._tool_calls.tools)
        return session, list(answer["warnings"])

    # Its end

    async def close(self) -> None:
        """Ends the kernel and everything that it started.

        If the task is cancelled, the session still closes, but no one waits for it.
        """
        if not self._begin_close():
            return
        try:
            if self.core.error is None:
                await self.core.call("session.close", {"session": self._id}, is_cancellable=False)
        except CoreError as error:
            logger.debug("a session was not closed in order: %s", error)
        finally:
            self._end_close()

    def close_soon(self) -> None:
        """Like `close`, but does not wait."""
        if self._begin_close():
            _send_close(self.core, self._id)
            self._end_close()

    def _begin_close(self) -> bool:
        if self.core.is_of_parent:
            return False
        with self._lock:
            if self._is_closed:
                return False
            self._is_closed = True
            self.end_reason = STOPPED
            return True

    def _end_close(self) -> None:
        self.core.route_session(self._id, None)
        with self._lock:
            cells = list(self._cells)
        for cell in cells:
            cell.fail(CoreError(STOPPED, "closed"))
        self._end_late_outputs(None)
        self._tool_calls.close()
        self.core.release()

    # Cells

    def execute(
        self,
        code: str,
        timeout: float | None,
        *,
        asks: bool,
        wants_chunks: bool,
        input_timeout: float | None = None,
        undo_on_error: bool = False,
    ) -> Cell:
        """Queues a cell.

        Args:
            code: Python code.
            timeout: Time limit in seconds; None for no limit.
            asks: Whether tool calls need an approval; else they are allowed.
            wants_chunks: Whether the cell's items include pieces of text.
            input_timeout: Seconds that an input may take; its requests are items. None: the cell
                may not ask for input.
            undo_on_error: Whether a cell that fails leaves the state as it was before it.

        Raises:
            CoreError: If the core has ended.
        """
        self.core.check()
        cell = Cell(self, asks=asks, wants_chunks=wants_chunks)
        params: dict[str, Any] = {
            "session": self._id,
            "code": code,
            "timeout": timeout,
            "events": wants_chunks,
            "strip": False,
        }
        if not asks:
            params["approval"] = "allow"
        if undo_on_error:
            params["undo_on_error"] = True
        if input_timeout is not None:
            params |= {"allow_stdin": True, "input_timeout": input_timeout}
        with self._lock:
            cell.number = self.core.request("session.execute", params, cell)
            self._cells.append(cell)
        return cell

    async def answer_input(self, number: int, answer: dict[str, Any]) -> None:
        """Answers an input of the running cell.

        Args:
            number: Of the input, as its event has it.
            answer: `value` or `refusal`.

        Raises:
            CoreError: Of the kind `not_found` if the cell does not wait for it any more.
        """
        params = {"session": self._id, "input": number, **answer}
        await self.core.call("session.answer_input", params, is_cancellable=False)

    def remove(self, cell: Cell) -> None:
        """Forgets a cell that has ended."""
        with self._lock:
            if cell in self._cells:
                self._cells.remove(cell)

    def cancel(self) -> None:
        """Interrupts the running cell, if any."""
        if self.core.is_of_parent:
            return
        with self._lock:
            cell = self._cells[0] if self._cells else None
        if cell is not None:
            cell.cancel()

    async def reset(self) -> None:
        """Replaces the kernel by a fresh one. Cells that run or wait end with an error."""
        with self._lock:
            cells = list(self._cells)
        for cell in cells:
            cell.let_go()
        await self.core.call("session.reset", {"session": self._id}, is_cancellable=False)

    async def checkpoint(self, name: str | None) -> dict[str, Any]:
        """Makes a checkpoint, and returns its description."""
        params = {"session": self._id, "name": name}
        made: dict[str, Any] = await self.core.call(
            "session.checkpoint", params, is_cancellable=False
        )
        return made

    async def restore(self, checkpoint: int, *, files: bool) -> None:
        """Gives the kernel the state of a checkpoint."""
        params = {"session": self._id, "checkpoint": checkpoint, "files": files}
        await self.core.call("session.restore", params, is_cancellable=False)

    async def undo(self, n: int, *, files: bool) -> None:
        """Gives the kernel the state before the last n cells."""
        params = {"session": self._id, "n": n, "files": files}
        await self.core.call("session.undo", params, is_cancellable=False)

    async def drop_checkpoint(self, checkpoint: int) -> None:
        """Ends a checkpoint."""
        params = {"session": self._id, "checkpoint": checkpoint}
        await self.core.call("session.drop_checkpoint", params, is_cancellable=False)

    async def checkpoints(self) -> dict[str, Any]:
        """Describes the checkpoints, and says how many cells can be undone."""
        answer: dict[str, Any] = await self.core.call("session.checkpoints", {"session": self._id})
        return answer

    async def run_command(self, params: dict[str, Any]) -> dict[str, Any]:
        """Runs a command beside the kernel. If the task is cancelled, the command is killed."""
        answer: dict[str, Any] = await self.core.call(
            "session.run_command", {"session": self._id, **params}
        )
        return answer

    def start_command(self, params: dict[str, Any], timeout: float | None) -> Command:
        """Runs a command beside the kernel, whose output comes in pieces."""
        command = Command(self.core, timeout)
        command.begin({"session": self._id, "events": True, **params})
        return command

    async def save(self, path: str, names: list[str] | None, timeout: float | None) -> Variables:
        """Saves variables of the kernel to a file; None: all."""
        return await self._pass_variables("session.save", path, timeout, names=names)

    async def load(self, path: str, timeout: float | None) -> Variables:
        """Loads variables from a file into the kernel."""
        return await self._pass_variables("session.load", path, timeout)

    async def _pass_variables(
        self, method: str, path: str, timeout: float | None, **more: Any
    ) -> Variables:
        params = {"session": self._id, "path": path, "timeout": timeout, **more}
        try:
            report = await self.core.call(method, params)
        except CoreError as error:
            if error.kind == "timeout":
                raise CodeExecutionTimeout(str(error)) from None
            if error.kind in ("code", "cancelled", "kernel_died", "protocol"):
                raise CodeExecutionError(str(error)) from None
            raise
        return Variables(report["names"], report["failed"])

    async def work_on_changes(self, method: str, **params: Any) -> Changes:
        """Lists, commits or discards what a staged session has changed."""
        answer = await self.core.call(method, {"session": self._id, **params}, is_cancellable=False)
        return Changes(
            changes=[Change(**change) for change in answer["changes"]],
            total=answer["total"],
            total_bytes=answer["total_bytes"],
            problems=answer["problems"],
            cut=answer.get("cut"),
        )

    def watch_late_output(self) -> LateOutputs:
        """Begins an iteration over the late output, which ends with the session.

        Raises:
            CoreError: If the core has ended.
        """
        self.core.check()
        outputs = LateOutputs(self.core)
        with self._lock:
            self._late_outputs.append(weakref.ref(outputs))
            is_closed = self._is_closed
            self._watch(True)
        if is_closed or self.core.error is not None:
            outputs.end(None if is_closed else self.core.error)
        return outputs

    def _watch(self, watches: bool) -> None:
        params = {"session": self._id, "watch": watches}
        self.core.notify("session.watch_late_output", params)

    def _end_late_outputs(self, error: CoreError | None) -> None:
        with self._lock:
            references, self._late_outputs = self._late_outputs, []
        for reference in references:
            outputs = reference()
            if outputs is not None:
                outputs.end(error)

    def pause(self) -> None:
        """Stops reading the kernel's output; a kernel that continues to print waits."""
        self.core.notify("session.pause", {"session": self._id})

    def resume(self) -> None:
        """Reads the kernel's output again."""
        self.core.notify("session.resume", {"session": self._id})

    # By the reading thread

    def on_late_output(self, params: dict[str, Any]) -> None:
        with self._lock:
            known = [(reference, reference()) for reference in self._late_outputs]
            read = [(ref, outputs) for ref, outputs in known if outputs and not outputs.has_ended]
            self._late_outputs = [reference for reference, _ in read]
            if not read:
                self._watch(False)
        for _, outputs in read:
            outputs.add(read_late_output(params))

    def on_core_ended(self, error: CoreError) -> None:
        self._end_late_outputs(error)
        self._tool_calls.close()

    def on_tool_call(self, call: ToolCall) -> None:
        self._tool_calls.run(call)

    def on_log(self, level: int, text: str) -> None:
        if level >= self._log_level:
            logger.log(level, "%s", text)


def _describe(tools: Mapping[str, Mapping[str, Tool]]) -> dict[str, Any]:
    return {
        group: [tool.describe() for tool in members.values()] for group, members in tools.items()
    }


async def _ask_for_session(core: Core, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """If it fails, releases the core. A session that comes too late is closed."""
    try:
        answer: dict[str, Any] = await core.call(
            method, params, lambda late: _send_close(core, late["session"])
        )
    except BaseException:
        core.release()
        raise
    return answer


def _send_close(core: Core, session: str) -> None:
    try:
        core.request("session.close", {"session": session}, Handler())
    except CoreError:
        pass  # the core has ended, and the session with it
