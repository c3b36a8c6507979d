# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc`: sessions, cells, approvals, and their end, as in docs/internals/rpc.md."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import scripted_server
from meeting import DIE, Meeting, run_while_idle, wait_until_reaped
from rpc_driver import RpcCore, RpcError


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place) as core:
        yield core


@pytest.fixture
def session(core) -> str:
    return core.open(approval="ask")


@pytest.fixture
def api(run_ipybox) -> None:
    """The package of an MCP server that starts at once."""
    params = json.dumps(scripted_server.params("results"))
    done = run_ipybox("apigen", "--server-name", "fake", "--server-params", params)
    assert done.returncode == 0, done.stderr


CALL = (
    "from mcptools.fake import echo_json\n"
    "print(echo_json.run(echo_json.Params(value=[1])).structured['back'])"
)

# --- the page ---

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_names_every_method_parameter_and_kind():
    page = (ROOT / "docs/internals/rpc.md").read_text()
    sources = "".join(path.read_text() for path in sorted((ROOT / "src/serve/rpc").glob("*.c")))
    methods = re.findall(r'^    \{"([a-z_.]+)", \w', sources, re.MULTILINE)
    parameters = re.findall(r'ipb_rpc_params_\w+\(\s*params,\s*"(\w+)"', sources)
    kinds = re.findall(r'\[IPYBOX_ERROR_\w+\] = "(\w+)"', sources)
    notifications = re.findall(r'ipb_rpc_client_notify\([^;]*?"([a-z.]+)"', sources)
    assert len(methods) > 15 and len(parameters) > 50 and len(kinds) > 10 and len(notifications) > 3
    for name in {*methods, *parameters, *kinds, *notifications} - {"code"}:
        assert re.search(rf"\b{re.escape(name)}\b", page), (
            f"docs/internals/rpc.md does not name {name}"
        )


# --- cells ---


def test_the_handshake(core, ipybox):
    assert core.hello["protocol"] == 1 and core.hello["pid"] == core.process.pid
    assert (
        core.hello["version"]
        == subprocess.run([ipybox, "--version"], capture_output=True, text=True).stdout.split()[1]
    )


# A cell, and its text.
TEXTS = [
    ("print('a\\n\\n')", "a"),
    ("print('a'); 2", "a\n2"),
    ("print('a', end='')\n5", "a5"),
    ("x = 1", None),
    ("", None),
    ("print('  ')", ""),
    ("print('  lead'); 'q'", "lead\n'q'"),
    ("display(1, 2)", "12"),
    ("h = display('first', display_id=True); h.update('second'); print('x')", "'first'x"),
    ("print('aa'); clear_output(); print('bb')", "aa\nbb"),
]


def test_text_is_what_the_original_gives(core, session):
    core.execute(session, "from IPython.display import *")
    for code, text in TEXTS:
        result = core.execute(session, code, events=True)
        assert (result["status"], result["text"]) == ("ok", text), code
        chunks = [event["text"] for event in core.events(core.last_id) if event["type"] == "text"]
        assert "".join(chunks).strip() == (text or ""), code


def test_text_with_its_white_space(core, session):
    assert core.execute(session, "print('  a\\n')")["text"] == "a"
    assert core.execute(session, "print('  a\\n')", strip=False)["text"] == "  a\n\n"
    assert core.execute(session, "print()", strip=False)["text"] == "\n"
    assert core.execute(session, "x = 1", strip=False)["text"] is None


def test_state_images_and_displays(core, session, workspace):
    core.execute(session, "import matplotlib.pyplot as plt\nfrom IPython.display import *\nx = 7")
    result = core.execute(
        session, "plt.plot([1, x])\ndisplay({'text/html': '<b>x</b>'}, raw=True)", events=True
    )
    (image,) = result["images"]
    assert image.startswith(str(workspace / "images")) and open(image, "rb").read(4) == b"\x89PNG"
    html, *_, figure = result["display_data"]
    assert html == {"data": {"text/html": "<b>x</b>"}, "metadata": {}}
    assert "image/png" in figure["data"] and "Figure size" in result["text"]
    types = [event["type"] for event in core.events(core.last_id)]
    assert types == ["display", "text", "display", "text"] and result["text"].startswith("x")
    assert core.events(core.last_id)[2]["image"] == image


def test_an_error_and_what_came_before_it(core, session):
    result = core.execute(session, "print('before'); 1/0", events=True)
    assert (result["status"], result["text"], result["message"]) == ("error", "before", None)
    error = result["error"]
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    assert error["text"] == f"ZeroDivisionError: division by zero\n{error['traceback']}"
    assert error["traceback"].startswith("-" * 75 + "\n")
    assert [event["type"] for event in core.events(core.last_id)] == ["text", "error"]


