# SPDX-License-Identifier: Apache-2.0
"""Attack suite E, MCP servers of sandboxed sessions: those that the client registers are sandboxed
like the session, those of the user are not.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import harness
import pytest
from kernels import Kernels, servers_settings

WRITE = """
from mcptools.files import write_file
try:
    print(write_file.run(write_file.Params(path={path!r}, content="written")))
except Exception as error:
    print("failed", error)
"""


@pytest.fixture
def files(kernel: Kernels) -> dict:
    """A server that writes to given paths, in the workspace and in the home directory."""
    return harness.Servers().filesystem(kernel.place.workspace, kernel.place.home)


def server_file(kernel: Kernels, **servers: dict) -> str:
    path = kernel.place.root / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def test_servers_of_the_client_are_boxed(kernel: Kernels, files: dict) -> None:
    inside, outside = kernel.place.workspace / "inside.txt", kernel.place.home / "outside.txt"
    with kernel.serve(*kernel.servers_flags()) as server:
        server.register("files", files)
        server.cell(WRITE.format(path=str(inside)))
        assert inside.read_text() == "written"
        assert "failed" in server.cell(WRITE.format(path=str(outside)))
        assert not outside.exists()


def test_servers_of_the_client_without_a_sandbox(kernel: Kernels, files: dict) -> None:
    """The positive control."""
    outside = kernel.place.home / "outside.txt"
    with kernel.serve(is_sandboxed=False) as server:
        server.register("files", files)
        server.cell(WRITE.format(path=str(outside)))
        assert outside.read_text() == "written"


def test_servers_share_the_configuration(kernel: Kernels, files: dict) -> None:
    outside = kernel.place.home / "outside.txt"
    with kernel.serve(*kernel.servers_flags(kernel.place.home)) as server:
        server.register("files", files)
        server.cell(WRITE.format(path=str(outside)))
        assert outside.read_text() == "written"


@pytest.mark.parametrize(
    "sandbox", [False, {"filesystem": {"denyRead": [], "allowWrite": ["/"], "denyWrite": []}}]
)
def test_clients_do_not_choose_the_sandbox(kernel: Kernels, files: dict, sandbox: object) -> None:
    outside = kernel.place.home / "outside.txt"
    with kernel.serve(*kernel.servers_flags()) as server:
        server.register("files", files | {"sandbox": sandbox})
        assert "failed" in server.cell(WRITE.format(path=str(outside)))
    assert not outside.exists()


def test_servers_of_the_user(kernel: Kernels, files: dict) -> None:
    """They are available before the first cell runs, and in the sandbox that the file asks for:
    none.
    """
    outside = kernel.place.home / "outside.txt"
    with kernel.serve("--servers", server_file(kernel, files=files)) as server:
        server.cell(WRITE.format(path=str(outside)))
        assert outside.read_text() == "written"


def test_where_the_state_may_be_written(kernel: Kernels, files: dict) -> None:
    """A registry that a session creates remains; a cell changes nothing in it."""
    registry = kernel.place.state / "ipybox/servers.json"
    with kernel.serve(*kernel.servers_flags(kernel.place.state, kernel.place.home)) as server:
        server.register("files", files)
        assert server.tool("execute_ipython_cell", {"code": f"open({str(registry)!r}, 'a')"})[
            "isError"
        ]
    assert "files" in json.loads(registry.read_text())["servers"][0].values()


def test_boxed_servers_of_the_user(kernel: Kernels, files: dict) -> None:
    outside = kernel.place.home / "outside.txt"
    with kernel.serve(
        "--servers", server_file(kernel, files=files | {"sandbox": servers_settings()})
    ) as server:
        assert "failed" in server.cell(WRITE.format(path=str(outside)))
    assert not outside.exists()


def test_no_registration(kernel: Kernels, files: dict) -> None:
    with kernel.serve("--no-register", "--servers", server_file(kernel, files=files)) as server:
        tools = server.answer(server.request("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == [
            "install_package",
            "execute_ipython_cell",
            "reset",
            "describe_tools",
            "list_variables",
            "list_sessions",
            "close_session",
        ]
        result = server.tool("register_mcp_server", {"server_name": "x", "server_params": files})
        assert result["isError"] and "Unknown tool" in result["content"][0]["text"]
        assert "write_file" in server.cell("import os; print(os.listdir('mcptools/files'))")


def test_server_that_does_not_come(kernel: Kernels) -> None:
    """Cells do not wait without end, and the log reports it."""
    path = server_file(kernel, gone={"command": "no-such-command"})
    with kernel.serve("--servers", path, stderr=True) as server:
        assert server.cell("print(1)") == "1"
        server.process.stdin.close()
        assert "no-such-command" in server.process.stderr.read().decode()


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("{", "JSON"),
        ("{}", "mcpServers"),
        ('{"mcpServers": {"not-a-name": {"command": "x"}}}', "not-a-name"),
        ('{"mcpServers": {"x": {}}}', "x"),
    ],
)
def test_wrong_server_files(kernel: Kernels, text: str, complaint: str) -> None:
    path = kernel.place.root / "servers.json"
    path.write_text(text)
    done = harness.run(kernel.command("mcp", "--servers", str(path)), kernel.place)
    assert done.returncode != 0 and complaint in done.stderr and "servers.json" in done.stderr


def test_variables_of_servers(kernel: Kernels) -> None:
    """A parameter can name variables of the list, and no others."""
    kernel.environ |= {"KNOWN": "UTC", "SECRET_FOR_TESTS": "visible"}
    params = harness.Servers().time()
    for name, is_allowed in (("KNOWN", True), ("SECRET_FOR_TESTS", False)):
        changed = params | {"env": {"X": f"${{{name}}}"}}
        with kernel.serve(*kernel.servers_flags(), "--server-variables", "KNOWN,OTHER") as server:
            result = server.tool(
                "register_mcp_server", {"server_name": "time", "server_params": changed}
            )
            assert result["isError"] != is_allowed, result
            if not is_allowed:
                assert "SECRET_FOR_TESTS" in result["content"][0]["text"]
    with kernel.serve(*kernel.servers_flags()) as server:
        server.register("time", params | {"env": {"X": "${SECRET_FOR_TESTS}"}})


def environment_in_the_workspace(kernel: Kernels) -> Path:
    """A Python for kernels in a place where servers may write."""
    real, environment = harness.ROOT / ".venv", kernel.place.workspace / ".venv"
    (packages,) = (real / "lib").glob("python3*/site-packages")
    for path, target in (
        ("bin/python3", os.path.realpath(real / "bin/python3")),
        (packages.relative_to(real), packages),
    ):
        (environment / path).parent.mkdir(parents=True)
        (environment / path).symlink_to(target)
    (environment / "pyvenv.cfg").write_text(
        f"home = {Path(os.path.realpath(real / 'bin/python3')).parent}\n"
    )
    return environment


@pytest.mark.parametrize("sandboxed", [True, False])
def test_the_walls_of_others(kernel: Kernels, files: dict, sandboxed: bool) -> None:
    """A sandboxed server does not change files that decide about the session, although they are
    where it may write. Without a sandbox it does.
    """
    workspace = kernel.place.workspace
    environment = environment_in_the_workspace(kernel)
    kernel.python = environment / "bin/python3"
    settings = servers_settings()
    settings["filesystem"]["allowRead"].append(str(harness.ROOT / ".venv"))
    (workspace / "box.json").write_text(json.dumps(settings))
    (workspace / "rules.json").write_text('{"rules": [], "default": "allow"}')
    walls = [
        workspace / "box.json",
        workspace / "rules.json",
        workspace / "audit.jsonl",
        environment / "pyvenv.cfg",
    ]
    before = [wall.read_text() for wall in walls if wall.exists()]
    flags = [
        "--sandbox-config",
        "box.json",
        "--approve",
        "rules.json",
        "--audit-log",
        "audit.jsonl",
    ]
    with kernel.serve(*flags, *([] if sandboxed else ["--unsandboxed-servers"])) as server:
        server.register("files", files)
        for path in [*walls, workspace / "plain"]:
            assert ("failed" in server.cell(WRITE.format(path=str(path)))) == (
                sandboxed and path.name != "plain"
            ), path
        after = [wall.read_text() for wall in walls if wall.name != "audit.jsonl"]
        assert (workspace / "plain").read_text() == "written"
    assert (after == before) == sandboxed
