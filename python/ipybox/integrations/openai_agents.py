# SPDX-License-Identifier: Apache-2.0
"""ipybox as a sandbox of the OpenAI Agents SDK (`agents`).

    client = IpyboxSandboxClient()
    async with await client.create() as session:
        sandbox = SandboxRunConfig(session=session)
        await Runner.run(agent, "...", run_config=RunConfig(sandbox=sandbox))

Commands, files and archives work in a sandbox of this machine. The files of a session live until
`client.delete(session)`, its processes until `shutdown`, over any number of runs. A run that gets
`client=` instead of `session=` makes a session of its own, and the SDK deletes it after the run.
When the program ends, everything ends. Only what a snapshot of the SDK has saved is left.

The capability `Python(functions=[…])` is a tool with which the agent runs Python. The code can call
other tools of yours, and a callback decides about these calls.

`client.resume(state)` continues a session of this client with its files. In another program, or
after `delete`, it makes a new one, which gets the files of the snapshot.

How failures are reported:

- a command that fails, is missing (127), may not be executed (126) or exceeds a limit of the
  sandbox: its exit code, and a limit is named in stderr;
- a command that takes too long: `ExecTimeoutError`, whose `context` has the output until then;
- a file: `WorkspaceReadNotFoundError`, `WorkspaceArchiveReadError`, `WorkspaceArchiveWriteError`;
- a kernel or a core that was lost: `ExecTransportError`; `find_error` finds the `CoreError`.

Commands run as one user, so sessions with users or groups are refused.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import posixpath
import tarfile
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

try:
    from agents import FunctionTool, RunContextWrapper, Tool, function_tool
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing}: install the OpenAI Agents SDK to use this module (pip install openai-agents)",
        name=missing.name,
    ) from missing
from agents.sandbox.capabilities import Capability
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.materialization import MaterializationResult
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.dependencies import Dependencies
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.pty_types import (
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    resolve_pty_write_yield_time_ms,
    truncate_text_by_tokens,
)
from agents.sandbox.session.runtime_helpers import (
    RESOLVE_WORKSPACE_PATH_HELPER,
    RuntimeHelperScript,
)
from agents.sandbox.session.sandbox_client import BaseSandboxClient
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, User
from agents.sandbox.util.tar_utils import (
    UnsafeTarMemberError,
    should_skip_tar_member,
    validate_tarfile,
)
from agents.tool_context import ToolContext
from pydantic import Field
from pydantic_core import to_jsonable_python

from ..commands import MAX_OUTPUT_BYTES, SHELL, CommandTimeout
from ..core import CoreError
from ..files import TransferLimitError
from ..session_files import MAX_ARCHIVE_BYTES
from ..utils import arun
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
from .terminals import Terminal

DEFAULT_ROOT = Manifest.model_fields["root"].default
NOT_FOUND = 127
NOT_EXECUTABLE = 126
# The SDK counts time in milliseconds, from 0.
MIN_TIMEOUT_S = 0.001
# Half of the commands that a session may run at a time.
MAX_TERMINALS = 32
PROBE_TIMEOUT_S = 10.0
# How long a call waits for output, as the SDK's tools do.
DEFAULT_YIELD_S = 10.0
DEFAULT_WRITE_YIELD_S = 0.25
# Creates a file that does not exist: with noclobber, the shell opens it with O_EXCL.
CREATE = 'set -C; [ -e "$1" ] || [ -L "$1" ] && exit 17; cat >"$1"'
EXISTS = 17


class IpyboxSandboxSessionState(SandboxSessionState):
    """What another session needs to continue one.

    Attributes:
        workspace_root_owned: Whether the workspace is a directory that ipybox has made.
    """

    type: Literal["ipybox"] = "ipybox"
    workspace_root_owned: bool = False


class IpyboxSandboxSession(BaseSandboxSession):
    """A session of an `IpyboxSandboxClient`."""

    state: IpyboxSandboxSessionState

    def __init__(self, state: IpyboxSandboxSessionState, commands: CommandSession) -> None:
        self.state = state
        self._commands = commands
        self._terminals: dict[int, Terminal] = {}

    # Life

    async def _ensure_backend_started(self) -> None:
        try:
            await self._commands.start()
        except (OSError, RuntimeError) as error:
            root = Path(self.state.manifest.root)
            raise WorkspaceStartError(path=root, message=str(error), cause=error) from error

    async def _after_start_failed(self) -> None:
        await self._commands.stop()

    async def _shutdown_backend(self) -> None:
        await self._commands.stop()

    async def running(self) -> bool:
        if not self._commands.is_started:
            return False
        try:
            return (await self._commands.run(["true"], timeout=PROBE_TIMEOUT_S)).ok
        except (OSError, RuntimeError):
            return False

    async def _apply_manifest(
        self, *, only_ephemeral: bool = False, provision_accounts: bool = True
    ) -> MaterializationResult:
        await self.provision_manifest_accounts()
        return await super()._apply_manifest(
            only_ephemeral=only_ephemeral, provision_accounts=False
        )

    async def provision_manifest_accounts(self) -> None:
        _check_manifest(self.state.manifest)

    # Commands

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        _check_user(user)
        # A login shell would replace PATH.
        prefix = [SHELL, "-c"] if shell is True else shell
        made: list[str] = super()._prepare_exec_command(*command, shell=prefix, user=None)
        return made

    async def _exec_internal(
        self, *command: str | Path, timeout: float | None = None
    ) -> ExecResult:
        return await self._run(command, timeout=timeout)

    async def _run(
        self,
        command: Sequence[str | Path],
        *,
        timeout: float | None = None,
        input: bytes | None = None,
    ) -> ExecResult:
        argv = [str(part) for part in command]
        env = await self.state.manifest.environment.resolve()
        seconds = None if timeout is None else max(timeout, MIN_TIMEOUT_S)
        try:
            result = await self._commands.run(argv, input=input, env=env, timeout=seconds)
        except CommandTimeout as error:
            output = {"stdout": decode(error.result.stdout), "stderr": decode(error.result.stderr)}
            raise ExecTimeoutError(
                command=argv, timeout_s=timeout, context=output, cause=error
            ) from error
        except FileNotFoundError as error:
            return _failed(NOT_FOUND, error)
        except CoreError as error:
            if error.kind in ("refused", "limit"):
                return _failed(NOT_EXECUTABLE, error)
            raise ExecTransportError(command=argv, message=str(error), cause=error) from error
        except RuntimeError as error:  # it is not started
            raise ExecTransportError(command=argv, message=str(error), cause=error) from error
        notes = describe_limit(result)
        if result.stdout_cut or result.stderr_cut:
            notes += f"[ipybox] the output has more than {MAX_OUTPUT_BYTES} bytes, and was cut\n"
        return ExecResult(
            stdout=result.stdout, stderr=result.stderr + notes.encode(), exit_code=exit_code(result)
        )

    # Terminals: commands that continue between two calls of the model

    def supports_pty(self) -> bool:
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        argv = self._prepare_exec_command(*command, shell=shell, user=user)
        env = await self.state.manifest.environment.resolve()
        await self._make_room()
        try:
            terminal = await Terminal.start(self._commands, argv, env=env, is_interactive=tty)
        except RuntimeError as error:
            raise ExecTransportError(command=argv, message=str(error), cause=error) from error
        number = allocate_pty_process_id(set(self._terminals))
        self._terminals[number] = terminal
        seconds = DEFAULT_YIELD_S if yield_time_s is None else yield_time_s
        return await self._update(
            number, clamp_pty_yield_time_ms(int(seconds * 1000)), max_output_tokens
        )

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        terminal = self._resolve_pty_session_entry(
            pty_processes=self._terminals, session_id=session_id
        )
        if chars and not terminal.is_interactive:
            raise RuntimeError("stdin is not available for this process")
        if chars:
            await terminal.type(chars.encode())
        seconds = DEFAULT_WRITE_YIELD_S if yield_time_s is None else yield_time_s
        wait_ms = resolve_pty_write_yield_time_ms(
            yield_time_ms=int(seconds * 1000), input_empty=not chars
        )
        # The last one that was used is the last one in the dictionary.
        self._terminals[session_id] = self._terminals.pop(session_id)
        return await self._update(session_id, wait_ms, max_output_tokens)

    async def _update(self, number: int, wait_ms: int, max_tokens: int | None) -> PtyExecUpdate:
        """Waits for the end of a command, and reads what it has written."""
        terminal = self._terminals[number]
        await asyncio.wait([terminal.ended], timeout=wait_ms / 1000)
        try:
            output = await terminal.read()
            result = await terminal.ended if terminal.ended.done() else None
            if result is not None:
                output += await terminal.read() + describe_limit(result).encode()
        except RuntimeError as error:
            del self._terminals[number]
            raise ExecTransportError(command=(), message=str(error), cause=error) from error
        text, n_tokens = truncate_text_by_tokens(decode(output), max_tokens)
        if result is not None:
            del self._terminals[number]
            await terminal.close()
        return PtyExecUpdate(
            process_id=None if result is not None else number,
            output=text.encode(),
            exit_code=None if result is None else exit_code(result),
            original_token_count=n_tokens,
        )

    async def _make_room(self) -> None:
        while len(self._terminals) >= MAX_TERMINALS:
            oldest = next(iter(self._terminals))
            await self._terminals.pop(oldest).close()

    async def pty_terminate_all(self) -> None:
        while self._terminals:
            await self._terminals.popitem()[1].close()

    # Files

    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        # Links are followed in the sandbox, by the SDK's script. The walls of the sandbox hold
        # whatever code in the sandbox changes afterwards.
        place: Path = await self._validate_remote_path_access(path, for_write=for_write)
        return place

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        _check_user(user)
        place = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self._commands.executor.read_file(place))
        except FileNotFoundError as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except (OSError, TransferLimitError, RuntimeError) as error:
            raise _read_error(path, error) from error

    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        place = await self._validate_path_access(path)
        try:
            return await self._commands.executor.read_file(place, max_bytes=max_bytes)
        except TransferLimitError:
            pass
        except FileNotFoundError as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except (OSError, RuntimeError) as error:
            raise _read_error(path, error) from error
        # It is longer, so a command reads its beginning.
        result = await self._commands.run(
            ["head", "-c", str(max_bytes), "--", str(place)], max_output=max_bytes
        )
        if not result.ok:
            raise WorkspaceArchiveReadError(path=path, context={"stderr": decode(result.stderr)})
        return result.stdout

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        _check_user(user)
        content = coerce_write_payload(path=path, data=data).stream.read()
        place = await self._validate_path_access(path, for_write=True)
        try:
            await self._commands.executor.write_file(place, content)
        except (OSError, RuntimeError) as error:
            raise _write_error(place, error) from error

    async def _write_new_file(
        self, path: Path, data: io.IOBase, *, user: str | User | None = None
    ) -> None:
        _check_user(user)
        content = coerce_write_payload(path=path, data=data).stream.read()
        place = await self._validate_path_access(Path(path).parent, for_write=True) / path.name
        await self.mkdir(place.parent, parents=True)
        result = await self._run([SHELL, "-c", CREATE, "sh", place], input=content)
        if result.exit_code == EXISTS:
            raise FileExistsError(str(place))
        if not result.ok():
            raise WorkspaceArchiveWriteError(path=place, context={"stderr": decode(result.stderr)})

    # Archives

    async def _restore_snapshot_into_workspace_on_resume(self) -> None:
        """Checks the archive before the files of the workspace are removed."""
        root = Path(self.state.manifest.root)
        archive = await self.state.snapshot.restore(dependencies=self.dependencies)
        try:
            data = await arun(archive.read)
            with tarfile.open(fileobj=io.BytesIO(data)) as members:
                validate_tarfile(members, allow_external_symlink_targets=False)
        except (tarfile.TarError, OSError, UnsafeTarMemberError) as error:
            raise _write_error(root, error) from error
        finally:
            archive.close()
        await self._clear_workspace_root_on_resume()
        await self.hydrate_workspace(io.BytesIO(data))

    async def _remove_workspace_entry_on_resume(self, path: Path) -> None:
        # As `rm` does it, but a link is removed wherever it leads.
        result = await self._run(["rm", "-rf", "--", path])
        if not result.ok():
            raise WorkspaceArchiveWriteError(path=path, context={"stderr": decode(result.stderr)})

    async def persist_workspace(self) -> io.IOBase:
        root = Path(self.state.manifest.root)
        try:
            data = await self._commands.executor.download_tar()
        except (OSError, TransferLimitError, RuntimeError) as error:
            raise _read_error(root, error) from error
        try:
            return io.BytesIO(_filter_archive(data, self._persist_workspace_skip_relpaths(), root))
        except (
            tarfile.TarError,
            KeyError,
            TransferLimitError,
        ) as error:  # it comes from the sandbox
            raise _read_error(root, error) from error

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        root = Path(self.state.manifest.root)
        try:
            content = coerce_write_payload(path=root, data=data).stream.read()
            await self._commands.executor.upload_tar(content)
        except (OSError, TransferLimitError, RuntimeError) as error:
            raise _write_error(root, error) from error


class IpyboxSandboxClient(BaseSandboxClient[None]):
    """Makes sessions. All of them have the walls that this client was given."""

    backend_id = "ipybox"
    supports_default_options = True

    def __init__(
        self,
        *,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            instrumentation: Of the SDK.
            dependencies: Of the SDK.
            **options: Of `CodeExecutor`, such as `sandbox_config` and `limits`. They are not in the
                states of sessions.
        """
        self._instrumentation = instrumentation or Instrumentation()
        self._dependencies = dependencies
        self._options = options
        self._sessions: dict[uuid.UUID, CommandSession] = {}

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: None = None,
    ) -> SandboxSession:
        """Makes a session.

        Args:
            snapshot: Where `stop` saves the workspace. None: nowhere.
            manifest: What is put into the workspace. Its `root` is a directory of this machine,
                which is kept; by default it is a temporary one, which `delete` removes.
            options: There are none.

        Raises:
            ValueError: If the manifest asks for something that the sandbox does not have.
        """
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        session_id = uuid.uuid4()
        state = IpyboxSandboxSessionState(
            session_id=session_id,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            workspace_root_owned=manifest.root == DEFAULT_ROOT,
        )
        return self._open(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Continues a session.

        A session of this client continues with its files, and its processes if it was not shut
        down. Else a new one is made, which gets the files of the snapshot. A workspace that was not
        temporary is the directory that the state names: keep states where only you can write.

        Raises:
            TypeError: If the state is of another client.
        """
        if not isinstance(state, IpyboxSandboxSessionState):
            raise TypeError("IpyboxSandboxClient.resume needs the state of an ipybox session")
        state.assert_path_grants_rebound()
        return self._open(state)

    def _open(self, state: IpyboxSandboxSessionState) -> SandboxSession:
        _check_manifest(state.manifest)
        commands = self._sessions.get(state.session_id)
        is_new = commands is None
        if commands is None:
            commands = self._make_session(state)
            self._sessions[state.session_id] = commands
            state = state.model_copy(update={"workspace_root_ready": False})
        # A temporary directory has a new name, whatever the state says.
        root = {"root": str(commands.workspace)}
        manifest = state.manifest.model_copy(update=root, deep=True)
        state = state.model_copy(update={"manifest": manifest})
        inner = IpyboxSandboxSession(state, commands)
        inner._set_start_state_preserved(not is_new, system=True)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    def _make_session(self, state: IpyboxSandboxSessionState) -> CommandSession:
        if state.workspace_root_owned:
            return CommandSession(None, **self._options)
        root = state.manifest.root
        if not os.path.isabs(root):
            raise ValueError(f"the root of the manifest must be an absolute path, not {root!r}")
        return CommandSession(root, **self._options)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Ends everything in a session, and removes a temporary workspace."""
        inner = session._inner
        if not isinstance(inner, IpyboxSandboxSession):
            raise TypeError("IpyboxSandboxClient.delete needs a session of its own")
        self._sessions.pop(inner.state.session_id, None)
        await inner._commands.close()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, IpyboxSandboxSessionState)


