# SPDX-License-Identifier: Apache-2.0
"""AutoGen: a `CodeExecutor` that runs code blocks in a sandboxed IPython kernel.

    from ipybox.integrations.autogen import IpyboxCodeExecutor

    async with IpyboxCodeExecutor() as executor:
        agent = CodeExecutorAgent("coder", code_executor=executor, model_client=model)
        result = await agent.run(task="What is the 10th Fibonacci number?")

Variables and files live from `start` to `stop`. `restart`, which AutoGen calls when an agent is
reset, gives a fresh kernel and keeps the files. Tools run in this program. Blocks call them through
the tool channel, so `approve` and approval rules decide about each call.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    from autogen_core import CancellationToken, Component
    from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
    from autogen_core.tools import BaseTool, FunctionTool
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing}: install AutoGen to use this module (pip install autogen-core)",
        name=missing.name,
    ) from missing
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from ..results import (
    CallRefusedError,
    CodeExecutionError,
    CodeExecutionTimeout,
    KernelLostError,
)
from . import temporary
from .code_session import Approve, CellOutcome, CodeSession, describe

# Of code blocks. Models write all of these.
LANGUAGES = frozenset(("", "python", "py", "python3", "ipython"))

# The exit codes of a shell: for an exception, a call that was refused, a process that was killed,
# and a command that does not exist.
FAILED, REFUSED, KILLED, UNKNOWN = 1, 126, 137, 127


class IpyboxCodeExecutorConfig(BaseModel):
    """The configuration of an `IpyboxCodeExecutor`; its arguments describe the fields."""

    model_config = ConfigDict(extra="forbid")

    timeout: float | None = 60
    workspace: str | None = None
    output_dir: str | None = None
    sandbox: bool = True
    options: dict[str, Any] = {}


@dataclass
class IpyboxCodeResult(CodeResult):
    """How code blocks ended.

    Attributes:
        exit_code: 0: all ended well. 1: a block raised an exception. 126: a tool call in it was not
            approved. 127: it is not Python. 137: its kernel has ended, and all variables are lost.
        output: What they printed and displayed, with the traceback of the one that failed.
        output_files: Images, and tables as HTML files, that they displayed.
        error: Why a block failed: a CallRefusedError, KernelLostError, LimitExceededError or
            another CodeExecutionError. None: none has failed.
    """

    output_files: list[Path]
    error: CodeExecutionError | None = field(default=None, compare=False)


class IpyboxCodeExecutor(CodeExecutor, Component[IpyboxCodeExecutorConfig]):
    """Runs code blocks, one after the other, as cells of one IPython kernel."""

    component_config_schema = IpyboxCodeExecutorConfig
    component_provider_override = "ipybox.integrations.autogen.IpyboxCodeExecutor"

    def __init__(
        self,
        *,
        timeout: float | None = 60,
        workspace: str | os.PathLike[str] | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        sandbox: bool = True,
        approve: Approve | None = None,
        tools: Iterable[BaseTool[Any, Any] | Callable[..., Any]] = (),
        **options: Any,
    ) -> None:
        """
        Args:
            timeout: Seconds that a block may take. None: no limit.
            workspace: The directory in which code runs, and the only one that a sandboxed kernel
                may write. None: a temporary directory, from `start` to `stop`.
            output_dir: Where images and HTML are saved. None: a temporary directory, which is
                removed when this object is garbage collected and when the program ends.
            sandbox: Whether the kernel runs in a sandbox.
            approve: Decides about each ApprovalRequest: returns, or awaits, True or False. A
                function that blocks runs in a thread. None: calls that no rule denies may run.
            tools: Tools of AutoGen, or functions with annotations and a docstring, that blocks may
                call as global functions.
            **options: Of `ipybox.CodeExecutor`, such as `limits` or `approval_rules`.

        Raises:
            ValueError, TypeError: If an option is wrong.
        """
        self._config = IpyboxCodeExecutorConfig(
            timeout=timeout,
            workspace=_absolute(workspace),
            output_dir=_absolute(output_dir),
            sandbox=sandbox,
            options=options,
        )
        self._approve = approve
        self._tools = {tool.name: tool for tool in map(_as_tool, tools)}
        if output_dir is None:
            self._output_dir, _ = temporary.make_directory(self, "ipybox-output-")
        else:
            self._output_dir = Path(os.path.abspath(output_dir))
            self._output_dir.mkdir(parents=True, exist_ok=True)
        self._session = CodeSession(
            approve=approve,
            timeout=timeout,
            workspace=workspace,
            options={"sandbox": sandbox, "images_dir": self._output_dir, **options},
        )

    @property
    def output_dir(self) -> Path:
        """Where images and HTML are saved."""
        return self._output_dir

    @property
    def workspace(self) -> Path | None:
        """The directory in which code runs. None: `start` makes it."""
        return self._session.workspace

    async def start(self) -> None:
        """Starts the kernel. Does nothing if it is started."""
        await self._session.start([self._offer(tool) for tool in self._tools.values()])

    async def stop(self) -> None:
        """Ends the kernel, and removes a temporary workspace."""
        await self._session.close()

    async def restart(self) -> None:
        """Replaces the kernel by a fresh one. Files stay."""
        await self._session.reset()

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> IpyboxCodeResult:
        """Runs blocks until one fails.

        Args:
            code_blocks: The blocks, which must be Python.
            cancellation_token: Cancels this: the running block is interrupted, and variables are
                kept.

        Returns:
            What they did, also if one failed.

        Raises:
            CodeExecutionTimeout: If a block took too long. This is a TimeoutError. Its text and its
                `output` have what the blocks printed until then.
            asyncio.CancelledError: If the token was cancelled.
            RuntimeError: If the executor is not started, or ipybox itself has failed.
        """
        if not self._session.is_started:
            raise RuntimeError("Executor must be started before executing cells")
        result = IpyboxCodeResult(exit_code=0, output="", output_files=[])
        outputs: list[str] = []
        for block in code_blocks:
            if block.language.lower() not in LANGUAGES:
                result.exit_code = UNKNOWN
                outputs.append(f"This executor runs Python only, not {block.language!r}.")
                break
            task = asyncio.ensure_future(self._run(block.code))
            cancellation_token.link_future(task)
            outcome = await task
            result.output_files += outcome.images + self._save_html(outcome)
            if isinstance(outcome.error, CodeExecutionTimeout):
                raise _timeout("\n".join([*outputs, describe(outcome)]), outcome.error)
            outputs.append(_output(outcome))
            if outcome.error is not None:
                result.exit_code, result.error = _exit_code(outcome.error), outcome.error
                break
        result.output = "\n".join(outputs)
        return result

    async def _run(self, code: str) -> CellOutcome:
        if self._tools and not self._session.is_prepared:
            tools = {
                name: (list(_properties(tool)), tool.description)
                for name, tool in self._tools.items()
            }
            await self._session.prepare("", f"_ipybox.define_tools({tools!r})")
        return await self._session.run(code)

    def _offer(self, tool: BaseTool[Any, Any]) -> Any:
        async def call(arguments: dict[str, Any]) -> Any:
            return to_jsonable_python(await tool.run_json(arguments, CancellationToken()))

        return self._session.make_tool(tool.name, tool.description, _properties(tool), call)

    def _save_html(self, outcome: CellOutcome) -> list[Path]:
        paths = []
        for display in outcome.displays:
            html = display.data.get("text/html")
            if isinstance(html, str):
                paths.append(self._output_dir / f"{uuid.uuid4().hex}.html")
                paths[-1].write_text(html, encoding="utf-8")
        return paths

    def _to_config(self) -> IpyboxCodeExecutorConfig:
        if self._approve is not None or self._tools:
            raise ValueError(
                "an executor with approve= or tools= cannot be written to a configuration"
            )
        return self._config

    @classmethod
    def _from_config(cls, config: IpyboxCodeExecutorConfig) -> IpyboxCodeExecutor:
        values: Mapping[str, Any] = config.model_dump()
        return cls(**{name: values[name] for name in values if name != "options"}, **config.options)


def _as_tool(given: Any) -> BaseTool[Any, Any]:
    if isinstance(given, BaseTool):
        return given
    return FunctionTool(given, description=inspect.getdoc(given) or given.__name__)


def _properties(tool: BaseTool[Any, Any]) -> dict[str, Any]:
    return dict(tool.args_type().model_json_schema().get("properties", {}))


def _absolute(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _exit_code(error: CodeExecutionError) -> int:
    if isinstance(error, CallRefusedError):
        return REFUSED
    return KILLED if isinstance(error, KernelLostError) else FAILED


def _output(outcome: CellOutcome) -> str:
    error = outcome.error
    if not isinstance(error, CodeExecutionError):
        return outcome.text
    # The last line of the traceback repeats the first line of the text.
    text = str(error).removeprefix(f"{error.name}: {error.value}\n")
    return f"{outcome.text}\n\n{text}" if outcome.text else text


def _timeout(text: str, error: CodeExecutionTimeout) -> CodeExecutionTimeout:
    """The error, with the output in its text, which is what a model reads."""
    new = CodeExecutionTimeout(text)
    new.output, new.violations, new.notices = error.output, error.violations, error.notices
    return new
