# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc`: tools that the client offers to its sessions, with right and with wrong clients and
cells."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rpc_driver import RpcCore, RpcError

MIB = 1 << 20
ANY = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
TOOLS = {
    "app": [
        {"name": "echo", "description": "Echoes.", "inputSchema": ANY, "outputSchema": {}},
        {"name": "text", "inputSchema": {"type": "object", "properties": {}}},
    ],
    "second": [{"name": "echo", "inputSchema": ANY}],
}
ECHO = "from mcptools.app import echo\n"
# What a hostile cell sends, without the generated package.
RAW = """
import http.client, json, os
def call(server_id, tool_name, **arguments):
    address = os.environ["TOOL_SERVER_HOST"], int(os.environ["TOOL_SERVER_PORT"])
    connection = http.client.HTTPConnection(*address)
    headers = {"Content-Type": "application/json"}
    if "IPYBOX_TOOL_TOKEN" in os.environ:  # not in a sandbox
        headers["Authorization"] = "Bearer " + os.environ["IPYBOX_TOOL_TOKEN"]
    body = {"server_id": server_id, "server_name": "app", "tool_name": tool_name,
            "tool_args": arguments}
    connection.request("POST", "/run", json.dumps(body), headers)
    return json.loads(connection.getresponse().read())
"""


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place, stderr=subprocess.DEVNULL) as core:
        yield core


@pytest.fixture
def session(core) -> str:
    return core.open(application_tools=TOOLS, approval="allow")


def start_call(core: RpcCore, session: str, code: str, **options: Any) -> tuple[int, dict]:
    """The id of a cell, and the call that it makes."""
    id = core.request("session.execute", session=session, code=code, **options)
    call = core.wait_for_request()
    assert call["method"] == "tool.call"
    return id, call


def answer_with(core: RpcCore, session: str, result: Any, code: str = "echo.run(value=1)") -> dict:
    """The answer of a cell whose call gets this result."""
    id, call = start_call(core, session, ECHO + code)
    core.reply(call, result)
    return core.wait(id)


def cancelled(core: RpcCore) -> list[Any]:
    return [n["params"]["id"] for n in core.notifications if n["method"] == "tool.cancelled"]


# --- calls ---


def test_a_call_and_its_answers(core, session):
    id, call = start_call(core, session, ECHO + "echo.run(value={'a': [1, None, 'ä']})")
    assert call["params"] == {
        "session": session,
        "request": id,
        "server_name": "app",
        "tool_name": "echo",
        "tool_args": {"value": {"a": [1, None, "ä"]}},
    }
    core.reply(call, {"structuredContent": {"b": 2}})
    assert core.wait(id)["text"] == "{'b': 2}"
    for result, text in [
        ({"structuredContent": None}, None),
        ({"structuredContent": [1.5, "x"]}, "[1.5, 'x']"),
        ({"content": [{"type": "text", "text": "plain"}]}, "'plain'"),
        ({}, None),
    ]:
        assert answer_with(core, session, result)["text"] == text, result
    id, call = start_call(core, session, "from mcptools.second import echo as e; e.run(value=1)")
    assert call["params"]["server_name"] == "second"
    core.reply(call, {"content": [{"type": "text", "text": "of the second"}]})
    assert core.wait(id)["text"] == "'of the second'"


def test_errors(core, session):
    for result, text in [
        ({"isError": True, "content": [{"type": "text", "text": "ValueError: no"}]}, "no"),
        (3, "no result of a tool"),
        ([], "no result of a tool"),
        (None, "no result of a tool"),
        ({"content": "text"}, "no result of a tool"),
        ({"content": [1]}, "no result of a tool"),
        ({"content": [{"text": "no type"}]}, "no result of a tool"),
    ]:
        error = answer_with(core, session, result)["error"]
        assert error["name"] == "ToolRunnerError" and text in error["value"], result
        assert error["value"].startswith("app.echo: ")
    id, call = start_call(core, session, ECHO + "echo.run(value=1)")
    message = "long " * 100_000
    core.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32000, "message": message}})
    error = core.wait(id)["error"]
    assert error["value"].startswith("app.echo: long long") and len(error["value"]) < 70_000


def test_a_call_of_a_thread_after_its_cell(core, session):
    code = ECHO + (
        "import threading\nbox = []\n"
        "t = threading.Thread(target=lambda: (go.wait(), box.append(echo.run(value=1))))\n"
        "go = threading.Event(); t.start()"
    )
    core.text(session, code)
    id, call = start_call(core, session, "go.set(); t.join(); box")
    core.reply(call, {"structuredContent": 7})
    assert core.wait(id)["text"] == "[7]"


