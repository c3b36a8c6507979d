# SPDX-License-Identifier: Apache-2.0
"""scripts/check-load: a small run of it, and what it refuses."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--seconds=6", "--principals=5", "--sessions=12", "--rate=8", "--idle=50", "--pool=2"]


@pytest.fixture(scope="module")
def check(load_script):
    return load_script("check-load")


def test_a_small_run():
    """No cell is lost or gets another answer, while others disturb."""
    command = [sys.executable, str(ROOT / "scripts/check-load"), *SMALL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 sessions after" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(" passed, 0 failed")
    # The connections that send nothing are still there.
    assert ["idle", "50"] in [line.split() for line in done.stdout.splitlines()]


def test_the_committed_results(check):
    """They are of the sizes that the documents name, and nothing was lost."""
    report = json.loads(check.RESULTS.read_text())
    assert max(run["sessions"] for run in report["runs"]) == 1000
    assert max(run["idle"] for run in report["runs"]) == 10000
    for run in report["runs"]:
        assert run["cells"] + run["late"] == int(run["seconds"] * run["rate"])
        assert run["principals"] == 200


@pytest.fixture
def load(check):
    """A client whose server is this test."""
    server = argparse.Namespace(port=1, pid=1)
    load = check.Load(server, ["t" * 32], check.Found())
    load.sessions = [check.Session(load.accesses[0], id="s")]
    return load


def answer_with(check, monkeypatch, text: str, number: int | None = None) -> None:
    async def send(self, request: bytes):
        message = json.loads(request.partition(b"\r\n\r\n")[2])
        body = {
            "id": message["id"] if number is None else number,
            "result": {"content": [{"type": "text", "text": text}]},
        }
        data = json.dumps(body).encode()
        answer = Answer()
        answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        return answer

    from mcp_http import Answer  # check-load has put its directory into the path

    monkeypatch.setattr(check.AsyncConnection, "send", send)


@pytest.mark.parametrize("text", ["", "0123456789abcdef 1 7", "{secret} 2 {nonce}", "{secret} 1 x"])
def test_a_wrong_answer_is_noticed(check, load, monkeypatch, text):
    """Nothing, another session's, that of a cell that ran twice, that of another cell."""
    monkeypatch.setattr(check.random, "getrandbits", lambda bits: 0xABC)
    session = load.sessions[0]
    right = f"{session.secret} 1 abc"
    answer_with(check, monkeypatch, right)
    asyncio.run(load.cell(session))
    assert (load.found.cells, load.found.problems) == (1, [])
    session.count = 0
    answer_with(check, monkeypatch, text.format(secret=session.secret, nonce="abc"))
    asyncio.run(load.cell(session))
    assert load.found.cells == 1 and len(load.found.problems) == 1


def test_an_answer_to_another_request_is_noticed(check, load, monkeypatch):
    monkeypatch.setattr(check.random, "getrandbits", lambda bits: 0xABC)
    answer_with(check, monkeypatch, f"{load.sessions[0].secret} 1 abc", number=99)
    asyncio.run(load.cell(load.sessions[0]))
    assert load.found.cells == 0 and len(load.found.problems) == 1


@pytest.mark.parametrize(
    ("n_answers", "kept_s", "n_connections"), [(9, 60.0, 1), (1, 60.0, 2), (9, 0.0, 2)]
)
def test_a_stale_connection_is_replaced(check, monkeypatch, n_answers, kept_s, n_connections):
    """One that the server closed, and one that was silent for long. Otherwise it is used again."""
    import mcp_http  # check-load has put its directory into the path

    monkeypatch.setattr(mcp_http, "KEPT_S", kept_s)
    answers: list[int] = []  # of each connection

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(answers)
        answers.append(0)
        while answers[number] < n_answers and await reader.read(100):
            answers[number] += 1
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def ask_twice() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            connection = check.AsyncConnection(server.sockets[0].getsockname()[1])
            assert (await connection.send(b"first")).status == 204
            if n_answers == 1:
                assert await connection._reader.read() == b""  # the end has arrived
            assert (await connection.send(b"second")).status == 204
            connection.close()

    asyncio.run(asyncio.wait_for(ask_twice(), 60))
    assert len(answers) == n_connections and sum(answers) == 2


@pytest.mark.parametrize(
    ("core_mb", "all_mb", "problem"),
    [
        ([20.0] * 100, [500.0, 510.0], None),
        ([20.0] * 50 + [40.0] * 50, [500.0, 510.0], "the core grew"),
        ([20.0] * 100, [500.0, 600.0], "the memory of all processes grew"),
        ([20.0] * 100, [500.0], "too little was measured"),
    ],
)
def test_growth_is_noticed(check, core_mb, all_mb, problem):
    found = check.Found(cells=1, ms=[1.0], core_mb=core_mb, all_mb=all_mb)
    check.judge(found, {}, 60)
    assert [text for text in found.problems if problem and problem in text] == found.problems
    assert len(found.problems) == (problem is not None)


def test_growth_of_a_short_run_is_not_judged(check):
    found = check.Found(cells=1, ms=[1.0], core_mb=[20.0] * 50 + [40.0] * 50, all_mb=[1, 100])
    check.judge(found, {}, 59)
    assert not found.problems


def test_runs_fit_into_the_limit_of_open_files(check, monkeypatch):
    options = argparse.Namespace(sessions=1000, idle=10000, seconds=600.0)
    monkeypatch.setattr(check, "most_idle", lambda sessions: 40000 - 18 * sessions)
    assert check.plan(options) == [options]
    monkeypatch.setattr(check, "most_idle", lambda sessions: 20000 - 18 * sessions)
    few, many = check.plan(options)
    assert (few.sessions, few.idle, few.seconds) == (1000, 2000, 600.0)
    assert (many.sessions, many.idle, many.seconds) == (200, 10000, 120.0)
    monkeypatch.setattr(check, "most_idle", lambda sessions: 0)
    with pytest.raises(check.BenchmarkError, match="limit of open files"):
        check.plan(options)
