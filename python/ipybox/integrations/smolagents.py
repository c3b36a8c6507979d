# SPDX-License-Identifier: Apache-2.0
"""smolagents: an executor for `CodeAgent` that runs code in a sandboxed IPython kernel.

    from ipybox.integrations.smolagents import IpyboxExecutor

    executor = IpyboxExecutor()
    with CodeAgent(tools=[search], model=model, executor=executor) as agent:
        agent.run("…")
        agent.run("…", reset=False)

Variables and files live from the first cell until `cleanup`, which the agent calls at the end of
`with`: runs of an agent share them. The agent's tools run in this program. Cells call them through
the tool channel, so `approve` and approval rules decide about each call.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results import CodeExecutionError, CodeExecutionTimeout
from . import background
from .code_session import Approve, CellOutcome, CodeSession, describe, positional_parameters

if TYPE_CHECKING:
    from smolagents import ActionStep
    from smolagents.local_python_executor import CodeOutput

FINAL_ANSWER = "final_answer"
# Types of tools' inputs that JSON Schema does not have.
OWN_TYPES = frozenset(("any", "image", "audio"))

# Is added to kernel_side.py. SafeSerializer is the class of smolagents with which its own remote
# executors pass values. The value of a cell is passed as `[value]` if that is quick, and else as
# `[]`, for example if it is a table: then the program uses its text.
SIDE = """
import base64, json, pickle
from io import BytesIO
from typing import Any

class SerializationError(Exception):
    pass

{serializer}

encode, decode = SafeSerializer.to_json_safe, SafeSerializer.from_json_safe

def encode_value(value):
    is_image = type(value).__module__.startswith("PIL.") and hasattr(value, "getpixel")
    return [encode(value)] if is_image or type(value) in (str, int, float, bool) else []
"""
# A tool `final_answer` that returns its argument.
PLAIN_FINAL_ANSWER = """
_ipybox.define("final_answer", lambda answer: _ipybox.finish(answer))
"""
# Any other one is called, and what it returns is the answer.
OWN_FINAL_ANSWER = """
_ipybox.define("final_answer", lambda *args, **kwargs: _ipybox.finish(
    _ipybox.make_caller("final_answer", {parameters!r})(*args, **kwargs)))
