# SPDX-License-Identifier: Apache-2.0
"""`--allowed-domains`: what sandboxes may reach, without a configuration. The domain is the address
of a server of the test, which a sandbox reaches by its proxy only."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator

import pytest
from mcp_driver import McpServer
from serve_driver import Serve, write_tokens

# Programs send no request for their own machine to a proxy, so this one speaks to the proxy itself.
FETCH = """
import http.client
try:
    proxy = http.client.HTTPConnection("localhost", 3128, timeout=60)
    proxy.request("GET", "http://127.0.0.1:PORT/")
    print(proxy.getresponse().read().decode().strip())
except OSError as error:
    print(error)
"""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def fetch(port: int) -> str:
    return FETCH.replace("PORT", str(port))


def test_run(run_ipybox, port, fetch):
    found = run_ipybox("run", f"--allowed-domains=example.com,127.0.0.1:{port}", "-c", fetch)
    assert found.stdout == "reached\n"
    found = run_ipybox("run", "--allowed-domains=example.com", "-c", fetch)
    assert "reached" not in found.stdout
    assert f'to allow it, add "127.0.0.1:{port}" there' in found.stderr


def test_repeated(run_ipybox, port, fetch):
    options = [f"--allowed-domains=127.0.0.1:{port}", "--allowed-domains", "example.com"]
    assert run_ipybox("run", *options, "-c", fetch).stdout == "reached\n"


def test_beside_a_configuration(run_ipybox, port, fetch, workspace):
    """The domains are added to those of the file. What it denies stays denied."""
    config = workspace / "config.json"
    network = {"allowedDomains": ["example.com"], "deniedDomains": []}
    files = {"denyRead": ["secret"], "allowWrite": [], "denyWrite": []}
    config.write_text(json.dumps({"network": network, "filesystem": files}))
    (workspace / "secret").write_text("hidden")
    code = f"{fetch}\ntry: open('secret')\nexcept OSError as error: print(type(error).__name__)"
    options = [f"--sandbox-config={config}", f"--allowed-domains=127.0.0.1:{port}"]
    assert run_ipybox("run", *options, "-c", code).stdout == "reached\nPermissionError\n"
    network["deniedDomains"] = [f"127.0.0.1:{port}"]
    config.write_text(json.dumps({"network": network, "filesystem": files}))
    assert "reached" not in run_ipybox("run", *options, "-c", code).stdout


def test_mcp(ipybox, place, port, fetch):
    """It implies --sandbox."""
    with McpServer(ipybox, place, f"--allowed-domains=127.0.0.1:{port}") as mcp:
        assert mcp.tool("execute_ipython_cell", {"code": fetch})["content"][0]["text"] == "reached"
    with McpServer(ipybox, place, "--allowed-domains=example.com") as mcp:
        found = mcp.tool("execute_ipython_cell", {"code": fetch})["content"][0]["text"]
        assert "it is not in network.allowedDomains" in found


def test_servers_of_clients(ipybox, place, port, fetch, workspace):
    """A server that a client registers may reach what its session may."""
    (workspace / "server.py").write_text(f"""
import contextlib, io, json, sys
def fetch():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec({fetch!r})
    return {{"content": [{{"type": "text", "text": out.getvalue()}}]}}
TOOL = {{"name": "fetch", "inputSchema": {{"type": "object"}}}}
for line in sys.stdin:
    request = json.loads(line)
    result = {{
        "initialize": lambda: {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
                              "serverInfo": {{"name": "net", "version": "1"}}}},
        "tools/list": lambda: {{"tools": [TOOL]}},
        "tools/call": fetch,
    }}.get(request["method"])
    if "id" in request:
        reply = {{"jsonrpc": "2.0", "id": request["id"]}}
        error = {{"code": -32601, "message": "no"}}
        reply |= {{"result": result()}} if result else {{"error": error}}
        print(json.dumps(reply), flush=True)
""")
    params = {"command": sys.executable, "args": ["server.py"], "cwd": str(workspace)}
    code = "from mcptools.net import fetch\nprint(fetch.run(fetch.Params()))"
    for domain, is_reached in [(f"127.0.0.1:{port}", True), ("example.com", False)]:
        with McpServer(ipybox, place, f"--allowed-domains={domain}") as mcp:
            answer = mcp.tool(
                "register_mcp_server", {"server_name": "net", "server_params": params}
            )
            assert not answer["isError"], answer
            found = mcp.tool("execute_ipython_cell", {"code": code})["content"][0]["text"]
            assert ("reached" in found) == is_reached, found


def test_serve(ipybox, place, port, fetch):
    """For each client, whose directories stay its own."""
    tokens = write_tokens(place.home / "tokens", alice="a" * 32, bob="b" * 32)
    with Serve(ipybox, place, tokens, f"--allowed-domains=127.0.0.1:{port}") as server:
        for token in ("a" * 32, "b" * 32):
            client = server.client(token)
            assert client.cell(fetch) == "reached"
            assert client.cell("import os; len(os.listdir('..'))") == "1"


@pytest.mark.parametrize(
    ("verb", "options", "problem"),
    [
        ("run", ["--allowed-domains=a..b", "-c", "1"], 'allowed domains: "a..b" is not a domain'),
        ("serve", ["--allowed-domains=a b"], 'allowed domains: "a b" is not a domain'),
        ("run", ["--allowed-domains=", "-c", "1"], "--allowed-domains must be domains"),
        ("mcp", ["--allowed-domains=a.com,,b.com"], "--allowed-domains must be domains"),
        ("run", ["--no-sandbox", "--allowed-domains=a.com", "-c", "1"], "cannot be used together"),
        ("serve", ["--unsandboxed-kernels", "--allowed-domains=a.com"], "cannot be used with"),
    ],
)
def test_refused(run_ipybox, verb, options, problem):
    found = run_ipybox(verb, *options)
    assert found.returncode != 0
    assert problem in found.stderr