def test_a_timeout_keeps_the_state(core, session):
    core.execute(session, "x = 5")
    result = core.execute(session, "import time; time.sleep(60)", timeout=0.25)
    assert result["status"] == "timeout"
    assert result["message"] == (
        "Code execution exceeded timeout of 0.25s (approval wait excluded). The cell was "
        "interrupted; variables are kept."
    )
    assert core.text(session, "x") == "5"


def test_a_cut_text(core, session):
    result = core.execute(session, "print('ä' * 100)", max_text_chars=10, events=True)
    cut = "\n\n[Output cut here: 90 of 100 characters left out]\n\n"
    assert result["text"] == "ä" * 6 + cut + "ä" * 4 and result["truncated"]
    assert core.events(core.last_id)[0]["text"] == "ä" * 100 + "\n"


def test_a_kernel_that_dies(core, session):
    result = core.execute(session, "import os; os._exit(3)")
    assert result["status"] == "lost" and "3" in result["message"]
    assert core.text(session, "'x' in dir()") == "False"


def test_a_start_and_a_start_that_takes_too_long(core):
    session = core.open()
    assert core.call("session.start", session=session) == {}
    slow = core.open(kernel_init_timeout=0.001, preload=["pandas"])
    with pytest.raises(RpcError, match="not ready within") as caught:
        core.call("session.start", session=slow)
    assert caught.value.kind == "timeout"
    assert core.text(slow, "1") == "1"


def test_a_start_has_a_limit_of_its_own(core, workspace):
    python = workspace / "python"
    python.write_text("#!/bin/sh\nexec sleep 1000\n")
    python.chmod(0o755)
    session = core.open(python=str(python), kernel_init_timeout=600)
    with pytest.raises(RpcError, match="not ready within 0.25 s") as caught:
        core.call("session.start", session=session, timeout=0.25)
    assert caught.value.kind == "timeout"


def test_a_python_that_is_none(core):
    session = core.open(python="/bin/false")
    with pytest.raises(RpcError, match="no kernel could be started") as caught:
        core.call("session.start", session=session)
    assert caught.value.kind == "kernel_died"


# --- interrupting, resetting, closing ---


def test_cancelling_a_cell_that_runs_and_one_that_waits(core, session):
    running = core.request(
        "session.execute",
        session=session,
        code="print('on'); import time; time.sleep(60)",
        events=True,
    )
    waiting = core.request("session.execute", session=session, code="print('never')")
    core.wait_for_event(running, "text")
    core.notify("session.cancel", request=waiting)
    assert core.wait(waiting)["status"] == "cancelled"
    assert core.call("session.cancel", request=running) == {}
    result = core.wait(running)
    assert (result["status"], result["text"]) == ("cancelled", "on")
    assert core.text(session, "1") == "1"
    assert core.call("session.cancel", request=running) == {}, "too late is no error"


def test_interrupting_a_session(core, session):
    running = core.request(
        "session.execute",
        session=session,
        code="print('on'); import time; time.sleep(60)",
        events=True,
    )
    core.wait_for_event(running, "text")
    core.call("session.interrupt", session=session)
    result = core.wait(running)
    assert (result["status"], result["error"]["name"]) == ("interrupted", "KeyboardInterrupt")
    assert core.call("session.interrupt", session=session) == {}


def test_a_reset_ends_cells_and_forgets(core, session):
    core.execute(session, "x = 1")
    running = core.request(
        "session.execute",
        session=session,
        code="print('on'); import time; time.sleep(60)",
        events=True,
    )
    waiting = core.request("session.execute", session=session, code="1")
    core.wait_for_event(running, "text")
    assert core.call("session.reset", session=session) == {}
    assert [core.wait(id)["status"] for id in (running, waiting)] == ["lost", "lost"]
    assert core.text(session, "'x' in dir()") == "False"


def test_closing_a_session_in_the_middle_of_a_cell(core, session):
    running = core.request(
        "session.execute",
        session=session,
        code="print('on'); import time; time.sleep(60)",
        events=True,
    )
    core.wait_for_event(running, "text")
    assert core.call("session.close", session=session) == {}
    assert core.wait(running)["status"] == "lost"
    with pytest.raises(RpcError, match='no session "s1" is open') as caught:
        core.execute(session, "1")
    assert caught.value.kind == "not_found"
    assert core.open() == "s2"


# --- approvals ---


def test_a_call_is_asked_for_and_accepted(core, api, session):
    id = core.request("session.execute", session=session, code=CALL)
    question = core.wait_for_request()
    assert question["method"] == "approval.request"
    assert question["params"] == {
        "session": session,
        "request": id,
        "server_name": "fake",
        "tool_name": "echo_json",
        "tool_args": {"value": [1]},
    }
    core.reply(question, {"accept": True})
    assert core.wait(id)["text"] == "[1]"


