# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc`: output and input of commands, and clients that use them wrongly."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from meeting import wait_until_reaped
from rpc_driver import RpcCore, RpcError, peak_memory, wait_until_full

MIB = 1024 * 1024


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place) as core:
        yield core


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def start(core: RpcCore, session: str, script: str, **options: object) -> int:
    argv = ["/bin/sh", "-c", script]
    return core.request("session.run_command", session=session, argv=argv, events=True, **options)


def output(core: RpcCore, id: int, stream: str = "stdout") -> bytes:
    """What has come so far."""
    events = [event for event in core.events(id) if event["stream"] == stream]
    assert all(event["type"] == "output" for event in events)
    return b"".join(base64.b64decode(event["data"]) for event in events)


def refused(core: RpcCore, method: str, **params: object) -> str:
    with pytest.raises(RpcError) as caught:
        core.call(method, **params)
    return caught.value.kind


def test_events_come_before_the_answer(core):
    id = start(core, core.open(), "echo out; echo err >&2; exit 3")
    answer = core.wait(id)
    assert (answer["exit_status"], answer["stdout"], answer["stderr"]) == (3, "", "")
    assert (output(core, id), output(core, id, "stderr")) == (b"out\n", b"err\n")


def test_parameters(core):
    session = core.open()
    for params, message in (
        ({"events": True, "max_output": 1}, "max_output must be absent"),
        ({"events": 1}, "events must be true or false"),
        ({"open_stdin": "yes"}, "open_stdin must be true or false"),
    ):
        with pytest.raises(RpcError, match=message):
            core.call("session.run_command", session=session, argv=["true"], **params)
    id = start(core, session, "cat", open_stdin=True)
    for method, params, message in (
        ("command.write_stdin", {}, "data must be a string in base64"),
        ("command.write_stdin", {"data": "???"}, "data must be a string in base64"),
        ("command.signal", {}, "signal must be the number of a signal"),
        ("command.signal", {"signal": 0}, "signal must be an integer from 1 to 64"),
        ("command.signal", {"signal": 65}, "signal must be an integer from 1 to 64"),
    ):
        with pytest.raises(RpcError, match=message):
            core.call(method, request=id, **params)
    with pytest.raises(RpcError, match="request must be the id of a request"):
        core.call("command.close_stdin", request=None)
    core.call("command.close_stdin", request=id)
    assert core.wait(id)["exit_status"] == 0


def test_only_commands_that_run_are_found(core):
    session = core.open()
    cell = core.request("session.execute", session=session, code="input()", allow_stdin=True)
    core.wait_for_event(cell, "input_request")
    ended = start(core, session, "true")
    core.wait(ended)
    methods = {
        "command.pause": {},
        "command.resume": {},
        "command.close_stdin": {},
        "command.write_stdin": {"data": ""},
        "command.signal": {"signal": 9},
    }
    for method, params in methods.items():
        for id in (cell, ended, str(ended), 12345):
            assert refused(core, method, request=id, **params) == "not_found"
        core.notify(method, request=ended, **params)
    core.call("session.cancel", request=cell)
    assert core.wait(cell)["status"] == "cancelled"


def test_a_paused_command_says_nothing_and_others_do(core):
    session = core.open()
    id = start(core, session, "yes")
    core.wait_for_event(id, "output")
    assert core.call("command.pause", request=id) == {}
    core.notifications.clear()
    assert core.text(session, "1") == "1"
    other = start(core, session, "echo other")
    core.wait(other)
    assert output(core, other) == b"other\n" and core.events(id) == []
    # The pause of the session is another one.
    core.call("session.pause", session=session)
    core.notify("command.resume", request=id)
    core.wait_for_event(id, "output")
    core.notify("command.pause", request=id)
    core.notify("command.signal", request=id, signal=9)
    assert core.wait(id)["signal"] == 9


def test_a_kept_output_is_not_paused(core):
    session = core.open()
    argv = ["head", "-c", "3000000", "/dev/zero"]
    id = core.request("session.run_command", session=session, argv=argv)
    core.notify("command.pause", request=id)
    assert len(base64.b64decode(core.wait(id)["stdout"])) == 3_000_000


