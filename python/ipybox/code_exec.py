# SPDX-License-Identifier: Apache-2.0
"""`CodeExecutor`, the class that most applications use."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import warnings
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime, timezone
from pathlib import Path, PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from .commands import MAX_OUTPUT_BYTES, Command, CommandResult, make_params, read_answer
from .core_session import Session
from .files import MAX_TRANSFER_BYTES, Transfer, download, upload
from .inputs import InputRequest
from .results import (
    Changes,
    CodeExecutionChunk,
    CodeExecutionError,
    CodeExecutionResult,
    LateOutput,
    Variables,
)
from .session_files import MAX_ARCHIVE_BYTES, MAX_READ_BYTES, FileEntry, SessionFiles
from .tool_exec.approval.client import ApprovalRequest
from .tools import Tool, collect_tools
from .utils import arun, check_seconds

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "ApprovalRequest",
    "CodeExecutionChunk",
    "CodeExecutionError",
    "CodeExecutionResult",
    "Checkpoint",
    "CodeExecutor",
]

Tools = Iterable[Tool | Callable[..., Any]]
ToolsOption = Tools | Mapping[str, Tools]
StreamItem = ApprovalRequest | InputRequest | CodeExecutionChunk | CodeExecutionResult

MAX_BRANCHES = 1000
MAX_UNDO = 100
MAX_SEED = 2**32 - 1
LEVELS = {
    "DEBUG": 10,
    "INFO": 20,
    "WARNING": 30,
    "WARN": 30,
    "ERROR": 40,
    "CRITICAL": 50,
    "FATAL": 50,
}


class CodeExecutor:
    """Runs Python in a stateful IPython kernel. The code can call MCP tools through generated APIs.

        async with CodeExecutor() as executor:
            async for item in executor.stream(code):
                match item:
                    case ApprovalRequest():
                        await item.accept()
                    case CodeExecutionResult():
                        print(item.text)

    Cells of one executor run one after the other. Executors are independent of each other and of
    event loops: there may be many, in any number of threads, and several loops may use the same
    one. They share one core process, which ends with this process.

    The parameters of ipybox 0.9 are attributes, too. `start` uses their current values.

    Attributes:
        warnings: Of an executor that `fork` has returned: what its kernel shares with the one that
            was forked, or lacks. Else empty.
    """

    def __init__(
        self,
        tool_server_host: str = "localhost",
        tool_server_port: int | None = None,
        kernel_gateway_host: str = "localhost",
        kernel_gateway_port: int | None = None,
        kernel_env: Mapping[str, str] | None = None,
        working_dir: Path | None = None,
        images_dir: Path | None = None,
        approval_timeout: float | None = None,
        connect_timeout: float = 30,
        kernel_init_timeout: float = 10,
        sandbox: bool = False,
        sandbox_config: Path | None = None,
        log_level: str = "WARNING",
        approve_tool_calls: bool = True,
        approve_shell_cmds: bool = False,
        require_shell_escape: bool = False,
        *,
        python: str | Path | None = None,
        preload: Sequence[str] = (),
        seed: int | None = None,
        limits: Mapping[str, Any] | None = None,
        approval_rules: Path | None = None,
        audit_log: Path | None = None,
        allowed_servers: Mapping[str, Mapping[str, Any]] | None = None,
        stdin: bool = False,
        input_timeout: float = 3600,
        record: Path | None = None,
        workspace: Path | None = None,
        undo: int = 0,
        workspace_mode: Literal["live", "staged"] = "live",
        staging_dir: Path | None = None,
        tools: ToolsOption | None = None,
    ) -> None:
        """
        Args:
            tool_server_host: Address on which the executor's tool server listens, if it has a port.
            tool_server_port: Port of a tool server for clients other than the kernel; 0 for a free
                port. None: there is no tool server. The kernel itself needs none.
            kernel_gateway_host: Address on which the executor's kernel gateway listens, if it has a
                port.
            kernel_gateway_port: Port of a Jupyter kernel gateway; 0 for a free port. None: there is
                no gateway.
            kernel_env: Environment variables of the kernel. It inherits hardly any others.
            working_dir: If given, the kernel returns to this directory after each cell, with a
                notice if the cell had left it.
            images_dir: Directory in which images are saved. None: `images` in the workspace.
            approval_timeout: Seconds after which a request without a decision is refused. None: no
                limit.
            connect_timeout: Seconds that an MCP server may take to start.
            kernel_init_timeout: Seconds from the call of `start` until the kernel is ready.
            sandbox: Whether the kernel runs in a sandbox.
            sandbox_config: A JSON file that says what the sandbox allows. It is an error if it does
                not exist. None: the kernel may write the workspace and has no network.
            log_level: DEBUG, INFO, WARNING, ERROR or CRITICAL: the lowest level of messages that
                the logger `ipybox` receives.
            approve_tool_calls: Whether tool calls need an approval; else they run at once.
            approve_shell_cmds: Whether `!command`, `x = !command` and `%%bash` need an approval.
            require_shell_escape: Whether all other ways to start programs are refused. It needs
                approve_shell_cmds.
            python: The interpreter of kernels, with IPython and pydantic: a path, or a name in
                PATH.
                None: the interpreter of this process.
            preload: Modules that are imported once, before kernels are forked.
            seed: Seed for the generators of random, numpy and torch, 0 to 4,294,967,295. None: a
                random seed.
            limits: Resource limits of a sandboxed kernel, by name; see the how-to of the sandbox.
            approval_rules: A file of rules that decide on tool calls, see ipybox-rules(5).
            audit_log: A file that gets a line of JSON for each decision.
            allowed_servers: `{name: server_params}`: MCP servers that cells may call with exactly
                these parameters and without a registration, as packages made by mcpygen do. Calls
                with other parameters are refused in a sandbox. Without a sandbox they need an
                approval; the request has the `server_params`.
            stdin: Whether `stream` yields an InputRequest for each `input()`, `getpass()` and
                command of a debugger. If not, and in `await execute(…)`, they raise an exception at
                once.
            input_timeout: Seconds after which an input without an answer is refused.
            record: A file to which the executor appends a line of JSON for each event: code,
                output, results, errors, decisions on tool calls; see ipybox-record(5).
            workspace: The directory in which the kernel begins, and whose files its sandbox may
                change. It must exist. None: the current directory at the time of `start`.
            undo: How many of the last cells `undo` can undo, 0 to 100. If it is not 0, a checkpoint
                is made before each cell.
            workspace_mode: `staged`, which needs a sandbox: what the code writes in the workspace
                is kept aside, until `commit` writes it there or `discard` undoes it.
            staging_dir: The directory in which it is kept. None: the state directory of ipybox.
            tools: Functions of this program that the code may call, as `mcptools.app`: plain
                functions, coroutine functions and Tools, or `{name: functions}` for
                `mcptools.NAME`. Their calls need approvals as those of MCP servers do. Coroutine
                functions run in the event loop in which the executor is started, other functions
                in threads.

        Raises:
            ValueError: If an option is wrong, or options contradict each other. `start` checks the
                rest.
            TypeError: If a function of `tools` cannot be described; the text says why.
        """
        _check_input_timeout(input_timeout)
        if require_shell_escape and not approve_shell_cmds:
            raise ValueError("require_shell_escape needs approve_shell_cmds=True")
        if not 0 <= undo <= MAX_UNDO:
            raise ValueError(f"undo must be from 0 to {MAX_UNDO}, not {undo}")
        if undo and record is not None:
            raise ValueError(
                "a session that is recorded cannot be undone: leave out undo or record"
            )
        _read_level(log_level)
        self.tool_server_host = tool_server_host
        self.kernel_gateway_host = kernel_gateway_host
        self.kernel_env = dict(kernel_env or {})
        self.working_dir = working_dir
        self.images_dir = images_dir
        self.approval_timeout = check_seconds(approval_timeout, "approval_timeout")
        self.connect_timeout = check_seconds(connect_timeout, "connect_timeout")
        self.kernel_init_timeout = check_seconds(kernel_init_timeout, "kernel_init_timeout")
        self.sandbox = sandbox
        self.sandbox_config = sandbox_config
        self.log_level = log_level
        self.approve_tool_calls = approve_tool_calls
        self.approve_shell_cmds = approve_shell_cmds
        self.require_shell_escape = require_shell_escape
        self.workspace = Path(os.path.abspath(workspace)) if workspace is not None else None
        self.stdin = stdin
        self.input_timeout = input_timeout
        self._tools = collect_tools(tools)
        self._tool_server_port = tool_server_port
        self._kernel_gateway_port = kernel_gateway_port
        self._session: Session | None = None
        self._is_starting = False
        self._n_stops = 0
        self._workspace: str | None = None
        self.warnings: list[str] = []
        self._more_options: dict[str, Any] = {
            "python": _find_python(python) if python is not None else sys.executable or None,
            "preload": [preload] if isinstance(preload, str) else list(preload),
            "approval_rules": _absolute(approval_rules),
            "audit_log": _absolute(audit_log),
            "record": _absolute(record),
            "workspace_mode": workspace_mode,
            "staging_dir": _absolute(staging_dir),
            "seed": seed,
            "undo": undo or None,
            "limits": dict(limits) if limits else None,
            "allowed_servers": {name: dict(params) for name, params in allowed_servers.items()}
            if allowed_servers
            else None,
        }

    @property
    def tools(self) -> dict[str, list[Tool]]:
        """The functions of this program that the code may call, by the name of their module."""
        return {name: list(group.values()) for name, group in self._tools.items()}

    # Start and stop

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts the kernel. Without the option `workspace`, its workspace is the current directory
        at the time of this call.

        Raises:
            RuntimeError: If the executor is started already, was stopped during this call, or
                cannot be started; the text says why.
            TimeoutError: If the kernel was not ready within kernel_init_timeout.
            FileNotFoundError: If the program ipybox is not installed.
        """
        if self._session is not None or self._is_starting:
            raise RuntimeError("Executor already started")
        self._is_starting = True
        n_stops = self._n_stops
        try:
            session = await Session.open(
                self._make_options(), _read_level(self.log_level), self._tools
            )
        finally:
            self._is_starting = False
        if self._n_stops != n_stops:
            session.close_soon()
            raise RuntimeError("the executor was stopped while it started")
        self._session = session

    async def stop(self) -> None:
        """Ends the kernel, the MCP servers and everything else that was started for them.

        A running cell ends with CodeExecutionError. Does nothing if the executor is not started. If
        the task is cancelled, everything still ends, but this does not wait for it.
        """
        self._n_stops += 1
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def reset(self) -> None:
        """Ends the kernel, with all variables, definitions and imports, and stops the MCP servers.

        The next cell runs in a fresh kernel. Servers start again when one of their tools is called.
        A running cell ends with CodeExecutionError.

        Raises:
            RuntimeError: If the executor is not started.
        """
        await self._started().reset()

    # Branches

    async def fork(
        self, n: int = 1, seed: int | None = None, files: Literal["shared"] = "shared"
    ) -> list[CodeExecutor]:
        """Makes executors whose kernels continue from the state of this one.

            left, right = await executor.fork(2)

        Each kernel is a fork of this executor's kernel, with all variables, modules, definitions,
        the history, the working directory and the state of the random generators. From then on
        they are independent of each other, but they share the files of the workspace. The options
        are those of this executor. A branch has no tool server and no kernel gateway of its own.

        With `workspace_mode="staged"`, all of them work in the same layer: each sees what the
        others write, and any of them may commit or discard it. While they do, files are not
        restored by checkpoints and undo. The layer ends with the last of them.

        Each must be stopped, as this one. This executor continues, and any of them may be stopped
        first.

        Args:
            n: How many branches to make, 1 to 1000.
            seed: Seeds the generators of random, numpy and torch in the first branch, and with the
                numbers after it in the others. None: all continue with the same random numbers.
            files: Only `shared` is possible.

        Returns:
            The executors, which are started. Their `warnings` say what is shared, such as sockets
            and open files.

        Raises:
            ValueError: If an argument is wrong.
            RuntimeError: If the kernel cannot be forked now, for example because a cell or a thread
                runs; the text says why. Then there are no branches. Also if the executor is not
                started, or for other `files`.
        """
        _check_fork(n, seed)
        return await self._fork(self._started(), n, seed, files, None)

    async def _fork(
        self, session: Session, n: int, seed: int | None, files: str, checkpoint: int | None
    ) -> list[CodeExecutor]:
        level = _read_level(self.log_level)
        branches: list[CodeExecutor] = []
        try:
            for i in range(n):
                own_seed = None if seed is None else (seed + i) % (MAX_SEED + 1)
                made, texts = await session.fork(own_seed, files, level, checkpoint)
                branches.append(self._make_branch(made, texts))
        except BaseException:
            for branch in branches:
                branch._close_soon()
            raise
        return branches

    async def checkpoint(self, name: str | None = None) -> Checkpoint:
        """Keeps the state of the kernel, to which it can return at any time.

            before = await executor.checkpoint()
            await executor.execute(code)
            await before.restore()

        A checkpoint is a copy of the kernel's process that waits. It shares its memory with the
        kernel until one of them changes it. It has what `fork` says. With
        `workspace_mode="staged"` it has the files of the workspace, too. Otherwise files are not
        restored.

        Checkpoints end when they are dropped, and when the executor is stopped or reset.

        Args:
            name: A name that no other checkpoint of the executor has. None: one is made up.

        Returns:
            The checkpoint.

        Raises:
            ValueError: If the name is empty, too long or in use.
            RuntimeError: If no checkpoint can be made now, for the reasons of `fork`, or because
                there are too many or they hold too much memory; the text says why. Also if the
                executor is not started.
        """
        session = self._started()
        return Checkpoint(self, session, await session.checkpoint(name))

    async def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints of the executor, the oldest first. Their `private_bytes` are new.

        Raises:
            RuntimeError: If the executor is not started.
        """
        session = self._started()
        answer = await session.checkpoints()
        return [Checkpoint(self, session, each) for each in answer["checkpoints"]]

    async def undo(self, n: int = 1, *, files: bool = True) -> None:
        """Undoes the last cells: the kernel gets the state that it had before them.

        The executor needs the option `undo`. Files are restored with `workspace_mode="staged"`
        only. Processes that the cells have started are killed. A cell before which no checkpoint
        could be made, as its notices say, does not count.

        Args:
            n: How many cells to undo.
            files: With `workspace_mode="staged"`: whether files are restored, too. They cannot be
                while other executors share them, see `fork`.

        Raises:
            ValueError: If there are not so many cells that can be undone.
            RuntimeError: If a cell runs, other executors share the files, or the executor is not
                started.
        """
        if not 1 <= n <= MAX_UNDO:
            raise ValueError(f"n must be from 1 to {MAX_UNDO}, not {n}")
        await self._started().undo(n, files=files)

    def _make_branch(self, session: Session, texts: list[str]) -> Self:
        branch = type(self).__new__(type(self))
        branch.__dict__.update(self.__dict__)
        branch.warnings = texts
        branch._session, branch._is_starting, branch._n_stops = session, False, 0
        branch._tool_server_port = branch._kernel_gateway_port = None
        return branch

    def _close_soon(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close_soon()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and session.core.error is None:
            session.core.run_soon(session.close_soon)
            warnings.warn(f"{self!r} was not stopped", ResourceWarning, source=self, stacklevel=1)

    # Cells

    def execute(
        self, code: str, timeout: float | None = None, *, undo_on_error: bool = False
    ) -> Execution:
        """Runs code as a cell. All tool calls are approved.

            result = await executor.execute("1 + 1")

        If it is iterated over instead of awaited, it is `stream(code, timeout)`, which asks for
        approvals:

            async for item in executor.execute(code): ...

        Args:
            code: Python as IPython accepts it.
            timeout: Seconds after which the cell is interrupted. Time in which it waits for
                approvals does not count. None: no limit.
            undo_on_error: Whether a cell that fails leaves the kernel's state as it was before the
                cell. A cell fails if it raises an exception, takes too long, is cancelled, or kills
                its kernel. The exception says `is_undone`, and if not, its notices say why.

        Returns:
            When awaited: the result. If the cell was cancelled, it has `is_cancelled` set, no text
            and no images.

        Raises:
            CodeExecutionError: When awaited: the code raised an exception, or the kernel has ended.
            CodeExecutionTimeout: When awaited: the cell took longer than `timeout`. This is a
                TimeoutError, whose text says whether the variables are kept.
            RuntimeError: When awaited: the executor is not started, or the core has ended.
        """
        return Execution(
            lambda: self._execute(code, timeout, undo_on_error),
            lambda: self.stream(code, timeout, undo_on_error=undo_on_error),
        )

    async def stream(
        self,
        code: str,
        timeout: float | None = None,
        chunks: bool = False,
        *,
        undo_on_error: bool = False,
    ) -> AsyncGenerator[StreamItem, None]:
        """Runs code as a cell, and yields events as they happen.

        If the stream is closed before its end, the cell is interrupted. While a stream of chunks is
        not read, a kernel that prints waits.

        Args:
            code: Python as IPython accepts it.
            timeout: Seconds after which the cell is interrupted. Time in which it waits for
                approvals or input does not count. None: no limit.
            chunks: Whether to yield pieces of output.
            undo_on_error: As for `execute`.

        Yields:
            An ApprovalRequest for each tool call; the call waits until it is accepted or rejected.
            With the executor's option `stdin`, an InputRequest for each input; the code waits until
            it is answered or refused.
            With `chunks`, a CodeExecutionChunk for each piece of output. At the end a
            CodeExecutionResult, unless the cell was cancelled.

        Raises:
            CodeExecutionError: If the code raised an exception, for example because a tool call
                failed or was not approved; or if the kernel has ended.
            CodeExecutionTimeout: If the cell took longer than `timeout`. This is a TimeoutError,
                whose text says whether the variables are kept.
            RuntimeError: If the executor is not started, or the core has ended.
        """
        cell = self._started().execute(
            code,
            check_seconds(timeout, "timeout"),
            asks=True,
            wants_chunks=chunks,
            input_timeout=_check_input_timeout(self.input_timeout) if self.stdin else None,
            undo_on_error=undo_on_error,
        )
        try:
            while (item := await cell.next()) is not None:
                yield item
            result = cell.finish(reports_cancellation=False)
            if result is not None:
                yield result
        finally:
            cell.abandon()

    async def _execute(
        self, code: str, timeout: float | None, undo_on_error: bool
    ) -> CodeExecutionResult:
        cell = self._started().execute(
            code,
            check_seconds(timeout, "timeout"),
            asks=False,
            wants_chunks=False,
            undo_on_error=undo_on_error,
        )
        try:
            await cell.next()
            result = cell.finish(reports_cancellation=True)
            assert result is not None
            return result
        finally:
            cell.abandon()

    def late_output(self) -> AsyncIterator[LateOutput]:
        """Iterates over what code writes and shows after the end of its cell, as it comes.

            async for piece in executor.late_output():
                print(f"[{piece.execution_count}] {piece.text}")

        It begins with this call, and ends when the executor is stopped. Each call returns an
        iterator of its own, and each of them gets everything. If more than 1024 pieces or
        16,777,216 characters wait for a reader, further ones are left out, and a piece with the
        stream `dropped` reports how many: cells never wait for this reader.

        The text is also in the result of the cell that runs then, or of the next one, as in ipybox
        0.9.

        Returns:
            An asynchronous iterator. One task at a time may wait for its next piece. It raises a
            RuntimeError if the core has ended.

        Raises:
            RuntimeError: If the executor is not started, or the core has ended.
        """
        return self._started().watch_late_output()

    def cancel(self) -> None:
        """Interrupts the running cell: its stream ends without a result, or its `execute` returns
        one without text.

        The kernel and its state are kept. Does nothing if no cell runs. May be called from any
        thread.
        """
        if self._session is not None:
            self._session.cancel()

    # Commands

    async def run_command(
        self,
        command: str | Sequence[str | bytes | PurePath],
        *,
        input: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | PurePath | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT_BYTES,
    ) -> CommandResult:
        """Runs a command beside the kernel, also while a cell runs.

            result = await executor.run_command(["ls", "-l"], timeout=10)

        It is as if the kernel had started it: it runs in the same sandbox, with the environment of
        the kernel, and ends with the kernel. But the kernel takes no part in it, so a cell that
        hangs does not matter. It needs no approval, because the host program asks for it. The rules
        for shell commands are for cells. 64 commands of an executor may run at a time.

        What the command starts in the background continues after its end, until the kernel ends,
        but what it prints then is lost: redirect its output. If the task is cancelled, the command
        is killed with everything that it has started.

        Args:
            command: The program and its arguments. A string is a command line for /bin/sh.
            input: What it reads from standard input, at most 32 MiB. None: nothing.
            env: Variables beyond those of the kernel.
            cwd: Its working directory, relative to the directory in which the kernel starts. None:
                that directory.
            timeout: Seconds after which it is killed, with everything that it has started. None: no
                limit.
            max_output: How many bytes of standard output, and of standard error, are kept, at most
                32 MiB. The command continues when there is more.

        Returns:
            How it ended, and what it wrote. An exit status other than 0 is no error.

        Raises:
            CommandTimeout: If it ran longer than `timeout`; it has what was written until then.
            FileNotFoundError: If there is no such program or directory.
            ValueError: If an argument is wrong.
            CoreError: If it cannot be run, or ended with the kernel; see its `kind`: `refused` (it
                may not be executed), `limit`, `kernel_died`, `cancelled` (the executor was stopped
                or reset).
            RuntimeError: If the executor is not started.
        """
        seconds = check_seconds(timeout, "timeout")
        params = make_params(command, input, env, cwd, seconds) | {"max_output": max_output}
        return read_answer(await self._started().run_command(params), seconds)

    def start_command(
        self,
        command: str | Sequence[str | bytes | PurePath],
        *,
        input: bytes | str | None = None,
        stdin: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | PurePath | None = None,
        timeout: float | None = None,
    ) -> Command:
        """Runs a command beside the kernel, and passes its output on as it is printed.

            async with executor.start_command(["make", "test"], timeout=600) as command:
                async for piece in command:
                    print(piece.text, end="")
            print(command.returncode)

        Where it runs, and what ends it, is as for `run_command`. If more than 1 MiB or 1024 pieces
        of output wait for the reader, the command waits when it prints more, so nothing is lost. At
        the end of the `async with` block, a command that still runs is killed with everything that
        it has started; so it is if the task is cancelled while it waits for the next piece.

        Args:
            command: As for `run_command`.
            input: What it reads from standard input, at most 32 MiB. None: nothing.
            stdin: Whether `Command.write_stdin` gives it more input. False: its standard input ends
                after `input`.
            env: As for `run_command`.
            cwd: As for `run_command`.
            timeout: Seconds after which it is killed, with everything that it has started. Time in
                which it waits for its reader counts. None: no limit.

        Returns:
            The command. It is being started: its iteration, and `Command.wait`, raise the error if
            that fails.

        Raises:
            ValueError: If an argument is wrong.
            RuntimeError: If the executor is not started.
        """
        seconds = check_seconds(timeout, "timeout")
        params = make_params(command, input, env, cwd, seconds) | {"open_stdin": stdin}
        return self._started().start_command(params, seconds)

    # Variables

    async def save(
        self,
        path: str | PurePath,
        names: Iterable[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Variables:
        """Saves variables of the kernel to a file, after the cells that wait already.

        The kernel writes the file with pickle, within its sandbox, and in one step: it is complete,
        or it is not there. Functions and classes that are defined in cells, and values that need
        them, are not saved. Tool calls that no rule allows are refused while it runs.

        Args:
            path: The file, relative to the workspace. An existing file is replaced only if it has
                saved variables in it.
            names: Of the variables. None: all that cells have defined.
            timeout: Seconds after which it is interrupted. None: no limit.

        Returns:
            Which variables were saved, and why others were not.

        Raises:
            CodeExecutionError: If the file cannot be written, or the kernel died.
            CodeExecutionTimeout: If it took longer than `timeout`.
            RuntimeError: If the executor is not started.
        """
        given = None if names is None else list(names)
        seconds = check_seconds(timeout, "timeout")
        return await self._started().save(str(path), given, seconds)

    # A staged workspace

    async def changes(self, *, diffs: bool = False) -> Changes:
        """What the code has changed in a staged workspace, compared with the workspace itself.

        Args:
            diffs: Whether to include unified diffs of texts.

        Raises:
            CoreError: If the workspace is not staged.
            RuntimeError: If the executor is not started.
        """
        return await self._started().work_on_changes("session.changes", diffs=diffs)

    async def commit(self, paths: Iterable[str | PurePath] | None = None) -> Changes:
        """Writes what the code has changed to the workspace, between cells.

        Protected names are not written, and files that were changed outside of the session, too,
        stay as they are on both sides: see `problem` and `conflict` of the changes. If the program
        is killed before the end, `ipybox changes commit` finishes the commit.

        Args:
            paths: Files and directories below the workspace. None: everything.

        Returns:
            What was to be committed, with `done`.

        Raises:
            CoreError: If the workspace is not staged, a cell runs, or nothing has changed at a
                path.
            RuntimeError: If the executor is not started.
        """
        return await self._started().work_on_changes("session.commit", paths=_texts(paths))

    async def discard(self, paths: Iterable[str | PurePath] | None = None) -> Changes:
        """Undoes what the code has changed in a staged workspace, between cells.

        Args:
            paths: Files and directories below the workspace. None: everything.

        Returns:
            What was to be undone, with `done`.

        Raises:
            CoreError: As for `commit`.
            RuntimeError: If the executor is not started.
        """
        return await self._started().work_on_changes("session.discard", paths=_texts(paths))

    async def load(self, path: str | PurePath, *, timeout: float | None = None) -> Variables:
        """Loads variables that `save` has saved, after the cells that wait already.

        Loading runs code that the file names, as every pickle does: in the kernel, with what its
        sandbox allows, never in this process. Tool calls that no rule allows are refused while it
        runs. If it is interrupted or fails, no variable is set.

        Args:
            path: The file, relative to the workspace.
            timeout: Seconds after which it is interrupted. None: no limit.

        Returns:
            Which variables were loaded, and why others were not.

        Raises:
            CodeExecutionError: If the file cannot be read, is incomplete, or has something else in
                it, or if the kernel died.
            CodeExecutionTimeout: If it took longer than `timeout`.
            RuntimeError: If the executor is not started.
        """
        return await self._started().load(str(path), check_seconds(timeout, "timeout"))

    # Files

    async def upload(
        self,
        source: str | Path,
        target: str | PurePath | None = None,
        *,
        max_bytes: int = MAX_TRANSFER_BYTES,
    ) -> Transfer:
        """Copies a file or a directory into the kernel's workspace. The executor need not be
        started.

        Symbolic links in the workspace are not followed, because the kernel may have created them.

        Args:
            source: The file or directory. Links are followed.
            target: Its new path, relative to the workspace; missing directories are created. None:
                the name of `source`.
            max_bytes: The most bytes that are copied.

        Returns:
            What was copied.

        Raises:
            ValueError: If `target` is not in the workspace, or there are more than `max_bytes`.
            OSError: If a file cannot be read or written.
        """
        source = Path(source)
        return await arun(
            upload, source, self._place(), PurePath(target or source.resolve().name), max_bytes
        )

    async def download(
        self,
        source: str | PurePath,
        target: str | Path | None = None,
        *,
        max_bytes: int = MAX_TRANSFER_BYTES,
    ) -> Transfer:
        """Copies a file or a directory out of the kernel's workspace. The executor need not be
        started.

        Symbolic links in the workspace are not followed, because the kernel may have created them.
        In a directory, links and everything else that is neither file nor directory are skipped.

        Args:
            source: The file or directory, relative to the workspace.
            target: Its new path. None: the name of `source`, in the current directory.
            max_bytes: The most bytes that are copied.

        Returns:
            What was copied, and what was skipped.

        Raises:
            ValueError: If `source` is not in the workspace, is a link, or has more than
                `max_bytes`.
            OSError: If a file cannot be read or written.
        """
        source = PurePath(source)
        return await arun(download, self._place(), source, Path(target or source.name), max_bytes)

    async def read_file(self, path: str | PurePath, *, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """Reads a file as a cell would read it: in the workspace, in the sandbox's /tmp, anywhere.

        It is read within the sandbox, so what the sandbox hides is not read. In a staged workspace
        it is what cells have written.

        Args:
            path: The file. A relative path starts in the workspace.
            max_bytes: The most bytes that it may have.

        Returns:
            Its content.

        Raises:
            TransferLimitError: If it has more than `max_bytes`.
            OSError: As `open` raises it in a cell: FileNotFoundError, IsADirectoryError,
                PermissionError.
            RuntimeError: If the executor is not started, or the kernel has ended.
        """
        return await self._files().read(path, max_bytes)

    async def write_file(self, path: str | PurePath, data: bytes | str) -> None:
        """Writes a file as a cell would write it. Missing directories are created.

        Args:
            path: The file. A relative path starts in the workspace. An existing file keeps its
                permissions.
            data: Its content; a text is encoded in UTF-8.

        Raises:
            OSError: As `open` raises it in a cell. A protected name is a PermissionError.
            RuntimeError: If the executor is not started, or the kernel has ended.
        """
        await self._files().write(path, data.encode() if isinstance(data, str) else data)

    async def list_files(self, path: str | PurePath = ".") -> list[FileEntry]:
        """Lists a directory as a cell would list it.

        Args:
            path: The directory. A relative path starts in the workspace.

        Returns:
            Its entries, sorted by name, at most 100,000.

        Raises:
            TransferLimitError: If there are more.
            OSError: As `os.scandir` raises it in a cell.
            RuntimeError: If the executor is not started, or the kernel has ended.
        """
        return await self._files().list(path)

    async def upload_tar(
        self,
        data: bytes,
        target: str | PurePath = ".",
        *,
        max_bytes: int = MAX_ARCHIVE_BYTES,
    ) -> int:
        """Unpacks an archive in the session, as a cell would do it.

        Files, directories and links are made below `target`. An archive with anything else, or
        that leads out of it, is refused. All files belong to the user of the session.

        Args:
            data: A tar archive, which may be compressed.
            target: The directory. A relative path starts in the workspace.
            max_bytes: The most bytes that the archive and its files may have.

        Returns:
            How many members it has.

        Raises:
            TransferLimitError: If it has more than `max_bytes`, or 100,000 members.
            OSError: If it is damaged or refused, or a file cannot be written. What was unpacked
                before stays.
            RuntimeError: If the executor is not started, or the kernel has ended.
        """
        return await self._files().unpack(data, target, max_bytes)

    async def download_tar(
        self,
        paths: Iterable[str | PurePath] = (".",),
        *,
        max_bytes: int = MAX_ARCHIVE_BYTES,
    ) -> bytes:
        """Packs files and directories of the session into an archive, as a cell would do it.

        Links are packed as links, and not followed. What is neither file, directory nor link is
        left out.

        Args:
            paths: The files and directories. Relative paths start in the workspace.
            max_bytes: The most bytes that the archive may have.

        Returns:
            A tar archive, which is not compressed. It comes from the sandbox, so unpack it as
            something hostile: with `tarfile`, pass `filter="data"`.

        Raises:
            TransferLimitError: If it has more than `max_bytes`, or 100,000 members.
            OSError: If a file cannot be read.
            RuntimeError: If the executor is not started, or the kernel has ended.
        """
        return await self._files().pack(paths, max_bytes)

    # Ports for other clients

    @property
    def tool_server_port(self) -> int | None:
        """Port of the executor's tool server; None if it has none."""
        server = self._session.tool_server if self._session is not None else None
        return server["port"] if server else self._tool_server_port

    @property
    def tool_server_token(self) -> str | None:
        """The token that applications need for the executor's tool server; None if it has none."""
        server = self._session.tool_server if self._session is not None else None
        return server["token"] if server else None

    @property
    def kernel_gateway_port(self) -> int | None:
        """Port of the executor's kernel gateway; None if it has none."""
        gateway = self._session.gateway if self._session is not None else None
        return gateway["port"] if gateway else self._kernel_gateway_port

    @property
    def kernel_gateway_token(self) -> str | None:
        """The token that clients need for the executor's kernel gateway; None if it has none."""
        gateway = self._session.gateway if self._session is not None else None
        return gateway["token"] if gateway else None

    # Parts

    def _started(self) -> Session:
        if self._session is None:
            raise RuntimeError(
                "Not connected to kernel: start the executor, or use it in 'async with'"
            )
        return self._session

    def _make_options(self) -> dict[str, Any]:
        self._workspace = os.fspath(self.workspace or os.getcwd())
        options = {
            "workspace": self._workspace,
            "env": dict(os.environ),
            "kernel_env": dict(self.kernel_env),
            "working_dir": _absolute(self.working_dir),
            "images_dir": _absolute(self.images_dir),
            "approval": "ask" if self.approve_tool_calls else "allow",
            "approval_timeout": check_seconds(self.approval_timeout, "approval_timeout"),
            "connect_timeout": check_seconds(self.connect_timeout, "connect_timeout"),
            "kernel_init_timeout": check_seconds(self.kernel_init_timeout, "kernel_init_timeout"),
            "sandbox": self.sandbox,
            "sandbox_config": _absolute(self.sandbox_config) if self.sandbox else None,
            "approve_shell_cmds": self.approve_shell_cmds,
            "require_shell_escape": self.require_shell_escape,
            **self._more_options,
        }
        if self._tool_server_port is not None:
            options["tool_server"] = {"host": self.tool_server_host, "port": self._tool_server_port}
        if self._kernel_gateway_port is not None:
            options["gateway"] = {
                "host": self.kernel_gateway_host,
                "port": self._kernel_gateway_port,
            }
        return {name: value for name, value in options.items() if value is not None}

    def _files(self) -> SessionFiles:
        async def run(argv: Sequence[str], data: bytes | None, max_output: int) -> CommandResult:
            return await self.run_command(
                argv, input=data, cwd=self._place(), max_output=max_output
            )

        return SessionFiles(run, self._more_options["python"] or "python3")

    def _place(self) -> Path:
        return Path(self._workspace or self.workspace or os.getcwd())


