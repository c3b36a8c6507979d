# SPDX-License-Identifier: Apache-2.0
"""DSPy: a `CodeInterpreter` that runs code in a sandboxed IPython kernel.

    from ipybox.integrations.dspy import IpyboxInterpreter

    dspy.configure(lm=lm, interpreter_factory=IpyboxInterpreter)
    rlm = dspy.RLM("context, query -> answer", tools=[search])
    print(rlm(context=text, query="…").answer)

DSPy makes an interpreter for each call of a module, and shuts it down. To keep variables for
longer, use an interpreter of your own. Tools run in this program. Cells call them through the tool
channel, so `approve` and approval rules decide about each call.
"""

from __future__ import annotations

import inspect
import json
import keyword
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..core import CoreError
from ..results import CodeExecutionError, CodeExecutionTimeout, KernelLostError
from . import background
from .code_session import (
    Approve,
    CellOutcome,
    CodeSession,
    describe,
    positional_parameters,
    says_that_variables_are_lost,
)

if TYPE_CHECKING:
    from typing_extensions import Self

# Characters of the JSON of a call's variables. A cell may have 32 MiB.
MAX_VARIABLES_CHARS = 24 * 1024 * 1024
RESERVED = frozenset(("SUBMIT", "__builtins__"))
SYNTAX_ERRORS = frozenset(("SyntaxError", "IndentationError", "TabError"))

# Is added to kernel_side.py. The value of a cell is passed in a list of one.
SIDE = """
def encode(value):
    if isinstance(value, dict):
        return {str(key): encode(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encode(each) for each in value]
    for method in ("tolist", "isoformat", "model_dump"):  # numpy, datetime, pydantic
        if hasattr(value, method) and not isinstance(value, type):
            return getattr(value, method)()
    return value

def encode_value(value):
    try:
        json.dumps(value, allow_nan=False)
        return [value]
    except (TypeError, ValueError, RecursionError):
        return [repr(value)]

def set_fields(names):
    def SUBMIT(*args, **kwargs):
        __tracebackhide__ = True
        if names is None:
            if len(args) != 1 or kwargs:
                raise TypeError("SUBMIT() needs one value, by position")
            finish({"output": args[0]})
        values = bind("SUBMIT", names, args, kwargs)
        if set(values) != set(names):
            given = ", ".join(values) or "nothing"
            raise TypeError(f"SUBMIT() needs {', '.join(names)}, not {given}")
        finish(values)
    define("SUBMIT", SUBMIT, "Submits the final output, and ends the run.")
"""


