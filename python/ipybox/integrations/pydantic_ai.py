# SPDX-License-Identifier: Apache-2.0
"""ipybox as a workspace of Pydantic AI (`pydantic_ai`).

    async with IpyboxWorkspace() as backend:
        await agent.run("...", workspace=Workspace(backend))

Commands run in a sandbox. Pydantic AI's operations on files use its commands, so they see the same
files. The environment is made by the first operation. It lives in this process until it is closed,
over any number of runs: a run never ends it. A backend that is made with the `ref` of another one
attaches to the same environment.

`backend.python_tool(tools=[…])` is a tool with which an agent runs Python. The code can call other
tools, and calls of tools with `requires_approval` are deferred, as those of the agent.

How failures are reported:

- a command that fails, is missing (127), may not be executed (126) or exceeds a limit of the
  sandbox: its exit code, and a limit is named in stderr;
- a command that takes too long: `WorkspaceTimeoutError` with the output until then;
- too much output: `WorkspaceOutputLimitError` with its beginning;
- an environment that was closed, or whose kernel or core was lost: `WorkspaceUnavailableError`.

It needs asyncio, not trio.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

try:
    from pydantic_ai import ApprovalRequired, RunContext, Tool, ToolReturn
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing}: install Pydantic AI to use this module (pip install pydantic-ai-slim)",
        name=missing.name,
    ) from missing
from pydantic_ai.workspaces import (
    CommandResult,
    SupportsCommands,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_core import to_jsonable_python

from ..commands import MAX_OUTPUT_BYTES, SHELL, CommandTimeout
from ..core import CoreError
from ..utils import check_seconds
from .code_session import Approve, CellOutcome
from .command_session import CommandSession, decode, describe_limit, exit_code
from .python_tool import (
    DEFAULT_TIMEOUT_S,
    OfferedTool,
    PythonTool,
    collect,
    describe_outcome,
    describe_tool,
    summarize,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PROVIDER = "ipybox"
NOT_FOUND = 127
NOT_EXECUTABLE = 126
REALPATH = "import os, sys; os.write(1, os.fsencode(os.path.realpath(sys.argv[1])))"


class _Environment:
    """A session that is started once, by whichever operation comes first."""

    def __init__(self, session: CommandSession) -> None:
        self.session = session
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self.session.start())
        # An operation that is cancelled does not cancel the start for the others.
        await asyncio.shield(self._starting)


_environments: dict[str, _Environment] = {}


class IpyboxWorkspace(WorkspaceBackend, SupportsCommands, SupportsRealpath):
    """An environment for runs of agents."""

    def __init__(
        self,
        ref: WorkspaceRef | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        """Does nothing yet.

        Args:
            ref: An environment of this process. None: a new one.
            workspace: The directory in which commands start, which is kept. None: a temporary
                directory.
            **options: Of `CodeExecutor`, such as `sandbox_config`.

        Raises:
            ValueError: If `ref` is of another provider.
        """
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"a workspace of {ref.provider!r} is not one of {PROVIDER!r}")
        self._ref = ref
        self._workspace = workspace
        self._options = options

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._ref

    async def close(self) -> None:
        """Ends everything in the environment, and removes a temporary directory."""
        environment = _environments.pop(self._ref.id, None) if self._ref is not None else None
        if environment is not None:
            await environment.session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def working_dir(self) -> str:
        return os.path.realpath((await self._open()).workspace)

    async def realpath(self, path: str) -> str:
        session = await self._open()
        result = await self.run([session.python, "-I", "-S", "-c", REALPATH, path])
        if result.exit_code != 0:
            raise WorkspaceUnavailableError(f"no path can be resolved: {result.stderr}")
        path = str(result.stdout)
        return path

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, and a list of arguments shell=False")
        argv = [SHELL, "-c", command] if isinstance(command, str) else list(command)
        seconds = check_seconds(timeout, "timeout")
        session = await self._open()
        try:
            result = await session.run(argv, env=env, timeout=seconds)
        except CommandTimeout as error:
            raise WorkspaceTimeoutError(
                str(error), stdout=decode(error.result.stdout), stderr=decode(error.result.stderr)
            ) from error
        except FileNotFoundError as error:
            return CommandResult(exit_code=NOT_FOUND, stdout="", stderr=f"{error}\n")
        except CoreError as error:
            if error.kind in ("refused", "limit"):
                return CommandResult(exit_code=NOT_EXECUTABLE, stdout="", stderr=f"{error}\n")
            if error.kind == "invalid" and self._is_open():
                raise
            raise WorkspaceUnavailableError(str(error)) from error
        except RuntimeError as error:
            raise WorkspaceUnavailableError(str(error)) from error
        stdout, stderr = decode(result.stdout), decode(result.stderr) + describe_limit(result)
        if result.stdout_cut or result.stderr_cut:
            raise WorkspaceOutputLimitError(
                f"the output of the command has more than {MAX_OUTPUT_BYTES} bytes",
                limit=MAX_OUTPUT_BYTES,
                stdout=stdout,
                stderr=stderr,
            )
        return CommandResult(exit_code=exit_code(result), stdout=stdout, stderr=stderr)

    def python_tool(
        self,
        tools: Iterable[Tool[Any] | Callable[..., Any]] = (),
        *,
        approve: Approve | None = None,
        timeout: float | None = DEFAULT_TIMEOUT_S,
        name: str = "run_python",
    ) -> Tool[Any]:
        """A tool that runs Python in a stateful kernel, in this workspace and with its walls.

            tools = [search, Tool(order, requires_approval=True)]
            agent = Agent(..., tools=[workspace.python_tool(tools)])

        A call of a tool with `requires_approval` ends the run with `DeferredToolRequests`, whose
        `metadata` has the call. The cell waits, and continues where it was when the next run gets
        `DeferredToolResults` that approve. If they deny, the model gets that as the answer of the
        cell, which is cancelled when the next one begins.

        The `metadata` of its returns has `error`, the class of what failed, such as
        "CallRefusedError", "LimitExceededError" or "KernelLostError", or None; and `images`.

        Args:
            tools: Tools, or functions as for `Agent.tool`, that the code may call as functions.
                They run in this program.
            approve: Decides about each call, in the middle of the cell: returns, or awaits, whether
                the ApprovalRequest may run. Then no call is deferred.
            timeout: Seconds that a cell may take, without the time that calls wait for decisions.
                None: no limit.
            name: Of the tool.

        Raises:
            ValueError: If a tool cannot be a function.
        """
        offered = collect(_offer(each if isinstance(each, Tool) else Tool(each)) for each in tools)
        python = PythonTool(self._open, offered, approve=approve, timeout=timeout)

        async def run_python(context: RunContext[Any], code: str) -> ToolReturn:
            _context.set(context)
            if approve is not None:
                outcome = await python.run(code)
            else:
                outcome = await _step(python, context, code)
            return ToolReturn(describe_outcome(outcome), metadata=summarize(outcome))

        return Tool(run_python, takes_ctx=True, name=name, description=describe_tool(offered))

    def _is_open(self) -> bool:
        return self._ref is not None and self._ref.id in _environments

    async def _open(self) -> CommandSession:
        if self._ref is None:
            session = CommandSession(self._workspace, **self._options)
            self._ref = WorkspaceRef(provider=PROVIDER, id=secrets.token_hex(16))
            _environments[self._ref.id] = _Environment(session)
        environment = _environments.get(self._ref.id)
        if environment is None:
            raise WorkspaceUnavailableError(
                f"there is no environment {self._ref.id} in this process: it was closed"
            )
        await environment.start()
        return environment.session


# Of the call of the tool whose cell runs.
_context: ContextVar[RunContext[Any]] = ContextVar("ipybox_run_context")


def _offer(tool: Tool[Any]) -> OfferedTool:
    schema = tool.function_schema

    async def call(arguments: dict[str, Any]) -> Any:
        context = dataclasses.replace(_context.get(), tool_name=tool.name)
        given = schema.validator.validate_python(arguments, context=context.validation_context)
        return to_jsonable_python(await schema.call(given, context), fallback=str)

    properties = schema.json_schema.get("properties", {})
    return OfferedTool(tool.name, tool.description or "", properties, call, tool.requires_approval)


async def _step(python: PythonTool, context: RunContext[Any], code: str) -> CellOutcome:
    """Runs a cell until it ends or a call needs an approval, which ends the run of the agent. The
    next run calls the tool again, if the call was approved."""
    key = str(context.tool_call_id)
    approved = [True] * (python.count_requests(key) if context.tool_call_approved else 0)
    step = await python.step(key, code, approved, (context.run_id, context.run_step))
    if isinstance(step, CellOutcome):
        return step
    raise ApprovalRequired(
        {"tool_name": step.tool_name, "tool_args": step.tool_args, "question": str(step)}
    )
