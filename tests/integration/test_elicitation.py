# SPDX-License-Identifier: Apache-2.0
"""The MCP server asks the client's user about tool calls: questions, answers, and their ends."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest
from mcp_driver import YES, Client

FAKE = Path(__file__).with_name("fake_server.py")
CALL = """
from mcptools.time import convert_time as c

def convert(zone="UTC"):
    try:
        return c.run(c.Params(source_timezone=zone, time="12:00", target_timezone="UTC")).target.datetime[11:16]
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print(convert())
"""


@pytest.fixture
def start(ipybox, place, run_ipybox, servers):
    done = run_ipybox("apigen", "--server-name", "time", "--server-params", json.dumps(servers.time()))
    assert done.returncode == 0, done.stderr
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(Client(ipybox, place, "--approve", "ask", *args, **options))


def test_the_question(start):
    client = start()
    cell = client.start_cell(CALL)
    question = client.question()
    assert question["method"] == "elicitation/create"
    assert "time.convert_time" in question["params"]["message"]
    assert '{"source_timezone":"UTC"' in question["params"]["message"].replace(": ", ":")
    schema = question["params"]["requestedSchema"]
    assert schema["properties"]["decision"]["enum"] == ["allow", "deny"] and schema["required"] == ["decision"]
    client.reply(question, result=YES)
    assert client.text(cell) == "12:00"


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "accept", "content": {"decision": "deny"}},
        {"action": "accept", "content": {"decision": "Allow"}},
        {"action": "accept", "content": {}},
        {"action": "accept"},
        {"action": "decline"},
        {"action": "cancel", "content": {"decision": "allow"}},
        {},
    ],
)
def test_what_is_no_clear_yes_is_a_no(start, answer):
    client = start()
    cell = client.start_cell(CALL)
    client.reply(client.question(), result=answer)
    assert "ApprovalRejectedError" in client.text(cell)


def test_an_error_is_a_no_that_says_why(start):
    client = start()
    cell = client.start_cell(CALL)
    client.reply(client.question(), error={"code": -32601, "message": "no such method"})
    text = client.text(cell)
    assert "ApprovalRejectedError" in text and "no such method" in text and "--approve" in text


@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        ("2025-11-25", {"roots": {}}),
        ("2025-11-25", {"elicitation": {"url": {}}}),
        ("2025-11-25", {"elicitation": True}),
        ("2025-03-26", {"elicitation": {}}),
    ],
)
def test_a_client_that_cannot_ask(start, version, capabilities):
    client = start(initialize=False)
    client.initialize(version, **capabilities)
    text = client.text(client.start_cell(CALL))
    assert "offers no way to ask its user" in text and "--approve" in text
    assert not client.waiting()


def test_forms_named(start):
    client = start(initialize=False)
    client.initialize("2025-06-18", elicitation={"form": {}, "url": {}})
    cell = client.start_cell(CALL)
    client.reply(client.question(), result=YES)
    assert client.text(cell) == "12:00"


def test_several_questions_at_once(start):
    client = start()
    threads = CALL + """
from concurrent.futures import ThreadPoolExecutor
zones = ["UTC", "Asia/Tokyo", "Africa/Cairo"]
with ThreadPoolExecutor(3) as pool:
    print([text[:5] for text in pool.map(convert, zones)])
"""
    cell = client.start_cell(threads.replace("print(convert())", ""))
    while len(client.waiting()) < 3:
        client.receive()
    for question in list(reversed(client.waiting())):
        tokyo = "Tokyo" in question["params"]["message"]
        client.reply(question, result={"action": "decline"} if tokyo else YES)
    assert client.text(cell) == "['12:00', 'Appro', '10:00']"


def test_a_question_that_nobody_waits_for_is_taken_back(start):
    client = start()
    cell = client.start_cell(CALL)
    question = client.question()
    client.notify("notifications/cancelled", {"requestId": cell})
    while not (cancelled := [m for m in client.notifications if m["method"] == "notifications/cancelled"]):
        client.receive()
    assert cancelled[0]["params"]["requestId"] == question["id"]
    # An answer that comes too late changes nothing.
    client.reply(question, result=YES)
    assert client.cell("1 + 1") == "2"


def test_a_question_has_its_time(start):
    client = start("--approval-timeout", "0.2")
    cell = client.start_cell(CALL)
    client.question()
    assert "ApprovalTimeoutError" in client.text(cell)
    assert any(message["method"] == "notifications/cancelled" for message in client.notifications)


def test_the_wait_is_not_the_cells(start):
    """The cell has half a second; while its call waits, other requests are answered and its clock stands."""
    client = start()
    client.cell("from mcptools.time import convert_time")
    cell = client.start_cell("import time\n" + CALL, timeout=30)
    question = client.question()
    assert client.answer(client.request("ping"))["result"] == {}
    client.reply(question, result=YES)
    assert client.text(cell) == "12:00"


def test_the_client_goes_while_it_is_asked(start):
    client = start()
    client.start_cell(CALL)
    client.question()
    assert client.close() == 0


def test_hostile_arguments_are_shown_harmless_and_cut(ipybox, place):
    params = {"command": sys.executable, "args": [str(FAKE)]}
    with Client(ipybox, place, "--approve", "ask") as client:
        modules = client.register("fake", params)
        assert "echo_json" in modules
        cell = client.start_cell(
            "from mcptools.fake import echo_json as e\n"
            "try:\n    e.run(e.Params(value='\\x1b[2J\\u202e' + 'x' * 10000))\nexcept Exception as error:\n    print('no')"
        )
        message = client.question()["params"]["message"]
        assert "\x1b" not in message and "\u202e" not in message and "the first 4000 of" in message
        assert len(message) < 4300
        client.reply(client.question(), result={"action": "decline"})
        assert client.text(cell) == "no"
