# SPDX-License-Identifier: Apache-2.0
"""Installing packages: into the interpreter's environment, or beside it if that is not writable.

They can be imported at once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import harness
import pytest
from mcp_driver import McpServer
from packages import make_wheel


@pytest.fixture
def own_environment(place) -> Path:
    """A virtual environment for the test that sees the packages of .venv."""
    subprocess.run(
        [sys.executable, "-m", "venv", "env"], cwd=place.workspace, check=True, env=place.environ
    )
    (site,) = (place.workspace / "env/lib").glob("python3*/site-packages")
    (packages,) = (harness.ROOT / ".venv/lib").glob("python3*/site-packages")
    (site / "outer.pth").write_text(f"{packages}\n")
    return place.workspace / "env/bin/python"


@pytest.fixture
def foreign_environment(place) -> Path:
    """An interpreter whose environment we may not write: its prefix has no site-packages."""
    python = place.workspace / "foreign/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {harness.ROOT / ".venv/bin/python"} "$@"\n')
    python.chmod(0o755)
    return python


def check_installing(server: McpServer, wheels: Path) -> None:
    first = make_wheel(wheels, "ipb_first", "by tool")
    assert "ModuleNotFoundError" in server.failing_cell("import ipb_first")
    output = server.tool("install_package", {"package_name": str(first)})
    assert not output["isError"] and "Successfully installed" in output["content"][0]["text"]
    assert server.cell("import ipb_first\nipb_first.value") == "'by tool'"
    assert server.cell("!ipb_first") == "command by tool"
    second = make_wheel(wheels, "ipb_second", "by cell")
    assert server.cell(f"!pip install -q {second}\nimport ipb_second\nipb_second.value").endswith(
        "'by cell'"
    )
    server.tool("reset")
    assert (
        server.cell("import ipb_first, ipb_second\nipb_first.value, ipb_second.value")
        == "('by tool', 'by cell')"
    )


def test_own_environment(ipybox, place, own_environment, tmp_path):
    with McpServer(ipybox, place, "--python", str(own_environment)) as server:
        check_installing(server, tmp_path)
    assert not (place.workspace / ".ipybox").exists()


def test_foreign_environment(ipybox, place, foreign_environment, tmp_path):
    with McpServer(ipybox, place, "--python", str(foreign_environment)) as server:
        check_installing(server, tmp_path)
    assert (place.workspace / ".ipybox/packages/ipb_first.py").exists()
    assert not list((harness.ROOT / ".venv/lib").glob("python3*/site-packages/ipb_*"))


def test_upgrade_in_a_running_kernel(ipybox, place, foreign_environment, tmp_path):
    with McpServer(ipybox, place, "--python", str(foreign_environment)) as server:
        for version in ("1.0", "2.0"):
            wheel = make_wheel(tmp_path, "ipb_versioned", version, version)
            assert not server.tool("install_package", {"package_name": str(wheel)})["isError"]
        server.tool("reset")
        assert server.cell("import ipb_versioned\nipb_versioned.value") == "'2.0'"


def test_progress_and_failure(ipybox, place, foreign_environment):
    with McpServer(ipybox, place, "--python", str(foreign_environment)) as server:
        id = server.start_tool("install_package", {"package_name": "./no-such.whl"}, token="p")
        result = server.answer(id)["result"]
        assert result["isError"] and "no-such.whl" in result["content"][0]["text"]
        assert any("no-such.whl" in n["params"]["message"] for n in server.notifications)


@pytest.mark.parametrize("name", ["", "--help", "-r requirements.txt", "a\nb", "x" * 10_000])
def test_what_is_no_requirement(mcp, name):
    assert mcp.tool("install_package", {"package_name": name})["isError"]


def test_one_installation_at_a_time(ipybox, place, foreign_environment, tmp_path):
    """Others wait for their turn. One that was cancelled while it waited is skipped."""
    names = ["ipb_first", "ipb_second", "ipb_third"]
    wheels = [str(make_wheel(tmp_path, name, "x")) for name in names]
    with McpServer(ipybox, place, "--python", str(foreign_environment)) as server:
        first, second, third = [
            server.start_tool("install_package", {"package_name": wheel}) for wheel in wheels
        ]
        server.notify("notifications/cancelled", {"requestId": second})
        last = server.start_tool("install_package", {"package_name": "-"})
        assert server.answer(last)["result"]["isError"]
        assert list(server.answers) == [first, third]
        assert not any(answer["result"]["isError"] for answer in server.answers.values())
        assert server.cell("import ipb_first, ipb_third") == ""
        assert "ModuleNotFoundError" in server.failing_cell("import ipb_second")


def test_the_end_of_input_ends_installations_that_wait(
    ipybox, place, foreign_environment, tmp_path
):
    wheel = make_wheel(tmp_path, "ipb_first", "x")
    with McpServer(ipybox, place, "--python", str(foreign_environment)) as server:
        for _ in range(3):
            server.start_tool("install_package", {"package_name": str(wheel)})


def test_cancelled_installation_ends(ipybox, place):
    """The installer is ended, and the next installation may begin."""
    python = place.workspace / "bin/python3"
    python.parent.mkdir()
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *pip*) echo begun; sleep 1000;; *) exec '
        f'{harness.ROOT / ".venv/bin/python"} "$@";; esac\n'
    )
    python.chmod(0o755)
    with McpServer(ipybox, place, "--python", str(python)) as server:
        id = server.start_tool("install_package", {"package_name": "x"}, token=1)
        while not server.notifications:
            server.receive()
        server.notify("notifications/cancelled", {"requestId": id})
        assert (
            "begins with '-'"
            in server.tool("install_package", {"package_name": "-"})["content"][0]["text"]
        )
        assert id not in server.answers