def _check_user(user: str | User | None) -> None:
    if user is not None:
        name = user.name if isinstance(user, User) else user
        raise ValueError(
            f"nothing can run as {name!r}: a sandbox of ipybox has one user, and no root"
        )


def _check_manifest(manifest: Manifest) -> None:
    if manifest.users or manifest.groups:
        raise ValueError("a sandbox of ipybox has one user: leave out users, groups and run_as")
    for grant in manifest.extra_path_grants:
        if grant.host_path is not None:
            raise ValueError(
                f"paths are the same in a sandbox of ipybox: leave out host_path of {grant.path!r}"
            )


def _failed(code: int, error: Exception) -> ExecResult:
    return ExecResult(stdout=b"", stderr=f"{error}\n".encode(), exit_code=code)


def _read_error(path: Path, error: Exception) -> WorkspaceArchiveReadError:
    return WorkspaceArchiveReadError(path=path, context={"reason": str(error)}, cause=error)


def _write_error(path: Path, error: Exception) -> WorkspaceArchiveWriteError:
    return WorkspaceArchiveWriteError(path=path, context={"reason": str(error)}, cause=error)


def _filter_archive(data: bytes, skip: set[Path], root: Path) -> bytes:
    """Leaves out what a snapshot must not have, and makes links independent of what is left out
    and of the root, which is another one in the next session.

    Raises:
        TransferLimitError: If it would have more than MAX_ARCHIVE_BYTES. The archive comes from the
            sandbox, and each hard link becomes a file.
        tarfile.TarError, KeyError: If it is damaged.
    """
    roots = {str(root), os.path.realpath(root)}
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data)) as given,
        tarfile.open(fileobj=made, mode="w") as archive,
    ):
        for member in given:
            if should_skip_tar_member(member.name, skip_rel_paths=skip, root_name=None):
                continue
            content = given.extractfile(member) if member.isreg() or member.islnk() else None
            if member.islnk() and content is not None:
                member.type, member.size = tarfile.REGTYPE, content.seek(0, io.SEEK_END)
                content.seek(0)
            elif member.issym():
                member.linkname = _make_relative(member.linkname, member.name, roots)
            if made.tell() + member.size > MAX_ARCHIVE_BYTES:
                raise TransferLimitError(f"the archive has more than {MAX_ARCHIVE_BYTES} bytes")
            archive.addfile(member, content)
    return made.getvalue()


