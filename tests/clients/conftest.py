# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with other projects' clients; tests/README.md lists them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import harness
import pytest
from serve_driver import Serve


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    harness.leave_out(items)


@pytest.fixture(scope="session")
def ipybox() -> str:
    """The path of the binary."""
    path = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox"))
    return str(harness.existing(path.resolve()))


@pytest.fixture(scope="session")
def servers() -> harness.Servers:
    """The `server_params` of real MCP servers."""
    return harness.Servers()


@pytest.fixture(autouse=True)
def place() -> Iterator[harness.Place]:
    """The test's own directories and environment. After the test no process may be left.

    Clients leave files in TMPDIR; ipybox may not.
    """
    before = harness.descendants()
    # A short path: sockets live below it. Not below /tmp, of which each sandbox has its own.
    place = harness.Place.make(Path(tempfile.mkdtemp(prefix="ipb-", dir="/var/tmp")) / "x")
    # Clients send requests for this machine to a proxy otherwise.
    place.environ |= {"NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1"}
    yield place
    processes = harness.processes_left(before)
    files = [name for name in place.left_behind() if Path(name).name.startswith("ipybox")]
    place.root = place.root.parent
    place.remove()
    assert not processes, "processes left behind:\n" + "\n".join(processes)
    assert not files, "files left behind:\n" + "\n".join(files)


@pytest.fixture(params=["stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def reach(
    ipybox: str, place: harness.Place, transport: str
) -> Callable[..., AbstractContextManager[dict[str, Any]]]:
    """reach(*options): how a client reaches the server, {"command": […]} or {"url", "token"}."""

    @contextmanager
    def reach(*options: str) -> Iterator[dict[str, Any]]:
        if transport == "stdio":
            yield {"command": [ipybox, "--workspace", str(place.workspace), *options]}
            return
        with Serve(ipybox, place, *options) as server:
            yield {"url": f"http://127.0.0.1:{server.port}/mcp", "token": server.token}

    return reach
