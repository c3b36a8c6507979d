# SPDX-License-Identifier: Apache-2.0
"""What LangChain's own tests do not ask of the sandbox for deep agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ipybox import CodeExecutionError
from ipybox.core import CoreError, acquire_core
from ipybox.integrations import background
from ipybox.integrations.deepagents import IpyboxSandbox


@pytest.fixture
def sandbox() -> Iterator[IpyboxSandbox]:
    with IpyboxSandbox() as made:
        yield made


def test_it_is_sandboxed_and_removed() -> None:
    with IpyboxSandbox() as made:
        workspace = made.workspace
        result = made.execute("pwd; echo x > /etc/x")
        assert result.output.startswith(f"{workspace}\n") and result.exit_code != 0
        assert made.write(f"{workspace}/a", "text").error is None
        assert made.execute("cat a").output == "text"
        (response,) = made.upload_files([(f"{workspace}/.bashrc", b"x")])
        assert response.error == "permission_denied"
    assert not workspace.exists()
    with IpyboxSandbox("kept") as made:
        made.execute("echo x > file")
    assert Path("kept/file").read_text() == "x\n"


def test_batches_succeed_in_part(sandbox: IpyboxSandbox) -> None:
    sent = sandbox.upload_files([("/tmp/a", b"\xff"), ("relative", b""), ("/etc/b", b"")])
    assert [one.error is None for one in sent] == [True, False, False]
    got = sandbox.download_files(["/tmp/a", "/tmp/none", "/tmp", "relative"])
    assert [one.content for one in got] == [b"\xff", None, None, None]
    errors = [one.error for one in got]
    assert errors == [None, "file_not_found", "is_directory", "invalid_path"]


def test_failures_differ(sandbox: IpyboxSandbox) -> None:
    late = sandbox.execute("echo part; sleep 100", timeout=1)
    assert late.exit_code == 124 and late.output.startswith("part\n[ipybox] ")
    assert sandbox.execute("kill -9 $$").exit_code == 137
    assert sandbox.execute("echo out; echo err >&2; echo out").output == "out\nerr\nout\n"
    long = sandbox.execute("head -c 11000000 /dev/zero")
    assert long.truncated and long.exit_code == 0
    with pytest.raises(CodeExecutionError):
        background.run(_kill(sandbox))
    assert sandbox.execute("echo fresh").output == "fresh\n"
    sandbox.close()
    with pytest.raises(RuntimeError):
        sandbox.execute("true")


async def _kill(sandbox: IpyboxSandbox) -> None:
    await sandbox._session.executor.execute("import os; os.kill(os.getpid(), 9)")


def test_it_ends_with_the_program() -> None:
    """Also without close(): no directory and no process is left; the caller checks both."""
    code = (
        "from ipybox.integrations.deepagents import IpyboxSandbox\n"
        "sandbox = IpyboxSandbox()\n"
        "sandbox.execute('sleep 1000 >/dev/null 2>&1 &')\n"
        "print(sandbox.workspace)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).exists()


def test_the_core_is_lost(sandbox: IpyboxSandbox) -> None:
    core = acquire_core()
    os.kill(core._process.pid, signal.SIGKILL)
    with pytest.raises(CoreError):
        sandbox.execute("true")
    core.release()
