# SPDX-License-Identifier: Apache-2.0
"""Packages that the real mcpygen generates, in our sessions.

Their client sends a server's name and parameters, and no token.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import harness
import pytest
from ipybox import (
    ApprovalRequest,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    generate_mcp_sources,
)

BIN = harness.CACHE / "mcpygen/bin"
PYTHON = harness.existing(BIN / "python")
KEY = "sk-3f8a1c99d2"


def run_mcpygen(name: str, params: dict[str, Any], *options: str) -> None:
    """Generates `gen/NAME` in the current directory.

    On a busy machine a server may take seconds to start, and mcpygen gives up. Then it runs again.
    """
    words = [
        "apigen",
        "--server-name",
        name,
        "--server-params",
        json.dumps(params),
        "--root-dir",
        "gen",
        *options,
    ]
    for _ in range(5):
        shutil.rmtree(Path("gen", name), ignore_errors=True)
        environ = os.environ | {"API_KEY": KEY}
        result = subprocess.run(
            [BIN / "mcpygen", *words], capture_output=True, text=True, env=environ
        )
        if result.returncode == 0:
            return
    pytest.fail(f"mcpygen: {result.stderr}")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The packages `calc` and `calc_async`, and their parameters.

    mcpygen takes seconds, so it runs once.
    """
    directory = tmp_path_factory.mktemp("mcpygen", numbered=False)
    server = shutil.copy(Path(__file__).with_name("mcpygen_server.py"), directory)
    params = {"command": str(PYTHON), "args": [server], "env": {"API_KEY": "${API_KEY}"}}
    before = Path.cwd()
    os.chdir(directory)
    try:
        run_mcpygen("calc", params)
        run_mcpygen("calc_async", params, "--async")
    finally:
        os.chdir(before)
    return directory / "gen", params


@pytest.fixture
def params(generated: tuple[Path, dict[str, Any]], workspace: Path) -> dict[str, Any]:
    """The parameters of the packages, which are copied into the workspace."""
    packages, params = generated
    shutil.copytree(packages, workspace / "gen")
    (workspace / ".env").write_text(f"API_KEY={KEY}\n")
    return params


def make_executor(**options: Any) -> CodeExecutor:
    return CodeExecutor(python=PYTHON, **options)


async def ask(
    executor: CodeExecutor, code: str, *, accept: bool = True
) -> tuple[str | None, list[ApprovalRequest]]:
    """The text of a cell's result, and the approval requests."""
    requests, text = [], None
    async for item in executor.stream(textwrap.dedent(code)):
        if isinstance(item, ApprovalRequest):
            requests.append(item)
            await (item.accept() if accept else item.reject())
        elif isinstance(item, CodeExecutionResult):
            text = item.text
    return text, requests


ADD = "from gen.calc import add\nprint(add.run(add.Params(a=3)))"


async def register(params: dict[str, Any]) -> str:
    """Registers the server, and returns a cell that calls it by equal parameters.

    They differ from those of the packages, because this registration is valid in all later sessions
    of this process.
    """
    registered = {**params, "timeout": 60}
    await generate_mcp_sources("calc", registered, Path("mcptools"))
    return f"from gen.calc import CLIENT\nCLIENT.server_params = {registered!r}\n" + ADD


# Without a sandbox


async def test_packages_work_and_the_question_shows_the_command(params: dict[str, Any]) -> None:
    async with make_executor() as executor:
        text, requests = await ask(executor, ADD)
        assert text == "5"
        (request,) = requests
        assert (request.server_name, request.tool_name, request.tool_args) == (
            "calc",
            "add",
            {"a": 3, "b": 2},
        )
        assert request.server_params == params
        assert params["args"][0] in str(request) and KEY not in str(request)
        text, requests = await ask(
            executor,
            """
            from gen.calc_async import add as add_async, pair
            print(await add_async.run(add_async.Params(a=4, b=5)))
            result = await pair.run(pair.Params(first=7))
            print(type(result).__name__, result.first, result.second)
            from gen.calc import shout
            print(shout.run(shout.Params(text="a")).result)
            """,
        )
        assert text == "9\nResult 7 x\nA" and len(requests) == 3


