# SPDX-License-Identifier: Apache-2.0
"""The documents of ipybox 0.7 to 0.9 work as written: each example, with local MCP servers behind
`npx` and `uvx`.
"""

from __future__ import annotations

import asyncio
import builtins
import http.server
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import scripted_server
from ipybox import (
    ApprovalRequest,
    CodeExecutionChunk,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    generate_mcp_sources,
)
from ipybox.utils import arun

BRAVE = {
    "command": "npx",
    "args": ["-y", "@brave/brave-search-mcp-server", "--transport", "stdio"],
    "env": {"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
}
FETCH = {"command": "uvx", "args": ["mcp-server-fetch"]}


# Quickstart


@pytest.mark.parametrize("where", ["environment", ".env"])
async def test_quickstart(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    if where == "environment":
        monkeypatch.setenv("BRAVE_API_KEY", "the-key")
    else:
        Path(".env").write_text("BRAVE_API_KEY=the-key\n")
    code = """
from mcptools.brave_search.brave_image_search import Params, Result, run

result: Result = run(Params(query="neural topic models", count=3))

for image in result.items:
    print(f"- [{image.title}]({image.properties.url})")
"""
    prompts = []
    monkeypatch.setattr(builtins, "input", lambda prompt: prompts.append(prompt) or "y")
    names = await generate_mcp_sources(
        server_name="brave_search", server_params=BRAVE, root_dir=Path("mcptools")
    )
    assert names == ["brave_web_search", "brave_image_search"]
    assert {path.name for path in Path("mcptools/brave_search").glob("*.py")} == {
        "__init__.py",
        "brave_web_search.py",
        "brave_image_search.py",
    }
    async with CodeExecutor() as executor:
        async for item in executor.stream(code):
            match item:
                case ApprovalRequest() as req:
                    prompt = f"Tool call: [{req}]\nApprove? (Y/n): "
                    if await arun(input, prompt) in ["y", ""]:
                        await req.accept()
                    else:
                        await req.reject()
                case CodeExecutionResult(text=text):
                    print(text)
    assert prompts == [
        (
            "Tool call: [brave_search.brave_image_search(query='neural topic models', count=3)]\n"
            "Approve? (Y/n): "
        )
    ]
    assert capsys.readouterr().out == "".join(
        f"- [neural topic models {n}](https://example.com/{n})\n" for n in range(3)
    )


async def test_the_key_is_nowhere_in_what_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "the-key")
    await generate_mcp_sources("brave_search", BRAVE, Path("mcptools"))
    for path in Path("mcptools").rglob("*.py"):
        assert "the-key" not in path.read_text()


# API generation


async def test_generated_api_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "the-key")
    await generate_mcp_sources(
        server_name="brave_search", server_params=BRAVE, root_dir=Path("mcptools")
    )
    async with CodeExecutor() as executor:
        result = await executor.execute(
            """
from mcptools.brave_search.brave_image_search import Params, Result, run
params = Params(query="neural topic models", count=3)
result: Result = run(params)
for image in result.items:
    print(image.title)
from mcptools.brave_search import brave_web_search
isinstance(brave_web_search.run(brave_web_search.Params(query="x")), str)
"""
        )
        assert result.text is not None
        assert result.text.splitlines() == [*(f"neural topic models {n}" for n in range(3)), "True"]


async def test_generated_api_of_coroutines() -> None:
    await generate_mcp_sources(
        "work", scripted_server.params("work"), Path("mcptools"), async_api=True
    )
    async with CodeExecutor() as executor:
        result = await executor.execute(
            "import asyncio\nfrom mcptools.work import add\n"
            "rs = await asyncio.gather(*(add.run(add.Params(a=i, b=1)) for i in range(3)))\n"
            "[r.sum for r in rs]"
        )
        assert result.text == "[1, 2, 3]"


async def test_a_package_is_removed_and_made_again() -> None:
    await generate_mcp_sources("mine", FETCH, Path("mcptools"))
    assert "odd_name_v2" in await generate_mcp_sources(
        "mine", scripted_server.params("work"), Path("mcptools")
    )
    assert not Path("mcptools/mine/fetch.py").exists()


async def test_fetch_as_in_the_reference() -> None:
    await generate_mcp_sources("fetch", FETCH, Path("mcptools"))
    code = """
from mcptools.fetch import fetch
result = fetch.run(fetch.Params(url="https://example.com"))
print(result)
"""
    items = []
    async with CodeExecutor() as executor:
        async for item in executor.stream(code):
            items.append(item)
            match item:
                case ApprovalRequest():
                    assert str(item) == "fetch.fetch(url='https://example.com')"
                    await item.accept()
    assert [type(item) for item in items] == [ApprovalRequest, CodeExecutionResult]
    assert items[-1] == CodeExecutionResult(text="fetched https://example.com", images=[])