def test_what_was_printed_before_a_call_is_told_before_it_is_asked_for(core, api, session):
    code = (
        "from mcptools.fake import nothing as n\nfor i in range(30):\n  print(i)\n"
        "  n.run(n.Params())"
    )
    id = core.request("session.execute", session=session, code=code, events=True)
    told = []
    while id not in core.answers:
        message = core.receive()
        if message.get("method") == "approval.request":
            told.append("?\n")
            core.reply(core.requests.pop(), {"accept": True})
        elif message.get("method") == "session.event":
            told.append(message["params"]["event"]["text"])
    assert "".join(told) == "".join(f"{i}\n?\n" for i in range(30))


def test_what_is_no_clear_yes_is_a_no(core, api, session):
    for answer in ({"accept": False}, {"accept": "yes"}, {}, None):
        id = core.request("session.execute", session=session, code=CALL)
        core.reply(core.wait_for_request(), answer)
        error = core.wait(id)["error"]
        assert error["text"].startswith(
            "ApprovalRejectedError: Approval request for fake.echo_json rejected\n-----"
        ), answer


def test_a_cell_may_have_an_approval_of_its_own(core, api, session):
    assert core.text(session, CALL, approval="allow") == "[1]"
    assert core.execute(session, CALL, approval="deny")["status"] == "error"
    id = core.request("session.execute", session=session, code=CALL)
    core.reply(core.wait_for_request(), {"accept": True})
    assert core.wait(id)["text"] == "[1]"


def test_a_question_is_taken_back_when_its_cell_ends(core, api, session):
    id = core.request("session.execute", session=session, code=CALL)
    question = core.wait_for_request()
    core.notify("session.cancel", request=id)
    assert core.wait(id)["status"] == "cancelled"
    assert [n["params"] for n in core.notifications if n["method"] == "approval.withdrawn"] == [
        {"id": question["id"]}
    ]
    core.reply(question, {"accept": True})  # too late: nothing happens
    assert core.text(session, "1") == "1"


THREAD = """
import threading
from mcptools.fake import echo_json
def call():
    open('go').read()
    try:
        echo_json.run(echo_json.Params(value=1))
    except Exception as error:
        open('told', 'w').write(str(error))
thread = threading.Thread(target=call)
thread.start()
"""


def test_a_call_while_no_cell_runs_is_refused(core, api, session, workspace):
    for name in ("go", "told"):
        os.mkfifo(workspace / name)
    core.execute(session, THREAD)
    (workspace / "go").write_text("")
    assert "no cell runs" in (workspace / "told").read_text()
    assert not core.requests


def test_an_approval_that_comes_too_late(core, api):
    session = core.open(approval_timeout=0.2)
    id = core.request("session.execute", session=session, code=CALL)
    core.wait_for_request()
    assert core.wait(id)["error"]["text"].startswith(
        "ApprovalTimeoutError: Approval request for fake.echo_json expired\n-----"
    )


# --- the end ---


def test_the_end_in_the_middle_of_cells(ipybox, place):
    with RpcCore(ipybox, place) as core:
        for _ in range(3):
            id = core.request(
                "session.execute",
                session=core.open(),
                code="print(1); import time; time.sleep(60)",
                events=True,
            )
            core.wait_for_event(id, "text")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(core, session, number):
    core.text(session, "1")
    core.process.send_signal(number)
    assert core.process.wait(60) == 0


def test_ctrl_c_is_the_clients_matter(core, session):
    core.process.send_signal(signal.SIGINT)
    assert core.text(session, "1") == "1"


CLIENT = """
import json, os, subprocess, sys
core = subprocess.Popen([sys.argv[1], "rpc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
if os.fork() == 0:  # holds the pipes open
    os.read(0, 1)
    os._exit(0)
def send(id, method, **params):
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    core.stdin.write(json.dumps(message).encode() + b"\\n")
    core.stdin.flush()
    return core.stdout.readline()
send(1, "initialize", protocol=1)
send(2, "session.open", workspace=os.getcwd())
send(3, "session.execute", session="s1", code="print(1); import time; time.sleep(60)", events=True)
print(core.pid, flush=True)
os.read(0, 1)
"""


def test_it_ends_when_its_client_is_killed_and_a_fork_of_it_lives_on(ipybox, place):
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, ipybox],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    pid = int(client.stdout.readline())
    pidfd = os.pidfd_open(pid)
    client.kill()
    client.wait()
    assert select.select([pidfd], [], [], 60)[0], "the core lives on"
    os.close(pidfd)
    client.stdin.close()  # ends the fork
    client.stdout.close()


# --- options of a session that are the kernel's ---