def test_approvals_and_rules(core, workspace):
    (workspace / "rules.json").write_text(
        json.dumps({"rules": [{"server": "app", "tool": "text", "decision": "deny"}]})
    )
    rules, log = str(workspace / "rules.json"), str(workspace / "audit.jsonl")
    session = core.open(
        application_tools=TOOLS, approval="ask", approval_rules=rules, audit_log=log
    )
    id = core.request("session.execute", session=session, code=ECHO + "echo.run(value=1)")
    question = core.wait_for_request()
    assert question["method"] == "approval.request"
    assert question["params"]["server_name"] == "app" and "server_params" not in question["params"]
    core.reply(question, {"accept": True})
    core.reply(core.wait_for_request(), {"structuredContent": 1})
    assert core.wait(id)["text"] == "1"
    id = core.request("session.execute", session=session, code="echo.run(value=2)")
    core.reply(core.wait_for_request(), {"accept": False})
    assert core.wait(id)["error"]["name"] == "ApprovalRejectedError"
    denied = core.execute(session, "from mcptools.app import text; text.run()")
    assert denied["error"]["name"] == "ApprovalRejectedError" and not core.requests
    decisions = [json.loads(line) for line in (workspace / "audit.jsonl").read_text().splitlines()]
    assert [(line["server"], line["tool"]) for line in decisions] == [
        ("app", "echo"),
        ("app", "echo"),
        ("app", "text"),
    ]


# --- the end of a call ---


def test_a_call_that_is_never_answered_ends_with_its_cell(core, session):
    core.text(session, ECHO)
    id, call = start_call(core, session, "echo.run(value=1)", timeout=5)
    assert core.wait(id)["status"] == "timeout"
    core.text(session, "1")
    assert cancelled(core) == [call["id"]]
    core.reply(call, {"structuredContent": "too late"})
    core.reply(call, {"structuredContent": "twice"})
    assert answer_with(core, session, {"structuredContent": 5})["text"] == "5"


@pytest.mark.parametrize("way", ["cancel", "reset", "close", "death"])
def test_the_client_learns_that_a_call_is_cancelled(core, session, way):
    pid = int(core.text(session, "import os; os.getpid()") or 0)
    id, call = start_call(core, session, ECHO + "echo.run(value=1)")
    if way == "cancel":
        core.notify("session.cancel", request=id)
    elif way == "death":
        os.kill(pid, 9)
    else:
        core.call(f"session.{way}", session=session)
    assert core.wait(id)["status"] == ("cancelled" if way == "cancel" else "lost")
    other = session if way != "close" else core.open(application_tools=TOOLS, approval="allow")
    core.text(other, "1")
    assert cancelled(core) == [call["id"]]
    core.reply(call, {"structuredContent": 1})
    assert answer_with(core, other, {"structuredContent": 5})["text"] == "5"


def test_answers_to_calls_that_do_not_exist(core, session):
    for id in (0, -1, 999, "x", None, [], {}):
        core.send({"jsonrpc": "2.0", "id": id, "result": {"structuredContent": 1}})
    assert answer_with(core, session, {"structuredContent": 5})["text"] == "5"


def test_an_answer_that_is_too_long(core, session):
    id, call = start_call(core, session, ECHO + "echo.run(value=1)")
    core.reply(call, {"structuredContent": "x" * (100 * MIB)})
    assert "cannot be used" in core.wait(id)["error"]["value"]
    large = {"structuredContent": "x" * (30 * MIB)}
    assert answer_with(core, session, large, "len(echo.run(value=1))")["text"] == str(30 * MIB)


# --- sessions ---


def test_forks_and_checkpoints_call_for_themselves(core, session):
    core.text(session, ECHO)
    fork = core.call("session.fork", session=session)["session"]
    checkpoint = core.call("session.checkpoint", session=session)["checkpoint"]
    second = core.call("session.fork", session=session, checkpoint=checkpoint)["session"]
    core.call("session.close", session=session)
    for each in (fork, second):
        id, call = start_call(core, each, "echo.run(value=1)")
        assert call["params"]["session"] == each
        core.reply(call, {"structuredContent": each})
        assert core.wait(id)["text"] == repr(each)


