# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc` with wrong, greedy and slow clients.

The response says what is wrong; nothing hangs, nothing grows.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
from rpc_driver import RpcCore, RpcError, peak_memory, wait_until_full

MIB = 1 << 20


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place, stderr=subprocess.DEVNULL) as core:
        yield core


# --- wrong messages ---


# A line, and the code and id of its error response; None: there is none.
LINES = [
    ("nonsense", -32700, None),
    ('{"jsonrpc": "2.0", "id": 7, "method": "session.open"', -32700, 7),
    ("[" * 100_000, -32700, None),
    ('"text"', -32600, None),
    ("[]", -32600, None),
    ('[{"jsonrpc": "2.0", "id": 7, "method": "session.open"}]', -32600, None),
    ('{"id": 7, "method": "session.open"}', -32600, 7),
    ('{"jsonrpc": "1.0", "id": 7, "method": "session.open"}', -32600, 7),
    ('{"jsonrpc": "2.0", "id": 7}', -32600, 7),
    ('{"jsonrpc": "2.0", "id": 7, "result": {}}', None, None),
    ('{"jsonrpc": "2.0", "id": 7, "method": 1}', -32600, 7),
    ('{"jsonrpc": "2.0", "id": null, "method": "session.open"}', -32600, None),
    ('{"jsonrpc": "2.0", "id": {}, "method": "session.open"}', -32600, None),
    ('{"jsonrpc": "2.0", "id": 7, "method": "session.open", "params": 1}', -32600, 7),
    ('{"jsonrpc": "2.0", "id": 7, "method": "session.open", "params": []}', -32602, 7),
    ('{"jsonrpc": "2.0", "id": 7, "method": "session.nosuch", "params": {}}', -32601, 7),
    ('{"jsonrpc": "2.0", "id": "seven", "method": "session.nosuch"}', -32601, "seven"),
    ('{"jsonrpc": "2.0", "method": "session.open", "params": 3}', -32600, None),
    ('{"jsonrpc": "2.0", "method": "session.nosuch"}', None, None),
    ('{"jsonrpc": "2.0", "method": "session.pause", "params": {"session": 1}}', None, None),
]


def test_what_is_no_message_is_told_and_forgotten(core):
    for line, code, id in LINES:
        core.send(line)
        next = core.request("session.open", workspace=core.workspace)
        if code is not None:
            answer = core.receive()
            assert (answer["error"]["code"], answer.get("id")) == (code, id), line
        assert core.receive()["id"] == next, line


def test_the_handshake_comes_first(ipybox, place):
    with RpcCore(ipybox, place, initialize=False) as core:
        with pytest.raises(RpcError, match="initialize must come first"):
            core.open()
        for protocol in (2, "1", None):
            with pytest.raises(RpcError, match="protocol must be") as caught:
                core.call("initialize", protocol=protocol)
            assert caught.value.code == -32602
        assert core.call("initialize", protocol=1, client=None)["protocol"] == 1


