# SPDX-License-Identifier: Apache-2.0
"""`CodeSession`: what the adapters for frameworks that execute Python code have in common.

It owns a CodeExecutor and, unless the application names a workspace, a temporary directory. Both
end with `close`, when the session is garbage collected, and when the program ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..code_exec import CodeExecutor
from ..results import (
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutionTimeout,
    DisplayData,
    KernelLostError,
)
from ..tool_exec.approval.client import ApprovalRequest
from ..tools import Tool
from ..utils import arun, check_seconds
from . import temporary

Approve = Callable[[ApprovalRequest], bool | Awaitable[bool]]

# As in kernel_side.py, whose text is sent to the kernel.
REPORT = "text/vnd.ipybox.report"
# The name of the module with that text in the kernel.
KERNEL_SIDE = "_ipybox"
# Kinds of parameters that can be given by position.
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass
class CellOutcome:
    """How a cell ended.

    Attributes:
        text: What the cell printed and displayed, and the value of its last expression.
        images: The image files that it displayed.
        displays: What it displayed, in all representations.
        error: Why it failed: a CallRefusedError, KernelLostError, LimitExceededError, or another
            CodeExecutionError; or a CodeExecutionTimeout. None: it did not fail.
        value: The value of its last expression, as the adapter encodes it in the kernel, in a list
            of one. None: it has none that is reported.
        final: The final answer that has ended it, likewise; then `error` is None. None: there is
            none.
        notices: Messages of ipybox.
    """

    text: str
    images: list[Path] = field(default_factory=list)
    displays: list[DisplayData] = field(default_factory=list)
    error: CodeExecutionError | CodeExecutionTimeout | None = None
    value: list[Any] | None = None
    final: list[Any] | None = None
    notices: list[str] = field(default_factory=list)


class CodeSession:
    """A Python session of a framework. Its state lives until it is closed.

    Attributes:
        is_prepared: Whether `prepare` has been called for the present kernel.
    """

    def __init__(
        self,
        *,
        approve: Approve | None,
        timeout: float | None,
        workspace: str | os.PathLike[str] | None,
        options: dict[str, Any],
    ) -> None:
        """
        Args:
            approve: Decides about each ApprovalRequest: returns, or awaits, whether the call may
                run. A function that blocks runs in a thread. None: all calls that no rule denies
                may run.
            timeout: Seconds after which a cell is interrupted. None: no limit.
            workspace: The workspace. None: a temporary directory.
            options: Further options of CodeExecutor.

        Raises:
            ValueError, TypeError: If an option is wrong.
        """
        self._approve = approve
        self._timeout = check_seconds(timeout, "timeout")
        self._options = options
        self._workspace = None if workspace is None else Path(os.path.abspath(workspace))
        CodeExecutor(workspace=self._workspace, **options)  # checks the options
        self._context = contextvars.copy_context()
        self._executor: CodeExecutor | None = None
        self._remove: Callable[[], object] = lambda: None
        self._lock: asyncio.Lock | None = None
        self.is_prepared = False

    @property
    def is_started(self) -> bool:
        """Whether the session was started, and not closed since."""
        return self._executor is not None

    @property
    def workspace(self) -> Path | None:
        """The workspace. None: it is made by `start`."""
        return self._workspace if self._executor is None else self._executor.workspace

    async def start(self, tools: Iterable[Tool] = ()) -> None:
        """Starts the kernel, unless it is started.

        Args:
            tools: Tools of the program that cells may call. Other calls need a new session.

        Raises:
            RuntimeError: If it cannot be started; the text says why.
            TimeoutError: If it was not ready in time.
            FileNotFoundError: If the program ipybox is not installed.
        """
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if self._executor is not None:
                return
            workspace = self._workspace
            if workspace is None:
                workspace, self._remove = temporary.make_directory(self, "ipybox-session-")
            executor = CodeExecutor(workspace=workspace, tools=list(tools), **self._options)
            try:
                await executor.start()
            except BaseException:
                self._remove()
                raise
            self._executor, self.is_prepared = executor, False

    async def close(self) -> None:
        """Ends the kernel, and removes a temporary workspace."""
        executor, self._executor = self._executor, None
        self.is_prepared = False
        if executor is not None:
            await executor.stop()
            await arun(self._remove)

    async def reset(self) -> None:
        """Replaces the kernel by a fresh one. Files stay. Does nothing before `start`."""
        self.is_prepared = False
        if self._executor is not None:
            await self._executor.reset()

    async def define(self, code: str) -> None:
        """Runs code of the adapter, not of a model.

        Raises:
            CodeExecutionError: If the code fails.
            CodeExecutionTimeout: If it takes too long: code in the kernel can hold it up.
        """
        assert self._executor is not None
        await self._executor.execute(code, self._timeout)

    async def prepare(self, side: str, code: str) -> None:
        """Prepares a kernel for `run`.

        Args:
            side: What the adapter adds to kernel_side.py, which is the module `_ipybox` there.
            code: As for `define`.

        Raises:
            CodeExecutionError, CodeExecutionTimeout: As for `define`.
        """
        texts = [files(__package__).joinpath("kernel_side.py").read_text("utf-8"), side]
        lines = [f"import types as {KERNEL_SIDE}"]
        lines.append(f"{KERNEL_SIDE} = {KERNEL_SIDE}.ModuleType({KERNEL_SIDE!r})")
        for text in texts:
            lines.append(f"exec(compile({text!r}, '<ipybox>', 'exec'), {KERNEL_SIDE}.__dict__)")
        await self.define("\n".join([*lines, code]))
        self.is_prepared = True

    async def run(self, code: str) -> CellOutcome:
        """Runs a cell.

        If it is cancelled, the cell is interrupted.

        Returns:
            How it ended, also if it failed.

        Raises:
            RuntimeError: If the session is not started, or the core has ended.
            Exception: What `approve` has raised. The call was refused then.
        """
        if self._executor is None:
            raise RuntimeError("the session is not started")
        self._context = contextvars.copy_context()
        try:
            result = await self._execute(self._executor, code)
        except CodeExecutionError as error:
            outcome = CellOutcome(
                error.output or "", error.images, error.display_data, error, notices=error.notices
            )
        except CodeExecutionTimeout as error:
            outcome = CellOutcome(error.output or "", error=error, notices=error.notices)
        else:
            text = result.raw_text or ""
            outcome = CellOutcome(text, result.images, result.display_data, notices=result.notices)
        self._read_report(outcome)
        return outcome

    async def _execute(self, executor: CodeExecutor, code: str) -> CodeExecutionResult:
        if self._approve is None:
            return await executor.execute(code, self._timeout)
        decisions: set[asyncio.Task[None]] = set()
        turn = asyncio.Lock()  # one question at a time
        result: CodeExecutionResult | None = None
        try:
            async with aclosing(executor.stream(code, self._timeout)) as items:
                async for item in items:
                    if isinstance(item, ApprovalRequest):
                        decisions.add(asyncio.create_task(_decide(self._approve, item, turn)))
                    elif isinstance(item, CodeExecutionResult):
                        result = item
        finally:
            errors = await _end_decisions(decisions)
            if errors:
                raise errors[0]
        return result or CodeExecutionResult(None, [], is_cancelled=True)

    def make_tool(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Any],
        call: Callable[[dict[str, Any]], Any],
    ) -> Tool:
        """A tool of the program.

        Args:
            name: Its name.
            description: What it does.
            properties: The JSON Schemas of its parameters.
            call: Is called with the arguments, and returns JSON, with the context variables of the
                caller of `run`. A coroutine function runs in the event loop in which the session is
                started; any other function in a thread, and what it returns may be awaitable.
        """

        async def run_in_loop(**arguments: Any) -> dict[str, Any]:
            task = self._context.copy().run(asyncio.ensure_future, call(arguments))
            return {"value": await task}

        def run(**arguments: Any) -> dict[str, Any]:
            return {"value": self._context.copy().run(_call_and_wait, call, arguments)}

        schema = {"type": "object", "properties": dict(properties)}
        function = run_in_loop if inspect.iscoroutinefunction(call) else run
        return Tool(name, description, schema, function, {"type": "object"})

    def _read_report(self, outcome: CellOutcome) -> None:
        """Moves the report of kernel_side.py out of the displays."""
        if not self.is_prepared:
            return
        reports = [each for each in outcome.displays if REPORT in each.data]
        outcome.displays = [each for each in outcome.displays if REPORT not in each.data]
        if reports:
            report = _read_json_object(reports[-1].data[REPORT])
            outcome.value, outcome.final = _read(report, "value"), _read(report, "final")
            if outcome.final is not None:
                outcome.error = None
        elif not isinstance(outcome.error, CodeExecutionTimeout):
            # What runs after each cell is not there: it is a fresh kernel, or code has removed it.
            self.is_prepared = False
            if not isinstance(outcome.error, KernelLostError):
                text = "the kernel's state was lost before this cell"
                said = "\n".join(outcome.notices)
                lost = KernelLostError(f"{text}: {said}" if said else text)
                lost.output = outcome.text or None
                outcome.error = lost
        elif says_that_variables_are_lost(outcome.error):
            self.is_prepared = False


def _call_and_wait(call: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]) -> Any:
    value = call(arguments)
    return asyncio.run(_wait(value)) if inspect.isawaitable(value) else value


async def _wait(value: Awaitable[Any]) -> Any:
    return await value


async def _decide(approve: Approve, request: ApprovalRequest, turn: asyncio.Lock) -> None:
    """An approval that fails is a refusal."""
    is_accepted = False
    try:
        async with turn:
            if inspect.iscoroutinefunction(approve):
                answer = await approve(request)
            else:
                answer = await arun(approve, request)
                if inspect.isawaitable(answer):
                    answer = await answer
            is_accepted = answer is True
            if not isinstance(answer, bool):
                raise TypeError(f"approve must return True or False, not {answer!r}")
    finally:
        await (request.accept() if is_accepted else request.reject())


async def _end_decisions(decisions: set[asyncio.Task[None]]) -> list[BaseException]:
    """The cell has ended: no decision has an effect any more."""
    for decision in decisions:
        decision.cancel()
    ended = await asyncio.gather(*decisions, return_exceptions=True)
    return [each for each in ended if isinstance(each, Exception)]


def says_that_variables_are_lost(error: Exception) -> bool:
    """Whether a cell that took too long did not end when it was interrupted."""
    return isinstance(error, CodeExecutionTimeout) and "variables are lost" in str(error)


def describe(outcome: CellOutcome) -> str:
    """The text of a cell that failed, for a model: its output, and what happened."""
    parts = [outcome.text.rstrip("\n"), *outcome.notices, str(outcome.error or "")]
    return "\n".join(part for part in parts if part)


def positional_parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that can be given by position; empty if they are not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind in POSITIONAL]


def _read_json_object(text: Any) -> dict[str, Any]:
    """A kernel can send anything."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read(report: dict[str, Any], name: str) -> list[Any] | None:
    try:
        return [json.loads(report[name])]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
