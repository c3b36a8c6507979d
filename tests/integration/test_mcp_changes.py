# SPDX-License-Identifier: Apache-2.0
"""The MCP tools list_changes, commit_changes and discard_changes, which --staged adds."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_driver import YES, Client, McpServer
from serve_driver import Serve, Stateless, session_of

TOOLS = {"list_changes", "commit_changes", "discard_changes"}
NO = {"action": "accept", "content": {"decision": "deny"}}
WRITE = "open('new', 'w').write('new\\n'); open('old', 'a').write('more\\n'); None"


@pytest.fixture(autouse=True)
def old(workspace: Path) -> Path:
    path = workspace / "old"
    path.write_text("old\n")
    return path


@pytest.fixture
def client(ipybox, place) -> Iterator[Client]:
    with Client(ipybox, place, "--staged") as server:
        yield server


@pytest.fixture
def allowing(ipybox, place) -> Iterator[McpServer]:
    with McpServer(ipybox, place, "--staged", "--approve=allow") as server:
        yield server


def text(result: dict) -> str:
    return result["content"][0]["text"]


def fails(mcp: McpServer, tool: str, **arguments) -> str:
    result = mcp.tool(tool, arguments)
    assert result["isError"], result
    return text(result)


def changed(mcp: McpServer, **arguments) -> list[str]:
    listed = mcp.tool("list_changes", arguments)
    assert not listed["isError"], listed
    marks = {"added": "+", "changed": "~", "removed": "-"}
    return sorted(
        marks[change["kind"]] + change["path"] for change in listed["structuredContent"]["changes"]
    )


def offered(mcp: McpServer) -> set[str]:
    return {tool["name"] for tool in mcp.answer(mcp.request("tools/list"))["result"]["tools"]}


# --- which tools there are --------------------------------------------------------------------


def test_offered_with_staged_only(mcp, allowing, ipybox, place):
    assert offered(mcp).isdisjoint(TOOLS)
    assert "Unknown tool" in text(mcp.tool("list_changes", {}))
    assert offered(allowing) >= TOOLS
    with McpServer(ipybox, place, "--staged", "--tools=reset,list_changes") as chosen:
        assert offered(chosen) == {"reset", "list_changes"}


@pytest.mark.parametrize("verb", ["mcp", "serve"])
def test_options(run_ipybox, verb):
    wrong = run_ipybox(verb, "--tools=commit_changes")
    assert wrong.returncode == 2 and "needs --staged" in wrong.stderr
    wrong = run_ipybox(verb, "--staging-dir=/tmp")
    assert wrong.returncode == 2 and "--staging-dir needs --staged" in wrong.stderr


def test_options_of_serve(run_ipybox):
    wrong = run_ipybox("serve", "--staged", "--unsandboxed-kernels")
    assert wrong.returncode == 2 and "--unsandboxed-kernels" in wrong.stderr


def test_instructions(ipybox, place):
    with McpServer(ipybox, place, "--staged", initialize=False) as server:
        assert "commit_changes" in server.initialize()["instructions"]


# --- without a question -----------------------------------------------------------------------


def test_commit_and_discard(allowing, workspace, old):
    assert text(allowing.tool("list_changes", {})) == "Nothing has changed."
    allowing.cell(WRITE)
    assert old.read_text() == "old\n" and not (workspace / "new").exists()
    listed = allowing.tool("list_changes", {"diffs": True})
    assert '+ "new" (4 bytes)' in text(listed) and '~ "old" (9 bytes)' in text(listed)
    assert "+more" in text(listed)
    assert listed["structuredContent"]["total"] == 2
    assert "+more" in listed["structuredContent"]["changes"][1]["diff"]
    assert changed(allowing, paths=["new"]) == ["+new"]
    done = allowing.tool("commit_changes", {"paths": ["new"]})
    assert text(done).startswith("1 of 1 changes were committed:") and not done["isError"]
    assert re.fullmatch("[0-9a-f]{64}", done["structuredContent"]["digest"])
    assert (workspace / "new").read_text() == "new\n" and old.read_text() == "old\n"
    undone = allowing.tool("discard_changes", {})
    assert text(undone).startswith("1 of 1 changes were discarded:")
    assert allowing.cell("open('old').read()") == "'old\\n'"
    assert text(allowing.tool("commit_changes", {})) == "Nothing has changed."


def test_wrong_arguments(allowing):
    for wrong in ("new", [], [1], ["a\0b"]):
        assert "paths must be an array" in fails(allowing, "commit_changes", paths=wrong)
    assert "below the workspace" in fails(allowing, "commit_changes", paths=["/etc/passwd"])
    for tool in sorted(TOOLS):
        assert 'nothing has changed at "x"' in fails(allowing, tool, paths=["x"])


def test_conflict(allowing, workspace, old):
    """Both sides keep their file, and the answer names it."""
    allowing.cell(WRITE)
    old.write_text("theirs\n")
    done = allowing.tool("commit_changes", {})
    assert not done["isError"] and text(done).startswith("1 of 2 changes were committed:")
    assert "conflict: " in text(done)
    conflicts = [c["path"] for c in done["structuredContent"]["changes"] if c.get("conflict")]
    assert conflicts == ["old"] and old.read_text() == "theirs\n"
    again = fails(allowing, "commit_changes")  # nothing but the conflict is left
    assert again.startswith("0 of 1 changes were committed:")


def test_sessions_have_their_own_changes(allowing, workspace):
    allowing.cell(WRITE)
    first = allowing.tool("execute_ipython_cell", {"code": "None", "session_id": "new"})
    other = session_of(first)
    assert changed(allowing, session_id=other) == []
    allowing.tool("execute_ipython_cell", {"code": "open('b', 'w'); None", "session_id": other})
    assert changed(allowing, session_id=other) == ["+b"]
    assert changed(allowing) == ["+new", "~old"]


def test_changes_of_a_cell(ipybox, place):
    """They are in the structured result of a cell, if there is one."""
    with McpServer(ipybox, place, "--staged", "--structured") as server:
        found = []
        for code in (WRITE, "1", "import os; os.remove('old')"):
            result = server.tool("execute_ipython_cell", {"code": code})
            changes = result["structuredContent"]["changes"]
            found.append([(change["path"], change["kind"]) for change in changes])
            assert "changes_cut" not in result["structuredContent"]
        assert found == [[("new", "added"), ("old", "changed")], [], [("old", "removed")]]


def test_kept(ipybox, place, workspace, run_ipybox):
    """What is left when the session ends is kept, and the log says under which name."""
    with McpServer(ipybox, place, "--staged", stderr=subprocess.PIPE) as server:
        server.cell(WRITE)
        server.process.stdin.close()
        log = server.process.stderr.read().decode()
    (name,) = re.findall(r"'ipybox changes commit (layer-\w+)'", log)
    assert run_ipybox("changes", "commit", "--yes", name).returncode == 0
    assert (workspace / "new").read_text() == "new\n"
    with McpServer(ipybox, place, "--staged", stderr=subprocess.PIPE) as server:
        server.cell("1")
        server.process.stdin.close()
        assert "ipybox changes" not in server.process.stderr.read().decode()
    assert json.loads(run_ipybox("changes", "--json").stdout) == []


# --- branches ---------------------------------------------------------------------------------

BRANCHING = (
    "execute_ipython_cell,checkpoint,restore,undo,branch,close_session,"
    "list_changes,commit_changes,discard_changes"
)


def branch_of(mcp: McpServer, **arguments) -> str:
    result = mcp.tool("branch", arguments)
    assert not result["isError"], result
    assert any("shared" in each for each in result["structuredContent"]["warnings"])
    return result["structuredContent"]["session_id"]


def test_branches_share_changes(ipybox, place, workspace):
    """Each of them lists and commits the same. Only one is reported when all have ended."""
    with McpServer(
        ipybox, place, "--staged", "--approve=allow", f"--tools={BRANCHING}", stderr=subprocess.PIPE
    ) as server:
        server.cell(WRITE)
        branch = branch_of(server)
        cell = {"code": "open('b', 'w').close()", "session_id": branch}
        assert not server.tool("execute_ipython_cell", cell)["isError"]
        assert changed(server) == changed(server, session_id=branch) == ["+b", "+new", "~old"]
        done = server.tool("commit_changes", {"session_id": branch, "paths": ["new"]})
        assert not done["isError"] and (workspace / "new").exists()
        assert changed(server) == ["+b", "~old"]
        assert not server.tool("close_session", {"session_id": branch})["isError"]
        branch_of(server)
        server.process.stdin.close()
        log = server.process.stderr.read().decode()
    assert len(re.findall(r"ipybox changes commit layer-\w+", log)) == 1


def test_restore_in_branches(ipybox, place):
    with McpServer(ipybox, place, "--staged", f"--tools={BRANCHING}") as server:
        server.cell("x = 1; open('a', 'w').write('1'); None")
        server.tool("checkpoint", {"name": "one"})
        server.cell("x = 2; open('a', 'w').write('2'); None")
        seen = "print(x, open('a').read())"
        branch = branch_of(server, checkpoint="one")
        cell = {"code": seen, "session_id": branch}
        assert text(server.tool("execute_ipython_cell", cell)) == "1 2"
        assert "1 other session shares the files" in fails(server, "restore", name="one")
        assert "restore without files" in fails(server, "undo")
        assert "true or false" in fails(server, "restore", name="one", files="no")
        done = server.tool("restore", {"name": "one", "files": False})
        assert text(done).endswith("Files stay as they are.")
        assert server.cell(seen) == "1 2"
        server.tool("close_session", {"session_id": branch})
        assert text(server.tool("restore", {"name": "one"})).endswith("files of the workspace.")
        assert server.cell(seen) == "1 1"


def test_one_question_at_a_time(ipybox, place, workspace):
    """While a commit of a branch waits for its approval, the others commit and discard nothing."""
    with Client(ipybox, place, "--staged", f"--tools={BRANCHING}") as client:
        client.cell(WRITE)
        branch = branch_of(client)
        commit = client.start_tool("commit_changes", {"session_id": branch})
        question = client.question()
        assert "of another session that shares the files" in fails(client, "commit_changes")
        assert "of another session that shares the files" in fails(client, "discard_changes")
        # Cells of the others run. What they write is not in the question.
        client.cell("open('late', 'w').write('late'); None")
        client.reply(question, result=YES)
        assert text(client.answer(commit)["result"]).startswith("2 of 2 changes were committed")
        assert not (workspace / "late").exists()
        assert changed(client) == ["+late"]
        # If the branch ends, what it froze is free again.
        commit = client.start_tool("commit_changes", {"session_id": branch})
        question = client.question()
        client.tool("close_session", {"session_id": branch})
        assert "cancelled" in client.text(commit)
        client.reply(question, result=YES)  # too late
        commit = client.start_tool("commit_changes", {})
        client.reply(client.question(), result=YES)
        assert not client.answer(commit)["result"]["isError"]
        assert (workspace / "late").exists()


# --- with a question --------------------------------------------------------------------------


def test_question(client, workspace, old):
    client.cell(WRITE)
    commit = client.start_tool("commit_changes")
    question = client.question()
    message = question["params"]["message"]
    assert message.startswith("Changes of a Python session are to be written to the workspace:")
    assert "Commit of changes: ipybox.commit_changes" in message
    assert json.dumps(str(workspace)) in message
    assert '+ "new" (4 bytes)' in message and '~ "old" (9 bytes, was 4)' in message
    (digest,) = re.findall(r'SHA-256: "([0-9a-f]{64})"', message)
    assert not (workspace / "new").exists()
    client.reply(question, result=YES)
    done = client.answer(commit)["result"]
    assert done["structuredContent"]["digest"] == digest
    assert (workspace / "new").read_text() == "new\n" and old.read_text() == "old\nmore\n"


def test_no(client, workspace):
    client.cell(WRITE)
    commit = client.start_tool("commit_changes")
    client.reply(client.question(), result=NO)
    assert "ipybox.commit_changes rejected" in client.text(commit)
    assert not (workspace / "new").exists()
    assert changed(client) == ["+new", "~old"]


def test_discard_is_not_asked_about(client):
    """The default policy allows calls."""
    client.cell(WRITE)
    assert not client.tool("discard_changes", {})["isError"]
    assert changed(client) == []


def test_discard_with_ask(ipybox, place, workspace):
    with Client(ipybox, place, "--staged", "--approve=ask") as client:
        client.cell(WRITE)
        discard = client.start_tool("discard_changes", {"paths": ["new"]})
        question = client.question()
        message = question["params"]["message"]
        assert "Discard of changes: ipybox.discard_changes" in message
        assert '"new"' in message and '"old"' not in message
        client.reply(question, result=NO)
        assert "rejected" in client.text(discard)
        assert changed(client) == ["+new", "~old"]


def test_what_was_approved_is_committed(client, workspace, tmp_path):
    """A process of the session writes while the user reads the question."""
    code = (
        "import os, time, threading\n"
        "open('new', 'w').write('approved')\n"
        "def write():\n"
        "    while 'go' not in os.listdir('.'): time.sleep(0.01)\n"
        "    open('new', 'w').write('not approved')\n"
        "    open('more', 'w').write('not approved')\n"
        "    open('ended', 'w').close()\n"
        "threading.Thread(target=write, daemon=True).start()\n"
    )
    client.cell(code)
    commit = client.start_tool("commit_changes")
    question = client.question()
    (workspace / "go").touch()
    while "+ended" not in changed(client):
        pass
    client.reply(question, result=YES)
    done = client.answer(commit)["result"]
    assert [change["path"] for change in done["structuredContent"]["changes"]] == ["new"]
    assert (workspace / "new").read_text() == "approved"
    assert not (workspace / "more").exists()


def test_cells_wait_for_the_answer(client, workspace):
    client.cell(WRITE)
    commit = client.start_tool("commit_changes")
    question = client.question()
    cell = client.start_cell("open('new').read()")
    assert "waits for its approval" in fails(client, "commit_changes")
    assert client.answers == {}
    client.reply(question, result=YES)
    assert not client.answer(commit)["result"]["isError"]
    assert client.text(cell) == "'new\\n'"


def test_between_cells_only(client):
    cell = client.start_cell("open('new', 'w'); input()")
    question = client.question()
    assert "between cells" in fails(client, "commit_changes")
    assert "between cells" in fails(client, "discard_changes")
    client.reply(question, result={"action": "accept", "content": {"value": "x"}})
    client.answer(cell)
    assert changed(client) == ["+new"]


def test_cancelled(client, workspace):
    """The question is withdrawn, nothing is written, and the session continues."""
    client.cell(WRITE)
    commit = client.start_tool("commit_changes")
    question = client.question()
    client.notify("notifications/cancelled", {"requestId": commit})
    assert client.cell("1") == "1"
    client.reply(question, result=YES)  # too late
    assert changed(client) == ["+new", "~old"]
    assert not (workspace / "new").exists()
    commit = client.start_tool("commit_changes")
    client.reply(client.question(), result=YES)
    assert not client.answer(commit)["result"]["isError"]


def test_reset(client, workspace):
    client.cell(WRITE)
    commit = client.start_tool("commit_changes")
    client.question()
    client.tool("reset", {})
    assert "cancelled" in client.text(commit)
    assert client.cell("1").splitlines()[0] == "1"
    assert changed(client) == ["+new", "~old"]


def test_restore_while_the_user_is_asked(ipybox, place, workspace):
    """What was approved is committed, and the session has its files of the checkpoint."""
    tools = "execute_ipython_cell,checkpoint,restore,list_changes,commit_changes"
    with Client(ipybox, place, "--staged", f"--tools={tools}") as client:
        client.cell("open('first', 'w').close()")
        client.tool("checkpoint", {"name": "one"})
        client.cell("open('second', 'w').close()")
        commit = client.start_tool("commit_changes")
        question = client.question()
        assert not client.tool("restore", {"name": "one"})["isError"]
        assert changed(client) == ["+first"]
        client.reply(question, result=YES)
        done = client.answer(commit)["result"]
        assert text(done).startswith("2 of 2 changes were committed:")
        assert (workspace / "first").exists() and (workspace / "second").exists()


def test_too_many_to_show(client, workspace):
    """They are committed in parts, and the error says so."""
    client.cell(
        "import os\n"
        "for d in 'ab':\n"
        "    os.mkdir(d)\n"
        "    for i in range(50): open(f'{d}/{i}', 'w').close()\n"
    )
    error = fails(client, "commit_changes")
    assert "too long for the MCP client's user" in error
    assert "commit in parts, with the argument paths" in error
    assert not (workspace / "a").exists()
    commit = client.start_tool("commit_changes", {"paths": ["a"]})
    client.reply(client.question(), result=YES)
    assert client.text(commit).startswith("51 of 51 changes were committed:")
    assert len(list((workspace / "a").iterdir())) == 50 and not (workspace / "b").exists()


def test_no_one_to_ask(ipybox, place, workspace):
    with McpServer(ipybox, place, "--staged") as server:
        server.cell(WRITE)
        error = fails(server, "commit_changes")
        assert "no way to ask its user" in error and "ipybox changes" in error
        assert not (workspace / "new").exists()
        assert changed(server) == ["+new", "~old"]


def test_protected_names_are_not_asked_about(client, workspace):
    """They cannot be made inside; a name that becomes a protected one later is not committed."""
    assert "refused" in client.cell(
        "try: open('.bashrc', 'w')\nexcept PermissionError: print('refused')"
    )
    assert changed(client) == []


# --- rules ------------------------------------------------------------------------------------


def test_rules(ipybox, place, workspace):
    """Every path must match a rule that allows; the audit log has them."""
    rules, log = place.root / "rules.json", place.root / "audit.log"
    rule = {"server": "ipybox", "tool": "commit_changes", "arguments": {"paths": "out/**"}}
    rules.write_text(json.dumps({"default": "deny", "rules": [{**rule, "decision": "allow"}]}))
    with McpServer(ipybox, place, "--staged", f"--approve={rules}", f"--audit-log={log}") as server:
        server.cell("open('other', 'w'); None")
        assert "no approval rule allows it" in fails(server, "commit_changes")
        server.cell("import os; os.mkdir('out'); open('out/file', 'w').close()")
        assert "refused" in fails(server, "commit_changes")
        assert not (workspace / "out").exists()
        assert "refused" in fails(server, "commit_changes", paths=["out", "other"])
        assert "refused" in fails(server, "discard_changes")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {(line["server"], line["tool"], line["decision"]) for line in lines} == {
        ("ipybox", "commit_changes", "deny"),
        ("ipybox", "discard_changes", "deny"),
    }
    assert lines[0]["arguments"]["paths"] == ["other"]


def test_rule_allows(ipybox, place, workspace):
    rules = place.root / "rules.json"
    rule = {"server": "ipybox", "tool": "commit_changes", "arguments": {"paths": ["out", "out/**"]}}
    rules.write_text(json.dumps({"rules": [{**rule, "decision": "allow"}]}))
    with McpServer(ipybox, place, "--staged", f"--approve={rules}") as server:
        server.cell("import os; os.mkdir('out'); open('out/file', 'w').close()")
        assert not server.tool("commit_changes", {})["isError"]
        assert (workspace / "out/file").exists()
        server.cell("open('other', 'w'); None")
        assert "no way to ask its user" in fails(server, "commit_changes")


# --- over HTTP, and in revision 2026-07-28 ----------------------------------------------------


@pytest.fixture
def serve(ipybox, place) -> Iterator[Serve]:
    with Serve(ipybox, place, "--staged") as server:
        yield server


def test_serve(serve, workspace):
    client = serve.client()
    client.cell(WRITE)
    listed = client.call("list_changes", {}).json()["result"]
    assert listed["structuredContent"]["total"] == 2
    assert not (workspace / "new").exists()


def test_stateless_question(serve, workspace):
    """The call ends with the question; the same call with the answer commits."""
    client = Stateless(serve, elicitation={})
    id = session_of(client.cell(WRITE))
    arguments = {"session_id": id}
    asked = client.result("commit_changes", arguments)
    assert asked["resultType"] == "input_required"
    ((key, question),) = asked["inputRequests"].items()
    assert '+ "new" (4 bytes)' in question["params"]["message"]
    assert not (workspace / "new").exists()
    answer = {"inputResponses": {key: YES}, "requestState": asked["requestState"]}
    done = client.result("commit_changes", arguments, **answer)
    assert text(done).startswith("2 of 2 changes were committed:")
    assert (workspace / "new").read_text() == "new\n"
    assert client.result("commit_changes", arguments, **answer) == done


def test_stateless_without_questions(serve, workspace):
    client = Stateless(serve)
    id = session_of(client.cell(WRITE))
    refused = client.result("commit_changes", {"session_id": id})
    assert refused["isError"] and "no way to ask its user" in text(refused)
    assert not (workspace / "new").exists()
