# SPDX-License-Identifier: Apache-2.0
"""Attack suites B and C, stdio MCP servers in sandboxes: "sandbox" in their server_params, and the
command `srt`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

import harness
import pytest
import scripted_server
from box import Box, NetBox, make_settings
from mcp_driver import McpServer
from rpc_driver import RpcCore


def report(box: Box, actions: list[list], user: str = "root", **params) -> tuple[str, str]:
    """What a server with these server_params reports that it can do; and stderr of ipybox."""
    server = probe(box, actions)
    if params.get("command") == "srt":
        params["args"] += [server["command"], *server["args"]]
    else:
        params |= server
    done = apigen(box, params, user)
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(r"<(.*)>", (box.place.workspace / "out/probe/report.py").read_text())
    return found, done.stderr


def probe(box: Box, actions: list[list], *modes: str) -> dict:
    """The server_params of a server that reports what it could do. Sandboxes see its copy."""
    at = scripted_server.copy(box.place.workspace)
    words = (f"actions={json.dumps(actions)}", *modes)
    return scripted_server.params("probe", *words, at=at, command="/usr/bin/python3")


def apigen(box: Box, params: dict, user: str = "root") -> subprocess.CompletedProcess[str]:
    line = [
        "apigen",
        "--server-name",
        "probe",
        "--server-params",
        json.dumps(params),
        "--root-dir",
        "out",
        "--log-level",
        "WARNING",
    ]
    return box([box.program(user), *line], user=user, sandbox=False)


@pytest.fixture
def actions(net: NetBox) -> list[list]:
    workspace, home, state = net.place.workspace, net.place.home, net.place.state / "ipybox"
    (workspace / ".env").write_text("KEY=1")
    (home / "secret").write_text("secret")
    state.mkdir()
    (state / "notes").write_text("notes")
    paths = [
        ["read", str(workspace / ".env")],
        ["read", str(home / "secret")],
        ["read", str(state / "notes")],
    ]
    paths += [["write", str(workspace / "new")], ["write", str(home / "new")]]
    return [*paths, ["fetch", "http://good.test/"], ["fetch", "http://evil.test/"]]


def test_without_a_sandbox(net: NetBox, user: str, actions: list[list]) -> None:
    expected = "read KEY=1, read secret, read notes, written, written, 200, 200"
    assert report(net, actions, user)[0] == expected
    assert report(net, actions, user, sandbox=False)[0] == expected


def test_the_default(net: NetBox, user: str, actions: list[list]) -> None:
    found, _ = report(net, actions, user, sandbox=True)
    assert (
        found
        == "PermissionError, read secret, FileNotFoundError, written, OSError, URLError, URLError"
    )


def test_a_configuration(net: NetBox, user: str, actions: list[list]) -> None:
    settings = make_settings(
        allowedDomains=["good.test"], denyRead=["~"], allowRead=["."], allowWrite=["out"]
    )
    found, said = report(net, actions, user, sandbox=settings)
    assert (
        found.endswith("OSError, OSError, 200, HTTPError")
        and "secret" not in found
        and "notes" not in found
    )
    assert (
        "operation not permitted: network-outbound evil.test:80: it is not in "
        "network.allowedDomains"
    ) in said


def test_srt_where_there_is_none(net: NetBox, user: str, actions: list[list]) -> None:
    settings = net.write_settings(
        make_settings(allowedDomains=["good.test"], denyRead=["~/secret"])
    )
    found, _ = report(net, actions, user, command="srt", args=["--settings", settings])
    assert (
        found == "read KEY=1, PermissionError, FileNotFoundError, written, OSError, 200, HTTPError"
    )


def test_srt_where_there_is_one(box: Box) -> None:
    tools = box.place.root / "tools"
    tools.mkdir()
    (tools / "srt").write_text('#!/bin/sh\nshift 2\nMARK=srt exec "$@"\n')
    (tools / "srt").chmod(0o755)
    box.place.environ["PATH"] = f"{tools}:{box.place.environ['PATH']}"
    assert report(box, [["variable", "MARK"]], command="srt", args=["--settings", "x"])[0] == "srt"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"command": "x", "sandbox": "yes"},
            "server_params.sandbox must be true, false or a configuration",
        ),
        ({"command": "x", "sandbox": {"network": {"allowDomains": []}}}, "allowDomains"),
        ({"url": "http://good.test/mcp", "sandbox": True}, "runs elsewhere"),
        ({"command": "npx-missing", "sandbox": True}, "npx-missing"),
        ({"command": "/bin/false", "sandbox": True}, "exit status 1"),
        (
            {"command": "sh", "args": ["-c", "echo last words >&2; kill -9 $$"], "sandbox": True},
            "last words",
        ),
    ],
)
def test_what_cannot_be(box: Box, params: dict, words: str) -> None:
    done = apigen(box, params)
    assert done.returncode != 0 and words in done.stderr


@pytest.mark.parametrize("sandbox", [True, False])
def test_without_a_session(box: Box, sandbox: bool) -> None:
    """The Python of the client's kernels is closed to servers that run without a session."""
    environment = box.place.workspace / "venv"
    for path in ("bin/python3", "pyvenv.cfg"):
        (environment / path).parent.mkdir(parents=True, exist_ok=True)
        (environment / path).write_text("")
        (environment / path).chmod(0o755)
    actions = [["write", str(environment / "new")], ["write", str(box.place.workspace / "new")]]
    params = probe(box, actions) | {"sandbox": sandbox}
    given = {"server_params": params, "python": str(environment / "bin/python3")}
    with RpcCore(str(box.binary), box.place) as core:
        core.call(
            "sources.generate",
            server_name="probe",
            root_dir=str(box.place.workspace / "out"),
            **given,
        )
        client = core.call("mcp.connect", **given)["client"]
        (tool,) = core.call("mcp.list_tools", client=client)["tools"]
        core.call("mcp.close", client=client)
    found = "<OSError, written>" if sandbox else "<written, written>"
    assert tool["description"] == found
    assert found in (box.place.workspace / "out/probe/report.py").read_text()