def test_packages_beside_those_of_the_workspace(core, workspace):
    """The application's come first, and a directory that is made later is found, too."""
    session = core.open(application_tools=TOOLS, approval="allow")
    code = "import mcptools\nfrom mcptools.app import echo\nimport mcptools.other"
    assert core.execute(session, code)["error"]["name"] == "ModuleNotFoundError"
    for name in ("other", "app"):
        directory = workspace / "mcptools" / name
        directory.mkdir(parents=True)
        (directory / "__init__.py").write_text("here = 'a file'")
    assert core.text(session, "import mcptools.other; mcptools.other.here") == "'a file'"
    assert core.text(session, "hasattr(mcptools.app, 'here')") == "False"
    second = core.open(application_tools=TOOLS, approval="allow")
    assert core.text(second, code) is None
    assert core.text(second, "hasattr(mcptools.app, 'here')") == "False"
    assert core.text(core.open(), "import mcptools.app; mcptools.app.here") == "'a file'"


def test_what_the_code_can_read(core, session):
    found = core.text(session, "import mcptools; mcptools.search('echoes')")
    assert found is not None and "# app.echo: Echoes." in found and "second" not in found
    assert "# app.text" in (core.text(session, "mcptools.describe('app')") or "")
    assert "Packages: app, second" in (core.text(session, "help(mcptools)") or "")
    assert "# app.echo" in (core.text(session, ECHO + "help(echo)") or "")
    source = core.text(session, "import inspect; print(inspect.getsource(echo.run))")
    assert source is not None and "CLIENT.call_sync" in source
    error = core.execute(session, "echo.run(valu=1)")["error"]
    assert "did you mean 'value'" in error["value"] and "echo.py" in error["traceback"]


def test_beside_a_gateway(core):
    """Its kernels are those of other clients: they start without the modules."""
    answer = core.call(
        "session.open",
        workspace=core.workspace,
        application_tools=TOOLS,
        gateway={},
        approval="allow",
    )
    gateway = answer["gateway"]
    code = (
        "import json, urllib.request\n"
        f"request = urllib.request.Request('http://{gateway['host']}:{gateway['port']}/api/kernels',"
        f" b'{{}}', {{'Authorization': 'token {gateway['token']}'}})\n"
        "json.load(urllib.request.urlopen(request))['execution_state']"
    )
    assert core.text(answer["session"], code) is not None
    assert answer_with(core, answer["session"], {"structuredContent": 5})["text"] == "5"


# --- wrong tools ---

GOOD = {"name": "a", "inputSchema": {}}
WRONG = [
    ([], "application_tools"),
    ("app", "application_tools"),
    ({"app": {}}, "app must be an array"),
    ({"ipybox": [GOOD]}, 'must not be "ipybox"'),
    ({"a b": [GOOD]}, "cannot be the name"),
    ({"class": [GOOD]}, "cannot be the name"),
    ({"": [GOOD]}, "cannot be the name"),
    ({"a\0": [GOOD]}, "application_tools"),
    ({"app": [1]}, "app, tool 1"),
    ({"app": [GOOD, GOOD]}, "app, tool 2 a: another tool has this name"),
    ({"app": [{"name": "a"}]}, '"inputSchema" must be an object'),
    ({"app": [{"name": "", "inputSchema": {}}]}, '"name" must have'),
    ({"app": [{"name": "a\nb", "inputSchema": {}}]}, '"name" must have'),
    ({"app": [{"name": "a" * 129, "inputSchema": {}}]}, '"name" must have'),
    ({"app": [{**GOOD, "outputSchema": []}]}, '"outputSchema" must be an object'),
    ({"app": [{**GOOD, "description": 1}]}, "must be strings"),
    ({f"n{i}": [GOOD] for i in range(65)}, "at most 64"),
]


def test_wrong_tools(core):
    for tools, text in WRONG:
        with pytest.raises(RpcError) as error:
            core.open(application_tools=tools)
        assert text in str(error.value) and error.value.kind == "invalid", tools
    many = {"app": [{"name": f"t{i}", "inputSchema": {}} for i in range(1001)]}
    large = {"app": [{**GOOD, "description": "x" * (4 * MIB)}]}
    properties = {f"p{i}": {"enum": [f"v{i}-{j}" for j in range(40)]} for i in range(200)}
    schema = {"type": "object", "properties": properties}
    wide = {"app": [{"name": f"t{i}", "inputSchema": schema} for i in range(40)]}
    for tools in (many, large, wide):
        with pytest.raises(RpcError) as error:
            core.open(application_tools=tools)
        assert error.value.kind == "limit", str(error.value)
    many["app"].pop()
    session = core.open(application_tools=many, approval="allow")
    id, call = start_call(core, session, "from mcptools.app import t999; t999.run()")
    core.reply(call, {"content": [{"type": "text", "text": "last"}]})
    assert core.wait(id)["text"] == "'last'"


