# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration tests; tests/README.md lists them.

The binary under test is $IPYBOX_BIN, else build/ipybox.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from apigen_package import Package, tool
from kernel_driver import Forkserver, Kernel
from mcp_driver import McpServer
from pydantic import ValidationError


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    harness.leave_out(items)


@pytest.fixture(scope="session")
def ipybox() -> str:
    """The path of the binary."""
    return str(
        harness.existing(
            Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
        )
    )


@pytest.fixture(scope="session")
def python() -> str:
    """The Python of kernels: .venv with IPython, numpy, matplotlib, pandas, pydantic."""
    return str(harness.existing(harness.ROOT / ".venv/bin/python"))


@pytest.fixture(scope="session")
def servers() -> harness.Servers:
    """The `server_params` of real MCP servers.

    servers.time(), .git(repo), .sqlite(db), .everything(), .filesystem(*dirs).
    """
    return harness.Servers()


@pytest.fixture(scope="session")
def inspector() -> list[str]:
    """The command of MCP Inspector: [*inspector, ipybox, …, "--method", "tools/list"]."""
    return harness.inspector_command()


@pytest.fixture(params=[1, 2], ids=["mcp1", "mcp2"])
def client_python(request: pytest.FixtureRequest) -> str:
    """A Python with the official MCP SDK. The test runs with version 1 and with version 2."""
    return harness.client_python(request.param)


@pytest.fixture(autouse=True)
def place() -> Iterator[harness.Place]:
    """The test's own directories and environment.

    After the test nothing may be left: no process, no temporary file, no socket.
    """
    before = harness.descendants()
    # A short path: sockets live below it.
    place = harness.Place.make(Path(tempfile.mkdtemp(prefix="ipb-")) / "x")
    yield place
    processes = harness.processes_left(before)
    files = place.left_behind()
    place.root = place.root.parent
    place.remove()
    assert not processes, "processes left behind:\n" + "\n".join(processes)
    assert not files, "files left behind:\n" + "\n".join(files)


@pytest.fixture
def workspace(place: harness.Place) -> Path:
    """An empty directory for the test's files; run_ipybox runs there."""
    return place.workspace


@pytest.fixture
def environ(place: harness.Place) -> dict[str, str]:
    """The environment of the programs that the test starts. The test may change it."""
    return place.environ


@pytest.fixture
def run_ipybox(
    ipybox: str, place: harness.Place
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """run_ipybox("run", "-c", "1 + 1", stdin="…", timeout=60) runs ipybox to its end."""

    def run(*args: str, **options) -> subprocess.CompletedProcess[str]:
        return harness.run([ipybox, *args], place, **options)

    return run


@pytest.fixture
def mcp(ipybox: str, place: harness.Place) -> Iterator[McpServer]:
    """`ipybox` as an initialized MCP server, ended in order after the test."""
    with McpServer(ipybox, place) as server:
        yield server


@pytest.fixture(scope="module")
def forkserver() -> Iterator[Forkserver]:
    """One forkserver for all tests of a file, which fork their kernels from it."""
    server = Forkserver()
    server.wait_for("ready")
    server.wait_for("preloaded")
    yield server
    assert server.stop() == 0


@pytest.fixture
def make_kernel(forkserver: Forkserver) -> Iterator[Callable[..., Kernel]]:
    kernels: list[Kernel] = []

    def make(**start: Any) -> Kernel:
        kernels.append(forkserver.kernel(**start))
        return kernels[-1]

    yield make
    for kernel in kernels:
        forkserver.end(kernel)


@pytest.fixture
def kernel(make_kernel: Callable[..., Kernel]) -> Kernel:
    return make_kernel()


@pytest.fixture
def make(workspace: Path):
    """make(tool, …) generates and imports the package of these tools."""

    def make(*tools: dict, options: tuple[str, ...] = ()) -> Package:
        return Package(workspace, list(tools), *options)

    return make


@pytest.fixture
def sends(make):
    """sends(schema, value) is the JSON of `p=value` for a tool whose parameter p has the schema."""

    def sends(schema: Any, value: Any, **more: Any) -> str:
        text = make(tool({"p": schema}, **more)).send("do", p=value)
        assert text.startswith('{"p": ') and text.endswith("}")
        return text[len('{"p": ') : -1]

    return sends


@pytest.fixture
def refuses(make):
    """refuses(schema, value) asserts that such a parameter is refused."""

    def refuses(schema: Any, value: Any, **more: Any) -> None:
        with pytest.raises(ValidationError):
            make(tool({"p": schema}, **more)).send("do", p=value)

    return refuses
