# SPDX-License-Identifier: Apache-2.0
"""`PythonTool`: what the adapters for frameworks that run commands need for a tool `run_python`.

Cells run in a kernel of their own, in the workspace of the session and with its walls. It starts
with the first cell, and ends with the session. So a cell that kills its kernel ends no command, and
the other way round. The `/tmp` of the kernel is its own, too.

The tools of the framework run in this program. Cells call them as functions, through the tool
channel. There are two ways to decide about a call:

- `run` decides in the middle of the cell, by a callback.
- `step` returns when a call needs a decision. The cell waits, and the framework can ask a person,
  end its run, and call `step` again. The cell never begins twice.
"""

from __future__ import annotations

import asyncio
import inspect
import keyword
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..results import CodeExecutionError
from ..tool_exec.approval.client import ApprovalRequest
from ..tools import DEFAULT_GROUP
from .code_session import Approve, CellOutcome, CodeSession, describe
from .command_session import CommandSession

DEFAULT_TIMEOUT_S = 120.0
# Outcomes that are kept for a call that comes again.
MAX_KEPT = 64

DESCRIPTION = """\
Runs Python code in a stateful IPython session, and returns what it prints and the value of its last
expression. Variables live until the session ends. Files are those of the workspace."""
FUNCTIONS = "The code can call these functions, which are defined already:"


@dataclass
class OfferedTool:
    """A tool of a framework that cells may call as a function.

    Attributes:
        name: Its name, and that of the function.
        description: What it does, for the model.
        properties: The JSON Schemas of its parameters, in the order of the function's.
        call: Is called with the arguments, and returns JSON; see `CodeSession.make_tool`.
        needs_approval: Whether a call needs a decision, or a function of its arguments that returns
            or awaits this.
    """

    name: str
    description: str
    properties: Mapping[str, Any]
    call: Callable[[dict[str, Any]], Any]
    needs_approval: bool | Callable[[dict[str, Any]], bool | Awaitable[bool]] = False


