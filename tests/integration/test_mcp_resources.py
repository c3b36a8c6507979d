# SPDX-License-Identifier: Apache-2.0
"""resources/list and resources/read: files of the workspace, and what is never offered."""

from __future__ import annotations

import base64
import os
import socket

import pytest
from mcp_driver import McpServer

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
NOT_FOUND = -32002


def list_all(mcp: McpServer) -> dict[str, dict]:
    """All resources by their names, page by page."""
    found: dict[str, dict] = {}
    cursor: dict = {}
    while True:
        result = mcp.answer(mcp.request("resources/list", cursor))["result"]
        found.update({each["name"]: each for each in result["resources"]})
        if "nextCursor" not in result:
            return found
        cursor = {"cursor": result["nextCursor"]}


def read(mcp: McpServer, uri: str) -> dict:
    answer = mcp.answer(mcp.request("resources/read", {"uri": uri}))
    (contents,) = answer["result"]["contents"]
    assert contents["uri"] == uri
    return contents


def refusal(mcp: McpServer, uri: str) -> int:
    return mcp.answer(mcp.request("resources/read", {"uri": uri}))["error"]["code"]


def test_files_and_images(mcp, workspace):
    (workspace / "data").mkdir()
    (workspace / "data/ä b%.txt").write_text("hällo\n")
    (workspace / "data.bin").write_bytes(b"\0\xff")
    (workspace / "empty.md").write_text("")
    mcp.cell(PLOT)
    found = list_all(mcp)
    (image,) = [name for name in found if name.startswith("images/")]
    assert set(found) == {"data/ä b%.txt", "data.bin", "empty.md", image}
    assert found[image]["mimeType"] == "image/png"
    picture = read(mcp, found[image]["uri"])
    assert base64.b64decode(picture["blob"]) == (workspace / image).read_bytes()
    text = found["data/ä b%.txt"]
    assert text["uri"] == "workspace:///data/%C3%A4%20b%25.txt"
    assert read(mcp, text["uri"]) == {
        "uri": text["uri"], "mimeType": "text/plain", "text": "hällo\n"
    }  # fmt: skip
    binary = read(mcp, found["data.bin"]["uri"])
    assert (binary["mimeType"], binary["blob"]) == ("application/octet-stream", "AP8=")
    assert read(mcp, found["empty.md"]["uri"])["text"] == ""


@pytest.mark.parametrize("sandbox", [[], ["--sandbox"]])
def test_what_is_never_offered(ipybox, place, sandbox):
    workspace = place.workspace
    secret = place.home / "secret"
    secret.write_text("SECRET")
    (workspace / ".env").write_text("SECRET")
    (workspace / "sub/.git/hooks").mkdir(parents=True)
    (workspace / "sub/.git/hooks/pre-commit").write_text("SECRET")
    (workspace / "x.code-workspace").write_text("SECRET")  # protected by its name
    (workspace / "link").symlink_to(secret)
    (workspace / "loop").symlink_to(workspace)
    (workspace / "directory").symlink_to(place.home)
    os.mkfifo(workspace / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))
        (workspace / "good").write_text("good")
        with McpServer(ipybox, place, *sandbox) as server:
            assert set(list_all(server)) == {"good"}
            for path in (
                ".env", "%2Eenv", "sub/.git/hooks/pre-commit", "x.code-workspace", "link", "fifo",
                "loop/good", "directory/secret", "socket", "../secret", "%2e%2e/secret",
                "sub/../good", "", "/good", "good/", "good%00", "nothing", "sub", f"/{secret}",
                "good%ff", "a" * 9000,
            ):  # fmt: skip
                assert refusal(server, f"workspace:///{path}") == NOT_FOUND, path
            for uri in (f"file://{secret}", "good", "", "workspace://good", "workspace:/good"):
                assert refusal(server, uri) == NOT_FOUND, uri
            assert read(server, "workspace:///good")["text"] == "good"
    (workspace / "socket").unlink()


def test_deny_read_of_the_configuration(ipybox, place):
    config = place.workspace / "sandbox.json"
    config.write_text(
        '{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead":'
        ' ["hidden", "*.key"], "allowWrite": ["."], "denyWrite": []}}'
    )
    (place.workspace / "hidden").mkdir()
    (place.workspace / "hidden/a").write_text("SECRET")
    (place.workspace / "a.key").write_text("SECRET")
    with McpServer(ipybox, place, "--sandbox-config", str(config)) as server:
        assert set(list_all(server)) == {"sandbox.json"}
        (place.workspace / "later.key").write_text("SECRET")
        (place.workspace / "later.txt").write_text("text")
        assert set(list_all(server)) == {"sandbox.json", "later.txt"}
        for path in ("hidden/a", "a.key", "later.key"):
            assert refusal(server, f"workspace:///{path}") == NOT_FOUND


def test_bounds(mcp, workspace):
    for number in range(450):
        (workspace / f"f{number:03}").touch()
    with (workspace / "huge").open("wb") as file:
        file.truncate(1 << 40)
    deep = workspace / "/".join("d" * 40)
    deep.mkdir(parents=True)
    (deep / "bottom").touch()
    answer = mcp.answer(mcp.request("resources/list"))["result"]
    assert len(answer["resources"]) == 200 and answer["nextCursor"] == "200"
    found = list_all(mcp)
    assert len(found) == 451 and "huge" in found
    error = mcp.answer(mcp.request("resources/read", {"uri": found["huge"]["uri"]}))["error"]
    assert "4 MiB" in error["message"] or "4194304" in error["message"]
    for cursor in ("x", "-1", 5, "99999999999999999999"):
        answer = mcp.answer(mcp.request("resources/list", {"cursor": cursor}))
        assert answer["error"]["code"] == -32602
    assert mcp.answer(mcp.request("resources/read", {"uri": 5}))["error"]["code"] == -32602
    assert mcp.answer(mcp.request("resources/templates/list"))["result"] == {
        "resourceTemplates": []
    }