"""
SET_VARIABLES = """
globals().update(_ipybox.SafeSerializer.loads({text!r}))
"""


class IpyboxExecutor:
    """Runs the code of a `CodeAgent`. It is a `PythonExecutor`. It may be used by one agent.

    Attributes:
        state: `_print_outputs` is what the last cell printed and displayed. The agent shows it to
            the model if the cell has failed or took too long.
        images: The image files that the last cell displayed.
    """

    def __init__(
        self,
        *,
        timeout: float | None = 30,
        workspace: str | os.PathLike[str] | None = None,
        sandbox: bool = True,
        approve: Approve | None = None,
        max_print_outputs_length: int = 50_000,
        **options: Any,
    ) -> None:
        """
        Args:
            timeout: Seconds that a cell may take. Approvals do not count. None: no limit.
            workspace: The directory in which code runs, and the only one that a sandboxed kernel
                may write. None: a temporary directory.
            sandbox: Whether the kernel runs in a sandbox.
            approve: Decides about each ApprovalRequest: returns, or awaits, True or False. It runs
                in a thread of its own. None: calls that no rule denies may run.
            max_print_outputs_length: The most characters of a cell's output that the model gets.
            **options: Of `ipybox.CodeExecutor`, such as `limits` or `approval_rules`.

        Raises:
            ImportError: If smolagents is not installed.
            ValueError, TypeError: If an option is wrong.
        """
        from smolagents.local_python_executor import PythonExecutor

        PythonExecutor.register(type(self))
        self.state: dict[str, Any] = {"_print_outputs": ""}
        self.images: list[Path] = []
        self._max_chars = max_print_outputs_length
        self._tools: dict[str, Any] = {}
        self._offered: frozenset[str] = frozenset()  # tools that the session was started with
        self._variables: dict[str, str] = {}  # by name, serialized
        # What the next cell needs to be defined first.
        self._has_new_tools = False
        self._new_variables: list[str] = []
        self._is_ended = False
        self._session = CodeSession(
            approve=approve,
            timeout=timeout,
            workspace=workspace,
            options={"sandbox": sandbox, **options},
        )

    @property
    def workspace(self) -> Path | None:
        """The directory in which code runs. None: the first cell makes it."""
        return self._session.workspace

    # What CodeAgent calls

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Offers tools to the code, as functions. The agent calls this before each run.

        Args:
            tools: Tools and managed agents by name. They run in this program, in threads.

        Raises:
            RuntimeError: If there are names that the session did not have at its first cell.
        """
        new = sorted(self._remote(tools) - self._offered)
        if new and self._session.is_started:
            raise RuntimeError(
                f"{', '.join(new)}: tools that are added after the first cell cannot be offered;"
                " use a new IpyboxExecutor"
            )
        self._tools = dict(tools)
        self._has_new_tools = True

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Sets variables of the code, before its next cell. After a kernel was lost, the next one
        gets them again.

        Args:
            variables: Values that smolagents' SafeSerializer can pass.

        Raises:
            SerializationError: If it cannot pass a value.
        """
        for name, value in variables.items():
            self._variables[name] = _serializer().dumps({name: value})
            self._new_variables.append(name)

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs a cell.

        Args:
            code_action: Python as IPython accepts it.

        Returns:
            `output`: the final answer; or the value of the last expression, or its text if it
            cannot be passed. `logs`: what was printed and displayed.

        Raises:
            AgentExecutionError: If the code has failed. `find_error` (ipybox.integrations.causes)
                returns the reason: a CodeExecutionError or one of its classes, or a
                CodeExecutionTimeout.
            RuntimeError: If ipybox itself has failed, or after `cleanup`.
        """
        from smolagents.local_python_executor import CodeOutput

        self.state["_print_outputs"], self.images = "", []
        outcome = background.run(self._run(code_action))
        if outcome.error is not None:
            self._keep_output(outcome.text)
            raise self._error(describe(replace(outcome, text="")), outcome.error)
        self.images = outcome.images
        logs, output = self._split(outcome)
        self._keep_output("\n".join([part for part in (logs, *outcome.notices) if part]))
        if outcome.final is not None:
            output = self._read(outcome.final[0])
        return CodeOutput(
            output=output,
            logs=self.state["_print_outputs"],
            is_final_answer=outcome.final is not None,
        )

    def cleanup(self) -> None:
        """Ends the kernel, and removes a temporary workspace. The executor cannot be used again."""
        self._is_ended = True
        background.run(self._session.close())

    # For `step_callbacks` of an agent

    def observe_images(self, memory_step: ActionStep) -> None:
        """Shows the plots and images of the step to the model:

        CodeAgent(…, executor=executor, step_callbacks=[executor.observe_images])
        """
        from PIL import Image

        images = []
        for path in self.images:
            with Image.open(path) as image:
                images.append(image.copy())
        if images:
            memory_step.observations_images = [*(memory_step.observations_images or []), *images]

    # Parts

    async def _run(self, code: str) -> CellOutcome:
        if self._is_ended:
            raise RuntimeError("the executor was cleaned up: create a new one")
        session = self._session
        if not session.is_started:
            self._offered = frozenset(self._remote(self._tools))
            await session.start([self._make_tool(name) for name in sorted(self._offered)])
        try:
            if not session.is_prepared:
                tools, variables = self._tools_code(), self._variables_code(list(self._variables))
                side = SIDE.format(serializer=inspect.getsource(_serializer()))
                await session.prepare(side, tools + variables)
            else:
                new = self._tools_code() if self._has_new_tools else ""
                new += self._variables_code(self._new_variables)
                if new:
                    await session.define(new)
            self._has_new_tools, self._new_variables = False, []
        except (CodeExecutionError, CodeExecutionTimeout) as error:
            session.is_prepared = False
            return CellOutcome("", error=error)
        return await session.run(code)

    def _tools_code(self) -> str:
        tools = {
            name: (positional_parameters_of(tool), getattr(tool, "description", ""))
            for name, tool in self._tools.items()
        }
        final = self._tools.get(FINAL_ANSWER)
        tools.pop(FINAL_ANSWER, None)
        code = f"_ipybox.define_tools({tools!r})\n"
        if final is not None and _is_plain(final):
            code += PLAIN_FINAL_ANSWER
        elif final is not None:
            code += OWN_FINAL_ANSWER.format(parameters=positional_parameters_of(final))
        return code

    def _variables_code(self, names: list[str]) -> str:
        return "".join(SET_VARIABLES.format(text=self._variables[name]) for name in names)

    def _remote(self, tools: dict[str, Any]) -> set[str]:
        """The names of the tools that run in this program."""
        return {name for name, tool in tools.items() if name != FINAL_ANSWER or not _is_plain(tool)}

    def _make_tool(self, name: str) -> Any:
        def call(arguments: dict[str, Any]) -> Any:
            serializer = _serializer()
            given = {each: serializer.from_json_safe(value) for each, value in arguments.items()}
            return serializer.to_json_safe(self._tools[name](**given))

        tool = self._tools[name]
        description = getattr(tool, "description", "") or ""
        return self._session.make_tool(name, description, _properties(tool), call)

    def _keep_output(self, text: str) -> None:
        from smolagents.utils import truncate_content

        self.state["_print_outputs"] = truncate_content(text, self._max_chars)

    def _split(self, outcome: CellOutcome) -> tuple[str, Any]:
        """The output without the value of the last expression, and this value or its text."""
        if outcome.value is None:
            return outcome.text, None
        last = outcome.displays[-1].data if outcome.displays else {}
        plain = str(last.get("text/plain") or "")
        logs = outcome.text.removesuffix(plain)
        value = outcome.value[0]
        return logs, self._read(value[0]) if isinstance(value, list) and value else plain

    def _read(self, value: Any) -> Any:
        try:
            return _serializer().from_json_safe(value)
        except Exception as error:  # the kernel can send anything
            raise self._error(f"a value of the cell cannot be read: {error!r}", error) from error

    def _error(self, text: str, cause: Exception) -> Exception:
        from smolagents.monitoring import AgentLogger, LogLevel
        from smolagents.utils import AgentExecutionError

        # The agent logs the error itself.
        error: Exception = AgentExecutionError(text, AgentLogger(level=LogLevel.OFF))
        error.__cause__ = cause
        return error


def _serializer() -> Any:
    from smolagents.serialization import SafeSerializer

    return SafeSerializer


def _is_plain(tool: Any) -> bool:
    """Whether a tool `final_answer` returns its argument unchanged."""
    from smolagents.default_tools import FinalAnswerTool

    return getattr(type(tool), "forward", None) is FinalAnswerTool.forward


def positional_parameters_of(tool: Any) -> list[str]:
    """The parameters of a tool in their order: the inputs that it declares."""
    inputs = getattr(tool, "inputs", None)
    return list(inputs) if isinstance(inputs, dict) else positional_parameters(tool)


def _properties(tool: Any) -> dict[str, Any]:
    inputs = getattr(tool, "inputs", None)
    if not isinstance(inputs, dict):
        return {name: {} for name in positional_parameters(tool)}
    properties: dict[str, Any] = {}
    for name, given in inputs.items():
        schema: dict[str, Any] = {"description": str(given.get("description", ""))}
        kinds = [given.get("type")] if isinstance(given.get("type"), str) else given.get("type")
        if kinds and not OWN_TYPES & set(kinds):
            schema["type"] = [*kinds, "null"] if given.get("nullable") else kinds
        properties[name] = schema
    return properties