def test_a_client_that_does_not_read_makes_commands_wait(core, workspace):
    session = core.open()
    script = "head -c 40000000 /dev/zero; echo x > ended.$0"
    ids = [
        core.request(
            "session.run_command",
            session=session,
            argv=["/bin/sh", "-c", script, str(i)],
            events=True,
        )
        for i in range(4)
    ]
    sizes = dict.fromkeys(ids, 0)
    while any(id not in core.answers for id in ids):
        core.receive()
        for id in ids:
            sizes[id] += len(output(core, id))
        core.notifications.clear()
        if sum(sizes.values()) < 30_000_000:
            assert not list(workspace.glob("ended.*"))
    assert set(sizes.values()) == {40_000_000}
    if "asan" not in core.process.args[0]:
        assert peak_memory(core.process.pid) < 100 * MIB


def test_input_that_waits_is_limited(core):
    session = core.open()
    id = start(core, session, "echo begun; exec sleep 1001", open_stdin=True)
    core.wait_for_event(id, "output")
    piece = encode(bytes(16 * MIB))
    writes = [core.request("command.write_stdin", request=id, data=piece) for _ in range(2)]
    assert refused(core, "command.write_stdin", request=id, data=piece) == "limit"
    small = core.request("command.write_stdin", request=id, data=encode(b"x"))
    # The wait can be cancelled, and the end of the command ends the others.
    core.call("session.cancel", request=small)
    with pytest.raises(RpcError) as caught:
        core.wait(small)
    assert caught.value.kind == "cancelled"
    core.call("command.signal", request=id, signal=9)
    for write in writes:
        with pytest.raises(RpcError) as caught:
            core.wait(write)
        assert caught.value.kind == "not_found"
    assert core.wait(id)["signal"] == 9


def test_closing_follows_what_waits(core):
    session = core.open()
    script = "echo begun; while [ ! -e go ]; do sleep 0.01; done; wc -c"
    id = start(core, session, script, open_stdin=True, input=encode(b"abc"))
    core.wait_for_event(id, "output")
    write = core.request("command.write_stdin", request=id, data=encode(bytes(MIB)))
    core.call("command.close_stdin", request=id)
    assert refused(core, "command.write_stdin", request=id, data=encode(b"x")) == "not_found"
    core.wait(core.request("session.run_command", session=session, argv=["touch", "go"]))
    assert core.wait(write) == {}
    assert core.wait(id)["exit_status"] == 0
    assert output(core, id) == f"begun\n{MIB + 3}\n".encode()


def test_without_open_stdin_there_is_no_more_input(core):
    id = start(core, core.open(), "cat; echo begun; exec sleep 1001")
    core.wait_for_event(id, "output")
    assert refused(core, "command.write_stdin", request=id, data=encode(b"x")) == "not_found"
    core.call("command.close_stdin", request=id)
    core.call("session.cancel", request=id)
    with pytest.raises(RpcError) as caught:
        core.wait(id)
    assert caught.value.kind == "cancelled"


@pytest.mark.parametrize("end", ["session.close", "session.reset"])
def test_the_session_ends(core, end):
    session = core.open()
    id = start(core, session, "echo begun; yes", open_stdin=True)
    silent = start(core, session, "exec sleep 1001", open_stdin=True)
    write = core.request("command.write_stdin", request=silent, data=encode(bytes(MIB)))
    core.wait_for_event(id, "output")
    core.notify("command.pause", request=id)
    ending = core.request(end, session=session)
    for each in (id, silent, write):
        with pytest.raises(RpcError) as caught:
            core.wait(each)
        assert caught.value.kind in ("cancelled", "busy", "not_found")
    assert core.wait(ending) == {}
    assert refused(core, "command.signal", request=id, signal=9) == "not_found"


def test_the_core_ends_while_the_client_does_not_read(ipybox, place):
    core = RpcCore(ipybox, place)
    session = core.open()
    core.text(session, "1")
    id = start(core, session, "echo $$ > pid; exec yes")
    core.wait_for_event(id, "output")
    pid = int((place.workspace / "pid").read_text())
    wait_until_full(core.process.stdout.fileno())
    core.process.stdin.close()
    assert core.process.wait(60) == 0
    core.process.stdout.close()
    wait_until_reaped(pid)
