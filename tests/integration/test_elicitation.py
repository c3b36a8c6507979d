# SPDX-License-Identifier: Apache-2.0
"""The MCP server asks the client's user about tool calls: questions, answers, and their ends."""

from __future__ import annotations

import contextlib
import json

import pytest
import scripted_server
from mcp_driver import YES, Client

CALL = """
from mcptools.time import convert_time as c

def convert(zone="UTC"):
    try:
        params = c.Params(source_timezone=zone, time="12:00", target_timezone="UTC")
        return c.run(params).target.datetime[11:16]
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print(convert())
"""


@pytest.fixture
def start(ipybox, place, run_ipybox):
    done = run_ipybox(
        "apigen",
        "--server-name",
        "time",
        "--server-params",
        json.dumps(scripted_server.params("clock")),
    )
    assert done.returncode == 0, done.stderr
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(
            Client(ipybox, place, "--approve", "ask", *args, **options)
        )


def test_the_question(start):
    client = start()
    cell = client.start_cell(CALL)
    question = client.question()
    assert question["method"] == "elicitation/create"
    # Indented by four spaces, which Markdown shows as it is.
    assert question["params"]["message"] == (
        "Code in a cell calls a tool:\n\n    Tool call: time.convert_time\n    Arguments:\n"
        '      "source_timezone": "UTC"\n      "time": "12:00"\n      "target_timezone": "UTC"'
    )
    schema = question["params"]["requestedSchema"]
    assert schema["properties"]["decision"]["enum"] == ["allow", "deny"] and schema["required"] == [
        "decision"
    ]
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


def test_a_question_that_is_closed_says_what_to_do(start):
    """A host that runs without a person closes all questions."""
    client = start()
    cell = client.start_cell(CALL)
    client.reply(client.question(), result={"action": "cancel"})
    text = client.text(cell)
    assert "ApprovalRejectedError" in text and "closed the question without an answer" in text
    assert "--approve" in text


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


THREADS = (
    CALL.replace("print(convert())", "")
    + """
from concurrent.futures import ThreadPoolExecutor
zones = ["UTC", "Asia/Tokyo", "Africa/Cairo"]
with ThreadPoolExecutor(3) as pool:
    print([text[:5] for text in pool.map(convert, zones)])
"""
)


def test_several_questions_one_after_the_other(start):
    client = start()
    cell = client.start_cell(THREADS)
    for _ in range(3):
        question = client.question()
        assert client.answer(client.request("ping"))["result"] == {} and client.waiting() == [
            question
        ]
        tokyo = "Tokyo" in question["params"]["message"]
        client.reply(question, result={"action": "decline"} if tokyo else YES)
    assert client.text(cell) == "['12:00', 'Appro', '10:00']"


def test_the_answer_to_a_withdrawn_question_is_for_no_other(start):
    """When the first call is cancelled, the second is asked for.

    Then a late yes to the first arrives.
    """
    client = start()
    client.cell("from mcptools.time import CLIENT")
    cell = client.start_cell("""
import asyncio
async def ask(zone):
    return await CLIENT.run("get_current_time", {"timezone": zone})
first, second = [asyncio.create_task(ask(zone)) for zone in ("UTC", "Asia/Tokyo")]
try:
    await asyncio.wait_for(first, 1)
except asyncio.TimeoutError:
    pass
try:
    print(await second)
except Exception as error:
    print(type(error).__name__)
""")
    first = client.question()
    while client.waiting() == [first]:
        client.receive()
    second = client.waiting()[1]
    assert '"UTC"' in first["params"]["message"] and '"Asia/Tokyo"' in second["params"]["message"]
    client.reply(first, result=YES)
    assert client.answer(client.request("ping"))["result"] == {} and client.waiting() == [second]
    client.reply(second, result={"action": "decline"})
    assert client.text(cell) == "ApprovalRejectedError"


def test_a_question_that_nobody_waits_for_is_taken_back(start):
    client = start()
    cell = client.start_cell(CALL)
    question = client.question()
    client.notify("notifications/cancelled", {"requestId": cell})
    while not (
        cancelled := [m for m in client.notifications if m["method"] == "notifications/cancelled"]
    ):
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
    """The cell has half a second.

    While its call waits, its clock is paused and other requests are answered.
    """
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


@pytest.fixture
def fake(ipybox, place):
    """A client with a server that echoes, and a function that calls it."""
    with Client(ipybox, place, "--approve", "ask") as client:
        assert "echo_json" in client.register("fake", scripted_server.params("results"))
        client.cell("""
from mcptools.fake import CLIENT

def call(**arguments):
    try:
        return CLIENT.run_sync("echo_json", arguments)["text"]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
""")
        yield client


def test_hostile_arguments_are_shown_as_what_they_are(fake):
    cell = fake.start_cell("print(call(value='\\x1b[2J\\u202e\\n\\n# Allow <!-- \\u200b', é=1.50))")
    question = fake.question()
    assert question["params"]["message"].endswith(
        '\n      "value": "\\u001b[2J\\u202e\\n\\n# Allow <!-- \\u200b"\n      "é": 1.5'
    )
    fake.reply(question, result=YES)
    assert json.loads(fake.text(cell)) == {
        "value": "\x1b[2J\u202e\n\n# Allow <!-- \u200b",
        "é": 1.5,
    }


@pytest.mark.parametrize(("arguments", "shown"), [
    ("value='x' * 3900", True), ("value='x' * 4000", False),
    ("**{f'a{i}': i for i in range(62)}", True), ("**{f'a{i}': i for i in range(63)}", False),
    ("value='x' * 2_000_000", False),
])  # fmt: skip
def test_what_the_user_could_not_see_is_refused(fake, arguments, shown):
    cell = fake.start_cell(f"print(call({arguments}))")
    if shown:
        message = fake.question()["params"]["message"]
        assert message.count("x") in (0, 3900) and max(map(len, message.splitlines())) <= 80
        fake.reply(fake.question(), result={"action": "decline"})
        assert "rejected" in fake.text(cell)
        return
    text = fake.text(cell)
    assert text.startswith("ApprovalRejectedError") and "--approve" in text and not fake.waiting()
    assert "the question is too long" in text
