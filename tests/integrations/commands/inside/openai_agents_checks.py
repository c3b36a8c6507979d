# SPDX-License-Identifier: Apache-2.0
"""What the tests of the OpenAI Agents SDK do not ask of a sandbox."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agents import RunConfig, RunContextWrapper, Runner, function_tool
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    PtySessionNotFoundError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.sandbox.session import SandboxSession
from agents.sandbox.types import User
from agents.testing import ScriptedModel, assistant_message, function_call
from ipybox import (
    ApprovalRequest,
    CallRefusedError,
    CodeExecutionError,
    CodeExecutionTimeout,
    KernelLostError,
    LimitExceededError,
)
from ipybox.core import CoreError, acquire_core
from ipybox.integrations import openai_agents
from ipybox.integrations.causes import find_error
from ipybox.integrations.openai_agents import IpyboxSandboxClient, Python

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def session() -> AsyncIterator[SandboxSession]:
    client = IpyboxSandboxClient()
    made = await client.create()
    async with made:
        yield made
    await client.delete(made)


def root_of(session: SandboxSession) -> Path:
    return Path(session.state.manifest.root)


async def test_it_is_sandboxed_and_removed() -> None:
    client = IpyboxSandboxClient()
    session = await client.create(manifest=Manifest(entries={"a/b": File(content=b"text")}))
    async with session:
        root = root_of(session)
        assert await session.running()
        result = await session.exec("pwd; cat a/b; echo x > /etc/x; echo x > .bashrc")
        assert result.stdout.decode() == f"{root}\ntext" and result.exit_code != 0
        assert not (root / ".bashrc").exists()
        with pytest.raises(WorkspaceArchiveWriteError):
            await session.write(Path(".bashrc"), io.BytesIO(b"x"))
    assert not await session.running()
    assert (root / "a/b").exists()
    with pytest.raises(ExecTransportError):
        await session.exec("true")
    await client.delete(session)
    assert not root.exists()


async def test_a_directory_of_the_application_is_kept() -> None:
    client = IpyboxSandboxClient()
    session = await client.create(manifest=Manifest(root=os.path.abspath("kept")))
    async with session:
        await session.exec("echo x > file")
    await client.delete(session)
    assert Path("kept/file").read_text() == "x\n"


async def test_failures_differ(session: SandboxSession) -> None:
    with pytest.raises(ExecTimeoutError) as late:
        await session.exec("echo part; echo err >&2; sleep 100", timeout=1)
    assert (late.value.context["stdout"], late.value.context["stderr"]) == ("part\n", "err\n")
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 100", timeout=0)
    assert (await session.exec("no-such-program", shell=False)).exit_code == 127
    assert (await session.exec("/etc/passwd", shell=False)).exit_code == 126
    assert (await session.exec("kill -9 $$")).exit_code == 137
    long = await session.exec("head -c 11000000 /dev/zero")
    assert len(long.stdout) == 10 * 1024 * 1024 and b"was cut" in long.stderr
    running = asyncio.create_task(session.exec("echo x > begun; sleep 100"))
    while not (root_of(session) / "begun").exists():
        await asyncio.sleep(0.01)
    with pytest.raises(CodeExecutionError):
        executor = session._inner._commands.executor  # type: ignore[attr-defined]
        await executor.execute("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(ExecTransportError) as lost:
        await running
    assert isinstance(find_error(lost.value), CoreError)
    assert (await session.exec("echo fresh")).stdout == b"fresh\n"


async def test_limits_are_named() -> None:
    client = IpyboxSandboxClient(limits={"cpuSeconds": 1})
    session = await client.create()
    async with session:
        result = await session.exec("while :; do :; done")
        assert result.exit_code > 128 and b"limits.cpuSeconds" in result.stderr
    await client.delete(session)


async def test_files(session: SandboxSession) -> None:
    data = os.urandom(100_000)
    await session.write(Path("a/b"), io.BytesIO(data))
    assert (await session.read(Path("a/b"))).read() == data
    assert await session.read_bounded(Path("a/b"), max_bytes=1000) == data[:1000]
    assert await session.read_bounded(Path("a/b"), max_bytes=200_000) == data
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("none"))
    with pytest.raises(WorkspaceArchiveReadError):
        await session.read(Path("a"))
    with pytest.raises(Exception, match="escape|relative"):
        await session.read(Path("/etc/passwd"))
    created = {"type": "create_file", "path": "a/c", "diff": "+text\n"}
    await session.apply_patch(created)
    assert (await session.exec("cat a/c; rm a/c")).stdout.strip() == b"text"
    await session.exec("ln -s /etc/passwd link")
    with pytest.raises(Exception, match="escape|relative"):
        await session.read(Path("link"))
    assert [Path(entry.path).name for entry in await session.ls("a")] == ["b"]
    await session.exec("rm link")
    assert sorted(Path(entry.path).name for entry in await session.ls(".")) == ["a"]


async def test_there_is_one_user(session: SandboxSession) -> None:
    with pytest.raises(ValueError, match="one user"):
        await session.exec("true", user="root")
    with pytest.raises(ValueError, match="one user"):
        await session.read(Path("a"), user=User(name="root"))
    with pytest.raises(ValueError, match="one user"):
        await IpyboxSandboxClient().create(manifest=Manifest(users=[User(name="agent")]))


async def test_a_session_continues(session: SandboxSession) -> None:
    """In the same program and without a snapshot: with its files and its processes."""
    client = IpyboxSandboxClient()
    first = await client.create()
    await first.start()
    await first.exec("echo kept > file; sleep 1000 >/dev/null 2>&1 &")
    payload: Any = client.serialize_session_state(first.state)
    payload["manifest"]["root"] = "/etc"  # a state cannot change where the files are
    second = await client.resume(client.deserialize_session_state(payload))
    await second.start()
    result = await second.exec("cat file; cat /proc/[0-9]*/comm")
    assert result.stdout.startswith(b"kept\n") and b"sleep" in result.stdout
    await second.shutdown()
    third = await client.resume(second.state)
    async with third:
        result = await third.exec("cat file; cat /proc/[0-9]*/comm")
        assert result.stdout.startswith(b"kept\n") and b"sleep" not in result.stdout
    await client.delete(third)
    with pytest.raises(TypeError):
        await client.resume((await UnixLocalSandboxClient().create()).state)


OTHER_PROGRAM = """
import asyncio, json, sys
from agents.sandbox import LocalSnapshotSpec
from ipybox.integrations.openai_agents import IpyboxSandboxClient