def test_strange_schemas_are_only_text(core):
    """Whatever a schema says, code of it runs only if the package is right."""
    text = '"""\nimport os; os.environ["PWNED"] = "1"\n\\'
    schema = {"type": "object", "properties": {text: {"description": text, "default": text}}}
    tools = {"app": [{"name": "a", "description": text, "title": text, "inputSchema": schema}]}
    session = core.open(application_tools=tools, approval="allow")
    code = "import mcptools.app.a, os\nmcptools.app.a.__doc__, os.environ.get('PWNED')"
    assert (core.text(session, code) or "").endswith("None)")


# --- hostile cells ---


@pytest.mark.parametrize("sandbox", [False, True])
def test_forged_names(core, sandbox):
    session = core.open(application_tools=TOOLS, approval="allow", sandbox=sandbox)
    core.text(session, RAW)
    for id in ("application:app", "application:nosuch", "application:", "application:APP"):
        for tool in ("nosuch", "ECHO", "echo ", "text\0"):
            answer = core.text(session, f"call({id!r}, {tool!r})") or ""
            assert "'error': " in answer and "'result'" not in answer, (id, tool)
    assert not core.requests
    id, call = start_call(core, session, "call('application:app', 'echo', value=1)")
    assert call["params"]["tool_name"] == "echo"
    core.reply(call, {"structuredContent": 1})
    assert core.wait(id)["text"] == "{'result': 1}"
    # A session without tools.
    other = core.open(approval="allow", sandbox=sandbox)
    core.text(other, RAW)
    assert "not_found" in (core.text(other, "call('application:app', 'echo', value=1)") or "")


def test_a_flood_of_calls(core, session):
    """Each waits; those that are given up are cancelled, and others get through."""
    flood = RAW + (
        "import threading\n"
        "def one():\n"
        "    try: call('application:app', 'echo', value='x' * 100_000)\n"
        "    except Exception: pass\n"
        "threads = [threading.Thread(target=one, daemon=True) for _ in range(200)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()"
    )
    id = core.request("session.execute", session=session, code=flood)
    seen = set()
    while len(seen) < 200 and id not in core.answers:
        message = core.receive()
        if message.get("method") == "tool.call":
            seen.add(message["id"])
            core.reply(message, {"structuredContent": 1})
    core.requests.clear()
    assert core.wait(id)["status"] == "ok" and len(seen) > 20
    assert answer_with(core, session, {"structuredContent": 5})["text"] == "5"


@pytest.mark.parametrize("approval, method", [("allow", "tool.call"), ("ask", "approval.request")])
def test_calls_that_are_given_up_while_the_client_does_not_read(core, workspace, approval, method):
    """They are held and forgotten, and so are the questions about them: they do not fill the memory
    of the core."""
    session = core.open(application_tools=TOOLS, approval=approval)
    code = RAW + (
        "import socket, threading\n"
        "address = os.environ['TOOL_SERVER_HOST'], int(os.environ['TOOL_SERVER_PORT'])\n"
        "body = json.dumps({'server_id': 'application:app', 'server_name': 'app',\n"
        "    'tool_name': 'echo', 'tool_args': {'value': 'x' * 2_000_000}})\n"
        "head = ('POST /run HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\nAuthorization: Bearer %s\\r\\n'\n"
        "    'Content-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n' % (\n"
        "    address[1], os.environ['IPYBOX_TOOL_TOKEN'], len(body)))\n"
        "for _ in range(100):\n"
        "    with socket.create_connection(address) as connection:\n"
        "        connection.sendall((head + body).encode())\n"
        "        connection.settimeout(0.05)\n"
        "        try: connection.recv(1)\n"
        "        except TimeoutError: pass\n"
        "open('done', 'w').close()"
    )
    id = core.request("session.execute", session=session, code=code)
    deadline = time.monotonic() + 120
    while not (workspace / "done").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    sizes = []
    while id not in core.answers:
        message = core.receive()
        if message.get("method") == method:
            sizes.append(len(message["params"]["tool_args"]["value"]))
    assert core.wait(id)["status"] == "ok"
    assert 1 <= len(sizes) < 20, sizes
    core.requests.clear()
    id = core.request("session.execute", session=session, code=ECHO + "echo.run(value=1)")
    assert core.wait_for_request()["method"] == method


def test_huge_arguments(core, session):
    code = ECHO + f"echo.run(value='x' * {20 * MIB})"
    id, call = start_call(core, session, code)
    assert len(call["params"]["tool_args"]["value"]) == 20 * MIB
    core.reply(call, {"structuredContent": "got it"})
    assert core.wait(id)["text"] == "'got it'"
    too_large = core.execute(session, f"echo.run(value='x' * {65 * MIB})")
    assert too_large["status"] == "error" and not core.requests
