# SPDX-License-Identifier: Apache-2.0
"""Cells that ask for input: of a bare kernel, at the terminal, and over each protocol."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest
from gateway_driver import Channels, Gateway, contents, types
from kernel_driver import INPUT, Cell, Kernel
from mcp_driver import Client
from rpc_driver import RpcCore, RpcError
from terminal import Terminal

ASK = "name = input('Name? ')\nprint('hello', name)"
NO_TERMINAL = "this kernel has no terminal"


# --- a bare kernel --------------------------------------------------------------------------------


def answer(kernel: Kernel, request: dict, **content: str) -> None:
    kernel.send_frame(INPUT, {"id": request["id"], **content})


def start(kernel: Kernel, code: str) -> dict:
    kernel.execute(code, allow_stdin=True)
    return kernel.wait_for("input_request")


def error_of(cell: Cell) -> dict:
    (error,) = cell.errors
    return error


def test_output_comes_before_the_question(kernel: Kernel) -> None:
    request = start(kernel, "import sys\nprint('one')\nprint('two', file=sys.stderr)\n" + ASK)
    assert (request["prompt"], request["password"]) == ("Name? ", False)
    names = [name for name, _ in kernel.reader.events]
    assert names == ["stdout", "stderr", "input_request"]
    answer(kernel, request, value="Ann ü")
    assert kernel.finish().stdout == "one\nhello Ann ü\n"


def test_passwords(kernel: Kernel) -> None:
    request = start(kernel, "from getpass import getpass\ngetpass() + getpass('PIN: ')")
    assert (request["prompt"], request["password"]) == ("Password: ", True)
    kernel.take_events()
    answer(kernel, request, value="a")
    request = kernel.wait_for("input_request")
    assert (request["prompt"], request["password"]) == ("PIN: ", True)
    answer(kernel, request, value="b")
    assert kernel.finish().result == "'ab'"


def test_a_refusal_is_the_end_of_the_input(kernel: Kernel) -> None:
    answer(kernel, start(kernel, ASK), error="not now")
    error = error_of(kernel.finish())
    assert (error["ename"], error["evalue"]) == ("EOFError", "not now")
    assert "stdin.py" not in error["traceback"]


def test_requests_are_answered_after_the_input(kernel: Kernel) -> None:
    request = start(kernel, ASK)
    kernel.send_frame(4, {"id": 1, "method": "complete", "params": {"code": "nam"}})
    answer(kernel, request, value="Ann")
    assert kernel.finish().stdout == "hello Ann\n"
    assert kernel.wait_for("reply")["result"]["matches"] == ["name"]


def test_an_answer_that_comes_too_late(kernel: Kernel) -> None:
    old = start(kernel, "try: input('one')\nexcept KeyboardInterrupt: pass\ninput('two')")
    kernel.interrupt()
    assert kernel.wait_for("input_end")["id"] == old["id"]
    # It may have come together with the end of the other one.
    request = kernel.wait_until(
        lambda event: event[0] == "input_request" and event[1]["id"] != old["id"]
    )[1]
    assert request["prompt"] == "two"
    answer(kernel, old, value="for one")
    answer(kernel, request, value="for two")
    assert kernel.finish().result == "'for two'"
    assert kernel.run("1").result == "1"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "import threading\n"
            "def ask():\n"
            "    try: input()\n"
            "    except Exception as error: print(error)\n"
            "thread = threading.Thread(target=ask); thread.start(); thread.join()",
            "only the main thread can ask",
        ),
        (
            "import os, sys\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    try: input()\n"
            "    except Exception as error: print(error, flush=True)\n"
            "    os._exit(0)\n"
            "_ = os.waitpid(pid, 0)",
            "only the kernel can ask, and this is a child process",
        ),
        (
            "import signal\n"
            "def ask(*_):\n"
            "    try: input()\n"
            "    except Exception as error: print(error)\n"
            "_ = signal.signal(signal.SIGALRM, ask)\n"
            "_ = signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
            "_ = input('outer')",
            "another input is awaited",
        ),
    ],
)
def test_who_cannot_ask(kernel: Kernel, code: str, why: str) -> None:
    kernel.execute(code, allow_stdin=True)
    if "outer" in code:
        request = kernel.wait_for("input_request")
        kernel.wait_for("stdout")
        answer(kernel, request, value="")
    cell = kernel.finish()
    assert f"input() is not available: {why}" in cell.stdout, cell.events


def test_no_cell_runs(kernel: Kernel) -> None:
    cell = kernel.run(
        "import asyncio\n"
        "async def ask():\n"
        "    await asyncio.sleep(0)\n"
        "    try: input()\n"
        "    except Exception as error: print(error)\n"
        "task = asyncio.get_event_loop().create_task(ask())",
        allow_stdin=True,
    )
    # Before the end of the cell, read together with it, or later.
    late = "".join(payload["text"] for name, payload in cell.events if name == "stream")
    if not cell.stdout + late:
        late = kernel.wait_for("stream")["text"]
    assert "no cell runs" in cell.stdout + late


def test_debuggers(kernel: Kernel) -> None:
    request = start(kernel, "def f(a):\n    breakpoint()\n    return a + 1\nf(41)")
    assert request["prompt"] == "ipdb> "
    kernel.take_events()
    answer(kernel, request, value="!a = 1; print('a is', a)")
    request = kernel.wait_for("input_request")
    assert b"a is 1" in b"".join(text for name, text in kernel.take_events() if name == "stdout")
    answer(kernel, request, value="continue")
    assert kernel.finish().result == "2"
    kernel.run("def g(x): return 1 / x\ng(0)")
    request = start(kernel, "%debug")
    kernel.take_events()
    answer(kernel, request, value="p x")
    request = kernel.wait_for("input_request")
    assert ("stdout", b"0\n") in kernel.take_events()
    answer(kernel, request, value="q")
    assert kernel.finish().status == "ok"


def test_a_long_prompt_is_cut(kernel: Kernel) -> None:
    request = start(kernel, "input('x' * 10**6)")
    assert len(request["prompt"]) < 30_000 and "characters left out" in request["prompt"]
    answer(kernel, request, value="")
    kernel.finish()


# --- the terminal ---------------------------------------------------------------------------------


@pytest.fixture
def run(ipybox, place) -> Iterator[Callable[..., Terminal]]:
    terminals = []

    def begin(code: str, *options: str) -> Terminal:
        terminals.append(Terminal([ipybox, "run", *options, "-c", code], place))
        return terminals[-1]

    yield begin
    for terminal in terminals:
        terminal.__exit__()


def test_at_the_terminal(run) -> None:
    terminal = run(ASK + "\nprint('and', input('Again? '))", "--approve", "deny")
    terminal.expect("Name? ")
    terminal.type(" Ann ü \n")
    terminal.expect("hello  Ann ü \r\n")
    terminal.expect("Again? ")
    terminal.type("Bob\n")
    terminal.expect("and Bob")
    assert terminal.wait() == 0


def test_lines_may_be_typed_ahead(run) -> None:
    terminal = run("print([input(f'{i}? ') for i in range(3)])")
    terminal.expect("0? ")
    terminal.type("a\nb\nc\n")
    terminal.expect("['a', 'b', 'c']")
    assert terminal.wait() == 0


def test_what_is_typed_for_a_password_is_not_shown(run) -> None:
    terminal = run("import getpass\np = getpass.getpass()\nprint(len(p), input('User? '))")
    terminal.expect("Password: ")
    terminal.type("secret\n")
    terminal.expect("User? ")
    terminal.type("Ann\n")
    shown = terminal.expect("6 Ann")
    assert "Ann" in shown and terminal.wait() == 0
    assert "secret" not in shown + terminal.seen


def test_the_end_of_the_input_at_the_terminal(run) -> None:
    terminal = run(ASK)
    terminal.expect("Name? ")
    terminal.type("\x04")
    terminal.expect("EOFError: EOF when reading a line")
    assert terminal.wait() == 1


def test_ctrl_c_while_a_cell_waits(run) -> None:
    terminal = run("import getpass\ngetpass.getpass()")
    terminal.expect("Password: ")
    terminal.type("\x03")
    terminal.expect("KeyboardInterrupt")
    assert terminal.wait() == 130


def test_an_interrupted_debugger_of_python_ends(run) -> None:
    terminal = run("import pdb; pdb.set_trace()\nprint('not reached')")
    terminal.expect("(Pdb) ")
    terminal.type("\x03")
    terminal.expect("BdbQuit")
    assert terminal.wait() == 130 and "not reached" not in terminal.seen


def test_control_characters_in_a_prompt(run) -> None:
    terminal = run(r"input('\x1b[2J? ')")
    assert "\x1b" not in terminal.expect("[2J? ")
    terminal.type("\n")
    assert terminal.wait() == 0


def test_the_time_of_a_cell_is_paused(run) -> None:
    terminal = run(ASK, "--timeout", "1")
    terminal.expect("Name? ")
    time.sleep(1.5)  # as a person who thinks for longer than the cell may run
    terminal.type("Ann\n")
    terminal.expect("hello Ann")
    assert terminal.wait() == 0


def test_without_a_terminal(run_ipybox) -> None:
    done = run_ipybox("run", "-c", ASK, stdin="Ann\n")
    assert done.returncode == 1 and NO_TERMINAL in done.stderr


# --- the gateway ----------------------------------------------------------------------------------


@pytest.fixture
def gateway(ipybox, place, python) -> Iterator[Gateway]:
    with Gateway(ipybox, place, "--python", python) as gateway:
        yield gateway


def question(client: Channels, code: str) -> tuple[str, dict]:
    msg_id = client.execute(code, allow_stdin=True)
    request = client.receive_until(msg_id, "input_request")[-1]
    assert request["channel"] == "stdin"
    return msg_id, request["content"]


@pytest.mark.parametrize("v1", [False, True])
def test_jupyter_messages(gateway: Gateway, v1: bool) -> None:
    with gateway.channels(gateway.start_kernel(), v1=v1) as client:
        client.send("input_reply", {"value": "no one asked"}, "stdin")
        msg_id, content = question(client, ASK)
        assert content == {"prompt": "Name? ", "password": False}
        client.send("input_reply", {"value": "Ann"}, "stdin")
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert "".join(c["text"] for c in contents(messages, "stream")) == "hello Ann\n"
        msg_id, content = question(client, "import getpass; getpass.getpass('PIN ')")
        assert content == {"prompt": "PIN ", "password": True}
        client.send("input_reply", {"value": 1}, "stdin")
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert contents(messages, "error")[0]["ename"] == "EOFError"


def test_a_client_that_allows_no_input(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        for options in ({"allow_stdin": False}, {}):
            messages = client.run(ASK, **options)
            error = contents(messages, "error")[0]
            assert "this frontend does not support input requests" in error["evalue"]
            assert "input_request" not in types(messages)


def test_only_the_client_that_is_asked_answers(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client, gateway.channels(kernel) as other:
        msg_id, _ = question(client, ASK)
        other.send("input_reply", {"value": "Eve"}, "stdin")
        assert other.ask("kernel_info_request", {}, "control")["status"] == "ok"
        client.send("input_reply", {"value": "Ann"}, "stdin")
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert contents(messages, "stream")[0]["text"] == "hello Ann\n"
        seen = other.receive_until(msg_id, "status", execution_state="idle")
        assert "input_request" not in types(seen)


def test_the_client_that_is_asked_goes(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as stays:
        with gateway.channels(kernel) as goes:
            msg_id, _ = question(goes, ASK)
        messages = stays.receive_until(msg_id, "status", execution_state="idle")
        assert "has gone" in contents(messages, "error")[0]["evalue"]


def test_interrupting_a_cell_that_waits(gateway: Gateway) -> None:
    kernel = gateway.start_kernel()
    with gateway.channels(kernel) as client:
        msg_id, _ = question(client, "x = 1\n" + ASK)
        assert gateway.request("POST", f"/api/kernels/{kernel}/interrupt", {}) == (204, None)
        messages = client.receive_until(msg_id, "status", execution_state="idle")
        assert contents(messages, "error")[0]["ename"] == "KeyboardInterrupt"
        client.send("input_reply", {"value": "too late"}, "stdin")
        assert contents(client.run("x"), "execute_result")[0]["data"] == {"text/plain": "1"}


# --- MCP ------------------------------------------------------------------------------------------


@pytest.fixture
def mcp(ipybox, place) -> Iterator[Client]:
    with Client(ipybox, place) as client:
        yield client


def test_elicitation(mcp: Client) -> None:
    cell = mcp.start_cell("name = input('Name?\\n> ')\nprint('hello', name)")
    asked = mcp.question()
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["message"] == (
        "Code in a cell asks for input:\n\n    Name?\n    > "
    ) and asked["params"]["requestedSchema"]["required"] == ["value"]
    mcp.reply(asked, result={"action": "accept", "content": {"value": "Ann"}})
    assert mcp.text(cell) == "hello Ann"


@pytest.mark.parametrize(
    "result",
    [
        {"action": "decline"},
        {"action": "accept"},
        {"action": "accept", "content": {"value": 1}},
        {},
    ],
)
def test_an_elicitation_without_a_value(mcp: Client, result: dict) -> None:
    cell = mcp.start_cell(ASK)
    mcp.reply(mcp.question(), result=result)
    assert "EOFError: the user gave no input" in mcp.text(cell)


def test_elicitations_that_are_not_made(mcp: Client) -> None:
    assert "must not ask for passwords" in mcp.text(
        mcp.start_cell("import getpass; getpass.getpass()")
    )
    assert "the prompt is too long" in mcp.text(mcp.start_cell("input('x' * 5000)"))
    assert not mcp.waiting()


def test_a_client_without_elicitation(ipybox, place) -> None:
    with Client(ipybox, place, initialize=False) as client:
        client.initialize(roots={})
        assert NO_TERMINAL in client.text(client.start_cell(ASK))


def test_a_cell_that_is_cancelled_while_it_waits(mcp: Client) -> None:
    cell = mcp.start_cell("x = 1\n" + ASK)
    asked = mcp.question()
    mcp.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cell}})
    while not any(
        message.get("method") == "notifications/cancelled"
        and message["params"]["requestId"] == asked["id"]
        for message in mcp.notifications
    ):
        mcp.receive()
    assert mcp.text(mcp.start_cell("x")) == "1"


# --- JSON-RPC -------------------------------------------------------------------------------------


def test_rpc(ipybox, place) -> None:
    with RpcCore(ipybox, place) as core:
        session = core.open()
        cell = core.request("session.execute", session=session, code=ASK, allow_stdin=True)
        event = core.wait_for_event(cell, "input_request")
        assert (event["prompt"], event["password"]) == ("Name? ", False)
        number = event["input"]
        for wrong in ({}, {"value": "a", "refusal": "b"}, {"value": 1}):
            with pytest.raises(RpcError, match="value"):
                core.call("session.answer_input", session=session, input=number, **wrong)
        with pytest.raises(RpcError, match="1048576 are allowed"):
            core.call("session.answer_input", session=session, input=number, value="x" * 2**21)
        assert core.call("session.answer_input", session=session, input=number, value="Ann") == {}
        assert core.wait(cell)["text"] == "hello Ann"
        with pytest.raises(RpcError, match="does not wait"):
            core.call("session.answer_input", session=session, input=number, value="Ann")


def test_rpc_input_that_takes_too_long(ipybox, place) -> None:
    with RpcCore(ipybox, place) as core:
        session = core.open()
        cell = core.request(
            "session.execute", session=session, code=ASK, allow_stdin=True, input_timeout=0.2
        )
        number = core.wait_for_event(cell, "input_request")["input"]
        assert core.wait_for_event(cell, "input_withdrawn") == {
            "type": "input_withdrawn",
            "input": number,
        }
        answer = core.wait(cell)
        assert answer["status"] == "error"
        assert re.search(r"EOFError: no answer came within 0\.2 s", answer["error"]["text"])


def test_what_is_typed_is_not_recorded(ipybox, place) -> None:
    record = place.workspace / "record.jsonl"
    with RpcCore(ipybox, place) as core:
        session = core.open(record=str(record))
        code = "import getpass\np = getpass.getpass()\nlen(p)"
        cell = core.request("session.execute", session=session, code=code, allow_stdin=True)
        number = core.wait_for_event(cell, "input_request")["input"]
        core.call("session.answer_input", session=session, input=number, value="secret")
        assert core.wait(cell)["text"] == "6"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    asked = [line for line in lines if line["type"] == "input_request"]
    assert [(line["prompt"], line["password"]) for line in asked] == [("Password: ", True)]
    assert "secret" not in record.read_text()