@dataclass
class _Cell:
    """A cell that was begun by `step`. `changed` is set when it has a new request or has ended."""

    code: str
    turn: object
    task: asyncio.Task[CellOutcome] | None = None
    requests: list[ApprovalRequest] = field(default_factory=list)
    decisions: list[asyncio.Future[bool]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


def collect(tools: Iterable[OfferedTool]) -> dict[str, OfferedTool]:
    """The tools by their names.

    Raises:
        ValueError: If a tool cannot be a function, or two have the same name.
    """
    found: dict[str, OfferedTool] = {}
    for tool in tools:
        if not tool.name.isidentifier() or keyword.iskeyword(tool.name):
            raise ValueError(f"the tool {tool.name!r} cannot be a function of Python")
        if tool.name in found:
            raise ValueError(f"there are two tools with the name {tool.name!r}")
        found[tool.name] = tool
    return found


def describe_tool(tools: Mapping[str, OfferedTool]) -> str:
    """What the model reads about the tool that runs Python."""
    lines = [f"- {_signature(tool)}: {_summary(tool)}" for tool in tools.values()]
    return "\n".join([DESCRIPTION, FUNCTIONS, *lines] if lines else [DESCRIPTION])


class PythonTool:
    """Cells and their calls of tools. All methods must be called in one event loop."""

    def __init__(
        self,
        session: CommandSession | Callable[[], Awaitable[CommandSession]],
        tools: Mapping[str, OfferedTool],
        *,
        approve: Approve | None = None,
        timeout: float | None = DEFAULT_TIMEOUT_S,
    ) -> None:
        """
        Args:
            session: Whose workspace and walls the cells have; or a function that awaits it.
            tools: The tools that cells may call, of `collect`.
            approve: Decides about each call, as for `CodeSession`. None: a call that needs an
                approval waits in `step`, and is refused in `run`. Other calls may run.
            timeout: Seconds that a cell may take, without the time that calls wait for decisions.
                None: no limit.
        """
        self._tools = dict(tools)
        self._session = session
        self._approve = approve or self._decide
        self._timeout = timeout
        self._code: CodeSession | None = None
        self._lock = asyncio.Lock()
        self._cells: dict[str, _Cell] = {}
        self._present: _Cell | None = None

    async def run(self, code: str) -> CellOutcome:
        """Runs a cell.

        Raises:
            RuntimeError: If the core is lost, or the session cannot be started.
            Exception: What `approve` has raised.
        """
        async with self._lock:
            return await self._run(code)

    async def step(
        self, key: str, code: str, decisions: Sequence[bool], turn: object
    ) -> ApprovalRequest | CellOutcome:
        """Begins a cell or continues it.

        Args:
            key: Names the cell. A key that has been used continues its cell.
            code: The code.
            decisions: What was decided about the calls of the cell until now, in their order.
            turn: Of the agent. A cell that waits for a decision is cancelled when one of another
                turn begins: no decision will come.

        Returns:
            The call that needs the next decision, or how the cell has ended.

        Raises:
            ValueError: If the cell has begun with other code.
            RuntimeError, Exception: As for `run`.
        """
        cell = self._cells.get(key)
        if cell is None:
            async with self._lock:
                busy = await self._end_abandoned(turn)
                if busy is not None:
                    return busy
                cell = self._begin(key, code, turn)
                await self._wait(cell, 0)
        if cell.code != code:
            raise ValueError("a cell that has begun cannot get other code")
        for future, decision in zip(cell.decisions, decisions, strict=False):
            if not future.done():
                future.set_result(decision)
        await self._wait(cell, len(decisions))
        if len(cell.requests) > len(decisions):
            return cell.requests[len(decisions)]
        assert cell.task is not None
        return await asyncio.shield(cell.task)

    def count_requests(self, key: str) -> int:
        """How many calls of the cell have needed a decision."""
        cell = self._cells.get(key)
        return 0 if cell is None else len(cell.requests)

    # Parts

    async def _run(self, code: str) -> CellOutcome:
        given = self._session
        commands = given if isinstance(given, CommandSession) else await given()
        if self._code is None:
            self._code = commands.make_code_session(approve=self._approve, timeout=self._timeout)
        session = self._code
        await session.start(
            session.make_tool(tool.name, tool.description, tool.properties, tool.call)
            for tool in self._tools.values()
        )
        if self._tools and not session.is_prepared:
            tools = {
                tool.name: (list(tool.properties), tool.description)
                for tool in self._tools.values()
            }
            await session.prepare("", f"_ipybox.define_tools({tools!r})")
        return await session.run(code)

    def _begin(self, key: str, code: str, turn: object) -> _Cell:
        while len(self._cells) >= MAX_KEPT:
            del self._cells[next(iter(self._cells))]
        cell = self._cells[key] = self._present = _Cell(code, turn)
        cell.task = asyncio.create_task(self._run(code))
        cell.task.add_done_callback(lambda task: cell.changed.set())
        return cell

    async def _wait(self, cell: _Cell, n_decisions: int) -> None:
        """Until there is a request without a decision, or the cell has ended."""
        assert cell.task is not None
        while len(cell.requests) <= n_decisions and not cell.task.done():
            cell.changed.clear()
            await cell.changed.wait()

    async def _end_abandoned(self, turn: object) -> CellOutcome | None:
        """Ends the cell that waits for a decision. None: no cell waits any more."""
        cell = self._present
        if cell is None:
            return None
        await self._wait(cell, sum(future.done() for future in cell.decisions))
        assert cell.task is not None
        if cell.task.done():
            return None
        if cell.turn == turn:
            text = "another cell waits for an approval: run this one when that one has ended"
            return CellOutcome("", error=CodeExecutionError(text))
        cell.task.cancel()
        await asyncio.wait([cell.task])
        return None

    async def _decide(self, request: ApprovalRequest) -> bool:
        is_own = request.server_name == DEFAULT_GROUP
        tool = self._tools.get(request.tool_name) if is_own else None
        needs = False if tool is None else tool.needs_approval
        answer = needs(request.tool_args) if callable(needs) else needs
        if not (await answer if inspect.isawaitable(answer) else answer):
            return True
        cell = self._present
        if cell is None or cell.task is None or cell.task.done():
            return False  # in `run`, no one can be asked
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        cell.decisions.append(future)
        cell.requests.append(request)
        cell.changed.set()
        return await future


def summarize(outcome: CellOutcome) -> dict[str, Any]:
    """What a program gets beside the text, as JSON: `error` is the class of what failed, or None;
    `images` are paths."""
    error = None if outcome.error is None else type(outcome.error).__name__
    return {"error": error, "images": [str(path) for path in outcome.images]}


def describe_outcome(outcome: CellOutcome) -> str:
    """The text for the model."""
    if outcome.error is not None:
        text = describe(outcome)
    else:
        text = "\n".join(each for each in (outcome.text.rstrip("\n"), *outcome.notices) if each)
    images = [f"[image: {path}]" for path in outcome.images]
    return "\n".join(each for each in (text, *images) if each) or "(no output)"


def _signature(tool: OfferedTool) -> str:
    return f"{tool.name}({', '.join(tool.properties)})"


def _summary(tool: OfferedTool) -> str:
    return tool.description.strip().partition("\n")[0]