def _check_fork(n: int, seed: int | None) -> None:
    if not 1 <= n <= MAX_BRANCHES:
        raise ValueError(f"n must be from 1 to {MAX_BRANCHES}, not {n}")
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed must be from 0 to {MAX_SEED}, not {seed}")


class Checkpoint:
    """The state of a kernel at some time: a copy of its process, which waits.

    Attributes:
        name: Its name.
        created: When it was made.
        private_bytes: The memory that it shared with no other process, when it was made or listed.
        warnings: What a kernel with its state shares with the present one, or lacks, as for `fork`.
        is_lost: Whether it cannot be restored any more, because its process was killed.
    """

    def __init__(self, executor: CodeExecutor, session: Session, members: dict[str, Any]) -> None:
        self.name: str = members["name"]
        self.created = datetime.fromtimestamp(members["created_ms"] / 1000, timezone.utc)
        self.private_bytes: int = members["private_bytes"]
        self.warnings: list[str] = list(members["warnings"])
        self.is_lost = members.get("lost") is not None
        self._executor, self._session = executor, session
        self._number: int = members["checkpoint"]

    def __repr__(self) -> str:
        return f"Checkpoint({self.name!r})"

    async def restore(self, *, files: bool = True) -> None:
        """Gives the executor's kernel the state of this checkpoint, as often as you like.

        The executor keeps its registrations and approvals. Its kernel process is killed, with the
        processes that cells have started, and replaced. Cells that came before cannot be undone any
        more. Cells that are given until then wait.

        Args:
            files: With `workspace_mode="staged"`: whether files are restored, too. They cannot be
                while other executors share them, see `CodeExecutor.fork`.

        Raises:
            RuntimeError: If a cell runs, other executors share the files, the checkpoint was
                dropped, or its executor was stopped or reset; the text says what. Then the kernel
                is as it was.
        """
        await self._session.restore(self._number, files=files)

    async def branch(
        self, n: int = 1, seed: int | None = None, files: Literal["shared"] = "shared"
    ) -> list[CodeExecutor]:
        """Makes executors that continue from this checkpoint, as `CodeExecutor.fork` does.

        A cell of the executor may run at the same time. Files are those of now, which are shared,
        also with `workspace_mode="staged"`.

        Args:
            n: How many branches to make, 1 to 1000.
            seed: As for `fork`.
            files: As for `fork`.

        Returns:
            The executors, which are started.

        Raises:
            ValueError: If an argument is wrong.
            RuntimeError: If no branch can be made; the text says why.
        """
        _check_fork(n, seed)
        return await self._executor._fork(self._session, n, seed, files, self._number)

    async def drop(self) -> None:
        """Ends the checkpoint.

        Raises:
            RuntimeError: If it was dropped already, or is being restored.
        """
        await self._session.drop_checkpoint(self._number)


