# SPDX-License-Identifier: Apache-2.0
"""Servers made with other libraries, over every transport that they have.

They are registered, generated, and called from a cell.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import harness
import pytest
from server_process import free_port, running

HERE = Path(__file__).parent
LIBRARIES = ["mcp1", "mcp2", "fastmcp", "typescript"]
TRANSPORTS = ["stdio", "streamable_http", "sse"]
PATHS = {"streamable_http": "/mcp", "sse": "/sse"}


def kinds_command(library: str, transport: str) -> list[str]:
    """kinds_server.py or kinds_server.mjs, with that library."""
    if library == "typescript":
        modules = harness.existing(harness.CACHE / "node/node_modules")
        node = harness.existing(harness.CACHE / "node/bin/node")
        return [str(node), str(HERE / "kinds_server.mjs"), str(modules), transport]
    python = harness.existing(harness.CACHE / library / "bin/python")
    return [str(python), str(HERE / "kinds_server.py"), library, transport]


@contextmanager
def kinds(library: str, transport: str, environ: dict[str, str]) -> Iterator[dict]:
    """The server_params of a running server."""
    command = kinds_command(library, transport)
    if transport == "stdio":
        yield {"command": command[0], "args": command[1:]}
        return
    with running(command, environ, r"^(\d+)$") as found:
        yield {"url": f"http://127.0.0.1:{found[1]}{PATHS[transport]}"}


@contextmanager
def everything(transport: str, environ: dict[str, str], servers: harness.Servers) -> Iterator[dict]:
    params = servers.everything()
    if transport == "stdio":
        yield params
        return
    port = free_port()
    name = {"streamable_http": "streamableHttp"}.get(transport, transport)
    command = [params["command"], *params["args"], name]
    with running(command, environ | {"PORT": str(port)}, r"(?:running|listening) on port"):
        yield {"url": f"http://127.0.0.1:{port}{PATHS[transport]}"}


# Prints one JSON object: the result of each tool, as Python has it.
CALL_ALL = """
import json
from ipybox import ToolRunnerError
from mcptools.kinds import contents, count, fail, number, text, weather

def plain(value):
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value

def unwrapped(value):
    # Some libraries wrap what is no object, some do it for some revisions only.
    value = plain(value)
    return value["result"] if isinstance(value, dict) else value

seen = {
    "text": unwrapped(text.run(text.Params())),
    "caption": str(contents.run(contents.Params())),
    "contents": contents.run(contents.Params()).contents,
    "weather": plain(weather.run(weather.Params(city="Wien", days=2))),
    "default": len(weather.run(weather.Params(city="Wien")).temperatures),
    "number": unwrapped(number.run(number.Params())),
    "count": unwrapped(count.run(count.Params(steps=3))),
}
try:
    fail.run(fail.Params(why="no luck today"))
except ToolRunnerError as error:
    seen["fail"] = str(error)
print(json.dumps(seen))
"""

PNG = "iVBORyBub3QgcmVhbGx5"
CONTENTS = [
    {"type": "text", "text": "caption"},
    {"type": "image", "data": "iVBORyBub3QgcmVhbGx5", "mimeType": "image/png"},
    {"type": "audio", "data": "UklGRiBuZWl0aGVy", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "test://link", "name": "link"},
    {
        "type": "resource",
        "resource": {"uri": "test://text", "text": "inside", "mimeType": "text/plain"},
    },
    {
        "type": "resource",
        "resource": {"uri": "test://blob", "blob": "iVBORyBub3QgcmVhbGx5", "mimeType": "image/png"},
    },
]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_kind_of_result(library, transport, mcp, environ):
    with kinds(library, transport, environ) as params:
        modules = mcp.register("kinds", params)
        assert set(modules) == {"contents", "count", "fail", "number", "text", "weather"}
        seen = json.loads(mcp.cell(CALL_ALL))
        assert seen.pop("contents") == CONTENTS and seen.pop("caption") == "caption"
        assert "no luck today" in seen.pop("fail")
        assert seen == {
            "text": "grüße 😀\u2028",
            "weather": {"city": "Wien", "temperatures": [20.0, 20.25], "wind": None},
            "default": 3,
            "number": 7,
            "count": "counted to 3",
        }
        mcp.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_server_everything(transport, mcp, environ, servers):
    with everything(transport, environ, servers) as params:
        assert "get_tiny_image" in mcp.register("everything", params)
        seen = mcp.cell(
            "from mcptools.everything import echo, get_structured_content as weather, "
            "get_sum, get_tiny_image as image\n"
            "from mcptools.everything import trigger_long_running_operation as slow\n"
            "print(echo.run(echo.Params(message='hi')))\n"
            "print(get_sum.run(get_sum.Params(a=5, b=7)))\n"
            "print(weather.run(weather.Params(location='Chicago')).temperature)\n"
            "print([content['type'] for content in image.run(image.Params()).contents])\n"
            "print(slow.run(slow.Params(duration=0.2, steps=2)))"
        )
        echo, total, temperature, kinds_seen, slow = seen.splitlines()
        assert (echo, temperature, kinds_seen) == ("Echo: hi", "36", "['text', 'image', 'text']")
        assert "12" in total and "completed" in slow
        mcp.close()


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"the page says hello"
        self.send_response(200 if self.path == "/page" else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_fetch_server(mcp):
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        python = harness.existing(harness.CACHE / "fastmcp/bin/python")
        assert mcp.register(
            "fetch",
            {"command": str(python), "args": ["-m", "mcp_server_fetch", "--allow-private-ips"]},
        ) == ["fetch"]
        text = mcp.cell(
            "from mcptools.fetch import fetch\n"
            f"print(fetch.run(fetch.Params(url='http://127.0.0.1:{web.server_port}/page', "
            f"raw=True)))"
        )
        assert "the page says hello" in text
    finally:
        web.shutdown()
        thread.join()
        web.server_close()
