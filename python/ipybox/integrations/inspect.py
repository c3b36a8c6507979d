# SPDX-License-Identifier: Apache-2.0
"""ipybox as a sandbox of Inspect (`inspect_ai`): local, without Docker, a few milliseconds each.

    Task(dataset=..., solver=..., sandbox="ipybox")

Inspect finds it by an entry point. Each sample has a sandbox with an empty workspace, which lives
until Inspect cleans the sample up. The configuration is a file as in ipybox-sandbox-config(5):

    Task(..., sandbox=("ipybox", "sandbox.json"))

`run_python(tools=[…])` is a tool with which the model runs Python in a stateful kernel of the
sample. The code can call other tools, and the approval policies of the task decide about each call.

How failures are reported:

- a command that fails, is missing, or exceeds a limit of the sandbox: an `ExecResult`, whose stderr
  names the limit;
- a command that takes too long: `CommandTimeout`, a `TimeoutError` with the output until then;
- too much output: `OutputLimitExceededError`, with the beginning of the output;
- a kernel or a core that was lost: `SandboxUnavailableError`, so that an evaluation can tell it
  from a mistake of the model.

A cell of `run_python` that raises an exception returns its traceback. Otherwise the error of the
tool call has the type `approval` (a call was not approved), `timeout`, `limit` (of the sandbox) or
`sandbox_unavailable` (its kernel has ended).

Commands run as one user. So `user` must name that user, and there is no root.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Literal, overload

try:
    from inspect_ai._util.exception import TerminateSampleError
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing}: install Inspect to use this module (pip install inspect-ai)", name=missing.name
    ) from missing
from inspect_ai.approval._apply import apply_tool_approval
from inspect_ai.model._call_tools import tool_params
from inspect_ai.tool import (
    Tool,
    ToolCall,
    ToolCallContent,
    ToolCallView,
    ToolDef,
    tool,
)
from inspect_ai.tool._tool import ToolApprovalError
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util import (
    sandbox as sandbox_env,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from inspect_ai.util._sandbox.events import SandboxTimeoutError
from pydantic_core import to_jsonable_python

from ..commands import CommandResult, CommandTimeout
from ..core import CoreError
from ..files import TransferLimitError
from ..results import CallRefusedError, CodeExecutionTimeout, KernelLostError, LimitExceededError
from ..tool_exec.approval.client import ApprovalRequest
from .code_session import CellOutcome
from .command_session import CommandSession, decode, describe_limit, exit_code
from .python_tool import (
    DEFAULT_TIMEOUT_S,
    OfferedTool,
    PythonTool,
    collect,
    describe_outcome,
    describe_tool,
)

NOT_FOUND = 127
NOT_EXECUTABLE = 126


class IpyboxTimeout(CommandTimeout, SandboxTimeoutError):
    """A command took too long. Inspect shows the model what it had written.

    Attributes:
        result: What it had written until then.
        truncated_output: The same as a text.
    """

    def __init__(self, message: str, result: CommandResult) -> None:
        CommandTimeout.__init__(self, message, result)
        self.truncated_output = decode(result.stdout) + decode(result.stderr)


@sandboxenv(name="ipybox")
class IpyboxSandboxEnvironment(SandboxEnvironment):
    """A sandbox of one sample."""

    def __init__(self, session: CommandSession) -> None:
        super().__init__()
        self._session = session
        self._users: set[str] | None = None

    # Samples

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        if config is not None and not isinstance(config, str):
            raise TypeError("the configuration of the sandbox ipybox is the path of a file")
        session = CommandSession(sandbox_config=config)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return {"default": cls(session)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await environment.as_type(cls)._session.close()

    # Commands

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a command. It is never repeated after a timeout: it might act twice."""
        if user is not None:
            await self._check_user(user)
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            result = await self._session.run(
                cmd, input=input, env=env, cwd=cwd, timeout=timeout, max_output=limit
            )
        except CommandTimeout as error:
            raise IpyboxTimeout(str(error), error.result) from error
        except FileNotFoundError as error:
            return ExecResult(False, NOT_FOUND, "", f"{error}\n")
        except CoreError as error:
            if error.kind == "limit":
                return ExecResult(False, NOT_EXECUTABLE, "", f"{error}\n")
            if error.kind == "refused":
                raise PermissionError(str(error)) from error
            if error.kind == "invalid":
                raise
            raise SandboxUnavailableError(str(error)) from error
        stdout, stderr = decode(result.stdout), decode(result.stderr) + describe_limit(result)
        if result.stdout_cut or result.stderr_cut:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR,
                stdout if result.stdout_cut else stderr,
            )
        return ExecResult(result.ok, exit_code(result), stdout, stderr)

    async def _check_user(self, user: str) -> None:
        if self._users is None:
            result = await self._session.run(["/bin/sh", "-c", "id -u; id -un"])
            self._users = set(decode(result.stdout).split())
        if user not in self._users:
            raise SandboxUserUnsupportedError(
                f"commands cannot run as {user!r}: a sandbox of ipybox has one user, and no root"
            )

    # Files

    async def write_file(self, file: str, contents: str | bytes) -> None:
        try:
            await self._session.executor.write_file(file, contents)
        except CoreError as error:
            raise SandboxUnavailableError(str(error)) from error

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        try:
            data = await self._session.executor.read_file(
                file, max_bytes=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
            )
        except TransferLimitError as error:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None
            ) from error
        except CoreError as error:
            raise SandboxUnavailableError(str(error)) from error
        return data.decode("utf-8") if text else data

    # What Inspect asks about the provider

    @classmethod
    def config_files(cls) -> list[str]:
        return ["ipybox-sandbox.json"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> Any:
        raise NotImplementedError("the configuration of the sandbox ipybox is the path of a file")

    def default_polling_interval(self) -> float:
        return 0.2


def _view_code(call: ToolCall) -> ToolCallView:
    code = f"```python\n{call.arguments.get('code', '')}\n```\n"
    return ToolCallView(call=ToolCallContent(title="python", format="markdown", content=code))


@tool(viewer=_view_code)
def run_python(
    tools: Iterable[Tool] = (),
    *,
    timeout: float | None = DEFAULT_TIMEOUT_S,
    sandbox: str | None = None,
) -> Tool:
    """A tool that runs Python in a stateful kernel, in the workspace of the sample.

        use_tools(bash(), run_python([search()]))

    The kernel has the walls of the sandbox, which must be of ipybox. It lives as long as the
    sample.

    Args:
        tools: Tools that the code may call as functions. They run in this program. Approval
            policies decide about each call, in the middle of the cell, as about calls of the model.
            A policy that changes the arguments refuses the call.
        timeout: Seconds that a cell may take, without the time that calls wait for decisions. None:
            no limit.
        sandbox: The name of the sandbox. None: the default one.

    Raises:
        ValueError: If a tool cannot be a function.
    """
    offered = collect(_offer(each) for each in tools)
    key = object()

    async def execute(code: str) -> str:
        environment = sandbox_env(sandbox).as_type(IpyboxSandboxEnvironment)
        session = environment._session
        if key not in session.tools:
            session.tools[key] = PythonTool(session, offered, approve=_decide, timeout=timeout)
        try:
            outcome = await session.tools[key].run(code)
        except CoreError as error:
            raise SandboxUnavailableError(str(error)) from error
        _raise_error(outcome)
        return describe_outcome(outcome)

    parameters = {"code": "The Python code."}
    return ToolDef(execute, "run_python", describe_tool(offered), parameters).as_tool()


def _offer(given: Tool) -> OfferedTool:
    definition = ToolDef(given)

    async def call(arguments: dict[str, Any]) -> Any:
        value = await given(**tool_params(arguments, definition.tool))
        return to_jsonable_python(value, fallback=str)

    properties = {
        name: parameter.model_dump(exclude_none=True)
        for name, parameter in definition.parameters.properties.items()
    }
    return OfferedTool(definition.name, definition.description, properties, call)


async def _decide(request: ApprovalRequest) -> bool:
    """As Inspect decides about a call of the model."""
    call = ToolCall(
        id=uuid.uuid4().hex, function=request.tool_name, arguments=dict(request.tool_args)
    )
    is_approved, approval = await apply_tool_approval("", call, None, [])
    if approval is not None and approval.decision == "terminate":
        raise TerminateSampleError(approval.explanation or "an approver ends the sample")
    return is_approved and (approval is None or approval.decision == "approve")


def _raise_error(outcome: CellOutcome) -> None:
    """Raises what Inspect reports with a type. An exception of the code is text for the model."""
    text = describe_outcome(outcome)
    match outcome.error:
        case CodeExecutionTimeout() as error:
            raise SandboxTimeoutError(str(error), truncated_output=text) from error
        case CallRefusedError() as error:
            raise ToolApprovalError(text) from error
        case LimitExceededError() as error:
            raise OutputLimitExceededError(str(error), text) from error
        case KernelLostError() as error:
            raise SandboxUnavailableError(text) from error