async def test_errors_are_what_its_client_expects(params: dict[str, Any]) -> None:
    code = """
    from mcpygen.tool_exec.client import ToolRunnerError
    from gen.calc import add, fail
    from gen.calc_async import fail as fail_async
    async def attempt(call, *args):
        try:
            result = call(*args)
            print(await result if hasattr(result, "__await__") else result)
        except ToolRunnerError as error:
            print(error)
    await attempt(fail.run, fail.Params())
    await attempt(fail_async.run, fail_async.Params())
    """
    async with make_executor() as executor:
        text, _ = await ask(executor, code)
        assert text is not None and text.count("out of cheese") == 2
        text, requests = await ask(
            executor, "await attempt(add.run, add.Params(a=1))", accept=False
        )
        assert text == "Approval request for calc.add rejected" and len(requests) == 1


async def test_one_server_which_is_restarted_and_ends_with_the_session(
    params: dict[str, Any],
) -> None:
    async with make_executor() as executor:
        await executor.execute("from gen.calc import pid, die")
        first = (await executor.execute("pid.run(pid.Params())")).text
        assert (await executor.execute("pid.run(pid.Params())")).text == first
        with pytest.raises(CodeExecutionError):
            await executor.execute("die.run(die.Params())")
        second = (await executor.execute("print(pid.run(pid.Params()))")).text
        assert second is not None and second not in first
        assert Path(f"/proc/{second}").exists()
        await executor.reset()
        await executor.execute("from gen.calc import pid")
        third = (await executor.execute("print(pid.run(pid.Params()))")).text
        assert third != second and not Path(f"/proc/{second}").exists()
    assert not Path(f"/proc/{third}").exists()


async def test_secrets_are_the_cores(params: dict[str, Any], workspace: Path) -> None:
    audit_log = workspace / "audit.jsonl"
    async with make_executor(audit_log=audit_log) as executor:
        text, requests = await ask(
            executor, "from gen.calc import digest\nprint(digest.run(digest.Params()))"
        )
        assert text == hashlib.sha256(KEY.encode()).hexdigest()
        assert requests[0].server_params == params and params["env"] == {"API_KEY": "${API_KEY}"}
        assert (
            await executor.execute("import os\n[v for v in os.environ.values() if 'sk-' in v]")
        ).text == "[]"
    (line,) = audit_log.read_text().splitlines()
    entry = json.loads(line)
    assert entry["command"] == [params["command"], *params["args"]]
    assert (entry["server"], entry["decision"], entry["by"]) == ("calc", "allow", "user")
    assert KEY not in line and "API_KEY" not in line