async def test_execute_may_be_iterated_over() -> None:
    from ipybox.code_exec import CodeExecutor as Same

    await generate_mcp_sources("fetch_mcp", FETCH, Path("mcptools"))
    code = "from mcptools.fetch_mcp import fetch\nprint(fetch.run(fetch.Params(url='u')))"
    seen = []
    async with Same() as executor:
        async for item in executor.execute(code):
            match item:
                case ApprovalRequest():
                    await item.accept()
                    seen.append("asked")
                case CodeExecutionResult():
                    seen.append(item.text)
    assert seen == ["asked", "fetched u"]


# Code execution


async def test_basic_execution() -> None:
    async with CodeExecutor() as executor:
        result = await executor.execute("print('hello world')")
        assert result.text == "hello world"
        assert result.images == []


async def test_approval_has_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "the-key")
    await generate_mcp_sources("brave_search", BRAVE, Path("mcptools"))
    code = """
from mcptools.brave_search.brave_image_search import Params, Result, run

result: Result = run(Params(query="neural topic models", count=3))
print(f"num results = {len(result.items)}")
"""
    async with CodeExecutor() as executor:
        async for item in executor.stream(code):
            match item:
                case ApprovalRequest():
                    assert item.server_name == "brave_search"
                    assert item.tool_name == "brave_image_search"
                    assert item.tool_args["query"] == "neural topic models"
                    assert item.tool_args["count"] == 3
                    await item.accept()
                case CodeExecutionResult():
                    assert item.text == "num results = 3"


async def test_rejection() -> None:
    await generate_mcp_sources("fetch", FETCH, Path("mcptools"))
    async with CodeExecutor() as executor:
        with pytest.raises(CodeExecutionError) as caught:
            async for item in executor.stream(
                "from mcptools.fetch import fetch\nfetch.run(fetch.Params(url='u'))"
            ):
                assert isinstance(item, ApprovalRequest)
                await item.reject()
        assert str(caught.value).startswith(
            "ApprovalRejectedError: Approval request for fetch.fetch rejected\n----"
        )
        assert (await executor.execute("1")).text == "1"


async def test_chunks() -> None:
    """As in the document, but the second chunk is printed when the first has arrived, however long
    that takes.
    """
    code = """
from os.path import exists
from time import sleep
print("chunk 1")
while not exists("go"):
    sleep(0.01)
print("chunk 2")
"""
    n_chunks = 0
    async with CodeExecutor() as executor:
        async for item in executor.stream(code, chunks=True):
            match item:
                case CodeExecutionChunk():
                    assert item.text.strip() in ["chunk 1", "chunk 2"]
                    n_chunks += 1
                    Path("go").touch()
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


async def test_timeouts() -> None:
    await generate_mcp_sources("fetch", FETCH, Path("mcptools"))
    async with CodeExecutor(approval_timeout=0.3) as executor:
        await executor.execute("x = 5")
        with pytest.raises(TimeoutError) as late:
            async for _ in executor.stream("while True: pass", timeout=0.3):
                pass
        assert str(late.value).startswith(
            "Code execution exceeded timeout of 0.30s (approval wait excluded)."
        )
        with pytest.raises(TimeoutError):
            await executor.execute("import time; time.sleep(60)", timeout=0.2)
        assert (await executor.execute("x")).text == "5"
        requests = []
        with pytest.raises(
            CodeExecutionError,
            match="ApprovalTimeoutError: Approval request for fetch.fetch expired",
        ):
            async for item in executor.stream(
                "from mcptools.fetch import fetch\nfetch.run(fetch.Params(url='u'))"
            ):
                assert isinstance(item, ApprovalRequest)
                requests.append(item)
        assert len(requests) == 1
        await requests[0].accept()  # too late, and no error