@pytest.mark.parametrize("sandbox", [False, True])
def test_shell_commands_are_approved(core, sandbox):
    session = core.open(
        approval="ask", approve_shell_cmds=True, require_shell_escape=True, sandbox=sandbox
    )
    cell = core.request("session.execute", session=session, code="!echo {1 + 1}")
    question = core.wait_for_request()
    asked = question["params"]
    assert (asked["server_name"], asked["tool_name"], asked["tool_args"]) == (
        "ipybox",
        "shell",
        {"cmd": "echo 2"},
    )
    core.reply(question, {"accept": True})
    assert core.wait(cell)["text"] == "2"
    assert (
        core.execute(session, "import os; os.system('true')")["error"]["name"] == "PermissionError"
    )
    with pytest.raises(RpcError, match="approve_shell_cmds"):
        core.open(require_shell_escape=True)


def test_the_kernel_returns_to_its_working_dir(core, place):
    home = place.workspace
    session = core.open(working_dir=str(home))
    assert (
        core.text(session, "import os; os.chdir('/'); print('a')")
        == f"a\n[ipybox] cwd reset to {home}"
    )
    assert core.text(session, "os.getcwd()") == repr(str(home))


def test_limits_are_those_of_a_sandbox(core):
    with pytest.raises(RpcError, match="sandbox"):
        core.open(limits={"openFiles": 77})
    session = core.open(sandbox=True, limits={"openFiles": 77})
    assert (
        core.text(session, "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)")
        == "(77, 77)"
    )


def test_notices_are_beside_the_text(core, session, workspace):
    go = Meeting(workspace / "go")
    pid = core.text(session, run_while_idle(go, DIE))
    go.wait()
    wait_until_reaped(pid)
    result = core.execute(session, "print('{}')", events=True)
    assert result["text"] == "{}"
    (notice,) = result["notices"]
    assert (
        notice.startswith("[ipybox] while idle, the kernel was killed by SIGKILL")
        and "\n" not in notice
    )
    assert [(event["type"], event["text"]) for event in core.events(core.last_id)] == [
        ("notice", notice),
        ("text", "{}\n"),
    ]
    assert core.execute(session, "1")["notices"] == []


def test_an_interrupt_that_the_cell_handles(core, session):
    """After session.interrupt the cell is ok. A timeout and a cancellation remain what they are."""
    code = (
        "try:\n    import time\n    print('begun', flush=True)\n    time.sleep(1000)\n"
        "except KeyboardInterrupt: print('handled')\n'end'"
    )

    def start(**params) -> int:
        id = core.request("session.execute", session=session, code=code, events=True, **params)
        while not core.events(id):
            core.receive()
        return id

    id = start()
    core.call("session.interrupt", session=session)
    result = core.wait(id)
    assert (result["status"], result["text"], result["error"]) == (
        "ok",
        "begun\nhandled\n'end'",
        None,
    )
    id = start()
    core.notify("session.cancel", request=id)
    result = core.wait(id)
    assert (result["status"], result["text"], result["error"]) == (
        "cancelled",
        "begun\nhandled\n'end'",
        None,
    )
    result = core.execute(session, code, timeout=1)
    assert (result["status"], result["text"], result["error"]) == (
        "timeout",
        "begun\nhandled\n'end'",
        None,
    )
    assert result["message"].endswith("variables are kept.")


def test_files_of_branches(core, workspace):
    """Branches share files, also those of a staged session, whose restores then leave them out."""
    for options in ({}, {"sandbox": True, "workspace_mode": "staged"}):
        session = core.open(**options)
        core.text(session, "x = 1; open('a', 'w').write('1'); None")
        checkpoint = core.call("session.checkpoint", session=session)["checkpoint"]
        for files, reason in (("own", "another mount namespace"), ("new", 'only "shared"')):
            with pytest.raises(RpcError, match=reason):
                core.call("session.fork", session=session, files=files)
        with pytest.raises(RpcError, match="files must be"):
            core.call("session.fork", session=session, files=1)
        made = core.call("session.fork", session=session, files="shared")
        branch = made["session"]
        assert ("files are shared" in str(made["warnings"])) == bool(options)
        core.text(branch, "x = 2; open('a', 'w').write('2'); None")
        assert core.text(session, "print(x, open('a').read())") == "1 2"
        core.text(session, "x = 3")
        if options:
            with pytest.raises(RpcError, match="1 other session shares the files"):
                core.call("session.restore", session=session, checkpoint=checkpoint)
        core.call("session.restore", session=session, checkpoint=checkpoint, files=False)
        assert core.text(session, "print(x, open('a').read())") == "1 2"
        core.call("session.close", session=session)
        if options:
            assert core.call("session.changes", session=branch)["total"] == 1
            assert core.call("session.commit", session=branch, paths=["a"])["problems"] == 0
        assert (workspace / "a").read_text() == "2"
        core.call("session.close", session=branch)
        (workspace / "a").unlink()
