# SPDX-License-Identifier: Apache-2.0
"""ipybox as the sandbox of LangChain's deep agents (`deepagents`).

    with IpyboxSandbox() as sandbox:
        agent = create_deep_agent(model=..., backend=sandbox)
        agent.invoke(...)

`sandbox.python_tool(tools=[…])` is a tool with which the agent runs Python. The code can call other
tools of yours, and you decide about these calls.

The agent's tools for commands and files work in the sandbox. Its files and its background processes
live until `close`, over any number of runs. Paths of files are absolute: `/tmp` is the sandbox's
own, and `sandbox.workspace` is the directory in which commands start.

How failures are reported:

- a command that fails or exceeds a limit of the sandbox: its exit code and output, in which the
  limit is named;
- a command that takes too long: exit code 124, the output until then, and a line that says so;
- a file that cannot be read or written: the `error` of its response, and the other files of the
  batch are transferred;
- a kernel or a core that was lost: `CoreError`, so that a program can tell it from a mistake of the
  model.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

try:
    from deepagents.backends.sandbox import BaseSandbox
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing}: install deep agents to use this module (pip install deepagents)",
        name=missing.name,
    ) from missing
from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langchain_core.tools import tool as as_tool
from langgraph.config import get_config
from langgraph.types import interrupt
from pydantic_core import to_jsonable_python

from ..commands import CommandTimeout
from ..core import CoreError
from ..tool_exec.approval.client import ApprovalRequest
from . import background
from .code_session import Approve, CellOutcome
from .command_session import CommandSession, decode, describe_limit, exit_code
from .python_tool import DEFAULT_TIMEOUT_S as CELL_TIMEOUT_S
from .python_tool import (
    OfferedTool,
    PythonTool,
    collect,
    describe_outcome,
    describe_tool,
    summarize,
)

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

DEFAULT_TIMEOUT_S = 1800
TIMED_OUT = 124
NOT_EXECUTABLE = 126


class IpyboxSandbox(BaseSandbox):
    """A sandbox for one agent, or for several that share its files.

    Attributes:
        workspace: The directory in which commands start.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        timeout: float | None = DEFAULT_TIMEOUT_S,
        **options: Any,
    ) -> None:
        """
        Args:
            workspace: The directory in which commands start, which is kept. None: a temporary
                directory.
            timeout: Seconds after which a command is killed that names no timeout. None: no limit.
            **options: Of `CodeExecutor`, such as `sandbox_config`.
        """
        self._session = CommandSession(workspace, **options)
        self._timeout = timeout
        self._id = f"ipybox-{secrets.token_hex(8)}"
        background.run(self._session.start())

    @property
    def id(self) -> str:
        return self._id

    @property
    def workspace(self) -> Path:
        return self._session.workspace

    def close(self) -> None:
        """Ends everything in the sandbox, and removes a temporary workspace."""
        background.run(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command line. Its stdout and stderr are one output, in order.

        Args:
            command: For /bin/sh.
            timeout: Seconds; 0 for no limit. None: the timeout of the sandbox.
        """
        seconds = self._timeout if timeout is None else timeout
        argv = ["/bin/sh", "-c", f"exec 2>&1; {command}"]
        try:
            result = background.run(self._session.run(argv, timeout=seconds or None))
        except CommandTimeout as error:
            output = decode(error.result.stdout)
            return ExecuteResponse(
                output=f"{output}[ipybox] {error}\n",
                exit_code=TIMED_OUT,
                truncated=error.result.stdout_cut,
            )
        except CoreError as error:
            if error.kind != "limit":
                raise
            return ExecuteResponse(output=f"[ipybox] {error}\n", exit_code=NOT_EXECUTABLE)
        return ExecuteResponse(
            output=decode(result.stdout) + describe_limit(result),
            exit_code=exit_code(result),
            truncated=result.stdout_cut,
        )

    def python_tool(
        self,
        tools: Iterable[BaseTool | Callable[..., Any]] = (),
        *,
        approve: Approve | None = None,
        interrupt_on: Iterable[str] = (),
        timeout: float | None = CELL_TIMEOUT_S,
        name: str = "run_python",
    ) -> BaseTool:
        """A tool that runs Python in a stateful kernel, in this workspace and with its walls.

            create_deep_agent(tools=[sandbox.python_tool([search, order])], backend=sandbox)

        The `artifact` of its messages has `error`, the class of what failed, such as
        "CallRefusedError", "LimitExceededError" or "KernelLostError", or None; and `images`.

        Args:
            tools: Tools, or functions with annotations and a docstring, that the code may call as
                functions. They run in this program; tools that are asynchronous only, in the
                event loop of this module.
            approve: Decides about each call, in the middle of the cell: returns, or awaits, whether
                the ApprovalRequest may run. None: all calls may run that no rule denies and that
                are not in `interrupt_on`.
            interrupt_on: The names of tools whose calls pause the agent, as those in `interrupt_on`
                of `create_deep_agent`: with an interrupt, whose value is an `HITLRequest`. The cell
                waits, and continues where it was when the agent is resumed with a decision,
                "approve" or "reject". It needs a checkpointer, and this object: in another program
                the cell begins again.
            timeout: Seconds that a cell may take, without the time that calls wait for decisions.
                None: no limit.
            name: Of the tool.

        Raises:
            ValueError: If a tool cannot be a function, or `interrupt_on` names no tool.
        """
        asked = set(interrupt_on)
        offered = collect(_offer(_as_tool(each), asked) for each in tools)
        unknown = asked - offered.keys()
        if unknown or (asked and approve is not None):
            raise ValueError(
                f"interrupt_on names no tool: {', '.join(sorted(unknown))}"
                if unknown
                else "approve and interrupt_on exclude each other"
            )
        python = PythonTool(self._session, offered, approve=approve, timeout=timeout)

        def run(code: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
            outcome = (
                _run(python, code, tool_call_id) if asked else background.run(python.run(code))
            )
            return describe_outcome(outcome), summarize(outcome)

        return StructuredTool.from_function(
            run,
            name=name,
            description=describe_tool(offered),
            response_format="content_and_artifact",
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._put(path, data)) for path, data in files]

    def _put(self, path: str, data: bytes) -> Any:
        try:
            _check(path)
            background.run(self._session.executor.write_file(path, data))
        except (OSError, ValueError) as error:
            return _name(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._get(path) for path in paths]

    def _get(self, path: str) -> FileDownloadResponse:
        try:
            _check(path)
            data = background.run(self._session.executor.read_file(path))
        except (OSError, ValueError) as error:
            return FileDownloadResponse(path=path, error=_name(error))
        return FileDownloadResponse(path=path, content=data)


def _as_tool(given: BaseTool | Callable[..., Any]) -> BaseTool:
    return given if isinstance(given, BaseTool) else as_tool(given)


def _offer(tool: BaseTool, asked: set[str]) -> OfferedTool:
    def call(arguments: dict[str, Any]) -> Any:
        return to_jsonable_python(tool.invoke(arguments), fallback=str)

    async def call_async(arguments: dict[str, Any]) -> Any:
        return to_jsonable_python(await tool.ainvoke(arguments), fallback=str)

    schema: Any = tool.tool_call_schema
    schema = schema if isinstance(schema, dict) else schema.model_json_schema()
    is_async = getattr(tool, "func", call) is None
    return OfferedTool(
        tool.name,
        tool.description,
        schema.get("properties", {}),
        call_async if is_async else call,
        tool.name in asked,
    )


def _run(python: PythonTool, code: str, key: str) -> CellOutcome:
    """Runs a cell, and interrupts the agent for each decision. Then LangGraph calls the tool again,
    and `interrupt` returns the decisions that there are already, in their order."""
    config = get_config()
    turn = (
        config.get("configurable", {}).get("thread_id"),
        config.get("metadata", {}).get("langgraph_step"),
    )
    decisions: list[bool] = []
    while True:
        step = background.run(python.step(key, code, decisions, turn))
        if isinstance(step, CellOutcome):
            return step
        decisions.append(_is_approved(interrupt(_ask(step))))


def _ask(request: ApprovalRequest) -> dict[str, Any]:
    """As `HumanInTheLoopMiddleware` asks."""
    action = {"name": request.tool_name, "args": request.tool_args, "description": str(request)}
    review = {"action_name": request.tool_name, "allowed_decisions": ["approve", "reject"]}
    return {"action_requests": [action], "review_configs": [review]}


def _is_approved(answer: Any) -> bool:
    try:
        (decision,) = answer["decisions"]
        kind = decision["type"]
    except (TypeError, ValueError, KeyError):
        kind = None
    if kind not in ("approve", "reject"):
        raise ValueError(
            'the answer must be {"decisions": [{"type": "approve"}]}, or "reject", not '
            f"{answer!r}"
        )
    return bool(kind == "approve")


def _check(path: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise NotADirectoryError(f"{path!r} is not an absolute path")


def _name(error: OSError | ValueError) -> Any:
    """The framework's name for the error, or its text."""
    names = {
        FileNotFoundError: "file_not_found",
        PermissionError: "permission_denied",
        IsADirectoryError: "is_directory",
        NotADirectoryError: "invalid_path",
    }
    return next((name for kind, name in names.items() if isinstance(error, kind)), str(error))