WRONG = {
    "session.open": [
        ({}, "workspace must be an absolute path"),
        ({"workspace": "here"}, "workspace must be an absolute path"),
        ({"workspace": 1}, "workspace must be a string"),
        ({"workspace": "/a\0b"}, "workspace must be a string without NUL"),
        ({"workspace": "/", "preload": "numpy"}, "preload must be an array of strings"),
        ({"workspace": "/", "preload": ["a", 1]}, "preload must be an array of strings"),
        ({"workspace": "/", "kernel_env": {"A": 1}}, "kernel_env must be an object of strings"),
        ({"workspace": "/", "kernel_env": {"A=B": "1"}}, "kernel_env must be an object of strings"),
        ({"workspace": "/", "env": []}, "env must be an object of strings"),
        ({"workspace": "/", "approval": "maybe"}, 'approval must be one of "allow", "ask", "deny"'),
        ({"workspace": "/", "seed": -1}, "seed must be an integer from 0 to 4294967295"),
        ({"workspace": "/", "seed": 1.5}, "seed must be an integer"),
        (
            {"workspace": "/", "approval_timeout": 0},
            "approval_timeout must be a number of seconds above 0",
        ),
        (
            {"workspace": "/", "approval_timeout": "1"},
            "approval_timeout must be a number of seconds",
        ),
        ({"workspace": "/", "sandbox": 1}, "sandbox must be true or false"),
        (
            {"workspace": "/", "sandbox_config": "/x"},
            "sandbox must be true if there is a sandbox_config",
        ),
        ({"workspace": "/", "no_such_option": 1}, 'there is no parameter "no_such_option"'),
    ],
    "session.execute": [
        ({"code": "1"}, "session must be a string"),
        ({"session": "s1"}, "code must be a string"),
        ({"session": "s1", "code": "a\0b"}, "code must be a string without NUL"),
        (
            {"session": "s1", "code": "1", "timeout": -1},
            "timeout must be a number of seconds above 0",
        ),
        ({"session": "s1", "code": "1", "max_text_chars": -1}, "max_text_chars must be an integer"),
        ({"session": "s1", "code": "1", "events": "yes"}, "events must be true or false"),
        ({"session": "s1", "code": "1", "approval": 1}, "approval must be a string"),
    ],
    "session.cancel": [
        ({}, "request must be the id of a request"),
        ({"request": {}}, "request must be the id of a request"),
    ],
    "session.register": [
        ({"session": "s1", "server_name": "x"}, "server_params must be an object")
    ],
    "session.install": [({"session": "s1"}, "package must be a string")],
    "sources.generate": [
        ({"server_name": "x", "server_params": {}}, "root_dir must be an absolute path")
    ],
    "mcp.connect": [({"server_params": []}, "server_params must be an object")],
    "mcp.call": [({"client": "c1"}, 'no connection "c1" is open'), ({}, "client must be a string")],
}


def test_wrong_parameters(core):
    assert core.open() == "s1"
    for method, cases in WRONG.items():
        for params, message in cases:
            with pytest.raises(RpcError) as caught:
                core.call(method, **params)
            assert str(caught.value).startswith(message), (method, params)
            assert caught.value.code == -32602 or caught.value.kind == "not_found"


def test_right_parameters_that_cannot_be_honoured(core, workspace):
    (workspace / "rules.json").write_text("[]")
    for options, kind in (
        ({"workspace": "/no/such/directory"}, "not_found"),
        ({"python": "/no/such/python"}, "not_found"),
        ({"approval_rules": str(workspace / "rules.json")}, "invalid"),
        ({"approval_rules": "/no/such/file"}, "not_found"),
        ({"audit_log": "/no/such/directory/log"}, "system"),
    ):
        with pytest.raises(RpcError) as caught:
            core.open(**options)
        assert caught.value.kind == kind, caught.value


def test_an_id_that_is_in_use(core):
    session = core.open()
    core.request("session.execute", session=session, code="import time; time.sleep(60)")
    core.send(
        {
            "jsonrpc": "2.0",
            "id": core.last_id,
            "method": "session.open",
            "params": {"workspace": core.workspace},
        }
    )
    with pytest.raises(RpcError, match="a request with this id is under way"):
        core.wait(core.last_id)
    # 1 is not "1".
    core.send(
        {
            "jsonrpc": "2.0",
            "id": str(core.last_id),
            "method": "session.open",
            "params": {"workspace": core.workspace},
        }
    )
    assert core.wait(str(core.last_id))["session"] == "s2"


def test_answers_that_nobody_asked_for(core):
    for id in (0, 1, -1, 10**30, "1", None, [], 1.5):
        core.send({"jsonrpc": "2.0", "id": id, "result": {"accept": True}})
        core.send({"jsonrpc": "2.0", "id": id, "error": 1})
    assert core.open() == "s1"


# --- much ---


def test_a_hundred_sessions_at_once(core):
    sessions = [core.open() for _ in range(100)]
    ids = [
        core.request("session.execute", session=s, code=f"print({i}); x = {i}")
        for i, s in enumerate(sessions)
    ]
    assert [core.wait(id)["text"] for id in ids] == [str(i) for i in range(100)]
    ids = [core.request("session.execute", session=s, code="x", events=True) for s in sessions]
    assert [core.wait(id)["text"] for id in ids] == [str(i) for i in range(100)]


