# SPDX-License-Identifier: Apache-2.0
"""What the documents of ipybox 0.7 to 0.9 show works as written: each example, with local MCP servers behind `npx` and `uvx`."""

from __future__ import annotations

import http.server
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from ipybox import (
    CodeExecutionChunk,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
)

BRAVE = {
    "command": "npx",
    "args": ["-y", "@brave/brave-search-mcp-server", "--transport", "stdio"],
    "env": {"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
}
FETCH = {"command": "uvx", "args": ["mcp-server-fetch"]}


# Quickstart


# API generation


# Code execution


async def test_basic_execution() -> None:
    async with CodeExecutor() as executor:
        result = await executor.execute("print('hello world')")
        assert result.text == "hello world"
        assert result.images == []


async def test_chunks() -> None:
    code = """
from time import sleep
print("chunk 1")
sleep(0.5)
print("chunk 2")
"""
    n_chunks = 0
    async with CodeExecutor() as executor:
        async for item in executor.stream(code, chunks=True):
            match item:
                case CodeExecutionChunk():
                    assert item.text.strip() in ["chunk 1", "chunk 2"]
                    n_chunks += 1
                case CodeExecutionResult():
                    assert item.text == "chunk 1\nchunk 2"
    assert n_chunks == 2


async def test_plots() -> None:
    code = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [1, 4, 9])
plt.show()
"""
    with tempfile.TemporaryDirectory() as images_dir:
        async with CodeExecutor(images_dir=Path(images_dir)) as executor:
            result = await executor.execute(code)
            assert len(result.images) == 1
            assert result.images[0].exists()
            assert result.images[0].suffix == ".png"
            assert result.images[0].parent == Path(images_dir)
    async with CodeExecutor() as executor:
        result = await executor.execute(code)
        assert result.images[0].parent == Path("images").absolute()


async def test_kernel_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARENTS", "own")
    async with CodeExecutor(kernel_env={"TEST_VAR": "test_val"}) as executor:
        result = await executor.execute("import os; print(os.environ['TEST_VAR'])")
        assert result.text == "test_val"
        assert (await executor.execute("'PARENTS' in os.environ")).text == "False"


async def test_reset() -> None:
    async with CodeExecutor() as executor:
        await executor.execute("x = 42")
        result = await executor.execute("print(x)")
        assert result.text == "42"
        await executor.reset()
        code = """
try:
    print(x)
except NameError:
    print("x not defined")
"""
        result = await executor.execute(code)
        assert result.text == "x not defined"


async def test_working_directory() -> None:
    async with CodeExecutor() as executor:
        result = await executor.execute("import os; print(os.getcwd())")
        assert result.text == os.getcwd()


# Sandboxing

CONFIG = {
    "enableWeakerNestedSandbox": False,
    "filesystem": {"denyRead": [".env"], "allowWrite": [".", "~/Library/Jupyter", "~/.ipython"], "denyWrite": []},
    "network": {"allowedDomains": [], "deniedDomains": [], "allowLocalBinding": True},
}


async def test_default_sandbox() -> None:
    Path(".env").write_text("SECRET=1\n")
    Path("README.md").write_text("read me")
    async with CodeExecutor(sandbox=True) as executor:
        result = await executor.execute("print('hello world')")
        assert result.text == "hello world"
        code = """
import requests
try:
    requests.get('https://example.org')
except Exception as e:
    print(e)
"""
        result = await executor.execute(code)
        assert result.text is not None and "Failed to resolve 'example.org'" in result.text
        assert (await executor.execute("open('README.md').read()")).text == "'read me'"
        assert (await executor.execute("open('new', 'w').write('x'); open('new').read()")).text == "'x'"
        with pytest.raises(CodeExecutionError, match="(PermissionError|FileNotFoundError)"):
            await executor.execute("open('.env').read()")
        with pytest.raises(CodeExecutionError):
            await executor.execute(f"open({str(Path.cwd().parent / 'outside')!r}, 'w')")


class Domain(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<h1>Example Domain</h1>")

    def log_message(self, *args: object) -> None:
        pass


async def test_custom_sandbox() -> None:
    """Instead of example.org, which the tests do not have: a server of ours, allowed by address and port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Domain) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        config = CONFIG | {"network": {"allowedDomains": [address], "deniedDomains": [], "allowLocalBinding": True}}
        Path("examples").mkdir()
        Path("examples/sandbox-kernel.json").write_text(json.dumps(config))
        code = f"""
import os, requests
# Environments of sandboxes have 127.0.0.1 in no_proxy: it is the sandbox's own.
result = requests.get('http://{address}', proxies={{"http": os.environ["http_proxy"]}})
print(result.text)
"""
        async with CodeExecutor(
            sandbox=True,
            sandbox_config=Path("examples/sandbox-kernel.json"),
            log_level="WARNING",
        ) as executor:
            result = await executor.execute(code)
            assert result.text is not None and "Example Domain" in result.text
        server.shutdown()


# What 0.8 and 0.9 added


async def test_cancel() -> None:
    async with CodeExecutor() as executor:
        executor.cancel()  # nothing runs
        async for item in executor.stream("x = 1\nprint('begun')\nimport time; time.sleep(60)", chunks=True):
            assert item == CodeExecutionChunk("begun\n")
            executor.cancel()
        items = [item async for item in executor.stream("x")]
        assert items == [CodeExecutionResult(text="1", images=[])]


async def test_python_of_kernels_is_this_one() -> None:
    async with CodeExecutor() as executor:
        text = (await executor.execute("import sys; print(sys.executable)")).text
        assert text is not None and os.path.samefile(text, sys.executable)