async def test_approval_waits_do_not_count() -> None:
    await generate_mcp_sources("fetch", FETCH, Path("mcptools"))
    async with CodeExecutor() as executor:
        code = "from mcptools.fetch import fetch\nfetch.run(fetch.Params(url='u'))"
        async for item in executor.stream(code):  # once without a limit: then the server runs
            if isinstance(item, ApprovalRequest):
                await item.accept()
        items = executor.stream(code, timeout=4)
        request = await anext(items)
        assert isinstance(request, ApprovalRequest)
        await asyncio.sleep(4.1)  # longer than the cell may take
        await request.accept()
        result = await anext(items)
        assert isinstance(result, CodeExecutionResult)
        assert result.text == "'fetched u'"


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
    "filesystem": {
        "denyRead": [".env"],
        "allowWrite": [".", "~/Library/Jupyter", "~/.ipython"],
        "denyWrite": [],
    },
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
        assert (
            await executor.execute("open('new', 'w').write('x'); open('new').read()")
        ).text == "'x'"
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
    """Instead of example.org, which the tests cannot reach: a server of ours, allowed by address
    and port.
    """
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Domain) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        config = CONFIG | {
            "network": {"allowedDomains": [address], "deniedDomains": [], "allowLocalBinding": True}
        }
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


async def test_sandboxed_mcp_server() -> None:
    Path("examples").mkdir()
    config = CONFIG | {
        "filesystem": {"denyRead": [".env"], "allowWrite": [".", "~/.npm"], "denyWrite": []},
        "network": {
            "allowedDomains": ["registry.npmjs.org"],
            "deniedDomains": [],
            "allowLocalBinding": True,
        },
    }
    Path("examples/sandbox-mcp.json").write_text(json.dumps(config))
    Path("README.md").touch()
    Path(".env").write_text("SECRET=1\n")
    server_params = {
        "command": "srt",
        "args": [
            "--settings",
            "examples/sandbox-mcp.json",
            "npx",
            "-y",
            "@modelcontextprotocol/server-filesystem",
            ".",
        ],
    }
    await generate_mcp_sources("filesystem", server_params, Path("mcptools"))
    list_dir_code = """
from mcptools.filesystem.list_directory import run, Params
result = run(Params(path="."))
print(result.content)
"""
    read_env_code = """
from mcptools.filesystem.read_file import run, Params
result = run(Params(path=".env"))
print(result.content)
"""
    async with CodeExecutor(sandbox=True) as executor:
        result = await executor.execute(list_dir_code)
        assert result.text is not None and "README.md" in result.text
        with pytest.raises(CodeExecutionError) as caught:
            await executor.execute(read_env_code)
        assert "operation not permitted" in str(caught.value)


# What 0.8 and 0.9 added


async def test_tool_calls_without_asking() -> None:
    await generate_mcp_sources("fetch", FETCH, Path("mcptools"))
    async with CodeExecutor(approve_tool_calls=False) as executor:
        code = "from mcptools.fetch import fetch\nprint(fetch.run(fetch.Params(url='u')))"
        items = [item async for item in executor.stream(code)]
        assert items == [CodeExecutionResult(text="fetched u", images=[])]


async def test_cancel() -> None:
    async with CodeExecutor() as executor:
        executor.cancel()  # nothing runs
        async for item in executor.stream(
            "x = 1\nprint('begun')\nimport time; time.sleep(60)", chunks=True
        ):
            assert item == CodeExecutionChunk("begun\n")
            executor.cancel()
        items = [item async for item in executor.stream("x")]
        assert items == [CodeExecutionResult(text="1", images=[])]


async def test_code_actions_of_the_skill(monkeypatch: pytest.MonkeyPatch) -> None:
    names = await generate_mcp_sources("github", scripted_server.params("github"), Path("mcptools"))
    assert names == ["search_repositories", "list_commits"]
    async with CodeExecutor() as executor:
        result = await executor.execute(
            """
import json
from mcptools.github import search_repositories, list_commits

repos_result = search_repositories.run(search_repositories.Params(
    query="user:torvalds",
    sort=search_repositories.Sort.stars,
    order=search_repositories.Order.desc,
    perPage=10,
    minimal_output=False
))
repos_data = json.loads(repos_result)
top_repos = repos_data['items'][:3]
print(repos_data['total_count'], repos_data['sort'], repos_data['order'], len(top_repos))
"""
        )
        assert result.text == "10 stars desc 3"
        result = await executor.execute(
            """
for repo in top_repos:
    params = list_commits.Params(owner="torvalds", repo=repo['name'], perPage=5)
    commits_result = list_commits.run(params)
    for i, commit in enumerate(json.loads(commits_result)[:5], 1):
        message = commit['commit']['message'].split('\\n')[0]
print(i, commit['sha'][:7], message, commit['html_url'])
"""
        )
        assert result.text == "5 0000000 uemacs 4 https://example.org/uemacs/4"