def _texts(paths: Iterable[str | PurePath] | None) -> list[str] | None:
    return None if paths is None else [str(path) for path in paths]


# Marks `execute` as a coroutine function for mocks, and for frameworks that take functions as
# tools.
if sys.version_info >= (3, 12):
    inspect.markcoroutinefunction(CodeExecutor.execute)
else:
    _mark = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    CodeExecutor.execute._is_coroutine = _mark  # type: ignore[attr-defined]


class Execution(Coroutine[Any, Any, CodeExecutionResult]):
    """What `CodeExecutor.execute` returns: a coroutine that can also be iterated over."""

    def __init__(
        self,
        make: Callable[[], Coroutine[Any, Any, CodeExecutionResult]],
        stream: Callable[[], AsyncIterator[StreamItem]],
    ) -> None:
        self._make = make
        self._stream = stream
        self._made: Coroutine[Any, Any, CodeExecutionResult] | None = None
        self._is_used = False
        # The name in asyncio's warnings about tasks.
        self.__name__, self.__qualname__ = "execute", "CodeExecutor.execute"

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        self._is_used = True
        return self._stream()

    def __await__(self) -> Generator[Any, Any, CodeExecutionResult]:
        return self._coroutine().__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine().send(value)

    def throw(self, *args: Any) -> Any:
        return self._coroutine().throw(*args)

    def close(self) -> None:
        self._coroutine().close()

    def __del__(self) -> None:
        if not self._is_used:
            warnings.warn(
                "coroutine 'CodeExecutor.execute' was never awaited",
                RuntimeWarning,
                source=self,
                stacklevel=2,
            )

    def _coroutine(self) -> Coroutine[Any, Any, CodeExecutionResult]:
        self._is_used = True
        if self._made is None:
            self._made = self._make()
        return self._made


def _check_input_timeout(value: float) -> float:
    seconds = check_seconds(value, "input_timeout")
    if seconds is None:
        raise ValueError("input_timeout must be a number of seconds: no cell waits for ever")
    return seconds


def _read_level(log_level: str) -> int:
    if str(log_level).upper() not in LEVELS:
        raise ValueError(
            f"log_level is one of DEBUG, INFO, WARNING, ERROR, CRITICAL, not {log_level!r}"
        )
    return LEVELS[log_level.upper()]


def _find_python(python: str | Path) -> str:
    """The core looks up a name in PATH; a path is relative to the directory of this process."""
    text = os.fspath(python)
    return os.path.abspath(text) if os.sep in text else text


def _absolute(path: str | Path | None) -> str | None:
    return os.path.abspath(path) if path is not None else None