def test_more_sessions_than_there_may_be(core):
    ids = [core.request("session.open", workspace=core.workspace) for _ in range(1001)]
    for id in ids[:-1]:
        core.wait(id)
    with pytest.raises(RpcError, match="1000 sessions are open") as caught:
        core.wait(ids[-1])
    assert caught.value.kind == "limit"


def test_more_pythons_than_there_may_be(core):
    sessions = [core.open(preload=[f"module_{i}"]) for i in range(16)]
    core.open(preload=["module_3"])
    with pytest.raises(RpcError, match="16 different Pythons") as caught:
        core.open(preload=["module_16"])
    assert caught.value.kind == "limit"
    core.text(sessions[5], "1")
    core.call("session.close", session=sessions[5])
    assert core.text(core.open(preload=["module_16"]), "1") == "1"
    with pytest.raises(RpcError, match="16 different Pythons"):
        core.open(preload=["module_5"])


def test_large_messages(core):
    session = core.open()
    code = "x = '" + "ä" * MIB + "'\nprint(x)\nlen(x)"
    result = core.execute(session, code)
    assert result["text"] == "ä" * MIB + f"\n{MIB}"
    with pytest.raises(RpcError, match="the code is larger than 32 MiB") as caught:
        core.execute(session, "#" * (33 * MIB))
    assert caught.value.kind == "limit"
    result = core.execute(session, "print('\\x01' * (20 * 1024 * 1024))")
    beginning, cut, end = re.split(r"(\n\n\[Output cut here: .*\]\n\n)", result["text"])
    assert len(beginning + end) == 16 * MIB and result["truncated"]
    assert cut.strip() == f"[Output cut here: {4 * MIB} of {20 * MIB} characters left out]"
    result = core.execute(session, "for _ in range(9): display({'a/b': 'x' * (5 << 20)}, raw=True)")
    assert len(result["display_data"]) == 6 and result["truncated"]


# --- slow ---


def test_a_client_that_does_not_read_makes_the_kernel_wait(core, workspace):
    session = core.open()
    other = core.open()
    core.text(session, "1")
    code = "for i in range(150): print('x' * 1_000_000)\n_ = open('ended', 'w')"
    id = core.request("session.execute", session=session, code=code, events=True, max_text_chars=10)
    wait_until_full(core.process.stdout.fileno())
    size = 0
    while id not in core.answers:
        core.receive()
        size += sum(len(event.get("text", "")) for event in core.events(id))
        core.notifications.clear()
        if size < 50_000_000:
            assert not (workspace / "ended").exists()
    assert size == 150 * 1_000_001
    cut = "\n\n[Output cut here: 150000139 of 150000149 characters left out]\n\n"
    assert core.wait(id)["text"] == "x" * 6 + cut + "x" * 4
    assert core.text(other, "2") == "2"
    if "asan" not in core.process.args[0]:
        assert peak_memory(core.process.pid) < 100 * MIB


def test_it_can_be_ended_while_the_client_does_not_read(ipybox, place):
    core = RpcCore(ipybox, place)
    session = core.open()
    core.text(session, "1")
    core.request(
        "session.execute", session=session, code="while True: print('x' * 1_000_000)", events=True
    )
    wait_until_full(core.process.stdout.fileno())
    core.process.stdin.close()
    assert core.process.wait(60) == 0
    core.process.stdout.close()


def test_a_client_that_closes_its_end(ipybox, place):
    core = RpcCore(ipybox, place)
    session = core.open()
    core.text(session, "1")
    core.process.stdout.close()
    core.request(
        "session.execute", session=session, code="while True: print('x' * 1_000_000)", events=True
    )
    assert core.process.wait(60) == 1
    core.process.stdin.close()


def test_a_paused_session_says_nothing_and_others_do(core):
    session, other = core.open(), core.open()
    id = core.request(
        "session.execute", session=session, code="while True: print('x' * 1000)", events=True
    )
    core.wait_for_event(id, "text")
    assert core.call("session.pause", session=session) == {}
    core.notifications.clear()
    assert core.text(other, "1") == "1"
    assert core.events(id) == []
    core.notify("session.resume", session=session)
    core.wait_for_event(id, "text")
    core.notify("session.pause", session=session)
    assert core.call("session.close", session=session) == {}
    assert core.wait(id)["status"] == "lost"