async def test_what_the_kernel_started_may_call(params: dict[str, Any], workspace: Path) -> None:
    (workspace / "call.py").write_text(ADD)
    (workspace / "grandchild.py").write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'call.py'], check=True)"
    )
    code = """
    import os, subprocess, sys, threading
    command = [sys.executable, "grandchild.py"]
    print(subprocess.run(command, capture_output=True, text=True).stdout.strip())
    from gen.calc import add
    thread = threading.Thread(target=lambda: print(add.run(add.Params(a=10))))
    thread.start(); thread.join()
    child = os.fork()
    if child == 0:
        os._exit(int(add.run(add.Params(a=20))))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    async with make_executor() as executor:
        text, requests = await ask(executor, code)
    assert text == "5\n12\n22" and len(requests) == 3


def post(port: int, params: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {
        "server_name": "calc",
        "server_params": params,
        "tool_name": "add",
        "tool_args": {"a": 1},
    }
    connection.request("POST", "/run", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


async def test_nobody_else_may_call(params: dict[str, Any]) -> None:
    """Neither a process of the same user, nor one of another session's kernel that knows everything
    but the token.
    """
    call = textwrap.dedent(
        """
        import json, os, urllib.error, urllib.request
        def post(port):
            body = {"server_name": "calc", "server_params": PARAMS, "tool_name": "add"}
            body["tool_args"] = {"a": 1}
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/run",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            try:
                return urllib.request.urlopen(request).read().decode()
            except urllib.error.HTTPError as error:
                return f"{error.code} {error.read().decode()}"
        """
    )
    async with make_executor() as first, make_executor() as second:
        for executor in (first, second):
            await executor.execute(f"PARAMS = {params!r}\n{call}")
        port = (
            await first.execute(
                "import os\nprint(os.environ['TOOL_SERVER_HOST'], os.environ['TOOL_SERVER_PORT'])"
            )
        ).text
        assert port is not None and port.startswith("127.0.0.1 ")
        number = int(port.split()[1])
        assert (await first.execute(f"print(post({number}))")).text == '{"result":"3"}'
        refused = (await second.execute(f"print(post({number}))")).text
        assert (
            refused is not None
            and refused.startswith("401 ")
            and "only the kernel and what it started" in refused
        )
        status, answer = post(number, params)
        assert status == 401 and "only the kernel and what it started" in answer["error"]
        child = subprocess.run(
            [sys.executable, "-c", f"PARAMS = {params!r}\n{call}\nprint(post({number}))"],
            capture_output=True,
            text=True,
        )
        assert child.stdout.startswith("401 ")
        # The kernel before the reset does not belong to the session; the one after it does.
        await first.reset()
        await first.execute(f"PARAMS = {params!r}\n{call}")
        assert (await first.execute(f"print(post({number}))")).text == '{"result":"3"}'


async def test_no_rule_allows_it_and_the_policy_does(
    params: dict[str, Any], workspace: Path
) -> None:
    rules = workspace / "rules.json"
    rules.write_text(json.dumps({"rules": [
        {"server": "calc", "tool": "pid", "decision": "deny"},
        {"server": "calc", "decision": "allow"},
        {"decision": "allow"},
    ]}))  # fmt: skip
    denied = (
        "from gen.calc import pid\ntry:\n    pid.run(pid.Params())\nexcept Exception as error:\n"
        "    print(error)"
    )
    async with make_executor(approval_rules=rules) as executor:
        assert len((await ask(executor, ADD))[1]) == 1
        text, requests = await ask(executor, denied)
        assert "refused by approval rule 1" in str(text) and not requests
    async with make_executor(approve_tool_calls=False) as executor:
        assert await ask(executor, ADD) == ("5", [])
    # The control: rules are for servers that the application named or registered.
    async with make_executor(approval_rules=rules, allowed_servers={"calc": params}) as executor:
        assert await ask(executor, ADD) == ("5", [])
    call = await register(params)
    async with make_executor(approval_rules=rules) as executor:
        assert await ask(executor, call) == ("5", [])
        assert (
            len(
                (
                    await ask(
                        executor,
                        ADD.replace("calc", "calc_async").replace("add.run", "await add.run"),
                    )
                )[1]
            )
            == 1
        )


# In a sandbox


async def test_in_a_sandbox_only_what_was_registered_or_named(params: dict[str, Any]) -> None:
    async with make_executor(sandbox=True) as executor:
        with pytest.raises(CodeExecutionError, match=r"allowed_servers=.*name: server_params"):
            await ask(executor, ADD)
    async with make_executor(
        sandbox=True, allowed_servers={"calc": params, "calc_async": params}
    ) as executor:
        text, (request,) = await ask(executor, ADD)
        assert text == "5" and request.server_params is None
        text, requests = await ask(
            executor, ADD.replace("calc", "calc_async").replace("add.run", "await add.run")
        )
        assert text == "5" and len(requests) == 1
        assert (
            await ask(executor, "from gen.calc import digest\nprint(digest.run(digest.Params()))")
        )[0] == (hashlib.sha256(KEY.encode()).hexdigest())
        # Other parameters, the same name.
        evil = (
            "from gen.calc import CLIENT\n"
            "CLIENT.server_params = {'command': 'touch', 'args': ['/tmp/x']}\n"
        )
        with pytest.raises(CodeExecutionError, match="allowed_servers"):
            await ask(executor, evil + ADD)
        # Parameters are equal if they are equal as JSON, in any order.
        turned = (
            "from gen.calc import CLIENT\nCLIENT.server_params = dict(reversed(PARAMS.items()))\n"
        )
        assert (await ask(executor, f"PARAMS = {params!r}\n" + turned + ADD))[0] == "5"


async def test_in_a_sandbox_a_registration(params: dict[str, Any], workspace: Path) -> None:
    call = await register(params)
    rules = workspace / "rules.json"
    rules.write_text(
        json.dumps({"rules": [{"server": "calc", "tool": "add", "decision": "allow"}]})
    )
    async with make_executor(sandbox=True, approval_rules=rules) as executor:
        assert await ask(executor, call) == ("5", [])


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        ({"calc": {}}, 'allowed_servers: calc: .*"command"'),
        ({"a b": {"command": "x"}}, "allowed_servers: a b: a server's name"),
    ],
)
async def test_allowed_servers_are_checked(servers: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=text):
        async with CodeExecutor(allowed_servers=servers):
            pass