# Servers that the MCP client registers in a session with a sandbox


@pytest.mark.parametrize(
    "given", [{}, {"sandbox": False}, {"sandbox": make_settings(allowWrite=["~", "."])}]
)
@pytest.mark.parametrize(
    "flags", [["--sandbox"], ["--sandbox", "--unsandboxed-servers"], ["--sandbox-config"], []]
)
def test_what_the_client_registers(box: Box, flags: list[str], given: dict) -> None:
    if flags == ["--sandbox-config"]:
        flags = [
            "--sandbox-config",
            box.write_settings(make_settings(denyRead=["~/secret"], allowWrite=["given"])),
        ]
    (box.place.workspace / "given").mkdir()
    (box.place.home / "secret").write_text("secret")
    actions = [
        ["write", str(box.place.home / "new")],
        ["write", str(box.place.workspace / "new")],
        ["read", str(box.place.home / "secret")],
    ]
    params = probe(box, actions) | given
    with McpServer(
        str(box.binary), box.place, "--workspace", str(box.place.workspace), *flags
    ) as mcp:
        mcp.register("probe", params)
    (found,) = re.findall("<(.*)>", (box.place.workspace / "mcptools/probe/report.py").read_text())
    if flags == ["--sandbox"]:
        assert found == "OSError, written, read secret"
    elif "--sandbox-config" in flags:
        assert found == "OSError, OSError, PermissionError"
    else:
        assert found == "written, written, read secret"


@pytest.mark.parametrize("flags", [["--sandbox"], ["--sandbox", "--unsandboxed-servers"]])
def test_a_server_that_fails_in_the_sandbox(box: Box, flags: list[str]) -> None:
    """The error says that the server was in a sandbox, and what its user can do."""
    params = {"command": "sh", "args": ["-c", "echo cannot make the cache >&2; exit 2"]}
    arguments = {"server_name": "broken", "server_params": params}
    with McpServer(
        str(box.binary), box.place, "--workspace", str(box.place.workspace), *flags
    ) as mcp:
        result = mcp.tool("register_mcp_server", arguments)
    text = result["content"][0]["text"]
    assert result["isError"]
    assert "cannot make the cache" in text
    assert ("run servers outside of the sandbox with --unsandboxed-servers" in text) == (
        flags == ["--sandbox"]
    )


# Third-party servers


@pytest.fixture
def mcp(box: Box):
    with McpServer(str(box.binary), box.place, "--workspace", str(box.place.workspace)) as server:
        yield server


def resolved(params: dict) -> dict:
    """A path without symbolic links. The checkout may be below /tmp, which sandboxes replace."""
    script = [os.path.realpath(word) if word.endswith(".js") else word for word in params["args"]]
    return params | {"command": os.path.realpath(params["command"]), "args": script}


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_server_filesystem(box: Box, mcp: McpServer, is_sandboxed: bool) -> None:
    """Its options name both directories; one is denied."""
    secret = box.place.home / "private"
    secret.mkdir()
    (secret / "key").write_text("secret key")
    (box.place.workspace / "note").write_text("plain note")
    params = resolved(harness.Servers().filesystem(box.place.workspace, secret))
    if is_sandboxed:
        params["sandbox"] = make_settings(
            denyRead=["~/private"], allowRead=[os.path.realpath(harness.CACHE)]
        )
    mcp.register("files", params)
    assert (
        mcp.cell(
            "from mcptools.files import read_text_file as r, write_file as w\n"
            f"r.run(r.Params(path={str(box.place.workspace / 'note')!r})).content"
        )
        == "'plain note'"
    )
    mcp.cell(f"w.run(w.Params(path={str(box.place.workspace / 'made')!r}, content='made'));")
    assert (box.place.workspace / "made").read_text() == "made"
    code = f"r.run(r.Params(path={str(secret / 'key')!r})).content"
    if is_sandboxed:
        error = mcp.failing_cell(code)
        assert "EACCES" in error or "denied" in error or "ENOENT" in error
        assert "secret key" not in error
    else:
        assert mcp.cell(code) == "'secret key'"


def test_server_time(box: Box, mcp: McpServer) -> None:
    params = resolved(harness.Servers().time()) | {"sandbox": True}
    mcp.register("time", params)
    assert "UTC" in mcp.cell(
        "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'))"
    )


def test_it_ends_with_its_session(box: Box, place: harness.Place) -> None:
    """Also a server that ignores its end, with the processes that it started.

    The fixture looks for what remains.
    """
    params = probe(box, [], "ignore-sigterm", "ignore-eof", "daemon") | {"sandbox": True}
    with McpServer(str(box.binary), place, "--workspace", str(place.workspace)) as mcp:
        mcp.register("stubborn", params)