class IpyboxInterpreter:
    """Runs the code of `dspy.RLM`, `dspy.Flex` and other modules. One thread at a time may use it.

    Attributes:
        tools: Functions of this program that code may call, by name. DSPy adds its own. Arguments
            and results are JSON. Functions may be replaced at any time, and added until the first
            `execute`.
        output_fields: The fields of `SUBMIT`: `[{"name": …}]`. None: `SUBMIT(value)`.
    """

    execution_instructions = (
        "Code runs in IPython, in a sandbox without network. State, imports and functions persist."
        " The value of a last expression is the result, and then printed text is not shown: print"
        " everything, or nothing but it. Tools and SUBMIT are global functions. Files can be"
        " written to the current directory."
    )

    def __init__(
        self,
        tools: dict[str, Callable[..., Any]] | None = None,
        output_fields: list[dict[str, Any]] | None = None,
        *,
        timeout: float | None = None,
        workspace: str | os.PathLike[str] | None = None,
        sandbox: bool = True,
        approve: Approve | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            tools: Functions that code may call.
            output_fields: The fields of `SUBMIT`.
            timeout: Seconds that a cell may take. Approvals do not count. None: no limit.
            workspace: The directory in which code runs, and the only one that a sandboxed kernel
                may write. None: a temporary directory.
            sandbox: Whether the kernel runs in a sandbox.
            approve: Decides about each ApprovalRequest: returns, or awaits, True or False. It runs
                in a thread of its own. None: calls that no rule denies may run.
            **options: Of `ipybox.CodeExecutor`, such as `limits` or `approval_rules`.

        Raises:
            ImportError: If DSPy is not installed.
            ValueError, TypeError: If an option is wrong.
        """
        import dspy  # noqa: F401

        self.tools = dict(tools or {})
        self.output_fields = output_fields
        self._session = CodeSession(
            approve=approve,
            timeout=timeout,
            workspace=workspace,
            options={"sandbox": sandbox, **options},
        )
        self._lock = threading.Lock()
        self._end_reason: str | None = None
        self._end_cause: Exception | None = None
        self._was_prepared = False
        self._offered: frozenset[str] = frozenset()
        self._fields: object = self  # those that the kernel knows; none yet

    @classmethod
    def factory(cls, **options: Any) -> Callable[[], IpyboxInterpreter]:
        """An `interpreter_factory` that makes interpreters with these options."""

        def make() -> IpyboxInterpreter:
            return cls(**options)

        make.execution_instructions = cls.execution_instructions  # type: ignore[attr-defined]
        return make

    @property
    def workspace(self) -> Path | None:
        """The directory in which code runs. None: the first `execute` makes it."""
        return self._session.workspace

    def start(self) -> None:
        """Checks that the interpreter can be used. Its kernel starts at the first `execute`, which
        takes milliseconds, because the kernel must know the tools, and DSPy adds some after this
        call."""
        self._check_active()

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Runs a cell.

        Args:
            code: Python as IPython accepts it.
            variables: Variables that are set before, as JSON has them.

        Returns:
            FinalOutput if the code called `SUBMIT`; or the value of the last expression, as text if
            JSON does not have it; or what was printed; or None.

        Raises:
            CodeExecutionError: If the code raised an exception, made a call that was not approved,
                or took too long and was interrupted. The session is as it was.
            SyntaxError: If it is not Python.
            CodeInterpreterError: If the kernel has ended, or an argument is wrong. After the end of
                its kernel the interpreter cannot be used any more. `find_error`
                (ipybox.integrations.causes) returns the reason.
        """
        from dspy.primitives.code_interpreter import CodeInterpreterError, FinalOutput

        if not self._lock.acquire(blocking=False):
            raise CodeInterpreterError("the interpreter runs another cell already")
        try:
            self._check_active()
            text = self._check_variables(variables or {})
            try:
                outcome = background.run(self._run(code, text))
            except CoreError as error:
                self._end(str(error), error)
            if outcome.final is not None:
                return FinalOutput(outcome.final[0])
            if outcome.error is not None:
                self._raise(outcome, outcome.error)
            if outcome.value is not None:
                return outcome.value[0][0] if isinstance(outcome.value[0], list) else None
            return outcome.text.rstrip("\n") or None
        finally:
            self._lock.release()

    def shutdown(self) -> None:
        """Ends the kernel, and removes a temporary workspace."""
        self._end_reason = self._end_reason or "it was shut down"
        background.run(self._session.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def __call__(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        return self.execute(code, variables)

    # Parts

    async def _run(self, code: str, variables: str) -> CellOutcome:
        session = self._session
        try:
            if not session.is_started:
                await self._start()
            if not self._was_prepared:
                tools = {
                    name: (positional_parameters(self.tools[name]), self._describe(name))
                    for name in self._offered & self.tools.keys()
                }
                await session.prepare(SIDE, f"_ipybox.define_tools({tools!r})")
                self._was_prepared = True
            await self._define(variables)
        except (CodeExecutionError, CodeExecutionTimeout) as error:
            lost = KernelLostError(f"the kernel has lost its state: {error}")
            lost.__cause__ = error
            return CellOutcome("", error=lost)
        return await session.run(code)

    async def _start(self) -> None:
        from dspy.primitives.code_interpreter import CodeInterpreterError

        self._offered = frozenset(self.tools)
        try:
            await self._session.start([self._make_tool(name) for name in sorted(self._offered)])
        except (OSError, ValueError) as error:  # also a CoreError may be one
            raise CodeInterpreterError(f"the kernel cannot be started: {error}") from error

    async def _define(self, variables: str) -> None:
        code = ""
        if self._fields != self.output_fields:
            names = [each["name"] for each in self.output_fields or []]
            code = f"_ipybox.set_fields({names if self.output_fields else None!r})\n"
        if variables != "{}":
            code += f"globals().update(_ipybox.json.loads({variables!r}))\n"
        if code:
            await self._session.define(code)
            self._fields = [dict(each) for each in self.output_fields or []] or None

    def _make_tool(self, name: str) -> Any:
        def call(arguments: dict[str, Any]) -> Any:
            return self.tools[name](**arguments)

        parameters = positional_parameters(self.tools[name])
        properties: dict[str, Any] = {each: {} for each in parameters}
        return self._session.make_tool(name, self._describe(name), properties, call)

    def _describe(self, name: str) -> str:
        return inspect.getdoc(self.tools[name]) or ""

    def _check_active(self) -> None:
        from dspy.primitives.code_interpreter import CodeInterpreterError

        if self._end_reason is not None:
            raise CodeInterpreterError(
                f"the interpreter cannot be used any more: {self._end_reason}; create a new one"
            ) from self._end_cause

    def _check_variables(self, variables: dict[str, Any]) -> str:
        from dspy.primitives.code_interpreter import CodeInterpreterError

        for name in [*variables, *self.tools]:
            if not _is_name(name):
                raise CodeInterpreterError(f"{name!r} cannot be the name of a variable or a tool")
        both = sorted(variables.keys() & self.tools.keys())
        if both:
            raise CodeInterpreterError(f"variables with the names of tools: {', '.join(both)}")
        new = sorted(self.tools.keys() - self._offered)
        if new and self._session.is_started:
            raise CodeInterpreterError(
                f"{', '.join(new)}: tools that are added after the first cell cannot be offered;"
                " use a new interpreter"
            )
        try:
            text = json.dumps(variables, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise CodeInterpreterError(f"variables must be JSON: {error}") from error
        if len(text) > MAX_VARIABLES_CHARS:
            raise CodeInterpreterError(
                f"the variables have {len(text)} characters as JSON, the limit is"
                f" {MAX_VARIABLES_CHARS}: put large values into files in the workspace"
            )
        return text

    def _raise(
        self, outcome: CellOutcome, error: CodeExecutionError | CodeExecutionTimeout
    ) -> NoReturn:
        from dspy.primitives.code_interpreter import CodeExecutionError as OfCode

        text = describe(outcome)
        is_lost = isinstance(error, KernelLostError) or says_that_variables_are_lost(error)
        if is_lost or not self._session.is_prepared:
            self._end(text, error)
        if isinstance(error, CodeExecutionError) and error.name in SYNTAX_ERRORS:
            raise SyntaxError(error.value) from error
        raise OfCode(text) from error

    def _end(self, text: str, cause: Exception) -> NoReturn:
        from dspy.primitives.code_interpreter import CodeInterpreterError

        if self._end_reason is None:
            self._end_reason, self._end_cause = text.splitlines()[0], cause
        raise CodeInterpreterError(text) from cause


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and name not in RESERVED
    )