async def test_python_of_kernels_is_this_one() -> None:
    async with CodeExecutor() as executor:
        text = (await executor.execute("import sys; print(sys.executable)")).text
        assert text is not None and os.path.samefile(text, sys.executable)


async def test_working_dir() -> None:
    place = Path("place").absolute()
    place.mkdir()
    Path("other").mkdir()
    async with CodeExecutor(working_dir=place) as executor:
        assert (await executor.execute("import os; print(os.getcwd())")).text == str(place)
        result = await executor.execute("os.chdir('..'); print('there')")
        assert result.text == f"there\n[ipybox] cwd reset to {place}"
        assert (await executor.execute("print(os.getcwd())")).text == str(place)


async def test_shell_commands_ask() -> None:
    async with CodeExecutor(approve_shell_cmds=True) as executor:
        asked = []
        for code in ("!echo hi", "x = !echo {1+1}\nprint(x)", "%%bash\necho s\n"):
            async for item in executor.stream(code):
                match item:
                    case ApprovalRequest():
                        asked.append(str(item))
                        await item.accept()
                    case CodeExecutionResult():
                        asked.append(item.text)
        assert asked == [
            "ipybox.shell(cmd='echo hi')",
            "hi",
            "ipybox.shell(cmd='echo 2')",
            "['2']",
            r"ipybox.shell_magic(cmd='echo s\n')",
            "s",
        ]
        with pytest.raises(
            CodeExecutionError,
            match="ApprovalRejectedError: Approval request for ipybox.shell rejected",
        ):
            async for item in executor.stream("!echo hi"):
                assert isinstance(item, ApprovalRequest)
                await item.reject()
        assert (await executor.execute("!echo given")).text == "given"


# Ways to start a program, and their names in errors of ipybox 0.9.
PROGRAM_CALLS = {
    "subprocess.run(['true'])": "subprocess",
    "subprocess.Popen('true', shell=True)": "subprocess",
    "subprocess.getoutput('true')": "subprocess",
    "await asyncio.create_subprocess_exec('true')": "subprocess",
    "os.popen('true')": "subprocess",
    "os.system('true')": "os.system()",
    "from os import execvp; execvp('true', ['true'])": "os.execvp()",
    **{f"os.exec{end}('/bin/true', 'true')": f"os.exec{end}()" for end in ("l", "lp")},
    **{f"os.exec{end}('/bin/true', 'true', {{}})": f"os.exec{end}()" for end in ("le", "lpe")},
    **{f"os.exec{end}('/bin/true', ['true'])": f"os.exec{end}()" for end in ("v", "vp")},
    **{f"os.exec{end}('/bin/true', ['true'], {{}})": f"os.exec{end}()" for end in ("ve", "vpe")},
    **{f"os.spawn{end}(os.P_WAIT, '/bin/true', 'true')": f"os.spawn{end}()" for end in ("l", "lp")},
    **{
        f"os.spawn{end}(os.P_WAIT, '/bin/true', 'true', {{}})": f"os.spawn{end}()"
        for end in ("le", "lpe")
    },
    **{
        f"os.spawn{end}(os.P_WAIT, '/bin/true', ['true'])": f"os.spawn{end}()"
        for end in ("v", "vp")
    },
    **{
        f"os.spawn{end}(os.P_WAIT, '/bin/true', ['true'], {{}})": f"os.spawn{end}()"
        for end in ("ve", "vpe")
    },
    **{
        f"os.{name}('/bin/true', ['true'], {{}})": f"os.{name}()"
        for name in ("posix_spawn", "posix_spawnp")
    },
    "pty.spawn(['true'])": "pty.spawn()",
    # Ways that ipybox 0.9 allows.
    "posix.system('true')": "os.system()",
    "posix.execv('/bin/true', ['true'])": "os.exec*()",
}


async def test_shell_escape_is_required() -> None:
    with pytest.raises(ValueError):
        CodeExecutor(require_shell_escape=True)
    async with CodeExecutor(approve_shell_cmds=True, require_shell_escape=True) as executor:
        for call, what in PROGRAM_CALLS.items():
            with pytest.raises(CodeExecutionError) as caught:
                await executor.execute(f"import asyncio, os, posix, pty, subprocess\n{call}")
            assert caught.value.name == "PermissionError", call
            assert f"Direct {what} calls are not allowed" in str(caught.value), call
            assert "!command" in str(caught.value), call
        assert (await executor.execute("!echo given")).text == "given"
