# SPDX-License-Identifier: Apache-2.0
"""What Pydantic AI's own rules do not ask of a workspace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ipybox import CodeExecutionError
from ipybox.integrations.pydantic_ai import IpyboxWorkspace, _environments
from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_is_sandboxed_and_removed() -> None:
    async with IpyboxWorkspace() as backend:
        assert backend.ref is None
        directory = Path(await backend.working_dir())
        result = await backend.run("echo x > /etc/x; echo x > .bashrc", shell=True)
        assert result.exit_code != 0 and not (directory / ".bashrc").exists()
        with pytest.raises(WorkspaceError, match="denied"):
            await Workspace(backend).write_text(str(directory / ".bashrc"), "x")
    assert not directory.exists()
    with pytest.raises(WorkspaceUnavailableError):
        await backend.run(["true"])
    with pytest.raises(ValueError):
        IpyboxWorkspace(WorkspaceRef(provider="local", id="/"))
    async with IpyboxWorkspace(workspace="kept") as backend:
        await backend.run("echo x > file", shell=True)
    assert Path("kept/file").read_text() == "x\n"


async def test_failures_differ() -> None:
    async with IpyboxWorkspace() as backend:
        with pytest.raises(WorkspaceTimeoutError) as late:
            await backend.run("echo part; echo err >&2; sleep 100", shell=True, timeout=0.5)
        assert (late.value.stdout, late.value.stderr) == ("part\n", "err\n")
        with pytest.raises(WorkspaceOutputLimitError) as long:
            await backend.run("echo begin; head -c 11000000 /dev/zero", shell=True)
        assert long.value.stdout.startswith("begin\n")
        assert (await backend.run(["/etc/passwd"])).exit_code == 126
        assert (await backend.run("kill -9 $$", shell=True)).exit_code == 137
        with pytest.raises(ValueError):
            await backend.run(["true"], timeout=-1)
        executor = _environments[backend.ref.id].session.executor
        running = asyncio.create_task(backend.run("echo x > begun; sleep 100", shell=True))
        while not (Path(await backend.working_dir()) / "begun").exists():
            await asyncio.sleep(0.01)
        with pytest.raises(CodeExecutionError):
            await executor.execute("import os; os.kill(os.getpid(), 9)")
        with pytest.raises(WorkspaceUnavailableError):
            await running