def _make_relative(target: str, name: str, roots: set[str]) -> str:
    for root in roots:
        if target == root or target.startswith(f"{root}/"):
            # What follows the root is kept: `..` behind a link leads to where the link leads.
            rest = target[len(root) :].strip("/")
            climb = [".."] * posixpath.normpath(name).count("/")
            return "/".join([*climb, rest] if rest else climb) or "."
    return target


# Cells


class CellText(str):
    """What the model reads about a cell. It is the `output` of the tool's `ToolCallOutputItem`.

    Attributes:
        outcome: How the cell ended. Its `error` is a CallRefusedError, LimitExceededError,
            KernelLostError or other CodeExecutionError, a CodeExecutionTimeout, or None.
    """

    outcome: CellOutcome

    @classmethod
    def make(cls, outcome: CellOutcome) -> CellText:
        made = cls(describe_outcome(outcome))
        made.outcome = outcome
        return made


class Python(Capability):
    """A tool that runs Python in a stateful kernel, in the workspace of the session and with its
    walls.

        SandboxAgent(..., capabilities=[Shell(), Python(functions=[search, order], approve=ask)])

    The kernel lives as long as the session's processes. The SDK asks about calls of tools before
    they begin. It cannot ask in the middle of a cell, so a call that the code makes is decided by
    `approve`.

    Attributes:
        functions: Function tools, or functions as for `function_tool`, that the code may call as
            functions. They run in this program.
        approve: Decides about each call, in the middle of the cell: returns, or awaits, whether the
            ApprovalRequest may run. None: calls may run that no rule denies, and calls of tools
            with `needs_approval` are refused.
        needs_approval: Whether each cell needs an approval of the SDK before it begins; or a
            function, as of a function tool.
        timeout: Seconds that a cell may take, without the time that calls wait for decisions. None:
            no limit.
        name: Of the tool.
        key: Names the kernel. Capabilities with the same key share one.
    """

    type: Literal["python"] = "python"
    functions: tuple[Any, ...] = Field(default=(), exclude=True)
    approve: Any = Field(default=None, exclude=True)
    needs_approval: Any = Field(default=False, exclude=True)
    timeout: float | None = DEFAULT_TIMEOUT_S
    name: str = "run_python"
    key: str = Field(default_factory=lambda: uuid.uuid4().hex)

    def bind(self, session: BaseSandboxSession) -> None:
        _find_session(session)
        super().bind(session)

    def tools(self) -> list[Tool]:
        offered = collect(
            _offer(each if isinstance(each, FunctionTool) else function_tool(each))
            for each in self.functions
        )

        async def invoke(context: ToolContext[Any], raw: str) -> str:
            code = _read_code(raw)
            if code is None:
                return "The arguments must be a JSON object with the member code, a text."
            _context.set(context)
            return CellText.make(await self._get_python(offered).run(code))

        parameters = {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The Python code."}},
            "required": ["code"],
            "additionalProperties": False,
        }
        return [
            FunctionTool(
                name=self.name,
                description=describe_tool(offered),
                params_json_schema=parameters,
                on_invoke_tool=invoke,
                needs_approval=self.needs_approval,
            )
        ]

    def _get_python(self, offered: dict[str, OfferedTool]) -> PythonTool:
        commands = _find_session(self.session)._commands
        kept = commands.tools
        if self.key not in kept:
            kept[self.key] = PythonTool(
                commands, offered, approve=self.approve, timeout=self.timeout
            )
        python: PythonTool = kept[self.key]
        return python