async def main():
    client = IpyboxSandboxClient()
    session = await client.create(snapshot=LocalSnapshotSpec(base_path=sys.argv[1]))
    async with session:
        await session.exec("mkdir a; echo kept > a/file; ln -s $PWD/a/file link; ln a/file hard")
        await session.exec("mkdir skipped; echo no > skipped/x; ln skipped/x other")
        session.register_persist_workspace_skip_path("skipped")
    print(json.dumps(client.serialize_session_state(session.state)))

asyncio.run(main())
"""


async def test_a_session_continues_in_another_program() -> None:
    """From a snapshot. The first program ends without delete(), and leaves nothing else."""
    import json

    command = [sys.executable, "-c", OTHER_PROGRAM, os.path.abspath("snapshots")]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=True
    )
    payload = json.loads(done.stdout)
    assert not Path(payload["manifest"]["root"]).exists()
    client = IpyboxSandboxClient()
    session = await client.resume(client.deserialize_session_state(payload))
    async with session:
        assert str(root_of(session)) != payload["manifest"]["root"]
        result = await session.exec("cat link hard other; ls")
        assert result.stdout.decode() == "kept\nkept\nno\na\nhard\nlink\nother\n"
        # Another state of the files is replaced by the snapshot.
        await session.stop()
        await session.exec("echo changed > a/file; echo x > stale; ln -s /etc stale_link")
        again = await client.resume(session.state)
        await again.start()
        assert (await again.exec("cat a/file; ls")).stdout == b"kept\na\nhard\nlink\nother\n"
    await client.delete(session)


async def test_a_command_continues_between_calls(session: SandboxSession) -> None:
    """So a model sees what it has written, and a limit of the call does not end it."""
    await session.exec("mkfifo go")
    command = "echo part; cat go; echo more; exit 3"
    update = await session.pty_exec_start(command, yield_time_s=0.25)
    number = update.process_id
    assert number is not None and update.exit_code is None
    output = update.output
    await session.exec("echo gone > go")
    while number is not None:
        update = await session.pty_write_stdin(session_id=number, chars="", yield_time_s=5)
        output, number = output + update.output, update.process_id
    assert (output, update.exit_code) == (b"part\ngone\nmore\n", 3)
    missing = await session.pty_exec_start("no-such-program", shell=False, tty=True)
    assert missing.exit_code == 127 and b"no-such-program" in missing.output
    assert not list(Path("/tmp").glob(".ipybox-terminal-*"))
    left = await session.exec("ls -A /tmp")
    assert b"terminal" not in left.stdout


async def test_there_is_a_limit_of_terminals(
    session: SandboxSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_agents, "MAX_TERMINALS", 3)
    started = [await session.pty_exec_start("cat", tty=True, yield_time_s=0) for _ in range(4)]
    numbers = [update.process_id for update in started]
    with pytest.raises(PtySessionNotFoundError):
        await session.pty_write_stdin(session_id=numbers[0], chars="x\n")
    last = await session.pty_write_stdin(session_id=numbers[-1], chars="x\n")
    assert b"x" in last.output


async def test_hostile_archives(session: SandboxSession) -> None:
    for name, target in (("../out", None), ("/etc/out", None), ("link", "/etc/passwd")):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            member = tarfile.TarInfo(name)
            if target is not None:
                member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
        with pytest.raises(WorkspaceArchiveWriteError):
            await session.hydrate_workspace(io.BytesIO(data.getvalue()))
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.hydrate_workspace(io.BytesIO(b"no archive"))


async def test_a_runner_deletes_the_session_that_it_makes() -> None:
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "pwd; echo x > file"}, call_id="1")],
            [assistant_message("done")],
        ]
    )
    agent = SandboxAgent(name="a", model=model, instructions="", capabilities=[Shell()])
    client = IpyboxSandboxClient()
    config = RunConfig(sandbox=SandboxRunConfig(client=client), tracing_disabled=True)
    result = await Runner.run(agent, "go", run_config=config)
    output = result.new_items[1].output
    assert "exited with code 0" in output
    assert not Path(output.split("Output:\n")[1].strip()).exists()
    assert not client._sessions


async def test_a_runner_keeps_the_session_that_it_is_given(session: SandboxSession) -> None:
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "echo 1 > file", "login": False}, call_id="2")],
            [assistant_message("done")],
            [function_call("exec_command", {"cmd": "cat file"}, call_id="4")],
            [assistant_message("done")],
        ]
    )
    agent = SandboxAgent(name="a", model=model, instructions="", capabilities=[Shell()])
    config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
    await Runner.run(agent, "first", run_config=config)
    second = await Runner.run(agent, "second", run_config=config)
    assert second.new_items[1].output.endswith("1\n"), second.new_items[1].output


ordered: list[str] = []


def get_price(item: str) -> int:
    """The price of an item."""
    return {"tea": 3, "rice": 4}[item]


@function_tool(needs_approval=True)
def order(context: RunContextWrapper[str], item: str, amount: int = 1) -> str:
    """Orders an item."""
    ordered.append(f"{amount} {item} for {context.context}")
    return "ordered"


def make_agent(cells: list[str], **options: Any) -> SandboxAgent[str]:
    """An agent whose model runs the cells, one a turn."""
    ordered.clear()
    calls = [
        [function_call("run_python", {"code": code}, call_id=str(number))]
        for number, code in enumerate(cells)
    ]
    return SandboxAgent(
        name="a",
        model=ScriptedModel([*calls, [assistant_message("done")]]),
        capabilities=[Python(functions=(get_price, order), **options)],
    )


async def run(session: SandboxSession, agent: SandboxAgent[str], input: Any = "go") -> Any:
    config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
    return await Runner.run(agent, input, run_config=config, context="me")


def outputs(result: Any) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def test_cells_call_tools_and_errors_differ() -> None:
    client = IpyboxSandboxClient(limits={"cpuSeconds": 2})
    async with await client.create() as session:
        await session.exec("echo 5 > file")
        cells = [
            "x = get_price(item='tea') + get_price('rice')",
            "x + int(open('file').read())",
            "1 / 0",
            "order('tea')",
            "import os; os.kill(os.getpid(), 9)",
            "'x' in globals()",
            "while True: pass",
        ]
        found = outputs(await run(session, make_agent(cells)))
        assert [type(each.outcome.error) for each in found] == [
            type(None),
            type(None),
            CodeExecutionError,
            CallRefusedError,
            KernelLostError,
            type(None),
            LimitExceededError,
        ]
        assert found[1] == "12" and "ZeroDivisionError" in found[2] and not ordered
        cells = ["print('part', flush=True)\nwhile True: pass"]
        (late,) = outputs(await run(session, make_agent(cells, timeout=0.2)))
        assert isinstance(late.outcome.error, CodeExecutionTimeout)
        assert late.startswith("part\n")
    await client.delete(session)


async def test_a_callback_decides(session: SandboxSession) -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(str(request))
        return bool(request.tool_args["item"] == "tea")

    agent = make_agent(["x = order('tea', 2)", "order('rice')", "x"], approve=approve)
    found = outputs(await run(session, agent))
    assert [type(each.outcome.error) for each in found] == [
        type(None),
        CallRefusedError,
        type(None),
    ]
    assert asked == ["app.order(item='tea', amount=2)", "app.order(item='rice')"]
    assert found[2] == "'ordered'" and ordered == ["2 tea for me"]


async def test_a_model_sends_wrong_arguments(session: SandboxSession) -> None:
    agent = make_agent([])
    texts = ("", "[]", "{}", '{"code": 1}')
    calls = [[function_call("run_python", text, call_id=f"c{text}")] for text in texts]
    agent.model = ScriptedModel([*calls, [assistant_message("done")]])
    for output in outputs(await run(session, agent)):
        assert "must be a JSON object" in output


async def test_the_sdk_asks_before_a_cell(session: SandboxSession) -> None:
    agent = make_agent(["x = 1", "x"], needs_approval=True)
    result = await run(session, agent)
    for _ in range(2):
        (interruption,) = result.interruptions
        state = result.to_state()
        state.approve(interruption)
        result = await run(session, agent, state)
    assert result.final_output == "done" and outputs(result)[-1] == "1"


async def test_python_needs_a_session_of_ipybox() -> None:
    session = await UnixLocalSandboxClient().create(manifest=Manifest(root=os.path.abspath("w")))
    with pytest.raises(TypeError, match="needs a session of IpyboxSandboxClient"):
        await run(session, make_agent(["1"]))


async def test_it_ends_with_the_program() -> None:
    """Also without shutdown() and delete(): the caller checks that no process is left."""
    code = (
        "import asyncio\n"
        "from ipybox.integrations.openai_agents import IpyboxSandboxClient\n"
        "async def main():\n"
        "    session = await IpyboxSandboxClient().create()\n"
        "    await session.start()\n"
        "    await session.exec('sleep 1000 >/dev/null 2>&1 &')\n"
        "    print(session.state.manifest.root)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not Path(done.stdout.strip()).exists()


async def test_the_core_is_lost(session: SandboxSession) -> None:
    terminal = await session.pty_exec_start("cat", tty=True, yield_time_s=0)
    assert await session.running() and terminal.process_id is not None
    core = acquire_core()
    os.kill(core._process.pid, signal.SIGKILL)
    with pytest.raises(ExecTransportError) as lost:
        await session.exec("true")
    assert isinstance(find_error(lost.value), CoreError)
    with pytest.raises(ExecTransportError):
        await session.pty_write_stdin(session_id=terminal.process_id, chars="")
    assert not await session.running()
    core.release()
