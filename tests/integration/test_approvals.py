# SPDX-License-Identifier: Apache-2.0
"""Approval rules and the audit log with a real MCP server: command line and MCP server."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest
import scripted_server
from mcp_driver import McpServer

RULES = {
    "default": "deny",
    "rules": [
        {
            "server": "time",
            "tool": "convert_time",
            "arguments": {"time": "13:*"},
            "decision": "deny",
            "reason": "unlucky",
        },
        {
            "server": "time",
            "tool": "convert_time",
            "arguments": {"source_timezone": ["UTC", "Europe/**"]},
            "decision": "allow",
        },
        {"tool": "get_*", "decision": "ask"},
    ],
}

CELL = """
from mcptools.time import convert_time as c, get_current_time as g

def convert(zone, time):
    params = c.Params(source_timezone=zone, time=time, target_timezone="UTC")
    try:
        return c.run(params).target.datetime[11:16]
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print(convert("UTC", "12:00"))
print(convert("UTC", "13:30"))
print(convert("Asia/Tokyo", "12:00"))
try:
    print(g.run(g.Params(timezone="UTC")))
except Exception as error:
    print(error)
"""


@pytest.fixture
def time_api(run_ipybox) -> None:
    done = run_ipybox(
        "apigen",
        "--server-name",
        "time",
        "--server-params",
        json.dumps(scripted_server.params("clock")),
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def rules(workspace) -> str:
    (workspace / "rules.json").write_text(json.dumps(RULES))
    return "rules.json"


def read_log(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rules_decide_on_the_command_line(run_ipybox, time_api, rules, workspace):
    done = run_ipybox(
        "run", "--approve", rules, "--audit-log", "audit.jsonl", "-c", CELL, start_new_session=True
    )
    assert done.returncode == 0, done.stderr
    allowed, unlucky, denied, asked = done.stdout.splitlines()
    assert allowed == "12:00"
    assert unlucky.startswith("ApprovalRejectedError") and "approval rule 1: unlucky" in unlucky
    assert "no approval rule allows it" in denied
    assert "rejected" in asked and "there is no terminal to ask" in done.stderr
    log = read_log(workspace / "audit.jsonl")
    assert [(line["decision"], line["by"], line.get("rule")) for line in log] == [
        ("allow", "rule", 2),
        ("deny", "rule", 1),
        ("deny", "policy", None),
        ("deny", "user", 3),
    ]
    assert log[0]["arguments"] == {
        "source_timezone": "UTC",
        "time": "12:00",
        "target_timezone": "UTC",
    }
    assert len({line["session"] for line in log}) == 1 and log[0]["server"] == "time"
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in log
    )
    assert stat.S_IMODE((workspace / "audit.jsonl").stat().st_mode) == 0o600


def test_rules_decide_in_the_mcp_server(ipybox, place, time_api, rules, workspace):
    with McpServer(ipybox, place, "--approve", rules, "--audit-log", "audit.jsonl") as server:
        lines = server.cell(CELL).splitlines()
    assert lines[0] == "12:00" and "unlucky" in lines[1]
    assert len(read_log(workspace / "audit.jsonl")) == 4


def test_the_mcp_server_allows_unless_told_otherwise(ipybox, place, time_api):
    call = (
        "from mcptools.time import get_current_time as g\n"
        "print(g.run(g.Params(timezone='UTC')).timezone)"
    )
    with McpServer(ipybox, place) as server:
        assert server.cell(call) == "UTC"
    with McpServer(ipybox, place, "--approve", "deny") as server:
        assert "this session allows no tool calls" in server.cell(
            f"try:\n    exec({call!r})\nexcept Exception as e:\n    print(e)"
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "rules.json:"),
        ('{"rules": [{"tool": "x"}]}', "rule 1 has no decision"),
        ('{"rule": []}', "rule is unknown; the members are default and rules"),
    ],
)
def test_a_wrong_file_is_told_before_anything_runs(run_ipybox, workspace, content, message):
    (workspace / "rules.json").write_text(content)
    for command in (
        ["run", "--approve", "rules.json", "-c", "print(1)"],
        ["mcp", "--approve", "rules.json"],
        ["rules", "rules.json"],
    ):
        done = run_ipybox(*command)
        assert done.returncode != 0 and done.stdout == "" and message in done.stderr, (
            command,
            done,
        )


def test_a_policy_misspelt(run_ipybox):
    done = run_ipybox("mcp", "--approve", "alow")
    assert done.returncode == 2 and "there is no file alow" in done.stderr


def test_an_audit_log_that_cannot_be_opened(run_ipybox, workspace):
    (workspace / "link").symlink_to("elsewhere")
    for path in ("no/such/folder/log", "link", "."):
        done = run_ipybox("run", "--audit-log", path, "-c", "print(1)")
        assert done.returncode == 1 and done.stdout == "" and f"audit log {path}" in done.stderr
    assert not (workspace / "elsewhere").exists()


def test_two_programs_write_to_one_log(run_ipybox, time_api, workspace):
    call = "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'));"
    for _ in range(2):
        assert (
            run_ipybox("run", "--approve", "allow", "--audit-log", "log", "-c", call).returncode
            == 0
        )
    first, second = read_log(workspace / "log")
    assert first["session"] != second["session"] and first["by"] == "policy"


def test_the_verb(run_ipybox, rules):
    assert run_ipybox("rules", rules).stdout == "3 rules\n"
    assert run_ipybox("rules", "--json", rules).stdout == '{"rules":3}\n'
    allowed = run_ipybox("rules", rules, "time", "convert_time", '{"source_timezone": "UTC"}')
    assert (allowed.returncode, allowed.stdout) == (0, "allow, by rule 2\n")
    asked = run_ipybox("rules", rules, "other", "get_x")
    assert (asked.returncode, asked.stdout) == (0, "ask, by rule 3\n")
    denied = run_ipybox("rules", "--json", rules, "time", "convert_time", '{"time": "13:00"}')
    assert denied.returncode == 1 and json.loads(denied.stdout) == {
        "decision": "deny",
        "rule": 1,
        "reason": "unlucky",
    }
    for arguments in ("{", "[]", '{"a": 1, "a": 2}'):
        assert run_ipybox("rules", rules, "x", "y", arguments).returncode == 2
    assert run_ipybox("rules", rules, "x").returncode == 2
    assert run_ipybox("rules", "nowhere.json").returncode == 2


def test_a_rule_without_a_default(run_ipybox, workspace):
    (workspace / "rules.json").write_text('{"rules": []}')
    done = run_ipybox("rules", "rules.json", "x", "y")
    assert done.returncode == 0 and "no rule matches" in done.stdout