def _find_session(session: BaseSandboxSession | None) -> IpyboxSandboxSession:
    inner = session._inner if isinstance(session, SandboxSession) else session
    if not isinstance(inner, IpyboxSandboxSession):
        raise TypeError("the capability Python needs a session of IpyboxSandboxClient")
    return inner


def _read_code(raw: str) -> str | None:
    """The model can send anything."""
    try:
        arguments = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    code = arguments.get("code") if isinstance(arguments, dict) else None
    return code if isinstance(code, str) else None


# Of the call of the tool whose cell runs.
_context: ContextVar[ToolContext[Any]] = ContextVar("ipybox_tool_context")


def _offer(tool: FunctionTool) -> OfferedTool:
    async def call(arguments: dict[str, Any]) -> Any:
        raw = json.dumps(arguments)
        context = ToolContext.from_agent_context(
            _context.get(), uuid.uuid4().hex, tool_name=tool.name, tool_arguments=raw
        )
        return to_jsonable_python(await tool.on_invoke_tool(context, raw), fallback=str)

    needs: Any = tool.needs_approval
    if callable(needs):
        needs = _make_condition(needs)
    properties = tool.params_json_schema.get("properties", {})
    return OfferedTool(tool.name, tool.description, properties, call, needs)


def _make_condition(
    needs: Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]],
) -> Callable[[dict[str, Any]], Awaitable[bool]]:
    return lambda arguments: needs(_context.get(), arguments, uuid.uuid4().hex)
