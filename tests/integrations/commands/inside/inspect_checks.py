# SPDX-License-Identifier: Apache-2.0
"""What Inspect's own checks do not ask of its sandbox."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from inspect_ai.util import OutputLimitExceededError, SandboxUserUnsupportedError
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from ipybox import CodeExecutionError, CommandTimeout
from ipybox.integrations.inspect import IpyboxSandboxEnvironment

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def environment() -> AsyncIterator[Any]:
    made = await IpyboxSandboxEnvironment.sample_init("task", None, {})
    yield made["default"]
    await IpyboxSandboxEnvironment.sample_cleanup("task", None, made, False)


async def test_a_sample_is_sandboxed_and_removed() -> None:
    made = await IpyboxSandboxEnvironment.sample_init("task", None, {})
    environment: Any = made["default"]
    workspace: Path = environment._session.workspace
    result = await environment.exec(["sh", "-c", "pwd; echo x > /etc/x; echo x > .bashrc"])
    assert result.stdout.strip() == str(workspace) and not result.success
    assert not (workspace / ".bashrc").exists()
    await IpyboxSandboxEnvironment.sample_cleanup("task", None, made, True)
    assert not workspace.exists()
    with pytest.raises(RuntimeError):
        await environment.exec(["true"])


async def test_state_lives_as_long_as_the_sample(environment: Any) -> None:
    await environment.exec(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
    await environment.write_file("a", "1")
    assert "sleep" in (await environment.exec(["sh", "-c", "cat /proc/[0-9]*/comm; cat a"])).stdout


async def test_failures_differ(environment: Any) -> None:
    missing = await environment.exec(["no-such-program"])
    assert (missing.returncode, missing.success) == (127, False)
    with pytest.raises(CommandTimeout) as late:
        await environment.exec(["sh", "-c", "echo part; sleep 100"], timeout=1)
    assert late.value.result.stdout == b"part\n"
    with pytest.raises(OutputLimitExceededError) as long:
        await environment.exec(["sh", "-c", "echo begin; head -c 11000000 /dev/zero"])
    assert long.value.truncated_output.startswith("begin")
    with pytest.raises(SandboxUserUnsupportedError):
        await environment.exec(["true"], user="root")
    name = (await environment.exec(["id", "-un"])).stdout.strip()
    assert (await environment.exec(["true"], user=name)).success
    # The kernel is lost while a command runs.
    running = asyncio.create_task(environment.exec(["sh", "-c", "echo x > begun; sleep 100"]))
    while not (environment._session.workspace / "begun").exists():
        await asyncio.sleep(0.01)
    with pytest.raises(CodeExecutionError):
        await environment._session.executor.execute("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(SandboxUnavailableError):
        await running


async def test_configuration() -> None:
    files = {"allowWrite": ["."], "denyWrite": [], "denyRead": ["/etc/hostname"]}
    network: dict[str, list[str]] = {"allowedDomains": [], "deniedDomains": []}
    limits = {"cpuSeconds": 1}
    Path("config.json").write_text(
        json.dumps({"filesystem": files, "network": network, "limits": limits})
    )
    made = await IpyboxSandboxEnvironment.sample_init("task", os.path.abspath("config.json"), {})
    environment: Any = made["default"]
    try:
        with pytest.raises(PermissionError):
            await environment.read_file("/etc/hostname")
        result = await environment.exec(["sh", "-c", "while :; do :; done"])
        assert result.returncode > 128 and "limits.cpuSeconds" in result.stderr
    finally:
        await IpyboxSandboxEnvironment.sample_cleanup("task", None, made, False)
